package chart

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
)

// course is a file system of 100 MiB/s and 1,000 licenses over four points.
func course(name string, expected []float64) metrics.FileSystemCourse {
	const mib = 1 << 20
	return metrics.FileSystemCourse{
		FileSystem: hpc.FileSystem{Name: name, Bandwidth: 100 * mib, Limit: 50 * mib, Licenses: 1000},
		Asked:      []float64{0, 150 * mib, 80 * mib, 0}, Granted: []float64{0, 100 * mib, 80 * mib, 0}, Oversubscribed: []float64{0, 1, 0, 0},
		Requested: []float64{0, 10, 20, 0}, Expected: expected,
	}
}

// Every line keeps its place in the order, whichever panels have it, and the table has the numbers.
func TestIO(t *testing.T) {
	x := []float64{1000, 1060, 1120, 1180}
	runs := []IORun{{"A", []metrics.FileSystemCourse{course("lustre", nil)}}, {"B", []metrics.FileSystemCourse{course("lustre", []float64{0, 900, 1200, 0})}}}
	figures, err := IO(runs, x, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	if len(figures) != 2 || figures[0].Name != "bandwidth" || figures[1].Name != "io-licenses" {
		t.Fatalf("%d figures", len(figures))
	}
	for i, want := range []struct{ head, row string }{
		{"time, UTC|set|granted [MiB/s]|asked for [MiB/s]|bandwidth [MiB/s]|limit [MiB/s]", "B|100|150|100|50"},
		{"time, UTC|set|used [licenses]|requested [licenses]|with estimates [licenses]|total [licenses]", "B|2,000|10|900|1,000"},
	} {
		f := figures[i]
		if head := strings.Join(f.Data.Head, "|"); head != want.head {
			t.Errorf("%s: head %s, want %s", f.Name, head, want.head)
		}
		if row := strings.Join(f.Data.Rows[5][1:], "|"); row != want.row {
			t.Errorf("%s: row %s, want %s", f.Name, row, want.row)
		}
		if len(f.Plots) != 2 || f.Plots[0].Y.Max != f.Plots[1].Y.Max || f.Plots[0].Y.Min != 0 {
			t.Errorf("%s: panels of different scales", f.Name)
		}
		if _, err := f.SVG(); err != nil {
			t.Error(err)
		}
	}
	if row := figures[1].Data.Rows[1]; row[4] != "–" && row[4] != "-" && row[4] != "" {
		t.Errorf("estimates that a record does not name: %q", row)
	}
}

// Several file systems have figures of their own. Licenses that no job held are not drawn. Only as
// many runs are drawn as fit.
func TestIOOfSeveral(t *testing.T) {
	x := []float64{1000, 1060, 1120, 1180}
	idle := course("scratch", nil)
	idle.Requested = make([]float64, 4)
	idle.Bandwidth, idle.Limit = 20<<30, 20<<30
	var runs []IORun
	for i := range MostPanels + 2 {
		runs = append(runs, IORun{fmt.Sprint(i), []metrics.FileSystemCourse{course("lustre", nil), idle}})
	}
	figures, err := IO(runs, x, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range figures {
		names = append(names, f.Name)
		if len(f.Plots) != MostPanels {
			t.Errorf("%s: %d panels", f.Name, len(f.Plots))
		}
	}
	if got := strings.Join(names, " "); got != "bandwidth-1 io-licenses-1 bandwidth-2" {
		t.Errorf("figures %s", got)
	}
	if head := figures[2].Data.Head; head[2] != "granted [GiB/s]" {
		t.Errorf("units: %q", head)
	}
	if figures, err := IO(nil, x, time.UTC); len(figures) != 0 || err != nil {
		t.Errorf("no runs: %v, %v", figures, err)
	}
}
