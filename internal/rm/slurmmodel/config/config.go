// Package config describes a cluster and the slurmctld that runs it, for the model of slurmctld.
package config

import (
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurm/fairshare"
	"rmreplay/internal/rm/slurmmodel/charge"
	"rmreplay/internal/rm/slurmmodel/guide"
	"rmreplay/internal/rm/slurmmodel/keys"
	"rmreplay/internal/rm/slurmmodel/machine"
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
	// Rejected has the reasons why slurmctld refuses jobs, by the workload's ID, except for what reservations refuse
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
	// Own has each association's own usage, without the usage of associations below it.
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

// Limits returns the longest time limit, and the limit of jobs that give none, in minutes; -1 for no limit.
func (p *Partition) Limits() (longest, usual int64, err error) {
	if longest, err = keys.Minutes(p.Get, "MaxTime"); err != nil {
		return 0, 0, err
	}
	usual, err = keys.Minutes(p.Get, "DefaultTime")
	return longest, usual, err
}

// Memory returns the memory of jobs that ask for none, in MiB, for each CPU or each node. It is 0 for all of the
// memory.
func (p *Partition) Memory(cluster keys.Get) (amount int64, perCPU bool) {
	for _, get := range []keys.Get{p.Get, cluster} {
		perCPU, perNode := keys.Number(get, "DefMemPerCPU", 0), keys.Number(get, "DefMemPerNode", 0)
		if perCPU > 0 || perNode > 0 {
			return max(perCPU, perNode), perCPU > 0
		}
	}
	return 0, false
}

// Switch is a line of topology.conf.
type Switch = machine.Switch
