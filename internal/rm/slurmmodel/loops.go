package slurmmodel

import (
	"errors"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurmmodel/answers"
	"rmreplay/internal/rm/slurmmodel/parameters"
	"rmreplay/internal/rm/slurmmodel/sdiag"
	"rmreplay/internal/rm/window"
)

// loops is the state of slurmctld's periodic threads: the background loop (_slurmctld_background),
// backfill (backfill_agent), decay (_decay_thread) and the scheduling thread (_sched_agent).
type loops struct {
	turn, backfill, decay hpc.Time // when each thread is due next
	slice                 hpc.Time // when the next time slice of gang scheduling begins
	busy                  hpc.Time // until when a scheduler computes; nothing else happens until then

	// When the background loop last did each of its tasks, in seconds since 1970.
	lastFull, lastSched, lastLimit, lastPurge, lastReservations int64

	queued   bool // the background loop shall request a pass
	validate bool // nodes of reservations may have gone out of service

	// State of the backfill thread.
	lastBackfill int64

	// State of the scheduling thread.
	requested, full bool
	passEnd         hpc.Time // end of the last pass
	first           bool     // whether the first pass, which reads SchedulerParameters, has been made
}

// Classes of events: at one instant, events of lower classes happen first.
const (
	nodesAnswer uint8 = iota
	jobEnds
	agentsLook
	questions
)

// beginLoops starts the threads at an instant.
func (e *Engine) beginLoops(at hpc.Time) {
	l := &e.loops
	second := at.UnixSeconds()
	l.turn = e.nextTurn(at)
	l.lastFull, l.lastSched, l.lastLimit, l.lastPurge = second, second, second, second
	l.lastBackfill, l.lastReservations = second, second
	l.backfill, l.decay, l.slice = hpc.Never, at, hpc.Never
	if e.gang != nil {
		l.slice = at.Add(e.slice)
	}
	switch {
	case !e.par.BF.Off:
		l.backfill = answers.After(at, time.Duration(e.par.BF.Interval)*time.Second)
	case e.cfg.PreRoll:
		l.backfill = answers.After(at, backfillOff)
	}
	l.queued = true // because the nodes register
	l.passEnd = at - hpc.Time(time.Hour)
	e.changed = second
	e.stats = sdiag.Counters{Exits: e.rules.WholeSeconds}
	e.stats.Reset(second)
}

// nextTurn returns the instant of the background loop's next turn. A turn at a whole second is a nanosecond late, so
// that it comes after actions of administrators and before actions of users ([Engine.throttle]).
func (e *Engine) nextTurn(at hpc.Time) hpc.Time {
	if e.rules.WholeSeconds {
		return hpc.Unix(at.UnixSeconds() + 1).Add(1)
	}
	return at.Add(time.Second)
}

// asleep returns the instant at which a thread begins to sleep: now, without nextTurn's nanosecond.
func (e *Engine) asleep() hpc.Time {
	if whole := hpc.Unix(e.second()); e.rules.WholeSeconds && e.now == whole.Add(1) {
		return whole
	}
	return e.now
}

// throttled is how long slurmctld sleeps before it serves a message (_throttle_start in proc_req.c).
const throttled = time.Microsecond

// throttle lets virtual time pass while slurmctld sleeps before it serves a request.
func (e *Engine) throttle() {
	served, asked := e.now.Add(throttled), e.timed
	for e.next() < served {
		e.now = max(e.now, e.next())
		e.step(served)
	}
	e.now = max(e.now, served)
	told := e.departures.Line.Next() == served || e.timers.Next() == served && e.timers[0].Seq <= asked
	for told && e.next() <= served {
		e.step(served)
	}
}

// passAt returns when the scheduling thread runs next.
func (e *Engine) passAt() hpc.Time {
	if !e.loops.requested {
		return hpc.Never
	}
	return max(e.now, answers.After(e.loops.passEnd, e.par.SchedMinInterval+time.Microsecond))
}

// next returns the instant of the next event.
func (e *Engine) next() hpc.Time {
	return max(e.loops.busy, min(e.loops.turn, e.loops.backfill, e.others()))
}

// others returns the instant of the next event that is no turn of the background loop or of backfill.
func (e *Engine) others() hpc.Time {
	served := min(e.terminated.Next(), e.departures.Line.Next())
	return min(e.loops.decay, e.loops.slice, e.passAt(), served, e.timers.Next())
}

// step does one thing that is due. At an instant, passes come first, then threads that slept, the oldest first. Before
// 24.11 each message of a node gets a new thread, which comes last. Since 24.11 the threads that serve these messages
// are the oldest, and come before passes. Until the instant until, the caller only calls step, so nothing else changes
// the engine.
func (e *Engine) step(until hpc.Time) {
	l := &e.loops
	switch {
	case e.cycle != nil && !e.cycle.asleep && l.backfill <= e.now:
		l.backfill = e.backfillTurn()
	case e.rules.Since2411 && e.serve():
	case e.passAt() <= e.now:
		e.pass()
	case e.timers.Next() <= e.now && e.timers[0].Class <= jobEnds:
		e.timers.Pop().What()
	case l.backfill <= e.now:
		l.backfill = e.backfillTurn()
	case l.slice <= e.now:
		l.slice = e.now.Add(e.slice)
		e.gang.Slice()
	case l.decay <= e.now:
		l.decay = l.decay.Add(time.Duration(e.par.CalcPeriod) * time.Second)
		e.account.decay()
	case l.turn <= e.now:
		l.turn = e.nextTurn(e.now)
		e.backgroundTurn(until)
	case e.serve():
	default:
		e.timers.Pop().What()
	}
}

