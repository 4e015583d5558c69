// Package replay is the loop that plays a workload on a resource manager. It carries out every
// submission, cancellation, node event and reservation at its instant of virtual time, until all
// jobs have ended. It works with any resource manager.
//
// A [Controller] decides when jobs are submitted and which commands they get. The controller of [NewRigid] submits jobs
// at their recorded instants. The controller of [NewController] models users who react to the ends of their jobs.
// [Rewriting] changes the jobs of any controller before their submission.
package replay

import (
	"context"
	"slices"
	"time"

	"rmreplay/internal/agenda"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/workload"
)

// Recorder records the jobs and events of a run. [rmreplay/internal/run.Writer] is a Recorder.
type Recorder interface {
	Job(job *hpc.Job) error
	Event(event rm.Event) error
}

// Options change how a workload is played.
type Options struct {
	// DrainLimit is a virtual time; 0 means 24 hours. If there is no event for this time after both
	// the last input and the last expected end of a running job, the replay gives up the open jobs.
	// Some jobs never end: held jobs, jobs with impossible dependencies, suspended jobs, and jobs
	// that are always requeued because of their exit code.
	DrainLimit time.Duration
	// DefaultLimit is an upper bound of the time limit of jobs that request no limit; 0 if no bound
	// is known. The expected ends of running jobs are computed with it.
	DefaultLimit time.Duration
	// Processors is the size of the machine, for the progress; 0 if not known.
	Processors int
	// Released, if set, returns an ended job that neither the recorder nor the resource manager
	// needs any more, or nil. The next job uses the memory of the returned job. Without Released every
	// job takes 900 bytes of new memory, and tools/feedbackpaper takes a third more CPU time with the
	// KTH log.
	Released func() *hpc.Job
	// Observe is called, if set, after every instant with an input or an event.
	Observe func(Progress)
}

// Progress is the progress of a replay. Each task of a submitted job array counts as a job.
type Progress struct {
	Now                                         hpc.Time
	Inputs, InputsDone                          int // submissions and all other inputs of the workload
	Submitted, Pending, Running, Ended, Refused int
	// LastInput is the instant of the workload's last input.
	LastInput hpc.Time
	// Window is when the workload's window begins; 0 without a window.
	Window hpc.Time
	Load
}

// Result is the end of a replay.
type Result struct {
	Progress
	// LatePresets are the preset jobs that did not run when the window began.
	LatePresets []string
	// Postponed are the jobs that waited for preset jobs when the window began. Postponed jobs were submitted later than
	// recorded, at most by PostponedBy, because preset jobs are submitted only at their starts. The waits of the postponed
	// jobs are therefore too short.
	Postponed   []string
	PostponedBy time.Duration
	// Undrained are the IDs of the jobs that the replay gave up, pending or running.
	Undrained []string
	// PendingReasons counts the undrained pending jobs by their last reason. It is empty if the resource
	// manager gives no reasons.
	PendingReasons map[string]int
	// Rejected are the submissions that the resource manager rejected in the replay but not when the workload was
	// recorded. Missing are the rejected submissions with jobs that ran when the workload was recorded, or that have no
	// record. The Tasks of an element of Missing count only jobs that ran or that have no record.
	Rejected []Rejection
	Missing  []Rejection
}

// Rejection is a rejected submission with the reason. Each of its Tasks counts as a job: 1 for a submission that is not
// an array.
type Rejection struct {
	Job, Reason string
	Tasks       int
}

// RejectedJobs returns the number of jobs of rejected submissions.
func RejectedJobs(list []Rejection) (n int) {
	for _, r := range list {
		n += r.Tasks
	}
	return n
}

