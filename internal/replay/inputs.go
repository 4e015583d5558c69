package replay

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"rmreplay/internal/agenda"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/workload"
)

// input is one input of the workload or of the controller. Its sequence number is its index in the
// list of all inputs of its class. Changes of the machine come before submissions, and a job's
// submission comes before its cancellation.
type input = agenda.Entry[detail]

// detail is the data of an input, besides its class and sequence number.
type detail struct {
	rewrite Rewriter    // of a submission; may be nil
	command *rm.Command // of a command
}

// The classes of inputs.
const (
	nodeEvent uint8 = iota
	reservation
	action
	submission
	cancellation
	command
	wake // wakes the controller
)

// windowBegins is the sequence number of the action that begins the window. The window's action comes before the
// workload's own actions at the same instant.
const windowBegins = -1

// load puts all inputs with known instants into the queue at the beginning.
func (p *player) load(w *workload.Workload) error {
	for i, ev := range w.NodeEvents {
		p.add(ev.At, nodeEvent, i, detail{})
	}
	p.administers = len(w.NodeEvents)+len(w.Reservations)+len(w.Actions) > 0
	p.reservations = w.Reservations
	if w.Start != 0 {
		planned, err := p.rm.PlanWindow(NewWindow(w))
		if err != nil {
			return fmt.Errorf("preparing the workload's window: %w", err)
		}
		p.reservations = planned
		p.add(w.Start, action, windowBegins, detail{})
	}
	for i, ev := range p.reservations {
		p.add(ev.At, reservation, i, detail{})
	}
	for i, a := range w.Actions {
		if err := p.can.CheckAction(a); err != nil {
			return err
		}
		p.add(a.At, action, i, detail{})
	}
	p.progress.Inputs = len(p.queue) + w.Jobs.Len()
	p.loadJobs(w)
	return nil
}

// loadJobs adds the controller's first decisions to the queue.
func (p *player) loadJobs(w *workload.Workload) {
	plain := make([]bool, w.Jobs.Len()) // jobs without cancellation that are not preset
	parts := workload.InParts(&w.Jobs, func(jobs iter.Seq2[int, *hpc.Job]) (f foresight) {
		for i, job := range jobs {
			if job.CancelAfter > 0 {
				f.cancelled++
			}
			plain[i] = job.CancelAfter <= 0 && !w.Preset(job)
			p.requested[i] = int32(workload.CPUs(&job.Request))
			f.add(job, p.opts.DefaultLimit)
		}
		return f
	})
	for _, f := range parts {
		p.progress.Inputs += f.cancelled
		p.progress.Tasks += f.tasks
		p.progress.Work += f.work
		p.progress.LastEnd = max(p.progress.LastEnd, f.lastEnd)
	}
	decided := p.controller.Begin()
	all := decided.Submit
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
	for _, c := range decided.Commands {
		p.command(c)
	}
	p.wake(decided.Wake)
}

// putFirst moves the first submission of p.first into the queue.
func (p *player) putFirst() {
	if len(p.first) > 0 {
		s := &p.first[0]
		p.add(s.At, submission, s.Job, detail{rewrite: s.Rewrite})
	}
}

// add puts an input into the queue. The parameter seq is its sequence number. An input at
// [hpc.Never] is left out.
func (p *player) add(at hpc.Time, class uint8, seq int, what detail) {
	if at == hpc.Never {
		p.progress.Inputs--
		return
	}
	p.queue.Put(input{At: at, Seq: seq, Class: class, What: what})
	p.progress.LastInput = max(p.progress.LastInput, at)
}

// schedule puts a job's submission, and its cancellation if there is one, into the queue.
func (p *player) schedule(s Submission) {
	job, at, counted := &p.job, s.At, s.At // counted: the submission from which the cancellation counts
	p.workload.Jobs.Get(s.Job, job)
	if p.workload.Preset(job) {
		// A preset job does not react to other jobs, and jitter does not move it.
		counted = job.Submit
		at = max(job.Submit, p.begin) // the workload begins at p.begin
		if p.can.PresetAt != nil {
			at = p.can.PresetAt(job.Recorded.Start, p.workload.Start)
		}
	}
	p.add(at, submission, s.Job, detail{rewrite: s.Rewrite})
	if job.CancelAfter > 0 {
		p.add(counted.Add(job.CancelAfter), cancellation, s.Job, detail{})
	}
}

