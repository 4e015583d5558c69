package replay

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/ioaware"
	"rmreplay/internal/ioaware/driver"
	"rmreplay/internal/rm"
	"rmreplay/internal/workload"
)

// Starts says how a driver outside the resource manager decides when jobs start.
type Starts struct {
	ioaware.Options
	// Interval is the time between two rounds at fixed instants. If it is 0, rounds follow changes
	// ([ioaware.Rounds]).
	Interval time.Duration
	// Estimator predicts the use of jobs that request no licenses of the file system.
	Estimator  ioaware.Estimator
	FileSystem hpc.FileSystem
	// Measured returns the use of the file system, in licenses. NextPhase returns when the use will
	// next change while the same jobs run, or [hpc.Never].
	Measured  func() int64
	NextPhase func() hpc.Time
	// Nodes are the nodes on which jobs run. Licenses are the resource manager's licenses by name.
	Nodes    []string
	Licenses map[string]int64
	// NodesOf returns the number of nodes that a job needs. PoolOf returns the set of nodes on which a
	// job may run, and a name for the set.
	NodesOf func(job *hpc.Job) int
	PoolOf  func(job *hpc.Job) (name string, nodes []string)
	// DefaultLimit is the time limit of a job that does not request a limit.
	DefaultLimit time.Duration
}

// starts is a [Controller] that submits every job held, and releases the job when package driver decides to start it.
// starts does not hold a job with dependencies before these are met, because the resource manager tests them. The
// resource manager alone starts the following jobs: preset jobs, jobs that users submit held, jobs that use reserved
// nodes, and jobs with dependencies on anything but the ends of other jobs. The driver only counts jobs that the
// resource manager starts while they run. starts implements [driver.Cluster].
type starts struct {
	Controller
	Starts
	w      *workload.Workload
	driver driver.Driver
	rounds ioaware.Rounds
	next   hpc.Time // instant of the next round; 0 if no round is planned
	look   hpc.Time // instant of the next waking: for a round, or for changes that have no event
	now    hpc.Time
	// counted is the measured use that the last round assumed.
	counted int64
	// pending are the driver's pending jobs, in the order of their submission. Each task of a job
	// array counts as a job.
	pending []*planned
	later   []*planned          // the driver's jobs that may not start yet (--begin)
	running map[string]*planned // by name
	byName  map[string]*planned
	known   int    // number of jobs and tasks in byName so far
	ours    []bool // by the index of a job: whether the driver decides when it starts
	fates   fates
	pools   map[string]*pool
	down    map[string]bool // nodes out of service
	events  int             // number of the workload's node events so far
	booked  driver.Bookings // when existing reservations have nodes
	rebook  hpc.Time        // when the bookings next change
	// reserved are the booked nodes in service; nil if they must be counted again.
	reserved []ioaware.Reserved
	out      Decisions
}

// pool is a set of nodes on which some jobs may run.
type pool struct {
	nodes    map[string]bool
	overlaps []string
}

// planned is a pending or running job, or task of a job array.
type planned struct {
	driver.Pending
	job, task int
	order     int
	begin     hpc.Time // the earliest start that the job's user allows
	end       hpc.Time
	nodes     []string // of a running job
	uses      map[string]int
	twice     []ioaware.Reserved // nodes that would be counted wrongly; see overlap
}

// DecideStarts makes a controller with the submissions of c. A driver decides when the jobs start.
func DecideStarts(c Controller, w *workload.Workload, how Starts) Controller {
	s := &starts{
		Controller: c, Starts: how, w: w, rounds: ioaware.Rounds{Fixed: how.Interval, Begin: max(w.Begin(), w.Start)},
		driver:  driver.Driver{Options: how.Options, Patience: driver.PatienceOf(how.Interval)},
		running: map[string]*planned{}, byName: map[string]*planned{}, down: map[string]bool{}, pools: map[string]*pool{},
		ours: make([]bool, w.Jobs.Len()), fates: fatesOf(w),
	}
	s.findPools()
	return s
}

// findPools finds the sets of nodes on which the jobs of the workload may run.
func (s *starts) findPools() {
	for _, job := range s.w.Jobs.All() {
		name, nodes := s.PoolOf(job)
		if s.pools[name] != nil {
			continue
		}
		p := &pool{nodes: make(map[string]bool, len(nodes))}
		for _, n := range nodes {
			p.nodes[n] = true
		}
		s.pools[name] = p
	}
	members := make(map[string]map[string]bool, len(s.pools))
	for name, p := range s.pools {
		members[name] = p.nodes
	}
	for name, p := range driver.Pools(members) {
		s.pools[name].overlaps = p.Overlaps
	}
}

// Begin implements [Controller].
func (s *starts) Begin() Decisions { return s.hold(s.Controller.Begin()) }

