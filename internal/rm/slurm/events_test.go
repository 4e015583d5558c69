package slurm

import (
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/audit"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/slurmspec"
)

// TestEventsOnRecord: slurmdbd's records of nodes and reservations are equal to the workload's
// events, for all kinds of times, names and reasons. A reservation that gets fewer nodes than
// requested is a difference.
func TestEventsOnRecord(t *testing.T) { eachSlurm(t, testEventsOnRecord) }

func testEventsOnRecord(t *testing.T, slurm *install.Installation) {
	files := clusterFiles(t, "AccountingStorageType=accounting_storage/none", "AccountingStorageType=accounting_storage/slurmdbd")
	s := scenario{slurm: slurm, cluster: writeCluster(t, files), accounting: true}
	events := []hpc.ReservationEvent{
		{At: after(10), Action: "create", Reservation: hpc.Reservation{Name: "odd", Start: after(60), Duration: 90 * time.Second, Nodes: "c1"}},
		{At: after(10), Action: "create", Reservation: hpc.Reservation{Name: "moved", Start: after(60), Duration: 90 * time.Second, Nodes: "c2"}},
		{At: after(10), Action: "create", Reservation: hpc.Reservation{Name: "far", Start: after(1_000_000), Duration: time.Hour, Nodes: "c1"}},
		{At: after(10), Action: "create", Reservation: hpc.Reservation{Name: "endless", Start: after(60), Duration: hpc.Unlimited, Nodes: "c4"}},
		{At: after(20), Action: "update", Reservation: hpc.Reservation{Name: "moved", Start: after(80)}},
		{At: after(200), Action: "create", Reservation: hpc.Reservation{Name: "past", Start: after(100), Duration: 5 * time.Minute, Nodes: "c3"}},
		{At: after(210), Action: "update", Reservation: hpc.Reservation{Name: "past", Duration: 330 * time.Second}},
		{At: after(220), Action: "create", Reservation: hpc.Reservation{Name: "odd", Start: after(150), Duration: 5 * time.Minute, Nodes: "g1"}},
		{At: after(230), Action: "create", Reservation: hpc.Reservation{Name: "floats", Start: after(900), Duration: 5 * time.Minute, Nodes: "g1", Flags: []string{"TIME_FLOAT"}}},
		{At: after(240), Action: "create", Reservation: hpc.Reservation{Name: "one", Start: after(2_000_000), Duration: 5 * time.Minute, NodeCount: 1}},
		{At: after(240), Action: "create", Reservation: hpc.Reservation{Name: "many", Start: after(3_000_000), Duration: 5 * time.Minute, NodeCount: 99}},
	}
	outages := []hpc.NodeEvent{
		{At: after(300), Nodes: "c1", State: "down", Reason: "two\nlines\t"},
		{At: after(300), Nodes: "c2", State: "down", Reason: strings.Repeat("xü", 200)},
		{At: after(300), Nodes: "c3", State: "drain", Reason: `a|b "c" \ 'd'`},
		{At: after(400), Nodes: "c[1-3]", State: "resume"},
	}
	for i := range events {
		events[i].Users = []string{"ann"}
	}
	s.workload.Reservations, s.workload.Epoch = events, epoch
	ctx := t.Context()
	e := s.start(ctx, t)
	for _, ev := range events {
		for e.Now() < ev.At {
			if _, err := e.AdvanceTo(ctx, ev.At); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.Reserve(ev); err != nil {
			t.Fatal(err)
		}
	}
	for _, ev := range append(outages, hpc.NodeEvent{At: after(600)}) {
		for e.Now() < ev.At {
			if _, err := e.AdvanceTo(ctx, ev.At); err != nil {
				t.Fatal(err)
			}
		}
		if ev.Nodes == "" {
			break
		}
		if err := e.SetNode(ev); err != nil {
			t.Fatal(err)
		}
	}
	list, err := e.database.Reservations(ctx, e.Now())
	if err != nil {
		t.Fatal(err)
	}
	got, err := audit.Reservations(list, events)
	if err != nil {
		t.Fatal(err)
	}
	many := "reservation many: 99 nodes in the workload,"
	if slurm.Release.Since(slurmspec.R2411) {
		many = "reservation many: slurmdbd does not have it" // this slurmctld refuses the reservation
	}
	match(t, list, got, []string{many})
	if list, err = e.database.Outages(ctx, e.Now()); err != nil {
		t.Fatal(err)
	}
	if got, err = audit.Outages(list, outages, epoch, false, nil); err != nil {
		t.Fatal(err)
	}
	match(t, list, got, nil)
	if !strings.Contains(list, "|two lines\n") || !strings.Contains(list, "|xüxü") {
		t.Errorf("the outages are not there:\n%s", list)
	}
}

// match checks that each difference contains the text wanted, in any order.
func match(t *testing.T, name string, got, want []string) {
	t.Helper()
	ok := len(got) == len(want)
	for _, w := range want {
		ok = ok && strings.Contains(strings.Join(got, "\n"), w)
	}
	if !ok {
		t.Errorf("%s: got %q, want %q", name, got, want)
	}
}
