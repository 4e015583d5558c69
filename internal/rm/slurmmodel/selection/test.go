package selection

import (
	"cmp"
	"math/bits"
	"slices"

	"rmreplay/internal/rm/slurmmodel/distribution"
	"rmreplay/internal/rm/slurmmodel/rows"
	"rmreplay/internal/rm/slurmmodel/sharing"
	"rmreplay/internal/rm/slurmmodel/weights"
)

// Mode is the question that a test answers.
type Mode uint8

// The modes of a test, with the names of Slurm's select plugins.
const (
	RunNow   Mode = iota // give the job its nodes
	WillRun              // could it run?
	TestOnly             // could it run on an empty machine?
)

// Counts are numbers of nodes: the job needs Min, may have Max, and gets Wanted if possible.
type Counts struct{ Min, Max, Wanted int }

// test is one test in progress.
type test struct {
	state    *State
	request  *Request
	counts   Counts
	weights  *weights.Weights
	rooms    []room
	allCores bool // cores of other jobs count as free
	anew     bool // memory and generic resources of other jobs count as free, too
	busy     bool // prefer nodes with jobs
	// dedicated says that backfill first looks for nodes without other jobs. It only changes how
	// many CPUs of a node count for --ntasks-per-node.
	dedicated bool
	// scattered says that the last choice used more leaf switches than the job asks for.
	scattered bool
	advice    advice

	work *work
	pick pick
}

// work has the buffers of tests. It holds the last choice or pick.
type work struct {
	candidates          Bits
	has                 []int
	classes             []class
	best, light, within Bits
	switches            switches
	shares              []distribution.Node
	parts               []Part
	free, one           []int // see devicesFor
}

func newWork(m *Machine) *work {
	n := len(m.Nodes)
	return &work{
		candidates: NewBits(n), has: make([]int, n), best: NewBits(n), light: NewBits(n), within: NewBits(n),
		switches: newSwitches(m),
		free:     make([]int, m.stride+1), one: make([]int, m.stride+1),
	}
}

// Tester makes tests on one machine. It keeps weights and answers between tests.
type Tester struct {
	*Machine
	Weights weights.Weights // kept between tests
	// Extra says that the tested job may use the row for jobs that preempt others. Stopped are the
	// jobs that it preempts, see [rows.Search].
	Extra   bool
	Stopped []*rows.Job
	// Exempt are cores of jobs that cannot be suspended yet; nil for none.
	Exempt rows.Cores
	// Completing are the nodes on which jobs complete; nil for none. Since 24.11 they are heavier in
	// tests of a start now ([Tester.WillRun]).
	Completing Bits

	memory     memory
	repeated   repeated
	dedicated  bool    // see test.dedicated
	outside    int     // counts changes of weights above their lowest bytes
	tests      []int   // see remembered.tests
	offers     []int32 // see tally
	own        Bits    // nodes that have the weights of Weigh
	plain      Bits    // nodes that have these weights, apart from the lowest byte
	rooms      []room
	future     *State
	scratch    test
	nodes, all Bits
	left       Bits // the nodes that remained after the last test of an immediate start
	late       late // see [Tester.giveDefaults]
	careful    bool // answers are neither stored nor reused, and no test is left out, because nodes are completing
}

// NewTester returns a tester for a machine.
func NewTester(m *Machine) *Tester {
	n := len(m.Nodes)
	x := &Tester{
		Machine: m, Weights: weights.New(n), rooms: make([]room, n), future: m.NewState(),
		scratch: test{work: newWork(m)}, nodes: NewBits(n), all: NewBits(n), left: NewBits(n),
		memory: newMemory(m), own: NewBits(n), plain: NewBits(n), offers: make([]int32, n),
	}
	cores := make([]int16, 3*n*m.stride)
	for i := range x.rooms {
		at := cores[3*i*m.stride : 3*(i+1)*m.stride]
		x.rooms[i].cores, x.rooms[i].kept = at[:0:m.stride], at[m.stride:m.stride:2*m.stride]
		x.rooms[i].open = at[2*m.stride : 2*m.stride : 3*m.stride]
	}
	return x
}

