package finished_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// TestWindow checks which jobs belong to a window from minute 60 to minute 120, and which of them
// are preset.
func TestWindow(t *testing.T) {
	opts := workload.ReadOptions{Start: minute(60), End: minute(120)}
	for _, tt := range []struct {
		record     *finished.Job
		in, preset bool
	}{
		{ran("7", 0, 10, 59, hpc.Completed, ""), false, false},
		{ran("7", 0, 10, 60, hpc.Completed, ""), false, false},
		{ran("7", 0, 10, 61, hpc.Completed, ""), true, true},
		{ran("7", 0, 59, -1, hpc.Running, ""), true, true},
		{ran("7", 0, 60, 61, hpc.Completed, ""), true, false},
		{ran("7", 0, -1, -1, hpc.Pending, ""), true, false},
		{ran("7", 0, -1, 50, hpc.Cancelled, ""), false, false},
		{ran("7", 119, 130, 140, hpc.Completed, ""), true, false},
		{ran("7", 120, 130, 140, hpc.Completed, ""), false, false},
	} {
		w := build(t, opts, tt.record, ran("1", 80, 90, 100, hpc.Completed, ""))
		outside := 1
		if tt.in {
			outside = 0
		}
		if w.Jobs.Len() != 2-outside || w.Rules[finished.NoteOutside] != outside {
			t.Errorf("%+v: %d jobs, %d outside", tt.record, w.Jobs.Len(), w.Rules[finished.NoteOutside])
		} else if tt.in && w.Preset(jobByID(t, w, "7")) != tt.preset {
			t.Errorf("%+v: preset %t", tt.record, !tt.preset)
		}
	}
}

