package slurm

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/install"
)

// backlog returns a scenario in which the backfill scheduler tries many jobs: they have
// different sizes and time limits, and two run at a time.
func backlog(t *testing.T, slurm *install.Installation, in *backlogged, factor float64) {
	t.Helper()
	files := manyNodes(400)
	files["slurm.conf"] += "SchedulerParameters=bf_max_time=3,bf_interval=10,bf_max_job_test=1000,bf_yield_interval=500000,bf_yield_sleep=100000,bf_continue\n"
	s := scenario{slurm: slurm, cluster: writeCluster(t, files), factor: factor}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	e := s.start(ctx, t)
	const jobs = 70
	for i := range jobs {
		err := e.Submit(job(fmt.Sprintf("j%d", i), 0, 3600, func(j *hpc.Job) {
			j.Tasks = 32 * (150 + i%30)
			j.TimeLimit = time.Duration(60+i) * time.Minute
		}))
		if err != nil {
			t.Fatal(err)
		}
	}
	advance := func(until hpc.Time) (events []rm.Event) {
		for e.Now() < until {
			more, err := e.AdvanceTo(ctx, until)
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, more...)
		}
		return events
	}
	// One more job every 100 ms, so that some are submitted while slurmctld computes.
	const late = 100
	for i := range late {
		at := epoch.Add(25*time.Second + time.Duration(i)*100*time.Millisecond)
		advance(at)
		if e.Now() != at {
			t.Errorf("the driver got the clock at %v for %v", since(e.Now()), since(at))
		}
		j := job(fmt.Sprintf("late%d", i), 0, 60, func(j *hpc.Job) { j.Hold = true })
		if err := e.Submit(j); err != nil {
			t.Fatal(err)
		}
	}
	events := advance(epoch.Add(65 * time.Second))
	accepted := 0
	for _, ev := range events {
		if ev.Kind == rm.Refused {
			t.Errorf("job %s: %s", ev.Job, ev.Reason)
		}
		accepted++
	}
	scheduler, err := e.scheduler(ctx)
	if err != nil {
		t.Fatal(err)
	}
	in.warnings = e.takeWarnings()
	in.scheduler = *scheduler
	stats := e.loop.clock.Stats()
	in.steps, in.charged = stats.InPlace+stats.Driver, stats.Charged
	in.cpu = e.cpu()["slurmctld"]
	t.Logf("factor %v: %v of CPU time, %v charged, %d steps, %+v, %v", factor, in.cpu, in.charged, in.steps, in.scheduler, in.warnings)
}

// backlogged has slurmctld's counters after a backlog.
type backlogged struct {
	scheduler    rm.Scheduler
	warnings     []Warning
	steps        uint64
	charged, cpu time.Duration
}

// TestMeasuredController checks the measured clock. The backfill cycles of a slow controller take
// the time that sdiag shows, and bf_max_time ends them early. With the frozen clock the cycles take
// no time and try the whole queue.
func TestMeasuredController(t *testing.T) { eachSlurm(t, testMeasuredController) }

func testMeasuredController(t *testing.T, slurm *install.Installation) {
	var frozen, slow backlogged
	backlog(t, slurm, &frozen, 0)
	backlog(t, slurm, &slow, 40)
	cut := func(w Warning) bool { return w.Code == "backfill-cut" }

	if s := frozen.scheduler; s.BackfillCycles < 2 || s.BackfillMax != 0 || s.MainMax != 0 || frozen.charged != 0 {
		t.Errorf("with the frozen clock: %+v, %v charged; want cycles that take no time", s, frozen.charged)
	}
	if slices.ContainsFunc(frozen.warnings, cut) {
		t.Errorf("with the frozen clock: %v", frozen.warnings)
	}
	s := slow.scheduler
	if s.BackfillCycles < 2 || s.BackfillMax < 1 || s.BackfillMax > 4.5 {
		t.Errorf("with a slow controller: %d backfill cycles of at most %v s; want a few, cut at about 3 s", s.BackfillCycles, s.BackfillMax)
	}
	if s.BackfillTriedMean >= frozen.scheduler.BackfillTriedMean {
		t.Errorf("a slow controller tried %v jobs in a backfill cycle, and a fast one %v", s.BackfillTriedMean, frozen.scheduler.BackfillTriedMean)
	}
	if s.MainMax <= 0 {
		t.Error("with a slow controller: the main scheduler's cycles took no time")
	}
	if !slices.ContainsFunc(slow.warnings, cut) {
		t.Errorf("with a slow controller: no warning of cycles that were cut: %v", slow.warnings)
	}
}
