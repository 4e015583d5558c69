package metrics

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
)

// onNodes is a job that held nodes from one second to another.
func onNodes(from, to int64, nodes string, count int) run.Row {
	return run.Row{State: hpc.Completed, Submit: hpc.Unix(from), Start: hpc.Unix(from), End: hpc.Unix(to), Nodes: nodes,
		NodeCount: count, Processors: count}
}

func TestNodeUse(t *testing.T) {
	lost := onNodes(150, 200, "n4", 1) // ran on n1 and n2 before
	lost.Segments = []run.Segment{
		{Start: hpc.Unix(100), End: hpc.Unix(140), NodeCount: 2, Nodes: "n[1-2]", EndedBy: rm.Requeue},
		{Start: hpc.Unix(150), End: hpc.Unix(160), NodeCount: 1, EndedBy: rm.Suspend},
		{Start: hpc.Unix(180), End: hpc.Unix(200), NodeCount: 1, EndedBy: rm.Ended},
	}
	tests := []struct {
		name             string
		rows             []run.Row
		from, to         int64
		used             float64
		unnamed, missing int
	}{
		{"two jobs on two nodes", []run.Row{onNodes(100, 200, "n1", 1), onNodes(100, 150, "n2", 1)}, 0, 0, 150, 0, 0},
		{"a shared node counts once", []run.Row{onNodes(100, 200, "n1", 1), onNodes(120, 180, "n[1-2]", 2)}, 0, 0, 160, 0, 0},
		{"two jobs in sequence on a node", []run.Row{onNodes(100, 150, "n1", 1), onNodes(150, 200, "n1", 1)}, 0, 0, 100, 0, 0},
		{"names written in two ways", []run.Row{onNodes(100, 200, "n[09-10]", 2), onNodes(100, 200, "n10,n9", 2)}, 0, 0, 300, 0, 0},
		{"the interval bounds them", []run.Row{onNodes(100, 200, "n1", 1), onNodes(120, 180, "n1", 1)}, 150, 175, 25, 0, 0},
		{"a lost run, a suspension", []run.Row{lost}, 100, 200, 110, 0, 0},
		{"counts alone", []run.Row{onNodes(100, 200, "", 2), onNodes(100, 200, "", 1)}, 0, 0, 300, 2, 0},
		{"counts and names", []run.Row{onNodes(100, 200, "n1", 1), onNodes(100, 150, "None assigned]", 2)}, 0, 0, 200, 1, 0},
		{"counts above all nodes", []run.Row{onNodes(100, 200, "", 3), onNodes(100, 200, "", 3)}, 0, 0, 400, 2, 0},
		{"without names and count", []run.Row{onNodes(100, 200, "n1", 1), onNodes(100, 200, "", 0)}, 0, 0, math.NaN(), 0, 1},
	}
	for _, tt := range tests {
		m := Compute(tt.rows, Options{Nodes: 4, Processors: 8, From: hpc.Unix(tt.from), To: hpc.Unix(tt.to)})
		span := 100.0
		if tt.from == 150 {
			span = 25
		}
		same := func(a Float, b float64) bool { return float64(a) == b || math.IsNaN(float64(a)) && math.IsNaN(b) }
		if !same(m.UsedNodeSeconds, tt.used) || !same(m.IdleNodeSeconds, 4*span-tt.used) ||
			!same(m.NodeUtilization, tt.used/(4*span)) || m.UnnamedNodes != tt.unnamed || m.LeftOut[NoNodes] != tt.missing {
			t.Errorf("%s: used %v, idle %v, %v, %d unnamed, %d without; want %v, %d, %d", tt.name, m.UsedNodeSeconds,
				m.IdleNodeSeconds, m.NodeUtilization, m.UnnamedNodes, m.LeftOut[NoNodes], tt.used, tt.unnamed, tt.missing)
		}
	}
	if m := Compute(tests[0].rows, Options{}); m.NodeUtilization.Known() || m.UsedNodeSeconds.Known() || m.LeftOut[NoNodes] != 0 {
		t.Errorf("a machine of unknown size: %v, %v", m.NodeUtilization, m.UsedNodeSeconds)
	}
}

// TestNodeUseBySeconds counts the nodes with jobs second by second.
func TestNodeUseBySeconds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rows []run.Row
		busy := map[string]bool{}
		for range rapid.IntRange(1, 30).Draw(t, "jobs") {
			from := rapid.Int64Range(1, 60).Draw(t, "from")
			to := from + rapid.Int64Range(0, 30).Draw(t, "length")
			names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a1", "a2", "a03", "b1", "b2"}), 1, 5,
				rapid.ID[string]).Draw(t, "nodes")
			rows = append(rows, onNodes(from, to, hostlist.Compress(names), len(names)))
			for at := from; at < to; at++ {
				for _, name := range names {
					busy[fmt.Sprint(name, "@", at)] = true
				}
			}
		}
		m := Compute(rows, Options{Nodes: 5, From: hpc.Unix(1), To: hpc.Unix(91)})
		if float64(m.UsedNodeSeconds) != float64(len(busy)) || float64(m.IdleNodeSeconds) != float64(5*90-len(busy)) {
			t.Fatalf("used %v, idle %v; want %d", m.UsedNodeSeconds, m.IdleNodeSeconds, len(busy))
		}
	})
}

func TestNodeUseText(t *testing.T) {
	tests := []struct {
		rows []run.Row
		want string
	}{
		{[]run.Row{onNodes(3600, 7200, "n[1-2]", 2), onNodes(3600, 7200, "n1", 1)}, "37.5% of processors, 50.0% of nodes (2 node hours idle)"},
		{[]run.Row{onNodes(3600, 7200, "", 2)}, "25.0% of processors, at most 50.0% of nodes (at least 2 node hours idle)"},
		{[]run.Row{onNodes(3600, 7200, "", 2)}, "the record counts the nodes of 1 job and does not name them"},
		{[]run.Row{onNodes(3600, 7200, "", 0)}, "the use of nodes is not known: the record has no nodes of 1 job"},
	}
	for _, tt := range tests {
		s := Summary{Metrics: Compute(tt.rows, Options{Nodes: 4, Processors: 8})}
		var b strings.Builder
		if err := s.Render(&b, time.UTC); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), tt.want) {
			t.Errorf("want %q in\n%s", tt.want, b.String())
		}
	}
}
