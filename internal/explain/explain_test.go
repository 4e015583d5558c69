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
	h.job("later", "cid", "n3", 1, 6, 30, 40, 20)
	h.rows = append(h.rows, run.Row{Job: "arr", Task: 2, Submit: at(1)}, run.Row{Job: "no", Task: -1, Submit: at(1), State: hpc.Rejected, Reason: "too large"})
	h.rows[1].RMJob = 4711
	h.waits("me", 6, "Priority", 0)
	h.waits("me", 10, "Resources", 60)
	rec := h.record()
	s, err := rec.Job("me")
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Reasons) != 3 || s.Reasons[0].Reason != "" || s.Reasons[2].Reason != "Resources" || s.Reasons[2].Seconds != 21*60 {
		t.Errorf("reasons %+v", s.Reasons)
	}
	if s.Planned != Instant(at(10)) || s.PlannedStart != Instant(at(60)) {
		t.Errorf("planned %v for %v", s.Planned, s.PlannedStart)
	}
	if s.Ahead.Jobs != 0 || s.Overtook.Jobs != 1 || s.Overtook.List[0] != "later" {
		t.Errorf("ahead %+v, overtook %+v", s.Ahead, s.Overtook)
	}
	if len(s.Holders) != 1 || s.Holders[0].Job != "first" {
		t.Errorf("holders %+v", s.Holders)
	}
	if len(s.LetStart) != 1 || !strings.HasPrefix(s.LetStart[0], "job first of ann, with 16 processors, ended at ") {
		t.Errorf("let it start: %q", s.LetStart)
	}
	if len(s.Causes) == 0 || s.Causes[0].Kind != Burst && s.Causes[0].Kind != Full {
		t.Errorf("causes %+v", s.Causes)
	}
	var b bytes.Buffer
	if err := s.Render(&b, time.UTC); err != nil || !strings.Contains(b.String(), "started      2023-11-14T22:44:20Z, after 26m") {
		t.Errorf("%v\n%s", err, b.String())
	}
	if text := b.String(); !strings.Contains(text, "held by      at 2023-11-14T22:") || !strings.Contains(text, ", in the middle of its longest wait for nodes that were in use:\n             job first of ann") {
		t.Errorf("when others held its nodes is not said:\n%s", text)
	}
	if other, err := rec.Job("4711"); err != nil || other.Submit != s.Submit {
		t.Errorf("by number: %v", err)
	}
	for name, want := range map[string]string{"absent": "no such job", "arr": "such as arr_2", "arr_99": "the array arr has no such task (it has ", "no": "too large"} {
		if _, err := rec.Job(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// The dates of a requeued job agree with its durations: from the first eligible date to the lost run, and from the
// second eligible date to the start.
func TestStoryOfRequeue(t *testing.T) {
	var h history
	h.job("me", "bob", "n[1-2]", 2, 0, 60, 90, 60)
	h.rows[0].Eligible = at(42)
	h.rows[0].Segments = []run.Segment{
		{Start: at(10), End: at(20), EndedBy: rm.Suspend, Eligible: at(3)}, {Start: at(25), End: at(40), EndedBy: rm.Requeue, PreemptedBy: "p"},
		{Start: at(60), End: at(90), EndedBy: rm.Ended},
	}
	s, err := h.record().Job("me")
	if err != nil {
		t.Fatal(err)
	}
	if s.Eligible != Instant(at(3)) || len(s.Lost) != 1 || s.Lost[0].EligibleAgain != Instant(at(42)) {
		t.Fatalf("eligible %v, lost %+v", s.Eligible.Text(time.UTC), s.Lost)
	}
	sum := at(10).Sub(at(3)) + at(60).Sub(at(42))
	if s.SinceEligible == nil || *s.SinceEligible != sum.Seconds() {
		t.Errorf("since eligible %v, want %v", s.SinceEligible, sum)
	}
	var b bytes.Buffer
	if err := s.Render(&b, time.UTC); err != nil {
		t.Fatal(err)
	}
	first, again := "eligible "+Instant(at(3)).Text(time.UTC), "preempted by job p, eligible again "+Instant(at(42)).Text(time.UTC)
	if text := b.String(); !strings.Contains(text, first) || !strings.Contains(text, again) {
		t.Errorf("want %q and %q\n%s", first, again, text)
	}
	for end, want := range map[hpc.Time]string{0: "; waits again since ", at(60): "; waited again since "} {
		row := &h.rows[0]
		row.Start, row.End, row.State, row.Segments = 0, end, hpc.Pending, row.Segments[:2]
		if s, err = h.record().Job("me"); err != nil {
			t.Fatal(err)
		}
		b.Reset()
		want = "started      " + Instant(at(10)).Text(time.UTC) + want + Instant(at(40)).Text(time.UTC) + ", after 1 lost run: PENDING after "
		if err := s.Render(&b, time.UTC); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%v: want %q\n%s", err, want, &b)
		}
	}
	if got := (&run.Row{Eligible: at(4), Segments: []run.Segment{{Start: at(5), EndedBy: rm.Ended}}}).FirstEligible(); got != at(4) {
		t.Errorf("a job that ran once: %v", got)
	}
}

// requeued gives the last job of a history a lost run before its last run.
func (h *history) requeued(start, end, eligible int, nodes string) *run.Row {
	row := &h.rows[len(h.rows)-1]
	row.Segments = []run.Segment{
		{Start: at(start), End: at(end), EndedBy: rm.Requeue, Nodes: nodes, NodeCount: 1, Processors: 4, Eligible: row.Eligible},
		{Start: row.Start, End: row.End, EndedBy: rm.Ended, NodeCount: row.NodeCount, Processors: row.Processors},
	}
	row.Eligible = at(eligible)
	return row
}

// The jobs ahead and the jobs that overtook are counted from the job's first submission, even if the job was eligible
// later or was requeued. Jobs that started in a lost run of this job do not count.
func TestCrowds(t *testing.T) {
	var h history
	h.job("running", "ann", "n1", 1, 0, 1, 30, 60)
	h.job("early", "ann", "n2", 1, 1, 10, 30, 60)     // in the queue at its submission, started before it was eligible
	h.job("again", "ben", "n[3-4]", 2, 1, 40, 70, 60) // ran, and was in the queue again
	h.requeued(2, 4, 5, "n4")                         // back in the queue at 5
	h.job("lost", "ben", "n[3-4]", 2, 1, 70, 80, 60)  // ran at its submission, and again
	h.requeued(3, 8, 9, "n4")
	h.job("me", "bob", "n2", 1, 5, 80, 90, 60)
	h.job("passing", "cid", "n3", 1, 6, 81, 99, 60) // its first run overtook, its last run did not
	h.requeued(20, 25, 26, "n3")
	h.job("after", "cid", "n3", 1, 6, 80, 90, 60)
	h.job("never", "cid", "", 1, 6, -1, 0, 60)
	h.job("elsewhere", "cid", "n4", 1, 6, 7, 8, 60)
	h.rows[len(h.rows)-1].Partition = "debug"
	me := func() *run.Row {
		for i := range h.rows {
			if h.rows[i].Job == "me" {
				return &h.rows[i]
			}
		}
		return nil
	}()
	for _, test := range []struct {
		name       string
		change     func()
		jobs, want string
	}{
		{"eligible late", func() { me.Eligible = at(75) }, "[early again] 12 [passing] 4", "started before it"},
		{"requeued", func() {
			me.Segments = []run.Segment{{Start: at(15), End: at(18), EndedBy: rm.Requeue}, {Start: at(80), End: at(90), EndedBy: rm.Ended}}
		}, "[early again] 12 [passing] 4", "started while it was in the queue"},
		{"others started in its lost run", func() { me.Segments[0].Start, me.Segments[0].End = at(6), at(21) }, "[again] 8 [] 0",
			"started while it was in the queue"},
		{"cancelled", func() { me.Start, me.End, me.State, me.Segments = 0, at(80), hpc.Cancelled, nil },
			"[early again] 12 [passing] 4", "started before it left the queue"},
	} {
		test.change()
		s, err := h.record().Job("me")
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(s.Ahead.List, s.Ahead.Processors, s.Overtook.List, s.Overtook.Processors)
		if got != test.jobs {
			t.Errorf("%s: %s", test.name, got)
		}
		var b strings.Builder
		if err := s.Render(&b, time.UTC); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"2 jobs with 12 processors were in the queue of its partition at its submission and " + test.want + ";",
			"1 job with 4 processors came to this queue later and " + test.want + ";",
		} {
			if s.Overtook.Jobs > 0 && !strings.Contains(b.String(), want) {
				t.Errorf("%s: no %q\n%s", test.name, want, b.String())
			}
		}
	}
}

