package agreement

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"rmreplay/internal/experiment"
	"rmreplay/internal/formats"
	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/rmtest"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/run"
	"rmreplay/internal/supervise"
	"rmreplay/internal/workload"
)

func TestMain(m *testing.M) {
	supervise.RunIfGuard() // this binary may run as the guard of the daemons
	os.Exit(m.Run())
}

// configuration returns the slurm.conf of a small cluster with options of the scheduler.
func configuration(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	text := `ClusterName=tiny
SlurmctldHost=ctl
SlurmUser=slurm
StateSaveLocation=/var/spool/slurmctld
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=` + options + `
NodeName=a[1-4] CPUs=4
PartitionName=all Nodes=a[1-4] Default=YES MaxTime=3:00:00
`
	for name, content := range map[string]string{"slurm.conf": text, "users": "ann:1001:red:2001\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// spec returns a run of the model with sixty jobs and a job array.
func spec(t *testing.T, options string) experiment.Spec {
	t.Helper()
	epoch := hpc.Unix(1709640000)
	var lines strings.Builder
	for i := range 60 {
		minutes := 3 + i*7%40
		fmt.Fprintf(&lines, "job j%d at=%d run=%d -n %d -t %d\n", i, i*i%600, minutes*40, 1+i*5%16, minutes)
	}
	lines.WriteString("job array at=300 run=100 -a 1-9%3 -n 2 -t 4\n")
	jobs, err := rmtest.Parse(lines.String(), epoch, "--uid=ann")
	if err != nil {
		t.Fatal(err)
	}
	w := &workload.Workload{Source: "a test", Epoch: epoch, Jobs: workload.JobsOf(jobs.Jobs...)}
	return experiment.Spec{
		Workload: experiment.Workload{Value: w}, Seed: 3,
		Simulator: &experiment.Simulator{Policy: experiment.SlurmPolicy, Cluster: configuration(t, options)},
	}
}

// record makes a run of the model whose manifest resembles the manifest of a replay on Slurm. The
// parameter change may make further changes to the manifest.
func record(t *testing.T, options string, change func(m map[string]any)) *run.Run {
	t.Helper()
	return recordOf(t, spec(t, options), change)
}

// recordOf is [record] for any specification.
func recordOf(t *testing.T, s experiment.Spec, change func(m map[string]any)) *run.Run {
	t.Helper()
	s.Output = filepath.Join(t.TempDir(), "run")
	if _, err := experiment.Run(t.Context(), s, experiment.Hooks{}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.Output, "manifest.json")
	text, err := os.ReadFile(path)
	m := map[string]any{}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	m["engine"] = "slurm"
	delete(m, "policy")
	m["versions"].(map[string]any)["slurm"] = "22.05.8"
	made := m["spec"].(map[string]any)
	made["slurm"] = map[string]any{"cluster": s.Simulator.Cluster}
	delete(made, "simulator")
	if change != nil {
		change(m)
	}
	if text, err = json.Marshal(m); err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := run.Open(s.Output)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// inLockstep makes the model with options follow a record.
func inLockstep(t *testing.T, r *run.Run, options string, instants int) *Lockstep {
	t.Helper()
	l, err := follow(t.Context(), spec(t, options), r, instants)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if l.render(&b); !strings.Contains(b.String(), l.Decisions.String()) {
		t.Errorf("report:\n%s", b.String())
	}
	return l
}

// TestFollow lets the model follow a run of its own, and a run of a scheduler with other options. The
// follower finds each decision that differs. No difference hides the next one, since all jobs start and
// end as recorded.
func TestFollow(t *testing.T) {
	r := record(t, "bf_interval=15", nil)
	same := inLockstep(t, r, "bf_interval=15", 0)
	for what, c := range map[string]Count{
		"decisions": same.Decisions, "starts": same.Starts, "nodes": same.Nodes, "reasons": same.Reasons,
		"plans": same.Plans, "ends": same.Ends,
	} {
		if c.All == 0 || c.Agree != c.All {
			t.Errorf("%s of the same scheduler: %s", what, c)
		}
	}
	if len(same.Failed) != 0 || len(same.Differences) != 0 || same.Starts.All != 69 {
		t.Errorf("the same scheduler: %+v", same)
	}

	other := inLockstep(t, r, "bf_interval=15,bf_max_job_test=1", 0)
	late := other.Kinds[TooLate]
	if late == 0 || other.Starts.Agree+late < 69 || len(other.Failed) != 0 || other.Ends.Agree != other.Ends.All || other.Ends.All < 60 ||
		other.Decisions.Agree >= other.Decisions.All || other.Decisions.Agree < other.Decisions.All/2 {
		t.Errorf("a scheduler without backfill: %d starts missed, %+v", late, other)
	}

	few := inLockstep(t, r, "bf_interval=15,bf_max_job_test=1", 20)
	if few.Instants != 20 || few.AllInstants != other.Instants || few.Decisions.All >= other.Decisions.All {
		t.Errorf("20 instants: %+v", few)
	}
}

// TestFollowCompleted follows a record of a workload with made fields, for which the model is configured anew.
func TestFollowCompleted(t *testing.T) {
	completed := spec(t, "bf_interval=15")
	completed.Workload.Value.Completion = &workload.Completion{}
	l, err := follow(t.Context(), completed, record(t, "bf_interval=15", nil), 0)
	if err != nil {
		t.Fatal(err)
	}
	if l.Decisions.All < 69 || l.Decisions.Agree != l.Decisions.All || l.Starts.Agree != 69 || len(l.Failed) != 0 {
		t.Errorf("the same scheduler: %+v", l)
	}
}

// TestFollowWindow follows a record whose jobs were pending when the window began. The record lacks the reasons for
// which the window's barrier kept them pending, so these reasons are not compared. When the barrier has gone, the
// jobs have the site's reasons again.
func TestFollowWindow(t *testing.T) {
	s := spec(t, "bf_interval=15")
	s.Workload.Value.Start = s.Workload.Value.Epoch.Add(20 * time.Minute)
	r := recordOf(t, s, nil)
	events, err := r.Events()
	if err != nil {
		t.Fatal(err)
	}
	without := 0
	for i := range events {
		if events[i].Kind == rm.Waiting && events[i].Reason == "" {
			without++
		}
	}
	l, err := follow(t.Context(), s, r, 0)
	if err != nil {
		t.Fatal(err)
	}
	if without == 0 || l.Reasons.All == 0 || l.Reasons.Agree != l.Reasons.All || len(l.Differences) != 0 {
		t.Errorf("%d events without a reason: %+v", without, l)
	}
	rows, err := r.Histories()
	if err != nil {
		t.Fatal(err)
	}
	waited := 0
	for i := range rows {
		for _, span := range rows[i].Reasons {
			if span.Reason == "" && span.To.Sub(span.From) > 2*time.Minute {
				t.Errorf("%s waits without a reason: %+v", rows[i].Job, rows[i].Reasons)
			}
			if span.Reason == "Priority" {
				waited++
			}
		}
	}
	if waited < 10 {
		t.Errorf("%d jobs wait for their priority", waited)
	}
}

// TestFollowSimulation checks that a record that slurmctld did not make is refused.
func TestFollowSimulation(t *testing.T) {
	r := record(t, "bf_interval=15", nil)
	r.Manifest.Engine = "sim"
	if _, err := NewFollower(r); err == nil || !strings.Contains(err.Error(), "want a record of rmreplay replay") {
		t.Errorf("error %v", err)
	}
}

// TestCompare compares a record with two runs of the model. The first run has the same scheduler
// options as the record, and the second run has others. The verdict names the jobs that differ,
// and the decision that caused the first difference.
func TestCompare(t *testing.T) {
	r := record(t, "bf_interval=15", nil)
	same, err := Compare(t.Context(), []*run.Run{r}, nil, Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if w := same.Whole; w.Starts.Agree != 69 || w.Nodes != w.Starts || w.Waited.All < fewWaits || w.First != nil ||
		same.Verdict.Use != ForJobs || !strings.Contains(same.Verdict.Text, "100 % of Slurm's decisions") {
		t.Errorf("the same scheduler: %+v\n%s", w, same.Render())
	}

	// The runs of two seeds do not have twice the jobs.
	twice, err := Compare(t.Context(), []*run.Run{r, r}, nil, Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	waited := fmt.Sprintf("100 %% of the %d of a run that waited a minute", same.Whole.Waited.All)
	if text := twice.Render(); !strings.Contains(text, waited) || !strings.Contains(text, "  mean wait [s]    Slurm ") ||
		!strings.Contains(text, ", jobs of all runs together\n") || strings.Contains(same.Render(), "of a run") {
		t.Errorf("%q is not in\n%s", waited, text)
	}
	twice.Whole.Waited = Count{Agree: 40, All: 40}
	if twice.judge(); twice.Verdict.Use != Unknown || !strings.Contains(twice.Verdict.Text, "Only 20 jobs of a run waited a minute and started.") {
		t.Errorf("20 jobs in each of two runs: %+v", twice.Verdict)
	}

	plain := spec(t, "bf_interval=15,bf_max_job_test=1")
	plain.Output = filepath.Join(t.TempDir(), "plain")
	if _, err := experiment.Run(t.Context(), plain, experiment.Hooks{}); err != nil {
		t.Fatal(err)
	}
	model, err := run.Open(plain.Output)
	if err != nil {
		t.Fatal(err)
	}
	other, err := Compare(t.Context(), []*run.Run{r}, []*run.Run{model}, Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	w := other.Whole
	if w.Starts.All != 69 || w.Starts.Agree > 60 || w.Kinds[later] == 0 || w.First == nil || other.Verdict.Use == ForJobs {
		t.Errorf("a scheduler without backfill: %+v\n%s", w, other.Render())
	}
	dir := t.TempDir()
	if err := other.Write(dir); err != nil {
		t.Fatal(err)
	}
	validate(t, filepath.Join(dir, resultFile))
	for _, part := range []string{other.Verdict.Text, w.First.Job, w.First.Cause, "mean wait"} {
		if text := other.Render(); part == "" || !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
}

// TestCompareInterrupted compares a record only up to its end. Jobs that the model starts
// afterwards are no differences, and the verdict names the compared part.
func TestCompareInterrupted(t *testing.T) {
	end := hpc.Unix(1709640000).Add(25 * time.Minute)
	r := record(t, "bf_interval=15", func(m map[string]any) {
		m["state"], m["valid"], m["virtual_end"] = "interrupted", false, end.Std().Format(time.RFC3339)
	})
	report, err := Compare(t.Context(), []*run.Run{r}, nil, Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	started := int(report.Figures[0].Slurm[0])
	if w := report.Whole; started < 10 || started > 60 || w.Starts.Agree != w.Starts.All || w.Until != end.Add(-tail).String() ||
		report.Lockstep.Starts.All != started || report.Lockstep.Decisions.Agree != report.Lockstep.Decisions.All ||
		!strings.Contains(report.Verdict.Text, w.Until) || report.Doubt != "" {
		t.Errorf("%d started: %+v\n%s", started, w, report.Render())
	}
}

// TestPresetJobs compares the waits of a run with a window with the waits of metrics: the waits of
// preset jobs do not count.
func TestPresetJobs(t *testing.T) {
	window := hpc.Unix(1709640000)
	rows := []run.Row{
		{Job: "preset", Task: -1, Submit: window.Add(-time.Hour), Start: window.Add(-time.Minute), End: window.Add(time.Hour)},
		{Job: "a", Task: -1, Submit: window, Start: window.Add(2 * time.Minute), End: window.Add(time.Hour)},
		{Job: "b", Task: -1, Submit: window, Start: window.Add(4 * time.Minute), End: window.Add(time.Hour)},
	}
	h := &history{rows: map[key]*run.Row{}, window: window}
	waited := 0
	for i := range rows {
		rows[i].State, rows[i].NodeCount, rows[i].Processors = hpc.Completed, 1, 4
		k := key{rows[i].Job, -1}
		h.rows[k], h.keys = &rows[i], append(h.keys, k)
		if h.waited(k, h.start(k, hpc.Never), hpc.Never) {
			waited++
		}
	}
	m := metrics.Compute(rows, metrics.Options{Processors: 4, Window: window})
	if f := h.figures(hpc.Never); f[0] != 2 || f[1] != m.Wait.Mean || f[1] != 180 || waited != 2 {
		t.Errorf("%v and %d that waited, metrics a mean of %v", f, waited, m.Wait.Mean)
	}
}

// TestWhole checks which jobs are counted in the comparison of a part of two runs, and what the verdict says about them:
// a job that starts in neither run agrees about no start.
func TestWhole(t *testing.T) {
	window := hpc.Unix(1709640000)
	start := func(minute int) hpc.Time { return window.Add(time.Duration(minute) * time.Minute) }
	of := func(shift int) *history {
		h := &history{rows: map[key]*run.Row{}, window: window}
		for _, row := range []run.Row{
			{Job: "preset", Submit: start(-60), Start: start(-1)}, {Job: "at once", Submit: start(0), Start: start(0)},
			{Job: "waits", Submit: start(0), Start: start(4)}, {Job: "differs", Submit: start(0), Start: start(6 + shift)},
			{Job: "never", Submit: start(0)}, {Job: "too late", Submit: start(0), Start: start(40)},
			{Job: "cancelled", Submit: start(0), End: start(5), State: hpc.Cancelled},
			{Job: "model alone", Submit: start(0), Start: start(45 - 30*shift)}, {Job: "submitted later", Submit: start(50), Start: start(50)},
		} {
			row.Task = -1
			k := key{row.Job, -1}
			h.rows[k], h.keys = &row, append(h.keys, k)
		}
		return h
	}
	w := compareWhole(1, of(0), of(1), start(30))
	if w.Starts != (Count{2, 4}) || w.Nodes != (Count{2, 4}) || w.Waited != (Count{1, 3}) || w.Neither != 3 || w.Preset != 1 {
		t.Errorf("%+v", w)
	}
	r := Report{Whole: w}
	if r.judge(); !strings.Contains(r.Verdict.Text, ", and 50 % of the jobs that start do so in the same second (33.33 % of the 3 that waited a minute)") ||
		!strings.Contains(r.Verdict.Text, "; of the other jobs, 3 start in neither run, 1 ran when the window began. Only 3 jobs waited") {
		t.Error(r.Verdict.Text)
	}
	w.join(&w)
	if w.Neither != 6 || w.Preset != 2 {
		t.Errorf("two seeds: %+v", w)
	}
	w.Preset, w.Waited = 3, Count{24_690, 24_690}
	r = Report{Whole: w, Runs: make([]Whole, 2)}
	r.judge()
	for _, want := range []string{
		" of the 12345 of a run that waited a minute",
		"; of the other jobs of a run, 3 start in neither run, 1.5 ran when the window began. ",
	} {
		if !strings.Contains(r.Verdict.Text, want) {
			t.Errorf("without %q: %s", want, r.Verdict.Text)
		}
	}
}

// TestReasons checks that the verdict recommends explain only if the reasons to wait agree.
func TestReasons(t *testing.T) {
	for want, reasons := range map[string]Count{
		"(simulate, explain, forecast, sweep, tune).":                                                                 {95, 100},
		"(simulate, forecast, sweep, tune), but not to explain why a job waited (94 % of the reasons to wait agree).": {94, 100},
		"(simulate, forecast, sweep, tune), but not to explain why a job waited (no reasons were compared).":          {},
	} {
		r := &Report{Whole: Whole{Starts: Count{100, 100}, Waited: Count{50, 50}}, Lockstep: Lockstep{Reasons: reasons}}
		if r.judge(); r.Verdict.Use != ForJobs || !strings.Contains(r.Verdict.Text, want) {
			t.Errorf("%s: %+v", reasons, r.Verdict)
		}
	}
}

// TestCompareRefuses checks that records that do not belong together are refused.
func TestCompareRefuses(t *testing.T) {
	r := record(t, "bf_interval=15", nil)
	other := spec(t, "bf_interval=15")
	other.Seed, other.Output = 4, filepath.Join(t.TempDir(), "run")
	if _, err := experiment.Run(t.Context(), other, experiment.Hooks{}); err != nil {
		t.Fatal(err)
	}
	model, err := run.Open(other.Output)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		replay, model *run.Run
		want          string
	}{
		{r, model, "no run of the model has its seed 3"},
		{r, r, "not a run of the model"},
		{model, nil, "want a record of rmreplay replay"},
		{record(t, "bf_interval=15", func(m map[string]any) {
			made := m["spec"].(map[string]any)
			made["simulator"], made["slurm"] = map[string]any{"policy": "slurm", "ties": "ends-first"}, nil
		}), nil, "does not say how"},
	} {
		var models []*run.Run
		if c.model != nil {
			models = []*run.Run{c.model}
		}
		_, err := Compare(t.Context(), []*run.Run{c.replay}, models, Options{Dir: t.TempDir()})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
}

// TestUse checks the verdict that allows each use, and the verdict on too few waits.
func TestUse(t *testing.T) {
	report := func(starts, waited, decided Count, slurm, model metrics.Float) *Report {
		return &Report{
			Whole: Whole{Starts: starts, Waited: waited}, Lockstep: Lockstep{Starts: decided},
			Figures: []Figure{{Name: meanWait, Slurm: []metrics.Float{slurm, slurm + 2}, Model: []metrics.Float{model, model + 2}}},
		}
	}
	for want, r := range map[Use]*Report{
		ForJobs:    report(Count{995, 1000}, Count{295, 300}, Count{990, 1000}, 100, 150),
		ForMeans:   report(Count{900, 1000}, Count{200, 300}, Count{500, 1000}, 100, 104),
		ForScreens: report(Count{900, 1000}, Count{200, 300}, Count{950, 1000}, 100, 150),
		ForNothing: report(Count{900, 1000}, Count{200, 300}, Count{500, 1000}, 100, 150),
		Unknown:    report(Count{1000, 1000}, Count{29, 29}, Count{500, 500}, 1, 1),
	} {
		if r.judge(); r.Verdict.Use != want {
			t.Errorf("want %s: %+v", want, r.Verdict)
		}
	}
	if got := percent(Count{99_999, 100_000}); got != "99.99 %" {
		t.Errorf("99,999 of 100,000 are %s", got)
	}
	// Both round down, in the verdict and in the table.
	for c, want := range map[Count]string{{124, 131}: "94.65 %", {57, 100}: "57 %"} {
		table := strings.Replace(want, "57 ", "57.00 ", 1)
		if verdict := percent(c); verdict != want || !strings.HasSuffix(c.String(), "("+table+")") {
			t.Errorf("%s in the table, %s in the verdict", c, verdict)
		}
	}
}

// validate compares a result with the schema in docs.
func validate(t *testing.T, path string) {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "..", "docs", "schemas", "agreement.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		t.Errorf("%s: %v", path, err)
	}
}

// TestMeasure replays the jobs on Slurm and compares them with the model. When it measures again, it uses
// the existing replays.
func TestMeasure(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED by -short: replays on Slurm")
	}
	if in, err := install.FindSlurm(""); err != nil || in.Need(false) != nil {
		t.Skip("SKIPPED: nothing is compared with Slurm: it is not installed")
	}
	s := spec(t, "bf_interval=15")
	path := filepath.Join(t.TempDir(), "jobs.jsonl")
	if err := formats.Save(path, s.Workload.Value); err != nil {
		t.Fatal(err)
	}
	s.Workload, s.Slurm, s.Simulator = experiment.Workload{Path: path}, &experiment.Slurm{Cluster: s.Simulator.Cluster}, nil
	if _, err := Measure(t.Context(), s, Options{Realizations: 1, Within: time.Millisecond, Dir: t.TempDir()}); !errors.Is(err, ErrNothing) {
		t.Errorf("within a millisecond: %v", err)
	}
	how := Options{Realizations: 2, Dir: t.TempDir()}
	report, err := Measure(t.Context(), s, how)
	if err != nil {
		t.Fatal(err)
	}
	if w := report.Whole; w.Starts.All != 2*69 || w.Starts.Share() < 0.97 || report.Lockstep.Decisions.Share() < 0.99 || len(report.Runs) != 2 {
		t.Errorf("%+v\n%s", w, report.Render())
	}
	s.Slurm.Installation = "/nowhere" // so that it cannot be replayed
	if _, err := Measure(t.Context(), s, Options{Realizations: 1, Dir: t.TempDir()}); !experiment.IsMissing(err) {
		t.Errorf("without Slurm: %v", err)
	}
	s.Slurm.Installation = ""
	before, err := os.Stat(filepath.Join(how.Dir, slurmDir, run.RealizationDir(1), "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Measure(t.Context(), s, how); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(filepath.Join(how.Dir, slurmDir, run.RealizationDir(1), "manifest.json"))
	if err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("a complete replay was made again (%v)", err)
	}
}
