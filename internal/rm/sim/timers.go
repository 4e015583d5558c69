package sim

import (
	"rmreplay/internal/agenda"
	"rmreplay/internal/hpc"
)

// The classes of timers. Timers of one instant run in this order.
const (
	jobOutlives     uint8 = iota // a job runs longer than predicted
	transfersChange              // phases of I/O end; runs before the ends of jobs that this causes
	jobEnds
	machineChanges
	jobBecomesEligible
	jobExpires
)

// due is the effect of a timer: a call of the function do or, if do is nil, the end of the job.
// With the class jobOutlives, the job does not end, but its prediction is corrected.
type due struct {
	job *Job
	do  func()
}

// timers has the timers in the order of their instants, classes and creation.
type timers struct {
	agenda.Agenda[due]
	made int
}

// add sets a timer and returns its sequence number, which is never 0.
func (q *timers) add(at hpc.Time, class uint8, job *Job, do func()) int {
	q.made++
	q.Put(agenda.Entry[due]{At: at, Seq: q.made, Class: class, What: due{job, do}})
	return q.made
}
