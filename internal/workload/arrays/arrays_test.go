package arrays

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// The tests of package finished check the dependencies on arrays that became several jobs.

func TestIndexList(t *testing.T) {
	for want, list := range map[string][]int{"": nil, "7": {7}, "0-3": {0, 1, 2, 3}, "0,2,4-5": {0, 2, 4, 5}} {
		if got := IndexList(list); got != want {
			t.Errorf("%v: %q, want %q", list, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfNDistinct(rapid.IntRange(0, 200), 1, 50, rapid.ID).Draw(t, "tasks")
		slices.Sort(list)
		array, err := hpc.ParseArray(IndexList(list))
		if err != nil || !slices.Equal(array.Tasks, list) {
			t.Fatalf("%v is written as %q and read as %v, %v", list, IndexList(list), array.Tasks, err)
		}
	})
}

// TestJoin checks that an array of several joined tasks has each task's own record.
func TestJoin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tasks []*hpc.Job
		for i := range rapid.IntRange(1, 5).Draw(t, "tasks") {
			start := rapid.IntRange(1, 9).Draw(t, "start")
			run := time.Duration(rapid.IntRange(0, 3).Draw(t, "run")) * time.Second
			tasks = append(tasks, &hpc.Job{
				ID: "5", Behaviour: hpc.Behaviour{RunTime: run, ExitCode: rapid.IntRange(0, 2).Draw(t, "code")},
				Recorded: &hpc.Recorded{
					Start: hpc.Unix(int64(start)), End: hpc.Unix(int64(start)).Add(run), Nodes: []string{"n1", "n2"}[i%2],
					State: []hpc.State{hpc.Completed, hpc.TimedOut, hpc.Failed}[rapid.IntRange(0, 2).Draw(t, "state")],
				},
			})
		}
		array, fate := *tasks[0], *tasks[0].Recorded
		array.Recorded = &fate
		part := &Part{Job: &array, Tasks: []int{0}}
		part.Record(tasks[0], part.Tasks)
		for i, task := range tasks[1:] {
			if !Same(part.Job, task) {
				t.Fatalf("task %d asks for something else", i+1)
			}
			part.Join(task, []int{i + 1})
		}
		var first, last hpc.Time
		for i, task := range tasks {
			got, want := array.Recorded.OfTask(i), task.Recorded
			if array.RunTimeOf(i) != task.RunTime || array.ExitCodeOf(i) != task.ExitCode ||
				got.State != want.State || got.Start != want.Start || got.End != want.End || len(tasks) > 1 && got.Nodes != want.Nodes {
				t.Errorf("task %d: runs %v, exits with %d, %+v; want %+v, %+v", i, array.RunTimeOf(i), array.ExitCodeOf(i), got, task.Behaviour, want)
			}
			if first == 0 || want.Start < first {
				first = want.Start
			}
			last = max(last, want.End)
		}
		if array.Recorded.Start != first || array.Recorded.End != last {
			t.Errorf("the array runs from %v to %v, want %v to %v", array.Recorded.Start, array.Recorded.End, first, last)
		}
	})
}

func TestSame(t *testing.T) {
	base := hpc.Job{ID: "5", Submit: 7, Request: hpc.Request{Tasks: 1, User: "ann"}}
	for what, tt := range map[string]struct {
		change func(*hpc.Job)
		want   bool
	}{
		"run time and exit code": {func(j *hpc.Job) { j.RunTime, j.ExitCode = 5, 1 }, true},
		"recorded outcome":       {func(j *hpc.Job) { j.Recorded = &hpc.Recorded{Start: 9} }, true},
		"throttle of one":        {func(j *hpc.Job) { j.Array = "%2" }, true},
		"submit time":            {func(j *hpc.Job) { j.Submit++ }, false},
		"cancellation":           {func(j *hpc.Job) { j.CancelAfter = 1 }, false},
		"tasks":                  {func(j *hpc.Job) { j.Tasks++ }, false},
		"user":                   {func(j *hpc.Job) { j.User = "bob" }, false},
	} {
		other := base
		tt.change(&other)
		if got := Same(&base, &other); got != tt.want {
			t.Errorf("tasks that differ in %s: %t", what, got)
		}
	}
	one, two := base, base
	one.Array, two.Array = "%1", "%2"
	if Same(&one, &two) {
		t.Error("tasks with two limits can be one job")
	}
}

