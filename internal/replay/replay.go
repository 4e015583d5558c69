// Package replay is the loop that plays a workload to a resource manager: every
// submission, cancellation, node event and reservation at its own instant of virtual
// time, until nothing is left to happen. It does not know which resource manager it
// drives. A [Controller] says when jobs are submitted and what else is done to them:
// [NewRigid] at their recorded instants, [NewController] when their users would have been
// ready to. [Rewriting] changes the jobs of any controller on their way.
package replay

import (
	"context"
	"fmt"
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
	// Released, if set, returns a job that the recorder was given, that has ended, and that the
	// recorder and the resource manager need no more; nil if there is none. Its memory serves
	// the next job. Without Released every job takes 900 bytes of new memory, and
	// tools/feedbackpaper takes a third more CPU time with the KTH log.
	Released func() *hpc.Job
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
	rm         rm.ResourceManager
	can        rm.Capabilities
	controller Controller
	workload   *workload.Workload
	recorder   Recorder
	opts       Options
	queue      agenda.Agenda[detail]
	// first are the submissions that are known from the outset and that nothing else comes
	// with. The first of them is in the queue, and the others follow it there.
	first    []Submission
	commands int     // of the controller, so far
	job      hpc.Job // the last one that was looked at
	progress Progress
	// open is, of each job of the workload, how many of its tasks have been submitted and
	// have not ended; running how many of them run. Millions of jobs take a few bytes each.
	open, running []int32
	openJobs      int // jobs with open tasks
	// expected are the expectations of jobs that are not played as the workload has them.
	expected map[int]expectation
	requeues map[int]int    // how often a job has gone back to the queue
	order    []int32        // the jobs in the order of their submission
	byID     map[string]int // jobs by ID; nil until somebody asks
	// administers says that more is done than to submit and cancel jobs, so that answers may
	// come after the last job's end.
	administers  bool
	reservations []hpc.ReservationEvent // as this resource manager makes them
	presets      presets
	told         Event // what the controller is told now
	result       Result
}

// Rigid plays the workload with every job at its recorded submit time, whatever the
// resource manager makes of it. It returns when every job has ended. On an error, ctx's
// included, the result is what had happened until then, and the recorder has it all.
func Rigid(ctx context.Context, manager rm.ResourceManager, w *workload.Workload, recorder Recorder, opts Options) (Result, error) {
	return Play(ctx, manager, w, NewRigid(w), recorder, opts)
}

// Play plays the workload as the controller says. It returns when every submitted job has
// ended and the controller wants nothing more. On an error, ctx's included, the result is
// what had happened until then, and the recorder has it all.
func Play(ctx context.Context, manager rm.ResourceManager, w *workload.Workload, controller Controller, recorder Recorder, opts Options) (Result, error) {
	if opts.DrainLimit == 0 {
		opts.DrainLimit = 24 * time.Hour
	}
	if opts.Observe == nil {
		opts.Observe = func(Progress) {}
	}
	p := &player{
		rm: manager, can: manager.Can(), controller: inOrder(w, controller), workload: w, recorder: recorder, opts: opts,
		open: make([]int32, w.Jobs.Len()), running: make([]int32, w.Jobs.Len()),
		expected: map[int]expectation{}, requeues: map[int]int{}, presets: newPresets(w),
	}
	if err := p.load(w); err != nil {
		return Result{}, err
	}
	err := p.play(ctx)
	p.result.Progress, p.result.Undrained = p.progress, p.undrained()
	return p.result, err
}

// jobOf returns a copy of a job, for the resource manager and the recorder to keep until it
// has ended.
func (p *player) jobOf(index int) *hpc.Job {
	var job *hpc.Job
	if p.opts.Released != nil {
		job = p.opts.Released()
	}
	if job == nil {
		// Written to before it is read, so that the kernel maps its page once.
		job = &hpc.Job{Recorded: new(hpc.Recorded)}
	}
	p.workload.Jobs.Get(index, job)
	return job
}

// of returns the job in the workload that an event is about; -1 for one that it does not
// have.
func (p *player) of(ev *rm.Event) int {
	if n := ev.Submission; n > 0 && n <= len(p.order) {
		return int(p.order[n-1])
	}
	return p.byName(ev.Job)
}

// byName returns the job of an ID; -1 for one that the workload does not have.
func (p *player) byName(id string) int {
	if p.byID == nil {
		p.byID = make(map[string]int, p.workload.Jobs.Len())
		for i, job := range p.workload.Jobs.All() {
			p.byID[job.ID] = i
		}
	}
	if i, known := p.byID[id]; known {
		return i
	}
	return -1
}

