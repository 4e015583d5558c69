package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"rmreplay/internal/experiment"
	"rmreplay/internal/metrics"
	"rmreplay/internal/run"
)

// Maker makes the runs of a plan.
type Maker struct {
	Plan    *Plan
	Program string // the path of rmreplay
	Version string // of rmreplay: runs of another one are made again
	// Observe is called at the beginning and end of everything, from several goroutines at
	// once. It may be nil.
	Observe func(Progress)
}

// Phase is what happened to a run.
type Phase string

// What may happen to a run.
const (
	Preparing Phase = "preparing" // an input is being made; Name is its path
	Kept      Phase = "kept"      // it was complete already
	Began     Phase = "began"
	Made      Phase = "made"
	Failed    Phase = "failed"
)

// Progress is the argument of [Maker.Observe].
type Progress struct {
	Phase Phase
	Name  string
	Run   *Run             // nil while preparing
	Made  *metrics.Summary // of a run that is complete
	Err   error            // a [RunError], of one that failed
	Took  time.Duration    // real time
}

// RunError says that a run could not be made. It does not stop the other runs of a sweep.
type RunError struct{ Err error }

// Error is the text of the error within.
func (e *RunError) Error() string { return e.Err.Error() }

// Unwrap returns the error within.
func (e *RunError) Unwrap() error { return e.Err }

// isOfRun reports whether an error is the failure of one run only.
func isOfRun(err error) bool {
	var failed *RunError
	return errors.As(err, &failed)
}

// exitNotValid is the exit status of a run that was made and is not valid.
const exitNotValid = 3

// patience is how long an interrupted run has to close its record.
const patience = time.Minute

// Check computes the fingerprints of all runs and makes nothing. A run whose inputs are not
// prepared gets an error that says so.
func (m *Maker) Check() {
	p := m.Plan
	p.fingerprints(m.Version)
	for _, d := range p.derived {
		if d.err == nil && !p.made(d) {
			d.err = fmt.Errorf("%s is not there, or the experiment has changed since it was made (want the sweep to be started, or submitted, again)", d.path)
		}
	}
	p.blame()
}

// made reports whether a derived input exists.
func (p *Plan) made(d *derived) bool {
	path := p.path(d.path)
	_, err := os.Stat(path)
	return err == nil && readStatus(path).Fingerprint == d.fingerprint
}

// blame gives each run the error of an input that it needs.
func (p *Plan) blame() {
	for _, r := range p.Runs {
		for _, in := range r.inputs() {
			if in.made != nil && in.made.err != nil {
				r.err = in.made.err
			}
		}
	}
}

// Prepare computes the fingerprints of all runs, and makes the transformed workloads and edited
// clusters that do not exist yet. If one cannot be made, the runs that need it fail. Prepare
// itself fails only if it is interrupted or cannot write the sweep's directory.
func (m *Maker) Prepare(ctx context.Context) error {
	p := m.Plan
	if err := os.MkdirAll(p.path(logsDir), 0o755); err != nil { // also for the tasks of an array
		return fmt.Errorf("creating %s: %w", p.Dir, err)
	}
	p.fingerprints(m.Version)
	for _, d := range p.derived {
		if d.err == nil {
			d.err = m.derive(ctx, d)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if d.err != nil {
			d.err = fmt.Errorf("preparing %s: %w", d.path, d.err)
		}
	}
	p.blame()
	return m.index()
}

func (r *Run) inputs() []input {
	if r.cluster == nil {
		return []input{r.workload}
	}
	return []input{r.workload, *r.cluster}
}

// index writes the index of every directory of realizations. It removes records of seeds that
// the experiment no longer has, since compare and report read all records in a directory.
func (m *Maker) index() error {
	for _, c := range m.Plan.Cells {
		if len(c.Runs) == 1 {
			continue
		}
		dir := m.Plan.path(c.Dir)
		if err := c.removeOthers(dir); err != nil {
			return fmt.Errorf("removing what is not of the experiment: %w", err)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("creating %s: %w", dir, err)
		}
		index := run.SetIndex{Command: os.Args, Seed: c.Runs[0].Seed}
		for _, r := range c.Runs {
			index.Realizations = append(index.Realizations, run.SetEntry{Run: filepath.Base(r.Dir), Seed: r.Seed})
		}
		if err := run.WriteSetIndex(dir, index); err != nil {
			return err
		}
	}
	return nil
}

// removeOthers removes from the directory of a cell with several runs the realizations that
// the cell no longer has, or the record of the single run that it had before.
func (c *Cell) removeOthers(dir string) error {
	if _, err := run.Open(dir); !errors.Is(err, run.ErrNotRun) { // whole or not
		return errors.Join(os.RemoveAll(dir), os.RemoveAll(statusFile(dir)))
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		name := strings.TrimSuffix(entry.Name(), ".json")
		if strings.HasPrefix(name, run.RealizationPrefix) && !slices.ContainsFunc(c.Runs, func(r *Run) bool { return filepath.Base(r.Dir) == name }) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, entry.Name())))
		}
	}
	return err
}

