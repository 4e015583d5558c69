package sacct_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec/sbatch"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/arrays"
)

// accounted is a record of sacct with instants in minutes, of which a negative one is not
// known; eligible is given as "ID@MINUTE" where it is not the submission.
func accounted(id string, submit, start, end int, state, options string) string {
	id, at, delayed := strings.Cut(id, "@")
	clock := func(minute int) string {
		if minute < 0 {
			return "Unknown"
		}
		return hpc.Unix(1_700_000_000 + 60*int64(minute)).Std().Format("2006-01-02T15:04:05")
	}
	eligible := submit
	if delayed {
		fmt.Sscan(at, &eligible)
	}
	nodes, code := "n1", "0:0"
	if start < 0 {
		nodes = ""
	}
	if state == "FAILED" {
		code = "1:0"
	}
	return strings.Join([]string{
		id, clock(submit), clock(eligible), clock(start), clock(end), state, code, "1", "24:00:00", nodes, "sbatch " + options + " job.sh",
	}, "|") + "\n"
}

const accountedColumns = "JobID|Submit|Eligible|Start|End|State|ExitCode|ReqCPUS|Timelimit|NodeList|SubmitLine\n"

// builtAt reads records with a window that begins at a minute.
func builtAt(t *testing.T, minute int, records ...string) *workload.Workload {
	t.Helper()
	return readSacct(t, accountedColumns+strings.Join(records, ""), workload.ReadOptions{Start: hpc.Unix(1_700_000_000 + 60*int64(minute))})
}

func jobByID(t *testing.T, w *workload.Workload, id string) *hpc.Job {
	t.Helper()
	for _, job := range w.Jobs.All() {
		if job.ID == id {
			return job
		}
	}
	t.Fatalf("no job %s among %v", id, jobNames(w))
	return nil
}