// The longest wait for nodes may be before or after a lost run, and the holders are on the nodes of the run that
// came next. The time until a requeued job is eligible again is not a wait for nodes. A plan from before the
// lost run does not count after it.
func TestHoldersOfRequeue(t *testing.T) {
	for _, test := range []struct {
		name              string
		start, end, again int
		reasons           bool
		middle            time.Duration // since the beginning
		holder, why       string
	}{
		{"after the run", 20, 40, 42, true, 71*time.Minute + 30*time.Second, "second", "for nodes that were in use"},         // the middle of 43 to 100
		{"before the run", 60, 70, 72, true, 31*time.Minute + 30*time.Second, "first", "behind jobs with a higher priority"}, // the middle of 3 to 60
		{"no reasons", 20, 40, 42, false, 71 * time.Minute, "second", "(in the queue again, after a run that was lost)"},     // the middle of 42 to 100
		{"not eligible", 20, 30, 95, true, 11*time.Minute + 30*time.Second, "first", "behind jobs with a higher priority"},   // the middle of 3 to 20
	} {
		var h history
		h.job("first", "ann", "n1", 1, 0, 1, 58, 60)
		h.job("second", "ann", "n2", 1, 0, 58, 99, 60)
		h.job("me", "bob", "n2", 1, 2, 100, 150, 60)
		h.requeued(test.start, test.end, test.again, "n1")
		if test.reasons {
			h.waits("me", 3, "Priority", 200)
			h.waits("me", test.again+1, "Resources", 0)
		}
		rec := h.record()
		s, err := rec.Job("me")
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := s.Render(&b, time.UTC); err != nil {
			t.Fatal(err)
		}
		if len(s.Holders) != 1 || s.Holders[0].Job != test.holder {
			t.Errorf("%s: holders %+v\n%s", test.name, s.Holders, b.String())
		}
		if want := "held by      at " + Instant(at(0).Add(test.middle)).Text(time.UTC) +
			", in the middle of its longest wait " + test.why + ":\n"; !strings.Contains(b.String(), want) {
			t.Errorf("%s: no %q\n%s", test.name, want, b.String())
		}
		me := &rec.rows[2]
		before, after := rec.spanAt(me, at(test.start-1)), rec.spanAt(me, at(test.again+2))
		if test.reasons && (before.Planned != at(200) || after.Planned != 0) {
			t.Errorf("%s: planned for %v, and after the requeue for %v", test.name, before.Planned, after.Planned)
		}
	}
}

