package judge

import (
	"cmp"
	"math"
	"slices"
	"time"

	"rmreplay/internal/forecast"
	"rmreplay/internal/hpc"
)

// Scale has the factors by which recalibration widens or narrows the intervals of a class. It also has the shares
// of starts that are in the intervals. The weights of jobs decay exponentially, so that the last jobs count most.
//
// Each bound moves as in adaptive conformal inference (Gibbs and Candès, "Adaptive conformal inference under
// distribution shift", NeurIPS 2021), on a logarithmic scale of its distance from the median. A bound moves outwards by
// step*(1-miss) if a start is beyond it, and otherwise inwards by step*miss. As the bound moves, the share of starts
// beyond it approaches the constant miss for any sequence of starts. Only the first forecast of a job in a class
// counts, because a job that starts late is outside all its intervals. A job that still waits counts as late when its
// P90 has passed. If only starts counted, jobs that start early would count first, and P90 would move inwards.
type Scale struct {
	// Low and High are logarithms of factors. Low applies to the distance from P50 to P10, and High
	// to the distance from P50 to P90.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Raw and Covered are weighted shares of starts: Raw in the intervals of the realizations, Covered in the
	// recalibrated intervals.
	Raw     float64 `json:"raw"`
	Covered float64 `json:"covered"`
	// Jobs counts the jobs that started, or that wait beyond P90.
	Jobs int `json:"jobs"`
}

const (
	// miss is the share of starts that may be beyond each bound.
	miss = 0.1
	// step is the size of a bound's move. memory is the weight of the latest job in the shares, so that about the
	// last 50 jobs count.
	step   = 0.1
	memory = 0.02
	// widest is the largest size of the logarithms: e^4 is a factor of 55.
	widest = 4
	// slack is added to each distance, so that a bound that equals the median can move.
	slack = time.Minute
	// Enough is the smallest number of jobs of a class for an alarm. It is also the weight of a factor of 1 in
	// [Judge.scale].
	Enough = 20
	// poor is the coverage of recalibrated intervals below which forecasts of a class count as wrong.
	poor = 0.6
)

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

// Recalibrate returns P10 and P90 of a forecast with the scale of its class. If a bound is not known, its result is
// not known either.
func (j *Judge) Recalibrate(partition string, f *Forecast) (p10, p90 hpc.Time) {
	class, known := ClassOf(partition, f)
	if !known {
		return f.P10, f.P90
	}
	return j.scale(class).apply(f)
}

// scale returns the scale of a class. A class without jobs has the mean of the other partitions' scales for the same
// lead time, weighted by their numbers of jobs. In this mean, a factor of 1 has the weight of [Enough] jobs.
func (j *Judge) scale(class Class) *Scale {
	if s := j.scales[class]; s != nil {
		return s
	}
	s, weight := &Scale{Raw: 1 - 2*miss, Covered: 1 - 2*miss}, float64(Enough)
	for _, other := range j.Scales() { // in a fixed order, so that equal data give equal sums
		if other.Lead == class.Lead {
			weight += float64(other.Jobs)
			s.Low += (other.Low - s.Low) * float64(other.Jobs) / weight
			s.High += (other.High - s.High) * float64(other.Jobs) / weight
		}
	}
	return s
}

// apply moves the bounds of a forecast with a known median. A bound that moves beyond the horizon becomes
// [forecast.Later], as a quantile of the realizations does.
func (s *Scale) apply(f *Forecast) (p10, p90 hpc.Time) {
	moved := func(distance time.Duration, by float64) time.Duration {
		return max(time.Duration(math.Exp(by)*float64(distance+slack))-slack, 0).Round(time.Second)
	}
	p10, p90 = max(f.P50.Add(-moved(f.P50.Sub(f.P10), s.Low)), min(f.At, f.P10)), f.P90
	if f.P90 < forecast.Later {
		p90 = f.P50.Add(moved(f.P90.Sub(f.P50), s.High))
	}
	if f.Horizon != 0 && p90 > f.Horizon {
		p90 = max(f.P90, forecast.Later)
	}
	return p10, p90
}

// recalibrate changes the scales after the start of a job. For a job that still waits, start is
// the current instant, and started is false.
func (j *Judge) recalibrate(w *Waiting, start hpc.Time, started bool) {
	seen := w.Learned
	for i := range w.Forecasts {
		f := &w.Forecasts[i]
		class, known := ClassOf(w.Partition, f)
		if !known || f.At >= start || seen&(1<<class.Lead) != 0 {
			continue
		}
		seen |= 1 << class.Lead
		scale := j.scale(class)
		p10, p90 := scale.apply(f)
		if !started && start <= max(p90, f.P90, f.C90) {
			continue
		}
		w.Learned |= 1 << class.Lead
		j.scales[class] = scale
		scale.Jobs++
		move := func(at *float64, beyond bool) {
			*at = min(max(*at+step*(one(beyond)-miss), -widest), widest)
		}
		move(&scale.Low, start < p10)
		move(&scale.High, start > p90)
		scale.Raw += memory * (one(f.P10 <= start && start <= f.P90) - scale.Raw)
		scale.Covered += memory * (one(cmp.Or(f.C10, f.P10) <= start && start <= cmp.Or(f.C90, f.P90)) - scale.Covered)
	}
}

func one(so bool) float64 {
	if so {
		return 1
	}
	return 0
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
		list = append(list, Scaled{class, *s})
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
