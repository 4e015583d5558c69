package slurmmodel

import (
	"strings"

	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurmmodel/accounts"
	"rmreplay/internal/rm/slurmmodel/backfill"
	"rmreplay/internal/rm/slurmmodel/deadline"
	"rmreplay/internal/rm/slurmmodel/owners"
	"rmreplay/internal/rm/slurmmodel/preemption"
	"rmreplay/internal/rm/slurmmodel/reservations"
	"rmreplay/internal/rm/slurmmodel/sdiag"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/slurmspec"
	"time"
)

// cycle is a cycle of the backfill scheduler in progress (_attempt_backfill in backfill.c).
type cycle struct {
	e       *Engine
	queue   *queue
	at      int   // index of the next record in the queue
	now     int64 // when the cycle began
	table   *backfill.Table
	end     int64 // end of the window
	depth   int   // jobs and tasks considered
	tried   int   // jobs and tasks that reached a test
	exit    int   // why the cycle ended, see package sdiag
	started int
	took    time.Duration // virtual time that the cycle has computed so far
	spell   time.Duration // virtual time computed since the last pause
	asleep  bool          // in a pause
	changed int64         // Engine.changed when the pause began
	depths  *backfill.Depths
	// rejected is an array and the partition in which no further task of the array is tried.
	rejected attempt
	// reserved counts the successive reservations for the array reservedOf.
	reserved   int
	reservedOf *submission
	free, late selection.Bits          // buffers of the functions attempt and countLate
	blocked    map[*accounts.QOS]int64 // with assoc_limit_stop: until when the jobs of a QOS wait
	usage      *owners.Usage           // since 24.11; nil if no job excludes other users
	// The parameters of willRun. It sets those that differ between tries.
	horizon selection.Horizon
	try     preemption.Try
}

func (e *Engine) newCycle() *cycle {
	if e.planned.Next(0) >= 0 { // slurmctld removes the flag PLANNED
		e.planned.Reset()
		e.touch()
	}
	c := &cycle{e: e, queue: e.buildQueue(true), now: e.second(), table: &e.table, depths: &e.depths}
	e.announce(true, c.queue)
	if c.queue.Len() == 0 {
		return c
	}
	e.cycles++
	c.blocked, c.free = map[*accounts.QOS]int64{}, e.up.Clone()
	c.depths.Begin(e.par.BF.MaxUser, e.par.BF.MaxPart, e.par.BF.MaxUserPart)
	if e.rules.Since2411 {
		c.usage = e.owners.Usage(len(e.tester.Nodes))
	}
	c.table.Begin(c.now, e.par.BF.Window, e.par.BF.Resolution, e.available)
	c.table.Beyond, c.table.Up, c.end = e.rules.Since2411, e.rules.RoundUp, c.table.End()
	c.horizon = selection.Horizon{
		Now: c.now, Linear: e.par.BF.Linear, PreferBusy: e.par.BF.Busy, GuessedEnd: e.par.KillWait + e.par.OverTimeLimit,
		Since2411: e.rules.Since2411, Since2605: e.rules.Since2605,
	}
	c.try = preemption.Try{Tester: e.tester, State: e.state}
	for _, p := range e.parts {
		p.planned = 0
	}
	if e.par.BF.RunningReserve {
		for _, j := range e.runningInList(func(j *job) bool { return j.times.Suspended }) {
			c.reserveRunning(j)
		}
	}
	return c
}

