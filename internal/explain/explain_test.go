package explain

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
	"rmreplay/internal/workload"
)

// at is an instant of the tests' day, in minutes.
func at(minute int) hpc.Time { return hpc.Unix(1_700_000_000).Add(time.Duration(minute) * time.Minute) }

// history builds a record: four nodes of four processors in one partition.
type history struct {
	rows   []run.Row
	events []run.Event
	admin  run.Administration
	params string
}

// job adds a job on whole nodes, without a start if start is below 0.
func (h *history) job(id, user string, nodes string, count, submit, start, end, limit int) {
	row := run.Row{Job: id, Task: -1, User: user, Partition: "main", State: hpc.Pending, Submit: at(submit), AskedMinNodes: count, TimeLimit: time.Duration(limit) * time.Minute}
	if start >= 0 {
		row.Start, row.End, row.State, row.Nodes, row.NodeCount, row.Processors = at(start), at(end), hpc.Completed, nodes, count, 4*count
	}
	h.rows = append(h.rows, row)
}

func (h *history) waits(id string, minute int, reason string, planned int) {
	e := run.Event{At: at(minute), Kind: rm.Waiting, Job: id, Task: -1, Reason: reason}
	if planned > 0 {
		e.Start = at(planned)
	}
	h.events = append(h.events, e)
}

func (h *history) record() *Record {
	reasons := run.NewReasons(h.events, at(1000))
	for i := range h.rows {
		h.rows[i].Reasons = reasons.Spans(&h.rows[i])
	}
	return &Record{
		manifest: &run.Manifest{VirtualStart: at(0), VirtualEnd: at(1000), Cluster: run.Cluster{
			Nodes: 4, Processors: 16, Partitions: []run.Partition{{Name: "main", Nodes: 4, Processors: 16}}, SchedulerParameters: h.params,
		}},
		rows: h.rows, end: at(1000), reasons: h.events != nil, requests: map[string]*hpc.Job{}, admin: h.admin,
	}
}

// A job that names nodes in use waits for these nodes, not because others are kept free for a large job.
func TestNamedNodes(t *testing.T) {
	h := &history{}
	h.job("a", "ann", "n1", 1, 0, 1, 400, 600)
	h.job("b", "bob", "n1", 1, 5, 400, 500, 100)
	h.job("c", "cid", "", 1, 5, -1, 0, 30)
	h.waits("b", 6, "Resources", 400)
	h.waits("c", 6, "Priority", 0)
	rec := h.record()
	rec.requests["b"] = &hpc.Job{Request: hpc.Request{NodeList: "n[1-2]"}}
	story, err := rec.Job("b")
	if err != nil {
		t.Fatal(err)
	}
	if c := story.Causes[0]; c.Kind != Named || c.Text != "it asks by name for n1, where jobs run" ||
		slices.ContainsFunc(story.Causes, func(c Cause) bool { return c.Kind == Draining }) {
		t.Errorf("%+v", story.Causes)
	}
	stall, err := rec.At(at(10))
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(stall.Causes, func(c Cause) bool { return c.Kind == Named })
	if at < 0 || stall.Causes[at].Weight != 0.5 ||
		stall.Causes[at].Text != "1 of 2 pending jobs asks by name for nodes where jobs run" {
		t.Errorf("%+v", stall.Causes)
	}
}

