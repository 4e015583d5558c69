package machine

import (
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurmmodel/selection"
)

// Demand is what a job asks of the hardware and the features of each node. Memory and Disk are in MiB, Features
// is --constraint.
type Demand struct {
	CPUs, Sockets, Cores, Threads int
	Memory, Disk                  int64
	Features                      string
}

// With returns the demand with the memory of a request.
func (d Demand) With(r *selection.Request) Demand {
	d.Memory = r.Memory
	if r.MemoryPerCPU {
		d.Memory *= int64(max(1, r.MinCPUsPerNode))
	}
	return d
}

// ServedBy reports whether the hardware and the features of a node serve a job (_build_node_list in
// node_scheduler.c). line is the node in slurm.conf.
func (d *Demand) ServedBy(n *selection.Node, line *hpc.Node) bool {
	if d.CPUs > n.CPUs || d.Memory > n.Memory || d.Sockets > n.Sockets || d.Cores > n.Cores || d.Threads > n.Threads {
		return false
	}
	return d.Disk <= line.TmpDisk && (d.Features == "" || matches(d.Features, line.Features))
}

// matches evaluates features that "&" and "|" join, from left to right.
func matches(expression string, features []string) bool {
	result, and := true, true
	for expression != "" {
		end := strings.IndexAny(expression, "&|,")
		word, operator := expression, byte('&')
		if end >= 0 {
			word, operator = expression[:end], expression[end]
			expression = expression[end+1:]
		} else {
			expression = ""
		}
		has := slices.Contains(features, strings.TrimSpace(word))
		if and {
			result = result && has
		} else {
			result = result || has
		}
		and = operator != '|'
	}
	return result
}

// Kinds returns the nodes of each kind, which slurmctld keeps together (config_record_t): those with the same
// hardware, weight and features. at is the place of each node.
func Kinds(nodes []hpc.Node, at func(name string) int) []selection.Bits {
	var kinds []selection.Bits
	var first []*hpc.Node
	for i := range nodes {
		n := &nodes[i]
		k := slices.IndexFunc(first, func(o *hpc.Node) bool { return alike(o, n) })
		if k < 0 {
			k = len(first)
			first, kinds = append(first, n), append(kinds, selection.NewBits(len(nodes)))
		}
		kinds[k].Set(at(n.Name))
	}
	return kinds
}

func alike(a, b *hpc.Node) bool {
	return a.CPUs == b.CPUs && a.Boards == b.Boards && a.Sockets == b.Sockets && a.CoresPerSocket == b.CoresPerSocket &&
		a.ThreadsPerCore == b.ThreadsPerCore && a.RealMemory == b.RealMemory && a.TmpDisk == b.TmpDisk &&
		a.Weight == b.Weight && slices.Equal(a.Features, b.Features) && slices.Equal(a.GRES, b.GRES)
}
