// Package demand is what jobs ask of each node, whatever is free there.
package demand

import (
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/slurmspec"
)

// Demand is what a job asks of the hardware and the features of each node.
type Demand struct {
	cpus, sockets, cores, threads int
	memory, disk                  int64
	features                      string
}

// Of returns the demand of a submission.
func Of(r *selection.Request, d *rpc.JobDesc) Demand {
	h := Demand{
		cpus: r.MinCPUsPerNode, sockets: r.SocketsPerNode, cores: r.CoresPerSocket, threads: r.ThreadsPerCore,
		features: d.Features,
	}
	if d.MinTmpDisk != slurmspec.NoVal {
		h.disk = int64(d.MinTmpDisk)
	}
	return h.With(r)
}

// With returns the demand with the memory of a request.
func (h Demand) With(r *selection.Request) Demand {
	h.memory = r.Memory
	if r.MemoryPerCPU {
		h.memory *= int64(max(1, r.MinCPUsPerNode))
	}
	return h
}

// ServedBy reports whether the hardware and the features of a node serve a job (_build_node_list in
// node_scheduler.c).
func (h *Demand) ServedBy(n *selection.Node, config *hpc.Node) bool {
	if h.cpus > n.CPUs || h.memory > n.Memory || h.sockets > n.Sockets || h.cores > n.Cores || h.threads > n.Threads {
		return false
	}
	return h.disk <= config.TmpDisk && (h.features == "" || selection.HasFeatures(h.features, config.Features))
}
