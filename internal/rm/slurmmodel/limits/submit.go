package limits

import (
	"rmreplay/internal/rm/slurmmodel/accounts"
	"rmreplay/internal/rm/slurmmodel/tres"
	"rmreplay/internal/slurmspec"
)

// Validate reports whether slurmctld accepts a submission (acct_policy_validate). The parameter
// request is what the job requests. Validate always compares numbers of submitted jobs. It
// compares limits that one job alone can exceed only if no QOS applies to the job, or if a QOS
// that applies has the flag DenyOnLimit. If the job gives no time limit, Validate sets the time
// limit to the lowest limit that applies.
//
// If slurmctld refuses the job, Reason is the limit. The submission then fails with
// ESLURM_ACCOUNTING_POLICY.
func (l *Limits) Validate(j *Job, request tres.Vector) bool {
	if !l.enforce.Limits || j.Association == nil {
		return true
	}
	if len(j.Partitions) == 0 {
		return l.validateIn(j, request)
	}
	considered := j.Partition
	defer func() { j.Partition = considered }()
	for _, j.Partition = range j.Partitions {
		if !l.validateIn(j, request) {
			return false
		}
	}
	return true
}

func (l *Limits) validateIn(j *Job, request tres.Vector) bool {
	l.begin()
	l.imposes, l.bounds = true, true
	first, second := j.order()
	v := validation{Limits: l, Job: j, request: request}
	v.strict = first == nil || first.DenyOnLimit || second != nil && second.DenyOnLimit
	if first != nil && !v.qos(first) || second != nil && !v.qos(second) {
		return false
	}
	factor := limitFactor(first, second)
	for a := range j.Association.Up {
		if !v.group(a, factor) || a == j.Association && !v.own(a, factor) {
			return false
		}
	}
	return true
}

// validation is the check of a submission in one partition.
type validation struct {
	*Limits
	*Job
	request tres.Vector
	strict  bool
}

func (v *validation) refuse(r slurmspec.Reason) bool {
	v.Reason = r
	return false
}

// qos compares a submission with the limits of a QOS (_qos_policy_validate).
func (v *validation) qos(q *accounts.QOS) bool {
	set, imposed := &q.Limits, &v.imposed
	if !v.amounts(set.MaxTRESPerAccount, imposed.MaxTRESPerAccount, 0, qosPerAccount) || !v.groupAndUser(set) {
		return false
	}
	if takes(&imposed.GrpSubmit, set.GrpSubmit) && int64(q.Counts.Submitted+v.count()) > set.GrpSubmit {
		return v.refuse(qosGrpSubmit)
	}
	if !v.ByAdmin && !v.qosTimes(set) {
		return false
	}
	if !v.amounts(set.MaxTRES, imposed.MaxTRES, 0, qosMax) ||
		!v.amounts(set.MaxTRESPerNode, imposed.MaxTRESPerNode, v.request[tres.Node], qosMaxPerNode) {
		return false
	}
	if takes(&imposed.MaxSubmitPerAccount, set.MaxSubmitPerAccount) &&
		int64(v.in(q).account.Submitted+v.count()) > set.MaxSubmitPerAccount {
		return v.refuse(accountSubmit)
	}
	if takes(&imposed.MaxSubmit, set.MaxSubmit) && int64(v.in(q).user.Submitted+v.count()) > set.MaxSubmit {
		return v.refuse(qosMaxSubmit)
	}
	if v.strict {
		if i := ofQOS(set.MinTRES, imposed.MinTRES, v.request, 0, true); i >= 0 {
			return v.refuse(v.reason(qosMin, i))
		}
	}
	return true
}

// amounts compares the request with a QOS's limits for each job.
func (v *validation) amounts(limits, imposed tres.Vector, divisor uint64, k kind) bool {
	if !v.strict {
		return true
	}
	if i := ofQOS(limits, imposed, v.request, divisor, false); i >= 0 {
		return v.refuse(v.reason(k, i))
	}
	return true
}

// groupAndUser compares the request with GrpTRES and MaxTRESPerUser. If a QOS sets one of the two
// for a resource, this limit replaces both in the next QOS.
func (v *validation) groupAndUser(set *accounts.Limits) bool {
	if !v.strict || set.GrpTRES == nil && set.MaxTRESPerUser == nil {
		return true
	}
	imposed := &v.imposed
	at := func(limits tres.Vector, i int) uint64 {
		if limits == nil {
			return tres.NoLimit
		}
		return limits[i]
	}
	for i, n := range v.request {
		group, user := at(set.GrpTRES, i), at(set.MaxTRESPerUser, i)
		if min(imposed.GrpTRES[i], imposed.MaxTRESPerUser[i]) != tres.NoLimit || min(group, user) == tres.NoLimit {
			continue
		}
		imposed.GrpTRES[i], imposed.MaxTRESPerUser[i] = group, user
		switch {
		case n > user:
			return v.refuse(v.reason(qosPerUser, i))
		case n > group:
			return v.refuse(v.reason(qosGrp, i))
		}
	}
	return true
}

