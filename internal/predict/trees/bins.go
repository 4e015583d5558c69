// Package trees trains ensembles of regression trees on histograms of the features: gradient
// boosting with the loss of a quantile, and random forests.
//
// In each step of a tree's growth, the leaf with the best split is divided. Splits are found from
// histograms of at most 256 bins for each feature. A leaf's histogram is computed as its parent's
// minus its sibling's (Ke et al., "LightGBM: a highly efficient gradient boosting decision tree",
// NeurIPS 2017). A missing value, NaN, counts as lower than every value, and has a separate bin.
//
// The same data and seed give the same trees on any number of processors.
package trees

import (
	"math"
	"runtime"
	"slices"
	"sync"
)

// Table is a set of examples. Row i has the features X[i*Width:(i+1)*Width] and the answer Y[i],
// which must be finite.
type Table struct {
	Width int
	X     []float32
	Y     []float64
}

// Len returns the number of rows.
func (t *Table) Len() int { return len(t.Y) }

// Row returns the features of row i.
func (t *Table) Row(i int) []float32 { return t.X[i*t.Width : (i+1)*t.Width] }

// Reserve makes room for this total number of rows. Without it, a large table is copied several
// times as it grows.
func (t *Table) Reserve(rows int) {
	t.X = slices.Grow(t.X, max(rows*t.Width-len(t.X), 0))
	t.Y = slices.Grow(t.Y, max(rows-len(t.Y), 0))
}

const (
	// maxBins is the number of bins of a feature, including the bin of missing values.
	maxBins = 256
	// For a large table, the bounds of the bins are computed from every k-th row. The number of sampled rows is between
	// binSample and 2 x binSample.
	binSample = 50000
)

// binned is a table with each value replaced by its bin. Bin 0 is for missing values. A value v is
// in bin b if bounds[b-1] < v <= bounds[b], where bounds[0] is below every value.
type binned struct {
	rows    int
	columns []column // the features that have more than one value
}

type column struct {
	feature int
	bounds  []float32
	bins    []uint8
}

// bin sorts a table into bins.
func bin(t *Table) *binned {
	b := &binned{rows: t.Len()}
	all := make([]column, t.Width)
	parallel(t.Width, t.Width*t.Len(), func(f int) { all[f] = newColumn(t, f) })
	for _, c := range all {
		if c.bins != nil {
			b.columns = append(b.columns, c)
		}
	}
	const part = 256 // rows whose features stay in the cache
	parallel((t.Len()+part-1)/part, t.Width*t.Len(), func(p int) {
		from, to := p*part, min((p+1)*part, t.Len())
		for i := range b.columns {
			c := &b.columns[i]
			for row := from; row < to; row++ {
				c.bins[row] = c.bin(t.X[row*t.Width+c.feature])
			}
		}
	})
	return b
}

// newColumn returns the column of a feature, with bins that are not filled. The column of a
// constant feature has no bins.
func newColumn(t *Table, f int) column {
	step := max(t.Len()/binSample, 1)
	var values []float32
	hasMissing := false
	for i := 0; i < t.Len(); i += step {
		if v := t.X[i*t.Width+f]; v == v {
			values = append(values, v)
		} else {
			hasMissing = true
		}
	}
	slices.Sort(values)
	c := column{feature: f, bounds: bounds(values)}
	if len(c.bounds) <= 2 && !hasMissing || len(values) == 0 {
		return column{}
	}
	c.bins = make([]uint8, t.Len())
	return c
}

// bounds returns the upper bounds of the bins of sorted values. The bins have about equal counts,
// but equal values are always in one bin.
func bounds(values []float32) []float32 {
	list := []float32{-math.MaxFloat32}
	if len(values) == 0 {
		return list
	}
	distinct := slices.Compact(slices.Clone(values))
	if len(distinct) < maxBins {
		list = append(list, distinct...)
	} else {
		for b := 1; b < maxBins; b++ {
			v := values[b*len(values)/maxBins]
			if v > list[len(list)-1] {
				list = append(list, v)
			}
		}
		if last := distinct[len(distinct)-1]; len(list) < maxBins && last > list[len(list)-1] {
			list = append(list, last)
		}
	}
	return list
}

// bin returns the bin of a value. A value above the last bound is in the last bin.
func (c *column) bin(v float32) uint8 {
	if v != v {
		return 0
	}
	low := 0 // the first low bounds are below v; the first bound that is not below v is among the next n bounds
	n := len(c.bounds)
	for n > 1 { // written without a branch that the CPU often predicts wrong
		half := n / 2
		low += half & -one(v > c.bounds[low+half-1])
		n -= half
	}
	low += one(v > c.bounds[low])
	return uint8(max(min(low, len(c.bounds)-1), 1))
}

// parallel calls the function work with each number below n. It uses all processors if there is
// enough work. The parameter load is the number of simple operations of all calls together.
func parallel(n, load int, work func(i int)) {
	const worthwhile = 100000
	workers := min(runtime.GOMAXPROCS(0), n)
	if load < worthwhile {
		workers = 1
	}
	var group sync.WaitGroup
	for w := 1; w < workers; w++ {
		group.Go(func() {
			for i := w; i < n; i += workers {
				work(i)
			}
		})
	}
	for i := 0; i < n; i += max(workers, 1) {
		work(i)
	}
	group.Wait()
}
