package forecast_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"rmreplay/internal/experiment"
	"rmreplay/internal/forecast"
	"rmreplay/internal/hpc"
	"rmreplay/internal/supervise"
	"rmreplay/internal/workload"
)

func TestMain(m *testing.M) {
	supervise.RunIfGuard() // this binary may run as the guard of a replay's daemons
	os.Exit(m.Run())
}

// replay makes a run of a workload on four nodes under Slurm.
func replay(t *testing.T, w *workload.Workload) *forecast.Course {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED by -short: forecasts on Slurm")
	}
	if _, err := exec.LookPath("slurmctld"); err != nil {
		t.Skipf("SKIPPED: no forecast on Slurm: %v", err)
	}
	cluster := t.TempDir()
	if err := os.WriteFile(filepath.Join(cluster, "slurm.conf"), []byte(`ClusterName=vale
SlurmctldHost=head
SelectType=select/cons_tres
SchedulerType=sched/backfill
NodeName=n[1-4] CPUs=4 RealMemory=4000
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE OverSubscribe=EXCLUSIVE
`), 0o600); err != nil {
		t.Fatal(err)
	}
	return course(t, w, experiment.Spec{Slurm: &experiment.Slurm{Cluster: cluster}})
}

// request asks for nodes on the cluster of [replay].
func request(nodes int, limit time.Duration) hpc.Request {
	return hpc.Request{User: "ann", Account: "a", MinNodes: nodes, MaxNodes: nodes, TimeLimit: limit}
}

// TestDrainingOnSlurm freezes a replay on Slurm while a job runs on a node that is being drained. In the window the
// job starts on this node before the node begins to drain.
func TestDrainingOnSlurm(t *testing.T) {
	w := &workload.Workload{Epoch: epoch, Source: "a node is drained"}
	add := func(id string, submit, nodes, runs int) {
		w.Jobs.Append(&hpc.Job{
			ID: id, Submit: at(submit), Request: request(nodes, 2*time.Hour),
			Behaviour: hpc.Behaviour{RunTime: time.Duration(runs) * time.Second},
		})
	}
	add("runs", 60, 2, 3000)
	add("waits", 900, 3, 100)
	w.NodeEvents = []hpc.NodeEvent{{At: at(600), Nodes: "n1", State: "drain", Reason: "a disk"}}
	c := replay(t, w)
	engine, err := forecast.EngineOf(c, experiment.Spec{}, false)
	if err != nil {
		t.Fatal(err)
	}
	e, err := forecast.Evaluate(t.Context(), c, forecast.EvaluateOptions{Options: forecast.Options{
		Engine: engine, Realizations: 1, Seed: 1, Dir: t.TempDir(), RunTimes: forecast.True, Arrivals: forecast.Recorded,
	}, At: []hpc.Time{at(1500)}})
	if err != nil {
		t.Fatal(err)
	}
	if e.Jobs != 1 || e.Exact != 1 || len(e.Notes) > 0 {
		t.Errorf("%q\n%s", e.Notes, e.Render())
	}
}

// TestAsked freezes a replay that recorded Slurm's own estimates. The model of Slurm, which does not answer
// commands, plays the replay from its beginning, with the recorded later submissions.
func TestAsked(t *testing.T) {
	w := &workload.Workload{Epoch: epoch, Source: "estimates"}
	for i, id := range []string{"runs", "waits", "later"} {
		w.Jobs.Append(&hpc.Job{ID: id, Submit: at(60 + 900*i), Request: request(3, time.Hour), Behaviour: hpc.Behaviour{RunTime: 40 * time.Minute}})
	}
	for _, asked := range []int{1500, 2000} {
		for _, run := range [][]string{forecast.EstimateCommand, {"sdiag"}} {
			w.Actions = append(w.Actions, hpc.Action{At: at(asked), Run: run})
		}
	}
	c := replay(t, w)
	if got := c.Asked(); len(got) != 2 || got[0] != at(1500) {
		t.Fatalf("asked at %v", got)
	}
	engine, err := forecast.EngineOf(c, experiment.Spec{}, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, fromStart := range []bool{false, true} {
		e, err := forecast.Evaluate(t.Context(), c, forecast.EvaluateOptions{Options: forecast.Options{
			Engine: forecast.OnModel(c, engine, ""), Realizations: 1, Seed: 1, Dir: t.TempDir(), RunTimes: forecast.True, Arrivals: forecast.Recorded,
		}, At: c.Asked(), FromStart: fromStart})
		if err != nil {
			t.Fatal(err)
		}
		if e.Jobs != 3 || e.MaxError > 60 || e.Slurm.Jobs != 3 || e.Slurm.MedianError < 600 {
			t.Errorf("from the start %t: %s", fromStart, e.Render())
		}
	}
}

// TestLimitsOnSlurm checks that jobs which run until their time limits succeed on Slurm, so that the jobs that
// depend on them start.
func TestLimitsOnSlurm(t *testing.T) {
	w := &workload.Workload{Epoch: epoch, Source: "chains"}
	for i := range 12 {
		first := &hpc.Job{ID: fmt.Sprint("first", i), Submit: at(60 + i), Request: request(1, 10*time.Minute), Behaviour: hpc.Behaviour{RunTime: 5 * time.Minute}}
		then := &hpc.Job{ID: fmt.Sprint("then", i), Submit: at(100 + i), Request: request(1, time.Minute), Behaviour: hpc.Behaviour{RunTime: time.Second}}
		then.Dependency = "afterok:" + first.ID
		w.Jobs.Append(first)
		w.Jobs.Append(then)
	}
	c := replay(t, w)
	q, err := c.Freeze(at(150))
	if err != nil {
		t.Fatal(err)
	}
	engine, err := forecast.EngineOf(c, experiment.Spec{}, false)
	if err != nil {
		t.Fatal(err)
	}
	starts, doubts, err := forecast.Make(t.Context(), q, forecast.Options{
		Engine: engine, Realizations: 1, Seed: 1, Dir: t.TempDir(), RunTimes: forecast.FromLimits, Arrivals: forecast.NoArrivals,
	})
	if err != nil || len(doubts) > 0 {
		t.Fatalf("%v, %q", err, doubts)
	}
	if len(starts) < 16 {
		t.Errorf("%d jobs wait", len(starts))
	}
	for job, start := range starts {
		if start[0] == hpc.Never {
			t.Errorf("%v does not start", job)
		}
	}
}
