package finished_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmspec/sbatch"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/arrays"
)

// minute returns the instant of a minute in these tests. A negative minute is an unknown instant.
func minute(n int) hpc.Time {
	if n < 0 {
		return 0
	}
	return hpc.Unix(1_700_000_000 + 60*int64(n))
}

// ran returns a record of a job. Instants are in minutes; a negative number means unknown. id is in
// Slurm's notation, followed by "@MINUTE" if the job became eligible later than it was submitted.
// options are those of sbatch.
func ran(id string, submit, start, end int, state hpc.State, options string) *finished.Job {
	id, at, delayed := strings.Cut(id, "@")
	eligible := submit
	if delayed {
		fmt.Sscan(at, &eligible)
	}
	parsed, err := slurmspec.ParseJobID(id)
	if err != nil {
		panic(err)
	}
	r := &finished.Job{
		ID: id, Number: parsed.Number, ArrayTask: parsed.Task, ArrayRest: parsed.Rest, Elapsed: -1,
		Submit: minute(submit), Eligible: minute(eligible), Start: minute(start), End: minute(end),
		State: state, ReqCPUs: 1, TimeLimit: 24 * time.Hour, NodeList: "n1", SubmitLine: "sbatch " + options + " job.sh",
	}
	if strings.Contains(id, "_") {
		r.ArrayJob = parsed.Number
	}
	if start < 0 {
		r.NodeList = ""
	}
	if state == hpc.Failed {
		r.ExitCode = 1
	}
	return r
}

