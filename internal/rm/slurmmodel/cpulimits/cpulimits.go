// Package cpulimits has MaxCPUsPerNode and MaxCPUsPerSocket of partitions: how many CPUs of a node or a socket
// the jobs of a partition may use together.
package cpulimits

import (
	"math"
	"slices"

	"rmreplay/internal/rm/slurmmodel/keys"
	"rmreplay/internal/slurmspec"
)

// Limit has the limits of a partition; 0 for no limit.
type Limit struct {
	Node, Socket int // CPUs
}

// Read reads the limits of a partition's line in slurm.conf. MaxCPUsPerSocket exists since 23.02.
func Read(get keys.Get, release slurmspec.Release) Limit {
	l := Limit{Node: int(keys.Number(get, "MaxCPUsPerNode", 0))}
	if release.Since(slurmspec.R2302) {
		l.Socket = int(keys.Number(get, "MaxCPUsPerSocket", 0))
	}
	return l
}

// IsSet reports whether the partition has a limit.
func (l Limit) IsSet() bool { return l != Limit{} }

// Total returns how many CPUs of a partition's nodes the jobs may use together, given the number of the nodes
// and of their CPUs (_part_access_check in job_mgr.c). MaxCPUsPerSocket does not count.
func (l Limit) Total(nodes, cpus int) int {
	if l.Node > 0 {
		return min(cpus, nodes*l.Node)
	}
	return cpus
}

// Usage has the cores that the jobs of limited partitions use.
type Usage struct {
	cores [][]int16 // by partition, and by node and socket; nil for a partition without limits
	begun []bool    // partitions in which a job has started
	width int       // sockets of each node in cores
}

// NewUsage returns the usage of an empty machine; nil if no partition has limits. Each node has width sockets.
func NewUsage(limits []Limit, nodes, width int) *Usage {
	if !slices.ContainsFunc(limits, Limit.IsSet) {
		return nil
	}
	u := &Usage{cores: make([][]int16, len(limits)), begun: make([]bool, len(limits)), width: width}
	for p, l := range limits {
		if l.IsSet() {
			u.cores[p] = make([]int16, nodes*width)
		}
	}
	return u
}

// CopyTo copies the usage u, which may be nil, to the usage of a copied state.
func (u *Usage) CopyTo(to *Usage) {
	if u == nil {
		return
	}
	copy(to.begun, u.begun)
	for p := range u.cores {
		copy(to.cores[p], u.cores[p])
	}
}

// Add adds a job's cores on the sockets of a node. With the sign -1 it removes them.
func (u *Usage) Add(partition, node int, cores []int16, sign int16) {
	if u == nil || u.cores[partition] == nil {
		return
	}
	u.begun[partition] = true
	for s, c := range cores {
		u.cores[partition][node*u.width+s] += sign * c
	}
}

// Of returns the cores that the jobs of a partition use on the sockets of a node; nil if u is nil or the
// partition has no limits.
func (u *Usage) Of(partition, node int) []int16 {
	if u == nil || u.cores[partition] == nil {
		return nil
	}
	return u.cores[partition][node*u.width : (node+1)*u.width]
}

// Begun reports whether a job has started in a limited partition (the row_bitmap of its part_res_record).
func (u *Usage) Begun(partition int) bool { return u != nil && u.begun[partition] }

// Job is what a job asks of each node.
type Job struct {
	Whole                                                     bool // it gets whole nodes
	CPUsPerTask, TasksPerCore, TasksPerSocket, ThreadsPerCore int  // 0 if not given
}

// Unlimited is the result of Allow if the limits leave all free CPUs to the job.
const Unlimited = math.MaxInt

// Allow reduces the free cores of a node's sockets to those that a job of the partition may use. It returns
// how many CPUs of these cores the job may use at most; 0 for none (_allocate_sc in the select plugins). The
// parameter used has the cores that jobs of the partition use. Like slurmctld, Allow does not subtract them
// from MaxCPUsPerSocket: it only closes sockets that have reached the limit.
func (l Limit) Allow(j Job, used, free []int16, threads int) int {
	usable, taken := 0, 0
	for s := range free {
		cpus := int(used[s]) * threads
		switch {
		case l.Socket == 0:
		case cpus >= l.Socket:
			free[s] = 0
		default:
			free[s] = min(free[s], int16(l.Socket/threads))
		}
		usable += int(free[s]) * threads
		taken += cpus
	}
	if l.Node == 0 || usable+taken <= l.Node {
		return Unlimited
	}
	if j.Whole || taken >= l.Node || l.Node-taken == 1 && j.needsMore(threads) {
		return 0
	}
	return l.Node - taken
}

// needsMore reports whether a job needs more than one CPU of a node.
func (j Job) needsMore(threads int) bool {
	perCore := j.ThreadsPerCore
	if j.TasksPerCore > 0 {
		perCore = min(threads, j.TasksPerCore*j.CPUsPerTask)
		if j.ThreadsPerCore > 0 {
			perCore = min(perCore, j.ThreadsPerCore)
		}
	}
	return max(j.CPUsPerTask, j.TasksPerCore, j.TasksPerSocket, perCore) > 1
}
