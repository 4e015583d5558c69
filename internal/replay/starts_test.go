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
	"rmreplay/internal/ioaware"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/workload"
)

// ioRig is a cluster with a site's scheduling parameters, which the driver's settings replace.
const ioRig = `ClusterName=rig
SlurmctldHost=head
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=60,enable_user_top
AccountingStorageType=accounting_storage/none
NodeName=n[1-4] Sockets=1 CoresPerSocket=1 ThreadsPerCore=1 RealMemory=1000
PartitionName=rig Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`

var lustre = hpc.FileSystem{Name: "lustre", Bandwidth: 100 << 20}.Complete()

// writer makes a job that writes for some seconds at a rate in MiB/s.
func writer(epoch hpc.Time, id string, at, seconds, rate int, change ...func(*hpc.Job)) *hpc.Job {
	j := &hpc.Job{ID: id, Submit: epoch.Add(time.Duration(at) * time.Second)}
	j.User, j.Tasks, j.MinNodes, j.TimeLimit = "ann", 1, 1, 20*time.Minute
	j.RunTime = time.Duration(seconds) * time.Second
	if rate > 0 {
		j.IO = []hpc.Phase{{Duration: j.RunTime, FileSystem: "lustre", Rate: int64(rate) << 20}}
	}
	for _, c := range change {
		c(j)
	}
	return j
}

// eachRelease runs a test on the installed Slurm and on the releases in RMREPLAY_SLURM_ROOTS.
func eachRelease(t *testing.T, test func(t *testing.T, in *install.Installation)) {
	for _, release := range []string{"", "24.11", "26.05"} {
		t.Run("Slurm "+release, func(t *testing.T) {
			if testing.Short() {
				t.Skip("SKIPPED by -short: replays on real Slurm")
			}
			in, err := install.FindSlurm(release)
			if err == nil {
				err = in.Need(false)
			}
			if err != nil {
				t.Skipf("SKIPPED: nothing is checked against Slurm %s: %v", release, err)
			}
			test(t, in)
		})
	}
}

// startRig starts a Slurm whose jobs share a file system. With outside, it has the scheduling
// parameters that a driver needs.
func startRig(t *testing.T, in *install.Installation, w *workload.Workload, outside bool) *slurm.Engine {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "slurm.conf"), []byte(ioRig), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster, err := conf.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if outside {
		cluster = slurm.Outside(cluster)
	}
	return startCluster(t, in, w, cluster, lustre)
}

// TestSharedBandwidth checks that jobs that share a file system take longer on real Slurm, as the
// model says. The first two share 100 MiB/s for the first 100 s. A job that is suspended, cancelled
// or reaches its limit must give its bandwidth back.
func TestSharedBandwidth(t *testing.T) {
	eachRelease(t, func(t *testing.T, in *install.Installation) {
		epoch := workload.DefaultEpoch
		w := &workload.Workload{Epoch: epoch, Jobs: workload.JobsOf(
			writer(epoch, "a", 0, 100, 100), writer(epoch, "b", 0, 200, 100), writer(epoch, "computes", 0, 150, 0),
			writer(epoch, "cancelled", 1000, 300, 100, func(j *hpc.Job) { j.CancelAfter = 100 * time.Second }), writer(epoch, "c", 1000, 100, 100),
			writer(epoch, "limited", 2000, 100, 10, func(j *hpc.Job) { j.TimeLimit = time.Minute }),
			writer(epoch, "array", 3000, 100, 100, func(j *hpc.Job) { j.Array = "1-2" }),
		)}
		l := &timeline{epoch: epoch}
		if _, err := replay.Play(context.Background(), startRig(t, in, w, false), w, replay.NewRigid(w), l, replay.Options{}); err != nil {
			t.Fatal(err)
		}
		// a and b get 50 MiB/s each until a has ended at 200. b then needs 100 s more. c has half
		// of the bandwidth for 100 s.
		want := "computes COMPLETED 0-150; a COMPLETED 0-200; b COMPLETED 0-300; cancelled CANCELLED 1000-1100; c COMPLETED 1000-1150; limited TIMEOUT 2000-2060; array COMPLETED 3000-3200; array COMPLETED 3000-3200"
		got := strings.Join(l.lines, "; ")
		for _, late := range []string{"2070", "2080", "2090"} { // slurmctld checks time limits every 30 seconds
			got = strings.Replace(got, "2000-"+late, "2000-2060", 1)
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("schedule (-want +got)\n%s", diff)
		}
	})
}

