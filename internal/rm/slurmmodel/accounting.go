package slurmmodel

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"rmreplay/internal/rm/slurmmodel/accounts"
	"rmreplay/internal/rm/slurmmodel/amounts"
	"rmreplay/internal/rm/slurmmodel/fairshare"
	"rmreplay/internal/rm/slurmmodel/keys"
	"rmreplay/internal/rm/slurmmodel/limits"
	"rmreplay/internal/rm/slurmmodel/priority"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/rm/slurmmodel/tres"
	"rmreplay/internal/slurmspec"
)

// accounting applies associations, QOS, limits and the priority plugin to the jobs of an engine.
type accounting struct {
	e        *Engine
	table    *tres.Table
	accounts *accounts.Accounts // nil if the cluster has no slurmdbd
	shares   *fairshare.FairShare
	limits   *limits.Limits // there are none if the cluster has no slurmdbd
	settings *priority.Settings
	enforce  accounts.Enforcement
	cluster  priority.Cluster
	basic    priority.Basic

	// The buffers of the functions request and compute.
	requested  tres.Vector
	partitions []*priority.Partition
}

// accounted holds a job's association, QOS, usage and limits. It implements [fairshare.Job].
type accounted struct {
	a        *accounting
	job      *job
	assoc    *accounts.Association
	qos      *accounts.QOS
	running  *fairshare.Running
	limits   *limits.Job
	priority priority.Parts // the components of the last computed priority
}

var _ fairshare.Job = (*accounted)(nil)

func newAccounting(e *Engine) (*accounting, error) {
	get, release := e.cfg.Get, e.cfg.Release
	table := tres.New(keys.Value(get, "AccountingStorageTRES"))
	a := &accounting{e: e, table: table, requested: table.Vector()}
	a.limits = limits.New(&accounts.Accounts{TRES: table}, nil, accounts.Enforcement{}, false, release)
	var err error
	if a.settings, err = priority.ReadSettings(get, a.table, e.cfg.Associations != nil); err != nil {
		return nil, err
	}
	if e.cfg.Associations != nil {
		shares, err := fairshare.ReadSettings(get, release)
		if err != nil {
			return nil, err
		}
		a.accounts = accounts.New(e.cfg.Associations, a.table, shares.FairTree, release)
		a.shares = fairshare.New(a.accounts, shares, e.cfg.Epoch.Add(-e.cfg.Lead).UnixSeconds(), e.cfg.Usage.Give(a.accounts))
		a.accounts.Trim()
		a.enforce = accounts.ReadEnforcement(get)
		a.limits = limits.New(a.accounts, a.shares, a.enforce, a.settings.AccrueAlways, release)
	}
	return a, a.readPartitions()
}

// readPartitions reads the keys of partitions that decide priorities, billing and limits.
func (a *accounting) readPartitions() error {
	var list []*priority.Partition
	for i, p := range a.e.parts {
		nodes := amounts.Sum(a.table, a.e.tester.Machine, p.nodes)
		of, err := p.Accounting(a.e.cfg.Partitions[i].Get, nodes, a.table, a.accounts)
		if err != nil {
			return err
		}
		p.account, p.preempt.QOS = of, of.QOS
		list = append(list, of.Priority)
	}
	priority.NormalizePartitions(list)
	for i := range a.e.tester.Nodes { // including nodes that are in no partition
		a.cluster.CPUs += uint32(a.e.tester.Nodes[i].CPUs)
	}
	a.cluster.Nodes = uint32(len(a.e.tester.Nodes))
	return nil
}

// admit finds the association and the QOS of a new job.
func (a *accounting) admit(j *job) error {
	of := &accounted{a: a, job: j}
	j.account = of
	if a.accounts == nil {
		return nil
	}
	work := j.of.job
	if of.assoc = a.accounts.Find(work.User, work.Account, j.part.Name); of.assoc == nil {
		const text = "invalid account or account/partition combination specified: user %s, account %q"
		return fmt.Errorf(text, work.User, work.Account)
	}
	if of.qos = a.accounts.DefaultQOS(of.assoc); work.QOS != "" {
		if of.qos = a.accounts.QOS[strings.ToLower(work.QOS)]; of.qos == nil {
			return fmt.Errorf("invalid qos specification: %s", work.QOS)
		}
	}
	l := a.view(j)
	if !a.limits.Validate(l, a.request(j, &j.original, j.minNodes, j.request.MinCPUs)) {
		return fmt.Errorf("job violates accounting/QOS policy (%s)", l.Reason)
	}
	if l.ByLimit && l.Minutes != slurmspec.NoVal && j.limit < 0 {
		j.limit = int64(l.Minutes)
	}
	a.limits.Submitted(l)
	return nil
}