// goOn tries records until virtual time must pass, and returns this time: the cost of a test or the length of
// a pause; 0 at the cycle's end. During a test slurmctld does nothing else.
func (c *cycle) goOn() time.Duration {
	e := c.e
	if c.asleep {
		c.asleep, c.spell = false, 0
		if c.changed != e.changed && !e.par.Limits.Continue {
			c.exit = sdiag.BackfillChanged
		}
	}
	for c.at < c.queue.Len() && c.exit == 0 {
		tried := c.tried
		switch {
		case c.tried >= e.par.BF.MaxTest:
			c.exit = sdiag.BackfillTests
		case e.second()-c.now >= e.par.Limits.BackfillSeconds:
			c.exit = sdiag.BackfillTime
		case c.spell >= e.par.Limits.Interval:
			c.asleep, c.changed = true, e.changed
			return e.par.Limits.Sleep
		case c.record(c.queue.At(c.at)):
			c.at++
		}
		if cost := time.Duration(c.tried-tried) * e.cfg.Costs.Backfill; cost > 0 {
			c.spell, c.took = c.spell+cost, c.took+cost
			e.loops.busy = e.now.Add(cost)
			return cost
		}
	}
	if c.queue.Len() > 0 {
		for ; c.at < c.queue.Len(); c.at++ { // the cycle ended before it reached these jobs
			if j := c.queue.At(c.at).job; j.state == pending && j.judged != e.cycles {
				c.judge(j, rm.NotReached)
			}
		}
		e.flagPlanned()
		e.stats.Backfill(sdiag.Pass{
			Queue: c.queue.Len(), Depth: c.depth, Tried: c.tried, Table: c.table.Records(), Exit: c.exit, Took: c.took,
		}, c.now)
	}
	return 0
}

// judge records what the cycle did with a job. If the job has several partitions, judge keeps the
// result for the partition in which the job is planned, or else for the first one.
func (c *cycle) judge(j *job, what rm.Backfill) {
	if j.judged != c.e.cycles || what == rm.Planned {
		j.judged, j.backfill = c.e.cycles, what
	}
}

// flagPlanned sets PLANNED on planned nodes (_handle_planned), and records this change
// ([Engine.touch]). Before 24.11 it skips nodes with jobs that are not suspended. Since 24.11 it
// skips full nodes only, but full planned nodes, too, count as a change.
func (e *Engine) flagPlanned() {
	for i, j := range e.running {
		if !e.rules.Since2411 && e.horizon[i].Nodes.Overlaps(e.planned) && !j.times.Suspended {
			e.planned.AndNot(j.alloc.Nodes)
		}
	}
	if e.planned.Next(0) >= 0 {
		e.touch()
	}
	if e.rules.Since2411 {
		e.state.ClearFull(e.planned)
	}
}

// reserveRunning plans the nodes of an exclusive running job until its end (_bf_reserve_running), but not with
// select/linear. For other jobs with licences it plans an empty set, which only splits an interval of the table.
func (c *cycle) reserveRunning(j *job) {
	stays := c.e.preempt.ModeOf(c.e.inPreemption(j)) == preemption.Off
	nodes := selection.NewBits(len(c.e.tester.Nodes))
	if j.request.Exclusive && stays && c.e.tester.Linear == nil {
		nodes = j.alloc.Nodes
	} else if len(j.licensed) == 0 {
		return
	}
	if c.table.Records() < c.e.par.BF.SpaceSize {
		c.table.Reserve(nodes, 0, c.table.RoundEnd(j.end))
	}
}

// record tries the job of a record, with all tasks of an array. It returns false if the cycle ends.
func (c *cycle) record(r record) bool {
	e, j := c.e, r.job
	defer func() { c.rejected.conclude(e, j) }()
	if j.state != pending || j.priority == 0 || j.preemption.Underway {
		return true
	}
	j.reservation.Attract(r.magnetic)
	began := int64(0)
	defer func() { j.preemption.Restore(began) }()
	j.part, j.priority = r.part, r.priority
	if !e.par.AssocLimitStop && !e.account.beforeSelection(j) {
		c.judge(j, rm.OverLimit)
		return true
	}
	t := trial{cycle: c, original: j.estimate, nowOnly: c.nowOnly(j)}
	t.aside = j.reservation.Attracted() && (!e.rules.Since2411 || !e.par.BF.MagneticSlot)
	for head := j.isHead(); ; {
		t.job, t.counted = j, false
		began = j.preemption.SetAside(began) // each task of an array may preempt others
		if !t.aside {
			c.depth++
		}
		switch t.task() {
		case nextRecord:
			return true
		case endCycle:
			return false
		case nextStarted:
			if e.par.BF.MaxStart > 0 && c.started >= e.par.BF.MaxStart {
				c.exit = sdiag.BackfillStarts
				return false
			}
			if e.rules.Since2411 && c.tried >= e.par.BF.MaxTest {
				c.exit = sdiag.BackfillTests
				return false
			}
			if !head {
				return true
			}
			rest := e.byNumber[j.of.number]
			if rest == nil || rest.state != pending {
				return true
			}
			j = rest
			j.part, j.priority = r.part, r.priority
		case nextTask:
		}
	}
}

