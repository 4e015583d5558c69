package run

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/workload"
)

// TestMadeBegin checks begin times that the builder of a workload made from the instants at which
// jobs became eligible. They must not count as begin times that users asked for.
func TestMadeBegin(t *testing.T) {
	at := func(s int64) hpc.Time { return hpc.Unix(1_700_000_000 + s) }
	for _, made := range []int{0, 1} {
		job := &hpc.Job{ID: "1", Submit: at(0), Request: hpc.Request{Begin: at(5).Sub(at(0))}, Behaviour: hpc.Behaviour{RunTime: time.Minute},
			Recorded: &hpc.Recorded{Eligible: at(5), Start: at(6), End: at(9), State: hpc.Completed, Processors: 1}}
		asked := &hpc.Job{ID: "2", Submit: at(0), Request: hpc.Request{Begin: at(4).Sub(at(0))}, Behaviour: hpc.Behaviour{RunTime: time.Minute},
			Recorded: &hpc.Recorded{Eligible: at(5), Start: at(6), End: at(9), State: hpc.Completed, Processors: 1}}
		w := &workload.Workload{Jobs: workload.JobsOf(job, asked), Rules: map[string]int{finished.NoteBegin: made}}
		r, err := FromWorkload(w)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := r.Jobs()
		if err != nil {
			t.Fatal(err)
		}
		want := []time.Duration{job.Begin, asked.Begin}
		if made > 0 {
			want[0] = 0
		}
		for i := range rows {
			if rows[i].AskedBegin != want[i] {
				t.Errorf("%d made: job %s asked for a begin %v after its submission, want %v", made, rows[i].Job, rows[i].AskedBegin, want[i])
			}
		}
		if submissions := w.Jobs.At(0); submissions.Begin != job.Begin {
			t.Error("the workload has changed")
		}
	}
}

// TestMarkedBegin checks that a begin time that the builder made does not take away another job's begin time.
func TestMarkedBegin(t *testing.T) {
	at := func(s int64) hpc.Time { return hpc.Unix(1_700_000_000 + s) }
	job := func(id string, made bool) *hpc.Job {
		return &hpc.Job{ID: id, Submit: at(0), Request: hpc.Request{Begin: 5 * time.Second}, Recorded: &hpc.Recorded{
			Eligible: at(5), Start: at(6), End: at(9), State: hpc.Completed, Processors: 1, BeginMade: made}}
	}
	w := &workload.Workload{Jobs: workload.JobsOf(job("1", true), job("2", false)), Rules: map[string]int{finished.NoteBegin: 1}}
	r, err := FromWorkload(w)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := r.Jobs()
	if err != nil || rows[0].AskedBegin != 0 || rows[1].AskedBegin != 5*time.Second {
		t.Errorf("asked for begin times after %v and %v (%v), want 0 and 5s", rows[0].AskedBegin, rows[1].AskedBegin, err)
	}
}

// TestRequestedSize checks that a run without recorded nodes and processors has those that the job requested.
func TestRequestedSize(t *testing.T) {
	request := hpc.Request{MinNodes: 3, Tasks: 6}
	for _, c := range []struct {
		recorded    hpc.Recorded
		nodes, cpus int
	}{
		{hpc.Recorded{Start: 60, End: 90, State: hpc.Completed}, 3, 6},
		{hpc.Recorded{Start: 60, End: 90, State: hpc.Completed, Nodes: "n[1-4]", Processors: 8}, 4, 8},
		{hpc.Recorded{End: 90, State: hpc.Cancelled}, 0, 0},
	} {
		job := &hpc.Job{ID: "a", Submit: 50, Request: request, Recorded: &c.recorded}
		started := &hpc.Job{ID: "b", Submit: 50, Recorded: &hpc.Recorded{Start: 60, End: 90, State: hpc.Completed}}
		r, err := FromWorkload(&workload.Workload{Jobs: workload.JobsOf(job, started)})
		if err != nil {
			t.Fatal(err)
		}
		rows, err := r.Jobs()
		if err != nil || rows[0].NodeCount != c.nodes || rows[0].Processors != c.cpus {
			t.Errorf("%+v: %d nodes and %d processors (%v), want %d and %d", c.recorded, rows[0].NodeCount, rows[0].Processors, err, c.nodes, c.cpus)
		}
	}
}

