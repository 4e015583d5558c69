package trees

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Tree is a regression tree. Node 0 is the root. A tree without nodes has one leaf.
type Tree struct {
	nodes  []node
	leaves []float32 // the values of the leaves
}

// node is an inner node. A row belongs to its first child if the row's feature is missing or at most
// the threshold, and otherwise to its second child. A negative child c is the leaf ^c.
type node struct {
	threshold float32
	feature   uint16
	children  [2]int32
}

// value returns the value of the leaf of a row.
func (t *Tree) value(x []float32) float64 {
	if len(t.nodes) == 0 {
		return float64(t.leaves[0])
	}
	at := int32(0)
	for at >= 0 {
		n := &t.nodes[at]
		if x[n.feature] > n.threshold {
			at = n.children[1]
		} else {
			at = n.children[0]
		}
	}
	return float64(t.leaves[^at])
}

// one returns 1 for true, without a branch.
func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// cell is a bin of a histogram: the sum of the gradients in it, and the number of rows.
type cell struct {
	sum   float64
	count int32
}

// histogram has a cell for each bin of each column.
type histogram [][maxBins]cell

// grower grows trees on one binned table.
type grower struct {
	data *binned
	// leaves is the largest number of leaves in a tree, minRows the smallest number of rows in a leaf,
	// and features the share of the columns that a tree may use.
	leaves, minRows int
	features        float64
	rng             *rand.Rand

	columns []int // the columns that the present tree may use
	free    []histogram
	// The data of the rows on which the present tree is grown, in the order of the rows. A tree's rows are only a small
	// part of the table, so their data are copied into consecutive memory.
	bins     [][]uint8 // the bins of each column
	gradient []float32
	sums     []float32 // reused
}

// leaf is a leaf that may be split.
type leaf struct {
	rows   []int32 // indices among the rows on which the tree is grown
	hist   histogram
	parent int32 // the node above; -1 for the root
	right  bool
	best   split
}

// split is the best split of a leaf. Gain 0 means that the leaf cannot be split.
type split struct {
	gain   float64
	column int
	bin    uint8
}

// grow grows a tree for gradients on some rows. It returns the tree without values, and the rows of each
// leaf.
func (g *grower) grow(gradient []float32, rows []int32) (*Tree, [][]int32) {
	t := new(Tree)
	g.choose()
	root := &leaf{rows: g.gather(gradient, rows), hist: g.take(), parent: -1}
	g.fill(root)
	g.search(root)
	leaves := []*leaf{root}
	for len(leaves) < g.leaves {
		best := 0
		for i, l := range leaves {
			if l.best.gain > leaves[best].best.gain {
				best = i
			}
		}
		if leaves[best].best.gain <= 0 {
			break
		}
		left, right := g.divide(leaves[best], t)
		leaves[best] = left
		leaves = append(leaves, right)
	}
	groups := make([][]int32, len(leaves))
	for i, l := range leaves {
		for at, r := range l.rows {
			l.rows[at] = rows[r]
		}
		groups[i] = l.rows
		if l.parent >= 0 {
			t.link(l, ^int32(i))
		}
		if l.hist != nil {
			g.free = append(g.free, l.hist)
		}
	}
	t.leaves = make([]float32, len(leaves))
	return t, groups
}

// gather copies the rows' data into g.bins and g.gradient, and returns the rows' new indices.
func (g *grower) gather(gradient []float32, rows []int32) []int32 {
	if g.bins == nil {
		g.bins = make([][]uint8, len(g.data.columns))
	}
	parallel(len(g.columns), len(g.columns)*len(rows), func(i int) {
		c := g.columns[i]
		from, to := g.data.columns[c].bins, slices.Grow(g.bins[c][:0], len(rows))[:len(rows)]
		for at, r := range rows {
			to[at] = from[r]
		}
		g.bins[c] = to
	})
	g.gradient = g.gradient[:0]
	places := make([]int32, len(rows))
	for at, r := range rows {
		g.gradient = append(g.gradient, gradient[r])
		places[at] = int32(at)
	}
	return places
}

// link sets the child of the node above a leaf. The child is a node or a leaf.
func (t *Tree) link(l *leaf, child int32) {
	t.nodes[l.parent].children[one(l.right)] = child
}

