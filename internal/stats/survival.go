package stats

import (
	"cmp"
	"iter"
	"slices"
)

// Observation is a duration, such as a job's run time, with its weight. A censored one had not ended when
// it was observed, so it is longer than Time.
type Observation struct {
	Time, Weight float64
	Censored     bool
}

// ProductLimit estimates the distribution of a duration by the product-limit estimator (Kaplan and Meier,
// "Nonparametric estimation from incomplete observations", Journal of the American Statistical
// Association 53, 1958). It yields each time that is not censored, in ascending order, with the estimated
// share of longer durations. If the longest observation is censored, the last share is above 0. Equal times
// are yielded one by one, by ascending weights and censored ones last: the last share counts. ProductLimit
// sorts the list.
func ProductLimit(list []Observation) iter.Seq2[float64, float64] {
	slices.SortFunc(list, func(a, b Observation) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Weight, b.Weight), compareBool(a.Censored, b.Censored))
	})
	return func(yield func(float64, float64) bool) {
		rest := 0.0 // the weight of the observations that are not shorter
		for _, o := range list {
			rest += o.Weight
		}
		longer := 1.0
		for _, o := range list {
			if rest <= 0 {
				return
			}
			if !o.Censored {
				longer *= 1 - min(o.Weight/rest, 1)
				if !yield(o.Time, longer) {
					return
				}
			}
			rest -= o.Weight
		}
	}
}

// compareBool puts false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