func TestFromWorkload(t *testing.T) {
	at := func(s int64) hpc.Time { return hpc.Unix(1_700_000_000 + s) }
	w := &workload.Workload{
		Epoch: at(0), MachineNodes: 4, MachineProcessors: 16, Rules: map[string]int{workload.RuleLeftRunning: 53},
		Jobs: workload.JobsOf(
			&hpc.Job{ID: "a", Submit: at(0), Request: hpc.Request{User: "ann", Tasks: 3}, Recorded: &hpc.Recorded{Start: at(5), End: at(9), State: hpc.Failed, Nodes: "n[1-3]", TimeLimit: time.Hour}},
			&hpc.Job{ID: "b", Submit: at(1), Request: hpc.Request{User: "bob"}, Recorded: &hpc.Recorded{End: at(7), State: hpc.Cancelled}},
			&hpc.Job{ID: "c", Submit: at(2), Request: hpc.Request{User: "bob"}, Recorded: &hpc.Recorded{State: hpc.Rejected}},
			&hpc.Job{ID: "d", Submit: at(3), Request: hpc.Request{Array: "4-5"}, Recorded: &hpc.Recorded{TimeLimit: hpc.Unlimited, Start: at(6), TaskStarts: map[int]hpc.Time{4: at(6)}, TaskEnds: map[int]hpc.Time{4: at(8)}, TaskStates: map[int]hpc.State{4: hpc.TimedOut, 5: hpc.Pending}}},
			&hpc.Job{ID: "e", Submit: at(4)},
		),
		NodeEvents:   []hpc.NodeEvent{{At: at(1), Nodes: "n4", State: "drain", Reason: "disk"}},
		Reservations: []hpc.ReservationEvent{{At: at(2), Action: "create", Reservation: hpc.Reservation{Name: "r", Start: at(3), Duration: time.Hour, Nodes: "n1"}}},
	}
	r, err := FromWorkload(w)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := r.Jobs()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]*Row{}
	for i := range rows {
		got[rows[i].Job+map[bool]string{true: "_4"}[rows[i].Task == 4]] = &rows[i]
	}
	if a := got["a"]; a.Start != at(5) || a.End != at(9) || a.State != hpc.Failed || a.NodeCount != 3 || a.Processors != 3 || a.TimeLimit != time.Hour || a.Request == "" {
		t.Errorf("a: %+v", a)
	}
	if b := got["b"]; b.Start != 0 || b.End != at(7) || b.State != hpc.Cancelled {
		t.Errorf("b: %+v", b)
	}
	if c := got["c"]; c.State != hpc.Rejected {
		t.Errorf("c: %+v", c)
	}
	if d := got["d_4"]; d.Start != at(6) || d.End != at(8) || d.TimeLimit != hpc.Unlimited || d.State != hpc.TimedOut {
		t.Errorf("d_4: %+v", d)
	}
	if len(rows) != 5 {
		t.Errorf("%d rows, want 5", len(rows))
	}
	m := &r.Manifest
	m.derive() // as reading does
	var left []Warning
	for _, warning := range m.Warnings {
		if warning.Code == "running-left-out" {
			left = append(left, warning)
		}
	}
	if len(left) != 1 || left[0].Count != 53 {
		t.Errorf("warnings of jobs that are left out: %+v", left)
	}
	if !m.Valid || m.Engine != EngineRecorded || m.Jobs.Rejected != 1 || m.Cluster.Processors != 16 || m.VirtualEnd != at(9) {
		t.Errorf("manifest %+v", m)
	}
	codes := map[string]int{}
	for _, w := range m.Warnings {
		codes[w.Code] = w.Count
	}
	if codes["jobs-without-record"] != 1 || codes[LackPrefix+"qos"] != 1 || codes[LackPrefix+"reservations"] != 0 || codes[LackPrefix+"tasks"] != 0 || codes[LackPrefix+"users"] != 0 {
		t.Errorf("warnings %v", m.Warnings)
	}
	whole := hpc.Job{ID: "d", Submit: at(3), Request: hpc.Request{Array: "4-5"}, Recorded: &hpc.Recorded{Start: at(6), End: at(8)}}
	if list := lacks(&workload.Workload{Jobs: workload.JobsOf(&whole)}, "it"); !slices.ContainsFunc(list, func(w Warning) bool { return w.Code == LackPrefix+"tasks" }) {
		t.Errorf("warnings %v: want one of the tasks of an array", list)
	}
	admin, err := r.Administration()
	if err != nil || len(admin.NodeEvents) != 1 || len(admin.Reservations) != 1 || admin.Reservations[0].At != at(2) {
		t.Errorf("administration %+v, %v", admin, err)
	}
	if _, err := FromWorkload(&workload.Workload{Source: "x.jsonl", Jobs: workload.JobsOf(&hpc.Job{ID: "a"})}); err == nil || !strings.Contains(err.Error(), "x.jsonl as a run: no job has a recorded start") {
		t.Errorf("%v", err)
	}
}

