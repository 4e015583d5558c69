package selection

import (
	"slices"

	"rmreplay/internal/rm/nodeset"
	"rmreplay/internal/rm/slurmmodel/cpulimits"
	"rmreplay/internal/rm/slurmmodel/hardware"
	"rmreplay/internal/rm/slurmmodel/linear"
	"rmreplay/internal/rm/slurmmodel/rows"
	"rmreplay/internal/rm/slurmmodel/sharing"
)

// Bits is a set of nodes of a machine.
type Bits = nodeset.Set

// NewBits returns an empty set for n nodes.
func NewBits(n int) Bits { return nodeset.New(n) }

type (
	// Node is the hardware of a node.
	Node = hardware.Node
	// Device is a generic resource of a node.
	Device = hardware.Device
	// Switch is a switch of topology/tree.
	Switch = hardware.Switch
	// Request is what a job requests.
	Request = hardware.Request
	// DeviceRequest asks for generic resources.
	DeviceRequest = hardware.DeviceRequest
)

// Machine is the hardware and the settings of the select plugin. It does not change.
type Machine struct {
	// Nodes are in Slurm's order, the natural order of their names. Comments that speak of the
	// first node mean this order.
	Nodes []Node
	// Switches are the switches of topology/tree in the order of topology.conf; otherwise nil.
	Switches []Switch
	// CountMemory says that memory is a consumable resource (CR_Memory).
	CountMemory bool
	// BlockCores says that jobs fill one socket after the other (CR_CORE_DEFAULT_DIST_BLOCK). Otherwise
	// they take cores of all sockets in turn.
	BlockCores bool
	// ByCPU is CR_CPU: a job counts only the CPUs that it asks for, but no other job gets their cores.
	ByCPU bool
	// PackSerial is SchedulerParameters=pack_serial_at_end.
	PackSerial bool
	// LeastLoaded is SelectTypeParameters=CR_LLN.
	LeastLoaded bool
	// TreeOptional is TopologyParam=TopoOptional: switches matter only to jobs with --switches.
	TreeOptional bool
	// Dragonfly is TopologyParam=Dragonfly: a job too large for one leaf is spread over all leaves.
	Dragonfly bool
	// Linear is for select/linear; nil with select/cons_tres.
	Linear *linear.Cluster
	// Turns has the partitions if several jobs may have the same core, because of Gang
	// (PreemptMode=GANG) or OverSubscribe; otherwise it is nil.
	Turns []rows.Partition
	Gang  bool
	// Turn says which cores of other jobs a job may share.
	Turn rows.Search
	// Limits are MaxCPUsPerNode and MaxCPUsPerSocket of the partitions.
	Limits []cpulimits.Limit
	// GPUs are DefCpuPerGPU and DefMemPerGPU of the partitions.
	GPUs        []hardware.GPUDefaults
	hasDefaults bool // one of GPUs is not 0
	// Since2411 and Since2605 say that the release is 24.11 or newer, and 26.05 or newer.
	Since2411, Since2605 bool

	stride int   // largest number of sockets of a node
	slots  int   // largest number of devices of a node
	kinds  []int // equal for nodes that differ only in names, weights and generic resources
	first  []int // index of each node's first core in [rows.Cores]; the last element is the number of all cores
}

// AddPartition adds the limits and the defaults of a partition, and returns its index.
func (m *Machine) AddPartition(l cpulimits.Limit, of hardware.GPUDefaults) int {
	m.Limits, m.GPUs = append(m.Limits, l), append(m.GPUs, of)
	m.hasDefaults = m.hasDefaults || of != hardware.GPUDefaults{}
	return len(m.Limits) - 1
}

// Cores returns the number of cores of all nodes.
func (m *Machine) Cores() int { return m.first[len(m.Nodes)] }

// Prepare computes all fields that depend only on the hardware. Call it once, before all other methods.
func (m *Machine) Prepare() {
	kinds, cores := map[[4]int64]int{}, 0
	for i := range m.Nodes {
		n := &m.Nodes[i]
		m.stride = max(m.stride, n.Sockets)
		m.slots = max(m.slots, len(n.Devices))
		kind := [4]int64{int64(n.Sockets), int64(n.Cores), int64(n.Threads), n.Memory}
		if _, known := kinds[kind]; !known {
			kinds[kind] = len(kinds)
		}
		m.kinds = append(m.kinds, kinds[kind])
		m.first = append(m.first, cores)
		cores += n.CoreCount()
	}
	m.first = append(m.first, cores)
	for i := range m.Switches {
		m.Switches[i].Distance = hardware.Distances(m.Switches, i)
	}
}

// State records which resources of a machine running jobs have.
type State struct {
	nodes   []load
	cores   []int16     // free cores, by node
	free    []int16     // free cores, by node and socket
	devices []int16     // in use, by node, device and socket; a device's last number is for resources close to no socket
	busy    Bits        // nodes with a job
	rows    *rows.Table // nil unless jobs share cores
	copied  bool        // see [sharing.Node.Counting]
	limited *cpulimits.Usage
}

// load is what running jobs have of one node.
type load struct {
	memory int64 // free, in MiB
	jobs   int16 // jobs on the node
	shares sharing.Node
}

