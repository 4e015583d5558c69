package limits

import (
	"math"

	"rmreplay/internal/rm/slurmmodel/accounts"
	"rmreplay/internal/rm/slurmmodel/extended"
	"rmreplay/internal/rm/slurmmodel/tres"
	"rmreplay/internal/slurmspec"
)

// PreSelect compares a job with the limits that slurmctld checks before it looks for nodes
// (acct_policy_job_runnable_pre_select): numbers of running jobs, and time limits. It reports
// whether the job may run, and sets Reason.
func (l *Limits) PreSelect(j *Job) bool {
	if !l.enforce.Associations {
		return true
	}
	if j.Association == nil {
		j.Reason = invalidAccount
		return false
	}
	if !l.enforce.Limits {
		return true
	}
	l.forget(j)
	l.begin()
	first, second := j.order()
	if first != nil && !l.qosRuns(j, first) || second != nil && !l.qosRuns(j, second) {
		return false
	}
	if j.Association.Unlimited {
		return true
	}
	minutes := slurmspec.NoVal
	for a := range j.Association.Up {
		if !l.groupRuns(j, a, &minutes) || a == j.Association && !l.ownRuns(j, a, &minutes) {
			return false
		}
	}
	return true
}

// forget clears the job's reason if it is a limit.
func (l *Limits) forget(j *Job) {
	if l.isLimit(j.Reason) {
		j.Reason = slurmspec.NoReason
	}
}

func (j *Job) wait(r slurmspec.Reason) bool {
	j.Reason = r
	return false
}

// qosRuns does the checks of [Limits.PreSelect] for a QOS (_qos_job_runnable_pre_select).
func (l *Limits) qosRuns(j *Job, q *accounts.QOS) bool {
	if q.Unlimited {
		return true
	}
	set, imposed := &q.Limits, l.imposing()
	minutes := slurmspec.NoVal
	if takes(&imposed.GrpJobs, set.GrpJobs) && int64(q.Counts.Running) >= set.GrpJobs {
		return j.wait(qosGrpJobs)
	}
	if !j.ByAdmin && takes(&imposed.GrpWall, set.GrpWall) {
		j.fill(&minutes, min(set.GrpWall, set.MaxWall))
		if l.exceedsGroupWall(&q.Usage, minutes, set.GrpWall) {
			return j.wait(qosGrpWall)
		}
	}
	if takes(&imposed.MaxJobsPerAccount, set.MaxJobsPerAccount) &&
		int64(j.in(q).account.Running) >= set.MaxJobsPerAccount {
		return j.wait(accountJobs)
	}
	if takes(&imposed.MaxJobs, set.MaxJobs) && int64(j.in(q).user.Running) >= set.MaxJobs {
		return j.wait(qosMaxJobs)
	}
	if !j.ByAdmin && takes(&imposed.MaxWall, set.MaxWall) {
		if minutes == slurmspec.NoVal {
			minutes = j.Minutes
			j.setMinutes(&minutes, uint64(set.MaxWall))
		}
		j.applyUsageFactor(&minutes) // the second time, if the check of GrpWall has already applied the factor
		if int64(minutes) > set.MaxWall {
			return j.wait(qosMaxWall)
		}
	}
	return true
}

// groupRuns does the checks of [Limits.PreSelect] for the group limits of an association.
func (l *Limits) groupRuns(j *Job, a *accounts.Association, minutes *uint32) bool {
	set, imposed := &a.Limits, &l.imposed
	if imposed.GrpJobs == accounts.NoLimit && int64(a.Counts.Running) >= set.GrpJobs {
		return j.wait(assocGrpJobs)
	}
	if !j.ByAdmin && imposed.GrpWall == accounts.NoLimit && set.GrpWall != accounts.NoLimit {
		j.fill(minutes, min(set.GrpWall, set.MaxWall))
		if l.exceedsGroupWall(&a.Usage, *minutes, set.GrpWall) {
			return j.wait(assocGrpWall)
		}
	}
	return true
}

// ownRuns does the checks of [Limits.PreSelect] for the limits of each job in an association.
func (l *Limits) ownRuns(j *Job, a *accounts.Association, minutes *uint32) bool {
	set, imposed := &a.Limits, &l.imposed
	if imposed.MaxJobsPerAccount == accounts.NoLimit && imposed.MaxJobs == accounts.NoLimit &&
		int64(a.Counts.Running) >= set.MaxJobs {
		return j.wait(assocMaxJobs)
	}
	if !j.ByAdmin && imposed.MaxWall == accounts.NoLimit && set.MaxWall != accounts.NoLimit {
		j.fill(minutes, set.MaxWall)
		if int64(*minutes) > set.MaxWall {
			return j.wait(assocMaxWall)
		}
	}
	return true
}

