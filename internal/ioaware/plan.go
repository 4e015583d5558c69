// Package ioaware plans the starts of jobs on a cluster with the file system as a resource. It
// follows the rules of the workload-adaptive scheduler of Goponenko, Lamar, Allan, Brandt and
// Dechev ("Workload-Adaptive Scheduling for Efficient Use of Parallel File Systems in HPC
// Clusters", SC'24 workshops, DOI 10.1109/SCW63240.2024.00190) and of its predecessor, the
// I/O-aware scheduler. docs/IO.md describes the rules, and how this package differs from the
// authors' plugin.
//
// The file system's bandwidth is a number of licenses. A job's use is the number of licenses that
// its user requests or, without a request, that an estimate predicts. [Plan] processes the pending
// jobs in order of priority. Each job gets the earliest start from which licenses, file system and
// nodes suffice until the job's time limit.
//
// The package does no I/O and reads no clock, so that the simulator and a driver for a live cluster
// can use the same code.
package ioaware

import (
	"cmp"
	"math"
	"slices"
	"time"

	"rmreplay/internal/hpc"
)

// Strategy says how a plan treats the file system.
type Strategy string

const (
	// Baseline ignores estimates and measured use. Requested licenses still count.
	Baseline Strategy = "baseline"
	// Aware limits the use of the file system to its licenses.
	Aware Strategy = "aware"
	// TwoGroup is the workload-adaptive strategy. In addition, it limits the use of jobs with much
	// I/O to a target, which it computes from the queue.
	TwoGroup Strategy = "two-group"
)

// Options say how to plan.
type Options struct {
	Strategy Strategy
	// TrackNodes reserves nodes only for jobs that start now. For later starts, nodes are counted,
	// but not reserved.
	TrackNodes bool
	// Resolution is the step of the trackers; [DefaultResolution] if 0.
	Resolution time.Duration
	// Fraction is the share of the pending jobs' area (nodes x time) that belongs to the zero group
	// of [TwoGroup]; 0 means 0.5.
	Fraction float64
	// StartsOnly ends a plan when the remaining jobs cannot start in this round, because each
	// requests more nodes or licenses than are free now.
	StartsOnly bool
}

// DefaultResolution is the step of the trackers in Slurm's backfill scheduler (bf_resolution).
const DefaultResolution = time.Minute

// License is the total number of a license, and the number that running jobs use because their
// users requested it.
type License struct{ Total, Used int64 }

// Cluster is the state of a cluster.
type Cluster struct {
	// Nodes is the number of nodes in service.
	Nodes int
	// FileSystem is the name of the license for the file system's bandwidth. Licenses has this
	// license and all others.
	FileSystem string
	Licenses   map[string]License
	// Pools maps names to the sets of nodes on which some jobs may run; nil if every job may run on
	// every node.
	Pools map[string]Pool
	// Reserved are reserved nodes. Pending jobs cannot have them during the reservations.
	Reserved []Reserved
	// Measured is the measured use of the file system, in licenses.
	Measured int64
	// Selector chooses nodes. Without it, nodes are only counted, as if a job could run on any free
	// nodes.
	Selector Selector
}

// Pool is a set of nodes: the number of nodes in service, and the names of the pools with shared
// nodes, including its own name.
type Pool struct {
	Nodes    int
	Overlaps []string
}

// Reserved is a number of nodes that are reserved for an interval, in total and per pool.
type Reserved struct {
	From, Until hpc.Time
	Nodes       int
	Uses        map[string]int
	// Idle is the number of these nodes, per pool, that are idle now and have no earlier
	// reservation.
	Idle map[string]int
}

// Selector is the cluster's own way to choose nodes.
type Selector interface {
	// Earliest returns the earliest instant from which a pending job can have nodes until its time limit, and [hpc.Never]
	// if this is impossible. The parameter after is the earliest possible result. It excludes nodes of running jobs, and
	// nodes taken with Reserve. job is the index of the pending job.
	Earliest(job int, after hpc.Time) hpc.Time
	// Reserve takes nodes for a job from an instant that Earliest returned.
	Reserve(job int, at hpc.Time)
	// Full reports whether no node has room for another job now.
	Full() bool
}

