package sim

import (
	"fmt"
	"iter"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/nodeset"
	"rmreplay/internal/rm/sim/booking"
	"rmreplay/internal/rm/sim/partition"
)

// Cluster is a machine of nodes.
type Cluster struct {
	// Nodes are the nodes. Jobs get nodes by increasing weight, and nodes of equal weight in this order.
	Nodes []hpc.Node
	// Partitions are the partitions. If the list is empty, one partition has all nodes.
	Partitions []Partition
	// CountMemory is true if jobs are allocated memory (CR_Memory in Slurm's SelectTypeParameters). If it is false,
	// memory does not limit jobs.
	CountMemory bool
	// WholeNodes gives every job whole nodes (Slurm's select/linear).
	WholeNodes bool
	// KillInvalidDepend cancels jobs whose dependencies can never be met (Slurm's
	// DependencyParameters), unless a job requests otherwise. If false, such jobs wait for ever.
	KillInvalidDepend bool
	// MinJobAge is how long after its end a job is on record (Slurm's MinJobAge). Dependencies on
	// forgotten jobs are met. With 0, jobs are never forgotten.
	MinJobAge time.Duration
	// MaxArraySize is the largest index of a job array plus 1 (as in Slurm); 0 for no limit.
	MaxArraySize int
}

// Partition is a set of nodes that jobs request by name.
type Partition = partition.Partition

// nodes is the space of a machine of nodes. Each node has a short list of its uses and their ends.
// The free resources of a node in an interval are computed from this list.
type nodes struct {
	m         *Machine
	cluster   Cluster
	list      []node
	full      []interval // for each node, the first interval in which one job has all processors of the node, if any
	index     map[string]int
	resources []string           // names of resources: "cpu", "mem", then generic resources
	largest   map[*Partition]int // the largest number of processors of a node
	demands   map[demandKey]*demand
	// occupied are the nodes with a job. filled are the nodes whose processors all have jobs. out are
	// the nodes that are down or drained. A reservation that begins now counts as a job.
	occupied, filled, out nodeset.Set
	used                  nodeset.Set // nodes with uses, including future ones
	booked                booking.Bookings
	shut                  nodeset.Set // buffer of visit
	sets                  map[setKey]*nodeSet
	setSize               int // number of nodes in sets
	reserved              []*reservation
	// hypothetical makes the function place assume that all nodes are idle and in service. empty
	// makes it assume that all nodes are idle.
	hypothetical, empty bool
	// idleFirst makes reservations prefer idle nodes ([Machine.ReserveIdle]).
	idleFirst bool

	// The last result of the method place, and the buffers of that method.
	found placement
	ready ready   // inputs of found; zero if the nodes have changed since
	caps  []int32 // for how many tasks each node has room
	order []int
	ahead []int32 // buffer of foresee
}

// The indices of the resources that every node has. Generic resources follow.
const (
	cpu = iota
	mem // MiB
)

// node is one node.
type node struct {
	hpc.Node
	has   []int64 // amount of each resource
	kind  int32   // equal for nodes with equal resources; from 1
	stays []stay
	down  bool
	drain bool
}

// stay is the use of a node by a job.
type stay struct {
	interval
	uses []int64
	job  *Job
}

// interval is the time from one instant up to, but not including, another.
type interval struct{ from, until hpc.Time }

// has reports whether an instant lies in the interval.
func (v interval) has(at hpc.Time) bool { return v.from <= at && at < v.until }

// placement is the allocation of a job: its nodes, and its tasks on each node.
type placement struct {
	nodes      []int32
	tasks      []int32 // number of tasks on each node
	processors int
}

