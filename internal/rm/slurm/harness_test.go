package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/rm/slurm/nodes"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// epoch is the instant at which every scenario begins. Times in tests count from it.
var epoch = workload.DefaultEpoch

// lead is how long before the epoch slurmctld starts. It is fixed, so that the phase of
// slurmctld's periodic work is the same in every test.
const lead = time.Minute

// deadline is the real time that a scenario may take, even on a busy machine.
const deadline = 3 * time.Minute

// rootsVariable names a directory with root directories of other releases of Slurm: 24.11, 26.05,
// and 22.05 if the machine's own Slurm is another release.
const rootsVariable = "RMREPLAY_SLURM_ROOTS"

// eachSlurm runs a test, as a subtest named after the release, on the installed Slurm and on every
// release in the directory of rootsVariable.
func eachSlurm(t *testing.T, test func(*testing.T, *install.Installation)) {
	t.Helper()
	installed(t, test)
	if testing.Short() {
		return
	}
	roots := os.Getenv(rootsVariable)
	if roots == "" {
		t.Run("other releases", func(t *testing.T) {
			t.Skipf("SKIPPED: only the installed Slurm is tested: %s names no directory with other releases", rootsVariable)
		})
		return
	}
	own, _ := install.Find()
	for _, release := range []slurmspec.Release{slurmspec.R2205, slurmspec.R2411, slurmspec.R2605} {
		if own.Release.Series() == release {
			continue // tested above
		}
		t.Run(release.String(), func(t *testing.T) {
			if _, err := os.Lstat(filepath.Join(roots, release.String())); errors.Is(err, os.ErrNotExist) {
				t.Skipf("SKIPPED: Slurm %s is not tested: %v", release, err)
			}
			in, err := install.FindSlurm(filepath.Join(roots, release.String()))
			if err != nil {
				t.Fatalf("%s=%s: %v", rootsVariable, roots, err)
			}
			if in.Release.Series() != release {
				t.Fatalf("%s=%s: %s has Slurm %s", rootsVariable, roots, release, in.Version)
			}
			test(t, in)
		})
	}
}

// eachSlurmIfLong runs a slow test on the installed Slurm, and on each release if
// RMREPLAY_LONG_TESTS is set. Shorter tests cover the newer releases.
func eachSlurmIfLong(t *testing.T, test func(*testing.T, *install.Installation)) {
	t.Helper()
	if os.Getenv("RMREPLAY_LONG_TESTS") != "" {
		eachSlurm(t, test)
		return
	}
	installed(t, test)
	t.Run("other releases", func(t *testing.T) {
		t.Skip("SKIPPED: only the installed Slurm is tested; set RMREPLAY_LONG_TESTS=1 for the other releases")
	})
}

// installed runs a test on the installed Slurm.
func installed(t *testing.T, test func(*testing.T, *install.Installation)) {
	t.Helper()
	in, err := install.Find()
	name := "installed"
	if err == nil {
		name = in.Release.Series().String()
	}
	t.Run(name, func(t *testing.T) {
		if testing.Short() {
			t.Skip("SKIPPED by -short: replays on real Slurm")
		}
		if err != nil {
			t.Skipf("SKIPPED: nothing is checked against the installed Slurm: %v", err)
		}
		test(t, in)
	})
}

// needSlurm skips the test with a clear message if a requirement of replays is missing.
func needSlurm(t testing.TB, in *install.Installation, accounting bool) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED by -short: replays on real Slurm")
	}
	if err := in.Need(accounting); err != nil {
		t.Skipf("SKIPPED: nothing is checked against the real Slurm: %v", err)
	}
}

