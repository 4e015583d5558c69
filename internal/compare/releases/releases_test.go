package releases

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec"
)

// row returns the row of a job with a request.
func row(id string, number uint32, request hpc.Request) run.Row {
	return run.Row{
		Job: id, Task: -1, RMJob: number, Submit: hpc.Unix(1_700_000_000),
		Request: string(run.EncodeJob(&hpc.Job{ID: id, Request: request})),
	}
}

func side(version string, rows []run.Row, changes ...run.Change) Side {
	m := &run.Manifest{}
	m.Versions.Slurm, m.Cluster.Changes = version, changes
	return Side{Manifest: m, Rows: rows}
}

func TestOneRelease(t *testing.T) {
	for _, versions := range [][2]string{{"24.11.5", "24.11.5"}, {"", "24.11.5"}, {"24.11.5", "a build"}} {
		if d := Between(side(versions[0], nil), side(versions[1], nil)); d != nil {
			t.Errorf("%q and %q differ: %+v", versions[0], versions[1], d)
		}
	}
	if d := Between(side("24.11.4", nil), side("24.11.5", nil)); d == nil || len(d.Known) != 0 {
		t.Errorf("two patches: %+v", d)
	}
}

// TestSubmissions: sbatch derives a number of nodes since 23.11.2. Jobs that give a number of nodes,
// or that need a single node in any case, are submitted alike.
func TestSubmissions(t *testing.T) {
	rows := []run.Row{
		row("narrow", 1, hpc.Request{Tasks: 4, TasksPerNode: 4}),
		row("wide", 2, hpc.Request{Tasks: 10, TasksPerNode: 4}),
		row("given", 3, hpc.Request{Tasks: 8, TasksPerNode: 4, MinNodes: 2, MaxNodes: 2}),
		row("free", 4, hpc.Request{Tasks: 8}),
		{Job: "array", Task: 2}, // a later task: the first row has the request
		row("wider", 5, hpc.Request{Tasks: 64, TasksPerNode: 4}),
	}
	d := Between(side("22.05.8", rows), side("24.11.5", rows))
	s := d.Submissions
	if want := []Field{{"minimum of nodes", 2, "wide", "1", "3"}}; s.Compared != 5 || s.Different != 2 || !cmp.Equal(s.Fields, want) {
		t.Errorf("submissions %+v, want 2 of 5 with %+v", s, want)
	}
	if got, want := s.Difference("wide"), "minimum of nodes 3 instead of 1"; got != want {
		t.Errorf("of wide: %q, want %q", got, want)
	}
	if got := s.Difference("given"); got != "" {
		t.Errorf("of given: %q", got)
	}
	if newer := Between(side("24.11.5", rows), side("26.05.5", rows)); newer.Submissions.Different != 0 {
		t.Errorf("between 24.11 and 26.05: %+v", newer.Submissions)
	}
}

// A submission that sbatch refuses is a difference only if one release's sbatch refuses it.
func TestRefusedSubmission(t *testing.T) {
	rows := []run.Row{row("x", 1, hpc.Request{Tasks: 1, MemPerNode: 1, MemPerCPU: 1})}
	if s := Between(side("22.05.8", rows), side("24.11.5", rows)).Submissions; s.Different != 0 {
		t.Errorf("submissions %+v", s)
	}
	var s Submissions
	s.byJob = map[string]string{}
	values := make([]string, len(fields))
	s.add("x", values, []string{"no such option"})
	if len(s.Fields) != 1 || s.Fields[0].Baseline != "accepted" || s.Fields[0].Set != "no such option" {
		t.Errorf("fields %+v", s.Fields)
	}
}

