package forecast

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
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
// from a Poisson distribution of mean 1. A job that has ended runs as long as it did. The run time of one that
// runs or waits is drawn, since the jobs that have not ended yet are mostly the long ones. A job that was
// cancelled before it started does not come again. l has the distributions; nil for true run times.
func (q *Queue) arrive(w *workload.Workload, l learned, opts Options, realization int) {
	switch opts.Arrivals {
	case Recorded:
		for _, job := range q.future.Jobs.All() {
			if job.Submit >= q.At {
				w.Jobs.Append(job)
			}
		}
		w.NodeEvents, w.Reservations, w.Actions = q.future.NodeEvents, q.future.Reservations, q.future.Actions
	case Recent:
		q.repeat(w, l, opts, realization)
	}
	w.Sort()
}

// recent returns the jobs of the last day, and for how long the history goes back from the instant, at most a
// day.
func (q *Queue) recent() (list []predict.Case, span time.Duration) {
	list = q.History.List
	from, _ := slices.BinarySearchFunc(list, q.At.Add(-period), func(c predict.Case, at hpc.Time) int {
		if c.At < at {
			return -1
		}
		return 1
	})
	list = list[from:]
	if len(list) == 0 {
		return nil, 0
	}
	if from == 0 { // the history is shorter than a day
		return list, min(period, max(q.At.Sub(list[0].At), time.Minute))
	}
	return list, period
}

func (q *Queue) repeat(w *workload.Workload, l learned, opts Options, realization int) {
	list, span := q.recent()
	if len(list) == 0 {
		return
	}
	rng := rand.New(rand.NewPCG(opts.Seed, uint64(realization)))
	n := 0
	for shift := span; shift < period+span; shift += span {
		for rest := list; len(rest) > 0; {
			var one []predict.Case
			one, rest = rest[:tasksAt(rest)], rest[tasksAt(rest):]
			at := one[0].At.Add(shift)
			for range poisson(rng) {
				if at < q.At || at >= q.At.Add(period) {
					continue
				}
				n++
				job := &hpc.Job{ID: "forecast-arrival-" + strconv.Itoa(n), Submit: at, Request: *one[0].Request}
				job.Dependency, job.Reservation, job.Name = "", "", ""
				if q.again(job, one, l, opts, realization) {
					w.Jobs.Append(job)
				}
			}
		}
	}
}

// tasksAt returns how many cases at the beginning of a list are tasks of one array; 1 if the first is not a task.
func tasksAt(list []predict.Case) int {
	n := 1
	for list[0].Request.Array != "" && n < len(list) && list[n].Job == list[0].Job {
		n++
	}
	return n
}

// again gives a job the run times of a job that came before, or of the tasks of an array. It reports false if
// that was cancelled before it started.
func (q *Queue) again(job *hpc.Job, before []predict.Case, l learned, opts Options, realization int) bool {
	array, limit, limited := strings.Cut(job.Array, "%")
	comes := false
	var tasks []string
	for i := range before {
		c := &before[i]
		if c.Gone != 0 && c.Gone <= q.At {
			continue
		}
		comes = true
		task := -1
		if array != "" {
			name := c.ID[strings.LastIndexByte(c.ID, '_')+1:]
			task, _ = strconv.Atoi(name) // the name is a number: see [predict.CasesOf]
			tasks = append(tasks, name)
		}
		ran := hpc.Unlimited
		switch d := l[arrival(c)]; {
		case c.Ran() && (c.End <= q.At || opts.RunTimes == True):
			ran = time.Duration(math.Round(c.Seconds())) * time.Second
		case d != nil:
			ran = l.runTime(d, job, task, q.elapsed(c), opts.Seed, realization)
		}
		if job.RunTime = ran; task >= 0 {
			if job.TaskRunTimes == nil {
				job.TaskRunTimes = map[int]time.Duration{}
			}
			job.TaskRunTimes[task] = ran
		}
	}
	if job.Array = strings.Join(tasks, ","); limited {
		job.Array += "%" + limit
	}
	return comes
}

// elapsed returns for how many seconds a job of the history has run; 0 if it waits.
func (q *Queue) elapsed(c *predict.Case) float64 {
	if c.Start == 0 || c.Start > q.At {
		return 0
	}
	return q.At.Sub(c.Start).Seconds()
}

// arrival names the distribution of a job of the history.
func arrival(c *predict.Case) string { return "arrival\x00" + c.ID }

// poisson draws from the Poisson distribution of mean 1 (Knuth's method).
func poisson(rng *rand.Rand) (n int) {
	for p := rng.Float64(); p > 1/math.E; p *= rng.Float64() {
		n++
	}
	return n
}