// decided records the time between the release and the start of jobs.
type decided struct {
	timeline
	released map[string]hpc.Time
	slowest  time.Duration
}

func (d *decided) Event(ev rm.Event) error {
	id := fmt.Sprint(ev.Job, ev.Task)
	switch {
	case ev.Kind == rm.Commanded && ev.Reason == string(rm.Release):
		d.released[id] = ev.At
	case ev.Kind == rm.Started && d.released[id] != 0:
		d.slowest = max(d.slowest, ev.At.Sub(d.released[id]))
	}
	return d.timeline.Event(ev)
}

// drives returns the settings of a driver for the rig's file system.
func drives(e *slurm.Engine, strategy ioaware.Strategy, interval time.Duration) replay.Starts {
	nodes := []string{"n1", "n2", "n3", "n4"}
	return replay.Starts{
		Options: ioaware.Options{Strategy: strategy}, Interval: interval, Estimator: ioaware.Behaviour{Factor: 1},
		FileSystem: lustre, NextPhase: e.NextPhase, Measured: func() int64 { return lustre.LicensesOf(float64(e.IOLoad("lustre").Granted)) },
		Nodes: nodes, NodesOf: func(j *hpc.Job) int { return j.MinNodes }, PoolOf: func(*hpc.Job) (string, []string) { return "", nodes },
	}
}

// TestMeasuredUse checks that a job starts within seconds after another job has written its data
// and computes, and after a node has returned.
func TestMeasuredUse(t *testing.T) {
	eachRelease(t, func(t *testing.T, in *install.Installation) {
		epoch := workload.DefaultEpoch
		w := &workload.Workload{Epoch: epoch, Jobs: workload.JobsOf(
			writer(epoch, "first", 0, 200, 0, func(j *hpc.Job) {
				j.IO = []hpc.Phase{{Duration: 50 * time.Second, FileSystem: "lustre", Rate: 100 << 20}}
			}),
			writer(epoch, "second", 10, 100, 50), writer(epoch, "wide", 1000, 100, 0, func(j *hpc.Job) { j.Tasks, j.MinNodes = 4, 4 }),
		), NodeEvents: []hpc.NodeEvent{{At: epoch.Add(900 * time.Second), Nodes: "n4", State: "down"}, {At: epoch.Add(1040 * time.Second), Nodes: "n4", State: "resume"}}}
		l := &timeline{epoch: epoch}
		e := startRig(t, in, w, true)
		if _, err := replay.Play(context.Background(), e, w, replay.DecideStarts(replay.NewRigid(w), w, drives(e, ioaware.Aware, 0)), l, replay.Options{}); err != nil {
			t.Fatal(err)
		}
		want := "second COMPLETED 50-150; first COMPLETED 0-200; wide COMPLETED 1040-1140"
		if got := strings.Join(l.lines, "; "); got != want {
			t.Errorf("schedule %s, want %s", got, want)
		}
	})
}

