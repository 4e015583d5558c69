// Package partitions has the limits and the state of partitions of slurm.conf, and tests whether a partition
// takes a job.
package partitions

import (
	"strings"

	"rmreplay/internal/rm/slurmmodel/accounts"
	"rmreplay/internal/rm/slurmmodel/config"
	"rmreplay/internal/rm/slurmmodel/cpulimits"
	"rmreplay/internal/rm/slurmmodel/hardware"
	"rmreplay/internal/rm/slurmmodel/keys"
	"rmreplay/internal/rm/slurmmodel/reasons"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/rm/slurmmodel/sharing"
	"rmreplay/internal/slurmspec"
)

// Partition has the limits and the state of a partition.
type Partition struct {
	Name                       string
	Default                    bool
	Tier                       int   // PriorityTier
	MinNodes, MaxNodes         int   // limits of a job's nodes; 0 for no limit
	MaxMinutes, DefaultMinutes int64 // MaxTime and DefaultTime; -1 if not set
	Count, CPUs                int   // number of nodes, and sum of their CPUs
	Memory                     int64 // default memory of jobs in MiB; 0 for the whole memory
	MemoryPerCPU               bool  // Memory is for each CPU, not for each node
	MaxMemory                  Limit
	Sharing                    sharing.Partition // OverSubscribe
	CPULimit                   cpulimits.Limit   // New does not set it
	GPUs                       hardware.GPUDefaults
	// CountsGPUs says that limits count the memory for each GPU of pending jobs; CountsDefault, that they
	// count GPUs.Memory, too.
	CountsGPUs, CountsDefault bool
	LeastLoaded               bool // LLN=YES

	ExclusiveUser bool // its jobs share nodes only with jobs of their user

	Closed    bool             // accepts no new jobs (State DRAIN or INACTIVE)
	Stopped   slurmspec.Reason // why no job starts: PartitionDown, PartitionInactive, or NoReason
	Alternate string           // the partition that gets the jobs of a closed one; "" for none
}

// New returns a partition of slurm.conf, and its nodes. The parameter cluster returns keys of slurm.conf,
// and place has the index of each node of the machine.
func New(
	line *config.Partition, cluster keys.Get, m *selection.Machine, place map[string]int,
) (Partition, selection.Bits, error) {
	p, nodes := read(line.Name, line.Default, line.Get), selection.NewBits(len(place))
	for _, name := range line.Nodes {
		nodes.Set(place[name])
		p.CPUs += m.Nodes[place[name]].CPUs
	}
	p.Count = nodes.Count()
	p.Memory, p.MemoryPerCPU = line.Memory(cluster)
	p.MaxMemory = ReadLimit(m, nodes, line.Get, cluster)
	p.GPUs.CPUs = int(keys.Number(line.Get, "DefCpuPerGPU", keys.Number(cluster, "DefCpuPerGPU", 0)))
	p.CountsGPUs, p.CountsDefault = m.Linear == nil, m.Linear == nil && m.Since2605
	p.GPUs.Memory = keys.Number(line.Get, "DefMemPerGPU", keys.Number(cluster, "DefMemPerGPU", 0))
	var err error
	p.MaxMinutes, p.DefaultMinutes, err = line.Limits()
	return p, nodes, err
}

// read returns a partition with the attributes of its line in slurm.conf, except those that other fields of
// its configuration give: time limits, default memory, and nodes.
func read(name string, isDefault bool, get keys.Get) Partition {
	p := Partition{
		Name: name, Default: isDefault,
		Tier:     int(keys.Number(get, "PriorityTier", keys.Number(get, "Priority", 1))),
		MinNodes: int(keys.Number(get, "MinNodes", 0)), MaxNodes: int(keys.Number(get, "MaxNodes", 0)),
		Sharing:       sharing.Read(get),
		LeastLoaded:   strings.EqualFold(keys.Value(get, "LLN"), "YES"),
		ExclusiveUser: strings.EqualFold(keys.Value(get, "ExclusiveUser"), "YES"),
		Alternate:     keys.Value(get, "Alternate"),
	}
	accepts, starts := slurmspec.PartitionState(get)
	p.Closed = !accepts
	switch {
	case starts:
	case accepts:
		p.Stopped = reasons.PartitionDown
	default:
		p.Stopped = reasons.PartitionInactive
	}
	return p
}

// Ask is what a job asks of its partition.
type Ask struct {
	CPUs, MinNodes, MaxNodes int   // MaxNodes is 0 without a maximum
	Minutes                  int64 // time limit
	AnyTime                  bool  // MaxTime does not apply
	QOS                      *accounts.QOS
}

// Refuse returns why the partition does not take a job (job_limits_check in job_mgr.c), or NoReason. A
// partition that starts no jobs does not compare its limits.
func (p *Partition) Refuse(a *Ask) slurmspec.Reason {
	switch q := a.QOS; {
	case p.Stopped != slurmspec.NoReason:
		return p.Stopped
	case a.CPUs > p.CPULimit.Total(p.Count, p.CPUs):
		return reasons.PartitionConfig
	case a.MinNodes > p.Count, a.MinNodes < p.MinNodes && (q == nil || !q.PartitionMinNodes),
		p.MaxNodes > 0 && max(a.MinNodes, a.MaxNodes) > p.MaxNodes && (q == nil || !q.PartitionMaxNodes):
		return reasons.NodeLimit
	case p.MaxMinutes >= 0 && a.Minutes > p.MaxMinutes && !a.AnyTime && (q == nil || !q.PartitionTimeLimit):
		return reasons.TimeLimit
	}
	return slurmspec.NoReason
}

// Unfit reports whether the limits of the partition exclude a job for ever, so that the background loop does
// not look whether it has become eligible (set_job_elig_time in job_scheduler.c).
func (p *Partition) Unfit(a *Ask) bool {
	return p.Stopped != slurmspec.NoReason || p.MaxMinutes >= 0 && a.Minutes > p.MaxMinutes ||
		a.MaxNodes > 0 && (a.MaxNodes < p.MinNodes || p.MaxNodes > 0 && a.MinNodes > p.MaxNodes)
}

// KeepsReason reports whether a pending job with this reason cannot start because of its partition
// (part_policy_job_runnable_state in partition_mgr.c).
func KeepsReason(r slurmspec.Reason) bool {
	return r == reasons.TimeLimit || r == reasons.NodeLimit || r == reasons.PartitionDown || r == reasons.PartitionInactive
}
