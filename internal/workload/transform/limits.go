package transform

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// TimeLimitAccuracy gives a share (from 0 to 1) of the jobs the time limit factor times
// their run time, in full seconds, but not more than their partition allows and not less
// than they run (Martinasso et al., SC'18, section VIII.B: within 10 % of the actual run
// time is a factor of 1.1). A job that only its limit ends keeps it: how long it would
// have run is not known.
func TimeLimitAccuracy(factor, share float64) (Step, error) {
	switch {
	case !(factor >= 1) || factor > 1e6:
		return Step{}, fmt.Errorf("%g: not a factor of the run time (want 1 or more, as 1.1)", factor)
	case !(share >= 0 && share <= 1):
		return Step{}, fmt.Errorf("share %g: not a share of the jobs (want 0 to 1)", share)
	}
	text := fmt.Sprintf("--time-limit-accuracy %g", factor)
	if share < 1 {
		text += fmt.Sprintf(" --share %g", share)
	}
	return Step{text, func(w *workload.Workload, env *Environment) (int, error) {
		limits := newCaps(w, env)
		n := 0
		for i, job := range w.Jobs.All() {
			chosen := env.rng.Float64() < share // one number a job, whatever becomes of it
			run, ok := longestRun(job)
			if !ok || !chosen || job.TimeLimit > 0 && run >= job.TimeLimit {
				continue
			}
			limit := time.Duration(math.Ceil(run.Seconds()*factor-rounding)) * time.Second
			setLimit(job, max(min(limit, limits.of(job)), run, time.Second))
			w.Jobs.Set(i, job)
			n++
		}
		return n, nil
	}}, nil
}

// rounding, in seconds, keeps 1.1 x 3600 from becoming 3961.
const rounding = 1e-6

// setLimit sets the time limit. The least time, if one was asked for, cannot be longer.
func setLimit(job *hpc.Job, limit time.Duration) {
	job.TimeLimit = limit
	job.TimeMin = min(job.TimeMin, limit)
}

// The parameters of Tsafrir, Etsion and Feitelson, "Modeling User Runtime Estimates"
// (JSSPP 2005), as their program has them.
const (
	headSize  = 20   // so many estimates are popular
	headShare = 89.0 // per cent of the jobs use one of them

	// Per cent of the jobs by popularity rank r, 2 to 20: a*exp(b*r) + c.
	headA, headB, headC = 14.0491, -0.177531, 0.462513
	// And from 21 on, before they are scaled to what the head leaves: r^b.
	tailB = -2.267
	// A tail estimate of relative rank x is (a-1)x/(a-x) of the largest, where
	// a = 1 + p*K^q with K different estimates.
	timeP, timeQ = 12.1039, -0.6026
)

// popular are the estimates that are among the twenty most popular ones in all four
// logs of that paper.
var popular = []time.Duration{
	5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 20 * time.Minute, 30 * time.Minute,
	1 * time.Hour, 2 * time.Hour, 3 * time.Hour, 4 * time.Hour, 5 * time.Hour, 6 * time.Hour,
	8 * time.Hour, 10 * time.Hour, 12 * time.Hour, 18 * time.Hour,
}

// roundTimes are what the rest of the twenty are multiples of, the largest first.
var roundTimes = []time.Duration{
	200 * time.Hour, 100 * time.Hour, 50 * time.Hour, 10 * time.Hour, 5 * time.Hour,
	2 * time.Hour, time.Hour, 20 * time.Minute, 10 * time.Minute, 5 * time.Minute,
}

// estimateCounts say how many different estimates there are for so many jobs; between
// the points it is a straight line.
var estimateCounts = []struct{ jobs, estimates float64 }{
	{0, 0}, {20, 10}, {200, 20}, {1000, 35}, {10000, 90}, {70000, 340}, {250000, 565},
}

