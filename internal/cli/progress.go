package cli

import (
	"sync"
	"time"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/experiment"
	"rmreplay/internal/hpc"
	pace "rmreplay/internal/progress"
	"rmreplay/internal/replay"
)

// runProgress shows the progress of runs.
type runProgress struct {
	*console.Progress
	zone    *time.Location
	begun   time.Time
	sampled time.Time // when the last snapshot was added to history
	history pace.History
}

func newRunProgress(p *console.Progress, zone *time.Location) *runProgress {
	return &runProgress{Progress: p, zone: zone}
}

// hooks returns hooks that show the progress of one run.
func (p *runProgress) hooks() experiment.Hooks {
	return experiment.Hooks{Notice: p.Notice, Step: p.Step, Begin: p.begin, Progress: p.observe}
}

// begin notes that the workload begins.
func (p *runProgress) begin(hpc.Time) {
	p.begun = time.Now()
	p.Begin()
}

// observe is called with the state of the run after each instant.
func (p *runProgress) observe(n replay.Progress) {
	now := time.Now()
	if p.Quiet() || now.Sub(p.sampled) < console.Sample {
		return
	}
	p.sampled = now
	s := pace.Snapshot{Elapsed: now.Sub(p.begun), Progress: n}
	p.history.Add(s)
	if p.Due() {
		p.Show(pace.Parts(&s, p.zone, p.history.Left())...)
	}
}

// setHooks returns hooks that show a set of realizations. total is their number, and parallel is
// how many run at the same time.
func (p *runProgress) setHooks(total, parallel int) experiment.SetHooks {
	p.begin(0)
	var mu sync.Mutex
	set := pace.NewSet(total, parallel)
	note := func(atOnce bool, change func(now time.Time)) {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		change(now)
		if !p.Quiet() && (atOnce || p.Due()) {
			p.Show(set.Parts(now)...)
		}
	}
	return experiment.SetHooks{
		Of: func(r experiment.Realization) experiment.Hooks {
			note(false, func(now time.Time) { set.Begin(r.Number, now) })
			one := experiment.Hooks{Progress: func(n replay.Progress) {
				note(false, func(now time.Time) { set.Observe(r.Number, now, &n) })
			}}
			if r.Number == 1 { // all realizations have the same notices
				one.Notice = func(text string) {
					mu.Lock()
					defer mu.Unlock()
					p.Notice(text)
				}
			}
			return one
		},
		Ended: func(r experiment.Realization) { note(true, func(now time.Time) { set.End(r.Number, now) }) },
	}
}
