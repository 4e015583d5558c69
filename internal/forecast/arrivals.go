package forecast

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/forecast/rate"
	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/workload"
)

// Arrivals says which later submissions a forecast assumes.
type Arrivals string

const (
	// NoArrivals assumes no later submissions. The forecast is then too early for a job that later jobs can overtake.
	NoArrivals Arrivals = "none"
	// Recent repeats a random day of the last week, and draws the number of each submission again.
	Recent Arrivals = "recent"
	// Recorded uses the later submissions and events of the run that the queue comes from.
	Recorded Arrivals = "recorded"
)

const (
	// period is how far ahead submissions are repeated.
	period = 24 * time.Hour
	// week is the longest history that is repeated, and shortest is the shortest span that is repeated.
	week     = 7 * period
	shortest = time.Hour
)

// arrive adds later submissions to the workload of a realization.
//
// [Recent] is a Poisson bootstrap of a random day of the last week. If the history is shorter than a day, its last
// part, of random length, is repeated until the copies cover a day. Each job is submitted again k times, where k
// has a Poisson distribution. The mean of k is 1 or, if submissions follow the daily cycle, the ratio of the usual
// rates ([rate.Busy]) at the times of the new and of the old submission. A copy of an ended job runs as long as
// that job. If the job still runs or waits, the run time of its copy is drawn, because jobs that have not ended
// are mostly long. A job that was cancelled before its start is not submitted again. d contains the distributions
// of run times. d is empty if the run times are [True].
func (q *Queue) arrive(w *workload.Workload, d draws, opts Options, realization int) {
	switch opts.Arrivals {
	case Recorded:
		for _, job := range q.future.Jobs.All() {
			if job.Submit >= q.At {
				w.Jobs.Append(job)
			}
		}
		w.NodeEvents, w.Reservations, w.Actions = q.future.NodeEvents, q.future.Reservations, q.future.Actions
	case Recent:
		q.repeat(w, d, opts, realization)
	}
	w.Sort()
}

// recent returns the jobs of the last week, and the length of the known history.
func (q *Queue) recent() (list []predict.Case, known time.Duration) {
	list = since(q.History.List, q.At.Add(-week))
	if len(list) == 0 {
		return nil, 0
	}
	return list, max(q.At.Sub(q.History.List[0].At), time.Minute)
}

// since returns the jobs of a list that were submitted at an instant or later.
func since(list []predict.Case, at hpc.Time) []predict.Case {
	from, _ := slices.BinarySearchFunc(list, at, func(c predict.Case, at hpc.Time) int {
		if c.At < at {
			return -1
		}
		return 1
	})
	return list[from:]
}

// source draws the interval whose submissions a realization repeats. The interval begins at the queue's instant minus
// back, and has the length span.
func source(rng *rand.Rand, known time.Duration) (back, span time.Duration) {
	if days := int64(min(known, week) / period); days > 0 {
		return time.Duration(1+rng.Int64N(days)) * period, period
	}
	span = time.Duration(float64(known) * math.Pow(float64(min(known, shortest))/float64(known), rng.Float64()))
	return span, span
}

func (q *Queue) repeat(w *workload.Workload, d draws, opts Options, realization int) {
	list, known := q.recent()
	if len(list) == 0 {
		return
	}
	rng := rand.New(rand.NewPCG(opts.Seed, uint64(realization)))
	back, span := source(rng, known)
	usual := func(hpc.Time) float64 { return 1 }
	if span < period && rand.New(rand.NewPCG(opts.Seed, ^uint64(realization))).Float64() < q.cyclic(list) {
		usual = rate.Busy
	}
	list = since(list, q.At.Add(-back))
	list = list[:len(list)-len(since(list, q.At.Add(span-back)))]
	until, n := min(q.At.Add(period), opts.horizon(q.At)), 0
	for shift := back; shift < period+back; shift += span {
		for rest := list; len(rest) > 0; {
			var one []predict.Case
			one, rest = rest[:tasksAt(rest)], rest[tasksAt(rest):]
			at := one[0].At.Add(shift)
			for range rate.Poisson(rng, usual(at)/usual(one[0].At)) {
				if at < q.At || at >= until {
					continue
				}
				n++
				job := &hpc.Job{ID: "forecast-arrival-" + strconv.Itoa(n), Submit: at, Request: *one[0].Request}
				job.Dependency, job.Reservation, job.Name = "", "", ""
				if q.again(job, one, d, opts, realization) {
					w.Jobs.Append(job)
				}
			}
		}
	}
}

// tasksAt returns how many cases at the beginning of a list are tasks of one array. It returns 1 if the first case is
// not a task.
func tasksAt(list []predict.Case) int {
	n := 1
	for list[0].Request.Array != "" && n < len(list) && list[n].Job == list[0].Job {
		n++
	}
	return n
}

// again gives a job the run times of an earlier job, or of the tasks of an earlier array. It
// returns false if the earlier job was cancelled before it started.
func (q *Queue) again(job *hpc.Job, before []predict.Case, d draws, opts Options, realization int) bool {
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
		switch times := d.of(arrival(c)); {
		case c.Ran() && (c.End <= q.At || opts.RunTimes == True):
			ran = time.Duration(math.Round(c.Seconds())) * time.Second
		case times != nil:
			ran = runTime(times, job, task, q.elapsed(c), opts.Seed, realization)
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

// elapsed returns how many seconds a job of the history has run so far; 0 if it waits.
func (q *Queue) elapsed(c *predict.Case) float64 {
	if c.Start == 0 || c.Start > q.At {
		return 0
	}
	return q.At.Sub(c.Start).Seconds()
}

// arrival returns the key in [learned] for a job of the history.
func arrival(c *predict.Case) string { return "arrival\x00" + c.ID }

// cyclic returns the probability that the submissions of a list follow the usual daily cycle.
func (q *Queue) cyclic(list []predict.Case) float64 {
	var events []hpc.Time
	for rest := list; len(rest) > 0; rest = rest[tasksAt(rest):] {
		events = append(events, rest[0].At)
	}
	return rate.Cyclic(events, q.At)
}