// Weigh resets nodes to the weights of slurm.conf.
func (x *Tester) Weigh(nodes Bits) {
	if x.own.Contains(nodes) {
		return
	}
	x.own.Or(nodes)
	x.plain.Or(nodes)
	for i := range nodes.All {
		own := x.Nodes[i].Weight<<8 | 0xff
		if was := x.Weights.Of(i); was|0xff != own || was == 0 {
			x.outside++
		}
		x.Weights.Put(i, own)
	}
}

// ClearWeights resets all weights, as a restart of slurmctld does.
func (x *Tester) ClearWeights() {
	x.Weights.Clear()
	x.own.Reset()
	x.plain.Reset()
	x.outside++
}

// AddWeight sets a bit that is higher than all weights of slurm.conf, so that the node is heavier
// than all nodes without it.
func (x *Tester) AddWeight(node int, weight uint64) {
	x.Weights.Put(node, x.Weights.Of(node)|weight)
	x.own.Clear(node)
	x.plain.Clear(node)
	x.outside++
}

// Test looks for nodes of a set on which a job can run (_job_test). It returns an allocation, or
// nil. It does not change the set.
func (x *Tester) Test(s *State, r *Request, set Bits, c Counts, mode Mode) *Allocation {
	if x.Linear != nil {
		a, _ := x.testLinear(s, r, set, c, mode)
		return a
	}
	if x.takesDefaults(r) {
		defer x.giveDefaults(r, mode)()
	}
	s.rows.Settle()
	known := x.own
	if len(r.Devices) > 0 {
		known = x.plain
	}
	if mode == TestOnly && r.Class > 0 && known.Contains(set) {
		return x.repeated.possible(x, s, r, set, c)
	}
	return x.test(s, r, set, c, mode, false)
}

func (x *Tester) test(s *State, r *Request, set Bits, c Counts, mode Mode, busy bool) *Allocation {
	if len(r.Devices) > 0 {
		x.own.Reset() // see lookDevices
	}
	nodes := x.nodes
	copy(nodes, set)
	if mode != TestOnly {
		x.usable(s, r, x.late.take(r), nodes)
		full := !x.careful && x.full(s, r, nodes, c.Min)
		if full || nodes.Count() < c.Min || r.Required != nil && !nodes.Contains(r.Required) {
			copy(x.all, nodes)
			return nil
		}
	}
	if mode == WillRun {
		return x.repeated.search(x, s, r, nodes, c, busy)
	}
	return x.search(s, r, nodes, c, mode, busy)
}

// search chooses among usable nodes: first as if all cores were free, then with the free cores.
func (x *Tester) search(s *State, r *Request, nodes Bits, c Counts, mode Mode, busy bool) *Allocation {
	all := x.all
	copy(all, nodes)
	turns := mode != TestOnly && x.sharesCores(r)
	var usable Bits
	if turns {
		usable = nodes.Clone()
	}
	t := &x.scratch
	*t = test{
		state: s, request: r, counts: c, weights: &x.Weights, rooms: x.rooms, busy: busy,
		allCores: true, anew: mode == TestOnly, dedicated: x.dedicated, work: t.work,
	}
	// Since 24.11 the first choice is left out if the job does not share cores. If all cores are free, both choices
	// are the same. The first choice has no effect on the second, which fails more often. It is made late.
	first := mode == TestOnly || !x.Since2411 || turns && (x.Gang || r.Sharing.Mode == sharing.Shared)
	same := len(r.Devices) == 0 && !all.Overlaps(s.busy)
	late := first && len(r.Devices) == 0 && mode != TestOnly && !turns
	if first && !late {
		if !x.choose(t, nodes) {
			return nil
		}
		if mode == TestOnly {
			return &Allocation{Nodes: nodes.Clone()}
		}
		if t.scattered {
			return nil
		}
		if same {
			a := x.result(t, nodes, mode)
			x.place(s, r, a, nil)
			return a
		}
	}
	t.allCores = false
	if r.Exclusive {
		for i := all.NextAnd(s.busy, 0); i >= 0; i = all.NextAnd(s.busy, i+1) {
			if x.coresUsed(s, i) {
				all.Clear(i)
			}
		}
	}
	var a *Allocation
	switch {
	case x.choose(t, all) && !t.scattered:
		a = x.result(t, all, mode)
		x.place(s, r, a, nil)
	case turns:
		a = x.takeTurns(t, usable, mode)
	}
	if late && a != nil {
		if t.allCores = true; same {
			return a
		}
		if !x.choose(t, nodes) || t.scattered {
			return nil
		}
	}
	if a != nil && mode == RunNow && x.CountMemory && r.MemoryPerDevice == 0 && !x.hasMemory(s, a) {
		return nil
	}
	return a
}

