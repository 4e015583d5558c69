package replay_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/sim/policy"
	"rmreplay/internal/rm/window"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/session"
)

// schedule records when and where jobs ran: "old COMPLETED -3000-6000 n1".
type schedule struct {
	order []string
	lines map[string]string
}

func (s *schedule) Job(j *hpc.Job) error {
	s.order = append(s.order, j.ID)
	return nil
}

func (s *schedule) Event(ev rm.Event) error {
	if s.lines == nil {
		s.lines = map[string]string{}
	}
	switch {
	case ev.Kind == rm.Refused && ev.Job != "":
		s.lines[ev.Job] = "REJECTED " + ev.Reason
	case ev.Kind == rm.Ended && ev.Outcome.Start.IsZero():
		s.lines[ev.Job] = string(ev.Outcome.State)
	case ev.Kind == rm.Ended:
		o := ev.Outcome
		s.lines[ev.Job] = fmt.Sprintf("%s %g-%g %s", o.State, seconds(o.Start), seconds(o.End), o.Nodes)
	}
	return nil
}

const windowEpoch = hpc.Time(20000 * 24 * time.Hour)

func after(s int) hpc.Time          { return windowEpoch.Add(time.Duration(s) * time.Second) }
func seconds(t hpc.Time) float64    { return t.Sub(windowEpoch).Seconds() }
func named(name string) hpc.Request { return hpc.Request{User: name, Tasks: 4} }

// windowJob returns a job of four processors: one node of the tests' cluster.
func windowJob(id string, submit, run, limit int, change ...func(*hpc.Job)) *hpc.Job {
	j := &hpc.Job{ID: id, Submit: after(submit), Request: named("ann")}
	j.RunTime, j.TimeLimit = time.Duration(run)*time.Second, time.Duration(limit)*time.Second
	for _, c := range change {
		c(j)
	}
	return j
}

func on(nodes string) func(*hpc.Job) { return func(j *hpc.Job) { j.NodeList = nodes } }
func tasks(n int) func(*hpc.Job)     { return func(j *hpc.Job) { j.Tasks = n } }

// ran records a run in a job: its nodes, its start and its end.
func ran(nodes string, from, to int) func(*hpc.Job) {
	return func(j *hpc.Job) {
		j.Recorded = &hpc.Recorded{Start: after(from), End: after(to), Nodes: nodes}
		j.RunTime = time.Duration(to-from) * time.Second
	}
}

// failer has the common methods of testing.T and rapid.T.
type failer interface {
	Helper()
	Fatal(...any)
}

