package partitions

import (
	"rmreplay/internal/rm/slurmmodel/keys"
	"rmreplay/internal/rm/slurmmodel/reasons"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/slurmspec"
)

// Limit is MaxMemPerCPU or MaxMemPerNode of a partition or, without both, of the cluster.
type Limit struct {
	Most       int64 // in MiB; 0 for no limit
	PerCPU     bool
	NodeMemory int64 // memory of the partition's first node in MiB
	NodeCPUs   int   // CPUs of this node
	since2411  bool
}

// ReadLimit reads the limit of a partition with these nodes of a machine. The first function returns attributes
// of the partition, the second one keys of slurm.conf.
func ReadLimit(m *selection.Machine, nodes selection.Bits, of ...keys.Get) (l Limit) {
	if first := nodes.Next(0); m != nil && first >= 0 {
		l.NodeMemory, l.NodeCPUs, l.since2411 = m.Nodes[first].Memory, m.Nodes[first].CPUs, m.Since2411
	}
	for _, get := range of {
		perCPU, perNode := keys.Number(get, "MaxMemPerCPU", 0), keys.Number(get, "MaxMemPerNode", 0)
		if perCPU > 0 || perNode > 0 {
			l.Most, l.PerCPU = max(perCPU, perNode), perCPU > 0
			break
		}
	}
	return l
}

// FitMemory returns a job's original request as fitted to the partition's limit of memory, or why it does not
// fit. A job without memory of its own gets the partition's default. The parameter whole says that the job
// gets whole nodes.
func (p *Partition) FitMemory(
	original *selection.Request, own, whole bool, minNodes, maxNodes int,
) (selection.Request, slurmspec.Reason) {
	r := *original
	if r.Exclusive = whole || p.Sharing.Jobs == 0; !own {
		r.Memory, r.MemoryPerCPU = p.Memory, p.MemoryPerCPU
	}
	if !p.MaxMemory.Fit(&r, minNodes, maxNodes) {
		return r, reasons.MaxMemory
	}
	r.BaseCPUsPerTask = r.CPUsPerTask
	return r, slurmspec.NoReason
}

// Fit fits a request to the limit, or returns false if the request exceeds it (_valid_pn_min_mem in job_mgr.c).
// If both are for each CPU, each task gets more CPUs. The parameters minNodes and maxNodes are the job's
// numbers of nodes; 0 for none.
func (l *Limit) Fit(r *selection.Request, minNodes, maxNodes int) bool {
	wanted := r.Memory
	switch {
	case l.Most == 0 || l.PerCPU && r.MemoryPerCPU && wanted <= l.Most:
		return true
	case l.PerCPU && r.MemoryPerCPU:
		l.addCPUs(r, minNodes)
		return true
	case wanted == 0:
		wanted = l.NodeMemory
	}
	if !l.PerCPU && !r.MemoryPerCPU {
		return wanted <= l.Most
	}
	cpus := l.perNode(r, maxNodes)
	if r.MemoryPerCPU {
		return wanted*int64(cpus) <= l.Most
	}
	if least := int((wanted + l.Most - 1) / l.Most); r.MinCPUsPerNode < least {
		r.MinCPUsPerNode = least
		cpus = max(cpus, least)
		l.spread(r, least, minNodes)
	}
	return wanted <= l.Most*int64(cpus)
}

// spread sets the CPUs of each task of a job that needs so many CPUs on each node.
func (l *Limit) spread(r *selection.Request, least, minNodes int) {
	switch {
	case r.TasksPerNode > 0:
		if r.CPUsPerTask = (least + r.TasksPerNode - 1) / r.TasksPerNode; l.since2411 {
			r.MinCPUsPerNode = max(r.CPUsPerTask*r.TasksPerNode, least)
			r.MinCPUs = max(r.MinCPUs, least)
		}
	case !l.since2411:
	case r.Tasks > 0:
		r.CPUsPerTask = (least*minNodes + r.Tasks - 1) / r.Tasks
		r.MinCPUsPerNode = r.CPUsPerTask * r.Tasks / minNodes
		r.MinCPUs = r.MinCPUsPerNode
	default:
		r.CPUsPerTask = max(least, r.CPUsPerTask)
	}
}

// addCPUs gives each task so many CPUs that its memory for each CPU is within the limit.
func (l *Limit) addCPUs(r *selection.Request, minNodes int) {
	ratio := (r.Memory + l.Most - 1) / l.Most
	r.CPUsPerTask *= int(ratio)
	r.Memory = (r.Memory + ratio - 1) / ratio
	tasks := r.Tasks
	if tasks == 0 {
		tasks = minNodes * max(1, r.TasksPerNode)
	}
	r.MinCPUs = tasks * r.CPUsPerTask
	r.MinCPUsPerNode = max(r.MinCPUsPerNode, r.CPUsPerTask)
}

// perNode returns how many CPUs of a node a request implies.
func (l *Limit) perNode(r *selection.Request, maxNodes int) int {
	if r.Exclusive {
		return l.NodeCPUs
	}
	n := max(1, r.TasksPerNode)
	if r.Tasks > 0 && maxNodes > 0 {
		n = max(n, (r.Tasks+maxNodes-1)/maxNodes)
	}
	return max(n*r.CPUsPerTask, r.MinCPUsPerNode)
}