// hold changes decisions so that the driver's jobs are submitted held.
func (s *starts) hold(d Decisions) Decisions {
	for i := range d.Submit {
		one := &d.Submit[i]
		index := one.Job
		held := func(job *hpc.Job) {
			if s.may(job) && s.fates.met(job) {
				job.Hold, s.ours[index] = true, true
			}
		}
		if one.Rewrite != nil {
			held = chain([]Rewriter{one.Rewrite, held})
		}
		one.Rewrite = held
	}
	return d
}

// may reports whether the driver may decide when a job starts, once its dependencies are met.
func (s *starts) may(job *hpc.Job) bool {
	return !job.Hold && job.Reservation == "" && !s.w.Preset(job)
}

// Event implements [Controller].
func (s *starts) Event(event *Event) Decisions {
	s.out, s.now = s.hold(s.Controller.Event(event)), event.At
	switch event.Kind {
	case Woken:
		s.woken()
		return s.out
	case rm.Accepted:
		s.accepted(event)
	case rm.Started:
		s.started(event)
	case rm.Requeue:
		s.requeued(event)
	case rm.Ended:
		s.ended(event)
	default:
		return s.out
	}
	if event.Kind != rm.Started { // a start frees no resources
		s.await(true)
	}
	s.foresee()
	return s.out
}

// name returns the name of a job or task.
func name(job string, task int) string {
	if task < 0 {
		return job
	}
	return job + "_" + strconv.Itoa(task)
}

// accepted adds a job to the queue.
func (s *starts) accepted(event *Event) {
	if event.Job < 0 {
		return
	}
	job := s.w.Jobs.At(event.Job)
	if !s.ours[event.Job] && (job.Dependency == "" || !s.may(job)) {
		return
	}
	for _, task := range hpc.TasksOf(job) {
		p := s.plan(event.Job, job, task)
		p.begin = s.now.Add(job.Begin)
		if s.ours[event.Job] {
			s.enqueue(p)
		}
	}
}

// adopt holds a job whose dependencies have just been met, unless slurmctld has already started the job.
func (s *starts) adopt(index int) {
	job := s.w.Jobs.At(index)
	if s.ours[index] || !s.may(job) || !s.fates.met(job) {
		return
	}
	for _, task := range hpc.TasksOf(job) {
		if p := s.byName[name(job.ID, task)]; p != nil && s.running[p.ID] == nil {
			s.ours[index] = true
			s.enqueue(p)
		}
	}
	if s.ours[index] {
		s.out.Commands = append(s.out.Commands, Command{At: s.now, Command: rm.Command{Kind: rm.Hold, Job: job.ID}})
	}
}

// enqueue puts a job into the queue, unless it runs or may not start yet.
func (s *starts) enqueue(p *planned) {
	switch {
	case s.running[p.ID] != nil:
	case p.begin > s.now:
		s.later = append(s.later, p)
	default:
		i, _ := slices.BinarySearchFunc(s.pending, p, func(a, b *planned) int { return a.order - b.order })
		s.pending = slices.Insert(s.pending, i, p)
	}
}

// begin moves jobs into the queue when their begin time has come.
func (s *starts) begin() {
	due := func(p *planned) bool { return p.begin <= s.now }
	if !slices.ContainsFunc(s.later, due) {
		return
	}
	for _, p := range s.later {
		if due(p) {
			s.enqueue(p)
		}
	}
	s.later = slices.DeleteFunc(s.later, due)
	s.await(true)
}

// plan returns the driver's record of a job or task.
func (s *starts) plan(index int, job *hpc.Job, task int) *planned {
	id := name(job.ID, task)
	if p := s.byName[id]; p != nil {
		return p
	}
	p := &planned{job: index, task: task, order: s.known}
	s.known++
	p.ID = id
	p.Job = ioaware.Job{Nodes: s.NodesOf(job), Limit: job.TimeLimit, Licenses: ioaware.ParseLicenses(job.Licenses)}
	p.Pool, _ = s.PoolOf(job)
	if p.Limit == 0 {
		p.Limit = s.DefaultLimit
	}
	if p.Limit != hpc.Unlimited {
		p.Limit = (p.Limit + time.Minute - 1) / time.Minute * time.Minute // slurmctld's limits are in minutes
	}
	if s.FileSystem.Name != "" {
		p.Estimate = s.Estimator.Estimate(job, task, &s.FileSystem)
	}
	s.byName[id] = p
	return p
}

