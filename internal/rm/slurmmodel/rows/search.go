package rows

import (
	"slices"

	"rmreplay/internal/rm/nodeset"
)

// Search says which cores of other jobs a job may share.
type Search struct {
	Partition int
	// ByTier says that the job suspends only jobs of partitions with lower tiers
	// (preempt/partition_prio).
	ByTier bool
	// ByQOS says that each partition has one more row, for jobs that preempt others (preempt/qos).
	ByQOS bool
	// Extra says that the job may use the additional row. Stopped are the jobs that it preempts,
	// since 24.11.
	Extra   bool
	Stopped []*Job
	// Exempt are cores that the job may not share, even if these cores have jobs of a lower tier; it
	// may be nil.
	Exempt Cores
	// Shares says that the job may share cores with other jobs of its partition (OverSubscribe).
	Shares bool
	// Since2411 says that the release is 24.11 or newer.
	Since2411 bool
}

// Try looks for nodes for a job that may not use the cores of the set used, and reports whether
// the job fits. An exclusive job gets only nodes whose used cores are all in the set except.
type Try[T any] func(used, except Cores) (result T, ok bool)

// Find looks for cores for a job that does not fit on the free cores (steps 2 to 4 of _job_test).
// If there are too few, the result is the zero value of T.
func Find[T any](t *Table, s Search, try Try[T]) (result T) {
	var nothing T
	kept := t.kept(s)
	except := nodeset.New(t.cores)
	if _, ok := try(kept, except); !ok {
		return nothing
	}
	if !s.Since2411 { // before 24.11 an exclusive job may get nodes whose used cores are all kept
		except = kept
	}
	own := t.partitions[s.Partition].Tier
	used := slices.Clone(kept)
	t.Use(used, func(p Partition) bool { return p.Tier == own })
	if result, ok := try(used, except); ok {
		return spare(t, own, used, except, result, try)
	}
	rows := t.rows[s.Partition]
	if rows == nil {
		result, _ = try(kept, except)
		return result
	}
	for i := range t.prepare(rows, s) {
		if rows[i].used == nil {
			result, _ = try(kept, except)
			return result
		}
		used := slices.Clone(kept)
		used.Or(rows[i].used)
		if result, ok := try(used, except); ok {
			return result
		}
	}
	return nothing
}

// kept returns the cores of jobs that the job may not suspend.
func (t *Table) kept(s Search) Cores {
	kept, own := nodeset.New(t.cores), t.partitions[s.Partition]
	if s.Exempt != nil {
		kept.Or(s.Exempt)
	}
	for p, rows := range t.rows {
		of := t.partitions[p]
		shared := s.Since2411 && p == s.Partition && of.Rows > 1
		for i := range rows {
			if s.ByTier && !shared && rows[i].used != nil && (of.Tier > own.Tier || of.Kept) {
				kept.Or(rows[i].used)
			}
		}
	}
	return kept
}

// spare protects the cores of jobs in lower tiers as long as the job still fits, one partition
// after the other, the highest of these tiers first.
func spare[T any](t *Table, own int, used, except Cores, result T, try Try[T]) T {
	for _, p := range t.order {
		if t.partitions[p].Tier >= own || t.rows[p] == nil {
			continue
		}
		for _, r := range t.rows[p] {
			if r.used != nil {
				used.Or(r.used)
			}
		}
		better, ok := try(used, except)
		if !ok {
			break
		}
		result = better
	}
	return result
}

// prepare returns those rows of the job's partition that the job may try.
func (t *Table) prepare(rows []row, s Search) []row {
	if len(rows) > 1 && (!s.ByQOS || s.Stopped != nil) {
		sort(rows)
	}
	count := len(rows)
	switch last := &rows[count-1]; {
	case s.ByQOS && !s.Extra:
		count--
	// The additional row gets the cores of all jobs that are not stopped. The job tries this row
	// only if jobs share cores.
	case s.Stopped != nil:
		if last.used == nil {
			last.used = nodeset.New(t.cores)
		}
		for _, r := range rows[:count-1] {
			if r.used != nil {
				last.used.Or(r.used)
			}
		}
		for _, j := range s.Stopped {
			last.free(j)
		}
	}
	if s.ByQOS && !s.Shares {
		count = 1
	}
	return rows[:count]
}
