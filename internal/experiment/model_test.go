package experiment_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"rmreplay/internal/experiment"
	"rmreplay/internal/experiment/scenario"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/rmtest"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
	"rmreplay/internal/workload"
)

// TestModelScenarios plays workloads on small clusters with the model of Slurm's scheduler. It
// must give each job the start and the nodes that slurmctld gave the job. The files of
// testdata/model have these directives:
//
//	cluster   the files of a cluster directory, each after a line "-- NAME --"
//	workload  the jobs; package rmtest describes the lines
//	replay    what a release of Slurm does, with slurm=RELEASE and seed=N: ID START NODES, in seconds
//
// If the release is installed, the test also runs Slurm again: for all files directly in
// testdata/model, and for a few of the random cases in testdata/model/random. The day, or
// RMREPLAY_SEED, decides which of these are run. Run the test with -rewrite to record the answers
// for the cases that Slurm plays.
func TestModelScenarios(t *testing.T) {
	live := rotation(t)
	datadriven.Walk(t, "testdata/model", func(t *testing.T, path string) {
		var s scene
		always := filepath.Base(filepath.Dir(path)) == "model"
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "cluster":
				s.cluster = t.TempDir()
				if err := scenario.WriteCluster(s.cluster, d.Input); err != nil {
					d.Fatalf(t, "%v", err)
				}
				return ""
			case "workload":
				s.lines = d.Input
				return ""
			case "replay":
				return s.replay(t, d, always || live())
			}
			d.Fatalf(t, "%s: not a directive (want cluster, workload or replay)", d.Cmd)
			return ""
		})
	})
}

// isInstalled reports whether Slurm can play a scenario. This check takes longer than the model's run
// of a scenario.
func isInstalled(release string) bool {
	if testing.Short() {
		return false
	}
	in, err := install.FindSlurm(release)
	return err == nil && in.Need(true) == nil
}

// rotation returns a function that says of each random case whether Slurm plays it today: one case in thirty, about
// ten cases.
func rotation(t *testing.T) func() bool {
	seed := time.Now().YearDay()
	if text := os.Getenv("RMREPLAY_SEED"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("RMREPLAY_SEED: %v", err)
		}
		seed = n
	}
	const of = 30
	return func() bool { seed++; return seed%of == 0 }
}

// scene is a cluster and a workload.
type scene struct{ cluster, lines string }

// replay compares the model's run of the scene with Slurm's, and returns the outcome on Slurm. The
// parameter live says that Slurm runs the scene again; otherwise the test uses its recorded outcome.
func (s *scene) replay(t *testing.T, d *datadriven.TestData, live bool) string {
	release, seed := "22.05", uint64(1)
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "slurm":
			release = a.Vals[0]
		case "seed":
			n, err := strconv.ParseUint(a.Vals[0], 10, 64)
			if err != nil {
				d.Fatalf(t, "seed: %v", err)
			}
			seed = n
		}
	}
	play := func(spec experiment.Spec) string {
		t.Helper()
		spec.Seed, spec.Output = seed, filepath.Join(t.TempDir(), "run")
		out, err := scenario.Play(t.Context(), s.lines, spec)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		return out
	}
	want := d.Expected
	if live && isInstalled(release) {
		want = play(experiment.Spec{Slurm: &experiment.Slurm{Cluster: s.cluster, Installation: release}})
	}
	got := play(experiment.Spec{
		Simulator: &experiment.Simulator{Policy: experiment.SlurmPolicy, Cluster: s.cluster, Release: release},
	})
	if list := scenario.Differences(want, got); len(list) > 0 && !d.Rewrite {
		t.Errorf("%s: the model differs:\n%s", d.Pos, strings.Join(list, "\n"))
	}
	return want
}

// TestModelReservedForMaintenance checks the reasons of jobs that wait for the end of a maintenance: the
// reason has slurmctld's words, by which package waits recognizes a reservation. Afterwards a job that waits for
// nodes has another reason (_foreach_clear_job_resv in reservation.c).
func TestModelReservedForMaintenance(t *testing.T) {
	cluster := tinyCluster(t)
	lines := "reservation at=5 create m start=60 duration=3600 nodes=a[1-2] users=root flags=MAINT,IGNORE_JOBS\n" +
		"job j0 at=70 run=1000 -t 20 -n 16 --uid=ann\njob j1 at=71 run=1000 -t 20 -n 16 --uid=ann\n" +
		"job j2 at=72 run=30 -t 20 -n 16 --uid=ann\n"
	spec := experiment.Spec{Simulator: &experiment.Simulator{Policy: experiment.SlurmPolicy, Cluster: cluster}, Seed: 1}
	spec.Output = filepath.Join(t.TempDir(), "run")
	if _, err := scenario.Play(t.Context(), lines, spec); err != nil {
		t.Fatal(err)
	}
	r, err := run.Open(spec.Output)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := r.Histories()
	if err != nil {
		t.Fatal(err)
	}
	s, ok := waits.Sum(&rows[0])
	if waited := s.Parts[slices.Index(waits.Parts, waits.Reservation)]; !ok || waited < 50*time.Minute {
		t.Errorf("the job waits %v for the reservation: %+v, %+v", waited, s, rows[0].Reasons)
	}
	if list := rows[2].Reasons; !slices.ContainsFunc(list, func(s run.Span) bool { return s.Reason == "Priority" }) {
		t.Errorf("the last job never waits for its priority: %+v", list)
	}
}

