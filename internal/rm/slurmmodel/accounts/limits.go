package accounts

import (
	"math"

	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurmmodel/tres"
)

// NoLimit is the value of a limit on jobs or minutes that is not set.
const NoLimit = math.MaxInt64

// Limits are the limits of an association or a QOS. If a limit is not set, a number is [NoLimit]
// and an element of a vector is [tres.NoLimit]. A vector is nil if all its elements are unset.
type Limits struct {
	GrpTRES, GrpTRESMinutes, GrpTRESRunMinutes tres.Vector
	MaxTRES, MaxTRESPerNode, MaxTRESMinutes    tres.Vector // of each job
	// GrpWall and MaxWall are in minutes.
	GrpWall, MaxWall int64
	// The following limits are numbers of jobs. MaxJobs, MaxSubmit and MaxAccrue count the jobs of the association
	// itself. In a QOS they count the jobs of each user.
	GrpJobs, GrpSubmit, GrpAccrue int64
	MaxJobs, MaxSubmit, MaxAccrue int64
	// MinPriority is MinPrioThresh: a pending job with a lower priority reserves no nodes.
	MinPriority int64

	// Only a QOS has the following limits.
	MaxTRESPerUser, MaxTRESPerAccount, MinTRES                  tres.Vector
	MaxRunMinutesPerUser, MaxRunMinutesPerAccount               tres.Vector // since 24.05
	MaxJobsPerAccount, MaxSubmitPerAccount, MaxAccruePerAccount int64
}

// limits converts the limits of an association to slurmctld's form.
func (a *Accounts) limits(l *associations.Limits) Limits {
	return Limits{
		GrpTRES: a.TRES.Limits(l.GrpTRES), GrpTRESMinutes: a.TRES.Limits(l.GrpTRESMins),
		GrpTRESRunMinutes: a.TRES.Limits(l.GrpTRESRunMins),
		MaxTRES:           a.TRES.Limits(l.MaxTRESPerJob), MaxTRESPerNode: a.TRES.Limits(l.MaxTRESPerNode),
		MaxTRESMinutes: a.TRES.Limits(l.MaxTRESMinutesPerJob),
		GrpWall:        orNone(l.GrpWall), MaxWall: orNone(l.MaxWall), GrpJobs: orNone(l.GrpJobs),
		GrpSubmit: orNone(l.GrpSubmit),
		GrpAccrue: orNone(l.GrpAccrue),
		MaxJobs:   orNone(l.MaxJobs), MaxSubmit: orNone(l.MaxSubmit), MaxAccrue: orNone(l.MaxAccrue),
		MinPriority:       orNone(l.MinPriority),
		MaxJobsPerAccount: NoLimit, MaxSubmitPerAccount: NoLimit, MaxAccruePerAccount: NoLimit,
	}
}

func (a *Accounts) policyLimits(p *associations.Policy) Limits {
	l := a.limits(&p.Limits)
	l.MaxTRESPerUser, l.MaxTRESPerAccount, l.MinTRES = a.TRES.Limits(p.MaxTRESPerUser),
		a.TRES.Limits(p.MaxTRESPerAccount), a.TRES.Limits(p.MinTRESPerJob)
	l.MaxRunMinutesPerUser, l.MaxRunMinutesPerAccount = a.TRES.Limits(p.MaxTRESRunMinsPerUser),
		a.TRES.Limits(p.MaxTRESRunMinsPerAccount)
	l.MaxJobsPerAccount, l.MaxSubmitPerAccount, l.MaxAccruePerAccount = orNone(p.MaxJobsPerAccount),
		orNone(p.MaxSubmitPerAccount), orNone(p.MaxAccruePerAccount)
	return l
}

// noTRES reports whether all limits on resources are unset.
func (l *Limits) noTRES() bool {
	for _, amounts := range []tres.Vector{
		l.GrpTRES, l.GrpTRESMinutes, l.GrpTRESRunMinutes, l.MaxTRES, l.MaxTRESPerNode, l.MaxTRESMinutes, l.MaxTRESPerUser,
		l.MaxTRESPerAccount, l.MinTRES, l.MaxRunMinutesPerUser, l.MaxRunMinutesPerAccount,
	} {
		if amounts != nil {
			return false
		}
	}
	return true
}

// letStart reports whether the limits never keep a job from starting.
func (l *Limits) letStart() bool {
	for _, number := range []int64{l.GrpWall, l.MaxWall, l.GrpJobs, l.MaxJobs, l.MaxJobsPerAccount} {
		if number != NoLimit {
			return false
		}
	}
	return l.noTRES()
}

func orNone(limit *int64) int64 {
	if limit == nil {
		return NoLimit
	}
	return *limit
}
