package run

import (
	"slices"
	"testing"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
)

// TestHistoriesOfArray checks that a record with a journal and a writer without a journal give the
// tasks of a simulated array the same histories. A task waits for the array's limit while too many
// tasks run, unless an operator holds the task.
func TestHistoriesOfArray(t *testing.T) {
	dir := t.TempDir() + "/run"
	w, err := Create(dir, Manifest{Engine: "sim", Policy: "easy"}, Options{Unjournaled: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	job := &hpc.Job{ID: "a", Submit: 10, Request: hpc.Request{Array: "1-3%1", Dependency: "afterok:0"}}
	if err := w.Job(job); err != nil {
		t.Fatal(err)
	}
	started := func(at hpc.Time, task int) rm.Event {
		return rm.Event{At: at, Kind: rm.Started, Job: "a", Task: task, Outcome: &rm.Outcome{Submit: 10, Eligible: at, Start: at}}
	}
	ended := func(at hpc.Time, task int) rm.Event {
		return rm.Event{At: at, Kind: rm.Ended, Job: "a", Task: task, Outcome: &rm.Outcome{State: hpc.Completed, End: at}}
	}
	for _, e := range []rm.Event{
		{At: 10, Kind: rm.Accepted, Job: "a", Task: -1},
		started(20, 1), {At: 25, Kind: rm.Waiting, Job: "a", Task: 3, Reason: "JobHeldUser"},
		{At: 30, Kind: rm.Waiting, Job: "a", Task: 3, Reason: "Resources"}, ended(40, 1),
		{At: 45, Kind: rm.Waiting, Job: "a", Task: 3, Reason: "Priority"}, started(50, 2), ended(60, 2), started(60, 3), ended(70, 3),
	} {
		if err := w.Event(e); err != nil {
			t.Fatal(err)
		}
	}
	var rows []Row
	for row := range w.Histories(70) {
		rows = append(rows, *row)
	}
	if err := w.Finish(StateComplete, func(m *Manifest) { m.VirtualEnd = 70 }); err != nil {
		t.Fatal(err)
	}
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := r.Histories()
	if err != nil {
		t.Fatal(err)
	}
	want := map[int][]Span{
		1: {{From: 10, To: 20}},
		2: {{From: 10, To: 20}, {From: 20, To: 40, Reason: AtArrayLimit}, {From: 40, To: 50}},
		3: {{From: 10, To: 20}, {From: 20, To: 25, Reason: AtArrayLimit}, {From: 25, To: 30, Reason: "JobHeldUser"},
			{From: 30, To: 40, Reason: AtArrayLimit}, {From: 40, To: 45, Reason: "Resources"},
			{From: 45, To: 50, Reason: "Priority"}, {From: 50, To: 60, Reason: AtArrayLimit}},
	}
	same := func(a, b Span) bool { return a.From == b.From && a.To == b.To && a.Reason == b.Reason }
	for i, list := range [][]Row{rows, again} {
		if len(list) != 3 {
			t.Fatalf("list %d has %d rows, want 3", i, len(list))
		}
		for _, row := range list {
			if !slices.EqualFunc(row.Reasons, want[row.Task], same) || row.ArrayEligible != 20 || row.First != row.Start {
				t.Errorf("list %d, task %d: %v, want %v; eligible %d, first %d", i, row.Task, row.Reasons, want[row.Task], row.ArrayEligible, row.First)
			}
		}
	}
}

// TestLastPriority checks that a job that never started has its last known priority, and not the
// priority at its submission.
func TestLastPriority(t *testing.T) {
	dir := t.TempDir() + "/run"
	w, err := Create(dir, Manifest{Engine: "slurm"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Job(&hpc.Job{ID: "a", Submit: 10}); err != nil {
		t.Fatal(err)
	}
	for _, e := range []rm.Event{
		{At: 10, Kind: rm.Accepted, Job: "a", Task: -1, Outcome: &rm.Outcome{Priority: 8225}},
		{At: 20, Kind: rm.Waiting, Job: "a", Task: -1, Reason: "Priority", Outcome: &rm.Outcome{Priority: 4000}},
		{At: 30, Kind: rm.Waiting, Job: "a", Task: -1, Reason: "Resources", Outcome: &rm.Outcome{Priority: 2304}},
	} {
		if err := w.Event(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(StateComplete, func(m *Manifest) { m.VirtualEnd = 40 }); err != nil {
		t.Fatal(err)
	}
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := r.Histories()
	if err != nil || len(rows) != 1 || rows[0].Priority != 2304 {
		t.Errorf("%+v, %v, want priority 2304", rows, err)
	}
}
