package policy

import (
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/ioaware"
	"rmreplay/internal/rm/sim"
)

// ioPolicies are the policies that plan with a file system, with their default options.
var ioPolicies = []ioPolicy{
	{"bf-licenses", "Slurm's main and backfill scheduler with requested licenses (bf_licenses)",
		ioaware.Planning{Options: ioaware.Options{Strategy: ioaware.Aware}, Estimator: ioaware.Nothing{}, EstimateIsRequest: true}},
	{"io-baseline", "only requested licenses count, not estimates or measured use",
		ioaware.PlanningBy(ioaware.Baseline)},
	{"io-aware", "estimated and measured use of the file system stays within its limit",
		ioaware.PlanningBy(ioaware.Aware)},
	{"workload-adaptive", "as io-aware; also keeps heavy I/O near a target set by the queue",
		ioaware.PlanningBy(ioaware.TwoGroup)},
}

// ioPolicy is a policy that plans with a file system.
type ioPolicy struct {
	name, doc string
	options   ioaware.Planning
}

// ioOptions returns the default options of a policy that plans with a file system, or nil.
func ioOptions(name string) *ioaware.Planning {
	for i := range ioPolicies {
		if ioPolicies[i].name == name {
			return &ioPolicies[i].options
		}
	}
	return nil
}

// SchedulesIO reports whether a policy, with or without options, plans with a file system.
func SchedulesIO(spec string) bool {
	name, _, _ := strings.Cut(spec, ":")
	return ioOptions(name) != nil
}

// withFileSystem plans rounds with the rules of package ioaware.
type withFileSystem struct {
	machine *sim.Machine
	options ioaware.Planning
	system  hpc.FileSystem // zero if the machine has no file system
	queue   []*sim.Job
	rounds  ioaware.Rounds
	next    hpc.Time // instant of the next round; 0 if no round is planned
	due     bool     // the next round is now
	counted int64    // measured use that the last round assumed, in licenses
}

// WithFileSystem makes a policy that plans rounds by the rules of package ioaware, with the first
// file system of the machine. Jobs start only in rounds. With EstimateIsRequest, however, the
// rounds are the cycles of Slurm's backfill scheduler, and Slurm's main scheduler starts jobs
// between them.
func WithFileSystem(options ioaware.Planning) sim.NewPolicy {
	return func(m *sim.Machine) sim.Policy {
		if options.EstimateIsRequest {
			return newBFLicenses(m, options)
		}
		p := newWithFileSystem(m, options)
		if len(m.FileSystems()) > 0 {
			m.OnTransfer(func() bool { return p.measured() < p.counted })
		}
		return &p
	}
}

func newWithFileSystem(m *sim.Machine, options ioaware.Planning) withFileSystem {
	p := withFileSystem{machine: m, options: options, rounds: ioaware.Rounds{Fixed: options.Interval, Begin: m.Now()}}
	if list := m.FileSystems(); len(list) > 0 {
		p.system = list[0]
	}
	return p
}

// Add implements [sim.Policy].
func (p *withFileSystem) Add(j *sim.Job) {
	p.queue = append(p.queue, j)
	p.await(true)
}

// Remove implements [sim.Policy].
func (p *withFileSystem) Remove(j *sim.Job) {
	p.queue = slices.DeleteFunc(p.queue, func(other *sim.Job) bool { return other == j })
}

// Change implements [sim.Policy].
func (p *withFileSystem) Change(_ *sim.Job, change func()) { change() }

// await sets the machine's timer for the next round. The parameter changed says that something has
// changed since the last round.
func (p *withFileSystem) await(changed bool) {
	if len(p.queue) == 0 {
		return
	}
	at := p.rounds.Next(p.machine.Now(), changed)
	if p.next != 0 && p.next <= at {
		return
	}
	p.next = at
	p.machine.Wake(at, func() bool {
		p.due = p.due || p.next == at // another round may have replaced this one
		return p.due
	})
}

// Schedule implements [sim.Policy]. Only a round starts jobs.
func (p *withFileSystem) Schedule() {
	if !p.due {
		p.await(true)
		return
	}
	p.due, p.next = false, 0
	if len(p.queue) == 0 {
		return
	}
	p.rounds.Planned(p.machine.Now())
	if p.round() {
		p.await(false)
	}
}

// Queue implements [sim.Queued].
func (p *withFileSystem) Queue(yield func(*sim.Job) bool) {
	slices.Values(p.queue)(yield)
}

