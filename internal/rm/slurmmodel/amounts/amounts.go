// Package amounts counts the resources that jobs ask for and hold, as accounting tracks them (TRES).
package amounts

import (
	"cmp"
	"slices"

	"rmreplay/internal/rm/slurmmodel/licenses"
	"rmreplay/internal/rm/slurmmodel/partitions"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/rm/slurmmodel/tres"
)

// Sum returns the TRES of a set of nodes.
func Sum(table *tres.Table, m *selection.Machine, nodes selection.Bits) tres.Vector {
	v := table.Vector()
	for i := range nodes.All {
		n := &m.Nodes[i]
		v[tres.CPU] += uint64(n.CPUs)
		v[tres.Memory] += uint64(n.Memory)
		v[tres.Node]++
		for k := range n.Devices {
			addDevices(table, v, n.Devices[k].Kind, n.Devices[k].Type, n.Devices[k].Count)
		}
	}
	return v
}

func addDevices(table *tres.Table, v tres.Vector, kind, typ string, count int) {
	of, typed := table.Devices(kind, typ)
	if of >= 0 {
		v[of] += uint64(count)
	}
	if typed >= 0 {
		v[typed] += uint64(count)
	}
}

// Requested sets v to the TRES that a job asks for in a partition if it gets this number of CPUs and of nodes. It
// leaves billing at 0. The parameter least is the smallest number of nodes that the job takes.
func Requested(
	table *tres.Table, v tres.Vector, r *selection.Request, p *partitions.Partition, cpus, nodes, least int,
) {
	clear(v)
	v[tres.CPU], v[tres.Node] = uint64(cpus), uint64(nodes)
	switch memory, perGPU := memoryOfGPUs(r, p, nodes, least); {
	case perGPU:
		v[tres.Memory] = uint64(memory)
	case r.MemoryPerCPU:
		v[tres.Memory] = uint64(r.Memory) * uint64(cpus)
	default:
		v[tres.Memory] = uint64(cmp.Or(r.Memory, p.MaxMemory.NodeMemory)) * uint64(nodes)
	}
	for _, d := range r.Devices {
		addDevices(table, v, d.Kind, d.Type, d.On(r, nodes))
	}
}

// memoryOfGPUs returns the memory in MiB that a job asks for with its GPUs (job_get_tres_mem in job_mgr.c). It
// returns false if the job's other memory counts.
func memoryOfGPUs(r *selection.Request, p *partitions.Partition, nodes, least int) (memory int64, counts bool) {
	if r.OwnMemory || !p.CountsGPUs {
		return 0, false
	}
	for k := range r.Devices {
		if d := &r.Devices[k]; d.MemoryPer > 0 {
			memory += d.MemoryPer * int64(d.On(r, nodes))
		}
	}
	gpu := slices.IndexFunc(r.Devices, func(d selection.DeviceRequest) bool { return d.Kind == "gpu" })
	if memory == 0 && gpu >= 0 && p.CountsDefault {
		memory = p.GPUs.Memory * int64(r.Devices[gpu].On(r, least))
	}
	return memory, memory > 0
}

// AddLicenses adds licences to a vector. Licences that AccountingStorageTRES does not track are
// left out.
func AddLicenses(table *tres.Table, v tres.Vector, list []licenses.License) {
	for _, l := range list {
		if i, tracked := table.Index("license/" + l.Name); tracked {
			v[i] += uint64(l.Count)
		}
	}
}

// Allocated returns the TRES of an allocation. It leaves billing at 0.
func Allocated(table *tres.Table, m *selection.Machine, a *selection.Allocation) tres.Vector {
	v := table.Vector()
	v[tres.CPU], v[tres.Node] = uint64(a.CPUs), uint64(len(a.Parts))
	for i := range a.Parts {
		p := &a.Parts[i]
		v[tres.Memory] += uint64(p.Memory)
		n := &m.Nodes[p.Node]
		for k := range n.Devices {
			if count := p.Devices(m, k); count > 0 {
				addDevices(table, v, n.Devices[k].Kind, n.Devices[k].Type, count)
			}
		}
	}
	return v
}

// Memory returns the memory of an allocation in MiB.
func Memory(a *selection.Allocation) (sum int64) {
	for i := range a.Parts {
		sum += a.Parts[i].Memory
	}
	return sum
}
