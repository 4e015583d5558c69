package policy

import (
	"context"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/ioaware"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/sim"
)

const mib = 1 << 20

// playIO plays jobs that are submitted at once on a pool of eight nodes with a file system of 200
// MiB/s and 10000 licenses. It returns the starts and ends in seconds.
func playIO(t *testing.T, spec string, jobs ...*hpc.Job) (starts, ends map[string]float64) {
	t.Helper()
	made, err := New(spec)
	if err != nil {
		t.Fatal(err)
	}
	epoch := hpc.Unix(6000)
	engine, err := sim.New(sim.Config{Processors: 8, Policy: made, Epoch: epoch, FileSystems: []hpc.FileSystem{{Name: "lustre", Bandwidth: 200 * mib}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		if err := engine.Submit(j); err != nil {
			t.Fatal(err)
		}
	}
	starts, ends = map[string]float64{}, map[string]float64{}
	for {
		events, err := engine.AdvanceTo(context.Background(), hpc.Never)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range events {
			switch at := ev.At.Sub(epoch).Seconds(); ev.Kind {
			case rm.Started:
				starts[ev.Job] = at
			case rm.Ended:
				ends[ev.Job] = at
			}
		}
		if len(events) == 0 {
			return starts, ends
		}
	}
}

// writer writes at 150 MiB/s for 100 s, on one node.
func writer(id, licenses string) *hpc.Job {
	j := &hpc.Job{ID: id, Submit: 1}
	j.Name, j.Licenses, j.TimeLimit, j.RunTime = "writer", licenses, 10*time.Minute, 100*time.Second
	j.IO = []hpc.Phase{{FileSystem: "lustre", Rate: 150 * mib}}
	return j
}

func wide(id string, nodes int) *hpc.Job {
	j := &hpc.Job{ID: id, Submit: 1}
	j.Tasks, j.TimeLimit, j.RunTime = nodes, 5*time.Minute, 100*time.Second
	return j
}

func TestIOPolicies(t *testing.T) {
	for _, c := range []struct {
		spec, licenses string
		second, end    float64 // the second writer's start, and the end of the last writer
	}{
		{"io-baseline", "", 30, 180},                   // both at once: 300 MiB through 200 MiB/s
		{"bf-licenses", "", 30, 180},                   // nothing is requested
		{"bf-licenses", "lustre:7500", 150, 250},       // 7500 of 10000 each: the next round after the end
		{"io-baseline", "lustre:7500", 150, 250},       // requests count
		{"bf-licenses:estimate=perfect", "", 150, 250}, // estimates become requests
		{"io-aware", "", 150, 250},
		{"workload-adaptive", "", 150, 250},
		{"io-aware:estimate=none", "", 30, 180}, // nothing is measured when both start
		{"io-aware:estimate=x0.5", "", 30, 180}, // half of 7500 fits twice
		{"io-aware:interval=1m", "", 180, 280},
		{"io-aware:estimate=none", "lustre:20000", -1, 0}, // never
	} {
		starts, ends := playIO(t, c.spec, writer("a", c.licenses), writer("b", c.licenses))
		if c.second < 0 {
			if len(starts) != 0 {
				t.Errorf("%s with %q: %v starts", c.spec, c.licenses, starts)
			}
			continue
		}
		if starts["b"] != c.second || max(ends["a"], ends["b"]) != c.end {
			t.Errorf("%s with %q: b starts at %v and the last end is at %v, want %v and %v", c.spec, c.licenses, starts["b"], max(ends["a"], ends["b"]), c.second, c.end)
		}
	}
}

// A job that needs all nodes has its turn before the small ones behind it, with nodes tracked or
// not, also where no job does I/O.
func TestIOPoliciesKeepNodesForAWideJob(t *testing.T) {
	for _, spec := range []string{"io-baseline", "io-aware:track-nodes", "workload-adaptive:track-nodes", "bf-licenses:track-nodes"} {
		jobs := []*hpc.Job{wide("first", 4), wide("wide", 8)}
		for _, id := range []string{"a", "b", "c", "d"} {
			jobs = append(jobs, wide(id, 4))
		}
		starts, _ := playIO(t, spec, jobs...)
		if starts["wide"] > 330 || starts["wide"] < 100 || len(starts) != 6 {
			t.Errorf("%s: starts %v", spec, starts)
		}
	}
}

func TestIOOptions(t *testing.T) {
	for _, good := range []string{"io-aware:track-nodes,estimate=noise=0.5/7,interval=2m,fraction=0.3", "workload-adaptive:estimate=x2", "bf-licenses"} {
		if _, err := New(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"io-aware:track-nodes=no", "io-aware:estimate=x0", "io-aware:estimate=noise=-1", "io-aware:estimate=best", "io-aware:interval=1ms",
		"io-aware:fraction=2", "io-aware:fraction=NaN", "io-aware:nodes", "io-aware:", "easy:track-nodes"} {
		if _, err := New(bad); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}

func TestParseStrategy(t *testing.T) {
	for text, want := range map[string]ioaware.Strategy{"aware": ioaware.Aware, "two-group:estimate=x2": ioaware.TwoGroup, "baseline": ioaware.Baseline} {
		if o, err := ParseStrategy(text); err != nil || o.Strategy != want || o.Interval != 30*time.Second || o.EstimateIsRequest {
			t.Errorf("%s: %+v, %v", text, o, err)
		}
	}
	for _, bad := range []string{"", "best", "aware:", "aware:nodes", "io-aware-ish"} {
		if _, err := ParseStrategy(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