// newCluster makes a machine of nodes.
func newCluster(c Cluster) (*Machine, error) {
	m := &Machine{}
	c.Partitions = slices.Clone(c.Partitions)
	n := &nodes{m: m, cluster: c, index: make(map[string]int, len(c.Nodes)), resources: []string{"cpu", "mem"}, sets: map[setKey]*nodeSet{},
		demands: map[demandKey]*demand{}, largest: map[*Partition]int{}}
	m.nodes, m.space = n, n
	for i, h := range c.Nodes {
		if _, twice := n.index[h.Name]; twice {
			return nil, fmt.Errorf("node %s is defined twice", h.Name)
		}
		n.index[h.Name] = i
		n.list = append(n.list, node{Node: h})
		for _, g := range h.GRES {
			n.resource(g.Name)
			if g.Type != "" {
				n.resource(g.Name + ":" + g.Type)
			}
		}
	}
	n.full, n.booked = make([]interval, len(n.list)), booking.New(len(n.list))
	for _, set := range []*nodeset.Set{&n.occupied, &n.filled, &n.out, &n.used, &n.shut} {
		*set = nodeset.New(len(n.list))
	}
	kinds := map[string]int32{}
	for i := range n.list {
		n.list[i].equip(n)
		key := fmt.Sprint(n.list[i].has)
		if kinds[key] == 0 {
			kinds[key] = int32(len(kinds) + 1)
		}
		n.list[i].kind = kinds[key]
		n.out.Put(i, !n.list[i].usable())
		n.note(int32(i))
		m.processors += n.list[i].CPUs
	}
	m.free = m.processors
	if len(c.Partitions) == 0 {
		n.cluster.Partitions = []Partition{{Default: true}}
		for _, h := range c.Nodes {
			n.cluster.Partitions[0].Nodes = append(n.cluster.Partitions[0].Nodes, h.Name)
		}
	}
	for i := range n.cluster.Partitions {
		p := &n.cluster.Partitions[i]
		if err := n.distinct(p); err != nil {
			return nil, fmt.Errorf("partition %s: %w", p.Name, err)
		}
		for _, name := range p.Nodes {
			n.largest[p] = max(n.largest[p], n.list[n.index[name]].CPUs)
		}
	}
	return m, nil
}

// distinct removes repeated names from a partition's nodes.
func (n *nodes) distinct(p *Partition) error {
	in := make([]bool, len(n.list))
	var names []string
	for _, name := range p.Nodes {
		i, known := n.index[name]
		if !known {
			return fmt.Errorf("there is no node %s", name)
		}
		if !in[i] {
			in[i] = true
			names = append(names, name)
		}
	}
	p.Nodes = names
	return nil
}

// resource returns the index of a resource. It adds a new resource.
func (n *nodes) resource(name string) int {
	if i := slices.Index(n.resources, name); i >= 0 {
		return i
	}
	n.resources = append(n.resources, name)
	return len(n.resources) - 1
}

// equip sets a node's resources and state.
func (d *node) equip(n *nodes) {
	d.has = make([]int64, len(n.resources))
	d.has[cpu], d.has[mem] = int64(d.CPUs), max(d.RealMemory-d.MemSpecLimit, 0)
	for _, g := range d.GRES {
		d.has[n.resource(g.Name)] += g.Count
		if g.Type != "" {
			d.has[n.resource(g.Name+":"+g.Type)] += g.Count
		}
	}
	switch d.State {
	case "DOWN", "FAIL", "FUTURE":
		d.down = true
	case "DRAIN":
		d.drain = true
	}
}

// usable reports whether jobs may start on the node.
func (d *node) usable() bool { return !d.down && !d.drain }

// fits implements space.
func (n *nodes) fits(j *Job) bool {
	f, in := &j.demand.failed, n.m.Generation()
	switch {
	case f.known && f.in == in && f.covers(j):
		return false
	case n.ready == n.state(j, n.m.now), n.mayFit(j) && n.place(j, n.m.now):
		return true
	}
	*f = failure{true, in, int64(j.Expected), int64(j.Limit)}
	return false
}

// earliest implements space. It tries only instants at which a use or a reservation ends, or a
// reservation begins, because jobs can begin to fit only then.
func (n *nodes) earliest(j *Job, notBefore hpc.Time) hpc.Time {
	from := notBefore
	if n.m.reservations == 0 {
		from = max(from, n.foresee(j))
	}
	for t := range n.ends(notBefore) {
		if t >= from && n.place(j, t) {
			return t
		}
	}
	return hpc.Never
}

// ends yields the instants at which a job may begin to fit, in order, beginning with the instant
// first.
func (n *nodes) ends(first hpc.Time) iter.Seq[hpc.Time] {
	times := []hpc.Time{first}
	if n.m.reservations > 0 {
		times = n.reservedEnds(times, first)
	}
	for _, r := range n.reserved {
		for _, t := range []hpc.Time{r.start, r.end} {
			if t > first {
				times = append(times, t)
			}
		}
	}
	slices.Sort(times)
	return func(yield func(hpc.Time) bool) {
		last := first - 1
		next := func(t hpc.Time) bool {
			before := last
			last = max(last, t)
			return t <= before || t == hpc.Never || yield(t)
		}
		for j := range n.m.Running() {
			for ; len(times) > 0 && times[0] <= j.Due; times = times[1:] {
				if !next(times[0]) {
					return
				}
			}
			if !next(j.Due) {
				return
			}
		}
		for ; len(times) > 0 && next(times[0]); times = times[1:] {
		}
	}
}

