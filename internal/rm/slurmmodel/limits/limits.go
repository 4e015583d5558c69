// Package limits compares jobs with the limits of QOS and associations as slurmctld does (acct_policy.c):
// at submission, before and after the selection of nodes. It counts jobs and resources, and says when jobs
// gain age. It works on the associations and QOS of package accounts.
//
// Limits act with AccountingStorageEnforce=limits. Without it every check passes and nothing is counted.
package limits

import (
	"slices"

	"rmreplay/internal/rm/slurmmodel/accounts"
	"rmreplay/internal/rm/slurmmodel/fairshare"
	"rmreplay/internal/rm/slurmmodel/tres"
	"rmreplay/internal/slurmspec"
)

// Limits checks and counts the jobs of a cluster.
type Limits struct {
	accounts *accounts.Accounts
	shares   *fairshare.FairShare
	enforce  accounts.Enforcement
	always   bool // PriorityFlags=ACCRUE_ALWAYS
	release  slurmspec.Release

	// imposed has the limits of the QOS checked so far in the present check. Its vectors are in amounts. A
	// check begins with copies of unlimited and noAmounts.
	imposed, unlimited accounts.Limits
	amounts, noAmounts tres.Vector
	imposes            bool // whether imposed may have limits
	selecting          selection
	// The amounts of the present check.
	request, minutes         tres.Vector
	used, reserved, reserves tres.Vector
}

// New returns the checks of a cluster whose usage shares counts. accrueAlways is
// PriorityFlags=ACCRUE_ALWAYS.
func New(a *accounts.Accounts, shares *fairshare.FairShare, enforce accounts.Enforcement, accrueAlways bool,
	release slurmspec.Release) *Limits {
	l := &Limits{accounts: a, shares: shares, enforce: enforce, always: accrueAlways, release: release, imposes: true}
	for _, v := range []*tres.Vector{&l.request, &l.minutes, &l.used, &l.reserved, &l.reserves} {
		*v = a.TRES.Vector()
	}
	u := &l.unlimited
	vectors := []*tres.Vector{
		&u.GrpTRES, &u.GrpTRESMinutes, &u.GrpTRESRunMinutes, &u.MaxTRES, &u.MaxTRESPerNode, &u.MaxTRESMinutes,
		&u.MaxTRESPerUser, &u.MaxTRESPerAccount, &u.MinTRES, &u.MaxRunMinutesPerUser, &u.MaxRunMinutesPerAccount,
	}
	l.noAmounts = slices.Repeat(a.TRES.Unlimited(), len(vectors))
	l.amounts = slices.Clone(l.noAmounts)
	for i, v := range vectors {
		*v = l.amounts[i*a.TRES.Len() : (i+1)*a.TRES.Len()]
	}
	for _, n := range []*int64{
		&u.GrpWall, &u.MaxWall, &u.GrpJobs, &u.GrpSubmit, &u.MaxJobs, &u.MaxSubmit, &u.MaxJobsPerAccount,
		&u.MaxSubmitPerAccount,
	} {
		*n = accounts.NoLimit
	}
	return l
}

// Partition is the part of a partition that limits depend on.
type Partition struct {
	// QOS is the partition's own; nil for none.
	QOS *accounts.QOS
	// MaxMinutes and DefaultMinutes are MaxTime and DefaultTime; [slurmspec.Infinite] and
	// [slurmspec.NoVal] if they are not set.
	MaxMinutes, DefaultMinutes uint32
}

// Job is a job, or the pending tasks of an array, as limits see it.
type Job struct {
	// Association is the job's; nil without accounting, where no limit applies.
	Association *accounts.Association
	// User is the job's user in lower case.
	User string
	// QOS is the job's; nil for none.
	QOS *accounts.QOS
	// Partition is the partition for which the job is considered, or in which it runs. Partitions are all
	// of them, if the job names several.
	Partition  *Partition
	Partitions []*Partition
	// Tasks is the number of pending tasks of an array; 0 for a job that is not an array.
	Tasks int
	// Minutes is the time limit; [slurmspec.NoVal] if the job does not ask for one, [slurmspec.Infinite] for no limit.
	// ByLimit says that a limit of a QOS or an association has set it.
	Minutes uint32
	ByLimit bool
	// ByAdmin says that an administrator has set the time limit, so that no limit applies to it.
	ByAdmin bool
	// Reason is why the job is pending. A check clears a reason that is a limit, and sets it if the job
	// exceeds a limit.
	Reason slurmspec.Reason
	// Required are the nodes of --nodelist as a set; nil for none.
	Required []uint64

	// Submit is the second of the submission. Begin is when the job becomes eligible (begin_time; 0 while
	// a dependency holds), and Accrue since when it gains age (accrue_time; 0 for not yet).
	Submit, Begin, Accrue int64
	// Held says that the job's priority is 0, Dependent that a dependency holds.
	Held, Dependent bool

	// Running is the job's usage from its start to its end.
	Running *fairshare.Running
	// Nodes are its nodes as a set.
	Nodes []uint64

	accrueOver bool
}