// The end of a job that counts for the limit lets a job start.
func TestLimitLetStart(t *testing.T) {
	for reason, want := range map[string]string{
		"QOSGrpCpuLimit": "qos: QOS", "AssocGrpNodeLimit": "account: account", "MaxJobsPerAccount": "account: account",
		"QOSMaxJobsPerUserLimit": "user: user", "AssocMaxJobsLimit": "user: user", "JobArrayTaskLimit": "array: array",
	} {
		var h history
		for _, name := range []string{"qos", "account", "user", "array", "else", "me"} {
			h.job(name, name, "n1", 1, 0, 1, 100, 600)
			row := &h.rows[len(h.rows)-1]
			row.QOS, row.Account = name, name
		}
		h.rows[0].QOS, h.rows[1].Account, h.rows[2].User, h.rows[3].Job, h.rows[3].Task = "me", "me", "me", "me", 1
		h.rows[5].Task, h.rows[5].Start, h.rows[5].Nodes = 2, at(100), "n2"
		h.events = []run.Event{{At: at(0), Kind: rm.Waiting, Job: "me", Task: 2, Reason: reason}}
		s, err := h.record().Job("me_2")
		if err != nil {
			t.Fatal(err)
		}
		job, what, _ := strings.Cut(want, ": ")
		if job == "array" {
			job = "me_1"
		}
		want := fmt.Sprintf("[job %s of the same %s ended at %s, so that the limit allowed this job]", job, what, at(100))
		if got := fmt.Sprint(s.LetStart); got != want {
			t.Errorf("%s: %s, want %s", reason, got, want)
		}
		h.rows[5].Segments = []run.Segment{{Start: at(2), End: at(10), EndedBy: rm.Requeue}, {Start: at(100), EndedBy: rm.Ended}}
		h.events = append(h.events, run.Event{At: at(10), Kind: rm.Waiting, Job: "me", Task: 2, Reason: "BeginTime"},
			run.Event{At: at(12), Kind: rm.Waiting, Job: "me", Task: 2, Reason: reason})
		if s, err = h.record().Job("me_2"); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(s.LetStart); len(s.Lost) != 1 || got != want {
			t.Errorf("%s after a lost run: %s, want %s", reason, got, want)
		}
	}
}

// Tasks of an array may be several jobs of a recorded workload. The engines apply the limit of an array to each job.
func TestLimitOfDividedArray(t *testing.T) {
	span := Span{Part: waits.OwnLimit, Seconds: 10}
	span.Reason = run.AtArrayLimit
	for _, test := range []struct {
		engine, job string
		task        int
		want        string
	}{
		{run.EngineRecorded, "7_1", -1, "array"}, {run.EngineRecorded, "7#2", 5, "array"}, {run.EngineRecorded, "7", 6, "array"},
		{run.EngineRecorded, "8_1", -1, ""}, {"sim", "7_1", -1, ""}, {"sim", "7", 6, "array"},
	} {
		s := &Story{manifest: &run.Manifest{Engine: test.engine}, Reasons: []Span{span}}
		if got, _ := s.belowLimit(&run.Row{Job: "7", Task: 3}, &run.Row{Job: test.job, Task: test.task}); got != test.want {
			t.Errorf("%s, job %s, task %d: the same %q, want %q", test.engine, test.job, test.task, got, test.want)
		}
	}
}

// The list of the jobs that held the nodes says that it is cut, and how many jobs there are.
func TestHoldersAreCut(t *testing.T) {
	for _, n := range []int{10, 12} {
		var h history
		for i := range n {
			h.job(fmt.Sprint("on", i), "ann", "n1", 1, 0, 1, 60, 90)
			h.rows[i].Processors = 1
		}
		h.job("me", "bob", "n1", 1, 2, 60, 90, 30)
		s, text := storyOf(t, &h)
		if s.HolderJobs != n || len(s.Holders) != 10 || strings.Contains(text, "\n             …, 12 jobs in all\n") != (n == 12) {
			t.Errorf("%d of %d jobs\n%s", len(s.Holders), s.HolderJobs, text)
		}
	}
}

