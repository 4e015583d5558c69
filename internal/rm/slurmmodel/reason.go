package slurmmodel

import "rmreplay/internal/slurmspec"

// Why a job pends (enum job_state_reason in slurm.h).
const (
	reasonPriority       slurmspec.Reason = 1
	reasonDependency     slurmspec.Reason = 2
	reasonResources      slurmspec.Reason = 3
	reasonNodeLimit      slurmspec.Reason = 4
	reasonTimeLimit      slurmspec.Reason = 5
	reasonHeldAdmin                       = slurmspec.HeldByAdmin
	reasonBeginTime      slurmspec.Reason = 9
	reasonReservation    slurmspec.Reason = 14
	reasonNotAvailable   slurmspec.Reason = 15
	reasonHeldUser                        = slurmspec.HeldByUser
	reasonConstraints    slurmspec.Reason = 21
	reasonNeverSatisfied                  = slurmspec.NeverSatisfied
	reasonArrayLimit     slurmspec.Reason = 72

	reasonReservationDeleted slurmspec.Reason = 198
)

// setReason notes why a job pends.
func (e *Engine) setReason(j *job, reason slurmspec.Reason) {
	if j.reason != reason {
		j.reason = reason
		e.touch()
	}
}
