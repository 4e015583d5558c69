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

	"golang.org/x/sync/errgroup"

	"rmreplay/internal/metrics"
	"rmreplay/internal/run"
)

// Maker makes the runs of a plan.
type Maker struct {
	Plan    *Plan
	Program string // the path of rmreplay
	Version string // of rmreplay: runs of another one are made again
	// Observe is told of everything that begins or ends, from several goroutines at
	// once; it may be nil.
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

// Progress is told to [Maker.Observe].
type Progress struct {
	Phase Phase
	Name  string
	Run   *Run             // nil while preparing
	Made  *metrics.Summary // of a run that is complete
	Err   error            // of one that failed
	Took  time.Duration    // real time
}

// exitNotValid is the exit status of a run that was made and is not valid.
const exitNotValid = 3

// patience is how long an interrupted run may take to close its record.
const patience = time.Minute

// Check computes what all runs depend on and makes nothing. A run whose inputs were not
// prepared has that as its error.
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

// made reports whether a derived input is there.
func (p *Plan) made(d *derived) bool {
	path := p.path(d.path)
	_, err := os.Stat(path)
	return err == nil && readStatus(path).Fingerprint == d.fingerprint
}

// blame makes the failures of inputs those of the runs that need them.
func (p *Plan) blame() {
	for _, r := range p.Runs {
		for _, in := range r.inputs() {
			if in.made != nil && in.made.err != nil {
				r.err = in.made.err
			}
		}
	}
}

// Prepare computes what all runs depend on and makes the transformed workloads and
// edited clusters that are not there yet. What cannot be prepared is the failure of the
// runs that need it, and not Prepare's, which fails only if it is interrupted or if the
// sweep's directory cannot be written.
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

// index writes what a directory of realizations says of itself, and removes the records
// that the experiment had there with other seeds: compare and report take all they find.
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

// removeOthers removes from the directory of a cell with several runs the realizations
// that it has no longer, or the one run that it had.
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

// derive makes a workload or a cluster unless it is there.
func (m *Maker) derive(ctx context.Context, d *derived) error {
	path := m.Plan.path(d.path)
	if m.Plan.made(d) {
		return nil
	}
	m.observe(Progress{Phase: Preparing, Name: d.path})
	// It is made under another name, whose ending is the same since that says whether
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

// All makes every run that is not complete, jobs at a time. Runs that fail are told to
// Observe and in the summary; All itself fails only if it is interrupted or the sweep's
// directory cannot be written.
func (m *Maker) All(ctx context.Context, jobs int) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(jobs)
	for _, r := range m.Plan.seedBySeed() {
		group.Go(func() error {
			if groupCtx.Err() != nil {
				return groupCtx.Err()
			}
			return m.One(groupCtx, r)
		})
	}
	return group.Wait()
}

// One makes a run unless it is complete. Its errors are as [Maker.All]'s.
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
		end.Phase, end.Err = Failed, failure
	}
	m.observe(end)
	return nil
}

// attempt makes a run in a process of its own. failure is the run's, err the sweep's.
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
	// The old record goes before the new fingerprint comes: else it would be taken for
	// one of these inputs.
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

// finish looks at what the run's process has left.
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

// logPath is the file with what a process writes for people.
func (m *Maker) logPath(below string) string {
	name := strings.TrimPrefix(filepath.ToSlash(below), cellsDir+"/")
	return m.Plan.path(filepath.Join(logsDir, strings.ReplaceAll(name, "/", "_")+".log"))
}

// call runs a command line of this program. A run that is not valid is no error. The
// process dies with this one, and an interruption is passed on as one.
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
	// A process group of its own: the terminal's interruption reaches us alone, and we
	// pass it on.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = patience
	// PDEATHSIG comes when the thread that forked ends, which must not be before we do.
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

// plainEnvironment is the environment without what a job of Slurm finds in it and
// commands of Slurm take for options: the Slurm of a replay is another one.
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

// lastLines are the last lines of a file, joined by semicolons.
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
