// Package partition has the partitions of a simulated cluster.
package partition

import (
	"errors"
	"fmt"
	"rmreplay/internal/spelling"
	"slices"
	"strings"
	"time"
)

// Partition is a set of nodes that jobs request by name.
type Partition struct {
	Name    string
	Nodes   []string
	Default bool
	// MaxTime is the longest time limit; 0 for no limit.
	MaxTime time.Duration
	// DefaultTime is the time limit of a job that requests none. If it is 0, MaxTime is used.
	DefaultTime time.Duration
	// DefMemPerCPU or DefMemPerNode, in MiB, is the memory of a job that requests none. If both are
	// 0, the job gets all memory of its nodes.
	DefMemPerCPU, DefMemPerNode int64
	// WholeNodes gives every job whole nodes.
	WholeNodes bool
	// Closed partitions accept no jobs, and stopped ones start none. Neither matters for preset jobs.
	Closed, Stopped bool
}

// closure is greater for a partition that does less with new jobs.
func (p *Partition) closure() int {
	switch {
	case p.Closed:
		return 2
	case p.Stopped:
		return 1
	}
	return 0
}

// Find returns the partition of a job that names several: the first that accepts and starts jobs, or else the
// first that accepts jobs, or else the first. Without a name it is the default one. A partition without a name
// fits every name.
func Find(list []Partition, names string) (best *Partition, err error) {
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(list, func(p Partition) bool {
			return p.Name == name || p.Name == "" || name == "" && (p.Default || len(list) == 1)
		})
		switch {
		case i >= 0 && (best == nil || list[i].closure() < best.closure()):
			best = &list[i]
		case best == nil && name == "":
			return nil, errors.New("names no partition, and the cluster has no default one")
		case best == nil:
			var known []string
			for _, p := range list {
				known = append(known, p.Name)
			}
			return nil, fmt.Errorf("there is no partition %s%s", name, spelling.Suggest(name, known))
		}
	}
	return best, nil
}