// started moves a job from the queue to the running jobs.
func (s *starts) started(event *Event) {
	if event.Job < 0 || event.Outcome == nil {
		return
	}
	p := s.plan(event.Job, s.w.Jobs.At(event.Job), event.Task)
	s.dequeue(p)
	p.Released, p.Nodes, p.end = false, event.Outcome.NodeCount, hpc.Never
	p.nodes, _ = hostlist.Expand(event.Outcome.Nodes) // a list that the resource manager wrote
	p.uses = s.usesOf(slices.Values(p.nodes))
	if p.Limit != hpc.Unlimited {
		p.end = event.At.Add(p.Limit)
	}
	s.overlap(p)
	s.running[p.ID] = p
}

// usesOf counts nodes by pool.
func (s *starts) usesOf(nodes iter.Seq[string]) map[string]int {
	uses := map[string]int{}
	for n := range nodes {
		for name, p := range s.pools {
			if p.nodes[n] {
				uses[name]++
			}
		}
	}
	return uses
}

func (s *starts) dequeue(p *planned) {
	same := func(other *planned) bool { return other == p }
	s.pending, s.later = slices.DeleteFunc(s.pending, same), slices.DeleteFunc(s.later, same)
}

// requeued puts a job back into the queue. slurmctld does not hold a requeued job.
func (s *starts) requeued(event *Event) {
	p := s.byName[name(event.Event.Job, event.Task)]
	if p == nil || s.running[p.ID] == nil || !s.ours[p.job] {
		return
	}
	delete(s.running, p.ID)
	p.Released = true
	s.enqueue(p)
}

// ended removes a job, and adopts the jobs that waited for its end.
func (s *starts) ended(event *Event) {
	if p := s.byName[name(event.Event.Job, event.Task)]; p != nil {
		s.dequeue(p)
		delete(s.running, p.ID)
		delete(s.byName, p.ID)
	}
	for _, index := range s.fates.ended(event) {
		s.adopt(index)
	}
}

// await plans the next round. The parameter changed says that something has changed since the last
// round.
func (s *starts) await(changed bool) {
	if len(s.pending) == 0 {
		return
	}
	if at := s.rounds.Next(s.now, changed); s.next == 0 || at < s.next {
		s.next = at
	}
}

// foresee plans the next waking. The waking is for the next round, or for an earlier change without an event for the
// controller, such as the end of a phase of I/O or a node event.
func (s *starts) foresee() {
	look := hpc.Never
	if s.next != 0 {
		look = s.next
	}
	for _, p := range s.later {
		look = s.sooner(look, p.begin)
	}
	if s.Interval == 0 && len(s.pending) > 0 {
		if s.measures() {
			look = s.sooner(look, s.NextPhase())
		}
		if s.events < len(s.w.NodeEvents) {
			look = s.sooner(look, s.w.NodeEvents[s.events].At)
		}
		look = s.sooner(look, s.rebook)
	}
	if look != s.look {
		s.look, s.out.Wake = look, look
	}
}

// sooner returns the earlier of the instants known and at. It ignores at if at is not in the future.
func (s *starts) sooner(known, at hpc.Time) hpc.Time {
	if at > s.now {
		return min(known, at)
	}
	return known
}

// measures reports whether the strategy needs the measured use of the file system.
func (s *starts) measures() bool {
	return s.FileSystem.Name != "" && s.Strategy != ioaware.Baseline
}

// woken does a round if a round is due; otherwise it plans a round if something has changed.
func (s *starts) woken() {
	if s.look == 0 || s.now < s.look {
		return // another controller asked for this waking
	}
	s.look = 0
	s.begin()
	if s.next == 0 || s.now < s.next {
		nodes, reservations := s.changeNodes(), s.changeReservations()
		if nodes || reservations || s.measures() && s.Measured() < s.counted {
			s.await(true)
		}
		s.foresee()
		return
	}
	s.next = 0
	s.rounds.Planned(s.now)
	if round, err := s.driver.Round(s); err == nil && round.Open {
		s.await(false)
	}
	s.foresee()
}

// State implements [driver.Cluster].
func (s *starts) State() (driver.State, error) {
	s.changeNodes()
	s.changeReservations()
	state := driver.State{Now: s.now, Cluster: ioaware.Cluster{
		Nodes: len(s.Nodes) - len(s.down), FileSystem: s.FileSystem.Name, Licenses: map[string]ioaware.License{},
	}}
	state.Pools = make(map[string]ioaware.Pool, len(s.pools))
	for name, p := range s.pools {
		n := len(p.nodes)
		for down := range s.down {
			if p.nodes[down] {
				n--
			}
		}
		state.Pools[name] = ioaware.Pool{Nodes: n, Overlaps: p.overlaps}
	}
	if s.reserved == nil {
		s.reserved = s.booked.Reserved(s.serving)
	}
	state.Reserved = slices.Clone(s.reserved)
	for license, total := range s.Licenses {
		state.Licenses[license] = ioaware.License{Total: total}
	}
	if f := &s.FileSystem; f.Name != "" {
		state.Licenses[f.Name] = ioaware.License{Total: f.Licenses}
		s.counted = s.Measured()
		state.Measured = s.counted
	}
	running := slices.SortedFunc(maps.Values(s.running), func(a, b *planned) int { return a.order - b.order })
	for _, p := range running {
		state.Running = append(state.Running, driver.Running{ID: p.ID,
			Running: ioaware.Running{Job: p.Job, End: p.end, Uses: p.uses, Twice: p.twice}})
		for license, n := range p.Licenses {
			if l, known := state.Licenses[license]; known {
				l.Used += n
				state.Licenses[license] = l
			}
		}
	}
	for _, p := range s.pending {
		state.Pending = append(state.Pending, p.Pending)
	}
	return state, nil
}

