package run

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"rmreplay/internal/formats/trace"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/workload"
)

// flushBytes is how much of the journal may wait in memory.
const flushBytes = 64 << 10

// Options configures a writer.
type Options struct {
	// Overwrite allows Create to replace a record. Create never changes a directory with other contents.
	Overwrite bool
	// FlushEvery is the longest real time for which a line of the journal waits in memory. 0 means one second.
	FlushEvery time.Duration
	// Unjournaled omits the journal, which is faster. Unjournaled is for a run that takes seconds and can simply be
	// repeated. The writer adds a job to jobs.parquet when the job and all jobs before it have ended. A job must therefore
	// have no events after its end.
	Unjournaled bool
}

// Writer writes a run record during the run. Several goroutines may use it, because a lock guards its state. The writer
// calls functions of the caller without holding the lock, except the function of [Writer.Update].
//
// After an error of the file system, every further call returns that error. Readers then find a
// partial record with everything that was written before.
type Writer struct {
	dir         string
	flushEvery  time.Duration
	unjournaled bool // see [Options.Unjournaled]

	mu         sync.Mutex // guards all following fields until the writer is closed
	manifest   Manifest
	warned     []Warning // warnings from Warn; Finish adds them to the manifest's
	rows       *builder
	amend      func(*Row)
	file       *os.File // the journal, locked
	journal    *bufio.Writer
	flusher    *time.Timer // runs while the journal's buffer is not empty; otherwise nil
	events     *eventsTable
	jobs       *jobsTable            // nil until the first row is final
	statistics *table[rm.Statistics] // nil before the first Statistics
	released   []*hpc.Job            // jobs whose rows are in jobs.parquet
	reasons    *Reasons              // nil with a journal; does not have the components of priorities
	err        error
	closed     bool // set by Finish or Close; after Finish begins, only Finish uses the state
}

var (
	// ErrNotEmpty says that a record cannot be created in a directory that is not empty.
	ErrNotEmpty = errors.New("directory is not empty")
	// ErrLive says that another process is writing the record.
	ErrLive = errors.New("another process is writing this run record")
	// ErrClosed says that a writer was used after Finish or Close.
	ErrClosed = errors.New("run record is closed")
)

// Create starts a record in the directory dir, and makes the directory if it does not exist. If dir is not empty and
// opts does not allow overwriting, Create fails with [ErrNotEmpty]. If opts allows overwriting and dir holds something
// other than a record, Create fails with [ErrNotRun]. If another process is writing that record, Create fails with
// [ErrLive].
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
	w := &Writer{
		dir: dir, flushEvery: opts.FlushEvery, unjournaled: opts.Unjournaled, manifest: m, rows: newBuilder(),
	}
	if w.unjournaled {
		w.reasons = NewReasons(nil, 0)
		w.reasons.window = m.WindowStart
	}
	if w.flushEvery <= 0 {
		w.flushEvery = time.Second
	}
	var err error
	// The journal comes first, because its lock makes a second writer fail.
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

// Dir returns the record's directory.
func (w *Writer) Dir() string { return w.dir }

// LogDir returns the directory for the logs of the run's processes.
func (w *Writer) LogDir() string { return filepath.Join(w.dir, logsDir) }

// Job records that the replay submitted a job to the resource manager. The caller must call Job
// before it records the job's events, and must not change the job afterwards.
func (w *Writer) Job(job *hpc.Job) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return err
	}
	if !w.unjournaled {
		if err := w.append("job", EncodeJob(job)); err != nil {
			return err
		}
	}
	w.rows.job(job)
	return nil
}

// Released returns an ended job that the writer no longer needs, or nil. It returns each job at
// most once. Only a record without a journal releases jobs before its end.
// [rmreplay/internal/replay.Options] can reuse the released jobs.
func (w *Writer) Released() *hpc.Job {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := len(w.released) - 1
	if last < 0 {
		return nil
	}
	job := w.released[last]
	w.released = w.released[:last]
	return job
}

// Event records an event.
func (w *Writer) Event(e rm.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return err
	}
	if !w.unjournaled {
		line, err := appendEvent(nil, e)
		if err != nil {
			return err
		}
		if err := w.append("event", line); err != nil {
			return err
		}
	}
	row := newEvent(&e)
	w.events.add(row)
	if w.unjournaled && e.Kind == rm.NodeState {
		w.reasons.outages.Add(e.At, e.Reason)
	}
	if w.unjournaled && e.Kind == rm.Waiting {
		row.Parts = nil
		w.reasons.add(&row)
	}
	if s := w.rows.event(&e); w.unjournaled && s != nil {
		if err := w.finalize(s); err != nil {
			return w.fail(err)
		}
	}
	return nil
}