// build makes a workload from copies of records, because a builder may change the records.
func build(t interface {
	Helper()
	Fatal(args ...any)
}, opts workload.ReadOptions, records ...*finished.Job) *workload.Workload {
	t.Helper()
	b := finished.NewBuilder("test", opts)
	for _, r := range records {
		record := *r
		if err := b.Add(&record, r.ID); err != nil {
			t.Fatal(err)
		}
	}
	w, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// builtAt makes a workload from records, with a window that begins at the given minute.
func builtAt(t *testing.T, start int, records ...*finished.Job) *workload.Workload {
	t.Helper()
	return build(t, workload.ReadOptions{Start: minute(start)}, records...)
}

func jobByID(t *testing.T, w *workload.Workload, id string) *hpc.Job {
	t.Helper()
	for _, job := range w.Jobs.All() {
		if job.ID == id {
			return job
		}
	}
	t.Fatalf("no job %s among %d", id, w.Jobs.Len())
	return nil
}

// TestDependenciesOnParts checks that a job still depends on an array if the array became several
// jobs, because some tasks ran when the window began or were cancelled.
func TestDependenciesOnParts(t *testing.T) {
	const a = "-a 0-3"
	running := []*finished.Job{ran("5_0", 0, 10, 100, hpc.Completed, a), ran("5_1", 0, 10, 90, hpc.Completed, a)}
	mixed := []*finished.Job{
		ran("5_0", 0, 10, 50, hpc.Completed, a), // before the window
		ran("5_1", 0, 10, 90, hpc.Completed, a),
		ran("5_2", 0, 70, 100, hpc.Failed, a),
		ran("5_3", 0, -1, 80, hpc.Cancelled, a),
	}
	for _, tt := range []struct {
		array      []*finished.Job
		asks, want string
		gone, not  int
	}{
		{running, "afterok:5", "afterok:5_0,afterok:5_1", 0, 0},
		{running, "afterok:5_1", "afterok:5_1", 0, 0},
		{running, "afterany:5_*", "afterany:5_0,afterany:5_1", 0, 0},
		{running, "after:5+7", "after:5_0+7,after:5_1+7", 0, 0},
		{running, "afternotok:5", "afternotok:5_0,afternotok:5_1", 0, 1},
		{running, "afterany:5?singleton", "afterany:5_0?singleton", 0, 1}, // the task that ends last
		{mixed, "afterany:5", "afterany:5_1,afterany:5,afterany:5#2", 0, 0},
		{mixed, "afterany:5_*,singleton", "afterany:5_1,afterany:5_*,afterany:5#2_*,singleton", 0, 0},
		{mixed, "afternotok:5", "afterany:5_1,afternotok:5,afternotok:5#2", 0, 1},
		{mixed, "aftercorr:5", "aftercorr:5_1,aftercorr:5,aftercorr:5#2", 0, 1},
		{mixed, "afterok:5_1:5_2:5_3", "afterok:5_1,afterok:5_2,afterok:5#2_3", 0, 0},
		{mixed, "afterok:5_0", "", 1, 0},
		{mixed, "afterok:5_0?afterok:5_1", "", 1, 0},
		{mixed, "afterok:4,afterok:5_0:5_2", "afterok:5_2", 2, 0},
	} {
		w := builtAt(t, 60, append(slices.Clip(tt.array), ran("6", 5, 110, 120, hpc.Completed, "-d "+tt.asks))...)
		if got := jobByID(t, w, "6").Dependency; got != tt.want {
			t.Errorf("%s of %d: %s, want %s", tt.asks, len(tt.array), got, tt.want)
		}
		if got := w.Rules[finished.NoteDependencyGone]; got != tt.gone {
			t.Errorf("%s of %d: %d dropped, want %d", tt.asks, len(tt.array), got, tt.gone)
		}
		if got := w.Rules[arrays.NoteDependency]; got != tt.not {
			t.Errorf("%s of %d: %d not the same, want %d", tt.asks, len(tt.array), got, tt.not)
		}
		for _, p := range workload.Validate(w, workload.Cluster{}) {
			if p.Rule == workload.RuleUnknownDependency || p.Rule == workload.RuleBadDependency {
				t.Errorf("%s of %d: %s", tt.asks, len(tt.array), p)
			}
		}
	}
}

// TestArrayLimit checks that an array with a limit is counted if and only if it became several
// jobs, which cannot share the limit.
func TestArrayLimit(t *testing.T) {
	task := func(i, start int, options string) *finished.Job {
		return ran(fmt.Sprintf("5_%d", i), 0, start, start+30, hpc.Completed, options)
	}
	for _, tt := range []struct {
		options string
		start   int
		want    int
	}{{"-a 0-2%1", 50, 1}, {"-a 0-2%1", 70, 0}, {"-a 0-2", 50, 0}} {
		w := builtAt(t, 60, task(0, tt.start, tt.options), task(1, 100, tt.options), task(2, 130, tt.options))
		if got := w.Rules[arrays.NoteLimit]; got != tt.want {
			t.Errorf("%s, the first at %d: %d, want %d", tt.options, tt.start, got, tt.want)
		}
	}
}

// TestCancelledArray checks that an array that its user cancelled stays one job with one limit. If
// a task ran on after the cancellation, the tasks that ran become the first job.
func TestCancelledArray(t *testing.T) {
	const a = "-a 1-8%2"
	for _, tt := range []struct {
		end  int // of task 3
		want map[string]string
	}{
		{60, map[string]string{"5": "1-8%2 cancelled 1h0m0s"}},
		{61, map[string]string{"5": "1-8%2 cancelled 1h0m0s"}}, // its processes outlived the cancellation
		{70, map[string]string{"5": "1-3%2 cancelled 0s", "5#2": "4-8%2 cancelled 1h0m0s"}},
	} {
		w := build(t, workload.ReadOptions{}, ran("5_[4-8%2]", 0, -1, 60, hpc.Cancelled, a),
			ran("5_3", 0, 40, tt.end, hpc.Cancelled, a), ran("5_2", 0, 0, 60, hpc.Completed, a), ran("5_1", 0, 0, 40, hpc.Completed, a))
		got := map[string]string{}
		for _, job := range w.Jobs.All() {
			got[job.ID] = fmt.Sprintf("%s cancelled %s", job.Array, job.CancelAfter)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("task 3 ends at %d (-want +got)\n%s", tt.end, diff)
		}
		job := jobByID(t, w, "5")
		if runs := job.RunTimeOf(3) != hpc.Unlimited; job.RunTimeOf(1) != 40*time.Minute || runs != (tt.end == 70) {
			t.Errorf("task 3 ends at %d: run times %v and %v", tt.end, job.RunTime, job.TaskRunTimes)
		}
	}
}

// TestEligible checks that a job becomes eligible at the recorded time if it was delayed by a
// dependency on a job outside the window, or by a hold.
func TestEligible(t *testing.T) {
	for _, tt := range []struct {
		record *finished.Job
		begin  time.Duration // in minutes
		hold   bool
	}{
		{ran("7@55", 0, 80, 90, hpc.Completed, "-d afterok:6"), 55, false},
		{ran("7@58", 0, -1, -1, hpc.Pending, "-d afterok:6 --begin=now+10minutes"), 58, false},
		{ran("7@10", 0, -1, -1, hpc.Pending, "-d afterok:6 --begin=now+10minutes"), 10, false},
		{ran("7@55", 0, 80, 90, hpc.Completed, "-d afterok:6,afterok:8"), 0, false}, // waits for 8 in the replay, too
		{ran("7@-1", 0, -1, -1, hpc.Pending, "-d afterok:6"), 0, false},
		{ran("7@50", 0, 50, 90, hpc.Completed, "-d afterok:6"), 0, false}, // preset
		{ran("7@75", 62, 80, 90, hpc.Completed, "-H"), 13, false},
		{ran("7@-1", 62, 80, 90, hpc.Completed, "-H"), 18, false},
		{ran("7@62", 62, 80, 90, hpc.Completed, "-H"), 0, false},
		{ran("7@-1", 62, -1, 90, hpc.Cancelled, "-H"), 0, true},
		{ran("7@-1", 62, -1, -1, hpc.Pending, "-H"), 0, true},
	} {
		w := builtAt(t, 60, ran("6", 0, 0, 50, hpc.Completed, ""), tt.record, ran("8", 0, 70, 75, hpc.Completed, ""))
		job := jobByID(t, w, "7")
		if job.Begin != tt.begin*time.Minute || job.Hold != tt.hold {
			t.Errorf("%s: begins after %s, held %t", tt.record.SubmitLine, job.Begin, job.Hold)
		}
		counted := 0
		if tt.begin > 10 {
			counted = 1
		}
		if made := counted == 1; job.Recorded.BeginMade != made {
			t.Errorf("%s: begin made: %t, want %t", tt.record.SubmitLine, job.Recorded.BeginMade, made)
		}
		if w.Rules[finished.NoteBegin] != counted {
			t.Errorf("%s: %d counted, want %d", tt.record.SubmitLine, w.Rules[finished.NoteBegin], counted)
		}
	}
}

// TestRequeuedPreset checks that a job that ran at the window's start and was requeued becomes two
// jobs, a preset job and a later one, in every order of the records of its runs.
func TestRequeuedPreset(t *testing.T) {
	runs := []*finished.Job{
		ran("7", 0, 10, 90, hpc.NodeFail, "-d afterok:1 --begin=now+10minutes"),
		ran("7@92", 90, 100, 110, hpc.Preempted, "-d afterok:1 --begin=now+10minutes"),
		ran("7@113", 110, 120, 150, hpc.Completed, "-d afterok:1 --begin=now+10minutes"),
	}
	after := ran("8", 5, 160, 170, hpc.Completed, "-d afterok:7")
	for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		w := builtAt(t, 60, runs[order[0]], runs[order[1]], runs[order[2]], after)
		first, last := jobByID(t, w, "7#2"), jobByID(t, w, "7")
		if !w.Preset(first) || first.RunTime != 80*time.Minute || first.ExitCode == 0 || first.Requeue == nil || *first.Requeue {
			t.Errorf("%v: first %+v", order, first)
		}
		if w.Preset(last) || last.Submit != first.Submit || last.RunTime != 30*time.Minute || last.ExitCode != 0 ||
			last.Begin != 92*time.Minute || last.Dependency != "" || last.Requeue != nil {
			t.Errorf("%v: last %+v", order, last)
		}
		if got := jobByID(t, w, "8").Dependency; got != "afterok:7" {
			t.Errorf("%v: job 8 waits for %s", order, got)
		}
		for _, p := range workload.Validate(w, workload.Cluster{}) {
			if p.Rule == workload.RuleLaterDependency {
				t.Errorf("%v: %s", order, p)
			}
		}
		want := map[string]int{finished.NoteRequeuedPreset: 1, finished.NoteDependencyGone: 1, finished.NoteExitsForOther: 1}
		if diff := cmp.Diff(want, w.Rules); diff != "" {
			t.Errorf("%v: rules (-want +got)\n%s", order, diff)
		}
		lost := []hpc.LostRun{{Start: minute(100), End: minute(110), EligibleAgain: minute(113), Nodes: "n1", Cause: hpc.Preempted}}
		if diff := cmp.Diff(lost, last.Recorded.LostRuns); diff != "" || first.Recorded.LostRuns != nil {
			t.Errorf("%v: lost runs (-want +got)\n%s%v", order, diff, first.Recorded.LostRuns)
		}
	}
}

