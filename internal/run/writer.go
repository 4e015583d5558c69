package run

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"rmreplay/internal/formats/trace"
	"rmreplay/internal/hpc"
	"rmreplay/internal/jobjson"
	"rmreplay/internal/rm"
	"rmreplay/internal/workload"
)

// The files of a record.
const (
	manifestFile = "manifest.json"
	jobsFile     = "jobs.parquet"
	eventsFile   = "events.parquet"
	settingFile  = "setting.jsonl"
	journalFile  = "journal.jsonl"
	logsDir      = "logs"
	tempSuffix   = ".tmp"
)

// flushBytes is how much of the journal may wait in memory.
const flushBytes = 64 << 10

// Options changes how a record is written.
type Options struct {
	// Overwrite allows Create to replace a record. A directory that holds
	// anything else is never touched.
	Overwrite bool
	// FlushEvery is the real time that a line of the journal may wait in memory;
	// one second if 0.
	FlushEvery time.Duration
	// Unjournaled leaves out the journal, which is faster: for a run that is over in
	// seconds, and that is run again if it is killed. Jobs go to jobs.parquet as they
	// end, so that a job that has ended must have no more events.
	Unjournaled bool
}

// Writer writes a run record while the run goes on. It may be used from several
// goroutines. After an error of the file system every further call returns that
// error, and what was written until then can be read as a partial record.
type Writer struct {
	dir        string
	flushEvery time.Duration

	mu       sync.Mutex
	manifest Manifest
	warned   []Warning // by Warn; they join the manifest's at the end
	rows     *builder
	amend    func(*Row)
	file     *os.File // the journal, locked
	journal  *bufio.Writer
	line     []byte // the last one, to be written over
	// unjournaled says that jobs and events are in memory alone until the end.
	unjournaled bool
	flusher     *time.Timer // runs while the journal's buffer is not empty; else nil
	events      *eventsTable
	jobs        *jobsTable // nil until the first row is final
	released    Done       // whose rows are written
	err         error
	closed      bool
}

var (
	// ErrNotEmpty says that a record cannot be created over what is there.
	ErrNotEmpty = errors.New("directory is not empty")
	// ErrLive says that another process is writing the record.
	ErrLive = errors.New("another process is writing this run record")
	// ErrClosed says that a writer was used after Finish or Close.
	ErrClosed = errors.New("run record is closed")
)

// Create starts a record in the directory dir, which it makes if need be. It
// fails with [ErrNotEmpty] where something is there already, unless that is a
// run record and opts allows to overwrite it, with [ErrNotRun] where overwriting
// is allowed and something else is there, and with [ErrLive] where that record
// is still being written.
//
// The caller must end the record with Finish, and may defer Close.
func Create(dir string, m Manifest, opts Options) (*Writer, error) {
	w, err := create(dir, m, opts)
	if err != nil {
		return nil, fmt.Errorf("creating run record %s: %w", dir, err)
	}
	return w, nil
}

func create(dir string, m Manifest, opts Options) (*Writer, error) {
	if err := prepare(dir, opts.Overwrite); err != nil {
		return nil, err
	}
	m.Format, m.State, m.Valid = Format, StateRunning, false
	w := &Writer{dir: dir, flushEvery: opts.FlushEvery, unjournaled: opts.Unjournaled, manifest: m, rows: newBuilder()}
	if w.flushEvery <= 0 {
		w.flushEvery = time.Second
	}
	var err error
	// The journal comes first: it is what makes a second writer fail.
	if w.file, err = openJournal(dir); err != nil {
		return nil, err
	}
	w.journal = bufio.NewWriterSize(w.file, flushBytes)
	if _, err = w.journal.WriteString(journalHeader + "\n"); err == nil {
		err = w.journal.Flush()
	}
	if err == nil {
		err = writeManifest(dir, m)
	}
	if err == nil {
		w.events, err = createEventsTable(dir)
	}
	if err != nil {
		_ = w.file.Close()
		return nil, err
	}
	return w, nil
}

// prepare makes the directories of a record and, with overwrite, removes the
// record that is there.
func prepare(dir string, overwrite bool) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case len(entries) > 0 && !overwrite:
		return fmt.Errorf("%w (want a new or empty directory, or leave to overwrite a run record)", ErrNotEmpty)
	case len(entries) > 0:
		if err := removeRecord(dir); err != nil {
			return err
		}
	}
	return os.MkdirAll(filepath.Join(dir, logsDir), 0o755)
}

