package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// Workload reads the record in dir as a workload: what was submitted, as it was
// submitted, and what became of it as each job's Recorded. It has the signature of [workload.OpenRun].
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
	recorded(jobs, rows)
	if len(jobs) == 0 {
		return nil, fmt.Errorf("reading workload: %s: the run has no jobs", dir)
	}
	w, err := r.setting()
	if err != nil {
		return nil, fmt.Errorf("reading workload: %w", err)
	}
	w.Jobs, w.Source = jobs, dir
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

// recorded adds to each job what became of it in this run. Of a job array only the
// tasks have a fate, so it gets none.
func recorded(jobs []*hpc.Job, rows []Row) {
	fate := make(map[string]*Row, len(rows))
	for i := range rows {
		if rows[i].Task < 0 {
			fate[rows[i].Job] = &rows[i]
		}
	}
	for _, job := range jobs {
		row := fate[job.ID]
		if row == nil || job.Array != "" {
			continue
		}
		job.Recorded = &hpc.Recorded{
			Eligible: row.Eligible, Start: row.Start, End: row.End, State: row.State,
			Nodes: row.Nodes, Processors: row.Processors, Priority: row.Priority,
		}
	}
}
