package audit

import (
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
)

func clock(s string) hpc.Time {
	t, err := time.Parse("15:04:05", s)
	if err != nil {
		panic(err)
	}
	return hpc.Unix(time.Date(2024, 3, 5, t.Hour(), t.Minute(), t.Second(), 0, time.UTC).Unix())
}

const outageList = `NodeName|TimeStart|TimeEnd|State|Reason
|2024-03-04T23:00:00|Unknown||Cluster Registered TRES
n1|2024-03-04T23:00:00|2024-03-04T23:00:01|UNK|cold-start
n2|2024-03-04T23:00:00|2024-03-04T23:00:01|UNK|cold-start
n1|2024-03-05T01:00:00|2024-03-05T02:00:01|DOWN|disk
n2|2024-03-05T03:30:00|2024-03-05T04:00:00|DRAIN|a|b
n3|2024-03-05T05:00:00|2024-03-05T05:30:00|DRAIN|fan
n3|2024-03-05T05:30:00|Unknown|DOWN|fan
`

func TestOutages(t *testing.T) {
	event := func(at, node, state, reason string) hpc.NodeEvent {
		return hpc.NodeEvent{At: clock(at), Nodes: node, State: state, Reason: reason}
	}
	applied := []hpc.NodeEvent{
		event("01:00:00", "n1", "down", "disk"), event("02:00:00", "n1", "resume", ""),
		event("03:00:00", "n2", "drain", "a|b"), event("04:00:00", "n2", "resume", ""),
		event("05:00:00", "n3", "drain", "fan"), event("05:30:00", "n3", "fail", "fan"),
		event("06:00:00", "n4", "drain", "never empty"), event("07:00:00", "n4", "resume", ""),
	}
	without := func(i int) []hpc.NodeEvent {
		return append(append([]hpc.NodeEvent{}, applied[:i]...), applied[i+1:]...)
	}
	for _, tt := range []struct {
		name   string
		events []hpc.NodeEvent
		others bool
		want   []string
	}{
		{"all applied", applied, false, nil},
		{"event that slurmdbd lacks", append([]hpc.NodeEvent{event("00:30:00", "n5", "down", "")}, applied...), false, []string{"node n5: down in the workload from 2024-03-05T01:00:00 to now; slurmdbd has no such outage"}},
		{"wrong reason", append([]hpc.NodeEvent{event("01:00:00", "n1", "down", "cable")}, applied[1:]...), false,
			[]string{"node n1: out of service in slurmdbd from 2024-03-05T01:00:00 to 2024-03-05T02:00:01;", "node n1: down in the workload from"}},
		{"not resumed", without(1), false, []string{"node n1: out of service", "node n1: down in the workload from 2024-03-05T01:00:00 to now"}},
		{"outage without an event", applied[2:], false, []string{"node n1: out of service in slurmdbd from 2024-03-05T01:00:00 to 2024-03-05T02:00:01 (disk)"}},
		{"an administrator's command", applied[2:], true, nil},
		{"a reason on two lines", append([]hpc.NodeEvent{event("01:00:00", "n1", "down", "\ndisk\t")}, applied[1:]...), false, nil},
		{"events before the run began", append([]hpc.NodeEvent{event("00:10:00", "n1", "down", "disk"), event("00:20:00", "n6", "down", "x"), event("00:40:00", "n6", "resume", "")}, applied[1:]...), false, nil},
	} {
		got, err := Outages(outageList, tt.events, clock("01:00:00"), tt.others, nil)
		if err != nil {
			t.Fatal(err)
		}
		match(t, tt.name, got, tt.want)
	}
}

