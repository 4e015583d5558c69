package agreement

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rmreplay/internal/experiment"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/rmtest"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// configuration returns the slurm.conf of a small cluster with options of the scheduler.
func configuration(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	text := `ClusterName=tiny
SlurmctldHost=ctl
SlurmUser=slurm
StateSaveLocation=/var/spool/slurmctld
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=` + options + `
NodeName=a[1-4] CPUs=4
PartitionName=all Nodes=a[1-4] Default=YES MaxTime=3:00:00
`
	for name, content := range map[string]string{"slurm.conf": text, "users": "ann:1001:red:2001\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// spec returns a run of the model with sixty jobs and an array.
func spec(t *testing.T, options string) experiment.Spec {
	t.Helper()
	epoch := hpc.Unix(1709640000)
	var lines strings.Builder
	for i := range 60 {
		minutes := 3 + i*7%40
		fmt.Fprintf(&lines, "job j%d at=%d run=%d -n %d -t %d\n", i, i*i%600, minutes*40, 1+i*5%16, minutes)
	}
	lines.WriteString("job array at=300 run=100 -a 1-9%3 -n 2 -t 4\n")
	jobs, err := rmtest.Parse(lines.String(), epoch, "--uid=ann")
	if err != nil {
		t.Fatal(err)
	}
	w := &workload.Workload{Source: "a test", Epoch: epoch, Jobs: workload.JobsOf(jobs.Jobs...)}
	return experiment.Spec{
		Workload: experiment.Workload{Value: w}, Seed: 3,
		Simulator: &experiment.Simulator{Policy: experiment.SlurmPolicy, Cluster: configuration(t, options)},
	}
}

// record makes a run of the model that passes for a replay on Slurm.
func record(t *testing.T, options string) *run.Run {
	t.Helper()
	s := spec(t, options)
	s.Output = filepath.Join(t.TempDir(), "run")
	if _, err := experiment.Run(t.Context(), s, experiment.Hooks{}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.Output, "manifest.json")
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, bytes.Replace(data, []byte(`"engine": "sim"`), []byte(`"engine": "slurm"`), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := run.Open(s.Output)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// follow makes the model with options follow a record.
func follow(t *testing.T, r *run.Run, options string, instants int) *Report {
	t.Helper()
	f, err := NewFollower(r)
	if err != nil {
		t.Fatal(err)
	}
	counted, err := experiment.Follow(t.Context(), spec(t, options), f)
	if err != nil {
		t.Fatal(err)
	}
	report := f.Report(instants, 1)
	var b bytes.Buffer
	if err := report.Render(&b, 3, r.Manifest.Scheduler, counted); err != nil || !strings.Contains(b.String(), report.Decisions.String()) {
		t.Errorf("report: %v\n%s", err, b.String())
	}
	return report
}

// TestFollow lets the model follow a run of its own, and one of a scheduler with other options: each decision
// that differs is found, and none hides the next one, since all jobs start and end as recorded.
func TestFollow(t *testing.T) {
	r := record(t, "bf_interval=15")
	same := follow(t, r, "bf_interval=15", 0)
	for what, c := range map[string]Count{
		"decisions": same.Decisions, "starts": same.Starts, "nodes": same.Nodes, "reasons": same.Reasons,
		"plans": same.Plans, "ends": same.Ends,
	} {
		if c.All == 0 || c.Agree != c.All {
			t.Errorf("%s of the same scheduler: %s", what, c)
		}
	}
	if len(same.Failed) != 0 || len(same.Differences) != 0 || same.Starts.All != 69 {
		t.Errorf("the same scheduler: %+v", same)
	}

	other := follow(t, r, "bf_interval=15,bf_max_job_test=1", 0)
	late := 0
	for i := range other.Differences {
		if other.Differences[i].Kind == TooLate {
			late++
		}
	}
	if late == 0 || other.Starts.Agree+late < 69 || len(other.Failed) != 0 || other.Ends.Agree != other.Ends.All || other.Ends.All < 60 ||
		other.Decisions.Agree >= other.Decisions.All || other.Decisions.Agree < other.Decisions.All/2 {
		t.Errorf("a scheduler without backfill: %d starts missed, %+v", late, other)
	}

	few := follow(t, r, "bf_interval=15,bf_max_job_test=1", 20)
	if few.Instants != 20 || few.AllInstants != other.Instants || few.Decisions.All >= other.Decisions.All {
		t.Errorf("20 instants: %+v", few)
	}
}

// TestFollowSimulation refuses a record that slurmctld did not make.
func TestFollowSimulation(t *testing.T) {
	r := record(t, "bf_interval=15")
	r.Manifest.Engine = "sim"
	if _, err := NewFollower(r); err == nil || !strings.Contains(err.Error(), "want a record of rmreplay replay") {
		t.Errorf("error %v", err)
	}
}
