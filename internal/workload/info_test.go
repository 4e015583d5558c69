package workload_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/formats/events"
	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const infoEvents = `
-dt 0     -e submit_batch_job | -J a -sim-walltime 30 --uid=ann -A x -p batch -q normal -t 10 -N 2 -n 8
-dt 100   -e submit_batch_job | -J b -sim-walltime 1800 --uid=bob -A x -p batch -q normal -t 60 -N 1 -n 4 -c 2
-dt 4000  -e submit_batch_job | -J c -sim-walltime -1 --uid=bob -A y -p gpu -t 120 -N 5 --gres=gpu:1
-dt 4000  -e submit_batch_job | -J d -sim-walltime 60 --uid=bob -A y -p gpu -t 4 -a 1-3 --exclusive
-dt 9000  -e submit_batch_job | -J e -sim-walltime -1 --uid=ann -N 1 -d afterok:a
-dt 9500  -e cancel_job | -J e
-dt 90000 -e submit_batch_job | -J a -sim-walltime 100000 --uid=ann -N 3
`

func readEvents(t *testing.T, text string) *workload.Workload {
	t.Helper()
	w, err := events.Read(strings.NewReader(text), "x.events", workload.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func sum(list []int) (n int) {
	for _, x := range list {
		n += x
	}
	return n
}

// TestInfoNeverStarted checks a job that was cancelled while it waited. The summary counts its
// work as offered and names this part, but ignores the job in the use of limits.
func TestInfoNeverStarted(t *testing.T) {
	w := readEvents(t, "-dt 0 -e submit_batch_job | -J a -sim-walltime 1800 --uid=ann -t 60 -n 2\n"+
		"-dt 5 -e submit_batch_job | -J b -sim-walltime -1 --uid=ann -t 60 -n 4\n")
	var jobs []*hpc.Job
	for _, job := range w.Jobs.All() {
		one := *job
		if one.Name == "b" {
			one.Recorded = &hpc.Recorded{State: hpc.Cancelled, End: one.Submit.Add(time.Minute)}
		}
		jobs = append(jobs, &one)
	}
	w.Jobs = workload.JobsOf(jobs...)
	info := workload.NewInfo(w)
	if info.OfferedCPUS != 2*1800+4*3600 || info.NeverStarted != 1 || info.NeverStartedCPUS != 4*3600 {
		t.Errorf("offered %g, of it %g of %d that never started", info.OfferedCPUS, info.NeverStartedCPUS, info.NeverStarted)
	}
	if info.UsedS != 1800 || info.RequestedS != 3600 || info.UsedShare != .5 || info.UntilLimit != 0 {
		t.Errorf("used %g of %g s, share %g, %d until the limit", info.UsedS, info.RequestedS, info.UsedShare, info.UntilLimit)
	}
	if in := info.Sizes.Jobs; info.Sizes.NeverStarted != 1 || sum(slices.Concat(in...)) != 1 {
		t.Errorf("the table of sizes has %v, and leaves out %d", in, info.Sizes.NeverStarted)
	}
	var text bytes.Buffer
	if err := info.Render(&text, time.UTC); err != nil || !strings.Contains(text.String(), " CPU-hours of it by 1 job that never started, until its limit\n") {
		t.Errorf("%v\n%s", err, &text)
	}
}

// TestInfoUnknownStarts: a job that ended ran, if its log lacks its start and its end.
func TestInfoUnknownStarts(t *testing.T) {
	w := readEvents(t, "-dt 0 -e submit_batch_job | -J a -sim-walltime 1800 --uid=ann -t 60 -n 2\n")
	for i, job := range w.Jobs.All() {
		job.Recorded = &hpc.Recorded{State: hpc.Completed}
		w.Jobs.Set(i, job)
	}
	if info := workload.NewInfo(w); info.NeverStarted != 0 || info.Sizes.NeverStarted != 0 || info.UsedS != 1800 {
		t.Errorf("%d and %d never started, used %g s; want 0, 0 and 1800", info.NeverStarted, info.Sizes.NeverStarted, info.UsedS)
	}
}

// TestInfoTasksNeverStarted: an array counts as its tasks in the offered work, and as a job in the table of sizes.
func TestInfoTasksNeverStarted(t *testing.T) {
	w := &workload.Workload{}
	w.Jobs.Append(&hpc.Job{ID: "ran", Submit: hpc.Unix(1000), Request: hpc.Request{Tasks: 1}, Behaviour: hpc.Behaviour{RunTime: time.Hour}})
	w.Jobs.Append(&hpc.Job{ID: "never", Submit: hpc.Unix(1000), Request: hpc.Request{Tasks: 1, Array: "1-6", TimeLimit: time.Hour},
		Behaviour: hpc.Behaviour{RunTime: hpc.Unlimited}, Recorded: &hpc.Recorded{State: hpc.Cancelled, End: hpc.Unix(1060)}})
	var text bytes.Buffer
	if err := workload.NewInfo(w).Render(&text, time.UTC); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{" 6.0 CPU-hours of it by 6 tasks that never started, until their limits\n", "run time, without 1 job that never started\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, &text)
		}
	}
}

// TestInfoAtStart: the summary of a window says what its preset jobs did before it, how many tasks wait
// at its start, and that a job that still waits at the end never started.
func TestInfoAtStart(t *testing.T) {
	at := func(hours float64) hpc.Time { return hpc.Unix(int64(3600 * hours)) }
	w := &workload.Workload{Start: at(10)}
	w.Jobs.Append(&hpc.Job{ID: "preset", Submit: at(1), Request: hpc.Request{Tasks: 4, TimeLimit: 9 * time.Hour}, Behaviour: hpc.Behaviour{RunTime: 5 * time.Hour},
		Recorded: &hpc.Recorded{State: hpc.Completed, Start: at(8), End: at(13)}})
	w.Jobs.Append(&hpc.Job{ID: "waits", Submit: at(9), Request: hpc.Request{Tasks: 1, Array: "1-3", TimeLimit: time.Hour}, Behaviour: hpc.Behaviour{RunTime: hpc.Unlimited},
		Recorded: &hpc.Recorded{State: hpc.Pending}})
	info := workload.NewInfo(w)
	if info.BeforeCPUS != 4*2*3600 || info.Waiting != 1 || info.WaitingTasks != 3 || info.NeverStarted != 3 || info.UsedS != 5*3600 || info.Sizes.NeverStarted != 1 {
		t.Errorf("%+v", info)
	}
	var text bytes.Buffer
	if err := info.Render(&text, time.UTC); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"  at its start  1 job runs, 1 wait, with arrays 3 tasks\n",
		"                3.0 CPU-hours of it by 3 tasks that never started, until their limits\n",
		"                8.0 CPU-hours of it before the window, by jobs that run at its start\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, &text)
		}
	}
}