// TestDependenciesOnParts checks that who depends on an array still does where the array
// is several jobs, because some tasks ran when the window began or were cancelled.
func TestDependenciesOnParts(t *testing.T) {
	const a = "-a 0-3"
	running := []string{accounted("5_0", 0, 10, 100, "COMPLETED", a), accounted("5_1", 0, 10, 90, "COMPLETED", a)}
	mixed := []string{
		accounted("5_0", 0, 10, 50, "COMPLETED", a), // before the window
		accounted("5_1", 0, 10, 90, "COMPLETED", a),
		accounted("5_2", 0, 70, 100, "FAILED", a),
		accounted("5_3", 0, -1, 80, "CANCELLED", a),
	}
	for _, tt := range []struct {
		array      []string
		asks, want string
		gone, not  int
	}{
		{running, "afterok:5", "afterok:5_0,afterok:5_1", 0, 0},
		{running, "afterok:5_1", "afterok:5_1", 0, 0},
		{running, "afterany:5_*", "afterany:5_0,afterany:5_1", 0, 0},
		{running, "after:5+7", "after:5_0+7,after:5_1+7", 0, 0},
		{running, "afternotok:5", "afternotok:5_0,afternotok:5_1", 0, 1},
		{running, "afterany:5?singleton", "afterany:5_0?singleton", 0, 1}, // the last to end
		{mixed, "afterany:5", "afterany:5_1,afterany:5,afterany:5#2", 0, 0},
		{mixed, "afterany:5_*,singleton", "afterany:5_1,afterany:5_*,afterany:5#2_*,singleton", 0, 0},
		{mixed, "afternotok:5", "afterany:5_1,afternotok:5,afternotok:5#2", 0, 1},
		{mixed, "aftercorr:5", "aftercorr:5_1,aftercorr:5,aftercorr:5#2", 0, 1},
		{mixed, "afterok:5_1:5_2:5_3", "afterok:5_1,afterok:5_2,afterok:5#2_3", 0, 0},
		{mixed, "afterok:5_0", "", 1, 0},
		{mixed, "afterok:5_0?afterok:5_1", "", 1, 0},
		{mixed, "afterok:4,afterok:5_0:5_2", "afterok:5_2", 2, 0},
	} {
		w := builtAt(t, 60, append(tt.array, accounted("6", 5, 110, 120, "COMPLETED", "-d "+tt.asks))...)
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

// TestArrayLimit checks that it is counted where several jobs cannot share a limit, and
// only there.
func TestArrayLimit(t *testing.T) {
	task := func(i, start int, options string) string {
		return accounted(fmt.Sprintf("5_%d", i), 0, start, start+30, "COMPLETED", options)
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

// TestEligible checks that a job is eligible from when it was, whatever kept it from being
// so before: a dependency that the window does not have, or a hold until it was released.
func TestEligible(t *testing.T) {
	for _, tt := range []struct {
		record string
		begin  time.Duration // in minutes
		hold   bool
	}{
		{accounted("7@55", 0, 80, 90, "COMPLETED", "-d afterok:6"), 55, false},
		{accounted("7@58", 0, -1, -1, "PENDING", "-d afterok:6 --begin=now+10minutes"), 58, false},
		{accounted("7@10", 0, -1, -1, "PENDING", "-d afterok:6 --begin=now+10minutes"), 10, false},
		{accounted("7@55", 0, 80, 90, "COMPLETED", "-d afterok:6,afterok:8"), 0, false}, // waits for 8 again
		{accounted("7@-1", 0, -1, -1, "PENDING", "-d afterok:6"), 0, false},
		{accounted("7@50", 0, 50, 90, "COMPLETED", "-d afterok:6"), 0, false}, // preset
		{accounted("7@75", 62, 80, 90, "COMPLETED", "-H"), 13, false},
		{accounted("7@-1", 62, 80, 90, "COMPLETED", "-H"), 18, false},
		{accounted("7@62", 62, 80, 90, "COMPLETED", "-H"), 0, false},
		{accounted("7@-1", 62, -1, 90, "CANCELLED", "-H"), 0, true},
		{accounted("7@-1", 62, -1, -1, "PENDING", "-H"), 0, true},
	} {
		w := builtAt(t, 60, accounted("6", 0, 0, 50, "COMPLETED", ""), tt.record, accounted("8", 0, 70, 75, "COMPLETED", ""))
		job := jobByID(t, w, "7")
		if job.Begin != tt.begin*time.Minute || job.Hold != tt.hold {
			t.Errorf("%sbegins after %s, held %t", tt.record, job.Begin, job.Hold)
		}
		counted := 0
		if tt.begin > 10 {
			counted = 1
		}
		if w.Rules[finished.NoteBegin] != counted {
			t.Errorf("%s%d counted, want %d", tt.record, w.Rules[finished.NoteBegin], counted)
		}
	}
}

// TestRequeuedPreset checks that a job that ran at the window's start, and was requeued, is
// there then, and again later, in whatever order the records of its runs come.
func TestRequeuedPreset(t *testing.T) {
	runs := []string{
		accounted("7", 0, 10, 90, "NODE_FAIL", "-d afterok:1 --begin=now+10minutes"),
		accounted("7@92", 90, 100, 110, "PREEMPTED", "-d afterok:1 --begin=now+10minutes"),
		accounted("7@113", 110, 120, 150, "COMPLETED", "-d afterok:1 --begin=now+10minutes"),
	}
	after := accounted("8", 5, 160, 170, "COMPLETED", "-d afterok:7")
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
			t.Errorf("%v: who waits for it waits for %s", order, got)
		}
		for _, p := range workload.Validate(w, workload.Cluster{}) {
			if p.Rule == workload.RuleLaterDependency {
				t.Errorf("%v: %s", order, p)
			}
		}
		want := map[string]int{finished.NoteRequeuedPreset: 1, finished.NoteRequeued: 1, finished.NoteDependencyGone: 1}
		if diff := cmp.Diff(want, w.Rules); diff != "" {
			t.Errorf("%v: rules (-want +got)\n%s", order, diff)
		}
	}
}

// TestRequeuedTwice checks that the runs of a job are one job in whatever order their records come.
func TestRequeuedTwice(t *testing.T) {
	runs := []string{
		accounted("7", 0, 10, 20, "NODE_FAIL", ""), accounted("7", 20, 30, 40, "PREEMPTED", ""),
		accounted("7", 40, 50, 80, "COMPLETED", ""),
	}
	for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		w := builtAt(t, -1, runs[order[0]], runs[order[1]], runs[order[2]], runs[order[2]])
		job := w.Jobs.At(0)
		if w.Jobs.Len() != 1 || job.Submit != hpc.Unix(1_700_000_000) || job.RunTime != 30*time.Minute || job.ExitCode != 0 {
			t.Errorf("%v: %d jobs, %+v", order, w.Jobs.Len(), job)
		}
		if w.Rules[finished.NoteRequeued]+w.Rules[finished.RuleDuplicate] != 3 {
			t.Errorf("%v: rules %v", order, w.Rules)
		}
	}
}

// TestRequeuedTask checks that the run of a task that was requeued is none of its array's
// tasks, for those that depend on them.
func TestRequeuedTask(t *testing.T) {
	w := builtAt(t, 60,
		accounted("5_0", 0, 10, 90, "NODE_FAIL", "-a 0-1"), accounted("5_0", 90, 100, 110, "COMPLETED", "-a 0-1"),
		accounted("5_1", 0, 70, 80, "COMPLETED", "-a 0-1"), accounted("6", 5, 120, 130, "COMPLETED", "-d afterok:5"))
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
}
