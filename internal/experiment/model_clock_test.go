package experiment_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"rmreplay/internal/experiment"
	"rmreplay/internal/experiment/scenario"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/rmtest"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// clockCluster has one partition. Its SchedulerParameters end with an option of a test.
const clockCluster = `-- slurm.conf --
ClusterName=tiny
SlurmctldHost=ctl
SlurmUser=slurm
StateSaveLocation=/var/spool/slurmctld
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_max_time=10,bf_interval=30%s
NodeName=a[1-4] CPUs=4
PartitionName=all Nodes=a[1-4] Default=YES MaxTime=3:00:00
-- users --
ann:1001:red:2001`

// TestModelClock gives cycles a cost. They then end at the limits of slurm.conf, and a long queue is not tried to
// its end.
func TestModelClock(t *testing.T) {
	frozen := clockRun(t, "", "frozen")
	if c := frozen.Manifest.Clock; c.Model != "frozen" || exits(t, frozen, "bf_max_time") != 0 {
		t.Errorf("the frozen clock: %+v", c)
	}
	for _, tt := range []struct{ option, clock, exit string }{
		{",bf_continue", "charged=0s,500ms", "bf_max_time"},
		{"", "charged=0s,500ms", "state_changed"},
		{"", "charged=600ms,0s", "max_sched_time"},
	} {
		r := clockRun(t, tt.option, tt.clock)
		if n := exits(t, r, tt.exit); n == 0 {
			t.Errorf("%s%s: no cycle ended because of %s", tt.clock, tt.option, tt.exit)
		}
		s, f := r.Manifest.Scheduler, frozen.Manifest.Scheduler
		if r.Manifest.Clock.Model != "charged" || s.JobsStarted != 80 || s.MainMax > 2.5 || s.BackfillMax > 10.5 ||
			s.MainMean+s.BackfillMean == 0 {
			t.Errorf("%s%s: %+v, %+v", tt.clock, tt.option, r.Manifest.Clock, s)
		}
		if strings.HasSuffix(tt.clock, "500ms") && s.BackfillTriedMean >= 0.8*f.BackfillTriedMean {
			t.Errorf("%s%s: cycles try %.1f jobs, with the frozen clock %.1f", tt.clock, tt.option, s.BackfillTriedMean, f.BackfillTriedMean)
		}
	}
}

// clockRun simulates eighty jobs; few fit at once.
func clockRun(t *testing.T, option, clock string) *run.Run {
	t.Helper()
	epoch := hpc.Unix(1709640000)
	var lines strings.Builder
	for i := range 80 {
		fmt.Fprintf(&lines, "job j%d at=%d run=%d -n %d -t %d\n", i, i, 60+i*37%300, 1+i*7%12, 4+i*5%30)
	}
	jobs, err := rmtest.Parse(lines.String(), epoch, "--uid=ann")
	if err != nil {
		t.Fatal(err)
	}
	w := &workload.Workload{Source: "a test", Epoch: epoch, Jobs: workload.JobsOf(jobs.Jobs...)}
	cluster := t.TempDir()
	if err := scenario.WriteCluster(cluster, fmt.Sprintf(clockCluster, option)); err != nil {
		t.Fatal(err)
	}
	spec := experiment.Spec{
		Workload: experiment.Workload{Value: w}, Output: filepath.Join(t.TempDir(), "run"), Seed: 3,
		Simulator: &experiment.Simulator{Policy: experiment.SlurmPolicy, Cluster: cluster, Release: "24.11"},
	}
	if spec.Simulator.Clock, err = experiment.ModelClock(clock); err != nil {
		t.Fatal(err)
	}
	r := recordOf(t, spec)
	return r
}

// exits returns how many cycles ended for a reason.
func exits(t *testing.T, r *run.Run, name string) (n int64) {
	t.Helper()
	rows, err := r.Statistics()
	if err != nil || len(rows) == 0 {
		t.Fatalf("no statistics: %v", err)
	}
	last := rows[len(rows)-1]
	for _, list := range [][]rm.Exits{last.MainExits, last.BackfillExits} {
		for _, e := range list {
			if e.Name == name {
				n += e.Count
			}
		}
	}
	return n
}

// TestModelClockRefused checks that the error of a wrong clock names the right clocks.
func TestModelClockRefused(t *testing.T) {
	for model, want := range map[string]string{
		"measured": "want frozen or charged=COSTS", "charged": "such as charged=50us,2ms", "slow": "such as charged=50us,2ms",
		"charged=5": "such as 50us,2ms", "charged=" + t.TempDir(): "opening run record",
		"charged=" + clockRun(t, "", "frozen").Dir: "want a replay with --clock measured",
	} {
		if _, err := experiment.ModelClock(model); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", model, err, want)
		}
	}
}
