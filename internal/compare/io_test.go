package compare

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

// sharing is a set of runs of one job that writes: alone it takes a minute, and in run i it takes
// times[i]. Each run has a workload of its own.
func sharing(name string, seeds []uint64, times ...time.Duration) Set {
	s := Set{Name: name}
	for i, took := range times {
		job := &hpc.Job{ID: "a"}
		job.RunTime, job.IO = time.Minute, []hpc.Phase{{FileSystem: "lustre", Rate: 100}}
		start := hpc.Unix(1000)
		s.Runs = append(s.Runs, Realization{
			Name: fmt.Sprint(name, i),
			Manifest: &run.Manifest{
				Engine: "sim", Seed: seeds[i], Valid: true, State: run.StateComplete, Workload: run.Source{SHA256: fmt.Sprint(seeds[i])},
				FileSystems: []run.FileSystem{{Name: "lustre", Bandwidth: 50}},
			},
			Rows: []run.Row{{Job: "a", Task: -1, State: hpc.Completed, Submit: start, Start: start, End: start.Add(took), AskedRunTime: time.Minute, Processors: 1, Request: string(run.EncodeJob(job))}},
		})
	}
	return s
}

// figure returns the row of a key.
func figure(t *testing.T, table []Metric, key string) *Metric {
	t.Helper()
	for i := range table {
		if table[i].Key == key {
			return &table[i]
		}
	}
	t.Fatalf("no %s", key)
	return nil
}