// ModalEstimates gives the jobs of each partition time limits as users estimate them,
// after the model of Tsafrir, Etsion and Feitelson (JSSPP 2005): a few round numbers
// have nearly all jobs, the largest one most. Every job gets an estimate at random among
// those that are left and not shorter than its run time, the longest job first.
//
// Unlike the authors' program, which pairs popularity with length after its four logs,
// it does so at random, except that the largest estimate is the most popular.
func ModalEstimates() Step {
	return Step{"--time-limit-model tsafrir", func(w *workload.Workload, env *Environment) (int, error) {
		limits := newCaps(w, env)
		byPartition := map[string][]estimated{}
		for i, job := range w.Jobs.All() {
			if run, ok := longestRun(job); ok && (job.TimeLimit == 0 || run < job.TimeLimit) {
				byPartition[job.Partition] = append(byPartition[job.Partition], estimated{i, run})
			}
		}
		n := 0
		for _, name := range sortedKeys(byPartition) {
			jobs := byPartition[name]
			longest := limits.of(w.Jobs.At(jobs[0].job))
			if longest == hpc.Unlimited {
				return 0, fmt.Errorf("partition %q has no time limit, and the model needs the largest estimate", name)
			}
			assignEstimates(env.rng, w, jobs, drawEstimates(env.rng, len(jobs), longest))
			n += len(jobs)
		}
		return n, nil
	}}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// drawEstimates returns n estimates of at most longest, in no order.
func drawEstimates(rng *rand.Rand, n int, longest time.Duration) []time.Duration {
	head := headTimes(longest)
	different := max(int(math.Round(differentEstimates(n))), len(head))
	tail := tailTimes(longest, different-len(head), head)
	rng.Shuffle(len(head)-1, func(i, j int) { head[i+1], head[j+1] = head[j+1], head[i+1] })
	rng.Shuffle(len(tail), func(i, j int) { tail[i], tail[j] = tail[j], tail[i] })
	times := slices.Concat(head, tail)
	weights := popularity(len(head), len(tail))
	list := make([]time.Duration, n)
	for i := range list { // quantiles, not draws: the model says how many use each
		u := (float64(i) + 0.5) / float64(n)
		k := 0
		for u >= weights[k] && k < len(weights)-1 {
			u -= weights[k]
			k++
		}
		list[i] = times[k]
	}
	return list
}

// headTimes are the popular estimates, the largest possible one first.
func headTimes(longest time.Duration) []time.Duration {
	list := []time.Duration{longest}
	for _, d := range popular {
		if d < longest {
			list = append(list, d)
		}
	}
	for _, step := range roundTimes {
		for d := longest / step * step; d > 0 && len(list) < headSize; d -= step {
			if !slices.Contains(list, d) {
				list = append(list, d)
			}
		}
	}
	return list
}

// differentEstimates is how many different estimates n jobs have.
func differentEstimates(n int) float64 {
	x := float64(n)
	for i, high := range estimateCounts[1:] {
		low := estimateCounts[i]
		if x <= high.jobs {
			return low.estimates + (x-low.jobs)/(high.jobs-low.jobs)*(high.estimates-low.estimates)
		}
	}
	return estimateCounts[len(estimateCounts)-1].estimates
}

// tailTimes are n further estimates in full minutes, or fewer where there are not so
// many different ones.
func tailTimes(longest time.Duration, n int, head []time.Duration) []time.Duration {
	a := 1 + timeP*math.Pow(float64(n+len(head)), timeQ)
	taken := map[time.Duration]bool{}
	for _, d := range head {
		taken[d] = true
	}
	var list []time.Duration
	for i := range n {
		x := float64(i+1) / float64(n)
		d := time.Duration((a - 1) * x / (a - x) * float64(longest)).Round(time.Minute)
		if d > 0 && d < longest && !taken[d] {
			taken[d] = true
			list = append(list, d)
		}
	}
	return list
}

// popularity is which share of the jobs uses each estimate, by rank.
func popularity(head, tail int) []float64 {
	list := make([]float64, head+tail)
	rest := headShare
	for r := 2; r <= head; r++ {
		list[r-1] = headA*math.Exp(headB*float64(r)) + headC
		rest -= list[r-1]
	}
	list[0] = rest
	for i := range tail {
		list[head+i] = math.Pow(float64(headSize+1+i), tailB)
	}
	scale(list[:head], headShare/100)
	scale(list[head:], 1-headShare/100)
	scale(list, 1) // there may be no tail
	return list
}

// scale makes the numbers add up to a total.
func scale(list []float64, total float64) {
	sum := 0.0
	for _, x := range list {
		sum += x
	}
	for i := range list {
		list[i] *= total / sum
	}
}

// estimated is a job, by its place in the workload, and its longest run time.
type estimated struct {
	job int
	run time.Duration
}

// assignEstimates gives every job one of the estimates that is not shorter than its run
// time, as far as there are any left, else its run time.
func assignEstimates(rng *rand.Rand, w *workload.Workload, jobs []estimated, estimates []time.Duration) {
	slices.SortFunc(estimates, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	slices.SortStableFunc(jobs, func(a, b estimated) int { return cmp.Compare(b.run, a.run) })
	var fits []time.Duration // not yet taken, and long enough
	for _, e := range jobs {
		for len(estimates) > 0 && estimates[0] >= e.run {
			fits, estimates = append(fits, estimates[0]), estimates[1:]
		}
		limit := max(e.run, time.Second)
		if n := len(fits); n > 0 {
			i := rng.IntN(n)
			limit = fits[i]
			fits[i] = fits[n-1]
			fits = fits[:n-1]
		}
		w.Jobs.Change(e.job, func(job *hpc.Job) { setLimit(job, limit) })
	}
}
