// Package ioaware plans the starts of jobs on a cluster whose file system is a resource. It has the
// rules of the workload-adaptive scheduler of Goponenko, Lamar, Allan, Brandt and Dechev
// ("Workload-Adaptive Scheduling for Efficient Use of Parallel File Systems in HPC Clusters", SC'24
// workshops, DOI 10.1109/SCW63240.2024.00190) and of the I/O-aware scheduler before it. docs/IO.md
// has the rules, and says where this package differs from the authors' plugin.
//
// The file system's bandwidth is a count of licenses. A job's use is the number of licenses that
// its user requests or, without a request, that an estimate predicts. [Plan] looks at the pending
// jobs in the order of their priority and gives each the earliest start at which the licenses, the
// file system and the nodes have room until the job's time limit.
//
// The package does no I/O and reads no clock: the simulator and a driver of a live cluster call
// the same code.
package ioaware

import (
	"cmp"
	"math"
	"slices"
	"time"

	"rmreplay/internal/hpc"
)

// Strategy is how a plan treats the file system.
type Strategy string

const (
	// Baseline ignores estimates and measured use. Requested licenses still count.
	Baseline Strategy = "baseline"
	// Aware keeps the use of the file system at or below its licenses.
	Aware Strategy = "aware"
	// TwoGroup is the workload-adaptive strategy. It also keeps the use of jobs with much I/O at a
	// target, which follows from the queue.
	TwoGroup Strategy = "two-group"
)

// Options say how to plan.
type Options struct {
	Strategy Strategy
	// TrackNodes gives nodes only to jobs that start now. For jobs that start later, nodes are only
	// counted, not reserved.
	TrackNodes bool
	// Resolution is the step of the trackers; [DefaultResolution] if 0.
	Resolution time.Duration
	// Fraction is the part of the pending jobs' area (nodes x time) that is in the zero group of
	// [TwoGroup]; 0.5 if 0.
	Fraction float64
	// StartsOnly ends a plan when no later job of the queue can start in this round, because all of
	// them ask for more nodes or licenses than are free now.
	StartsOnly bool
}

// DefaultResolution is the step of the trackers in Slurm's backfill scheduler (bf_resolution).
const DefaultResolution = time.Minute

// License is a count of licenses: how many there are, and how many running jobs hold because
// their users asked for them.
type License struct{ Total, Used int64 }

// Cluster is the state of a cluster.
type Cluster struct {
	// Nodes is the number of nodes in service.
	Nodes int
	// FileSystem is the name of the license that stands for the file system's bandwidth. Licenses has
	// this license and all others.
	FileSystem string
	Licenses   map[string]License
	// Pools are the sets of nodes on which jobs of one kind may run, by name; nil if every job may run
	// on every node.
	Pools map[string]Pool
	// Reserved has the nodes of reservations. No pending job may have them while they are reserved.
	Reserved []Reserved
	// Measured is the measured use of the file system, in licenses.
	Measured int64
	// Selector chooses nodes. Without a selector, nodes are only counted, as if a job could run on any
	// of them.
	Selector Selector
}

// Pool is a set of nodes. It has the number of nodes in service, and the names of the pools with
// which it shares nodes, including its own name.
type Pool struct {
	Nodes    int
	Overlaps []string
}

// Reserved is a number of nodes that are reserved in an interval, in all and in each pool.
type Reserved struct {
	From, Until hpc.Time
	Nodes       int
	Uses        map[string]int
	// Idle is the number of these nodes, by pool, that are idle now and that no earlier reservation
	// has.
	Idle map[string]int
}

// Selector is the cluster's own selection of nodes.
type Selector interface {
	// Earliest returns the earliest instant, at or after an instant, from which a pending job can have
	// nodes until its time limit; [hpc.Never] if there is none. Nodes of running jobs, and nodes that
	// Reserve has taken, are not available. job is the index of the pending job.
	Earliest(job int, after hpc.Time) hpc.Time
	// Reserve takes nodes for a job from an instant that Earliest has returned.
	Reserve(job int, at hpc.Time)
	// Full reports whether no node has room for any job now.
	Full() bool
}