// derive makes a workload or a cluster unless it exists.
func (m *Maker) derive(ctx context.Context, d *derived) error {
	path := m.Plan.path(d.path)
	if m.Plan.made(d) {
		return nil
	}
	m.observe(Progress{Phase: Preparing, Name: d.path})
	// It is written under a temporary name with the same ending, because the ending decides
	// whether a workload is compressed.
	// a workload is compressed.
	temp := filepath.Join(filepath.Dir(path), "new-"+filepath.Base(path))
	for _, old := range []string{temp, statusFile(path), path} {
		if err := os.RemoveAll(old); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	s := status{Fingerprint: d.fingerprint}
	if d.edit != nil {
		if err := editCluster(d.source, temp, d.edit); err != nil {
			return err
		}
	} else {
		args := slices.Concat(strings.Fields(transformCommand), []string{d.source}, d.transform.arguments(), []string{"--output=" + temp})
		s.Command = append([]string{"rmreplay"}, args...)
		if err := m.call(ctx, args, m.logPath(d.path)); err != nil {
			return err
		}
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return writeJSON(statusFile(path), s)
}

// All makes every incomplete run, at most parallel at once; 0 means the number of CPUs. Observe
// and the summary report runs that fail. All itself fails only if it is interrupted or cannot
// write the sweep's directory.
func (m *Maker) All(ctx context.Context, parallel int) error {
	runs := m.Plan.seedBySeed()
	executor := experiment.Executor{Parallel: parallel, GoOn: isOfRun}
	return executor.Do(ctx, len(runs), func(ctx context.Context, i int) error { return m.One(ctx, runs[i]) })
}

// One makes a run unless it is complete. It fails with a [RunError] if the run fails; its other
// errors are those of [Maker.All].
func (m *Maker) One(ctx context.Context, r *Run) error {
	if record := m.Plan.complete(r); record != nil {
		s, err := metrics.Of(record, metrics.Options{})
		if err == nil {
			m.observe(Progress{Phase: Kept, Name: r.Name(), Run: r, Made: s})
			return nil
		}
	}
	begun := time.Now()
	m.observe(Progress{Phase: Began, Name: r.Name(), Run: r})
	summary, failure, err := m.attempt(ctx, r)
	if err != nil || ctx.Err() != nil {
		return errors.Join(ctx.Err(), err)
	}
	end := Progress{Phase: Made, Name: r.Name(), Run: r, Made: summary, Took: time.Since(begun)}
	if failure != nil {
		end.Phase, end.Err = Failed, &RunError{failure}
	}
	m.observe(end)
	return end.Err
}

// attempt makes a run in a process of its own. failure is the failure of the run, and err that
// of the sweep.
func (m *Maker) attempt(ctx context.Context, r *Run) (s *metrics.Summary, failure, err error) {
	lock, err := m.Plan.lockRun(r)
	if errors.Is(err, ErrBusy) {
		return nil, err, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer lock.Close()
	if m.Plan.complete(r) != nil { // made by another process meanwhile
		s, failure = m.finish(r, nil)
		return s, failure, nil
	}
	dir := m.Plan.path(r.Dir)
	args := m.Plan.arguments(r)
	now := status{Fingerprint: r.fingerprint, Command: append([]string{"rmreplay"}, args...)}
	// The old record is removed before the new fingerprint is written. Otherwise the old record
	// would look like one of the new inputs.
	if err := os.RemoveAll(dir); err != nil {
		return nil, nil, fmt.Errorf("removing an unfinished run: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, nil, fmt.Errorf("creating a cell: %w", err)
	}
	if err := writeJSON(statusFile(dir), now); err != nil {
		return nil, nil, fmt.Errorf("beginning a run: %w", err)
	}
	if failure = r.err; failure == nil {
		s, failure = m.finish(r, m.call(ctx, args, m.logPath(r.Dir)))
	}
	if failure != nil && ctx.Err() == nil {
		now.Error = failure.Error()
		if err := writeJSON(statusFile(dir), now); err != nil {
			return nil, failure, fmt.Errorf("ending a run: %w", err)
		}
	}
	return s, failure, nil
}

// finish reads the record that the run's process wrote.
func (m *Maker) finish(r *Run, failure error) (*metrics.Summary, error) {
	if failure != nil {
		return nil, failure
	}
	record := m.Plan.complete(r)
	if record == nil {
		return nil, errors.New("the process ended well and left no complete record")
	}
	return metrics.Of(record, metrics.Options{})
}

// logPath returns the file for a process's standard error.
func (m *Maker) logPath(below string) string {
	name := strings.TrimPrefix(filepath.ToSlash(below), cellsDir+"/")
	return m.Plan.path(filepath.Join(logsDir, strings.ReplaceAll(name, "/", "_")+".log"))
}

// call runs a command line of this program. A run that is not valid is no error. The process
// ends when this one ends, and call passes on an interruption.
func (m *Maker) call(ctx context.Context, args []string, logPath string) error {
	name := "rmreplay " + args[0]
	if args[0] == "workload" {
		name = "rmreplay " + transformCommand
	}
	if err := os.MkdirAll(filepath.Dir(logPath), 0o755); err != nil {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	log, err := os.Create(logPath)
	if err != nil {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	defer log.Close()
	c := exec.CommandContext(ctx, m.Program, args...)
	c.Args[0] = "rmreplay"
	c.Env = plainEnvironment(os.Environ())
	c.Stdout, c.Stderr = nil, log
	// The child has a process group of its own. The terminal interrupts only this process,
	// which passes it on.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = patience
	// The kernel sends PDEATHSIG when the thread that forked ends, so that the thread must live
	// as long as this process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == exitNotValid {
		return nil
	}
	if err == nil {
		return nil
	}
	if last := lastLines(logPath, 5); last != "" {
		return fmt.Errorf("%s: %w: %s", name, err, last)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// plainEnvironment returns the environment without the variables that Slurm sets in a job and
// that its commands read as options. They concern the Slurm of the job array, not the Slurm of
// a replay.
func plainEnvironment(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		for _, prefix := range []string{"SLURM_", "SLURMD_", "SBATCH_", "SALLOC_", "SRUN_", "SQUEUE_"} {
			if strings.HasPrefix(v, prefix) {
				return true
			}
		}
		return false
	})
}

// lastLines returns the last lines of a file, joined by semicolons.
func lastLines(path string, n int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	lines := strings.Split(string(bytes.TrimSpace(text)), "\n")
	return strings.TrimSpace(strings.Join(lines[max(0, len(lines)-n):], "; "))
}

func (m *Maker) observe(p Progress) {
	if m.Observe != nil {
		m.Observe(p)
	}
}
