package transform

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// TimeLimitAccuracy sets the time limits of a share (from 0 to 1) of the jobs to their run time
// multiplied by the factor, in whole seconds. The limit is at most the partition's limit, and at
// least the run time. Martinasso et al. (SC'18, section VIII.B) use "within 10 % of the actual run
// time", which is a factor of 1.1. A job that only its time limit ends keeps its limit, because
// its run time without the limit is unknown. The error says which argument is out of range.
func TimeLimitAccuracy(factor, share float64) (Step, error) {
	switch {
	case !(factor >= 1) || factor > 1e6:
		return Step{}, fmt.Errorf("%g: not a factor of the run time (want 1 or more, such as 1.1)", factor)
	case !(share >= 0 && share <= 1):
		return Step{}, fmt.Errorf("share %g: not a share of the jobs (want 0 to 1)", share)
	}
	text := fmt.Sprintf("--time-limit-accuracy %g", factor)
	if share < 1 {
		text += fmt.Sprintf(" --share %g", share)
	}
	return Step{text, func(w *workload.Workload, env *Environment) error {
		limits := newCaps(w, env)
		for i, job := range w.Jobs.All() {
			// Every job draws a number, so that the draws do not depend on earlier jobs.
			chosen := env.rng.Float64() < share
			run, ok := longestRun(job)
			if !ok || !chosen || job.TimeLimit > 0 && run >= job.TimeLimit {
				continue
			}
			limit := time.Duration(math.Ceil(run.Seconds()*factor-rounding)) * time.Second
			setLimit(job, max(min(limit, limits.of(job)), run, time.Second))
			w.Jobs.Set(i, job)
		}
		return nil
	}}, nil
}

// rounding, in seconds, prevents 1.1 x 3600 from becoming 3961.
const rounding = 1e-6

// ChangesLimits reports whether one of the steps of a workload ([workload.Workload.Transforms]) set time limits of
// jobs, so that these differ from the recorded limits.
func ChangesLimits(steps []string) bool {
	return slices.ContainsFunc(steps, func(step string) bool {
		option, _, _ := strings.Cut(step, " ")
		return slices.Contains([]string{"--time-limit-accuracy", "--time-limit-model", "--max-time-limit", "--limits-from",
			"--scale-runtime", "--chain"}, option)
	})
}

// setLimit sets the time limit. A minimum time limit (--time-min) is lowered if it would be longer.
func setLimit(job *hpc.Job, limit time.Duration) {
	job.TimeLimit = limit
	job.TimeMin = min(job.TimeMin, limit)
}

// The parameters of Tsafrir, Etsion and Feitelson, "Modeling User Runtime Estimates" (JSSPP
// 2005), with the values of the authors' program.
const (
	headSize  = 20   // the number of popular estimates
	headShare = 89.0 // the percentage of jobs that use a popular estimate

	// The percentage of jobs by popularity rank r, from 2 to 20: a*exp(b*r) + c.
	headA, headB, headC = 14.0491, -0.177531, 0.462513
	// The other jobs share the ranks from 21 on, where rank r has the weight r^b.
	tailB = -2.267
	// An estimate outside the head with relative rank x is the share (a-1)x/(a-x) of the largest
	// estimate, with a = 1 + p*K^q for K different estimates.
	timeP, timeQ = 12.1039, -0.6026
)

// popular are the estimates that are among the twenty most popular estimates in all four logs of Tsafrir, Etsion and
// Feitelson (JSSPP 2005).
var popular = []time.Duration{
	5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 20 * time.Minute, 30 * time.Minute,
	1 * time.Hour, 2 * time.Hour, 3 * time.Hour, 4 * time.Hour, 5 * time.Hour, 6 * time.Hour,
	8 * time.Hour, 10 * time.Hour, 12 * time.Hour, 18 * time.Hour,
}