// nowOnly reports whether backfill may start a job now, but not reserve nodes for it.
func (c *cycle) nowOnly(j *job) bool {
	bf := &c.e.par.BF
	least := c.e.reservePriority(j)
	return least > 0 && j.priority < least || bf.MinAge > 0 && j.begin > 0 && c.now-j.begin < bf.MinAge ||
		bf.OneReservation && j.estimate > 0 || bf.PartReserve > 0 && j.part.planned >= bf.PartReserve
}

// next says how a cycle continues after a trial.
type next uint8

const (
	nextRecord next = iota
	nextTask
	nextStarted // go on with the next task, if there is one
	endCycle
)

// trial is the trial of a job or a task in one partition.
type trial struct {
	*cycle
	job      *job
	original int64 // estimated start in another partition; 0 before an estimate
	nowOnly  bool
	counted  bool
	aside    bool // the job is tried in a magnetic reservation: it counts for no limit, and gets no plan in the table

	counts  selection.Counts
	able    selection.Bits // nodes that can serve the job
	least   int            // smallest number of nodes in the set able that suffices for the job
	limit   int64          // minutes for which the job is planned
	granted int64          // time limit in minutes, if the job starts
	later   int64          // next instant at which a try may find more nodes; 0 for never
}

// task tries a job or a task until it starts or is planned, or until backfill gives it up.
func (t *trial) task() next {
	e, j := t.e, t.job
	if j.state != pending || j.priority == 0 {
		return nextRecord
	}
	if j.array != nil {
		if t.rejected.covers(j) {
			return nextRecord
		}
		t.rejected = attempt{j, j.part, j.reservation.Of}
		a := j.array // a.preempting counts the tasks that wait for nodes of preempted jobs
		if !e.arrayMayStart(j) || a.preempting >= e.par.BF.MaxArrayResv || a.limit > 0 && a.preempting >= a.limit {
			return nextRecord
		}
	}
	if e.partitionRefuses(j, true) != slurmspec.NoReason {
		return nextRecord
	}
	if why := t.depths.Beyond(&j.depth, j.of.job.User, j.part.Name, !t.aside); why != "" {
		t.judge(j, why)
		return nextRecord
	}
	if !e.licenses.Free(j.licenses) || !e.independent(j) {
		return nextRecord
	}
	var answer verdict
	if t.counts, answer = e.counts(j); answer != begun || !e.meetsDeadline(j) {
		return nextRecord
	}
	limit := j.limit
	t.able, t.least, t.limit = j.fillable, t.counts.Min, deadline.Lower(limit, j.part.MaxMinutes, endless)
	t.granted = t.limit
	defer func() {
		if j.state == pending {
			j.limit = limit
		}
	}()
	if left := deadline.Left(j.deadline, e.second()); left > 0 {
		t.granted = min(t.limit, left)
	} else if j.timeMin > 0 && j.timeMin < t.limit {
		if t.limit, j.limit = j.timeMin, j.timeMin; !e.rules.Since2605 {
			t.granted = j.timeMin
		}
	}
	for t.later = max(t.now, t.blocked[j.account.qos]); ; {
		if result, again := t.attempt(); !again {
			t.countLate()
			return result
		}
	}
}

// giveUp ends a trial that found no start. It returns true if a later instant is left to try.
func (t *trial) giveUp() (next, bool) {
	if t.later > 0 && !t.nowOnly {
		t.job.estimate = 0
		return 0, true
	}
	t.job.estimate = t.original
	t.judge(t.job, rm.NoNodes)
	return nextRecord, false
}