// fill sets the parameter minutes, the time that a check compares, to the job's time limit. It does nothing
// if an earlier check has set minutes.
func (j *Job) fill(minutes *uint32, most int64) {
	if *minutes == slurmspec.NoVal {
		*minutes = j.Minutes
		j.setMinutes(minutes, uint64(most))
		j.applyUsageFactor(minutes)
	}
}

// applyUsageFactor multiplies the parameter minutes by the usage factor of the job's QOS, if this QOS has
// the flag UsageFactorSafe.
func (j *Job) applyUsageFactor(minutes *uint32) {
	if q := j.QOS; q != nil && q.UsageFactorSafe && (*minutes != slurmspec.Infinite || q.UsageFactor < 1) {
		*minutes = uint32(min(math.MaxUint32, float64(*minutes)*q.UsageFactor))
	}
}

func (l *Limits) exceedsGroupWall(u *accounts.Usage, minutes uint32, most int64) bool {
	used := int64(uint32(u.Wall / 60))
	return used >= most || l.enforce.Safe && int64(uint32(used)+minutes) > most
}

// PostSelect compares a job with the limits on resources, after slurmctld has looked for nodes
// (acct_policy_job_runnable_post_select). The parameter request has the resources that the job
// would get, and selected its nodes as a set. If slurmctld found no nodes, request is what the job
// requests and selected is nil. Both may be nil if no limits apply ([Limits.NoTRES]). PostSelect reports
// whether the job may run, and sets Reason.
func (l *Limits) PostSelect(j *Job, request tres.Vector, selected []uint64) bool {
	if !l.enforce.Limits || j.Association == nil {
		return true
	}
	l.forget(j)
	if l.NoTRES(j) {
		return true
	}
	l.begin()
	c := l.selection(j, request, selected)
	first, second := j.order()
	if first != nil && !c.qos(first) || second != nil && !c.qos(second) {
		return false
	}
	c.factor = limitFactor(first, second)
	for a := range j.Association.Up {
		if !c.group(a) || a == j.Association && !c.own(a) {
			return false
		}
	}
	return true
}

// NoTRES reports whether no limit on resources applies to a job.
func (l *Limits) NoTRES(j *Job) bool {
	if !l.enforce.Limits || j.Association == nil {
		return true
	}
	first, second := j.order()
	return j.Association.NoTRES && (first == nil || first.NoTRES) && (second == nil || second.NoTRES)
}

// PostPlan is [Limits.PostSelect] for a job that backfill plans on nodes. Since 24.11, nodes that
// other jobs of a group already use do not count (node_bitmap_preempt).
func (l *Limits) PostPlan(j *Job, request tres.Vector, nodes []uint64) bool {
	if j.Required != nil || !l.release.Since(slurmspec.R2411) {
		nodes = nil
	}
	return l.PostSelect(j, request, nodes)
}

// selection is the check of a job with the resources that it would get.
type selection struct {
	*Limits
	job      *Job
	request  tres.Vector // the caller's vector
	minutes  tres.Vector // resource-minutes if the job runs until its time limit
	selected []uint64
	factor   float64 // multiplies limits of associations; with 0 these do not change
	free     bool    // a usage factor of 0: usage does not count
}

// selection begins a check of [Limits.PostSelect]. The result is valid until the next check.
func (l *Limits) selection(j *Job, request tres.Vector, selected []uint64) *selection {
	minutes := j.Minutes
	if minutes == slurmspec.NoVal {
		// If DefaultTime is not set, slurmctld computes with NO_VAL, which is more than any limit.
		if minutes = j.Partition.DefaultMinutes; minutes == 0 {
			minutes = j.Partition.MaxMinutes
		}
	}
	j.applyUsageFactor(&minutes)
	for i, n := range request {
		l.minutes[i] = n * uint64(minutes)
	}
	l.selecting = selection{
		Limits: l, job: j, request: request, minutes: l.minutes, selected: selected,
		free: j.QOS != nil && j.QOS.UsageFactor == 0,
	}
	return &l.selecting
}