// TestPastLimit leaves out a job that was running, but whose limit of a day passed more than a day before the window.
func TestPastLimit(t *testing.T) {
	const day = 24 * 60
	running, waiting := ran("7", 0, 10, -1, hpc.Running, ""), ran("8", 20, -1, -1, hpc.Pending, "")
	unlimited, suspended := ran("9", 0, 10, -1, hpc.Running, ""), ran("10", 0, 10, -1, hpc.Suspended, "")
	unlimited.TimeLimit = hpc.Unlimited
	for _, tt := range []struct{ start, presets, left, warnings int }{
		{15, 3, 0, 0}, {30, 3, 0, 1}, {2*day + 10, 3, 0, 1}, {2*day + 11, 2, 1, 1}, {365 * day, 2, 1, 1},
	} {
		w := builtAt(t, tt.start, running, waiting, unlimited, suspended)
		warned := w.NothingSubmitted()
		if w.Presets() != tt.presets || w.Rules[finished.NotePastLimit] != tt.left || (warned != "") != (tt.warnings > 0) {
			t.Errorf("minute %d: %d presets, rules %v, warning %q", tt.start, w.Presets(), w.Rules, warned)
		}
	}
	w := builtAt(t, 365*day, running, waiting)
	want := fmt.Sprintf("no job was submitted in the window: the window begins at %s, and the records that were read have submissions "+
		"from %s to %s", minute(365*day), minute(0), minute(20))
	if got := w.NothingSubmitted(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, opts := range []workload.ReadOptions{{Start: minute(365 * day)}, {End: minute(0)}} {
		b := finished.NewBuilder("test", opts)
		if err := b.Add(ran("7", 10, 20, -1, hpc.Running, ""), ""); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("; the jobs were submitted from %s to %s (want a window within that time)", minute(10), minute(10))
		if _, err := b.Finish(); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestOvertime counts jobs that ran more than two minutes past their limits, and says so if they are many.
func TestOvertime(t *testing.T) {
	of := func(id string, minutes int, state hpc.State) *finished.Job {
		r := ran(id, 0, 10, 10+minutes, state, "")
		r.TimeLimit = 10 * time.Minute
		return r
	}
	const text = "2 of 5 jobs ran past the time limit and did not end as TIMEOUT: a run ends them at the limit (check the " +
		"time limits, in a table's map the unit of time_limit)"
	b := finished.NewBuilder("test", workload.ReadOptions{})
	for _, r := range []*finished.Job{of("1", 12, hpc.Completed), of("2", 13, hpc.Completed), of("3", 13, hpc.Failed),
		of("4", 13, hpc.TimedOut), of("5", 9, hpc.Completed)} {
		if err := b.Add(r, ""); err != nil {
			t.Fatal(err)
		}
	}
	w, err := b.Finish()
	if err != nil || w.Rules[finished.NoteOvertime] != 2 || !slices.Contains(b.Missing(), text) {
		t.Errorf("rules %v, missing %q, error %v", w.Rules, b.Missing(), err)
	}
}

// TestEndsOtherwise checks that a job whose time of cancellation is unknown never runs. It also
// checks that jobs are counted that ended neither by their script nor by their time limit.
func TestEndsOtherwise(t *testing.T) {
	w := build(t, workload.ReadOptions{}, ran("7", 5, -1, -1, hpc.Cancelled, ""), ran("8", 5, -1, -1, hpc.Pending, ""),
		ran("9", 5, 10, 30, hpc.Cancelled, ""), ran("10", 5, 10, 30, hpc.NodeFail, ""), ran("11", 5, 10, 30, hpc.TimedOut, ""),
		ran("12", 5, 10, 30, hpc.Failed, ""))
	withdrawn := jobByID(t, w, "7")
	if withdrawn.CancelAfter <= 0 || withdrawn.CancelAfter > time.Second || withdrawn.Recorded.State != hpc.Cancelled || withdrawn.Recorded.End != minute(5) {
		t.Errorf("%+v, %+v", withdrawn.Behaviour, withdrawn.Recorded)
	}
	if waiting := jobByID(t, w, "8"); waiting.CancelAfter != 0 || waiting.Recorded.End != 0 {
		t.Errorf("%+v, %+v", waiting.Behaviour, waiting.Recorded)
	}
	if w.Rules[finished.NoteNoInstants] != 1 || w.Rules[finished.NoteExitsForOther] != 2 {
		t.Errorf("rules %v", w.Rules)
	}
}

// TestBehaviour checks a job's behaviour in the replay, depending on how it ended.
func TestBehaviour(t *testing.T) {
	with := func(r *finished.Job, change func(*finished.Job)) *finished.Job {
		change(r)
		return r
	}
	for _, tt := range []struct {
		record *finished.Job
		want   hpc.Behaviour
	}{
		{ran("7", 0, 10, 30, hpc.Completed, ""), hpc.Behaviour{RunTime: 20 * time.Minute}},
		{ran("7", 0, 10, 30, hpc.Failed, ""), hpc.Behaviour{RunTime: 20 * time.Minute, ExitCode: 1}},
		{with(ran("7", 0, 10, 30, hpc.Failed, ""), func(r *finished.Job) { r.ExitCode, r.Signal = 0, 9 }), hpc.Behaviour{RunTime: 20 * time.Minute, ExitCode: 137}},
		{ran("7", 0, 10, 30, hpc.NodeFail, ""), hpc.Behaviour{RunTime: 20 * time.Minute, ExitCode: 1}},
		{with(ran("7", 0, 10, 30, hpc.Completed, ""), func(r *finished.Job) { r.Suspended = 5 * time.Minute }), hpc.Behaviour{RunTime: 15 * time.Minute}},
		{with(ran("7", 0, 10, 30, hpc.Completed, ""), func(r *finished.Job) { r.Elapsed = 7 * time.Minute }), hpc.Behaviour{RunTime: 7 * time.Minute}},
		{with(ran("7", 0, 10, 30, hpc.Completed, ""), func(r *finished.Job) { r.Elapsed, r.Suspended = 204*time.Minute, time.Minute }),
			hpc.Behaviour{RunTime: 19 * time.Minute}},
		{ran("7", 0, 10, 30, hpc.TimedOut, ""), hpc.Behaviour{RunTime: hpc.Unlimited}},
		{with(ran("7", 0, 10, 30, hpc.TimedOut, ""), func(r *finished.Job) { r.TimeLimit = 0 }), hpc.Behaviour{RunTime: 20 * time.Minute, ExitCode: 1}},
		{ran("7", 0, 10, -1, hpc.Running, ""), hpc.Behaviour{RunTime: hpc.Unlimited}},
		{ran("7", 0, -1, -1, hpc.Pending, ""), hpc.Behaviour{RunTime: hpc.Unlimited}},
		{ran("7", 0, -1, 30, hpc.Cancelled, ""), hpc.Behaviour{RunTime: hpc.Unlimited, CancelAfter: 30 * time.Minute}},
		{ran("7", 5, -1, 5, hpc.Cancelled, ""), hpc.Behaviour{RunTime: hpc.Unlimited, CancelAfter: 1}},
	} {
		w := build(t, workload.ReadOptions{}, tt.record)
		if diff := cmp.Diff(tt.want, w.Jobs.At(0).Behaviour); diff != "" {
			t.Errorf("%+v: -want +got\n%s", tt.record, diff)
		}
	}
}

// TestRunOfNoTime: a job whose start is its end ran for no time, unless it left the queue then.
func TestRunOfNoTime(t *testing.T) {
	record := func(id string, state hpc.State, nodes string) *finished.Job {
		r := ran(id, 0, 10, 10, state, "")
		r.NodeList, r.ExitCode = nodes, 0
		return r
	}
	left := hpc.Behaviour{RunTime: hpc.Unlimited, CancelAfter: 10 * time.Minute}
	for _, tt := range []struct {
		state              hpc.State
		nodes              string
		unknown, allocated hpc.Behaviour // without node lists in the source, and with lists of other jobs
	}{
		{hpc.Completed, "", hpc.Behaviour{}, hpc.Behaviour{}},
		{hpc.Failed, "", hpc.Behaviour{ExitCode: 1}, left},
		{hpc.NodeFail, "", hpc.Behaviour{ExitCode: 1}, left},
		{hpc.Cancelled, "", left, left},
		{hpc.Deadlined, "", left, left},
		{hpc.Cancelled, "n1", hpc.Behaviour{ExitCode: 1}, hpc.Behaviour{ExitCode: 1}},
	} {
		for other, want := range map[string]hpc.Behaviour{"": tt.unknown, "n2": tt.allocated} {
			w := build(t, workload.ReadOptions{}, record("7", tt.state, tt.nodes), record("8", hpc.Completed, other))
			job := jobByID(t, w, "7")
			if diff := cmp.Diff(want, job.Behaviour); diff != "" || (job.Recorded.Start == 0) != (want.CancelAfter > 0) {
				t.Errorf("%s on %q, others on %q: start %s, -want +got\n%s", tt.state, tt.nodes, other, job.Recorded.Start, diff)
			}
			if n := w.Rules[finished.NoteNeverStarted]; len(w.Unusable) != 0 || n > 1 || (n == 1) != (want.CancelAfter > 0) {
				t.Errorf("%s on %q, others on %q: rules %v", tt.state, tt.nodes, other, w.Rules)
			}
			starts := map[string]hpc.Time{} // a function that takes the records gets the same jobs
			take := workload.ReadOptions{Record: func(record any) error {
				r := record.(*finished.Job)
				starts[r.ID] = r.Start
				return nil
			}}
			b := finished.NewBuilder("test", take)
			for _, r := range []*finished.Job{record("7", tt.state, tt.nodes), record("8", hpc.Completed, other)} {
				b.Row()
				if err := b.Add(r, r.ID); err != nil {
					t.Fatal(err)
				}
			}
			if read, err := b.Finish(); err != nil || read.Rows.Jobs != 2 || len(starts) != 2 || starts["7"] != job.Recorded.Start {
				t.Errorf("%s on %q, others on %q: starts %v, want %s of job 7; %v", tt.state, tt.nodes, other, starts, job.Recorded.Start, err)
			}
		}
	}
}

// TestRules checks each rule with one record that breaks it. A strict reader refuses the record.
// Otherwise the record is counted, and kept if it is not a job.
func TestRules(t *testing.T) {
	good, long := ran("1", 0, 10, 20, hpc.Completed, ""), ran("7", 0, 10, 20, hpc.Completed, "")
	long.Elapsed = 15 * time.Minute
	for _, tt := range []struct {
		rule     string
		unusable bool
		record   *finished.Job
		says     string
	}{
		{finished.RuleNoSubmit, true, ran("7", -1, 10, 20, hpc.Completed, ""), "job 7: no submit time"},
		{finished.RuleNoSize, true, &finished.Job{ID: "7", Submit: minute(1)}, "job 7: neither processors nor nodes"},
		{finished.RuleDuplicate, true, good, "job 1 occurs twice"},
		{finished.RuleNoStartAtAll, true, ran("7", 0, -1, 20, hpc.Completed, ""), "job 7: it ran and ended"},
		{finished.RuleNoStartAtAll, true, ran("7", 0, -1, -1, hpc.Completed, ""), "job 7: it ran and ended"},
		{finished.RuleNoRecord, true, ran("7_[5-x]", 0, -1, -1, hpc.Pending, ""), "job 7_[5-x]: "},
		{finished.RuleTimesReversed, false, ran("7", 5, 3, 20, hpc.Completed, ""), "contradict each other"},
		{finished.RuleElapsed, false, long, "job 7: it ran for 15m0s between"},
		{finished.RuleTimesReversed, false, ran("7", 0, 30, 20, hpc.Completed, ""), "contradict each other"},
		{finished.RuleSubmitLineOption, false, ran("7", 0, 10, 20, hpc.Completed, "--nodse=3"), "did you mean --nodes?"},
		{finished.RuleBadSubmitLine, false, ran("7", 0, 10, 20, hpc.Completed, "--mem=1G --mem-per-cpu=1G"), "excludes --mem"},
		{finished.RuleSubmitLineDiffers, false, ran("7", 0, 10, 20, hpc.Completed, "-n 64"), "differ in the number of CPUs"},
		{finished.RuleSubmitLineDiffers, false, ran("7", 0, 10, 20, hpc.Completed, "-t 7:00"), "differ in the time limit"},
		{workload.RuleRenamed, false, ran("1", 1, 11, 21, hpc.Completed, ""), "job 1 occurs twice, with different times"},
	} {
		w := build(t, workload.ReadOptions{}, good, tt.record)
		unusable := 0
		if tt.unusable {
			unusable = 1
		}
		if w.Rules[tt.rule] != 1 || len(w.Unusable) != unusable || w.Jobs.Len() != 2-unusable {
			t.Errorf("%s: rules %v, %d unusable, %d jobs", tt.rule, w.Rules, len(w.Unusable), w.Jobs.Len())
		}
		if tt.unusable && len(w.Unusable) == 1 && w.Unusable[0].Rule != tt.rule {
			t.Errorf("%s: unusable %+v", tt.rule, w.Unusable[0])
		}
		b := finished.NewBuilder("test", workload.ReadOptions{Strict: true})
		first, second := *good, *tt.record
		err := b.Add(&first, "")
		if err == nil {
			err = b.Add(&second, "")
		}
		if err == nil {
			_, err = b.Finish()
		}
		if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), "(rule "+tt.rule+")") {
			t.Errorf("%s: a strict reader says %v, want %q", tt.rule, err, tt.says)
		}
	}
}

func TestNoJobs(t *testing.T) {
	b := finished.NewBuilder("test", workload.ReadOptions{})
	if err := b.Add(&finished.Job{ID: "7", ReqCPUs: 1}, "seven"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Finish(); err == nil || err.Error() != "it has no usable job (no_submit_time 1; the first: job 7: no submit time)" {
		t.Error(err)
	}
}

// TestSteps checks that a job without a start gets the start of its earliest step.
func TestSteps(t *testing.T) {
	b := finished.NewBuilder("test", workload.ReadOptions{})
	record := ran("7", 10, -1, 40, hpc.Completed, "")
	if err := b.Add(record, ""); err != nil {
		t.Fatal(err)
	}
	if !b.LacksStart([]byte("7")) || b.LacksStart([]byte("8")) {
		t.Error("only job 7 lacks its start")
	}
	for _, at := range []int{30, 20, 25, 5, -1} { // minute 5 is before the submit time
		b.Step("7", minute(at))
	}
	b.Step("8", minute(20))
	w, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	job := w.Jobs.At(0)
	if job.Recorded.Start != minute(20) || job.RunTime != 20*time.Minute || w.Rules[finished.RuleNoStart] != 1 {
		t.Errorf("%+v, recorded %+v, rules %v", job, job.Recorded, w.Rules)
	}
}

// TestMissing checks that a builder names each kind of information that all records lack.
func TestMissing(t *testing.T) {
	full := finished.Job{
		ID: "7", ArrayTask: -1, Elapsed: -1, Submit: minute(1), ReqCPUs: 1, User: "ann", HasUID: true, Account: "a", QOS: "q",
		Partition: "p", TimeLimit: time.Hour, MemPerNode: 1, NodeList: "n1", SubmitLine: "sbatch x", ReqTRES: "cpu=1",
	}
	for text, without := range map[string]func(*finished.Job){
		"":                        func(*finished.Job) {},
		"no job has a user":       func(r *finished.Job) { r.User = "" },
		"no job has a UID":        func(r *finished.Job) { r.HasUID = false },
		"no job has an account":   func(r *finished.Job) { r.Account = "" },
		"no job has a partition":  func(r *finished.Job) { r.Partition = "" },
		"no job has a QOS":        func(r *finished.Job) { r.QOS = "" },
		"no job has a time limit": func(r *finished.Job) { r.TimeLimit = 0 },
		"no job asks for memory":  func(r *finished.Job) { r.MemPerNode = 0 },
		"no job has a node list":  func(r *finished.Job) { r.NodeList = "" },
		"no job has its command line (SubmitLine): dependencies, limits of arrays (%N), ":                       func(r *finished.Job) { r.SubmitLine, r.Constraint = "", "fast" },
		"no job asks for features|no job has its command line":                                                  func(r *finished.Job) { r.SubmitLine = "" },
		"no job has its resources (ReqTRES or AllocTRES): GPUs|no job asks for features|no job has its command": func(r *finished.Job) { r.ReqTRES, r.SubmitLine = "", "" },
		"no job has a user|no job has a Q":                                                                      func(r *finished.Job) { r.User, r.QOS = "", "" },
	} {
		b := finished.NewBuilder("test", workload.ReadOptions{})
		record := full
		without(&record)
		if err := b.Add(&record, ""); err != nil {
			t.Fatal(err)
		}
		var want []string
		if text != "" {
			want = strings.Split(text, "|")
		}
		missing := b.Missing()
		if len(missing) != len(want) {
			t.Errorf("%q: missing %q", text, missing)
			continue
		}
		for i := range want {
			if !strings.HasPrefix(missing[i], want[i]) {
				t.Errorf("missing %q, want %q", missing[i], want[i])
			}
		}
	}
}

// sameTasks returns the contents of a workload by job and task. The order of tasks only affects how
// an array is written: which values are the array's, and which tasks differ.
func sameTasks(w *workload.Workload) map[string]string {
	tasks := make(map[string]string)
	for _, job := range w.Jobs.All() {
		for _, task := range workload.TasksOf(job) {
			fate := job.Recorded.OfTask(task)
			fate.State = "" // an array has it only if it is the same for all tasks
			request, requeue := job.Request, job.Requeue == nil || *job.Requeue
			request.Requeue = nil // a pointer
			tasks[fmt.Sprint(job.ID, " ", task)] = fmt.Sprintf("%v %+v requeue %v, runs %v, exits %d, is cancelled after %v, %+v",
				job.Submit, request, requeue, job.RunTimeOf(task), job.ExitCodeOf(task), job.CancelAfter, fate)
		}
	}
	return tasks
}

// TestOrderOfRecords checks that a workload does not depend on the order of the records.
func TestOrderOfRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var records []*finished.Job
		for id := range rapid.IntRange(1, 6).Draw(t, "jobs") {
			submit := rapid.IntRange(0, 2).Draw(t, "submit")
			options := ""
			if id > 0 && rapid.Bool().Draw(t, "depends") {
				options = fmt.Sprintf("-d afterany:%d", rapid.IntRange(1, id).Draw(t, "on"))
			}
			tasks := []string{fmt.Sprint(id + 1)}
			if n := rapid.IntRange(0, 3).Draw(t, "tasks"); n > 0 {
				options += fmt.Sprintf(" -a 0-%d", n-1)
				tasks = nil
				for task := range n {
					tasks = append(tasks, fmt.Sprintf("%d_%d", id+1, task))
				}
			}
			for _, task := range tasks {
				start := submit + rapid.IntRange(0, 5).Draw(t, "wait")
				state := rapid.SampledFrom([]hpc.State{hpc.Completed, hpc.Failed}).Draw(t, "state")
				records = append(records, ran(task, submit, start, start+rapid.IntRange(1, 9).Draw(t, "run"), state, options))
			}
		}
		shuffled := rapid.Permutation(records).Draw(t, "order")
		want, got := build(t, workload.ReadOptions{}, records...), build(t, workload.ReadOptions{}, shuffled...)
		if diff := cmp.Diff(sameTasks(want), sameTasks(got)); diff != "" {
			t.Fatalf("-in order +shuffled\n%s", diff)
		}
		if diff := cmp.Diff(want.Rules, got.Rules); diff != "" {
			t.Fatalf("rules: -in order +shuffled\n%s", diff)
		}
	})
}
