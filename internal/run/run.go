// Package run keeps the record of a run on disk: a directory with
//
//	manifest.json   what was run, with what, and how it went ([Manifest])
//	jobs.parquet    a row for each job ([Row])
//	events.parquet  everything that happened, in order ([Event])
//	logs/           what the run's processes said
//
// docs/FORMATS.md describes it to programs in other languages.
//
// A run may take hours and may be killed at any moment, and what it has learned
// until then must not be lost. Parquet cannot be read before its footer is
// written, so a run in progress keeps a journal.jsonl of submissions, events
// and warnings instead, at most a second behind. [Writer.Finish] turns it into
// the tables, replaces the manifest in one step (the moment at which the record
// becomes complete) and removes the journal. [Open] reads either kind, and marks
// a record without an end as partial. Both kinds give the same rows, because the
// same code makes them from the same events.
//
// Nothing is synchronised to the disk: a run that loses its machine is run again.
package run

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"rmreplay/internal/hpc"
)

// Run is a record that was opened for reading.
type Run struct {
	Dir      string
	Manifest Manifest
	// Partial says that the record has no end: its writer was killed, or is
	// still at work. The rows are those of what had happened until then, and the
	// manifest has a warning that says so.
	Partial bool
	// Live says that the writer was still at work when the record was opened.
	Live bool

	journal *journal // of a partial record
}

// Open reads the record in the directory dir. It fails with [ErrNotRun] where
// there is none. A record that is still being written can be opened at any time.
func Open(dir string) (*Run, error) {
	r, err := open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		// The writer may have removed the journal after we read the manifest of
		// the running run; by now the manifest is the final one.
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
		return r, nil
	}
	return r, r.openPartial()
}

// openPartial reads the journal of a record without an end.
func (r *Run) openPartial() error {
	file, err := os.Open(filepath.Join(r.Dir, journalFile))
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	r.Partial, r.Live = true, locked(file)
	// A writer that is still at work may append faster than we read: what is
	// there now is enough, or reading would not end.
	if r.journal, err = readJournal(io.LimitReader(file, info.Size())); err != nil {
		return fmt.Errorf("%s: %w", file.Name(), err)
	}
	m := &r.Manifest
	m.Jobs = r.journal.counts(m.Workload.Jobs)
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

// partialWarning says what a partial record is.
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

// Jobs returns the rows of all jobs in the order in which they were submitted.
func (r *Run) Jobs() ([]Row, error) {
	if r.journal != nil {
		return r.journal.list(), nil
	}
	rows, err := readTable[Row](filepath.Join(r.Dir, jobsFile))
	for i := range rows {
		if len(rows[i].Segments) == 0 {
			rows[i].Segments = nil // as it was before it was written
		}
	}
	return rows, err
}

// Events returns everything that happened, in order.
func (r *Run) Events() ([]Event, error) {
	if r.journal != nil {
		return r.journal.events, nil
	}
	return readTable[Event](filepath.Join(r.Dir, eventsFile))
}

// Submissions returns the jobs that were submitted and answered, each as the
// workload had it, a job array once, in the order in which they were submitted:
// the run as a workload.
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

// LogDir is the directory with the logs of the run's processes.
func (r *Run) LogDir() string { return filepath.Join(r.Dir, logsDir) }
