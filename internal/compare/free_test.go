package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
)

// TestFreeNodes: of the 190 s that b waits for a node, both nodes are taken for 90 s. Waits of a minute do not
// count, and a job that has not ended keeps its nodes.
func TestFreeNodes(t *testing.T) {
	at := func(s int) hpc.Time { return hpc.Unix(int64(1_700_000_000 + s)) }
	job := func(submit, start, end, nodes int) run.Row {
		row := run.Row{Submit: at(submit), Start: at(start), End: at(end), AskedMinNodes: nodes, State: hpc.Completed, Task: -1}
		if end == 0 {
			row.End = 0
		}
		return row
	}
	a, b := job(0, 0, 100, 2), job(10, 200, 300, 1)
	// The job waited for 100 s and lost a run of 20 s. It waited for 110 s more; both nodes were taken for 30 s of
	// these.
	lost := job(0, 230, 300, 1)
	lost.Segments = []run.Segment{{Start: at(100), End: at(120), EndedBy: rm.Requeue}, {Start: at(230), End: at(300), EndedBy: rm.Ended}}
	for i, c := range []struct {
		jobs  []run.Row
		nodes int
		want  float64
	}{
		{[]run.Row{a, b}, 2, 100.0 / 190}, {[]run.Row{b, a}, 3, 1}, {[]run.Row{a, job(10, 100, 300, 1)}, 2, 0},
		{[]run.Row{a, job(40, 100, 300, 1)}, 9, 0}, {[]run.Row{job(0, 70, 80, 1)}, 1, 1}, {[]run.Row{a, b}, 0, 0},
		{[]run.Row{job(0, 0, 0, 2), b}, 2, 0},
		{[]run.Row{lost, job(150, 150, 180, 2)}, 2, 180.0 / 210},
	} {
		for k := range c.jobs {
			c.jobs[k].Job = fmt.Sprint(k)
		}
		again := slices.Clone(c.jobs)
		for k := range again {
			again[k].Partition, again[k].Start, again[k].End = "batch", at(1), at(2)
		}
		m := &run.Manifest{Cluster: run.Cluster{Partitions: []run.Partition{{Name: "batch", Nodes: c.nodes}, {Name: "other", Nodes: 99}}}}
		recorded := Realization{Manifest: &run.Manifest{Engine: run.EngineRecorded}, Rows: c.jobs}
		tables, err := tabulate(t.Context(), []Set{{Runs: []Realization{recorded}}, {Runs: []Realization{{Manifest: m, Rows: again}}}}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		v, err := newVerdict(&tables[0][0], tables[1])
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(v.FreeNodes-c.want) > 1e-12 {
			t.Errorf("%d: %+v on %d nodes: %g, want %g", i, c.jobs, c.nodes, v.FreeNodes, c.want)
		}
		if said := strings.Contains(strings.Join(v.LookAt, "\n"), "enough nodes for the jobs were free during"); said != (c.want > 0.8) {
			t.Errorf("%d: %.2f of the waits, and %q", i, c.want, v.LookAt)
		}
	}
}
