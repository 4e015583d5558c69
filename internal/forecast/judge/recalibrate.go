package judge

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"time"

	"rmreplay/internal/forecast"
	"rmreplay/internal/hpc"
	"rmreplay/internal/stats"
)

// Scale has the factors by which recalibration widens or narrows the intervals of a class. It also has the shares
// of starts that are in the intervals. The weights of jobs in these shares decay exponentially, so that the last jobs
// count most.
//
// The factors come from the starts of earlier jobs, as in conformal prediction (Vovk, Gammerman and Shafer,
// "Algorithmic Learning in a Random World", 2005): P10 and P90 become the quantiles of earlier [Residual] values. Three
// rules say how much a job counts:
//   - Only the first forecast of a job in a class counts, because a job that starts late is outside all its intervals.
//   - Jobs that still wait count as censored ([stats.ProductLimit]). If only starts counted, jobs that start early
//     would count first, and P90 would move inwards.
//   - Jobs of one instant start early or late together, for example after one long job. So n jobs count as
//     n/(1+(n-1)*alike) independent jobs (Kish, "Survey Sampling", 1965).
type Scale struct {
	// Low and High are factors. Low applies to the distance from P50 to P10, and High to the distance from P50 to
	// P90. They are results of [Judge.Scales], and not a part of the state.
	Low  float64 `json:"-"`
	High float64 `json:"-"`
	// Residuals are those of the last starts, in the order of the starts. States from older versions have none, so
	// such a class begins with the factors of a class without starts.
	Residuals []Residual `json:"residuals,omitempty"`
	// Raw and Covered are weighted shares of starts: Raw in the intervals of the realizations, Covered in the
	// recalibrated intervals.
	Raw     float64 `json:"raw"`
	Covered float64 `json:"covered"`
	// Jobs counts the jobs that started, or that wait beyond P90.
	Jobs int `json:"jobs"`
}

// Residual is the distance of a start from the median of a forecast.
type Residual struct {
	// At is the instant of the forecast.
	At hpc.Time `json:"at"`
	// Distance is above 0 for a start after the median, and then its unit is the distance from P50 to P90. It is below
	// 0 for a start before the median, and then its unit is the distance from P10 to P50.
	Distance float64 `json:"distance"`
	// Censored says that the residual is larger than Distance.
	Censored bool `json:"censored,omitempty"`
}

const (
	// miss is the share of starts that may be beyond each bound.
	miss = 0.1
	// alike is the correlation of the residuals of one instant.
	alike = 0.2
	// recent is the weight of the residuals that count in a class, as a number of independent jobs. stored is the
	// maximum number of stored residuals.
	recent, stored = 100, 1000
	// memory is the weight of the latest job in the shares, so that about the last 50 jobs count.
	memory = 0.02
	// widest is the largest factor.
	widest = 50
	// slack is added to each distance, so that a bound that equals the median can move.
	slack = time.Minute
	// Enough is the smallest number of jobs of a class for an alarm. It is also the weight of [prior].
	Enough = 20
	// poor is the coverage of recalibrated intervals below which forecasts of a class count as wrong.
	poor = 0.6
)

// factors are the factors of [Scale].
type factors struct{ low, high float64 }

// ClassOf returns the class of a forecast, by the lead time of its median, because the start is not known yet. It
// returns false if the median is not known.
func ClassOf(partition string, f *Forecast) (Class, bool) {
	if f.P50 >= forecast.Later {
		return Class{}, false
	}
	return Class{partition, leadOf(f.P50.Sub(f.At))}, true
}

func leadOf(lead time.Duration) int {
	return slices.IndexFunc(Leads, func(l Lead) bool { return lead < l.Ends })
}

// Recalibrate returns P10 and P90 of a forecast with the factors of its class. If a bound is not known, its result is
// not known either.
func (j *Judge) Recalibrate(partition string, f *Forecast) (p10, p90 hpc.Time) {
	class, known := ClassOf(partition, f)
	if !known {
		return f.P10, f.P90
	}
	return j.factors(class).apply(f)
}

