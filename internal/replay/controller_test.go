package replay_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/sim/policy"
	"rmreplay/internal/rm/slurm"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/workload"
)

// fileSystem is a controller for a file system that serves atOnce writing jobs at a time. It holds
// further writing jobs when they are submitted. When a writing job ends, it releases the job that
// it has held longest.
type fileSystem struct {
	replay.Controller
	jobs          *workload.Jobs
	atOnce        int
	allowed, held []int // jobs that may write, and jobs that wait for one of them to end
}

// Event implements [replay.Controller].
func (f *fileSystem) Event(event *replay.Event) replay.Decisions {
	d := f.Controller.Event(event)
	if event.Job < 0 || f.jobs.At(event.Job).Comment != "writes" {
		return d
	}
	switch {
	case event.Over:
		f.allowed, f.held = without(f.allowed, event.Job), without(f.held, event.Job)
	case event.Kind == rm.Accepted && len(f.allowed) < f.atOnce:
		f.allowed = append(f.allowed, event.Job)
	case event.Kind == rm.Accepted:
		f.held = append(f.held, event.Job)
		d.Commands = append(d.Commands, f.command(rm.Hold, event.Job))
	}
	for len(f.held) > 0 && len(f.allowed) < f.atOnce {
		next := f.held[0]
		f.allowed, f.held = append(f.allowed, next), f.held[1:]
		d.Commands = append(d.Commands, f.command(rm.Release, next))
	}
	return d
}

// command returns a command for the present instant.
func (f *fileSystem) command(kind rm.CommandKind, job int) replay.Command {
	return replay.Command{Command: rm.Command{Kind: kind, Job: f.jobs.At(job).ID}}
}

func without(jobs []int, job int) []int {
	return slices.DeleteFunc(jobs, func(other int) bool { return other == job })
}

// writers is a workload for a machine of 24 processors. The first job fills the machine, so that
// the jobs submitted after it wait. Without the controller, the three jobs that write and the job
// that computes would then start together.
func writers(epoch hpc.Time) *workload.Workload {
	w := &workload.Workload{Epoch: epoch}
	for i, id := range []string{"fills", "first", "second", "third", "computes"} {
		j := &hpc.Job{ID: id, Submit: epoch.Add(time.Duration(10*i) * time.Second)}
		j.User, j.Tasks, j.TimeLimit, j.RunTime, j.Comment = "ann", 1, time.Hour, 100*time.Second, "writes"
		switch id {
		case "fills":
			j.Tasks, j.Comment = 24, ""
		case "computes":
			j.RunTime, j.Comment = 150*time.Second, ""
		}
		w.Jobs.Append(j)
	}
	return w
}

// timeline records when each job ran, and the outcome of each command.
type timeline struct {
	epoch    hpc.Time
	lines    []string
	commands []string
}

func (l *timeline) Job(*hpc.Job) error { return nil }

func (l *timeline) Event(ev rm.Event) error {
	switch ev.Kind {
	case rm.Ended:
		o := ev.Outcome
		// Real Slurm starts a job up to about a second after the earliest possible instant, and a run
		// takes up to a tenth of a second longer. All times of these schedules are multiples of ten
		// seconds.
		step := func(t hpc.Time) int { return int(t.Sub(l.epoch).Round(10*time.Second) / time.Second) }
		l.lines = append(l.lines, fmt.Sprintf("%s %s %d-%d", ev.Job, o.State, step(o.Start), step(o.End)))
	case rm.Commanded:
		l.commands = append(l.commands, ev.Job+" "+ev.Reason)
	}
	return nil
}

