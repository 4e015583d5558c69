// Package replay is the loop that plays a workload to a resource manager: every
// submission, cancellation, node event and reservation at its own instant of virtual
// time, until nothing is left to happen. It does not know which resource manager it
// drives. When a job is submitted is for a [Driver] to say: at its recorded instant,
// or when its user would have been ready to.
package replay

import (
	"container/heap"
	"context"
	"fmt"
	"maps"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/workload"
)

// Recorder keeps what happens; [rmreplay/internal/run.Writer] is one.
type Recorder interface {
	Job(job *hpc.Job) error
	Event(event rm.Event) error
}

// Options change how a workload is played.
type Options struct {
	// DrainLimit is virtual time: how long jobs may pend after the last input while
	// nothing runs and nothing happens, before the replay gives them up. Held jobs and
	// those with impossible dependencies would pend for ever. 24 hours if 0.
	DrainLimit time.Duration
	// FixedPriorities submits every job with the priority that it had when the workload
	// was recorded, where that is known, so that the order of the queue is not the
	// resource manager's to compute.
	FixedPriorities bool
	// Performance is how fast the processors are: run times are divided by it, and time
	// limits are not. 1 if 0. What ran when the window began ends as it did. The
	// simulator has an option of its own for it.
	Performance float64
	// Observe is called, if set, after every instant at which something happened.
	Observe func(Progress)
}

// Progress says how far a replay has come. A job array counts as its tasks once
// submitted.
type Progress struct {
	Now                                         hpc.Time
	Inputs, InputsDone                          int // submissions and everything else that the workload does
	Submitted, Pending, Running, Ended, Refused int
	// LastInput is the instant of the workload's last input.
	LastInput hpc.Time
}

// Result is how a replay ended.
type Result struct {
	Progress
	// WithoutPriority counts the jobs that had no recorded priority to be fixed.
	WithoutPriority int
	// LatePresets are the preset jobs that did not run when the window began.
	LatePresets []string
	// Undrained are the workload's names of jobs that were given up as pending.
	Undrained []string
}

// input is one thing that the workload does. Those of one instant go in the order of
// class, then of the workload: what changes the machine comes before what asks for it,
// and a job is submitted before it is cancelled.
type input struct {
	at    hpc.Time
	class inputClass
	seq   int
	apply func() error
}

// openJob is a submitted job that has not ended.
type openJob struct {
	index int // in the workload
	tasks int // that have not ended
}

type inputClass int

const (
	nodeEvent inputClass = iota
	reservation
	action
	submission
	cancellation
)

type inputs []input

func (q inputs) Len() int { return len(q) }
func (q inputs) Less(i, j int) bool {
	a, b := &q[i], &q[j]
	if a.at != b.at {
		return a.at < b.at
	}
	if a.class != b.class {
		return a.class < b.class
	}
	return a.seq < b.seq
}
func (q inputs) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *inputs) Push(x any)   { *q = append(*q, x.(input)) }
func (q *inputs) Pop() any {
	old := *q
	last := len(old) - 1
	x := old[last]
	old[last] = input{}
	*q = old[:last]
	return x
}

// player is a replay under way.
type player struct {
	rm       rm.ResourceManager
	driver   Driver
	workload *workload.Workload
	recorder Recorder
	opts     Options
	queue    inputs
	progress Progress
	open     map[string]openJob
	order    []string // submitted jobs, in order
	// administers says that the workload does more than to submit and cancel jobs.
	administers bool
	window      *window // nil for a workload without
	result      Result
}

// Rigid plays the workload with every job at its recorded submit time, whatever the
// resource manager makes of it. It returns when every job has ended. On an error, ctx's
// included, the result is what had happened until then, and the recorder has it all.
func Rigid(ctx context.Context, manager rm.ResourceManager, w *workload.Workload, recorder Recorder, opts Options) (Result, error) {
	return Play(ctx, manager, w, RigidDriver(w), recorder, opts)
}

