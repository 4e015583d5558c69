package experiment_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/experiment"
	"rmreplay/internal/experiment/scenario"
	"rmreplay/internal/explain"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/rmtest"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// recordCluster has one queue in which backfill tries few jobs, and priorities of several parts.
const recordCluster = `-- slurm.conf --
ClusterName=tiny
SlurmctldHost=ctl
SlurmUser=slurm
StateSaveLocation=/var/spool/slurmctld
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PriorityType=priority/multifactor
PriorityWeightJobSize=1000
PriorityWeightPartition=500
PriorityWeightAge=1000
PriorityWeightFairshare=5000
PriorityWeightTRES=cpu=100
PriorityCalcPeriod=1
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageEnforce=associations
SchedulerParameters=bf_max_job_test=4,bf_max_job_user=3,bf_window=60
NodeName=a[1-4] CPUs=4
PartitionName=all Nodes=a[1-4] Default=YES MaxTime=3:00:00
-- users --
ann:1001:red:2001
bob:1002:red:2001`

// recordJobs fill the cluster. One job needs the whole cluster, and other jobs wait behind this
// job.
const recordJobs = `job full at=0 run=600 -n 12 -t 20
job all at=5 run=60 -n 16 -t 10
job b1 at=6 run=60 -n 4 -t 5 --nice=10
job b2 at=7 run=900 -n 4 -t 100
job b3 at=8 run=900 -n 4 -t 100
job b4 at=9 run=900 -n 4 -t 100 --uid=bob
job b5 at=10 run=900 -n 4 -t 100 --uid=bob
job later at=11 run=60 -n 16 -t 170 --uid=bob
job dep at=12 run=10 -n 1 -d afterok:b1`

// TestModelCountsAtMidnight: a workload begins at midnight, and the scheduler's statistics count every start, although
// the model resets its counters as slurmctld does. Before 23.11 slurmctld does so at any instant within a second.
func TestModelCountsAtMidnight(t *testing.T) {
	dir := t.TempDir()
	if err := scenario.WriteCluster(dir, recordCluster); err != nil {
		t.Fatal(err)
	}
	midnight := hpc.Unix(1709596800)
	what, err := rmtest.Parse("job a at=0 run=100 -n 1 -t 10\njob b at=0 run=100 -n 1 -t 10", midnight, "--uid=ann")
	if err != nil {
		t.Fatal(err)
	}
	for _, release := range []string{"22.05", "24.11"} {
		for seed := range uint64(3) {
			w := &workload.Workload{Source: "a test", Epoch: midnight, Jobs: workload.JobsOf(what.Jobs...)}
			spec := experiment.Spec{
				Workload: experiment.Workload{Value: w}, Output: filepath.Join(t.TempDir(), "run"), Seed: seed,
				Simulator: &experiment.Simulator{Policy: experiment.SlurmPolicy, Cluster: dir, Release: release},
			}
			r := recordOf(t, spec)
			if s := r.Manifest.Scheduler; s.JobsSubmitted != 2 || s.JobsStarted != 2 || s.JobsCompleted != 2 {
				t.Errorf("Slurm %s, seed %d: %d submitted, %d started, %d completed, want 2", release, seed, s.JobsSubmitted, s.JobsStarted, s.JobsCompleted)
			}
		}
	}
}

