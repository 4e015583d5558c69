package stats

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Resamples is the usual number of bootstrap samples. The ends of a 95 % interval are then
// accurate to about 3 % of its width.
const Resamples = 1999

// Interval is an estimate with its confidence interval. Low and High are NaN if there are
// too few observations.
type Interval struct{ Estimate, Low, High float64 }

// Contains reports whether v is in the interval, including its ends.
func (i Interval) Contains(v float64) bool { return i.Low <= v && v <= i.High }

// BootstrapOptions say how [Bootstrap] computes an interval.
type BootstrapOptions struct {
	Level     float64 // confidence level in (0, 1); 0.95 if 0
	Resamples int     // [Resamples] if 0
	Seed      uint64
}

// Statistic is a number computed from one or more samples. The function must not store or change the
// samples.
type Statistic func(samples ...[]float64) float64

// Mean is the [Statistic] of one sample's mean.
func Mean(samples ...[]float64) float64 { return stat.Mean(samples[0], nil) }

// Difference is the [Statistic] mean(second) − mean(first).
func Difference(samples ...[]float64) float64 {
	return stat.Mean(samples[1], nil) - stat.Mean(samples[0], nil)
}

// Relative is the [Statistic] mean(second) / mean(first) − 1. It is NaN if the first mean
// is 0.
func Relative(samples ...[]float64) float64 {
	base := stat.Mean(samples[0], nil)
	if base == 0 {
		return math.NaN()
	}
	return stat.Mean(samples[1], nil)/base - 1
}

// Bootstrap returns the value of a statistic of independent samples with its expanded BCa interval
// (see the package comment). The statistic must be smooth: a mean is, a quantile is not. The
// interval is NaN if a sample has fewer than two observations. If nothing varies, both ends equal
// the estimate.
func Bootstrap(of Statistic, opts BootstrapOptions, samples ...[]float64) Interval {
	nan := math.NaN()
	for _, s := range samples {
		if len(s) == 0 {
			return Interval{nan, nan, nan}
		}
	}
	estimate := of(samples...)
	for _, s := range samples {
		if len(s) < 2 || math.IsNaN(estimate) {
			return Interval{estimate, nan, nan}
		}
	}
	jack := newJackknife(of, samples)
	if jack.variance == 0 {
		return Interval{estimate, estimate, estimate}
	}
	if opts.Resamples <= 0 {
		opts.Resamples = Resamples
	}
	if opts.Level <= 0 || opts.Level >= 1 {
		opts.Level = 0.95
	}
	values := resample(of, opts, samples)
	if len(values) == 0 {
		return Interval{estimate, nan, nan}
	}
	low, high := jack.interval(values, estimate, jack.tail(opts.Level))
	return Interval{estimate, low, high}
}

// interval returns the BCa interval between the normal quantiles −z and z, from the
// sorted values of the bootstrap samples (Efron 1987, equations 6.2 and 6.8).
func (j jackknife) interval(sorted []float64, estimate, z float64) (low, high float64) {
	normal := distuv.UnitNormal
	bias := normal.Quantile(clampTail(shareBelow(sorted, estimate), len(sorted)))
	end := func(z float64) float64 {
		shifted := bias + z
		p := normal.CDF(z * math.Inf(1)) // the largest bootstrap value, if the correction exceeds it
		if denominator := 1 - j.acceleration*shifted; denominator > 0 {
			p = normal.CDF(bias + shifted/denominator)
		}
		return stat.Quantile(p, stat.LinInterp, sorted, nil)
	}
	return end(-z), end(z)
}

// resample returns the sorted values of a statistic over bootstrap samples. Each sample is resampled
// independently. Undefined values are left out.
func resample(of Statistic, opts BootstrapOptions, samples [][]float64) []float64 {
	random := rand.New(rand.NewPCG(opts.Seed, 0xb007))
	drawn := make([][]float64, len(samples))
	for k, s := range samples {
		drawn[k] = make([]float64, len(s))
	}
	values := make([]float64, 0, opts.Resamples)
	for range opts.Resamples {
		for k, s := range samples {
			for i := range drawn[k] {
				drawn[k][i] = s[random.IntN(len(s))]
			}
		}
		if v := of(drawn...); !math.IsNaN(v) && !math.IsInf(v, 0) {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	return values
}

// shareBelow returns the share of sorted values below v. Values equal to v count half, because a
// mean of few discrete values often equals v exactly.
func shareBelow(sorted []float64, v float64) float64 {
	below, _ := slices.BinarySearch(sorted, v)
	above := below
	for above < len(sorted) && sorted[above] == v {
		above++
	}
	return float64(below+above) / 2 / float64(len(sorted))
}

// clampTail bounds a share of n values so that it is not 0 or 1, where the normal quantile is
// infinite.
func clampTail(p float64, n int) float64 {
	edge := 0.5 / float64(n)
	return min(max(p, edge), 1-edge)
}

// jackknife has the jackknife's estimates for a statistic. The jackknife leaves out one observation
// at a time.
type jackknife struct {
	acceleration float64 // BCa's acceleration a
	variance     float64 // variance of the statistic; for a mean, without bias
	narrow       float64 // the variance that the bootstrap has: (n−1)/n of each sample's share
	freedom      float64 // degrees of freedom after Welch and Satterthwaite
}

// newJackknife uses the empirical influence values l = (n−1)(θ(·) − θ(i)) of every
// sample (Davison and Hinkley, Bootstrap Methods and their Application, 1997,
// sections 2.7 and 5.3, equation 5.23 for several samples).
func newJackknife(of Statistic, samples [][]float64) jackknife {
	var j jackknife
	var cubes, squares, welch float64
	left := slices.Clone(samples)
	for k, s := range samples {
		n := float64(len(s))
		values := make([]float64, len(s))
		for i := range s {
			left[k] = slices.Delete(slices.Clone(s), i, i+1)
			values[i] = of(left...)
		}
		left[k] = s
		center := stat.Mean(values, nil)
		sum := 0.0
		for _, v := range values {
			l := (n - 1) * (center - v) / n
			sum += l * l
			cubes += l * l * l
		}
		squares += sum
		share := sum * n / (n - 1)
		j.variance += share
		j.narrow += sum
		welch += share * share / (n - 1)
	}
	if j.variance == 0 || math.IsNaN(j.variance) {
		j.variance = 0
		return j
	}
	j.acceleration = cubes / (6 * math.Pow(squares, 1.5))
	j.freedom = j.variance * j.variance / welch
	return j
}

// tail returns the normal quantile that makes percentiles as wide as Student's t at a
// confidence level (Hesterberg 2015, section 5.3).
func (j jackknife) tail(level float64) float64 {
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: j.freedom}.Quantile((1 + level) / 2)
	return t * math.Sqrt(j.variance/j.narrow)
}
