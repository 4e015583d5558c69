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

// TestPage: the table has the recorded figures, and the median, the lowest and the highest figure
// of the draws of each directory.
func TestPage(t *testing.T) {
	dir := t.TempDir()
	day := hpc.Time(time.Date(2024, 1, 3, 9, 0, 0, 0, time.UTC).UnixNano())
	record := filepath.Join(dir, "record.jsonl")
	var jobs []*hpc.Job
	for i := range 4 {
		submit := day.Add(time.Duration(i) * 12 * time.Hour)
		begin := submit.Add(time.Duration(i) * 100 * time.Second)
		jobs = append(jobs, &hpc.Job{
			ID: string(rune('a' + i)), Submit: submit, Request: hpc.Request{Tasks: 8, MinNodes: []int{1, 2, 1, 1}[i]}, Behaviour: hpc.Behaviour{RunTime: time.Hour},
			Recorded: &hpc.Recorded{Start: begin, End: begin.Add(time.Hour), State: hpc.Completed, Processors: 8},
		})
	}
	if err := formats.Save(record, &workload.Workload{Source: "test", Epoch: day, Jobs: workload.JobsOf(jobs...)}); err != nil {
		t.Fatal(err)
	}
	for k := range 3 {
		for policy, factor := range map[string]int{"easy": 10, "slurm": 20} {
			set := filepath.Join(dir, policy, run.RealizationDir(k+1))
			if err := writeRun(set, run.Manifest{Engine: "sim", Policy: policy, Seed: uint64(k)}, jobs, time.Duration(factor*(k+1))*time.Second); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The run on Slurm equals the model's second draw, except that the last job is missing.
	onSlurm := filepath.Join(dir, "replay")
	if err := writeRun(filepath.Join(onSlurm, run.RealizationDir(2)), run.Manifest{Engine: slurmEngine, Seed: 1}, jobs[:3], 40*time.Second); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := write(&b, "2024-01-03", []string{record, filepath.Join(dir, "easy"), filepath.Join(dir, "slurm"), onSlurm}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| | jobs | recorded | easy, median of 3 | all of them | model of Slurm, median of 3 | all of them | Slurm 22.05, median of 1 | all of them |",
		"| jobs that started | 4 | 4 | 4 | 4 to 4 | 4 | 4 to 4 | 3 | 3 to 3 |",
		"| mean wait | 4 | 00:02:30 | 00:00:20 | 00:00:10 to 00:00:30 | 00:00:40 | 00:00:20 to 00:01:00 |",
		"| mean wait, without 2024-01-03 | 2 | 00:04:10 | 00:00:20 | 00:00:10 to 00:00:30 |",
		"| mean wait by node-hours | 4 | 00:02:20 | 00:00:20 |", // jobs of 1, 2, 1 and 1 nodes waited 0, 100, 200 and 300 s
		"| mean wait, 4 to 15 CPUs | 4 |", "| mean wait, submitted 08 to 12 h UTC | 2 | 00:01:40 |", "| mean wait, submitted 20 to 24 h UTC | 2 |",
		"| jobs that wait over a minute | 4 | 75.0% | 0.0% | 0.0% to 0.0% |",
		"\nSeed 1: 3 of 4 jobs start in the same second in the model and on Slurm.\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Count(b.String(), "Seed ") != 1 {
		t.Errorf("other pairs than those of one seed:\n%s", b.String())
	}
	if err := write(&b, "yesterday", []string{record, onSlurm}); err == nil || !strings.Contains(err.Error(), "not a day") {
		t.Error(err)
	}
	if err := write(&b, "", []string{record}); err == nil {
		t.Error("one path is enough")
	}
}

// writeRun writes a run in which each job waits for the given time.
func writeRun(dir string, m run.Manifest, jobs []*hpc.Job, wait time.Duration) error {
	m.Versions.Slurm = "22.05"
	w, err := run.Create(dir, m, run.Options{})
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
