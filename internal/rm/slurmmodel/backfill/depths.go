package backfill

import "rmreplay/internal/rm"

// Depths counts the jobs that a cycle tries, and compares the counts with limits on jobs per user
// (bf_max_job_user), per partition (bf_max_job_part) and per user in a partition
// (bf_max_job_user_part). A limit of 0 is no limit.
type Depths struct {
	user, partition, both int

	depths map[[2]string]*Depth // by user and partition; an empty user or partition stands for all
	list   []*Depth             // the values of depths
}

// Depth counts the jobs of a user, of a partition, or of a user in a partition.
type Depth struct {
	partition string
	jobs      int
	all, own  *Depth // counts of the whole partition, and of the user in all partitions
}

// Begin begins a new cycle with the given limits.
func (d *Depths) Begin(user, partition, both int) {
	d.user, d.partition, d.both = user, partition, both
	for _, n := range d.list {
		n.jobs = 0
	}
}

// Beyond counts a job and returns "". If the job exceeds a limit, Beyond does not count the job
// (_job_exceeds_max_bf_param in backfill.c), and returns which limit it is. The parameter known is the depth
// of the job's last call, or nil; Beyond sets it. Without count, Beyond only compares.
func (d *Depths) Beyond(known **Depth, user, partition string, count bool) rm.Backfill {
	if d.user|d.partition|d.both == 0 {
		return ""
	}
	n := *known
	if n == nil || n.partition != partition {
		n = d.of(user, partition)
		n.all, n.own = d.of("", partition), d.of(user, "")
		*known = n
	}
	switch {
	case d.both > 0 && n.jobs >= d.both:
		return rm.UserDepth
	case d.partition > 0 && n.all.jobs >= d.partition:
		return rm.PartitionDepth
	case d.user > 0 && n.own.jobs >= d.user:
		return rm.UserDepth
	case !count:
		return ""
	}
	n.jobs++
	n.all.jobs++
	n.own.jobs++
	return ""
}

// of returns the depth of a user in a partition. An empty user or partition stands for all.
func (d *Depths) of(user, partition string) *Depth {
	if d.depths == nil {
		d.depths = map[[2]string]*Depth{}
	}
	n := d.depths[[2]string{user, partition}]
	if n == nil {
		n = &Depth{partition: partition}
		d.depths[[2]string{user, partition}] = n
		d.list = append(d.list, n)
	}
	return n
}
