package slurmdb

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// The tests of package slurm check the complete result of Read. Their replays fill the database of
// a real slurmdbd.

// TestWaitingTasks: both forms in which the accounting has the tasks of an array are understood.
func TestWaitingTasks(t *testing.T) {
	for text, want := range map[string]string{
		"[4-9%2]": "4-9%2", "1,3": "1,3", "0x1E00%8": "9-12%8", "0x1": "0-0", "[0xF0F]": "0-3,8-11", "0xZ": "0xZ", "0x": "0x", "": "",
	} {
		if got := slurmspec.ArrayTasks(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestStates(t *testing.T) {
	for n, want := range map[int64]hpc.State{
		0: hpc.Pending, 3: hpc.Completed, 6: hpc.TimedOut, 11: hpc.OutOfMemory, 1 << 10: hpc.Requeued, 1 << 13: "RESIZING", 77: "STATE_77",
	} {
		if got := slurmspec.RecordedJobState(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// testReader returns a reader that knows some TRES, QOS and associations.
func testReader() *reader {
	return &reader{
		cluster: "vale",
		tres:    map[int]string{1: "cpu", 2: "mem", 3: "energy", 4: "node", 1001: "gres/gpu", 1002: "gres/gpu:a100"},
		qos:     map[int]string{1: "normal", 2: "high", 3: "low"},
		assocs:  map[int]*association{7: {id: 7, account: "phys", user: "ann"}, 8: {id: 8, account: "phys"}},
		users:   map[uint32]string{},
	}
}

func number(n int64) sql.NullInt64 { return sql.NullInt64{Int64: n, Valid: true} }
func text(s string) sql.NullString { return sql.NullString{String: s, Valid: true} }

func TestRecord(t *testing.T) {
	row := jobRow{
		job: number(17), arrayJob: number(15), arrayTsk: number(2), assoc: number(7), uid: number(501), name: text("a"),
		state: number(5), exitCode: number(3<<8 | 9), limit: number(int64(slurmspec.Infinite)), submit: number(100), start: number(200), end: number(300),
		qos: number(2), tresReq: text("1=8,2=4000,4=2,1001=4,1002=4"), tresAlloc: text("1=16,2=8000,3=18446744073709551614,4=2,99=1"), flags: number(8), nodesAlloc: number(2),
		memory: text("9223372036854777856"), reason: number(int64(slurmspec.HeldByUser)), priority: number(9),
	}
	got, err := testReader().record(&row)
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != "15_2" || got.User != "ann" || got.ExitCode != 3 || got.Signal != 9 || got.State != hpc.Failed || got.TimeLimit != hpc.Unlimited ||
		got.ReqCPUs != 8 || got.ReqNodes != 2 || got.AllocCPUs != 16 || got.MemPerCPU != 2048 || got.GPUs != "a100:4" || got.QOS != "high" ||
		!got.Held || *got.Priority != 9 || got.ReqTRES != "cpu=8,mem=4000M,node=2,gres/gpu=4,gres/gpu:a100=4" ||
		got.AllocTRES != "cpu=16,mem=8000M,node=2" || got.Flags != "SchedBackfill" {
		t.Errorf("%+v", got)
	}
	row.submit = number(slurmspec.LastInstant + 1)
	if _, err := testReader().record(&row); err == nil {
		t.Error("a submission after 2200 was taken")
	}
}

func TestNodeEvents(t *testing.T) {
	got := nodeEvents([]outage{
		{"n1", "power", "down", 10, 50}, {"n2", "power", "down", 10, 50},
		{"n3", "slow", "drain", 20, 30}, {"n3", "dead", "down", 30, 0},
	})
	want := []hpc.NodeEvent{
		{At: 10, Nodes: "n[1-2]", State: "down", Reason: "power"},
		{At: 20, Nodes: "n3", State: "drain", Reason: "slow"},
		{At: 30, Nodes: "n3", State: "down", Reason: "dead"},
		{At: 50, Nodes: "n[1-2]", State: "resume"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestReservationEvents(t *testing.T) {
	const day = 86400
	row := func(id, start, length int64, nodes string, flags ...string) booking {
		r := hpc.Reservation{Name: "course", Start: hpc.Unix(start), Duration: time.Duration(length) * time.Second, Nodes: nodes, Users: []string{"ann"}, Flags: flags}
		return booking{id, r, hpc.Unix(start + length)}
	}
	daily := []booking{row(1, day+3600, 600, "n1", "DAILY"), row(2, 2*day+3600, 600, "n1", "DAILY"), row(3, 3*day+3600, 600, "n1", "DAILY")}
	for name, tt := range map[string]struct {
		rows         []booking
		start, until int64
		want         string
	}{
		"recurs": {daily, 0, 3*day + 7200, "90000 create 90000+600 n1 [DAILY]"},
		"recurs, window begins between occurrences": {daily, day, 3*day + 7200, "86400 create 90000+600 n1 [DAILY]"},
		"recurs, and then ends":                     {daily, day, 6 * day, "86400 create 90000+600 n1 [DAILY]; 263440 delete"},
		"recurs on another node":                    {[]booking{daily[0], row(2, 2*day+3600, 600, "n2", "DAILY")}, day, 2 * day, "86400 create 90000+600 n1 [DAILY]; 90640 delete; 90640 create 176400+600 n2 [DAILY]"},
		"recurs at another time of day":             {[]booking{daily[0], row(2, 2*day+7200, 600, "n1", "DAILY")}, 0, 2 * day, "90000 create 90000+600 n1 [DAILY]; 90640 delete; 90640 create 180000+600 n1 [DAILY]"},
		"recurs with an earlier change": {[]booking{daily[0], row(1, day+4200, 900, "n2", "DAILY"), row(2, 2*day+3600, 1500, "n2", "DAILY")}, 0, 3 * day,
			"90000 create 90000+600 n1 [DAILY]; 90600 update +1500 n2 [DAILY]"},
		"two bookings with a gap":              {[]booking{row(1, 200, 100, "n1"), row(2, 500, 100, "n2")}, 0, 900, "200 create 200+100 n1 []; 500 create 500+100 n2 []"},
		"two bookings with a gap, in a window": {[]booking{row(1, 200, 100, "n1"), row(2, 500, 100, "n2")}, 150, 900, "150 create 200+100 n1 []; 340 create 500+100 n2 []"},
		"two bookings without a gap":           {[]booking{row(1, 200, 100, "n1"), row(2, 300, 100, "n2")}, 0, 900, "200 create 200+100 n1 []; 340 create 300+100 n2 []"},
		"outside the window":                   {[]booking{row(1, 200, 100, "n1"), row(2, 500, 100, "n2")}, 400, 900, "400 create 500+100 n2 []"},
	} {
		var got []string
		for _, ev := range reservationEvents(tt.rows, workload.ReadOptions{Start: hpc.Unix(tt.start)}, hpc.Unix(tt.until)) {
			text := fmt.Sprintf("%d %s", ev.At.UnixSeconds(), ev.Action)
			if ev.Start != 0 {
				text += fmt.Sprintf(" %d", ev.Start.UnixSeconds())
			}
			if ev.Action == "update" {
				text += " "
			}
			if ev.Action != "delete" {
				text += fmt.Sprintf("+%g %s %v", ev.Duration.Seconds(), ev.Nodes, ev.Flags)
			}
			got = append(got, text)
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, "; ")); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func TestNames(t *testing.T) {
	r := testReader()
	if got := r.qosNames(",1,+2,-3,9"); got != "normal,+high,-low" {
		t.Error(got)
	}
	if got := r.preempted(",2-3"); got != "high,low" {
		t.Error(got)
	}
	if got := r.tresNames("1=8,1001=2,99=1"); got != "cpu=8,gres/gpu=2" {
		t.Error(got)
	}
	res := hpc.Reservation{}
	if r.addAssociations(&res, ",7,-8,9,"); !cmp.Equal(res.Users, []string{"ann"}) || !cmp.Equal(res.Accounts, []string{"-phys"}) {
		t.Errorf("%+v", res)
	}
}

func TestDecay(t *testing.T) {
	if got := decay(14*24*time.Hour, 7*24*time.Hour); got != 0.25 {
		t.Error(got)
	}
	if got := decay(time.Hour, 0); got != 1 {
		t.Error(got)
	}
}

// Usage counts only after the last reset.
func TestUsageLeft(t *testing.T) {
	const day = 24 * time.Hour
	start := hpc.Unix(100 * 86400)
	for _, tt := range []struct {
		name     string
		from     hpc.Time
		length   time.Duration
		halfLife time.Duration
		since    hpc.Time
		want     float64
	}{
		{"never reset", start.Add(-10 * day), day, 0, 0, 1},
		{"decay from its middle", start.Add(-7*day - time.Hour), 2 * time.Hour, 7 * day, 0, 0.5},
		{"after the reset", start.Add(-10 * day), day, 0, start.Add(-10 * day), 1},
		{"before the reset", start.Add(-12 * day), day, 0, start.Add(-10 * day), 0},
		{"the reset within", start.Add(-12 * day), 8 * day, 0, start.Add(-10 * day), 0.75},
		{"the reset within, decay from the rest's middle", start.Add(-12 * day), 8 * day, 7 * day, start.Add(-10 * day), 0.375},
		{"not over yet", start.Add(-time.Hour), day, 7 * day, 0, 1},
	} {
		o := Options{UsageHalfLife: tt.halfLife, UsageSince: tt.since}
		o.Start = start
		if got := o.usageLeft(tt.from, tt.length); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestReadErrors(t *testing.T) {
	for dsn, want := range map[string]string{
		"secret@nonsense":                       "reading slurmdbd: not a data source",
		"u:secret@unix(/nonexistent/socket)/db": "reading slurmdbd: /nonexistent/socket: ",
	} {
		_, err := Read(context.Background(), dsn, Options{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}

// TestSecondsOfOptions: the database has PreemptExemptTime in seconds, and sacctmgr reads a plain number as minutes.
func TestSecondsOfOptions(t *testing.T) {
	for _, o := range []struct{ option, value, want string }{
		{"PreemptExemptTime", "310", " PreemptExemptTime=00:05:10"}, {"PreemptExemptTime", "90000", " PreemptExemptTime=1-01:00:00"},
		{"PreemptExemptTime", "", ""}, {"MaxWallDurationPerJob", "90", " MaxWallDurationPerJob=90"}, {"GraceTime", "90", " GraceTime=90"},
	} {
		var b strings.Builder
		if (&reader{}).option(&b, o.option, o.value, false); b.String() != o.want {
			t.Errorf("%s of %q: %q, want %q", o.option, o.value, b.String(), o.want)
		}
	}
}

// TestJobWindow checks that the window also selects the later runs of jobs that were requeued, and that the condition
// has as many parameters as arguments.
func TestJobWindow(t *testing.T) {
	for _, opts := range []workload.ReadOptions{
		{}, {Start: hpc.Unix(10)}, {End: hpc.Unix(20)}, {Start: hpc.Unix(10), End: hpc.Unix(20)},
	} {
		r := &reader{opts: Options{ReadOptions: opts}, cluster: "c"}
		condition, args := r.jobWindow()
		if strings.Count(condition, "?") != len(args) {
			t.Errorf("%s: arguments %v", condition, args)
		}
		if later := strings.Contains(condition, "IN (7, 8, 9)"); later != (opts.End != 0) {
			t.Errorf("%+v: %s", opts, condition)
		}
	}
}
