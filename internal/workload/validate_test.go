package workload

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
)

func TestValidate(t *testing.T) {
	cluster := Cluster{
		Partitions: map[string]int{"batch": 10, "gpu": 4, "mem": 2}, Nodes: 14, MaxArraySize: 100, WholeMemory: map[string]bool{"mem": true},
		NodeNames: map[string]bool{"n1": true, "n2": true},
		Users:     map[string]bool{"u": true}, Features: map[string]bool{"ib": true, "a100": true},
	}
	type problem struct{ Severity, Job, Rule string }
	reserve := func(change func(*hpc.ReservationEvent)) func(*Workload, *hpc.Job, *hpc.Job) {
		return func(w *Workload, _, _ *hpc.Job) {
			e := hpc.ReservationEvent{Action: "create", Reservation: hpc.Reservation{
				Name: "r", Start: 1, Duration: time.Hour, Nodes: "n[1-2]", Users: []string{"u"}, Flags: []string{"maint", "-FLEX", "PURGE_COMP=00:05:00"},
			}}
			change(&e)
			w.Reservations = []hpc.ReservationEvent{e}
		}
	}
	tests := []struct {
		name string
		edit func(w *Workload, a, b *hpc.Job)
		want []problem
	}{
		{"clean", func(*Workload, *hpc.Job, *hpc.Job) {}, nil},
		{"no jobs", func(w *Workload, _, _ *hpc.Job) { w.Jobs = Jobs{} }, []problem{{"error", "", RuleNoJobs}}},
		{"no id", func(_ *Workload, a, _ *hpc.Job) { a.ID = "" }, []problem{{"error", "", RuleNoID}}},
		{"same id", func(_ *Workload, _, b *hpc.Job) { b.ID = "a" }, []problem{{"error", "a", RuleDuplicateID}}},
		{"before epoch", func(_ *Workload, a, _ *hpc.Job) { a.Submit-- }, []problem{{"error", "a", RuleBeforeEpoch}}},
		{"before epoch in a window", func(w *Workload, a, _ *hpc.Job) { w.Start = w.Epoch + 1; a.Submit-- }, nil},
		{"preset without nodes", func(w *Workload, a, _ *hpc.Job) {
			w.Start = w.Epoch + 10
			a.Recorded = &hpc.Recorded{Start: w.Start - 1}
		}, []problem{{"error", "a", RulePresetNodes}}},
		{"all presets without nodes are one problem", func(w *Workload, a, b *hpc.Job) {
			w.Start = w.Epoch + 10
			a.Recorded, b.Recorded = &hpc.Recorded{Start: w.Start - 1}, &hpc.Recorded{Start: w.Start - 1}
			b.Submit = a.Submit
		}, []problem{{"error", "a", RulePresetNodes}}},
		{"preset that ended", func(w *Workload, a, _ *hpc.Job) {
			w.Start = w.Epoch + 10
			a.Recorded = &hpc.Recorded{Start: w.Start - 2, End: w.Start - 1, Nodes: "n1"}
		}, []problem{{"error", "a", RulePresetOver}}},
		{"preset", func(w *Workload, a, _ *hpc.Job) {
			w.Start = w.Epoch + 10
			a.Recorded = &hpc.Recorded{Start: w.Start - 2, End: w.Start + 1, Nodes: "n1"}
		}, nil},
		{"preset on a node twice", func(w *Workload, a, _ *hpc.Job) {
			w.Start = w.Epoch + 10
			a.Recorded = &hpc.Recorded{Start: w.Start - 2, End: w.Start + 1, Nodes: "n1,n[1-2]"}
		}, []problem{{"error", "a", RuleBadHosts}}},
		{"a lost run that ends after the next one starts", func(_ *Workload, a, _ *hpc.Job) {
			a.Recorded = &hpc.Recorded{Start: a.Submit + 10, Interruptions: hpc.Interruptions{LostRuns: []hpc.LostRun{{Start: a.Submit + 1, End: a.Submit + 11}}}}
		}, []problem{{"error", "a", RuleRecordedRuns}}},
		{"a suspension between runs", func(_ *Workload, a, _ *hpc.Job) {
			a.Recorded = &hpc.Recorded{Start: a.Submit + 10, End: a.Submit + 20, Interruptions: hpc.Interruptions{
				LostRuns: []hpc.LostRun{{Start: a.Submit + 1, End: a.Submit + 4}}, Suspensions: []hpc.Suspension{{From: a.Submit + 3, To: a.Submit + 12}}}}
		}, []problem{{"error", "a", RuleRecordedRuns}}},
		{"a suspension of a run that ended so", func(_ *Workload, a, _ *hpc.Job) {
			a.Recorded = &hpc.Recorded{Start: a.Submit + 10, End: a.Submit + 20, Interruptions: hpc.Interruptions{
				LostRuns: []hpc.LostRun{{Start: a.Submit + 1, End: a.Submit + 4}}, Suspensions: []hpc.Suspension{{From: a.Submit + 12, To: a.Submit + 20}}}}
		}, nil},
		{"negative recorded processors", func(_ *Workload, a, _ *hpc.Job) { a.Recorded = &hpc.Recorded{Processors: -1} }, []problem{{"error", "a", RuleNegativeNumber}}},
		{"negative run time of tasks", func(_ *Workload, a, _ *hpc.Job) {
			a.Array, a.TaskRunTimes = "1-3", map[int]time.Duration{1: -1, 2: 0, 3: -1}
		}, []problem{{"error", "a", RuleNegativeTime}}},
		{"run time of a task", func(_ *Workload, a, _ *hpc.Job) { a.Array, a.TaskRunTimes = "1-3", map[int]time.Duration{2: 0} }, nil},
		{"ends before its submission", func(_ *Workload, a, _ *hpc.Job) { a.EndAt = a.Submit - 1 }, []problem{{"error", "a", RuleEndBeforeSubmit}}},
		{"ends at its submission", func(_ *Workload, a, _ *hpc.Job) { a.EndAt = a.Submit }, nil},
		{"epoch of long ago", func(_ *Workload, a, b *hpc.Job) {
			a.Submit, b.Submit = a.Submit.Add(MaxGap+1), b.Submit.Add(MaxGap+1)
		}, []problem{{"warning", "a", RuleClockJump}}},
		{"epoch of long ago, and a window", func(w *Workload, a, b *hpc.Job) {
			a.Submit, b.Submit = a.Submit.Add(MaxGap+1), b.Submit.Add(MaxGap+1)
			w.Start = a.Submit
		}, nil},
		{"events before the epoch", func(w *Workload, _, _ *hpc.Job) {
			w.NodeEvents = []hpc.NodeEvent{{At: w.Epoch - 1, Nodes: "n1"}, {At: w.Epoch, Nodes: "n1"}}
			w.Actions = []hpc.Action{{At: w.Epoch - 1, Shell: "date"}}
		}, []problem{{"warning", "", RuleEventBeforeEpoch}, {"warning", "", RuleEventBeforeEpoch}}},
		{"event before a window", func(w *Workload, _, _ *hpc.Job) {
			w.Start = w.Epoch + 1
			w.NodeEvents = []hpc.NodeEvent{{At: w.Epoch - 1, Nodes: "n1"}}
		}, nil},
		{"action long after", func(w *Workload, _, b *hpc.Job) {
			w.Actions = []hpc.Action{{At: b.Submit.Add(MaxGap), Shell: "date"}, {At: b.Submit.Add(MaxGap + 1), Shell: "date"}}
		}, []problem{{"warning", "", RuleClockJump}}},
		{"tasks of no array", func(_ *Workload, a, _ *hpc.Job) { a.TaskRunTimes = map[int]time.Duration{0: 1} }, []problem{{"warning", "a", RuleNoSuchTask}}},
		{"run times of tasks in the array", func(_ *Workload, a, _ *hpc.Job) {
			a.Array, a.TimeLimit, a.TaskRunTimes = "1-5:2", time.Hour, map[int]time.Duration{1: time.Hour, 5: hpc.Unlimited}
		}, nil},
		{"run times of tasks outside the array", func(_ *Workload, a, _ *hpc.Job) {
			a.Array, a.TaskRunTimes = "1-5:2", map[int]time.Duration{1: 1, 2: 1, 4: 1}
		}, []problem{{"warning", "a", RuleNoSuchTask}}},
		{"tasks over the limit", func(_ *Workload, a, _ *hpc.Job) {
			a.Array, a.TimeLimit, a.TaskRunTimes = "1-5:2", time.Hour, map[int]time.Duration{1: time.Hour + 1, 3: 2 * time.Hour}
		}, []problem{{"warning", "a", RuleOverLimit}}},
		{"name of the window's reservation", func(w *Workload, a, b *hpc.Job) {
			reserve(func(e *hpc.ReservationEvent) { e.Name = WindowReservation })(w, a, b)
			w.Start = w.Epoch
		}, []problem{{"error", "", RuleBadReservation}}},
		{"clock jump", func(_ *Workload, _, b *hpc.Job) { b.Submit = b.Submit.Add(400 * 24 * time.Hour) }, []problem{{"warning", "b", RuleClockJump}}},
		{"negative limit", func(_ *Workload, a, _ *hpc.Job) { a.TimeLimit = -1 }, []problem{{"error", "a", RuleNegativeTime}}},
		{"negative wait for switches", func(_ *Workload, a, _ *hpc.Job) { a.SwitchWait = -1 }, []problem{{"error", "a", RuleNegativeTime}}},
		{"negative tasks", func(_ *Workload, a, _ *hpc.Job) { a.Tasks = -1 }, []problem{{"error", "a", RuleNegativeNumber}}},
		{"all memory", func(_ *Workload, a, _ *hpc.Job) { a.MemPerNode = hpc.AllMemory }, nil},
		{"no memory in a partition whose default is all memory", func(_ *Workload, a, b *hpc.Job) {
			a.Partition, b.Partition = "mem", "mem"
		}, []problem{{"warning", "a", RuleAllMemory}}},
		{"some memory there", func(_ *Workload, a, b *hpc.Job) {
			a.Partition, a.MemPerCPU, b.Partition, b.MemPerNode = "mem", 1, "mem", hpc.AllMemory
		}, nil},
		{"negative memory", func(_ *Workload, a, _ *hpc.Job) { a.MemPerNode = -2 }, []problem{{"error", "a", RuleNegativeNumber}}},
		{"largest exit code", func(_ *Workload, a, _ *hpc.Job) { a.ExitCode = 255 }, nil},
		{"too large an exit code", func(_ *Workload, a, _ *hpc.Job) { a.ExitCode = 256 }, []problem{{"error", "a", RuleBadExitCode}}},
		{"negative exit code", func(_ *Workload, a, _ *hpc.Job) { a.ExitCode = -1 }, []problem{{"error", "a", RuleBadExitCode}}},
		{"exit codes of tasks", func(_ *Workload, a, _ *hpc.Job) { a.Array, a.TaskExitCodes = "1-3", map[int]int{1: 255, 2: 256, 3: -1} }, []problem{{"error", "a", RuleBadExitCode}}},
		{"over limit as recorded", func(_ *Workload, a, _ *hpc.Job) {
			a.RunTime, a.Recorded = 2*time.Hour, &hpc.Recorded{Start: 1, End: 2, State: hpc.TimedOut}
		}, nil},
		{"over limit", func(_ *Workload, a, _ *hpc.Job) { a.RunTime = 2 * time.Hour }, []problem{{"warning", "a", RuleOverLimit}}},
		{"until limit", func(_ *Workload, a, _ *hpc.Job) { a.RunTime = hpc.Unlimited }, nil},
		{"no end", func(_ *Workload, a, _ *hpc.Job) { a.RunTime, a.TimeLimit = hpc.Unlimited, 0 }, []problem{{"warning", "a", RuleNoEnd}}},
		{"no user", func(_ *Workload, a, _ *hpc.Job) { a.User = "" }, []problem{{"warning", "a", RuleNoUser}}},
		{"unknown user", func(_ *Workload, a, _ *hpc.Job) { a.User = "x" }, []problem{{"warning", "a", RuleUnknownUser}}},
		{"made user", func(_ *Workload, a, _ *hpc.Job) { a.User, a.Made = "x", "time_limit=published,user=bursts" }, nil},
		{"user of the workload", func(w *Workload, a, _ *hpc.Job) { a.User = "x"; w.Users = []hpc.User{{Name: "x"}} }, nil},
		{"unknown partition", func(_ *Workload, a, _ *hpc.Job) { a.Partition = "batch,x" }, []problem{{"warning", "a", RuleUnknownPartition}}},
		{"more nodes than the partition has", func(_ *Workload, a, _ *hpc.Job) { a.MinNodes = 11 }, []problem{{"warning", "a", RuleTooManyNodes}}},
		{"more nodes than the cluster has", func(_ *Workload, a, _ *hpc.Job) { a.MinNodes, a.Partition = 15, "" }, []problem{{"warning", "a", RuleTooManyNodes}}},
		{"features", func(_ *Workload, a, _ *hpc.Job) { a.Constraint = "[ib*2&a100*1]|h100" }, []problem{{"warning", "a", RuleUnknownFeature}}},
		{"bad array", func(_ *Workload, a, _ *hpc.Job) { a.Array = "5-1" }, []problem{{"error", "a", RuleBadArray}}},
		{"submission after the last instant", func(_ *Workload, a, _ *hpc.Job) { a.Submit = hpc.Never }, []problem{{"error", "a", RuleAfterLastInstant}, {"warning", "a", RuleClockJump}}},
		{"many tasks", func(_ *Workload, a, _ *hpc.Job) { a.Array = "1-1000001" }, []problem{{"warning", "a", RuleBadArray}, {"error", "", RuleTooManyTasks}}},
		{"large array", func(_ *Workload, a, _ *hpc.Job) { a.Array = "1-100" }, []problem{{"warning", "a", RuleBadArray}}},
		{"bad dependency", func(_ *Workload, a, _ *hpc.Job) { a.Dependency = "afterok" }, []problem{{"error", "a", RuleBadDependency}}},
		{"dependency", func(_ *Workload, _, b *hpc.Job) { b.Dependency = "afterok:a,aftercorr:a_3,singleton" }, nil},
		{"unknown dependency", func(_ *Workload, _, b *hpc.Job) { b.Dependency = "afterok:c" }, []problem{{"error", "b", RuleUnknownDependency}}},
		{"self dependency", func(_ *Workload, _, b *hpc.Job) { b.Dependency = "afterok:b" }, []problem{{"error", "b", RuleSelfDependency}}},
		{"later dependency", func(_ *Workload, a, _ *hpc.Job) { a.Dependency = "afterok:b" }, []problem{{"warning", "a", RuleLaterDependency}}},
		{"cycle", func(_ *Workload, a, b *hpc.Job) { a.Dependency, b.Dependency = "afterok:b", "afterok:a" }, []problem{{"warning", "a", RuleLaterDependency}, {"error", "a", RuleCycle}}},
		{"node event", func(w *Workload, _, _ *hpc.Job) { w.NodeEvents = []hpc.NodeEvent{{At: w.Epoch, Nodes: "n["}} }, []problem{{"error", "", RuleBadHosts}}},
		{"node event elsewhere", func(w *Workload, _, _ *hpc.Job) { w.NodeEvents = []hpc.NodeEvent{{At: w.Epoch, Nodes: "n[1-9]"}} }, []problem{{"warning", "", RuleUnknownNode}}},
		{"node event for all", func(w *Workload, _, _ *hpc.Job) { w.NodeEvents = []hpc.NodeEvent{{At: w.Epoch, Nodes: "All"}} }, []problem{{"error", "", RuleBadHosts}}},
		{"reservation", reserve(func(*hpc.ReservationEvent) {}), nil},
		{"reservation of all nodes", reserve(func(e *hpc.ReservationEvent) { e.Nodes = "all" }), nil},
		{"reservation of a partition for an account", reserve(func(e *hpc.ReservationEvent) {
			e.Nodes, e.Partition, e.Users, e.Accounts = "", "batch", nil, []string{"a"}
		}), nil},
		{"reservation without anything", reserve(func(e *hpc.ReservationEvent) { e.Reservation = hpc.Reservation{} }),
			[]problem{{"error", "", RuleBadReservation}, {"error", "", RuleBadReservation}, {"error", "", RuleBadReservation}, {"error", "", RuleBadReservation}}},
		{"update without anything", reserve(func(e *hpc.ReservationEvent) { *e = hpc.ReservationEvent{Action: "update"} }), nil},
		{"reservation elsewhere", reserve(func(e *hpc.ReservationEvent) { e.Nodes = "n[2-3]" }), []problem{{"warning", "", RuleUnknownNode}}},
		{"reservation of no list", reserve(func(e *hpc.ReservationEvent) { e.Nodes = "n[" }), []problem{{"error", "", RuleBadHosts}}},
		{"reservation's flag", reserve(func(e *hpc.ReservationEvent) { e.Flags = []string{"FLEX", "PURGE_COMP=soon"} }), []problem{{"error", "", RuleBadReservation}}},
		{"reservation of more nodes than the cluster has", reserve(func(e *hpc.ReservationEvent) { e.Nodes, e.NodeCount = "", 15 }), []problem{{"warning", "", RuleTooManyNodes}}},
		{"reservation of more nodes than the partition has", reserve(func(e *hpc.ReservationEvent) { e.Nodes, e.NodeCount, e.Partition = "", 5, "gpu" }), []problem{{"warning", "", RuleTooManyNodes}}},
		{"reservation of all nodes of a partition", reserve(func(e *hpc.ReservationEvent) { e.Nodes, e.NodeCount, e.Partition = "", 4, "gpu" }), nil},
		{"reservation of negative duration", reserve(func(e *hpc.ReservationEvent) { e.Duration = -1 }), []problem{{"error", "", RuleBadReservation}}},
	}
	for _, tt := range tests {
		request := hpc.Request{User: "u", Partition: "batch", TimeLimit: time.Hour}
		a := &hpc.Job{ID: "a", Submit: hpc.Unix(100), Request: request, Behaviour: hpc.Behaviour{RunTime: time.Minute}}
		b := &hpc.Job{ID: "b", Submit: hpc.Unix(200), Request: request, Behaviour: hpc.Behaviour{RunTime: time.Minute}}
		w := &Workload{Epoch: hpc.Unix(100), Jobs: JobsOf(a, b)}
		if tt.edit(w, a, b); w.Jobs.Len() > 0 {
			w.Jobs = JobsOf(a, b)
		}
		var got []problem
		for _, p := range Validate(w, cluster) {
			got = append(got, problem{string(p.Severity), p.Job, p.Rule})
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
	}
}

// Two reservations of one name cannot exist at the same time. One can follow the other.
func TestValidateNames(t *testing.T) {
	event := func(at int64, action string, start int64, minutes int, flags ...string) hpc.ReservationEvent {
		return hpc.ReservationEvent{At: hpc.Unix(at), Action: action, Reservation: hpc.Reservation{
			Name: "r", Start: hpc.Unix(start), Duration: time.Duration(minutes) * time.Minute, Nodes: "n1", Users: []string{"u"}, Flags: flags,
		}}
	}
	later := event(3600, "create", 4000, 10)
	for name, tt := range map[string]struct {
		events []hpc.ReservationEvent
		window int64
		action bool
		want   Severity
	}{
		"first has ended":                                  {events: []hpc.ReservationEvent{event(100, "create", 200, 10), later}},
		"first was deleted":                                {events: []hpc.ReservationEvent{event(100, "create", 200, 100), event(3600, "delete", 0, 0), later}},
		"first has not ended":                              {events: []hpc.ReservationEvent{event(100, "create", 200, 100), later}, want: Error},
		"first has not ended, in a window":                 {events: []hpc.ReservationEvent{event(100, "create", 200, 100), later}, window: 5000, want: Error},
		"first was extended":                               {events: []hpc.ReservationEvent{event(100, "create", 200, 10), event(150, "update", 0, 100), later}, want: Error},
		"first recurs":                                     {events: []hpc.ReservationEvent{event(100, "create", 200, 10, "DAILY"), later}, want: Error},
		"an action may end the first":                      {events: []hpc.ReservationEvent{event(100, "create", 200, 100), later}, action: true, want: Warning},
		"first may have been purged":                       {events: []hpc.ReservationEvent{event(100, "create", 200, 100, "PURGE_COMP"), later}, want: Warning},
		"second begins as the first ends":                  {events: []hpc.ReservationEvent{event(100, "create", 2990, 10), later}, want: Warning},
		"second begins as the first ends, before a window": {events: []hpc.ReservationEvent{event(100, "create", 2990, 10), later}, window: 5000},
	} {
		job := hpc.Job{ID: "a", Submit: hpc.Unix(9000), Request: hpc.Request{User: "u", TimeLimit: time.Hour}}
		w := &Workload{Epoch: hpc.Unix(100), Start: hpc.Unix(tt.window), Jobs: JobsOf(&job), Reservations: tt.events}
		if tt.window == 0 {
			w.Start = 0
		}
		if tt.action {
			w.Actions = []hpc.Action{{At: hpc.Unix(3000), Shell: "true"}}
		}
		var got []Severity
		for _, p := range Validate(w, Cluster{}) {
			if p.Rule != RuleSameReservation {
				t.Errorf("%s: %s", name, p)
			}
			got = append(got, p.Severity)
		}
		if want := []Severity{tt.want}; tt.want == "" && got != nil || tt.want != "" && !cmp.Equal(want, got) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestValidateCycles checks that each cycle is reported once, and that a chain of all jobs of a
// workload is not a problem.
func TestValidateCycles(t *testing.T) {
	w := &Workload{}
	add := func(id, dependency string) {
		w.Jobs.Append(&hpc.Job{ID: id, Submit: 1, Request: hpc.Request{User: "u", Dependency: dependency}})
	}
	add("x", "afterok:y,afterok:z")
	add("y", "afterok:x,afterok:z")
	add("z", "")
	add("p", "afterok:q")
	add("q", "afterok:r")
	add("r", "afterok:p")
	add("c0", "")
	for i := range 50000 {
		add(fmt.Sprintf("c%d", i+1), fmt.Sprintf("afterany:c%d", i))
	}
	var cycles []string
	for _, p := range Validate(w, Cluster{}) {
		if p.Rule == RuleCycle {
			cycles = append(cycles, p.Text)
		}
	}
	want := []string{"depends on itself by way of x -> y", "depends on itself by way of p -> q -> r"}
	if diff := cmp.Diff(want, cycles); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
