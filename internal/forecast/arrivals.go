package forecast

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/workload"
)

// Arrivals says which later submissions a forecast assumes.
type Arrivals string

const (
	// NoArrivals: nobody submits a job. The forecast is then too early where later jobs can
	// overtake those that wait.
	NoArrivals Arrivals = "none"
	// Recent repeats the submissions of the last day, drawn anew for each realization.
	Recent Arrivals = "recent"
	// Recorded takes everything that came later in a frozen run.
	Recorded Arrivals = "recorded"
)

// period is how far back recent submissions reach, and how far ahead they are repeated.
const period = 24 * time.Hour

// arrive adds later submissions to the workload of a realization.
//
// [Recent] is a Poisson bootstrap: each job of the last day (or of the shorter history, which is
// repeated until a day is full) comes again at the same time of the day k times, where k is drawn
// from a Poisson distribution of mean 1. A job that has ended runs as long as it did.
func (q *Queue) arrive(w *workload.Workload, opts Options, realization int) {
	switch opts.Arrivals {
	case Recorded:
		for _, job := range q.future.Jobs.All() {
			if job.Submit >= q.At {
				w.Jobs.Append(job)
			}
		}
		w.NodeEvents, w.Reservations, w.Actions = q.future.NodeEvents, q.future.Reservations, q.future.Actions
	case Recent:
		q.repeat(w, opts.Seed, realization)
	}
	w.Sort()
}

func (q *Queue) repeat(w *workload.Workload, seed uint64, realization int) {
	list := q.History.List
	from, _ := slices.BinarySearchFunc(list, q.At.Add(-period), func(c predict.Case, at hpc.Time) int {
		if c.At < at {
			return -1
		}
		return 1
	})
	list = list[from:]
	if len(list) == 0 {
		return
	}
	span := period
	if from == 0 { // the history is shorter than a day
		span = min(span, max(q.At.Sub(list[0].At), time.Minute))
	}
	rng := rand.New(rand.NewPCG(seed, uint64(realization)))
	n := 0
	for shift := span; shift < period+span; shift += span {
		for i := range list {
			c := &list[i]
			at := c.At.Add(shift)
			for range poisson(rng) {
				if at < q.At || at >= q.At.Add(period) {
					continue
				}
				n++
				job := &hpc.Job{ID: "forecast-arrival-" + strconv.Itoa(n), Submit: at, Request: *c.Request}
				job.Array, job.Dependency, job.Reservation, job.Name = "", "", "", ""
				job.RunTime = hpc.Unlimited
				if c.Ran() && c.End <= q.At {
					job.RunTime = time.Duration(math.Round(c.Seconds())) * time.Second
				}
				w.Jobs.Append(job)
			}
		}
	}
}

// poisson draws from the Poisson distribution of mean 1 (Knuth's method).
func poisson(rng *rand.Rand) (n int) {
	for p := rng.Float64(); p > 1/math.E; p *= rng.Float64() {
		n++
	}
	return n
}
