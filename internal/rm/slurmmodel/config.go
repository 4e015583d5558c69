package slurmmodel

import (
	"cmp"
	"strings"

	"rmreplay/internal/rm/slurmmodel/config"
	"rmreplay/internal/rm/slurmmodel/keys"
	"rmreplay/internal/rm/slurmmodel/preemption"
	"rmreplay/internal/rm/slurmmodel/selection"
)

type (
	// Config describes a cluster and the slurmctld that runs it.
	Config = config.Config
	// Usage is the fair-share usage with which slurmctld starts.
	Usage = config.Usage
	// Partition is a partition of slurm.conf.
	Partition = config.Partition
	// Switch is a line of topology.conf.
	Switch = config.Switch
)

// partition is a partition with its nodes as a set.
type partition struct {
	name               string
	nodes              selection.Bits
	tier, index        int   // its place among all partitions
	maxMinutes         int64 // -1 for none
	defaultMinutes     int64 // -1 for none
	count, cpus        int   // nodes, and CPUs of all of them
	minNodes, maxNodes int
	memory             int64 // of jobs that ask for none, in MiB; 0 for all
	memoryPerCPU       bool
	whole, leastLoaded bool
	account            *accountedPartition
	preempt            *preemption.Partition
	failed             bool // in the present pass of the main scheduler
	planned            int  // jobs with reservations in the present cycle of backfill
	tests              int  // jobs tested in the present pass of the main scheduler
}

// noMinutes stands for a time limit that is not given, endless for none.
const (
	noMinutes = -1
	endless   = 365 * 24 * 60
)

// newPartition returns a partition of slurm.conf.
func newPartition(cfg *Config, line *Partition, m *selection.Machine, place map[string]int) (*partition, error) {
	sharing := cmp.Or(keys.Value(line.Get, "OverSubscribe"), keys.Value(line.Get, "Shared"))
	p := &partition{
		name: line.Name, nodes: selection.NewBits(len(place)),
		tier:     int(keys.Number(line.Get, "PriorityTier", keys.Number(line.Get, "Priority", 1))),
		minNodes: int(keys.Number(line.Get, "MinNodes", 0)), maxNodes: int(keys.Number(line.Get, "MaxNodes", 0)),
		whole:       strings.EqualFold(sharing, "EXCLUSIVE"),
		leastLoaded: strings.EqualFold(keys.Value(line.Get, "LLN"), "YES"),
	}
	for _, name := range line.Nodes {
		p.nodes.Set(place[name])
		p.cpus += m.Nodes[place[name]].CPUs
	}
	p.count = p.nodes.Count()
	p.preempt = preemption.NewPartition(line.Get, p.nodes, p.tier)
	p.memory, p.memoryPerCPU = line.Memory(cfg.Get)
	var err error
	p.maxMinutes, p.defaultMinutes, err = line.Limits()
	return p, err
}