// TestReasons checks that the reasons of a whole array apply to each of its waiting tasks.
func TestReasons(t *testing.T) {
	at := func(s int64) hpc.Time { return hpc.Unix(1_700_000_000 + s) }
	waiting := func(s int64, job string, task int, reason string) Event {
		return newEvent(&rm.Event{At: at(s), Kind: rm.Waiting, Job: job, Task: task, Reason: reason, Outcome: &rm.Outcome{Start: at(99), Priority: 7}})
	}
	r := NewReasons([]Event{waiting(10, "a", -1, "Priority"), waiting(20, "a", 3, "Resources"), waiting(25, "b", -1, "Priority"), waiting(50, "a", 3, "Priority")}, at(60))
	spans := r.Spans(&Row{Job: "a", Task: 3, Submit: at(0), Start: at(40)})
	want := []Span{
		{From: at(0), To: at(10)},
		{From: at(10), To: at(20), Reason: "Priority", Planned: at(99), Priority: 7},
		{From: at(20), To: at(40), Reason: "Resources", Planned: at(99), Priority: 7},
	}
	if diff := cmp.Diff(want, spans); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// The engine's own reservation keeps jobs from starting before the window.
	r.window = at(15)
	want = []Span{
		{From: at(0), To: at(15), Reason: BeforeWindow},
		{From: at(15), To: at(20), Reason: "Priority", Planned: at(99), Priority: 7},
		{From: at(20), To: at(40), Reason: "Resources", Planned: at(99), Priority: 7},
	}
	if diff := cmp.Diff(want, r.Spans(&Row{Job: "a", Task: 3, Submit: at(0), Start: at(40)})); diff != "" {
		t.Errorf("before a window (-want +got)\n%s", diff)
	}
	r.window = 0
	if list := r.Spans(&Row{Job: "a", Task: 1, Submit: at(0), Start: at(40)}); len(list) != 2 || list[1].Reason != "Priority" || list[1].Planned != at(99) {
		t.Errorf("task 1: %+v", list)
	}
	if list := r.Spans(&Row{Job: "x", Task: -1, Submit: at(5), Start: at(5)}); len(list) != 0 {
		t.Errorf("a job that did not wait: %+v", list)
	}
}

// TestInService checks that spans say whether the nodes that a reason calls unavailable were in service.
func TestInService(t *testing.T) {
	at := func(s int64) hpc.Time { return hpc.Unix(1_700_000_000 + s) }
	waiting := Event{At: at(10), Kind: rm.Waiting, Job: "a", Task: -1, Reason: "ReqNodeNotAvail: UnavailableNodes:n1"}
	down := Event{At: at(5), Kind: rm.NodeState, Reason: "n1 down: disk"}
	row := Row{Job: "a", Task: -1, Submit: at(10), Start: at(40), Nodes: "n1"}
	for _, events := range [][]Event{{waiting}, {down, waiting}} {
		if list := NewReasons(events, at(50)).Spans(&row); len(list) != 1 || list[0].InService != (len(events) == 1) {
			t.Errorf("%d events: %+v", len(events), list)
		}
	}
	row.Start = 0
	if list := NewReasons([]Event{waiting}, at(50)).Spans(&row); len(list) != 1 || list[0].InService {
		t.Errorf("a job that never started: %+v", list)
	}
}

// TestReasonsAfterRequeue checks that earlier reasons end with a requeue. The reason is then
// BeginTime until the job is eligible again, if the record has this time, and until the resource
// manager reports another reason.
func TestReasonsAfterRequeue(t *testing.T) {
	at := func(s int64) hpc.Time { return hpc.Unix(1_700_000_000 + s) }
	waiting := func(s int64, task int, reason string) Event {
		return Event{At: at(s), Kind: rm.Waiting, Job: "a", Task: task, Reason: reason, Start: at(99)}
	}
	row := Row{Job: "a", Submit: at(0), Start: at(90), Eligible: at(70), Segments: []Segment{
		{Start: at(10), End: at(20), EndedBy: rm.Requeue}, {Start: at(30), Eligible: at(25), End: at(35), EndedBy: rm.Suspend},
		{Start: at(38), End: at(40), EndedBy: rm.Requeue}, {Start: at(50), End: at(60), EndedBy: rm.Requeue}, {Start: at(90)},
	}}
	want := []Span{
		{From: at(0), To: at(5)},
		{From: at(5), To: at(20), Reason: "Dependency", Planned: at(99)},
		{From: at(20), To: at(27), Reason: "BeginTime"},
		{From: at(27), To: at(40), Reason: "Priority", Planned: at(99)},
		{From: at(40), To: at(60)}, // when the job was eligible is not known
		{From: at(60), To: at(80), Reason: "BeginTime"},
		{From: at(80), To: at(90), Reason: "Resources", Planned: at(99)},
	}
	events := func(task int) []Event {
		begins := waiting(24, task, "BeginTime")
		begins.Start = 0
		return []Event{waiting(5, task, "Dependency"), begins, waiting(27, task, "Priority"), waiting(80, task, "Resources")}
	}
	for _, row.Task = range []int{-1, 3} {
		if diff := cmp.Diff(want, NewReasons(events(row.Task), at(100)).Spans(&row)); diff != "" {
			t.Errorf("task %d (-want +got)\n%s", row.Task, diff)
		}
	}
	// The array's reasons no longer apply to a task that has run.
	list := NewReasons(events(-1), at(100)).Spans(&row)
	if len(list) != 5 || list[1].Reason != "Dependency" || list[2].Reason != "BeginTime" || list[4].To != at(90) {
		t.Errorf("of its array: %+v", list)
	}
}

