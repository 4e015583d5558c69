package transform

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

func TestLongestLimit(t *testing.T) {
	in := small()
	in.Jobs.Change(4, func(j *hpc.Job) { j.TimeLimit = 0 })
	w, results := apply(t, in, Environment{}, must(LongestLimit("*", 2*time.Hour)))
	for id, want := range map[string]time.Duration{
		"p": 24 * time.Hour, // preset
		"a": 2 * time.Hour, "b": 2 * time.Hour, "c": 2 * time.Hour, "d": 0,
	} {
		if j := byID(w, id); j.TimeLimit != want {
			t.Errorf("%s: time limit %v, want %v", id, j.TimeLimit, want)
		}
	}
	want := []string{"jobs without a time limit keep the limit of their partition: 1",
		"jobs that run when the window begins keep longer limits: 1"}
	if results[0].Changed != 2 || !slices.Equal(results[0].Notes, want) {
		t.Errorf("%d changed, want 2; notes %q, want %q", results[0].Changed, results[0].Notes, want)
	}
	for _, bad := range []time.Duration{0, -1, hpc.Unlimited} {
		if _, err := LongestLimit("*", bad); err == nil {
			t.Errorf("%v was accepted", bad)
		}
	}
}

// TestLongestLimitOfPartition: a job without a limit gets one only if its partition's is longer.
func TestLongestLimitOfPartition(t *testing.T) {
	env := Environment{Partitions: map[string]Partition{
		"":      {MaxTime: 24 * time.Hour, DefaultTime: time.Hour},
		"short": {MaxTime: time.Hour, DefaultTime: time.Hour},
		"long":  {MaxTime: hpc.Unlimited, DefaultTime: hpc.Unlimited},
	}}
	for partition, want := range map[string]time.Duration{"": 0, "short": 0, "long": 2 * time.Hour, "short,long": 2 * time.Hour,
		"long,short": 2 * time.Hour, "unknown": 0} {
		in := small()
		in.Jobs.Change(4, func(j *hpc.Job) { j.TimeLimit, j.Partition = 0, partition })
		w, results := apply(t, in, env, must(LongestLimit("*", 2*time.Hour)))
		if got := byID(w, "d").TimeLimit; got != want || (len(results[0].Notes) == 2) != (partition == "unknown") {
			t.Errorf("%q: time limit %v, want %v; notes %q", partition, got, want, results[0].Notes)
		}
	}
}

// TestLongestLimitInPartition lowers limits in one partition only.
func TestLongestLimitInPartition(t *testing.T) {
	in := small()
	for i, partition := range []string{"batch", "batch", "gpu", "batch,gpu", ""} {
		in.Jobs.Change(i, func(j *hpc.Job) { j.TimeLimit, j.Partition = 24*time.Hour, partition })
	}
	w, results := apply(t, in, Environment{}, must(LongestLimit("batch", 2*time.Hour)))
	for i, want := range []time.Duration{24 * time.Hour /* preset */, 2 * time.Hour, 24 * time.Hour, 24 * time.Hour, 24 * time.Hour} {
		if job := w.Jobs.At(i); job.TimeLimit != want {
			t.Errorf("%s in %q: time limit %v, want %v", job.ID, job.Partition, job.TimeLimit, want)
		}
	}
	want := []string{"jobs that run when the window begins keep longer limits: 1", "jobs that may run in another partition keep longer limits: 1"}
	if r := results[0]; r.Changed != 1 || !slices.Equal(r.Notes, want) || r.Step != "--max-time-limit batch=2h" {
		t.Errorf("%q: %d changed, notes %q, want %q", r.Step, r.Changed, r.Notes, want)
	}
	_, results = apply(t, in, Environment{Partitions: map[string]Partition{"large": {}}}, must(LongestLimit("large", 2*time.Hour)))
	if want := []string{"no job is in partition large"}; !slices.Equal(results[0].Notes, want) {
		t.Errorf("notes %q, want %q", results[0].Notes, want)
	}
}

