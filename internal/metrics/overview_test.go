package metrics

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
)

// monday is Monday 4 March 2024, 0 h UTC.
var monday = hpc.Unix(1709510400)

// A run with one job of each kind that an overview counts differently. Of the preset job only the hour
// after the window's start counts.
func TestOverview(t *testing.T) {
	at := func(hours float64) hpc.Time { return monday.Add(time.Duration(hours * float64(time.Hour))) }
	rows := []run.Row{
		{Job: "preset", User: "a", Partition: "cpu", State: hpc.Completed, Submit: at(-9), Start: at(-1), End: at(1), Processors: 1},
		{Job: "1", User: "a", Partition: "cpu", State: hpc.Completed, Submit: at(0.5), Start: at(1.5), End: at(3.5), Processors: 10},
		{Job: "2", User: "b", Partition: "gpu", State: hpc.TimedOut, Submit: at(0.75), Start: at(3.75), End: at(4.75), Processors: 4, TRES: "cpu=4,gres/gpu=2,gres/gpu:a100=2"},
		{Job: "3", User: "b", Partition: "gpu", State: hpc.Running, Submit: at(25), Start: at(25), Processors: 4, TRES: "gres/gpu:a100=1,gres/gpu:v100=2,gres/gpumem=8G"},
		{Job: "4", User: "c", Partition: "cpu", State: hpc.Cancelled, Submit: at(2), End: at(3)},
		{Job: "5", User: "c", Partition: "cpu", State: hpc.Rejected, Submit: at(30)},
	}
	o := NewOverview(rows, Options{Window: monday}, at(27))
	lost := []run.Segment{{Start: at(1), End: at(2), EndedBy: rm.Requeue}}
	for state, want := range map[hpc.State]int{hpc.Pending: 0, hpc.Cancelled: 1} { // jobs that lost a run have started
		again := []run.Row{{State: state, Submit: at(0), Segments: lost}, {State: state, Submit: at(0)}}
		if got := NewOverview(again, Options{}, at(27)).NeverStarted; got != want {
			t.Errorf("%s: %d ended before they started, want %d", state, got, want)
		}
	}
	if o.Jobs != 6 || o.Preset != 1 || o.NeverStarted != 1 || o.States[hpc.Rejected] != 1 {
		t.Errorf("counted %d jobs, %d preset, %d never started, %v", o.Jobs, o.Preset, o.NeverStarted, o.States)
	}
	if o.FirstSubmit != at(0.5) || o.LastSubmit != at(30) || o.FirstStart != at(-1) || o.LastEnd != at(4.75) {
		t.Errorf("bounds %v %v %v %v", o.FirstSubmit, o.LastSubmit, o.FirstStart, o.LastEnd)
	}
	const hour = 3600
	want := []Usage{
		{Name: "a", Jobs: 2, ProcessorSeconds: 21 * hour, Waits: Waits{1, hour, hour}},
		{Name: "b", Jobs: 2, ProcessorSeconds: 12 * hour, GPUSeconds: 8 * hour, Waits: Waits{2, 3 * hour, 3 * hour}},
		{Name: "c", Jobs: 2},
	}
	if diff := cmp.Diff(want, o.Usage[ByUser]); diff != "" {
		t.Errorf("users (-want +got)\n%s", diff)
	}
	if o.Hours[0] != (Waits{2, 4 * hour, 3 * hour}) || o.Hours[25] != (Waits{1, 0, 0}) {
		t.Errorf("hours %v %v", o.Hours[0], o.Hours[25])
	}
	east := NewOverview(rows, Options{Window: monday, Zone: time.FixedZone("east", 2*hour)}, at(27))
	if east.Hours[2] != o.Hours[0] {
		t.Errorf("two hours east the first jobs were submitted at %v", east.Hours)
	}
	if len(o.Longest) != 2 || o.Longest[0].Job != "2" || o.Longest[1].Job != "1" {
		t.Errorf("longest waits %v", o.Longest)
	}
}

// The longest waits are those that a sort of all jobs finds.
func TestLongestWaits(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	rows := make([]run.Row, 500)
	for i := range rows {
		start := monday.Add(time.Duration(random.IntN(200)) * time.Minute)
		rows[i] = run.Row{State: hpc.Completed, Submit: monday, Start: start, End: start.Add(time.Minute)}
	}
	o := NewOverview(rows, Options{}, monday)
	if len(o.Longest) != longestWaits {
		t.Fatalf("%d jobs", len(o.Longest))
	}
	for i, r := range o.Longest[1:] {
		if r.Start > o.Longest[i].Start {
			t.Errorf("place %d waited longer than the one before", i+1)
		}
	}
	least, longer := o.Longest[longestWaits-1].Start, 0
	for i := range rows {
		if rows[i].Start > least {
			longer++
		}
	}
	if longer >= longestWaits {
		t.Errorf("%d jobs waited longer than the last of %d", longer, longestWaits)
	}
}