// roundTimes are units, the largest first. The other popular estimates are multiples of them.
var roundTimes = []time.Duration{
	200 * time.Hour, 100 * time.Hour, 50 * time.Hour, 10 * time.Hour, 5 * time.Hour,
	2 * time.Hour, time.Hour, 20 * time.Minute, 10 * time.Minute, 5 * time.Minute,
}

// estimateCounts are the numbers of different estimates for numbers of jobs. Between the
// points the numbers are interpolated linearly.
var estimateCounts = []struct{ jobs, estimates float64 }{
	{0, 0}, {20, 10}, {200, 20}, {1000, 35}, {10000, 90}, {70000, 340}, {250000, 565},
}

// ModalEstimates gives the jobs of each partition time limits that resemble users' estimates, by the model of Tsafrir,
// Etsion and Feitelson (JSSPP 2005). A few round numbers cover nearly all jobs, and the largest number is the most
// popular. Beginning with the longest job, every job gets a random remaining estimate that is not shorter than its run
// time. The step fails for a partition without a time limit. The authors' program pairs popularity with length as in
// its four logs. ModalEstimates pairs popularity with length at random, except that the largest estimate is the most
// popular.
func ModalEstimates() Step {
	return Step{"--time-limit-model tsafrir", func(w *workload.Workload, env *Environment) error {
		limits := newCaps(w, env)
		byPartition := map[string][]estimated{}
		for i, job := range w.Jobs.All() {
			if run, ok := longestRun(job); ok && (job.TimeLimit == 0 || run < job.TimeLimit) {
				byPartition[job.Partition] = append(byPartition[job.Partition], estimated{i, run})
			}
		}
		for _, name := range sortedKeys(byPartition) {
			jobs := byPartition[name]
			longest := limits.of(w.Jobs.At(jobs[0].job))
			if longest == hpc.Unlimited {
				return fmt.Errorf("partition %q has no time limit, but the model needs one as the largest estimate", name)
			}
			assignEstimates(env.rng, w, jobs, drawEstimates(env.rng, len(jobs), longest))
		}
		return nil
	}}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// drawEstimates returns n estimates of at most longest, unordered.
func drawEstimates(rng *rand.Rand, n int, longest time.Duration) []time.Duration {
	head := headTimes(longest)
	different := max(int(math.Round(differentEstimates(n))), len(head))
	tail := tailTimes(longest, different-len(head), head)
	rng.Shuffle(len(head)-1, func(i, j int) { head[i+1], head[j+1] = head[j+1], head[i+1] })
	rng.Shuffle(len(tail), func(i, j int) { tail[i], tail[j] = tail[j], tail[i] })
	times := slices.Concat(head, tail)
	weights := popularity(len(head), len(tail))
	list := make([]time.Duration, n)
	for i := range list { // quantiles, not draws: the model gives the number of jobs for each estimate
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

// headTimes returns the popular estimates, the largest possible one first.
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

// differentEstimates returns the number of different estimates of n jobs.
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

// tailTimes returns n further estimates in whole minutes, or fewer if there are too few different
// estimates.
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

// popularity returns the share of the jobs that use each estimate, by rank.
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
	scale(list, 1) // the tail may be empty
	return list
}

// scale multiplies the numbers so that they add up to a total.
func scale(list []float64, total float64) {
	sum := 0.0
	for _, x := range list {
		sum += x
	}
	for i := range list {
		list[i] *= total / sum
	}
}

// estimated is a job, by its index in the workload, with its longest run time.
type estimated struct {
	job int
	run time.Duration
}

// assignEstimates gives every job one of the estimates that are not shorter than its run time. If
// no such estimate is left, the job gets its run time.
func assignEstimates(rng *rand.Rand, w *workload.Workload, jobs []estimated, estimates []time.Duration) {
	slices.SortFunc(estimates, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	slices.SortStableFunc(jobs, func(a, b estimated) int { return cmp.Compare(b.run, a.run) })
	var fits []time.Duration // estimates that are not yet taken, and long enough
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