// measured returns the measured use of the file system, in licenses; 0 if the policy does not
// measure it.
func (p *withFileSystem) measured() int64 {
	if p.options.EstimateIsRequest || p.options.Strategy == ioaware.Baseline {
		return 0
	}
	return p.system.LicensesOf(float64(p.machine.IOLoad(p.system.Name).Granted))
}

// round makes a round: it plans all jobs and starts some. It returns true if a later round may
// start more jobs, because a job runs or the plan has a later start.
func (p *withFileSystem) round() bool {
	m := p.machine
	cluster, running := p.state()
	p.counted = cluster.Measured
	pending := make([]ioaware.Job, len(p.queue))
	for i, j := range p.queue {
		pending[i] = p.job(j)
	}
	s := &selector{machine: m, queue: p.queue, started: make([]bool, len(p.queue))}
	cluster.Selector = s
	options := p.options.Options
	options.StartsOnly = len(running) > 0
	plan := ioaware.Plan(m.Now(), cluster, running, pending, options)
	open := false
	for _, start := range plan.Starts {
		if !s.started[start.Job] {
			m.Unreserve(p.queue[start.Job])
		}
		open = open || start.At != hpc.Never
	}
	left := p.queue[:0]
	for i, j := range p.queue {
		if !s.started[i] {
			left = append(left, j)
		}
	}
	clear(p.queue[len(left):])
	p.queue = left
	return open || len(running) > 0
}

// state returns the machine's state for a plan.
func (p *withFileSystem) state() (*ioaware.Cluster, []ioaware.Running) {
	cluster := &ioaware.Cluster{Nodes: p.machine.NodeCount(), FileSystem: p.system.Name, Licenses: map[string]ioaware.License{}}
	if p.system.Name != "" {
		cluster.Licenses[p.system.Name] = ioaware.License{Total: p.system.Licenses}
		cluster.Measured = p.measured()
	}
	var running []ioaware.Running
	for j := range p.machine.Running() {
		r := ioaware.Running{Job: p.job(j), End: j.Due}
		if use, requested := r.Licenses[p.system.Name]; requested {
			l := cluster.Licenses[p.system.Name]
			l.Used += use
			cluster.Licenses[p.system.Name] = l
		}
		running = append(running, r)
	}
	return cluster, running
}

// AwaitsBandwidth implements [sim.Planner].
func (p *withFileSystem) AwaitsBandwidth(j *sim.Job) bool {
	if p.system.Name == "" {
		return false
	}
	pending := []ioaware.Job{p.job(j)}
	if p.options.Strategy == ioaware.TwoGroup { // the target depends on all pending jobs
		for _, other := range p.queue {
			if other != j {
				pending = append(pending, p.job(other))
			}
		}
	}
	cluster, running := p.state()
	return ioaware.AwaitsBandwidth(p.machine.Now(), cluster, running, pending, p.options.Options)
}

// job returns what the planner may use of a job. It omits all licenses except the file system's,
// because the machine does not know the numbers of other licenses.
func (p *withFileSystem) job(j *sim.Job) ioaware.Job {
	planned := ioaware.Job{Nodes: j.Nodes(), Limit: j.Limit}
	if p.system.Name == "" {
		return planned
	}
	planned.Estimate = j.Estimate(p.options.Estimator, &p.system)
	use, requested := ioaware.ParseLicenses(j.Request.Licenses)[p.system.Name]
	if !requested && p.options.EstimateIsRequest && planned.Estimate.Use > 0 {
		use, requested = min(planned.Estimate.Use, p.system.Licenses), true
	}
	if requested {
		planned.Licenses = map[string]int64{p.system.Name: use}
	}
	return planned
}

// selector lets the machine select nodes for the planner. It starts a job when the job's nodes are
// reserved from now on.
type selector struct {
	machine *sim.Machine
	queue   []*sim.Job
	started []bool
}

// Earliest implements [ioaware.Selector].
func (s *selector) Earliest(job int, after hpc.Time) hpc.Time {
	return s.machine.Earliest(s.queue[job], after)
}

// Reserve implements [ioaware.Selector].
func (s *selector) Reserve(job int, at hpc.Time) {
	if at > s.machine.Now() {
		s.machine.ReserveAt(s.queue[job], at)
		return
	}
	s.started[job] = true
	s.machine.Start(s.queue[job])
}

// Full implements [ioaware.Selector].
func (s *selector) Full() bool { return s.machine.Free() <= 0 }