// result returns the allocation of a job on the chosen nodes. With WillRun it has no parts.
func (m *Machine) result(t *test, nodes Bits, mode Mode) *Allocation {
	if mode == WillRun && len(t.request.Devices) == 0 {
		return m.outline(t, nodes.Clone())
	}
	a := m.allocate(t, nodes.Clone())
	if a != nil && mode == WillRun {
		a.Parts = nil
	}
	return a
}

// hasMemory reports whether the memory of an allocation is free. With LLN, slurmctld 26.05 may give a job
// more CPUs of a node than the node has memory for. Memory for generic resources is not tested.
func (m *Machine) hasMemory(s *State, a *Allocation) bool {
	for i := range a.Parts {
		if p := &a.Parts[i]; p.Memory > s.nodes[p.Node].memory {
			return false
		}
	}
	return true
}

// coresUsed reports whether a core of a node is in use.
func (m *Machine) coresUsed(s *State, node int) bool {
	return int(s.cores[node]) < m.Nodes[node].CoreCount()
}

// full reports whether too few nodes have free cores for a job, or all nodes together have too few free
// CPUs. Most tests of pending jobs end with this result.
func (m *Machine) full(s *State, r *Request, nodes Bits, least int) bool {
	if !m.MayBeFull(r) {
		return false
	}
	count, cpus := 0, 0
	for i := range nodes.All {
		offer := m.freeCPUs(s, r, i)
		count += min(1, offer)
		if cpus += offer; count >= least && cpus >= r.MinCPUs {
			return false
		}
	}
	return true
}

// MayBeFull reports whether too few free cores are enough to prove that a job cannot run. It returns false
// with LLN of 26.05, which counts CPUs that nodes do not have, and with gang scheduling, where jobs share
// cores. It also returns false for jobs with devices, because their tests change weights and must be made.
func (m *Machine) MayBeFull(r *Request) bool {
	return len(r.Devices) == 0 && m.Turns == nil && (!m.Since2605 || !m.LeastLoaded && !r.LeastLoaded)
}

// freeCPUs returns the CPUs of the free cores of a node that a job may use.
func (m *Machine) freeCPUs(s *State, r *Request, node int) int {
	if r.Exclusive && m.coresUsed(s, node) {
		return 0
	}
	return int(s.cores[node]) * m.Nodes[node].Threads
}

// tally counts the nodes of a set that the job can use, and their free CPUs, while running jobs are removed.
type tally struct {
	x                  *Tester
	r                  *Request
	set                Bits
	least, count, cpus int   // nodes that the job needs, nodes that it can use, and their free CPUs
	memory             int64 // the memory in MiB that the job needs on each node
	counts             bool
}

func (x *Tester) newTally(r *Request, set Bits, least int) tally {
	t := tally{x: x, r: r, set: set, least: least, memory: r.LeastMemory(), counts: !x.careful && x.MayBeFull(r)}
	if !t.counts {
		return t
	}
	clear(x.offers)
	for k, of := range set { // most nodes have no free core
		for ; of != 0; of &= of - 1 {
			if i := k<<6 + bits.TrailingZeros64(of); x.future.cores[i] > 0 {
				t.look(i)
			}
		}
	}
	return t
}

// look counts what a node of the set offers now.
func (t *tally) look(node int) {
	x, offer := t.x, int32(0)
	if x.serves(x.future, t.r, node, t.memory) {
		offer = int32(x.freeCPUs(x.future, t.r, node))
	}
	if was := &x.offers[node]; offer != *was {
		t.cpus += int(offer - *was)
		t.count += int(min(1, offer) - min(1, *was))
		*was = offer
	}
}

// leave removes a running job.
func (t *tally) leave(job *Allocation) {
	t.x.Leave(t.x.future, job)
	if !t.counts {
		return
	}
	set, parts := t.set, job.Parts
	for i := range parts {
		if node := parts[i].Node; set.Has(node) {
			t.look(node)
		}
	}
}

