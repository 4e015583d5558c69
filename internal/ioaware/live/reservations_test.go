package live

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/ioaware"
	"rmreplay/internal/ioaware/driver"
)

// TestLiveReservations: on a live Slurm, the driver starts no job on idle nodes that a reservation
// takes before the job's limit. Nodes of a job that runs in a reservation count once.
func TestLiveReservations(t *testing.T) {
	for _, release := range []string{"", "24.11", "26.05"} {
		t.Run("Slurm "+release, func(t *testing.T) { reserve(t, release) })
	}
}

func reserve(t *testing.T, release string) {
	s := startSite(t, release)
	scontrol := func(args ...string) {
		t.Helper()
		if _, err := Exec(t.Context(), "scontrol", args...); err != nil {
			t.Fatal(err)
		}
	}
	defer func() { // all jobs must end before their slurmd does
		if _, err := Exec(t.Context(), "scancel", "--partition=batch"); err != nil {
			t.Error(err)
		}
		s.Until("no job is left", func() bool { return len(s.queue()) == 0 })
	}()
	c := New(Config{Partitions: []string{"batch"}, FileSystem: "lustre", Run: Exec, Now: now, Say: t.Logf})
	d := &driver.Driver{Options: ioaware.Options{Strategy: ioaware.Aware}, Patience: time.Hour}
	released := func() []string {
		t.Helper()
		round, err := c.Round(t.Context(), d)
		if err != nil || round.Failed != nil || len(round.Held) > 0 || c.blind {
			t.Errorf("a round: %v, %v, held %q", err, round.Failed, round.Held)
		}
		return round.Released
	}
	// Of nine idle nodes, two are reserved now, and six in half an hour: four that are named and
	// two that slurmctld chooses.
	scontrol("create", "reservation", "reservation=now", "starttime=now", "duration=120", "nodes=n[1-2]", "users=root", "flags=maint,ignore_jobs")
	scontrol("create", "reservation", "reservation=later", "starttime=now+30minutes", "duration=60", "nodes=n[3-6]", "users=root")
	scontrol("create", "reservation", "reservation=chosen", "starttime=now+30minutes", "duration=60", "nodecnt=2", "partitionname=batch", "users=root")
	scontrol("create", "reservation", "reservation=tokens", "starttime=now", "duration=60", "licenses=lustre:1", "users=root", "flags=license_only")
	within := s.submit("60", "--reservation=now", "--uid=0", "--nodes=1", "--time=60")
	s.Until("the job of the reservation runs", func() bool { return s.field(within, "JobState") == "RUNNING" })
	s.Until("sinfo shows the reservation", func() bool { return strings.Contains(s.states(), "maint") })

	wide := s.submit("60", "--nodes=8", "--time=1")  // only seven nodes are idle and not reserved now
	long := s.submit("60", "--nodes=2", "--time=60") // only one idle node stays unreserved for an hour
	small := s.submit("60", "--nodes=1", "--time=60")
	short := s.submit("60", "--nodes=6", "--time=10")
	if got, want := released(), []string{small, short}; !slices.Equal(got, want) {
		t.Errorf("released %q, want %q; held %s and %s", got, want, wide, long)
	}
	s.Until("the released jobs run", func() bool {
		return s.field(small, "JobState") == "RUNNING" && s.field(short, "JobState") == "RUNNING"
	})
	if got := released(); len(got) > 0 {
		t.Errorf("on a full machine: released %q", got)
	}
	scontrol("delete", "reservation=later")
	if _, err := Exec(t.Context(), "scancel", small, short); err != nil {
		t.Fatal(err)
	}
	s.Until("the nodes are idle", func() bool { return strings.Count(s.states(), "idle") == 8 })
	if got, want := released(), []string{long}; !slices.Equal(got, want) {
		t.Errorf("after the reservation: released %q, want %q", got, want)
	}
	s.Until("the job runs", func() bool { return s.field(long, "JobState") == "RUNNING" })
}

// states returns the states of the nodes.
func (s *site) states() string {
	out, err := Exec(s.t.Context(), "sinfo", "-h", "-N", "-o", "%T")
	if err != nil {
		s.t.Fatal(err)
	}
	return string(out)
}

// TestReadReservations reads the outputs of scontrol of three releases.
func TestReadReservations(t *testing.T) {
	for release, begin := range map[string]string{"22.05": "13:50:48", "24.11": "13:50:55", "26.05": "13:51:02"} {
		text, err := os.ReadFile("testdata/reservations-" + release + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.DateTime, "2026-11-23 "+begin)
		if err != nil {
			t.Fatal(err)
		}
		now := hpc.Unix(at.Unix())
		after := func(minutes int) hpc.Time { return now.Add(time.Duration(minutes) * time.Minute) }
		want := []driver.Reservation{
			{Begin: now, End: after(120), Nodes: []string{"n1", "n2"}},
			{Begin: after(30), End: after(90), Nodes: []string{"n3", "n4", "n5", "n6"}},
			{Begin: after(30), End: after(90), Nodes: []string{"n7", "n8"}},
		}
		for _, c := range []struct {
			what, text string
			now        hpc.Time
			want       []driver.Reservation
		}{
			{"unchanged text", string(text), after(1), want},
			{"when two have ended", string(text), after(90), want[:1]},
			{"unknown keys and flags", strings.NewReplacer("Flags=", "Flags=TELEPORT,", "MaxStartDelay", "Colour=(null) MaxStartDelay").Replace(string(text)), after(1), want},
			{"with a comment", strings.ReplaceAll(string(text), "MaxStartDelay=(null)", "MaxStartDelay=(null) Comment=Nodes=n9 for EndTime=never"), after(1), want},
		} {
			got, err := readReservations([]byte(c.text), c.now)
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("%s, %s: %v (-want +got)\n%s", release, c.what, err, diff)
			}
		}
		for cut := range text { // no cut output may pass for a whole one
			got, err := readReservations(text[:cut], after(1))
			if err == nil && text[max(cut-1, 0)] != '\n' {
				t.Errorf("%s, cut off after %d bytes: %d reservations", release, cut, len(got))
			}
		}
	}
}