// Play plays the workload with every job submitted when the driver says. It returns when
// every submitted job has ended and the driver has no more. On an error, ctx's included,
// the result is what had happened until then, and the recorder has it all.
func Play(ctx context.Context, manager rm.ResourceManager, w *workload.Workload, driver Driver, recorder Recorder, opts Options) (Result, error) {
	if opts.DrainLimit == 0 {
		opts.DrainLimit = 24 * time.Hour
	}
	if opts.Observe == nil {
		opts.Observe = func(Progress) {}
	}
	p := &player{rm: manager, driver: driver, workload: w, recorder: recorder, opts: opts, open: map[string]openJob{}}
	if err := p.load(w); err != nil {
		return Result{}, err
	}
	err := p.play(ctx)
	p.result.Progress, p.result.Undrained = p.progress, p.undrained()
	return p.result, err
}

// load makes the queue of everything whose instant is known from the outset.
func (p *player) load(w *workload.Workload) error {
	for i, ev := range w.NodeEvents {
		p.add(ev.At, nodeEvent, i, func() error { return p.rm.SetNode(ev) })
	}
	for i, ev := range w.Reservations {
		p.add(ev.At, reservation, i, func() error { return p.rm.Reserve(ev) })
	}
	administrator, _ := p.rm.(rm.Administrator)
	for i, a := range w.Actions {
		if administrator == nil {
			return fmt.Errorf("the action at %s: this resource manager knows no administrator's commands (replay on Slurm, or take the actions out)", a.At)
		}
		p.add(a.At, action, i, func() error { return administrator.Act(a) })
	}
	p.administers = len(p.queue) > 0
	if p.window = newWindow(w); p.window != nil {
		p.add(p.rm.Now(), reservation, -1, func() error { return p.rm.Reserve(p.window.barrier(p.rm.Now())) })
		p.add(w.Start, action, -1, p.beginWindow)
	}
	p.progress.Inputs = len(p.queue) + len(w.Jobs)
	for _, job := range w.Jobs {
		if job.CancelAfter > 0 {
			p.progress.Inputs++
		}
	}
	for _, s := range p.driver.Begin() {
		p.schedule(s)
	}
	return nil
}

// add puts an input into the queue; seq is its place in the workload.
func (p *player) add(at hpc.Time, class inputClass, seq int, apply func() error) {
	heap.Push(&p.queue, input{at, class, seq, apply})
	p.progress.LastInput = max(p.progress.LastInput, at)
}

// schedule puts a job's submission, and its cancellation if there is one, into the queue.
func (p *player) schedule(s Submission) {
	job := p.workload.Jobs[s.Job]
	played, at := p.prepare(job), s.At
	if p.workload.Preset(job) {
		at = played.Submit // whatever its user does now
	}
	p.add(at, submission, s.Job, func() error { return p.submit(s.Job, played) })
	if job.CancelAfter > 0 {
		p.add(s.At.Add(job.CancelAfter), cancellation, s.Job, func() error { return p.cancel(job.ID) })
	}
}

// prepare returns the job as it is to be submitted.
func (p *player) prepare(job *hpc.Job) *hpc.Job {
	if p.workload.Preset(job) {
		lead := time.Duration(0)
		if _, daemon := p.rm.(rm.Windowed); daemon {
			lead = presetLead
		}
		return preset(job, lead)
	}
	job = p.opts.atPerformance(job)
	if !p.opts.FixedPriorities {
		return job
	}
	if job.Recorded == nil || job.Recorded.Priority == 0 {
		p.result.WithoutPriority++
		return job
	}
	fixed := *job
	fixed.Priority, fixed.AsOperator = &job.Recorded.Priority, true
	return &fixed
}

// atPerformance returns the job as long as it runs on the processors of these options.
func (o Options) atPerformance(job *hpc.Job) *hpc.Job {
	if o.Performance == 0 || o.Performance == 1 {
		return job
	}
	scaled := func(d time.Duration) time.Duration {
		if d == hpc.Unlimited {
			return d
		}
		return time.Duration(min(float64(d)/o.Performance, float64(hpc.Unlimited/2)))
	}
	played := *job
	played.RunTime = scaled(job.RunTime)
	played.TaskRunTimes = maps.Clone(job.TaskRunTimes)
	for task, d := range played.TaskRunTimes {
		played.TaskRunTimes[task] = scaled(d)
	}
	return &played
}

// beginWindow notes which preset jobs do not run as they should, and tells the resource
// manager.
func (p *player) beginWindow() error {
	p.result.LatePresets = p.window.waiting()
	if manager, ok := p.rm.(rm.Windowed); ok {
		return manager.BeginWindow()
	}
	return nil
}