// Runs of the same workload and seed are pairs, in any order. The differences within pairs are all
// ten seconds, although the runs of a set differ by minutes.
func TestPairedIO(t *testing.T) {
	const s, m = time.Second, time.Minute
	a := sharing("a", []uint64{1, 2, 3, 4, 5, 6}, 2*m, 3*m, 4*m, 5*m, 6*m, 7*m)
	b := sharing("b", []uint64{6, 5, 4, 3, 2, 1}, 7*m-10*s, 6*m-10*s, 5*m-10*s, 4*m-10*s, 3*m-10*s, 2*m-10*s)
	c, err := Compare([]Set{a, b}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := figure(t, c.IO, "makespan_s").Differences[0]
	if !d.Paired || d.Difference != -10 || d.Low != -10 || d.High != -10 || d.P != 2./64 || d.HedgesG.Known() {
		t.Errorf("pairs: %+v", d)
	}
	if unpaired := figure(t, c.Metrics, "makespan_s").Differences[0]; unpaired.Paired || unpaired.P < 0.5 {
		t.Errorf("not pairs: %+v", unpaired)
	}
	// Of 10 figures that vary, the smallest p is 10 · 2/2⁶ = 0.31 with six pairs, and 10 · 2/2⁹ = 0.039 with nine.
	const few = "A and B: 6 and 6 runs: no p-value can be below 0.031, and none is significant after the correction for " +
		"10 figures of I/O (want 9 or more on each side)"
	if !slices.Contains(c.Warnings, few) {
		t.Errorf("no %q in %q", few, c.Warnings)
	}
	if got := figure(t, c.IO, "mean_stretch").Sets[0].Mean; got != 4.5 {
		t.Errorf("mean stretch %v, want 4.5", got)
	}
	if got := figure(t, c.IO, "io_oversubscribed:lustre").Sets[0].Mean; !(got > 0 && got <= 1) {
		t.Errorf("oversubscribed %v", got)
	}
	var text bytes.Buffer
	if err := c.Render(&text, time.UTC); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"lustre oversubscribed", "come from pairs of runs with the same workload and seed"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

// Ten pairs are enough for all figures. With fewer, the figures of the main table come from independent runs, and the
// output says so.
func TestPairs(t *testing.T) {
	const s, m = time.Second, time.Minute
	var a, b []time.Duration
	var seeds []uint64
	for i := range 10 {
		seeds = append(seeds, uint64(i+1))
		a, b = append(a, time.Duration(i+2)*m), append(b, time.Duration(i+2)*m-10*s)
	}
	for n, want := range map[int]string{
		10: "intervals and p come from the 10 pairs of runs with the same workload and seed\n",
		9:  "runs with equal seeds are not used as pairs: 9 pairs are too few for a test of this table (want 10 or more)\n",
	} {
		c, err := Compare([]Set{sharing("a", seeds[:n], a[:n]...), sharing("b", seeds[:n], b[:n]...)}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		d := figure(t, c.Metrics, "makespan_s").Differences[0]
		if d.Paired != (n == 10) || d.Paired != (d.P == 2./1024) || c.Pairs[0].SeedPairs != n {
			t.Errorf("%d pairs: %+v", n, d)
		}
		var text bytes.Buffer
		if err := c.Render(&text, time.UTC); err != nil || !strings.Contains(text.String(), want) {
			t.Errorf("%v: no %q in\n%s", err, want, text.String())
		}
	}
	c, err := Compare([]Set{sharing("a", seeds, a...), sharing("b", seeds[:8], b[:8]...)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Pairing(&c.Pairs[0]); !strings.Contains(got, "the sets differ in size (A: 10, B: 8; want the same seeds)") {
		t.Errorf("10 runs against 8: %q", got)
	}
}

// Without a partner for every run there are no pairs.
func TestNoPairs(t *testing.T) {
	const m = time.Minute
	a := sharing("a", []uint64{1, 2, 3}, 2*m, 3*m, 4*m)
	unhashed := sharing("b", []uint64{1, 2, 3}, 2*m, 3*m, 4*m)
	unhashed.Runs[0].Manifest.Workload.SHA256 = ""
	for name, b := range map[string]Set{
		"another seed": sharing("b", []uint64{1, 2, 4}, 2*m, 3*m, 4*m), "a seed twice": sharing("b", []uint64{1, 2, 2}, 2*m, 3*m, 4*m),
		"fewer": sharing("b", []uint64{1, 2}, 2*m, 3*m), "unknown workload": unhashed,
	} {
		if order := pairing(a.Runs, b.Runs); order != nil {
			t.Errorf("%s: pairs %v", name, order)
		}
	}
	if order := pairing(a.Runs, a.Runs); fmt.Sprint(order) != "[0 1 2]" {
		t.Errorf("the same set: %v", order)
	}
	b := sharing("b", []uint64{7, 8, 9}, 2*m, 3*m, 5*m)
	c, err := Compare([]Set{a, b}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d := figure(t, c.IO, "makespan_s").Differences[0]; d.Paired || !d.Low.Known() {
		t.Errorf("%+v", d)
	}
}

// A comparison says whether only one side has file systems, and which file systems differ. Without
// file systems it lacks this table.
func TestFileSystemsOfSides(t *testing.T) {
	const m = time.Minute
	with, without := sharing("with", []uint64{1, 2}, 2*m, 3*m), sharing("without", []uint64{1, 2}, m, m)
	for i := range without.Runs {
		without.Runs[i].Manifest.FileSystems = nil
	}
	other := sharing("other", []uint64{1, 2}, 2*m, 3*m)
	for i := range other.Runs {
		other.Runs[i].Manifest.FileSystems = []run.FileSystem{{Name: "lustre", Bandwidth: 50, Limit: 40}}
	}
	for _, c := range []struct {
		sets []Set
		want string
	}{
		{[]Set{with, without}, "only A has file systems"}, {[]Set{without, with}, "only B has file systems"},
		{[]Set{with, other}, "the file systems differ: lustre 4.76837e-05 MiB/s (limit 4.76837e-05 MiB/s, 10000 licenses) in A and"},
		{[]Set{with, with}, ""}, {[]Set{without, without}, ""},
	} {
		got, err := Compare(c.sets, Options{})
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(got.Warnings, "\n")
		if said := strings.Contains(text, "file systems"); said != (c.want != "") || !strings.Contains(text, c.want) {
			t.Errorf("want %q in\n%s", c.want, text)
		}
		if none := c.sets[0].Name == "without" && c.sets[1].Name == "without"; (got.IO == nil) != none {
			t.Errorf("%d figures", len(got.IO))
		}
		if c.want == "only B has file systems" {
			for key, known := range map[string]bool{"mean_stretch": false, "stretched_jobs": false, "lost_node_s": false, "io_utilization:lustre": false, "awrt_s": true, "makespan_s": true} {
				if got := figure(t, got.IO, key).Sets[0].Mean; got.Known() != known {
					t.Errorf("%s of a run without file systems is %v", key, got)
				}
			}
		}
	}
	broken := sharing("broken", []uint64{1}, m)
	broken.Runs[0].Rows[0].Request = `{"io":[`
	if _, err := Compare([]Set{broken, with}, Options{}); err == nil || !strings.Contains(err.Error(), "broken0") {
		t.Errorf("a broken request: %v", err)
	}
}

// TestDrivenSides: the warnings say once whose jobs the driver of --io-schedule held.
func TestDrivenSides(t *testing.T) {
	a, b, c := sharing("a", []uint64{1}, time.Minute), sharing("b", []uint64{1}, time.Minute), sharing("c", []uint64{1}, time.Minute)
	for _, driven := range []Set{a, c} {
		driven.Runs[0].Manifest.IOSchedule = "aware"
	}
	got, err := Compare([]Set{a, b, c}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(strings.Join(got.Warnings, "\n"), waits.OnlyHeld); n != 1 || !slices.Contains(got.Warnings, "A, C: "+waits.OnlyHeld) {
		t.Errorf("%q", got.Warnings)
	}
}

// Every figure of file systems has a meaning.
func TestIOFiguresHaveMeanings(t *testing.T) {
	for _, f := range metrics.IOFigures([]string{"scratch"}) {
		if m := metrics.FigureOf(f.Key); m.Meaning == "" || !strings.HasSuffix(f.Label, m.Label) {
			t.Errorf("%s: %+v", f.Key, m)
		}
	}
}