// If each of three ends let another task start, the end of the fourth task allowed this one. A start takes as many
// processors as it needs: the rest of what an end leaves may be for this job.
func TestLimitTakenByOthers(t *testing.T) {
	after := func(seconds int) hpc.Time { return at(100).Add(time.Duration(seconds) * time.Second) }
	ended := func(task int, what string) string {
		return fmt.Sprintf("job a_%d of the same %s ended at %s, so that the limit allowed this job", task, what, after(10*task))
	}
	for reason, want := range map[string][]string{
		"JobArrayTaskLimit": {ended(4, "array")}, "AssocGrpCpuLimit": {ended(3, "account"), ended(4, "account")},
	} {
		var h history
		for task := 1; task <= 8; task++ {
			h.job("a", "ann", fmt.Sprint("n", task), 1, 0, 1, 500, 600)
			row := &h.rows[task-1]
			row.Task, row.Account = task, "physics"
			if task > 4 {
				row.Start = after(10 * (task - 4))
			} else {
				row.End = after(10 * task)
			}
			if task == 3 {
				row.Processors *= 2
			}
		}
		h.events = []run.Event{{At: at(0), Kind: rm.Waiting, Job: "a", Task: 8, Reason: reason}}
		s, err := h.record().Job("a_8")
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.LetStart, want) {
			t.Errorf("%s: %q, want %q", reason, s.LetStart, want)
		}
	}
}

// TestUnmet checks the texts about the jobs whose ends exclude that a job's dependencies are ever met.
func TestUnmet(t *testing.T) {
	end := at(30).String()
	failed, well := "job bad ended at "+end+" in the state FAILED", "job good ended at "+end+" in the state COMPLETED"
	for dependency, want := range map[string][]string{
		"afterok:bad":                 {failed + ", so afterok:bad can never be met"},
		"afternotok:good":             {well + ", so afternotok:good can never be met"},
		"afterok:bad,afternotok:good": {failed + ", so afterok:bad can never be met", well + ", so afternotok:good can never be met"},
		"afterok:bad?afterok:good":    nil, // one condition is met
		"afterok:bad?afternotok:good": {failed + ", so afterok:bad can never be met", well + ", so afternotok:good can never be met"},
		"afterany:bad,afterok:good":   nil,
		"afterok:late":                nil, // its end comes after the cancellation
		"afterok:array":               {"job array_1 ended at " + end + " in the state FAILED, so afterok:array can never be met"},
		"afternotok:array":            nil,
		"aftercorr:array":             nil,
		"afterok:array_1":             {"job array_1 ended at " + end + " in the state FAILED, so afterok:array_1 can never be met"},
		"singleton":                   nil,
	} {
		var h history
		for _, name := range []string{"bad", "good", "late", "array", "array"} {
			h.job(name, "ann", "n1", 1, 0, 1, 30, 60)
		}
		h.rows[0].State, h.rows[2].State, h.rows[2].End, h.rows[3].State = hpc.Failed, hpc.Failed, at(50), hpc.Failed
		h.rows[3].Task, h.rows[4].Task = 1, 2
		h.job("me", "ann", "", 1, 5, -1, 0, 30)
		me := &h.rows[len(h.rows)-1]
		me.State, me.End, me.AskedDependency = hpc.Cancelled, at(40), true
		h.waits("me", 6, "Dependency", 0)
		rec := h.record()
		rec.requests["me"] = &hpc.Job{ID: "me", Request: hpc.Request{Dependency: dependency}}
		s, err := rec.Job("me")
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.Unmet, want) {
			t.Errorf("%s: %q, want %q", dependency, s.Unmet, want)
		}
		if len(s.Parts) != 1 || s.Parts[0].Part != waits.Dependency {
			t.Errorf("%s: waited %+v", dependency, s.Parts)
		}
		var b strings.Builder
		if err := s.Render(&b, time.UTC); err != nil || len(want) > 0 && !strings.Contains(b.String(), "\ndependency   "+want[0]+"\n") {
			t.Errorf("%s: %v\n%s", dependency, err, b.String())
		}
	}
}

// The record has only the first plan of a reason, so the text says "at first planned for".
func TestPlanOfThePast(t *testing.T) {
	var h history
	h.job("me", "bob", "n1", 1, 0, 100, 120, 60)
	h.waits("me", 1, "Priority", 20)
	h.waits("me", 30, "QOSGrpCpuLimit", 20)
	h.waits("me", 50, "Resources", 99)
	_, text := storyOf(t, &h)
	for _, want := range []string{
		"Priority, at first planned for 2023", "QOSGrpCpuLimit\n", "Resources, at first planned for 2023",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q:\n%s", want, text)
		}
	}
}

// The time in which a job is not in backfill's queue does not count for backfill's last verdict on the job.
func TestBackfillOfQueuedTime(t *testing.T) {
	var h history
	h.job("me", "bob", "n1", 1, 0, 100, 120, 60)
	for i, reason := range []string{
		"Priority", "JobArrayTaskLimit", "Dependency", "JobHeldUser", "BeginTime", "PartitionDown", "Resources", "QOSGrpCpuLimit",
	} {
		e := run.Event{At: at(1 + 10*i), Kind: rm.Waiting, Job: "me", Task: -1, Reason: reason, Backfill: rm.Planned}
		if reason == "QOSGrpCpuLimit" {
			e.Backfill = rm.OverLimit
		}
		h.events = append(h.events, e)
	}
	s, text := storyOf(t, &h)
	if want := []BackfillTime{{rm.OverLimit, 29 * 60}, {rm.Planned, 20 * 60}}; !slices.Equal(s.Backfill, want) {
		t.Errorf("%v, want %v\n%s", s.Backfill, want, text)
	}
}