// TestInfoNeverStartedRunTimes: jobs that never started and have run times do not count until their limits.
func TestInfoNeverStartedRunTimes(t *testing.T) {
	w := &workload.Workload{}
	for _, tt := range []struct {
		run  time.Duration
		want string
	}{
		{time.Hour / 2, " 0.5 CPU-hours of it by 1 job that never started\n"},
		{2 * time.Hour, " 1.5 CPU-hours of it by 2 jobs that never started, 1 of these until its limit\n"},
	} {
		w.Jobs.Append(&hpc.Job{ID: tt.want, Submit: hpc.Unix(1000), Request: hpc.Request{Tasks: 1, TimeLimit: time.Hour},
			Behaviour: hpc.Behaviour{RunTime: tt.run}, Recorded: &hpc.Recorded{State: hpc.Cancelled, End: hpc.Unix(1060)}})
		var text bytes.Buffer
		if err := workload.NewInfo(w).Render(&text, time.UTC); err != nil || !strings.Contains(text.String(), tt.want) {
			t.Errorf("%v: the text lacks %q:\n%s", err, tt.want, &text)
		}
	}
}

// TestUntilLimit: Slurm ends a job that runs as long as its limit as COMPLETED, so only longer jobs count.
func TestUntilLimit(t *testing.T) {
	w := &workload.Workload{}
	for i, runTime := range []time.Duration{time.Hour - time.Second, time.Hour, time.Hour + time.Second, hpc.Unlimited} {
		j := &hpc.Job{ID: fmt.Sprint(i), Request: hpc.Request{Tasks: 1, TimeLimit: time.Hour}}
		j.RunTime = runTime
		w.Jobs.Append(j)
	}
	info := workload.NewInfo(w)
	var text bytes.Buffer
	if err := info.Render(&text, time.UTC); err != nil || info.UntilLimit != 2 || !strings.Contains(text.String(), "2 would exceed their limit unless cancelled") {
		t.Errorf("%d, %v:\n%s", info.UntilLimit, err, &text)
	}
}

// TestDuplicateIDs: jobs whose ID an earlier job has are counted and shown.
func TestDuplicateIDs(t *testing.T) {
	w := &workload.Workload{}
	for i, id := range []string{"a", "b", "a", "c", "a", "b"} {
		w.Jobs.Append(&hpc.Job{ID: id, Submit: hpc.Unix(int64(1000 + i)), Request: hpc.Request{Tasks: 1}})
	}
	info := workload.NewInfo(w)
	var text bytes.Buffer
	if err := info.Render(&text, time.UTC); err != nil {
		t.Fatal(err)
	}
	if info.DuplicateIDs != 3 || !strings.Contains(text.String(), "3 have the ID of another job") {
		t.Errorf("%d duplicates:\n%s", info.DuplicateIDs, &text)
	}
}

