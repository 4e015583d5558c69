package metrics

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
	"rmreplay/internal/workload"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// handSummary is the summary of a run with the schedule of handRows.
func handSummary() *Summary {
	rows := handRows()
	for i, who := range []struct{ partition, user string }{
		{"big", "ann"}, {"small", "ann"}, {"big", "bob"}, {"small", "bob"}, {"small", "ann"}, {"big", "bob"}, {"", "eve"},
	} {
		rows[i].Partition, rows[i].User = who.partition, who.user
		rows[i].Account, rows[i].QOS = "physics", "normal"
	}
	m := run.Manifest{
		Engine: "sim", Policy: "easy", Seed: 7, State: run.StateInterrupted, Valid: true,
		Cluster: run.Cluster{
			Nodes: 4, Processors: 8,
			Partitions: []run.Partition{{Name: "big", Nodes: 4, Processors: 8}, {Name: "small", Nodes: 1, Processors: 2}},
		},
		Jobs:           run.Counts{NotSubmitted: 3},
		VirtualSeconds: 93784, WallSeconds: 2.5, Speedup: 93784 / 2.5,
		Warnings: []run.Warning{
			{Code: "slow", Text: "the machine was busy", Count: 1},
			{Code: "node", Text: "a node has no partition", AffectsResult: true, Count: 12},
			{Code: "jobs", Text: "18 jobs ran when the window began", Count: 18},
		},
	}
	return NewSummary(rows, &m, Options{}, ByPartition, BySize)
}

// golden compares got with a file in testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s: -want +got:\n%s", name, diff)
	}
}

func TestRenderGolden(t *testing.T) {
	driven := handSummary()
	driven.Driven = true
	for name, s := range map[string]*Summary{
		"summary.txt": handSummary(),
		"driven.txt":  driven,
		"empty.txt":   NewSummary(nil, &run.Manifest{Engine: "slurm", State: run.StateFailed}, Options{}, ByUser),
	} {
		var b bytes.Buffer
		if err := s.Render(&b, time.UTC); err != nil {
			t.Fatal(err)
		}
		golden(t, name, b.Bytes())
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 100 {
				t.Errorf("%s: a line of %d columns: %s", name, n, line)
			}
		}
	}
}

// TestRenderUnknownSize: without the size of the machine, the text says why the utilization is unknown, and what to do.
func TestRenderUnknownSize(t *testing.T) {
	const reason = "the size of the machine is not known"
	for _, known := range []bool{true, false} {
		s := handSummary()
		if s.MakespanSeconds = 60; !known {
			s.Utilization = Float(math.NaN())
		}
		var b bytes.Buffer
		if err := s.Render(&b, time.UTC); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), reason) == known || strings.Contains(b.String(), "machine_processors") == known {
			t.Errorf("size known %t:\n%s", known, b.String())
		}
	}
}

// The parts of a group's waits are in the order of their size, also the unknown part, and add up to all waits. A line
// counts the parts that it does not name.
func TestGroupParts(t *testing.T) {
	list := []WaitPart{{Part: waits.OwnLimit, Share: 0.562}, {Part: waits.Dependency, Share: 0.154}, {Part: waits.BeginTime, Share: 0.116}, {Part: waits.Resources, Share: 0.079}, {Part: waits.Priority, Share: 0.076}, {Part: waits.Unknown, Share: 0.013}}
	for n, want := range map[int]string{
		6: "own limit 56.2%, dependency 15.4%, begin time 11.6%, 3 others 16.8%\n",
		4: "own limit 56.2%, dependency 15.4%, begin time 11.6%, resources 7.9%\n", 0: "   -\n",
	} {
		var b bytes.Buffer
		if renderGroupParts(&b, []Group{{Name: "batch", Metrics: Metrics{WaitParts: list[:n]}}}); !strings.HasSuffix(b.String(), want) {
			t.Errorf("of %d parts:\n%s, want %s", n, b.String(), want)
		}
	}
}

// TestLeftRunning: the record of a window without some of the jobs that ran at its begin has only lower bounds of the
// machine's use. A run of such a workload had no such jobs.
func TestLeftRunning(t *testing.T) {
	for engine, want := range map[string]string{run.EngineRecorded: "7 jobs with 40 processors", "sim": ""} {
		m := run.Manifest{Engine: engine, Cluster: run.Cluster{Nodes: 4, Processors: 8}}
		m.Workload.Rules = map[string]int{workload.RuleLeftRunning: 7, workload.RuleLeftProcessors: 40}
		s, b := NewSummary(handRows(), &m, Options{}), bytes.Buffer{}
		if err := s.Render(&b, time.UTC); err != nil {
			t.Fatal(err)
		}
		if says := strings.Contains(b.String(), "or more: without 7 jobs with 40 processors that ran"); s.LeftRunning != want || says != (want != "") {
			t.Errorf("%s: %q, want %q, in\n%s", engine, s.LeftRunning, want, b.String())
		}
	}
}

func TestRenderError(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("SKIPPED, rendering to a full disk is not tested here: %v", err)
	}
	defer full.Close()
	if err := handSummary().Render(full, time.UTC); err == nil {
		t.Error("a full disk is no error")
	}
}

