package sim

// tree is an ordered set of jobs. Every subtree has the sum of its jobs' sizes, or the smallest of
// their time limits. It is a treap (Seidel and Aragon, "Randomized search trees", Algorithmica 16,
// 1996). Its priorities are a hash of the jobs' numbers, so the same jobs always make the same
// tree. All operations take expected logarithmic time and no memory: the links are in the jobs, and
// a job is in at most one tree.
type tree struct {
	root *Job
	sum  aggregate
}

// aggregate is the value that a tree computes for every subtree.
type aggregate uint8

const (
	sumSizes aggregate = iota
	minLimits
)

// links is a job's position in a tree.
type links struct {
	left, right *Job
	key         int64 // the order of the tree; jobs with the same key are in the order of tie
	tie         int64
	total       int64 // of the subtree
}

// hash spreads consecutive numbers over all values (the finalizer of SplitMix64).
func hash(n int) uint32 {
	x := uint64(n) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return uint32(x >> 32)
}

// before reports whether a comes before b.
func (a *Job) before(b *Job) bool {
	return a.key < b.key || a.key == b.key && a.tie < b.tie
}

// update sums up the subtree of j from its children's.
func (t *tree) update(j *Job) {
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

// insert adds a job that is in no tree.
func (t *tree) insert(j *Job, key, tie int64) {
	j.links = links{key: key, tie: tie}
	t.root = t.put(t.root, j)
}

func (t *tree) put(at, j *Job) *Job {
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

// split splits a subtree into the jobs before j and the others.
func (t *tree) split(at, j *Job) (before, rest *Job) {
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

// remove removes a job.
func (t *tree) remove(j *Job) {
	t.root = t.cut(t.root, j)
	j.links = links{}
}

func (t *tree) cut(at, j *Job) *Job {
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
func (t *tree) join(a, b *Job) *Job {
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

// first returns the first job, or nil.
func (t *tree) first() *Job {
	j := t.root
	for j != nil && j.left != nil {
		j = j.left
	}
	return j
}

// firstWithin returns the first job of a tree of time limits with a limit of at most limit, or nil.
func (t *tree) firstWithin(limit int64) *Job {
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

// reach returns the first job of a tree of sizes at which the sum of the sizes reaches need, and
// that sum. It returns nil if the sum of all sizes is less.
func (t *tree) reach(need int64) (*Job, int64) {
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

// upTo returns the sum of the sizes of all jobs whose key is at most key.
func (t *tree) upTo(key int64) int64 {
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

// each visits the jobs in order until visit returns false.
func (t *tree) each(visit func(*Job) bool) {
	var walk func(*Job) bool
	walk = func(j *Job) bool {
		return j == nil || walk(j.left) && visit(j) && walk(j.right)
	}
	walk(t.root)
}