// TestRequeuedPresetWait checks that the later run of a job that ran at the window's start waits from the requeue on,
// and not from the first submission.
func TestRequeuedPresetWait(t *testing.T) {
	first, last := ran("7", 0, 10, 90, hpc.Preempted, ""), ran("7@92", 90, 100, 110, hpc.Completed, "")
	for _, submit := range []int{90, 0} { // a source may repeat the first submission
		last.Submit = minute(submit)
		w := builtAt(t, 60, first, last, ran("8", 95, 160, 170, hpc.Completed, "-d afterok:7"))
		job := jobByID(t, w, "7")
		if job.Submit != minute(90) || job.Begin != 2*time.Minute || !job.Recorded.BeginMade || job.Recorded.Eligible != minute(92) {
			t.Errorf("submitted %s, begin %s, recorded %+v", job.Submit, job.Begin, job.Recorded)
		}
	}
}

// TestRequeuedTwice checks that the runs of a job become one job in every order of their records.
func TestRequeuedTwice(t *testing.T) {
	runs := []*finished.Job{
		ran("7", 0, 10, 20, hpc.NodeFail, ""), ran("7", 20, 30, 40, hpc.Preempted, ""),
		ran("7", 40, 50, 80, hpc.Completed, ""),
	}
	for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		w := builtAt(t, -1, runs[order[0]], runs[order[1]], runs[order[2]], runs[order[2]])
		job := w.Jobs.At(0)
		if w.Jobs.Len() != 1 || job.Submit != hpc.Unix(1_700_000_000) || job.RunTime != 30*time.Minute || job.ExitCode != 0 {
			t.Errorf("%v: %d jobs, %+v", order, w.Jobs.Len(), job)
		}
		if w.Rules[finished.RuleDuplicate] != 1 || w.Rows.Parts != 2 {
			t.Errorf("%v: rules %v, rows %+v", order, w.Rules, w.Rows)
		}
		want := []hpc.LostRun{
			{Start: minute(10), End: minute(20), EligibleAgain: minute(20), Nodes: "n1", Cause: hpc.NodeFail},
			{Start: minute(30), End: minute(40), EligibleAgain: minute(40), Nodes: "n1", Cause: hpc.Preempted},
		}
		if diff := cmp.Diff(want, job.Recorded.LostRuns); diff != "" || job.Recorded.Eligible != minute(0) {
			t.Errorf("%v: eligible %s, lost runs (-want +got)\n%s", order, job.Recorded.Eligible, diff)
		}
	}
}

