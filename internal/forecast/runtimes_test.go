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
		draws{learned: learned{"a": untilLimit(600)}}.redraw(job, q, 1, 0)
		if job.RunTime != want {
			t.Errorf("at %v: %v, want %v", time.Duration(at), job.RunTime, want)
		}
	}
}

// Jobs that depend on a requeued job come after it, because its submission is now the time of the
// requeue. A job that runs, or that depends on another job, keeps its position.
func TestBehindRequeued(t *testing.T) {
	const second, hour = hpc.Time(time.Second), hpc.Time(time.Hour)
	jobs := []*hpc.Job{
		{ID: "a", Submit: 5 * second}, {ID: "b", Submit: 60 * second, Request: hpc.Request{Dependency: "afterok:a"}, Behaviour: hpc.Behaviour{CancelAfter: 4 * time.Hour}},
		{ID: "c", Submit: 61 * second, Request: hpc.Request{Dependency: "afterany:b"}}, {ID: "d", Submit: 62 * second, Request: hpc.Request{Dependency: "after:e"}},
		{ID: "e", Submit: 63 * second, Request: hpc.Request{Dependency: "after:a"}},
	}
	c := &Course{workload: &workload.Workload{Jobs: workload.JobsOf(jobs...)}, events: []run.Event{
		{At: 10 * second, Kind: rm.Started, Job: "a", Task: -1, Start: 10 * second},
		{At: 70 * second, Kind: rm.Started, Job: "e", Task: -1, Start: 70 * second},
		{At: 2 * hour, Kind: rm.Requeue, Job: "a", Task: -1, Start: 10 * second},
	}}
	want := map[string]hpc.Time{"a": 2 * hour, "b": 2 * hour, "c": 2 * hour, "d": 62 * second, "e": 63 * second}
	for _, job := range c.at(3 * hour).Jobs.All() {
		if job.Submit != want[job.ID] {
			t.Errorf("job %s: submitted at %v, want %v", job.ID, time.Duration(job.Submit), time.Duration(want[job.ID]))
		}
		if job.ID == "b" && job.Submit.Add(job.CancelAfter) != 60*second+4*hour {
			t.Errorf("cancelled after %v", job.CancelAfter)
		}
	}
}
