package run

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// Workload reads the record in dir as a workload: what was submitted, as it was
// submitted, and what became of it as each job's Recorded. Where users reacted, a job's
// submission is the one that they made in this run. It has the signature of
// [workload.OpenRun].
func Workload(dir string) (*workload.Workload, error) {
	r, err := Open(dir)
	if err != nil {
		return nil, fmt.Errorf("reading workload: %w", err)
	}
	jobs, err := r.Submissions()
	if err != nil {
		return nil, fmt.Errorf("reading workload: %s: %w", dir, err)
	}
	rows, err := r.Jobs()
	if err != nil {
		return nil, fmt.Errorf("reading workload: %s: %w", dir, err)
	}
	recorded(jobs, rows, r.Manifest.Feedback != nil)
	slices.SortStableFunc(jobs, func(a, b *hpc.Job) int { return cmp.Compare(a.Submit, b.Submit) })
	if len(jobs) == 0 {
		return nil, fmt.Errorf("reading workload: %s: the run has no jobs", dir)
	}
	w, err := r.setting()
	if err != nil {
		return nil, fmt.Errorf("reading workload: %w", err)
	}
	w.Jobs, w.Source = workload.JobsOf(jobs...), dir
	return w, nil
}

// setting is the run's workload without its jobs.
func (r *Run) setting() (*workload.Workload, error) {
	w := &workload.Workload{Epoch: r.Manifest.VirtualStart, Start: r.Manifest.WindowStart}
	path := filepath.Join(r.Dir, settingFile)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return w, nil // a record that was made without
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() // nothing is written
	return workload.ReadSetting(f, path)
}

// recorded adds to each job what became of it in this run, and with moved its submission
// in this run.
func recorded(jobs []*hpc.Job, rows []Row, moved bool) {
	of := make(map[string][]Row, len(jobs))
	for i, begin := 0, 0; i < len(rows); i++ {
		if i+1 == len(rows) || rows[i+1].Job != rows[begin].Job {
			of[rows[begin].Job] = rows[begin : i+1]
			begin = i + 1
		}
	}
	for _, job := range jobs {
		tasks := of[job.ID]
		if len(tasks) == 0 {
			continue
		}
		row := &tasks[0]
		if moved {
			job.Submit = row.Submit
		}
		if job.Array != "" {
			job.Recorded = ofArray(tasks)
			continue
		}
		job.Recorded = &hpc.Recorded{
			Eligible: row.Eligible, Start: row.Start, End: row.End, State: row.State,
			Nodes: row.Nodes, Processors: row.Processors, Priority: row.Priority,
		}
	}
}

// ofArray is what became of a job array: of each of its tasks, or of all of it where it was
// rejected. It has not ended before all of them have.
func ofArray(tasks []Row) *hpc.Recorded {
	r := &hpc.Recorded{State: tasks[0].State}
	open := false
	for i := range tasks {
		row := &tasks[i]
		if row.State != r.State {
			r.State = ""
		}
		if row.Eligible != 0 && (r.Eligible == 0 || row.Eligible < r.Eligible) {
			r.Eligible = row.Eligible
		}
		if row.Start != 0 && (r.Start == 0 || row.Start < r.Start) {
			r.Start, r.Priority, r.Processors = row.Start, row.Priority, row.Processors
		}
		r.End = max(r.End, row.End)
		open = open || row.End == 0
		if row.Task < 0 {
			continue
		}
		set(&r.TaskStarts, row.Task, row.Start)
		set(&r.TaskEnds, row.Task, row.End)
		set(&r.TaskNodes, row.Task, row.Nodes)
	}
	if open {
		r.End = 0
	}
	return r
}

// set notes what is so of a task, if it is anything.
func set[V comparable](tasks *map[int]V, task int, value V) {
	var none V
	if value == none {
		return
	}
	if *tasks == nil {
		*tasks = make(map[int]V)
	}
	(*tasks)[task] = value
}
