package policy

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/ioaware"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/sim"
)

const mib = 1 << 20

// playIO plays jobs in the order of their submission on a pool of eight nodes with a file system of
// 200 MiB/s and 10000 licenses. It returns the starts and ends in seconds.
func playIO(t *testing.T, spec string, jobs ...*hpc.Job) (starts, ends map[string]float64) {
	t.Helper()
	return playIOOn(t, sim.Config{Processors: 8}, spec, jobs...)
}

// playIOOn plays jobs on any machine.
func playIOOn(t *testing.T, machine sim.Config, spec string, jobs ...*hpc.Job) (starts, ends map[string]float64) {
	t.Helper()
	starts, ends = map[string]float64{}, map[string]float64{}
	playEvents(t, machine, spec, func(ev rm.Event) {
		switch at := ev.At.Sub(hpc.Unix(6000)).Seconds(); ev.Kind {
		case rm.Started:
			starts[ev.Job] = at
		case rm.Ended:
			ends[ev.Job] = at
		}
	}, jobs...)
	return starts, ends
}

// playEvents calls a function with each event.
func playEvents(t *testing.T, machine sim.Config, spec string, visit func(rm.Event), jobs ...*hpc.Job) {
	t.Helper()
	made, err := New(spec)
	if err != nil {
		t.Fatal(err)
	}
	machine.Policy, machine.Epoch, machine.FileSystems = made, hpc.Unix(6000), []hpc.FileSystem{{Name: "lustre", Bandwidth: 200 * mib}}
	engine, err := sim.New(machine)
	if err != nil {
		t.Fatal(err)
	}
	advance := func(until hpc.Time) {
		for {
			events, err := engine.AdvanceTo(context.Background(), until)
			if err != nil {
				t.Fatal(err)
			}
			for _, ev := range events {
				visit(ev)
			}
			if len(events) == 0 {
				return
			}
		}
	}
	for _, j := range jobs {
		advance(j.Submit)
		if err := engine.Submit(j); err != nil {
			t.Fatal(err)
		}
	}
	advance(hpc.Never)
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
		second, end    float64 // start of the second writer, and end of the last writer
	}{
		{"io-baseline", "", 0, 150},                    // both at once: 300 MiB/s of demand for 200 MiB/s
		{"bf-licenses", "", 0, 150},                    // the jobs request no licenses
		{"bf-licenses", "lustre:7500", 100, 200},       // 7500 of 10000 each; the first end causes a round
		{"io-baseline", "lustre:7500", 100, 200},       // requests count
		{"bf-licenses:estimate=perfect", "", 100, 200}, // estimates become requests
		{"io-aware", "", 100, 200},
		{"workload-adaptive", "", 100, 200},
		{"io-aware:estimate=none", "", 0, 150}, // the measured use is 0 when both start
		{"io-aware:estimate=x0.5", "", 0, 150}, // half of 7500 fits twice
		{"io-aware:interval=30s", "", 150, 250},
		{"bf-licenses:interval=30s", "", 0, 150}, // the backfill scheduler's interval
		{"io-aware:interval=1m", "", 180, 280},
		{"io-aware:estimate=none", "lustre:20000", -1, 0}, // the request is more than the file system has: it never starts
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

// TestIOReasons checks that only a job that waits for the bandwidth of the file system waits for licenses. Another job
// waits for the next round.
func TestIOReasons(t *testing.T) {
	at := func(j *hpc.Job, second int) *hpc.Job {
		j.Submit = hpc.Unix(int64(6000 + second))
		return j
	}
	for _, c := range []struct {
		spec, licenses string
		want           []string // the jobs that wait for licenses
	}{
		{"io-baseline", "", nil},
		{"io-baseline", "lustre:7500", []string{"b"}},
		{"bf-licenses", "", nil},
		{"bf-licenses", "lustre:7500", []string{"b"}},
		{"bf-licenses:estimate=perfect", "", []string{"b"}},
		{"io-aware", "", []string{"b"}},
		{"io-aware:interval=1m", "", []string{"b"}}, // not a, which waits for the first round
		{"io-aware:estimate=none", "", nil},
		{"workload-adaptive", "", []string{"b"}},
		{"io-aware", "lustre:20000", []string{"a"}},
	} {
		var got []string
		playEvents(t, sim.Config{Processors: 8}, c.spec, func(ev rm.Event) {
			if ev.Kind == rm.Waiting && ev.Reason == "Licenses" {
				got = append(got, ev.Job)
			}
		}, at(writer("a", c.licenses), 1), at(writer("b", c.licenses), 12), at(wide("idle", 1), 14))
		if !slices.Equal(got, c.want) {
			t.Errorf("%s with %q: %v wait for licenses, want %v", c.spec, c.licenses, got, c.want)
		}
	}
}

// TestIORounds checks that rounds follow changes after the shortest pause, and that a fall of the
// measured use is a change.
func TestIORounds(t *testing.T) {
	at := func(id string, second int, run time.Duration, phases ...hpc.Phase) *hpc.Job {
		j := &hpc.Job{ID: id, Submit: hpc.Unix(int64(6000 + second))}
		j.Name, j.TimeLimit, j.RunTime, j.IO = id, 5*time.Minute, run, phases
		return j
	}
	writes := hpc.Phase{Duration: 50 * time.Second, FileSystem: "lustre", Rate: 150 * mib}
	for _, c := range []struct {
		what, spec string
		jobs       []*hpc.Job
		want       map[string]float64
	}{
		{"submissions", "io-baseline", []*hpc.Job{at("a", 0, time.Hour), at("b", 1, time.Hour), at("c", 2, time.Hour), at("d", 20, time.Hour)}, map[string]float64{"a": 0, "b": 3, "c": 3, "d": 20}},
		{"fixed rounds", "io-baseline:interval=30s", []*hpc.Job{at("a", 0, time.Hour), at("b", 1, time.Hour), at("c", 31, time.Hour)}, map[string]float64{"a": 30, "b": 30, "c": 60}},
		// Job x requests the licenses that the first job does not use. The first job uses 7500
		// until second 50.
		{"measured use", "io-aware:estimate=none", []*hpc.Job{at("a", 0, 200*time.Second, writes), requests(at("x", 10, 100*time.Second), "lustre:5000")}, map[string]float64{"a": 0, "x": 50}},
	} {
		if starts, _ := playIO(t, c.spec, c.jobs...); !maps.Equal(starts, c.want) {
			t.Errorf("%s: starts %v, want %v", c.what, starts, c.want)
		}
	}
}

func requests(j *hpc.Job, licenses string) *hpc.Job {
	j.Licenses = licenses
	return j
}

// TestIOPoliciesKeepNodesForAWideJob checks that a job that needs all nodes starts before the
// small jobs behind it. This holds with and without tracked nodes, and even if jobs do no I/O.
// Only job a starts before it, on the nodes that the first job leaves idle.
func TestIOPoliciesKeepNodesForAWideJob(t *testing.T) {
	for spec, filled := range map[string]float64{ // when a starts; bf-licenses fills idle nodes every 30 s
		"io-baseline": 0, "io-aware:track-nodes": 0, "workload-adaptive:track-nodes": 0, "bf-licenses:track-nodes": 30,
	} {
		jobs := []*hpc.Job{wide("first", 4), wide("wide", 8)}
		for _, id := range []string{"a", "b", "c", "d"} {
			jobs = append(jobs, wide(id, 4))
		}
		starts, _ := playIO(t, spec, jobs...)
		at := filled + 100 // when a ends
		if want := (map[string]float64{"first": 0, "a": filled, "wide": at, "b": at + 100, "c": at + 100, "d": at + 200}); !maps.Equal(starts, want) {
			t.Errorf("%s: starts %v, want %v", spec, starts, want)
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
		if o, err := ioaware.ParsePlanning(text); err != nil || o.Strategy != want || o.Interval != 0 || o.EstimateIsRequest {
			t.Errorf("%s: %+v, %v", text, o, err)
		}
	}
	for _, bad := range []string{"", "best", "aware:", "aware:nodes", "io-aware-ish"} {
		if _, err := ioaware.ParsePlanning(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

// TestBFLicenses checks that the main scheduler stops at b, which waits for licenses. The backfill
// scheduler starts c, which is behind b, in its next round. On nodes it has reserved the idle node
// for b, so c waits for b.
func TestBFLicenses(t *testing.T) {
	c := wide("c", 1)
	c.TimeLimit = 30 * time.Minute
	for _, test := range []struct {
		what    string
		machine sim.Config
		spec    string
		c       float64
	}{
		{"a pool", sim.Config{Processors: 2}, "bf-licenses", 30},
		{"a pool, another interval", sim.Config{Processors: 2}, "bf-licenses:interval=50s", 50},
		{"nodes", sim.Config{Cluster: &sim.Cluster{Nodes: []hpc.Node{{Name: "n1", CPUs: 1}, {Name: "n2", CPUs: 1}}}}, "bf-licenses", 100},
		{"nodes, rounds of the plan", sim.Config{Cluster: &sim.Cluster{Nodes: []hpc.Node{{Name: "n1", CPUs: 1}, {Name: "n2", CPUs: 1}}}}, "io-baseline", 0},
	} {
		starts, _ := playIOOn(t, test.machine, test.spec, writer("a", "lustre:7500"), writer("b", "lustre:7500"), c)
		if want := (map[string]float64{"a": 0, "b": 100, "c": test.c}); !maps.Equal(starts, want) {
			t.Errorf("%s: starts %v, want %v", test.what, starts, want)
		}
	}
}
