package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// rounding is the relative size of differences that arithmetic alone may make.
const rounding = 1e-12

// Intraclass returns the intraclass correlation of pairs, with its interval (Fisher, *Statistical Methods
// for Research Workers*, 1925, section 38: z = artanh r has a standard error of 1/√(n − 3/2)). The two
// numbers of a pair have no order. The correlation has no value for fewer than two pairs, and for
// pairs that do not vary. The interval has no value for fewer than four pairs.
func Intraclass(pairs [][2]float64, level float64) Interval {
	nothing := math.NaN()
	r := Interval{Estimate: nothing, Low: nothing, High: nothing}
	n := float64(len(pairs))
	if len(pairs) < 2 {
		return r
	}
	mean := 0.0
	for _, p := range pairs {
		mean += (p[0] + p[1]) / (2 * n)
	}
	var common, all float64
	for _, p := range pairs {
		a, b := p[0]-mean, p[1]-mean
		common += a * b
		all += (a*a + b*b) / 2
	}
	if all <= n*rounding*mean*rounding*mean { // the values are equal, and only their mean was rounded
		return r
	}
	r.Estimate = max(-1, min(1, common/all))
	if len(pairs) < 4 {
		return r
	}
	z, half := math.Atanh(r.Estimate), distuv.UnitNormal.Quantile((1+level)/2)/math.Sqrt(n-1.5)
	r.Low, r.High = math.Tanh(z-half), math.Tanh(z+half)
	return r
}
