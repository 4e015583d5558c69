package hardware

import (
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurmmodel/selection"
)

// Demand is what a job asks of the hardware and the features of each node; 0 and "" for nothing.
type Demand struct {
	CPUs, Sockets, Cores, Threads int   // Cores of a socket, Threads of a core
	Memory, Disk                  int64 // MiB
	Features                      string
}

// ServedBy reports whether the hardware and the features of a node serve a job (_build_node_list in
// node_scheduler.c).
func (h *Demand) ServedBy(n *selection.Node, config *hpc.Node) bool {
	if h.CPUs > n.CPUs || h.Memory > n.Memory || h.Sockets > n.Sockets || h.Cores > n.Cores || h.Threads > n.Threads {
		return false
	}
	return h.Disk <= config.TmpDisk && (h.Features == "" || matches(h.Features, config.Features))
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