// removeRecord removes the files of a record from dir and leaves others alone.
func removeRecord(dir string) error {
	if err := isRecord(dir); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(dir, logsDir)); err != nil {
		return err
	}
	// The manifest goes last, so that a directory in which this was interrupted
	// is still known as a record.
	for _, name := range []string{jobsFile, eventsFile, settingFile, journalFile, manifestFile} {
		for _, suffix := range []string{tempSuffix, ""} {
			err := os.Remove(filepath.Join(dir, name+suffix))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// isRecord returns nil if dir holds a record that nobody is writing.
func isRecord(dir string) error {
	file, err := os.Open(filepath.Join(dir, journalFile))
	if err == nil {
		defer file.Close()
		if locked(file) {
			return ErrLive
		}
		// Between its creation and its manifest, a record is a journal only.
		header := make([]byte, len(journalHeader))
		if n, _ := file.Read(header); string(header[:n]) == journalHeader {
			return nil
		}
	}
	_, err = readManifest(dir)
	return err
}

// Dir is the record's directory.
func (w *Writer) Dir() string { return w.dir }

// LogDir is the directory for the logs of the run's processes.
func (w *Writer) LogDir() string { return filepath.Join(w.dir, logsDir) }

// Job notes that a job was handed to the resource manager. It belongs before
// the events of the job, which must not change from now on.
func (w *Writer) Job(job *hpc.Job) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return err
	}
	if !w.unjournaled {
		w.line = jobjson.Append(w.line[:0], job)
		if err := w.append("job", w.line); err != nil {
			return err
		}
	}
	w.rows.job(job)
	return nil
}

// Released returns a job that has ended and of which everything is on its way to the disk,
// so that the writer will not look at it again; nil if there is none. Only a record without
// a journal lets go of jobs.
func (w *Writer) Released() *hpc.Job {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.released.Released()
}

// Done are jobs that have ended and that nobody looks at any more.
type Done []*hpc.Job

// Released takes one of them out; nil if there is none.
func (d *Done) Released() *hpc.Job {
	last := len(*d) - 1
	if last < 0 {
		return nil
	}
	job := (*d)[last]
	*d = (*d)[:last]
	return job
}

// Event notes something that happened.
func (w *Writer) Event(e rm.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return err
	}
	if !w.unjournaled {
		line, err := appendEvent(w.line[:0], e)
		if err != nil {
			return err
		}
		w.line = line
		if err := w.append("event", line); err != nil {
			return err
		}
	}
	w.events.add(newEvent(&e))
	if s := w.rows.event(&e); w.unjournaled && s != nil {
		return w.settle(s)
	}
	return nil
}

// settle sends the jobs that have ended to their table, up to the first that has not.
// changed is the submission that the last event was about. An array waits for the end,
// and with it what was submitted after it.
func (w *Writer) settle(changed *submission) error {
	if changed.written {
		return w.fail(fmt.Errorf("an event of job %s after its end", changed.first.job.ID))
	}
	if w.rows.oldest() != changed {
		return nil // the one that the others wait for is where it was
	}
	if err := w.jobsTable(); err != nil {
		return w.fail(err)
	}
	for s := w.rows.oldest(); s != nil && s.settled(); s = w.rows.oldest() {
		w.jobs.add(s)
		s.written = true
		w.rows.forget()
	}
	return nil
}

// jobsTable starts the table of jobs, if that has not been done.
func (w *Writer) jobsTable() (err error) {
	if w.jobs == nil {
		if w.jobs, err = createJobsTable(w.dir, w.amend); err == nil {
			w.jobs.written = func(s *submission) { w.released = append(w.released, s.first.job) }
		}
	}
	return err
}

// Warn notes a warning. The same code and text given again is counted, not repeated.
func (w *Writer) Warn(warning Warning) error {
	line, err := json.Marshal(warning)
	if err != nil {
		return fmt.Errorf("encoding a warning: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.append("warning", line); err != nil {
		return err
	}
	w.warned = addWarning(w.warned, warning)
	return nil
}

// append writes one line to the journal's buffer and sees to it that the
// buffer is flushed in time.
func (w *Writer) append(kind string, data []byte) error {
	if err := w.usable(); err != nil {
		return err
	}
	for _, part := range [][]byte{[]byte(`{"` + kind + `":`), data, []byte("}\n")} {
		if _, err := w.journal.Write(part); err != nil {
			return w.fail(err)
		}
	}
	if w.flusher == nil {
		w.flusher = time.AfterFunc(w.flushEvery, w.timedFlush)
	}
	return nil
}

// timedFlush flushes when the oldest line in the buffer has waited long enough.
// An error is returned by the next call.
func (w *Writer) timedFlush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flusher = nil
	if w.usable() == nil {
		_ = w.flush()
	}
}

// flush writes the journal's buffer out.
func (w *Writer) flush() error {
	if w.flusher != nil {
		w.flusher.Stop()
		w.flusher = nil
	}
	if err := w.journal.Flush(); err != nil {
		return w.fail(err)
	}
	return nil
}

// fail makes err the writer's lasting state.
func (w *Writer) fail(err error) error {
	w.err = fmt.Errorf("writing run record %s: %w", w.dir, err)
	return w.err
}

func (w *Writer) usable() error {
	if w.err != nil {
		return w.err
	}
	if w.closed {
		return fmt.Errorf("writing run record %s: %w", w.dir, ErrClosed)
	}
	return nil
}

