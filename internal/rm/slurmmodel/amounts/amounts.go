// Package amounts counts the resources that jobs ask for and hold, as accounting tracks them (TRES).
package amounts

import (
	"rmreplay/internal/rm/slurmmodel/licenses"
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

// Requested sets v to the TRES that a job asks for if it gets this number of CPUs and of nodes of a partition. It
// leaves billing at 0. If the job asks for all memory of its nodes, each of them counts like the partition's first
// node (_mem_per_node_part in job_mgr.c).
func Requested(
	table *tres.Table, v tres.Vector, m *selection.Machine, partition selection.Bits, r *selection.Request, cpus, nodes int,
) {
	clear(v)
	v[tres.CPU], v[tres.Node] = uint64(cpus), uint64(nodes)
	v[tres.Memory] = uint64(r.Memory) * uint64(nodes)
	if r.MemoryPerCPU {
		v[tres.Memory] = uint64(r.Memory) * uint64(cpus)
	} else if first := partition.Next(0); r.Memory == 0 && r.MemoryPerDevice == 0 && first >= 0 {
		v[tres.Memory] = uint64(m.Nodes[first].Memory) * uint64(nodes)
	}
	for _, d := range r.Devices {
		addDevices(table, v, d.Kind, d.Type, d.On(r, nodes))
	}
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
