package sim

import (
	"fmt"
	"slices"

	"rmreplay/internal/hpc"
)

// ReservedAt returns when the reservation of a waiting job begins, or [hpc.Never].
func (j *Job) ReservedAt() hpc.Time {
	if !j.reserved {
		return hpc.Never
	}
	return j.reservedAt
}

// Name returns the job's ID and task.
func (j *Job) Name() string { return fmt.Sprintf("%s_%d", j.of.job.ID, j.task) }

// Audit returns an error if the use of the machine is impossible, such as two jobs on a processor.
func (e *Engine) Audit() error {
	m, held := e.machine, 0
	for j := range m.Running() {
		if j.state != running {
			return fmt.Errorf("job %s is on the machine in state %d", j.Name(), j.state)
		}
		held += j.held()
		if err := e.auditJob(j); err != nil {
			return fmt.Errorf("at %s: job %s %w", m.now, j.Name(), err)
		}
	}
	if held+m.free != m.processors || m.free < 0 {
		return fmt.Errorf("%d processors are held and %d free, of %d", held, m.free, m.processors)
	}
	if m.nodes == nil {
		return nil
	}
	for i := range m.nodes.list {
		if err := m.nodes.auditNode(int32(i)); err != nil {
			return fmt.Errorf("at %s: node %s: %w", m.now, m.nodes.list[i].Name, err)
		}
	}
	return nil
}

// auditNode compares the jobs on a node with the node's resources.
func (n *nodes) auditNode(i int32) error {
	used := make([]int64, len(n.resources))
	whole := make([]bool, len(n.resources))
	jobs := 0
	for j := range n.m.Running() {
		k := slices.Index(j.placement.nodes, i)
		if k < 0 {
			continue
		}
		jobs++
		for r := range used {
			if j.demand.perNode[r] == wholeNode {
				used[r] += n.list[i].has[r]
				whole[r] = true
				continue
			}
			used[r] += j.demand.perNode[r] + int64(j.placement.tasks[k])*j.demand.perTask[r]
		}
		if n.list[i].down && (!j.Request.NoKill || len(j.placement.nodes) < 2) {
			return fmt.Errorf("job %s runs on it, and it is down", j.Name())
		}
	}
	for r, u := range used {
		if u > n.list[i].has[r] {
			return fmt.Errorf("%d of %d %s are used", u, n.list[i].has[r], n.resources[r])
		}
	}
	if has := n.list[i].has[cpu]; n.full[i].has(n.m.now) && inUse(n.list[i].stays, cpu, n.m.now) < has {
		return fmt.Errorf("it counts as full, and %d of %d processors are used", inUse(n.list[i].stays, cpu, n.m.now), has)
	}
	if whole[cpu] && jobs > 1 {
		return fmt.Errorf("%d jobs share it, and one has it as a whole", jobs)
	}
	return nil
}

// auditJob checks that a running job has what it requests.
func (e *Engine) auditJob(j *Job) error {
	n := e.machine.nodes
	if n == nil {
		return nil
	}
	p, q := j.placement, j.demand
	tasks := 0
	for k, i := range p.nodes {
		d := &n.list[i]
		tasks += int(p.tasks[k])
		switch {
		case slices.Contains(p.nodes[:k], i):
			return fmt.Errorf("has node %s twice", d.Name)
		case !slices.Contains(q.partition.Nodes, d.Name):
			return fmt.Errorf("has node %s, which is not in partition %s", d.Name, q.partition.Name)
		case q.tasksPerNode > 0 && int(p.tasks[k]) > q.tasksPerNode:
			return fmt.Errorf("has %d tasks on node %s", p.tasks[k], d.Name)
		}
	}
	switch nodes := len(p.nodes); {
	case tasks != q.tasks:
		return fmt.Errorf("has %d tasks, not %d", tasks, q.tasks)
	case nodes < j.Request.MinNodes && j.Request.Tasks == 0, j.Request.MaxNodes > 0 && nodes > j.Request.MaxNodes:
		return fmt.Errorf("has %d nodes, not %d to %d", nodes, j.Request.MinNodes, j.Request.MaxNodes)
	}
	return nil
}

// AuditStart checks the nodes of a job that has just started.
func (e *Engine) AuditStart(j *Job) error {
	n := e.machine.nodes
	if n == nil {
		return nil
	}
	for _, i := range j.placement.nodes {
		if d := &n.list[i]; !d.usable() {
			return fmt.Errorf("job %s starts on node %s, which is out of service", j.Name(), d.Name)
		}
		if err := n.auditReservations(j, i); err != nil {
			return fmt.Errorf("job %s %w", j.Name(), err)
		}
	}
	return nil
}

// auditReservations checks that a job which starts now does not use another job's reservation.
func (n *nodes) auditReservations(j *Job, node int32) error {
	for _, r := range n.reserved {
		own := r.name == j.demand.reservation
		free := n.find(j.demand.reservation) != nil && n.find(j.demand.reservation).overlaps
		if !own && !free && r.nodes.Has(int(node)) && r.start < after(j.Start, j.Limit) && r.end > j.Start {
			return fmt.Errorf("starts on a node of reservation %s", r.name)
		}
	}
	return nil
}

// Forget makes the machine forget which jobs did not fit, and which nodes are reserved.
func (m *Machine) Forget() {
	m.freed++
	if m.nodes != nil {
		m.nodes.ready = ready{}
		m.nodes.booked.Forget()
	}
}
