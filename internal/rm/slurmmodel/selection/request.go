package selection

// Request is what a job wants of nodes, in the terms of slurmctld's job_details. A number that the job
// does not give is 0.
type Request struct {
	Partition int // in Turns
	// Class is the number of the request among all that differ, as [Tester.Classify] gives it; 0 if nothing
	// is remembered of the request.
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
	Required Bits
	// Switches is the number of leaf switches that the job asks for; 0 for any. Patient says that it still
	// waits for them.
	Switches int
	Patient  bool
	// LeastLoaded says that the job's partition has LLN=YES.
	LeastLoaded bool
	// BlockCores says that the job fills one socket after the other (-m block:block).
	BlockCores bool

	// Stuck says that a test has counted more CPUs for the job than there are cores. slurmctld holds such a job.
	Stuck bool
}

// cpusPerCore returns how many CPUs of a core the job may use.
func (r *Request) cpusPerCore(n *Node) int {
	per := n.Threads
	if r.TasksPerCore > 0 {
		per = min(per, r.TasksPerCore*r.CPUsPerTask)
	}
	if r.ThreadsPerCore > 0 {
		per = min(per, r.ThreadsPerCore)
	}
	return per
}

// usable returns how many CPUs of those that a job has on a node it uses: of its cores only the threads for which it
// asks (job_resources_get_node_cpu_cnt).
func (r *Request) usable(n *Node, cpus int) int {
	if r.ThreadsPerCore > 0 && r.ThreadsPerCore < n.Threads {
		return cpus / n.Threads * r.ThreadsPerCore
	}
	return cpus
}