// Job is what the scheduler knows of a job.
type Job struct {
	Nodes int
	// Pool is the pool on whose nodes the job may run.
	Pool string
	// Limit is the time limit.
	Limit time.Duration
	// Licenses are the requested licenses by name. A request for the file system's license, even for
	// 0, replaces the estimate.
	Licenses map[string]int64
	Estimate Estimate
}

// Estimate is what is expected from the job's class. Zero values mean that nothing is known.
type Estimate struct {
	Use     int64         // of the file system, in licenses
	RunTime time.Duration // not used for the planned window
}

// Running is a running job. End is when its time limit ends it.
type Running struct {
	Job
	End hpc.Time
	// Uses is the number of the job's nodes in each pool; nil if the cluster has no pools.
	Uses map[string]int
	// Twice has, as negative numbers, the job's nodes that would count twice while it runs: nodes that
	// are in [Cluster.Reserved] too, or that are no longer in service.
	Twice []Reserved
}

// Start is the planned start of a pending job: now, later, or [hpc.Never] for a job that asks for
// more than the cluster has.
type Start struct {
	Job int // index among the pending jobs
	At  hpc.Time
}

// Round is the outcome of one round of planning.
type Round struct {
	// Starts has every pending job, in the order of priority. With [Options.StartsOnly], it has only
	// the jobs that the plan looked at. If the plan looked at none, the other fields are zero.
	Starts []Start
	// Used and StarUsed are the first values of the trackers of the file system and of the jobs
	// with much I/O.
	Used, StarUsed int64
	Groups         Groups
}

// Now returns the jobs that start now, by their indices.
func (r *Round) Now(now hpc.Time) []int {
	var list []int
	for _, s := range r.Starts {
		if s.At == now {
			list = append(list, s.Job)
		}
	}
	return list
}

// Plan plans one round at an instant. pending is in the order of priority. A planned start after
// now is a multiple of the resolution. The planned window of a job is as long as its time limit.
func Plan(now hpc.Time, cluster *Cluster, running []Running, pending []Job, options Options) Round {
	p := newPlanner(now, cluster, running, pending, options)
	if options.StartsOnly && !p.anyFits(0) {
		return Round{}
	}
	p.track(running)
	round := Round{Starts: make([]Start, 0, len(pending)), Used: p.fileSystem.Initial(), StarUsed: p.star.Initial(),
		Groups: p.groups}
	for i := range pending {
		if options.StartsOnly && !p.anyFits(i) {
			break
		}
		at := p.earliest(i)
		if at != hpc.Never {
			p.allocate(i, at)
		}
		round.Starts = append(round.Starts, Start{i, at})
	}
	return round
}

// planner has the trackers of a round.
type planner struct {
	now     hpc.Time
	cluster *Cluster
	options Options
	pending []Job

	total      int64
	fileSystem *Tracker
	others     map[string]*Tracker
	nodes      *Tracker
	pools      map[string]*Tracker
	star       *Tracker
	groups     Groups
	// constraints are the conditions for the start of a pending job, in the order in which they are
	// tested.
	constraints []constraint
	// reserved has the nodes of reservations, and the corrections for nodes of running jobs that count
	// twice.
	reserved []reserved

	// The nodes, the nodes by pool, and the use of running jobs, reservations and jobs that start now.
	taken      int
	takenPools map[string]int
	takenUse   int64
	next       int // the first pending job that may still fit now; no earlier job fits
}

