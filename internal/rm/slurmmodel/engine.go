package slurmmodel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"rmreplay/internal/agenda"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurmmodel/agents"
	"rmreplay/internal/rm/slurmmodel/answers"
	"rmreplay/internal/rm/slurmmodel/backfill"
	"rmreplay/internal/rm/slurmmodel/demand"
	"rmreplay/internal/rm/slurmmodel/gang"
	"rmreplay/internal/rm/slurmmodel/keys"
	"rmreplay/internal/rm/slurmmodel/licenses"
	"rmreplay/internal/rm/slurmmodel/machine"
	"rmreplay/internal/rm/slurmmodel/owners"
	"rmreplay/internal/rm/slurmmodel/parameters"
	"rmreplay/internal/rm/slurmmodel/preemption"
	"rmreplay/internal/rm/slurmmodel/reservations"
	"rmreplay/internal/rm/slurmmodel/sdiag"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/rm/slurmmodel/words"
	"rmreplay/internal/rm/window"
)

// Engine is the model of a slurmctld and its nodes. It is a [rm.ResourceManager].
type Engine struct {
	cfg      Config
	par      *parameters.Parameters
	site     parameters.Site // the parameters of slurm.conf, with a pre-roll
	rules    parameters.Rules
	tester   *selection.Tester
	state    *selection.State
	place    map[string]int // index of each node by name
	names    words.Names
	kinds    []selection.Bits
	servers  *demand.Servers
	parts    []*partition
	lists    map[string][]*partition // by the text of a job's --partition
	account  *accounting
	licenses *licenses.Pool
	agents   agents.Pool
	preempt  *preemption.Settings  // nil without preemption
	victims  []*preemption.Job     // jobs to preempt for the last choice of nodes
	narrowed bool                  // jobs have nodes of the last choice (nodes_busy)
	gang     *gang.Scheduler[*job] // nil without gang scheduling
	slice    time.Duration         // time slice of gang scheduling

	reservations *reservations.List

	now    hpc.Time
	loops  loops
	timers agenda.Agenda[func()]
	timed  int

	submissions []*submission
	byID        map[string]*submission
	arrays      map[string]*array // by the job's ID in the workload; "" for jobs that are not tasks
	byNumber    map[uint32]*job
	list        []*job   // slurmctld's list of jobs, without ended ones
	pending     []*job   // the pending jobs of list, and jobs that are no longer pending
	returned    bool     // a job of list that is not in pending has become pending again
	queues      [2]queue // buffers of buildQueue
	over        []*job   // ended jobs that slurmctld has not forgotten
	firstOver   int64    // no job in over ended before this second
	running     []*job   // sorted by end, and then by place in the list
	horizon     []selection.Running
	owners      owners.List[*job] // running and completing jobs
	table       backfill.Table    // the table of a backfill cycle
	depths      backfill.Depths
	nextNumber  uint32
	// corresponding says that a job with an aftercorr dependency has been submitted.
	corresponding bool
	nextPlace     int

	up         selection.Bits // nodes in service
	available  selection.Bits // nodes in service and not drained; during a pass, without blocked nodes
	returning  selection.Bits // resumed nodes that are not in service yet
	planned    selection.Bits // nodes that the last cycle of backfill planned for jobs
	departures answers.Departures
	terminated answers.Line[*job] // jobs whose nodes report the script's end

	stats  sdiag.Counters
	cycle  *cycle // the backfill cycle in progress; nil between cycles
	cycles uint32 // number of backfill cycles so far

	changed int64 // the second of the last change of a job, a node, a partition or a reservation
	refused []string
	events  []rm.Event
	taken   int
}

var _ rm.ResourceManager = (*Engine)(nil)

// New makes an engine. It returns an error if the model lacks something that every job needs.
func New(cfg Config) (*Engine, error) {
	e, err := newEngine(cfg)
	if err != nil {
		return nil, fmt.Errorf("starting the model of Slurm: %w", err)
	}
	return e, nil
}

func newEngine(cfg Config) (*Engine, error) {
	m, err := machine.New(cfg.Get, cfg.Release, cfg.Nodes, cfg.Switches)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		cfg: cfg, par: parameters.Read(cfg.Get), rules: parameters.RulesOf(cfg.Release), arrays: map[string]*array{},
		place: map[string]int{}, names: words.Names{Machine: m},
		byID: map[string]*submission{}, byNumber: map[uint32]*job{}, lists: map[string][]*partition{},
	}
	if cfg.PreRoll {
		e.par = parameters.Read(window.Keys(cfg.Get, cfg.PresetBurst))
	}
	e.preempt = preemption.Read(cfg.Get, e.par, e.rules)
	e.reservations, e.licenses = e.newReservations(), licenses.New(keys.Value(cfg.Get, "Licenses"))
	n := len(m.Nodes)
	e.up, e.planned, e.returning = selection.NewBits(n), selection.NewBits(n), selection.NewBits(n)
	e.departures, e.terminated.Threads = answers.NewDepartures(n, e.par.CompleteWait, e.rules), answers.Threads(e.rules)
	for i := range m.Nodes {
		e.place[m.Nodes[i].Name] = i
		e.up.Set(i)
	}
	e.servers = demand.NewServers(m, e.cfg.Nodes, e.place)
	e.kinds = machine.Kinds(cfg.Nodes, func(name string) int { return e.place[name] })
	e.available = e.up.Clone()
	for i := range cfg.Partitions {
		p, err := newPartition(&cfg, &cfg.Partitions[i], m, e.place)
		if err != nil {
			return nil, fmt.Errorf("partition %s: %w", cfg.Partitions[i].Name, err)
		}
		e.parts, e.owners.Exclusive = append(e.parts, p), e.owners.Exclusive || p.ExclusiveUser
	}
	if len(e.parts) == 0 {
		return nil, errors.New("a cluster without partitions (want at least one)")
	}
	e.beginSharing(m)
	e.tester, e.state = selection.NewTester(m), m.NewState()
	e.nextNumber = e.par.FirstJob
	if e.account, err = newAccounting(e); err != nil {
		return nil, err
	}
	began := cfg.Epoch.Add(-cfg.Lead)
	e.now = began
	e.beginLoops(began)
	return e, nil
}

