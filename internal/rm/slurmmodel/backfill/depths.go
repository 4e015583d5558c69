package backfill

import "rmreplay/internal/rm"

// Depths counts the jobs that a cycle tries. The limits are the most of a user (bf_max_job_user), of a partition
// (bf_max_job_part) and of a user in a partition (bf_max_job_user_part); 0 for any number.
type Depths struct {
	User, Partition, Both int

	counts map[[2]string]*int // by user and partition; one of both may be empty
}

// Beyond counts a job, and returns why it is beyond a limit; "" if it is not.
func (d *Depths) Beyond(user, partition string) rm.Backfill {
	switch {
	case d.exceeded(d.Partition, "", partition):
		return rm.PartitionDepth
	case d.exceeded(d.Both, user, partition), d.exceeded(d.User, user, ""):
		return rm.UserDepth
	}
	return ""
}

func (d *Depths) exceeded(most int, user, partition string) bool {
	if most <= 0 {
		return false
	}
	if d.counts == nil {
		d.counts = map[[2]string]*int{}
	}
	n := d.counts[[2]string{user, partition}]
	if n == nil {
		n = new(int)
		d.counts[[2]string{user, partition}] = n
	}
	*n++
	return *n > most
}
