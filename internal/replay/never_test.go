package replay_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/sim/policy"
	"rmreplay/internal/workload"
)

// TestNeverStart checks that jobs cannot start if they wait for a job that can never start, unless
// another dependency is enough for them.
func TestNeverStart(t *testing.T) {
	w := &workload.Workload{}
	for _, j := range []struct{ id, name, dependency string }{
		{"held", "", ""}, {"never", "n", "afterok:over"}, {"chain", "", "afterany:never"}, {"chain2", "", "after:chain,afterok:over"},
		{"either", "", "afterany:never?afterany:held"}, {"task", "", "afterok:never_3"}, {"single", "n", "singleton"},
		{"unnamed", "", "singleton"}, {"behind", "", "afterok:held"},
	} {
		job := &hpc.Job{ID: j.id}
		job.User, job.Name, job.Dependency = "ann", j.name, j.dependency
		w.Jobs.Append(job)
	}
	pending := strings.Fields("held never chain chain2 either task single unnamed behind")
	got := strings.Join(replay.NeverStart(w, pending, []string{"never"}), " ")
	if want := "never chain chain2 task single"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := replay.NeverStart(w, pending, nil); len(got) > 0 {
		t.Errorf("%v without a cause", got)
	}
}

// TestNeverCancelled checks that the replay ends although a cancellation is at an instant beyond
// the last.
func TestNeverCancelled(t *testing.T) {
	e, err := sim.New(sim.Config{Processors: 1, Policy: policy.EASY, Epoch: workload.DefaultEpoch})
	if err != nil {
		t.Fatal(err)
	}
	w := &workload.Workload{Epoch: workload.DefaultEpoch}
	j := &hpc.Job{ID: "a", Submit: w.Epoch}
	j.User, j.Tasks, j.RunTime, j.TimeLimit, j.CancelAfter = "ann", 1, time.Second, time.Hour, hpc.Unlimited
	w.Jobs.Append(j)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	result, err := replay.Rigid(ctx, e, w, &timeline{epoch: w.Epoch}, replay.Options{})
	if err != nil || result.Ended != 1 || result.Inputs != result.InputsDone {
		t.Errorf("%+v, %v", result, err)
	}
}

// TestNeverEnds checks that the replay gives up a job that would end after the last instant.
func TestNeverEnds(t *testing.T) {
	begin := hpc.Never - hpc.Second
	e, err := sim.New(sim.Config{Processors: 1, Policy: policy.EASY, Epoch: begin})
	if err != nil {
		t.Fatal(err)
	}
	w := &workload.Workload{Epoch: begin}
	j := &hpc.Job{ID: "a", Submit: begin}
	j.User, j.Tasks, j.RunTime, j.TimeLimit = "ann", 1, time.Minute, time.Hour
	w.Jobs.Append(j)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	result, err := replay.Rigid(ctx, e, w, &timeline{epoch: begin}, replay.Options{})
	if err != nil || len(result.Undrained) != 1 {
		t.Errorf("%+v, %v", result, err)
	}
}