// Nodes of other partitions are not free for a job. Nodes that two partitions share are taken if a job of
// either partition has them.
func TestNodesOfOtherPartitions(t *testing.T) {
	for _, test := range []struct {
		name string
		gpu  int // nodes that the running job of gpu has, from n1 on
		want string
	}{
		{"all taken", 2, ""},
		{"one free", 1, "1 node has no jobs"},
	} {
		var h history
		h.job("running", "ann", fmt.Sprintf("n[1-%d]", test.gpu), test.gpu, 0, 1, 400, 600)
		h.job("before", "ann", "n[1-2]", 2, 0, 0, 1, 600)
		h.job("me", "bob", "", 2, 5, -1, 0, 600)
		h.waits("me", 6, "Resources", 400)
		for i := range h.rows {
			h.rows[i].Partition = "gpu"
		}
		h.rows[0].Partition = "debug" // has the nodes of gpu
		rec := h.record()
		rec.manifest.Cluster.Partitions = []run.Partition{{Name: "main", Nodes: 2, Processors: 8}, {Name: "gpu", Nodes: 2, Processors: 8},
			{Name: "debug", Nodes: 2, Processors: 8}}
		whole, err := rec.At(at(10))
		if err != nil {
			t.Fatal(err)
		}
		for _, causes := range [][]Cause{whole.Causes, rec.forNodes(&rec.rows[2], at(10))} {
			text := ""
			for _, c := range causes {
				if c.Kind == Draining {
					text = c.Text
				}
			}
			if got, _, _ := strings.Cut(text, ","); got != test.want {
				t.Errorf("%s: %q, want %q", test.name, got, test.want)
			}
		}
	}
}

// A holder is described by the run in which it held the nodes, not by its last run.
func TestHoldersInALostRun(t *testing.T) {
	var h history
	h.job("holder", "ann", "n[3-4]", 2, 0, 110, 0, 600)
	h.requeued(1, 90, 91, "n1")
	h.rows[0].End, h.rows[0].State, h.rows[0].Segments[1].End, h.rows[0].Segments[1].EndedBy = 0, hpc.Running, 0, ""
	h.job("me", "bob", "n1", 1, 2, 100, 120, 60)
	h.job("next", "bob", "n4", 1, 130, -1, 0, 60)
	for name, want := range map[string]string{
		"me":   "4 processors, " + Instant(at(1)).Text(time.UTC) + " to " + Instant(at(90)).Text(time.UTC) + "\n",
		"next": "8 processors, " + Instant(at(110)).Text(time.UTC) + " until the run ended\n",
	} {
		s, err := h.record().Job(name)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := s.Render(&b, time.UTC); err != nil || !strings.Contains(b.String(), "job holder of ann: "+want) {
			t.Errorf("%s: %v, want %q\n%s", name, err, want, b.String())
		}
	}
}

// A suspension that lasts until the run ends has a length. The job is not in the queue meanwhile.
func TestSuspendedUntilTheEnd(t *testing.T) {
	var h history
	h.job("me", "bob", "n1", 1, 2, 100, 0, 60)
	h.rows[0].State = hpc.Suspended
	h.rows[0].End, h.rows[0].Segments = 0, []run.Segment{{Start: at(100), End: at(940), EndedBy: rm.Suspend, NodeCount: 1, Processors: 4}}
	if stall, err := h.record().At(at(950)); err != nil || stall.Pending != 0 || stall.Running != 0 {
		t.Errorf("%v, %+v", err, stall)
	}
	s, err := h.record().Job("me")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := s.Render(&b, time.UTC); err != nil || !strings.Contains(b.String(), "suspended    1 time, 1h in all") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// If the record does not have the machine's size, the text does not call it 0.
func TestUnknownMachine(t *testing.T) {
	for size, want := range map[int]string{0: "machine      4 processors in use, jobs on 1 node\n", 16: "machine      4 of 16 processors in use, jobs on 1 of 16 nodes\n"} {
		var b strings.Builder
		s := Stall{BusyProcessors: 4, BusyNodes: 1, Processors: size, Nodes: size}
		if err := s.Render(&b, time.UTC); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%d: %v\n%s", size, err, b.String())
		}
	}
}

// If a job waited for its dependency, the jobs that had its node are not its holders, and its cause
// is the dependency.
func TestStoryOfDependency(t *testing.T) {
	var h history
	h.job("first", "ann", "n1", 1, 0, 1, 30, 60)
	h.job("me", "bob", "n1", 1, 5, 31, 60, 60)
	h.waits("me", 5, "Dependency", 0)
	h.rows[1].Eligible = h.rows[1].Start
	s, text := storyOf(t, &h)
	if len(s.Holders) != 0 || strings.Contains(text, "held by") || len(s.Parts) == 0 || s.Parts[0].Part != waits.Dependency ||
		!strings.Contains(text, "4 processors, 1 node,") {
		t.Errorf("holders %+v, parts %+v\n%s", s.Holders, s.Parts, text)
	}
}

// storyOf returns the story of the job "me", and its text.
func storyOf(t *testing.T, h *history) (s *Story, text string) {
	t.Helper()
	s, err := h.record().Job("me")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := s.Render(&b, time.UTC); err != nil {
		t.Fatal(err)
	}
	return s, b.String()
}