func TestConfiguration(t *testing.T) {
	port := func(to string) run.Change { return run.Change{Key: "SlurmctldPort", To: to, Reason: "a free port"} }
	selects := func(to, reason string) run.Change { return run.Change{Key: "SelectType", To: to, Reason: reason} }
	a := side("22.05.8", nil, port("1"), selects("select/linear", "the default before"),
		run.Change{Key: "FrontendName", From: "x", Reason: "22.05 has none"})
	b := side("24.11.5", nil, port("2"), selects("select/cons_tres", "the default since"),
		run.Change{Key: "FrontendName", From: "x", Reason: "24.11 has none"},
		run.Change{Key: "PowerPlugin", From: "power/none", Reason: "ignored"})
	a.Manifest.Warnings = []run.Warning{{Code: "both", Text: "1 job"}}
	b.Manifest.Warnings = []run.Warning{{Code: "both", Text: "2 jobs"}, {Code: "new", Text: "only here"}}
	d := Between(a, b)
	want := []Key{
		{"SelectType", "select/linear", "select/cons_tres", "the default before; the default since",
			"select/linear gives jobs whole nodes; select/cons_tres gives them cores, memory and GPUs"},
		{"PowerPlugin", "power/none", "", "ignored", ""},
	}
	if diff := cmp.Diff(want, d.Configuration); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Warning{{true, "new", "only here"}}, d.Warnings); diff != "" {
		t.Error(diff)
	}
}

const log2205 = `[2024-01-01T00:00:00.000] _slurm_rpc_submit_batch_job: JobId=1001 InitPrio=1070000 usec=0
[2024-01-01T00:00:00.000] _slurm_rpc_submit_batch_job: JobId=1002 InitPrio=5 usec=0
[2024-01-01T00:00:00.914] sched/backfill: _start_job: Started JobId=1001 in normal on b1
[2024-01-01T00:00:49.914] sched: Allocate JobId=1002_7(1003) NodeList=n1 #CPUs=1 Partition=normal
[2024-01-01T00:00:50.914] sched: Allocate JobId=1001 NodeList=n1 #CPUs=1 Partition=normal
[2024-01-01T00:00:51.000] sched: Allocate JobId= NodeList=n1
[2024-01-01T00:00:51.000] sched: Allocate JobId=99999999999 NodeList=n1
[2024-01-01T00:00:52.000] _slurm_rpc_submit_batch_job: JobId=1004 usec=0
[2024-01-01T00:00:52.000] a user wrote sched: Allocate JobId=1005 NodeList=n1
`

