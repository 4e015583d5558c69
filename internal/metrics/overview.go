package metrics

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/waits"
)

// Overview answers an administrator's first questions about a run: how its jobs ended, who used the
// machine, who waited, and when. Waits are defined as in [Metrics]: jobs that never started, preset
// jobs and jobs with inconsistent times have no wait.
type Overview struct {
	Jobs         int               // jobs of the record, rejected jobs included ([JobsOf])
	States       map[hpc.State]int // states of all jobs, also [hpc.Rejected]
	NeverStarted int               // accepted jobs that ended before they started
	Preset       int               // jobs that ran when the window began

	// FirstSubmit and LastSubmit bound the submissions of all jobs except preset jobs. FirstStart
	// and LastEnd bound the runs of jobs.
	FirstSubmit, LastSubmit, FirstStart, LastEnd hpc.Time

	// Usage is what each partition, account and user used, in descending order of processor seconds.
	Usage map[By][]Usage
	// Hours are the waits by the hour of the week of the submission, from Monday 0 h in the
	// zone of the options.
	Hours [168]Waits
	// Longest are the jobs that waited longest, the longest wait first.
	Longest []*run.Row
}

// JobsOf returns the number of jobs that a row counts as: the number of tasks for a rejected array, which has one row,
// and 1 for any other row.
func JobsOf(r *run.Row) int {
	if r.State == hpc.Rejected && strings.Contains(r.Request, `"array"`) {
		if job, err := run.DecodeJob([]byte(r.Request)); err == nil {
			return len(hpc.TasksOf(job))
		}
	}
	return 1
}

// CountJobs returns the number of jobs of rows ([JobsOf]).
func CountJobs(rows []run.Row) (n int) {
	for i := range rows {
		n += JobsOf(&rows[i])
	}
	return n
}

// Waits sum up the waits of some jobs.
type Waits struct {
	Jobs    int // jobs that have a wait
	Seconds float64
	Longest float64 // seconds
}

// Mean returns the mean wait in seconds. It is NaN without jobs.
func (w *Waits) Mean() Float { return ratio(w.Seconds, float64(w.Jobs)) }

func (w *Waits) add(seconds float64) {
	w.Jobs++
	w.Seconds += seconds
	w.Longest = max(w.Longest, seconds)
}

// Usage is what one partition, account or user used, in a run with a window since the window's start.
type Usage struct {
	Name             string // empty for jobs without the property
	Jobs             int    // accepted and rejected
	ProcessorSeconds float64
	GPUSeconds       float64
	Waits            Waits
}

// OverviewBy are the groupings of [Overview.Usage].
var OverviewBy = []By{ByPartition, ByAccount, ByUser}

// longestWaits is the number of jobs in [Overview.Longest].
const longestWaits = 10

// NewOverview reads the rows once. Jobs that still run count as running until the given
// instant. The rows must not change as long as the overview is used.
func NewOverview(rows []run.Row, opts Options, until hpc.Time) *Overview {
	zone := opts.Zone
	if zone == nil {
		zone = time.UTC
	}
	o := &Overview{States: make(map[hpc.State]int), Usage: make(map[By][]Usage)}
	usage := make([]map[string]*Usage, len(OverviewBy))
	for i := range usage {
		usage[i] = make(map[string]*Usage)
	}
	var held []run.Segment
	for i := range rows {
		r := &rows[i]
		o.count(r, opts)
		held = r.AppendHeld(held[:0])
		processors, gpus := heldSeconds(r, held, opts.Window, until)
		wait, waited := waitOf(r, opts)
		if waited {
			o.Hours[hourOfWeek(r.Submit, zone)].add(wait)
			o.addLongest(r, wait)
		}
		for k, by := range OverviewBy {
			name := keyOf(r, by).name
			u := usage[k][name]
			if u == nil {
				u = &Usage{Name: name}
				usage[k][name] = u
			}
			u.Jobs += JobsOf(r)
			u.ProcessorSeconds += processors
			u.GPUSeconds += gpus
			if waited {
				u.Waits.add(wait)
			}
		}
	}
	for k, by := range OverviewBy {
		o.Usage[by] = sortedUsage(usage[k])
	}
	return o
}