// apply moves the bounds of a forecast with a known median. A bound that moves beyond the horizon becomes
// [forecast.Later], as a quantile of the realizations does.
func (by factors) apply(f *Forecast) (p10, p90 hpc.Time) {
	moved := func(distance time.Duration, by float64) time.Duration {
		return max(time.Duration(by*float64(distance+slack))-slack, 0).Round(time.Second)
	}
	p10, p90 = max(f.P50.Add(-moved(f.P50.Sub(f.P10), by.low)), min(f.At, f.P10)), f.P90
	if f.P90 < forecast.Later {
		p90 = f.P50.Add(moved(f.P90.Sub(f.P50), by.high))
	}
	if f.Horizon != 0 && p90 > f.Horizon {
		p90 = max(f.P90, forecast.Later)
	}
	return p10, p90
}

// residual returns the residual of a forecast with a known median. at is the start; or, if the job still waits, the
// last instant at which it waited.
func (f *Forecast) residual(at hpc.Time, started bool) Residual {
	over := func(a, b time.Duration) float64 { return float64(max(a, 0)+slack) / float64(max(b, 0)+slack) }
	r := Residual{f.At, -over(f.P50.Sub(at), f.P50.Sub(f.P10)), !started}
	switch {
	case at < f.P50:
	case f.P90 >= forecast.Later: // the start is after the median, but the unit is not known
		r.Distance, r.Censored = 0, true
	default:
		r.Distance = over(at.Sub(f.P50), f.P90.Sub(f.P50))
	}
	return r
}

// firsts yields the first forecast of a job in each class before an instant.
func (w *Waiting) firsts(before hpc.Time) iter.Seq2[Class, *Forecast] {
	return func(yield func(Class, *Forecast) bool) {
		seen := 0
		for i := range w.Forecasts {
			f := &w.Forecasts[i]
			class, known := ClassOf(w.Partition, f)
			if !known || f.At >= before || seen&(1<<class.Lead) != 0 {
				continue
			}
			if seen |= 1 << class.Lead; !yield(class, f) {
				return
			}
		}
	}
}

// recalibrate learns from the start of a job. For a job that still waits, start is the current instant, and started is
// false.
func (j *Judge) recalibrate(w *Waiting, start hpc.Time, started bool) {
	for class, f := range w.firsts(start) {
		counts := w.Learned&(1<<class.Lead) == 0 && (started || start > max(f.P90, f.C90))
		scale := j.scales[class]
		if scale == nil && (started || counts) {
			scale = &Scale{Raw: 1 - 2*miss, Covered: 1 - 2*miss}
			j.scales[class] = scale
		}
		if started {
			scale.Residuals = append(scale.Residuals, f.residual(start, true))
			scale.Residuals = scale.Residuals[max(len(scale.Residuals)-stored, 0):]
		}
		if !counts {
			continue
		}
		w.Learned |= 1 << class.Lead
		scale.Jobs++
		scale.Raw += memory * (one(f.P10 <= start && start <= f.P90) - scale.Raw)
		scale.Covered += memory * (one(cmp.Or(f.C10, f.P10) <= start && start <= cmp.Or(f.C90, f.P90)) - scale.Covered)
	}
	j.learned = nil
}

func one(so bool) float64 {
	if so {
		return 1
	}
	return 0
}

// observations returns the weighted residuals of each class, of jobs that started and of jobs that wait. The window
// of a class begins with an instant such that the later residuals of started jobs have the weight [recent].
func (j *Judge) observations() map[Class][]stats.Observation {
	all := map[Class][]Residual{}
	for class, s := range j.scales {
		all[class] = slices.Clone(s.Residuals)
	}
	for _, w := range j.waiting {
		until := max(w.seen, w.Forecasts[len(w.Forecasts)-1].At)
		for class, f := range w.firsts(until) {
			all[class] = append(all[class], f.residual(until, false))
		}
	}
	weighted := make(map[Class][]stats.Observation, len(all))
	for class, list := range all {
		same := map[hpc.Time]float64{}
		for _, r := range list {
			same[r.At]++
		}
		slices.SortFunc(list, func(a, b Residual) int {
			return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(a.Distance, b.Distance))
		})
		sum := 0.0
		for i, r := range list {
			if sum >= recent && r.At != list[i-1].At {
				break
			}
			weight := 1 / (1 + (same[r.At]-1)*alike)
			weighted[class] = append(weighted[class], stats.Observation{Time: r.Distance, Weight: weight, Censored: r.Censored})
			if !r.Censored {
				sum += weight
			}
		}
	}
	return weighted
}

