package replay

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/workload"
)

// fake is a resource manager that records its inputs and never starts a job.
type fake struct {
	rm.ResourceManager
	now  hpc.Time
	told []string
}

func (f *fake) Submit(j *hpc.Job) error        { f.told = append(f.told, "submit "+j.ID); return nil }
func (f *fake) Do(c rm.Command) error          { f.told = append(f.told, c.String()+" "+c.Job); return nil }
func (f *fake) SetNode(ev hpc.NodeEvent) error { f.told = append(f.told, "node "+ev.Nodes); return nil }
func (f *fake) Reserve(ev hpc.ReservationEvent) error {
	f.told = append(f.told, "reserve "+ev.Name)
	return nil
}
func (f *fake) Can() rm.Capabilities {
	return rm.Capabilities{Name: "the fake", Commands: []rm.CommandKind{rm.Cancel, rm.Hold}}
}
func (f *fake) PlanWindow(rm.Window) ([]hpc.ReservationEvent, error) { return nil, nil }
func (f *fake) BeginWindow() error                                   { return nil }
func (f *fake) Now() hpc.Time                                        { return f.now }
func (f *fake) Job(*hpc.Job) error                                   { return nil }
func (f *fake) Event(rm.Event) error                                 { return nil }
func (f *fake) AdvanceTo(ctx context.Context, t hpc.Time) ([]rm.Event, error) {
	f.now = max(f.now, t)
	return nil, ctx.Err()
}

