package priority

import "cmp"

// Rank is what decides the place of a job in a queue of jobs that wait (sort_job_queue2 in job_scheduler.c).
type Rank struct {
	// Jobs with reservations come first, and then those of higher tiers and priorities.
	Reserved bool
	Tier     int32
	Priority uint32
	// Number and Task are Slurm's. Of equal jobs the one that was submitted first comes first.
	Number, Task uint32
	// Place is the place before the queue is sorted, which decides last.
	Place  int32
	Submit int64 // seconds since 1970
}

// Compare returns a number below 0 if a comes before b, and above 0 if a comes after b.
func (a Rank) Compare(b Rank) int {
	switch {
	case a.Reserved != b.Reserved:
		return either(a.Reserved, -1, 1)
	case a.Tier != b.Tier:
		return cmp.Compare(b.Tier, a.Tier)
	case a.Priority != b.Priority:
		return cmp.Compare(b.Priority, a.Priority)
	case a.Submit != b.Submit:
		return cmp.Compare(a.Submit, b.Submit)
	case a.Number != b.Number:
		return cmp.Compare(a.Number, b.Number)
	case a.Task != b.Task:
		return cmp.Compare(a.Task, b.Task)
	}
	return cmp.Compare(a.Place, b.Place)
}
