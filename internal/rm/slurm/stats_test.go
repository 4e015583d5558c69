package slurm

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// TestCountAtMidnight: the counters include the events of midnight, although slurmctld resets its
// own counters within a second of it. The workload begins at midnight, and the first row of the statistics
// has the counters before this midnight.
func TestCountAtMidnight(t *testing.T) { eachSlurm(t, testCountAtMidnight) }

func testCountAtMidnight(t *testing.T, slurm *install.Installation) {
	const jobs = 6
	var rows []rm.Statistics
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t)),
		statistics: func(s rm.Statistics) { rows = append(rows, s) }}
	var list []*hpc.Job
	for i := range jobs {
		list = append(list, job(fmt.Sprint("job", i), 0, 100, nil))
	}
	s.workload.Jobs = workload.JobsOf(list...)
	ctx := t.Context()
	e := s.startWith(ctx, t, lead+980*time.Millisecond) // slurmctld checks the clock 20 ms after each full second
	if epoch%hpc.Time(24*time.Hour) != 0 {
		t.Fatalf("the epoch %s is not at midnight", epoch)
	}
	writer, err := run.Create(filepath.Join(t.TempDir(), "run"), run.Manifest{Engine: "slurm"}, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if _, err := replay.Rigid(ctx, e, &s.workload, writer, replay.Options{}); err != nil {
		t.Fatal(err)
	}
	got, err := e.scheduler(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got.JobsSubmitted != jobs || got.JobsStarted != jobs || got.JobsCompleted != jobs {
		t.Errorf("slurmctld has counted %d jobs submitted, %d started and %d completed, want %d", got.JobsSubmitted, got.JobsStarted, got.JobsCompleted, jobs)
	}
	if first := rows[0]; first.Since >= epoch || first.At >= epoch.Add(time.Second) || first.MainCycles == 0 {
		t.Errorf("the first row has %d main cycles from %s to %s, want those before midnight", first.MainCycles, first.Since, first.At)
	}
}
