package slurmmodel

import (
	"cmp"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurm/fairshare"
	"rmreplay/internal/rm/slurmmodel/charge"
	"rmreplay/internal/rm/slurmmodel/guide"
	"rmreplay/internal/rm/slurmmodel/keys"
	"rmreplay/internal/rm/slurmmodel/machine"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/slurmspec"
)

// Config describes a cluster and the slurmctld that runs it.
type Config struct {
	// Release is the release of Slurm that is modelled.
	Release slurmspec.Release
	// Get returns keys of slurm.conf.
	Get func(key string) (string, bool)
	// Nodes and Partitions are those of slurm.conf, in its order.
	Nodes      []hpc.Node
	Partitions []Partition
	// Switches are those of topology/tree, in the order of topology.conf; nil for another topology.
	Switches []Switch
	// Associations are the accounts, users and QOS; nil without slurmdbd.
	Associations *associations.Set
	// Usage is the fair-share usage with which slurmctld starts.
	Usage Usage
	// Rejected has the reasons why slurmctld refuses jobs, by the workload's ID, but for what reservations refuse
	// and for jobs that no nodes serve: the model finds these itself.
	Rejected map[string]string
	// Epoch is the instant at which virtual time begins. slurmctld has run for Lead by then.
	Epoch hpc.Time
	Lead  time.Duration
	// PreRoll says that virtual time begins before the workload's window. At most PresetBurst preset jobs
	// start together.
	PreRoll     bool
	PresetBurst int
	// Costs are the virtual times of the schedulers' computing.
	Costs charge.Costs
	// Guide overrules the model's decisions; nil for none.
	Guide guide.Guide
}

// Usage is the fair-share usage with which slurmctld starts.
type Usage struct {
	// Own has the usage of associations without that of those below them.
	Own []fairshare.Own
	// OfCPUs says that the billing of jobs is their number of CPUs, so that the usage of CPUs is the same.
	OfCPUs bool
	// Reset is the instant from which the usage counts.
	Reset hpc.Time
}

// Partition is a partition of slurm.conf.
type Partition struct {
	Name    string
	Default bool
	Nodes   []string
	// Get returns the attributes of its line.
	Get func(key string) (string, bool)
}

// Switch is a line of topology.conf.
type Switch = machine.Switch

// partition is a partition with its nodes as a set.
type partition struct {
	name               string
	nodes              selection.Bits
	tier               int
	maxMinutes         int64 // -1 for none
	defaultMinutes     int64 // -1 for none
	cpus               int   // of all nodes
	minNodes, maxNodes int
	memory             int64 // of jobs that ask for none, in MiB; 0 for all
	memoryPerCPU       bool
	whole, leastLoaded bool
	account            *accountedPartition
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
	var err error
	if p.maxMinutes, err = keys.Minutes(line.Get, "MaxTime"); err != nil {
		return nil, err
	}
	if p.defaultMinutes, err = keys.Minutes(line.Get, "DefaultTime"); err != nil {
		return nil, err
	}
	for _, get := range []func(string) (string, bool){line.Get, cfg.Get} {
		perCPU, perNode := keys.Number(get, "DefMemPerCPU", 0), keys.Number(get, "DefMemPerNode", 0)
		if perCPU > 0 || perNode > 0 {
			p.memory, p.memoryPerCPU = max(perCPU, perNode), perCPU > 0
			break
		}
	}
	return p, nil
}