// TestRigidOrderAndDrain checks that inputs of one instant are in the order of their class, then of
// the workload. The replay must give up jobs that stay pending for ever, and name them.
func TestRigidOrderAndDrain(t *testing.T) {
	const at = 10 * hpc.Second
	w := &workload.Workload{
		Jobs: workload.JobsOf([]*hpc.Job{
			{ID: "b", Submit: at - hpc.Second, Behaviour: hpc.Behaviour{CancelAfter: time.Second}},
			{ID: "c", Submit: at}, {ID: "a", Submit: at, Request: hpc.Request{Array: "1-3"}},
		}...),
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

// scripted is a resource manager with given events at given times.
type scripted struct {
	fake
	events []rm.Event
}

func (s *scripted) AdvanceTo(ctx context.Context, t hpc.Time) ([]rm.Event, error) {
	if len(s.events) > 0 && s.events[0].At <= t {
		ev := s.events[0]
		s.events = s.events[1:]
		s.now = max(s.now, ev.At)
		return []rm.Event{ev}, ctx.Err()
	}
	return s.fake.AdvanceTo(ctx, t)
}

// happens makes an event. started says whether the job had started when it ended.
func happens(at int, kind rm.EventKind, job string, task int, started bool) rm.Event {
	ev := rm.Event{At: hpc.Time(at) * hpc.Second, Kind: kind, Job: job, Task: task, Outcome: &rm.Outcome{}}
	if started {
		ev.Outcome.Start = hpc.Second
	}
	return ev
}

// TestCounts checks the loop's counts with requeues, refused arrays, and jobs cancelled before
// their start. Every job must end exactly once, and a replay must end with the last job.
func TestCounts(t *testing.T) {
	array := hpc.Request{Array: "1-3"}
	for name, tt := range map[string]struct {
		job    hpc.Job
		events []rm.Event
		want   Progress
		now    int
		told   []string
	}{
		"requeue": {
			events: []rm.Event{
				happens(2, rm.Accepted, "j", -1, false), happens(3, rm.Started, "j", -1, true), happens(5, rm.Requeue, "j", -1, true),
				happens(100, rm.Started, "j", -1, true), happens(110, rm.Ended, "j", -1, true),
			},
			want: Progress{Submitted: 1, Ended: 1}, now: 110, told: []string{"submit j"},
		},
		"refused array": {
			job:    hpc.Job{Request: array},
			events: []rm.Event{happens(2, rm.Refused, "j", -1, false)},
			want:   Progress{Submitted: 3, Refused: 3}, now: 2, told: []string{"submit j"},
		},
		"array of which one task never starts": {
			job: hpc.Job{Request: array},
			events: []rm.Event{
				happens(2, rm.Started, "j", 1, true), happens(3, rm.Started, "j", 2, true), happens(4, rm.Ended, "j", 1, true),
				happens(5, rm.Ended, "j", 3, false), happens(6, rm.Ended, "j", 2, true),
			},
			want: Progress{Submitted: 3, Ended: 3}, now: 6, told: []string{"submit j"},
		},
		"cancelled when it is over": {
			job:    hpc.Job{Behaviour: hpc.Behaviour{CancelAfter: 20 * time.Second}},
			events: []rm.Event{happens(2, rm.Started, "j", -1, true), happens(4, rm.Ended, "j", -1, true)},
			want:   Progress{Submitted: 1, Ended: 1}, now: 21, told: []string{"submit j"},
		},
		"cancelled in the queue": {
			job:    hpc.Job{Behaviour: hpc.Behaviour{CancelAfter: 20 * time.Second}},
			events: []rm.Event{happens(22, rm.Ended, "j", -1, false)},
			want:   Progress{Submitted: 1, Ended: 1}, now: 22, told: []string{"submit j", "cancel j"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := tt.job
			job.ID, job.Submit = "j", hpc.Second
			s := &scripted{events: tt.events}
			result, err := Rigid(context.Background(), s, &workload.Workload{Jobs: workload.JobsOf(&job)}, s, Options{})
			if err != nil {
				t.Fatal(err)
			}
			got := Progress{Submitted: result.Submitted, Pending: result.Pending, Running: result.Running, Ended: result.Ended, Refused: result.Refused}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("counts (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(tt.told, s.told); diff != "" {
				t.Errorf("the resource manager was told (-want +got)\n%s", diff)
			}
			if len(result.Undrained) > 0 || s.now != hpc.Time(tt.now)*hpc.Second {
				t.Errorf("ended at %v with %v undrained, want %d s", s.now, result.Undrained, tt.now)
			}
		})
	}
}

// TestRequeuedForGood checks that the replay gives up a job that stays in the queue for ever after
// a requeue, and names it.
func TestRequeuedForGood(t *testing.T) {
	s := &scripted{events: []rm.Event{happens(3, rm.Started, "j", -1, true), happens(5, rm.Requeue, "j", -1, true)}}
	w := &workload.Workload{Jobs: workload.JobsOf([]*hpc.Job{{ID: "j", Submit: hpc.Second}}...)}
	result, err := Rigid(context.Background(), s, w, s, Options{DrainLimit: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"j"}, result.Undrained); diff != "" || result.Pending != 1 || result.Running != 0 {
		t.Errorf("undrained (-want +got)\n%s%+v", diff, result.Progress)
	}
}

// TestReasonOfBarrier checks that a maintenance is a reason to wait only if the workload has one.
// Otherwise the reason comes from the reservation that the engine makes until the window begins.
func TestReasonOfBarrier(t *testing.T) {
	const maintenance = "ReqNodeNotAvail: Reserved for maintenance"
	waiting := func(at int, reason string) rm.Event {
		return rm.Event{At: hpc.Time(at) * hpc.Second, Kind: rm.Waiting, Job: "a", Task: -1, Reason: reason}
	}
	for _, tt := range []struct {
		window int
		flags  []string
		want   string
	}{
		{10, nil, "[  Priority]"},
		{10, []string{"FLEX"}, "[  Priority]"},
		{10, []string{"MAINT"}, "[ " + maintenance + " Priority]"},
		{0, nil, "[" + maintenance + " " + maintenance + " Priority]"},
	} {
		w := &workload.Workload{Start: hpc.Time(tt.window) * hpc.Second, Jobs: workload.JobsOf(&hpc.Job{ID: "a", Submit: hpc.Second})}
		if tt.flags != nil {
			w.Reservations = []hpc.ReservationEvent{{At: 12 * hpc.Second, Action: "create",
				Reservation: hpc.Reservation{Name: "r", Start: 900 * hpc.Second, Flags: tt.flags}}}
		}
		s := &scripted{events: []rm.Event{
			waiting(5, maintenance), waiting(12, maintenance), waiting(20, "Priority"), happens(30, rm.Ended, "a", -1, true),
		}}
		var seen reasonsSeen
		if _, err := Rigid(t.Context(), s, w, &seen, Options{}); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(seen.list); got != tt.want {
			t.Errorf("window at %d, flags %v: reasons %q, want %q", tt.window, tt.flags, got, tt.want)
		}
	}
}

// reasonsSeen is a recorder that keeps the reasons of pending jobs.
type reasonsSeen struct {
	fake
	list []string
}

func (r *reasonsSeen) Event(ev rm.Event) error {
	if ev.Kind == rm.Waiting {
		r.list = append(r.list, ev.Reason)
	}
	return nil
}

// TestPostponed checks the warning of a replay on Slurm about jobs that are submitted later than
// recorded because they depend on preset jobs. The warning names the jobs and says by how much
// their waits are too short.
func TestPostponed(t *testing.T) {
	at := func(s int) hpc.Time { return hpc.Time(s) * hpc.Second }
	w := &workload.Workload{Start: at(3600), Jobs: workload.JobsOf(
		&hpc.Job{ID: "preset", Submit: at(50), Recorded: &hpc.Recorded{Start: at(500), End: at(4000), Nodes: "n1"}},
		&hpc.Job{ID: "next", Submit: at(100), Request: hpc.Request{Dependency: "afterok:preset"}},
		&hpc.Job{ID: "last", Submit: at(150), Request: hpc.Request{Dependency: "afterany:next"}},
		&hpc.Job{ID: "free", Submit: at(160)},
		&hpc.Job{ID: "then", Submit: at(700), Request: hpc.Request{Dependency: "afterany:preset"}},
	)}
	for _, presetsWait := range []bool{true, false} {
		o, ok := inOrder(w, NewRigid(w), presetsWait).(*ordered)
		if !ok {
			t.Fatal("the dependencies do not order the submissions")
		}
		o.Begin()
		var result Result
		o.report(&result)
		var want []Difference
		if !presetsWait {
			want = []Difference{{Code: "submitted-late", Count: 2, Text: "the waits of 2 jobs are too short, by up to 6m40s, because the run " +
				"submitted the jobs late: they depend on jobs that ran when the window began, and those are submitted only at their starts: next, last"}}
		}
		if diff := cmp.Diff(want, result.OfWindow()); diff != "" {
			t.Errorf("presets wait: %v: differences (-want +got)\n%s", presetsWait, diff)
		}
	}
}
