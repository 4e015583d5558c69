package sim

import (
	"math/bits"
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/nodeset"
)

// Generation changes whenever a job that did not fit may fit. Within one generation, a job that does not fit cannot
// fit later, however many jobs start. Time alone only reduces the free resources, because future uses and
// reservations begin.
type Generation struct {
	freed  int // counts ends of uses, and changes of nodes and of reservations
	passed int // number of begins and ends of reservations that have passed
}

// Generation returns the machine's generation.
func (m *Machine) Generation() Generation {
	if m.nodes == nil || len(m.nodes.reserved) == 0 {
		return Generation{freed: m.freed}
	}
	if m.generation.freed == m.freed && m.generationAt == m.now {
		return m.generation
	}
	m.generation, m.generationAt = Generation{freed: m.freed}, m.now
	for _, r := range m.nodes.reserved {
		for _, t := range []hpc.Time{r.start, r.end} {
			if t <= m.now {
				m.generation.passed++
			}
		}
	}
	return m.generation
}

// failure is a job with a demand that did not fit in a generation. Jobs with the same demand that
// are at least as long do not fit, either.
type failure struct {
	known      bool
	in         Generation
	job, limit int64 // expected run time and limit, ns
}

// covers reports whether a job is at least as long as the failed job.
func (f *failure) covers(j *Job) bool { return int64(j.Expected) >= f.job && int64(j.Limit) >= f.limit }

// crowded returns the nodes that have too few free processors now for a demand. It returns nil if these nodes are not
// known, for example for a demand without processors.
func (n *nodes) crowded(q *demand) nodeset.Set {
	switch {
	case n.hypothetical, n.empty:
	case q.perNode[cpu] == wholeNode:
		return n.occupied
	case q.perTask[cpu] > 0 || q.perNode[cpu] != 0:
		return n.filled
	}
	return nil
}

// mayFit reports whether enough nodes may have room now. It looks only at sets of nodes.
func (n *nodes) mayFit(j *Job) bool {
	q, crowded := j.demand, n.crowded(j.demand)
	if crowded == nil {
		return true
	}
	booked := n.booked.Until(q.perNode[cpu] == wholeNode, n.m.now, after(n.m.now, j.Expected))
	count := 0
	for w, members := range q.among.members {
		count += bits.OnesCount64(members &^ crowded[w] &^ booked[w] &^ n.out[w])
	}
	return count >= q.minNodes && (q.tasksPerNode == 0 || count*q.tasksPerNode >= q.tasks)
}

// note updates the sets of nodes after the stays of a node have changed.
func (n *nodes) note(node int32) {
	d, used, begun, booking := &n.list[node], int64(0), false, hpc.Never
	for i := range d.stays {
		switch s := &d.stays[i]; {
		case s.from <= n.m.now:
			begun = true
			used += s.uses[cpu]
		case s.uses[cpu] > 0 && s.from < s.until:
			booking = min(booking, s.from)
		}
	}
	n.booked.Note(int(node), booking)
	n.used.Put(int(node), len(d.stays) > 0)
	n.occupied.Put(int(node), begun)
	n.filled.Put(int(node), used >= d.has[cpu])
}

// foresee returns a lower bound for the instant at which a job will fit, if only ends of running jobs make room. The
// bound is the first instant at which enough nodes have room. The job's other demands may delay it further.
func (n *nodes) foresee(j *Job) hpc.Time {
	q, set := j.demand, j.demand.among
	n.ahead = slices.Grow(n.ahead[:0], len(set.nodes))[:len(set.nodes)]
	f := forward{n: n, j: j, caps: n.ahead}
	clear(f.caps)
	crowded := n.crowded(q)
	for k, i := range set.nodes {
		if crowded == nil || !crowded.Has(int(i)) {
			f.look(int32(k), n.m.now)
		}
	}
	if f.enough() {
		return n.m.now
	}
	at := n.m.now
	for r := range n.m.Running() {
		if r.Due > at {
			if f.enough() {
				return at
			}
			at = r.Due
		}
		if at == hpc.Never {
			return hpc.Never
		}
		for _, i := range r.placement.nodes {
			if k := set.position(n, i); k >= 0 {
				f.look(k, at)
			}
		}
	}
	if f.enough() {
		return at
	}
	return hpc.Never
}

// forward counts the room for a job on its nodes while the running jobs end one after the other.
type forward struct {
	n            *nodes
	j            *Job
	caps         []int32 // for how many tasks each node of the job's set has room
	tasks, count int     // tasks with room, and nodes with room for a task
}

// look counts for how many tasks a node has room at an instant.
func (f *forward) look(k int32, at hpc.Time) {
	q := f.j.demand
	d := &f.n.list[q.among.nodes[k]]
	if !d.usable() {
		return
	}
	c := int32(min(f.n.capacity(q, d, at, after(at, f.j.Expected)), q.tasks))
	was := f.caps[k]
	f.caps[k] = c
	f.tasks += int(c - was)
	if was == 0 && c > 0 {
		f.count++
	} else if was > 0 && c == 0 {
		f.count--
	}
}

func (f *forward) enough() bool { return f.tasks >= f.j.demand.tasks && f.count >= f.j.demand.minNodes }

// position returns the position of a node in the set, or -1.
func (s *nodeSet) position(n *nodes, node int32) int32 {
	if s.positions == nil {
		s.positions = make([]int32, len(n.list))
		for i := range s.positions {
			s.positions[i] = -1
		}
		for k, i := range s.nodes {
			s.positions[i] = int32(k)
		}
	}
	return s.positions[node]
}