// reservedEnds adds the ends of waiting jobs' reservations that are later than the instant first.
func (n *nodes) reservedEnds(times []hpc.Time, first hpc.Time) []hpc.Time {
	for i := range n.list {
		for _, s := range n.list[i].stays {
			if s.job.reserved && s.until > first && s.until != hpc.Never {
				times = append(times, s.until)
			}
		}
	}
	return times
}

// add implements space.
func (n *nodes) add(j *Job, at hpc.Time) {
	if n.ready != n.state(j, at) && !n.place(j, at) {
		panic(fmt.Sprintf("sim: job %d is added where it does not fit", j.Seq))
	}
	found := n.found
	j.placement = &found
	until := after(at, j.Expected)
	var uses []int64 // uses on the previous node, which often has the same kind and number of tasks
	kind, tasks := int32(0), int32(0)
	for k, i := range j.placement.nodes {
		d := &n.list[i]
		if d.kind != kind || j.placement.tasks[k] != tasks {
			kind, tasks = d.kind, j.placement.tasks[k]
			uses = n.uses(j, d, int64(tasks))
		}
		d.stays = append(d.stays, stay{interval{at, until}, uses, j})
		n.findFull(i)
	}
}

// uses returns the resources that a job uses on a node if the given number of its tasks runs there.
func (n *nodes) uses(j *Job, d *node, tasks int64) []int64 {
	uses := make([]int64, len(d.has))
	for r := range uses {
		if j.demand.perNode[r] == wholeNode {
			uses[r] = d.has[r]
		} else {
			uses[r] = j.demand.perNode[r] + tasks*j.demand.perTask[r]
		}
	}
	return uses
}

// remove implements space.
func (n *nodes) remove(j *Job) {
	for _, i := range j.placement.nodes {
		d := &n.list[i]
		d.stays = slices.DeleteFunc(d.stays, func(s stay) bool { return s.job == j })
		n.findFull(i)
	}
}

// move implements space.
func (n *nodes) move(j *Job, due hpc.Time) {
	for _, i := range j.placement.nodes {
		stays := n.list[i].stays
		for k := range stays {
			if stays[k].job == j {
				stays[k].until = due
			}
		}
		n.findFull(i)
	}
}

// findFull stores the first interval in which one job has all of a node's processors. It must be
// called when the node's stays have changed.
func (n *nodes) findFull(node int32) {
	n.ready = ready{}
	n.note(node)
	d, first := &n.list[node], interval{}
	for _, s := range d.stays {
		if s.uses[cpu] >= d.has[cpu] && d.has[cpu] > 0 && (first == interval{} || s.from < first.from) {
			first = s.interval
		}
	}
	n.full[node] = first
}

// wholeNode is the demand for all of a resource on a node.
const wholeNode = -1

// capacity returns for how many tasks of a job a node has room in an interval.
func (n *nodes) capacity(q *demand, d *node, from, until hpc.Time) int {
	stays := d.stays
	switch {
	case n.hypothetical || n.empty:
		stays = nil
	case q.perNode[cpu] == wholeNode: // a node with other uses has no room; any other node counts as empty
		for i := range stays {
			s := &stays[i]
			if s.uses[cpu] > 0 && s.until > max(s.from, from) && (s.from <= from || s.from < until) {
				return 0
			}
		}
	}
	if len(stays) > 0 {
		return q.capacity(d.has, stays, from, until)
	}
	if q.emptyKind != d.kind { // successive nodes are often of the same kind
		q.emptyKind, q.emptyRoom = d.kind, q.capacity(d.has, nil, from, until)
	}
	return q.emptyRoom
}

// capacity returns for how many tasks the resources are enough in an interval, given the other uses
// (stays) of the node.
func (q *demand) capacity(amounts []int64, stays []stay, from, until hpc.Time) int {
	most := math.MaxInt32
	if q.tasksPerNode > 0 {
		most = q.tasksPerNode
	}
	for r, has := range amounts {
		perTask, fixed := q.perTask[r], q.perNode[r]
		if perTask == 0 && fixed == 0 {
			continue
		}
		used := peak(stays, r, from, until)
		left := has - used - max(fixed, 0)
		if left < 0 || fixed == wholeNode && (used > 0 || has == 0) {
			return 0
		}
		if perTask > 0 {
			most = min(most, int(left/perTask))
		}
	}
	return most
}

