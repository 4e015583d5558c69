package stats

import (
	"cmp"
	"iter"
	"slices"
)

// Observation is a duration, such as a job's run time, with its weight.
type Observation struct {
	Time, Weight float64
	// Censored says that the duration had not ended when it was observed, so it is longer than Time.
	Censored bool
	// Entry is how much of the duration had passed when its observation began. A duration shorter than Entry would not
	// have been observed. Entry is 0 if the duration was observed from its beginning on.
	Entry float64
}

// ProductLimit estimates the distribution of a duration by the product-limit estimator (Kaplan and Meier,
// "Nonparametric estimation from incomplete observations", Journal of the American Statistical Association 53, 1958;
// with late entries Tsai, Jewell and Wang, "A note on the product-limit estimator under right censoring and left
// truncation", Biometrika 74(4), 1987). It yields each time that is not censored, in ascending order, with the
// estimated share of longer durations. If the longest observation is censored, the last share is above 0. Equal times
// are yielded one by one, by ascending weights; only the share of the last of these times is the estimate. If one
// duration is censored at the time at which another duration ends, the censored duration counts as longer.
// Observations that end at their entry do not count. ProductLimit sorts the list.
func ProductLimit(list []Observation) iter.Seq2[float64, float64] {
	slices.SortFunc(list, func(a, b Observation) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), compareBool(a.Censored, b.Censored), cmp.Compare(a.Weight, b.Weight))
	})
	return func(yield func(float64, float64) bool) {
		risk := 0.0 // the weight of the observations at risk, which have entered and have not ended
		var late []Observation
		for _, o := range list {
			switch {
			case o.Entry <= 0:
				risk += o.Weight
			case o.Entry < o.Time:
				late = append(late, o)
			}
		}
		slices.SortFunc(late, func(a, b Observation) int { return cmp.Compare(a.Entry, b.Entry) })
		longer := 1.0
		for _, o := range list {
			for len(late) > 0 && late[0].Entry < o.Time {
				risk += late[0].Weight
				late = late[1:]
			}
			if risk <= 0 || o.Entry > 0 && o.Entry >= o.Time {
				continue
			}
			if !o.Censored {
				longer *= 1 - min(o.Weight/risk, 1)
				if !yield(o.Time, longer) {
					return
				}
			}
			risk -= o.Weight
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