// NewState returns the state of an empty machine.
func (m *Machine) NewState() *State {
	n := len(m.Nodes)
	s := &State{
		nodes: make([]load, n), cores: make([]int16, n), free: make([]int16, n*m.stride),
		devices: make([]int16, n*m.slots*(m.stride+1)), busy: NewBits(n),
		limited: cpulimits.NewUsage(m.Limits, n, m.stride),
	}
	for i := range m.Nodes {
		for k := range m.Nodes[i].Sockets {
			s.free[i*m.stride+k] = int16(m.Nodes[i].Cores)
		}
		s.nodes[i].memory, s.cores[i] = m.Nodes[i].Memory, int16(m.Nodes[i].CoreCount())
	}
	if m.Turns != nil {
		s.rows = rows.New(m.first[n], m.Turns, m.Turn.Since2411)
	}
	return s
}

// CopyTo copies the state s to another state. Both must be of the same machine.
func (s *State) CopyTo(to *State) {
	copy(to.nodes, s.nodes)
	copy(to.cores, s.cores)
	copy(to.free, s.free)
	copy(to.devices, s.devices)
	copy(to.busy, s.busy)
	s.limited.CopyTo(to.limited)
	to.copied = true
	if s.rows != nil {
		s.rows.CopyTo(to.rows)
	}
}

// Allocation has the nodes and resources of one job.
type Allocation struct {
	Nodes Bits
	// CPUs is the number of the job's CPUs. With whole nodes these are all CPUs of its nodes.
	CPUs int
	// Parts has a part for each node, in the order of the nodes; nil in an allocation for a later start.
	Parts     []Part
	Sharing   sharing.Use
	Partition int // as in Request
	// Turn has the job's cores if jobs may share cores; otherwise it is nil.
	Turn *rows.Job
	// anyType are the kinds of generic resources of which the job requests a number for each node, of any type.
	anyType []string
}

// Part has the resources of a job on one node.
type Part struct {
	Node    int
	CPUs    int
	Memory  int64 // MiB
	tasks   int   // 0 for an exclusive job
	cores   []int16
	devices []int16 // by device and socket, as in State
}

// Devices returns how many of the node's device number i the part has.
func (p *Part) Devices(m *Machine, i int) int {
	if p.devices == nil {
		return 0
	}
	n := 0
	for k := range m.stride + 1 {
		n += int(p.devices[i*(m.stride+1)+k])
	}
	return n
}

// Add gives a job its allocation.
func (m *Machine) Add(s *State, a *Allocation) { m.apply(s, a, 1) }

// Remove removes the allocation of a job.
func (m *Machine) Remove(s *State, a *Allocation) { m.apply(s, a, -1) }

// Leave removes the allocation of a running job in a test. Before 24.11 slurmctld finds the types of the job's
// resources in the request then (job_res_rm_job). If the request names no type, resources that are counted by type
// remain in use (_job_dealloc in gres_ctld.c).
func (m *Machine) Leave(s *State, a *Allocation) {
	m.Remove(s, a)
	if len(a.anyType) == 0 {
		return
	}
	for i := range a.Parts {
		p, width := &a.Parts[i], m.stride+1
		for k, c := range p.devices {
			if n := &m.Nodes[p.Node]; c > 0 && n.Devices[k/width].ByType && slices.Contains(a.anyType, n.Devices[k/width].Kind) {
				s.devices[p.Node*m.slots*width+k] += c
			}
		}
	}
}

func (m *Machine) apply(s *State, a *Allocation, sign int16) {
	for i := range a.Parts {
		p := &a.Parts[i]
		n := &s.nodes[p.Node]
		if s.rows == nil {
			free := s.free[p.Node*m.stride:][:len(p.cores)]
			for k, c := range p.cores {
				free[k] -= sign * c
				s.cores[p.Node] -= sign * c
			}
		}
		s.limited.Add(a.Partition, p.Node, p.cores, sign)
		n.memory -= int64(sign) * p.Memory
		if len(p.devices) > 0 {
			used := s.devices[p.Node*m.slots*(m.stride+1):]
			for k, c := range p.devices {
				used[k] += sign * c
			}
		}
		n.jobs += sign
		s.busy.Put(p.Node, n.jobs != 0)
		n.shares.Add(a.Sharing, sign)
	}
	m.turn(s, a, sign > 0)
}

// ClearFull removes the nodes without a free core from a set.
func (s *State) ClearFull(set Bits) {
	for i := range set.All {
		if s.cores[i] == 0 {
			set.Clear(i)
		}
	}
}

// Idle reports whether a node has no jobs.
func (s *State) Idle(node int) bool { return !s.busy.Has(node) }

// Busy returns the nodes that have jobs. The caller must not change the set.
func (s *State) Busy() Bits { return s.busy }

// freeDevices sets the elements of the slice out to the number of a node's free devices of index i on each socket. The
// last number is for devices close to no socket. With anew, used devices count as free.
func (m *Machine) freeDevices(s *State, node, i int, anew bool, out []int) {
	d := &m.Nodes[node].Devices[i]
	clear(out)
	if d.BySocket == nil {
		out[m.stride] = d.Count
	} else {
		copy(out, d.BySocket)
	}
	if anew {
		return
	}
	at := (node*m.slots + i) * (m.stride + 1)
	for k := range out {
		out[k] -= int(s.devices[at+k])
	}
}
