package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/parallel"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/sim/policy"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/session"
)

// System is the machine and the scheduler of an experiment.
type System struct {
	Name   string
	Policy string // the simulator's scheduling policy
	// Size is a factor for the number of processors. Speed is a factor for the speed of each
	// processor. Both are 1 for the log's machine.
	Size, Speed float64
}

// Systems are the paper's six cases (section 5.2), in the order of its tables.
var Systems = []System{
	{"EASY", "easy", 1, 1},
	{"FCFS", "fcfs", 1, 1},
	{"perf * 2", "easy", 1, 2},
	{"perf/2", "easy", 1, 0.5},
	{"infra * 2", "easy", 2, 1},
	{"infra/2", "easy", 0.5, 1},
}

// Users says how the jobs of an experiment are submitted.
type Users struct {
	Name string
	replay.Feedback
}

// Replays are the paper's three kinds of replay: rigid, a0 and a60. a0 and a60 keep think times
// between sessions. A session of a0 is one job. A session of a60 ends after an hour without a
// submission.
var Replays = []Users{
	{"Rigid", replay.Feedback{Model: replay.NoFeedback}},
	{"a0", replay.Feedback{Model: replay.ThinkTime, Sessions: session.Delimitation{Method: session.Arrival}}},
	{"a60", replay.Feedback{Model: replay.ThinkTime, Sessions: session.Default}},
}

// Options configures a campaign.
type Options struct {
	// Every system is combined with every kind of users. The defaults are [Systems] and
	// [Replays].
	Systems []System
	Users   []Users
	// Realizations is the number of additional simulations of every case. Their submissions are
	// moved by up to Jitter, with the seeds Seed, Seed+1, ...
	Realizations int
	Jitter       time.Duration
	Seed         uint64
	// Parallel is the number of simulations that run at the same time. 0 means one for each
	// CPU.
	Parallel int
	// Observe, if not nil, is called after every simulation, by one goroutine at a time.
	Observe func(done, all int)
}

func (o *Options) complete() {
	if len(o.Systems) == 0 {
		o.Systems = Systems
	}
	if len(o.Users) == 0 {
		o.Users = Replays
	}
	if o.Parallel == 0 {
		o.Parallel = runtime.NumCPU()
	}
	if o.Observe == nil {
		o.Observe = func(int, int) {}
	}
}

// Result holds the results of a campaign for one log.
type Result struct {
	Log        string `json:"log"`
	Jobs       int    `json:"jobs"`
	Users      int    `json:"users"`
	Processors int    `json:"processors"`
	// Recorded is the outcome in the log itself: the paper's first line.
	Recorded Outcome `json:"recorded"`
	Cells    []Cell  `json:"cells"`
}

// Cell is one experiment: a system and a kind of users.
type Cell struct {
	System string `json:"system"`
	Replay string `json:"replay"`
	Outcome
	// Bands are the ranges over the jittered realizations; nil without such realizations.
	Bands *Bands `json:"bands,omitempty"`
}

// Outcome holds the paper's figures for one simulation, in seconds.
type Outcome struct {
	Rejected int `json:"rejected"`
	// Makespan is max(end) − min(submit) (equation 1). Waits are start − submit (equation 2) of
	// the accepted jobs.
	Makespan metrics.Float `json:"makespan_s"`
	MeanWait metrics.Float `json:"mean_wait_s"`
	MaxWait  metrics.Float `json:"max_wait_s"`
	// Lateness includes every submission, whether it was rejected or not.
	metrics.Lateness
	// Users are percentiles over users (figure 5c). Inner is the utilization in the inner
	// window (figure 9).
	Users metrics.UserLateness `json:"users"`
	Inner metrics.InnerWindow  `json:"inner_window"`
}

// Bands are the ranges of the figures over realizations.
type Bands struct {
	Realizations int   `json:"realizations"`
	Makespan     Range `json:"makespan_s"`
	MeanWait     Range `json:"mean_wait_s"`
	MaxWait      Range `json:"max_wait_s"`
	MeanLateness Range `json:"mean_lateness_s"`
}

// Range is the minimum and the maximum of some numbers.
type Range struct {
	Min metrics.Float `json:"min"`
	Max metrics.Float `json:"max"`
}

func (r *Range) include(v metrics.Float, first bool) {
	if first {
		*r = Range{v, v}
	}
	r.Min, r.Max = min(r.Min, v), max(r.Max, v)
}