// factors returns the factors of a class. They are learned in two steps: first from the residuals of all partitions
// with the same lead time, with a [prior] whose factors are 1; then from the class's own residuals, with a prior whose
// factors are the result of the first step.
func (j *Judge) factors(class Class) factors {
	if j.learned == nil {
		j.learned, j.pooled = map[Class]factors{}, make([]factors, len(Leads))
		observed := j.observations()
		all := make([][]stats.Observation, len(Leads))
		for class, list := range observed { // the order does not matter, because quantiles sorts the lists
			all[class.Lead] = append(all[class.Lead], list...)
		}
		for lead := range Leads {
			j.pooled[lead] = quantiles(all[lead], factors{1, 1}, 0)
		}
		for class, list := range observed {
			j.learned[class] = quantiles(list, j.pooled[class.Lead], meanWeight(list))
		}
	}
	if by, known := j.learned[class]; known {
		return by
	}
	return quantiles(nil, j.pooled[class.Lead], 0)
}

// prior is the number of residuals on each side of the median that quantiles adds. Their share beyond a distance x is
// 0.2^x, so that a tenth of all residuals is beyond 1 on each side.
const prior = 20

// meanWeight returns the mean weight of the observations of a class.
func meanWeight(list []stats.Observation) float64 {
	sum := 0.0
	for _, o := range list {
		sum += o.Weight
	}
	return sum / float64(len(list))
}

// quantiles returns the quantiles of residuals, with a prior that has the given factors. It changes the list. The job
// whose interval they make counts with the weight mass as beyond either bound, so that the interval covers enough jobs
// although the residuals are few (Tibshirani, Barber, Candès and Ramdas, "Conformal Prediction Under Covariate Shift",
// NeurIPS 2019). The bounds are residuals or values of the prior, and so never infinite.
func quantiles(list []stats.Observation, by factors, mass float64) factors {
	for i := range prior {
		x := math.Log((float64(i)+1)/prior) / math.Log(2*miss)
		for _, at := range [2]float64{-x * by.low, x * by.high} {
			list = append(list, stats.Observation{Time: at, Weight: Enough / (2.0 * prior)})
		}
	}
	if mass > 0 {
		for side := range 2 {
			list = append(list, stats.Observation{Time: math.Inf(2*side - 1), Weight: mass})
		}
	}
	const rounding = 1e-9
	low, high := math.NaN(), 0.0
	for at, longer := range stats.ProductLimit(list) {
		if math.IsInf(at, 0) {
			continue
		}
		if high = at; math.IsNaN(low) && longer <= 1-miss+rounding {
			low = at
		}
		if longer < miss-rounding {
			break
		}
	}
	return factors{min(max(-low, 0), widest), min(max(high, 0), widest)}
}

// Scaled is a class with its scale.
type Scaled struct {
	Class
	Scale
}

// Wrong reports whether too few starts were in the recalibrated intervals of the class. Its forecasts must then be
// shown as unreliable.
func (s *Scale) Wrong() bool { return s.Jobs >= Enough && s.Covered < poor }

// Scales returns the scales of all classes, in a fixed order.
func (j *Judge) Scales() []Scaled {
	list := []Scaled{}
	for class, s := range j.scales {
		one, by := Scaled{class, *s}, j.factors(class)
		one.Low, one.High = by.low, by.high
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b Scaled) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Lead, b.Lead))
	})
	return list
}

// Doubtful reports whether the recent forecasts of the same class were wrong too often.
func (j *Judge) Doubtful(partition string, f *Forecast) bool {
	class, known := ClassOf(partition, f)
	return known && j.scales[class] != nil && j.scales[class].Wrong()
}
