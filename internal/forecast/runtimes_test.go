package forecast

import (
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// TestCutShort draws the run time of a job whose first run ended in a requeue. The whole workload is played
// again, so the first run gets the same run time, which must not be shorter than the first run was.
func TestCutShort(t *testing.T) {
	const second, hour = hpc.Time(time.Second), hpc.Time(time.Hour)
	event := func(at hpc.Time, kind rm.EventKind) run.Event {
		return run.Event{At: at, Kind: kind, Job: "a", Task: -1, Start: at}
	}
	c := &Course{workload: &workload.Workload{}, events: []run.Event{
		event(10*second, rm.Started), event(10*second+3*hour, rm.Requeue), event(4*hour, rm.Started), event(5*hour, rm.Requeue), event(6*hour, rm.Started),
	}}
	for at, want := range map[hpc.Time]time.Duration{
		3*hour + 20*second: 3 * time.Hour, 5*hour + second: 3 * time.Hour, 6*hour + second: 3 * time.Hour, 10*hour + second/2: 4*time.Hour + time.Second,
	} {
		q := &Queue{At: at, states: c.phases(at)}
		job := &hpc.Job{ID: "a"}
		learned{"a": untilLimit(600)}.redraw(job, q, 1, 0)
		if job.RunTime != want {
			t.Errorf("at %v: %v, want %v", time.Duration(at), job.RunTime, want)
		}
	}
}