// player is a replay in progress.
type player struct {
	rm         rm.ResourceManager
	can        rm.Capabilities
	controller Controller
	workload   *workload.Workload
	begin      hpc.Time // the beginning of the workload
	recorder   Recorder
	opts       Options
	queue      agenda.Agenda[detail]
	// first has the submissions that are known at the beginning and have no cancellation. Only the next
	// submission of first is in the queue, so that the queue is short.
	first    []Submission
	commands int     // number of the controller's commands so far
	wakes    int     // number of the controller's wakings in the queue
	job      hpc.Job // the job read last
	progress Progress
	// open is, for each job of the workload, how many of its tasks have been submitted and have not
	// ended. running is how many of its tasks run.
	open, running []int32
	requested     []int32  // processors of each job's tasks
	countedTo     hpc.Time // the instant up to which the work done has been counted
	openJobs      int      // number of jobs with open tasks
	// rewritten has the open jobs that a rewriter has changed, by index; nil without a rewriter.
	// spare has memory of rewritten jobs that have ended.
	rewritten []*hpc.Job
	spare     []*hpc.Job
	// expected has the expectations of jobs that a command has changed.
	expected map[int]expectation
	requeues map[int]int    // number of requeues of each job
	reasons  map[int]string // last reason of each job that has waited and has not ended
	order    []int32        // the jobs in the order of their submission
	byID     map[string]int // jobs by ID; nil until the first search
	// administers says that there are inputs besides submissions and cancellations. The resource manager may answer the
	// other inputs after the last job's end.
	administers  bool
	reservations []hpc.ReservationEvent // reservations that the resource manager does not know yet
	presets      presets
	barrier      barrier
	told         Event // the event that the controller gets
	result       Result
}

// Rigid plays the workload with every job submitted at its recorded instant, as [Play] does. After
// an error, including ctx's error, the result and the recorder have everything that happened
// before the error.
func Rigid(ctx context.Context, manager rm.ResourceManager, w *workload.Workload, recorder Recorder,
	opts Options) (Result, error) {
	return Play(ctx, manager, w, NewRigid(w), recorder, opts)
}

// Play plays the workload with a controller. It returns when every submitted job has ended and the
// controller has no further decision, or when it gives up the open jobs ([Options.DrainLimit]).
// After an error, including ctx's error, the result and the recorder have everything that happened
// before the error.
func Play(ctx context.Context, manager rm.ResourceManager, w *workload.Workload, controller Controller,
	recorder Recorder, opts Options) (Result, error) {
	if opts.DrainLimit == 0 {
		opts.DrainLimit = 24 * time.Hour
	}
	if opts.Observe == nil {
		opts.Observe = func(Progress) {}
	}
	p := &player{
		rm: manager, can: manager.Can(), controller: inOrder(w, controller, manager.Can().PresetAt == nil), workload: w,
		begin:    w.Begin(),
		recorder: recorder, opts: opts,
		order: make([]int32, 0, w.Jobs.Len()),
		open:  make([]int32, w.Jobs.Len()), running: make([]int32, w.Jobs.Len()), requested: make([]int32, w.Jobs.Len()),
		expected: map[int]expectation{}, requeues: map[int]int{}, reasons: map[int]string{}, presets: newPresets(w),
		barrier: newBarrier(w),
	}
	p.progress.Begin, p.progress.Processors, p.countedTo = manager.Now(), opts.Processors, manager.Now()
	p.progress.Window = w.Start
	if err := p.load(w); err != nil {
		return Result{}, err
	}
	err := p.play(ctx)
	p.result.Progress, p.result.Undrained = p.progress, p.undrained()
	p.result.PendingReasons = p.pendingReasons()
	if o, ok := p.controller.(*ordered); ok {
		o.report(&p.result)
	}
	return p.result, err
}

// jobOf returns a copy of a job. The resource manager and the recorder may keep it until the job
// has ended.
func (p *player) jobOf(index int) *hpc.Job {
	var job *hpc.Job
	if p.opts.Released != nil {
		job = p.opts.Released()
	}
	if job == nil {
		// The memory is written before it is read, so that the kernel maps each page only once.
		job = &hpc.Job{Recorded: new(hpc.Recorded)}
	}
	p.workload.Jobs.Get(index, job)
	return job
}

// of returns the index of an event's job in the workload; -1 if the event is not about a job.
func (p *player) of(ev *rm.Event) int {
	if n := ev.Submission; n > 0 && n <= len(p.order) {
		return int(p.order[n-1])
	}
	return p.byName(ev.Job)
}

// byName returns the index of the job with an ID; -1 if the workload has no such job.
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
	// happened is the time of the last event. The drain limit counts from quiet: the time of the last
	// event or, if it is later, the last expected end of a running job.
	happened, quiet := p.rm.Now(), p.rm.Now()
	for {
		if err := p.applyDue(); err != nil {
			return err
		}
		if len(p.queue) == p.wakes && p.openJobs == 0 {
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
			p.countWork()
			p.opts.Observe(p.progress)
			continue
		}
		if p.rm.Now() < until && (until != hpc.Never || len(events) > 0) { // virtual time never reaches Never
			continue
		}
		last := p.lastEnd(happened)
		if last <= quiet {
			return nil // there was no event for the drain limit, and no event is expected
		}
		quiet = last
	}
}

