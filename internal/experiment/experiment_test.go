package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/run"
	"rmreplay/internal/supervise"
	"rmreplay/internal/waits/waitstest"
	"rmreplay/internal/workload"
)

func TestMain(m *testing.M) {
	supervise.RunIfGuard() // a replay starts its guard from this very binary
	os.Exit(m.Run())
}

// threeJobs is a workload that does not come from a file. One processor is busy for 100 s, one job
// needs two processors for 60 s, and one job needs one processor for 30 s. EASY starts the last job
// at once.
func threeJobs() *workload.Workload {
	w := &workload.Workload{Source: "three jobs", Epoch: hpc.Unix(1709596800)}
	for i, j := range []struct{ tasks, seconds int }{{1, 100}, {2, 60}, {1, 30}} {
		w.Jobs.Append(&hpc.Job{
			ID: fmt.Sprint("j", i+1), Submit: w.Epoch.Add(time.Duration(10*i) * time.Second),
			Request:   hpc.Request{User: "ada", Tasks: j.tasks, TimeLimit: time.Duration(j.seconds) * time.Second},
			Behaviour: hpc.Behaviour{RunTime: time.Duration(j.seconds) * time.Second},
		})
	}
	return w
}

// simulation is the specification of a simulation of the three jobs.
func simulation(t *testing.T) Spec {
	t.Helper()
	return Spec{
		Workload: Workload{Value: threeJobs()}, Simulator: &Simulator{Processors: 2}, Seed: 1,
		Output: filepath.Join(t.TempDir(), "run"), Command: []string{"a", "server"}, Version: "v1",
	}
}

// A simulation needs only a specification. It reports its progress.
func TestSimulation(t *testing.T) {
	spec := simulation(t)
	var begun hpc.Time
	s, err := Run(t.Context(), spec, Hooks{Begin: func(at hpc.Time) { begun = at }})
	if err != nil {
		t.Fatal(err)
	}
	if s.Jobs != 3 || s.MakespanSeconds != 160 || Valid(s) != nil || begun != spec.Workload.Value.Epoch {
		t.Errorf("%d jobs, makespan %v, valid %v, begun %v", s.Jobs, s.MakespanSeconds, Valid(s), begun)
	}
	r, err := run.Open(spec.Output)
	if err != nil {
		t.Fatal(err)
	}
	m := r.Manifest
	if m.Policy != "easy" || m.Versions.RMReplay != "v1" || !slices.Equal(m.Command, spec.Command) || m.State != run.StateComplete {
		t.Errorf("the record says %+v", m)
	}
	again, err := metrics.FromRun(r, metrics.Options{})
	if err != nil {
		t.Fatal(err)
	}
	again.Fairness = nil // only the command metrics computes fairness, in another pass over the jobs
	fromRecord, err := json.Marshal(again)
	returned, rerr := json.Marshal(s)
	if diff := cmp.Diff(string(fromRecord), string(returned)); diff != "" || err != nil || rerr != nil {
		t.Errorf("the record (-) has other metrics than were returned (+): %v, %v\n%s", err, rerr, diff)
	}
}

// twoNodes is the slurm.conf of a cluster with accounting.
const twoNodes = `ClusterName=two
SlurmctldHost=ctl
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageEnforce=associations
NodeName=n[1-2] CPUs=1
PartitionName=batch Nodes=n[1-2] Default=YES
`

