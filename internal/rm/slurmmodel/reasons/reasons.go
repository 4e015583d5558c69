// Package reasons has the numbers of reasons why jobs are pending.
package reasons

import "rmreplay/internal/slurmspec"

// The values of enum job_state_reason in slurm.h.
const (
	Priority           slurmspec.Reason = 1
	Dependency         slurmspec.Reason = 2
	Resources          slurmspec.Reason = 3
	NodeLimit          slurmspec.Reason = 4
	TimeLimit          slurmspec.Reason = 5
	PartitionDown      slurmspec.Reason = 6
	PartitionInactive  slurmspec.Reason = 7
	BeginTime          slurmspec.Reason = 9
	Licenses           slurmspec.Reason = 10
	Reservation        slurmspec.Reason = 14
	Constraints        slurmspec.Reason = 21
	PartitionConfig    slurmspec.Reason = 178
	MaxMemory          slurmspec.Reason = 182
	MaxRequeue         slurmspec.Reason = 71
	ArrayLimit         slurmspec.Reason = 72
	Deadline           slurmspec.Reason = 167
	ReservationDeleted slurmspec.Reason = 198
)
