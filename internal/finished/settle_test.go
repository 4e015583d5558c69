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
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// life is what really happened to a job or to a task of an array.
type life struct {
	id      string
	array   int // the array's number; 0 for a job that is not a task
	submit  int
	runs    [][2]int // from and to; after all but the last, the job was requeued
	options string
}

// dump returns sacct's records at a minute, of the lives that overlap the day before it.
func dump(lives []life, now, day int) (records []*finished.Job) {
	waiting := make(map[int][]string)
	for _, l := range lives {
		queued := l.submit
		for i, run := range l.runs {
			state := hpc.Requeued
			if i == len(l.runs)-1 {
				state = hpc.Completed
			}
			switch {
			case queued > now:
			case run[0] > now && l.array != 0 && i == 0:
				waiting[l.array] = append(waiting[l.array], l.id[strings.IndexByte(l.id, '_')+1:])
			case run[0] > now:
				records = append(records, ran(l.id, queued, -1, -1, hpc.Pending, l.options))
			case run[1] > now:
				records = append(records, ran(l.id, queued, run[0], -1, hpc.Running, l.options))
			case run[1] > now-day:
				records = append(records, ran(l.id, queued, run[0], run[1], state, l.options))
			}
			queued = run[1]
		}
	}
	for array, tasks := range waiting {
		at := slices.IndexFunc(lives, func(l life) bool { return l.array == array })
		id := fmt.Sprintf("%d_[%s]", array, strings.Join(tasks, ","))
		records = append(records, ran(id, lives[at].submit, -1, -1, hpc.Pending, lives[at].options))
	}
	return records
}

// drawLives draws jobs, arrays and runs.
func drawLives(t *rapid.T) (lives []life) {
	for id := range rapid.IntRange(1, 5).Draw(t, "jobs") {
		l := life{id: fmt.Sprint(id + 1), submit: rapid.IntRange(1, 30).Draw(t, "submit")}
		tasks := rapid.IntRange(0, 4).Draw(t, "tasks")
		for task := range max(tasks, 1) {
			if tasks > 0 {
				l.id, l.array, l.options = fmt.Sprintf("%d_%d", id+1, task), id+1, fmt.Sprintf("-a 0-%d", tasks-1)
			}
			l.runs = nil
			at := l.submit
			for range rapid.IntRange(1, 2).Draw(t, "runs") {
				start := at + rapid.IntRange(1, 30).Draw(t, "wait")
				at = start + rapid.IntRange(1, 40).Draw(t, "run")
				l.runs = append(l.runs, [2]int{start, at})
			}
			lives = append(lives, l)
		}
	}
	return lives
}

// TestOverlappingDumps checks that dumps of several days, in any order, give the same workload as
// one dump after the end of all jobs, with and without a window, and that each dropped record is
// counted under a rule.
func TestOverlappingDumps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lives := drawLives(t)
		const end, day = 200, 40
		opts := workload.ReadOptions{}
		if rapid.Bool().Draw(t, "window") {
			opts.Start = minute(rapid.IntRange(10, 90).Draw(t, "start"))
		}
		all := dump(lives, end, end)
		records := slices.Clone(all)
		for now := 10; now < end; now += rapid.IntRange(5, day).Draw(t, "days") {
			records = append(records, dump(lives, now, day)...)
		}
		records = rapid.Permutation(records).Draw(t, "order")
		want, err := buildAll(opts, all)
		got, err2 := buildAll(opts, records)
		if err != nil || err2 != nil {
			if err == nil || err2 == nil {
				t.Fatalf("the last dump: %v; all dumps: %v", err, err2)
			}
			return // all jobs ended before the window
		}
		if diff := cmp.Diff(sameTasks(want), sameTasks(got)); diff != "" {
			t.Fatalf("-the last dump +all dumps\n%s", diff)
		}
		if got.Rows.Read != len(records) || got.Rows.Lost() != 0 || want.Rows.Lost() != 0 {
			t.Fatalf("rows %+v of %d, rules %v", got.Rows, len(records), got.Rules)
		}
	})
}

