package run

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/workload"
)

// TestWorkloadRecorded checks that a run can be read as a workload with the history of its jobs. If
// users reacted, the next run starts from their submissions in that run, in that run's order.
func TestWorkloadRecorded(t *testing.T) {
	for _, feedback := range []*Feedback{nil, {Model: "think-time"}} {
		w, err := Create(filepath.Join(t.TempDir(), "run"), Manifest{Engine: "sim", Feedback: feedback,
			Cluster: Cluster{Nodes: 3, Processors: 12}}, Options{})
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
			w.Job(&hpc.Job{ID: "open", Submit: at(3)}), w.Job(&hpc.Job{ID: "refused", Submit: at(4), Request: hpc.Request{Array: "1-2"}}),
			w.Job(&hpc.Job{ID: "half", Submit: at(5), Request: hpc.Request{Array: "1-2"}}),
			event(at(2), rm.Accepted, "array", -1, nil), event(at(3), rm.Accepted, "open", -1, &rm.Outcome{TimeLimit: 3600}), event(at(50), rm.Accepted, "late", -1, nil))
		for i, task := range []struct {
			job   string
			no    int
			nodes string
		}{{"array", 2, "n2"}, {"array", 1, "n1"}, {"late", -1, "n3"}} {
			start, end := at(int64(60+i)), at(int64(70+i))
			o := rm.Outcome{Start: start, Nodes: task.nodes, Processors: 3 + i, Priority: uint32(7 + i)}
			over := o
			over.State, over.End, over.NodeCount = hpc.Completed, end, 1
			do(event(start, rm.Started, task.job, task.no, &o), event(end, rm.Ended, task.job, task.no, &over))
		}
		do(event(at(51), rm.Refused, "refused", -1, nil), event(at(52), rm.Accepted, "half", -1, nil),
			event(at(80), rm.Started, "half", 1, &rm.Outcome{Start: at(80), Nodes: "n1", TimeLimit: 60}),
			event(at(90), rm.Ended, "half", 1, &rm.Outcome{State: hpc.Failed, Start: at(80), End: at(90), Nodes: "n1"}))
		do(w.Finish(StateComplete, nil))
		got, err := Workload(w.Dir())
		if err != nil {
			t.Fatal(err)
		}
		want := []*hpc.Job{
			{ID: "late", Submit: at(1), Recorded: &hpc.Recorded{Start: at(62), End: at(72), State: hpc.Completed, Nodes: "n3", Processors: 5, Priority: 9}},
			{ID: "array", Submit: at(2), Request: hpc.Request{Array: "1-2"}, Recorded: &hpc.Recorded{
				Start: at(60), End: at(71), State: hpc.Completed, Priority: 7, Processors: 3, TaskNodes: map[int]string{1: "n1", 2: "n2"},
				TaskProcessors: map[int]int{1: 4, 2: 3}, TaskPriorities: map[int]uint32{1: 8, 2: 7},
				TaskStarts: map[int]hpc.Time{1: at(61), 2: at(60)}, TaskEnds: map[int]hpc.Time{1: at(71), 2: at(70)},
			}},
			{ID: "open", Submit: at(3), Recorded: &hpc.Recorded{State: hpc.Pending, TimeLimit: time.Hour}},
			{ID: "refused", Submit: at(4), Request: hpc.Request{Array: "1-2"}, Recorded: &hpc.Recorded{State: hpc.Rejected}},
			{ID: "half", Submit: at(5), Request: hpc.Request{Array: "1-2"}, Recorded: &hpc.Recorded{ // one task waits; the tasks' limits differ
				Start: at(80), TaskStarts: map[int]hpc.Time{1: at(80)}, TaskEnds: map[int]hpc.Time{1: at(90)}, TaskNodes: map[int]string{1: "n1"},
				TaskStates: map[int]hpc.State{1: hpc.Failed, 2: hpc.Pending},
			}},
		}
		if feedback != nil {
			want[0].Submit, want[3].Submit, want[4].Submit = at(50), at(51), at(52)
			want = []*hpc.Job{want[1], want[2], want[0], want[3], want[4]}
		}
		if diff := cmp.Diff(want, got.Jobs.List()); diff != "" {
			t.Errorf("feedback %v (-want +got)\n%s", feedback, diff)
		}
		if got.MachineNodes != 3 || got.MachineProcessors != 12 {
			t.Errorf("a machine of %d nodes and %d processors, want that of the run", got.MachineNodes, got.MachineProcessors)
		}
	}
}

