package slurmmodel

import (
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurmmodel/gang"
	"rmreplay/internal/rm/slurmmodel/keys"
	"rmreplay/internal/rm/slurmmodel/preemption"
	"rmreplay/internal/rm/slurmmodel/rows"
	"rmreplay/internal/rm/slurmmodel/selection"
)

// beginGang starts gang scheduling, if slurm.conf asks for it, and lets jobs share cores.
func (e *Engine) beginGang(m *selection.Machine) {
	if !strings.Contains(strings.ToUpper(keys.Value(e.cfg.Get, "PreemptMode")), "GANG") {
		return
	}
	kind := strings.ToLower(keys.Value(e.cfg.Get, "PreemptType"))
	byQOS := strings.HasSuffix(kind, "qos")
	m.Turn = rows.Search{ByTier: strings.Contains(kind, "partition"), ByQOS: byQOS, Since2411: e.rules.Since2411}
	var tiers []int
	for i, p := range e.parts {
		p.index = i
		tiers = append(tiers, p.tier)
		of := rows.Partition{Tier: p.tier, Kept: p.preempt.Keeps(), Rows: 1}
		if byQOS {
			of.Rows++
		}
		m.Turns = append(m.Turns, of)
	}
	e.slice = time.Duration(keys.Number(e.cfg.Get, "SchedTimeSlice", 30)) * time.Second
	e.gang = gang.New(tiers, m.Cores(), gang.Actions[*job]{
		Suspend: e.suspend, Resume: e.resume,
		Evict: func(j *job) { e.vacate(j, hpc.Preempted, true, e.preempt.Returns(&j.preemption)) },
		Suspends: func(j *job) bool {
			mode := e.preempt.ModeOf(e.inPreemption(j))
			return mode == preemption.Off || mode == preemption.Suspend
		},
	})
}

// sliceTurn begins a time slice of gang scheduling. It returns when the next one begins.
func (e *Engine) sliceTurn() hpc.Time {
	e.gang.Slice()
	return e.now.Add(e.slice)
}

// suspend suspends a running job for gang scheduling (job_suspend in job_mgr.c). Its node stops its script, unless that has
// not been sent yet.
func (e *Engine) suspend(j *job) {
	if j.state != running || j.times.Suspended {
		return
	}
	j.times.Suspend(e.second(), j.estimate)
	e.touch()
	begun, alloc := j.times.Begun, j.alloc
	e.at(e.agents.Send(e.now, len(j.alloc.Parts)), nodesAnswer, func() {
		if begun && j.state == running && j.alloc == alloc && !j.times.Stopped {
			j.times.Stop(e.now)
			j.endTimer++
			e.emit(j, rm.Suspend, "", nil)
		}
	})
}

// resume lets a suspended job go on.
func (e *Engine) resume(j *job) {
	if j.state != running || !j.times.Suspended {
		return
	}
	end := j.times.Resume(e.second(), j.limit*60)
	if j.preemption.Told == 0 && !j.endless {
		e.endAt(j, end)
	}
	e.touch()
	alloc := j.alloc
	e.at(e.agents.Send(e.now, len(j.alloc.Parts)), nodesAnswer, func() {
		if j.state == running && j.alloc == alloc && j.times.Stopped {
			e.endScript(j, j.times.GoOn(e.now))
			e.emit(j, rm.Resume, "", nil)
		}
	})
}
