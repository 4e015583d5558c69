package priority

import "cmp"

// Rank has the values that decide the place of a pending job in the queue (sort_job_queue2 in
// job_scheduler.c). It is short, because a queue is sorted often.
type Rank struct {
	// Urgency is the result of [Urgency]. Jobs with a higher urgency come first.
	Urgency uint64
	// Submit is in seconds since 1970. Of equally urgent jobs the first that was submitted comes first, and
	// then the job with the lowest Number: Slurm's job number, followed by the task's index in 32 bits.
	Submit int64
	Number uint64
	// Begin is when the magnetic reservation begins in which the job is tried, in seconds since 1970; 0 for other
	// records. Of the records of one job the one with the first reservation comes first.
	Begin uint32
	// Place is the index before the queue is sorted. It decides between jobs that are equal in all
	// other respects.
	Place int32
}

// Urgency returns a number by which jobs in reservations come first, then those in higher tiers, and then
// those with higher priorities. The tier has at most 30 bits.
func Urgency(reserved bool, tier int, priority uint32) uint64 {
	urgency := uint64(tier+1<<30)<<32 | uint64(priority)
	if reserved {
		urgency |= 1 << 63
	}
	return urgency
}

// Compare returns a number below 0 if a comes before b, and above 0 if a comes after b.
func (a Rank) Compare(b Rank) int {
	switch {
	case a.Urgency != b.Urgency:
		return cmp.Compare(b.Urgency, a.Urgency)
	case a.Submit != b.Submit:
		return cmp.Compare(a.Submit, b.Submit)
	case a.Number != b.Number:
		return cmp.Compare(a.Number, b.Number)
	case a.Begin != b.Begin:
		return cmp.Compare(a.Begin, b.Begin)
	}
	return cmp.Compare(a.Place, b.Place)
}
