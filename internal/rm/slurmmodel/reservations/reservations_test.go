package reservations

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/rm/slurmmodel/selection"
)

// cluster has nodes n0 to n7. The partition low has the first four. Jobs run on held until end.
type cluster struct {
	held []selection.Bits
	end  int64
	down selection.Bits
}

func newList(c *cluster) *List {
	place := map[string]int{}
	for i := range 8 {
		place["n"+strconv.Itoa(i)] = i
	}
	return New(&Cluster{
		Place: place,
		PartitionNodes: func(name string) (selection.Bits, string, bool) {
			switch name {
			case "", "all":
				return set(0, 1, 2, 3, 4, 5, 6, 7), "all", true
			case "low":
				return set(0, 1, 2, 3), "low", true
			}
			return nil, "", false
		},
		Available: func() selection.Bits {
			all := set(0, 1, 2, 3, 4, 5, 6, 7)
			if c.down != nil {
				all.AndNot(c.down)
			}
			return all
		},
		HeldAfter: func(instant int64, _ *Reservation) []selection.Bits {
			if c.end > instant {
				return c.held
			}
			return nil
		},
		KnowsAccount: func(name string) bool { return name != "nobody" },
		Choose:       func(among selection.Bits, count int, _ int64) selection.Bits { return Choose(nil, among, count) },
	})
}

func set(nodes ...int) selection.Bits {
	b := selection.NewBits(8)
	for _, i := range nodes {
		b.Set(i)
	}
	return b
}

// make creates a reservation from minute start to minute end.
func (l *List) make(t *testing.T, name string, start, end int, change func(*hpc.Reservation)) error {
	t.Helper()
	r := hpc.Reservation{Name: name, Start: hpc.Unix(int64(start) * 60), Duration: time.Duration(end-start) * time.Minute, Users: []string{"ann"}}
	change(&r)
	d, err := rpc.NewReservationDesc(r, false)
	if err != nil {
		t.Fatal(err)
	}
	return l.Create(d, 0)
}

func on(nodes string, flags ...string) func(*hpc.Reservation) {
	return func(r *hpc.Reservation) { r.Nodes, r.Flags = nodes, flags }
}

// TestJobsOutside checks that a job does not get the nodes of reservations that begin before the
// job would end.
func TestJobsOutside(t *testing.T) {
	for _, c := range []struct {
		name   string
		of     func(*hpc.Reservation)
		start  int64 // start of the job, in minutes
		limit  int64
		want   selection.Bits
		answer Answer
		later  int64 // start that Test returns, in minutes
	}{
		{"ends in time", on("n[0-1]"), 0, 10, set(0, 1, 2, 3, 4, 5, 6, 7), Free, 0},
		{"runs into it", on("n[0-1]"), 0, 11, set(2, 3, 4, 5, 6, 7), Free, 0},
		{"starts when it ends", on("n[0-1]"), 20, 5, set(0, 1, 2, 3, 4, 5, 6, 7), Free, 20},
		{"maintenance of its partition", on("n[0-3]", "MAINT"), 0, 11, set(0, 1, 2, 3, 4, 5, 6, 7), Free, 20},
		{"maintenance of some nodes", on("n[0-2]", "MAINT"), 0, 11, set(3, 4, 5, 6, 7), Free, 0},
		{"all nodes", on("ALL"), 0, 11, set(0, 1, 2, 3, 4, 5, 6, 7), Free, 20},
	} {
		l := newList(&cluster{})
		if err := l.make(t, "r", 10, 20, c.of); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		w := Want{Start: c.start * 60, Seconds: c.limit * 60, Partition: "low", PartitionNodes: set(0, 1, 2, 3)}
		nodes, start, _, answer := l.Test(&w, 0, true)
		if answer != c.answer || start != c.later*60 || !nodes.Equal(c.want) {
			t.Errorf("%s: %v on %v from %d s, want %v on %v from %d min", c.name, answer, nodes, start, c.answer, c.want, c.later)
		}
	}
}

// TestOwnReservation checks that a job gets the nodes of its reservation while the reservation is
// active, and with FLEX all nodes at any time.
func TestOwnReservation(t *testing.T) {
	l := newList(&cluster{})
	_ = l.make(t, "r", 10, 20, on("n[0-1]"))
	_ = l.make(t, "flex", 10, 20, on("n[2-3]", "FLEX", "OVERLAP"))
	_ = l.make(t, "work", 12, 15, on("n[1-2]", "MAINT"))
	for _, c := range []struct {
		name, user string
		at         int64 // minutes
		want       selection.Bits
		answer     Answer
	}{
		{"r", "ann", 5, nil, Later},
		{"r", "ann", 10, set(0), Free}, // the maintenance reservation has n1
		{"r", "ann", 16, set(0, 1), Free},
		{"r", "ann", 21, nil, Ended},
		{"r", "ben", 10, nil, Denied},
		{"flex", "ann", 5, set(0, 1, 2, 3, 4, 5, 6, 7), Free},
		{"flex", "ann", 10, set(0, 3, 4, 5, 6, 7), Free},
	} {
		w := Want{Own: Own{Of: l.Find(c.name)}, Who: Who{User: c.user}, Start: c.at * 60, Seconds: 300, PartitionNodes: set(0)}
		nodes, _, _, answer := l.Test(&w, c.at*60, false)
		if answer != c.answer || answer == Free && !nodes.Equal(c.want) {
			t.Errorf("%s in %s at minute %d: %v on %v, want %v on %v", c.user, c.name, c.at, answer, nodes, c.answer, c.want)
		}
	}
}

