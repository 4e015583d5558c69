package transform

import (
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// A maintenance is a reservation from the beginning of the workload on, with a free name.
func TestMaintenance(t *testing.T) {
	start := hpc.Unix(1_709_600_000)
	w := &workload.Workload{Epoch: start.Add(-time.Hour), Start: start}
	w.Jobs.Append(&hpc.Job{ID: "1", Submit: start.Add(time.Hour), Request: hpc.Request{User: "ada", Tasks: 1}})
	w.Jobs.Append(&hpc.Job{ID: "long", Submit: start.Add(-time.Hour), Request: hpc.Request{User: "ada", Tasks: 1},
		Behaviour: hpc.Behaviour{RunTime: 10 * time.Hour}, Recorded: &hpc.Recorded{Start: start.Add(-time.Hour), Nodes: "n1"}})
	whole, err := Maintenance(start.Add(8*time.Hour), 2*time.Hour, "")
	if err != nil {
		t.Fatal(err)
	}
	some, err := Maintenance(start, time.Hour, "n[1-4]")
	if err != nil {
		t.Fatal(err)
	}
	out, results, err := Apply(w, Environment{}, whole, some)
	if err != nil || len(out.Reservations) != 2 || len(w.Reservations) != 0 {
		t.Fatalf("%v, %+v", err, out)
	}
	if note := results[0].Notes; len(note) == 0 || !strings.HasSuffix(note[len(note)-1], "when the maintenance begins: 1") {
		t.Errorf("notes %q", note)
	}
	if !strings.HasSuffix(results[0].Step, "/2h") || !strings.HasSuffix(results[1].Step, "/1h/n[1-4]") {
		t.Errorf("steps %+v", results)
	}
	for i, want := range []hpc.Reservation{
		{Name: "maintenance", Start: start, Duration: time.Hour, Nodes: "n[1-4]"},
		{Name: "maintenance~2", Start: start.Add(8 * time.Hour), Duration: 2 * time.Hour, Nodes: "ALL"},
	} {
		found := false
		for _, ev := range out.Reservations {
			r := ev.Reservation
			found = found || ev.At == start && ev.Action == "create" && r.Start == want.Start && r.Duration == want.Duration &&
				r.Nodes == want.Nodes && r.HasFlag("MAINT") && r.HasFlag("IGNORE_JOBS") && len(r.Users) == 1
		}
		if !found {
			t.Errorf("reservation %d of %+v is missing: %+v", i, want, out.Reservations)
		}
	}
	if out.Reservations[0].Name == out.Reservations[1].Name {
		t.Errorf("two reservations are called %s", out.Reservations[0].Name)
	}
	for _, p := range workload.Validate(out, workload.Cluster{}) {
		if p.Severity == workload.Error {
			t.Errorf("%s", p)
		}
	}
	if _, err := Maintenance(start, 0, ""); err == nil {
		t.Error("a maintenance of no time")
	}
	unknown, err := Maintenance(start, time.Hour, "n[4-5]")
	if err != nil {
		t.Fatal(err)
	}
	four := Environment{NodeNames: map[string]bool{"n1": true, "n2": true, "n3": true, "n4": true}}
	if _, _, err := Apply(w, four, unknown); err == nil || !strings.Contains(err.Error(), "node n5 does not exist in the cluster") {
		t.Errorf("error %v, want one about n5", err)
	}
	if _, _, err := Apply(w, four, some, whole); err != nil {
		t.Error(err)
	}
	early, err := Maintenance(start.Add(-time.Second), time.Hour, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Apply(w, Environment{}, early); err == nil || !strings.Contains(err.Error(), "before the workload begins") {
		t.Errorf("error %v", err)
	}
}