// A job that names nodes in use waits for these nodes from its first second on.
func TestNamedNodesAtOnce(t *testing.T) {
	h := &history{}
	h.job("a", "ann", "n1", 1, 1, 1, 6, 10)
	h.job("b", "bob", "n1", 1, 5, 6, 20, 30)
	h.waits("b", 5, "Resources", 0)
	rec := h.record()
	rec.requests["b"] = &hpc.Job{Request: hpc.Request{NodeList: "n1"}}
	story, err := rec.Job("b")
	if err != nil {
		t.Fatal(err)
	}
	if c := story.Causes[0]; c.Kind != Named || c.Weight != 1 {
		t.Errorf("causes of the job: %+v", story.Causes)
	}
	stall, err := rec.At(at(5).Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if c := stall.Causes[0]; c.Kind != Named || c.Weight != 1 {
		t.Errorf("causes at an instant: %+v", stall.Causes)
	}
	if c := rec.groups(pointers(rec, everything), "").Groups[0].Causes[0]; c.Kind != Named || c.Share != 1 {
		t.Errorf("cause of the group: %+v", c)
	}
}

// Each stall has one cause, which must come first.
func TestStalls(t *testing.T) {
	busy := func(h *history, user string) {
		for i := range 4 {
			h.job(fmt.Sprint("busy", i), user, fmt.Sprint("n", i+1), 1, 0, 1, 400, 600)
		}
	}
	queue := func(h *history, user, reason string) {
		for i := range 6 {
			id := fmt.Sprint(user, i)
			h.job(id, user, "", 1, 5, -1, 0, 30)
			h.waits(id, 6, reason, 0)
		}
	}
	for _, test := range []struct {
		name string
		make func(*history)
		want Kind
		text string
	}{
		{"reservation", func(h *history) {
			queue(h, "ann", "ReqNodeNotAvail: Reserved for maintenance")
			h.admin.Reservations = []hpc.ReservationEvent{{At: at(0), Action: "create", Reservation: hpc.Reservation{Name: "maint", Start: at(2), Duration: 5 * time.Hour, Nodes: "n[1-4]"}}}
		}, Reserved, "reservation maint keeps 4 of 4 nodes"},
		{"reservation of ALL, updated", func(h *history) {
			queue(h, "ann", "Priority")
			h.admin.Reservations = []hpc.ReservationEvent{
				{At: at(0), Action: "create", Reservation: hpc.Reservation{Name: "maint", Start: at(800), Duration: time.Hour, Nodes: "ALL"}},
				{At: at(3), Action: "update", Reservation: hpc.Reservation{Name: "maint", Start: at(4)}},
			}
		}, Reserved, "maint"},
		{"outage", func(h *history) {
			queue(h, "ann", "Resources")
			h.admin.NodeEvents = []hpc.NodeEvent{{At: at(1), Nodes: "n[1-4]", State: "down"}, {At: at(2), Nodes: "n4", State: "resume"}, {At: at(3), Nodes: "n4", State: "drain"}}
		}, Outage, "4 of 4 nodes are down or drained"},
		{"burst", func(h *history) {
			busy(h, "dan")
			queue(h, "dan", "Priority")
			h.job("other", "ann", "", 1, 5, -1, 0, 30)
		}, Burst, "user dan has 6 of 7 pending jobs, and running jobs on 16 of 16 processors in use: 96 % of what jobs hold"},
		{"limit", func(h *history) {
			busy(h, "ann")
			queue(h, "bob", "QOSGrpCpuLimit")
		}, Limit, "QOSGrpCpuLimit"},
		{"limit of a user", func(h *history) { queue(h, "bob", "QOSMaxCpuPerUserLimit") }, OwnLimit, "QOSMaxCpuPerUserLimit"},
		{"begin time", func(h *history) { queue(h, "bob", "BeginTime") }, Begin, "BeginTime"},
		{"dependencies", func(h *history) { queue(h, "bob", "Dependency") }, Dependent, "pending jobs wait for the jobs on which they depend"},
		{"held", func(h *history) { queue(h, "bob", "JobHeldUser") }, Held, "JobHeldUser"},
		{"backfill", func(h *history) {
			h.params = "bf_interval=30,bf_max_job_test=1"
			h.job("long", "ann", "n[1-2]", 2, 0, 1, 200, 300)
			h.job("big", "bob", "", 4, 2, -1, 0, 60)
			h.waits("big", 3, "Resources", 200)
			queue(h, "cid", "Priority")
		}, Backfill, "bf_max_job_test=1"},
		{"idle nodes, in a record without reasons", func(h *history) {
			h.job("long", "ann", "n[1-2]", 2, 0, 1, 200, 300)
			h.job("next", "bob", "", 1, 2, -1, 0, 60)
		}, Idle, "1 of 1 pending jobs fits on 2 nodes"},
		{"jobs without names of nodes", func(h *history) { // a log in SWF
			for _, user := range []string{"ann", "bob", "cid", "dan"} {
				h.job("busy"+user, user, "", 1, 0, 1, 400, 600)
				h.job("next"+user, user, "", 1, 5, -1, 0, 30)
			}
		}, Full, "16 of 16 processors"},
		{"large job", func(h *history) {
			h.job("long", "ann", "n1", 1, 0, 1, 200, 300)
			h.job("big", "bob", "", 4, 2, -1, 0, 60)
			h.waits("big", 3, "Resources", 20)
			queue(h, "cid", "Priority") // each of these jobs would run beyond the planned start of big
		}, Draining, "3 nodes have no jobs"},
		{"full", func(h *history) {
			for i, user := range []string{"ann", "bob", "cid", "dan"} {
				h.job("busy"+user, user, fmt.Sprint("n", i+1), 1, 0, 1, 400, 600)
				h.job("next"+user, user, "", 1, 5, -1, 0, 30)
				h.waits("next"+user, 6, "Priority", 0)
			}
		}, Full, "16 of 16 processors"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var h history
			test.make(&h)
			stall, err := h.record().At(at(10))
			if err != nil {
				t.Fatal(err)
			}
			if len(stall.Causes) == 0 || stall.Causes[0].Kind != test.want || !strings.Contains(stall.Causes[0].Text, test.text) {
				t.Errorf("causes %+v, want first %s with %q", stall.Causes, test.want, test.text)
			}
			for _, c := range stall.Causes {
				if c.Weight <= 0 || c.Weight > 1 {
					t.Errorf("weight %v of %s", c.Weight, c.Kind)
				}
			}
			var b bytes.Buffer
			if err := stall.Render(&b, time.UTC); err != nil || !strings.Contains(b.String(), test.text) {
				t.Errorf("%v\n%s", err, b.String())
			}
		})
	}
}