// buildAll is like [build], but returns the error.
func buildAll(opts workload.ReadOptions, records []*finished.Job) (*workload.Workload, error) {
	b := finished.NewBuilder("test", opts)
	for _, r := range records {
		b.Row()
		record := *r
		if err := b.Add(&record, r.ID); err != nil {
			return nil, err
		}
	}
	return b.Finish()
}

// TestSuperseded checks which records are earlier records of the same run, in both orders.
func TestSuperseded(t *testing.T) {
	pending, running := ran("7", 0, -1, -1, hpc.Pending, ""), ran("7", 0, 10, -1, hpc.Running, "")
	completed := ran("7", 0, 10, 30, hpc.Completed, "")
	other := ran("7", 0, 10, -1, hpc.Running, "")
	other.User, completed.User = "eve", "ann"
	for _, tt := range []struct {
		records []*finished.Job
		rule    string
		runs    []time.Duration
	}{
		{[]*finished.Job{pending, completed}, finished.NoteSuperseded, []time.Duration{20 * time.Minute}},
		{[]*finished.Job{running, completed}, finished.NoteSuperseded, []time.Duration{20 * time.Minute}},
		{[]*finished.Job{pending, running}, finished.NoteSuperseded, []time.Duration{hpc.Unlimited}},
		{[]*finished.Job{completed, ran("7", 0, 10, 40, hpc.Completed, "")}, finished.NoteSuperseded, []time.Duration{30 * time.Minute}},
		// The job waits again, because REQUEUED is the state of a run and not of an ended job.
		{[]*finished.Job{ran("7", 0, 10, 30, hpc.Requeued, ""), pending}, finished.NoteNeverStarted, []time.Duration{hpc.Unlimited}},
		// A number was used again, or several clusters used it.
		{[]*finished.Job{completed, ran("7", 50, -1, -1, hpc.Pending, "")}, workload.RuleRenamed, []time.Duration{20 * time.Minute, hpc.Unlimited}},
		{[]*finished.Job{completed, other}, workload.RuleRenamed, []time.Duration{20 * time.Minute, hpc.Unlimited}},
		{[]*finished.Job{completed, ran("7", 0, 11, 30, hpc.Completed, "")}, workload.RuleRenamed, []time.Duration{20 * time.Minute, 19 * time.Minute}},
	} {
		for range 2 {
			w, err := buildAll(workload.ReadOptions{}, tt.records)
			if err != nil {
				t.Fatal(err)
			}
			var runs []time.Duration
			for _, job := range w.Jobs.All() {
				runs = append(runs, job.RunTime)
			}
			slices.Sort(runs)
			slices.Sort(tt.runs)
			if !slices.Equal(runs, tt.runs) || w.Rules[tt.rule] != 1 || w.Rows.Lost() != 0 {
				t.Errorf("%s then %s: run times %v, want %v; rules %v, rows %+v", tt.records[0].State, tt.records[1].State, runs, tt.runs, w.Rules, w.Rows)
			}
			slices.Reverse(tt.records)
		}
	}
}

// TestFullerRecord checks that, of two records of the same run, the record with more fields is
// used, in both orders.
func TestFullerRecord(t *testing.T) {
	bare, full := ran("7", 0, 10, 30, hpc.Completed, ""), ran("7", 0, 10, 30, hpc.Completed, "")
	full.Account = "phys"
	for _, records := range [][]*finished.Job{{bare, full}, {full, bare}} {
		w := build(t, workload.ReadOptions{}, records...)
		if w.Jobs.Len() != 1 || w.Jobs.At(0).Account != "phys" || w.Rules[finished.RuleDuplicate] != 1 {
			t.Errorf("%d jobs, account %q, rules %v", w.Jobs.Len(), w.Jobs.At(0).Account, w.Rules)
		}
	}
}

