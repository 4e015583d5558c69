package admission

import (
	"fmt"

	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/slurmspec"
)

// fitted is a job's request after slurmctld has fitted it to a partition's MaxMemPerCPU or MaxMemPerNode. The field why
// is the finding if the request does not fit, and otherwise nil.
type fitted struct {
	j   rpc.JobDesc
	why *Finding
}

// fitMemory does what _valid_pn_min_mem does: if a job asks for more memory per CPU than is
// allowed, each task gets more CPUs.
func fitMemory(j rpc.JobDesc, p *partition) fitted {
	const perCPU = slurmspec.MemPerCPU
	most, wanted := p.maxMem, j.MinMemory
	switch {
	case most == 0:
		return fitted{j, nil}
	case most&perCPU != 0 && wanted&perCPU != 0:
		return fitted{moreCPUs(j, wanted&^perCPU, most&^perCPU), nil}
	}
	if wanted == 0 && p.first != nil {
		wanted = uint64(p.first.RealMemory - p.first.MemSpecLimit)
	}
	if (wanted|most)&perCPU == 0 {
		return fitted{j, tooMuch(p, "Node", most, wanted)}
	}
	cpus := cpusPerNode(&j, p)
	if wanted&perCPU != 0 {
		return fitted{j, tooMuch(p, "Node", most, (wanted&^perCPU)*cpus)}
	}
	most &^= perCPU
	least := (wanted + most - 1) / most
	if j.MinCPUsPerNode == slurmspec.NoVal16 || uint64(j.MinCPUsPerNode) < least {
		j.MinCPUsPerNode = uint16(min(least, uint64(slurmspec.NoVal16)-1))
		cpus = max(cpus, least)
	}
	return fitted{j, tooMuch(p, "CPU", most*cpus, wanted)}
}

func tooMuch(p *partition, of string, allowed, wanted uint64) *Finding {
	if wanted <= allowed {
		return nil
	}
	return reject(errMemory, RuleMemory, fmt.Sprintf("partition %s has MaxMemPer%s=%d; the jobs ask for more memory",
		p.Name, of, p.maxMem&^slurmspec.MemPerCPU),
		"raise MaxMemPer"+of+" in slurm.conf, or let the jobs ask for less")
}

// moreCPUs gives each task enough CPUs to keep the task's memory per CPU within the limit.
func moreCPUs(j rpc.JobDesc, wanted, allowed uint64) rpc.JobDesc {
	if allowed == 0 || wanted <= allowed {
		return j
	}
	ratio := (wanted + allowed - 1) / allowed
	tasks := uint64(1)
	if j.CPUsPerTask != slurmspec.NoVal16 {
		tasks = uint64(j.CPUsPerTask)
	}
	j.CPUsPerTask = uint16(min(tasks*ratio, uint64(slurmspec.NoVal16)-1))
	j.MinMemory = (wanted+ratio-1)/ratio | slurmspec.MemPerCPU
	if j.Tasks != slurmspec.NoVal && j.Tasks != 0 && j.MinCPUs != slurmspec.NoVal {
		j.MinCPUs = j.Tasks * uint32(j.CPUsPerTask)
	} else {
		j.MinCPUsPerNode = j.CPUsPerTask
	}
	return j
}

// cpusPerNode returns the number of CPUs per node that the job's request implies.
func cpusPerNode(j *rpc.JobDesc, p *partition) uint64 {
	if (p.exclusive || j.Shared == 0) && p.first != nil {
		return uint64(p.first.CPUs)
	}
	n := uint64(1)
	if j.TasksPerNode != slurmspec.NoVal16 && j.TasksPerNode != 0 {
		n = uint64(j.TasksPerNode)
	}
	if j.Tasks != slurmspec.NoVal && j.Tasks != 0 && j.MaxNodes != slurmspec.NoVal && j.MaxNodes != 0 {
		n = max(n, uint64((j.Tasks+j.MaxNodes-1)/j.MaxNodes))
	}
	if j.CPUsPerTask != slurmspec.NoVal16 && j.CPUsPerTask != 0 {
		n *= uint64(j.CPUsPerTask)
	}
	if j.MinCPUsPerNode != slurmspec.NoVal16 {
		n = max(n, uint64(j.MinCPUsPerNode))
	}
	return n
}
