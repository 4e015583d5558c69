package complete

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// freeNodes is the rule of the nodes on which jobs ran when the window began.
const freeNodes = "free"

// Place gives nodes to the jobs that ran when the window began, as [Complete] does. It does so if the record names no
// nodes and the workload was completed for a site with named nodes. It returns how many jobs got nodes. It is used
// after a window was cut out of a completed workload. Place does not change other fields.
func Place(w *workload.Workload) int {
	if w.Completion == nil || len(w.Completion.Fields) == 0 {
		return 0
	}
	c := *w.Completion
	c.Fields = slices.Clone(c.Fields)
	if !slices.ContainsFunc(c.Fields, isNodes) {
		c.Fields = append(c.Fields, workload.MadeField{Field: workload.FieldNodes, Rule: freeNodes, Draw: c.Fields[0].Draw})
	}
	field := &c.Fields[slices.IndexFunc(c.Fields, isNodes)]
	before := field.Jobs
	m := newMaker(w, &c)
	m.rng = rand.New(rand.NewPCG(field.Draw, stream(field.Field)))
	m.nodes(field)
	placed := field.Jobs
	if field.Jobs += before; placed == 0 {
		return 0
	}
	w.Jobs = rebuilt(&w.Jobs, func(i int, job *hpc.Job) {
		if f := &m.facts[i]; f.made&bit(workload.FieldNodes) != 0 {
			f.put(job, workload.FieldNodes)
			if job.Made != "" {
				job.Made += ","
			}
			job.Made += string(workload.FieldNodes) + "=" + field.Rule
		}
	})
	w.Completion = &c
	return placed
}

func isNodes(f workload.MadeField) bool { return f.Field == workload.FieldNodes }

// nodes places the jobs that ran when the window began and whose nodes were not recorded, in the order of their starts.
// Each job gets nodes of its partition that no other such job has. nodes takes free nodes in order, beginning at a
// random node. If too few nodes are free, a job that does not request whole nodes shares nodes. If too few nodes can be
// shared, too, the job gets no nodes.
func (m *maker) nodes(field *workload.MadeField) {
	left := m.capacity()
	var list []*fact
	for i, job := range m.w.Jobs.All() {
		f := &m.facts[i]
		switch {
		case f.lacks(workload.FieldNodes):
			list = append(list, f)
		case m.w.Preset(job):
			names, _ := hostlist.Expand(job.Recorded.Nodes) // [workload.Validate] reports a wrong list
			for _, name := range names {
				m.take(left, f, name, len(names))
			}
		}
	}
	slices.SortStableFunc(list, func(a, b *fact) int { return cmp.Compare(a.start, b.start) })
	for _, f := range list {
		p := m.partition(f.partition)
		if p == nil || p.NodeCPUs == 0 {
			continue
		}
		names, _ := hostlist.Expand(p.NodeList)
		if len(names) == 0 {
			continue
		}
		from := m.rng.IntN(len(names))
		n := max(1, f.nodes, (f.cpus+p.NodeCPUs-1)/p.NodeCPUs)
		chosen := choose(slices.Concat(names[from:], names[:from]), n, (f.cpus+n-1)/n, f.exclusive != "", left)
		if chosen == nil {
			continue
		}
		for _, name := range chosen {
			m.take(left, f, name, n)
		}
		slices.SortFunc(chosen, hostlist.Natural)
		f.nodeList, f.made = hostlist.Compress(chosen), f.made|bit(field.Field)
		field.Jobs++
	}
}

// node has the CPUs of a node that are left at the start of the window, and all its CPUs.
type node struct{ cpus, all int }

// capacity returns the nodes of all partitions that are in service when the window begins. The site's facts give only
// the CPUs of the largest node of each partition. A node in several partitions gets the smallest number of its
// partitions.
func (m *maker) capacity() map[string]*node {
	left := map[string]*node{}
	for _, p := range m.c.Site.Partitions {
		names, _ := hostlist.Expand(p.NodeList)
		for _, name := range names {
			n := p.NodeCPUs
			if known := left[name]; known != nil {
				n = min(n, known.all)
			}
			left[name] = &node{n, n}
		}
	}
	for _, e := range m.w.NodeEvents {
		names, err := hostlist.Expand(e.Nodes)
		if e.At > m.w.Start || err != nil {
			continue
		}
		for _, name := range names {
			if n := left[name]; n != nil {
				if n.cpus = 0; e.State == "resume" {
					n.cpus = n.all
				}
			}
		}
	}
	return left
}

// take removes the CPUs that a job uses on one of its n nodes from the node's free CPUs.
func (m *maker) take(left map[string]*node, f *fact, name string, n int) {
	if on := left[name]; on != nil {
		if on.cpus -= (f.cpus + n - 1) / n; f.exclusive != "" {
			on.cpus = 0
		}
	}
}

// choose returns the first n nodes without jobs. If there are too few, choose returns the first n nodes with enough
// CPUs left for a job that shares nodes. choose returns nil if too few nodes have enough CPUs.
func choose(names []string, n, cpus int, whole bool, left map[string]*node) []string {
	for _, shared := range []bool{false, true} {
		var chosen []string
		for _, name := range names {
			on := left[name]
			if fits := on.cpus >= max(1, cpus) && (on.cpus == on.all || shared && !whole); fits {
				if chosen = append(chosen, name); len(chosen) == n {
					return chosen
				}
			}
		}
	}
	return nil
}
