package ioservice

import "math"

// Estimate is the expected value and the variance of a quantity (rate or run time) of a class's
// jobs. Newer jobs have more weight: each further job multiplies the weights of all earlier jobs by
// 1-decay. The zero value is an estimate without jobs.
type Estimate struct {
	Mean     float64 `json:"mean"`
	Variance float64 `json:"variance"`
	Count    float64 `json:"count"` // sum of the jobs' weights
	Sum      float64 `json:"sum"`   // weighted sum of the jobs' values
}

// Add returns the estimate after one more job. x is the job's mean, and v is the variance within
// the job. The formulas come from the Slurm-LDMS project's analytical services; a is the decay:
//
//	C' = 1 + (1-a) C
//	S' = x + (1-a) S
//	A' = S' / C'
//	V' = (v + (x-A')² + (1-a) C (V + (A-A')²)) / C'
func (e Estimate) Add(x, v, decay float64) Estimate {
	kept := (1 - decay) * e.Count
	next := Estimate{Count: 1 + kept, Sum: x + (1-decay)*e.Sum}
	next.Mean = next.Sum / next.Count
	next.Variance = (v + square(x-next.Mean) + kept*(e.Variance+square(e.Mean-next.Mean))) / next.Count
	return next
}

func square(x float64) float64 { return x * x }

// Predict returns (mean + sigmas x standard deviation) x factor, rounded up.
func (e Estimate) Predict(sigmas, factor float64) int64 {
	return ceil((e.Mean + sigmas*math.Sqrt(max(0, e.Variance))) * factor)
}

// ceil rounds up to an integer; values outside the range of int64 become its limits. It does not
// round up an excess of less than a billionth, which is a rounding error.
func ceil(x float64) int64 {
	if !math.IsInf(x, 0) {
		x = math.Ceil(x - 1e-9*max(1, math.Abs(x)))
	}
	switch {
	case x >= math.MaxInt64:
		return math.MaxInt64
	case x <= math.MinInt64 || math.IsNaN(x):
		return 0
	}
	return int64(x)
}
