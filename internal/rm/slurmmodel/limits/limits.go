// Package limits compares jobs with the limits of QOS and associations as slurmctld does
// (acct_policy.c): at submission, before the selection of nodes, and after it. It counts jobs and
// resources, and decides when jobs gain age. It works on the associations and QOS of package
// accounts.
//
// With AccountingStorageEnforce=limits the limits are enforced. Otherwise every check passes, and
// nothing is counted.
package limits

import (
	"slices"

	"rmreplay/internal/rm/slurmmodel/accounts"
	"rmreplay/internal/rm/slurmmodel/fairshare"
	"rmreplay/internal/rm/slurmmodel/tres"
	"rmreplay/internal/slurmspec"
)

// Limits compares the jobs of a cluster with the limits, and counts them.
type Limits struct {
	accounts *accounts.Accounts
	shares   *fairshare.FairShare
	enforce  accounts.Enforcement
	always   bool // PriorityFlags=ACCRUE_ALWAYS
	release  slurmspec.Release

	// imposed has the limits of the QOS that the present check has already compared. A limit in
	// imposed replaces the same limit of the QOS and associations that the check compares later. The
	// vectors of imposed use the memory of amounts. A check begins with copies of unlimited and noAmounts.
	imposed, unlimited accounts.Limits
	amounts, noAmounts tres.Vector
	imposes            bool // whether imposed may have a limit
	bounds             bool // whether amounts may have a limit
	selecting          selection
	// Buffers of the present check.
	request, minutes         tres.Vector
	used, reserved, reserves tres.Vector
}

// New returns the limits of a cluster. The parameter shares computes usage. The parameter
// accrueAlways is PriorityFlags=ACCRUE_ALWAYS.
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

// Partition has the properties of a partition on which the limits of its jobs depend.
type Partition struct {
	// QOS is the partition's QOS; nil if it has none.
	QOS *accounts.QOS
	// MaxMinutes is MaxTime, or [slurmspec.Infinite]. DefaultMinutes is DefaultTime, or
	// [slurmspec.NoVal].
	MaxMinutes, DefaultMinutes uint32
}

// Job has the properties of a job on which limits depend. It may also be a record of several pending
// tasks of an array.
type Job struct {
	// Association is the job's association. Without accounting it is nil, and no limit applies.
	Association *accounts.Association
	// User is the job's user in lower case.
	User string
	// QOS is the job's QOS; nil if it has none.
	QOS *accounts.QOS
	// Partition is the partition in which the job is considered, or runs. Partitions has all its
	// partitions, if the job names more than one.
	Partition  *Partition
	Partitions []*Partition
	// Tasks is the number of pending tasks of an array; 0 for a job that is not an array.
	Tasks int
	// Minutes is the time limit: [slurmspec.NoVal] if the job does not give one,
	// [slurmspec.Infinite] if it is unlimited. ByLimit says that the time limit comes from a limit
	// of a QOS or an association.
	Minutes uint32
	ByLimit bool
	// ByAdmin says that an administrator has set the time limit. Limits on time then do not apply to the job.
	ByAdmin bool
	// Reason is why the job is pending. A check first clears Reason if it is a limit. If the job
	// exceeds a limit, the check then sets Reason to this limit.
	Reason slurmspec.Reason
	// Required are the nodes of --nodelist as a set; nil if not given.
	Required []uint64

	// Submit is when the job was submitted. Begin is when the job becomes eligible (begin_time); 0
	// while the job waits for a dependency. Accrue is since when the job gains age (accrue_time); 0
	// if it does not yet. All three are in seconds since 1970.
	Submit, Begin, Accrue int64
	// Held says that the job's priority is 0. Dependent says that the job waits for a dependency.
	Held, Dependent bool

	// Running is the job's usage from its start to its end.
	Running *fairshare.Running
	// Nodes are the nodes of a running job as a set.
	Nodes []uint64

	accrueOver bool
	part       part
}

// part has the counts of a job's user and account in a QOS.
type part struct {
	qos           *accounts.QOS
	user, account *accounts.Counts
}

// in returns the counts of the job's user and account in a QOS.
func (j *Job) in(q *accounts.QOS) *part {
	if j.part.qos != q {
		j.part = part{q, q.OfUser(j.User), q.OfAccount(j.Association.Account)}
	}
	return &j.part
}

// count returns how many jobs a record counts as.
func (j *Job) count() int { return max(1, j.Tasks) }

// order returns the QOS in the order in which their limits are compared
// (acct_policy_set_qos_order). The partition's QOS is the first, unless the job's QOS has the flag
// OverPartQOS.
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

// limitFactor returns the factor for the TRES limits of associations; 0 if no QOS sets one.
func limitFactor(first, second *accounts.QOS) float64 {
	switch {
	case first != nil && first.LimitFactor > 0:
		return first.LimitFactor
	case second != nil:
		return second.LimitFactor
	}
	return 0
}

// begin begins a check: it resets the limits in imposed.
func (l *Limits) begin() {
	if l.imposes {
		l.imposed, l.imposes = l.unlimited, false
	}
	if l.bounds {
		copy(l.amounts, l.noAmounts)
		l.bounds = false
	}
}

// imposing returns imposed for the check of a QOS, which may add limits.
func (l *Limits) imposing() *accounts.Limits {
	l.imposes = true
	return &l.imposed
}

// takes adds a limit that is a number to the imposed limits. It returns false if the limit is not set, or if
// an earlier QOS sets the same limit.
func takes(imposed *int64, limit int64) bool {
	if *imposed != accounts.NoLimit || limit == accounts.NoLimit {
		return false
	}
	*imposed = limit
	return true
}

// ofQOS compares amounts with a QOS's limits for each job (_validate_tres_limits_for_qos). It
// divides the amounts by divisor if divisor is not 0. If the parameter least is true, amounts must
// be at least the limits; otherwise they must be at most the limits. The result is the index of
// the first resource whose amount breaks this rule, or -1.
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

// ofAssociation compares amounts with an association's limits for each job
// (_validate_tres_limits_for_assoc). A limit of a QOS replaces the association's limit on the same
// resource.
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

// scaled multiplies a limit by a factor (_apply_limit_factor). With a factor of 0 the limit does not change.
func scaled(limit uint64, factor float64) uint64 {
	if factor == 0 || limit == tres.NoLimit {
		return limit
	}
	if f := float64(limit) * factor; f < 1<<63 {
		return uint64(f)
	}
	return tres.NoLimit
}

// usage compares a request with the limits of a group of jobs (_validate_tres_usage_limits): the jobs of a
// QOS, of a user or an account in a QOS, or of an association.
type usage struct {
	limits, imposed tres.Vector
	// request has the resources that the job requests. taken has the resources that the group's running
	// jobs have, or may still use. used has the group's past usage; nil if it does not count.
	request, taken, used tres.Vector
	// safe says that request, taken and used together must not exceed the limit. Otherwise only
	// used must not exceed it.
	safe bool
	// factor multiplies the limits; with 0 the limits do not change. qos says that each limit is added to
	// imposed, so that it replaces the same limit of QOS and associations that are compared later.
	factor float64
	qos    bool
}

// exceeds returns the index of the first resource whose limit the job exceeds, or -1.
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
