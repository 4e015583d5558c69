package main

import (
	"math"
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
			ID: string(rune('a' + i)), Submit: submit, Request: hpc.Request{Tasks: 8, MinNodes: []int{1, 2, 1, 1}[i]}, Behaviour: hpc.Behaviour{RunTime: time.Hour},
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
	if err := write(&b, "2024-01-03", 2, []string{record, draws}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"3 draws (easy), record.jsonl",
		"| mean wait | jobs | recorded | draws, median | draws, interval |",
		"| all | 4 | 00:02:30 | 00:00:20 | 00:00:10 to 00:00:30 |",
		"| without 2024-01-03 | 2 | 00:04:10 | 00:00:20 | 00:00:10 to 00:00:30 |",
		"| all | 4 | 00:02:20 | 00:00:20 |", // by node-hours: jobs of 1, 2, 1 and 1 nodes waited 0, 100, 200 and 300 s
		"| 4 to 15 CPUs | 4 |", "| submitted 08 to 12 h UTC | 2 | 00:01:40 |", "| submitted 20 to 24 h UTC | 2 |",
		"their nodes were free by the record for 100.0% of the time (2 nodes",
		"| all | 4 | 75.0% | 0.0% | 0.0% to 0.0% |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if err := write(&b, "yesterday", 0, []string{record, draws}); err == nil || !strings.Contains(err.Error(), "not a day") {
		t.Error(err)
	}
	if err := write(&b, "", 0, []string{record}); err == nil {
		t.Error("one path is enough")
	}
}

// TestUnexplained: of the 190 s that b waits for a node, both are taken for 90 s. Waits of a minute do not count.
func TestUnexplained(t *testing.T) {
	at := func(s int) hpc.Time { return hpc.Unix(int64(1_700_000_000 + s)) }
	job := func(submit, start, end, nodes int) started {
		return started{submit: at(submit), start: at(start), end: at(end), nodes: nodes, wait: float64(start - submit)}
	}
	a, b := job(0, 0, 100, 2), job(10, 200, 300, 1)
	for _, c := range []struct {
		jobs  []started
		nodes int
		want  float64
	}{
		{[]started{a, b}, 2, 100.0 / 190}, {[]started{b, a}, 3, 1}, {[]started{a, job(10, 100, 300, 1)}, 2, 0},
		{[]started{a, job(40, 100, 300, 1)}, 9, 0}, {[]started{job(0, 70, 80, 1)}, 1, 1},
	} {
		if got := unexplained(c.jobs, c.nodes); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v on %d nodes: %g, want %g", c.jobs, c.nodes, got, c.want)
		}
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