// play runs the loop.
func (p *player) play(ctx context.Context) error {
	// happened is the last event's time; quiet is when the last foreseen event is over.
	happened, quiet := p.rm.Now(), p.rm.Now()
	for {
		if err := p.applyDue(); err != nil {
			return err
		}
		if len(p.queue) == 0 && p.openJobs == 0 {
			return p.lastAnswers(ctx)
		}
		until := quiet.Add(p.opts.DrainLimit)
		if len(p.queue) > 0 {
			until = p.queue.Next()
		}
		events, err := p.rm.AdvanceTo(ctx, max(until, p.rm.Now()))
		p.progress.Now = p.rm.Now()
		for i := range events {
			if rerr := p.take(&events[i]); rerr != nil {
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
			return nil // nothing has happened for so long, and nothing is foreseen
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

// lastAnswers takes the answers to administration and commands after the last job: a
// resource manager may take a moment of virtual time for one.
func (p *player) lastAnswers(ctx context.Context) error {
	const moment = time.Second
	for p.administers {
		events, err := p.rm.AdvanceTo(ctx, p.rm.Now().Add(moment))
		for i := range events {
			if rerr := p.take(&events[i]); rerr != nil {
				return rerr
			}
		}
		if err != nil || len(events) == 0 {
			return err
		}
	}
	return nil
}

// take keeps the counts, tells the controller of an event, and records it.
func (p *player) take(ev *rm.Event) error {
	n := &p.progress
	job, over, end := -1, false, hpc.Time(0)
	if ev.Job != "" {
		job = p.of(ev)
	}
	switch ev.Kind {
	case rm.Started:
		p.presets.note(ev.Job, true)
		p.started(job)
	case rm.Requeue:
		p.presets.note(ev.Job, false)
		if job >= 0 {
			p.requeues[job]++
		}
		if ev.Outcome == nil {
			p.reopen(job)
		} else if p.stopped(job) {
			n.Pending++
		}
	case rm.Refused:
		tasks := 0
		if job >= 0 {
			tasks = int(p.open[job])
		}
		n.Pending -= tasks
		n.Refused += tasks
		p.rejected(ev, job)
		over, end = p.end(ev, job, tasks)
	case rm.Ended:
		p.presets.note(ev.Job, false)
		if ev.Outcome != nil && ev.Outcome.Start.IsZero() || !p.stopped(job) {
			n.Pending--
		}
		n.Ended++
		over, end = p.end(ev, job, 1)
	}
	p.told = Event{ev, job, over, end}
	p.decide(p.controller.Event(&p.told))
	return p.recorder.Event(*ev)
}

// decide puts what the controller wants done into the queue.
func (p *player) decide(d Decisions) {
	now := p.rm.Now()
	for _, s := range d.Submit {
		s.At = max(s.At, now)
		p.schedule(s)
	}
	for _, c := range d.Commands {
		c.At = max(c.At, now)
		p.command(c)
	}
}

// rejected notes that the resource manager did not take a job. One of which nothing is recorded is
// taken for one that should have run.
func (p *player) rejected(ev *rm.Event, job int) {
	why := fmt.Sprintf("%s (%s)", ev.Job, ev.Reason)
	if job >= 0 {
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
func (p *player) started(job int) {
	p.progress.Pending--
	p.progress.Running++
	if job >= 0 {
		p.running[job]++
	}
}

// stopped counts a task of a job as running no longer, and reports whether it was. It was not
// if it had its nodes and was not launched on them, as while they boot.
func (p *player) stopped(job int) bool {
	if job >= 0 {
		if p.running[job] == 0 {
			return false
		}
		p.running[job]--
	}
	p.progress.Running--
	return true
}

// end notes that tasks of a job have ended, and reports whether all of them have, and when.
func (p *player) end(ev *rm.Event, job, tasks int) (over bool, at hpc.Time) {
	if job < 0 || p.open[job] == 0 {
		return false, 0
	}
	if p.open[job] -= int32(tasks); p.open[job] > 0 {
		return false, 0
	}
	p.openJobs--
	delete(p.expected, job)
	if ev.Outcome != nil && ev.Outcome.End != 0 {
		return true, ev.Outcome.End // as it is recorded: Slurm's is in whole seconds, and news of it come later
	}
	return true, ev.At
}

// reopen notes that a task has not ended after all. What its end has set off stays.
func (p *player) reopen(job int) {
	p.progress.Ended--
	p.progress.Pending++
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
