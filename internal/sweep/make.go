package sweep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	files "rmreplay/internal/input"
	"rmreplay/internal/interrupt"
	"rmreplay/internal/metrics"
	"rmreplay/internal/parallel"
	"rmreplay/internal/rm/slurm/conf/edit"
	"rmreplay/internal/run"
)

// Maker makes the runs of a plan.
type Maker struct {
	Plan    *Plan
	Program string // the path of rmreplay
	Version string // the version of rmreplay: runs of other versions are repeated
	// Observe is called at the beginning and end of every step, from several goroutines at the
	// same time. It may be nil.
	Observe func(Progress)
}

// Phase says what happened to a run.
type Phase string

// The phases of a run.
const (
	Preparing Phase = "preparing" // an input is being made; Name is its path
	Noted     Phase = "noted"     // Name is a text about the sweep
	Kept      Phase = "kept"      // the run was complete already
	Began     Phase = "began"
	Made      Phase = "made"
	Failed    Phase = "failed"
)

// Progress is the argument of [Maker.Observe].
type Progress struct {
	Phase Phase
	Name  string
	Run   *Run             // nil while preparing
	Made  *metrics.Summary // the summary of a complete run
	Err   error            // a [RunError], if the run failed
	Took  time.Duration    // real time
}

// RunError says that a run failed. It does not stop the other runs of a sweep.
type RunError struct{ Err error }

// Error returns the text of the wrapped error.
func (e *RunError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *RunError) Unwrap() error { return e.Err }

// isOfRun reports whether an error means the failure of only one run.
func isOfRun(err error) bool {
	var failed *RunError
	return errors.As(err, &failed)
}

// InputError says that the experiment or the workload is wrong, so that no run was made.
type InputError struct{ Err error }

// Error returns the text of the wrapped error.
func (e *InputError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *InputError) Unwrap() error { return e.Err }

// The exit statuses of this program that a sweep handles.
const (
	exitNotValid = 3 // a complete run that is not valid
	exitBadInput = 4
)

// isBadInput reports whether a process of this program ended because its input is wrong.
func isBadInput(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == exitBadInput
}

// patience is the time in which an interrupted run must close its record.
const patience = time.Minute