// command puts a command of the controller into the queue.
func (p *player) command(c Command) {
	p.commands++
	p.progress.Inputs++
	p.add(c.At, command, p.commands, detail{command: &c.Command})
}

// wake makes the loop wake the controller at an instant. The waking does not count as an input of the workload.
func (p *player) wake(at hpc.Time) {
	if at != 0 && at != hpc.Never {
		p.wakes++
		p.queue.Put(input{At: max(at, p.rm.Now()), Class: wake})
	}
}

// applyDue applies all inputs that are due now.
func (p *player) applyDue() error {
	for p.queue.Next() <= p.rm.Now() {
		in := p.queue.Pop()
		if in.Class == wake {
			p.wakes--
			p.told = Event{Event: &rm.Event{At: p.rm.Now(), Kind: Woken, Task: -1}, Job: -1}
			p.decide(p.controller.Event(&p.told))
			continue
		}
		p.progress.InputsDone++
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

// apply applies an input.
func (p *player) apply(in input) error {
	w, i := p.workload, in.Seq
	switch in.Class {
	case nodeEvent:
		return p.rm.SetNode(w.NodeEvents[i])
	case reservation:
		return p.rm.Reserve(p.reservations[i])
	case action:
		if i == windowBegins {
			p.result.LatePresets = p.presets.waiting()
			return p.rm.BeginWindow()
		}
		return p.rm.Act(w.Actions[i])
	case submission:
		return p.submit(i, in.What.rewrite)
	case command:
		return p.do(*in.What.command)
	}
	return p.cancel(i)
}

// submit submits a job after rewriting it. The record gets the unchanged job of the workload.
func (p *player) submit(index int, rewrite Rewriter) error {
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
	switch {
	case p.workload.Preset(job):
		return p.rm.SubmitPreset(job)
	case rewrite == nil:
		return p.rm.Submit(job)
	}
	played := p.rewrite(index, job, rewrite)
	if played.ID != job.ID || played.Array != job.Array {
		return fmt.Errorf("submitting job %s: a controller has made it job %s, array %q (want the same ID and array)", job.ID,
			played.ID, played.Array)
	}
	return p.rm.Submit(played)
}

// rewrite returns a rewritten copy of a job.
func (p *player) rewrite(index int, job *hpc.Job, rewrite Rewriter) *hpc.Job {
	var played *hpc.Job
	if last := len(p.spare) - 1; last >= 0 {
		played, p.spare = p.spare[last], p.spare[:last]
	} else {
		played = new(hpc.Job)
	}
	*played = *job
	rewrite(played)
	if p.rewritten == nil {
		p.rewritten = make([]*hpc.Job, len(p.open))
	}
	p.rewritten[index] = played
	return played
}

// forgetRewritten drops the rewritten copy of an ended job. If memory of jobs may be reused
// ([Options.Released]), a later copy uses the memory of this copy.
func (p *player) forgetRewritten(index int) {
	if p.rewritten == nil {
		return
	}
	if job := p.rewritten[index]; job != nil && p.opts.Released != nil {
		p.spare = append(p.spare, job)
	}
	p.rewritten[index] = nil
}

// cancel carries out a cancellation of the workload, unless the job has ended.
func (p *player) cancel(index int) error {
	if p.open[index] == 0 {
		return nil
	}
	p.workload.Jobs.Get(index, &p.job)
	return p.rm.Do(rm.Command{Kind: rm.Cancel, Job: p.job.ID})
}

// do carries out a command of the controller.
func (p *player) do(c rm.Command) error {
	p.administers = true // the answer may come after the end of the last job
	if err := p.can.Check(c); err != nil {
		return err
	}
	if job := p.byName(c.Job); job >= 0 {
		e := p.expectation(job)
		e.change(c)
		p.expected[job] = e
	}
	return p.rm.Do(c)
}