// TestSplit splits arrays at an instant at which one task has ended, one runs and two wait.
func TestSplit(t *testing.T) {
	at := hpc.Unix
	array := &hpc.Job{
		ID: "5", Submit: at(1), Request: hpc.Request{Array: "0-3%2"},
		Behaviour: hpc.Behaviour{RunTime: 10 * time.Second, TaskRunTimes: map[int]time.Duration{1: 50 * time.Second, 3: time.Second}, TaskExitCodes: map[int]int{1: 4}},
		Recorded: &hpc.Recorded{
			Start: at(10), End: at(91), TaskStarts: map[int]hpc.Time{0: at(10), 1: at(20), 2: at(70), 3: at(90)},
			TaskEnds: map[int]hpc.Time{0: at(20), 1: at(70), 2: at(80), 3: at(91)}, TaskNodes: map[int]string{0: "n0", 1: "n1", 2: "n2", 3: "n3"},
		},
	}
	after := &hpc.Job{ID: "6", Submit: at(2), Request: hpc.Request{Dependency: "afterok:5"}}
	failed := &hpc.Job{ID: "7", Submit: at(3), Request: hpc.Request{Dependency: "afternotok:5"}}
	unrecorded := &hpc.Job{ID: "8", Submit: at(4), Request: hpc.Request{Array: "0-1"}, Recorded: &hpc.Recorded{Start: at(10)}}
	w := &workload.Workload{Jobs: workload.JobsOf(array, after, failed, unrecorded)}
	if n := Split(w, at(60)); n != 2 {
		t.Errorf("%d jobs were added or changed, want 2", n)
	}
	got := make(map[string]*hpc.Job)
	for _, job := range w.Jobs.List() {
		got[job.ID] = job
	}
	want := map[string]*hpc.Job{
		"5_1": {
			ID: "5_1", Submit: at(1), Behaviour: hpc.Behaviour{RunTime: 50 * time.Second, ExitCode: 4},
			Recorded: &hpc.Recorded{Start: at(20), End: at(70), Nodes: "n1"},
		},
		"5": {
			ID: "5", Submit: at(1), Request: hpc.Request{Array: "2-3%2"},
			Behaviour: hpc.Behaviour{RunTime: 10 * time.Second, TaskRunTimes: map[int]time.Duration{3: time.Second}},
			Recorded: &hpc.Recorded{
				Start: at(70), End: at(91), TaskStarts: map[int]hpc.Time{2: at(70), 3: at(90)},
				TaskEnds: map[int]hpc.Time{2: at(80), 3: at(91)}, TaskNodes: map[int]string{2: "n2", 3: "n3"},
			},
		},
		"6": {ID: "6", Submit: at(2), Request: hpc.Request{Dependency: "afterok:5_1,afterok:5"}},
		"7": {ID: "7", Submit: at(3), Request: hpc.Request{Dependency: "afternotok:5_1,afterany:5"}},
		"8": unrecorded,
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{NoteLimit: 1, NoteDependency: 1}, w.Rules); diff != "" {
		t.Errorf("rules: -want +got\n%s", diff)
	}
	if n := Split(w, at(5)); n != 0 {
		t.Errorf("%d jobs were split before any task ran", n)
	}
}

// TestSplitRunning checks that an array whose tasks all run is replaced by one job for each task.
func TestSplitRunning(t *testing.T) {
	at := hpc.Unix
	w := &workload.Workload{Jobs: workload.JobsOf(&hpc.Job{
		ID: "5", Submit: at(1), Request: hpc.Request{Array: "0-1"},
		Recorded: &hpc.Recorded{TaskStarts: map[int]hpc.Time{0: at(10), 1: at(20)}},
	})}
	Split(w, at(60))
	var ids []string
	for _, job := range w.Jobs.List() {
		ids = append(ids, job.ID+job.Array)
	}
	if diff := cmp.Diff([]string{"5_0", "5_1"}, ids); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestBeginWhenEligible(t *testing.T) {
	at := hpc.Unix
	for what, tt := range map[string]struct {
		job  hpc.Job
		want time.Duration
	}{
		"became eligible later":       {hpc.Job{Submit: at(10), Recorded: &hpc.Recorded{Eligible: at(40), Start: at(90)}}, 30 * time.Second},
		"never started":               {hpc.Job{Submit: at(10), Recorded: &hpc.Recorded{Eligible: at(40)}}, 30 * time.Second},
		"was eligible at once":        {hpc.Job{Submit: at(10), Recorded: &hpc.Recorded{Eligible: at(10), Start: at(90)}}, 0},
		"ran at the window's start":   {hpc.Job{Submit: at(10), Recorded: &hpc.Recorded{Eligible: at(40), Start: at(50)}}, 0},
		"is held":                     {hpc.Job{Submit: at(10), Request: hpc.Request{Hold: true}, Recorded: &hpc.Recorded{Eligible: at(40)}}, 0},
		"has no record":               {hpc.Job{Submit: at(10)}, 0},
		"has a --begin that is later": {hpc.Job{Submit: at(10), Request: hpc.Request{Begin: time.Minute}, Recorded: &hpc.Recorded{Eligible: at(40)}}, 0},
	} {
		job, before := tt.job, tt.job.Begin
		changed := BeginWhenEligible(&job, at(60))
		if changed != (tt.want != 0) || changed && job.Begin != tt.want || !changed && job.Begin != before {
			t.Errorf("a job that %s: changed %t, begins after %v, want %v", what, changed, job.Begin, tt.want)
		}
	}
}
