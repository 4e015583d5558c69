// Package config describes a cluster and its slurmctld for the model.
package config

import (
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurm/fairshare"
	"rmreplay/internal/rm/slurmmodel/accounts"
	"rmreplay/internal/rm/slurmmodel/charge"
	"rmreplay/internal/rm/slurmmodel/guide"
	"rmreplay/internal/rm/slurmmodel/keys"
	"rmreplay/internal/rm/slurmmodel/machine"
	"rmreplay/internal/slurmspec"
)

// Config describes a cluster and its slurmctld.
type Config struct {
	// Release is the release of Slurm that is modelled.
	Release slurmspec.Release
	// Get returns the value of a key of slurm.conf.
	Get func(key string) (string, bool)
	// Nodes and Partitions are in the order of slurm.conf.
	Nodes      []hpc.Node
	Partitions []Partition
	// Switches are the switches of topology/tree, in the order of topology.conf; nil with another
	// topology.
	Switches []Switch
	// Associations are the accounts, users and QOS; nil if the cluster has no slurmdbd.
	Associations *associations.Set
	// Usage is the fair-share usage with which slurmctld starts.
	Usage Usage
	// Rejected has the reason for each job that slurmctld refuses, by the job's ID in the workload. The
	// model itself refuses jobs because of reservations, or because no nodes can serve them: Rejected
	// need not have these jobs.
	Rejected map[string]string
	// Epoch is the instant at which the workload's virtual time begins. slurmctld has then run for
	// Lead.
	Epoch hpc.Time
	Lead  time.Duration
	// PreRoll says that virtual time begins before the workload's window. At most PresetBurst
	// preset jobs start at the same instant.
	PreRoll     bool
	PresetBurst int
	// Costs are the virtual times of the schedulers' computing.
	Costs charge.Costs
	// Guide overrules decisions of the model; nil if the model decides alone.
	Guide guide.Guide
}

// Usage is the fair-share usage with which slurmctld starts.
type Usage struct {
	// Own has each association's own usage, without the usage of associations below it.
	Own []fairshare.Own
	// OfCPUs says that the billing of jobs is their number of CPUs. Own is then the usage of CPUs,
	// too.
	OfCPUs bool
	// Reset is the instant from which the usage counts.
	Reset hpc.Time
}

// Give gives associations the usage with which slurmctld starts. It returns when usage was last reset, in seconds
// since 1970; 0 without initial usage.
func (u *Usage) Give(to *accounts.Accounts) int64 {
	if len(u.Own) == 0 {
		return 0
	}
	for i := range u.Own {
		own := &u.Own[i]
		if of := to.Find(own.User, own.Account, own.Partition); of != nil {
			of.SetUsage(own.Raw, u.OfCPUs)
		}
	}
	return u.Reset.UnixSeconds()
}

// Partition is a partition of slurm.conf.
type Partition struct {
	Name    string
	Default bool
	Nodes   []string
	// Get returns an attribute of the partition's line.
	Get func(key string) (string, bool)
}

// Limits returns MaxTime, and DefaultTime for jobs without a time limit. Both are in minutes; -1 is
// no limit.
func (p *Partition) Limits() (longest, usual int64, err error) {
	if longest, err = keys.Minutes(p.Get, "MaxTime"); err != nil {
		return 0, 0, err
	}
	usual, err = keys.Minutes(p.Get, "DefaultTime")
	return longest, usual, err
}

// Memory returns the memory of jobs that do not ask for memory, in MiB for each CPU or each node. 0
// is all memory of a node.
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
