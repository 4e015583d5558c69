package forecast

import (
	"fmt"
	"slices"
	"time"

	"rmreplay/internal/forecast/periodic"
	"rmreplay/internal/forecast/requeued"
	"rmreplay/internal/forecast/unmet"
	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/transform"
)

// Key names a job, or a task of a job array. Task is -1 for a job that is not an array.
type Key struct {
	Job  string
	Task int
}

// Queue has the data that a scheduler has at an instant, and the earlier jobs.
type Queue struct {
	// At is the instant of the queue, and the start of the workload's window.
	At hpc.Time
	// Workload has the running jobs as preset jobs, the pending jobs, and the state of nodes and
	// reservations. The jobs' behaviour is used only if the run times are [True].
	Workload *workload.Workload
	// History has the jobs that were submitted before At.
	History *predict.Cases
	// Estimates are the starts that Slurm itself expected at the instant At (`squeue --start`).
	Estimates map[Key]hpc.Time
	// Reasons are Slurm's reasons why pending jobs wait, such as "Priority" or "QOSMaxJobsPerUserLimit". A queue that
	// comes from a run has no reasons.
	Reasons map[Key]string
	// Phase says when slurmctld does its periodic work.
	Phase periodic.Phase
	// Notes say which data the source of the queue lacks.
	Notes []string

	// future is the workload with everything that happened after At; nil for a live queue.
	future *workload.Workload
	// past has the jobs that end before the window begins.
	past map[string]bool
	// added says that the job of a [Variant] is submitted at the instant. The forecast includes the variant's job.
	added bool
	// states (the state of each job) and seed (the run's seed) are set only if the realizations begin at the run's
	// beginning ([Course.Rewind]).
	states map[Key]*phase
	seed   uint64
}