// prioritize sets a new job's first priority: 0 if held, an operator's value, or a computed value.
func (a *accounting) prioritize(j *job) {
	work := j.of.job
	switch {
	case work.Hold:
		j.priority = 0
	case work.Priority != nil && work.AsOperator:
		j.priority, j.direct = *work.Priority, true
	default:
		a.setPriority(j)
	}
}

// setPriority gives a job the priority that slurmctld computes (set_job_prio in job_mgr.c).
func (a *accounting) setPriority(j *job) {
	switch {
	case j.direct:
	case a.settings.Multifactor:
		a.compute(j, a.e.second())
	default:
		j.priority = a.basic.Next(int64(j.of.job.Nice))
	}
}

// compute computes the priority of a job (_get_priority_internal in priority_multifactor.c).
func (a *accounting) compute(j *job, now int64) {
	of := j.account
	p := priority.Job{
		Association: of.assoc, QOS: of.qos, Accrue: j.accrue, Nodes: uint32(j.minNodes), CPUs: uint32(j.request.MinCPUs),
		Minutes: slurmspec.NoVal, Nice: int64(j.of.job.Nice), TRES: a.request(j, &j.original, j.minNodes, j.request.MinCPUs),
	}
	if j.totalCPUs > 0 {
		p.CPUs = uint32(j.totalCPUs)
	}
	if j.limit >= 0 {
		p.Minutes = uint32(j.limit)
	}
	if of.assoc != nil {
		p.FairShare = a.shares.Factor(of.assoc)
	}
	a.partitions = a.partitions[:0]
	for _, part := range j.parts {
		a.partitions = append(a.partitions, part.account.Priority)
	}
	p.Partitions, p.Own = a.partitions, max(0, slices.Index(j.parts, j.part))
	parts := a.settings.Parts(&p, a.cluster, now)
	of.priority = parts
	j.priority = a.settings.Update(j.priority, parts.Sum())
	if len(j.parts) > 1 {
		j.perPart = a.settings.InPartitions(&p, &parts)
	}
}

// request returns the TRES that a job requests if it gets the given numbers of nodes and CPUs. The
// returned vector is valid until the next call.
func (a *accounting) request(j *job, r *selection.Request, nodes, cpus int) tres.Vector {
	v := a.requested
	amounts.Requested(a.table, v, r, &j.part.Partition, cpus, nodes, j.minNodes)
	amounts.AddLicenses(a.table, v, j.licenses.List)
	v[tres.Billing] = uint64(math.Trunc(a.table.Bill(j.part.account.Weights, v, a.settings.MaxTRES)))
	return v
}

// begin adds a job that starts to the counts and to the usage of its association and QOS.
func (a *accounting) begin(j *job) {
	of := j.account
	if of.assoc == nil {
		return
	}
	v := amounts.Allocated(a.table, a.e.tester.Machine, j.alloc)
	amounts.AddLicenses(a.table, v, j.licensed)
	billing := a.table.Bill(j.part.account.Weights, v, a.settings.MaxTRES)
	v[tres.Billing] = uint64(billing)
	of.running = &fairshare.Running{
		Association: of.assoc, QOS: of.qos, PartitionQOS: j.part.account.QOS, User: strings.ToLower(j.of.job.User),
		Start: j.estimate, LimitEnd: j.end, Billing: billing, TRES: v,
	}
	l := a.view(j)
	l.Running, l.Nodes = of.running, j.alloc.Nodes
	a.limits.Accrued(l)
	a.limits.Begin(l)
}

// end removes a job that has ended from the counts of its association and QOS.
func (a *accounting) end(j *job) {
	l := a.view(j)
	a.limits.Finish(l, a.e.second(), j.end)
	a.limits.Removed(l, true)
}

// requeue counts a job as submitted again when it returns to the queue.
func (a *accounting) requeue(j *job) {
	j.account.running = nil
	j.account.limits.Accrue, j.account.limits.Submit = 0, j.submit
	a.limits.Submitted(a.view(j))
}

// forget removes a pending job that was cancelled or refused from the counts.
func (a *accounting) forget(j *job) {
	if j.state != pending {
		return
	}
	l := a.view(j)
	a.limits.Accrued(l)
	a.limits.Removed(l, false)
}

// decay does one turn of slurmctld's decay thread, once in each PriorityCalcPeriod.
func (a *accounting) decay() {
	now := a.e.second()
	switch {
	case !a.settings.Multifactor:
		return
	case a.shares == nil && !a.e.rules.Since2411: // before 24.11 slurmctld has no decay thread without slurmdbd
		return
	case a.shares == nil:
		for _, j := range a.e.list {
			j.account.Prioritize(now)
		}
		return
	}
	a.shares.Run(now, func(yield func(fairshare.Job) bool) {
		for _, j := range a.e.list {
			if !yield(j.account) {
				return
			}
		}
	})
}