// TestRowFinished checks that the finished jobs of a run make the same workload as the run itself:
// the same requests, behaviour and recorded values.
func TestRowFinished(t *testing.T) {
	w, err := Create(filepath.Join(t.TempDir(), "run"), Manifest{Engine: "sim"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	submitted := []*hpc.Job{
		{ID: "17", Submit: at(1), Behaviour: hpc.Behaviour{RunTime: 10 * time.Second, ExitCode: 3}, Request: hpc.Request{
			Name: "a b", User: "ann", Account: "phys", Partition: "batch", QOS: "high", WCKey: "k", TimeLimit: time.Hour,
			MinNodes: 2, MaxNodes: 2, Tasks: 8, CPUsPerTask: 2, MinCPUsPerNode: 2, MemPerCPU: 2048, GRES: "gpu:1", Constraint: "fast", Licenses: "x:1", Comment: "c",
		}},
		{ID: "20", Submit: at(2), Behaviour: hpc.Behaviour{RunTime: 20 * time.Second}, Request: hpc.Request{
			Name: "array", User: "ann", Tasks: 1, TimeLimit: time.Hour, Array: "1-2%1", Dependency: "afterany:17",
		}},
		{ID: "30", Submit: at(3), Behaviour: hpc.Behaviour{RunTime: 5 * time.Second}, Request: hpc.Request{
			Name: "b", User: "bob", Tasks: 4, TimeLimit: time.Minute, Dependency: "afterok:20", GPUs: "a100:2", MemPerNode: 500,
		}},
	}
	var errs []error
	for _, job := range submitted {
		errs = append(errs, w.Job(job), w.Event(rm.Event{At: job.Submit, Kind: rm.Accepted, Job: job.ID, Task: -1, RMJob: 100}))
	}
	for _, task := range []struct {
		job        string
		no         int
		start, end int64
		code       int
	}{{"17", -1, 10, 20, 3}, {"20", 1, 30, 50, 0}, {"20", 2, 50, 70, 0}, {"30", -1, 80, 85, 0}} {
		o := rm.Outcome{Start: at(task.start), Eligible: at(task.start), Nodes: "n1", NodeCount: 1, Processors: 8, Priority: 7, TRES: "cpu=8,node=1"}
		over := o
		if over.State, over.End, over.ExitCode = hpc.Completed, at(task.end), task.code; task.code != 0 {
			over.State = hpc.Failed
		}
		errs = append(errs, w.Event(rm.Event{At: o.Start, Kind: rm.Started, Job: task.job, Task: task.no, RMJob: 101, Outcome: &o}),
			w.Event(rm.Event{At: over.End, Kind: rm.Ended, Job: task.job, Task: task.no, RMJob: 101, Outcome: &over}))
	}
	if err := errors.Join(append(errs, w.Finish(StateComplete, nil))...); err != nil {
		t.Fatal(err)
	}
	r, err := Open(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	rows, err := r.Jobs()
	if err != nil {
		t.Fatal(err)
	}
	jobs := make(map[string]*hpc.Job)
	for _, job := range submitted {
		jobs[job.ID] = job
	}
	b := finished.NewBuilder("run", workload.ReadOptions{Strict: true})
	for i := range rows {
		record := rows[i].Finished(jobs[rows[i].Job])
		if record.AllocTRES != "cpu=8,node=1" || record.Number != 101 || record.TimeLimit == 0 || record.AllocCPUs != 8 {
			t.Errorf("record %+v", record)
		}
		if err := b.Add(&record, ""); err != nil {
			t.Fatal(err)
		}
	}
	got, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	want, err := Workload(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if got.Jobs.Len() != len(submitted) {
		t.Fatalf("%d jobs, want %d", got.Jobs.Len(), len(submitted))
	}
	for i := range submitted {
		if diff := cmp.Diff(want.Jobs.At(i), got.Jobs.At(i)); diff != "" {
			t.Errorf("job %s: -record +finished jobs\n%s", submitted[i].ID, diff)
		}
	}
}