func readLog(t *testing.T, text, release string) *Log {
	t.Helper()
	r, err := slurmspec.ParseRelease(release)
	if err != nil {
		t.Fatal(err)
	}
	log, err := ReadLog(strings.NewReader(text), r)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// second returns an instant of log2205.
func second(s float64) hpc.Time {
	return hpc.Time(time.Date(2024, 1, 1, 0, 0, 0, int(s*1e9), time.UTC).UnixNano())
}

func TestLog(t *testing.T) {
	log := readLog(t, log2205, "22.05.8")
	if diff := cmp.Diff(map[uint32][]Start{1001: {{second(0.914), Backfill}, {second(50.914), Main}}, 1003: {{second(49.914), Main}}}, log.Starts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[uint32]uint32{1001: 1070000, 1002: 5}, log.Priorities); diff != "" {
		t.Error(diff)
	}
	// The rest of a long line is not a line of its own.
	const date = "[2024-01-01T00:00:00.000] sched: Allocate JobId="
	long := date + "1 NodeList=" + strings.Repeat("n", maxLine) + "] sched: Allocate JobId=2 \n" + date + "3 "
	first := []Start{{second(0), Main}}
	if diff := cmp.Diff(map[uint32][]Start{1: first, 3: first}, readLog(t, long, "22.05").Starts); diff != "" {
		t.Error(diff)
	}
}

// 26.05 does not log which jobs backfill starts. A log at a lower level does not name schedulers.
func TestStarted(t *testing.T) {
	submit := hpc.Unix(1_700_000_000)
	at := func(number uint32, wait time.Duration) *run.Row {
		return &run.Row{RMJob: number, Submit: submit, Start: submit.Add(wait)}
	}
	const log2605 = "[x] _slurm_rpc_submit_batch_job: JobId=1 SLUID=s04 InitPrio=7 usec=0\n" +
		"[2024-01-01T00:00:50.914] sched: Allocate JobId=1 NodeList=n1\n"
	for _, test := range []struct {
		name string
		log  *Log
		row  *run.Row
		want Scheduler
	}{
		{"logged", readLog(t, log2605, "26.05.5"), at(1, time.Hour), Main},
		{"not logged", readLog(t, log2605, "26.05.5"), at(2, time.Hour), Backfill},
		{"at its submission", readLog(t, log2605, "26.05.5"), at(2, time.Second), ""},
		{"requeued", readLog(t, log2605, "26.05.5"), &run.Row{RMJob: 2, Submit: submit, Resubmit: submit.Add(time.Hour), Start: submit.Add(time.Hour)}, ""},
		{"not started", readLog(t, log2605, "26.05.5"), &run.Row{RMJob: 2, Submit: submit}, ""},
		{"errors only", readLog(t, "", "26.05.5"), at(2, time.Hour), ""},
		{"older", readLog(t, log2205, "24.11.5"), at(2, time.Hour), ""},
		{"no log", nil, at(1, time.Hour), ""},
	} {
		if got := test.log.Started(test.row, 0); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// A requeued job has a scheduler and a priority for each of its runs.
func TestStartedAgain(t *testing.T) {
	lost := &run.Row{RMJob: 1001, Submit: second(0), Resubmit: second(30), Start: second(50), Priority: 9, Segments: []run.Segment{
		{Start: second(0.914), End: second(30), EndedBy: rm.Requeue}, {Start: second(50)},
	}}
	log := readLog(t, log2205, "22.05.8")
	for number, want := range []struct {
		by       Scheduler
		priority uint32
	}{{Backfill, 1070000}, {Main, 9}, {"", 9}} {
		if by, priority := log.Started(lost, number), log.Priority(lost, number); by != want.by || priority != want.priority {
			t.Errorf("run %d: %q, priority %d, want %v", number, by, priority, want)
		}
	}
	lost.Submit = second(-60) // the job waited before its first run, so the log does not have its priority then
	if got := log.Priority(lost, 0); got != 0 {
		t.Errorf("priority %d, want it unknown", got)
	}
	log = readLog(t, strings.ReplaceAll(log2205, "_start_job", "_start"), "26.05.5") // the main scheduler's starts only
	if got := log.Started(lost, 0); got != Backfill {
		t.Errorf("26.05: run 0: %q", got)
	}
}

// The priorities of jobs are compared by the workload's names: Slurm may number jobs differently.
func TestPriorities(t *testing.T) {
	a, b := side("22.05.8", nil), side("24.11.5", nil)
	a.Rows = []run.Row{row("x", 1001, hpc.Request{}), row("y", 1002, hpc.Request{}), {Job: "y", Task: 2, RMJob: 1003}, row("z", 1004, hpc.Request{})}
	b.Rows = []run.Row{row("y", 1, hpc.Request{}), row("x", 2, hpc.Request{})}
	a.Log = readLog(t, log2205, "22.05.8")
	b.Log = readLog(t, strings.NewReplacer("1001", "2", "1002", "1", "InitPrio=5 ", "InitPrio=6 ").Replace(log2205), "24.11.5")
	want := Priorities{Compared: 2, Different: 1, First: "y", At: a.Rows[1].Submit, Baseline: 5, Set: 6}
	if diff := cmp.Diff(want, Between(a, b).Priorities, cmpopts.IgnoreUnexported(want)); diff != "" {
		t.Error(diff)
	}
	a.Log = nil
	if got := Between(a, b).Priorities; got.Compared != 0 {
		t.Errorf("without a log %+v", got)
	}
}

func FuzzReadLog(f *testing.F) {
	f.Add(log2205)
	f.Add("[2024-01-01T00:00:00.000] sched: Allocate JobId=1_2(")
	f.Fuzz(func(t *testing.T, text string) {
		log := readLog(t, text, "26.05.5")
		if lines := strings.Count(text, "\n") + 1; len(log.Starts)+len(log.Priorities) > lines {
			t.Errorf("%d lines have %d facts", lines, len(log.Starts)+len(log.Priorities))
		}
	})
}
