// Package distribution distributes the tasks of a job over its nodes.
package distribution

import (
	"slices"

	"rmreplay/internal/rm/slurmmodel/hardware"
)

// Node is a node that a job gets.
type Node struct {
	Threads int // of a core
	// CPUs is the number of CPUs that the job may use. [Tasks] lowers it to the number that the job gets, and sets the
	// number Tasks.
	CPUs, Tasks int
	Room        int // tasks that the generic resources serve
	Served      int // tasks for which the node has the generic resources that each task requests
	MinCPUs     int // CPUs that the generic resources need
	have        int // CPUs that the job may use
}

// distribution is the state of a distribution of tasks.
type distribution struct {
	r     *hardware.Request
	nodes []Node
	left  int // tasks without a node
	// strict says that a node gets at most the tasks that its generic resources serve; since 24.11.
	strict bool
}

// Tasks sets the tasks and the CPUs of each node (dist_tasks_compute_c_b): first for one task, then for as
// many tasks as fill a core. It gives the remaining tasks to the nodes in turn, a core at a time.
// Since 24.11 it returns false if tasks lack CPUs or generic resources.
func Tasks(r *hardware.Request, nodes []Node, since2411, since2605 bool) bool {
	d := distribution{r: r, nodes: nodes, strict: since2411 && len(r.Devices) > 0}
	d.left = r.CountTasks(len(nodes), since2411, since2605)
	if d.fillAll() {
		return true
	}
	room := false
	for i := range nodes {
		n := &nodes[i]
		n.have, n.CPUs = n.CPUs, 0
		if d.left > 0 && n.have > 0 {
			d.add(n)
			room = room || n.CPUs < n.have
		}
	}
	for i := range nodes {
		for range nodes[i].CPUs % nodes[i].Threads / r.CPUsPerTask {
			if !d.fits(&nodes[i]) {
				break
			}
			d.add(&nodes[i])
		}
	}
	if since2411 {
		return d.fill()
	}
	for full := !room; d.left > 0 && !r.Overcommit; {
		room := false
		for i := range nodes {
			n := &nodes[i]
			for range max(1, n.Threads/r.CPUsPerTask) {
				if d.left == 0 || !full && !d.fits(n) {
					break
				}
				d.add(n)
				room = room || n.have-n.CPUs >= r.CPUsPerTask
			}
		}
		full = full || !room
	}
	return true
}

// fill distributes the remaining tasks (since 24.11), and gives nodes the CPUs for their GRES.
func (d *distribution) fill() bool {
	r := d.r
	perTask := slices.ContainsFunc(r.Devices, func(of hardware.DeviceRequest) bool { return of.PerTask > 0 })
	for d.left > 0 && (!r.Overcommit || perTask) {
		room := false
		for i := range d.nodes {
			n := &d.nodes[i]
			for range max(1, n.Threads/r.CPUsPerTask) {
				if !d.fits(n) {
					break
				}
				d.add(n)
				room = room || n.have-n.CPUs >= r.CPUsPerTask
			}
		}
		switch {
		case room || d.left == 0:
		case perTask || !d.strict:
			return false
		default:
			d.strict = false
		}
	}
	for i := 0; i < len(d.nodes) && len(r.Devices) > 0; i++ {
		n := &d.nodes[i]
		n.CPUs = max(n.CPUs, min(n.have, n.MinCPUs))
	}
	return true
}

// fillAll gives each node as many tasks as it may have, if the sum is the job's number of tasks.
// Otherwise it returns false, and tasks must be distributed one by one.
func (d *distribution) fillAll() bool {
	r, room := d.r, 0
	if len(r.Devices) > 0 || r.Overcommit {
		return false
	}
	for i := range d.nodes {
		tasks := d.most(&d.nodes[i])
		if r.TasksPerNode > 0 && tasks < r.TasksPerNode ||
			r.TasksPerNode == 0 && (tasks == 0 || tasks*r.CPUsPerTask != d.nodes[i].CPUs) {
			return false
		}
		room += tasks
	}
	if room != d.left {
		return false
	}
	for i := range d.nodes {
		n := &d.nodes[i]
		n.Tasks = d.most(n)
		n.CPUs = n.Tasks * r.CPUsPerTask
	}
	return true
}

// most returns how many tasks a node may have.
func (d *distribution) most(n *Node) int {
	most := n.CPUs / d.r.CPUsPerTask
	if per := d.r.TasksPerNode; per > 0 {
		most = min(most, per)
	}
	return most
}

// fits reports whether a node has room for one more task.
func (d *distribution) fits(n *Node) bool {
	r := d.r
	return d.left > 0 && n.have-n.CPUs >= r.CPUsPerTask && (r.TasksPerNode == 0 || n.Tasks < r.TasksPerNode) &&
		(!d.strict || n.Tasks < n.Room) && n.Tasks < n.Served
}

func (d *distribution) add(n *Node) {
	d.left--
	n.Tasks++
	n.CPUs = min(n.have, n.CPUs+d.r.CPUsPerTask)
}