// finalize writes jobs that have ended to jobs.parquet, in order, up to the first job that has not
// ended. The parameter changed is the submission of the last event. finalize also stops at an
// array: Finish writes arrays and the jobs after them.
func (w *Writer) finalize(changed *submission) error {
	if changed.final {
		return fmt.Errorf("job %s: an event comes after the job's end", changed.first.job.ID)
	}
	if w.rows.oldest() != changed {
		return nil // the first job that has not ended is still the same
	}
	if err := w.startJobs(); err != nil {
		return err
	}
	for s := w.rows.oldest(); s != nil && s.hasEnded(); s = w.rows.oldest() {
		w.jobs.add(s)
		w.rows.finalize()
	}
	return nil
}

// startJobs creates jobs.parquet, unless it exists.
func (w *Writer) startJobs() (err error) {
	if w.jobs == nil {
		if w.jobs, err = createJobsTable(w.dir, w.amend); err == nil {
			w.jobs.written = func(s *submission) { w.released = append(w.released, s.first.job) }
		}
	}
	return err
}

// Warn records a warning. If a warning with the same code and text exists, only its count grows.
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

// append writes one line to the journal's buffer and starts the timer that flushes it.
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

// timedFlush flushes when the oldest line in the buffer has waited for FlushEvery. If it fails, the
// next call of the writer returns the error.
func (w *Writer) timedFlush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flusher = nil
	if w.usable() == nil {
		_ = w.flush()
	}
}

// flush writes the journal's buffer to the file.
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

// fail makes err the result of all further calls.
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

// Flush writes the buffered lines to the file, so that they survive if this process is killed. The
// writer also flushes by itself within [Options.FlushEvery].
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return err
	}
	return w.flush()
}

// Setting stores everything in the workload except its jobs: users, node events, reservations, actions, usage. With
// it the run can be read as a workload. The caller must call Setting before the first job.
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

// Cluster stores the files of the cluster that the run is played on, by their paths below its directory. The files must
// not contain secrets.
func (w *Writer) Cluster(files map[string]string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return err
	}
	for name, text := range files {
		path := filepath.Join(w.dir, clusterDir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o777)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o666)
		}
		if err != nil {
			return w.fail(err)
		}
	}
	return nil
}

// ErrUnjournaled says that an operation is not possible for a record without a journal.
var ErrUnjournaled = errors.New("the record has no journal")

// Amend makes [Writer.Finish] call the function change with every row before it writes the row, after the functions of
// earlier calls of Amend. Amend is for values that are known only after the run. One goroutine makes all calls. The
// rows of a partial record are not amended. Without a journal, rows may be on the disk already, so Amend fails with
// [ErrUnjournaled].
func (w *Writer) Amend(change func(*Row)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return err
	}
	if w.unjournaled {
		return fmt.Errorf("amending run record %s: %w", w.dir, ErrUnjournaled)
	}
	if before := w.amend; before != nil {
		next := change
		change = func(row *Row) {
			before(row)
			next(row)
		}
	}
	w.amend = change
	return nil
}

// Rows visits the rows of all answered jobs that were submitted before the call, in the order of jobs.parquet. The rows
// lack [Row.Request], except for rejected arrays, and changes of [Writer.Amend]. Without a journal, a row that can no
// longer change has only the values that metrics are computed from: Job, Task, User, State, First, the times of
// submission, eligibility, start and end, TimeLimit, Nodes, NodeCount, Processors, Suspended, Restarts, Segments, and
// the four fields from AskedBegin to AskedArrayLimit.
//
// The visitor may change a row. A row is valid until the next row is visited. The visitor and other
// goroutines may use the writer during the visit, so a row shows the job's state shortly before the
// visit. Rows also works during and after Finish.
func (w *Writer) Rows(yield func(*Row) bool) {
	w.mu.Lock()
	end, heard, window := w.rows.submitted(), slices.Clone(w.rows.heard), w.manifest.WindowStart
	w.mu.Unlock()
	rows := make([]Row, 0, visitBatch)
	for begin := 0; begin < end; begin += visitBatch {
		rows = w.appendRows(rows[:0], begin, min(begin+visitBatch, end))
		if !yieldAll(rows, window, yield) {
			return
		}
	}
	for batch := range slices.Chunk(heard, visitBatch) {
		rows = w.appendHeard(rows[:0], batch)
		if !yieldAll(rows, window, yield) {
			return
		}
	}
}