// qos does the checks of [Limits.PostSelect] for a QOS (_qos_job_runnable_post_select).
func (c *selection) qos(q *accounts.QOS) bool {
	if q.NoTRES {
		return true
	}
	c.bounds = true
	set, imposed := &q.Limits, &c.imposed
	user, account := c.job.in(q).user, c.job.in(q).account
	groups := usage{request: c.minutes, qos: true, safe: true}
	if !c.groups(&q.Usage, &q.Counts, set, groups, qosGrpMins, qosGrp, qosGrpRunMins) {
		return false
	}
	if i := ofQOS(set.MaxTRESMinutes, imposed.MaxTRESMinutes, c.minutes, 0, false); i >= 0 {
		return c.job.wait(c.reason(qosMaxMins, i))
	}
	if i := ofQOS(set.MaxTRES, imposed.MaxTRES, c.request, 0, false); i >= 0 {
		return c.job.wait(c.reason(qosMax, i))
	}
	if i := ofQOS(set.MaxTRESPerNode, imposed.MaxTRESPerNode, c.request, c.request[tres.Node], false); i >= 0 {
		return c.job.wait(c.reason(qosMaxPerNode, i))
	}
	if i := ofQOS(set.MinTRES, imposed.MinTRES, c.request, 0, true); i >= 0 {
		return c.job.wait(c.reason(qosMin, i))
	}
	if !c.present(set.MaxTRESPerAccount, imposed.MaxTRESPerAccount, account, qosPerAccount) ||
		!c.present(set.MaxTRESPerUser, imposed.MaxTRESPerUser, user, qosPerUser) {
		return false
	}
	if !c.release.Since(slurmspec.R2405) {
		return true
	}
	if !c.reservedBy(set.MaxRunMinutesPerAccount, imposed.MaxRunMinutesPerAccount, account, qosRunPerAcct) {
		return false
	}
	free := c.free
	c.free = false // slurmctld applies this limit even if the usage factor is 0
	ok := c.reservedBy(set.MaxRunMinutesPerUser, imposed.MaxRunMinutesPerUser, user, qosRunPerUser)
	c.free = free
	return ok
}

// present compares the resources of a user's or an account's running jobs in a QOS with limits.
func (c *selection) present(limits, imposed tres.Vector, counts *accounts.Counts, k kind) bool {
	u := usage{limits: limits, imposed: imposed, taken: counts.TRES, safe: true, qos: true}
	return c.distinct(&u, counts, k)
}

// distinct compares amounts like [usage.exceeds], but does not count nodes again that the group already
// uses (_get_unique_job_node_cnt).
func (c *selection) distinct(u *usage, counts *accounts.Counts, k kind) bool {
	if u.limits == nil {
		return true
	}
	copy(c.Limits.request, c.request)
	u.request = c.Limits.request
	switch {
	case c.selected != nil:
		if n := counts.Overlap(c.selected); n > 0 {
			u.request[tres.Node] = uint64(len64(c.selected) - n)
		}
	case c.job.Required != nil:
		if n := uint64(counts.Overlap(c.job.Required)); n <= u.request[tres.Node] {
			u.request[tres.Node] -= n
		}
	}
	if i := u.exceeds(); i >= 0 {
		return c.job.wait(c.reason(k, i))
	}
	return true
}

func len64(set []uint64) int {
	n := 0
	for range accounts.Nodes(set) {
		n++
	}
	return n
}

// reservedBy compares resource-minutes that the running jobs of a user or an account in a QOS may
// still use.
func (c *selection) reservedBy(limits, imposed tres.Vector, counts *accounts.Counts, k kind) bool {
	if limits == nil {
		return true
	}
	u := usage{
		limits: limits, imposed: imposed, request: c.minutes, taken: c.inMinutes(counts.Reserved), safe: true, qos: true,
	}
	if i := u.exceeds(); i >= 0 {
		return c.job.wait(c.reason(k, i))
	}
	return true
}

// groups compares a job's resources with the group limits of a QOS or an association: GrpTRESMins, GrpTRES
// and GrpTRESRunMins.
func (c *selection) groups(past *accounts.Usage, counts *accounts.Counts, set *accounts.Limits, u usage,
	mins, present, runMins kind) bool {
	imposed := &c.imposed
	if set.GrpTRESMinutes != nil {
		u.limits, u.imposed, u.safe = set.GrpTRESMinutes, imposed.GrpTRESMinutes, c.enforce.Safe
		u.taken, u.used = c.inMinutes(past.Reserved), c.usedMinutes(past.TRES)
		if i := u.exceeds(); i >= 0 {
			return c.job.wait(c.reason(mins, i))
		}
	}
	of := u
	of.limits, of.imposed, of.safe = set.GrpTRES, imposed.GrpTRES, true
	of.taken, of.used, of.factor = counts.TRES, nil, c.factor
	if !c.distinct(&of, counts, present) {
		return false
	}
	if set.GrpTRESRunMinutes != nil {
		u.limits, u.imposed, u.safe = set.GrpTRESRunMinutes, imposed.GrpTRESRunMinutes, true
		u.taken, u.used = c.inMinutes(past.Reserved), nil
		if i := u.exceeds(); i >= 0 {
			return c.job.wait(c.reason(runMins, i))
		}
	}
	return true
}

// group checks the group limits of an association.
func (c *selection) group(a *accounts.Association) bool {
	if set := &a.Limits; set.GrpTRES == nil && set.GrpTRESMinutes == nil && set.GrpTRESRunMinutes == nil {
		return true
	}
	return c.groups(&a.Usage, &a.Counts, &a.Limits, usage{request: c.minutes}, assocGrpMins, assocGrp, assocGrpRunMins)
}