func TestChains(t *testing.T) {
	in := small()
	in.Jobs.Append(job("long", 40, 2, 30*time.Hour, 48*time.Hour))
	in.Jobs.Append(job("late", 41, 2, time.Minute, time.Hour))
	in.Jobs.Append(job("array", 42, 2, 20*time.Hour, 48*time.Hour))
	in.Jobs.Append(job("ended", 5, 2, hpc.Unlimited, 15*time.Hour))
	for i, j := range in.Jobs.All() {
		switch j.ID {
		case "p":
			j.RunTime = 20 * time.Hour
		case "long":
			j.Dependency, j.ExitCode = "afterany:a", 3
		case "late":
			j.Dependency = "afterany:long,after:ended,afternotok:ended"
		case "array":
			j.Array = "1-3"
		}
		in.Jobs.Set(i, j)
	}
	w, results := apply(t, in, Environment{}, must(Chains(12*time.Hour, time.Minute)))
	for id, want := range map[string]string{
		"long":    "11h59m0s of 12h0m0s, 0, afterany:a",
		"long~2":  "11h59m0s of 12h0m0s, 0, afterok:long",
		"long~3":  "6h4m0s of 12h0m0s, 3, afterok:long~2",
		"late":    "1m0s of 1h0m0s, 0, afterany:long~3,after:ended,afternotok:ended~2",
		"array":   "20h0m0s of 48h0m0s, 0, ",
		"ended":   "11h59m0s of 12h0m0s, 0, ",
		"ended~2": fmt.Sprintf("%v of 3h2m0s, 0, afterok:ended", hpc.Unlimited),
		"p":       "20h0m0s of 24h0m0s, 0, ",
	} {
		j := byID(w, id)
		if j == nil {
			t.Errorf("no job %s", id)
			continue
		}
		if got := fmt.Sprintf("%v of %v, %d, %s", j.RunTime, j.TimeLimit, j.ExitCode, j.Dependency); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
	if results[0].Effect() != "3 jobs added, 3 changed" || len(results[0].Notes) != 3 || !strings.Contains(results[0].Notes[0], "later part waits") || w.Jobs.Len() != in.Jobs.Len()+3 {
		t.Errorf("%+v, %d jobs of %d", results[0], w.Jobs.Len(), in.Jobs.Len())
	}
	if problems := workload.Validate(w, workload.Cluster{}); len(problems) > 0 {
		t.Error(problems)
	}
	for _, bad := range [][2]time.Duration{{0, time.Minute}, {time.Hour, 0}, {time.Hour, -1}, {time.Hour, 30 * time.Minute}, {hpc.Unlimited, 1}} {
		if _, err := Chains(bad[0], bad[1]); err == nil {
			t.Errorf("%v was accepted", bad)
		}
	}
}

// A chain computes as long as its job did. Each part runs for more than 0 seconds, and ends by
// itself before its limit.
func TestChainComputesTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		longest := time.Duration(rapid.IntRange(3, 100_000).Draw(t, "longest")) * time.Second
		checkpoint := time.Duration(rapid.IntRange(1, int(longest/time.Second-1)/2).Draw(t, "checkpoint")) * time.Second
		run := time.Duration(rapid.IntRange(1, 1_000_000).Draw(t, "run")) * time.Second
		step, err := Chains(longest, checkpoint)
		if err != nil || (run-1)/(longest-2*checkpoint) > 1000 {
			t.Skip(err)
		}
		in := &workload.Workload{Epoch: epoch, Jobs: workload.JobsOf(job("j", 0, 1, run, run+time.Second))}
		w, _, err := Apply(in, Environment{}, step)
		if err != nil {
			t.Fatal(err)
		}
		computed, n := time.Duration(0), w.Jobs.Len()
		for i, j := range w.Jobs.All() {
			if n > 1 && j.RunTime >= j.TimeLimit || j.RunTime <= 0 {
				t.Fatalf("part %d of %d runs for %v of %v", i+1, n, j.RunTime, j.TimeLimit)
			}
			computed += j.RunTime
		}
		computed -= time.Duration(n-1) * checkpoint // what the later parts read
		if computed != run {
			t.Fatalf("%d parts compute for %v, want %v", n, computed, run)
		}
	})
}