// Pending returns the waiting jobs and tasks of the queue in the order of their submission.
func (q *Queue) Pending() []Key {
	var keys []Key
	for _, job := range q.Workload.Jobs.All() {
		if job.Submit >= q.At && (!q.added || job.ID != submitted) || q.states == nil && q.Workload.Preset(job) {
			continue
		}
		for _, task := range hpc.TasksOf(job) {
			key := Key{job.ID, task}
			if state := q.state(key); !state.over && !state.running {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// Running returns the number of jobs and tasks that run.
func (q *Queue) Running() (n int) {
	for _, state := range q.states {
		if state.running {
			n++
		}
	}
	for _, job := range q.Workload.Jobs.All() {
		if q.states == nil && q.Workload.Preset(job) && !q.past[job.ID] {
			n++
		}
	}
	return n
}

// Course is the record of a run, read so that [Course.Freeze] can return its state at any instant.
type Course struct {
	Dir      string // the directory of the record
	Manifest run.Manifest
	workload *workload.Workload
	events   []run.Event
	cases    *predict.Cases
	rmJobs   map[uint32]Key // keys by the resource manager's numbers of jobs
	asked    map[hpc.Time]map[Key]hpc.Time
	halfLife time.Duration  // half-life of fair-share usage; 0 if the usage does not matter
	phase    periodic.Phase // the phase without the instants of the backfill scheduler
	cycles   map[hpc.Time]hpc.Time
}

// ReadCourse reads the record of a run in a directory.
func ReadCourse(dir string) (*Course, error) {
	r, err := run.Open(dir)
	if err != nil {
		return nil, err
	}
	w, err := run.Workload(dir)
	if err != nil {
		return nil, err
	}
	w.Actions = slices.DeleteFunc(w.Actions, asks) // queries, which the model of Slurm cannot answer
	c := &Course{Dir: dir, Manifest: r.Manifest, workload: w, rmJobs: map[uint32]Key{},
		asked: map[hpc.Time]map[Key]hpc.Time{}, cycles: map[hpc.Time]hpc.Time{}}
	if c.events, err = r.Events(); err != nil {
		return nil, err
	}
	if c.cases, err = predict.CasesOf(w); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	for _, e := range c.events {
		if e.RMJob != 0 && e.Job != "" {
			if _, known := c.rmJobs[e.RMJob]; !known {
				c.rmJobs[e.RMJob] = Key{e.Job, e.Task}
			}
		}
	}
	allocated(c.events)
	c.forgetUnstarted()
	return c, c.readEstimates(r)
}

// forgetUnstarted clears the run times of the jobs of the history that never started in the run, because they were
// held or the run ended earlier.
func (c *Course) forgetUnstarted() {
	k := 0 // the index of the case of a job or task: see [predict.CasesOf]
	for _, job := range c.workload.Jobs.All() {
		for _, task := range hpc.TasksOf(job) {
			if one := &c.cases.List[k]; one.Ran() && (job.Recorded == nil || job.Recorded.OfTask(task).Start == 0) {
				one.Start, one.End = 0, 0
			}
			k++
		}
	}
}

// allocated replaces the instants at which scripts were launched by the instants of the allocations. A replay on
// Slurm records the instants of launches in [rm.Started]. slurmctld reports the instants of allocations with the
// jobs' ends. slurmctld launches a script up to some seconds after it has allocated the nodes. Starts, ages and time
// limits count from the allocation.
func allocated(events []run.Event) {
	launched := map[Key]int{}
	for i := range events {
		e := &events[i]
		key := Key{e.Job, e.Task}
		switch e.Kind {
		case rm.Started:
			launched[key] = i
		case rm.Ended, rm.Requeue:
			if k, runs := launched[key]; runs && e.Start != 0 {
				events[k].Start = min(events[k].Start, e.Start)
			}
			delete(launched, key)
		}
	}
}

// phase is the state of a job, or of a task of an array, at an instant.
type phase struct {
	over, running, stuck bool
	start, launched      hpc.Time // start of the allocation and of the script
	nodes                string
	processors           int
	// next is when a waiting job starts, and end is when a running job ends by itself. Each is 0 if the run has no such
	// start or end.
	next, end hpc.Time
	// requeued is when a waiting job was requeued; 0 if it was not requeued.
	requeued hpc.Time
	// lost is the longest run that ended in a requeue.
	lost    time.Duration
	changed bool // the run has an event of the job after the instant
}

// phases returns the state of each job and task just before the events of an instant, with its next start or end.
func (c *Course) phases(at hpc.Time) map[Key]*phase {
	all := map[Key]*phase{}
	of := func(e *run.Event) *phase {
		key := Key{e.Job, e.Task}
		if all[key] == nil {
			all[key] = &phase{}
		}
		return all[key]
	}
	for i := range c.events {
		e := &c.events[i]
		if e.Job == "" {
			continue
		}
		p, past := of(e), e.At < at
		switch e.Kind {
		case rm.Refused:
			p.over = p.over || past
		case rm.Dependency:
			p.stuck = p.stuck || past
		case rm.Started:
			if past {
				*p = phase{running: true, start: e.Start, launched: e.At, nodes: e.Nodes, processors: e.Processors, lost: p.lost}
			} else if !p.changed && !p.running {
				p.next, p.changed = e.Start, true
			}
		case rm.Requeue:
			if past {
				lost := p.lost
				if p.running {
					lost = max(lost, e.At.Sub(p.start))
				}
				*p = phase{requeued: e.At, lost: lost}
			} else {
				p.changed = true
			}
		case rm.Suspend, rm.Resume:
			p.changed = p.changed || !past // the job ends later than its start + run time
		case rm.Ended:
			switch {
			case past:
				*p = phase{over: true}
			case !p.changed:
				if p.running && e.State != hpc.TimedOut && e.State != hpc.Cancelled {
					p.end = e.End
				}
				p.changed = true
			}
		}
	}
	c.unmet(at, all)
	return all
}

// unmet sets stuck for waiting jobs that never start, because a job that they depend on has
// already ended in a way that does not fulfil the dependency. slurmctld reports no event for such
// waiting jobs. The window does not have the ended job.
func (c *Course) unmet(at hpc.Time, all map[Key]*phase) {
	conditions := unmet.New(c.workload)
	if !conditions.Any() {
		return
	}
	for i := range c.events {
		e := &c.events[i]
		if e.Kind != rm.Ended || e.At >= at {
			continue
		}
		for _, job := range conditions.Broken(e.Job, e.Task, e.State, e.At) {
			key := Key{job, -1}
			if all[key] == nil {
				all[key] = &phase{}
			}
			if p := all[key]; !p.running && !p.over {
				p.stuck = true
			}
		}
	}
}

// Freeze returns the state of a run's resource manager just before an instant: running jobs with
// their starts, nodes and limits, pending jobs, nodes out of service, and reservations. It returns
// an error if the instant is outside the run, or if the record does not have the state.
func (c *Course) Freeze(at hpc.Time) (*Queue, error) {
	first := max(c.workload.Start, c.Manifest.VirtualStart)
	if at <= first || c.Manifest.VirtualEnd != 0 && at > c.Manifest.VirtualEnd {
		return nil, fmt.Errorf("reading the state of the run at %s: outside the run "+
			"(want an instant after %s and not after %s)", at, first, c.Manifest.VirtualEnd)
	}
	whole := c.at(at)
	cut, err := transform.Window(at, 0)
	if err != nil {
		return nil, fmt.Errorf("reading the state of the run: %w", err)
	}
	q := &Queue{At: at, History: c.known(at), Estimates: c.estimates(at), Phase: c.phase, past: map[string]bool{}}
	q.Phase.Backfilled = c.cycles[at]
	if q.future, _, err = transform.Apply(whole, transform.Environment{}, cut); err != nil {
		return nil, fmt.Errorf("reading the state of the run at %s: %w", at, err)
	}
	whole.Jobs.Delete(func(job *hpc.Job) bool { return job.Submit >= at })
	hide(&whole.Jobs)
	whole.NodeEvents = slices.DeleteFunc(whole.NodeEvents, func(e hpc.NodeEvent) bool { return e.At >= at })
	whole.Reservations = slices.DeleteFunc(whole.Reservations, func(e hpc.ReservationEvent) bool { return e.At >= at })
	whole.Actions = nil
	if q.Workload, _, err = transform.Apply(whole, transform.Environment{}, cut); err != nil {
		return nil, fmt.Errorf("reading the state of the run at %s: %w", at, err)
	}
	past, jobs := c.neighbours(at)
	for _, w := range []*workload.Workload{q.Workload, q.future} {
		q.addNeighbours(w, past, jobs)
		w.Usage = c.usage(at)
		requeued.Delay(w, c.workload, at)
		early(w)
	}
	return q, nil
}

// at returns the workload with a record of each job's state at an instant. The start of a pending job is set to the
// instant, because cutting the workload to the window removes jobs without a start.
func (c *Course) at(at hpc.Time) *workload.Workload {
	w := *c.workload
	w.Jobs = w.Jobs.Clone()
	w.NodeEvents, w.Reservations, w.Actions = slices.Clone(w.NodeEvents), slices.Clone(w.Reservations),
		slices.Clone(w.Actions)
	phases, moved := c.phases(at), map[string]hpc.Time{}
	for i, job := range w.Jobs.All() {
		if job.Submit >= at {
			job.Recorded = nil
			w.Jobs.Set(i, job)
			continue
		}
		before := job.Recorded
		now := &hpc.Recorded{Start: at, State: hpc.Pending}
		if before != nil {
			now.Priority = before.Priority
			if before.Eligible < at {
				now.Eligible = before.Eligible
			}
		}
		job.Recorded = now
		submit, waits := job.Submit, true
		for _, task := range hpc.TasksOf(job) {
			p := phases[Key{job.ID, task}]
			if p == nil {
				p = &phase{}
			}
			if whole := phases[Key{job.ID, -1}]; whole != nil && task >= 0 {
				p.stuck, p.over = p.stuck || whole.stuck, p.over || whole.over
			}
			job.Hold = job.Hold || p.stuck
			waits = waits && !p.running && !p.over
			p.record(job, task, at)
		}
		if last := replay.LastOf(moved, job.Dependency); waits && last > job.Submit {
			job.Postpone(last)
		}
		if job.Submit > submit {
			moved[job.ID] = job.Submit
		}
		w.Jobs.Set(i, job)
	}
	return &w
}

// hide sets all run times to 0 and all exit codes to 0, because a forecast does not know how jobs will behave. The
// function that cuts the window divides arrays. Without hide it would rewrite dependencies on these arrays from the
// later ends of their tasks.
func hide(jobs *workload.Jobs) {
	for i, job := range jobs.All() {
		job.RunTime, job.TaskRunTimes, job.ExitCode, job.TaskExitCodes, job.CancelAfter = 0, nil, 0, nil, 0
		forgetEnd(job)
		jobs.Set(i, job)
	}
}

// forgetEnd removes from a job's record the state in which it ended; otherwise the simulator would end the job in this
// state.
func forgetEnd(job *hpc.Job) {
	if job.Recorded != nil && (job.Recorded.State.Ended() || job.Recorded.TaskStates != nil) {
		record := *job.Recorded
		record.State, record.TaskStates = "", nil
		job.Recorded = &record
	}
}

// record writes the state into a job.
func (p *phase) record(job *hpc.Job, task int, at hpc.Time) {
	r := job.Recorded
	start, end, nodes := at, hpc.Time(0), ""
	switch {
	case p.over:
		start, end = at-1, at-1
	case p.running:
		start, end, nodes = p.start, 0, p.nodes
	}
	if task < 0 {
		r.Start, r.End, r.Nodes = start, end, nodes
		if p.requeued != 0 && !p.running && !p.over { // a new wait begins (batch_requeue_fini in Slurm's job_mgr.c)
			job.Submit, job.Begin, job.Dependency, r.Eligible = p.requeued, 0, "", 0
		}
		if p.running {
			r.State, r.Processors = hpc.Running, p.processors
			if p.end != 0 && job.EndAt == 0 {
				job.EndAt = p.end
				// Slurm's ends are whole seconds, but the end of the script is known more exactly.
				if end := p.launched.Add(job.RunTime); job.RunTime != hpc.Unlimited && end > p.end && end < p.end.Add(time.Second) {
					job.EndAt = end
				}
			}
		}
		return
	}
	if r.TaskStarts == nil {
		r.TaskStarts, r.TaskEnds, r.TaskNodes = map[int]hpc.Time{}, map[int]hpc.Time{}, map[int]string{}
	}
	r.TaskStarts[task] = start
	if end != 0 {
		r.TaskEnds[task] = end
	}
	if nodes != "" {
		r.TaskNodes[task] = nodes
	}
}

// known returns the jobs that had been submitted before an instant.
func (c *Course) known(at hpc.Time) *predict.Cases {
	list := c.cases.List
	n, _ := slices.BinarySearchFunc(list, at, func(one predict.Case, at hpc.Time) int {
		if one.At < at {
			return -1
		}
		return 1
	})
	return &predict.Cases{List: list[:n]}
}

// starts returns when the jobs that waited at an instant started in the run. The map has no jobs that never started.
func (c *Course) starts(at hpc.Time) map[Key]hpc.Time {
	starts := map[Key]hpc.Time{}
	for key, p := range c.phases(at) {
		if !p.over && !p.running && p.next != 0 {
			starts[key] = p.next
		}
	}
	return starts
}

// NewQueue returns the queue of a live cluster. The workload's window begins at the instant of the
// queue.
func NewQueue(w *workload.Workload, history *predict.Cases, estimates map[Key]hpc.Time, notes []string) *Queue {
	early(w)
	return &Queue{At: w.Start, Workload: w, History: history, Estimates: estimates, Notes: notes}
}
