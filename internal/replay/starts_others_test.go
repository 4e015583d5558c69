package replay_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/ioaware"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/workload"
)

// TestJobsOfOthers checks that jobs start that the driver leaves to Slurm, and that they do not
// keep the driver's jobs waiting for ever. From 300 s on, "single" waits with a priority for all
// four nodes. Therefore sched/builtin starts neither "behind", which the driver has to hold again
// and again, nor jobs that come later.
func TestJobsOfOthers(t *testing.T) {
	eachRelease(t, func(t *testing.T, in *install.Installation) {
		epoch := workload.DefaultEpoch
		short := func(j *hpc.Job) { j.TimeLimit = 5 * time.Minute }
		depends := func(on string) func(*hpc.Job) {
			return func(j *hpc.Job) { j.Dependency, j.TimeLimit = on, 5*time.Minute }
		}
		w := &workload.Workload{Epoch: epoch, Jobs: workload.JobsOf(
			writer(epoch, "first", 0, 300, 0, func(j *hpc.Job) { j.Name = "chain" }),
			writer(epoch, "long", 1, 1000, 0),
			writer(epoch, "single", 10, 100, 0, func(j *hpc.Job) {
				j.Name, j.Dependency, j.Tasks, j.MinNodes, j.TimeLimit = "chain", "singleton", 4, 4, 5*time.Minute
			}),
			writer(epoch, "start", 12, 100, 0, depends("after:first")),
			writer(epoch, "delay", 13, 100, 0, depends("after:first+2")),
			writer(epoch, "course", 14, 100, 0, func(j *hpc.Job) { j.Reservation, j.TimeLimit = "course", 5*time.Minute }),
			writer(epoch, "early", 20, 100, 0, short),
			writer(epoch, "behind", 320, 100, 0, short),
		), Reservations: []hpc.ReservationEvent{{At: epoch, Action: "create", Reservation: hpc.Reservation{
			Name: "course", Start: epoch.Add(1800 * time.Second), Duration: 10 * time.Minute, Nodes: "n4", Users: []string{"ann"},
		}}}}
		d := &decided{timeline: timeline{epoch: epoch}, released: map[string]hpc.Time{}}
		e := startRig(t, in, w, true)
		result, err := replay.Play(context.Background(), e, w, replay.DecideStarts(replay.NewRigid(w), w, drives(e, ioaware.Aware, 0)), d, replay.Options{DrainLimit: 2 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(d.lines)
		want := "behind COMPLETED 1260-1360; course COMPLETED 1800-1900; delay COMPLETED 120-220; early COMPLETED 20-120; first COMPLETED 0-300; " +
			"long COMPLETED 0-1000; single COMPLETED 1010-1110; start COMPLETED 10-110"
		if got := strings.Join(d.lines, "; "); got != want || len(result.Undrained) > 0 {
			t.Errorf("schedule %s, want %s; left are %q\n%q", got, want, result.Undrained, d.commands)
		}
		for _, command := range d.commands {
			if job, _, _ := strings.Cut(command, " "); slices.Contains([]string{"single", "start", "delay", "course"}, job) {
				t.Errorf("the driver decides on %s", command)
			}
		}
	})
}

// TestDrainedNodes checks that a job on drained nodes takes nothing from the nodes in service.
func TestDrainedNodes(t *testing.T) {
	eachRelease(t, func(t *testing.T, in *install.Installation) {
		epoch := workload.DefaultEpoch
		w := &workload.Workload{Epoch: epoch, Jobs: workload.JobsOf(
			writer(epoch, "drained", 0, 900, 0, func(j *hpc.Job) { j.Tasks, j.MinNodes, j.NodeList = 2, 2, "n[1-2]" }),
			writer(epoch, "wide", 200, 100, 0, func(j *hpc.Job) { j.Tasks, j.MinNodes = 2, 2 }),
		), NodeEvents: []hpc.NodeEvent{{At: epoch.Add(100 * time.Second), Nodes: "n[1-2]", State: "drain"}}}
		l := &timeline{epoch: epoch}
		e := startRig(t, in, w, true)
		if _, err := replay.Play(context.Background(), e, w, replay.DecideStarts(replay.NewRigid(w), w, drives(e, ioaware.Aware, 0)), l, replay.Options{DrainLimit: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(l.lines, "; "); got != "wide COMPLETED 200-300; drained COMPLETED 0-900" {
			t.Errorf("schedule %s", got)
		}
	})
}
