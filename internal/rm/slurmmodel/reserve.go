package slurmmodel

import (
	"fmt"
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurmmodel/accounts"
	"rmreplay/internal/rm/slurmmodel/guide"
	"rmreplay/internal/rm/slurmmodel/reasons"
	"rmreplay/internal/rm/slurmmodel/reservations"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/slurmspec"
)

// Reserve implements [rm.ResourceManager].
func (e *Engine) Reserve(ev hpc.ReservationEvent) error {
	done := rm.Event{At: e.now, Kind: rm.Reserved, Task: -1, Reason: ev.Action + " " + ev.Name}
	if err := e.reserve(ev); err != nil {
		done.Reason = e.refuse(done.Reason, err)
	}
	e.events = append(e.events, done)
	return nil
}

func (e *Engine) reserve(ev hpc.ReservationEvent) error {
	gone, err := e.reservations.Apply(ev, e.second(), func(r *reservations.Reservation) bool {
		return slices.ContainsFunc(e.list, func(j *job) bool { return j.reservation.Of == r && j.state < completing })
	})
	if err == nil || ev.Action == "delete" {
		e.touch()
	}
	if gone != nil {
		e.leaveReservation(gone)
	}
	e.loops.queued = e.loops.queued || err == nil
	return err
}

// leaveReservation removes a reservation that is over from its jobs (_clear_job_resv). Pending jobs are held, unless
// the reservation has the flag NO_HOLD_JOBS_AFTER. After a maintenance, no job has it as the reason.
func (e *Engine) leaveReservation(r *reservations.Reservation) {
	e.touch()
	for _, j := range e.list {
		if r.IsMaintenance() && j.reason == slurmspec.NotAvailable && j.words == slurmspec.ForMaintenance {
			j.reason = slurmspec.NoReason
		}
		if j.reservation.Of == r {
			j.reservation = reservations.Own{}
			if r.Holds() && j.state == pending && j.reason != slurmspec.HeldByAdmin {
				e.hold(j, reasons.ReservationDeleted)
			}
		}
	}
}

// who returns a job's user and accounts for package reservations.
func (e *Engine) who(j *job) reservations.Who {
	var assoc *accounts.Association
	if j.account != nil {
		assoc = j.account.assoc
	}
	return reservations.WhoIs(j.of.job.User, j.of.job.Account, assoc, assoc != nil && e.account.enforce.Associations)
}

// testReservations finds the nodes that reservations leave to a job; nil if these are all nodes.
func (e *Engine) testReservations(
	j *job, start int64, move bool,
) (nodes selection.Bits, at int64, overlaps bool, _ reservations.Answer) {
	if j.reservation.Of == nil && !e.reservations.Any() {
		return nil, start, false, reservations.Free
	}
	minutes := j.limit
	if minutes < 0 {
		if minutes = j.part.MaxMinutes; minutes < 0 {
			minutes = endless
		}
	}
	want := reservations.Want{
		Own: j.reservation, Start: start, Seconds: minutes * 60, Partition: j.part.Name, PartitionNodes: j.part.nodes,
		Required: j.request.Required,
	}
	if j.reservation.Of != nil {
		want.Who = e.who(j)
	}
	return e.reservations.Test(&want, e.second(), move)
}

// newReservations returns an empty list of reservations for the engine's cluster.
func (e *Engine) newReservations() *reservations.List {
	l := reservations.New(&reservations.Cluster{
		Place:     e.place,
		Available: func() selection.Bits { return e.available },
		PartitionNodes: func(name string) (selection.Bits, string, bool) {
			list, err := e.partitionsOf(name)
			if err != nil {
				return nil, "", false
			}
			return list[0].nodes, list[0].Name, true
		},
		KnowsAccount: func(name string) bool { return e.account.accounts == nil || e.account.accounts.Account(name) != nil },
		HeldAfter:    e.heldAfter, Choose: e.chooseReserved,
	})
	l.Since2411, l.Since2605, l.Shares = e.rules.Since2411, e.rules.Since2605, e.rules.Since2411 && !e.rules.Since2605
	return l
}

func (e *Engine) heldAfter(instant int64, except *reservations.Reservation) []selection.Bits {
	var held []selection.Bits
	for _, j := range e.runningInList(func(j *job) bool {
		return j.end <= instant || except != nil && j.reservation.Of != nil && j.reservation.Of.Name == except.Name
	}) {
		held = append(held, j.alloc.Nodes)
	}
	return held
}

