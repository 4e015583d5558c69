package reservations

import (
	"slices"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/rpc"
)

// TestMagnetic checks which reservations attract a user's jobs, and in which order, when they get and lose
// the flag, and when they are deleted.
func TestMagnetic(t *testing.T) {
	l := newList(&cluster{})
	asked := 0
	check := func(when string, want ...string) {
		t.Helper()
		var got []string
		for _, r := range l.Magnetic(func() Who { asked++; return Who{User: "ann"} }) {
			got = append(got, r.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s, ann's jobs try %v, want %v", when, got, want)
		}
	}
	update := func(name, flag string) {
		t.Helper()
		d, err := rpc.NewReservationDesc(hpc.Reservation{Name: name, Flags: []string{flag}}, true)
		if err == nil {
			err = l.Update(d, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_ = l.make(t, "plain", 10, 20, on("n0"))
	check("without magnetic reservations")
	if asked > 0 {
		t.Error("the job's user was asked for without magnetic reservations")
	}
	_ = l.make(t, "late", 30, 40, on("n1", "MAGNETIC"))
	_ = l.make(t, "early", 10, 20, on("n2", "PROMISCUOUS"))
	_ = l.make(t, "ben", 10, 20, func(r *hpc.Reservation) {
		r.Nodes, r.Flags, r.Users = "n3", []string{"MAGNETIC"}, []string{"ben"}
	})
	check("with magnetic reservations", "late", "early")
	update("plain", "MAGNETIC")
	update("late", "-MAGNETIC")
	check("after a change", "early", "plain")
	update("late", "MAGNETIC")
	if _, err := l.Delete("early", func(*Reservation) bool { return false }); err != nil {
		t.Fatal(err)
	}
	check("after a deletion", "plain", "late")
	l.Tick(21 * 60)
	l.Purge(22*60, func(*Reservation) (bool, bool) { return false, false })
	check("after an end", "late")
}

// TestAttracted checks in which magnetic reservations a job may start. In 26.05 the job must end with the
// reservation; before, slurmctld holds jobs that it tries in a reservation that has just ended.
func TestAttracted(t *testing.T) {
	for _, c := range []struct {
		at        int64 // minute
		since2605 bool
		want      Answer
		expired   bool
	}{
		{5, false, Later, false}, {15, false, Free, false}, {16, false, Free, false}, {21, false, Ended, true},
		{5, true, Later, false}, {15, true, Free, false}, {16, true, Ended, false}, {21, true, Ended, false},
	} {
		l := newList(&cluster{})
		_ = l.make(t, "r", 10, 20, on("n0", "MAGNETIC"))
		l.Since2605 = c.since2605
		var own Own
		own.Attract(l.Find("r"))
		w := Want{Own: own, Who: Who{User: "ann"}, Start: c.at * 60, Seconds: 300, PartitionNodes: set(0)}
		if _, _, _, got := l.Test(&w, c.at*60, false); got != c.want || own.Expired(c.at*60, c.since2605) != c.expired {
			t.Errorf("minute %d, 26.05 %v: %v, expired %v", c.at, c.since2605, got, own.Expired(c.at*60, c.since2605))
		}
		named := Want{Own: Own{Of: l.Find("r")}, Who: w.Who, Start: c.at * 60, Seconds: 300, PartitionNodes: set(0)}
		if _, _, _, got := l.Test(&named, c.at*60, false); c.at == 16 && got != Free {
			t.Errorf("26.05 %v: a job that names the reservation: %v", c.since2605, got)
		}
	}
}

// TestOwn checks that a job leaves only a reservation that it does not name.
func TestOwn(t *testing.T) {
	r := &Reservation{Name: "r"}
	named := Own{Of: r}
	named.Attract(nil)
	if named.Release(); named.Of != r || named.Attracted() {
		t.Errorf("a job leaves the reservation that it names: %+v", named)
	}
	var own Own
	own.Attract(r)
	if own.Of != r || !own.Attracted() {
		t.Errorf("the job is not in the magnetic reservation: %+v", own)
	}
	if own.Release(); own != (Own{}) {
		t.Errorf("the job stays in the magnetic reservation: %+v", own)
	}
}

// TestPurgeComp checks when a reservation with PURGE_COMP is removed: when no job has had it for its time.
func TestPurgeComp(t *testing.T) {
	type check struct {
		at            int64 // seconds
		running, asks bool
	}
	for _, c := range []struct {
		flag  string
		looks []check
		gone  int64 // when it is removed; 0 if it stays
	}{
		{"PURGE_COMP", []check{{590, false, false}, {620, false, false}, {900, false, false}, {920, false, false}}, 920},
		{"PURGE_COMP=1:00", []check{{610, false, false}, {640, false, false}, {670, false, false}}, 670},
		{"PURGE_COMP=1:00", []check{{610, false, false}, {640, true, false}, {670, false, false}, {700, false, false}}, 0},
		{"PURGE_COMP=1:00", []check{{610, false, true}, {670, false, true}, {700, false, false}, {760, false, false}}, 760},
		{"STATIC", []check{{610, false, false}, {1190, false, false}}, 0},
	} {
		l, at := newList(&cluster{}), int64(0)
		_ = l.make(t, "r", 10, 20, on("n0", c.flag))
		for _, look := range c.looks {
			if len(l.Purge(look.at, func(*Reservation) (bool, bool) { return look.running, look.asks })) > 0 {
				at = look.at
			}
		}
		if at != c.gone {
			t.Errorf("%s: the reservation is removed at %d, want %d", c.flag, at, c.gone)
		}
	}
	l := newList(&cluster{})
	_ = l.make(t, "daily", 10, 20, on("n0", "PURGE_COMP=1:00", "DAILY"))
	unused := func(*Reservation) (bool, bool) { return false, false }
	l.Purge(610, unused)
	if gone := l.Purge(670, unused); gone != nil || l.Find("daily").Start != 600+24*3600 {
		t.Errorf("gone is %v; the daily reservation begins at %d", gone, l.Find("daily").Start)
	}
	_ = l.make(t, "admitted", 30, 60, on("n0", "PURGE_COMP=1:00"))
	l.Purge(1830, unused)
	if err := Admit(true, l.Find("admitted"), Who{User: "ann"}); err != nil {
		t.Fatal(err)
	}
	if gone := l.Purge(1890, unused); gone != nil {
		t.Error("a job that named the reservation does not count as its use")
	}
	d, err := rpc.NewReservationDesc(hpc.Reservation{Name: "admitted", Flags: []string{"PURGE_COMP=2:00"}}, true)
	if err == nil {
		err = l.Update(d, int64(31*time.Minute/time.Second))
	}
	if err != nil {
		t.Fatal(err)
	}
	if gone := l.Purge(1950, unused); gone != nil {
		t.Error("the new time of PURGE_COMP does not count")
	}
	if gone := l.Purge(2010, unused); len(gone) != 1 {
		t.Error("the reservation stays after the new time of PURGE_COMP")
	}
}