// attempt tries to start the job at t.later. The result again says that the caller must try at the new t.later, too.
func (t *trial) attempt() (result next, again bool) {
	e, j := t.e, t.job
	nodes, from, overlaps, answer := e.testReservations(j, t.later, true)
	t.later = 0
	if answer != reservations.Free {
		return nextRecord, false
	}
	if e.rules.Since2411 && from > t.end {
		return t.giveUp()
	}
	free := t.free
	copy(free, j.part.nodes)
	free.And(nodes) // if nodes is nil, all nodes stay
	free.And(e.up)
	free.And(e.available)
	if e.rules.Since2411 {
		free.AndNot(j.excluded)
	} else {
		e.owners.Exclude(free, e.departures.Nodes, j)
	}
	unowned, stop := t.usage.Filter(free, j.request.Required, t.counts.Min, from, j.Holder())
	if stop {
		t.later = unowned
		return t.giveUp()
	}
	t.later = t.table.Restrict(free, from, max(t.now, from)+t.limit*60)
	if overlaps {
		end := e.reservations.EndAfter(from, e.par.BF.Resolution)
		if end++; end > 1 && end < t.end && (t.later == 0 || end < t.later) {
			t.later = end
		}
	}
	free.AndNot(j.excluded)
	if t.later == 0 && free.Contains(j.request.Required) {
		t.later = unowned
	}
	free.And(j.fillable)
	if !t.counted && t.suffice(free) {
		if t.counted = true; !t.aside {
			t.tried++
		}
		t.able, t.least = e.servers.Room(&j.request, j.fillable, t.least)
	}
	if !t.suffice(free) {
		if copy(free, t.able); !e.reservations.Any() && t.usage == nil {
			free.AndNot(j.excluded)
			t.later = t.table.Skip(free, t.least, t.later, t.limit*60)
		}
		return t.giveUp()
	}
	alloc, start := t.earliest(free, from)
	if alloc == nil {
		t.late = append(t.late, free...)
		return t.giveUp()
	}
	t.late = t.late[:0]
	if from > start {
		start = from
		e.touch()
	}
	return t.decide(alloc, free, from, start)
}

// countLate sets the job's number of CPUs if willRun left out the test that sets the number. In slurmctld, the last
// test that finds a start sets it. The field late has the nodes of all tries since the last start that willRun found.
func (t *trial) countLate() {
	for t.later = 0; len(t.late) > 0; {
		at := len(t.late) - len(t.free)
		if alloc, _ := t.earliest(t.late[at:], t.now); alloc != nil {
			at = 0
		}
		t.late = t.late[:at]
	}
}

// suffice reports whether the nodes, if empty, could serve the job. If not, backfill makes no test.
func (t *trial) suffice(nodes selection.Bits) bool {
	return nodes.CountAnd(t.able) >= t.least && nodes.Contains(t.job.request.Required)
}

// earliest returns the earliest start that willRun finds, on the nodes with each feature of a constraint with brackets.
func (t *trial) earliest(free selection.Bits, from int64) (first *selection.Allocation, start int64) {
	for some := range t.job.brackets.Each(free, t.counts.Min) {
		if alloc, at := t.willRun(some, from); alloc != nil && (first == nil || at < start) {
			first, start = alloc, at
		}
	}
	return first, start
}

// willRun looks for the job's first start on the nodes of a set. Before 24.11 it reports no start after t.later.
func (t *trial) willRun(free selection.Bits, from int64) (*selection.Allocation, int64) {
	e := t.e
	h, try := &t.horizon, &t.try
	h.Running, h.NowOnly, h.Begin, h.Until, h.Also = e.horizon, t.nowOnly, from, t.later, nil
	if asked := t.job.licenses; e.rules.Since2411 && !e.rules.Since2505 && len(asked.List) > 0 {
		h.Also = func(r selection.Running) bool { return asked.Names(r.Licensed) }
	}
	try.Request, try.Counts, try.Candidates = e.requestOf(t.job), t.counts, e.candidates(t.job, selection.WillRun)
	if e.rules.Since2411 {
		e.tester.Completing = e.departures.Nodes()
	}
	try.Uses = t.job.sharing.Attempts(t.job.part.Sharing)
	alloc, start := e.preempt.WillRun(try, free, h)
	e.tester.Completing = nil
	if alloc != nil {
		t.job.totalCPUs = alloc.CPUs
	}
	return alloc, start
}

