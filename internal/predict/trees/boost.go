package trees

import (
	"math/rand/v2"
)

// BoostOptions are the choices of [Trainer.Boost].
type BoostOptions struct {
	// Quantile is the predicted quantile, such as 0.5.
	Quantile float64
	// Rounds is the number of trees, Leaves the largest number of leaves in a tree, and MinRows the
	// smallest number of rows in a leaf.
	Rounds, Leaves, MinRows int
	// Rate is the share of each tree's values that is added.
	Rate float64
	// Features is the share of the features that each tree may use. Rows is the share of the rows on
	// which each tree is grown, and MaxRows the maximum number of these rows.
	Features, Rows float64
	MaxRows        int
	Seed           uint64
}

// Ensemble is a sum of trees.
type Ensemble struct {
	Base  float64 `json:"base"`
	Trees []*Tree `json:"trees"`
}

// Value returns the prediction for a row.
func (e *Ensemble) Value(x []float32) float64 {
	sum := e.Base
	for _, t := range e.Trees {
		sum += t.value(x)
	}
	return sum
}

// Trainer trains ensembles on one table, whose features are binned once. Its methods may be called
// concurrently.
type Trainer struct {
	table *Table
	data  *binned
}

// NewTrainer prepares the training on a table, which must have at least one row.
func NewTrainer(t *Table) *Trainer { return &Trainer{t, bin(t)} }

// Boost trains an ensemble by gradient boosting (Friedman, "Greedy function approximation: a
// gradient boosting machine", Annals of Statistics 29(5), 2001) with the pinball loss of a
// quantile. A tree fits the signs of the residuals, and the value of a leaf is the quantile of its
// residuals. The given answers replace the table's answers.
func (b *Trainer) Boost(answers []float64, o BoostOptions) *Ensemble {
	t := b.table
	n := t.Len()
	rng := rand.New(rand.NewPCG(o.Seed, 0))
	g := &grower{data: b.data, leaves: o.Leaves, minRows: o.MinRows, features: o.Features, rng: rng}
	e := &Ensemble{Base: quantileOf(append([]float64(nil), answers...), o.Quantile)}
	// The value of a new tree is not subtracted from a row's residual at once, but when the row is next drawn. When a row
	// is drawn, the values of all trees since its last draw are subtracted, while the row's features are in the cache. In
	// a large table, most rows are rarely drawn.
	type state struct {
		residual   float64
		subtracted int // the number of trees whose values have been subtracted
	}
	states := make([]state, n)
	for i, y := range answers {
		states[i].residual = y - e.Base
	}
	gradient := make([]float32, n)
	rows := make([]int32, 0, n)
	var values []float64
	for range o.Rounds {
		rows = sample(rows[:0], n, min(o.Rows, float64(o.MaxRows)/float64(n)), rng)
		const part = 1024
		parallel((len(rows)+part-1)/part, 20*len(rows), func(p int) {
			x := make([]float32, t.Width)
			for _, i := range rows[p*part : min((p+1)*part, len(rows))] {
				copy(x, t.Row(int(i))) // loads the row into the cache
				s := &states[i]
				residual := s.residual
				for _, tree := range e.Trees[s.subtracted:] {
					residual -= tree.value(x)
				}
				*s = state{residual, len(e.Trees)}
				gradient[i] = slope(residual, o.Quantile)
			}
		})
		tree, leaves := g.grow(gradient, rows)
		if len(leaves) < 2 {
			break
		}
		for i, leaf := range leaves {
			values = values[:0]
			for _, r := range leaf {
				values = append(values, states[r].residual)
			}
			tree.leaves[i] = float32(o.Rate * quantileOf(values, o.Quantile))
		}
		e.Trees = append(e.Trees, tree)
	}
	return e
}

// slope returns the negative gradient of the pinball loss of a residual.
func slope(residual, quantile float64) float32 {
	switch {
	case residual > 0:
		return float32(quantile)
	case residual < 0:
		return float32(quantile - 1)
	}
	return 0
}

// sample returns each number below n with the probability share, and at least one number.
func sample(rows []int32, n int, share float64, rng *rand.Rand) []int32 {
	for i := range n {
		if share >= 1 || rng.Float64() < share {
			rows = append(rows, int32(i))
		}
	}
	if len(rows) == 0 {
		rows = append(rows, int32(rng.IntN(n)))
	}
	return rows
}

// quantileOf returns the q-quantile of values: the value with the rank floor(q*(n-1)+0.5), from 0.
// It reorders the values (Hoare's selection).
func quantileOf(values []float64, q float64) float64 {
	k := int(q*float64(len(values)-1) + 0.5)
	low, high := 0, len(values)-1
	for low < high {
		pivot := median3(values[low], values[(low+high)/2], values[high])
		i, j := low, high
		for i <= j {
			for values[i] < pivot {
				i++
			}
			for values[j] > pivot {
				j--
			}
			if i <= j {
				values[i], values[j] = values[j], values[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			high = j
		case k >= i:
			low = i
		default:
			return values[k]
		}
	}
	return values[k]
}

func median3(a, b, c float64) float64 {
	return max(min(a, b), min(max(a, b), c))
}