// A replay on the stock Slurm runs in the same way, here on a cluster with accounting.
func TestReplay(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED by -short: replays on real Slurm")
	}
	if _, err := install.Find(); err != nil {
		t.Skipf("SKIPPED: no replay on real Slurm: %v", err)
	}
	cluster := filepath.Join(t.TempDir(), "cluster")
	writeCluster(t, cluster, map[string]string{
		"slurm.conf":        twoNodes,
		"accounts.sacctmgr": "add cluster two\nadd account physics\nadd user ada account=physics\n",
		"users":             "ada:20001:physics:20001\n",
	})
	spec := simulation(t)
	spec.Simulator, spec.Slurm = nil, &Slurm{Cluster: cluster, Lead: 30 * time.Second}
	var steps []string
	ended := 0
	s, err := Run(t.Context(), spec, Hooks{
		Step:     func(text string) { steps = append(steps, text) },
		Progress: func(n replay.Progress) { ended = n.Ended },
	})
	if err != nil {
		t.Fatal(err)
	}
	waitstest.Check(t, spec.Output)
	if s.Jobs != 3 || Valid(s) != nil || ended != 3 || !slices.Contains(steps, "starting slurmctld") {
		t.Errorf("%d jobs, valid %v, %d ended, steps %q", s.Jobs, Valid(s), ended, steps)
	}
	text, err := os.ReadFile(filepath.Join(spec.Output, "logs", "sacct.txt"))
	if err != nil || strings.Count(string(text), "|ada|physics|") != 3 {
		t.Errorf("sacct said %s, %v", text, err)
	}
	// After an interruption the record has all earlier events.
	ctx, cancel := context.WithCancel(t.Context())
	spec.Overwrite = true
	if _, err = Run(ctx, spec, Hooks{Begin: func(hpc.Time) { cancel() }}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if r, err := run.Open(spec.Output); err != nil || r.Manifest.State != run.StateInterrupted {
		t.Errorf("the record of an interrupted replay: %v", err)
	}
}

// On both engines, a run first warns of a mistake in the commands for sacctmgr, and then of the rejections that
// follow from this mistake. If all jobs would be rejected, both engines refuse the run before it starts, with the
// same words.
func TestRefusedAccounts(t *testing.T) {
	const order = "add qos high preempt=long\nadd qos long\nadd cluster two qos=normal,high,long\nadd account physics\nadd user ada account=physics\n"
	const own = "sacctmgr refused a command (logs/sacctmgr.log has its whole output): "
	for name, test := range map[string]struct{ accounts, refused, warned string }{
		"all":  {order, "accounts.sacctmgr:1: QOS long: no command above declares it", ""},
		"some": {"add cluster two\nadd account physics\nadd user ada account=physics\nadd user bob account=chem\n", "", "accounts.sacctmgr:4: account chem: "},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := filepath.Join(t.TempDir(), "cluster")
			writeCluster(t, cluster, map[string]string{
				"slurm.conf":        twoNodes,
				"accounts.sacctmgr": test.accounts,
				"users":             "ada:20001:physics:20001\nbob:20002:chem:20002\n",
			})
			var refusals []string
			for engine, given := range map[string]Spec{
				"slurm": {Slurm: &Slurm{Cluster: cluster, Lead: 30 * time.Second}},
				"model": {Simulator: &Simulator{Policy: SlurmPolicy, Cluster: cluster}},
			} {
				if _, err := install.Find(); engine == "slurm" && (err != nil || testing.Short()) {
					t.Logf("SKIPPED: no replay on real Slurm: %v", err)
					continue
				}
				spec := simulation(t)
				spec.Simulator, spec.Slurm = given.Simulator, given.Slurm
				spec.Workload.Value.Jobs.Append(&hpc.Job{ID: "j4", Submit: spec.Workload.Value.Epoch.Add(time.Hour),
					Request: hpc.Request{User: "bob", Tasks: 1, TimeLimit: time.Minute}, Behaviour: hpc.Behaviour{RunTime: time.Second}})
				var notices []string
				_, err := Run(t.Context(), spec, Hooks{Notice: func(text string) { notices = append(notices, text) }})
				if test.refused != "" {
					var bad *InputError
					if !errors.As(err, &bad) || !strings.Contains(err.Error(), test.refused) || !strings.Contains(err.Error(), "reject all jobs of the workload (4 jobs)") {
						t.Errorf("%s: error %v", engine, err)
					}
					refusals = append(refusals, fmt.Sprint(err))
					continue
				}
				if err != nil || len(notices) == 0 || !strings.Contains(notices[0], test.warned) {
					t.Fatalf("%s: %v, notices %q", engine, err, notices)
				}
				r, err := run.Open(spec.Output)
				if err != nil {
					t.Fatal(err)
				}
				doubt := r.Manifest.Doubt()
				if !strings.HasPrefix(doubt, "sacctmgr refuses 1 command for the cluster's accounts; the first is: ") || !strings.Contains(doubt, test.warned) ||
					strings.Contains(doubt, own) != (engine == "slurm") {
					t.Errorf("%s: %q, want file and line, and sacctmgr's own words of Slurm", engine, doubt)
				}
				if n := r.Manifest.Jobs.Rejected; n != 1 {
					t.Errorf("%s: %d jobs rejected, want that of bob", engine, n)
				}
			}
			if len(slices.Compact(refusals)) > 1 {
				t.Errorf("the engines differ: %q", refusals)
			}
		})
	}
}