// TestImpossibleRun checks that a run that is not between the submission and the last run is
// counted and dropped.
func TestImpossibleRun(t *testing.T) {
	for _, first := range []*finished.Job{
		ran("7", 0, -1, 20, hpc.NodeFail, ""), ran("7", 0, 10, 55, hpc.NodeFail, ""), ran("7", 0, 10, -1, hpc.Preempted, ""),
	} {
		b := finished.NewBuilder("test", workload.ReadOptions{})
		for _, r := range []finished.Job{*first, *ran("7", 40, 50, 80, hpc.Completed, "")} {
			b.Row()
			if err := b.Add(&r, ""); err != nil {
				t.Fatal(err)
			}
		}
		w, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if w.Jobs.Len() != 1 || w.Jobs.At(0).Recorded.LostRuns != nil || w.Rules[finished.NoteRequeued] != 1 || w.Rows.Lost() != 0 {
			t.Errorf("from %s to %s: %d jobs, %+v, rules %v, rows %+v", first.Start, first.End, w.Jobs.Len(), w.Jobs.At(0).Recorded, w.Rules, w.Rows)
		}
	}
}

// TestRequeuedTask checks that a job that depends on an array does not wait for the first run of
// a requeued task.
func TestRequeuedTask(t *testing.T) {
	w := builtAt(t, 60,
		ran("5_0", 0, 10, 90, hpc.NodeFail, "-a 0-1"), ran("5_0", 90, 100, 110, hpc.Completed, "-a 0-1"),
		ran("5_1", 0, 70, 80, hpc.Completed, "-a 0-1"), ran("6", 5, 120, 130, hpc.Completed, "-d afterok:5"))
	deps, err := sbatch.ParseDependency(jobByID(t, w, "6").Dependency)
	if err != nil || len(deps.List) != 2 {
		t.Fatalf("%v, %v", deps, err)
	}
	for _, d := range deps.List {
		if job := jobByID(t, w, d.Job); job.ExitCode != 0 || w.Preset(job) {
			t.Errorf("waits for %+v", job)
		}
	}
	if !w.Preset(jobByID(t, w, "5_0#2")) {
		t.Error("the first run does not run when the window begins")
	}
	// Without a window, the first run is a lost run of the task.
	w = builtAt(t, -1, ran("5_0", 0, 10, 90, hpc.NodeFail, "-a 0-1"), ran("5_0@93", 90, 100, 110, hpc.Completed, "-a 0-1"),
		ran("5_1@65", 0, 70, 80, hpc.Completed, "-a 0-1"))
	first, second := w.Jobs.At(0).Recorded.OfTask(0), w.Jobs.At(0).Recorded.OfTask(1)
	want := []hpc.LostRun{{Start: minute(10), End: minute(90), EligibleAgain: minute(93), Nodes: "n1", Cause: hpc.NodeFail}}
	if diff := cmp.Diff(want, first.LostRuns); diff != "" || w.Jobs.Len() != 1 || !second.IsEmpty() || !w.Jobs.At(0).Recorded.IsEmpty() {
		t.Errorf("%d jobs; lost runs (-want +got)\n%s; of the other task %+v", w.Jobs.Len(), diff, second)
	}
	if first.Eligible != minute(0) || second.Eligible != minute(65) {
		t.Errorf("eligible at %s and %s", first.Eligible, second.Eligible)
	}
}