// Run replays a log on every system with all kinds of users. The log's header must give the
// size of its machine, or processors must be above 0. Run returns the first error. If ctx is
// cancelled, it returns the error of ctx.
func Run(ctx context.Context, w *workload.Workload, processors int, opts Options) (*Result, error) {
	opts.complete()
	if processors == 0 {
		processors = w.MachineProcessors
	}
	if processors <= 0 {
		return nil, fmt.Errorf("%s: the size of its machine is not known (want it in the log's header, MaxProcs)", w.Source)
	}
	r := &Result{Log: w.Source, Jobs: w.Jobs.Len(), Processors: processors}
	log := newLog(w, processors, &opts)
	recorder := log.recorders.Get().(*recorder)
	r.Recorded = log.recorded(recorder)
	log.recorders.Put(recorder)
	r.Users = r.Recorded.Users.Users
	var tasks []task
	users := make([]controllers, len(opts.Users))
	for u := range opts.Users {
		var err error
		if users[u], err = replay.NewControllers(log.workload, opts.Users[u].Feedback); err != nil {
			return nil, err
		}
	}
	for s := range opts.Systems {
		for u := range opts.Users {
			r.Cells = append(r.Cells, Cell{System: opts.Systems[s].Name, Replay: opts.Users[u].Name})
			for n := range 1 + opts.Realizations {
				t := task{cell: len(r.Cells) - 1, realization: n, system: &opts.Systems[s], users: users[u],
					seed: opts.Users[u].Seed, log: log}
				if n > 0 {
					t.jitter, t.seed = opts.Jitter, opts.Seed+uint64(n-1)
				}
				tasks = append(tasks, t)
			}
		}
	}
	outcomes, err := simulate(ctx, tasks, opts)
	if err != nil {
		return nil, err
	}
	for i, t := range tasks {
		r.Cells[t.cell].add(t.realization, outcomes[i])
	}
	return r, nil
}

// add adds the outcome of a realization. Realization 0 has no jitter.
func (c *Cell) add(realization int, o Outcome) {
	if realization == 0 {
		c.Outcome = o
		return
	}
	if c.Bands == nil {
		c.Bands = &Bands{}
	}
	b, first := c.Bands, c.Bands.Realizations == 0
	b.Realizations++
	b.Makespan.include(o.Makespan, first)
	b.MeanWait.include(o.MeanWait, first)
	b.MaxWait.include(o.MaxWait, first)
	b.MeanLateness.include(o.Mean, first)
}

// controllers makes the controller of a simulation with these users.
type controllers = func(jitter time.Duration, seed uint64) replay.Controller

// task is one simulation.
type task struct {
	cell, realization int
	system            *System
	users             controllers
	jitter            time.Duration
	seed              uint64
	log               *log
}

// simulate runs the tasks in parallel, and returns their outcomes in the order of the tasks.
func simulate(ctx context.Context, tasks []task, opts Options) ([]Outcome, error) {
	outcomes := make([]Outcome, len(tasks))
	var mu sync.Mutex
	done := 0
	err := parallel.Executor{Parallel: opts.Parallel}.Do(ctx, len(tasks), func(ctx context.Context, i int) (err error) {
		if outcomes[i], err = tasks[i].run(ctx); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		done++
		opts.Observe(done, len(tasks))
		return nil
	})
	return outcomes, err
}

// run runs the simulation.
func (t *task) run(ctx context.Context) (Outcome, error) {
	if err := ctx.Err(); err != nil {
		return Outcome{}, err
	}
	w := t.log.workload
	newPolicy, err := policy.New(t.system.Policy)
	if err != nil {
		return Outcome{}, err
	}
	processors := int(math.Floor(float64(t.log.processors) * t.system.Size))
	engine, err := sim.New(sim.Config{
		Processors: processors, Policy: newPolicy, Epoch: w.Epoch,
		Lean: true,
	})
	if err != nil {
		return Outcome{}, fmt.Errorf("%s: %w", t.system.Name, err)
	}
	controller := t.users(t.jitter, t.seed)
	if t.system.Speed != 1 {
		controller = replay.Rewriting(controller, replay.Performance(t.system.Speed))
	}
	r := t.log.recorders.Get().(*recorder)
	defer t.log.recorders.Put(r)
	r.reset(t.log)
	if _, err := replay.Play(ctx, engine, w, controller, r, replay.Options{Released: r.released}); err != nil {
		return Outcome{}, err
	}
	return summarize(r.rows, processors), nil
}

