package sim

import (
	"math"
	"slices"
	"time"
)

// Queue holds waiting jobs in an order of the policy's choice and finds the first that
// may be backfilled without looking at those that may not.
//
// Jobs of one size stand in one tree, with the least time limit of every subtree, so
// that the first of them with a limit of at most L is found in logarithmic time. Over
// the sizes there is a second tree, of the least limit and the first job of each range
// of sizes: a search follows only the sizes that have a job to offer. How many jobs wait
// matters by its logarithm only, even where every job that waits is either small or
// short and none is both. The zero Queue is empty and ready.
type Queue struct {
	classes []class // by size
	// ranges is a complete binary tree in an array: the root is ranges[1], the children
	// of i are 2i and 2i+1, and the leaf of class i is ranges[leaves+i].
	ranges []sizeRange
	leaves int
	len    int
}

// class is the waiting jobs of one size.
type class struct {
	size int
	jobs *tree
}

// sizeRange is what a range of sizes has.
type sizeRange struct {
	least int64 // the least time limit; noLimit if no job waits there
	first *Job
}

// noLimit is the least time limit of no jobs.
const noLimit = math.MaxInt64

// Len is how many jobs wait.
func (q *Queue) Len() int { return q.len }

// Push adds a job. Jobs stand in the order of their keys, the lower first, and those
// of one key in the order of their submission.
func (q *Queue) Push(j *Job, key float64) {
	i, found := q.find(j.Size)
	if !found {
		q.classes = slices.Insert(q.classes, i, class{size: j.Size, jobs: &tree{sum: minLimits}})
		q.rebuild()
	}
	q.classes[i].jobs.insert(j, sortable(key), int64(j.Seq))
	q.len++
	r := &q.ranges[q.leaves+i]
	r.least = min(r.least, int64(j.Limit))
	if r.first == nil || j.before(r.first) {
		r.first = j
	}
	q.update(i)
}

// Remove takes out a job that is in the queue.
func (q *Queue) Remove(j *Job) {
	i, _ := q.find(j.Size)
	q.classes[i].jobs.remove(j)
	q.len--
	r := &q.ranges[q.leaves+i]
	*r = q.classes[i].summary(r.first, j)
	q.update(i)
}

// summary is what a class has after a job was taken out; first was its first job.
func (c *class) summary(first, taken *Job) sizeRange {
	if c.jobs.root == nil {
		return sizeRange{least: noLimit}
	}
	if first == taken {
		first = c.jobs.first()
	}
	return sizeRange{c.jobs.root.total, first}
}

// find returns the place of the jobs of a size. A class that has become empty stays:
// its size will come again.
func (q *Queue) find(size int) (int, bool) {
	return slices.BinarySearchFunc(q.classes, size, func(c class, size int) int { return c.size - size })
}

// rebuild makes the tree of sizes anew, for there is a size more.
func (q *Queue) rebuild() {
	q.leaves = 1
	for q.leaves < len(q.classes) {
		q.leaves *= 2
	}
	q.ranges = slices.Grow(q.ranges[:0], 2*q.leaves)[:2*q.leaves]
	for i := range q.ranges {
		q.ranges[i] = sizeRange{least: noLimit}
	}
	for i := range q.classes {
		q.ranges[q.leaves+i] = q.classes[i].summary(nil, nil)
	}
	for i := q.leaves - 1; i > 0; i-- {
		q.join(i)
	}
}

// update brings the ranges above a class up to date.
func (q *Queue) update(i int) {
	for i = (q.leaves + i) / 2; i > 0; i /= 2 {
		q.join(i)
	}
}

// join makes a range of its two halves.
func (q *Queue) join(i int) {
	a, b := &q.ranges[2*i], &q.ranges[2*i+1]
	r := sizeRange{min(a.least, b.least), a.first}
	if a.first == nil || b.first != nil && b.first.before(a.first) {
		r.first = b.first
	}
	q.ranges[i] = r
}

// sortable maps keys to integers of the same order.
func sortable(f float64) int64 {
	bits := int64(math.Float64bits(f + 0)) // -0 becomes 0
	if bits < 0 {
		return math.MinInt64 - bits
	}
	return bits
}

// First is the first job, or nil.
func (q *Queue) First() *Job {
	if q.len == 0 {
		return nil
	}
	return q.ranges[1].first
}

// Pop takes out the first job; nil if there is none.
func (q *Queue) Pop() *Job {
	j := q.First()
	if j != nil {
		q.Remove(j)
	}
	return j
}

// Backfill takes jobs out and hands them to start, in the order of the queue, by the
// rule of EASY: a job may start if it is no larger than free, and if either its time
// limit is at most within or it is no larger than extra. Each one makes free smaller
// by its size, and extra as well if its time limit is above within. It returns what is
// left of extra.
//
// A job that is passed over cannot become startable later in the same pass, since free
// and extra only shrink: so one pass needs no second look.
func (q *Queue) Backfill(free, extra int, within time.Duration, start func(*Job)) int {
	for free > 0 && q.len > 0 {
		j := q.search(1, 0, q.leaves, scan{free, extra, within}, nil)
		if j == nil {
			return extra
		}
		if j.Limit > within {
			extra -= j.Size
		}
		free -= j.Size
		q.Remove(j)
		start(j)
	}
	return extra
}

// scan is what a job must meet to be backfilled.
type scan struct {
	free, extra int
	within      time.Duration
}

// search finds the first job for a scan in a range of n classes that begins with first,
// if it comes before best, which is returned otherwise. It leaves out every part of the
// range whose sizes are too large, that has nothing short enough, or whose very first
// job comes behind the best found so far.
func (q *Queue) search(i, first, n int, s scan, best *Job) *Job {
	r := &q.ranges[i]
	if r.first == nil || best != nil && !r.first.before(best) {
		return best
	}
	size := q.classes[first].size // the smallest there
	if size > s.free || size > s.extra && r.least > int64(s.within) {
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
	if j.Size > s.extra && j.Limit > s.within {
		j = q.classes[first].jobs.firstWithin(int64(s.within))
	}
	if best == nil || j.before(best) {
		return j
	}
	return best
}
