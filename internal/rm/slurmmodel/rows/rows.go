// Package rows has the cores of jobs that take turns (part_data.c of the select plugins). With PreemptMode=GANG,
// jobs may hold the same cores, and gang scheduling stops all but one of them. The jobs of a partition are in its
// rows. Those of one row share no cores.
package rows

import (
	"cmp"
	"math/bits"
	"slices"

	"rmreplay/internal/rm/nodeset"
)

// Cores is a set of cores of all nodes, in the order of the nodes.
type Cores = nodeset.Set

// Partition is what decides about the rows of a partition.
type Partition struct {
	Tier int
	// Kept says that its jobs are not preempted (PreemptMode=OFF).
	Kept bool
	// Rows is how many jobs may hold a core.
	Rows int
}

// Job is what a job holds.
type Job struct {
	Partition int
	Cores     []int // ascending
	CPUs      int   // that it asked for: a job that shares no nodes holds more
}

// row is a row of a partition. slurmctld adjusts the count of cores at each change. The count becomes
// wrong when it removes cores of jobs that are not in the row.
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

// add adds a job (part_data_add_job_to_row).
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

// free makes the cores of a job free (job_res_rm_cores).
func (r *row) free(j *Job) {
	for _, c := range j.Cores {
		r.used.Clear(c)
	}
	r.count -= uint32(len(j.Cores))
}

// Table has the rows of all partitions.
type Table struct {
	partitions []Partition
	order      []int // partitions, those of high tiers first
	rows       [][]row
	cores      int
	late       bool
	stale      []bool // partitions whose rows lost a job, and are built anew at the next test
}

// New returns a table without jobs. With late, as since 24.11, rows that lose a job are built anew at the next test,
// or when a job is added to them, so that several losses lead to one new build.
func New(cores int, partitions []Partition, late bool) *Table {
	t := &Table{partitions: partitions, rows: make([][]row, len(partitions)), cores: cores, late: late}
	t.stale = make([]bool, len(partitions))
	for i := range partitions {
		t.order = append(t.order, i)
	}
	slices.SortStableFunc(t.order, func(a, b int) int { return cmp.Compare(partitions[b].Tier, partitions[a].Tier) })
	return t
}

// Settle builds the rows that have lost jobs anew (part_data_rebuild_rows). Each test of a job begins with it.
func (t *Table) Settle() {
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

// CopyTo makes to equal to t. Both must be tables of the same partitions.
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

// Add gives a job its cores (job_res_add_job). A job that fits no row is not in the table.
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

// Remove takes the cores of a job away (job_res_rm_job).
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

// build puts the jobs of a partition into as few rows as it can (part_data_build_row_bitmaps).
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
		if at < 0 { // it stays as it was
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

// sort puts full rows first (part_data_sort_res).
func sort(rows []row) {
	for i := range rows {
		for k := i + 1; k < len(rows); k++ {
			if rows[k].count > rows[i].count {
				rows[i], rows[k] = rows[k], rows[i]
			}
		}
	}
}

// Use adds to a set the cores that jobs of some partitions hold.
func (t *Table) Use(used Cores, of func(Partition) bool) {
	for p, rows := range t.rows {
		for i := range rows {
			if rows[i].used != nil && of(t.partitions[p]) {
				used.Or(rows[i].used)
			}
		}
	}
}

// Used returns the cores that jobs hold, and that the next test finds in use.
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

// Count returns how many of n cores, from the first one on, are in a set.
func Count(set Cores, first, n int) (count int) {
	for end := first + n; first < end; {
		word := set[first>>6] >> (first & 63)
		take := min(64-first&63, end-first)
		count += bits.OnesCount64(word << (64 - take) >> (64 - take))
		first += take
	}
	return count
}