// summarize computes the figures of a simulation or of the log itself.
func summarize(rows []run.Row, processors int) Outcome {
	f := metrics.NewFeedback(rows, run.Feedback{}, metrics.Options{Processors: processors})
	o := Outcome{Makespan: f.SubmitMakespan, Lateness: f.Lateness, Users: f.Users, Inner: f.Inner}
	started, sum, longest := 0.0, 0.0, time.Duration(0)
	for i := range rows {
		switch r := &rows[i]; {
		case r.State == hpc.Rejected:
			o.Rejected++
		case r.Start != 0:
			wait := r.Start.Sub(r.Submit)
			started++
			sum += wait.Seconds()
			longest = max(longest, wait)
		}
	}
	o.MeanWait = metrics.Float(sum / started)
	o.MaxWait = metrics.Float(longest.Seconds())
	return o
}

// log is the data that the simulations of a log share. No simulation changes it.
type log struct {
	workload   *workload.Workload
	processors int
	index      map[string]int32 // jobs by ID
	rows       []run.Row        // the row of each job before the simulation
	// recorders has the recorders that no simulation uses. A recorder has tens of MiB. With a new recorder for each
	// simulation, the campaign of the KTH log takes 20 % more time.
	recorders sync.Pool
}

// newLog prepares a log. Its jobs get the paper's time limits, which are long enough for all of
// them.
//
// newLog stops the garbage collector. If the collector ran, it would read the new tables before
// they are filled. This would cause two page faults for each page, and the campaign of the KTH log
// would take 12 % more CPU time.
func newLog(recorded *workload.Workload, processors int, opts *Options) *log {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	changed := *recorded
	changed.Jobs = recorded.Jobs.Clone()
	w := &changed
	l := &log{workload: w, processors: processors, index: make(map[string]int32, w.Jobs.Len()),
		rows: make([]run.Row, w.Jobs.Len())}
	l.recorders.New = func() any { return new(recorder) }
	for i, job := range recorded.Jobs.All() {
		l.index[job.ID] = int32(i)
		l.rows[i] = run.Row{Job: job.ID, Task: -1, User: job.User, RecordedSubmit: job.Submit, Processors: job.Tasks}
		replay.TwiceRunTime(job)
		w.Jobs.Set(i, job)
	}
	for range min(opts.Parallel, len(opts.Systems)*len(opts.Users)) {
		r := new(recorder)
		r.reset(l)
		l.recorders.Put(r)
	}
	return l
}

// recorded returns the outcome in the log. It uses a recorder's memory.
func (l *log) recorded(r *recorder) Outcome {
	r.reset(l)
	for i, job := range l.workload.Jobs.All() {
		row := &r.rows[i]
		row.Submit = job.Submit
		if job.Recorded != nil {
			row.Start, row.End, row.State = job.Recorded.Start, job.Recorded.End, job.Recorded.State
		}
	}
	return summarize(r.rows, l.processors)
}

// recorder keeps a simulation's rows in memory. It fills only the columns that the figures
// need. It is a [replay.Recorder].
type recorder struct {
	log       *log
	rows      []run.Row
	submitted []int32    // the index of each job's row, in the order of submission
	jobs      []*hpc.Job // the jobs in the same order; nil for a released job
	ended     []*hpc.Job // for [replay.Options.Released]
}

// reset prepares the recorder for a simulation of the log.
func (r *recorder) reset(l *log) {
	r.log = l
	r.rows = append(r.rows[:0], l.rows...)
	r.submitted, r.jobs, r.ended = r.submitted[:0], r.jobs[:0], r.ended[:0]
}

// Job implements [replay.Recorder].
func (r *recorder) Job(job *hpc.Job) error {
	r.submitted = append(r.submitted, r.log.index[job.ID])
	r.jobs = append(r.jobs, job)
	return nil
}

// release releases an ended job unless it is an array, which may have tasks that have not
// ended.
func (r *recorder) release(submission int) {
	if job := r.jobs[submission]; job.Array == "" {
		r.ended = append(r.ended, job)
		r.jobs[submission] = nil
	}
}

// released returns each released job once. It returns nil if no further job has been released.
func (r *recorder) released() *hpc.Job {
	last := len(r.ended) - 1
	if last < 0 {
		return nil
	}
	job := r.ended[last]
	r.ended = r.ended[:last]
	return job
}

// Event implements [replay.Recorder].
func (r *recorder) Event(ev rm.Event) error {
	row := &r.rows[r.submitted[ev.Submission-1]]
	switch ev.Kind {
	case rm.Accepted:
		row.Submit = ev.At
	case rm.Refused:
		row.Submit, row.State = ev.At, hpc.Rejected
		r.release(ev.Submission - 1)
	case rm.Started:
		row.Start = ev.At
	case rm.Ended:
		row.End, row.State = ev.At, hpc.Completed
		r.release(ev.Submission - 1)
	}
	return nil
}