// engines calls test with each engine: the simulator on a machine of 24 processors and, if Slurm is
// installed, real Slurm on a cluster of the same size. RMREPLAY_SLURM_ROOTS names a directory with
// other releases of Slurm.
func engines(t *testing.T, test func(t *testing.T, epoch hpc.Time, start func(*workload.Workload) rm.ResourceManager)) {
	t.Run("simulator", func(t *testing.T) {
		epoch := workload.DefaultEpoch
		test(t, epoch, func(*workload.Workload) rm.ResourceManager {
			var nodes []hpc.Node
			for i := range 6 {
				nodes = append(nodes, hpc.Node{Name: fmt.Sprintf("n%d", i+1), CPUs: 4})
			}
			e, err := sim.New(sim.Config{Cluster: &sim.Cluster{Nodes: nodes}, Policy: policy.EASY, Epoch: epoch})
			if err != nil {
				t.Fatal(err)
			}
			return e
		})
	})
	slurm := func(name, dir string) {
		t.Run(name, func(t *testing.T) {
			if testing.Short() {
				t.Skip("SKIPPED by -short: replays on real Slurm")
			}
			in, err := install.FindSlurm(dir)
			if err == nil {
				err = in.Need(false)
			}
			if err != nil {
				t.Skipf("SKIPPED: nothing is checked against %s: %v", name, err)
			}
			test(t, workload.DefaultEpoch, func(w *workload.Workload) rm.ResourceManager { return startSlurm(t, in, w) })
		})
	}
	slurm("Slurm", "")
	for _, release := range []string{"24.11", "26.05"} {
		if dir := filepath.Join(os.Getenv("RMREPLAY_SLURM_ROOTS"), release); dir != release {
			slurm("Slurm "+release, dir)
		}
	}
}

func startSlurm(t *testing.T, in *install.Installation, w *workload.Workload) rm.ResourceManager {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../rm/slurm/testdata/cluster")); err != nil {
		t.Fatal(err)
	}
	cluster, err := conf.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return startCluster(t, in, w, cluster)
}

// startCluster starts a Slurm that is stopped at the end of the test.
func startCluster(t *testing.T, in *install.Installation, w *workload.Workload, cluster *conf.Cluster, shared ...hpc.FileSystem) *slurm.Engine {
	t.Helper()
	e, err := slurm.Start(context.Background(), slurm.Config{
		Cluster: cluster, Install: in, Epoch: w.Begin(), Users: w.Submitters(), LogDir: t.TempDir(), WithoutAccounting: true,
		FileSystems: shared,
	}, time.Minute)
	if err != nil {
		t.Fatalf("starting Slurm: %v", err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("stopping Slurm: %v", err)
		}
	})
	return e
}

// TestControllerOnBothEngines checks that a controller can hold and release jobs on both engines,
// and that both play the same schedule.
func TestControllerOnBothEngines(t *testing.T) {
	engines(t, func(t *testing.T, epoch hpc.Time, start func(*workload.Workload) rm.ResourceManager) {
		w := writers(epoch)
		c := &fileSystem{Controller: replay.NewRigid(w), jobs: &w.Jobs, atOnce: 1}
		l := &timeline{epoch: epoch}
		if _, err := replay.Play(context.Background(), start(w), w, c, l, replay.Options{}); err != nil {
			t.Fatal(err)
		}
		want := "fills COMPLETED 0-100; first COMPLETED 100-200; computes COMPLETED 100-250; second COMPLETED 200-300; third COMPLETED 300-400"
		if diff := gocmp.Diff(want, strings.Join(l.lines, "; ")); diff != "" {
			t.Errorf("schedule (-want +got)\n%s", diff)
		}
		want = "second hold; third hold; second release; third release"
		if diff := gocmp.Diff(want, strings.Join(l.commands, "; ")); diff != "" {
			t.Errorf("commands (-want +got)\n%s", diff)
		}
	})
}

// script is a controller with commands at fixed instants.
type script struct {
	replay.Controller
	commands []replay.Command
}

func (s *script) Begin() replay.Decisions {
	d := s.Controller.Begin()
	d.Commands = s.commands
	return d
}

