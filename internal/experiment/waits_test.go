package experiment

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/sim/policy"
	"rmreplay/internal/rm/sim/simtest"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
	"rmreplay/internal/waits/waitstest"
)

// In any run, the parts of each wait add up to the wait, and metrics, jobs, explain (of a job, of all
// jobs, and of groups) and compare have the same waits and parts. Every second run also has reasons at
// random instants, like a replay on Slurm.
func TestOneDecompositionOfWaits(t *testing.T) {
	names, parts := policy.Names(), map[waits.Part]bool{}
	for seed, runs := uint64(0), 0; runs < 200; seed++ {
		k := simtest.Random(simtest.Seeded(seed))
		if k.Hostile { // a record cannot hold some of its times
			continue
		}
		runs++
		dir := filepath.Join(t.TempDir(), "run")
		recordCase(t, dir, k, names[seed%uint64(len(names))], seed%2 == 1)
		for part := range waitstest.Check(t, dir) {
			parts[part] = true
		}
		if t.Failed() {
			t.Fatalf("case %d", seed)
		}
	}
	for _, part := range waits.Parts { // the simulator's records explain all waits
		if !parts[part] && part != waits.Unknown {
			t.Errorf("no run has a wait with the part %s", part)
		}
	}
}

// recordCase simulates a case and writes the record of its run.
func recordCase(t *testing.T, dir string, k *simtest.Case, name string, reasons bool) {
	t.Helper()
	var err error
	if k.Config.Policy, err = policy.New(name); err != nil {
		t.Fatal(err)
	}
	engine, err := sim.New(k.Config)
	if err != nil {
		t.Fatal(err)
	}
	manifest := run.Manifest{Engine: "sim", VirtualStart: simtest.Epoch}
	if reasons {
		manifest.Engine = "slurm"
	}
	w, err := run.Create(dir, manifest, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, job := range k.Jobs {
		if err := w.Job(job); err != nil {
			t.Fatal(err)
		}
	}
	random := rand.New(rand.NewPCG(uint64(len(k.Inputs)), 1))
	advance := func(to hpc.Time) {
		for {
			events, err := engine.AdvanceTo(t.Context(), to)
			if err != nil {
				t.Fatal(err)
			}
			if len(events) == 0 {
				return
			}
			for _, e := range events {
				if err := w.Event(e); err != nil {
					t.Fatal(err)
				}
			}
			if job := k.Jobs[random.IntN(len(k.Jobs))]; reasons && job.Submit <= engine.Now() {
				reason := someReasons[random.IntN(len(someReasons))]
				if err := w.Event(rm.Event{At: engine.Now(), Kind: rm.Waiting, Job: job.ID, Task: -1, Reason: reason}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, in := range k.Inputs {
		advance(min(in.At, simtest.End))
		if err := in.Apply(engine); err != nil {
			t.Fatal(err)
		}
	}
	advance(simtest.End)
	if err := w.Finish(run.StateComplete, func(m *run.Manifest) { m.VirtualEnd = engine.Now() }); err != nil {
		t.Fatal(err)
	}
}

var someReasons = []string{
	"Resources", "Priority", "Dependency", "BeginTime", "JobHeldUser", "JobArrayTaskLimit", "QOSGrpCpuLimit", "QOSMaxJobsPerUserLimit",
	"ReqNodeNotAvail: Reserved for maintenance", "ReqNodeNotAvail: UnavailableNodes:n1", "Cleaning",
}
