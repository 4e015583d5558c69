package replay

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/workload"
)

// fake is a resource manager that notes what it is told and never starts anything.
type fake struct {
	now  hpc.Time
	told []string
}

func (f *fake) Submit(j *hpc.Job) error        { f.told = append(f.told, "submit "+j.ID); return nil }
func (f *fake) Cancel(id string) error         { f.told = append(f.told, "cancel "+id); return nil }
func (f *fake) SetNode(ev hpc.NodeEvent) error { f.told = append(f.told, "node "+ev.Nodes); return nil }
func (f *fake) Reserve(ev hpc.ReservationEvent) error {
	f.told = append(f.told, "reserve "+ev.Name)
	return nil
}
func (f *fake) Now() hpc.Time        { return f.now }
func (f *fake) Job(*hpc.Job) error   { return nil }
func (f *fake) Event(rm.Event) error { return nil }
func (f *fake) AdvanceTo(ctx context.Context, t hpc.Time) ([]rm.Event, error) {
	f.now = max(f.now, t)
	return nil, ctx.Err()
}

// Inputs of one instant go by class, then by their order in the workload; what pends
// for ever is given up and named.
func TestRigidOrderAndDrain(t *testing.T) {
	const at = 10 * hpc.Second
	w := &workload.Workload{
		Jobs: []*hpc.Job{
			{ID: "b", Submit: at - hpc.Second, Behaviour: hpc.Behaviour{CancelAfter: time.Second}},
			{ID: "c", Submit: at}, {ID: "a", Submit: at, Request: hpc.Request{Array: "1-3"}},
		},
		NodeEvents:   []hpc.NodeEvent{{At: at, Nodes: "n1", State: "down"}},
		Reservations: []hpc.ReservationEvent{{At: at, Action: "create", Reservation: hpc.Reservation{Name: "r"}}},
	}
	f := &fake{}
	result, err := Rigid(context.Background(), f, w, f, Options{DrainLimit: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"submit b", "node n1", "reserve r", "submit c", "submit a", "cancel b"}, f.told); diff != "" {
		t.Errorf("inputs (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"b", "c", "a"}, result.Undrained); diff != "" {
		t.Errorf("undrained (-want +got)\n%s", diff)
	}
	if result.Submitted != 5 || result.Pending != 5 || f.now != at.Add(time.Hour) {
		t.Errorf("got %+v at %v", result.Progress, f.now)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Rigid(ctx, &fake{}, w, f, Options{}); err == nil {
		t.Error("an interrupted replay: no error")
	}
}