// Can implements [rm.ResourceManager].
func (e *Engine) Can() rm.Capabilities {
	return rm.Capabilities{
		Name: "the model of Slurm", FixedPriorities: true,
		Commands: []rm.CommandKind{rm.Cancel, rm.Hold, rm.Release, rm.SetPriority, rm.SetTimeLimit},
		PresetAt: func(start, begin hpc.Time) hpc.Time { return min(start, begin).Add(-window.PresetLead) },
	}
}

// Now returns the current virtual time.
func (e *Engine) Now() hpc.Time { return e.now }

// second returns the time as slurmctld reads it, in seconds since 1970.
func (e *Engine) second() int64 { return e.now.UnixSeconds() }

// at calls f at an instant. Calls at the same instant are ordered by class, then by age.
func (e *Engine) at(t hpc.Time, class uint8, f func()) {
	e.timed++
	e.timers.Put(agenda.Entry[func()]{At: t, Seq: e.timed, Class: class, What: f})
}

// AdvanceTo implements [rm.ResourceManager].
func (e *Engine) AdvanceTo(ctx context.Context, t hpc.Time) ([]rm.Event, error) {
	e.events = e.events[:copy(e.events, e.events[e.taken:])]
	e.taken = 0
	for steps := 0; ; steps++ {
		if steps%256 == 255 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		next := e.next()
		if len(e.events) > 0 && next > e.now {
			e.taken = len(e.events)
			return e.events, nil
		}
		if next > t || next == hpc.Never {
			if t != hpc.Never {
				e.now = max(e.now, t)
			}
			e.taken = len(e.events)
			return e.events, nil
		}
		e.now = max(e.now, next)
		e.step(t)
	}
}

// emit adds an event about a job to the events that AdvanceTo returns.
func (e *Engine) emit(j *job, kind rm.EventKind, reason string, outcome *rm.Outcome) {
	e.events = append(e.events, rm.Event{
		At: e.now, Kind: kind, Job: j.of.job.ID, Task: j.task, Submission: j.of.index, RMJob: j.number,
		Reason: reason, Outcome: outcome,
	})
}

// outcome returns the model's full report about a job in the given state.
func (e *Engine) outcome(j *job, s hpc.State) *rm.Outcome {
	o := &rm.Outcome{
		State: s, Submit: hpc.Unix(j.submit), Eligible: hpc.Unix(j.eligible), TimeLimit: -1, Restarts: j.restarts,
		Name: j.of.job.Name, User: j.of.job.User, Partition: j.part.Name, Priority: j.priority, PreemptedBy: j.preemption.By,
	}
	if j.limit > 0 {
		o.TimeLimit = j.limit * 60
	}
	if of := j.account.assoc; of != nil {
		o.Account = of.Account
	}
	if of := j.account.qos; of != nil {
		o.QOS = of.Name
	}
	if r := j.reservation.Of; r != nil && r.Name != window.Reservation {
		o.Reservation = r.Name
	}
	if j.alloc == nil {
		return o
	}
	o.Start = hpc.Unix(j.startedAt.UnixSeconds())
	o.Nodes, o.NodeCount, o.Processors = e.names.HostList(j.alloc.Nodes), len(j.alloc.Parts), j.alloc.CPUs
	o.TRES = words.TRES(e.tester.Machine, j.alloc)
	return o
}

// Act implements [rm.ResourceManager].
func (e *Engine) Act(action hpc.Action) error { return e.Can().CheckAction(action) }

// refuse records that an event of nodes or reservations failed. It returns a description.
func (e *Engine) refuse(what string, err error) string {
	reason := "refused: " + what + ": " + err.Error()
	e.refused = append(e.refused, fmt.Sprintf("at %s, %s", e.now, reason))
	return reason
}

// Refused describes the events of nodes and reservations that could not be carried out.
func (e *Engine) Refused() []string { return e.refused }

// NeverStarts returns the IDs of jobs that can never start: jobs with dependencies that can never
// be met, and jobs that depend on such jobs.
func (e *Engine) NeverStarts() []string {
	hopeless := map[*submission]bool{}
	var list []string
	for before := -1; before < len(list); {
		before = len(list)
		for _, j := range e.list {
			if j.state == pending && !hopeless[j.of] && (j.hopeless || j.needs.WaitsFor(hopeless)) {
				hopeless[j.of] = true
				list = append(list, j.of.job.ID)
			}
		}
	}
	return list
}

// touch records a change, so that the next backfill cycle is not skipped (last_job_update).
func (e *Engine) touch() { e.changed = e.second() }

// add appends a pending job to slurmctld's list.
func (e *Engine) add(j *job) {
	e.list, e.pending = append(e.list, j), append(e.pending, j)
}

func (e *Engine) remove(j *job) {
	if i := slices.Index(e.list, j); i >= 0 {
		e.list = slices.Delete(e.list, i, i+1)
	}
	if i := slices.Index(e.pending, j); i >= 0 && j.state == pending {
		e.pending = slices.Delete(e.pending, i, i+1)
	}
}