func (e *Engine) pass() {
	full := e.loops.full
	e.loops.requested, e.loops.full = false, false
	e.schedule(full)
	e.loops.passEnd = max(e.now, e.loops.busy)
	e.tell()
}

func (e *Engine) request(full bool) {
	e.loops.requested = true
	e.loops.full = e.loops.full || full
}

// backgroundTurn is one turn of the background loop. The parameter until is as in [Engine.step].
func (e *Engine) backgroundTurn(until hpc.Time) {
	const limitInterval, purgeInterval, day = 30, 60, 24 * 60 * 60
	l, now := &e.loops, e.second()
	if now/day != e.stats.Since/day {
		e.stats.Reset(now)
	}
	e.reservationsTurn(now)
	if now-l.lastLimit >= limitInterval {
		l.lastLimit = now
		e.enforceLimits()
		e.purgeReservations(now)
	}
	purge := min(purgeInterval, max(10, e.par.MinJobAge))
	if e.par.MinJobAge > 0 && now-l.lastPurge >= purge {
		l.lastPurge = now
		e.purge()
	}
	if e.returning.Next(0) >= 0 {
		e.at(e.now, nodesAnswer, e.register)
	}
	interval, delay := e.par.SchedInterval, e.par.BatchSchedDelay
	if !l.first { // the first pass reads the options
		interval, delay = 60, 3
	}
	switch {
	case now-l.lastFull >= interval:
		l.queued, l.lastFull, l.lastSched = false, now, now
		e.request(true)
	case l.queued && now-l.lastSched >= delay:
		l.queued, l.lastSched = false, now
		e.request(false)
	default:
		due := min(l.lastReservations+reservationsInterval, l.lastLimit+limitInterval, l.lastPurge+purge)
		e.rest(min(until, hpc.Unix(min(due, l.lastFull+interval, (now/day+1)*day))))
		return
	}
	e.setEligible()
}

// rest leaves out turns of the background loop and of backfill that would find nothing to do. The background loop has
// nothing to do before the instant until, unless other events happen.
func (e *Engine) rest(until hpc.Time) {
	l := &e.loops
	if len(e.events) > 0 || l.queued || e.cfg.PreRoll { // with a pre-roll, backfill reads other parameters
		return
	}
	until = min(until, e.others())
	if e.cycle == nil && !e.par.BF.Off && e.changed < l.lastBackfill {
		l.backfill = answers.Later(l.backfill, until)
	}
	l.turn = answers.Later(l.turn, min(until, l.backfill))
}

// setEligible finds jobs that have become eligible (set_job_elig_time).
func (e *Engine) setEligible() {
	now := e.second()
	for _, j := range e.pendingJobs() {
		if ask := j.ask(); j.begin <= now && !j.part.Unfit(&ask) {
			e.independent(j)
		}
	}
}

// backfillOff is the time between two checks of the backfill thread while backfill is switched off. Each check
// reads whether backfill is on again (BACKFILL_INTERVAL).
const backfillOff = 30 * time.Second

// backfillTurn begins a cycle of backfill if one is due and something has changed, or continues the
// cycle in progress. It returns when the thread runs next.
func (e *Engine) backfillTurn() hpc.Time {
	if now := e.second(); e.cycle == nil {
		e.site.Backfill(e.par)
		if e.par.BF.Off {
			return answers.After(e.now, backfillOff)
		}
		unchanged := e.changed < e.loops.lastBackfill
		if unchanged || now-e.loops.lastBackfill < e.par.BF.Interval || e.departures.Delayed(now) != nil {
			return answers.After(e.now, time.Second)
		}
		e.cycle = e.newCycle()
	}
	if pause := e.cycle.goOn(); pause > 0 {
		return e.now.Add(pause)
	}
	e.cycle = nil
	e.tell()
	e.loops.lastBackfill = e.second()
	return answers.After(e.now, time.Duration(e.par.BF.Interval)*time.Second)
}

// PlanWindow implements [rm.ResourceManager], as a replay does.
func (e *Engine) PlanWindow(w rm.Window) ([]hpc.ReservationEvent, error) {
	if e.rules.WholeSeconds {
		return nil, errors.New("the model of Slurm 23.11 and later cannot play a window, because slurmctld restarts when " +
			"it reads its configuration (want --slurm 22.05, or a replay)")
	}
	return window.Plan(w, e.now), nil
}

// SubmitPreset implements [rm.ResourceManager]. The job gets a priority above all other jobs.
func (e *Engine) SubmitPreset(work *hpc.Job) error {
	return e.Submit(window.OperatorsJob(work))
}

// BeginWindow implements [rm.ResourceManager]: slurmctld reads the site's slurm.conf
// (read_slurm_conf). Threads use new parameters when they run next. All weights of nodes are reset.
func (e *Engine) BeginWindow() error {
	if !e.cfg.PreRoll {
		return nil
	}
	e.site.Change(parameters.Read(e.cfg.Get))
	e.tester.ClearWeights()
	e.touch()
	e.loops.queued = true
	return nil
}