// peak returns the largest use of a resource in an interval.
func peak(stays []stay, r int, from, until hpc.Time) int64 {
	most := inUse(stays, r, from)
	for i := range stays {
		// The use of a resource grows only when a stay begins.
		if at := stays[i].from; at > from && at < until {
			most = max(most, inUse(stays, r, at))
		}
	}
	return most
}

// inUse returns the use of a resource at an instant.
func inUse(stays []stay, r int, at hpc.Time) int64 {
	sum := int64(0)
	for i := range stays {
		if stays[i].has(at) {
			sum += stays[i].uses[r]
		}
	}
	return sum
}

// ready has the inputs of a placement. With the same inputs the placement is the same until a use
// of the nodes begins, ends or moves.
type ready struct {
	job             *Job
	demand          *demand
	now, at         hpc.Time
	expected, limit time.Duration
	in              Generation
}

func (n *nodes) state(j *Job, at hpc.Time) ready {
	return ready{j, j.demand, n.m.now, at, j.Expected, j.Limit, n.m.Generation()}
}

// place finds nodes for a job from an instant until its expected end, and stores them in found. It goes through the
// nodes in the order of preference and fills each with tasks. If the job may have only fewer nodes, place takes the
// nodes with room for the most tasks.
func (n *nodes) place(j *Job, at hpc.Time) bool {
	n.ready = ready{}
	q := j.demand
	n.caps, n.order = slices.Grow(n.caps[:0], len(q.among.nodes))[:len(q.among.nodes)], n.order[:0]
	v := n.visit(j, at)
	v.all()
	if v.missing > 0 || len(n.order) < q.minNodes {
		return false
	}
	if last := q.required - 1; last >= 0 && n.order[last] != last { // a node that the job names has no room
		return false
	}
	if q.maxNodes > 0 && len(n.order) > q.maxNodes {
		if !n.enough(n.order[:q.maxNodes], q.tasks) {
			free := n.order[q.required:]
			slices.SortStableFunc(free, func(a, b int) int { return int(n.caps[b] - n.caps[a]) })
		}
		n.order = n.order[:q.maxNodes]
	}
	if !n.enough(n.order, q.tasks) || !n.fill(q) {
		return false
	}
	if !n.hypothetical && !n.empty {
		n.ready = n.state(j, at)
	}
	return true
}

// visit goes through the nodes on which a job may run, in the order of preference. It adds the
// nodes with room to nodes.order. It ends when more nodes cannot change the result.
type visit struct {
	n         *nodes
	j         *Job
	at, until hpc.Time
	limit     hpc.Time    // end by the job's time limit
	missing   int         // tasks for which there is no room yet
	shut      nodeset.Set // nodes known to have no room
}

// visit prepares a visit for a job that would start at an instant.
func (n *nodes) visit(j *Job, at hpc.Time) *visit {
	v := &visit{n: n, j: j, at: at, until: after(at, j.Expected), limit: after(at, j.Limit), missing: j.demand.tasks, shut: n.shut}
	switch crowded := n.crowded(j.demand); {
	case n.hypothetical:
		clear(v.shut)
		return v
	case crowded != nil && at == n.m.now:
		booked := n.booked.Until(j.demand.perNode[cpu] == wholeNode, at, v.until)
		for w := range v.shut {
			v.shut[w] = crowded[w] | booked[w] | n.out[w]
		}
	default:
		copy(v.shut, n.out)
	}
	if j.demand.reservation == "" {
		for _, r := range n.reserved {
			r.shut(v.shut, at, v.limit)
		}
	}
	return v
}

// all visits all nodes, first the nodes that the job names. For a future start, it visits nodes on which jobs
// run before idle nodes, so that idle nodes stay free for earlier jobs. With idleFirst, it visits idle nodes first.
func (v *visit) all() {
	n, set, required := v.n, v.j.demand.among, v.j.demand.required
	plain := set.ascending && required == 0 && !n.hypothetical
	first := func(d *node) bool { return len(d.stays) > 0 }
	switch {
	case v.at == n.m.now && plain:
		v.open(set, func(int) uint64 { return ^uint64(0) })
		return
	case v.at == n.m.now:
		v.some(0, nil)
		return
	case n.idleFirst:
		first = func(d *node) bool {
			return !slices.ContainsFunc(d.stays, func(s stay) bool { return s.from <= n.m.now })
		}
	case plain:
		if v.open(set, func(w int) uint64 { return n.used[w] }) {
			v.open(set, func(w int) uint64 { return ^n.used[w] })
		}
		return
	}
	for k, i := range set.nodes[:required] {
		v.look(k, i)
	}
	if v.done() || !v.some(required, first) {
		return
	}
	v.some(required, func(d *node) bool { return !first(d) })
}