func TestReadReservationsRefuses(t *testing.T) {
	if list, err := readReservations([]byte("No reservations in the system\n"), 0); len(list) > 0 || err != nil {
		t.Errorf("none: %v, %v", list, err)
	}
	const line = "ReservationName=x StartTime=2026-11-23T14:00:00 EndTime=2026-11-23T15:00:00 Nodes=n1"
	for _, bad := range []string{
		"", "\n\x00\n", "slurm_load_reservations error: Unable to contact slurm controller\n", line, "ReservationName=x\n",
		strings.Replace(line, "2026-11-23T15:00:00", "Unknown", 1) + "\n", strings.Replace(line, "=2026-11-23T14", "=2026-13-23T14", 1) + "\n",
		strings.Replace(line, "n1", "n[1-", 1) + "\n", strings.Replace(line, "n1", "n[1-99999999]", 1) + "\n",
		line + "\n" + strings.Replace(line, "n1", "n[2-1]", 1) + "\n",
	} {
		if list, err := readReservations([]byte(bad), hpc.Unix(500)); err == nil {
			t.Errorf("%q: %+v, no error", bad, list)
		}
	}
}

func FuzzReadReservations(f *testing.F) {
	files, err := filepath.Glob("testdata/reservations-*.txt")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	nodes := members{"batch": {"n1": true, "n2": true, "n7": true}}
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := readReservations(text, hpc.Unix(500))
		if err != nil {
			return
		}
		for _, r := range driver.Book(list).Reserved(nodes.count) {
			if r.From >= r.Until || r.Nodes < 0 || r.Nodes > 3 {
				t.Errorf("%q: %+v", text, r)
			}
		}
	})
}

// reservation returns the line that scontrol prints of a reservation. begin and end are seconds
// since 1970 in UTC.
func reservation(name string, begin, end int, nodes string) string {
	at := func(s int) string { return hpc.Unix(int64(s)).Std().UTC().Format("2006-01-02T15:04:05") }
	return fmt.Sprintf("ReservationName=%s StartTime=%s EndTime=%s Nodes=%s NodeCnt=1\n", name, at(begin), at(end), nodes)
}

// TestRoundWithReservations: one of four nodes is drained, and job 1 runs on one of the nodes.
func TestRoundWithReservations(t *testing.T) {
	const jobs = `{"jobs": [
 {"job_id": 1, "partition": "batch", "job_state": "RUNNING", "user_id": 1000, "node_count": %d, "nodes": %q, "time_limit": 60, "end_time": 4000},
 {"job_id": 2, "partition": "batch", "job_state": "PENDING", "user_id": 1000, "node_count": %d, "time_limit": 60, "priority": 0, "admin_comment": "rmreplay-io=held;"}]}`
	for _, c := range []struct {
		what, nodes  string // of the running job
		wants        int
		reservations string
		starts       bool
	}{
		{"no reservation", "n1", 2, "No reservations in the system\n", true},
		{"too many nodes", "n1", 3, "No reservations in the system\n", false},
		{"reservation under way", "n1", 2, reservation("a", 100, 9000, "n2"), false},
		{"reservation that has ended", "n1", 2, reservation("a", 100, 500, "n2"), true},
		{"reservation that begins during the job", "n1", 2, reservation("a", 1000, 9000, "n2"), false},
		{"reservation after the job's end", "n1", 2, reservation("a", 6000, 9000, "n2"), true},
		{"nodes of the running job", "n1", 2, reservation("a", 100, 9000, "n1"), true},
		{"the drained node", "n1", 2, reservation("a", 100, 9000, "n4"), true},
		{"reservation of other nodes", "n1", 2, reservation("a", 100, 9000, "x[1-50]"), true},
		{"two reservations on one node", "n1", 1, reservation("a", 100, 9000, "n2") + reservation("b", 400, 800, "n2"), true},
		{"a job on the drained node", "n4", 3, "No reservations in the system\n", true},
		{"not readable", "n1", 2, "ReservationName=a StartTime=soon\n", true},
	} {
		s := &slurm{jobs: fmt.Sprintf(jobs, 1, c.nodes, c.wants), sinfo: "n1 allocated batch\nn2 reserved batch\nn3 maint batch\nn4 draining batch\n", licenses: licenseLine, reservations: c.reservations}
		var said []string
		cluster := s.cluster(func(config *Config) {
			config.Say = func(f string, args ...any) { said = append(said, fmt.Sprintf(f, args...)) }
		})
		d := &driver.Driver{Options: ioaware.Options{Strategy: ioaware.Aware}, Patience: time.Minute}
		round, err := cluster.Round(t.Context(), d)
		if starts := len(round.Released) == 1; err != nil || starts != c.starts {
			t.Errorf("%s: released %q, %v, want a start: %t", c.what, round.Released, err, c.starts)
		}
		if _, err := cluster.Round(t.Context(), d); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		bad := c.what == "not readable"
		if len(said) > 1 || bad != (len(said) == 1 && strings.Contains(said[0], "StartTime=soon")) {
			t.Errorf("%s: said %q", c.what, said)
		}
	}
}
