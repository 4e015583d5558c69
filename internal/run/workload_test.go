package run

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
)

// A run is a workload that knows what became of its jobs. Where users reacted, what they
// did in that run is what the next one starts from, in its order.
func TestWorkloadRecorded(t *testing.T) {
	for _, feedback := range []*Feedback{nil, {Model: "think-time"}} {
		w, err := Create(filepath.Join(t.TempDir(), "run"), Manifest{Engine: "sim", Feedback: feedback}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		do := func(errs ...error) {
			t.Helper()
			for _, err := range errs {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		event := func(at hpc.Time, kind rm.EventKind, job string, task int, o *rm.Outcome) error {
			return w.Event(rm.Event{At: at, Kind: kind, Job: job, Task: task, Outcome: o})
		}
		do(w.Job(&hpc.Job{ID: "late", Submit: at(1)}), w.Job(&hpc.Job{ID: "array", Submit: at(2), Request: hpc.Request{Array: "1-2"}}),
			w.Job(&hpc.Job{ID: "open", Submit: at(3)}),
			event(at(2), rm.Accepted, "array", -1, nil), event(at(3), rm.Accepted, "open", -1, nil), event(at(50), rm.Accepted, "late", -1, nil))
		for i, task := range []struct {
			job string
			no  int
		}{{"array", 2}, {"array", 1}, {"late", -1}} {
			start, end := at(int64(60+i)), at(int64(70+i))
			do(event(start, rm.Started, task.job, task.no, &rm.Outcome{Start: start}),
				event(end, rm.Ended, task.job, task.no, &rm.Outcome{State: hpc.Completed, Start: start, End: end, NodeCount: 1}))
		}
		do(w.Finish(StateComplete, nil))
		got, err := Workload(w.Dir())
		if err != nil {
			t.Fatal(err)
		}
		want := []*hpc.Job{
			{ID: "late", Submit: at(1), Recorded: &hpc.Recorded{Start: at(62), End: at(72), State: hpc.Completed}},
			{ID: "array", Submit: at(2), Request: hpc.Request{Array: "1-2"}, Recorded: &hpc.Recorded{End: at(71)}},
			{ID: "open", Submit: at(3), Recorded: &hpc.Recorded{State: hpc.Pending}},
		}
		if feedback != nil {
			want[0].Submit = at(50)
			want = []*hpc.Job{want[1], want[2], want[0]}
		}
		if diff := cmp.Diff(want, got.Jobs.List()); diff != "" {
			t.Errorf("feedback %v (-want +got)\n%s", feedback, diff)
		}
	}
}