// TestModelRejected checks that rejected jobs affect the validity of a run of the model as they do
// in a replay. A rejected job that ran when it was recorded makes the run invalid. A job that was
// also rejected when it was recorded does not.
func TestModelRejected(t *testing.T) {
	const lines = "job j0 at=5 run=30 -t 5 -n 1\njob j1 at=6 run=30 -t 5 -n 1 -p missing\n"
	ran := &hpc.Recorded{State: hpc.Completed, Start: scenario.Epoch.Add(time.Minute), End: scenario.Epoch.Add(2 * time.Minute)}
	for _, recorded := range []*hpc.Recorded{ran, {State: hpc.Rejected}} {
		jobs, err := rmtest.Parse(lines, scenario.Epoch, "--uid=ann")
		if err != nil {
			t.Fatal(err)
		}
		jobs.Jobs[1].Recorded = recorded
		dir := filepath.Join(t.TempDir(), "run")
		_, err = experiment.Run(t.Context(), experiment.Spec{
			Workload: experiment.Workload{Value: &workload.Workload{
				Source: "a test", Epoch: scenario.Epoch, Jobs: workload.JobsOf(jobs.Jobs...),
			}},
			Simulator: &experiment.Simulator{Policy: experiment.SlurmPolicy, Cluster: tinyCluster(t)}, Seed: 1, Output: dir,
		}, experiment.Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := run.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		warned := slices.ContainsFunc(r.Manifest.Warnings, func(w run.Warning) bool { return w.Code == "jobs-rejected" })
		if warned != (recorded == ran) || r.Manifest.Valid != (recorded != ran) {
			t.Errorf("recorded as %s: valid %t, %+v", recorded.State, r.Manifest.Valid, r.Manifest.Warnings)
		}
	}
}

// TestModelRefusedAccounts checks that a command that sacctmgr refuses is named before the model
// plays, and that it makes the run invalid, as in a replay.
func TestModelRefusedAccounts(t *testing.T) {
	cluster := tinyCluster(t)
	file := filepath.Join(cluster, "slurm.conf")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"slurm.conf":        string(text) + "AccountingStorageType=accounting_storage/slurmdbd\n",
		"accounts.sacctmgr": "add cluster tiny\nadd account red\nadd user ann account=red\nadd qos high preempt=long\nadd qos long\n",
	} {
		if err := os.WriteFile(filepath.Join(cluster, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	jobs, err := rmtest.Parse("job j0 at=5 run=30 -t 5 -n 1\n", scenario.Epoch, "--uid=ann")
	if err != nil {
		t.Fatal(err)
	}
	var notices []string
	dir := filepath.Join(t.TempDir(), "run")
	if _, err := experiment.Run(t.Context(), experiment.Spec{
		Workload:  experiment.Workload{Value: &workload.Workload{Source: "a test", Epoch: scenario.Epoch, Jobs: workload.JobsOf(jobs.Jobs...)}},
		Simulator: &experiment.Simulator{Policy: experiment.SlurmPolicy, Cluster: cluster}, Seed: 1, Output: dir,
	}, experiment.Hooks{Notice: func(text string) { notices = append(notices, text) }}); err != nil {
		t.Fatal(err)
	}
	r, err := run.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := "accounts.sacctmgr:4: QOS long: "
	warned := slices.ContainsFunc(r.Manifest.Warnings, func(w run.Warning) bool { return strings.Contains(w.Text, want) })
	if len(notices) != 1 || !strings.Contains(notices[0], want) || !warned || r.Manifest.Valid {
		t.Errorf("notices %q, valid %t, %+v; want %s", notices, r.Manifest.Valid, r.Manifest.Warnings, want)
	}
}

// tinyCluster returns a cluster directory with two nodes.
func tinyCluster(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := scenario.WriteCluster(dir, `-- slurm.conf --
ClusterName=tiny
SlurmctldHost=ctl
SlurmUser=slurm
StateSaveLocation=/var/spool/slurmctld
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName=a[1-2] CPUs=8
PartitionName=all Nodes=a[1-2] Default=YES MaxTime=60
-- users --
ann:1001:red:2001
`); err != nil {
		t.Fatal(err)
	}
	return dir
}