// TestCreateRefuses checks that slurmctld refuses a reservation that overlaps others or jobs,
// unless flags allow it.
func TestCreateRefuses(t *testing.T) {
	jobs := &cluster{held: []selection.Bits{set(5)}, end: 15 * 60}
	for _, c := range []struct {
		name    string
		of      func(*hpc.Reservation)
		refused bool
	}{
		{"others' nodes", on("n[1-2]"), true},
		{"others' nodes with OVERLAP", on("n[1-2]", "OVERLAP"), false},
		{"a job's nodes", on("n5"), true},
		{"a job's nodes with IGNORE_JOBS", on("n5", "IGNORE_JOBS"), false},
		{"an unknown node", on("n9"), true},
		{"an unknown account", func(r *hpc.Reservation) { r.Nodes, r.Accounts = "n3", []string{"nobody"} }, true},
		{"its name twice", func(r *hpc.Reservation) { r.Nodes, r.Name = "n3", "first" }, true},
		{"as many nodes as are free", func(r *hpc.Reservation) { r.NodeCount = 5 }, false},
		{"more nodes than are free", func(r *hpc.Reservation) { r.NodeCount = 6 }, true},
	} {
		l := newList(jobs)
		if err := l.make(t, "first", 10, 20, on("n[0-1]")); err != nil {
			t.Fatal(err)
		}
		if err := l.make(t, "second", 12, 30, c.of); (err != nil) != c.refused {
			t.Errorf("%s: %v, refused is to be %v", c.name, err, c.refused)
		}
	}
}

// TestUpdateKeeps checks that a refused update changes nothing, and that a duration counts from the
// start.
func TestUpdateKeeps(t *testing.T) {
	l := newList(&cluster{})
	_ = l.make(t, "a", 10, 20, on("n0"))
	_ = l.make(t, "b", 30, 40, on("n0"))
	longer := func(minutes int) error {
		d, err := rpc.NewReservationDesc(hpc.Reservation{Name: "a", Duration: time.Duration(minutes) * time.Minute}, true)
		if err != nil {
			t.Fatal(err)
		}
		return l.Update(d, 0)
	}
	if err := longer(21); err == nil || l.Find("a").End != 20*60 {
		t.Errorf("a reservation that runs into another ends at %d: %v", l.Find("a").End, err)
	}
	if err := longer(20); err != nil || l.Find("a").End != 30*60 {
		t.Errorf("the reservation ends at %d, want 1800: %v", l.Find("a").End, err)
	}
}

// TestPurge checks that a reservation is removed when its end has been seen and no job runs in it,
// and that a repeating reservation moves on.
func TestPurge(t *testing.T) {
	l := newList(&cluster{})
	_ = l.make(t, "once", 10, 20, on("n0"))
	_ = l.make(t, "daily", 10, 20, on("n1", "DAILY"))
	used := true
	purge := func(minute int64) []string {
		var names []string
		for _, r := range l.Purge(minute*60, func(*Reservation) (bool, bool) { return used, false }) {
			names = append(names, r.Name)
		}
		return names
	}
	if begins, changed := l.Tick(9 * 60); begins || changed {
		t.Error("something begins before the start")
	}
	if begins, changed := l.Tick(10 * 60); !begins || !changed {
		t.Error("nothing begins at the start")
	}
	l.Tick(21 * 60)
	if gone := purge(21); gone != nil || l.Find("daily").Start != (10+24*60)*60 {
		t.Errorf("gone are %v, and the daily one begins at %d", gone, l.Find("daily").Start)
	}
	used = false
	if gone := purge(22); !slices.Equal(gone, []string{"once"}) || l.Find("once") != nil {
		t.Errorf("gone are %v, want the one that has ended", gone)
	}
}

// TestReplace checks that nodes out of service are replaced if slurmctld chose them, but not if the
// request named them.
func TestReplace(t *testing.T) {
	c := &cluster{}
	l := newList(c)
	_ = l.make(t, "chosen", 10, 20, func(r *hpc.Reservation) { r.NodeCount = 2 })
	_ = l.make(t, "named", 10, 20, on("n[2-3]"))
	c.down = set(1, 2)
	l.Validate()
	if got := l.Find("chosen").Nodes; !got.Equal(set(0, 4)) {
		t.Errorf("the chosen nodes are %v, want n0 and n4", got)
	}
	if got := l.Find("named").Nodes; !got.Equal(set(2, 3)) {
		t.Errorf("the named nodes are %v, want n2 and n3", got)
	}
}

// TestAccounts checks that users of accounts below a listed account may use a reservation, and that
// a minus denies.
func TestAccounts(t *testing.T) {
	for _, c := range []struct {
		users, accounts []string
		want            bool
	}{
		{nil, []string{"physics"}, true},
		{nil, []string{"optics"}, true},
		{nil, []string{"biology"}, false},
		{nil, []string{"-physics"}, false},
		{nil, []string{"-biology"}, true},
		{[]string{"ann"}, []string{"physics"}, false}, // her association is in optics
		{[]string{"ann"}, []string{"optics"}, true},
		{[]string{"-ann"}, nil, false},
	} {
		r := Reservation{users: c.users, accounts: c.accounts}
		if got := r.Admits(Who{User: "ann", Accounts: []string{"optics", "physics", "root"}}); got != c.want {
			t.Errorf("users %v and accounts %v: %v, want %v", c.users, c.accounts, got, c.want)
		}
	}
}