func newPlanner(now hpc.Time, cluster *Cluster, running []Running, pending []Job, options Options) *planner {
	if options.Resolution <= 0 {
		options.Resolution = DefaultResolution
	}
	p := &planner{now: now, cluster: cluster, options: options, pending: pending, others: map[string]*Tracker{},
		nodes: &Tracker{}, pools: map[string]*Tracker{}, star: &Tracker{}, takenPools: map[string]int{}}
	for name, l := range cluster.Licenses {
		if name != cluster.FileSystem {
			p.others[name] = NewTracker(l.Used)
		}
	}
	for name := range cluster.Pools {
		p.pools[name] = &Tracker{}
	}
	p.total = cluster.Licenses[cluster.FileSystem].Total
	p.reserve(cluster.Reserved, hpc.Never)
	for i := range running {
		r := &running[i]
		p.take(r.Nodes, r.Uses)
		p.reserve(r.Twice, p.giveBack(r))
	}
	p.constraints = []constraint{p.licensesFree, p.nodesFree, p.idleFree, p.fileSystemFree}
	if options.Strategy == TwoGroup {
		p.constraints = append(p.constraints, p.belowTarget)
	}
	if cluster.Selector != nil {
		p.constraints = append(p.constraints, p.selected)
	}
	return p
}

// reserved is a number of nodes until an instant of the trackers.
type reserved struct {
	*Reserved
	until hpc.Time
}

// reserve adds nodes of reservations. They are given back at the end of the reservation, or at the
// instant earlier if that comes first.
func (p *planner) reserve(list []Reserved, earlier hpc.Time) {
	for i := range list {
		r := &list[i]
		if r.From <= p.now {
			p.take(r.Nodes, r.Uses)
		}
		until := r.Until
		if p.down(until) != until {
			until = p.up(until)
		}
		p.reserved = append(p.reserved, reserved{r, min(until, earlier)})
	}
}

// take counts nodes that a job or a reservation has now.
func (p *planner) take(nodes int, uses map[string]int) {
	p.taken += nodes
	for name, n := range uses {
		p.takenPools[name] += n
	}
}

// track makes the trackers from the running jobs.
func (p *planner) track(running []Running) {
	p.addRunning(running)
	p.takenUse = p.fileSystem.Initial()
	if p.options.Strategy == TwoGroup {
		p.groups = p.divide(running)
		p.addStars(running)
	}
}

// use returns a job's use of the file system, and whether its user requested it.
func (p *planner) use(j *Job) (use int64, requested bool) {
	if use, requested = j.Licenses[p.cluster.FileSystem]; requested || p.options.Strategy == Baseline {
		return use, requested
	}
	return j.Estimate.Use, false
}

// addRunning makes the trackers of nodes and licenses from the running jobs. The file system's
// tracker begins at the larger of slurmctld's count and the measured use, so that predicted use
// that the measurement already contains does not count twice. Measured use that no running job
// explains is taken to end with the last running job. Otherwise, a job that needs nearly all
// licenses might never start.
func (p *planner) addRunning(running []Running) {
	fs := p.cluster.Licenses[p.cluster.FileSystem]
	initial := fs.Used
	if p.options.Strategy != Baseline && len(running) > 0 {
		initial = max(initial, p.cluster.Measured)
	}
	p.fileSystem = NewTracker(initial)
	offset, explained, last := fs.Used-initial, int64(0), p.now
	for _, r := range byEnd(running) { // in this order, every new step of a tracker is the last
		end := p.giveBack(r)
		p.nodes.RemoveTillEnd(end, int64(r.Nodes))
		for name, n := range r.Uses {
			if t := p.pools[name]; t != nil {
				t.RemoveTillEnd(end, int64(n))
			}
		}
		for name, n := range r.Licenses {
			if t := p.others[name]; t != nil {
				t.RemoveTillEnd(end, n)
			}
		}
		use, requested := p.use(&r.Job)
		p.fileSystem.RemoveTillEnd(end, use)
		explained += use
		last = max(last, end)
		if !requested {
			offset += use
		}
	}
	p.nodes.Shift(int64(p.taken))
	for name, t := range p.pools {
		t.Shift(int64(p.takenPools[name]))
	}
	for i := range p.reserved {
		p.addReserved(&p.reserved[i])
	}
	p.fileSystem.Shift(max(offset, 0))
	if rest := min(p.fileSystem.Initial()-explained, initial-fs.Used); rest > 0 {
		p.fileSystem.RemoveTillEnd(last, rest)
	}
}

