package hardware

import (
	"cmp"

	"rmreplay/internal/rm/nodeset"
	"rmreplay/internal/rm/slurmmodel/sharing"
)

// Request is what a job requests, as in slurmctld's job_details. Numbers that the job does not give
// are 0.
type Request struct {
	Partition int // index in Machine.Turns and Machine.Limits of package selection
	// Class is the same number for equal requests, see Tester.Classify of package selection. Results of
	// tests of requests with class 0 are not stored.
	Class int

	MinCPUs int
	// Memory is for each node, or each CPU with MemoryPerCPU, in MiB. 0 is all memory of a node.
	Memory       int64
	MemoryPerCPU bool
	OwnMemory    bool // the job gives Memory itself
	Tasks        int
	OwnTasks     bool // the job gives Tasks itself
	TasksPerNode int
	CPUsPerTask  int // at least 1
	// BaseCPUsPerTask is CPUsPerTask without the increase by [GPUDefaults.Give]. OwnCPUsPerTask says that
	// the job gives the number itself.
	BaseCPUsPerTask int
	OwnCPUsPerTask  bool
	// MinCPUsPerNode is the smallest number of CPUs on each node (pn_min_cpus).
	MinCPUsPerNode int
	TasksPerSocket int
	TasksPerCore   int
	// SocketsPerNode, CoresPerSocket and ThreadsPerCore are the -B options.
	SocketsPerNode, CoresPerSocket, ThreadsPerCore int
	// MemoryPerDevice is the memory in MiB for each generic resource (--mem-per-gpu, DefMemPerGPU). It replaces
	// Memory; 0 if it does not apply.
	MemoryPerDevice int64
	// Counted says that FirstCPUs of the generic resources is set.
	Counted bool
	// Unclassified says that Class is the class of the request before its last change.
	Unclassified bool
	Devices      []DeviceRequest // generic resources
	// Exclusive says that the job gets whole nodes (--exclusive, OverSubscribe=EXCLUSIVE).
	Exclusive bool
	// OneUser says that only jobs of the job's user may use its nodes (--exclusive=user).
	OneUser    bool
	Sharing    sharing.Use
	Overcommit bool
	Contiguous bool
	Spread     bool
	// MaxNodes is the job's own maximum of nodes; 0 if not given.
	MaxNodes int
	// Required are the nodes of --nodelist; nil if not given.
	Required nodeset.Set
	// Switches is the number of leaf switches that the job asks for (--switches); 0 if not given.
	// Patient says that the job still waits for an allocation on at most this number of switches.
	Switches int
	Patient  bool
	// LeastLoaded says that the job's partition has LLN=YES.
	LeastLoaded bool
	// BlockCores says that the job fills one socket after the other (-m block:block).
	BlockCores bool

	// Stuck says that a test counted more CPUs for the job than there are cores. slurmctld then
	// holds the job.
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

// Occupy returns how many of a number of tasks run on these CPUs of a node, and how many cores they take. The job may
// use per CPUs of each core.
func (r *Request) Occupy(cpus, per, tasks int) (fit, cores int) {
	if each := (r.CPUsPerTask + per - 1) / per; r.TasksPerCore == 1 && r.CPUsPerTask > per {
		fit = cpus / (each * per)
		return fit, fit * each
	}
	fit = min(tasks, cpus/r.CPUsPerTask)
	return fit, (fit*r.CPUsPerTask + per - 1) / per
}

// CPUsOf returns how many CPUs the job can use on a number of free cores of a node, given how many CPUs of each core
// it may use. If no two tasks may have the same core, the rest of a task's last core is lost (_count_used_cpus).
func (r *Request) CPUsOf(cores, per int) int {
	if each := (r.CPUsPerTask + per - 1) / per; r.TasksPerCore == 1 && each > 1 {
		return cores/each*r.CPUsPerTask + cores%each*per
	}
	return cores * per
}

// MemoryStep returns the number of CPUs that slurmctld takes from a job with memory for each CPU at a time if a node
// has too little memory (cpu_alloc_size), and the memory in MiB that a CPU counts then. If each task of one CPU has its
// own core, a CPU counts the memory of all threads of a core. The parameter byCPU says that CPUs are consumable
// resources (CR_CPU).
func (r *Request) MemoryStep(n *Node, byCPU bool) (step int, memory int64) {
	switch {
	case byCPU:
		return 1, r.Memory
	case r.TasksPerCore == 1 && r.CPUsPerTask == 1:
		return 1, r.Memory * int64(n.Threads)
	}
	return r.CPUsPerCore(n), r.Memory
}

// Usable returns how many CPUs of a node a job can use, given the number of CPUs that the job has there. With
// --threads-per-core the job can use only this number of threads of each core (job_resources_get_node_cpu_cnt). The
// parameter byCPU says that CPUs are consumable resources (CR_CPU): then the job has only CPUs that it can use.
func (r *Request) Usable(n *Node, cpus int, byCPU bool) int {
	if !byCPU && r.ThreadsPerCore > 0 && r.ThreadsPerCore < n.Threads {
		return cpus / n.Threads * r.ThreadsPerCore
	}
	return cpus
}

// OwnsNodes reports whether no other job may use the job's nodes (NODE_CR_RESERVED).
func (r *Request) OwnsNodes() bool { return r.Exclusive || r.Sharing.Mode == sharing.Whole }

// LeastMemory returns the memory in MiB that each node must have for the job.
func (r *Request) LeastMemory() int64 {
	switch {
	case r.MemoryPerDevice > 0:
		return r.MemoryPerDevice
	case r.MemoryPerCPU:
		return r.Memory * int64(max(r.TasksPerNode, r.MinCPUsPerNode, r.CPUsPerTask, 1))
	}
	return r.Memory
}

// CountTasks returns how many tasks slurmctld counts for a job on a number of nodes (_get_task_count). Since 24.11
// this is the job's own number of tasks or the number for each node, whichever it gives. If the job gives both, the
// former counts, in 26.05 the latter.
func (r *Request) CountTasks(nodes int, since2411, since2605 bool) int {
	switch {
	case since2411 && r.OwnTasks && r.Tasks > 0 && (r.TasksPerNode == 0 || !since2605):
		return r.Tasks
	case since2411 && r.TasksPerNode > 0:
		return r.TasksPerNode * nodes
	}
	want := max(nodes, nodes*r.TasksPerNode, r.MinCPUs, nodes*r.MinCPUsPerNode)
	for k := range r.Devices {
		want = max(want, r.Devices[k].On(r, nodes)*r.Devices[k].CountedCPUs())
	}
	if !r.Overcommit && r.CPUsPerTask > 1 {
		if r.TasksPerNode == 0 {
			want /= r.CPUsPerTask
		} else {
			want = r.TasksPerNode * nodes
		}
	}
	return max(want, 1)
}

// AnyTasks is the number of tasks if it is not limited.
const AnyTasks = 1 << 31

// TasksOn returns the smallest and largest number of tasks that the job may have on a node, if it needs at
// least this number of nodes.
func (r *Request) TasksOn(n *Node, nodes int) (least, most int) {
	switch {
	case r.TasksPerNode > 0:
		return r.TasksPerNode, r.TasksPerNode
	case r.TasksPerSocket > 0:
		return r.TasksPerSocket, r.TasksPerSocket * n.Sockets
	case r.TasksPerCore > 0:
		return r.TasksPerCore, r.TasksPerCore * n.Sockets * n.Cores
	case r.MaxNodes == 1 && r.Tasks > 0:
		return r.Tasks, r.Tasks
	case r.MaxNodes != 1 && (r.Tasks == 1 || r.Tasks > 0 && r.Tasks == nodes && r.Tasks == r.MaxNodes):
		return 1, 1
	}
	return 1, AnyTasks
}

// FilledSockets returns how many sockets of each node the job's tasks fill, if it needs at least this number
// of nodes; 0 if unknown (_socks_per_node).
func (r *Request) FilledSockets(nodes int) int {
	nodes = max(1, nodes)
	switch {
	case max(r.MinCPUs, r.Tasks*r.CPUsPerTask)/nodes <= 1:
		return 1
	case r.TasksPerSocket > 0:
		return (r.Tasks/nodes + r.TasksPerSocket - 1) / r.TasksPerSocket
	}
	return 0
}

// DeviceRequest requests generic resources of a kind. An empty Type is any type. Counts that the
// job does not give are 0.
type DeviceRequest struct {
	Kind, Type string
	// Count is for each node, PerJob for the whole job, PerSocket for each socket, PerTask for each
	// task.
	Count, PerJob, PerSocket, PerTask int
	// CPUsPer and MemoryPer are the CPUs and the memory, in MiB, that the job requests for each
	// resource.
	CPUsPer   int
	MemoryPer int64
	// DefaultCPUs and DefaultMemory apply instead if the job requests none. FirstCPUs are the DefaultCPUs of
	// the first test, which slurmctld keeps for some sums.
	DefaultCPUs, FirstCPUs int
	DefaultMemory          int64
}

// CPUs returns how many CPUs the job needs for each resource, with the default.
func (d *DeviceRequest) CPUs() int { return cmp.Or(d.CPUsPer, d.DefaultCPUs) }

// CountedCPUs returns how many CPUs the sums of a job's CPUs count for each resource (gres_list_req_accum).
func (d *DeviceRequest) CountedCPUs() int { return cmp.Or(d.CPUsPer, d.FirstCPUs) }

// Memory returns how much memory in MiB the job needs for each resource, with the default.
func (d *DeviceRequest) Memory() int64 { return cmp.Or(d.MemoryPer, d.DefaultMemory) }

// Least returns how many of the resources a node must have.
func (d *DeviceRequest) Least() int { return max(d.Count, d.PerSocket, d.PerTask, 1) }

// On returns how many of the resources the job requests in total on this number of nodes.
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

// AnyType returns the kinds of generic resources of which a job requests a number for each node, of any type.
func AnyType(list []DeviceRequest) (kinds []string) {
	for k := range list {
		if d := &list[k]; d.Type == "" && d.Count > 0 {
			kinds = append(kinds, d.Kind)
		}
	}
	return kinds
}

// Wants reports whether the kind and the type of a generic resource match the request.
func (d *DeviceRequest) Wants(have *Device) bool {
	return have.Kind == d.Kind && (d.Type == "" || have.Type == d.Type)
}

// EstimateCPUs returns how many CPUs slurmctld's first attempt counts for each resource of a request for the whole job
// (PerJob), so that tasks are close to the resources (_estimate_cpus_per_gres). It returns 0 if the request allows no
// estimate.
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
