package backfill

import "rmreplay/internal/rm"

// Depths counts the jobs that a cycle tries. The limits are the most of a user (bf_max_job_user), of a partition
// (bf_max_job_part) and of a user in a partition (bf_max_job_user_part); 0 for any number.
type Depths struct {
	User, Partition, Both int

	counts map[[2]string]*int // by user and partition; one of both may be empty
}

// Beyond counts a job, and returns why it is beyond a limit; "" if it is not. A job beyond one limit counts for none
// (_job_exceeds_max_bf_param in backfill.c).
func (d *Depths) Beyond(user, partition string) rm.Backfill {
	if d.User|d.Partition|d.Both == 0 {
		return ""
	}
	both, all, own := d.of(user, partition), d.of("", partition), d.of(user, "")
	switch {
	case d.Both > 0 && *both >= d.Both:
		return rm.UserDepth
	case d.Partition > 0 && *all >= d.Partition:
		return rm.PartitionDepth
	case d.User > 0 && *own >= d.User:
		return rm.UserDepth
	}
	*both++
	*all++
	*own++
	return ""
}

// of returns the number of jobs of a user, of a partition, or of both.
func (d *Depths) of(user, partition string) *int {
	if d.counts == nil {
		d.counts = map[[2]string]*int{}
	}
	n := d.counts[[2]string{user, partition}]
	if n == nil {
		n = new(int)
		d.counts[[2]string{user, partition}] = n
	}
	return n
}