func TestJSONGolden(t *testing.T) {
	data, err := json.MarshalIndent(handSummary(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "summary.json", append(data, '\n'))
}

// TestJSONContract: the keys that other programs rely on are at the top level of every
// summary. Numbers without a value are null.
func TestJSONContract(t *testing.T) {
	keys := strings.Fields(`jobs rejected jobs_by_state makespan_s utilization throughput_jobs mean_wait_s
		median_wait_s p90_wait_s max_wait_s mean_slowdown mean_bounded_slowdown virtual_s wall_s speedup
		engine seed valid warnings`)
	for name, s := range map[string]*Summary{
		"hand": handSummary(), "empty": NewSummary(nil, &run.Manifest{}, Options{}),
	} {
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var top map[string]any
		if err := json.Unmarshal(data, &top); err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			if value, ok := top[key]; !ok || name == "hand" && value == nil {
				t.Errorf("%s: %s is %v, present %v", name, key, value, ok)
			}
		}
		if name == "empty" && (top["mean_wait_s"] != nil || top["speedup"] != nil) {
			t.Errorf("empty: mean_wait_s is %v, speedup %v; want null", top["mean_wait_s"], top["speedup"])
		}
		if _, ok := top["warnings"].([]any); !ok {
			t.Errorf("%s: warnings is %v, want a list", name, top["warnings"])
		}
		var back Summary
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s, &back, approx); diff != "" {
			t.Errorf("%s, read back: -want +got:\n%s", name, diff)
		}
	}
}

func TestSizeClass(t *testing.T) {
	for processors, want := range map[int]string{
		-1: "", 0: "", 1: "1", 2: "2", 3: "3-4", 4: "3-4", 5: "5-8", 8: "5-8", 9: "9-16", 1024: "513-1024", 1025: "1025-2048",
	} {
		if got := sizeClass(processors); got.name != want {
			t.Errorf("%d processors are in class %q, want %q", processors, got.name, want)
		}
	}
}

// A job without processors belongs to the group of jobs that never started only if it never started.
func TestSizeOfNone(t *testing.T) {
	started := job(0, 10, 20, 1, 0)
	for row, want := range map[*run.Row]string{
		{State: hpc.Cancelled}: "(never started)", {State: hpc.Rejected}: "(never started)", &started: "",
	} {
		if got := GroupName(row, BySize); got != want {
			t.Errorf("%s job: group %q, want %q", row.State, got, want)
		}
	}
}

// TestGroups: groups divide the jobs, keep the interval of all jobs, and use the right
// capacity.
func TestGroups(t *testing.T) {
	opts := Options{Nodes: 4, Processors: 8}
	partitions := []run.Partition{{Name: "small", Nodes: 1, Processors: 2}}
	rows := handRows()
	for i := range rows {
		rows[i].Partition = []string{"big", "small"}[i%2]
		rows[i].User = []string{"u2", "u10", ""}[i%3]
	}
	all := Compute(rows, opts)
	for _, by := range Groupings {
		jobs, used, throughput := 0, Float(0), 0
		for _, g := range Groups(rows, by, opts, partitions) {
			jobs += g.Jobs + g.Rejected
			used += g.UsedProcessorSeconds
			throughput += g.Throughput
		}
		if jobs != len(rows) || used != all.UsedProcessorSeconds || throughput != all.Throughput {
			t.Errorf("by %s: %d jobs, %v processor seconds, %d ended; want %d, %v, %d",
				by, jobs, used, throughput, len(rows), all.UsedProcessorSeconds, all.Throughput)
		}
	}
	byPartition := Groups(rows, ByPartition, opts, partitions)
	// B 5×2, D 0, F 50×2 on 2 processors for 200 s.
	if small := byPartition[1]; small.Name != "small" || small.Utilization != 110.0/400 {
		t.Errorf("partition %q has utilization %v, want %v", small.Name, small.Utilization, 110.0/400)
	}
	// A 800, C 400 on the machine's 8, because the capacity of this partition is unknown.
	if big := byPartition[0]; big.Name != "big" || big.Utilization != 1200.0/1600 {
		t.Errorf("partition %q has utilization %v, want 0.75", big.Name, big.Utilization)
	}
	var sizes []string
	for _, g := range Groups(append(rows, job(0, 0, 1, 9, 100)), BySize, opts, nil) {
		sizes = append(sizes, g.Name)
	}
	if diff := cmp.Diff([]string{"(never started)", "2", "3-4", "5-8", "65-128"}, sizes); diff != "" {
		t.Errorf("sizes are not in their order: -want +got:\n%s", diff)
	}
}