// Job describes a pending or a running job for a plan.
type Job struct {
	Nodes int
	// Pool is the name of the pool on whose nodes the job may run.
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
	Use     int64         // use of the file system, in licenses
	RunTime time.Duration // expected run time; the planned window has the time limit instead
}

// Running is a running job. End is when its time limit ends it.
type Running struct {
	Job
	End hpc.Time
	// Uses is the number of the job's nodes in each pool; nil without pools.
	Uses map[string]int
	// Twice are, as negative numbers, the job's nodes that would be counted twice while it runs. They
	// are also in [Cluster.Reserved], or are no longer in service.
	Twice []Reserved
}

// Start is the planned start of a pending job: now, later, or [hpc.Never] for a job that requests
// more than the cluster has.
type Start struct {
	Job int // index among the pending jobs
	At  hpc.Time
}

// Round is the result of one round of planning.
type Round struct {
	// Starts has all pending jobs, in order of priority. With [Options.StartsOnly], it only has the
	// jobs that the plan processed. If Starts is empty, the other fields are zero.
	Starts []Start
	// Used and StarUsed are the initial values of the trackers for the file system and for the jobs
	// with much I/O.
	Used, StarUsed int64
	Groups         Groups
}

// Now returns the indices of the jobs that start now.
func (r *Round) Now(now hpc.Time) []int {
	var list []int
	for _, s := range r.Starts {
		if s.At == now {
			list = append(list, s.Job)
		}
	}
	return list
}

// Plan plans one round. The parameter pending is in order of priority. Planned starts after the
// instant now are multiples of the resolution. A job's planned window is as long as its time
// limit.
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

