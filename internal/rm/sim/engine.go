package sim

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
)

// Config describes a simulation.
type Config struct {
	// Processors makes the machine a pool of so many processors.
	Processors int
	// Policy decides which jobs start.
	Policy NewPolicy
	// Epoch is the instant at which virtual time begins.
	Epoch hpc.Time
	// Performance is how fast the processors are: run times are divided by it, and time
	// limits are not. 1 if 0.
	Performance float64
	// Limit is the time limit that a job runs under; what it asked for if nil.
	Limit func(*hpc.Job) time.Duration
	// Lean leaves out the events' outcomes, for a driver that needs instants only.
	Lean bool
}

// LimitAtLeastTwice is the time limit of the simulations in "Replay with Feedback"
// (FGCS 2024): the larger of twice the run time and what was asked for, so that no job
// is killed. It is a [Config.Limit].
func LimitAtLeastTwice(job *hpc.Job) time.Duration {
	if job.RunTime > hpc.Unlimited/2 {
		return hpc.Unlimited
	}
	return max(2*job.RunTime, job.TimeLimit)
}

// Engine simulates a machine and its scheduler. It is a [rm.ResourceManager].
type Engine struct {
	cfg     Config
	machine *Machine
	policy  Policy
	timers  timers

	jobs     map[string]*submission
	seq      int
	arrivals []*Job // eligible, and not yet offered to the policy
	freed    bool   // something happened since the policy was asked last
	events   []rm.Event
	taken    int // how many of events the driver has
}

var _ rm.ResourceManager = (*Engine)(nil)

// New makes an engine. It fails if the configuration makes no machine.
func New(cfg Config) (*Engine, error) {
	if cfg.Performance == 0 {
		cfg.Performance = 1
	}
	switch {
	case cfg.Processors <= 0:
		return nil, errors.New("starting the simulator: a machine without processors (want at least 1)")
	case cfg.Performance < 0:
		return nil, fmt.Errorf("starting the simulator: performance %g: not above 0", cfg.Performance)
	case cfg.Policy == nil:
		return nil, errors.New("starting the simulator: no policy")
	}
	e := &Engine{cfg: cfg, machine: newPool(cfg.Processors), jobs: make(map[string]*submission)}
	e.machine.now, e.machine.started = cfg.Epoch, e.started
	e.policy = cfg.Policy(e.machine)
	return e, nil
}

// Now is the current virtual time.
func (e *Engine) Now() hpc.Time { return e.machine.now }

// Machine is the simulated machine.
func (e *Engine) Machine() *Machine { return e.machine }