// An array of three tasks, two of which exceed the limit, is one job and two tasks.
func TestTasksUntilLimit(t *testing.T) {
	job := func(id, array string, behaviour hpc.Behaviour) *hpc.Job {
		return &hpc.Job{ID: id, Request: hpc.Request{Array: array, TimeLimit: time.Hour}, Behaviour: behaviour}
	}
	info := workload.NewInfo(&workload.Workload{Jobs: workload.JobsOf(
		job("array", "1-3", hpc.Behaviour{RunTime: time.Hour + 1, TaskRunTimes: map[int]time.Duration{2: time.Hour}}),
		job("one task", "1-3", hpc.Behaviour{RunTime: time.Minute, TaskRunTimes: map[int]time.Duration{3: 2 * time.Hour}}),
		job("short", "", hpc.Behaviour{RunTime: time.Minute}),
	)})
	if info.UntilLimit != 2 || info.UntilLimitTasks != 3 {
		t.Errorf("%d jobs, %d tasks until their limit, want 2 and 3", info.UntilLimit, info.UntilLimitTasks)
	}
	var text bytes.Buffer
	const want = "\n  of the jobs   2 (3 tasks) would exceed their limit unless cancelled"
	if err := info.Render(&text, time.UTC); err != nil || !strings.Contains(text.String(), want) {
		t.Errorf("%v\n%s", err, text.String())
	}
}

func TestInfo(t *testing.T) {
	w := readEvents(t, infoEvents)
	w.Actions = []hpc.Action{{At: w.Epoch, Shell: "date"}, {At: w.Epoch, Run: []string{"scontrol", "reconfigure"}}}
	info := workload.NewInfo(w)
	// 8·30 + 8·1800 + 5·7200 + 3·(1·60) + 3·100000
	if want := 240.0 + 14400 + 36000 + 180 + 300000; info.OfferedCPUS != want {
		t.Errorf("offered %g CPU-seconds, want %g", info.OfferedCPUS, want)
	}
	// 2·30 + 1·1800 + 5·7200 + 3·100000; d names no nodes
	if want := 60.0 + 1800 + 36000 + 300000; info.OfferedNodeS != want {
		t.Errorf("offered %g node-seconds, want %g", info.OfferedNodeS, want)
	}
	// (30/600 + 1800/3600 + 1 + 3·60/240) / 6
	if want := (0.05 + 0.5 + 1 + 0.75) / 6; info.UsedShare-want > 1e-12 || want-info.UsedShare > 1e-12 {
		t.Errorf("used share %g, want %g", info.UsedShare, want)
	}
	if info.Jobs != 6 || info.Tasks != 8 || info.Arrays != 1 || info.Endless != 1 || info.UntilLimit != 1 || info.WithCancellation != 1 {
		t.Errorf("%+v", info)
	}
	var text bytes.Buffer
	if err := info.Render(&text, time.UTC); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		if len(line) > 101 {
			t.Errorf("wider than 100 columns: %s", line)
		}
	}
	golden(t, "info.txt", text.Bytes())
	asJSON, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "info.json", asJSON)
}

// TestInfoCancelled: the used time of a job ends at its cancellation. It begins at the recorded start,
// or at the submission if no start is recorded.
func TestInfoCancelled(t *testing.T) {
	w := readEvents(t, "-dt 0 -e submit_batch_job | -J a -sim-walltime 3600 --uid=ann -t 60 -n 2\n"+
		"-dt 900 -e cancel_job | -J a\n"+
		"-dt 1000 -e submit_batch_job | -J b -sim-walltime 600 --uid=ann -t 60 -n 2\n"+
		"-dt 9000 -e cancel_job | -J b\n")
	if used := workload.NewInfo(w).UsedS; used != 900+600 {
		t.Errorf("%g s used without a recorded start, want 1500", used)
	}
	w.Jobs.Change(0, func(j *hpc.Job) { j.Recorded = &hpc.Recorded{Start: j.Submit.Add(10 * time.Minute)} })
	if used := workload.NewInfo(w).UsedS; used != 300+600 {
		t.Errorf("%g s used, want 900", used)
	}
}

