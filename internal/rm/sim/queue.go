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
// that the first of them with a limit of at most L is found in logarithmic time. A
// search looks at one tree for each distinct size in the queue; how many jobs wait
// matters by its logarithm only, even where every job that waits is either small or
// short and none is both. The zero Queue is empty and ready.
type Queue struct {
	classes []*class // by size
	len     int
	next    []candidate // of a backfill under way
}

// class is the waiting jobs of one size.
type class struct {
	size int
	jobs tree
}

// Len is how many jobs wait.
func (q *Queue) Len() int { return q.len }

// Push adds a job. Jobs stand in the order of their keys, the lower first, and those
// of one key in the order of their submission.
func (q *Queue) Push(j *Job, key float64) {
	i, found := q.find(j.Size)
	if !found {
		q.classes = slices.Insert(q.classes, i, &class{size: j.Size, jobs: tree{sum: minLimits}})
	}
	q.classes[i].jobs.insert(j, sortable(key), int64(j.Seq))
	q.len++
}

// Remove takes out a job that is in the queue.
func (q *Queue) Remove(j *Job) {
	i, _ := q.find(j.Size)
	q.classes[i].jobs.remove(j)
	q.len--
}

// find returns the place of the jobs of a size. A class that has become empty stays:
// its size will come again.
func (q *Queue) find(size int) (int, bool) {
	return slices.BinarySearchFunc(q.classes, size, func(c *class, size int) int { return c.size - size })
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
	var first *Job
	for _, c := range q.classes {
		if j := c.jobs.first(); j != nil && (first == nil || j.before(first)) {
			first = j
		}
	}
	return first
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
	q.next = q.next[:0]
	for _, c := range q.classes {
		if c.size > free {
			break
		}
		q.consider(c, extra, within)
	}
	for len(q.next) > 0 && free > 0 {
		c := q.next[0]
		q.dropFirst()
		j := c.job
		if j.Size > free {
			continue // and so are all of its size
		}
		if j.Limit > within {
			if j.Size > extra {
				q.consider(c.class, extra, within) // extra has shrunk since it was found
				continue
			}
			extra -= j.Size
		}
		free -= j.Size
		c.class.jobs.remove(j)
		q.len--
		start(j)
		q.consider(c.class, extra, within)
	}
	return extra
}

// candidate is the first job of a class that may start as things stand.
type candidate struct {
	job   *Job
	class *class
}

// consider adds the candidate of a class, if it has one, to the heap of candidates.
func (q *Queue) consider(c *class, extra int, within time.Duration) {
	j := c.jobs.root
	switch {
	case j == nil:
		return
	case c.size <= extra:
		j = c.jobs.first()
	default:
		if j = c.jobs.firstWithin(int64(within)); j == nil {
			return
		}
	}
	q.next = append(q.next, candidate{j, c})
	for i := len(q.next) - 1; i > 0; {
		parent := (i - 1) / 2
		if !q.next[i].job.before(q.next[parent].job) {
			return
		}
		q.next[i], q.next[parent] = q.next[parent], q.next[i]
		i = parent
	}
}

// dropFirst removes the first of the heap of candidates.
func (q *Queue) dropFirst() {
	last := len(q.next) - 1
	q.next[0] = q.next[last]
	q.next = q.next[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return
		}
		if child+1 < last && q.next[child+1].job.before(q.next[child].job) {
			child++
		}
		if !q.next[child].job.before(q.next[i].job) {
			return
		}
		q.next[i], q.next[child] = q.next[child], q.next[i]
		i = child
	}
}
