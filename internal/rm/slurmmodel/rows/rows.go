// Package rows has the cores of jobs in rows (part_data.c of the select plugins). With OverSubscribe,
// several jobs may have the same core. With PreemptMode=GANG, gang scheduling lets one of them run.
// Each partition has rows of jobs. Jobs in the same row do not share cores.
package rows

import (
	"cmp"
	"math/bits"
	"slices"

	"rmreplay/internal/rm/nodeset"
)

// Cores is a set of cores of all nodes, in the order of the nodes.
type Cores = nodeset.Set

// Partition has the properties of a partition on which its rows depend.
type Partition struct {
	Tier int
	// Kept says that the partition's jobs are not preempted (PreemptMode=OFF).
	Kept bool
	// Rows is how many jobs may have the same core.
	Rows int
}

// Job has the cores of a job.
type Job struct {
	Partition int
	Cores     []int // ascending
	CPUs      int   // the number that the job requested; a job that shares no nodes has more
}

// row is a row of a partition. Like slurmctld, it adjusts the field count at each change.
// Therefore this field becomes wrong when cores of jobs that are not in the row are removed.
type row struct {
	used  Cores // nil before the first job
	count uint32
	jobs  []*Job
}

func (r *row) clear() {
	clear(r.used)
	r.count = 0
}

// fits reports whether a job shares no core with the jobs of the row (job_res_fit_in_row).
func (r *row) fits(j *Job) bool {
	return len(r.jobs) == 0 || !slices.ContainsFunc(j.Cores, r.used.Has)
}

// add adds a job to a row (part_data_add_job_to_row).
func (r *row) add(j *Job, cores int) {
	switch {
	case r.used == nil:
		r.used = nodeset.New(cores)
	case len(r.jobs) == 0:
		r.clear()
	}
	for _, c := range j.Cores {
		r.used.Set(c)
	}
	r.count += uint32(len(j.Cores))
	r.jobs = append(r.jobs, j)
}

// free removes the cores of a job from a row (job_res_rm_cores).
func (r *row) free(j *Job) {
	for _, c := range j.Cores {
		r.used.Clear(c)
	}
	r.count -= uint32(len(j.Cores))
}

// Table has the rows of all partitions.
type Table struct {
	partitions []Partition
	order      []int // indexes of partitions, highest tier first
	rows       [][]row
	cores      int
	late       bool
	stale      []bool // partitions whose rows lost a job, and are built anew at the next test
}

// New returns a table without jobs. If the parameter late is true (since 24.11), rows that lose a job are built anew
// only at the next test, or when a job is added to them. Several losses then lead to one new build.
func New(cores int, partitions []Partition, late bool) *Table {
	t := &Table{partitions: partitions, rows: make([][]row, len(partitions)), cores: cores, late: late}
	t.stale = make([]bool, len(partitions))
	for i := range partitions {
		t.order = append(t.order, i)
	}
	slices.SortStableFunc(t.order, func(a, b int) int { return cmp.Compare(partitions[b].Tier, partitions[a].Tier) })
	return t
}

// Settle rebuilds the rows that have lost jobs (part_data_rebuild_rows). Each test of a job first
// calls Settle, even a test without nodes. t may be nil.
func (t *Table) Settle() {
	if t == nil {
		return
	}
	for p := range t.stale {
		t.settle(p)
	}
}

func (t *Table) settle(p int) {
	if t.stale[p] {
		t.stale[p] = false
		t.build(t.rows[p])
	}
}

// CopyTo copies the table t to another table. Both must be tables of the same partitions.
func (t *Table) CopyTo(to *Table) {
	t.Settle()
	clear(to.stale)
	for p := range t.rows {
		to.rows[p] = slices.Clone(t.rows[p])
		for i := range to.rows[p] {
			r := &to.rows[p][i]
			r.used, r.jobs = slices.Clone(r.used), slices.Clone(r.jobs)
		}
	}
}