// If Slurm would reject all jobs, neither engine starts: the error has the main reason with its remedy. If only some
// jobs would be rejected, the run is made. A run without a record is made too, because
// workload validate asks about jobs that may all be rejected.
func TestFutile(t *testing.T) {
	cluster := filepath.Join(t.TempDir(), "cluster")
	writeCluster(t, cluster, map[string]string{
		"slurm.conf":        twoNodes,
		"accounts.sacctmgr": "add cluster two\nadd account physics\nadd user ada account=physics\n",
		"users":             "ada:20001:physics:20001\n",
	})
	for engine, given := range map[string]Spec{
		"slurm":                    {Slurm: &Slurm{Cluster: cluster}},
		"slurm without accounting": {Slurm: &Slurm{Cluster: cluster, WithoutAccounting: true}},
		"model":                    {Simulator: &Simulator{Policy: SlurmPolicy, Cluster: cluster}},
	} {
		if _, err := install.Find(); given.Slurm != nil && err != nil {
			t.Logf("SKIPPED: no replay on real Slurm: %v", err)
			continue
		}
		spec := simulation(t)
		spec.Simulator, spec.Slurm = given.Simulator, given.Slurm
		w := spec.Workload.Value
		for i := range w.Jobs.Len() {
			w.Jobs.Change(i, func(job *hpc.Job) { job.Partition = "gone" })
		}
		var bad *InputError
		_, err := Run(t.Context(), spec, Hooks{})
		const want = "slurmctld would reject all of 3 submissions, 3 of them because there is no partition gone (want: "
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", engine, err, want)
		}
		if _, err := os.Stat(spec.Output); err == nil {
			t.Errorf("%s: there is a record", engine)
		}
		if _, err := prepare(spec, nil); err != nil {
			t.Errorf("%s, without a record: %v", engine, err)
		}
		w.Jobs.Change(0, func(job *hpc.Job) { job.Partition = "batch" })
		if _, err := Prepare(spec); err != nil {
			t.Errorf("%s, with a job that starts: %v", engine, err)
		}
	}
}

func writeCluster(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// The type of an error says whether a value of the specification or an input is wrong. The run has
// written nothing then.
func TestErrors(t *testing.T) {
	for name, c := range map[string]struct {
		change      func(*Spec)
		field, text string // field is empty for an error of the input
	}{
		"no engine":   {func(s *Spec) { s.Simulator = nil }, "engine", "engine is missing"},
		"no workload": {func(s *Spec) { s.Workload = Workload{} }, "workload", "workload is missing"},
		"no output":   {func(s *Spec) { s.Output = "" }, "output", "output is missing"},
		"policy":      {func(s *Spec) { s.Simulator.Policy = "lifo" }, "policy", `policy "lifo": not a policy`},
		"drain limit": {func(s *Spec) { s.DrainLimit = -1 }, "drain-limit", "not above 0"},
		"performance": {func(s *Spec) { s.Performance = -2 }, "perf", "-2: not a factor"},
		"lead":        {func(s *Spec) { s.Simulator, s.Slurm = nil, &Slurm{Cluster: "c", Lead: time.Second} }, "lead", "want at least 5s"},
		"delay":       {func(s *Spec) { s.Simulator, s.Slurm = nil, &Slurm{Cluster: "c", LaunchDelay: "soon"} }, "launch-delay", `"soon": not a delay`},
		"cluster":     {func(s *Spec) { s.Simulator, s.Slurm = nil, &Slurm{Cluster: "absent"} }, "", "absent: no such file"},
		"processors":  {func(s *Spec) { s.Simulator.Processors = 1 << 40 }, "processors", "too many (want at most 2147483647)"},
		"factor":      {func(s *Spec) { s.Simulator.NodeFactor = 1e30 }, "nodes", "2 processors would become 2e+30"},
		"many nodes":  {func(s *Spec) { s.Simulator.Nodes, s.Simulator.Processors = 1<<30, 1<<30 }, "nodes", "too many (want at most"},
		"path":        {func(s *Spec) { s.Workload = Workload{Path: "absent.swf"} }, "", "absent.swf: no such file"},
		"users":       {func(s *Spec) { s.Users.Model = replay.ThinkTime }, "", "no job of the workload has a recorded end"},
		"job": {func(s *Spec) {
			s.Workload.Value.Jobs.Append(&hpc.Job{ID: "j1", Submit: s.Workload.Value.Epoch, Request: hpc.Request{User: "ada", Tasks: 1}})
		}, "", "checking three jobs: "},
	} {
		t.Run(name, func(t *testing.T) {
			spec := simulation(t)
			output := spec.Output
			c.change(&spec)
			_, err := Run(t.Context(), spec, Hooks{})
			var field *FieldError
			var input *InputError
			if err == nil || !strings.Contains(err.Error(), c.text) {
				t.Fatalf("%v, want %s", err, c.text)
			}
			if errors.As(err, &field) != (c.field != "") || errors.As(err, &input) != (c.field == "") || field != nil && field.Field != c.field {
				t.Errorf("%T %v, want field %q", err, err, c.field)
			}
			if _, err := os.Stat(output); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("there is a record: %v", err)
			}
		})
	}
}

