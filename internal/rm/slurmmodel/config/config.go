// Package config describes a cluster and the slurmctld that runs it, for the model of slurmctld.
package config

import (
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurm/fairshare"
	"rmreplay/internal/rm/slurmmodel/charge"
	"rmreplay/internal/rm/slurmmodel/guide"
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