// Association implements [fairshare.Job].
func (of *accounted) Association() *accounts.Association { return of.assoc }

// Running implements [fairshare.Job].
func (of *accounted) Running() *fairshare.Running {
	if of.job.state != running {
		return nil
	}
	return of.running
}

// Prioritize implements [fairshare.Job].
func (of *accounted) Prioritize(now int64) {
	j := of.job
	if j.state != pending || j.priority == 0 {
		return
	}
	if !j.direct {
		of.a.compute(j, now)
	}
	of.a.e.touch()
}

// accrue lets an eligible job gain age. If a limit lets only some tasks of an array gain age, accrue splits these tasks
// off.
func (a *accounting) accrue(j *job) {
	if j.accrue != 0 && len(j.tasks) == 0 { // it gains age already
		return
	}
	if a.accounts == nil {
		if j.accrue == 0 && j.begin > 0 && j.begin <= a.e.second() && j.priority != 0 {
			j.accrue = j.begin
		}
		return
	}
	l := a.view(j)
	split := a.limits.Accrue(l, a.e.second())
	j.accrue = l.Accrue
	for ; split > 0 && j.isHead(); split-- {
		rest := a.e.split(j)
		j.accrue = a.e.second()
		j.account.limits.Accrue = j.accrue
		j = rest
	}
}

// dependent sets the age of a job back to 0, because the job waits for a dependency.
func (a *accounting) dependent(j *job) {
	if a.accounts == nil {
		j.accrue = 0
		return
	}
	l := a.view(j)
	a.limits.ResetAccrual(l)
	j.accrue = l.Accrue
}

// view returns the record of a job that package limits works on, and updates it.
func (a *accounting) view(j *job) *limits.Job {
	of := j.account
	if of.limits == nil {
		of.limits = &limits.Job{
			Association: of.assoc, User: strings.ToLower(j.of.job.User), QOS: of.qos,
			Required: j.request.Required, Submit: j.submit,
		}
		for i := 0; len(j.parts) > 1 && i < len(j.parts); i++ {
			of.limits.Partitions = append(of.limits.Partitions, j.parts[i].account.Limits)
		}
	}
	l := of.limits
	l.Partition, l.Tasks, l.Reason = j.part.account.Limits, len(j.tasks), j.reason
	l.Begin, l.Accrue, l.Held = j.begin, j.accrue, j.priority == 0
	l.Dependent, l.ByAdmin = j.dependent, j.byAdmin
	switch l.Minutes = slurmspec.NoVal; {
	case j.endless:
		l.Minutes = slurmspec.Infinite
	case j.limit >= 0:
		l.Minutes = uint32(j.limit)
	}
	return l
}

// told copies the reason that package limits has set. Backfill does not see this as a change.
func (a *accounting) told(j *job, l *limits.Job, ok bool) bool {
	j.reason = l.Reason
	return ok
}

// beforeSelection compares a job with the limits that do not depend on its nodes.
func (a *accounting) beforeSelection(j *job) bool {
	l := a.view(j)
	return a.told(j, l, a.limits.PreSelect(l))
}

// afterSelection compares a job with the limits on resources. It compares the allocation or, if
// alloc is nil, the resources that the job requests on the given number of nodes.
func (a *accounting) afterSelection(j *job, alloc *selection.Allocation, nodes int) bool {
	l, wants := a.limitedRequest(j, nodes)
	if alloc == nil || wants == nil {
		return a.told(j, l, a.limits.PostSelect(l, wants, nil))
	}
	wants[tres.Memory] = uint64(amounts.Memory(alloc))
	wants[tres.Billing] = uint64(math.Trunc(a.table.Bill(j.part.account.Weights, wants, a.settings.MaxTRES)))
	return a.told(j, l, a.limits.PostSelect(l, wants, alloc.Nodes))
}

// limitedRequest returns the view of a job and, if limits on resources apply to it, the TRES that it requests.
func (a *accounting) limitedRequest(j *job, nodes int) (l *limits.Job, wants tres.Vector) {
	if l = a.view(j); !a.limits.NoTRES(l) {
		wants = a.request(j, &j.request, nodes, cmp.Or(j.totalCPUs, j.request.MinCPUs))
	}
	return l, wants
}

// afterPlan checks the limits on resources for a job that backfill plans on the given nodes.
func (a *accounting) afterPlan(j *job, nodes selection.Bits) bool {
	l, wants := a.limitedRequest(j, nodes.Count())
	return a.told(j, l, a.limits.PostPlan(l, wants, nodes))
}

// allowedNodes returns how many nodes limits allow a job, and the reason if a job needs more nodes.
func (a *accounting) allowedNodes(j *job) (int, slurmspec.Reason) {
	n, why := a.limits.MaxNodes(a.view(j))
	return int(min(n, math.MaxInt)), why
}