// fails reports whether a test would find too few free CPUs, or no room on a node that the job names.
func (t *tally) fails() bool {
	if !t.counts {
		return false
	}
	for i := range t.r.Required.All {
		if !t.set.Has(i) || !t.x.serves(t.x.future, t.r, i, t.memory) {
			return true
		}
	}
	return t.count < t.least || t.cpus < t.r.MinCPUs
}

// test is [Tester.test] with WillRun for the set. The state s has only the jobs that were not removed.
func (t *tally) test(s *State, c Counts, busy bool) *Allocation {
	s.rows.Settle()
	switch {
	case !t.counts:
		return t.x.test(s, t.r, t.set, c, WillRun, busy)
	case t.fails():
		return nil
	}
	copy(t.x.nodes, t.set)
	for i := range t.set.All {
		if t.x.offers[i] == 0 && !t.x.serves(s, t.r, i, t.memory) {
			t.x.nodes.Clear(i)
		}
	}
	return t.x.repeated.search(t.x, s, t.r, t.x.nodes, c, busy)
}

// choose reduces a set of nodes to those that the job gets (_select_nodes, choose_nodes). It
// returns false if the set has too few for the job.
func (m *Machine) choose(t *test, nodes Bits) bool {
	if nodes.Count() < t.counts.Min {
		return false
	}
	if m.Since2605 && t.counts.Max == 1 && !m.LeastLoaded && !t.request.LeastLoaded && !m.packsLast(t.request, t.counts) {
		return m.chooseOne(t, nodes)
	}
	r := t.request
	if r.Required != nil && len(r.Devices) == 0 && r.Required.Count() >= t.counts.Max {
		nodes.And(r.Required) // the job can get no other nodes
	}
	m.lookAll(t, nodes)
	if nodes.Count() < t.counts.Min || r.Required != nil && !nodes.Contains(r.Required) {
		return false
	}
	c := t.counts
	if r.TasksPerNode > 0 && r.Tasks > 0 {
		c.Min = max(c.Min, (r.Tasks+r.TasksPerNode-1)/r.TasksPerNode)
	}
	most := c.Max
	if r.Tasks > 0 && c.Max > r.Tasks && (!m.Since2411 || r.TasksPerNode == 0) {
		c.Max = max(r.Tasks, c.Min)
	}
	t.keepCores(nodes)
	candidates := t.work.candidates
	copy(candidates, nodes)
	if m.evaluate(t, nodes, c, true) {
		return t.trimCPUs(m, nodes)
	}
	if m.Since2411 {
		c.Max = most
	}
	again := func() bool {
		copy(nodes, candidates)
		t.restoreCores(nodes)
		return m.evaluate(t, nodes, c, false)
	}
	var found bool
	switch {
	case m.Since2605:
		found = m.withoutPoorest(t, candidates, nodes, c, again)
	case candidates.Count() <= c.Min:
		found = again()
	default:
		found = m.withoutPoor(t, candidates, c, again)
	}
	return found && t.trimCPUs(m, nodes)
}

// packsLast reports whether a job takes the last node that can serve it (pack_serial_at_end).
func (m *Machine) packsLast(r *Request, c Counts) bool {
	return m.PackSerial && r.MinCPUs == 1 && c.Wanted == 1
}

// chooseOne takes the first node that can serve the job alone, lighter nodes first (_get_one_res in 26.05).
func (m *Machine) chooseOne(t *test, nodes Bits) bool {
	if t.request.Required != nil {
		nodes.And(t.request.Required)
	}
	order, weights := slices.Collect(nodes.All), t.weights.All()
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(weights[a], weights[b]) })
	c := Counts{Min: 1, Max: 1, Wanted: 1}
	for _, first := range []bool{true, false} {
		pick := newPick(m, t, c, first)
		for _, i := range order {
			if m.look(t, i); !t.rooms[i].ok {
				continue
			}
			cpus := pick.offer(i)
			if cpus == 0 {
				continue
			}
			tasks := pick.tasksLeft
			cpus = pick.takeDevices(i, pick.use(i, cpus))
			if cpus == 0 || cpus < t.request.MinCPUs || !pick.hasDevices(nil) {
				pick.tasksLeft = tasks
				continue // the node's resources stay counted in pick.totals
			}
			nodes.Reset()
			nodes.Set(i)
			return t.trimCPUs(m, nodes)
		}
	}
	return false
}

