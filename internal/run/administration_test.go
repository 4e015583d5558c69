package run

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/workload"
)

// TestAdministration checks that the administration of a record is what the resource manager
// carried out, and when. An action is refused if an engine says so, but not because an
// administrator's reason has the same words.
func TestAdministration(t *testing.T) {
	down := hpc.NodeEvent{At: at(10), Nodes: "n1", State: "down", Reason: "vendor: refused: no part"}
	maintenance := hpc.ReservationEvent{At: at(20), Action: "create", Reservation: hpc.Reservation{Name: "maintenance", Start: at(100), Nodes: "n2"}}
	wl := &workload.Workload{
		NodeEvents: []hpc.NodeEvent{
			down, {At: at(30), Nodes: "n9", State: "down"}, {At: at(31), Nodes: "n8", State: "drain", Reason: "disk"},
			{At: at(40), Nodes: "n1", State: "resume"}, {At: at(50), Nodes: "n1", State: "down"}, {At: at(900), Nodes: "n3", State: "down"},
		},
		Reservations: []hpc.ReservationEvent{maintenance, {At: at(60), Action: "delete", Reservation: hpc.Reservation{Name: "other"}}},
	}
	w, err := Create(filepath.Join(t.TempDir(), "run"), Manifest{Engine: "sim"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Setting(wl); err != nil {
		t.Fatal(err)
	}
	for _, ev := range []rm.Event{
		{At: at(10), Kind: rm.NodeState, Reason: "n1 down: vendor: refused: no part"},
		{At: at(21), Kind: rm.Reserved, Reason: "create maintenance"},
		{At: at(30), Kind: rm.NodeState, Reason: "refused: n9 down: there is no node n9"},
		{At: at(31), Kind: rm.NodeState, Reason: "n8 drain: disk: refused: Invalid node name specified"},
		{At: at(40), Kind: rm.NodeState, Reason: "n1 resume"},
		{At: at(50), Kind: rm.NodeState, Reason: "n1 down"},
		{At: at(60), Kind: rm.Reserved, Reason: "delete other: refused: Requested reservation is invalid"},
	} {
		ev.Task = -1
		if err := w.Event(ev); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(StateComplete, nil); err != nil {
		t.Fatal(err)
	}
	r, err := Open(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Administration()
	if err != nil {
		t.Fatal(err)
	}
	maintenance.At = at(21)
	want := Administration{
		NodeEvents: []hpc.NodeEvent{
			down, {At: at(40), Nodes: "n1", State: "resume"}, {At: at(50), Nodes: "n1", State: "down"},
		},
		Reservations: []hpc.ReservationEvent{maintenance},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
