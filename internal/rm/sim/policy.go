package sim

// Policy decides which waiting jobs start, and when. It keeps the queue of the jobs
// that it was given, and starts them with [Machine.Start]. All its methods are called
// by the engine, one at a time.
type Policy interface {
	// Add offers a job that has become eligible. The policy keeps it until it starts
	// it, or until Remove takes it back.
	Add(job *Job)
	// Remove takes back a job that was added and has not been started: it was cancelled or
	// held, say.
	Remove(job *Job)
	// Change calls change, which gives a job that waits another size or time limit. The job
	// keeps its place in the queue as far as that does not depend on these. Schedule is
	// called afterwards.
	Change(job *Job, change func())
	// Schedule says that something else than an arrival has happened: processors were
	// freed, nodes came or went, a waiting job was removed.
	Schedule()
}

// NewPolicy makes the policy of a machine.
type NewPolicy func(*Machine) Policy