// chooseReserved chooses nodes for a reservation. Since 24.11 it chooses as for a job
// (_resv_select), in 26.05 as for a job that starts when the reservation begins.
func (e *Engine) chooseReserved(among selection.Bits, count int, start int64) selection.Bits {
	if !e.rules.Since2411 {
		return reservations.Choose(e.tester.Switches, among, count)
	}
	h := selection.Horizon{
		Now: e.second(), Running: e.horizon, Linear: e.par.BF.Linear, GuessedEnd: e.par.KillWait + e.par.OverTimeLimit,
		Since2411: true, Since2605: e.rules.Since2605,
	}
	if e.rules.Since2605 {
		h.Begin = start
	}
	return reservations.Select(e.tester, e.state, among, count, &h)
}

// inReservation reports whether the job's reservation lets the job start (job_test_resv_now).
func (e *Engine) inReservation(j *job) bool {
	return j.reservation.Of == nil || e.reservations.Now(j.reservation.Of, e.who(j), e.second()) == reservations.Free
}

// limitToReservation removes from a set the nodes that are not in the job's own reservation
// (_build_node_list). It returns the verdict begun if the job may start on the rest.
func (e *Engine) limitToReservation(j *job, set selection.Bits) verdict {
	if j.reservation.Of == nil {
		return begun
	}
	nodes, _, overlaps, answer := e.testReservations(j, e.second(), false)
	switch {
	case answer == reservations.Later:
		e.setReason(j, reasons.Reservation)
		return notUsable
	case answer == reservations.Ended && j.reservation.Expired(e.second(), e.rules.Since2605):
		j.priority = 0 // slurmctld holds the jobs of a reservation that has ended
		fallthrough
	case answer != reservations.Free, j.request.Required != nil && !nodes.Contains(j.request.Required):
		e.setReason(j, reasons.Reservation)
		return never
	case overlaps && nodes.Next(0) < 0:
		j.reason, j.words = slurmspec.NotAvailable, slurmspec.ForMaintenance
		return reservationBusy
	}
	set.And(nodes)
	return begun
}

const reservationsInterval = 5 // seconds

// reservationsTurn is the part of the background loop for reservations. After each reservationsInterval it
// handles their starts and ends, and replaces nodes that are out of service.
func (e *Engine) reservationsTurn(now int64) {
	l := &e.loops
	if now-l.lastReservations >= reservationsInterval {
		l.lastReservations = now
		begins, changed := e.reservations.Tick(now)
		l.queued = l.queued || begins
		if changed {
			e.touch()
		}
	}
	if l.validate {
		l.validate = false
		e.reservations.Validate()
	}
}

// purgeReservations removes reservations that have ended (job_resv_check).
func (e *Engine) purgeReservations(now int64) {
	used := func(r *reservations.Reservation) (running, pending bool) {
		in := func(j *job) bool { return j.reservation.Of == r }
		return slices.ContainsFunc(e.running, in), slices.ContainsFunc(e.pendingJobs(), in)
	}
	for _, gone := range e.reservations.Purge(now, used) {
		e.leaveReservation(gone)
	}
}

// blockReservation blocks a job's own reservation for the rest of a pass, because the job found too few free nodes.
// Since 24.11 a flexible reservation also blocks the partition's nodes outside of reservations. If the partition was
// already blocked, blockReservation returns true, which ends the pass.
func (p *pass) blockReservation(j *job) bool {
	e := p.e
	if e.rules.Since2411 || len(p.blocked) < maxBlocked {
		p.blocked = append(p.blocked, j.reservation.Of)
	}
	if !e.rules.Since2411 || !j.reservation.Of.Flexible() {
		return false
	}
	if j.part.failed {
		return true // the pass ends
	}
	j.part.failed = true
	outside := j.part.nodes.Clone()
	outside.AndNot(e.reservations.Reserved())
	e.available.AndNot(outside)
	return false
}

// maxBlocked is how many blocked reservations a pass keeps before 24.11 (MAX_FAILED_RESV).
const maxBlocked = 10

// taskOf returns the task that the guide gets for a record; for a record of several tasks, the first task.
func taskOf(j *job) guide.Task {
	t := guide.Task{Job: j.of.job.ID, Task: j.task, Restarts: j.restarts}
	if j.isHead() {
		t.Task = j.tasks[0]
	}
	return t
}

