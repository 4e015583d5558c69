// Package partitions reads the keys of partitions that decide priorities, billing and limits.
package partitions

import (
	"fmt"
	"strings"

	"rmreplay/internal/rm/slurmmodel/accounts"
	"rmreplay/internal/rm/slurmmodel/keys"
	"rmreplay/internal/rm/slurmmodel/limits"
	"rmreplay/internal/rm/slurmmodel/priority"
	"rmreplay/internal/rm/slurmmodel/tres"
	"rmreplay/internal/slurmspec"
)

// Partition holds the settings of a partition for priorities, billing and limits.
type Partition struct {
	Priority *priority.Partition
	Limits   *limits.Partition
	Weights  []float64 // TRESBillingWeights
	QOS      *accounts.QOS
}

// Hardware is what Read has to know of a partition beside its keys.
type Hardware struct {
	Name                       string
	MaxMinutes, DefaultMinutes int64       // MaxTime and DefaultTime; negative if there is none
	TRES                       tres.Vector // of all nodes of the partition
}

// Read reads a partition. The parameter a is nil if the cluster has no slurmdbd.
func Read(get keys.Get, of Hardware, table *tres.Table, a *accounts.Accounts) (*Partition, error) {
	factor := max(keys.Number(get, "PriorityJobFactor", 1), keys.Number(get, "Priority", 0))
	p := &Partition{Priority: &priority.Partition{
		JobFactor: uint16(factor), MaxMinutes: slurmspec.Infinite, TRES: of.TRES,
	}}
	if of.MaxMinutes >= 0 {
		p.Priority.MaxMinutes = uint32(of.MaxMinutes)
	}
	var err error
	if p.Weights, err = table.Weights(keys.Value(get, "TRESBillingWeights")); err != nil {
		return nil, fmt.Errorf("partition %s: %w", of.Name, err)
	}
	if name := strings.ToLower(keys.Value(get, "QOS")); name != "" && a != nil {
		p.QOS = a.QOS[name]
	}
	p.Limits = &limits.Partition{QOS: p.QOS, MaxMinutes: p.Priority.MaxMinutes, DefaultMinutes: slurmspec.NoVal}
	if of.DefaultMinutes >= 0 {
		p.Limits.DefaultMinutes = uint32(of.DefaultMinutes)
	}
	return p, nil
}
