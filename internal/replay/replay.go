// Package replay is the loop that plays a workload to a resource manager: every
// submission, cancellation, node event and reservation at its own instant of virtual
// time, until nothing is left to happen. It does not know which resource manager it
// drives. When a job is submitted is for a [Driver] to say: at its recorded instant,
// or when its user would have been ready to.
package replay

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"rmreplay/internal/agenda"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/workload"
)

// Recorder keeps what happens; [rmreplay/internal/run.Writer] is one.
type Recorder interface {
	Job(job *hpc.Job) error
	Event(event rm.Event) error
}

// Releaser is a [Recorder] that says when it needs a job no more, so that its memory serves
// the next one. Without, every job of a workload takes new memory when it is submitted.
type Releaser interface {
	// Released returns a job that the recorder was given, that has ended, and that it will
	// not look at again; nil if there is none. It returns no job twice.
	Released() *hpc.Job
}

// Options change how a workload is played.
type Options struct {
	// DrainLimit is virtual time: how long nothing may happen after the last input, and after the
	// last end that is foreseen of a job that runs, before the replay gives up what is left.
	// Held jobs and those with impossible dependencies would pend for ever,
	// suspended ones run, and those that are requeued for their exit code do both. 24 hours if 0.
	DrainLimit time.Duration
	// DefaultLimit is the longest time limit that a job without one of its own can have; 0 if
	// that is not known. It is one of the ends that are foreseen.
	DefaultLimit time.Duration
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
	// WithoutPriority counts the jobs that had no recorded priority to be fixed, though
	// they had started: one that is cancelled before that has none.
	WithoutPriority int
	// LatePresets are the preset jobs that did not run when the window began.
	LatePresets []string
	// Undrained are the workload's names of jobs that were given up, pending or running without end.
	Undrained []string
	// Rejected are the workload's names of jobs that the resource manager did not take, with
	// its reasons, but for those that it had not taken when the workload was recorded. Missing
	// are those of them that ran then, or of which nothing is recorded.
	Rejected []string
	Missing  []string
}

// player is a replay under way.
type player struct {
	rm       rm.ResourceManager
	driver   Driver
	workload *workload.Workload
	recorder Recorder
	releaser Releaser // the recorder, or nil if it is none
	opts     Options
	queue    agenda.Agenda[struct{}]
	// Of the submissions that are known from the outset and that nothing else comes with, the
	// first is in the queue and the others follow it there.
	first    []Submission
	job      hpc.Job // the last one that was looked at
	progress Progress
	// Of each job of the workload, how many of its tasks have been submitted and have not
	// ended; and the jobs in the order of their submission. Millions of them are no more
	// than a few bytes each.
	open     []int32
	openJobs int         // those with such tasks
	running  []int32     // of each job, how many of its tasks have started and not ended
	requeues map[int]int // how often a job has gone back to the queue
	order    []int32
	byID     map[string]int // jobs by ID; nil until an event does not say which submission it is about
	// administers says that the workload does more than to submit and cancel jobs.
	administers   bool
	administrator rm.Administrator // nil if the resource manager is none
	window        *window          // nil for a workload without
	reservations  []hpc.ReservationEvent
	result        Result
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
	p := &player{rm: manager, driver: inOrder(w, driver), workload: w, recorder: recorder, opts: opts, open: make([]int32, w.Jobs.Len()), running: make([]int32, w.Jobs.Len()), requeues: map[int]int{}}
	p.releaser, _ = recorder.(Releaser)
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
		p.add(ev.At, nodeEvent, i)
	}
	p.reservations = Reservations(w)
	for i, ev := range p.reservations {
		p.add(ev.At, reservation, i)
	}
	p.administrator, _ = p.rm.(rm.Administrator)
	for i, a := range w.Actions {
		if p.administrator == nil {
			return fmt.Errorf("the action at %s: this resource manager knows no administrator's commands (replay on Slurm, or take the actions out)", a.At)
		}
		p.add(a.At, action, i)
	}
	p.administers = len(p.queue) > 0
	if p.window = newWindow(w); p.window != nil {
		p.add(p.rm.Now(), reservation, ofWindow)
		p.add(w.Start, action, ofWindow)
	}
	p.progress.Inputs = len(p.queue) + w.Jobs.Len()
	p.loadJobs(w)
	return nil
}

// loadJobs makes the queue of the submissions that depend on nothing.
func (p *player) loadJobs(w *workload.Workload) {
	plain := make([]bool, w.Jobs.Len()) // submitted when the driver says, and not cancelled
	cancelled := workload.InParts(&w.Jobs, func(jobs iter.Seq2[int, *hpc.Job]) (n int) {
		for i, job := range jobs {
			if job.CancelAfter > 0 {
				n++
			}
			plain[i] = job.CancelAfter <= 0 && !w.Preset(job)
		}
		return n
	})
	for _, n := range cancelled {
		p.progress.Inputs += n
	}
	all := p.driver.Begin()
	p.first = all[:0]
	for _, s := range all {
		if !plain[s.Job] {
			p.schedule(s)
			continue
		}
		p.first = append(p.first, s)
		p.progress.LastInput = max(p.progress.LastInput, s.At)
	}
	slices.SortFunc(p.first, func(a, b Submission) int { return cmp.Or(cmp.Compare(a.At, b.At), a.Job-b.Job) })
	p.putFirst()
}