// TestResized checks that a resized job becomes the job that was submitted, for any order of its
// records, and even if only the last record is known.
func TestResized(t *testing.T) {
	size := func(cpus, nodes, submit, end int, state hpc.State) *finished.Job {
		r := ran("7", submit, 5, end, state, "")
		r.ReqCPUs, r.AllocCPUs, r.ReqNodes, r.AllocNodes, r.SubmitLine = 8, cpus, nodes, nodes, ""
		if end >= 0 {
			r.Elapsed = r.End.Sub(r.Start)
		}
		return r
	}
	first, second, third := size(8, 2, 0, 30, slurmspec.Resizing), size(6, 2, 30, 40, slurmspec.Resizing), size(4, 1, 40, 65, hpc.Completed)
	running := size(8, 2, 0, -1, hpc.Running)
	smaller := size(4, 1, 40, -1, hpc.Running)
	for _, tt := range []struct {
		records []*finished.Job
		submit  int
		nodes   int
		runs    time.Duration
		rules   map[string]int
	}{
		{[]*finished.Job{first, second, third}, 0, 2, time.Hour, map[string]int{finished.NoteResized: 2}},
		{[]*finished.Job{running, third}, 0, 2, time.Hour, map[string]int{finished.NoteSuperseded: 1}},
		{[]*finished.Job{running, first, second, smaller, third}, 0, 2, time.Hour, map[string]int{finished.NoteSuperseded: 2, finished.NoteResized: 2}},
		{[]*finished.Job{first, second, smaller}, 0, 2, hpc.Unlimited, map[string]int{finished.NoteResized: 2, finished.NoteRunning: 1}},
		{[]*finished.Job{third}, 5, 1, time.Hour, map[string]int{finished.RuleTimesReversed: 1}},
	} {
		for range 2 {
			w, err := buildAll(workload.ReadOptions{}, tt.records)
			if err != nil {
				t.Fatal(err)
			}
			job := w.Jobs.At(0)
			if w.Jobs.Len() != 1 || job.Submit != minute(tt.submit) || job.Recorded.Start != minute(5) || job.MinNodes != tt.nodes || job.RunTime != tt.runs {
				t.Errorf("%d records: %d jobs, the first %+v, recorded %+v", len(tt.records), w.Jobs.Len(), job, job.Recorded)
			}
			if diff := cmp.Diff(tt.rules, w.Rules); diff != "" {
				t.Errorf("%d records: rules (-want +got)\n%s", len(tt.records), diff)
			}
			slices.Reverse(tt.records)
		}
	}
}

// TestCutArray checks that the tasks of a list that sacct cut off come from the command line or
// the script. If this is impossible, the record is counted under a rule.
func TestCutArray(t *testing.T) {
	record := func(rest, options, script string) *finished.Job {
		r := ran("8_["+rest+"]", 0, -1, 60, hpc.Cancelled, options)
		r.Script = script
		return r
	}
	good := ran("9", 0, 10, 30, hpc.Completed, "")
	for _, tt := range []struct {
		record *finished.Job
		more   []*finished.Job
		want   string
	}{
		{record("1,4,7,1...%2", "--array=1-16:3%2", ""), nil, "1,4,7,10,13,16%2"},
		{record("1,4,7,1...%2", "--array=1-16:3", ""), nil, "1,4,7,10,13,16%2"}, // scontrol set the limit
		{record("1,4,7,1...", "", "#!/bin/sh\n#SBATCH -a 1-16:3\n"), nil, "1,4,7,10,13,16"},
		{record("7,10,1...", "-a 1-16:3", ""), []*finished.Job{ran("8_1", 0, 5, 90, hpc.Completed, "-a 1-16:3"), ran("8_13", 0, 5, 90, hpc.Completed, "-a 1-16:3")}, "7,10,16"},
		{record("1,4,7,1...%2", "", ""), nil, ""},
		{record("1,4,7,1...%2", "--array=1-16:2", ""), nil, ""},
		{record("1-...", "--array=1-16:2", ""), nil, ""},
		{record("1,x,7,1...", "--array=1-16:3", ""), nil, ""},
	} {
		records := append([]*finished.Job{tt.record, good}, tt.more...)
		w, err := buildAll(workload.ReadOptions{}, records)
		if err != nil {
			t.Fatal(err)
		}
		if w.Rows.Lost() != 0 {
			t.Errorf("%s: rows %+v", tt.record.ID, w.Rows)
		}
		var got string
		for _, job := range w.Jobs.All() {
			if job.CancelAfter != 0 {
				got = job.Array
			}
		}
		if got != tt.want || (tt.want == "") != (w.Rules[finished.RuleArrayCut] == 1) || (tt.want == "") == (w.Rules[finished.NoteArrayList] == 1) {
			t.Errorf("%s of %q: %q, want %q; rules %v", tt.record.ID, tt.record.SubmitLine, got, tt.want, w.Rules)
		}
	}
	_, err := buildAll(workload.ReadOptions{Strict: true}, []*finished.Job{record("1,4,7,1...%2", "", "")})
	if err == nil || !strings.Contains(err.Error(), "SLURM_BITSTR_LEN=0") {
		t.Errorf("a strict reader says %v", err)
	}
}

