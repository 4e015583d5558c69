package sim

// Policy decides which waiting jobs start, and when. It keeps the queue of the jobs that the
// engine adds, and starts them with [Machine.Start]. The engine calls its methods one at a time.
type Policy interface {
	// Add adds a job that has become eligible. The policy keeps it until the policy starts it or
	// the engine removes it.
	Add(job *Job)
	// Remove removes a job that the policy has not started, for example because it was cancelled or held.
	Remove(job *Job)
	// Change calls change, which gives a waiting job another size or time limit. The job keeps
	// its position in the queue unless that depends on size or limit. The engine calls Schedule
	// afterwards.
	Change(job *Job, change func())
	// Schedule starts jobs after any change except an arrival: processors became free, nodes
	// changed their states, a waiting job was removed.
	Schedule()
}

// Queued is a [Policy] that shows its queue. The engine then knows which jobs wait for resources,
// and which wait for jobs ahead of them ([rm.Outcome.First]).
type Queued interface {
	// Queue calls yield with waiting jobs, in the order in which the policy looks at them, until yield
	// returns false. It yields all waiting jobs, or only the first if no other job can start until the
	// first has started or has a reservation.
	Queue(yield func(*Job) bool)
}

// NewPolicy makes the policy of a machine.
type NewPolicy func(*Machine) Policy