// writeCluster writes a cluster directory and opens it.
func writeCluster(t testing.TB, files map[string]string) *conf.Cluster {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := conf.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// clusterFiles returns the files of testdata/cluster. It replaces the given pairs of strings in
// slurm.conf, which must contain the first of each pair.
func clusterFiles(t testing.TB, edits ...string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, name := range []string{"slurm.conf", "gres.conf", "users"} {
		text, err := os.ReadFile(filepath.Join("testdata", "cluster", name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(files["slurm.conf"], edits[i]) {
			t.Fatalf("testdata/cluster/slurm.conf has no %q", edits[i])
		}
		files["slurm.conf"] = strings.ReplaceAll(files["slurm.conf"], edits[i], edits[i+1])
	}
	return files
}

// scenario is a cluster, a workload for the cluster, and the Slurm that replays the workload.
type scenario struct {
	slurm      *install.Installation
	cluster    *conf.Cluster
	workload   workload.Workload
	delays     nodes.Delays
	drainLimit time.Duration
	accounting bool
	controller replay.Controller // nil for a rigid replay
	usage      []hpc.Usage
	accrued    []hpc.Accrual
	factor     float64       // factor of the measured clock; 0 for the frozen clock
	reasons    time.Duration // interval between questions why jobs are pending; 0 for no questions
	logs       string
	// started is called with the engine before the workload is played; it may be nil.
	started func(*Engine)
	// statistics is called with slurmctld's counters; it may be nil.
	statistics func(rm.Statistics)
}

// outcome is the result of a scenario.
type outcome struct {
	t        testing.TB
	result   replay.Result
	rows     map[string]run.Row // by "job" or "job_task"
	list     []run.Row
	events   []rm.Event
	warnings []Warning
	sacct    string
	// unfinished describes the actions that had not ended.
	unfinished []string
}

// without drops the warnings with a code that the test expects.
func (o *outcome) without(code string) *outcome {
	o.warnings = slices.DeleteFunc(o.warnings, func(w Warning) bool { return w.Code == code })
	return o
}

// memory is a recorder that also keeps the events.
type memory struct {
	*run.Writer
	events []rm.Event
}

func (m *memory) Event(ev rm.Event) error {
	m.events = append(m.events, ev)
	return m.Writer.Event(ev)
}

// play runs a scenario on the real Slurm.
func (s *scenario) play(t testing.TB) *outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	e := s.start(ctx, t)
	if s.started != nil {
		s.started(e)
	}
	writer, err := run.Create(filepath.Join(t.TempDir(), "run"), run.Manifest{Engine: "slurm"}, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	record := &memory{Writer: writer}
	o := &outcome{t: t, rows: map[string]run.Row{}}
	controller := s.controller
	if controller == nil {
		controller = replay.NewRigid(&s.workload)
	}
	o.result, err = replay.Play(ctx, e, &s.workload, controller, record, replay.Options{
		DrainLimit: s.drainLimit, DefaultLimit: s.cluster.DefaultLimit(),
	})
	if err != nil {
		t.Fatalf("replaying: %v", err)
	}
	if o.sacct, err = e.sacct(ctx); err != nil {
		t.Fatal(err)
	}
	e.jobs.warnForgotten()
	o.warnings, o.events, o.unfinished = e.takeWarnings(), record.events, e.actions.unfinished()
	for row := range writer.Rows {
		o.list = append(o.list, *row)
	}
	for _, row := range o.list {
		name := row.Job
		if row.Task >= 0 {
			name = fmt.Sprintf("%s_%d", row.Job, row.Task)
		}
		o.rows[name] = row
	}
	return o
}

// start starts Slurm for the scenario and stops it at the end of the test.
func (s *scenario) start(ctx context.Context, t testing.TB) *Engine {
	t.Helper()
	return s.startWith(ctx, t, lead)
}

// startWith starts Slurm as start does, lead before the epoch.
func (s *scenario) startWith(ctx context.Context, t testing.TB, lead time.Duration) *Engine {
	t.Helper()
	needSlurm(t, s.slurm, s.accounting)
	logs := t.TempDir()
	s.logs, s.workload.Epoch = logs, epoch
	e, err := Start(ctx, Config{
		Cluster: s.cluster, Install: s.slurm, Epoch: s.workload.Begin(), PreRoll: s.workload.Start != 0, PresetBurst: s.workload.PresetBurst(),
		Users: s.workload.Submitters(), Usage: s.usage, Accrued: s.accrued, UsageAt: replay.UsageInstant(&s.workload), Delays: s.delays, ClockFactor: s.factor, ReasonsEvery: s.reasons,
		LogDir: logs, WithoutAccounting: !s.accounting, Statistics: s.statistics,
	}, lead)
	if err != nil {
		t.Fatalf("starting Slurm: %v", err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("stopping Slurm: %v", err)
		}
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(logs, "slurmctld.log"))
			t.Logf("the end of slurmctld.log:\n%s", lastLines(string(text), 60))
		}
	})
	return e
}

// job returns a job of ann's. The parameters at and runs are the submit time after the epoch and
// the run time, both in seconds.
func job(id string, at, runs int, change func(*hpc.Job)) *hpc.Job {
	j := &hpc.Job{ID: id, Submit: after(at)}
	j.User = "ann"
	j.Tasks = 1
	j.TimeLimit = time.Hour
	j.RunTime = time.Duration(runs) * time.Second
	if change != nil {
		change(j)
	}
	return j
}

// after returns the instant that many seconds after the epoch.
func after(seconds int) hpc.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

// since returns an instant as seconds after the epoch; -1 if it is not set.
func since(t hpc.Time) float64 {
	if t.IsZero() {
		return -1
	}
	return t.Sub(epoch).Seconds()
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
