package priority

import "cmp"

// Rank has the values that decide the place of a pending job in the queue (sort_job_queue2 in
// job_scheduler.c).
type Rank struct {
	// Jobs in reservations come first. Then higher tiers and higher priorities come first.
	Reserved bool
	Tier     int32
	Priority uint32
	// Number is Slurm's job number, and Task the task's index. If two jobs are otherwise equal, the
	// job that was submitted first comes first.
	Number, Task uint32
	// Place is the index before the queue is sorted. It decides between jobs that are equal in all
	// other respects.
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
