package order

import (
	"math"
	"slices"
	"time"
)

// Queue has waiting jobs in an order that the policy chooses. It finds the first job that may be
// backfilled without looking at each job before it.
//
// Jobs of one size are in one tree, in which every subtree has its smallest expected run time. The first job that is
// expected to run for at most L is therefore found in logarithmic time. A second tree, over the sizes, has the
// shortest and the first job of each range of sizes. A search therefore only follows sizes with a suitable job. The
// time of a search grows with the logarithm of the number of jobs, even if each job is either small or short, but no
// job is both. The zero Queue is empty.
type Queue[J any] struct {
	classes []class[J] // by size
	// ranges is a complete binary tree in an array. The root is ranges[1], the children of i are 2i
	// and 2i+1, and the leaf of class i is ranges[leaves+i].
	ranges []sizeRange[J]
	leaves int
	len    int
}

// class is the waiting jobs of one size.
type class[J any] struct {
	size int
	jobs *Tree[J]
}

// sizeRange summarizes the jobs in a range of sizes.
type sizeRange[J any] struct {
	minLimit int64 // smallest Expected; noLimit if there are no jobs
	first    *Entry[J]
}

// noLimit is the minLimit of a range without jobs.
const noLimit = math.MaxInt64

// Len returns the number of jobs.
func (q *Queue[J]) Len() int { return q.len }

// Push adds a job. Jobs are in the order of their keys. Jobs with the same key are in the order of their submission.
func (q *Queue[J]) Push(j *Entry[J], key float64) {
	i, found := q.find(j.Size)
	if !found {
		q.classes = slices.Insert(q.classes, i, class[J]{size: j.Size, jobs: &Tree[J]{sum: minExpected}})
		q.rebuild()
	}
	q.classes[i].jobs.Insert(j, sortable(key), int64(j.Seq))
	q.len++
	r := &q.ranges[q.leaves+i]
	r.minLimit = min(r.minLimit, int64(j.Expected))
	if r.first == nil || j.before(r.first) {
		r.first = j
	}
	q.update(i)
}

// Remove removes a job that is in the queue.
func (q *Queue[J]) Remove(j *Entry[J]) {
	i, _ := q.find(j.Size)
	q.classes[i].jobs.Remove(j)
	q.len--
	r := &q.ranges[q.leaves+i]
	*r = q.classes[i].summary(r.first, j)
	q.update(i)
}

// summary returns the summary of a class from which a job was removed. The parameter first is the
// job that was the class's first before the removal.
func (c *class[J]) summary(first, taken *Entry[J]) sizeRange[J] {
	if c.jobs.root == nil {
		return sizeRange[J]{minLimit: noLimit}
	}
	if first == taken {
		first = c.jobs.First()
	}
	return sizeRange[J]{c.jobs.root.total, first}
}

// find returns the index of the class of a size. Empty classes are kept, because jobs of their sizes will probably be
// added again.
func (q *Queue[J]) find(size int) (int, bool) {
	return slices.BinarySearchFunc(q.classes, size, func(c class[J], size int) int { return c.size - size })
}

// rebuild builds the tree of sizes again, after a new size was added.
func (q *Queue[J]) rebuild() {
	q.leaves = 1
	for q.leaves < len(q.classes) {
		q.leaves *= 2
	}
	q.ranges = slices.Grow(q.ranges[:0], 2*q.leaves)[:2*q.leaves]
	for i := range q.ranges {
		q.ranges[i] = sizeRange[J]{minLimit: noLimit}
	}
	for i := range q.classes {
		q.ranges[q.leaves+i] = q.classes[i].summary(nil, nil)
	}
	for i := q.leaves - 1; i > 0; i-- {
		q.join(i)
	}
}

// update updates the ranges above a class.
func (q *Queue[J]) update(i int) {
	for i = (q.leaves + i) / 2; i > 0; i /= 2 {
		q.join(i)
	}
}

// join computes a range from its two halves.
func (q *Queue[J]) join(i int) {
	a, b := &q.ranges[2*i], &q.ranges[2*i+1]
	r := sizeRange[J]{min(a.minLimit, b.minLimit), a.first}
	if a.first == nil || b.first != nil && b.first.before(a.first) {
		r.first = b.first
	}
	q.ranges[i] = r
}

// sortable converts keys to integers in the same order.
func sortable(f float64) int64 {
	bits := int64(math.Float64bits(f + 0)) // -0 becomes 0
	if bits < 0 {
		return math.MinInt64 - bits
	}
	return bits
}

// First returns the first job, or nil.
func (q *Queue[J]) First() *Entry[J] {
	if q.len == 0 {
		return nil
	}
	return q.ranges[1].first
}

// Pop removes and returns the first job, or returns nil if the queue is empty.
func (q *Queue[J]) Pop() *Entry[J] {
	j := q.First()
	if j != nil {
		q.Remove(j)
	}
	return j
}

// Backfill removes jobs and passes them to the function start, in the order of the queue, by the
// rule of EASY. A job may start if its size is at most free, and if in addition its Expected is at
// most within or its size is at most extra. Each start reduces free by the job's size. If the
// job's Expected is above within, the start reduces extra, too. Backfill returns what then remains
// of extra.
//
// The numbers free and extra only shrink, so a job that may not start may not start later in the
// same pass, either. One pass is therefore enough.
func (q *Queue[J]) Backfill(free, extra int, within time.Duration, start func(*Entry[J])) int {
	for free > 0 && q.len > 0 {
		j := q.search(1, 0, q.leaves, scan{free, extra, within}, nil)
		if j == nil {
			return extra
		}
		if j.Expected > within {
			extra -= j.Size
		}
		free -= j.Size
		q.Remove(j)
		start(j)
	}
	return extra
}

// scan has the conditions for a job to be backfilled.
type scan struct {
	free, extra int
	within      time.Duration
}

// search finds the first job that meets the conditions s, in a range of n classes from the class first on. If the job
// best is before that job, search returns best. search skips parts of the range whose sizes are all too large, whose
// jobs are all too long, or whose first job is after the job best.
func (q *Queue[J]) search(i, first, n int, s scan, best *Entry[J]) *Entry[J] {
	r := &q.ranges[i]
	if r.first == nil || best != nil && !r.first.before(best) {
		return best
	}
	size := q.classes[first].size // the smallest size in the range
	if size > s.free || size > s.extra && r.minLimit > int64(s.within) {
		return best
	}
	if n > 1 {
		left, right := first, first+n/2
		a, b := &q.ranges[2*i], &q.ranges[2*i+1]
		if a.first == nil || b.first != nil && b.first.before(a.first) {
			best = q.search(2*i+1, right, n/2, s, best)
			return q.search(2*i, left, n/2, s, best)
		}
		best = q.search(2*i, left, n/2, s, best)
		return q.search(2*i+1, right, n/2, s, best)
	}
	j := r.first
	if j.Size > s.extra && j.Expected > s.within {
		j = q.classes[first].jobs.firstWithin(int64(s.within))
	}
	if best == nil || j.before(best) {
		return j
	}
	return best
}
