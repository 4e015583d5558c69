// Package run writes and reads the record of a run, a directory with
//
//	manifest.json      the run's inputs, software and course ([Manifest])
//	jobs.parquet       a row for each job ([Row])
//	events.parquet     all events, in order ([Event])
//	scheduler.parquet  the scheduler's counters over the run ([Statistics]), on Slurm or its model
//	logs/              the logs of the run's processes
//	cluster/           the files of the site's configuration that the run read, without secrets
//
// docs/FORMATS.md and docs/SCHEMA.md describe the record for programs in other languages.
//
// A run may take hours, and may be killed at any moment. The results until then must not be lost, and a Parquet file
// cannot be read before its footer is written. Therefore a run in progress writes submissions, events and warnings to
// journal.jsonl, which is at most one second behind. [Writer.Finish] writes the tables, replaces the manifest
// atomically, and removes the journal. When the manifest is replaced, the record is complete. [Open] reads complete and
// incomplete records, and marks a record without an end as partial. Complete and incomplete records have the same rows,
// because the same code makes them from the same events.
//
// The writer does not sync its files to the disk. If the machine fails, the user repeats the run.
package run

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"rmreplay/internal/hpc"
	"rmreplay/internal/input"
	"rmreplay/internal/workload"
)

// Run is a record that is open for reading.
type Run struct {
	Dir      string
	Manifest Manifest
	// Partial says that the record has no end, because its writer was killed or still runs. The
	// rows show what had happened until then. A warning in the manifest says this, too.
	Partial bool
	// Live says that the writer was still running when the record was opened.
	Live bool

	journal  *journal           // of a partial record, or of a recorded workload
	recorded *workload.Workload // of a recorded workload
}

// Open opens the record in the directory dir. It fails with [ErrNotRun] if dir is not a record. It
// can open a record that is still being written.
func Open(dir string) (*Run, error) {
	r, err := open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		// The writer may have removed the journal after open read the manifest of the running run. In that case the final
		// manifest exists now.
		r, err = open(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("opening run record %s: %w", dir, err)
	}
	return r, nil
}

func open(dir string) (*Run, error) {
	m, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	r := &Run{Dir: dir, Manifest: *m}
	if m.State != StateRunning {
		r.Manifest.Valid = m.Valid && m.State == StateComplete // an interrupted run is never valid
		return r, nil
	}
	return r, r.openPartial()
}

// openPartial reads the journal of a record without an end.
func (r *Run) openPartial() error {
	file, err := input.Open(filepath.Join(r.Dir, journalFile))
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	r.Partial, r.Live = true, locked(file)
	// A running writer may append faster than this loop reads, so the loop stops at the journal's present size.
	if r.journal, err = readJournal(io.LimitReader(file, info.Size())); err != nil {
		return fmt.Errorf("%s: %w", file.Name(), err)
	}
	m := &r.Manifest
	m.Jobs, m.Reasons = r.journal.counts(m.Workload.Jobs), r.journal.reasons
	if m.VirtualEnd == 0 {
		m.VirtualEnd = r.journal.lastEvent
	}
	m.derive()
	for _, w := range r.journal.warnings {
		m.Warnings = addWarning(m.Warnings, w)
	}
	m.Warnings = addWarning(m.Warnings, r.partialWarning())
	m.Valid = false
	return nil
}

// partialWarning returns the warning of a partial record.
func (r *Run) partialWarning() Warning {
	w := Warning{
		Code:          "partial-record",
		Text:          "the run was killed before its end: this is what it had recorded until then",
		AffectsResult: true,
	}
	if r.Live {
		w.Code = "run-in-progress"
		w.Text = "the run is still going on: this is what it has recorded so far"
	}
	return w
}

// Jobs returns the rows of all jobs in the order of submission.
func (r *Run) Jobs() ([]Row, error) {
	if r.journal != nil {
		return r.journal.list(), nil
	}
	rows, err := readTable[Row](filepath.Join(r.Dir, jobsFile))
	for i := range rows {
		if len(rows[i].Segments) == 0 {
			rows[i].Segments = nil // as it was when written
		}
	}
	return rows, err
}

// Histories returns the rows of all jobs as [Run.Jobs] does, with [Row.Reasons] and [Row.ArrayEligible].
func (r *Run) Histories() ([]Row, error) {
	if r.Manifest.Engine != "slurm" && !r.Manifest.Reasons { // without reasons, the events need not be read
		rows, err := r.Jobs()
		none := &Reasons{window: r.Manifest.WindowStart}
		none.giveAll(rows, &r.Manifest)
		return rows, err
	}
	var events []Event
	var group errgroup.Group // both tables are large, so they are read in parallel
	group.Go(func() (err error) {
		events, err = r.Events()
		return err
	})
	rows, err := r.Jobs()
	eventsErr := group.Wait()
	if err := cmp.Or(err, eventsErr); err != nil {
		return nil, err
	}
	reasons := NewReasons(events, r.Manifest.VirtualEnd)
	reasons.window = r.Manifest.WindowStart
	reasons.giveAll(rows, &r.Manifest)
	for i := range rows {
		if row := &rows[i]; reasons.Any() {
			row.PriorityParts = reasons.Parts(row)
			for k := 0; row.Start == 0 && k < len(row.Reasons); k++ {
				row.Priority = cmp.Or(row.Reasons[k].Priority, row.Priority)
			}
		}
	}
	return rows, nil
}

// Events returns all events of the run, in order.
func (r *Run) Events() ([]Event, error) {
	if r.journal != nil {
		return r.journal.events, nil
	}
	events, err := readTable[Event](filepath.Join(r.Dir, eventsFile))
	for i := range events {
		if len(events[i].Parts) == 0 {
			events[i].Parts = nil // as it was when written
		}
	}
	return events, err
}

// Submissions returns the accepted and the rejected jobs, in the order of submission. Each job is as
// in the original workload. A job array is one job.
func (r *Run) Submissions() ([]*hpc.Job, error) {
	rows, err := r.Jobs()
	if err != nil {
		return nil, err
	}
	var jobs []*hpc.Job
	for i := range rows {
		if rows[i].Request == "" || i > 0 && rows[i].Job == rows[i-1].Job {
			continue
		}
		job, err := DecodeJob([]byte(rows[i].Request))
		if err != nil {
			return nil, fmt.Errorf("run record %s: row %d: %w", r.Dir, i, err)
		}
		jobs = append(jobs, job)
	}
	return jobs, nil
}

// ClusterDir returns the directory with the files of the cluster in the record dir; "" without such a directory.
func ClusterDir(dir string) string {
	path := filepath.Join(dir, clusterDir)
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return ""
	}
	return path
}

// ClusterFiles returns the record's copies of the cluster's files, by name below its directory; nil without copies.
func (r *Run) ClusterFiles() (map[string]string, error) {
	return input.ReadTree(ClusterDir(r.Dir), 64<<20)
}

// LogDir returns the directory with the logs of the run's processes.
func (r *Run) LogDir() string { return filepath.Join(r.Dir, logsDir) }

// OpenLog opens a log of the run's processes, such as slurmctld.log. The error satisfies
// [fs.ErrNotExist] if the record does not have this log.
func (r *Run) OpenLog(name string) (io.ReadCloser, error) {
	file, err := input.Open(filepath.Join(r.LogDir(), name))
	if err != nil {
		return nil, fmt.Errorf("reading run record %s: %w", r.Dir, err)
	}
	return file, nil
}
