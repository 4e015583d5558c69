package trees

import "math/rand/v2"

// ForestOptions are the choices of [Trainer.Forest].
type ForestOptions struct {
	// Trees is the number of trees, Leaves the largest number of leaves in a tree, and MinRows the
	// smallest number of rows in a leaf.
	Trees, Leaves, MinRows int
	// Features is the share of the features that each tree may use. Each tree is grown on at most
	// MaxRows rows.
	Features float64
	MaxRows  int
	Seed     uint64
}

// forestRows is the share of the rows on which each tree is grown. It equals the share of distinct
// rows in a bootstrap sample, 1 - 1/e.
const forestRows = 0.632

// Forest trains a random forest (Breiman, "Random forests", Machine Learning 45(1), 2001), the mean
// of many trees. Each tree is grown on a random part of the rows, with a random part of the features
// (Ho, "The random subspace method for constructing decision forests", IEEE TPAMI 20(8), 1998). The
// forest predicts means. The rows are drawn without replacement.
func (b *Trainer) Forest(o ForestOptions) *Ensemble {
	t := b.table
	n := t.Len()
	rng := rand.New(rand.NewPCG(o.Seed, 1))
	g := &grower{data: b.data, leaves: o.Leaves, minRows: o.MinRows, features: o.Features, rng: rng}
	e := new(Ensemble)
	for _, y := range t.Y {
		e.Base += y / float64(n)
	}
	gradient := make([]float32, n)
	for i, y := range t.Y {
		gradient[i] = float32(y - e.Base)
	}
	rows := make([]int32, 0, n)
	for range o.Trees {
		rows = sample(rows[:0], n, min(forestRows, float64(o.MaxRows)/float64(n)), rng)
		tree, leaves := g.grow(gradient, rows)
		for i, leaf := range leaves {
			sum := 0.0
			for _, r := range leaf {
				sum += float64(gradient[r])
			}
			tree.leaves[i] = float32(sum / float64(len(leaf)) / float64(o.Trees))
		}
		e.Trees = append(e.Trees, tree)
	}
	return e
}