// A job that can never start makes the result of a run invalid.
func TestValid(t *testing.T) {
	spec := simulation(t)
	spec.Workload.Value.Jobs.Append(&hpc.Job{ID: "held", Submit: spec.Workload.Value.Epoch, Request: hpc.Request{User: "ada", Tasks: 1, Hold: true}})
	s, err := Run(t.Context(), spec, Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	var invalid *InvalidError
	if err := Valid(s); !errors.As(err, &invalid) || !strings.Contains(err.Error(), "the run is not valid: 1 job had not ended") {
		t.Errorf("%v", err)
	}
}

// An event that the simulator refuses makes the result of a run invalid.
func TestRefusedEvent(t *testing.T) {
	spec := simulation(t)
	spec.Simulator.Nodes = 2
	w := spec.Workload.Value
	w.NodeEvents = []hpc.NodeEvent{{At: w.Epoch.Add(time.Second), Nodes: "n7", State: "down"}}
	s, err := Run(t.Context(), spec, Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	var invalid *InvalidError
	if err := Valid(s); !errors.As(err, &invalid) ||
		!strings.Contains(err.Error(), "1 event of nodes or reservations was refused: ") ||
		!strings.Contains(err.Error(), "there is no node n7") {
		t.Errorf("%v", err)
	}
}

// A set has a run for each seed. The runs are the same for any number of parallel runs.
func TestRunSet(t *testing.T) {
	var waits [2][]float64
	for i, parallel := range []int{1, 3} {
		spec := simulation(t)
		spec.Users.Jitter = 20 * time.Second
		var ended atomic.Int32
		list, err := RunSet(t.Context(), spec, Set{Count: 3, Parallel: parallel}, SetHooks{Ended: func(Realization) { ended.Add(1) }})
		if err != nil || ended.Load() != 3 {
			t.Fatalf("%d ended, %v", ended.Load(), err)
		}
		for k, r := range list {
			if r.Number != k+1 || r.Seed != uint64(k+1) || r.Summary.Seed != r.Seed {
				t.Errorf("realization %d is %+v", k+1, r)
			}
			waits[i] = append(waits[i], float64(r.Summary.Wait.Mean))
		}
		set, err := run.OpenSet(spec.Output)
		if err != nil || len(set.Runs) != 3 {
			t.Errorf("the set: %v", err)
		}
		if _, err := RunSet(t.Context(), spec, Set{Count: 1}, SetHooks{}); !errors.Is(err, run.ErrNotEmpty) {
			t.Errorf("the same directory again: %v", err)
		}
		spec.Overwrite = true
		if _, err := RunSet(t.Context(), spec, Set{Count: 1}, SetHooks{}); err != nil {
			t.Errorf("overwritten: %v", err)
		}
		if set, err := run.OpenSet(spec.Output); err != nil || len(set.Runs) != 1 {
			t.Errorf("the overwritten set: %v", err)
		}
	}
	if diff := cmp.Diff(waits[0], waits[1]); diff != "" || waits[0][0] == waits[0][1] {
		t.Errorf("one at a time (-) and three (+): %v\n%s", waits, diff)
	}
	var field *FieldError
	if _, err := RunSet(t.Context(), simulation(t), Set{}, SetHooks{}); !errors.As(err, &field) {
		t.Errorf("a set of none: %v", err)
	}
}