// TestGroupsInterval: if one group has all jobs, its figures are those of all jobs, also for a workload with a
// window that begins before the first start, and for a job whose first run was lost.
func TestGroupsInterval(t *testing.T) {
	rows := handRows()
	lost := job(0, 30, 200, 250, 4)
	lost.Segments = []run.Segment{
		{Start: at(3), End: at(8), Processors: 4, EndedBy: rm.Requeue}, {Start: lost.Start, End: lost.End, Processors: 4},
	}
	for name, c := range map[string]struct {
		rows []run.Row
		opts Options
	}{
		"window":   {rows, Options{Nodes: 4, Processors: 8, Window: at(-500)}},
		"lost run": {[]run.Row{lost}, Options{Nodes: 4, Processors: 8}},
	} {
		for i := range c.rows {
			c.rows[i].Account = "physics"
		}
		groups := Groups(c.rows, ByAccount, c.opts, nil)
		all := Compute(c.rows, c.opts)
		bits := cmp.Comparer(func(a, b Float) bool { return a == b || a != a && b != b })
		if diff := cmp.Diff(all, groups[0].Metrics, bits); len(groups) != 1 || diff != "" {
			t.Errorf("%s: -all +group:\n%s", name, diff)
		}
	}
}

func TestParseBy(t *testing.T) {
	for _, by := range Groupings {
		if got, err := ParseBy(string(by)); err != nil || got != by {
			t.Errorf("ParseBy(%q) = %q, %v", by, got, err)
		}
	}
	const want = `"colour": jobs cannot be grouped by this (want partition, account, user, qos, size, state)`
	if _, err := ParseBy("colour"); err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

func TestFormats(t *testing.T) {
	for _, test := range []struct {
		got, want string
	}{
		{duration(50153), "13:55:53 (50153 s)"},
		{duration(0.25), "0.25 s"},
		{duration(nan()), "-"},
		{clock(0), "00:00:00"},
		{clock(86400 + 3661), "1-01:01:01"},
		{clock(-59.6), "-00:01:00"},
		{clock(1e300), "-"},
		{number(1234.56), "1234.6"},
		{number(12.345), "12.35"},
		{number(0.00123), "0.0012"},
		{number(4e12), "4e+12"},
		{number(7), "7"},
		{percent(0.9754), "97.5%"},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
}

// TestOf writes a record, reads it and summarizes it.
func TestOf(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w, err := run.Create(dir, run.Manifest{
		Engine: "sim", Seed: 3, VirtualStart: at(0), Started: start,
		Cluster: run.Cluster{Nodes: 1, Processors: 4}, Workload: run.Source{Jobs: 2},
	}, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	outcome := &rm.Outcome{State: hpc.Completed, Submit: at(0), Start: at(30), End: at(90), NodeCount: 1, Processors: 2}
	err = errors.Join(
		w.Job(&hpc.Job{ID: "1"}),
		w.Event(rm.Event{At: at(0), Kind: rm.Accepted, Job: "1", Task: -1}),
		w.Event(rm.Event{At: at(30), Kind: rm.Started, Job: "1", Task: -1, Outcome: outcome}),
		w.Event(rm.Event{At: at(90), Kind: rm.Ended, Job: "1", Task: -1, Outcome: outcome}),
		w.Finish(run.StateComplete, func(m *run.Manifest) { m.Finished = start.Add(time.Second) }),
	)
	if err != nil {
		t.Fatal(err)
	}
	r, err := run.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := FromRun(r, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Jobs != 1 || s.NotSubmitted != 1 || s.Wait.Mean != 30 || s.Slowdown.Mean != 1.5 || s.Utilization != 0.5 ||
		s.Speedup != 90 || !s.Valid || s.Seed != 3 || s.State != run.StateComplete {
		t.Errorf("the summary is %+v", s)
	}
	if err := os.Remove(filepath.Join(dir, "jobs.parquet")); err != nil {
		t.Fatal(err)
	}
	if _, err := FromRun(r, Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without jobs.parquet: %v", err)
	}
}

// TestDigitsOfNumbers checks that no number in JSON has more than twelve digits, and that these digits are right.
func TestDigitsOfNumbers(t *testing.T) {
	for _, f := range []Float{1342.8000000000002, 6.999999999999999e-06, 30381853.123456789, 1. / 3, 0, -2.5, 1e15} {
		text, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		digits := strings.Trim(strings.Map(func(r rune) rune {
			if r < '0' || r > '9' {
				return -1
			}
			return r
		}, strings.Split(string(text), "e")[0]), "0")
		var again Float
		if err := json.Unmarshal(text, &again); err != nil || len(digits) > 12 || math.Abs(float64(again-f)) > 1e-11*math.Abs(float64(f)) {
			t.Errorf("%v is %s in JSON (%v)", float64(f), text, err)
		}
	}
}

// The sentence has the figures of the run that it is asked for, and is empty for a run that lost nothing.
func TestLostStory(t *testing.T) {
	runs := []Metrics{{}, {Requeues: 1, Preemptions: 2, InterruptedProcessorSeconds: 5400}}
	value := func(key string, run int) Float { return FigureOf(key).Of(&runs[run]) }
	if got := LostStory(value, 0); got != "" {
		t.Errorf("no run was lost: %q", got)
	}
	if got, want := LostStory(value, 1), "Jobs lost the work of runs in 2\u00a0preemptions and 1\u00a0requeue: 1.50 processor hours."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	none := func(string, int) Float { return NoValue() } // a comparison without lost runs lacks the figures
	if got := LostStory(none, 0); got != "" {
		t.Errorf("%q", got)
	}
}