// qosTimes compares a submission with the limits on time in a QOS.
func (v *validation) qosTimes(set *accounts.Limits) bool {
	imposed := &v.imposed
	if !v.times(set.MaxTRESMinutes, imposed.MaxTRESMinutes, qosMaxMins) ||
		!v.times(set.GrpTRESMinutes, imposed.GrpTRESMinutes, qosGrpMins) ||
		!v.times(set.GrpTRESRunMinutes, imposed.GrpTRESRunMinutes, qosGrpRunMins) {
		return false
	}
	if v.release.Since(slurmspec.R2405) &&
		(!v.times(set.MaxRunMinutesPerAccount, imposed.MaxRunMinutesPerAccount, qosRunPerAcct) ||
			!v.times(set.MaxRunMinutesPerUser, imposed.MaxRunMinutesPerUser, qosRunPerUser)) {
		return false
	}
	if takes(&imposed.MaxWall, set.MaxWall) && v.exceedsWall(set.MaxWall) {
		return v.refuse(qosMaxWall)
	}
	if takes(&imposed.GrpWall, set.GrpWall) && v.exceedsWall(set.GrpWall) {
		return v.refuse(qosGrpWall)
	}
	return true
}

// exceedsWall compares the time limit with a maximum, the parameter most. A job without a time
// limit gets the maximum. The result says whether slurmctld refuses the submission because its
// time limit is higher.
func (v *validation) exceedsWall(most int64) bool {
	v.setMinutes(&v.Minutes, uint64(most))
	return v.strict && int64(v.Minutes) > most
}

// times compares a submission with limits on resource-minutes (_validate_tres_time_limits).
func (v *validation) times(limits, imposed tres.Vector, k kind) bool {
	if !v.strict || v.ByAdmin {
		return true
	}
	for i, limit := range limits {
		n := v.request[i]
		if n == 0 || limit == tres.NoLimit || imposed[i] != tres.NoLimit {
			continue
		}
		most := uint32(limit / n)
		v.setMinutes(&v.Minutes, uint64(most))
		imposed[i] = limit
		if v.Minutes > most {
			return v.refuse(v.reason(k, i))
		}
	}
	return true
}

// group compares a submission with the group limits of an association.
func (v *validation) group(a *accounts.Association, factor float64) bool {
	set, imposed := &a.Limits, &v.imposed
	if v.strict {
		if i := ofAssociation(set.GrpTRES, imposed.GrpTRES, v.request, 0, factor); i >= 0 {
			return v.refuse(v.reason(assocGrp, i))
		}
	}
	if imposed.GrpSubmit == accounts.NoLimit && int64(a.Counts.Submitted+v.count()) > set.GrpSubmit {
		return v.refuse(assocGrpSubmit)
	}
	if !v.times(set.GrpTRESMinutes, imposed.GrpTRESMinutes, assocGrpMins) ||
		!v.times(set.GrpTRESRunMinutes, imposed.GrpTRESRunMinutes, assocGrpRunMins) {
		return false
	}
	return v.wall(&imposed.GrpWall, set.GrpWall, assocGrpWall)
}

// own compares a submission with the limits of each job in an association.
func (v *validation) own(a *accounts.Association, factor float64) bool {
	set, imposed := &a.Limits, &v.imposed
	if v.strict {
		if i := ofAssociation(set.MaxTRES, imposed.MaxTRES, v.request, 0, factor); i >= 0 {
			return v.refuse(v.reason(assocMax, i))
		}
		if i := ofAssociation(set.MaxTRESPerNode, imposed.MaxTRESPerNode, v.request, v.request[tres.Node], 0); i >= 0 {
			return v.refuse(v.reason(assocMaxPerNode, i))
		}
	}
	if imposed.MaxSubmitPerAccount == accounts.NoLimit && imposed.MaxSubmit == accounts.NoLimit &&
		int64(a.Counts.Submitted+v.count()) > set.MaxSubmit {
		return v.refuse(assocMaxSubmit)
	}
	return v.times(set.MaxTRESMinutes, imposed.MaxTRESMinutes, assocMaxMins) &&
		v.wall(&imposed.MaxWall, set.MaxWall, assocMaxWall)
}

// wall compares the job's time limit with a limit of an association (_validate_time_limit).
func (v *validation) wall(imposed *int64, most int64, r slurmspec.Reason) bool {
	if v.Minutes != slurmspec.NoVal && (!v.strict || v.ByAdmin) || !takes(imposed, most) {
		return true
	}
	v.setMinutes(&v.Minutes, uint64(most))
	if int64(v.Minutes) > most {
		return v.refuse(r)
	}
	return true
}

// setMinutes sets a time limit to a maximum, the parameter most, if the job gives none, or if an
// earlier limit set a higher one (_set_time_limit). If the maximum is 0, the partition's limit is
// used.
func (j *Job) setMinutes(minutes *uint32, most uint64) {
	limit := uint32(min(most, uint64(slurmspec.Infinite)))
	switch {
	case *minutes == slurmspec.NoVal:
		j.ByLimit = true
		if *minutes = limit; limit == 0 {
			*minutes = j.Partition.MaxMinutes
		}
	case j.ByLimit && *minutes > limit:
		*minutes = limit
	}
}