// AdvanceTo implements [rm.ResourceManager]. The events that it returns are the
// engine's own and valid until the next call.
func (e *Engine) AdvanceTo(ctx context.Context, t hpc.Time) ([]rm.Event, error) {
	e.events = e.events[:copy(e.events, e.events[e.taken:])]
	e.taken = 0
	for {
		e.settle()
		if len(e.events) > 0 {
			e.taken = len(e.events)
			return e.events, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		next := e.timers.next()
		if next > t || next == Never {
			if t != Never {
				e.machine.now = max(e.machine.now, t)
			}
			return nil, nil
		}
		e.machine.now = next
		for e.timers.next() == next {
			e.expire(e.timers.pop())
		}
	}
}

// settle lets the policy act on what has happened at this instant.
func (e *Engine) settle() {
	for {
		switch {
		case e.freed:
			e.freed = false
			e.policy.Schedule()
		case len(e.arrivals) > 0:
			j := e.arrivals[0]
			e.arrivals = e.arrivals[1:]
			if j.state == blocked {
				j.state = waiting
				e.policy.Add(j)
			}
		default:
			e.arrivals = nil
			return
		}
	}
}

// expire does what a timer is for.
func (e *Engine) expire(t timer) {
	if t.class != jobEnds {
		t.due()
		return
	}
	if j := t.job; j.endTimer == t.seq {
		e.end(j)
	}
}

// Submit implements [rm.ResourceManager]. The job is accepted or refused at once, and
// the event says so at the next AdvanceTo.
func (e *Engine) Submit(job *hpc.Job) error {
	e.seq++
	s := &submission{job: job}
	e.jobs[job.ID] = s
	j := &Job{Seq: e.seq, from: s, task: -1, Request: &job.Request, Submit: e.Now(), run: e.runTime(job.RunTime), exit: job.ExitCode}
	j.Limit = e.limit(job)
	j.Size = size(&job.Request)
	if j.Size > e.machine.processors {
		e.emit(rm.Event{Kind: rm.Refused, Job: job.ID, Task: -1, RMJob: uint32(j.Seq),
			Reason: "asks for " + strconv.Itoa(j.Size) + " processors; the machine has " + strconv.Itoa(e.machine.processors)})
		return nil
	}
	s.tasks = append(s.tasks, j)
	e.emit(rm.Event{Kind: rm.Accepted, Job: job.ID, Task: -1, RMJob: uint32(j.Seq)})
	j.Eligible = e.Now()
	e.arrivals = append(e.arrivals, j)
	return nil
}

// runTime is how long a job of a run time runs on this machine.
func (e *Engine) runTime(d time.Duration) time.Duration {
	if d == hpc.Unlimited || e.cfg.Performance == 1 {
		return d
	}
	return time.Duration(float64(d) / e.cfg.Performance)
}

// limit is the time limit of a job.
func (e *Engine) limit(job *hpc.Job) time.Duration {
	limit := job.TimeLimit
	if e.cfg.Limit != nil {
		limit = e.cfg.Limit(job)
	}
	if limit <= 0 {
		return hpc.Unlimited
	}
	return limit
}

// size is how many processors a request asks for.
func size(r *hpc.Request) int {
	tasks := max(r.Tasks, r.MinNodes*max(r.TasksPerNode, 1), 1)
	return tasks * max(r.CPUsPerTask, 1)
}

// started notes that the policy has started a job.
func (e *Engine) started(j *Job) {
	if end := after(j.Start, min(j.run, j.Limit)); end != Never {
		j.endTimer = e.timers.add(end, jobEnds, j, nil)
	}
	e.emit(rm.Event{Kind: rm.Started, Job: j.from.job.ID, Task: int(j.task), RMJob: uint32(j.Seq), Outcome: e.outcome(j, hpc.Running)})
}

// end ends a running job by itself or by its time limit.
func (e *Engine) end(j *Job) {
	state := hpc.Completed
	switch {
	case j.run > j.Limit:
		state = hpc.TimedOut
	case j.exit != 0:
		state = hpc.Failed
	}
	e.finish(j, state)
}

// finish gives a job its final state.
func (e *Engine) finish(j *Job, state hpc.State) {
	was := j.state
	if was == ended {
		return
	}
	j.state, j.endTimer = ended, 0
	switch was {
	case running:
		e.machine.release(j)
		e.freed = true
	case waiting:
		e.policy.Remove(j)
		e.freed = true
	}
	outcome := e.outcome(j, state)
	if outcome != nil {
		outcome.End = e.Now()
		if state == hpc.Failed {
			outcome.ExitCode = j.exit
		}
	}
	e.emit(rm.Event{Kind: rm.Ended, Job: j.from.job.ID, Task: int(j.task), RMJob: uint32(j.Seq), Outcome: outcome})
}

// outcome is what is known of a job.
func (e *Engine) outcome(j *Job, state hpc.State) *rm.Outcome {
	if e.cfg.Lean {
		return nil
	}
	o := &rm.Outcome{State: state, Submit: j.Submit, Eligible: j.Eligible, Start: j.Start, TimeLimit: -1}
	if j.Limit != hpc.Unlimited {
		o.TimeLimit = int64(j.Limit / time.Second)
	}
	if !j.Start.IsZero() {
		o.Processors = j.Size
	}
	return o
}

func (e *Engine) emit(ev rm.Event) {
	ev.At = e.Now()
	e.events = append(e.events, ev)
}

// Cancel implements [rm.ResourceManager].
func (e *Engine) Cancel(id string) error {
	s := e.jobs[id]
	if s == nil {
		return nil
	}
	for _, j := range s.tasks {
		e.finish(j, hpc.Cancelled)
	}
	return nil
}

// SetNode implements [rm.ResourceManager].
func (e *Engine) SetNode(hpc.NodeEvent) error { return nil }

// Reserve implements [rm.ResourceManager].
func (e *Engine) Reserve(hpc.ReservationEvent) error { return nil }

// submission is one job of the workload, or one array with all its tasks.
type submission struct {
	job   *hpc.Job
	tasks []*Job
}
