package reservations

import "rmreplay/internal/rm/slurmmodel/selection"

// Own is the reservation of a job. A pending job gets a magnetic reservation only for an attempt to
// start in it, and keeps it if it starts (JOB_MAGNETIC).
type Own struct {
	Of       *Reservation // nil if the job has none
	magnetic bool
}

// Attract gives a job a magnetic reservation (job_queue_rec_magnetic_resv in job_scheduler.c).
// Without a reservation Attract does nothing.
func (o *Own) Attract(r *Reservation) {
	if r != nil {
		*o = Own{r, true}
	}
}

// Attracted reports whether the job has a magnetic reservation that it does not name.
func (o *Own) Attracted() bool { return o.magnetic }

// Expired reports whether the job's reservation has ended. Since 26.05 this does not matter for a
// magnetic reservation.
func (o *Own) Expired(now int64, since2605 bool) bool {
	return now > o.Of.End && (!since2605 || !o.magnetic)
}

// Release removes a magnetic reservation that the job does not name (job_resv_clear_magnetic_flag).
func (o *Own) Release() {
	if o.magnetic {
		*o = Own{}
	}
}

// Fits reports whether the job's reservation and the nodes of a partition share as many nodes as the job's
// last selection had (_job_runnable_test3). Since 24.11 flexible reservations always fit.
func (o *Own) Fits(nodes selection.Bits, count int, since2411 bool) bool {
	return o.Of == nil || since2411 && o.Of.Flexible() || o.Of.Nodes.CountAnd(nodes) >= count
}

// Over reports whether the job's reservation ended more than a number of seconds ago (ResvOverRun).
func (o *Own) Over(now, overRun int64) bool {
	return o.Of != nil && !o.Of.Flexible() && o.Of.End+overRun < now
}

// WeighOutside adds weight to nodes of a set that are outside the job's flexible reservation
// (_set_sched_weight).
func (o *Own) WeighOutside(set selection.Bits, add func(node int, weight uint64)) {
	const outside = 0x10000000000
	if o.Of == nil || !o.Of.Flexible() {
		return
	}
	for i := range set.All {
		if !o.Of.Nodes.Has(i) {
			add(i, outside)
		}
	}
}