// Histories is [Writer.Rows] with the reasons for which the jobs waited, as [Run.Histories] returns them. Histories is
// for a record without a journal. end is when the run ended. No events may be recorded any more, but Finish may still
// run.
func (w *Writer) Histories(end hpc.Time) iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		reasons := *w.reasons
		reasons.end = max(end, w.rows.lastEvent)
		var tasks []Row // of one array, or one job
		flush := func() bool {
			reasons.giveAll(tasks, &w.manifest)
			ok := yieldAll(tasks, 0, yield)
			tasks = tasks[:0]
			return ok
		}
		for row := range w.Rows {
			if len(tasks) > 0 && tasks[0].Job != row.Job && !flush() {
				return
			}
			tasks = append(tasks, *row)
		}
		flush()
	}
}

// visitBatch is the number of submissions that Rows visits each time it holds the lock.
const visitBatch = 64

// appendRows appends the present rows of the submissions with index begin ≤ i < end.
func (w *Writer) appendRows(rows []Row, begin, end int) []Row {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := begin; i < end; i++ {
		rows = w.rows.appendRows(rows, i)
	}
	return rows
}

// appendHeard appends the rows of submissions that were known only from events when the visit began.
func (w *Writer) appendHeard(rows []Row, batch []*submission) []Row {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range batch {
		if !s.final {
			rows = s.appendRows(rows)
		}
	}
	return rows
}

// yieldAll yields the rows, with the reason for the time before the window. It returns false if
// yield has returned false.
func yieldAll(rows []Row, window hpc.Time, yield func(*Row) bool) bool {
	for i := range rows {
		rows[i].beforeWindow(window)
		if !yield(&rows[i]) {
			return false
		}
	}
	return true
}

// Update changes the manifest and writes it. The function change must not call the writer.
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

// Finish ends the record in the given state. It completes the tables and then writes the final manifest. The
// parameter change may add to the manifest, for example the end times and CPU times. A run cannot end in an empty
// state or in [StateRunning]; Finish replaces these by [StateFailed]. Once Finish has begun, all other methods except
// Rows fail with [ErrClosed]. After an error the journal still exists, and readers find a partial record.
func (w *Writer) Finish(state State, change func(*Manifest)) error {
	if err := w.close(); err != nil {
		return err
	}
	// Only Finish changes the state of a closed writer, but Rows may still read the rows.
	err := w.writeTables()
	if err == nil {
		err = writeManifest(w.dir, w.finalManifest(state, change))
	}
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.closed = false // so that Close releases the files
		return w.fail(err)
	}
	return errors.Join(os.Remove(w.file.Name()), w.file.Close())
}

// close flushes the journal and closes the writer for all callers except Finish.
func (w *Writer) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return err
	}
	if err := w.flush(); err != nil {
		return err
	}
	w.closed = true
	return nil
}

// writeTables completes events.parquet, jobs.parquet and scheduler.parquet in parallel.
func (w *Writer) writeTables() error {
	var group errgroup.Group
	group.Go(w.events.commit)
	group.Go(w.writeJobs)
	group.Go(w.writeStatistics)
	return group.Wait()
}

// writeJobs completes jobs.parquet.
func (w *Writer) writeJobs() error {
	if err := w.startJobs(); err != nil {
		return err
	}
	for _, s := range w.rows.unfinalized() {
		w.jobs.add(s)
	}
	return w.jobs.commit()
}

// finalManifest returns the manifest of the finished run.
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
	m.Format, m.State, m.Reasons = Format, state, w.rows.reasons
	m.Jobs = w.rows.counts(m.Workload.Jobs)
	if m.VirtualEnd == 0 {
		m.VirtualEnd = w.rows.lastEvent
	}
	m.derive()
	m.Valid = state == StateComplete && !AffectedBy(m.Warnings)
	return m
}

// Close releases the writer's files. After Finish it does nothing. Without Finish, Close leaves a record like a killed
// process: readable and partial.
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
	if w.statistics != nil {
		w.statistics.abandon()
	}
	return errors.Join(err, w.file.Close())
}