// TestLimitOfDividedArray checks that tasks of an array that are other jobs of a recorded workload count for its limit:
// tasks that ran when the window began, and parts of the array. A job of another user with such an ID does not count.
// Neither do they count in a simulation, where each job has the limit, or if all of them together did not keep the limit.
func TestLimitOfDividedArray(t *testing.T) {
	at := func(s int64) hpc.Time { return hpc.Unix(1_700_000_000 + s) }
	task := func(id, user string, start, end int64) *hpc.Job {
		return &hpc.Job{ID: id, Submit: at(0), Request: hpc.Request{User: user},
			Recorded: &hpc.Recorded{Eligible: at(0), Start: at(start), End: at(end)}}
	}
	array := func(id, tasks string, number int, start, end int64) *hpc.Job {
		return &hpc.Job{ID: id, Submit: at(0), Request: hpc.Request{User: "ann", Array: tasks}, Recorded: &hpc.Recorded{
			TaskEligible: map[int]hpc.Time{number: at(start)}, Start: at(start),
			TaskStarts: map[int]hpc.Time{number: at(start)}, TaskEnds: map[int]hpc.Time{number: at(end)},
		}}
	}
	limit := func(from, to int64) Span { return Span{From: at(from), To: at(to), Reason: AtArrayLimit} }
	for _, test := range []struct {
		name   string
		jobs   []*hpc.Job
		job    string
		engine string
		want   []Span
	}{
		{"running", []*hpc.Job{task("7_1", "ann", 5, 40), task("7_2", "ann", 6, 50), array("7", "3%2", 3, 43, 60)}, "7",
			EngineRecorded, []Span{{From: at(0), To: at(6), Reason: BeforeWindow}, limit(6, 40)}},
		{"of another user", []*hpc.Job{task("7_1", "bob", 5, 40), task("7_2", "ann", 6, 50), array("7", "3%2", 3, 43, 60)},
			"7", EngineRecorded, []Span{{From: at(0), To: at(10), Reason: BeforeWindow}}},
		{"above the limit", []*hpc.Job{task("7_1", "ann", 5, 40), task("7_2", "ann", 6, 50), array("7", "3%2", 3, 20, 60)},
			"7", EngineRecorded, []Span{{From: at(0), To: at(10), Reason: BeforeWindow}}},
		{"twice", []*hpc.Job{task("7_3", "ann", 5, 40), task("7_2", "ann", 6, 50), array("7", "3%2", 3, 43, 60)},
			"7", EngineRecorded, []Span{{From: at(0), To: at(10), Reason: BeforeWindow}}},
		{"parts", []*hpc.Job{array("7", "1%2", 1, 5, 40), task("7#2_2", "ann", 6, 50), array("7#3", "3%2", 3, 43, 60)},
			"7#3", EngineRecorded, []Span{{From: at(0), To: at(6), Reason: BeforeWindow}, limit(6, 40)}},
		{"simulation", []*hpc.Job{task("7_1", "ann", 5, 40), task("7_2", "ann", 6, 50), array("7", "3%2", 3, 43, 60)},
			"7", "sim", []Span{{From: at(0), To: at(10), Reason: BeforeWindow}}},
	} {
		r, err := FromWorkload(&workload.Workload{Epoch: at(0), Start: at(10), Jobs: workload.JobsOf(test.jobs...)})
		if err != nil {
			t.Fatal(err)
		}
		r.Manifest.Engine = test.engine
		rows, err := r.Histories()
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(rows, func(row Row) bool { return row.Job == test.job })
		if diff := cmp.Diff(test.want, rows[i].Reasons); diff != "" {
			t.Errorf("%s (-want +got)\n%s", test.name, diff)
		}
	}
}