// Only the part of a reason that fits into slurmdbd's column is compared.
func TestCompareLongReasons(t *testing.T) {
	long := strings.Repeat("x", 250) + "ééé" + strings.Repeat("y", 200)
	list := "NodeName|TimeStart|TimeEnd|State|Reason\nn1|2024-03-05T01:00:00|2024-03-05T02:00:00|DOWN|"
	for kept, same := range map[string]bool{long[:254]: true, long[:252]: true, long[:249] + "zz": false} {
		for _, asked := range []string{long, long[:254]} {
			got, err := Outages(list+kept+"\n", []hpc.NodeEvent{
				{At: clock("01:00:00"), Nodes: "n1", State: "down", Reason: asked}, {At: clock("02:00:00"), Nodes: "n1", State: "resume"},
			}, clock("01:00:00"), false, nil)
			if err != nil || (len(got) == 0) != same {
				t.Errorf("%d bytes of %d kept: %v, %q", len(kept), len(asked), err, got)
			}
		}
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

func TestReservations(t *testing.T) {
	const list = `Name|ID|TimeStart|TimeEnd|NodeName|Assocs|Flags
maint|1|2024-03-05T08:00:00|2024-03-05T09:30:00|n[1-4]||MAINT,SPEC_NODES
course|2|2024-03-05T09:00:00|2024-03-05T11:00:00|n[5-6]|3|SPEC_NODES
course|2|2024-03-05T11:00:00|2024-03-05T13:00:00|n[5-6]|3|SPEC_NODES
daily|4|2024-03-05T12:00:00|2024-03-05T13:00:00|n7|3|DAILY
course|5|2024-03-05T13:00:00|2024-03-05T14:00:00|n[5-6]|3|SPEC_NODES
some|6|2024-03-05T08:00:00|2024-03-05T09:00:00|n[8-9]|3|
`
	event := func(at, action, name, start string, length time.Duration, nodes string, flags ...string) hpc.ReservationEvent {
		r := hpc.Reservation{Name: name, Duration: length, Nodes: nodes, Flags: flags}
		if start != "" {
			r.Start = clock(start)
		}
		return hpc.ReservationEvent{At: clock(at), Action: action, Reservation: r}
	}
	applied := []hpc.ReservationEvent{
		event("07:00:00", "create", "maint", "08:00:00", 2*time.Hour, "n[1-2,3-4]", "MAINT"),
		event("07:00:00", "create", "course", "09:00:00", 3*time.Hour, "n[5-6]"),
		event("07:30:00", "create", "never", "20:00:00", time.Hour, "n1"),
		event("08:00:00", "delete", "never", "", 0, ""),
		event("08:00:00", "create", "daily", "12:00:00", time.Hour, "n7", "DAILY"),
		event("09:30:00", "delete", "maint", "", 0, ""),
		event("10:00:00", "update", "course", "", 4*time.Hour, ""),
		event("13:00:40", "create", "course", "13:00:00", time.Hour, "n[5-6]"),
		event("08:00:00", "create", "floats", "09:00:00", time.Hour, "n1", "TIME_FLOAT"),
	}
	some := func(n int) hpc.ReservationEvent {
		ev := event("08:00:00", "create", "some", "08:00:00", time.Hour, "")
		ev.NodeCount = n
		return ev
	}
	for _, tt := range []struct {
		name   string
		events []hpc.ReservationEvent
		want   []string
	}{
		{"all applied", applied, nil},
		{"not deleted", append(append([]hpc.ReservationEvent{}, applied[:5]...), applied[6:]...), []string{"reservation maint: from 2024-03-05T08:00:00 to 2024-03-05T10:00:00 in the workload, from 2024-03-05T08:00:00 to 2024-03-05T09:30:00 in slurmdbd"}},
		{"as many nodes", append([]hpc.ReservationEvent{some(2)}, applied...), nil},
		{"fewer nodes", append([]hpc.ReservationEvent{some(99)}, applied...), []string{"reservation some: 99 nodes in the workload, n[8-9] in slurmdbd"}},
		{"later reservation that slurmdbd lacks", append(append([]hpc.ReservationEvent{}, applied...), event("15:00:00", "create", "course", "15:00:00", time.Hour, "n[5-6]")), []string{"reservation course: from 2024-03-05T15:00:00"}},
		{"not updated", applied[:6], []string{"reservation course: from"}},
		{"not made", append([]hpc.ReservationEvent{event("01:00:00", "create", "demo", "02:00:00", time.Hour, "n1")}, applied...), []string{"reservation demo: slurmdbd does not have it"}},
		{"elsewhere", append([]hpc.ReservationEvent{event("07:00:00", "create", "maint", "08:00:00", 2*time.Hour, "n9")}, applied[1:]...), []string{"reservation maint: nodes n9 in the workload, n[1-4] in slurmdbd"}},
	} {
		got, err := Reservations(list, tt.events)
		if err != nil {
			t.Fatal(err)
		}
		match(t, tt.name, got, tt.want)
	}
}

// TestConfiguredOutages: Outages expects the outage of a node that slurm.conf takes out of service,
// until an event ends it. It reports other outages.
func TestConfiguredOutages(t *testing.T) {
	const header = "NodeName|TimeStart|TimeEnd|State|Reason\n"
	const down = "n4|2024-03-05T00:57:17|Unknown|DOWN|dimm\n"
	resume := []hpc.NodeEvent{{At: clock("02:00:00"), Nodes: "n[4-5]", State: "resume"}}
	for _, tt := range []struct {
		name, list string
		events     []hpc.NodeEvent
		configured []string
		want       []string
	}{
		{"configured", down, nil, []string{"n4"}, nil},
		{"not configured", down, nil, []string{"n5"}, []string{"node n4: out of service in slurmdbd from 2024-03-05T00:57:17 to now (dimm)"}},
		{"returned by an event", "n4|2024-03-05T00:57:17|2024-03-05T02:00:01|DOWN|dimm\n", resume, []string{"n4"}, nil},
		{"goes on after the event", down, append(resume, hpc.NodeEvent{At: clock("03:00:00"), Nodes: "n4", State: "down", Reason: "disk"}), []string{"n4"},
			[]string{"node n4: down in the workload from 2024-03-05T03:00:00 to now"}},
		{"another outage later", down + "n4|2024-03-05T03:00:00|Unknown|DOWN|disk\n", nil, []string{"n4"}, []string{"node n4: out of service in slurmdbd from 2024-03-05T03:00:00"}},
	} {
		got, err := Outages(header+tt.list, tt.events, clock("01:00:00"), false, tt.configured)
		if err != nil {
			t.Fatal(err)
		}
		match(t, tt.name, got, tt.want)
	}
}
