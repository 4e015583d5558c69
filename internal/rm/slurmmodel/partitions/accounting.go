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

// Accounting holds the settings of a partition for priorities, billing and limits.
type Accounting struct {
	Priority *priority.Partition
	Limits   *limits.Partition
	Weights  []float64 // TRESBillingWeights
	QOS      *accounts.QOS
}

// Accounting reads the settings of a partition for accounting. The parameter nodes has the TRES of all its nodes.
// The parameter a is nil if the cluster has no slurmdbd.
func (p *Partition) Accounting(
	get keys.Get, nodes tres.Vector, table *tres.Table, a *accounts.Accounts,
) (*Accounting, error) {
	factor := max(keys.Number(get, "PriorityJobFactor", 1), keys.Number(get, "Priority", 0))
	of := &Accounting{Priority: &priority.Partition{
		JobFactor: uint16(factor), MaxMinutes: slurmspec.Infinite, TRES: nodes,
	}}
	if p.MaxMinutes >= 0 {
		of.Priority.MaxMinutes = uint32(p.MaxMinutes)
	}
	var err error
	if of.Weights, err = table.Weights(keys.Value(get, "TRESBillingWeights")); err != nil {
		return nil, fmt.Errorf("partition %s: %w", p.Name, err)
	}
	if name := strings.ToLower(keys.Value(get, "QOS")); name != "" && a != nil {
		of.QOS = a.QOS[name]
	}
	of.Limits = &limits.Partition{QOS: of.QOS, MaxMinutes: of.Priority.MaxMinutes, DefaultMinutes: slurmspec.NoVal}
	if p.DefaultMinutes >= 0 {
		of.Limits.DefaultMinutes = uint32(p.DefaultMinutes)
	}
	return of, nil
}
