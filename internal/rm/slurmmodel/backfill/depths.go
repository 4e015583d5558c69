package backfill

import "rmreplay/internal/rm"

// Depths counts the jobs that a cycle tries, and compares the counts with limits on jobs per user
// (bf_max_job_user), per partition (bf_max_job_part) and per user in a partition
// (bf_max_job_user_part). A limit of 0 is no limit.
type Depths struct {
	User, Partition, Both int

	counts map[[2]string]*depth // by user and partition; an empty user or partition stands for all
}

// depth counts the jobs of a user, of a partition, or of a user in a partition.
type depth struct {
	jobs     int
	all, own *depth // counts of the whole partition, and of the user in all partitions
}

// Begin begins a new cycle.
func (d *Depths) Begin() {
	for _, n := range d.counts {
		n.jobs = 0
	}
}

// Any reports whether a limit is set. If not, callers need not call Beyond.
func (d *Depths) Any() bool { return d.User|d.Partition|d.Both != 0 }

// Beyond counts a job and returns "". If the job exceeds a limit, Beyond does not count the job
// (_job_exceeds_max_bf_param in backfill.c), and returns which limit it is.
func (d *Depths) Beyond(user, partition string) rm.Backfill {
	if !d.Any() {
		return ""
	}
	n := d.of(user, partition)
	if n.all == nil {
		n.all, n.own = d.of("", partition), d.of(user, "")
	}
	switch {
	case d.Both > 0 && n.jobs >= d.Both:
		return rm.UserDepth
	case d.Partition > 0 && n.all.jobs >= d.Partition:
		return rm.PartitionDepth
	case d.User > 0 && n.own.jobs >= d.User:
		return rm.UserDepth
	}
	n.jobs++
	n.all.jobs++
	n.own.jobs++
	return ""
}

// of returns the count of a user in a partition. An empty user or partition stands for all.
func (d *Depths) of(user, partition string) *depth {
	if d.counts == nil {
		d.counts = map[[2]string]*depth{}
	}
	n := d.counts[[2]string{user, partition}]
	if n == nil {
		n = &depth{}
		d.counts[[2]string{user, partition}] = n
	}
	return n
}