// simulateWindow plays a workload on four simulated nodes of four processors each.
func simulateWindow(t failer, w *workload.Workload, name string, change ...func(*sim.Config)) (string, replay.Result) {
	t.Helper()
	made, err := policy.New(name)
	if err != nil {
		t.Fatal(err)
	}
	cfg := sim.Config{Epoch: w.Begin(), Policy: made, Cluster: &sim.Cluster{}}
	for i := range 4 {
		cfg.Cluster.Nodes = append(cfg.Cluster.Nodes, hpc.Node{Name: fmt.Sprintf("n%d", i+1), CPUs: 4})
	}
	for _, c := range change {
		c(&cfg)
	}
	engine, err := sim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var s schedule
	result, err := replay.Rigid(context.Background(), engine, w, &s, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, j := range w.Jobs.All() {
		fmt.Fprintf(&b, "%s %s\n", j.ID, s.lines[j.ID])
	}
	return b.String(), result
}

// TestWindowOnSimulator checks that when the window begins, the simulated machine is in the
// recorded state under every policy. Preset jobs run on their recorded nodes since their recorded
// starts, even if other jobs have waited longer. No other job has started.
func TestWindowOnSimulator(t *testing.T) {
	w := &workload.Workload{Start: after(3600), Epoch: after(0)}
	w.Jobs = workload.JobsOf(
		// This job requests fewer processors than it got, and depends on an unknown job.
		windowJob("old", -5000, 0, 14400, ran("n1", -3000, 6000), func(j *hpc.Job) { j.Dependency, j.Begin = "afterok:gone", time.Hour }),
		// The first job waited for the whole machine, and the second for a free node.
		windowJob("all", -4000, 100, 200, tasks(16)),
		windowJob("pending", -3500, 60, 120, on("n4")),
		windowJob("two", 0, 0, 7200, tasks(4), ran("n[2-3]", 700, 5000)),
		// The recorded end is later than start + run time, because the job was suspended.
		windowJob("stopped", 100, 0, 7200, ran("n4", 800, 3700), func(j *hpc.Job) { j.EndAt = after(3650) }),
		windowJob("later", 4000, 60, 120, on("n4")),
	)
	for _, name := range policy.Names() {
		got, result := simulateWindow(t, w, name)
		want := `
old COMPLETED -3000-6000 n1
two COMPLETED 700-5000 n[2-3]
stopped COMPLETED 800-3650 n4`
		for _, line := range strings.Split(strings.TrimPrefix(want, "\n"), "\n") {
			if !strings.Contains(got, line+"\n") {
				t.Errorf("%s: no %q in\n%s", name, line, got)
			}
		}
		if len(result.LatePresets) != 0 || len(result.Undrained) != 0 {
			t.Errorf("%s: late %v, undrained %v", name, result.LatePresets, result.Undrained)
		}
		for _, line := range strings.Split(strings.TrimSpace(got), "\n") {
			var id, state string
			var start float64
			if n, _ := fmt.Sscanf(line, "%s %s %g-", &id, &state, &start); n == 3 && start < 3600 &&
				id != "old" && id != "two" && id != "stopped" {
				t.Errorf("%s: %s started before the window: %s", name, id, line)
			}
		}
	}
	got, _ := simulateWindow(t, w, "easy")
	want := `old COMPLETED -3000-6000 n1
all COMPLETED 6000-6100 n[1-4]
pending COMPLETED 3650-3710 n4
two COMPLETED 700-5000 n[2-3]
stopped COMPLETED 800-3650 n4
later COMPLETED 4000-4060 n4
`
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("easy (-want +got)\n%s", diff)
	}
}

// TestWindowDependencies checks that a job that depends on a preset job is submitted at the start
// of that job, and waits for its end.
func TestWindowDependencies(t *testing.T) {
	depends := func(on string) func(*hpc.Job) { return func(j *hpc.Job) { j.Dependency = on } }
	w := &workload.Workload{Start: after(3600), Epoch: after(0)}
	w.Jobs = workload.JobsOf(
		windowJob("preset", 0, 0, 7200, ran("n1", 500, 4000), func(j *hpc.Job) { j.Name = "chain" }),
		windowJob("next", 100, 60, 120, depends("afterok:preset")),
		windowJob("last", 150, 60, 120, depends("afterany:next")),
		windowJob("only", 200, 60, 120, depends("singleton"), func(j *hpc.Job) { j.Name = "chain" }),
		windowJob("free", 250, 60, 120),
	)
	got, result := simulateWindow(t, w, "easy")
	want := `preset COMPLETED 500-4000 n1
next COMPLETED 4000-4060 n1
last COMPLETED 4060-4120 n1
only COMPLETED 4000-4060 n2
free COMPLETED 3600-3660 n2
`
	if diff := gocmp.Diff(want, got); diff != "" || len(result.Rejected) != 0 {
		t.Errorf("rejected %v (-want +got)\n%s", result.Rejected, diff)
	}
}

func TestBeforeWindow(t *testing.T) {
	w := &workload.Workload{Start: after(0), Epoch: after(-7200)}
	w.Jobs = workload.JobsOf(windowJob("running", -7200, 60, 14400, ran("n1", -3600, 60)), windowJob("later", 60, 60, 120))
	got := replay.BeforeWindow(w)
	if want := "plays 2024-10-03 22:59 UTC to 2024-10-04 00:00 UTC before the window, to start the 1\u00a0job that runs when the window begins"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	w.Start = 0
	if got := replay.BeforeWindow(w); got != "" {
		t.Errorf("without a window: %q", got)
	}
}