// decide starts a job that can start now, and plans a job that can start later.
func (t *trial) decide(alloc *selection.Allocation, free selection.Bits, from, start int64) (result next, again bool) {
	e, j := t.e, t.job
	if start > t.now && e.rules.Since2411 && t.conflicts(alloc, start) {
		if t.later = start; e.rules.Since2605 && start == from {
			t.later += e.par.BF.Resolution
		}
		j.estimate = 0
		return 0, true
	}
	if start <= t.now && e.departures.Any(alloc.Nodes) {
		start, t.later = t.now+1, 0
	}
	j.estimate = start
	if start <= t.now {
		switch result := e.tryStart(j, free, true); result {
		case begun:
			t.grantLimit(j)
			t.reserveRunning(j)
			t.rejected = attempt{}
			t.usage.Add(j.Holder())
			t.started++
			return nextStarted, false
		case overLimit, reservationBusy, maintained:
			if result != overLimit || !e.par.AssocLimitStop {
				j.estimate = t.original
				t.judge(j, rm.OverLimit)
				return nextRecord, false
			}
			start = t.block()
			j.estimate = start
		default:
			t.later = 0
		}
	}
	switch {
	case start > t.now && t.nowOnly:
		if t.original != 0 && t.original < start {
			j.estimate = t.original
		}
		t.judge(j, rm.NotPlanned)
		return nextRecord, false
	case t.later > 0 && start > t.later:
		j.estimate = 0
		return 0, true
	case start > t.now+e.par.BF.Window:
		if t.original != 0 && t.original < start {
			j.estimate = t.original
		}
		t.judge(j, rm.BeyondWindow)
		return nextRecord, false
	case start > t.now && t.conflicts(alloc, start):
		t.later, j.estimate = start, 0
		return 0, true
	}
	return t.reserve(alloc, start), false
}

// With assoc_limit_stop, block returns the instant at which a job that exceeds a limit may start: t.later or,
// if this is 0, 500 seconds from now. If the limit is a group limit of the job's QOS, all jobs of this QOS
// wait until this instant.
func (t *trial) block() int64 {
	start := t.later
	if start == 0 {
		start = t.now + 500
	}
	if qos := t.job.account.qos; qos != nil && strings.HasPrefix(t.job.reason.String(), "QOSGrp") {
		t.blocked[qos] = max(t.blocked[qos], start)
	}
	return start
}

// conflicts reports whether one of the nodes is planned for another job while this job would run.
func (t *trial) conflicts(alloc *selection.Allocation, start int64) bool {
	return t.table.Conflicts(alloc.Nodes, t.table.Round(start), t.table.RoundEnd(start+t.limit*60))
}

// reserve plans a job, unless limits forbid it, and returns how the cycle continues.
func (t *trial) reserve(alloc *selection.Allocation, start int64) next {
	e, j, bf := t.e, t.job, &t.e.par.BF
	if !e.par.AssocLimitStop && !e.account.afterPlan(j, alloc.Nodes) {
		t.judge(j, rm.OverLimit)
		return nextRecord
	}
	if qos := j.account.qos; qos != nil && qos.NoReserve {
		t.judge(j, rm.NotPlanned)
		return nextRecord
	}
	if bf.PartReserve > 0 {
		if j.part.planned >= bf.PartReserve {
			t.judge(j, rm.NotPlanned)
			return nextRecord
		}
		j.part.planned++
	}
	t.rejected = attempt{}
	if t.original == 0 || start < t.original {
		e.planned.Or(alloc.Nodes)
	}
	if (!bf.OneReservation || t.original == 0) && !t.aside {
		if t.table.Records() >= bf.SpaceSize {
			t.exit = sdiag.BackfillTable
			return endCycle
		}
		t.table.Reserve(alloc.Nodes, t.table.Round(start), t.table.RoundEnd(start+t.limit*60))
	}
	t.judge(j, rm.Planned)
	if t.original != 0 && t.original < start {
		j.estimate = t.original
	}
	a := j.array
	if a == nil || !j.isHead() {
		return nextRecord
	}
	if t.reservedOf != j.of {
		t.reservedOf, t.reserved = j.of, 0
	}
	t.reserved++
	n := t.reserved
	limited := e.rules.Since2411 && a.limit > 0 && n+a.running >= a.limit
	if n >= bf.MaxArrayResv || n >= len(j.tasks) || limited {
		return nextRecord
	}
	return nextTask
}