// AwaitsBandwidth reports whether the file system keeps the first pending job from starting now, whatever nodes are
// free.
func AwaitsBandwidth(now hpc.Time, cluster *Cluster, running []Running, pending []Job, options Options) bool {
	p := newPlanner(now, cluster, running, pending, options)
	if p.tested(&pending[0]) <= 0 {
		return false
	}
	p.track(running)
	return p.fileSystemFree(0, now) > now || options.Strategy == TwoGroup && p.belowTarget(0, now) > now
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
	// constraints are the conditions for starting a pending job, in the order in which they are
	// checked.
	constraints []constraint
	// reserved has reserved nodes, and corrections for running jobs' nodes that would be counted
	// twice.
	reserved []reserved

	// The present use by running jobs, reservations and jobs that start now: nodes, nodes by pool,
	// licenses.
	taken      int
	takenPools map[string]int
	takenUse   int64
	next       int // the first pending job that may still fit now
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

// reserved is a reservation that ends at a given instant of the trackers.
type reserved struct {
	*Reserved
	until hpc.Time
}

// reserve adds reserved nodes. They become free at the end of the reservation or at the instant earlier, whichever
// comes first.
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

// take counts nodes as in use now.
func (p *planner) take(nodes int, uses map[string]int) {
	p.taken += nodes
	for name, n := range uses {
		p.takenPools[name] += n
	}
}

// track makes the trackers for the running jobs.
func (p *planner) track(running []Running) {
	p.addRunning(running)
	p.takenUse = p.fileSystem.Initial()
	if p.options.Strategy == TwoGroup {
		p.groups = p.divide(running)
		p.addStars(running)
	}
}

// use returns a job's use of the file system in licenses, and whether the user requested it.
func (p *planner) use(j *Job) (use int64, requested bool) {
	if use, requested = j.Licenses[p.cluster.FileSystem]; requested || p.options.Strategy == Baseline {
		return use, requested
	}
	return j.Estimate.Use, false
}

// addRunning makes the trackers of nodes and licenses from the running jobs. The initial value for
// the file system is the higher of slurmctld's count and the measured use. The measured use
// contains the predicted use, so the two must not be added. If running jobs do not explain all
// measured use, the rest is assumed to end with the last running job. Otherwise a job that needs
// almost all licenses might never start.
func (p *planner) addRunning(running []Running) {
	fs := p.cluster.Licenses[p.cluster.FileSystem]
	initial := fs.Used
	if p.options.Strategy != Baseline && len(running) > 0 {
		initial = max(initial, p.cluster.Measured)
	}
	p.fileSystem = NewTracker(initial)
	offset, explained, last := fs.Used-initial, int64(0), p.now
	for _, r := range byEnd(running) { // in this order, every new step is after the others
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

// addReserved adds reserved nodes to the trackers. The trackers' initial values include the nodes
// that are reserved now; for these nodes it only adds the end.
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

// byEnd sorts running jobs by their ends.
func byEnd(running []Running) []*Running {
	list := make([]*Running, len(running))
	for i := range running {
		list[i] = &running[i]
	}
	slices.SortStableFunc(list, func(a, b *Running) int { return cmp.Compare(a.End, b.End) })
	return list
}

// giveBack returns when a running job's resources become free. The resources of a job that has
// exceeded its limit become free at the next step or later.
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

// earliest returns the earliest instant from which all conditions for a pending job are met until
// its time limit. The result is now, a later multiple of the resolution, or [hpc.Never].
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

// constraint returns the earliest instant at which a pending job meets one condition. The parameter at is the earliest
// possible result.
type constraint func(i int, at hpc.Time) hpc.Time

// selected is the constraint of the cluster's own node selection. Later instants are rounded up to
// a multiple of the resolution.
func (p *planner) selected(i int, at hpc.Time) hpc.Time {
	t := p.cluster.Selector.Earliest(i, at)
	if t <= at || t == hpc.Never || p.down(t) == t {
		return t
	}
	return p.up(t)
}

// when returns the earliest instant from which a tracker's value is at most the parameter most during a job's whole
// window. The parameter at is the earliest possible result.
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

// nodesFree is the constraint of the number of free nodes, in the job's pool and in total.
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

// idleFree is the constraint of the nodes that are idle now, without the nodes whose reservation
// begins before the job's end. It is needed because the trackers have only the number of reserved
// nodes, and only from the beginning of the reservation. A job that cannot start now is planned for
// the next step.
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

// idle returns the number of nodes that a job could have now.
func (p *planner) idle(j *Job) int {
	n := p.cluster.Nodes - p.taken
	if pool, known := p.cluster.Pools[j.Pool]; known {
		n = min(n, pool.Nodes-p.takenPools[j.Pool])
	}
	return n
}

// anyFits reports whether free nodes and licenses may suffice to start a pending job with the index
// i or a higher index now. During a round, free nodes and licenses only decrease.
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

// fits reports whether the present free nodes and licenses suffice for a pending job.
func (p *planner) fits(j *Job) bool {
	if use := p.tested(j); use > 0 && use > p.total-p.takenUse {
		return false
	}
	if !p.countNodes() {
		return true
	}
	return j.Nodes <= p.idle(j)
}

// countNodes reports whether planned jobs reduce the number of free nodes. Without a selector, only
// this number says whether a job fits.
func (p *planner) countNodes() bool { return p.options.TrackNodes || p.cluster.Selector == nil }

// fileSystemFree is the constraint of the file system. If the predicted use exceeds the number of
// licenses, it is treated as one license less than this number.
func (p *planner) fileSystemFree(i int, at hpc.Time) hpc.Time {
	j := &p.pending[i]
	use := p.tested(j)
	if use <= 0 {
		return at
	}
	return p.when(p.fileSystem, j, at, p.total-use)
}

// tested returns the use that the constraints assume for a job.
func (p *planner) tested(j *Job) int64 {
	use, requested := p.use(j)
	if !requested && use >= p.total {
		use = p.total - 1
	}
	return use
}

// allocate adds a planned job to the trackers.
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