// view returns the state of a job for the guide.
func (e *Engine) view(j *job) guide.View {
	v := guide.View{
		Task: taskOf(j), Partition: j.part.Name, State: hpc.Pending, Priority: j.priority,
		Parts: e.account.points(j), Reason: j.reason.String(), Backfill: j.backfill,
	}
	if j.state != pending {
		v.State = hpc.Running
	}
	if e.isPlanned(j) {
		v.Planned = hpc.Unix(j.estimate)
	}
	idle := j.part.nodes.Clone()
	idle.And(e.available)
	v.IdleNodes = idle.Count() - idle.CountAnd(e.state.Busy())
	return v
}

// find returns the record of a task that has not ended, or nil.
func (e *Engine) find(id string, task int) *job {
	s := e.byID[id]
	if s == nil {
		return nil
	}
	for _, j := range s.jobs {
		if j.state != ended && (j.task == task || task < 0 && j.isHead() || slices.Contains(j.tasks, task)) {
			return j
		}
	}
	return nil
}

// Look returns the state of a task that has not ended. Task -1 of an array is the record of all
// tasks that have no record of their own.
func (e *Engine) Look(id string, task int) (v guide.View, ok bool) {
	if j := e.find(id, task); j != nil {
		return e.view(j), true
	}
	return v, false
}

// announce passes the queue of a pass or cycle to the guide.
func (e *Engine) announce(byBackfill bool, queue *queue) {
	if e.cfg.Guide == nil {
		return
	}
	list := make([]guide.Task, queue.Len())
	for i := range list {
		list[i] = taskOf(queue.At(i).job)
	}
	e.cfg.Guide.Pass(byBackfill, list)
}

// guided lets the guide decide about a start. It returns the allocation with which the job starts.
func (e *Engine) guided(j *job, alloc *selection.Allocation) (*selection.Allocation, verdict) {
	if e.cfg.Guide == nil {
		return alloc, begun
	}
	nodes := e.names.HostList(alloc.Nodes)
	switch on, blocks := e.cfg.Guide.Start(e.view(j), nodes); {
	case on == nodes:
		return alloc, begun
	case on != "":
		if other := e.allocateOn(j, on); other != nil {
			return other, begun
		}
		return alloc, begun
	case blocks:
		return nil, nodesBusy
	}
	return nil, overLimit
}

// allocateOn returns an allocation on the named nodes; nil if the job does not fit there.
func (e *Engine) allocateOn(j *job, names string) *selection.Allocation {
	set, err := e.names.Set(names, e.place)
	if err != nil {
		return nil
	}
	n := set.Count()
	return e.tester.Test(e.state, e.requestOf(j), set, selection.Counts{Min: n, Max: n, Wanted: n}, selection.RunNow)
}

// mayEnd asks the guide whether a running job ends now.
func (e *Engine) mayEnd(j *job) bool { return e.cfg.Guide == nil || e.cfg.Guide.End(taskOf(j)) }

// ForceStart starts a pending task on nodes. The parameter at is the task's start, an instant in the present
// second. ForceStart returns an error if the task is not pending, or does not fit on the nodes.
func (e *Engine) ForceStart(id string, task int, nodes string, at hpc.Time) error {
	j := e.find(id, task)
	if j == nil || j.state != pending || taskOf(j).Task != task {
		return fmt.Errorf("job %s is not pending in the model", id)
	}
	alloc := e.allocateOn(j, nodes)
	if alloc == nil {
		return fmt.Errorf("job %s does not fit on %s in the model", id, nodes)
	}
	now := e.now
	e.now = at
	j.totalCPUs = alloc.CPUs
	e.start(j, alloc, false)
	e.now = now
	return nil
}

// ForceEnd ends a running task with the state how. With requeue the task returns to the queue.
func (e *Engine) ForceEnd(id string, task int, how hpc.State, requeue bool) error {
	j := e.find(id, task)
	if j == nil || j.state != running {
		return fmt.Errorf("job %s is not running in the model", id)
	}
	e.vacate(j, how, false, requeue)
	return nil
}

// ForceReason changes the reason of a pending task.
func (e *Engine) ForceReason(v guide.View, r slurmspec.Reason) {
	e.setReason(e.find(v.Job, v.Task.Task), r)
}
