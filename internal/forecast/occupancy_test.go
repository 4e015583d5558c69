package forecast

import (
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/workload"
)

// TestOccupied: nodes that jobs share count once, and requeued jobs leave their nodes. Jobs that run at the end
// of a realization end with their drawn run time or their limit.
func TestOccupied(t *testing.T) {
	from := hpc.Unix(1_000_000)
	o := &Options{Occupancy: 4 * time.Hour, Horizon: 3 * time.Hour}
	g := o.grid(from)
	if g.step != time.Minute || g.n != 180 {
		t.Fatalf("grid %+v", g)
	}
	if g := (&Options{Occupancy: 48 * time.Hour}).grid(from); g.step != 15*time.Minute || g.n != maxInstants {
		t.Fatalf("grid of two days %+v", g)
	}
	u := &occupied{grid: g, use: use{}, running: map[Key]placed{}}
	at := func(minutes int) hpc.Time { return from.Add(time.Duration(minutes) * time.Minute) }
	event := func(kind rm.EventKind, job string, minutes int, nodes, partition string) {
		u.see(rm.Event{At: at(minutes), Kind: kind, Job: job, Task: -1, Outcome: &rm.Outcome{Start: at(minutes), Nodes: nodes,
			Partition: partition}})
	}
	event(rm.Started, "a", -30, "n[1-2]", "p")
	event(rm.Started, "b", 10, "n2", "p") // b shares n2 with a
	event(rm.Started, "c", 10, "n[3-5]", "q")
	event(rm.Ended, "a", 20, "", "")
	event(rm.Requeue, "c", 30, "", "")
	event(rm.Started, "c", 40, "n6", "q")
	limited := &hpc.Job{ID: "c", Request: hpc.Request{TimeLimit: 20 * time.Minute}}
	limited.RunTime = hpc.Unlimited
	b := &hpc.Job{ID: "b"}
	b.RunTime = time.Hour
	u.finish(&workload.Workload{Jobs: workload.JobsOf(b, limited)})
	for minute, want := range map[int][3]float64{ // for all partitions, p and q
		0: {2, 2, 0}, 9: {2, 2, 0}, 10: {5, 2, 3}, 19: {5, 2, 3}, 20: {4, 1, 3}, 30: {1, 1, 0}, 40: {2, 1, 1}, 59: {2, 1, 1},
		60: {1, 1, 0}, 69: {1, 1, 0}, 70: {0, 0, 0}, 179: {0, 0, 0},
	} {
		got := [3]float64{u.counts("")[minute], u.counts("p")[minute], u.counts("q")[minute]}
		if got != want {
			t.Errorf("minute %d: %v, want %v", minute, got, want)
		}
	}
}

// TestReservedAndOut: reservations of the next hours, and nodes that are out of service now.
func TestReservedAndOut(t *testing.T) {
	now := hpc.Unix(1_000_000)
	create := func(name, nodes string, start, length time.Duration) hpc.ReservationEvent {
		return hpc.ReservationEvent{At: now.Add(-time.Hour), Action: "create", Reservation: hpc.Reservation{Name: name, Nodes: nodes,
			Start: now.Add(start), Duration: length}}
	}
	q := &Queue{At: now, Workload: &workload.Workload{
		Reservations: []hpc.ReservationEvent{create("past", "n1", -50*time.Minute, time.Minute), create("maint", "ALL", time.Hour, time.Hour),
			create("course", "n[1-3]", -time.Minute, time.Hour), create("far", "n1", 100*time.Hour, time.Hour)},
		NodeEvents: []hpc.NodeEvent{{At: now, Nodes: "n[1-4]", State: "down"}, {At: now, Nodes: "n2", State: "resume"},
			{At: now + 1, Nodes: "n9", State: "down"}},
	}}
	list := q.reserved(grid{now, time.Hour, 48})
	if len(list) != 2 || list[0].Name != "maint" || list[0].Nodes != 0 || list[1].Name != "course" || list[1].Nodes != 3 ||
		!list[1].End.Equal(now.Add(59*time.Minute).Std()) {
		t.Errorf("%+v", list)
	}
	if n := q.out(); n != 3 {
		t.Errorf("%d nodes out of service", n)
	}
}
