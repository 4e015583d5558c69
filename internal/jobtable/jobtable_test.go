package jobtable

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// history is a workload with an array of two tasks, one of which never started, and a job whose
// name has a terminal's escape sequence.
func history(t *testing.T) *run.Run {
	t.Helper()
	at := func(s int64) hpc.Time { return hpc.Unix(1e9 + s) }
	w := &workload.Workload{Epoch: at(0), Jobs: workload.JobsOf(
		&hpc.Job{ID: "a", Submit: at(0), Request: hpc.Request{User: "ann", Name: "x\x1b[2Jy", Tasks: 2, TimeLimit: hpc.Unlimited},
			Recorded: &hpc.Recorded{Start: at(5), End: at(65), State: hpc.Completed, Nodes: "n[1-2]"}},
		&hpc.Job{ID: "b", Submit: at(10), Request: hpc.Request{User: "bob", Array: "1-2", TimeLimit: time.Hour},
			Recorded: &hpc.Recorded{Start: at(20), TaskStarts: map[int]hpc.Time{1: at(20)}, TaskEnds: map[int]hpc.Time{1: at(30), 2: at(40)}}},
		&hpc.Job{ID: "c", Submit: at(11), Request: hpc.Request{User: "ann"}},
	)}
	r, err := run.FromWorkload(w)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestColumnOfPriority: runs without priorities have the column, too.
func TestColumnOfPriority(t *testing.T) {
	for _, c := range Columns {
		if c.Name == "wait_priority" && c.Doc == "waiting behind jobs ahead of it in the queue" {
			return
		}
	}
	t.Error("the column wait_priority is not described for runs with and without priorities")
}

func TestTable(t *testing.T) {
	table, err := FromRun(history(t), Options{Columns: []string{"id", "name", "state", "wait", "time_limit", "nodes", "slowdown", "exit_code", "signal"}, Sort: []string{"wait:desc"}})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := table.Render(&b, time.UTC); err != nil {
		t.Fatal(err)
	}
	// Task 2 of the array was cancelled before its start: it has no wait and no exit code, and comes last.
	want := `id   name     state          wait  time_limit  nodes  slowdown  exit_code  signal
b_1  -        UNKNOWN    00:00:10    01:00:00      -      2.00  0  0
a    x\x1b[2Jy  COMPLETED  00:00:05   UNLIMITED      2      1.08  0  0
b_2  -        CANCELLED         -    01:00:00      -         -  -  -
3 jobs
`
	if got := b.String(); strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestFilter(t *testing.T) {
	for filter, want := range map[string]string{
		`user == "ann"`:                            "a",
		`not started`:                              "b_2",
		`wait_s >= 10`:                             "b_1",
		`wait_s == -1 and turnaround_s == -1`:      "b_2",
		`task == 1 and end_s == 30 and array`:      "b_1",
		`node_list == "n[1-2]" and node_count > 1`: "a",
		`name contains "y"`:                        "a",
		`id == "b_2" or id == "a"`:                 "a b_2",
		`array_id == "b"`:                          "b_1 b_2",
		`array_id == ""`:                           "a",
		`state == "CANCELLED"`:                     "b_2",
	} {
		table, err := FromRun(history(t), Options{Filter: filter, Columns: []string{"id"}})
		if err != nil {
			t.Errorf("%s: %v", filter, err)
			continue
		}
		var ids []string
		for _, r := range table.Rows {
			ids = append(ids, id(r))
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s keeps %q, want %q", filter, got, want)
		}
	}
}

// Every column can be printed, be a key to sort by, and be written as CSV, even if jobs have no
// value.
func TestColumns(t *testing.T) {
	for _, c := range Columns {
		for _, direction := range []string{"", ":desc", ":asc"} {
			table, err := FromRun(history(t), Options{Columns: []string{c.Key()}, Sort: []string{c.Name + direction}})
			if err != nil {
				t.Fatalf("%s: %v", c.Name, err)
			}
			var text, csv bytes.Buffer
			if err := table.Render(&text, time.UTC); err != nil {
				t.Error(err)
			}
			if err := table.CSV(&csv); err != nil {
				t.Error(err)
			}
			if got := strings.Count(csv.String(), "\n"); got != 4 {
				t.Errorf("%s: CSV has %d lines, want 4", c.Name, got)
			}
		}
	}
}

// TestInert: CSV has a quote before texts that a spreadsheet would take for formulas.
func TestInert(t *testing.T) {
	w := &workload.Workload{Epoch: hpc.Unix(1e9), Jobs: workload.JobsOf(
		&hpc.Job{ID: "a", Submit: hpc.Unix(1e9), Request: hpc.Request{User: "@SUM(1)", Name: "=HYPERLINK(1)"},
			Recorded: &hpc.Recorded{Start: hpc.Unix(1e9), End: hpc.Unix(1e9 + 1)}},
	)}
	r, err := run.FromWorkload(w)
	if err != nil {
		t.Fatal(err)
	}
	table, err := FromRun(r, Options{Columns: []string{"id", "user", "name"}})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := table.CSV(&b); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); !strings.HasSuffix(got, "\na,'@SUM(1),'=HYPERLINK(1)\n") {
		t.Errorf("%s", got)
	}
}

// A job that waits again after a lost run counts as started, but has neither a start nor a wait.
func TestWaitsAgain(t *testing.T) {
	r := history(t)
	rows, err := r.Jobs()
	if err != nil {
		t.Fatal(err)
	}
	row := &rows[0]
	row.Start, row.End, row.State = 0, 0, hpc.Pending
	row.Segments = []run.Segment{{Start: hpc.Unix(1e9 + 5), End: hpc.Unix(1e9 + 9), EndedBy: rm.Requeue}}
	if f := fieldsOf(&workload.Workload{}, &hpc.Job{}, row, 0); !f.Started || f.Ended || f.Start != -1 || f.Wait != -1 {
		t.Errorf("started %v, ended %v, start %v, wait %v", f.Started, f.Ended, f.Start, f.Wait)
	}
}

// The lost CPU time of a job has the runs that ended in a requeue or by a preemption, as metrics count them.
func TestLostTime(t *testing.T) {
	at := func(s int64) hpc.Time { return hpc.Unix(1e9 + s) }
	requeued := run.Segment{Start: at(5), End: at(9), EndedBy: rm.Requeue, Processors: 2}
	stopped := run.Segment{Start: at(20), End: at(25), EndedBy: rm.Suspend, Processors: 2}
	ended := run.Segment{Start: at(27), End: at(30), EndedBy: rm.Ended, Processors: 2}
	by := ended
	by.PreemptedBy = "7"
	for name, test := range map[string]struct {
		row  run.Row
		want float64 // 0 without such runs
	}{
		"never lost":                         {run.Row{State: hpc.Completed, Start: at(20), End: at(30), Processors: 2}, 0},
		"preempted, by an unknown job":       {run.Row{State: hpc.Preempted, Start: at(20), End: at(30), Processors: 2}, 20},
		"preempted after a suspension":       {run.Row{State: hpc.Preempted, Start: at(20), End: at(30), Segments: []run.Segment{stopped, by}}, 16},
		"preempted while suspended":          {run.Row{State: hpc.Preempted, Start: at(20), End: at(25), Segments: []run.Segment{requeued, stopped}}, 18},
		"requeued, then completed":           {run.Row{State: hpc.Completed, Start: at(20), End: at(30), Segments: []run.Segment{requeued, stopped, ended}}, 8},
		"requeued, then suspended until now": {run.Row{State: hpc.Suspended, Start: at(20), Segments: []run.Segment{requeued, stopped}}, 8},
	} {
		got, lost := lostTime(&test.row), metrics.Compute([]run.Row{test.row}, metrics.Options{}).InterruptedProcessorSeconds
		if got != test.want && !(test.want == 0 && math.IsNaN(got)) || float64(lost) != test.want {
			t.Errorf("%s: lost CPU time %v, metrics have %v, want %v", name, got, lost, test.want)
		}
	}
}

// The CPU time of a job has all its runs that ended, whatever its state.
func TestCPUTime(t *testing.T) {
	at := func(s int64) hpc.Time { return hpc.Unix(1e9 + s) }
	lost := run.Segment{Start: at(5), End: at(9), EndedBy: rm.Requeue, Processors: 2}
	for _, test := range []struct {
		state hpc.State
		row   run.Row
		want  string
	}{
		{hpc.Completed, run.Row{Start: at(20), End: at(30), Segments: []run.Segment{lost, {Start: at(20), End: at(30), Processors: 2}}}, "00:00:28"},
		{hpc.Running, run.Row{Start: at(20), Segments: []run.Segment{lost, {Start: at(20), Processors: 2}}}, "00:00:08"},
		{hpc.Pending, run.Row{Segments: []run.Segment{lost}}, "00:00:08"},
		{hpc.Running, run.Row{Start: at(20), Processors: 2}, "-"},
		{hpc.Pending, run.Row{}, "-"},
	} {
		test.row.State = test.state
		if got := byName["cpu_time"].forPeople(&test.row, time.UTC); got != test.want {
			t.Errorf("%s: %s, want %s", test.state, got, test.want)
		}
		held := metrics.Compute([]run.Row{test.row}, metrics.Options{}).HeldByState[test.state]
		if cpu := cpuTime(&test.row); cpu != float64(held) && held != 0 {
			t.Errorf("%s: CPU time %v, metrics have %v", test.state, cpu, held)
		}
	}
}

// TestArrayAsID: a filter for an array's ID as the id of a job says which field has it.
func TestArrayAsID(t *testing.T) {
	table, err := FromRun(history(t), Options{Filter: `id == "b"`})
	if err != nil || table.Absent != `; no job has id "b" (it is an array: want array_id == "b")` {
		t.Errorf("%q, %v", table.Absent, err)
	}
}

// TestNeverStarted checks that a job that never started has the size that it requested.
func TestNeverStarted(t *testing.T) {
	r := run.Row{AskedMinNodes: 2, AskedTasks: 64, AskedCPUsPerTask: 3}
	for name, want := range map[string]string{"cpus": "192", "nodes": "2"} {
		if got := byName[name].forPrograms(&r); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