// submit hands a job over as it is played; the record keeps it as it was.
func (p *player) submit(index int, played *hpc.Job) error {
	job := p.workload.Jobs[index]
	if err := p.recorder.Job(job); err != nil {
		return err
	}
	tasks := 1
	if job.Array != "" {
		array, err := hpc.ParseArray(job.Array)
		if err != nil {
			return fmt.Errorf("submitting job %s: --array=%s: %w", job.ID, job.Array, err)
		}
		tasks = len(array.Tasks)
	}
	p.open[job.ID] = openJob{index, tasks}
	p.order = append(p.order, job.ID)
	p.progress.Submitted += tasks
	p.progress.Pending += tasks
	return p.rm.Submit(played)
}

func (p *player) cancel(id string) error {
	if _, open := p.open[id]; !open {
		return nil
	}
	return p.rm.Cancel(id)
}

// play runs the loop.
func (p *player) play(ctx context.Context) error {
	happened := p.rm.Now()
	for {
		if err := p.applyDue(); err != nil {
			return err
		}
		if len(p.queue) == 0 && len(p.open) == 0 {
			return p.settle(ctx)
		}
		until := happened.Add(p.opts.DrainLimit)
		if len(p.queue) > 0 {
			until = p.queue[0].at
		}
		events, err := p.rm.AdvanceTo(ctx, max(until, p.rm.Now()))
		p.progress.Now = p.rm.Now()
		for _, ev := range events {
			if rerr := p.take(ev); rerr != nil {
				return rerr
			}
		}
		if err != nil {
			return err
		}
		if len(events) > 0 || len(p.queue) > 0 || p.progress.Running > 0 {
			happened = p.rm.Now()
			p.opts.Observe(p.progress)
			continue
		}
		if p.rm.Now() >= until {
			return nil // nothing runs and nothing has happened for so long: given up
		}
	}
}

// settle takes the answers to administration after the last job: a controller may take
// a moment of virtual time for one.
func (p *player) settle(ctx context.Context) error {
	const moment = time.Second
	for p.administers {
		events, err := p.rm.AdvanceTo(ctx, p.rm.Now().Add(moment))
		for _, ev := range events {
			if rerr := p.take(ev); rerr != nil {
				return rerr
			}
		}
		if err != nil || len(events) == 0 {
			return err
		}
	}
	return nil
}

// applyDue hands over everything that is due now.
func (p *player) applyDue() error {
	for len(p.queue) > 0 && p.queue[0].at <= p.rm.Now() {
		in := heap.Pop(&p.queue).(input)
		p.progress.InputsDone++
		if err := in.apply(); err != nil {
			return err
		}
	}
	return nil
}

// take records an event and keeps the counts.
func (p *player) take(ev rm.Event) error {
	n := &p.progress
	switch ev.Kind {
	case rm.Started:
		p.window.started(ev.Job)
		n.Pending--
		n.Running++
	case rm.Requeue:
		n.Running--
		n.Pending++
	case rm.Refused:
		job := p.open[ev.Job]
		n.Pending -= job.tasks
		n.Refused += job.tasks
		p.end(ev, job.tasks)
	case rm.Ended:
		if ev.Outcome != nil && ev.Outcome.Start.IsZero() {
			n.Pending--
		} else {
			n.Running--
		}
		n.Ended++
		p.end(ev, 1)
	}
	return p.recorder.Event(ev)
}

// end notes that tasks of a job are over, and tells the driver when all of them are.
func (p *player) end(ev rm.Event, tasks int) {
	job, open := p.open[ev.Job]
	if !open {
		return
	}
	if job.tasks -= tasks; job.tasks > 0 {
		p.open[ev.Job] = job
		return
	}
	delete(p.open, ev.Job)
	at := ev.At
	if ev.Outcome != nil && ev.Outcome.End != 0 {
		at = ev.Outcome.End // as it is recorded: Slurm's is in whole seconds, and news of it come later
	}
	for _, s := range p.driver.Ended(job.index, at) {
		s.At = max(s.At, p.rm.Now())
		p.schedule(s)
	}
}

// undrained lists the jobs that have not ended, in the order of their submission.
func (p *player) undrained() []string {
	var out []string
	for _, id := range p.order {
		if _, open := p.open[id]; open {
			out = append(out, id)
		}
	}
	return out
}
