package limits

import (
	"slices"

	"rmreplay/internal/rm/slurmmodel/accounts"
	"rmreplay/internal/rm/slurmmodel/tres"
	"rmreplay/internal/slurmspec"
)

// Submitted counts a job that slurmctld has accepted (acct_policy_add_job_submit). A job with
// several partitions counts in the QOS of each partition.
func (l *Limits) Submitted(j *Job) { l.submit(j, j.count()) }

// Removed removes a job that is no longer pending or running from the counts
// (acct_policy_remove_job_submit). The parameter ran says that the job has started.
func (l *Limits) Removed(j *Job, ran bool) {
	if l.counts(j) {
		l.Accrued(j)
	}
	if ran {
		partitions := j.Partitions
		j.Partitions = nil
		defer func() { j.Partitions = partitions }()
	}
	l.submit(j, -j.count())
}

func (l *Limits) counts(j *Job) bool { return l.enforce.Limits && j.Association != nil }

func (l *Limits) submit(j *Job, n int) {
	if !l.counts(j) {
		return
	}
	for _, q := range j.allQOS() {
		add(&q.Counts.Submitted, n)
		add(&j.in(q).user.Submitted, n)
		add(&j.in(q).account.Submitted, n)
	}
	for a := range j.Association.Up {
		add(&a.Counts.Submitted, n)
	}
}

func add(count *int, n int) { *count = max(0, *count+n) }

// allQOS returns the QOS of the job and of its partitions, each once.
func (j *Job) allQOS() []*accounts.QOS {
	list := make([]*accounts.QOS, 0, 2)
	take := func(q *accounts.QOS) {
		if q != nil && !slices.Contains(list, q) {
			list = append(list, q)
		}
	}
	take(j.QOS)
	for _, p := range j.Partitions {
		take(p.QOS)
	}
	if len(j.Partitions) == 0 && j.Partition != nil {
		take(j.Partition.QOS)
	}
	return list
}

// Begin counts a job that starts (acct_policy_job_begin). Partition, Running and Nodes of the job
// must be set. The job no longer counts as submitted in the QOS of its other partitions.
func (l *Limits) Begin(j *Job) {
	if !l.counts(j) {
		return
	}
	l.Accrued(j)
	first, second := j.order()
	for _, p := range j.Partitions { // slurmctld subtracts twice if two partitions have the same QOS
		if q := p.QOS; q != nil && q != first && q != second && q != j.QOS {
			add(&q.Counts.Submitted, -1)
			add(&j.in(q).user.Submitted, -1)
			add(&j.in(q).account.Submitted, -1)
		}
	}
	seconds := uint64(j.Minutes) * 60
	if j.QOS != nil {
		seconds = uint64(float64(seconds) * j.QOS.UsageFactor)
	}
	for i, n := range j.Running.TRES {
		if l.reserves[i] = n * seconds; i == tres.Energy {
			l.reserves[i] = 0
		}
	}
	for _, q := range []*accounts.QOS{first, second} {
		if q == nil {
			continue
		}
		l.start(&q.Counts, j)
		addAll(q.Usage.Reserved, l.reserves)
		for _, part := range []*accounts.Counts{j.in(q).user, j.in(q).account} {
			if l.start(part, j); l.release.Since(slurmspec.R2405) {
				addAll(part.Reserved, l.reserves)
			}
		}
	}
	for a := range j.Association.Up {
		l.start(&a.Counts, j)
		addAll(a.Usage.Reserved, l.reserves)
	}
}

// start adds a job and its resources to counts. A node with several of the jobs counts once.
func (l *Limits) start(c *accounts.Counts, j *Job) {
	c.Running++
	for i, n := range j.Running.TRES {
		if i != tres.Energy && i != tres.Node {
			c.TRES[i] += n
		}
	}
	c.AddNodes(j.Nodes)
}

func addAll(to, amounts tres.Vector) {
	for i := range to {
		to[i] += amounts[i]
	}
}

// Finish removes a job that ends from the counts of running jobs, and charges the rest of its usage
// (acct_policy_job_fini). The parameters now and end (the job's end) are in seconds since 1970.
func (l *Limits) Finish(j *Job, now, end int64) {
	if !l.counts(j) {
		return
	}
	l.shares.End(j.Running, now, end)
	l.Accrued(j)
	first, second := j.order()
	for _, q := range []*accounts.QOS{first, second} {
		if q != nil {
			l.stop(&q.Counts, j)
			l.stop(j.in(q).user, j)
			l.stop(j.in(q).account, j)
		}
	}
	for a := range j.Association.Up {
		l.stop(&a.Counts, j)
	}
}

func (l *Limits) stop(c *accounts.Counts, j *Job) {
	c.Running = max(0, c.Running-1)
	for i, n := range j.Running.TRES {
		if i != tres.Energy && i != tres.Node {
			c.TRES[i] -= min(c.TRES[i], n)
		}
	}
	c.RemoveNodes(j.Nodes)
}