// TestPostponed: the story of a job that depends on a preset job warns that its wait is too short, as the run does.
func TestPostponed(t *testing.T) {
	h := &history{}
	h.job("preset", "ada", "n1", 1, 30, 30, 90, 120)
	h.job("late", "ada", "n2", 1, 60, 60, 90, 120)
	h.job("next", "ada", "n1", 1, 30, 90, 100, 60)
	h.job("last", "ada", "n1", 1, 30, 100, 110, 60)
	h.job("then", "ada", "n1", 1, 40, 110, 120, 60)
	h.job("moved", "ada", "n1", 1, 35, 110, 120, 60) // by feedback
	h.job("only", "ada", "n1", 1, 60, 110, 120, 60)
	rec := h.record()
	rec.manifest.WindowStart = at(61)
	submits := map[string]int{"preset": 5, "late": 6, "next": 10, "last": 11, "then": 40, "moved": 31, "only": 12}
	for i := range rec.rows {
		rec.rows[i].RecordedSubmit = at(submits[rec.rows[i].Job])
	}
	depends := func(job, name, on string) {
		rec.requests[job] = &hpc.Job{ID: job, Request: hpc.Request{Name: name, Dependency: on}}
	}
	depends("late", "chain", "")
	depends("next", "a", "afterok:preset")
	depends("last", "b", "afterany:next_3:last")
	depends("then", "c", "afterany:preset")
	depends("moved", "d", "afterany:preset")
	depends("only", "chain", "singleton")
	for job, want := range map[string]string{
		"preset": "", "then": "", "moved": "",
		"next": "warning      its wait is too short by 20m: the run submitted it late, because it depends on job preset, which ran when the window began and is submitted only at its start\n",
		"last": "warning      its wait is too short by 19m: the run submitted it late, because it depends on job preset, ",
		"only": "warning      its wait is too short by 48m: the run submitted it late, because it depends on job late, ",
	} {
		s, err := rec.Job(job)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := s.Render(&b, time.UTC); err != nil || strings.Contains(b.String(), "too short") != (want != "") || !strings.Contains(b.String(), want) {
			t.Errorf("%s: %v, want %q in\n%s", job, err, want, b.String())
		}
	}
}

// A job is compared with the jobs that started before it by its priority at that time, not at its
// start. Its priority grew from 1,000 to 9,000 while it waited. Between two known priorities, it
// grows linearly.
func TestPriorityWhileItWaited(t *testing.T) {
	const behind = "for 100 % of its wait it waited behind jobs with a higher priority"
	for _, test := range []struct {
		name       string
		priorities []uint32 // the job's at minutes 0, 40 and 80
		start      uint32   // the job's at its start, minute 90
		others     []uint32 // of jobs with 16 processors that started at minutes 20, 60 and 85
		took       int
		weight     float64
		text       string
	}{
		{"grew", []uint32{1000, 2000, 8000}, 9000, []uint32{1600, 5100, 8400}, 32, 2.0 / 3, behind +
			", and jobs of its partition that started with a higher priority got about 32 of the 48 processors that " +
			"jobs of this partition got in that time (the record lacks its priority for up to 40m)"},
		{"interpolated", []uint32{1000, 2000, 8000}, 9000, []uint32{1500, 5000, 8501}, 16, 1.0 / 3, "got about 16 of the 48 "},
		{"constant", []uint32{2000, 2000, 2000}, 2000, []uint32{2000, 2001, 1999}, 16, 1.0 / 3, "got 16 of the 48 "},
		{"start only", []uint32{0, 0, 0}, 9000, []uint32{1600, 5100, 8400}, 0, 1, behind +
			"; the record does not have its priority while it waited, so it is not known how many processors these jobs used"},
		{"no priority", []uint32{0, 0, 0}, 0, []uint32{1600, 5100, 8400}, 0, 0, ""},
	} {
		var h history
		for i, minute := range []int{20, 60, 85} {
			h.job(fmt.Sprint("other", i), fmt.Sprint("user", i), "n[1-4]", 4, 0, minute, []int{60, 85, 90}[i], 60)
			h.rows[i].Priority = test.others[i]
		}
		h.job("me", "bob", "n1", 1, 0, 90, 120, 60)
		h.rows[3].Priority, h.rows[3].Eligible = test.start, at(0)
		for i, p := range test.priorities {
			h.waits("me", 40*i, "Priority", 300)
			h.events[i].Priority = p
		}
		s, text := storyOf(t, &h)
		cause := Cause{}
		for _, c := range s.Causes {
			if c.Kind == Ranked {
				cause = c
			}
		}
		if s.higher != test.took || math.Abs(cause.Weight-test.weight) > 1e-9 || !strings.Contains(cause.Text, test.text) ||
			!strings.Contains(text, cause.Text) {
			t.Errorf("%s: %d processors, %+v, want %d, %v and %q\n%s",
				test.name, s.higher, cause, test.took, test.weight, test.text, text)
		}
		rec := h.record()
		g := rec.groups(pointers(rec, func(r *run.Row) bool { return r.Job == "me" }), "").Groups[0]
		ranked, sum := 0.0, 0.0
		for _, c := range g.Causes {
			sum += float64(c.Seconds)
			if c.Kind == Ranked {
				ranked += float64(c.Share)
			}
		}
		if (ranked > 0.5) != (test.weight > 0.5) || math.Abs(sum-90*60) > 1e-6 {
			t.Errorf("%s: causes of the group %+v", test.name, g.Causes)
		}
	}
}