// TestDecideStarts checks that the driver decides when jobs start on real Slurm, and that they
// start within two seconds.
func TestDecideStarts(t *testing.T) {
	eachRelease(t, func(t *testing.T, in *install.Installation) {
		for _, test := range []struct {
			strategy ioaware.Strategy
			interval time.Duration
			want     string
		}{
			// Three jobs write at once, and from 240 s on, when z has ended, four. The job that
			// depends on the array starts in the round after the array's end.
			{ioaware.Baseline, 30 * time.Second, "after COMPLETED 540-550; array COMPLETED 240-470; array COMPLETED 390-530; w COMPLETED 30-360; x COMPLETED 30-360; y COMPLETED 30-360; z COMPLETED 30-230"},
			// One job writes at a time. z computes, and starts beside w.
			{ioaware.Aware, 30 * time.Second, "after COMPLETED 630-640; array COMPLETED 390-490; array COMPLETED 510-610; w COMPLETED 30-130; x COMPLETED 150-250; y COMPLETED 270-370; z COMPLETED 30-230"},
			// Rounds follow the submissions and ends.
			{ioaware.Aware, 0, "after COMPLETED 510-520; array COMPLETED 310-410; array COMPLETED 410-510; w COMPLETED 10-110; x COMPLETED 110-210; y COMPLETED 210-310; z COMPLETED 10-210"},
		} {
			epoch := workload.DefaultEpoch
			w := &workload.Workload{Epoch: epoch, Jobs: workload.JobsOf(
				writer(epoch, "w", 5, 100, 100), writer(epoch, "x", 6, 100, 100), writer(epoch, "y", 7, 100, 100), writer(epoch, "z", 8, 200, 0),
				writer(epoch, "array", 9, 100, 100, func(j *hpc.Job) { j.Array = "1-2" }),
				writer(epoch, "after", 10, 10, 0, func(j *hpc.Job) { j.Dependency = "afterok:array" }),
				writer(epoch, "held", 10, 10, 0, func(j *hpc.Job) { j.Hold = true }),
				writer(epoch, "cancelled", 10, 10, 100, func(j *hpc.Job) { j.CancelAfter = 40 * time.Second }),
			)}
			e := startRig(t, in, w, true)
			c := replay.DecideStarts(replay.NewRigid(w), w, drives(e, test.strategy, test.interval))
			d := &decided{timeline: timeline{epoch: epoch}, released: map[string]hpc.Time{}}
			result, err := replay.Play(context.Background(), e, w, c, d, replay.Options{DrainLimit: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(result.Undrained, " "); got != "held" {
				t.Errorf("%s: left are %q, want the job that its user holds", test.strategy, got)
			}
			if d.slowest > 2*time.Second {
				t.Errorf("%s: a job started %v after its release", test.strategy, d.slowest)
			}
			lines := slices.DeleteFunc(d.lines, func(line string) bool { return strings.HasPrefix(line, "cancelled CANCELLED") })
			if slices.Sort(lines); len(lines) != 7 {
				t.Errorf("%s: the cancelled job is not among %q", test.strategy, d.lines)
			}
			if diff := gocmp.Diff(test.want, strings.Join(lines, "; ")); diff != "" {
				t.Errorf("%s: schedule (-want +got)\n%s\n%s", test.strategy, diff, strings.Join(d.commands, "\n"))
			}
		}
	})
}

// TestReservedNodes checks that the driver does not release jobs that cannot start because of a
// reservation. Two of the four nodes are reserved from 600 s to 1,200 s, and jobs have a limit of
// 20 minutes. One job runs in the reservation, and one is on its nodes when the reservation is
// made.
func TestReservedNodes(t *testing.T) {
	eachRelease(t, func(t *testing.T, in *install.Installation) {
		epoch := workload.DefaultEpoch
		w := &workload.Workload{Epoch: epoch, Jobs: workload.JobsOf(
			writer(epoch, "on", 0, 100, 0, func(j *hpc.Job) { j.NodeList = "n3" }),
			writer(epoch, "a", 60, 900, 0), writer(epoch, "b", 61, 900, 0), writer(epoch, "c", 62, 100, 0),
			writer(epoch, "short", 63, 100, 0, func(j *hpc.Job) { j.TimeLimit = 5 * time.Minute }),
			writer(epoch, "inside", 64, 200, 0, func(j *hpc.Job) { j.Reservation = "course" }),
		), Reservations: []hpc.ReservationEvent{{At: epoch.Add(30 * time.Second), Action: "create", Reservation: hpc.Reservation{
			Name: "course", Start: epoch.Add(600 * time.Second), Duration: 10 * time.Minute, Nodes: "n[3-4]", Users: []string{"ann"}, Flags: []string{"IGNORE_JOBS"},
		}}}}
		e := startRig(t, in, w, true)
		c := replay.DecideStarts(replay.NewRigid(w), w, drives(e, ioaware.Baseline, 0))
		d := &decided{timeline: timeline{epoch: epoch}, released: map[string]hpc.Time{}}
		if _, err := replay.Play(context.Background(), e, w, c, d, replay.Options{DrainLimit: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if len(d.released) != 5 || d.slowest > 2*time.Second {
			t.Errorf("%d jobs were released, and one started %v later", len(d.released), d.slowest)
		}
		if n := strings.Count(strings.Join(d.commands, "\n"), string(rm.Release)); n != 5 {
			t.Errorf("%d releases of 5 jobs: %q", n, d.commands)
		}
		want := "a COMPLETED 60-960; b COMPLETED 60-960; c COMPLETED 960-1060; inside COMPLETED 600-800; on COMPLETED 0-100; short COMPLETED 70-170"
		slices.Sort(d.lines)
		if got := strings.Join(d.lines, "; "); got != want {
			t.Errorf("schedule %s, want %s", got, want)
		}
	})
}

// TestAdoptedJobs checks that the driver holds and plans a job as soon as its dependency is met or
// its begin time has come. Otherwise "wide" would wait for its nodes with a priority until 500 s,
// and sched/builtin would start no released job before it.
func TestAdoptedJobs(t *testing.T) {
	eachRelease(t, func(t *testing.T, in *install.Installation) {
		epoch := workload.DefaultEpoch
		w := &workload.Workload{Epoch: epoch, Jobs: workload.JobsOf(
			writer(epoch, "long", 0, 500, 0, func(j *hpc.Job) { j.TimeLimit = 10 * time.Minute }), writer(epoch, "first", 0, 100, 0),
			writer(epoch, "wide", 10, 100, 0, func(j *hpc.Job) { j.Tasks, j.MinNodes, j.Dependency = 4, 4, "afterok:first" }),
			writer(epoch, "known", 105, 50, 0, func(j *hpc.Job) { j.Dependency, j.TimeLimit = "afterany:first", 5*time.Minute }),
			writer(epoch, "small", 110, 50, 0, func(j *hpc.Job) { j.TimeLimit = 5 * time.Minute }),
			writer(epoch, "later", 20, 50, 0, func(j *hpc.Job) { j.Begin, j.TimeLimit = 180*time.Second, 3*time.Minute }),
			writer(epoch, "never", 20, 50, 0, func(j *hpc.Job) { j.Dependency = "afternotok:first" }),
		)}
		d := &decided{timeline: timeline{epoch: epoch}, released: map[string]hpc.Time{}}
		e := startRig(t, in, w, true)
		result, err := replay.Play(context.Background(), e, w, replay.DecideStarts(replay.NewRigid(w), w, drives(e, ioaware.Baseline, 0)), d, replay.Options{DrainLimit: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(result.Undrained, " "); got != "never" || d.slowest > 2*time.Second {
			t.Errorf("left are %q, and a job started %v after its release", got, d.slowest)
		}
		slices.Sort(d.lines)
		want := "first COMPLETED 0-100; known COMPLETED 110-160; later COMPLETED 200-250; long COMPLETED 0-500; small COMPLETED 110-160; wide COMPLETED 500-600"
		if got := strings.Join(d.lines, "; "); got != want {
			t.Errorf("schedule %s, want %s\n%s", got, want, strings.Join(d.commands, "\n"))
		}
	})
}

// TestIdleReservedNodes has two idle nodes of four that are reserved from 540 s on. The other two
// are free by then, so the number of nodes would be enough for "long". But "long" can start only
// when one of these two is free.
func TestIdleReservedNodes(t *testing.T) {
	eachRelease(t, func(t *testing.T, in *install.Installation) {
		epoch := workload.DefaultEpoch
		short := func(j *hpc.Job) { j.TimeLimit = 5 * time.Minute }
		w := &workload.Workload{Epoch: epoch, Jobs: workload.JobsOf(
			writer(epoch, "a", 60, 250, 0, short), writer(epoch, "b", 60, 280, 0, short),
			writer(epoch, "long", 62, 100, 0), writer(epoch, "short", 63, 100, 0, short),
		), Reservations: []hpc.ReservationEvent{{At: epoch.Add(30 * time.Second), Action: "create", Reservation: hpc.Reservation{
			Name: "course", Start: epoch.Add(600 * time.Second), Duration: 10 * time.Minute, Nodes: "n[3-4]", Users: []string{"ann"},
		}}}}
		d := &decided{timeline: timeline{epoch: epoch}, released: map[string]hpc.Time{}}
		e := startRig(t, in, w, true)
		if _, err := replay.Play(context.Background(), e, w, replay.DecideStarts(replay.NewRigid(w), w, drives(e, ioaware.Baseline, 0)), d, replay.Options{DrainLimit: time.Hour}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(d.lines)
		want := "a COMPLETED 60-310; b COMPLETED 60-340; long COMPLETED 310-410; short COMPLETED 70-170"
		if got := strings.Join(d.lines, "; "); got != want || len(d.commands) != 4 || d.slowest > 2*time.Second {
			t.Errorf("schedule %s, want %s\n%q, a job started %v after its release", got, want, d.commands, d.slowest)
		}
	})
}
