package hardware

import "rmreplay/internal/rm/nodeset"

// Request is what a job wants of nodes, in the terms of slurmctld's job_details. A number that the job
// does not give is 0.
type Request struct {
	Partition int // in Turns
	// Class is the same number for equal requests, as [Tester.Classify] gives it; 0 if no answers to the
	// request are remembered.
	Class int

	MinCPUs int
	// Memory is for each node, or each CPU with MemoryPerCPU, in MiB. 0 is all memory of a node.
	Memory       int64
	MemoryPerCPU bool
	Tasks        int
	TasksPerNode int
	CPUsPerTask  int // at least 1
	// MinCPUsPerNode is pn_min_cpus.
	MinCPUsPerNode int
	TasksPerSocket int
	TasksPerCore   int
	// SocketsPerNode, CoresPerSocket and ThreadsPerCore are the -B options.
	SocketsPerNode, CoresPerSocket, ThreadsPerCore int
	// MemoryPerDevice says that the memory follows from the generic resources (--mem-per-gpu).
	MemoryPerDevice int64
	Devices         []DeviceRequest // generic resources
	// Exclusive says that the job shares its nodes with no other (--exclusive). Whole says that its
	// partition has OverSubscribe=EXCLUSIVE; Exclusive is set then, too.
	Exclusive, Whole bool
	Overcommit       bool
	Contiguous       bool
	Spread           bool
	// MaxNodes is the job's own limit of nodes; 0 for none.
	MaxNodes int
	// Required are the nodes that the job names; nil for none.
	Required nodeset.Set
	// Switches is the number of leaf switches that the job asks for; 0 for any. Patient says that the job
	// still waits for so few.
	Switches int
	Patient  bool
	// LeastLoaded says that the job's partition has LLN=YES.
	LeastLoaded bool
	// BlockCores says that the job fills one socket after the other (-m block:block).
	BlockCores bool

	// Stuck says that a test has counted more CPUs for the job than there are cores. slurmctld holds such a job.
	Stuck bool
}

// CPUsPerCore returns how many CPUs of a core the job may use.
func (r *Request) CPUsPerCore(n *Node) int {
	per := n.Threads
	if r.TasksPerCore > 0 {
		per = min(per, r.TasksPerCore*r.CPUsPerTask)
	}
	if r.ThreadsPerCore > 0 {
		per = min(per, r.ThreadsPerCore)
	}
	return per
}

// Usable returns how many of its CPUs on a node a job uses: of each core only the threads for which the
// job asks (job_resources_get_node_cpu_cnt).
func (r *Request) Usable(n *Node, cpus int) int {
	if r.ThreadsPerCore > 0 && r.ThreadsPerCore < n.Threads {
		return cpus / n.Threads * r.ThreadsPerCore
	}
	return cpus
}

// OwnsNodes reports whether no other job shares the job's nodes (NODE_CR_RESERVED).
func (r *Request) OwnsNodes() bool { return r.Exclusive || r.Whole }

// LeastMemory returns the memory that the job needs of each node.
func (r *Request) LeastMemory() int64 {
	switch {
	case r.MemoryPerDevice > 0:
		return r.MemoryPerDevice
	case r.MemoryPerCPU:
		return r.Memory * int64(max(r.TasksPerNode, r.MinCPUsPerNode, r.CPUsPerTask, 1))
	}
	return r.Memory
}

// CountTasks returns how many tasks a job has on its nodes, as slurmctld counts them.
func (r *Request) CountTasks(nodes int, strict bool) int {
	want := max(nodes, nodes*r.TasksPerNode, r.MinCPUs, nodes*r.MinCPUsPerNode)
	for k := range r.Devices {
		want = max(want, r.Devices[k].On(r, nodes)*r.Devices[k].CPUsPer)
	}
	if !r.Overcommit && r.CPUsPerTask > 1 {
		if r.TasksPerNode == 0 {
			want /= r.CPUsPerTask
		} else {
			want = r.TasksPerNode * nodes
		}
	}
	if strict && r.Tasks > 0 && r.TasksPerNode == 0 {
		want = r.Tasks
	}
	return max(want, 1)
}

// DeviceRequest asks for generic resources of a kind. An empty Type is any. A count that the job does not give
// is 0.
type DeviceRequest struct {
	Kind, Type string
	// Count is for each node, PerJob for the whole job, PerSocket for each socket and PerTask for each task.
	Count, PerJob, PerSocket, PerTask int
	// CPUsPer and MemoryPer are the CPUs and the memory, in MiB, that the job wants for each of the resources.
	CPUsPer   int
	MemoryPer int64
}

// Least returns how many of the resources a node must have at least.
func (d *DeviceRequest) Least() int { return max(d.Count, d.PerSocket, d.PerTask, 1) }

// On returns how many of the resources a job asks for if it has a number of nodes.
func (d *DeviceRequest) On(r *Request, nodes int) int {
	switch {
	case d.PerJob > 0:
		return d.PerJob
	case d.Count > 0:
		return d.Count * nodes
	case d.PerSocket > 0:
		return d.PerSocket * nodes * max(1, r.SocketsPerNode)
	}
	return d.PerTask * max(1, r.Tasks)
}

// Wants reports whether a request asks for a generic resource of this kind and type.
func (d *DeviceRequest) Wants(have *Device) bool {
	return have.Kind == d.Kind && (d.Type == "" || have.Type == d.Type)
}

// EstimateCPUs returns how many CPUs each resource for the whole job gets on the first attempt, so that
// tasks are close to the resources; 0 if the request allows no estimate (_estimate_cpus_per_gres).
func (d *DeviceRequest) EstimateCPUs(r *Request) int {
	switch {
	case r.Tasks == 0 || d.PerJob == 0:
	case r.Tasks%d.PerJob == 0:
		return r.Tasks / d.PerJob * r.CPUsPerTask
	case d.PerJob%r.Tasks == 0:
		if each := d.PerJob / r.Tasks; r.CPUsPerTask%each == 0 {
			return r.CPUsPerTask / each
		}
	}
	return 0
}