// withoutPoor tries again without the poorest nodes, then also without the next poorer ones, and so
// on. How rich a node is depends on the CPUs and GRES that the last attempt would have taken.
func (m *Machine) withoutPoor(t *test, candidates Bits, c Counts, again func() bool) bool {
	left, richest := candidates.Count(), 0
	for i := range candidates.All {
		richest = max(richest, t.rooms[i].wealth)
	}
	for poor := 1; poor < richest; poor++ {
		changed := false
		for i := range candidates.All {
			if t.rooms[i].wealth <= 0 || t.rooms[i].wealth > poor || t.request.Required != nil && t.request.Required.Has(i) {
				continue
			}
			if m.Since2411 && !changed {
				poor--
			}
			changed = true
			candidates.Clear(i)
			if left--; left <= c.Min {
				break
			}
		}
		if !changed && poor != 1 {
			continue
		}
		if again() {
			return true
		}
		if left <= c.Min {
			break
		}
	}
	return false
}

// withoutPoorest tries again, and each time leaves out the poorest node that the last attempt would
// have taken (common_topo_choose_nodes in 26.05). It stops if an attempt advises noHope.
func (m *Machine) withoutPoorest(t *test, candidates, nodes Bits, c Counts, again func() bool) bool {
	var order []int
	for left := candidates.Count(); ; left-- {
		if again() {
			return true
		}
		if t.advice == noHope || left <= c.Min {
			return false
		}
		if order == nil {
			for i := range candidates.All {
				if t.request.Required == nil || !t.request.Required.Has(i) {
					order = append(order, i)
				}
			}
			slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(t.rooms[a].wealth, t.rooms[b].wealth) })
		}
		taken := nodes.Next(0) >= 0
		at := slices.IndexFunc(order, func(i int) bool {
			return candidates.Has(i) && (t.advice != withoutOneTaken || !taken || nodes.Has(i))
		})
		if at < 0 {
			return false
		}
		candidates.Clear(order[at])
	}
}

// advice says what to do after an attempt that failed, since 26.05.
type advice uint8

const (
	withoutOne      advice = iota // try again without the poorest node
	withoutOneTaken               // try again without the poorest of the taken nodes
	noHope
)

// keepCores saves the usable cores, because fitting generic resources may reduce them.
func (t *test) keepCores(nodes Bits) {
	if len(t.request.Devices) == 0 {
		return
	}
	for i := range nodes.All {
		t.rooms[i].kept = append(t.rooms[i].kept[:0], t.rooms[i].cores...)
	}
}

func (t *test) restoreCores(nodes Bits) {
	if len(t.request.Devices) == 0 {
		return
	}
	for i := range nodes.All {
		copy(t.rooms[i].cores, t.rooms[i].kept)
		copy(t.rooms[i].open, t.rooms[i].kept)
	}
}

// trimCPUs limits the CPUs of a job with generic resources to those of its remaining cores.
func (t *test) trimCPUs(m *Machine, nodes Bits) bool {
	if len(t.request.Devices) == 0 {
		return true
	}
	for i := range nodes.All {
		at := &t.rooms[i]
		at.cpus = min(at.cpus, at.count()*m.Nodes[i].Threads)
		if at.cpus == 0 {
			return false
		}
	}
	return true
}

func (at *room) count() int { return sum(at.cores) }

// evaluate takes nodes by the rule that applies to the job (_eval_nodes).
func (m *Machine) evaluate(t *test, nodes Bits, c Counts, first bool) bool {
	r := t.request
	t.scattered, t.advice = false, withoutOne
	if nodes.Count() < c.Min || r.Required != nil && !nodes.Contains(r.Required) {
		return false
	}
	pick := newPick(m, t, c, first)
	switch {
	case r.Spread && m.Since2605:
		return pick.spread(nodes)
	case r.Spread:
		return pick.ordered(nodes, pick.byWeight)
	case t.busy && !r.Contiguous:
		return pick.ordered(nodes, pick.busyFirst)
	case m.LeastLoaded || r.LeastLoaded:
		return pick.leastLoaded(nodes)
	case m.packsLast(r, c):
		return pick.ordered(nodes, pick.lastFirst)
	case len(m.Switches) > 0 && !r.Contiguous && (!m.TreeOptional || r.Switches > 0):
		if m.Dragonfly {
			return pick.dragonfly(nodes)
		}
		return pick.tree(nodes)
	}
	return pick.consecutive(nodes)
}

