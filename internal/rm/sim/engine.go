package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"rmreplay/internal/agenda"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
)

// Config describes a simulation.
type Config struct {
	// Processors makes the machine a pool of this many processors. Cluster makes it a machine of
	// nodes. Exactly one of the two must be set.
	Processors int
	Cluster    *Cluster
	// Policy decides which jobs start.
	Policy NewPolicy
	// Ties is the order of events at one instant; [EndsFirst] if empty.
	Ties Ties
	// Epoch is the instant at which virtual time begins.
	Epoch hpc.Time
	// FileSystems are shared by the jobs that do I/O.
	FileSystems []hpc.FileSystem
	// RecordedLimits says that jobs have the time limits of their records. If a job ran beyond its
	// limit in the record, the engine ends it at the limit, and keeps the job's recorded state.
	RecordedLimits bool
	// Lean leaves out outcomes and the reasons of pending jobs, for a driver that needs only the
	// instants of events.
	Lean bool
}

// Ties is the order of events at one instant of virtual time.
type Ties string

const (
	// EndsFirst removes all jobs that end at an instant from the machine, and calls the policy once. Then it adds the
	// jobs that are submitted at that instant, one by one.
	EndsFirst Ties = "ends-first"
	// ArrivalsFirst is the order of the pyss simulator and its descendants. Jobs that reach their time limit free
	// their processors first. Then the submitted jobs are added. Then the policy is called once for each job that has
	// ended, in the order of their starts. A job that ended before its time limit frees its processors just before
	// this call.
	ArrivalsFirst Ties = "arrivals-first"
)

// Engine simulates a machine and its scheduler. It is a [rm.ResourceManager].
type Engine struct {
	cfg     Config
	machine *Machine
	policy  Policy
	timers  timers

	jobs    []known          // in the order of submission
	byID    map[string]int32 // index in jobs by ID; nil until the first lookup
	past    past
	store   store
	recent  []recent               // in the order of their ends
	names   map[ownName]*namesakes // nil until the first singleton
	never   []*needs               // needs that can never be met
	failing []*needs               // needs that have just failed
	moving  map[int]*Job           // running jobs with I/O, by Seq
	// transfersAt is the instant of the timer for the file systems.
	transfersAt hpc.Time
	seq         int
	arrivals    []*Job // eligible jobs that the policy has not got yet
	presets     []*Job // waiting preset jobs, which the policy does not get
	freed       bool   // the machine or a job has changed since the last call of the policy
	queued      Queued // the policy, if it shows its queue
	heads       []*Job // first job of each partition in its queue
	spare       []*Job // buffer of explain, like the next field
	addHead     func(*Job) bool
	refused     []string // events of nodes and reservations
	events      []rm.Event
	outcomes    []rm.Outcome // outcomes of events
	taken       int          // number of events that the driver has received
}

var _ rm.ResourceManager = (*Engine)(nil)

// New makes an engine. It returns an error for a wrong value in the configuration.
func New(cfg Config) (*Engine, error) {
	e, err := newEngine(cfg)
	if err != nil {
		return nil, fmt.Errorf("starting the simulator: %w", err)
	}
	return e, nil
}

func newEngine(cfg Config) (*Engine, error) {
	if cfg.Ties == "" {
		cfg.Ties = EndsFirst
	}
	switch {
	case cfg.Policy == nil:
		return nil, errors.New("no policy")
	case cfg.Ties != EndsFirst && cfg.Ties != ArrivalsFirst:
		return nil, fmt.Errorf("ties %q: not an order (want %s or %s)", cfg.Ties, EndsFirst, ArrivalsFirst)
	}
	e := &Engine{cfg: cfg}
	e.past.badly.failed, e.past.refused.refused = 1, true
	switch {
	case cfg.Cluster != nil:
		var err error
		if e.machine, err = newCluster(*cfg.Cluster); err != nil {
			return nil, err
		}
	case cfg.Processors > 0:
		e.machine = newPool(cfg.Processors)
	}
	if e.machine == nil || e.machine.processors == 0 {
		return nil, errors.New("a machine without processors (want at least 1)")
	}
	e.machine.now, e.machine.started = cfg.Epoch, e.started
	e.machine.wake = e.wake
	if err := e.shareFileSystems(); err != nil {
		return nil, err
	}
	e.policy = cfg.Policy(e.machine)
	if e.addHead = e.head; !cfg.Lean {
		e.queued, _ = e.policy.(Queued)
	}
	return e, nil
}