// If the record has the parts of priorities, the points of fair-share come from all jobs of the
// same user and account. They were 0 in between, and the job's own priorities do not show this.
// The age grows linearly.
func TestFairShareWhileItWaited(t *testing.T) {
	var h history
	for i, minute := range []int{5, 30, 60} {
		h.job(fmt.Sprint("other", i), fmt.Sprint("user", i), "n[1-4]", 4, 0, minute, []int{30, 60, 90}[i], 60)
		h.rows[i].Priority = []uint32{4999, 1300, 1601}[i]
	}
	h.job("me", "bob", "n1", 1, 0, 90, 120, 60)
	h.job("mine", "bob", "n1", 1, 0, 120, 150, 60)
	h.job("another", "ann", "n1", 1, 0, 120, 150, 60)
	parts := func(age, share float64) []rm.PriorityPart {
		list := []rm.PriorityPart{{Name: "age", Points: age}, {Name: "fairshare", Points: share}, {Name: "qos", Points: 1000}}
		if share == 0 { // a part without points is not recorded
			list = slices.Delete(list, 1, 2)
		}
		return list
	}
	h.rows[3].Priority, h.rows[3].PriorityParts = 5900, parts(900, 4000)
	waits := func(id string, minute int, age, share float64) {
		h.waits(id, minute, "Priority", 300)
		e := &h.events[len(h.events)-1]
		e.Priority, e.Parts = uint32(1000+age+share), parts(age, share)
	}
	waits("me", 0, 0, 4000)
	waits("mine", 20, 200, 0)
	waits("another", 40, 400, 4000)
	waits("mine", 70, 700, 0)
	s, _ := storyOf(t, &h)
	i := slices.IndexFunc(s.Causes, func(c Cause) bool { return c.Kind == Ranked })
	if i < 0 || math.Abs(s.Causes[i].Weight-1.0/3) > 1e-9 || !strings.Contains(s.Causes[i].Text, " got 16 of the 48 processors") {
		t.Errorf("%+v", s.Causes)
	}
}

// A job that was preempted waited for its priority before the lost run only. Jobs that started in
// the lost run or after it do not count, and the priority after the lost run says nothing about
// the time before. A lost run of another job counts with the priority that this job had then.
func TestPriorityBeforeALostRun(t *testing.T) {
	var h history
	for i, minute := range []int{5, 10, 30, 60} {
		h.job(fmt.Sprint("other", i), fmt.Sprint("user", i), "n2", 1, 0, minute, 100, 60)
		h.rows[i].Priority = []uint32{2001, 1999, 9000, 9000}[i]
	}
	h.job("lost", "eve", "n3", 1, 0, 70, 100, 60)
	h.rows[4].Priority = 9000
	h.requeued(15, 65, 67, "n3")
	h.waits("lost", 1, "Priority", 0)
	h.events[0].Priority = 1000
	h.job("me", "bob", "n1", 1, 0, 90, 120, 60)
	h.rows[5].Priority = 9000
	h.requeued(20, 40, 42, "n1")
	h.waits("me", 0, "Priority", 0)
	h.waits("me", 50, "Priority", 0)
	h.events[1].Priority, h.events[2].Priority = 2000, 8000
	h.job("full", "zoe", "n[1-4]", 4, 0, 0, 120, 300) // without free nodes, backfill is no cause
	h.rows[6].Submit, h.rows[6].Start = at(-2), at(-1)
	s, text := storyOf(t, &h)
	i := slices.IndexFunc(s.Causes, func(c Cause) bool { return c.Kind == Ranked })
	const want = "for 29 % of its wait it waited behind jobs with a higher priority, and jobs of its partition that " +
		"started with a higher priority got about 4 of the 12 processors that jobs of this partition got in that time " +
		"(the record lacks its priority for up to 15m)"
	if i < 0 || math.Abs(s.Causes[i].Weight-20.0/70/3) > 1e-9 || !strings.Contains(text, want) {
		t.Errorf("%+v\n%s", s.Causes, text)
	}
}

// The line of machine-full has the numbers from which its weight follows.
func TestWeightOfFull(t *testing.T) {
	for _, test := range []struct {
		name             string
		jobs, wait, held int
		weight           float64
		text             string
	}{
		{"nodes", 4, 0, 1, 0.5, "jobs use 4 of 16 processors on 4 of 4 nodes, and pending jobs of partition main " +
			"ask for 4 processors more; the weight is half of the share of the nodes in use"},
		{"processors", 2, 0, 8, 0.5, "jobs use 16 of 16 processors on 2 of 4 nodes, and pending jobs of partition " +
			"main ask for 4 processors more; the weight is half of the share of the processors in use"},
		{"half of the wait", 4, 45, 4, 0.25, "in use; multiplied by 0.50, the share of its wait for nodes, behind other jobs or without " +
			"a reason"},
	} {
		var h history
		for i := range test.jobs {
			h.job(fmt.Sprint("other", i), fmt.Sprint("user", i), fmt.Sprint("n", i+1), 1, 0, 0, 90, 300)
			h.rows[i].Processors = test.held
		}
		h.job("me", "bob", "n1", 1, 0, 90, 120, 60)
		if test.wait > 0 {
			h.waits("me", 0, "Dependency", 0)
		}
		h.waits("me", test.wait, "Resources", 300)
		s, _ := storyOf(t, &h)
		i := slices.IndexFunc(s.Causes, func(c Cause) bool { return c.Kind == Full })
		if i < 0 || math.Abs(s.Causes[i].Weight-test.weight) > 1e-9 || !strings.Contains(s.Causes[i].Text, test.text) {
			t.Errorf("%s: %+v, want %v and %q", test.name, s.Causes, test.weight, test.text)
		}
	}
}