// handedOver returns the records that a builder passes on, by ID, start and state, sorted.
func handedOver(t interface{ Fatal(args ...any) }, records []*finished.Job) (list []string, w *workload.Workload) {
	b := finished.NewBuilder("test", workload.ReadOptions{Record: func(record any) error {
		r := record.(*finished.Job)
		list = append(list, fmt.Sprintln(r.ID, r.Submit, r.Start, r.End, r.State, r.ReqCPUs, r.Elapsed))
		return nil
	}})
	for _, r := range records {
		b.Row()
		record := *r
		if err := b.Add(&record, r.ID); err != nil {
			t.Fatal(err)
		}
	}
	w, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list, w
}

// TestRecordsOfOverlappingDumps does the same as [TestOverlappingDumps] for a builder that passes
// records on, as the import into the accounting does: each run of a job is a separate record.
func TestRecordsOfOverlappingDumps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lives := drawLives(t)
		const end, day = 200, 40
		records := dump(lives, end, end)
		want, _ := handedOver(t, records)
		for now := 10; now < end; now += rapid.IntRange(5, day).Draw(t, "days") {
			records = append(records, dump(lives, now, day)...)
		}
		got, w := handedOver(t, rapid.Permutation(records).Draw(t, "order"))
		if diff := cmp.Diff(want, slices.Compact(got)); diff != "" { // the store recognizes duplicates
			t.Fatalf("-the last dump +all dumps\n%s", diff)
		}
		if w.Rows.Read != len(records) || w.Rows.Lost() != 0 {
			t.Fatalf("rows %+v of %d, rules %v", w.Rows, len(records), w.Rules)
		}
	})
}

// TestResizedRecord checks that a resized job is passed on as one record.
func TestResizedRecord(t *testing.T) {
	first, last := ran("7", 0, 5, 30, slurmspec.Resizing, ""), ran("7", 30, 5, 65, hpc.Completed, "")
	first.ReqCPUs, last.Elapsed = 8, time.Hour
	want := fmt.Sprintln("7", first.Submit, first.Start, last.End, hpc.Completed, 8, time.Hour)
	for _, records := range [][]*finished.Job{{first, last}, {last, first}} {
		if got, w := handedOver(t, records); len(got) != 1 || got[0] != want || w.Rules[finished.NoteResized] != 1 || w.Rows.Lost() != 0 {
			t.Errorf("%q, want %q; rules %v", got, want, w.Rules)
		}
	}
}

// TestNothingUsable checks that an import without a usable record fails with the first mistake. An
// import whose records were all left out by choice does not fail.
func TestNothingUsable(t *testing.T) {
	opts := workload.ReadOptions{Start: minute(50), Record: func(any) error { return nil }}
	b := finished.NewBuilder("test", opts)
	b.Row()
	if err := b.Unusable(finished.RuleNoRecord, "x", "no record: %s", "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Finish(); err == nil || !strings.Contains(err.Error(), "it has no usable job (record_unreadable 1; the first: no record: x)") {
		t.Errorf("error %v", err)
	}
	w, err := buildAll(opts, []*finished.Job{ran("7", 0, 10, 30, hpc.Completed, "")})
	if err != nil || w.Rules[finished.NoteOutside] != 1 || w.Mistake != "" {
		t.Errorf("%+v, %v", w, err)
	}
}
