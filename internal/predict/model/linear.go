package model

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"

	"rmreplay/internal/predict/trees"
)

// linear is a ridge regression of the run time in seconds on the standardized features (Hoerl and
// Kennard, "Ridge regression: biased estimation for nonorthogonal problems", Technometrics 12(1),
// 1970). A missing feature has the feature's mean.
type linear struct {
	Mean      []float64 `json:"mean"`
	Weight    []float64 `json:"weight"` // the factor of the feature less its mean
	Intercept float64   `json:"intercept"`
}

// ridge is the penalty of the squared weights, for each row.
const ridge = 1e-3

var errSingular = errors.New("training the linear model: the features give no unique solution")

// fitLinear solves (X'X + λnI) w = X'y for standardized features.
func fitLinear(t *trees.Table) (*linear, error) {
	n, width := t.Len(), t.Width
	l := &linear{Mean: make([]float64, width), Weight: make([]float64, width)}
	deviation := make([]float64, width)
	for f := range width {
		l.Mean[f], deviation[f] = moments(t, f)
	}
	for _, y := range t.Y {
		l.Intercept += y / float64(n)
	}
	gram := mat.NewSymDense(width, nil)
	product := mat.NewVecDense(width, nil)
	z := mat.NewVecDense(width, nil)
	for i := range n {
		for f, v := range t.Row(i) {
			standard := 0.0
			if v == v && deviation[f] > 0 {
				standard = (float64(v) - l.Mean[f]) / deviation[f]
			}
			z.SetVec(f, standard)
		}
		gram.SymRankOne(gram, 1, z)
		product.AddScaledVec(product, t.Y[i]-l.Intercept, z)
	}
	for f := range width {
		gram.SetSym(f, f, gram.At(f, f)+ridge*float64(n))
	}
	var solver mat.Cholesky
	if !solver.Factorize(gram) {
		return nil, errSingular
	}
	weight := mat.NewVecDense(width, l.Weight)
	if err := solver.SolveVecTo(weight, product); err != nil {
		return nil, errSingular
	}
	for f, d := range deviation {
		if d > 0 {
			l.Weight[f] /= d
		} else {
			l.Weight[f] = 0
		}
	}
	return l, nil
}

// moments returns the mean and the standard deviation of a feature over the rows in which the
// feature is not missing.
func moments(t *trees.Table, f int) (mean, deviation float64) {
	var count, squares float64
	for i := range t.Len() {
		if v := float64(t.X[i*t.Width+f]); v == v {
			count++
			d := v - mean
			mean += d / count
			squares += d * (v - mean)
		}
	}
	if count == 0 {
		return 0, 0
	}
	return mean, math.Sqrt(squares / count)
}

// seconds returns the prediction.
func (l *linear) seconds(x []float32) float64 {
	sum := l.Intercept
	for f, v := range x {
		if v == v {
			sum += l.Weight[f] * (float64(v) - l.Mean[f])
		}
	}
	return sum
}