// The simulator's policies from the literature have no priorities, so nothing says that priorities held back a job.
// TestDrivenRun: the driver of --io-schedule held the jobs, not a user.
func TestDrivenRun(t *testing.T) {
	var h history
	h.job("busy", "ann", "n[1-4]", 4, 0, 1, 61, 90)
	h.job("me", "bob", "n[1-2]", 2, 1, 61, 80, 30)
	h.waits("me", 1, "JobHeldUser", 0)
	rec := h.record()
	rec.manifest.IOSchedule = "aware"
	s, err := rec.Job("me")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := s.Render(&b, time.UTC); err != nil {
		t.Fatal(err)
	}
	if err := rec.Groups([]*run.Row{&rec.rows[1]}).Render(&b, time.UTC); err != nil {
		t.Fatal(err)
	}
	now, err := rec.At(at(30))
	if err != nil {
		t.Fatal(err)
	}
	if err := now.Render(&b, time.UTC); err != nil {
		t.Fatal(err)
	}
	const held, holds = "while the driver of --io-schedule held it, until the file system and nodes are free", "waits "
	if text := b.String(); strings.Count(text, held) != 4 || strings.Count(text, holds+held) != 1 ||
		strings.Count(text, strings.Replace(waits.OnlyHeld, ": ", ":\n   ", 1)) != 1 || strings.Contains(text, "it was held") {
		t.Error(text)
	}
}

func TestRunWithoutPriorities(t *testing.T) {
	for policy, priorities := range map[string]bool{"easy": false, "slurm": true} {
		var h history
		h.job("busy", "ann", "n[1-4]", 4, 0, 1, 61, 90)
		h.job("me", "bob", "n[1-2]", 2, 1, 90, 110, 30)
		h.rows[1].Eligible, h.rows[1].First = h.rows[1].Submit, at(80)
		rec := h.record()
		rec.manifest.Engine, rec.manifest.Policy = "sim", policy
		s, err := rec.Job("me")
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := s.Render(&b, time.UTC); err != nil {
			t.Fatal(err)
		}
		b.WriteString(cause{kind: Ranked}.text(rec.manifest))
		if text := b.String(); s.Parts[0].Part != waits.Priority || strings.Contains(text, "higher priority") != priorities ||
			strings.Count(text, "ahead of") != map[bool]int{false: 4}[priorities] {
			t.Errorf("%s: %+v\n%s", policy, s.Parts, text)
		}
	}
}

// The order of the queue follows from the submissions in the workload: a run submits preset jobs at their starts.
func TestPresetOrder(t *testing.T) {
	h := &history{}
	h.job("early", "ada", "n1", 1, 39, 40, 200, 300)
	h.job("young", "ben", "n2", 1, 49, 50, 200, 300)
	h.job("older", "cid", "n3", 1, 59, 60, 200, 300)
	h.job("it", "dan", "n4", 1, 30, 120, 150, 60)
	h.waits("it", 100, "Resources", 0)
	rec := h.record()
	rec.manifest.WindowStart = at(100)
	for job, submit := range map[string]int{"early": 10, "young": 35, "it": 30} {
		rec.row(job).RecordedSubmit = at(submit)
	}
	s, text := told(t, rec, "it")
	if !slices.Equal(s.Ahead.List, []string{"early"}) || !slices.Equal(s.Overtook.List, []string{"young"}) ||
		s.Unordered != 1 {
		t.Errorf("ahead %+v, overtook %+v, %d unordered", s.Ahead, s.Overtook, s.Unordered)
	}
	const left = "left out     1 job that ran when the window began is neither ahead nor in overtook: " +
		"the record lacks its submission\n"
	if !strings.Contains(text, left) {
		t.Errorf("want %q in\n%s", left, text)
	}
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
		": 6 jobs pending (34 processors); 2 of them eligible (15 processors), 4 running\n",
		"and pending jobs ask for 34 processors more, 15 of them for eligible jobs; the weight is",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// TestCancelledByWorkload: the story says that the workload cancelled the job, if nothing else ended it.
func TestCancelledByWorkload(t *testing.T) {
	for _, test := range []struct {
		end  int // minutes
		want bool
	}{{15, true}, {12, false}, {40, false}} {
		h := &history{}
		h.job("a", "ann", "", 1, 5, -1, 0, 30)
		h.rows[0].State, h.rows[0].End = hpc.Cancelled, at(test.end).Add(time.Second)
		rec := h.record()
		rec.requests["a"] = &hpc.Job{Behaviour: hpc.Behaviour{CancelAfter: 10 * time.Minute}}
		s, text := told(t, rec, "a")
		says := strings.Contains(text, "\ncancelled    2023-11-14T22:28:21Z: the workload cancels it 10m after its submission\n")
		if says != test.want || (s.CancelledAfter == 600) != test.want {
			t.Errorf("it ended after %d min: %v\n%s", test.end, s.CancelledAfter, text)
		}
		rec.manifest.Engine = run.EngineRecorded
		if _, text = told(t, rec, "a"); strings.Contains(text, "\ncancelled") {
			t.Errorf("a record does not say who cancelled the job\n%s", text)
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
