package sim_test

import (
	"context"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/sim/policy"
)

const mib = 1 << 20

// ioJob returns a job of one processor that writes for a time, at a rate in bytes per second.
func ioJob(id string, run time.Duration, rate int64, limit time.Duration) *hpc.Job {
	j := &hpc.Job{ID: id, Submit: 1}
	j.RunTime, j.TimeLimit = run, limit
	j.IO = []hpc.Phase{{FileSystem: "lustre", Rate: rate}}
	return j
}

// ends plays jobs that are submitted at second 100. It returns their ends and final states.
func ends(t *testing.T, cfg sim.Config, commands []rm.Command, jobs ...*hpc.Job) (map[string]float64, map[string]hpc.State) {
	t.Helper()
	if cfg.Policy == nil {
		cfg.Policy = policy.FCFS
	}
	cfg.FileSystems = []hpc.FileSystem{{Name: "lustre", Bandwidth: 100 * mib}}
	cfg.Epoch = hpc.Unix(100)
	engine, err := sim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		if err := engine.Submit(j); err != nil {
			t.Fatal(err)
		}
	}
	at, states := map[string]float64{}, map[string]hpc.State{}
	collect := func(until hpc.Time) {
		for {
			events, err := engine.AdvanceTo(context.Background(), until)
			if err != nil {
				t.Fatal(err)
			}
			for _, ev := range events {
				switch ev.Kind {
				case rm.Ended:
					at[ev.Job], states[ev.Job] = ev.At.Sub(cfg.Epoch).Seconds(), ev.Outcome.State
				case rm.Refused:
					t.Errorf("%s: %s", ev.Job, ev.Reason)
				}
			}
			if len(events) == 0 {
				return
			}
		}
	}
	for _, c := range commands {
		collect(hpc.Unix(105))
		if err := engine.Do(c); err != nil {
			t.Fatal(err)
		}
	}
	collect(hpc.Never)
	return at, states
}

func TestJobsShareAFileSystem(t *testing.T) {
	for _, ties := range []sim.Ties{sim.EndsFirst, sim.ArrivalsFirst} {
		for name, cfg := range map[string]sim.Config{
			"pool":  {Processors: 3},
			"nodes": {Cluster: &sim.Cluster{Nodes: []hpc.Node{{Name: "a", CPUs: 1}, {Name: "b", CPUs: 1}, {Name: "c", CPUs: 1}}}},
		} {
			cfg.Ties = ties
			compute := &hpc.Job{ID: "compute", Submit: 1, Behaviour: hpc.Behaviour{RunTime: 7 * time.Second}}
			at, states := ends(t, cfg, nil, ioJob("long", 10*time.Second, 100*mib, time.Minute), ioJob("short", 5*time.Second, 100*mib, 10*time.Second), compute)
			if at["long"] != 15 || at["short"] != 10 || at["compute"] != 7 {
				t.Errorf("%s, %s: ends %v, want 15, 10 and 7 s", name, ties, at)
			}
			if states["short"] != hpc.Completed { // it ends exactly at its limit
				t.Errorf("%s, %s: states %v", name, ties, states)
			}
		}
	}
}

// TestLimitEndsASlowedJob checks that the time limit ends a job that other jobs slow down, and that
// the other jobs are then faster.
func TestLimitEndsASlowedJob(t *testing.T) {
	at, states := ends(t, sim.Config{Processors: 2}, nil, ioJob("long", 10*time.Second, 100*mib, time.Minute), ioJob("cut", 10*time.Second, 100*mib, 8*time.Second))
	if states["cut"] != hpc.TimedOut || at["cut"] != 8 || at["long"] != 14 || states["long"] != hpc.Completed {
		t.Errorf("ends %v, states %v; want a timeout at 8 s and the other job at 14 s", at, states)
	}
}

func TestCommandsToAJobWithIO(t *testing.T) {
	cancel := rm.Command{Kind: rm.Cancel, Job: "b"}
	at, states := ends(t, sim.Config{Processors: 2}, []rm.Command{cancel}, ioJob("a", 10*time.Second, 100*mib, time.Hour), ioJob("b", 10*time.Second, 100*mib, time.Hour))
	if at["a"] != 12.5 || states["b"] != hpc.Cancelled {
		t.Errorf("ends %v, states %v; want b cancelled at 5 s and a's end at 12.5 s", at, states)
	}
	at, _ = ends(t, sim.Config{Processors: 2}, []rm.Command{{Kind: rm.Stretch, Job: "a", Factor: 2}}, ioJob("a", 10*time.Second, 100*mib, time.Hour))
	if at["a"] != 10 {
		t.Errorf("a command changes the run time of a job with I/O: it ends at %v s", at["a"])
	}
	at, states = ends(t, sim.Config{Processors: 2}, []rm.Command{{Kind: rm.SetTimeLimit, Job: "a", TimeLimit: 7 * time.Second}}, ioJob("a", 10*time.Second, 100*mib, time.Hour))
	if at["a"] != 7 || states["a"] != hpc.TimedOut {
		t.Errorf("ends %v, %v; want a timeout at 7 s", at, states)
	}
}

// TestAloneNothingChanges: file systems do not change the end of a job without I/O, or of a job
// with I/O that runs alone.
func TestAloneNothingChanges(t *testing.T) {
	job := ioJob("a", 10*time.Second, 100*mib, time.Hour)
	at, _ := ends(t, sim.Config{Processors: 1}, nil, job, ioJob("b", 10*time.Second, 100*mib, time.Hour))
	if at["a"] != 10 || at["b"] != 20 {
		t.Errorf("ends %v, want 10 and 20 s", at)
	}
}