// TestRequeuedAfterWindow checks that a job in the window keeps a later run that was submitted after the window, in each
// order of the records in which the records of the job are together or its runs in order.
func TestRequeuedAfterWindow(t *testing.T) {
	runs := []*finished.Job{
		ran("7", 10, 20, 50, hpc.Preempted, ""), ran("7@92", 90, 100, 110, hpc.Preempted, ""),
		ran("7@113", 110, 120, 150, hpc.Completed, ""),
	}
	other := ran("8", 5, 6, 30, hpc.Completed, "")
	reused := ran("8", 70, 75, 90, hpc.Completed, "") // another job with the same number
	stranger := ran("7", 200, 210, 220, hpc.Completed, "")
	for _, records := range [][]*finished.Job{
		{other, runs[0], reused, runs[1], runs[2], stranger},
		{reused, other, stranger, runs[2], runs[1], runs[0]},
		{runs[1], runs[0], stranger, runs[2], other, reused},
	} {
		b := finished.NewBuilder("test", workload.ReadOptions{Start: minute(0), End: minute(60)})
		for _, r := range records {
			record := *r
			b.Row()
			if err := b.Add(&record, r.ID); err != nil {
				t.Fatal(err)
			}
		}
		w, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		job := jobByID(t, w, "7")
		if w.Jobs.Len() != 2 || job.RunTime != 30*time.Minute || job.ExitCode != 0 || len(job.Recorded.LostRuns) != 2 {
			t.Errorf("%d jobs, %+v, recorded %+v", w.Jobs.Len(), job, job.Recorded)
		}
		if w.Rules[finished.NoteOutside] != 2 || w.Rows.Lost() != 0 {
			t.Errorf("rules %v, rows %+v", w.Rules, w.Rows)
		}
	}
}