// A cause that several reasons name counts the jobs of each. A task that waits for the limit of its array need not have
// a reason yet.
func TestReasonsOfStall(t *testing.T) {
	var h history
	for i := range 3 {
		id := fmt.Sprint("task", i)
		h.job(id, "ann", "n1", 1, 0, 400, 500, 30)
		row := &h.rows[len(h.rows)-1]
		row.Eligible, row.AskedArrayLimit = row.Start, 1
		h.waits(id, 300, "JobArrayTaskLimit", 0)
	}
	h.job("other", "bob", "", 1, 0, -1, 0, 30)
	h.waits("other", 1, "QOSMaxCpuPerUserLimit", 0)
	stall, err := h.record().At(at(10))
	if err != nil {
		t.Fatal(err)
	}
	want := "4 of 4 pending jobs wait because of a limit of their arrays or their users: JobArrayTaskLimit (3), QOSMaxCpuPerUserLimit (1)"
	if got := stall.Causes[0]; got.Kind != OwnLimit || got.Text != want {
		t.Errorf("%+v, want %s", got, want)
	}
}

func TestIdleQueue(t *testing.T) {
	var h history
	h.job("a", "ann", "n1", 1, 0, 1, 50, 60)
	rec := h.record()
	stall, err := rec.At(at(10))
	if err != nil || stall.Pending != 0 || stall.Running != 1 || len(stall.Causes) != 0 {
		t.Errorf("%+v, %v", stall, err)
	}
	for _, outside := range []hpc.Time{at(-1), at(1001)} {
		if _, err := rec.At(outside); err == nil || !strings.Contains(err.Error(), "outside the run") {
			t.Errorf("%s: %v", outside, err)
		}
	}
}

func TestStory(t *testing.T) {
	var h history
	h.job("first", "ann", "n[1-4]", 4, 0, 1, 30, 60)
	h.job("me", "bob", "n[1-2]", 2, 5, 31, 60, 60)
	stall, err := rec.At(at(36))
	if err != nil || stall.Pending != 3 { // early, young and it; the record lacks when older came
		t.Errorf("%+v, %v, want 3 pending jobs", stall, err)
	}
	if got := rec.Submission(rec.row("young")); got != at(35) {
		t.Errorf("young was submitted at %v", got)
	}
	s, text = told(t, rec, "young")
	if !s.Preset || s.RecordedSubmit != Instant(at(35)) || s.Priority != 0 || len(s.LetStart) != 0 ||
		!strings.Contains(text, "did not decide its wait; in the workload it was submitted at 2023-11-14T22:48:20Z\n") {
		t.Errorf("%+v\n%s", s, text)
	}
	if s, text = told(t, rec, "older"); !s.Preset || !strings.Contains(text, "the record lacks its real submission\n") {
		t.Errorf("%s", text)
	}
}