// isNew reports whether an event restarts the drain limit. Events of an often requeued job do not
// restart the drain limit: such a job may never end, for example because the site requeues jobs
// with its exit code.
func (p *player) isNew(ev rm.Event) bool {
	if ev.Kind == rm.Waiting { // the reason of a job that never starts may change again and again
		return false
	}
	const often = 100
	job := p.of(&ev)
	return job < 0 || p.requeues[job] < often
}

// lastAnswers waits for answers to administration and commands after the last job has ended. A
// resource manager may need some virtual time for an answer.
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

// take counts an event, passes it to the controller and records it.
func (p *player) take(ev *rm.Event) error {
	n := &p.progress
	job, over, end := -1, false, hpc.Time(0)
	if ev.Job != "" {
		job = p.of(ev)
	}
	switch ev.Kind {
	case rm.Waiting:
		p.barrier.withoutReason(ev)
		p.reasons[job] = ev.Reason
	case rm.Started:
		p.presets.note(ev.Job, true)
		p.started(job)
		p.hold(ev, job)
	case rm.Requeue:
		p.presets.note(ev.Job, false)
		if job >= 0 {
			p.requeues[job]++
		}
		if ev.Outcome == nil {
			p.reopen(job)
		} else if p.stopped(job) {
			n.Pending++
			p.release(ev)
		}
	case rm.Refused:
		tasks := 0
		if job >= 0 {
			tasks = int(p.open[job])
		}
		n.Pending -= tasks
		n.Refused += tasks
		p.rejected(ev, job, tasks)
		over, end = p.end(ev, job, tasks)
	case rm.Ended:
		p.presets.note(ev.Job, false)
		if ev.Outcome != nil && ev.Outcome.Start.IsZero() || !p.stopped(job) {
			n.Pending--
		} else {
			p.release(ev)
		}
		n.Ended++
		over, end = p.end(ev, job, 1)
	}
	p.told = Event{ev, job, over, end}
	p.decide(p.controller.Event(&p.told))
	return p.recorder.Event(*ev)
}

// decide puts the controller's decisions into the queue.
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
	p.wake(d.Wake)
}

// rejected records that the resource manager rejected a submission of the given number of tasks. A job without a record
// counts as a job that ran in the record.
func (p *player) rejected(ev *rm.Event, job, tasks int) {
	why := Rejection{ev.Job, ev.Reason, max(1, tasks)}
	if job >= 0 {
		p.workload.Jobs.Get(job, &p.job)
		missing := why
		if r := p.job.Recorded; r != nil {
			if r.State == hpc.Rejected {
				return
			}
			missing.Tasks = 0
			for _, task := range hpc.TasksOf(&p.job) {
				if of := r.OfTask(task); of.Start != 0 {
					missing.Tasks++
				}
			}
		}
		if missing.Tasks > 0 {
			p.result.Missing = append(p.result.Missing, missing)
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

// stopped counts a task of a job as not running. It returns false if the task was not running. A
// task with nodes may not have been launched yet, for example while nodes boot.
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

// end records that tasks of a job have ended. It reports whether all tasks of the job have ended,
// and when.
func (p *player) end(ev *rm.Event, job, tasks int) (over bool, at hpc.Time) {
	if job < 0 || p.open[job] == 0 {
		return false, 0
	}
	if p.open[job] -= int32(tasks); p.open[job] > 0 {
		return false, 0
	}
	p.openJobs--
	delete(p.expected, job)
	delete(p.reasons, job)
	p.forgetRewritten(job)
	if ev.Outcome != nil && ev.Outcome.End != 0 {
		return true, ev.Outcome.End // Slurm rounds this end to seconds, and reports it later
	}
	return true, ev.At
}

// reopen records that an ended task runs again. Reactions to its end are not undone.
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

// pendingReasons counts the open jobs without a running task, by their last reason to wait. It returns nil if every
// open job has a running task.
func (p *player) pendingReasons() map[string]int {
	var counts map[string]int
	for job, reason := range p.reasons {
		if job < 0 || p.open[job] == 0 || p.running[job] > 0 {
			continue
		}
		if counts == nil {
			counts = map[string]int{}
		}
		counts[reason]++
	}
	return counts
}