// own checks the limits of each job in an association.
func (c *selection) own(a *accounts.Association) bool {
	set, imposed := &a.Limits, &c.imposed
	if i := ofAssociation(set.MaxTRESMinutes, imposed.MaxTRESMinutes, c.minutes, 0, 0); i >= 0 {
		return c.job.wait(c.reason(assocMaxMins, i))
	}
	if i := ofAssociation(set.MaxTRES, imposed.MaxTRES, c.request, 0, c.factor); i >= 0 {
		return c.job.wait(c.reason(assocMax, i))
	}
	if i := ofAssociation(set.MaxTRESPerNode, imposed.MaxTRESPerNode, c.request, c.request[tres.Node], 0); i >= 0 {
		return c.job.wait(c.reason(assocMaxPerNode, i))
	}
	return true
}

// inMinutes converts reserved resource-seconds to whole minutes, or to 0 if usage does not count.
func (c *selection) inMinutes(reserved tres.Vector) tres.Vector {
	for i, seconds := range reserved {
		if c.reserved[i] = seconds / 60; c.free {
			c.reserved[i] = 0
		}
	}
	return c.reserved
}

// usedMinutes converts used resource-seconds to whole minutes, or to 0 if usage does not count.
func (c *selection) usedMinutes(used []extended.Float) tres.Vector {
	for i, seconds := range used {
		if c.used[i] = uint64(seconds.Float64() / 60); c.free {
			c.used[i] = 0
		}
	}
	return c.used
}

// MaxNodes returns how many nodes the limits allow a job, and the reason for a job that needs more
// (acct_policy_get_max_nodes). Without a limit it returns [tres.NoLimit].
func (l *Limits) MaxNodes(j *Job) (uint64, slurmspec.Reason) {
	most, reason := uint64(tres.NoLimit), slurmspec.NoReason
	if l.NoTRES(j) {
		return most, reason
	}
	lower := func(n uint64, k kind) {
		if n < most {
			most, reason = n, l.reason(k, tres.Node)
		}
	}
	first, second := j.order()
	group := uint64(tres.NoLimit)
	if first != nil && (!first.NoTRES || second != nil && !second.NoTRES) {
		lower(nodesOf(first, second, func(l *accounts.Limits) tres.Vector { return l.MaxTRESPerAccount }), qosPerAccount)
		lower(nodesOf(first, second, func(l *accounts.Limits) tres.Vector { return l.MaxTRES }), qosMax)
		lower(nodesOf(first, second, func(l *accounts.Limits) tres.Vector { return l.MaxTRESPerUser }), qosPerUser)
		group = nodesOf(first, second, func(l *accounts.Limits) tres.Vector { return l.GrpTRES })
	}
	perJob := most // limit of a QOS on the nodes of each job
	lower(group, qosGrp)
	factor := 0.0
	if first != nil {
		factor = first.LimitFactor // here slurmctld never uses the factor of the second QOS
	}
	for a := range j.Association.Up {
		below := most
		if group == tres.NoLimit {
			lower(scaled(nodesIn(a.Limits.GrpTRES), factor), assocGrp)
		}
		set := most < below
		if a == j.Association && perJob == tres.NoLimit {
			lower(scaled(nodesIn(a.Limits.MaxTRES), factor), assocMax)
		}
		if set {
			break
		}
	}
	return most, reason
}

// nodesOf returns the limit on nodes of the first QOS that sets one.
func nodesOf(first, second *accounts.QOS, of func(*accounts.Limits) tres.Vector) uint64 {
	n := nodesIn(of(&first.Limits))
	if n == tres.NoLimit && second != nil {
		n = nodesIn(of(&second.Limits))
	}
	return n
}

func nodesIn(limits tres.Vector) uint64 {
	if limits == nil {
		return tres.NoLimit
	}
	return limits[tres.Node]
}

// MinPriority returns the lowest priority with which a job may reserve nodes
// (acct_policy_get_prio_thresh); 0 if no MinPrioThreshold is set.
func (l *Limits) MinPriority(j *Job) uint32 {
	if !l.enforce.Limits || j.Association == nil {
		return 0
	}
	first, second := j.order()
	for _, set := range []*accounts.Limits{limitsOf(first), limitsOf(second), &j.Association.Limits} {
		if set != nil && set.MinPriority != accounts.NoLimit && set.MinPriority > 0 {
			return uint32(set.MinPriority)
		}
	}
	return 0
}

func limitsOf(q *accounts.QOS) *accounts.Limits {
	if q == nil {
		return nil
	}
	return &q.Limits
}