// Flush writes out what waits in memory, so that it survives the death of this
// process. It happens by itself within [Options.FlushEvery].
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return err
	}
	return w.flush()
}

// Setting keeps what the workload has besides jobs (users, node events, reservations,
// actions, usage), so that the run can be read as a workload. It belongs before the
// first job.
func (w *Writer) Setting(wl *workload.Workload) error {
	setting := *wl
	setting.Jobs = workload.Jobs{}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return err
	}
	if err := trace.Save(filepath.Join(w.dir, settingFile), &setting); err != nil {
		return w.fail(err)
	}
	return nil
}

// Amend has change look at every row that [Writer.Finish] writes, for what is known only
// when all is over. A record without an end has rows that are not amended, and so has one
// without a journal that was told after its first job had ended.
func (w *Writer) Amend(change func(*Row)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.amend = change
}

// Rows visits the rows of all jobs so far, in the order of jobs.parquet, without what the
// jobs asked for ([Row.Request]). A row is valid until the next one. Nothing must be noted
// meanwhile. Without a journal, the rows that are on the disk already are those of
// [Writer.Outcomes].
func (w *Writer) Rows(yield func(*Row) bool) {
	w.visit(yield, (*taskRow).put)
}

// Outcomes visits the rows of all jobs so far with no more in them than became of the jobs:
// ID, task and user; state, instants, suspension and restarts; how many nodes and processors
// they held, and when. Metrics are computed from that, in no more memory than it takes. A
// row is valid until the next one. Nothing must be noted meanwhile, but Finish may be at
// work.
func (w *Writer) Outcomes(yield func(*Row) bool) { w.visit(yield, (*taskRow).outcome) }

// visit visits the rows of all jobs so far, as fill makes them where they are not packed.
func (w *Writer) visit(yield func(*Row) bool, fill func(*taskRow, *Row)) {
	var row Row
	for i := range w.rows.over.refs {
		if w.rows.over.get(i, &row); !yield(&row) {
			return
		}
	}
	for s := range w.rows.each {
		if !s.answered {
			continue
		}
		for r := range s.rows {
			if fill(r, &row); !yield(&row) {
				return
			}
		}
	}
}

// Update changes the manifest and writes it.
func (w *Writer) Update(change func(*Manifest)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return err
	}
	change(&w.manifest)
	w.manifest.Format, w.manifest.State, w.manifest.Valid = Format, StateRunning, false
	if err := writeManifest(w.dir, w.manifest); err != nil {
		return w.fail(err)
	}
	return nil
}

// Finish ends the record in the given state: it turns the journal into the
// tables and then writes the manifest for the last time, with what change adds
// to it (the instants of the end, CPU times, ...). After an error the journal is
// still there, and the record can be read as a partial one.
//
// An empty or running state is taken for failed, since a run does not end so.
func (w *Writer) Finish(state State, change func(*Manifest)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return err
	}
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.writeTables(); err != nil {
		return err
	}
	if err := writeManifest(w.dir, w.finalManifest(state, change)); err != nil {
		return w.fail(err)
	}
	w.closed = true
	return errors.Join(os.Remove(w.file.Name()), w.file.Close())
}

// writeTables completes events.parquet and jobs.parquet.
func (w *Writer) writeTables() error {
	// The two tables have nothing in common; both take their time.
	var group errgroup.Group
	group.Go(w.events.commit)
	group.Go(w.writeJobs)
	if err := group.Wait(); err != nil {
		return w.fail(err)
	}
	return nil
}

// writeJobs completes jobs.parquet.
func (w *Writer) writeJobs() error {
	if err := w.jobsTable(); err != nil {
		return err
	}
	for s := range w.rows.each {
		if !s.written {
			w.jobs.add(s)
		}
	}
	return w.jobs.commit()
}

// finalManifest is the manifest of the finished run.
func (w *Writer) finalManifest(state State, change func(*Manifest)) Manifest {
	m := w.manifest
	m.Warnings = slices.Clone(m.Warnings)
	if change != nil {
		change(&m)
	}
	if state == "" || state == StateRunning {
		state = StateFailed
	}
	for _, warning := range w.warned {
		m.Warnings = addWarning(m.Warnings, warning)
	}
	m.Format, m.State = Format, state
	m.Jobs = w.rows.counts(m.Workload.Jobs)
	if m.VirtualEnd == 0 {
		m.VirtualEnd = w.rows.lastEvent
	}
	m.derive()
	m.Valid = state != StateFailed && !AffectedBy(m.Warnings)
	return m
}

// Close releases the writer's files. After Finish it does nothing; before, it
// leaves the record as a killed process would: readable, and partial.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	var err error
	if w.err == nil {
		err = w.flush()
	}
	w.closed = true
	w.events.abandon()
	w.jobs.abandon()
	return errors.Join(err, w.file.Close())
}