// addReserved adds reserved nodes to the trackers. The trackers already contain the nodes that are
// reserved now, without an end: for these it only adds the end.
func (p *planner) addReserved(r *reserved) {
	add := func(t *Tracker, n int) {
		if r.From <= p.now {
			t.RemoveTillEnd(r.until, int64(n))
			return
		}
		t.Add(p.down(r.From), r.until, int64(n))
	}
	add(p.nodes, r.Nodes)
	for name, n := range r.Uses {
		if t := p.pools[name]; t != nil {
			add(t, n)
		}
	}
}

// byEnd returns running jobs in the order of their ends.
func byEnd(running []Running) []*Running {
	list := make([]*Running, len(running))
	for i := range running {
		list[i] = &running[i]
	}
	slices.SortStableFunc(list, func(a, b *Running) int { return cmp.Compare(a.End, b.End) })
	return list
}

// giveBack returns when a running job gives back what it holds. A job that runs beyond its limit
// holds its resources at least until the next step.
func (p *planner) giveBack(r *Running) hpc.Time {
	return p.up(max(r.End, p.now))
}

// down rounds an instant down to a multiple of the resolution.
func (p *planner) down(t hpc.Time) hpc.Time {
	r := hpc.Time(p.options.Resolution)
	return t / r * r
}

// up returns the next multiple of the resolution after an instant.
func (p *planner) up(t hpc.Time) hpc.Time {
	if t >= hpc.Never-hpc.Time(p.options.Resolution) {
		return hpc.Never
	}
	return p.down(t).Add(p.options.Resolution)
}

// end returns the end of the planned window of a job.
func (p *planner) end(j *Job, at hpc.Time) hpc.Time {
	if j.Limit == hpc.Unlimited {
		return hpc.Never
	}
	return p.up(at.Add(j.Limit))
}

// earliest returns the earliest instant at which a pending job has everything until its time
// limit: now, a later multiple of the resolution, or [hpc.Never].
func (p *planner) earliest(i int) hpc.Time {
	at := p.now
	for {
		next := at
		for _, c := range p.constraints {
			if next = c(i, next); next == hpc.Never {
				return hpc.Never
			}
		}
		if next == at {
			return at
		}
		at = next
	}
}

// constraint returns the earliest instant, at or after a given instant, at which a pending job
// meets one condition.
type constraint func(i int, at hpc.Time) hpc.Time

// selected is the constraint of the cluster's own selection of nodes. A later instant is rounded up
// to a multiple of the resolution.
func (p *planner) selected(i int, at hpc.Time) hpc.Time {
	t := p.cluster.Selector.Earliest(i, at)
	if t <= at || t == hpc.Never || p.down(t) == t {
		return t
	}
	return p.up(t)
}

// when returns the earliest instant at which a tracker stays at or below most during a job's
// window.
func (p *planner) when(t *Tracker, j *Job, at hpc.Time, most int64) hpc.Time {
	from := p.down(at)
	start := t.WhenBelow(from, p.end(j, at).Sub(from), most+1)
	if start == from {
		return at
	}
	return start
}

// licensesFree is the constraint of all licenses except the file system's.
func (p *planner) licensesFree(i int, at hpc.Time) hpc.Time {
	j := &p.pending[i]
	for name, n := range j.Licenses {
		if name == p.cluster.FileSystem || n <= 0 {
			continue
		}
		t := p.others[name]
		if t == nil {
			return hpc.Never
		}
		if at = p.when(t, j, at, p.cluster.Licenses[name].Total-n); at == hpc.Never {
			return hpc.Never
		}
	}
	return at
}

// nodesFree is the constraint of the number of free nodes, in the job's pool and in all.
func (p *planner) nodesFree(i int, at hpc.Time) hpc.Time {
	j := &p.pending[i]
	if !p.countNodes() {
		return at
	}
	if t := p.pools[j.Pool]; t != nil {
		if at = p.when(t, j, at, int64(p.cluster.Pools[j.Pool].Nodes-j.Nodes)); at == hpc.Never {
			return at
		}
	}
	return p.when(p.nodes, j, at, int64(p.cluster.Nodes-j.Nodes))
}