// Check computes the fingerprints of all runs without making any run or input. If an input of a run is not prepared,
// Check sets the run's error.
func (m *Maker) Check() {
	p := m.Plan
	p.fingerprints(m.Version)
	for _, d := range p.derived {
		if d.err == nil && !p.made(d) {
			d.err = fmt.Errorf("%s is missing, or the experiment has changed since this input was made (want the sweep to be "+
				"started, or submitted, again)", d.path)
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

// blame sets the error of each run to the error of its inputs, if an input has an error.
func (p *Plan) blame() {
	for _, r := range p.Runs {
		for _, in := range r.inputs() {
			if in.made != nil && in.made.err != nil {
				r.err = in.made.err
			}
		}
	}
}

// Prepare computes the fingerprints of all runs. It makes the transformed workloads and edited clusters that do not
// exist yet. If a workload or cluster cannot be made, the runs that need it fail. Prepare itself returns an
// [InputError] if a transform cannot be applied to the workload, for example because no job would be left. It also
// returns an error if it is interrupted, or if it cannot write the sweep's directory.
func (m *Maker) Prepare(ctx context.Context) error {
	p := m.Plan
	if err := os.MkdirAll(p.path(logsDir), 0o777); err != nil { // the tasks of an array need this directory as well
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
		if isBadInput(d.err) && d.transform != nil {
			return &InputError{located(p.Experiment.Path, errorAt(d.variant.Line, "transforms: %s: %w", d.variant.Name, d.err))}
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
// the experiment no longer has, because compare and report read all records in a directory.
func (m *Maker) index() error {
	for _, c := range m.Plan.Cells {
		if len(c.Runs) == 1 {
			continue
		}
		dir := m.Plan.path(c.Dir)
		if err := c.removeOthers(dir); err != nil {
			return fmt.Errorf("removing runs that the experiment no longer has: %w", err)
		}
		if err := os.MkdirAll(dir, 0o777); err != nil {
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

// removeOthers removes outdated records from the directory of a cell with several runs:
// realizations that the cell no longer has, or the record of the cell's former single run.
func (c *Cell) removeOthers(dir string) error {
	if _, err := run.Open(dir); !errors.Is(err, run.ErrNotRun) { // the record of the former single run, complete or not
		return errors.Join(os.RemoveAll(dir), os.RemoveAll(statusFile(dir)))
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		name := strings.TrimSuffix(entry.Name(), ".json")
		if strings.HasPrefix(name, run.RealizationPrefix) && !slices.ContainsFunc(c.Runs,
			func(r *Run) bool { return filepath.Base(r.Dir) == name }) {
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
	// derive first writes to a temporary name with the same suffix. The suffix decides whether
	// a workload is compressed.
	temp := filepath.Join(filepath.Dir(path), "new-"+filepath.Base(path))
	for _, old := range []string{temp, statusFile(path), path} {
		if err := os.RemoveAll(old); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	s := status{Fingerprint: d.fingerprint}
	if d.edit != nil {
		if _, err := edit.Copy(d.source, temp, settings(d.edit)); err != nil {
			return err
		}
	} else {
		args := slices.Concat(strings.Fields(transformCommand), []string{d.source}, d.transform.arguments(),
			[]string{"--output=" + temp})
		s.Command = append([]string{"rmreplay"}, args...)
		var out bytes.Buffer
		if err := m.call(ctx, append(args, "--json"), m.logPath(d.path), &out); err != nil {
			return err
		}
		var report struct {
			Steps []struct{ Notes []string }
		}
		if err := json.Unmarshal(out.Bytes(), &report); err != nil {
			return fmt.Errorf("reading the output of rmreplay %s: %w", transformCommand, err)
		}
		for _, step := range report.Steps {
			for _, note := range step.Notes {
				s.Notes = append(s.Notes, d.path+": "+note)
				m.observe(Progress{Phase: Noted, Name: d.path + ": " + note})
			}
		}
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return writeJSON(statusFile(path), s)
}

// All makes every incomplete run, with at most atOnce runs at the same time. If atOnce is 0, the
// number of CPUs is the maximum. Observe and the summary report failed runs. All returns an error
// only if it is interrupted, or if it cannot write the sweep's directory.
//
// All reports how many seeds are needed to detect differences between cells. It does so before the
// first run, and again after the runs of the first seeds (the pilot).
func (m *Maker) All(ctx context.Context, atOnce int) error {
	if err := m.tellNeeds(); err != nil {
		return err
	}
	runs, pilot := m.Plan.seedBySeed(), 0
	if len(m.Plan.Experiment.Seeds) > pilotSeeds {
		pilot = pilotSeeds * len(m.Plan.Cells)
		if err := m.these(ctx, runs[:pilot], atOnce); err != nil {
			return err
		}
		if err := m.tellNeeds(); err != nil {
			return err
		}
	}
	return m.these(ctx, runs[pilot:], atOnce)
}

// these makes those given runs that are incomplete.
func (m *Maker) these(ctx context.Context, runs []*Run, atOnce int) error {
	executor := parallel.Executor{Parallel: atOnce, GoOn: isOfRun}
	return executor.Do(ctx, len(runs), func(ctx context.Context, i int) error { return m.MakeRun(ctx, runs[i]) })
}

// MakeRun makes a run unless it is complete. It returns a [RunError] if the run fails; otherwise it returns the errors
// of [Maker.All].
func (m *Maker) MakeRun(ctx context.Context, r *Run) error {
	if record := m.Plan.complete(r); record != nil {
		s, err := metrics.FromRun(record, metrics.Options{})
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

// attempt makes a run in its own process. The result failure is the failure of the run, and err is
// the failure of the sweep.
func (m *Maker) attempt(ctx context.Context, r *Run) (s *metrics.Summary, failure, err error) {
	lock, err := m.Plan.lockRun(r)
	if errors.Is(err, ErrBusy) {
		return nil, err, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer lock.Close()
	if m.Plan.complete(r) != nil { // another process has made this run meanwhile
		s, failure = m.finish(r, nil)
		return s, failure, nil
	}
	dir := m.Plan.path(r.Dir)
	args := m.Plan.arguments(r)
	now := status{Fingerprint: r.fingerprint, Command: append([]string{"rmreplay"}, args...)}
	// The old record is removed before the new fingerprint is written; otherwise the old record would seem to belong to
	// the new inputs.
	if err := os.RemoveAll(dir); err != nil {
		return nil, nil, fmt.Errorf("removing an unfinished run: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return nil, nil, fmt.Errorf("creating a cell: %w", err)
	}
	if err := writeJSON(statusFile(dir), now); err != nil {
		return nil, nil, fmt.Errorf("beginning a run: %w", err)
	}
	if failure = r.err; failure == nil {
		s, failure = m.finish(r, m.call(ctx, args, m.logPath(r.Dir), nil))
	}
	if failure != nil && ctx.Err() == nil {
		now.Error = failure.Error()
		if err := writeJSON(statusFile(dir), now); err != nil {
			return nil, failure, fmt.Errorf("ending a run: %w", err)
		}
	}
	return s, failure, nil
}

// finish reads the record that the run's process has written.
func (m *Maker) finish(r *Run, failure error) (*metrics.Summary, error) {
	if failure != nil {
		return nil, failure
	}
	record := m.Plan.complete(r)
	if record == nil {
		return nil, errors.New("the process exited with status 0, but its record is not complete")
	}
	return metrics.FromRun(record, metrics.Options{})
}

// logPath returns the path of the file for a process's standard error.
func (m *Maker) logPath(below string) string {
	name := strings.TrimPrefix(filepath.ToSlash(below), cellsDir+"/")
	return m.Plan.path(filepath.Join(logsDir, strings.ReplaceAll(name, "/", "_")+".log"))
}

// call runs a command line of this program. A run that is not valid is not an error. The child process is killed if
// this process dies, and it is interrupted if the context is cancelled. The child's standard output goes to the
// parameter out, if out is not nil.
func (m *Maker) call(ctx context.Context, args []string, logPath string, out io.Writer) error {
	name := "rmreplay " + args[0]
	if args[0] == "workload" {
		name = "rmreplay " + transformCommand
	}
	if err := os.MkdirAll(filepath.Dir(logPath), 0o777); err != nil {
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
	c.Stdout, c.Stderr = out, log
	// The child has its own process group. The terminal interrupts only this process, and this
	// process interrupts the child.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = patience
	// The kernel sends PDEATHSIG when the forking thread ends, so this thread must not end before the child process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	release := interrupt.Hold() // until the child has ended
	err = c.Run()
	release()
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

// plainEnvironment returns the environment without the variables that Slurm sets in a job. Slurm's commands would read
// them as options. The removed variables belong to the Slurm of the job array, not to the Slurm of a replay.
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

// maxRead is the largest number of bytes that are read from a file beside a run.
const maxRead = 64 << 20

// lastLines returns the last lines of a file, joined by semicolons.
func lastLines(path string, n int) string {
	text, err := files.ReadFile(path, maxRead)
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