// count counts a job by its state, and extends the bounds of the run.
func (o *Overview) count(r *run.Row, opts Options) {
	o.Jobs += JobsOf(r)
	o.States[r.State] += JobsOf(r)
	preset := r.Preset(opts.Window)
	switch {
	case preset:
		o.Preset++
	case r.Submit != 0:
		if o.FirstSubmit == 0 || r.Submit < o.FirstSubmit {
			o.FirstSubmit = r.Submit
		}
		o.LastSubmit = max(o.LastSubmit, r.Submit)
	}
	if r.State == hpc.Rejected {
		return
	}
	if r.FirstStart() == 0 && r.State != hpc.Pending {
		o.NeverStarted++
	}
	if r.Start == 0 {
		return
	}
	if o.FirstStart == 0 || r.Start < o.FirstStart {
		o.FirstStart = r.Start
	}
	o.LastEnd = max(o.LastEnd, r.End)
}

// addLongest adds a job to [Overview.Longest] if it is among the jobs that waited longest. Jobs with
// equal waits stay in the order of the rows.
func (o *Overview) addLongest(r *run.Row, wait float64) {
	n := len(o.Longest)
	if wait <= 0 || n == longestWaits && wait <= secondsWaited(o.Longest[n-1]) {
		return
	}
	at, _ := slices.BinarySearchFunc(o.Longest, wait, func(a *run.Row, wait float64) int {
		if secondsWaited(a) >= wait {
			return -1
		}
		return 1
	})
	o.Longest = slices.Insert(o.Longest, at, r)
	o.Longest = o.Longest[:min(len(o.Longest), longestWaits)]
}

// secondsWaited returns the wait of a job that has a wait.
func secondsWaited(r *run.Row) float64 {
	d, _ := waits.Wait(r)
	return d.Seconds()
}

// waitOf returns the wait of a job in seconds, as in [Metrics].
func waitOf(r *run.Row, opts Options) (seconds float64, ok bool) {
	if r.Start < opts.Window || opts.LeavesOut(r) || r.End != 0 && r.End < r.Start {
		return 0, false
	}
	d, ok := waits.Wait(r)
	return d.Seconds(), ok
}

// heldSeconds returns the processor seconds and the GPU seconds that a job held since an instant.
func heldSeconds(r *run.Row, held []run.Segment, since, until hpc.Time) (processors, gpus float64) {
	if r.State == hpc.Rejected {
		return 0, 0
	}
	devices := float64(GPUs(r))
	for _, s := range held {
		end := s.End
		if end == 0 {
			end = until
		}
		d := max(0, end.Sub(max(s.Start, since)).Seconds())
		processors += d * float64(max(0, s.Processors))
		gpus += d * devices
	}
	return processors, gpus
}

// GPUs returns the number of GPUs in a job's allocation.
func GPUs(r *run.Row) int {
	typed, untyped := 0, 0
	for name, amount := range slurmspec.TRES(r.TRES) {
		if len(name) < len("gres/gpu") || name[:len("gres/gpu")] != "gres/gpu" {
			continue
		}
		n, err := strconv.Atoi(amount)
		switch {
		case err != nil || n < 0:
		case name == "gres/gpu":
			untyped = n
		case name[len("gres/gpu")] == ':':
			typed += n
		}
	}
	return cmp.Or(untyped, typed) // Slurm lists the sum, and also the number of each model
}

func sortedUsage(of map[string]*Usage) []Usage {
	list := make([]Usage, 0, len(of))
	for _, u := range of {
		list = append(list, *u)
	}
	slices.SortFunc(list, func(a, b Usage) int {
		return cmp.Or(cmp.Compare(b.ProcessorSeconds, a.ProcessorSeconds), cmp.Compare(a.Name, b.Name))
	})
	return list
}