// idleFree is the constraint of the nodes that are idle now, except nodes whose reservation begins
// before the job's end. It is needed because the trackers count only the number of a reservation's
// nodes, and only from its beginning on. A job that does not start now is planned for the next
// step.
func (p *planner) idleFree(i int, at hpc.Time) hpc.Time {
	if at > p.now || len(p.reserved) == 0 || !p.countNodes() {
		return at
	}
	j := &p.pending[i]
	end, idle := p.end(j, at), p.idle(j)
	for k := range p.reserved {
		if r := &p.reserved[k]; r.From > at && r.From < end {
			idle -= r.Idle[j.Pool]
		}
	}
	if j.Nodes <= idle {
		return at
	}
	return p.up(at)
}

// idle returns the number of nodes that a job may have now.
func (p *planner) idle(j *Job) int {
	n := p.cluster.Nodes - p.taken
	if pool, known := p.cluster.Pools[j.Pool]; known {
		n = min(n, pool.Nodes-p.takenPools[j.Pool])
	}
	return n
}

// anyFits reports whether the free nodes and licenses may suffice to start a pending job now: the
// i-th or a later one. During a round, free nodes and licenses only become fewer.
func (p *planner) anyFits(i int) bool {
	if s := p.cluster.Selector; s != nil && s.Full() {
		return false
	}
	for p.next = max(p.next, i); p.next < len(p.pending); p.next++ {
		if p.fits(&p.pending[p.next]) {
			return true
		}
	}
	return false
}

// fits reports whether the nodes and the file system have room for a pending job now.
func (p *planner) fits(j *Job) bool {
	if use := p.tested(j); use > 0 && use > p.total-p.takenUse {
		return false
	}
	if !p.countNodes() {
		return true
	}
	return j.Nodes <= p.idle(j)
}

// countNodes reports whether planned jobs take nodes from the count of free ones. Without a selector the count alone
// tells whether a job fits.
func (p *planner) countNodes() bool { return p.options.TrackNodes || p.cluster.Selector == nil }

// fileSystemFree is the constraint of the file system. Predicted use of more licenses than exist is
// tested as one license less than exist.
func (p *planner) fileSystemFree(i int, at hpc.Time) hpc.Time {
	j := &p.pending[i]
	use := p.tested(j)
	if use <= 0 {
		return at
	}
	return p.when(p.fileSystem, j, at, p.total-use)
}

// tested returns the use that the test for a job assumes.
func (p *planner) tested(j *Job) int64 {
	use, requested := p.use(j)
	if !requested && use >= p.total {
		use = p.total - 1
	}
	return use
}

// allocate adds a job to the trackers.
func (p *planner) allocate(i int, at hpc.Time) {
	j := &p.pending[i]
	from, until := p.down(at), p.end(j, at)
	for name, n := range j.Licenses {
		if t := p.others[name]; t != nil && n > 0 {
			t.Add(from, until, n)
		}
	}
	p.nodes.Add(from, until, int64(j.Nodes))
	use, _ := p.use(j)
	if use > 0 {
		p.fileSystem.Add(from, until, use)
	}
	if at == p.now {
		p.taken += j.Nodes
		p.takenUse += max(use, 0)
	}
	for _, name := range p.cluster.Pools[j.Pool].Overlaps {
		if t := p.pools[name]; t != nil { // the job may get nodes of this pool
			t.Add(from, until, int64(j.Nodes))
			if at == p.now {
				p.takenPools[name] += j.Nodes
			}
		}
	}
	if p.options.Strategy == TwoGroup && p.groups.Regular(j.Nodes, use) {
		p.star.Add(from, until, max(p.groups.above(j.Nodes, use), 0))
	}
	if s := p.cluster.Selector; s != nil && (at == p.now || !p.options.TrackNodes) {
		s.Reserve(i, at)
	}
}

// round rounds to the nearest integer, halves up.
func round(x float64) int64 { return int64(math.Floor(x + 0.5)) }