// putFirst puts the first of the submissions that are known from the outset into the queue.
func (p *player) putFirst() {
	if len(p.first) > 0 {
		p.add(p.first[0].At, submission, p.first[0].Job)
	}
}

// add puts an input into the queue; seq is its place in the workload.
func (p *player) add(at hpc.Time, class uint8, seq int) {
	p.queue.Put(input{At: at, Seq: seq, Class: class})
	p.progress.LastInput = max(p.progress.LastInput, at)
}

// apply does what an input is for.
func (p *player) apply(in input) error {
	w, i := p.workload, in.Seq
	switch in.Class {
	case nodeEvent:
		return p.rm.SetNode(w.NodeEvents[i])
	case reservation:
		if i == ofWindow {
			return p.rm.Reserve(p.window.barrier(p.rm.Now()))
		}
		return p.rm.Reserve(p.reservations[i])
	case action:
		if i == ofWindow {
			return p.beginWindow()
		}
		return p.administrator.Act(w.Actions[i])
	case submission:
		return p.submit(i)
	}
	return p.cancel(i)
}

// schedule puts a job's submission, and its cancellation if there is one, into the queue.
func (p *player) schedule(s Submission) {
	job, at := &p.job, s.At
	p.workload.Jobs.Get(s.Job, job)
	if p.workload.Preset(job) {
		at = p.prepare(job).Submit // whatever its user does now
	}
	p.add(at, submission, s.Job)
	if job.CancelAfter > 0 {
		p.add(s.At.Add(job.CancelAfter), cancellation, s.Job)
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
		if own := job.Priority != nil && job.AsOperator; !own && (job.Recorded == nil || job.Recorded.Start != 0) {
			p.result.WithoutPriority++
		}
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

// jobOf returns a copy of a job, for the resource manager and the recorder to keep until it
// has ended.
func (p *player) jobOf(index int) *hpc.Job {
	var job *hpc.Job
	if p.releaser != nil {
		job = p.releaser.Released()
	}
	if job == nil {
		// Written to before it is read, so that the kernel maps its page once.
		job = &hpc.Job{Recorded: new(hpc.Recorded)}
	}
	p.workload.Jobs.Get(index, job)
	return job
}

// submit hands a job over as it is played; the record keeps it as it was.
func (p *player) submit(index int) error {
	job := p.jobOf(index)
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
	p.open[index] = int32(tasks)
	p.openJobs++
	p.order = append(p.order, int32(index))
	p.progress.Submitted += tasks
	p.progress.Pending += tasks
	return p.rm.Submit(p.prepare(job))
}

func (p *player) cancel(index int) error {
	if p.open[index] == 0 {
		return nil
	}
	p.workload.Jobs.Get(index, &p.job)
	return p.rm.Cancel(p.job.ID)
}

// of returns the job in the workload that an event is about; -1 for one that it does not
// have.
func (p *player) of(ev *rm.Event) int {
	if n := ev.Submission; n > 0 && n <= len(p.order) {
		return int(p.order[n-1])
	}
	if p.byID == nil {
		p.byID = make(map[string]int, p.workload.Jobs.Len())
		for i, job := range p.workload.Jobs.All() {
			p.byID[job.ID] = i
		}
	}
	if i, known := p.byID[ev.Job]; known {
		return i
	}
	return -1
}

// play runs the loop.
func (p *player) play(ctx context.Context) error {
	// When something has happened last, and from when on nothing is bound to.
	happened, quiet := p.rm.Now(), p.rm.Now()
	for {
		if err := p.applyDue(); err != nil {
			return err
		}
		if len(p.queue) == 0 && p.openJobs == 0 {
			return p.settle(ctx)
		}
		until := quiet.Add(p.opts.DrainLimit)
		if len(p.queue) > 0 {
			until = p.queue.Next()
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
		if len(p.queue) > 0 || slices.ContainsFunc(events, p.isNew) {
			happened, quiet = p.rm.Now(), p.rm.Now()
			p.opts.Observe(p.progress)
			continue
		}
		if p.rm.Now() < until {
			continue
		}
		last := p.lastEnd(happened)
		if last <= quiet {
			return nil // nothing has happened for so long, nor will it: given up
		}
		quiet = last
	}
}

// isNew reports whether an event is one that the replay waits for. A job that goes back to the queue
// again and again, because it always exits with a code for which it is requeued, say, never ends.
func (p *player) isNew(ev rm.Event) bool {
	const often = 100
	job := p.of(&ev)
	return job < 0 || p.requeues[job] < often
}

// lastEnd is when the last of the jobs that run at an instant ends, if nothing changes that. One
// without an end of its own and without a time limit is not waited for.
func (p *player) lastEnd(from hpc.Time) hpc.Time {
	last := from
	for _, i := range p.order {
		if p.running[i] == 0 {
			continue
		}
		p.workload.Jobs.Get(int(i), &p.job)
		job := p.opts.atPerformance(&p.job)
		longest := job.RunTime
		for _, d := range job.TaskRunTimes {
			longest = max(longest, d)
		}
		if longest == hpc.Unlimited {
			longest = cmp.Or(job.TimeLimit, p.opts.DefaultLimit)
		}
		if longest != hpc.Unlimited {
			last = max(last, from.Add(longest))
		}
	}
	return last
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
	for p.queue.Next() <= p.rm.Now() {
		p.progress.InputsDone++
		in := p.queue.Pop()
		if in.Class == submission && len(p.first) > 0 && p.first[0].Job == in.Seq {
			p.first = p.first[1:]
			p.putFirst()
		}
		if err := p.apply(in); err != nil {
			return err
		}
	}
	return nil
}

// take records an event and keeps the counts.
func (p *player) take(ev rm.Event) error {
	n := &p.progress
	if p.window != nil && ev.Outcome != nil && ev.Outcome.Reservation == workload.WindowReservation {
		ev.Outcome.Reservation = "" // which is ours, not the workload's
	}
	switch ev.Kind {
	case rm.Started:
		p.window.runs(ev.Job, true)
		p.started(&ev)
	case rm.Requeue:
		p.window.runs(ev.Job, false)
		if job := p.of(&ev); job >= 0 {
			p.requeues[job]++
		}
		if ev.Outcome == nil {
			p.reopen(&ev)
		} else if p.stopped(&ev) {
			n.Pending++
		}
	case rm.Refused:
		tasks := 0
		if job := p.of(&ev); job >= 0 {
			tasks = int(p.open[job])
		}
		n.Pending -= tasks
		n.Refused += tasks
		p.rejected(&ev)
		p.end(&ev, tasks)
	case rm.Ended:
		p.window.runs(ev.Job, false)
		if ev.Outcome != nil && ev.Outcome.Start.IsZero() || !p.stopped(&ev) {
			n.Pending--
		}
		n.Ended++
		p.end(&ev, 1)
	}
	return p.recorder.Event(ev)
}

// rejected notes that the resource manager did not take a job. One of which nothing is recorded is
// taken for one that should have run.
func (p *player) rejected(ev *rm.Event) {
	why := fmt.Sprintf("%s (%s)", ev.Job, ev.Reason)
	if job := p.of(ev); job >= 0 {
		p.workload.Jobs.Get(job, &p.job)
		switch r := p.job.Recorded; {
		case r == nil || r.Start != 0:
			p.result.Missing = append(p.result.Missing, why)
		case r.State == hpc.Rejected:
			return
		}
	}
	p.result.Rejected = append(p.result.Rejected, why)
}

// started counts a task of a job as running.
func (p *player) started(ev *rm.Event) {
	p.progress.Pending--
	p.progress.Running++
	if job := p.of(ev); job >= 0 {
		p.running[job]++
	}
}

// stopped counts a task of a job as running no longer, and reports whether it was. It was not
// if it had its nodes and was not launched on them, as while they boot.
func (p *player) stopped(ev *rm.Event) bool {
	if job := p.of(ev); job >= 0 {
		if p.running[job] == 0 {
			return false
		}
		p.running[job]--
	}
	p.progress.Running--
	return true
}

// end notes that tasks of a job are over, and tells the driver when all of them are.
func (p *player) end(ev *rm.Event, tasks int) {
	job := p.of(ev)
	if job < 0 || p.open[job] == 0 {
		return
	}
	if p.open[job] -= int32(tasks); p.open[job] > 0 {
		return
	}
	p.openJobs--
	at := ev.At
	if ev.Outcome != nil && ev.Outcome.End != 0 {
		at = ev.Outcome.End // as it is recorded: Slurm's is in whole seconds, and news of it come later
	}
	for _, s := range p.driver.Ended(job, at) {
		s.At = max(s.At, p.rm.Now())
		p.schedule(s)
	}
}

// reopen notes that a task is not over after all. Who has acted on its end has done so.
func (p *player) reopen(ev *rm.Event) {
	p.progress.Ended--
	p.progress.Pending++
	job := p.of(ev)
	if job < 0 {
		return
	}
	if p.open[job] == 0 {
		p.openJobs++
	}
	p.open[job]++
}

// undrained lists the jobs that have not ended, in the order of their submission.
func (p *player) undrained() []string {
	var out []string
	for _, i := range p.order {
		if p.open[i] > 0 {
			out = append(out, p.workload.Jobs.At(int(i)).ID)
		}
	}
	return out
}