// divide turns a leaf into a node with two leaves.
func (g *grower) divide(l *leaf, t *Tree) (left, right *leaf) {
	parent := int32(len(t.nodes))
	if l.parent >= 0 {
		t.link(l, parent)
	}
	c := &g.data.columns[l.best.column]
	t.nodes = append(t.nodes, node{feature: uint16(c.feature), threshold: c.bounds[l.best.bin]})

	at := partition(l.rows, g.bins[l.best.column], l.best.bin)
	left = &leaf{rows: l.rows[:at], parent: parent}
	right = &leaf{rows: l.rows[at:], parent: parent, right: true}
	small, large := left, right
	if len(left.rows) > len(right.rows) {
		small, large = right, left
	}
	large.hist = l.hist
	if len(large.rows) < 2*g.minRows {
		g.free = append(g.free, large.hist)
		large.hist = nil
		return left, right
	}
	small.hist = g.take()
	g.fill(small)
	parallel(len(g.columns), len(g.columns)*maxBins, func(i int) {
		c := g.columns[i]
		from, less := &large.hist[c], &small.hist[c]
		for b := range len(g.data.columns[c].bounds) {
			from[b].sum -= less[b].sum
			from[b].count -= less[b].count
		}
	})
	g.search(small)
	g.search(large)
	return left, right
}

// partition moves the rows whose bin is at most lastBin to the front, and returns their number.
func partition(rows []int32, bins []uint8, lastBin uint8) int {
	var after []int32
	n := 0
	for _, r := range rows {
		if bins[r] <= lastBin {
			rows[n] = r
			n++
		} else {
			after = append(after, r)
		}
	}
	copy(rows[n:], after)
	return n
}

// take returns a histogram whose contents are undefined.
func (g *grower) take() histogram {
	if n := len(g.free); n > 0 {
		h := g.free[n-1]
		g.free = g.free[:n-1]
		return h
	}
	return make(histogram, len(g.data.columns))
}

// fill computes the histogram of a leaf.
func (g *grower) fill(l *leaf) {
	g.sums = g.sums[:0]
	for _, r := range l.rows {
		g.sums = append(g.sums, g.gradient[r])
	}
	sums := g.sums
	parallel(len(g.columns), len(g.columns)*len(l.rows), func(i int) {
		c := g.columns[i]
		h := &l.hist[c]
		clear(h[:len(g.data.columns[c].bounds)])
		bins := g.bins[c]
		for i, r := range l.rows {
			to := &h[bins[r]]
			to.sum += float64(sums[i])
			to.count++
		}
	})
}

// search finds the best split of a leaf: the largest reduction of the squared error of the gradients. If splits are
// equal, search takes the first column and the lowest bin.
func (g *grower) search(l *leaf) {
	if len(l.rows) < 2*g.minRows {
		return
	}
	found := make([]split, len(g.columns))
	parallel(len(g.columns), len(g.columns)*maxBins, func(i int) {
		found[i] = g.searchColumn(&l.hist[g.columns[i]], g.columns[i])
	})
	for _, s := range found {
		if s.gain > l.best.gain {
			l.best = s
		}
	}
}

// choose draws the columns that the next tree may use, ascending.
func (g *grower) choose() {
	n := len(g.data.columns)
	want := int(math.Ceil(g.features * float64(n)))
	g.columns = g.columns[:0]
	for c := range n {
		if want >= n || g.rng.IntN(n-c) < want-len(g.columns) {
			g.columns = append(g.columns, c)
		}
	}
}

func (g *grower) searchColumn(h *[maxBins]cell, c int) (best split) {
	bins := len(g.data.columns[c].bounds)
	var sum float64
	var count int32
	for b := range bins {
		sum += h[b].sum
		count += h[b].count
	}
	whole := sum * sum / float64(count)
	var below float64
	var n int32
	for b := range bins - 1 {
		below += h[b].sum
		n += h[b].count
		rest := count - n
		if int(rest) < g.minRows {
			break
		}
		if int(n) < g.minRows || h[b].count == 0 {
			continue
		}
		above := sum - below
		gain := below*below/float64(n) + above*above/float64(rest) - whole
		if gain > best.gain+1e-9 {
			best = split{gain, c, uint8(b)}
		}
	}
	return best
}