// count returns how many jobs a submission counts as.
func (j *Job) count() int { return max(1, j.Tasks) }

// order returns the QOS whose limits count first and second (acct_policy_set_qos_order). The
// partition's QOS comes first, unless the job's QOS has the flag OverPartQOS.
func (j *Job) order() (first, second *accounts.QOS) {
	var of *accounts.QOS
	if j.Partition != nil {
		of = j.Partition.QOS
	}
	switch {
	case j.QOS == nil:
		return of, nil
	case of == nil || of == j.QOS:
		return j.QOS, nil
	case j.QOS.OverPartQOS:
		return j.QOS, of
	}
	return of, j.QOS
}

// limitFactor returns the factor of associations' TRES limits; 0 for none.
func limitFactor(first, second *accounts.QOS) float64 {
	switch {
	case first != nil && first.LimitFactor > 0:
		return first.LimitFactor
	case second != nil:
		return second.LimitFactor
	}
	return 0
}

// begin forgets the limits of the last check.
func (l *Limits) begin() {
	if l.imposes {
		l.imposed, l.imposes = l.unlimited, false
		copy(l.amounts, l.noAmounts)
	}
}

// imposing returns the limits of the QOS checked so far, for the check of a further one, which may add some.
func (l *Limits) imposing() *accounts.Limits {
	l.imposes = true
	return &l.imposed
}

// takes notes a limit that is a number. It returns false if the limit is not set, or an earlier one was noted.
func takes(imposed *int64, limit int64) bool {
	if *imposed != accounts.NoLimit || limit == accounts.NoLimit {
		return false
	}
	*imposed = limit
	return true
}

// ofQOS compares amounts with limits of each job in a QOS (_validate_tres_limits_for_qos). divisor divides
// the amounts unless it is 0. least says that the amounts have to be at least the limits. It returns the
// first resource that fails, or -1.
func ofQOS(limits, imposed, amounts tres.Vector, divisor uint64, least bool) int {
	for i, limit := range limits {
		if limit == tres.NoLimit || imposed[i] != tres.NoLimit {
			continue
		}
		imposed[i] = limit
		n := amounts[i] / max(1, divisor)
		if n > limit && !least || n < limit && least {
			return i
		}
	}
	return -1
}

// ofAssociation compares amounts with limits of each job in an association
// (_validate_tres_limits_for_assoc). A limit of a QOS replaces the association's.
func ofAssociation(limits, imposed, amounts tres.Vector, divisor uint64, factor float64) int {
	for i, limit := range limits {
		if limit == tres.NoLimit || imposed[i] != tres.NoLimit || amounts[i] == 0 {
			continue
		}
		if amounts[i]/max(1, divisor) > scaled(limit, factor) {
			return i
		}
	}
	return -1
}

// scaled multiplies a limit by a factor that is not 0 (_apply_limit_factor).
func scaled(limit uint64, factor float64) uint64 {
	if factor == 0 || limit == tres.NoLimit {
		return limit
	}
	if f := float64(limit) * factor; f < 1<<63 {
		return uint64(f)
	}
	return tres.NoLimit
}

// usage is what a check of a group's limits compares (_validate_tres_usage_limits).
type usage struct {
	limits, imposed tres.Vector
	// request is the job's; taken is what the group has, or has reserved; used is what it has used, nil if
	// that does not count.
	request, taken, used tres.Vector
	// safe says that the sum must not exceed the limit.
	safe bool
	// factor multiplies the limits unless it is 0. qos says that a limit hides the limits that are checked after it.
	factor float64
	qos    bool
}

// exceeds returns the first resource whose limit the job exceeds, or -1.
func (u *usage) exceeds() int {
	for i, limit := range u.limits {
		if limit == tres.NoLimit || u.imposed[i] != tres.NoLimit {
			continue
		}
		if limit = scaled(limit, u.factor); u.qos {
			u.imposed[i] = limit
		}
		request, used := u.request[i], uint64(0)
		if u.used != nil {
			used = u.used[i]
			if request > 0 && used >= limit {
				return i
			}
		}
		if u.safe && (request > limit || request > 0 && request+u.taken[i] > limit-used) {
			return i
		}
	}
	return -1
}
