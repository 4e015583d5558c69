package experiment

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"rmreplay/internal/formats"
	"rmreplay/internal/hpc"
	"rmreplay/internal/realdata"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/complete"
)

// TestDrawOf: two realizations have the same draw of at most one field, and each field has a pair
// for each realization of the first half. If the realizations are few, all their draws differ.
func TestDrawOf(t *testing.T) {
	const fields = 8
	for _, n := range []int{1, 2, 7, 16, 17, 40} {
		set := Set{Count: n}
		pairs := make([]int, fields)
		for i := 1; i <= n; i++ {
			for k := 1; k < i; k++ {
				common := 0
				for f := range fields {
					if set.drawOf(f, fields, i, 5) == set.drawOf(f, fields, k, 5) {
						common++
						pairs[f]++
					}
				}
				if common > 1 {
					t.Errorf("%d realizations: %d and %d share %d draws", n, i, k, common)
				}
			}
		}
		for f, got := range pairs {
			if want := n / 2; got != want && (n >= 2*fields || got != 0) {
				t.Errorf("%d realizations: field %d has %d pairs, want %d", n, f, got, want)
			}
		}
		if set.drawOf(3, fields, 1, 5) != 5 && n > 1 {
			t.Errorf("%d realizations: the first one does not have the seed's own draw", n)
		}
	}
}

// asRecorded returns a workload whose jobs run for as long as on record, with their limits or without
// limits. Some logs have jobs that ran longer than their limits: a simulation would end these jobs at the
// limits and so change the load.
func asRecorded(w *workload.Workload, limits bool) *workload.Workload {
	out := *w
	out.Jobs = workload.Jobs{}
	for _, job := range w.Jobs.All() {
		if job.RunTime == hpc.Unlimited && job.Recorded != nil {
			job.RunTime = job.Recorded.End.Sub(job.Recorded.Start)
		}
		job.TimeLimit = max(job.TimeLimit, job.RunTime)
		if !limits {
			job.TimeLimit = 0
		}
		out.Jobs.Append(job)
	}
	return &out
}

// TestCompletionIsHonest hides the time limits of logs that have them. The mean wait with the true limits lies
// between the least and the largest of forty draws, where 95 of 100 further draws would also lie. The records
// of a cluster with its configuration run on the model of Slurm, and logs in SWF with EASY.
func TestCompletionIsHonest(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates months of jobs a hundred times")
	}
	for _, log := range [][]string{
		{"slurm", "micro", "jobs500org.real-slurm.sacct.txt"}, {"swf", "KTH-SP2-1996-2.1-cln.swf.gz"}, {"swf", "SDSC-SP2-1998-4.2-cln.swf.gz"},
	} {
		t.Run(log[1], func(t *testing.T) {
			w, err := formats.OpenWith(realdata.Path(t, log...), workload.ReadOptions{Lean: true})
			if err != nil {
				t.Fatal(err)
			}
			w.Jobs = w.Jobs.First(10_000) // a year of jobs would take minutes
			spec := Spec{Simulator: &Simulator{Policy: "easy"}, Seed: 1}
			if log[0] == "slurm" {
				spec.Simulator.Cluster, spec.Simulator.Policy = realdata.Path(t, "slurm", "micro"), "slurm"
			}
			mean := func(w *workload.Workload, count int) (list []float64) {
				spec.Workload.Value, spec.Output = w, filepath.Join(t.TempDir(), "set")
				set, err := RunSet(context.Background(), spec, Set{Count: count}, SetHooks{})
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range set {
					if !r.Summary.Valid || r.Summary.Rejected > 0 {
						t.Errorf("realization %d: valid %v, %d rejected", r.Number, r.Summary.Valid, r.Summary.Rejected)
					}
					list = append(list, float64(r.Summary.Wait.Mean))
				}
				return list
			}
			truth := 0.0 // over eight seeds: slurmctld's cycles begin at another second in each
			for _, one := range mean(asRecorded(w, true), 8) {
				truth += one / 8
			}
			completed, err := complete.Complete(asRecorded(w, false), complete.Options{Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			draws := mean(completed, 40)
			low, high := slices.Min(draws), slices.Max(draws)
			t.Logf("mean wait %.0f s with the true limits, %.0f to %.0f s in 40 draws", truth, low, high)
			if truth < low || truth > high || high > 3.5*low || low == high {
				t.Errorf("mean wait %.0f s with the true limits, %.0f to %.0f s in 40 draws", truth, low, high)
			}
		})
	}
}

// TestSetDraws: the realizations of a set use different draws, their records name these draws, and a
// record is a workload whose fields can be drawn again.
func TestSetDraws(t *testing.T) {
	w := &workload.Workload{Source: "test", Epoch: hpc.Unix(1_700_000_000), MachineProcessors: 16}
	for i := range 60 {
		at := w.Epoch.Add(time.Duration(i*i%97) * 7 * time.Minute)
		run := time.Duration(10+i*37%200) * time.Minute
		w.Jobs.Append(&hpc.Job{
			ID: fmt.Sprint(i), Submit: at, Request: hpc.Request{Tasks: 1 + i%12}, Behaviour: hpc.Behaviour{RunTime: run},
			Recorded: &hpc.Recorded{Start: at, End: at.Add(run), State: hpc.Completed},
		})
	}
	w.Sort()
	completed, err := complete.Complete(w, complete.Options{Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	spec := Spec{Workload: Workload{Value: completed}, Simulator: &Simulator{Policy: "easy"}, Seed: 3, Output: filepath.Join(t.TempDir(), "set")}
	set, err := RunSet(context.Background(), spec, Set{Count: 8, Parallel: 3}, SetHooks{})
	if err != nil {
		t.Fatal(err)
	}
	limits := map[string]bool{}
	for _, r := range set {
		again, err := formats.Open(r.Dir)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, job := range again.Jobs.All() {
			if workload.MadeFields(job)["time_limit"] != "published" {
				t.Fatalf("job %s of %s: made %q", job.ID, r.Dir, job.Made)
			}
			text += job.TimeLimit.String() + " "
		}
		limits[text] = true
		record, err := run.Open(r.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if made := record.Manifest.Made; len(made) != 3 || made[0].Field != workload.FieldUser || made[0].Draw < 3 {
			t.Errorf("%s: made %+v", r.Dir, made)
		}
		if spec, err := RerunSpec(record); err != nil || spec.Workload.Value == nil || spec.Workload.Value.Jobs.At(7).TimeLimit != again.Jobs.At(7).TimeLimit {
			t.Errorf("%s: made again, it has another draw: %v", r.Dir, err)
		}
		if r.Number == 1 && !slices.EqualFunc(again.Jobs.List(), completed.Jobs.List(), func(a, b *hpc.Job) bool { return a.TimeLimit == b.TimeLimit && a.User == b.User }) {
			t.Error("the first realization does not have the workload's own draw")
		}
	}
	if len(limits) != 4 {
		t.Errorf("%d different draws of limits in 8 realizations, want 4, each twice", len(limits))
	}
}