// open visits the nodes of a set that may have room, in the order of the machine's list. It returns
// true if more nodes are needed.
func (v *visit) open(set *nodeSet, which func(w int) uint64) (more bool) {
	full := v.n.crowded(v.j.demand) != nil
	for w, members := range set.members {
		for left := members & which(w) &^ v.shut[w]; left != 0; left &= left - 1 {
			i := int32(64*w + bits.TrailingZeros64(left))
			if full && v.n.used.Has(int(i)) && v.n.full[i].has(v.at) {
				continue
			}
			if v.look(int(set.position(v.n, i)), i); v.done() {
				return false
			}
		}
	}
	return true
}

// some visits nodes, beginning with the index from. If the function which is not nil, some visits only nodes that it
// accepts. some reports whether more nodes are needed.
func (v *visit) some(from int, which func(*node) bool) (more bool) {
	n, q := v.n, v.j.demand
	full := n.crowded(q) != nil
	for k, i := range q.among.nodes[from:] {
		if v.shut.Has(int(i)) || full && n.full[i].has(v.at) || which != nil && !which(&n.list[i]) {
			continue
		}
		if v.look(from+k, i); from+k >= q.required && v.done() {
			return false
		}
	}
	return true
}

// look adds a node to nodes.order if the node has room.
func (v *visit) look(k int, i int32) {
	n, d, q := v.n, &v.n.list[i], v.j.demand
	if v.shut.Has(int(i)) || q.reservation != "" && !n.hypothetical && !n.admits(v.j, i, v.at, v.limit) {
		return
	}
	if c := min(n.capacity(q, d, v.at, v.until), q.tasks); c > 0 {
		n.caps[k] = int32(c)
		n.order = append(n.order, k)
		v.missing -= c
	}
}

// done reports whether the nodes so far have room for all tasks, and no later node could replace one of them.
func (v *visit) done() bool {
	q, count := v.j.demand, len(v.n.order)
	return v.missing <= 0 && count >= max(q.minNodes, q.required) && (q.maxNodes == 0 || count <= q.maxNodes)
}

// enough reports whether nodes have room for the tasks.
func (n *nodes) enough(order []int, tasks int) bool {
	for _, k := range order {
		tasks -= int(n.caps[k])
	}
	return tasks <= 0
}

// fill puts tasks on the nodes of n.order, as many on each node as fit, but it leaves one task for each later node that
// the job names or needs.
func (n *nodes) fill(q *demand) bool {
	p := placement{nodes: make([]int32, 0, len(n.order)), tasks: make([]int32, 0, len(n.order))}
	least := max(q.minNodes, q.required)
	left := q.tasks
	for pos, k := range n.order {
		tasks := min(left-max(0, least-pos-1), int(n.caps[k]))
		if tasks <= 0 {
			break
		}
		left -= tasks
		d := &n.list[q.among.nodes[k]]
		p.nodes = append(p.nodes, q.among.nodes[k])
		p.tasks = append(p.tasks, int32(tasks))
		if q.perNode[cpu] == wholeNode {
			p.processors += d.CPUs
		} else {
			p.processors += int(q.perNode[cpu]) + tasks*int(q.perTask[cpu])
		}
	}
	n.found = p
	return left == 0
}

// hosts returns the host list of a job's nodes.
func (n *nodes) hosts(j *Job) string {
	names := make([]string, len(j.placement.nodes))
	for k, i := range j.placement.nodes {
		names[k] = n.list[i].Name
	}
	return hostlist.Compress(names)
}

// tres returns the resources of a job in Slurm's notation.
func (n *nodes) tres(j *Job) string {
	sum := make([]int64, len(n.resources))
	for k, i := range j.placement.nodes {
		for r, u := range n.uses(j, &n.list[i], int64(j.placement.tasks[k])) {
			sum[r] += u
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "cpu=%d", sum[cpu])
	if sum[mem] > 0 {
		fmt.Fprintf(&b, ",mem=%dM", sum[mem])
	}
	fmt.Fprintf(&b, ",node=%d", len(j.placement.nodes))
	for r := mem + 1; r < len(sum); r++ {
		if sum[r] > 0 {
			fmt.Fprintf(&b, ",gres/%s=%d", n.resources[r], sum[r])
		}
	}
	return b.String()
}