// TestPresetsThatRunLonger checks that a preset job that was suspended ends at its recorded end.
// The result must name a preset job that no longer runs when the window begins.
func TestPresetsThatRunLonger(t *testing.T) {
	w := &workload.Workload{Start: after(3600), Epoch: after(0)}
	w.Jobs = workload.JobsOf(
		windowJob("suspended", 0, 0, 3600, ran("n1", 500, 6000), func(j *hpc.Job) { j.RunTime = 3000 * time.Second }),
		windowJob("over", 0, 0, 1800, ran("n2", 600, 5000)),
	)
	got, result := simulateWindow(t, w, "easy")
	want := `suspended COMPLETED 500-6000 n1
over TIMEOUT 600-2400 n2
`
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if diff := gocmp.Diff([]string{"over"}, result.LatePresets); diff != "" {
		t.Errorf("presets that do not run (-want +got)\n%s", diff)
	}
}

// TestJitterLeavesPresets checks that jitter moves neither the start of a preset job nor its
// cancellation, which counts from its recorded submission.
func TestJitterLeavesPresets(t *testing.T) {
	w := &workload.Workload{Start: after(3600), Epoch: after(0)}
	w.Jobs = workload.JobsOf(windowJob("old", 0, 0, 9000, ran("n1", 500, 6000), func(j *hpc.Job) { j.CancelAfter = 5000 * time.Second }),
		windowJob("new", 3700, 60, 60, func(j *hpc.Job) { j.CancelAfter = 30 * time.Second }))
	moved := false
	for seed := range uint64(5) {
		controller, err := replay.NewController(w, replay.Feedback{Jitter: time.Minute, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		made, err := policy.New("easy")
		if err != nil {
			t.Fatal(err)
		}
		engine, err := sim.New(sim.Config{Epoch: w.Begin(), Policy: made, Cluster: &sim.Cluster{Nodes: []hpc.Node{{Name: "n1", CPUs: 4}, {Name: "n2", CPUs: 4}}}})
		if err != nil {
			t.Fatal(err)
		}
		var s schedule
		if _, err := replay.Play(context.Background(), engine, w, controller, &s, replay.Options{}); err != nil {
			t.Fatal(err)
		}
		if got, want := s.lines["old"], "CANCELLED 500-5000 n1"; got != want {
			t.Errorf("seed %d: %s, want %s", seed, got, want)
		}
		moved = moved || s.lines["new"] != "CANCELLED 3700-3730 n2"
	}
	if !moved {
		t.Error("jitter moved no job")
	}
}

// TestRejected checks that a rejected job without a record counts as a job that should have run,
// and a job that never ran does not. A job that was also rejected in the record is not reported. Each
// task of a rejected array counts.
func TestRejected(t *testing.T) {
	never := func(state hpc.State) func(*hpc.Job) {
		return func(j *hpc.Job) { j.Recorded = &hpc.Recorded{State: state} }
	}
	w := &workload.Workload{Epoch: after(0), Jobs: workload.JobsOf(
		windowJob("large", 0, 60, 60, tasks(100)),
		windowJob("ran", 1, 60, 60, tasks(100), ran("n1", 5, 60)),
		windowJob("cancelled", 2, 60, 60, tasks(100), never(hpc.Cancelled)),
		windowJob("then", 3, 60, 60, tasks(100), never(hpc.Rejected)),
		windowJob("small", 4, 60, 60),
		windowJob("array", 5, 60, 60, tasks(100), func(j *hpc.Job) {
			j.Array = "1-3"
			j.Recorded = &hpc.Recorded{Start: after(5), TaskStarts: map[int]hpc.Time{1: after(5), 3: after(6)}}
		}),
	)}
	_, result := simulateWindow(t, w, "easy")
	if len(result.Rejected) != 4 || replay.RejectedJobs(result.Rejected) != 6 || replay.RejectedJobs(result.Missing) != 4 || result.Refused != 7 {
		t.Errorf("rejected %v, missing %v, %d refused; want 4 submissions with 6 jobs, 4 missing, 7", result.Rejected, result.Missing, result.Refused)
	}
}

// TestReservationsOfWindow has reservations in a workload with a window. A reservation that is
// made before the window begins gets its nodes, although the replay has reserved all nodes until
// then. A preset job that was recorded in a reservation runs. A preset job also continues to run
// when a later reservation begins.
func TestReservationsOfWindow(t *testing.T) {
	w := &workload.Workload{Start: after(3600), Epoch: after(0)}
	reserve := func(at int, r hpc.Reservation) {
		w.Reservations = append(w.Reservations, hpc.ReservationEvent{At: after(at), Action: "create", Reservation: r})
	}
	w.Jobs = workload.JobsOf(
		windowJob("inside", 0, 0, 7200, ran("n1", 500, 4000), func(j *hpc.Job) { j.Reservation = "old" }),
		windowJob("into", 0, 0, 14400, ran("n2", 600, 5500)),
		windowJob("course", 3700, 600, 900, func(j *hpc.Job) { j.Reservation, j.User = "course", "ben" }),
		windowJob("other", 3700, 600, 2000, on("n4")),
		windowJob("second", 3700, 600, 900, func(j *hpc.Job) { j.Reservation, j.User = "two", "ben" }),
	)
	reserve(100, hpc.Reservation{Name: "old", Start: after(200), Duration: time.Hour, Nodes: "n1", Users: []string{"ann"}})
	reserve(1200, hpc.Reservation{Name: "course", Start: after(4500), Duration: time.Hour, Nodes: "n4", Users: []string{"ben"}})
	// "two" gets nodes of n2 and n3, because the others are reserved at that time. A job runs on
	// n2.
	reserve(1300, hpc.Reservation{Name: "two", Start: after(3000), Duration: time.Hour, NodeCount: 2, Users: []string{"ben"}})
	got, result := simulateWindow(t, w, "easy")
	want := `inside COMPLETED 500-4000 n1
into COMPLETED 600-5500 n2
course COMPLETED 4500-5100 n4
other COMPLETED 8100-8700 n4
second COMPLETED 3700-4300 n3
`
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if len(result.LatePresets) != 0 {
		t.Errorf("late: %v", result.LatePresets)
	}
}

// TestReservationsBeforeWindow checks that reservations that exist when the window begins are made
// when the clock starts, in their state at the window's begin. Preset jobs are then not in their
// way, and pending jobs can name them.
func TestReservationsBeforeWindow(t *testing.T) {
	event := func(at int, action, name string, start, length int, nodes string, flags ...string) hpc.ReservationEvent {
		r := hpc.Reservation{Name: name, Duration: time.Duration(length) * time.Second, Nodes: nodes, Flags: flags}
		if start != 0 {
			r.Start = after(start)
		}
		if nodes == "" && action == "create" {
			r.NodeCount = 2
		}
		return hpc.ReservationEvent{At: after(at), Action: action, Reservation: r}
	}
	w := &workload.Workload{Start: after(3600), Epoch: after(0)}
	w.Jobs = workload.JobsOf(
		windowJob("preset", 0, 0, 7200, ran("n1", 510, 4000)), // so that the clock starts at 500
		windowJob("waits", 1000, 60, 60, func(j *hpc.Job) { j.Reservation = "named" }),
	)
	for name, tt := range map[string]struct {
		events []hpc.ReservationEvent
		want   string
	}{
		"without an end in sight": {[]hpc.ReservationEvent{event(0, "create", "r", 600, int(hpc.Unlimited/time.Second), "n1")}, "500 create r 600+9223372036 [IGNORE_JOBS]"},
		"from before the clock":   {[]hpc.ReservationEvent{event(3600, "create", "r", -500, 9000, "n1")}, "500 create r 500+8000 [IGNORE_JOBS]"},
		"for later":               {[]hpc.ReservationEvent{event(3600, "create", "r", 9000, 60, "n1", "FLEX")}, "500 create r 9000+60 [FLEX IGNORE_JOBS]"},
		"maintenance":             {[]hpc.ReservationEvent{event(900, "create", "r", 1000, 9000, "n1", "MAINT")}, "500 create r 3600+6400 [MAINT IGNORE_JOBS]"},
		"ends when unused":        {[]hpc.ReservationEvent{event(900, "create", "r", 1000, 9000, "n1", "PURGE_COMP=5:00")}, "500 create r 3600+6400 [PURGE_COMP=5:00 IGNORE_JOBS]"},
		"every day":               {[]hpc.ReservationEvent{event(900, "create", "r", 400, 9000, "n1", "DAILY")}, "500 create r 400+9000 [DAILY IGNORE_JOBS]"},
		"every day, long since":   {[]hpc.ReservationEvent{event(900, "create", "r", -200_000, 9000, "n1", "DAILY")}, "500 create r 59200+9000 [DAILY IGNORE_JOBS]"},
		"every week, long since":  {[]hpc.ReservationEvent{event(900, "create", "r", -1_000_000, 9000, "n1", "WEEKLY")}, "500 create r 209600+9000 [WEEKLY IGNORE_JOBS]"},
		"floating":                {[]hpc.ReservationEvent{event(900, "create", "r", 1500, 60, "n1", "TIME_FLOAT"), event(2000, "create", "s", 4000, 60, "n1")}, "500 create r 1100+60 [TIME_FLOAT IGNORE_JOBS]; 500 create s 4000+60 [IGNORE_JOBS]"},
		"nodes of its choice":     {[]hpc.ReservationEvent{event(900, "create", "r", 1000, 9000, "")}, "900 create r 3600+6400 []"},
		"a job names it":          {[]hpc.ReservationEvent{event(1001, "create", "named", 9000, 60, "")}, "500 create named 9000+60 []"},
		"over":                    {[]hpc.ReservationEvent{event(0, "create", "r", 600, 3000, "n1"), event(5000, "delete", "r", 0, 0, "")}, ""},
		"deleted":                 {[]hpc.ReservationEvent{event(0, "create", "r", 600, 9000, "n1"), event(800, "delete", "r", 0, 0, ""), event(4000, "create", "r", 5000, 60, "n2")}, "4000 create r 5000+60 []"},
		"changed": {[]hpc.ReservationEvent{
			event(0, "create", "r", 600, 3000, "n1", "FLEX", "MAINT"), event(800, "update", "r", 0, 6000, "n2", "-MAINT"), event(4000, "update", "r", 0, 9000, ""),
		}, "500 create r 600+6000 [FLEX IGNORE_JOBS]; 4000 update r 0+9000 []"},
		"cut and changed": {[]hpc.ReservationEvent{event(0, "create", "r", 100, 6000, "n1"), event(4000, "update", "r", 0, 9000, "")}, "500 create r 500+5600 [IGNORE_JOBS]; 4000 update r 0+8600 []"},
	} {
		w.Reservations = tt.events
		var got []string
		for _, ev := range window.Reservations(replay.NewWindow(w)) {
			start := 0.0
			if ev.Start != 0 {
				start = seconds(ev.Start)
			}
			got = append(got, fmt.Sprintf("%g %s %s %g+%d %v", seconds(ev.At), ev.Action, ev.Name, start, int(ev.Duration.Seconds()), ev.Flags))
		}
		if diff := gocmp.Diff(tt.want, strings.Join(got, "; ")); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// TestPresetsOnSimulator checks that preset jobs run as recorded and that no other job runs before
// the window, with any pending jobs, any reservations and every policy.
func TestPresetsOnSimulator(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &workload.Workload{Start: after(3600), Epoch: after(0)}
		presets := map[string]string{}
		seconds := func(name string, from, to int) int { return rapid.IntRange(from, to).Draw(rt, name) }
		for node := 1; node <= 4; node++ {
			from, to := seconds("from", -5000, 3599), seconds("to", 3601, 9000)
			limit := to - from + seconds("slack", 0, 5000)
			on := fmt.Sprintf("n%d", node)
			if rapid.Bool().Draw(rt, "busy") {
				w.Jobs.Append(windowJob("preset"+on, from-seconds("waited", 0, 5000), 0, limit, ran(on, from, to), tasks(seconds("tasks", 1, 4))))
				presets["preset"+on] = fmt.Sprintf("COMPLETED %d-%d %s", from, to, on)
			}
		}
		for i := range seconds("jobs", 0, 12) {
			run := seconds("run", 1, 3000)
			j := windowJob(fmt.Sprint("job", i), seconds("submit", -9000, 6000), run, run+seconds("spare", 0, 600), tasks(seconds("size", 1, 16)))
			if rapid.IntRange(0, 4).Draw(rt, "reserved") == 0 {
				j.Reservation = "r"
			}
			w.Jobs.Append(j)
		}
		w.Jobs.Sort()
		for _, name := range []string{"r", "other"} {
			r := hpc.Reservation{Name: name, Start: after(seconds("start", -4000, 8000)), Duration: time.Duration(seconds("for", 60, 6000)) * time.Second, Users: []string{"ann"}}
			if r.NodeCount = seconds("nodes", 0, 4); r.NodeCount == 0 {
				r.Nodes = "n[2-3]"
			}
			w.Reservations = append(w.Reservations, hpc.ReservationEvent{At: after(seconds("made", -9000, 5000)), Action: "create", Reservation: r})
		}
		name := rapid.SampledFrom(policy.Names()).Draw(rt, "policy")
		got, result := simulateWindow(rt, w, name)
		if len(result.LatePresets) > 0 {
			rt.Errorf("late: %v", result.LatePresets)
		}
		for line := range strings.Lines(got) {
			id, what, _ := strings.Cut(strings.TrimSpace(line), " ")
			var state string
			var start float64
			if want, preset := presets[id]; preset && what != want {
				rt.Errorf("%s: %s %s, want %s\n%s", name, id, what, want, got)
			} else if n, _ := fmt.Sscanf(what, "%s %g-", &state, &start); !preset && n == 2 && start < 3600 {
				rt.Errorf("%s: %s started before the window: %s\n%s", name, id, what, got)
			}
		}
	})
}

// TestLatePresetOnSimulator checks that a preset job does not run while its node is out of service,
// that the result reports this, and that the job runs when the node returns.
func TestLatePresetOnSimulator(t *testing.T) {
	w := &workload.Workload{Start: after(600), Epoch: after(0)}
	w.Jobs = workload.JobsOf(windowJob("lost", 0, 0, 900, ran("n1", 100, 1000)))
	w.NodeEvents = []hpc.NodeEvent{{At: after(50), Nodes: "n1", State: "down"}, {At: after(700), Nodes: "n1", State: "resume"}}
	got, result := simulateWindow(t, w, "fcfs")
	if diff := gocmp.Diff("lost COMPLETED 700-1000 n1\n", got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if diff := gocmp.Diff([]string{"lost"}, result.LatePresets); diff != "" {
		t.Errorf("late (-want +got)\n%s", diff)
	}
}

// TestWindowWithFeedback checks that users do not decide about preset jobs, but that users who
// waited for a preset job submit after its end. A faster machine must change the starts in the
// window, but not the jobs that ran when it began.
func TestWindowWithFeedback(t *testing.T) {
	w := &workload.Workload{Start: after(3600), Epoch: after(0)}
	w.Jobs = workload.JobsOf(
		windowJob("preset", 0, 0, 9000, ran("n1", 500, 5000)),
		windowJob("next", 9000, 600, 900, func(j *hpc.Job) { j.Recorded = &hpc.Recorded{Start: after(9000), End: after(9600)} }),
		windowJob("last", 20000, 600, 900, func(j *hpc.Job) { j.Recorded = &hpc.Recorded{Start: after(20000), End: after(20600)} }),
	)
	controller, err := replay.NewController(w, replay.Feedback{Model: replay.ThinkTime, Sessions: session.Default})
	if err != nil {
		t.Fatal(err)
	}
	cfg := sim.Config{Epoch: w.Begin(), Policy: policy.EASY, Cluster: &sim.Cluster{Nodes: []hpc.Node{{Name: "n1", CPUs: 4}}}}
	engine, err := sim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	controller = replay.Rewriting(controller, replay.Performance(2))
	var s schedule
	if _, err := replay.Play(context.Background(), engine, w, controller, &s, replay.Options{}); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{
		"preset": "COMPLETED 500-5000 n1", "next": "COMPLETED 9000-9300 n1", "last": "COMPLETED 19700-20000 n1",
	} {
		if s.lines[id] != want {
			t.Errorf("%s: %s, want %s", id, s.lines[id], want)
		}
	}
}

// TestPerformance checks that processors of double speed halve run times, including run times of
// single tasks, but change neither time limits nor endless jobs. Processors half as fast must make
// jobs reach their limits.
func TestPerformance(t *testing.T) {
	w := &workload.Workload{Epoch: after(0)}
	for i := range 20 {
		w.Jobs.Append(windowJob(fmt.Sprint(i), 100*i, 300+50*i, 900, tasks(1+i%16)))
	}
	w.Jobs.Change(3, func(j *hpc.Job) { j.Array, j.TaskRunTimes = "1-3", map[int]time.Duration{2: 700 * time.Second} })
	w.Jobs.Change(4, func(j *hpc.Job) { j.RunTime = hpc.Unlimited })
	for _, factor := range []float64{0.5, 2} {
		byHand := &workload.Workload{Epoch: w.Epoch}
		for _, job := range w.Jobs.List() {
			if job.RunTime != hpc.Unlimited {
				job.RunTime = time.Duration(float64(job.RunTime) / factor)
			}
			for task, d := range job.TaskRunTimes {
				job.TaskRunTimes[task] = time.Duration(float64(d) / factor)
			}
			byHand.Jobs.Append(job)
		}
		want := playOnNodes(t, byHand, replay.NewRigid(byHand))
		got := playOnNodes(t, w, replay.Rewriting(replay.NewRigid(w), replay.Performance(factor)))
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("performance %g (-by hand +rewritten)\n%s", factor, diff)
		}
		if factor == 2 && !strings.Contains(got, "0:COMPLETED 0-150 ") {
			t.Errorf("the first job does not take 150 s: %s", got)
		}
		if factor == 0.5 && !strings.Contains(got, "TIMEOUT") {
			t.Errorf("no job reaches its time limit: %s", got)
		}
	}
	if w.Jobs.At(0).RunTime != 300*time.Second || w.Jobs.At(3).TaskRunTimes[2] != 700*time.Second {
		t.Error("the workload is another one now")
	}
}

// TestTwiceRunTime checks that jobs with limits of twice the run time are not killed, even on
// processors half as fast. A higher limit stays, and so does the limit of a job that only its limit
// ends.
func TestTwiceRunTime(t *testing.T) {
	w := &workload.Workload{Epoch: after(0), Jobs: workload.JobsOf(
		windowJob("short", 0, 600, 300), windowJob("long", 0, 600, 7200), windowJob("endless", 0, 600, 60),
	)}
	w.Jobs.Change(2, func(j *hpc.Job) { j.RunTime = hpc.Unlimited; j.CancelAfter = 0 })
	var limits []time.Duration
	for _, job := range w.Jobs.List() {
		replay.TwiceRunTime(job)
		limits = append(limits, job.TimeLimit)
	}
	if diff := gocmp.Diff([]time.Duration{1200 * time.Second, 7200 * time.Second, 60 * time.Second}, limits); diff != "" {
		t.Errorf("limits (-want +got)\n%s", diff)
	}
	w.Jobs = workload.JobsOf(w.Jobs.At(0), w.Jobs.At(1))
	got := playOnNodes(t, w, replay.Rewriting(replay.NewRigid(w), replay.TwiceRunTime, replay.Performance(0.5)))
	if strings.Contains(got, "TIMEOUT") || strings.Count(got, "COMPLETED 0-1200 ") != 2 {
		t.Error(got)
	}
}

// playOnNodes simulates a workload on four nodes of four processors, and returns the schedule.
func playOnNodes(t *testing.T, w *workload.Workload, controller replay.Controller) string {
	t.Helper()
	cfg := sim.Config{Epoch: w.Epoch, Policy: policy.EASY, Cluster: &sim.Cluster{}}
	for i := range 4 {
		cfg.Cluster.Nodes = append(cfg.Cluster.Nodes, hpc.Node{Name: fmt.Sprintf("n%d", i+1), CPUs: 4})
	}
	engine, err := sim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var s schedule
	if _, err := replay.Play(context.Background(), engine, w, controller, &s, replay.Options{}); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(s.lines)
}
