package compare

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// played writes the record of a run in which each job starts ten minutes after its submission.
func played(t *testing.T, w *workload.Workload) *run.Set {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	writer, err := run.Create(dir, run.Manifest{Engine: "sim", VirtualStart: monday}, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	err = writer.Setting(w)
	for _, j := range w.Jobs.All() {
		o := &rm.Outcome{State: hpc.Completed, Submit: j.Submit, Start: j.Submit.Add(10 * time.Minute), End: j.Submit.Add(time.Hour), NodeCount: 1, Processors: 1}
		err = errors.Join(err, writer.Job(j),
			writer.Event(rm.Event{At: j.Submit, Kind: rm.Accepted, Job: j.ID, Task: -1}),
			writer.Event(rm.Event{At: o.Start, Kind: rm.Started, Job: j.ID, Task: -1, Outcome: o}),
			writer.Event(rm.Event{At: o.End, Kind: rm.Ended, Job: j.ID, Task: -1, Outcome: o}))
	}
	if err := errors.Join(err, writer.Finish(run.StateComplete, func(*run.Manifest) {})); err != nil {
		t.Fatal(err)
	}
	r, err := run.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return &run.Set{Dir: dir, Runs: []*run.Run{r}}
}

// A replay lacks what its own workload lacks, not what the record beside it lacks.
func TestLacksOfReplay(t *testing.T) {
	recorded := func(request hpc.Request) *run.Set {
		j := &hpc.Job{ID: "1", Submit: monday, Request: request}
		j.Recorded = &hpc.Recorded{Start: monday.Add(5 * time.Hour), End: monday.Add(6 * time.Hour), State: hpc.Completed}
		r, err := run.FromWorkload(&workload.Workload{Epoch: monday, Jobs: workload.JobsOf(j)})
		if err != nil {
			t.Fatal(err)
		}
		return &run.Set{Dir: "record", Runs: []*run.Run{r}}
	}
	replay := func(request hpc.Request, events ...hpc.NodeEvent) *run.Set {
		return played(t, &workload.Workload{Epoch: monday, NodeEvents: events, Jobs: workload.JobsOf(&hpc.Job{ID: "1", Submit: monday, Request: request})})
	}
	const features, qos, outages = "records no features", "records no QOS", "records no node outages"
	for name, test := range map[string]struct {
		a, b       *run.Set
		said, left []string
	}{
		"record and replay lack features": {recorded(hpc.Request{}), replay(hpc.Request{}), []string{features, qos, outages}, nil},
		"the record lacks":                {recorded(hpc.Request{}), replay(hpc.Request{Constraint: "big"}), []string{qos, outages}, []string{features}},
		"the replay lacks":                {recorded(hpc.Request{Constraint: "big"}), replay(hpc.Request{QOS: "low"}), []string{features, outages}, []string{qos}},
		"of the machine": {recorded(hpc.Request{}), replay(hpc.Request{}, hpc.NodeEvent{At: monday, Nodes: "n1", State: "down"}),
			[]string{features, qos}, []string{outages}},
		"the replay first": {replay(hpc.Request{Constraint: "big"}), recorded(hpc.Request{}), []string{qos, outages}, []string{features}},
	} {
		for _, load := range []func(*run.Set) (Set, error){Load, unread} {
			var sets []Set
			for _, s := range []*run.Set{test.a, test.b} {
				set, err := load(s)
				if err != nil {
					t.Fatal(err)
				}
				sets = append(sets, set)
			}
			v := mustCompare(t, Options{}, sets...).Pairs[0].Recorded
			if v == nil {
				t.Fatalf("%s: no verdict", name)
			}
			hints := strings.Join(v.LookAt, "\n")
			for _, text := range test.said {
				if !strings.Contains(hints, "the replayed workload "+text) {
					t.Errorf("%s: no %q in\n%s", name, text, hints)
				}
			}
			for _, text := range test.left {
				if strings.Contains(hints, text) {
					t.Errorf("%s: %q in\n%s", name, text, hints)
				}
			}
		}
	}
	gone := replay(hpc.Request{})
	sets := make([]Set, 2)
	for i, s := range []*run.Set{recorded(hpc.Request{}), gone} {
		var err error
		if sets[i], err = Load(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(gone.Dir, "jobs.parquet")); err != nil {
		t.Fatal(err)
	}
	if _, err := Compare(sets, Options{}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), gone.Dir) {
		t.Errorf("without the jobs of the replay: %v", err)
	}
}

// The verdict says what became of the jobs that did not start in the replay.
func TestNotStarted(t *testing.T) {
	record := single("record", job("x", 0, 10, 9, "n1"), job("refused", 1, 20, 9, "n1"), job("gone", 2, 30, 9, "n1"),
		job("gone2", 2, 30, 9, "n1"), job("depends", 3, 40, 9, "n1"), job("waits", 4, 50, 9, "n1"), job("met", 4, 50, 9, "n1"), job("absent", 5, 60, 9, "n1"))
	record.Runs[0].Manifest.Engine = run.EngineRecorded
	pending := func(id string, change func(*run.Row)) run.Row {
		row := job(id, 5, -1, 0, "")
		change(&row)
		return row
	}
	cancelled := func(r *run.Row) { r.State, r.End = hpc.Cancelled, monday.Add(100*time.Second) }
	replay := single("replay", job("x", 0, 1000, 9, "n1"), pending("refused", func(r *run.Row) { r.State = hpc.Rejected }),
		pending("gone", cancelled), pending("gone2", cancelled),
		pending("depends", func(r *run.Row) { r.AskedDependency, r.Eligible = true, 0 }), pending("waits", func(*run.Row) {}),
		pending("met", func(r *run.Row) { r.AskedDependency, r.Eligible = true, r.Submit }))
	v := mustCompare(t, Options{}, record, replay).Pairs[0].Recorded
	// Jobs that the replay rejects or lacks do not make others wait longer.
	const longer = "5 jobs ran in production but not in the replay: 2 were cancelled while waiting, 1 was not eligible " +
		"to the end, because a dependency was never satisfied, 2 were still waiting when the replay ended"
	if !slices.Contains(v.LookAt, longer) {
		t.Errorf("want %q in\n%s", longer, strings.Join(v.LookAt, "\n"))
	}
	record.Runs[0].Rows[0].Start = replay.Runs[0].Rows[0].Start.Add(time.Hour)
	v = mustCompare(t, Options{}, record, replay).Pairs[0].Recorded
	const shorter = "7 jobs ran in production but not in the replay: 1 was rejected, 2 were cancelled while waiting, 1 was not eligible " +
		"to the end, because a dependency was never satisfied, 2 were still waiting when the replay ended, 1 was not submitted"
	if !slices.Contains(v.LookAt, shorter) {
		t.Errorf("want %q in\n%s", shorter, strings.Join(v.LookAt, "\n"))
	}
}

// TestSmallerMachine: two jobs of three processors each ran at the same time in the record. On a machine of four, one
// waits for the other, so this is the first cause. An empty machine or free nodes cannot make jobs wait longer.
func TestSmallerMachine(t *testing.T) {
	three := func(id string, start int) run.Row {
		row := job(id, 0, start, 600, "n1")
		row.Processors, row.Partition, row.NodeCount = 3, "batch", 1
		return row
	}
	const first = "in the record, jobs held up to 6 processors at once, but the machine of the replay has 4"
	for _, processors := range []int{0, 4, 6} {
		record, replay := single("record", three("a", 70), three("b", 70)), single("replay", three("a", 70), three("b", 600))
		record.Runs[0].Manifest.Engine = run.EngineRecorded
		record.Runs[0].Manifest.Warnings = []run.Warning{{Code: run.LackPrefix + "window", Text: "no window"}, {Code: run.LackPrefix + "time-limits", Text: "no limits"}}
		record.Runs[0].Manifest.Workload.Rules = map[string]int{workload.RuleLeftRunning: 3}
		replay.Runs[0].Manifest.Cluster = run.Cluster{Processors: processors, Partitions: []run.Partition{{Name: "batch", Nodes: 9}}}
		v := mustCompare(t, Options{}, record, replay).Pairs[0].Recorded
		text := strings.Join(v.LookAt, "\n")
		if (v.LookAt[0] == first) != (processors == 4) || strings.Contains(text, first) != (processors == 4) || !strings.Contains(text, "no limits") ||
			strings.Contains(text, "no window") || strings.Contains(text, "left out") || strings.Contains(text, "were free during") {
			t.Errorf("%d processors: %q", processors, v.LookAt)
		}
	}
}

// TestLaterSubmissions: a window lacks the jobs that were submitted after it. If jobs waited for those in production,
// this is the first cause of the verdict, before fields that the workload does not record.
func TestLaterSubmissions(t *testing.T) {
	early, last := job("early", 0, 3600, 60, "n1"), job("last", 7200, 7200, 60, "n1")
	waits := func(id string, start int) run.Row { return job(id, 600, start, 60, "n1") }
	for name, test := range map[string]struct {
		recorded, replayed []run.Row
		first              string // how the first cause begins
	}{
		"no window": {[]run.Row{early, waits("a", 20000), last}, []run.Row{early, waits("a", 700), last}, "records no users"},
		"one job": {[]run.Row{early, waits("a", 20000), last}, []run.Row{early, waits("a", 700), last},
			"1 job waited longer in production and still waited there when the window ends, perhaps for later submissions, which the workload lacks: 100.0% of the difference"},
		"a half": {[]run.Row{early, waits("a", 20000), waits("b", 30000), waits("c", 7000), waits("as long", 20000), last},
			[]run.Row{early, waits("a", 18000), waits("b", 28000), waits("c", 3000), waits("as long", 20000), last},
			"2 jobs waited longer in production and still waited there when the window ends"},
		"a small part":         {[]run.Row{waits("a", 7300), waits("b", 7000), last}, []run.Row{waits("a", 7200), waits("b", 700), last}, "records no users"},
		"longer in the replay": {[]run.Row{early, waits("a", 20000), last}, []run.Row{early, waits("a", 30000), last}, "records no users"},
		"before the end":       {[]run.Row{early, waits("a", 7000), last}, []run.Row{early, waits("a", 700), last}, "records no users"},
	} {
		lack := run.Warning{Code: run.LackPrefix + "users", Text: "records no users", Count: 1}
		usage := run.Warning{Code: run.LackPrefix + "usage", Text: "records no users", Count: 1}
		record := single("record", test.recorded...)
		record.Runs[0].Manifest.Engine, record.Runs[0].Manifest.Warnings = run.EngineRecorded, []run.Warning{lack, usage}
		replay := single("replay", test.replayed...)
		replay.Runs[0].Manifest.Engine = "slurm"
		if name != "no window" {
			replay.Runs[0].Manifest.WindowStart = monday
		}
		v := mustCompare(t, Options{}, record, replay).Pairs[0].Recorded
		if v == nil || len(v.LookAt) == 0 || !strings.HasPrefix(v.LookAt[0], test.first) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// A group is named if its share in the difference differs from its share in the jobs.
func TestGroupsOfTheDifference(t *testing.T) {
	var jobs []judged
	for i := range 100 {
		r := job("x", 0, 10, 10, "n1")
		if i < 2 {
			r.State = hpc.Failed
		}
		if r.Partition = "small"; i%4 == 0 {
			r.Partition = "large"
		}
		jobs = append(jobs, judged{row: &r, waited: map[string]float64{"small": 1, "large": 300}[r.Partition]})
	}
	if list := groupsOf(jobs); len(list) != 1 || list[0].By != "partition" || list[0].Name != "large" {
		t.Errorf("%+v, want the partition large, and no state", list)
	}
}
