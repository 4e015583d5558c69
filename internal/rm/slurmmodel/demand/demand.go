// Package demand finds the nodes that can serve a job when they are empty.
package demand

import (
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/rm/slurmmodel/alternatives"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/rm/slurmmodel/words"
	"rmreplay/internal/slurmspec"
)

// Demand is what a job needs from each node: hardware and features.
type Demand struct {
	cpus, sockets, cores, threads int
	memory, disk                  int64
	perCPU                        bool // memory is for each CPU
	tasksPerCore                  bool // the job gives a number of tasks for each core
	features                      string
}

// FromRequest returns the demand of a submission, without its memory.
func FromRequest(r *selection.Request, d *rpc.JobDesc) Demand {
	h := Demand{
		sockets: r.SocketsPerNode, cores: r.CoresPerSocket, threads: r.ThreadsPerCore,
		tasksPerCore: r.TasksPerCore > 0,
	}
	if h.features = d.Features; strings.Contains(h.features, "[") {
		if c, ok := alternatives.Read(d.Features); ok {
			h.features = c.Common
		}
	}
	if d.MinTmpDisk != slurmspec.NoVal {
		h.disk = int64(d.MinTmpDisk)
	}
	return h.With(r)
}

// With returns the demand with the CPUs and the memory that a request needs on each node.
func (h Demand) With(r *selection.Request) Demand {
	h.cpus, h.memory, h.perCPU = r.MinCPUsPerNode, r.Memory, r.MemoryPerCPU
	return h
}

// servedBy reports whether the hardware and the features of a node meet a demand.
func (h *Demand) servedBy(n *selection.Node, config *hpc.Node) bool {
	threads := n.Threads // 1 if CPUs are cores
	if h.tasksPerCore {
		threads = max(threads, config.ThreadsPerCore)
	}
	if h.cpus > n.CPUs || h.memory > n.Memory || h.sockets > n.Sockets || h.cores > n.Cores || h.threads > threads {
		return false
	}
	return h.disk <= config.TmpDisk && (h.features == "" || words.HasFeatures(h.features, config.Features))
}

// Servers finds the nodes that meet a demand. It stores this set for further jobs with the same demand.
type Servers struct {
	machine *selection.Machine
	empty   *selection.State
	maxCPUs int // largest number of CPUs of a node
	configs []*hpc.Node
	known   map[Demand]selection.Bits
	rooms   map[room]selection.Bits // results of Room
}

// room is a class of jobs, see [selection.Tester.Classify], and a set that Nodes returned.
type room struct {
	class int
	set   *uint64
}

// NewServers returns the servers of a machine. The parameter configs has the nodes of slurm.conf,
// and place is each node's index in the machine by name.
func NewServers(m *selection.Machine, configs []hpc.Node, place map[string]int) *Servers {
	s := &Servers{
		machine: m, empty: m.NewState(), maxCPUs: 1,
		configs: make([]*hpc.Node, len(m.Nodes)), known: map[Demand]selection.Bits{}, rooms: map[room]selection.Bits{},
	}
	for i := range m.Nodes {
		s.maxCPUs = max(s.maxCPUs, m.Nodes[i].Sockets*m.Nodes[i].Cores*m.Nodes[i].Threads)
	}
	for i := range configs {
		s.configs[place[configs[i].Name]] = &configs[i]
	}
	return s
}

// Nodes returns the nodes that meet a demand, for all of slurmctld (_build_node_list in node_scheduler.c) and for
// backfill (job_req_node_filter). Of memory for each CPU, only backfill counts the memory of all CPUs that the job
// needs on a node. The caller must not change the sets.
func (s *Servers) Nodes(h Demand) (all, forBackfill selection.Bits) {
	perCPU := h.perCPU
	h.perCPU = false
	all = s.find(h)
	if perCPU {
		h.memory *= int64(max(1, h.cpus))
	}
	return all, s.find(h)
}

// find returns the nodes that meet a demand with memory for each node.
func (s *Servers) find(h Demand) selection.Bits {
	set, known := s.known[h]
	if known {
		return set
	}
	set = selection.NewBits(len(s.machine.Nodes))
	for i := range s.machine.Nodes {
		if h.servedBy(&s.machine.Nodes[i], s.configs[i]) {
			set.Set(i)
		}
	}
	s.known[h] = set
	return set
}

// Split returns the nodes with each feature of a constraint with brackets.
func (s *Servers) Split(constraint string) alternatives.Sets {
	c, ok := alternatives.Read(constraint)
	if !ok {
		return alternatives.Sets{}
	}
	return c.Find(func(feature string) selection.Bits {
		set := selection.NewBits(len(s.configs))
		for i, n := range s.configs {
			set.Put(i, slices.Contains(n.Features, feature))
		}
		return set
	})
}

// Room returns those nodes of a set that have the generic resources for a job, and how many of these nodes
// the job needs at least. The set must come from Nodes. On fewer nodes the job never fits, even if the
// nodes are empty. The caller must not change the returned set.
func (s *Servers) Room(r *selection.Request, set selection.Bits, least int) (selection.Bits, int) {
	if s.machine.MayBeFull(r) {
		return set, max(least, (r.MinCPUs+s.maxCPUs-1)/s.maxCPUs)
	}
	if len(r.Devices) == 0 {
		return set, least
	}
	of := room{r.Class, &set[0]}
	if able := s.rooms[of]; able != nil {
		return able, least
	}
	able := selection.NewBits(len(s.machine.Nodes))
	for i := range set.All {
		able.Put(i, s.machine.HasDevices(s.empty, r, i))
	}
	if r.Class > 0 {
		s.rooms[of] = able
	}
	return able, least
}