// Now returns the current virtual time.
func (e *Engine) Now() hpc.Time { return e.machine.now }

// Processors returns the number of processors of the machine.
func (e *Engine) Processors() int { return e.machine.processors }

// AdvanceTo implements [rm.ResourceManager]. Events and outcomes are valid until the next call.
func (e *Engine) AdvanceTo(ctx context.Context, t hpc.Time) ([]rm.Event, error) {
	if e.events = e.events[:copy(e.events, e.events[e.taken:])]; len(e.events) == 0 {
		e.outcomes = e.outcomes[:0]
	}
	e.taken = 0
	for {
		err := e.schedule(ctx)
		e.foreseeTransfers()
		if len(e.events) > 0 {
			return e.take(), nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		next := e.timers.Next()
		if next > t || next == hpc.Never {
			if t != hpc.Never {
				e.machine.now = max(e.machine.now, t)
			}
			return nil, nil
		}
		if entered := next > e.machine.now; entered {
			e.machine.now = next
			if e.cfg.Ties == ArrivalsFirst {
				e.freeForeseen()
				if next == t { // submissions at t are before other events at t
					return e.take(), nil
				}
				continue
			}
		}
		e.expire()
	}
}

// offer gives an eligible job to the policy, or adds it to the waiting preset jobs.
func (e *Engine) offer(j *Job) {
	switch {
	case j.of.preset:
		j.state, e.presets, e.freed = waiting, append(e.presets, j), true
	case j.demand != nil && j.demand.partition.Stopped:
		e.explainJob(j, becausePartition)
	default:
		j.state = waiting
		e.policy.Add(j)
	}
}

// take returns the events.
func (e *Engine) take() []rm.Event {
	e.taken = len(e.events)
	return e.events
}

// schedule calls the policy for the changes and arrivals of this instant. If ctx is cancelled during many arrivals,
// schedule leaves the remaining arrivals in e.arrivals and returns ctx's error.
func (e *Engine) schedule(ctx context.Context) error {
	const often = 64
	asked := false
	for next := 0; ; {
		switch {
		case next%often == often-1 && ctx.Err() != nil:
			e.arrivals = slices.Delete(e.arrivals, 0, next)
			return ctx.Err()
		case e.freed:
			e.freed, asked = false, true
			e.startPresets()
			e.policy.Schedule()
		case next < len(e.arrivals):
			j := e.arrivals[next]
			next++
			if j.state == blocked && !j.onHold {
				e.offer(j)
			}
		default:
			if e.queued != nil && (asked || len(e.arrivals) > 0) {
				e.explain()
			}
			clear(e.arrivals)
			e.arrivals = e.arrivals[:0]
			return nil
		}
	}
}

// expire runs all timers of this instant. With [ArrivalsFirst] it runs one timer, because the policy is called after
// each end.
func (e *Engine) expire() {
	for e.timers.Next() == e.machine.now {
		t := e.timers.Pop()
		switch {
		case t.What.do != nil:
			t.What.do()
		case t.Class == jobOutlives:
			e.correct(t.What.job, t.Seq)
		case t.What.job.endTimer == t.Seq:
			e.end(t.What.job)
		}
		if e.cfg.Ties == ArrivalsFirst {
			return
		}
	}
}

// freeForeseen ends the jobs that end at this instant as expected ([Job.Due]), for example at their
// time limit. It replaces each job's timer by a timer that calls the policy.
func (e *Engine) freeForeseen() {
	e.transfer()
	var now []agenda.Entry[due]
	for e.timers.Next() == e.machine.now {
		t := e.timers.Pop()
		if t.Class == jobOutlives {
			e.correct(t.What.job, t.Seq)
			continue
		}
		if j := t.What.job; j != nil && j.endTimer == t.Seq && j.Due == e.machine.now {
			e.end(j)
			t.What = due{do: func() { e.freed = true }}
		}
		now = append(now, t)
	}
	e.freed = false
	for _, t := range now {
		e.timers.Put(t)
	}
}

// started is called when the policy starts a job.
func (e *Engine) started(j *Job) {
	j.end = after(j.Start, j.run)
	if at := j.of.job.EndAt; at != 0 {
		j.end = max(at, j.Start)
	}
	e.predictStart(j)
	e.beginIO(j)
	e.foresee(j)
	e.emit(j, rm.Started, "", e.outcome(j, hpc.Running))
	j.of.started(e, j)
}

// foresee sets the timer for the end of a running job.
func (e *Engine) foresee(j *Job) {
	limit := after(j.Start, j.Limit)
	j.cut, j.endTimer = j.end > limit, 0
	if end := min(j.end, limit); end != hpc.Never {
		j.endTimer = e.timers.add(max(end, e.Now()), jobEnds, j, nil)
	}
	e.watch(j)
}

// end ends a running job that ends by itself or has reached its time limit.
func (e *Engine) end(j *Job) {
	var state hpc.State
	switch {
	case j.cut && (!e.cfg.RecordedLimits || !j.outlived()):
		state = hpc.TimedOut
	default:
		state = j.recordedEnd()
	}
	e.finish(j, state, "")
}

// finish gives a job its final state. reason says why the job ended; it may be empty.
func (e *Engine) finish(j *Job, state hpc.State, reason string) {
	if j.state == ended {
		return
	}
	was := j.state
	e.predictEnd(j, state)
	e.leave(j)
	j.state, j.well, j.end = ended, state == hpc.Completed, e.Now()
	outcome := e.outcome(j, state)
	if outcome != nil {
		outcome.End = e.Now()
		if state == hpc.Failed {
			outcome.ExitCode = j.exitCode()
		}
	}
	e.emit(j, rm.Ended, reason, outcome)
	j.of.ended(e, j, was)
}

// leave removes a job from the machine or from the policy.
func (e *Engine) leave(j *Job) {
	switch j.state {
	case running:
		j.endTimer = 0
		e.endIO(j)
		e.machine.release(j)
		e.freed = true
	case waiting:
		if !e.removePreset(j) {
			e.policy.Remove(j)
		}
		e.machine.Unreserve(j)
		e.freed = true
	}
}

// requeue removes a running job from the machine and makes it pending again.
func (e *Engine) requeue(j *Job, reason string) {
	e.predictEnd(j, hpc.Pending)
	e.leave(j)
	outcome := e.outcome(j, hpc.Pending)
	if outcome != nil {
		outcome.End = e.Now()
	}
	j.restarts++
	j.of.pending++
	if n := e.nameOf(j.of.job); n != nil {
		n.running--
		defer n.check(e)
	}
	j.end = 0
	if outcome != nil {
		outcome.Restarts = int(j.restarts)
	}
	j.state, j.Start, j.Due, j.first, j.why = blocked, 0, 0, 0, becauseOrdinary
	e.predict(j)
	e.emit(j, rm.Requeue, reason, outcome)
	if j.onHold {
		j.withdraw()
		return
	}
	e.arrivals = append(e.arrivals, j)
}

// emit adds an event of a job.
func (e *Engine) emit(j *Job, kind rm.EventKind, reason string, outcome *rm.Outcome) {
	e.report(rm.Event{Kind: kind, Job: j.of.job.ID, Task: int(j.task), Submission: j.of.number, RMJob: uint32(j.Seq), Reason: reason, Outcome: outcome})
}

func (e *Engine) report(ev rm.Event) {
	ev.At = e.Now()
	e.events = append(e.events, ev)
}

// outcome returns all that is known about a job.
func (e *Engine) outcome(j *Job, state hpc.State) *rm.Outcome {
	if e.cfg.Lean {
		if state.Ended() && j.Start.IsZero() {
			return e.newOutcome(rm.Outcome{State: state}) // the job never ran
		}
		return nil
	}
	o := e.newOutcome(rm.Outcome{State: state, Submit: j.Submit, Eligible: j.Eligible, Start: j.Start, TimeLimit: -1, Restarts: int(j.restarts)})
	if e.queued != nil && state != hpc.Pending && e.Now() > j.Eligible { // the job waited
		o.First = cmp.Or(j.first, e.Now())
	}
	if j.Limit != hpc.Unlimited {
		o.TimeLimit = int64(j.Limit / time.Second)
	}
	if j.Start.IsZero() {
		return o
	}
	o.Processors = j.held()
	if n := e.machine.nodes; n != nil {
		o.Nodes, o.NodeCount, o.TRES = n.hosts(j), len(j.placement.nodes), n.tres(j)
		o.Partition = j.demand.partition.Name
		if !j.of.preset { // preset jobs run in a reservation that is not in the workload
			o.Reservation = j.demand.reservation
		}
	}
	return o
}

// newOutcome stores an outcome, which is valid until the first call of AdvanceTo after all events
// have been taken.
func (e *Engine) newOutcome(o rm.Outcome) *rm.Outcome {
	e.outcomes = append(e.outcomes, o)
	return &e.outcomes[len(e.outcomes)-1]
}