// Add adds a job to the first row in which the job's cores are free (job_res_add_job). If there is
// no such row, the job is not added.
func (t *Table) Add(j *Job) {
	if t.rows[j.Partition] == nil {
		t.rows[j.Partition] = make([]row, t.partitions[j.Partition].Rows)
	}
	t.settle(j.Partition)
	rows := t.rows[j.Partition]
	if at := slices.IndexFunc(rows, func(r row) bool { return r.fits(j) }); at >= 0 {
		rows[at].add(j, t.cores)
	}
}

// Remove removes a job (job_res_rm_job).
func (t *Table) Remove(j *Job) {
	rows := t.rows[j.Partition]
	for i := range rows {
		r := &rows[i]
		at := slices.Index(r.jobs, j)
		if at < 0 {
			continue
		}
		r.jobs = slices.Delete(r.jobs, at, at+1)
		switch {
		case len(rows) > 1:
			if t.stale[j.Partition] = true; !t.late {
				t.Settle()
			}
		case len(r.jobs) == 0:
			r.clear()
		default:
			r.free(j)
		}
		return
	}
}

// build distributes the jobs of a partition over its rows anew: each job gets the first row with
// free cores for it (part_data_build_row_bitmaps). If no row has free cores for a job, the rows
// stay as they were.
func (t *Table) build(rows []row) {
	var jobs []*Job
	before := slices.Clone(rows)
	for i := range rows {
		jobs = append(jobs, rows[i].jobs...)
		rows[i].jobs = nil
		rows[i].clear()
	}
	slices.SortStableFunc(jobs, func(a, b *Job) int {
		return cmp.Or(cmp.Compare(a.Cores[0], b.Cores[0]), cmp.Compare(a.CPUs, b.CPUs))
	})
	for _, j := range jobs {
		at := slices.IndexFunc(rows, func(r row) bool { return r.fits(j) })
		if at < 0 { // the rows stay as they were
			copy(rows, before)
			for i := range rows {
				list := rows[i].jobs
				rows[i].jobs = nil
				rows[i].clear()
				for _, j := range list {
					rows[i].add(j, t.cores)
				}
			}
			return
		}
		rows[at].add(j, t.cores)
		sort(rows)
	}
}

// sort sorts rows by their number of used cores, the most first (part_data_sort_res).
func sort(rows []row) {
	for i := range rows {
		for k := i + 1; k < len(rows); k++ {
			if rows[k].count > rows[i].count {
				rows[i], rows[k] = rows[k], rows[i]
			}
		}
	}
}

// Use adds to the set used the cores of all jobs in certain partitions: the function of returns true for
// these partitions.
func (t *Table) Use(used Cores, of func(Partition) bool) {
	for p, rows := range t.rows {
		for i := range rows {
			if rows[i].used != nil && of(t.partitions[p]) {
				used.Or(rows[i].used)
			}
		}
	}
}

// Busy reports whether jobs have cores in the range from first to end (_is_node_busy). If all is false, it
// considers only partitions with several rows, without the partition own. The additional rows of
// preempt/qos do not count. If anywhere is true (24.11), any core counts that a job has ever had.
func (t *Table) Busy(byQOS bool, own int, all bool, first, end int, anywhere bool) bool {
	for p, rows := range t.rows {
		count := t.partitions[p].Rows
		if byQOS {
			count--
		}
		if !all && (count < 2 || p == own) {
			continue
		}
		for i := range min(count, len(rows)) {
			if used := rows[i].used; used != nil && (anywhere || Count(used, first, end-first) > 0) {
				return true
			}
		}
	}
	return false
}

// Used returns the cores that the next test will find in use.
func (t *Table) Used() Cores {
	used := nodeset.New(t.cores)
	for p, rows := range t.rows {
		for i := range rows {
			switch {
			case t.stale[p]:
				for _, j := range rows[i].jobs {
					for _, c := range j.Cores {
						used.Set(c)
					}
				}
			case rows[i].used != nil:
				used.Or(rows[i].used)
			}
		}
	}
	return used
}

// Count returns how many of n cores, from the core first on, are in a set.
func Count(set Cores, first, n int) (count int) {
	for end := first + n; first < end; {
		word := set[first>>6] >> (first & 63)
		take := min(64-first&63, end-first)
		count += bits.OnesCount64(word << (64 - take) >> (64 - take))
		first += take
	}
	return count
}
