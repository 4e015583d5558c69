package run

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
)

// at returns an instant of the tests: 1000 + sec seconds since the Unix epoch.
func at(sec int64) hpc.Time { return hpc.Unix(1000 + sec) }

func event(sec int64, kind rm.EventKind, job string, outcome *rm.Outcome) rm.Event {
	return rm.Event{At: at(sec), Kind: kind, Job: job, Task: -1, Outcome: outcome}
}

func taskEvent(sec int64, kind rm.EventKind, job string, task int, outcome *rm.Outcome) rm.Event {
	e := event(sec, kind, job, outcome)
	e.Task = task
	return e
}

// build passes jobs and events through a builder. It leaves the request column empty to keep
// the expected rows short.
func build(jobs []*hpc.Job, events []rm.Event) (*builder, []Row) {
	b := newBuilder()
	for _, j := range jobs {
		b.job(j)
	}
	for _, e := range events {
		b.event(&e)
	}
	rows := b.list()
	for i := range rows {
		rows[i].Request = ""
	}
	return b, rows
}

func TestBuilder(t *testing.T) {
	given := func(nodes string, count, processors int) *rm.Outcome {
		return &rm.Outcome{Nodes: nodes, NodeCount: count, Processors: processors}
	}
	with := func(o *rm.Outcome, change func(*rm.Outcome)) *rm.Outcome {
		change(o)
		return o
	}
	const seen = 900 * time.Millisecond // time from the accounting's second to the event
	late := func(e rm.Event) rm.Event {
		e.At = e.At.Add(seen)
		return e
	}
	priority := uint32(50)
	for _, test := range []struct {
		name   string
		job    hpc.Job
		events []rm.Event
		want   []Row
	}{
		{
			name: "never answered",
			job:  hpc.Job{ID: "a"},
		},
		{
			name: "accepted and still pending",
			job: hpc.Job{ID: "a", Request: hpc.Request{
				User: "u", Priority: &priority, MinNodes: 2, MaxNodes: 3, Tasks: 4, CPUsPerTask: 5, TimeLimit: time.Hour,
			}, Behaviour: hpc.Behaviour{RunTime: time.Minute}},
			events: []rm.Event{{At: at(1), Kind: rm.Accepted, Job: "a", Task: -1, RMJob: 9}},
			want: []Row{{
				Job: "a", Task: -1, RMJob: 9, User: "u", State: hpc.Pending, Submit: at(1),
				TimeLimit: time.Hour, AskedRunTime: time.Minute, AskedPriority: 50,
				AskedMinNodes: 2, AskedMaxNodes: 3, AskedTasks: 4, AskedCPUsPerTask: 5,
			}},
		},
		{
			name:   "rejected",
			job:    hpc.Job{ID: "a"},
			events: []rm.Event{{At: at(1), Kind: rm.Refused, Job: "a", Task: -1, Reason: "no such partition"}},
			want:   []Row{{Job: "a", Task: -1, State: hpc.Rejected, Submit: at(1), Reason: "no such partition"}},
		},
		{
			name: "times, partition and account from the outcomes",
			job:  hpc.Job{ID: "a", Request: hpc.Request{Partition: "p,q", TimeLimit: time.Hour}},
			events: []rm.Event{
				event(1, rm.Accepted, "a", nil),
				event(5, rm.Started, "a", &rm.Outcome{
					Submit: at(2), Eligible: at(3), Start: at(4), Nodes: "n[1-2]", NodeCount: 2, Processors: 8, Partition: "q",
				}),
				event(10, rm.Ended, "a", &rm.Outcome{
					State: hpc.Failed, Submit: at(2), Start: at(4), End: at(9), ExitCode: 3, Signal: 11,
					TRES: "cpu=8", TimeLimit: -1, Nodes: "n[1-2]", NodeCount: 2, Processors: 8, Account: "acc",
				}),
			},
			want: []Row{{
				Job: "a", Task: -1, Partition: "q", Account: "acc", State: hpc.Failed,
				Submit: at(2), Eligible: at(3), Start: at(4), End: at(9), TimeLimit: hpc.Unlimited,
				Nodes: "n[1-2]", NodeCount: 2, Processors: 8, TRES: "cpu=8", ExitCode: 3, Signal: 11,
			}},
		},
		{
			name: "cancelled before it started, with a start time all the same",
			job:  hpc.Job{ID: "a"},
			events: []rm.Event{
				event(1, rm.Accepted, "a", nil),
				event(7, rm.Ended, "a", &rm.Outcome{State: hpc.Cancelled, Start: at(7), End: at(7)}),
			},
			want: []Row{{Job: "a", Task: -1, State: hpc.Cancelled, Submit: at(1), End: at(7)}},
		},
		{
			name: "started and ended between two looks",
			job:  hpc.Job{ID: "a"},
			events: []rm.Event{
				event(1, rm.Accepted, "a", nil),
				event(7, rm.Ended, "a", with(given("n1", 1, 4), func(o *rm.Outcome) {
					o.State, o.Start, o.End = hpc.Completed, at(3), at(6)
				})),
			},
			want: []Row{{
				Job: "a", Task: -1, State: hpc.Completed, Submit: at(1), Start: at(3), End: at(6),
				Nodes: "n1", NodeCount: 1, Processors: 4,
			}},
		},
		{
			name: "suspended twice, the second time until its end",
			job:  hpc.Job{ID: "a"},
			events: []rm.Event{
				event(1, rm.Accepted, "a", nil),
				event(2, rm.Started, "a", given("n1", 1, 4)),
				event(5, rm.Suspend, "a", nil),
				event(9, rm.Resume, "a", nil),
				event(10, rm.Suspend, "a", nil),
				event(12, rm.Ended, "a", &rm.Outcome{State: hpc.Cancelled}),
			},
			want: []Row{{
				Job: "a", Task: -1, State: hpc.Cancelled, Submit: at(1), Start: at(2), End: at(12),
				Suspended: 6 * time.Second, Nodes: "n1", NodeCount: 1, Processors: 4,
				Segments: []Segment{
					{Start: at(2), End: at(5), NodeCount: 1, Processors: 4, EndedBy: rm.Suspend},
					{Start: at(9), End: at(10), NodeCount: 1, Processors: 4, EndedBy: rm.Suspend},
				},
			}},
		},
		{
			name: "suspended at its start and requeued, with processors that its launches lack",
			job:  hpc.Job{ID: "a"},
			events: []rm.Event{
				event(1, rm.Accepted, "a", nil),
				event(2, rm.Started, "a", given("n[1-2]", 2, 12)),
				event(2, rm.Suspend, "a", nil),
				event(4, rm.Resume, "a", nil),
				event(5, rm.Requeue, "a", with(given("n[1-2]", 2, 16), func(o *rm.Outcome) { o.Start, o.End = at(2), at(5) })),
				event(6, rm.Started, "a", given("n[2-3]", 2, 13)),
				event(7, rm.Suspend, "a", nil),
				event(8, rm.Resume, "a", nil),
				event(9, rm.Ended, "a", with(given("n[2-3]", 2, 24), func(o *rm.Outcome) {
					o.State, o.Start, o.End = hpc.Completed, at(6), at(9)
				})),
			},
			want: []Row{{
				Job: "a", Task: -1, State: hpc.Completed, Submit: at(1), Start: at(6), End: at(9), Restarts: 1,
				Suspended: time.Second, Nodes: "n[2-3]", NodeCount: 2, Processors: 24,
				Segments: []Segment{
					{Start: at(2), End: at(2), Nodes: "n[1-2]", NodeCount: 2, Processors: 16, EndedBy: rm.Suspend},
					{Start: at(4), End: at(5), Nodes: "n[1-2]", NodeCount: 2, Processors: 16, EndedBy: rm.Requeue},
					{Start: at(6), End: at(7), NodeCount: 2, Processors: 24, EndedBy: rm.Suspend},
					{Start: at(8), End: at(9), NodeCount: 2, Processors: 24, EndedBy: rm.Ended},
				},
			}},
		},
		{
			name: "suspended once, and ended so",
			job:  hpc.Job{ID: "a"},
			events: []rm.Event{
				event(1, rm.Accepted, "a", nil),
				event(2, rm.Started, "a", given("n1", 1, 4)),
				event(5, rm.Suspend, "a", nil),
				event(12, rm.Ended, "a", &rm.Outcome{State: hpc.Cancelled}),
			},
			want: []Row{{
				Job: "a", Task: -1, State: hpc.Cancelled, Submit: at(1), Start: at(2), End: at(12),
				Suspended: 7 * time.Second, Nodes: "n1", NodeCount: 1, Processors: 4,
				Segments: []Segment{{Start: at(2), End: at(5), NodeCount: 1, Processors: 4, EndedBy: rm.Suspend}},
			}},
		},
		{
			name: "requeued, and run again elsewhere",
			job:  hpc.Job{ID: "a"},
			events: []rm.Event{
				event(1, rm.Accepted, "a", nil),
				event(2, rm.Started, "a", with(given("n[1-2]", 2, 8), func(o *rm.Outcome) { o.Submit, o.Start = at(1), at(2) })),
				{At: at(5), Kind: rm.Requeue, Job: "a", Task: -1, Reason: "preempted", Outcome: &rm.Outcome{
					State: hpc.Preempted, Submit: at(6), Start: at(2), End: at(4), Nodes: "n[1-2]", NodeCount: 2, Processors: 8,
				}},
				event(20, rm.Started, "a", with(given("n3", 1, 4), func(o *rm.Outcome) { o.Submit, o.Start = at(6), at(20) })),
				event(30, rm.Ended, "a", with(given("n3", 1, 4), func(o *rm.Outcome) {
					o.State, o.Submit, o.Start, o.End, o.Restarts = hpc.Completed, at(6), at(20), at(30), 1
				})),
			},
			want: []Row{{
				Job: "a", Task: -1, State: hpc.Completed, Submit: at(1), Resubmit: at(6), Start: at(20), End: at(30),
				Nodes: "n3", NodeCount: 1, Processors: 4, Restarts: 1, Reason: "preempted",
				Segments: []Segment{
					{Start: at(2), End: at(4), Nodes: "n[1-2]", NodeCount: 2, Processors: 8, EndedBy: rm.Requeue, Cause: hpc.Preempted},
					{Start: at(20), End: at(30), NodeCount: 1, Processors: 4, EndedBy: rm.Ended},
				},
			}},
		},
		{
			name: "runs have both ends from the accounting, which has whole seconds",
			job:  hpc.Job{ID: "a"},
			events: []rm.Event{
				late(event(1, rm.Accepted, "a", nil)),
				late(event(2, rm.Started, "a", given("n1", 1, 4))),
				late(event(5, rm.Requeue, "a", with(given("n1", 1, 4), func(o *rm.Outcome) {
					o.State, o.Submit, o.Start, o.End = hpc.Preempted, at(1), at(2), at(5)
				}))),
				late(event(20, rm.Started, "a", given("n1", 1, 4))),
				late(event(22, rm.Suspend, "a", nil)),
				late(event(24, rm.Resume, "a", nil)),
				late(event(25, rm.Requeue, "a", with(given("n1", 1, 4), func(o *rm.Outcome) {
					o.State, o.Start, o.End = hpc.NodeFail, at(20), at(25)
				}))),
				late(event(30, rm.Started, "a", given("n1", 1, 4))),
				late(event(30, rm.Requeue, "a", with(given("n1", 1, 4), func(o *rm.Outcome) {
					o.Start, o.End = at(30), at(30)
				}))),
				late(event(40, rm.Started, "a", given("n1", 1, 4))),
				late(event(49, rm.Ended, "a", with(given("n1", 1, 4), func(o *rm.Outcome) {
					o.State, o.Start, o.End = hpc.TimedOut, at(40), at(49)
				}))),
			},
			want: []Row{{
				Job: "a", Task: -1, State: hpc.TimedOut, Submit: at(1), Start: at(40), End: at(49),
				Nodes: "n1", NodeCount: 1, Processors: 4, Restarts: 3,
				Segments: []Segment{
					{Start: at(2), End: at(5), Nodes: "n1", NodeCount: 1, Processors: 4, EndedBy: rm.Requeue, Cause: hpc.Preempted},
					{Start: at(20), End: at(22).Add(seen), Nodes: "n1", NodeCount: 1, Processors: 4, EndedBy: rm.Suspend},
					{Start: at(24).Add(seen), End: at(25), Nodes: "n1", NodeCount: 1, Processors: 4, EndedBy: rm.Requeue, Cause: hpc.NodeFail},
					{Start: at(30), End: at(30), Nodes: "n1", NodeCount: 1, Processors: 4, EndedBy: rm.Requeue},
					{Start: at(40), End: at(49), NodeCount: 1, Processors: 4, EndedBy: rm.Ended},
				},
			}},
		},
		{
			name: "requeued and then cancelled",
			job:  hpc.Job{ID: "a"},
			events: []rm.Event{
				event(1, rm.Accepted, "a", nil),
				event(2, rm.Started, "a", given("n1", 1, 4)),
				event(5, rm.Requeue, "a", nil),
				event(8, rm.Ended, "a", &rm.Outcome{State: hpc.Cancelled, Start: at(8), End: at(8), Restarts: 1}),
			},
			want: []Row{{
				Job: "a", Task: -1, State: hpc.Cancelled, Submit: at(1), End: at(8), Restarts: 1,
				Segments: []Segment{{Start: at(2), End: at(5), Nodes: "n1", NodeCount: 1, Processors: 4, EndedBy: rm.Requeue}},
			}},
		},
		{
			name: "still running",
			job:  hpc.Job{ID: "a"},
			events: []rm.Event{
				event(1, rm.Accepted, "a", nil),
				event(2, rm.Started, "a", given("n1", 1, 4)),
			},
			want: []Row{{
				Job: "a", Task: -1, State: hpc.Running, Submit: at(1), Start: at(2),
				Nodes: "n1", NodeCount: 1, Processors: 4,
			}},
		},
		{
			name: "an array, one task with its own run time, the rest cancelled as one",
			job: hpc.Job{ID: "a", Request: hpc.Request{Array: "1-3%1"}, Behaviour: hpc.Behaviour{
				RunTime: time.Minute, TaskRunTimes: map[int]time.Duration{2: time.Second},
			}},
			events: []rm.Event{
				{At: at(1), Kind: rm.Accepted, Job: "a", Task: -1, RMJob: 7},
				{At: at(2), Kind: rm.Started, Job: "a", Task: 2, RMJob: 8, Outcome: given("n1", 1, 4)},
				taskEvent(3, rm.Ended, "a", 2, &rm.Outcome{State: hpc.Completed}),
				event(9, rm.Ended, "a", &rm.Outcome{State: hpc.Cancelled}),
			},
			want: []Row{
				{Job: "a", Task: 1, RMJob: 7, State: hpc.Cancelled, Submit: at(1), End: at(9), AskedRunTime: time.Minute, AskedArrayLimit: 1},
				{
					Job: "a", Task: 2, RMJob: 8, State: hpc.Completed, Submit: at(1), Start: at(2), End: at(3),
					AskedRunTime: time.Second, Nodes: "n1", NodeCount: 1, Processors: 4, AskedArrayLimit: 1,
				},
				{Job: "a", Task: 3, RMJob: 7, State: hpc.Cancelled, Submit: at(1), End: at(9), AskedRunTime: time.Minute, AskedArrayLimit: 1},
			},
		},
		{
			name: "an array of one task, cancelled as a whole",
			job:  hpc.Job{ID: "a", Request: hpc.Request{Array: "5"}},
			events: []rm.Event{
				event(1, rm.Accepted, "a", nil),
				event(9, rm.Ended, "a", &rm.Outcome{State: hpc.Cancelled}),
			},
			want: []Row{{Job: "a", Task: 5, State: hpc.Cancelled, Submit: at(1), End: at(9)}},
		},
		{
			name:   "a rejected array is one row",
			job:    hpc.Job{ID: "a", Request: hpc.Request{Array: "1-3"}},
			events: []rm.Event{event(1, rm.Refused, "a", nil)},
			want:   []Row{{Job: "a", Task: -1, State: hpc.Rejected, Submit: at(1)}},
		},
		{
			name: "an array whose specification we cannot read gets its tasks from the events",
			job:  hpc.Job{ID: "a", Request: hpc.Request{Array: "0x3"}},
			events: []rm.Event{
				{At: at(1), Kind: rm.Accepted, Job: "a", Task: -1, RMJob: 7},
				taskEvent(2, rm.Started, "a", 0, given("n1", 1, 4)),
				taskEvent(3, rm.Started, "a", 1, given("n2", 1, 4)),
				taskEvent(4, rm.Ended, "a", 0, &rm.Outcome{State: hpc.Completed}),
			},
			want: []Row{
				{
					Job: "a", Task: 0, RMJob: 7, State: hpc.Completed, Submit: at(1), Start: at(2), End: at(4),
					Nodes: "n1", NodeCount: 1, Processors: 4,
				},
				{
					Job: "a", Task: 1, RMJob: 7, State: hpc.Running, Submit: at(1), Start: at(3),
					Nodes: "n2", NodeCount: 1, Processors: 4,
				},
			},
		},
		{
			name:   "an end without an outcome is not taken for a success",
			job:    hpc.Job{ID: "a"},
			events: []rm.Event{event(1, rm.Accepted, "a", nil), event(2, rm.Ended, "a", nil)},
			want:   []Row{{Job: "a", Task: -1, State: StateUnknown, Submit: at(1), End: at(2)}},
		},
		{
			name: "events of nodes and reservations are about no job",
			job:  hpc.Job{ID: "a"},
			events: []rm.Event{
				{At: at(1), Kind: rm.NodeState, Task: -1, Reason: "down"}, {At: at(1), Kind: rm.Reserved, Task: -1},
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, got := build([]*hpc.Job{&test.job}, test.events)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestBuilderUnknownJob checks that a builder keeps the events of a job that the record does not
// submit. Such a job may be from the state of an earlier run.
func TestBuilderUnknownJob(t *testing.T) {
	_, got := build(nil, []rm.Event{event(4, rm.Ended, "ghost", &rm.Outcome{
		State: hpc.Completed, Submit: at(1), Start: at(2), End: at(3), NodeCount: 1, Processors: 2, Name: "g",
	})})
	want := []Row{{
		Job: "ghost", Task: -1, Name: "g", State: hpc.Completed,
		Submit: at(1), Start: at(2), End: at(3), NodeCount: 1, Processors: 2,
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestCounts(t *testing.T) {
	jobs := []*hpc.Job{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d", Request: hpc.Request{Array: "1-2"}}}
	b, _ := build(jobs, []rm.Event{
		event(1, rm.Accepted, "a", nil),
		event(1, rm.Refused, "b", nil),
		event(1, rm.Accepted, "d", nil),
		taskEvent(2, rm.Ended, "d", 1, &rm.Outcome{State: hpc.Cancelled}),
	})
	want := Counts{Submitted: 4, NotSubmitted: 6, Unanswered: 1, Accepted: 2, Rejected: 1, Rows: 4, Ended: 1}
	if got := b.counts(10); got != want {
		t.Errorf("counts = %+v, want %+v", got, want)
	}
}

func TestHeld(t *testing.T) {
	for _, test := range []struct {
		name string
		row  Row
		want []Segment
	}{
		{"never ran", Row{End: at(3)}, nil},
		{"ran once", Row{Start: at(1), End: at(3), NodeCount: 2, Processors: 4},
			[]Segment{{Start: at(1), End: at(3), NodeCount: 2, Processors: 4, EndedBy: rm.Ended}}},
		{"runs", Row{Start: at(1), Processors: 4}, []Segment{{Start: at(1), Processors: 4}}},
		{"segments", Row{Start: at(1), End: at(9), Segments: []Segment{{Start: at(2)}}}, []Segment{{Start: at(2)}}},
	} {
		if diff := cmp.Diff(test.want, test.row.Held()); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.name, diff)
		}
	}
}
