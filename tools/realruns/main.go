// Command realruns makes run records with instants finer than a second. With them, `rmreplay
// compare` and `rmreplay report` can compare replays with runs of a real Slurm whose instants come
// from its log:
//
//	go run ./tools/realruns -o real small2.real-slurm-50-runs.csv
//	go run ./tools/realruns -o ours small/*
//
// A table (.csv) comes from the University at Buffalo's Slurm simulator. It has a line for each
// job of each run, with the seconds at which the job was submitted and launched and at which its
// epilog was complete. A directory is a run record of rmreplay. The command takes the instants of
// its events, because its rows have only slurmctld's whole seconds. In whole seconds, a wait of
// 0.3 s is 0 or 1 s by chance.
//
// The records have only submissions, starts and ends.
package main

import (
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
)

func main() {
	output := flag.String("o", "", "`DIR` for the records")
	flag.Parse()
	if *output == "" || flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: realruns -o DIR TABLE.csv | realruns -o DIR RUN...")
		os.Exit(2)
	}
	if err := convert(*output, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "realruns:", err)
		os.Exit(1)
	}
}

// job is the submission, start and end of a job, in seconds since an instant of its run.
type job struct {
	name               string
	submit, start, end float64
}

// execution is a run, with its name and its jobs.
type execution struct {
	name string
	jobs []job
}

func convert(output string, inputs []string) error {
	var list []execution
	for _, in := range inputs {
		read := readRecord
		if strings.HasSuffix(in, ".csv") {
			read = readTable
		}
		runs, err := read(in)
		if err != nil {
			return err
		}
		list = append(list, runs...)
	}
	for i, e := range list {
		if err := write(filepath.Join(output, run.RealizationDir(i+1)), e); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "wrote %d records to %s\n", len(list), output)
	return nil
}

// readTable reads the runs of a table. Its columns are slurm_mode, dtstart, run_id,
// job_id, submit_job, launch_job, job_epilog_complete and others.
func readTable(path string) ([]execution, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	var list []execution
	for i, line := range lines {
		if i == 0 {
			continue // the names of the columns
		}
		j, err := tableJob(line)
		if err != nil {
			return nil, fmt.Errorf("reading %s:%d: %w", path, i+1, err)
		}
		name := fmt.Sprintf("dtstart %s, run %s", line[1], line[2])
		at := slices.IndexFunc(list, func(e execution) bool { return e.name == name })
		if at < 0 {
			at, list = len(list), append(list, execution{name: name})
		}
		list[at].jobs = append(list[at].jobs, j)
	}
	return list, nil
}

func tableJob(line []string) (job, error) {
	const columns = 7
	if len(line) < columns {
		return job{}, fmt.Errorf("%d columns (want %d or more)", len(line), columns)
	}
	var seconds [3]float64
	for i := range seconds {
		var err error
		if seconds[i], err = strconv.ParseFloat(line[4+i], 64); err != nil {
			return job{}, err
		}
	}
	return job{"jobid_" + line[3], seconds[0], seconds[1], seconds[2]}, nil
}

// readRecord reads the instants of the events of a run record.
func readRecord(dir string) ([]execution, error) {
	record, err := run.Open(dir)
	if err != nil {
		return nil, err
	}
	events, err := record.Events()
	if err != nil {
		return nil, err
	}
	e := execution{name: dir}
	at := make(map[string]int)
	for _, event := range events {
		if event.Kind == rm.Accepted {
			at[event.Job] = len(e.jobs)
			e.jobs = append(e.jobs, job{name: event.Job})
		}
		i, ok := at[event.Job]
		if !ok {
			continue // an event of a node or of a rejected job
		}
		seconds := event.At.Sub(record.Manifest.VirtualStart).Seconds()
		switch j := &e.jobs[i]; event.Kind {
		case rm.Accepted:
			j.submit = seconds
		case rm.Started:
			j.start = seconds
		case rm.Ended:
			j.end = seconds
		}
	}
	return []execution{e}, nil
}

// epoch is the instant at which all records begin.
var epoch = hpc.Unix(1_600_000_000)

func instant(seconds float64) hpc.Time {
	return epoch.Add(time.Duration(math.Round(seconds * 1e9)))
}

// write writes the record of a run. All records have their first submission at the same
// instant.
func write(dir string, e execution) error {
	w, err := run.Create(dir, run.Manifest{
		Engine: "slurm", VirtualStart: epoch, Started: epoch.Std(), Cluster: run.Cluster{Nodes: 10, Processors: 120},
		Workload: run.Source{Path: e.name, Jobs: len(e.jobs)},
	}, run.Options{})
	if err != nil {
		return err
	}
	first := math.Inf(1)
	for _, j := range e.jobs {
		first = min(first, j.submit)
	}
	last := epoch
	for _, j := range e.jobs {
		submit, start, end := instant(j.submit-first), instant(j.start-first), instant(j.end-first)
		last = max(last, end)
		if err := writeJob(w, j.name, submit, start, end); err != nil {
			return err
		}
	}
	return w.Finish(run.StateComplete, func(m *run.Manifest) { m.VirtualEnd = last })
}

func writeJob(w *run.Writer, name string, submit, start, end hpc.Time) error {
	began := rm.Outcome{State: hpc.Running, Submit: submit, Start: start, NodeCount: 1, Processors: 1}
	ended := began
	ended.State, ended.End = hpc.Completed, end
	event := func(at hpc.Time, kind rm.EventKind, o *rm.Outcome) error {
		return w.Event(rm.Event{At: at, Kind: kind, Job: name, Task: -1, Outcome: o})
	}
	return errors.Join(
		w.Job(&hpc.Job{ID: name, Submit: submit}),
		event(submit, rm.Accepted, nil),
		event(start, rm.Started, &began),
		event(end, rm.Ended, &ended),
	)
}
