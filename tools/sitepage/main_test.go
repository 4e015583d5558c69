package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/formats"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// TestPage: the tables have the recorded figures, and the lowest and highest of few draws.
func TestPage(t *testing.T) {
	dir := t.TempDir()
	day := hpc.Time(time.Date(2024, 1, 3, 9, 0, 0, 0, time.UTC).UnixNano())
	record := filepath.Join(dir, "record.jsonl")
	var jobs []*hpc.Job
	for i := range 4 {
		submit := day.Add(time.Duration(i) * 12 * time.Hour)
		begin := submit.Add(time.Duration(i) * 100 * time.Second)
		jobs = append(jobs, &hpc.Job{
			ID: string(rune('a' + i)), Submit: submit, Request: hpc.Request{Tasks: 8}, Behaviour: hpc.Behaviour{RunTime: time.Hour},
			Recorded: &hpc.Recorded{Start: begin, End: begin.Add(time.Hour), State: hpc.Completed, Processors: 8},
		})
	}
	if err := formats.Save(record, &workload.Workload{Source: "test", Epoch: day, Jobs: workload.JobsOf(jobs...)}); err != nil {
		t.Fatal(err)
	}
	draws := filepath.Join(dir, "draws")
	for k := range 3 {
		if err := writeRun(filepath.Join(draws, run.RealizationDir(k+1)), jobs, time.Duration(10*(k+1))*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	if err := write(&b, "2024-01-03", []string{record, draws}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"3 draws (easy), record.jsonl",
		"| mean wait | jobs | recorded | draws, median | draws, interval |",
		"| all | 4 | 00:02:30 | 00:00:20 | 00:00:10 to 00:00:30 |",
		"| without 2024-01-03 | 2 | 00:04:10 | 00:00:20 | 00:00:10 to 00:00:30 |",
		"| 4 to 15 CPUs | 4 |", "| submitted 08 to 12 h UTC | 2 | 00:01:40 |", "| submitted 20 to 24 h UTC | 2 |",
		"| all | 4 | 75.0% | 0.0% | 0.0% to 0.0% |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if err := write(&b, "yesterday", []string{record, draws}); err == nil || !strings.Contains(err.Error(), "not a day") {
		t.Error(err)
	}
	if err := write(&b, "", []string{record}); err == nil {
		t.Error("one path is enough")
	}
}

// writeRun writes a run in which each job waits for as long.
func writeRun(dir string, jobs []*hpc.Job, wait time.Duration) error {
	w, err := run.Create(dir, run.Manifest{Engine: "sim", Policy: "easy"}, run.Options{})
	if err != nil {
		return err
	}
	for _, job := range jobs {
		if err := w.Job(job); err != nil {
			return err
		}
		o := rm.Outcome{State: hpc.Running, Submit: job.Submit, Start: job.Submit.Add(wait), Processors: 8, NodeCount: 1}
		ended := o
		ended.State, ended.End = hpc.Completed, o.Start.Add(time.Hour)
		for _, e := range []rm.Event{
			{At: job.Submit, Kind: rm.Accepted, Job: job.ID, Task: -1}, {At: o.Start, Kind: rm.Started, Job: job.ID, Task: -1, Outcome: &o},
			{At: ended.End, Kind: rm.Ended, Job: job.ID, Task: -1, Outcome: &ended},
		} {
			if err := w.Event(e); err != nil {
				return err
			}
		}
	}
	return w.Finish(run.StateComplete, nil)
}