// TestInfoOfWindow checks that jobs submitted before the window's start do not make the window
// longer.
func TestInfoOfWindow(t *testing.T) {
	w := readEvents(t, infoEvents)
	w.Start = w.Epoch.Add(3900 * time.Second)
	w.Jobs.Change(0, func(j *hpc.Job) { j.Recorded = &hpc.Recorded{Start: w.Epoch.Add(time.Minute), Nodes: "n[1-2]"} })
	info := workload.NewInfo(w)
	if info.Preset != 1 || info.Waiting != 1 || info.Begin != w.Start || info.WindowS != 90000-3900 || sum(info.PerHour) != 4 || info.PerHour[0] != 2 {
		t.Errorf("%d run and %d wait at %s; %g s, by hour %v", info.Preset, info.Waiting, info.Begin, info.WindowS, info.PerHour)
	}
	if text := new(strings.Builder); info.Render(text, time.UTC) != nil || !strings.Contains(text.String(), "at its start  1 job runs, 1 wait\n") {
		t.Errorf("text\n%s", text)
	}
	// The offered load is that of the jobs that are submitted in the window.
	w.MachineProcessors = 100
	all, here := workload.NewInfo(w), 0.0
	for _, job := range w.Jobs.All() {
		if job.Submit >= w.Start {
			here += workload.OfferedWork(job)
		}
	}
	if want := here / (100 * all.WindowS); math.Abs(all.OfferedLoad-want) > 1e-12 || here == 0 || here == all.OfferedCPUS {
		t.Errorf("offered load %v, want %v of work %v of %v", all.OfferedLoad, want, here, all.OfferedCPUS)
	}
	w.Start = w.Jobs.Submit(0).Add(-time.Hour) // nobody submits a job in the window's first hour
	if info := workload.NewInfo(w); info.Begin != w.Start || info.PerHour[0] != 0 {
		t.Errorf("from %s, by hour %v; want from %s", info.Begin, info.PerHour, w.Start)
	}
}

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
		t.Errorf("%s (-want +got; -update rewrites it)\n%s", path, diff)
	}
}

func TestInfoOfNothing(t *testing.T) {
	var text bytes.Buffer
	if err := workload.NewInfo(&workload.Workload{Source: "none"}).Render(&text, time.UTC); err != nil || !strings.Contains(text.String(), "jobs          0") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

// If the jobs have no time limits, the text says so and does not print a used share of 0.
func TestInfoWithoutLimits(t *testing.T) {
	job := hpc.Job{ID: "1", Submit: workload.DefaultEpoch, Request: hpc.Request{Tasks: 1}, Behaviour: hpc.Behaviour{RunTime: time.Hour}}
	var text bytes.Buffer
	err := workload.NewInfo(&workload.Workload{Epoch: workload.DefaultEpoch, Jobs: workload.JobsOf(&job)}).Render(&text, time.UTC)
	if err != nil || !strings.Contains(text.String(), "the jobs have no time limits") || strings.Contains(text.String(), "hours requested") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

// TestCancellationsNamed: with planned cancellations the text says which figures count them.
func TestCancellationsNamed(t *testing.T) {
	for _, after := range []time.Duration{0, time.Minute} {
		w := &workload.Workload{Source: "one", Epoch: hpc.Unix(1_700_000_000)}
		w.Jobs.Append(&hpc.Job{ID: "1", Submit: w.Epoch, Request: hpc.Request{Tasks: 1, Array: "1-3", TimeLimit: 2 * time.Hour},
			Behaviour: hpc.Behaviour{RunTime: time.Hour, CancelAfter: after}})
		var b strings.Builder
		if err := workload.NewInfo(w).Render(&b, time.UTC); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"(without planned cancellations: ", "jobs by size and run time without planned cancellations\n",
			"(with planned cancellations: ", "tasks by used share of the time limit, with planned cancellations\n"} {
			if strings.Contains(b.String(), want) != (after > 0) {
				t.Errorf("cancellation after %v: %q in\n%s", after, want, b.String())
			}
		}
		if got := workload.Counted(&w.Jobs); got != "1 job (1 array, 3 tasks in all)" || !strings.Contains(b.String(), got[len("1 job"):]) {
			t.Errorf("%s, and\n%s", got, b.String())
		}
	}
}

// TestInfoOfOne: one user, account, partition or unusable record has a singular noun.
func TestInfoOfOne(t *testing.T) {
	w := &workload.Workload{Unusable: []workload.Unusable{{}}, NodeEvents: []hpc.NodeEvent{{Nodes: "n1", State: "down"}},
		Jobs: workload.JobsOf(&hpc.Job{ID: "a", Request: hpc.Request{User: "ann", Account: "phys", Partition: "batch", Tasks: 1}})}
	var text strings.Builder
	if err := workload.NewInfo(w).Render(&text, time.UTC); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 user ", "1 account ", "1 partition ", "1 unusable record of the source\n", "1 node event,"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}