// pick takes nodes for a job one by one, and counts what the job still needs.
type pick struct {
	m     *Machine
	t     *test
	c     Counts
	first bool // the first attempt: use only cores close to generic resources

	cpus    int // CPUs still needed
	nodes   int // nodes still wanted
	least   int // nodes still needed
	most    int // nodes that the job may still get
	maximum int // CPUs that the job may still get
	has     []int
	// leastCPUs is the smallest number of CPUs that a node must offer to a job without generic resources.
	leastCPUs int

	cpusForDevices int   // fewest CPUs that the job takes of a node, because of generic resources
	tasksLeft      int   // tasks without a node, since 24.11
	totals         []int // generic resources taken, by request; nil if no request is for the whole job
}

// newPick begins a pick. It is valid until the test's next pick.
func newPick(m *Machine, t *test, c Counts, first bool) *pick {
	clear(t.work.has)
	t.pick = pick{
		m: m, t: t, c: c, first: first, cpus: t.request.MinCPUs, nodes: max(c.Min, c.Wanted), least: c.Min, most: c.Max,
		maximum: t.request.MinCPUs, has: t.work.has,
	}
	if len(t.request.Devices) > 0 {
		t.pick.beginDevices()
	} else if least, _ := t.request.TasksOn(&m.Nodes[0], c.Min); !t.request.Overcommit {
		t.pick.leastCPUs = least * t.request.CPUsPerTask
	}
	return &t.pick
}

// maxByTasks returns how many nodes the job may still get, if each has at least one task.
func (p *pick) maxByTasks() int {
	if p.t.request.Tasks > 0 {
		return min(p.most, p.t.request.Tasks)
	}
	return p.most
}

// take gives a node to the job. It returns false if the node is of no use to the job now.
func (p *pick) take(node, cpus int) bool {
	if cpus = p.takeDevices(node, p.use(node, cpus)); cpus == 0 {
		return false
	}
	p.nodes--
	p.least--
	p.most--
	p.cpus -= cpus
	p.maximum -= cpus
	return true
}

// use returns how many CPUs of a node the job takes, and lowers the offer to these CPUs (_cpus_to_use).
func (p *pick) use(node, cpus int) int {
	r := p.t.request
	if r.Exclusive {
		return cpus
	}
	left := p.maximum - max(p.least-1, 0)*r.CPUsPerCore(&p.m.Nodes[node])
	if cpus > left {
		devices := p.cpusForDevices
		if at := &p.t.rooms[node]; len(r.Devices) > 0 && at.minCPUs > 0 {
			devices = at.minCPUs
		}
		cpus = max(left, r.MinCPUsPerNode, devices, 0)
		p.t.rooms[node].cpus = cpus
	}
	if !p.m.Since2605 {
		p.m.appraise(&p.t.rooms[node])
	}
	return cpus
}

// done reports whether the job has all that it wants.
func (p *pick) done() bool { return p.nodes <= 0 && p.cpus <= 0 && p.hasDevices(nil) }

// served reports whether the job has what it needs at least.
func (p *pick) served() bool { return p.least <= 0 && p.cpus <= 0 && p.hasDevices(nil) }

// enough reports whether a number of nodes is enough (_enough_nodes).
func (p *pick) enough(nodes int) bool {
	return nodes >= p.nodes-max(0, p.c.Wanted-p.c.Min)
}

// required takes the nodes that the job names. ok is false if they cannot serve the job.
func (p *pick) required(nodes Bits) (done, ok bool) {
	named := p.t.request.Required
	if named == nil {
		return false, true
	}
	if named.Count() > p.most {
		return false, false
	}
	for i := range named.All {
		if cpus := p.offer(i); cpus == 0 || !p.take(i, cpus) {
			return false, false
		}
		p.has[i] = max(1, p.t.rooms[i].cpus)
	}
	if p.done() {
		copy(nodes, named)
		return true, true
	}
	return false, p.most > 0
}
