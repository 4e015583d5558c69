// Package order has ordered sets of jobs: running jobs by their ends, and waiting jobs by a
// policy's keys.
package order

import "time"

// Tree is an ordered set of jobs. Every subtree has the sum of its jobs' sizes, or the smallest of
// their expected run times. It is a treap (Seidel and Aragon, "Randomized search trees",
// Algorithmica 16, 1996). Its priorities are hashes of the jobs' numbers, so the same jobs always
// make the same tree. All operations take expected logarithmic time and allocate no memory: the
// links are in the entries. An entry is in at most one tree. The zero Tree is empty, and has sums
// of sizes.
type Tree[J any] struct {
	root *Entry[J]
	sum  aggregate
}

// aggregate says which value a tree computes for every subtree.
type aggregate uint8

const (
	sumSizes aggregate = iota
	minExpected
)

// Entry is the node of a job in a tree.
type Entry[J any] struct {
	Job *J
	// Seq is the job's number. Size is the number of processors that it has or needs. Expected is
	// its expected run time. The three must not change while the entry is in a tree.
	Seq      int
	Size     int
	Expected time.Duration

	left, right *Entry[J]
	key, tie    int64 // the order of the tree; entries with the same key are in the order of tie
	total       int64 // sum or minimum of the subtree
}

// Tie returns the value that orders the entry among entries with the same key.
func (e *Entry[J]) Tie() int64 { return e.tie }

// hash distributes consecutive numbers over all values (the finalizer of SplitMix64).
func hash(n int) uint32 {
	x := uint64(n) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return uint32(x >> 32)
}

// before reports whether the entry is before another entry.
func (e *Entry[J]) before(b *Entry[J]) bool {
	return e.key < b.key || e.key == b.key && e.tie < b.tie
}

// update computes the total of j's subtree from its children.
func (t *Tree[J]) update(j *Entry[J]) {
	if t.sum == sumSizes {
		j.total = int64(j.Size)
		if j.left != nil {
			j.total += j.left.total
		}
		if j.right != nil {
			j.total += j.right.total
		}
		return
	}
	j.total = int64(j.Expected)
	if j.left != nil {
		j.total = min(j.total, j.left.total)
	}
	if j.right != nil {
		j.total = min(j.total, j.right.total)
	}
}

// Insert adds a job, whose entry must not be in a tree.
func (t *Tree[J]) Insert(j *Entry[J], key, tie int64) {
	j.left, j.right, j.key, j.tie = nil, nil, key, tie
	t.root = t.put(t.root, j)
}

func (t *Tree[J]) put(at, j *Entry[J]) *Entry[J] {
	switch {
	case at == nil:
		t.update(j)
		return j
	case hash(j.Seq) > hash(at.Seq):
		j.left, j.right = t.split(at, j)
		t.update(j)
		return j
	case j.before(at):
		at.left = t.put(at.left, j)
	default:
		at.right = t.put(at.right, j)
	}
	t.update(at)
	return at
}

// split splits a subtree into the jobs before j and the rest.
func (t *Tree[J]) split(at, j *Entry[J]) (before, rest *Entry[J]) {
	if at == nil {
		return nil, nil
	}
	if at.before(j) {
		at.right, rest = t.split(at.right, j)
		t.update(at)
		return at, rest
	}
	before, at.left = t.split(at.left, j)
	t.update(at)
	return before, at
}

// Remove removes a job.
func (t *Tree[J]) Remove(j *Entry[J]) {
	t.root = t.cut(t.root, j)
	j.left, j.right = nil, nil
}

func (t *Tree[J]) cut(at, j *Entry[J]) *Entry[J] {
	switch {
	case at == j:
		return t.join(j.left, j.right)
	case j.before(at):
		at.left = t.cut(at.left, j)
	default:
		at.right = t.cut(at.right, j)
	}
	t.update(at)
	return at
}

// join joins two trees. All jobs of a come before all jobs of b.
func (t *Tree[J]) join(a, b *Entry[J]) *Entry[J] {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case hash(a.Seq) > hash(b.Seq):
		a.right = t.join(a.right, b)
		t.update(a)
		return a
	}
	b.left = t.join(a, b.left)
	t.update(b)
	return b
}

// First returns the first job, or nil.
func (t *Tree[J]) First() *Entry[J] {
	j := t.root
	for j != nil && j.left != nil {
		j = j.left
	}
	return j
}

// firstWithin returns the first job whose Expected is at most limit, or nil. The tree must have
// the aggregate minExpected.
func (t *Tree[J]) firstWithin(limit int64) *Entry[J] {
	j := t.root
	if j == nil || j.total > limit {
		return nil
	}
	for {
		switch {
		case j.left != nil && j.left.total <= limit:
			j = j.left
		case int64(j.Expected) <= limit:
			return j
		default:
			j = j.right
		}
	}
}

// Reach returns the first job at which the sum of the sizes reaches the number need, and that sum.
// It returns nil if the sum of all sizes is less. The tree must have the aggregate sumSizes.
func (t *Tree[J]) Reach(need int64) (*Entry[J], int64) {
	j := t.root
	if j == nil || j.total < need {
		return nil, 0
	}
	sum := int64(0)
	for {
		if j.left != nil {
			if sum+j.left.total >= need {
				j = j.left
				continue
			}
			sum += j.left.total
		}
		if sum += int64(j.Size); sum >= need {
			return j, sum
		}
		j = j.right
	}
}

// UpTo returns the sum of the sizes of all jobs whose key is at most the parameter key.
func (t *Tree[J]) UpTo(key int64) int64 {
	sum := int64(0)
	for j := t.root; j != nil; {
		if j.key > key {
			j = j.left
			continue
		}
		sum += int64(j.Size)
		if j.left != nil {
			sum += j.left.total
		}
		j = j.right
	}
	return sum
}

// Each visits the jobs in order until visit returns false.
func (t *Tree[J]) Each(visit func(*Entry[J]) bool) {
	var walk func(*Entry[J]) bool
	walk = func(j *Entry[J]) bool {
		return j == nil || walk(j.left) && visit(j) && walk(j.right)
	}
	walk(t.root)
}
