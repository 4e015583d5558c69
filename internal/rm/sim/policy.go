package sim

// Policy decides which waiting jobs start, and when. It keeps the queue of the jobs that the engine
// adds, and starts jobs with [Machine.Start]. The engine calls its methods one at a time.
type Policy interface {
	// Add adds a job that has become eligible. The policy keeps the job until it starts the job or
	// the engine removes it.
	Add(job *Job)
	// Remove removes a job that the policy has not started: it was cancelled or held, for example.
	Remove(job *Job)
	// Change calls the function change, which changes the size or the time limit of a waiting job.
	// The job keeps its position in the queue, unless the position depends on size or limit. The
	// engine calls Schedule afterwards.
	Change(job *Job, change func())
	// Schedule starts jobs after any change except an arrival, for example if processors became
	// free, nodes changed their states, or a waiting job was removed.
	Schedule()
}

// Queued is a [Policy] that shows its queue. From the queue the engine computes which jobs wait for resources, and
// which wait for jobs ahead of them ([rm.Outcome.First]).
type Queued interface {
	// Queue calls the function yield with waiting jobs, in the order in which the policy considers them, until yield
	// returns false. It yields all waiting jobs. If no other job can start before the first has started or has a
	// reservation, Queue yields only the first.
	Queue(yield func(*Job) bool)
}

// Planner is a [Policy] in which jobs wait for the bandwidth of a file system.
type Planner interface {
	// AwaitsBandwidth reports whether the file system keeps a waiting job from starting now, whatever nodes are free.
	AwaitsBandwidth(job *Job) bool
}

// NewPolicy makes a policy for a machine.
type NewPolicy func(*Machine) Policy