// changeNodes applies the workload's node events up to now. It reports whether there were new
// events.
func (s *starts) changeNodes() (changed bool) {
	for ; s.events < len(s.w.NodeEvents) && s.w.NodeEvents[s.events].At <= s.now; s.events++ {
		ev := &s.w.NodeEvents[s.events]
		names, _ := hostlist.Expand(ev.Nodes) // the resource manager reports mistakes
		for _, n := range names {
			switch {
			case strings.EqualFold(ev.State, "resume"):
				delete(s.down, n)
			case slices.Contains(s.Nodes, n):
				s.down[n] = true
			}
		}
		changed, s.reserved = true, nil
	}
	if changed {
		s.overlapAll()
	}
	return changed
}

// changeReservations applies the workload's present reservations. It reports whether the reservations have
// changed. It leaves out nodes that the resource manager chooses for a reservation, and further times of a
// recurring reservation: both are unknown to the driver.
func (s *starts) changeReservations() (changed bool) {
	if s.now < s.rebook || len(s.w.Reservations) == 0 {
		return false
	}
	s.reserved = nil
	open, rest := workload.ReservationsAt(s.w.Reservations, s.now)
	var named []driver.Reservation
	for i := range open {
		r := &open[i].Reservation
		end := hpc.Never
		if r.Duration != 0 && r.Duration != hpc.Unlimited {
			end = r.Start.Add(r.Duration)
		}
		if end <= s.now {
			continue
		}
		names, _ := hostlist.Expand(r.Nodes) // the resource manager reports mistakes
		if strings.EqualFold(r.Nodes, "ALL") {
			names = s.Nodes
		}
		named = append(named, driver.Reservation{Begin: r.Start, End: end, Nodes: names})
	}
	s.booked = driver.Book(named)
	s.rebook = s.booked.NextEnd()
	for i := range rest {
		s.rebook = min(s.rebook, rest[i].At)
	}
	s.overlapAll()
	return true
}

// serving counts the nodes in service among the given nodes. It is a [driver.Count].
func (s *starts) serving(nodes iter.Seq[string]) (all int, uses map[string]int) {
	uses = s.usesOf(func(yield func(string) bool) {
		for n := range nodes {
			if s.down[n] {
				continue
			}
			all++
			if !yield(n) {
				return
			}
		}
	})
	return all, uses
}

// overlapAll calls overlap for all running jobs.
func (s *starts) overlapAll() {
	for _, p := range s.running {
		s.overlap(p)
	}
}

// overlap finds the nodes of a running job that would be counted wrongly. Reserved nodes would
// count twice. Drained nodes would count for the job, but not for the cluster.
func (s *starts) overlap(p *planned) {
	p.twice = s.booked.Overlaps(p.nodes, s.serving)
	drained := slices.DeleteFunc(slices.Clone(p.nodes), func(n string) bool { return !s.down[n] })
	if len(drained) == 0 {
		return
	}
	uses := s.usesOf(slices.Values(drained))
	for pool := range uses {
		uses[pool] = -uses[pool]
	}
	p.twice = append(p.twice, ioaware.Reserved{From: s.now, Until: hpc.Never, Nodes: -len(drained), Uses: uses})
}

// Release implements [driver.Cluster].
func (s *starts) Release(job string) error {
	p, err := s.command(rm.Release, job)
	if err == nil {
		p.Released = true
	}
	return err
}

// Hold implements [driver.Cluster].
func (s *starts) Hold(job string) error {
	p, err := s.command(rm.Hold, job)
	if err == nil {
		p.Released = false
	}
	return err
}

// command sends a command for a pending job.
func (s *starts) command(kind rm.CommandKind, job string) (*planned, error) {
	p := s.byName[job]
	if p == nil {
		return nil, fmt.Errorf("%s job %s: it is not pending", kind, job)
	}
	c := rm.Command{Kind: kind, Job: s.w.Jobs.At(p.job).ID}
	if p.task >= 0 {
		c.Tasks = []int{p.task}
	}
	s.out.Commands = append(s.out.Commands, Command{At: s.now, Command: c})
	return p, nil
}