// recordOf runs a spec and opens the record.
func recordOf(t *testing.T, spec experiment.Spec) *run.Run {
	t.Helper()
	if _, err := experiment.Run(t.Context(), spec, experiment.Hooks{}); err != nil {
		t.Fatal(err)
	}
	r, err := run.Open(spec.Output)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestModelNeverSatisfied: the next pass after a dependency has failed sets the job's reason to
// DependencyNeverSatisfied.
func TestModelNeverSatisfied(t *testing.T) {
	dir := t.TempDir()
	if err := scenario.WriteCluster(dir, recordCluster); err != nil {
		t.Fatal(err)
	}
	epoch := hpc.Unix(1709596800)
	what, err := rmtest.Parse("job bad at=0 run=100 exit=1 -n 1 -t 10\njob never at=5 run=100 -n 1 -t 10 -d afterok:bad", epoch,
		"--uid=ann")
	if err != nil {
		t.Fatal(err)
	}
	spec := experiment.Spec{
		Workload:  experiment.Workload{Value: &workload.Workload{Source: "a test", Epoch: epoch, Jobs: workload.JobsOf(what.Jobs...)}},
		Output:    filepath.Join(t.TempDir(), "run"),
		Simulator: &experiment.Simulator{Policy: experiment.SlurmPolicy, Cluster: dir},
	}
	r := recordOf(t, spec)
	rows, err := r.Jobs()
	if err != nil {
		t.Fatal(err)
	}
	events, err := r.Events()
	if err != nil {
		t.Fatal(err)
	}
	spans := run.NewReasons(events, r.Manifest.VirtualEnd).Spans(&rows[1])
	if n := len(spans); n < 2 || spans[n-2].Reason != "Dependency" || spans[n-1].Reason != "DependencyNeverSatisfied" ||
		spans[n-1].From < rows[0].End || spans[n-1].From > rows[0].End.Add(time.Minute) {
		t.Errorf("job bad ended at %s, and job never waited as %+v", rows[0].End, spans)
	}
}

// TestModelRecord looks into the record of the model's run: like the record of a replay, it has the
// parts of priorities and what backfill did.
func TestModelRecord(t *testing.T) {
	dir := t.TempDir()
	if err := scenario.WriteCluster(dir, recordCluster); err != nil {
		t.Fatal(err)
	}
	midnight := hpc.Unix(1709596800)
	record := func() *run.Run {
		epoch := midnight.Add(time.Minute)
		what, err := rmtest.Parse(recordJobs, epoch, "--uid=ann")
		if err != nil {
			t.Fatal(err)
		}
		w := &workload.Workload{Source: "a test", Epoch: epoch, Jobs: workload.JobsOf(what.Jobs...)}
		spec := experiment.Spec{
			Workload: experiment.Workload{Value: w}, Output: filepath.Join(t.TempDir(), "run"), Seed: 3,
			Simulator: &experiment.Simulator{Policy: experiment.SlurmPolicy, Cluster: dir},
		}
		r := recordOf(t, spec)
		return r
	}
	r := record()
	events, err := r.Events()
	if err != nil {
		t.Fatal(err)
	}
	did := checkModelEvents(t, events)
	for _, want := range []rm.Backfill{rm.Planned, rm.UserDepth, rm.NotReached, rm.NoNodes, rm.BeyondWindow} {
		if did[want] == 0 {
			t.Errorf("backfill never %s: %v", want, did)
		}
	}
	if s := r.Manifest.Scheduler; s == nil || s.JobsSubmitted != 9 || s.JobsStarted != 9 || s.JobsCompleted != 9 ||
		s.JobsBackfilled == 0 || s.BackfillDepthMean <= 0 || s.BackfillQueueMean < s.BackfillTriedMean {
		t.Errorf("statistics: %+v", s)
	}
	if rows, err := r.Statistics(); err != nil || len(rows) < 2 || rows[0].MainCycles == 0 || rows[0].Since >= midnight {
		t.Errorf("%d rows of statistics (%v), want one every ten minutes, and the first with the cycles before midnight", len(rows), err)
	}
	checkModelStory(t, r)
	other := record()
	for _, name := range []string{"events.parquet", "jobs.parquet", "scheduler.parquet"} {
		a, _ := os.ReadFile(filepath.Join(r.Dir, name))
		if b, _ := os.ReadFile(filepath.Join(other.Dir, name)); !bytes.Equal(a, b) || len(a) == 0 {
			t.Errorf("%s differs between two runs of one seed", name)
		}
	}
}

// TestModelWindowStatistics: one row of the model's statistics is from just before a window, as in
// the record of a replay.
func TestModelWindowStatistics(t *testing.T) {
	dir := t.TempDir()
	if err := scenario.WriteCluster(dir, recordCluster); err != nil {
		t.Fatal(err)
	}
	epoch := hpc.Unix(1709640000)
	what, err := rmtest.Parse("job before at=0 run=900 -n 4 -t 20\njob after at=400 run=60 -n 4 -t 5", epoch, "--uid=ann")
	if err != nil {
		t.Fatal(err)
	}
	what.Jobs[0].Recorded = &hpc.Recorded{Start: epoch.Add(time.Second), End: epoch.Add(901 * time.Second), Nodes: "a1", State: hpc.Completed}
	w := &workload.Workload{Source: "a test", Epoch: epoch, Start: epoch.Add(200 * time.Second), Jobs: workload.JobsOf(what.Jobs...)}
	spec := experiment.Spec{
		Workload: experiment.Workload{Value: w}, Output: filepath.Join(t.TempDir(), "run"), Seed: 3,
		Simulator: &experiment.Simulator{Policy: experiment.SlurmPolicy, Cluster: dir},
	}
	r := recordOf(t, spec)
	rows, err := r.Statistics()
	if err != nil || !slices.ContainsFunc(rows, func(row rm.Statistics) bool { return row.At == w.Start.Add(-time.Second) && row.JobsStarted == 1 }) {
		t.Errorf("%+v (%v), want a row with the preset job alone just before the window", rows, err)
	}
}

// TestWindowMaxTime: as in a replay (slurm.TestWindowMaxTime), the model and the simulator's policies keep a job that
// runs when the window begins, although its time limit is above MaxTime. They do not start a pending job with that limit.
func TestWindowMaxTime(t *testing.T) {
	epoch := hpc.Unix(1709640000)
	for _, policy := range []string{experiment.SlurmPolicy, "easy"} {
		for _, enforce := range []string{"ALL", "NO"} {
			dir := t.TempDir()
			lower := strings.NewReplacer("MaxTime=3:00:00", "MaxTime=60", "SlurmUser=slurm", "SlurmUser=slurm\nEnforcePartLimits="+enforce)
			if err := scenario.WriteCluster(dir, lower.Replace(recordCluster)); err != nil {
				t.Fatal(err)
			}
			what, err := rmtest.Parse(`job long at=0 run=9000 -n 4 -t 240
job endless at=0 run=9000 -n 4 -t UNLIMITED
job over at=0 run=9000 -n 4 -t 120
job pending at=0 run=60 cancel=5000 -n 4 -t 120`, epoch, "--uid=ann")
			if err != nil {
				t.Fatal(err)
			}
			for i, node := range []string{"a1", "a2", "a3"} {
				what.Jobs[i].Recorded = &hpc.Recorded{Start: epoch.Add(time.Second), Nodes: node}
			}
			w := &workload.Workload{Source: "a test", Epoch: epoch, Start: epoch.Add(200 * time.Second), Jobs: workload.JobsOf(what.Jobs...)}
			spec := experiment.Spec{Workload: experiment.Workload{Value: w}, Output: filepath.Join(t.TempDir(), "run"), Seed: 3,
				Simulator: &experiment.Simulator{Policy: policy, Cluster: dir}}
			r := recordOf(t, spec)
			rows, err := r.Jobs()
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range rows {
				ran := row.End.Sub(row.Start).Truncate(time.Minute)
				if row.Start == 0 {
					ran = 0
				}
				want := map[string]time.Duration{"long": 150 * time.Minute, "endless": 150 * time.Minute, "over": 120 * time.Minute}
				if ran != want[row.Job] {
					t.Errorf("%s, EnforcePartLimits=%s: %s %s ran for %v, want %v", policy, enforce, row.Job, row.State, ran, want[row.Job])
				}
			}
		}
	}
}

// checkModelEvents checks that the parts of each priority add up to the priority, and counts what
// backfill did.
func checkModelEvents(t *testing.T, events []run.Event) map[rm.Backfill]int {
	t.Helper()
	did := map[rm.Backfill]int{}
	for _, e := range events {
		if e.Kind != rm.Waiting {
			continue
		}
		did[e.Backfill]++
		sum := 0.0
		for _, p := range e.Parts {
			sum += p.Points
		}
		if uint32(sum) != e.Priority || e.Priority == 0 || e.Reason == "" {
			t.Errorf("job %s at %s: reason %q, priority %d, parts %v", e.Job, e.At, e.Reason, e.Priority, e.Parts)
		}
		if e.Backfill == rm.Planned && e.Start <= e.At {
			t.Errorf("job %s is planned at %s for %s", e.Job, e.At, e.Start)
		}
	}
	return did
}

// checkModelStory checks what explain says of jobs that waited.
func checkModelStory(t *testing.T, r *run.Run) {
	t.Helper()
	record, err := explain.Open(r)
	if err != nil {
		t.Fatal(err)
	}
	for job, want := range map[string]rm.Backfill{"later": rm.Planned, "all": rm.BeyondWindow, "b3": rm.NoNodes} {
		story, err := record.Job(job)
		if err != nil {
			t.Fatal(err)
		}
		if len(story.PriorityParts) < 4 || len(story.Backfill) == 0 || story.Backfill[0].Verdict != want {
			t.Errorf("job %s: parts %v, backfill %v", job, story.PriorityParts, story.Backfill)
		}
		var b bytes.Buffer
		if err := story.Render(&b, time.UTC); err != nil || !bytes.Contains(b.Bytes(), []byte("fairshare")) ||
			!bytes.Contains(b.Bytes(), []byte(want.Meaning())) {
			t.Errorf("job %s: %s", job, b.String())
		}
	}
}