// TestCommandsOnBothEngines checks that every command has the same effect on both engines, and that
// a refusal is an event with its reason.
func TestCommandsOnBothEngines(t *testing.T) {
	engines(t, func(t *testing.T, epoch hpc.Time, start func(*workload.Workload) rm.ResourceManager) {
		w := &workload.Workload{Epoch: epoch}
		add := func(id string, change ...func(*hpc.Job)) {
			j := &hpc.Job{ID: id, Submit: epoch}
			j.User, j.Tasks, j.TimeLimit, j.RunTime = "ann", 1, time.Hour, 600*time.Second
			for _, c := range change {
				c(j)
			}
			w.Jobs.Append(j)
		}
		held := func(j *hpc.Job) { j.Hold = true }
		add("cancelled")
		add("limited")
		add("longer", func(j *hpc.Job) { j.TimeLimit = 5 * time.Minute })
		add("stretched")
		add("quicker")
		add("fixed")
		add("endless", func(j *hpc.Job) { j.RunTime = hpc.Unlimited })
		add("later", held)
		add("wide", held)
		add("all", func(j *hpc.Job) { j.Tasks = 24 }) // needs all processors: starts when all others have ended
		s := &script{Controller: replay.NewRigid(w)}
		at := func(seconds int, job string, c rm.Command) {
			c.Job = job
			s.commands = append(s.commands, replay.Command{At: epoch.Add(time.Duration(seconds) * time.Second), Command: c})
		}
		at(100, "cancelled", rm.Command{Kind: rm.Cancel})
		at(100, "longer", rm.Command{Kind: rm.SetTimeLimit, TimeLimit: 20 * time.Minute})
		at(100, "limited", rm.Command{Kind: rm.SetTimeLimit, TimeLimit: 5 * time.Minute})
		at(200, "stretched", rm.Command{Kind: rm.Stretch, Factor: 2})
		at(200, "quicker", rm.Command{Kind: rm.Stretch, Factor: 0.5})
		at(200, "fixed", rm.Command{Kind: rm.SetRunTime, RunTime: 1000 * time.Second})
		at(200, "endless", rm.Command{Kind: rm.SetRunTime, RunTime: 300 * time.Second})
		at(250, "all", rm.Command{Kind: rm.Hold})
		at(1500, "all", rm.Command{Kind: rm.Release})
		at(300, "later", rm.Command{Kind: rm.SetRunTime, RunTime: 50 * time.Second})
		at(300, "later", rm.Command{Kind: rm.Stretch, Factor: 2})
		at(300, "later", rm.Command{Kind: rm.Release})
		at(300, "wide", rm.Command{Kind: rm.SetNodes, Nodes: 2})
		at(300, "wide", rm.Command{Kind: rm.Release})
		at(400, "stretched", rm.Command{Kind: rm.SetNodes, Nodes: 2}) // refused: the job runs
		at(400, "nowhere", rm.Command{Kind: rm.Hold})
		at(2000, "later", rm.Command{Kind: rm.Release}) // refused: the job has ended
		l := &timeline{epoch: epoch}
		if _, err := replay.Play(context.Background(), start(w), w, s, l, replay.Options{}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(l.lines)
		// slurmctld checks time limits every 30 seconds.
		got := strings.Replace(strings.Join(l.lines, "\n"), "limited TIMEOUT 0-330", "limited TIMEOUT 0-300", 1)
		want := `all COMPLETED 1500-2100
cancelled CANCELLED 0-100
endless COMPLETED 0-300
fixed COMPLETED 0-1000
later COMPLETED 300-400
limited TIMEOUT 0-300
longer COMPLETED 0-600
quicker COMPLETED 0-400
stretched COMPLETED 0-1000
wide COMPLETED 300-900`
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("schedule (-want +got)\n%s", diff)
		}
		var refused []string
		for _, c := range l.commands {
			if what, why, is := strings.Cut(c, ": refused: "); is && why != "" {
				refused = append(refused, what)
			}
		}
		want = "stretched set nodes 2; hold (job nowhere); later release"
		if diff := gocmp.Diff(want, strings.TrimSpace(strings.ReplaceAll(strings.Join(refused, "; "), ";  ", "; "))); diff != "" {
			t.Errorf("refused (-want +got)\n%s\n%s", diff, strings.Join(l.commands, "\n"))
		}
		if len(l.commands) != 16 {
			t.Errorf("%d events of commands, want 16:\n%s", len(l.commands), strings.Join(l.commands, "\n"))
		}
	})
}