// The line of the queue, and the cause of a full machine, tell eligible jobs from other pending jobs.
func TestEligiblePending(t *testing.T) {
	h := &history{}
	for i := range 4 {
		h.job(fmt.Sprint("busy", i), "ann", fmt.Sprint("n", i+1), 1, 0, 1, 400, 600)
	}
	for i, reason := range []string{"Dependency", "BeginTime", "JobHeldUser", "Resources", "Priority"} {
		h.job(reason, "bob", "", 1, 5, -1, 0, 30)
		h.rows[4+i].Processors = 4 + i
		h.waits(reason, 6, reason, 0)
	}
	h.job("later", "bob", "", 1, 5, 100, 200, 30) // its reason does not keep it from being eligible, but its date does
	h.rows[9].Eligible = at(50)
	h.waits("later", 6, "JobArrayTaskLimit", 0)
	h.waits("later", 9, "Priority", 0)
	stall, err := h.record().At(at(10))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := stall.Render(&b, time.UTC); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		": 5 jobs pending (30 processors); 2 of them eligible (15 processors), 4 running\n",
		"and pending jobs ask for 30 processors more, 15 of them for eligible jobs; the weight is",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// TestNeverEligibleInRecord: a job of a record that was cancelled before it was eligible waits for what it asks for, and
// nobody held its nodes. If the record lacks eligible dates, it does not say why the job waited.
func TestNeverEligibleInRecord(t *testing.T) {
	for _, test := range []struct {
		ask  hpc.Request
		want waits.Part
	}{
		{hpc.Request{Dependency: "afterok:a"}, waits.Dependency}, {hpc.Request{Begin: 9 * time.Hour}, waits.BeginTime},
		{hpc.Request{Hold: true}, waits.Held}, {hpc.Request{}, waits.Unknown},
	} {
		for _, eligible := range []hpc.Time{at(0), 0} {
			ran := &hpc.Job{ID: "a", Submit: at(0), Recorded: &hpc.Recorded{Eligible: eligible, Start: at(1), End: at(90), State: hpc.Completed,
				Processors: 4}}
			never := &hpc.Job{ID: "b", Submit: at(2), Request: test.ask, Recorded: &hpc.Recorded{End: at(80), State: hpc.Cancelled}}
			r, err := run.FromWorkload(&workload.Workload{Jobs: workload.JobsOf(ran, never)})
			if err != nil {
				t.Fatal(err)
			}
			rec, err := Open(r)
			if err != nil {
				t.Fatal(err)
			}
			s, text := told(t, rec, "b")
			stall, err := rec.At(at(30))
			if err != nil {
				t.Fatal(err)
			}
			want, pending := test.want, 0
			if eligible == 0 || want == waits.Unknown {
				want, pending = waits.Unknown, 1
			}
			if len(s.Parts) != 1 || s.Parts[0].Part != want || len(s.Holders) != pending || stall.Eligible != pending || s.Eligible != 0 {
				t.Errorf("eligible dates: %t, %+v: %d eligible, want %d; parts %+v, want %s\n%s", eligible != 0, test.ask, stall.Eligible,
					pending, s.Parts, want, text)
			}
		}
	}
}

// row returns the row of a job.
func (rec *Record) row(job string) *run.Row {
	return &rec.rows[slices.IndexFunc(rec.rows, func(r run.Row) bool { return r.Job == job })]
}

// told returns the story of a job, and its text.
func told(t *testing.T, rec *Record, job string) (*Story, string) {
	t.Helper()
	s, err := rec.Job(job)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := s.Render(&b, time.UTC); err != nil {
		t.Fatal(err)
	}
	return s, b.String()
}
