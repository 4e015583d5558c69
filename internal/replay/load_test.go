package replay

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/workload"
)

// TestLoad checks that the progress has the whole workload's totals from the beginning. It also
// checks the processors that jobs hold at each instant, even after a requeue.
func TestLoad(t *testing.T) {
	jobs := []*hpc.Job{
		{ID: "a", Submit: hpc.Second, Request: hpc.Request{Tasks: 2}, Behaviour: hpc.Behaviour{RunTime: 10 * time.Second}},
		{ID: "b", Submit: hpc.Second, Request: hpc.Request{Array: "1-2", Tasks: 3, TimeLimit: 20 * time.Second},
			Behaviour: hpc.Behaviour{RunTime: hpc.Unlimited, TaskRunTimes: map[int]time.Duration{1: 5 * time.Second}}},
		{ID: "c", Submit: 90 * hpc.Second, Behaviour: hpc.Behaviour{RunTime: hpc.Unlimited}},
	}
	event := func(at int, kind rm.EventKind, job string, task int) rm.Event {
		ev := happens(at, kind, job, task, true)
		ev.Outcome.Processors = 4
		return ev
	}
	s := &scripted{events: []rm.Event{
		event(2, rm.Started, "a", -1), event(4, rm.Started, "b", 1), event(6, rm.Requeue, "a", -1), event(7, rm.Ended, "b", 1),
		happens(8, rm.Ended, "b", 2, false), event(100, rm.Started, "a", -1), event(110, rm.Ended, "a", -1), happens(111, rm.Ended, "c", -1, false),
	}}
	held := map[int]int{}
	var first Progress
	result, err := Rigid(t.Context(), s, &workload.Workload{Jobs: workload.JobsOf(jobs...)}, s, Options{
		Processors: 16, DefaultLimit: 50 * time.Second,
		Observe: func(p Progress) {
			if len(held) == 0 {
				first = p
			}
			held[int(p.Now.Seconds())] = p.Held
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[int]int{1: 0, 2: 4, 4: 8, 6: 4, 7: 0, 8: 0, 90: 0, 100: 4, 110: 0, 111: 0}, held); diff != "" {
		t.Errorf("held processors (-want +got)\n%s", diff)
	}
	// 2 processors for 10 s, 3 for 5 s and 20 s, 1 for 50 s.
	if got, want := first.Load, (Load{LastEnd: 140 * hpc.Second, Tasks: 4, Processors: 16, Work: 20 + 75 + 50}); got != want {
		t.Errorf("at first %+v, want %+v", got, want)
	}
	if got := result.Load; got.WorkDone != 4*4+3*4+10*4 || got.Requested != 2+3+2 || got.Allocated != 12 {
		t.Errorf("at the end %+v", got)
	}
}
