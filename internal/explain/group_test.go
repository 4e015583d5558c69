package explain

import (
	"bytes"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

// day has waits of many kinds in two partitions: four nodes are held by ann while jobs of bob wait.
func day() *history {
	h := &history{}
	h.job("busy", "ann", "n[1-4]", 4, 0, 1, 61, 90)
	h.job("next", "bob", "n[1-2]", 2, 1, 61, 80, 30)
	h.waits("next", 2, "Resources", 61)
	h.job("third", "bob", "n[3-4]", 2, 11, 61, 70, 30)
	h.waits("third", 12, "Priority", 0)
	h.job("after", "bob", "n[1-2]", 2, 20, 81, 90, 30)
	h.rows[3].AskedDependency, h.rows[3].Eligible = true, at(80)
	h.job("never", "bob", "", 1, 900, -1, 0, 30)
	h.rows[4].Partition = "other"
	h.job("limited", "cid", "n3", 1, 100, 130, 140, 30)
	h.rows[5].Partition = "other"
	h.waits("limited", 100, "QOSGrpCpuLimit", 0)
	return h
}

// pointers returns the rows for which keep is true.
func pointers(rec *Record, keep func(*run.Row) bool) (list []*run.Row) {
	for i := range rec.rows {
		if keep(&rec.rows[i]) {
			list = append(list, &rec.rows[i])
		}
	}
	return list
}

func everything(*run.Row) bool { return true }

// The waits of a group are the waits of its jobs in metrics. The causes divide them, and the rivals are
// the users who held the nodes meanwhile.
func TestGroup(t *testing.T) {
	rec := day().record()
	groups := rec.Groups(pointers(rec, func(r *run.Row) bool { return r.User == "bob" && r.Partition == "main" }))
	g := groups.Groupings[0].Groups[0]
	if len(groups.Groupings[0].Groups) != 1 || g.Waited != 3 || g.Wait != (60+50+61)*60 || g.Mean != 57*60 {
		t.Fatalf("%+v", g)
	}
	causes := map[Kind]float64{}
	for _, c := range g.Causes {
		causes[c.Kind] += float64(c.Seconds) / 60
		if len(c.Examples) == 0 || c.Text == "" {
			t.Errorf("%+v", c)
		}
	}
	if causes[Dependent] != 60 || math.Abs(causes[Burst]+causes[Backfill]-111) > 1e-9 {
		t.Errorf("causes %v", causes)
	}
	if u := g.Rivals[0]; u.Name != "ann" || u.Share < 0.9 || u.Processors < 14 {
		t.Errorf("rivals %+v", g.Rivals)
	}
	var b bytes.Buffer
	if err := groups.Render(&b, time.UTC); err != nil || !strings.Contains(b.String(), "group        3 jobs waited 2.9 hours, on average 00:57:00") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// For every grouping, the groups include all waits, the causes of each group divide its waits to
// the nanosecond, and the parts have the same sums as in metrics.
func TestGroupsAddUp(t *testing.T) {
	rec := day().record()
	all := metrics.Compute(rec.rows, metrics.Options{}.WithManifest(rec.manifest))
	for _, by := range append([]metrics.By{""}, metrics.Groupings...) {
		sum, waited, never := 0.0, 0, 0
		for _, g := range rec.groups(pointers(rec, everything), by).Groups {
			causes := float64(g.OtherCauses)
			for _, c := range g.Causes {
				causes += float64(c.Seconds)
			}
			if math.Abs(causes-float64(g.Wait)) > 1e-6 {
				t.Errorf("%s %s: causes are %v s of %v s: %+v", by, g.Name, causes, g.Wait, g.Causes)
			}
			sum, waited, never = sum+float64(g.Wait), waited+g.Waited, never+g.NeverStarted
			if by == "" && !slices.Equal(g.Parts, all.WaitParts) {
				t.Errorf("parts %+v, want %+v", g.Parts, all.WaitParts)
			}
		}
		if math.Abs(sum-float64(all.Wait.Mean)*float64(all.Waited)) > 1e-6 || waited != all.Waited || never != 1 {
			t.Errorf("by %s: %d jobs waited %v s, want %d and %v s; %d never started", by, waited, sum, all.Waited, all.Wait.Mean*metrics.Float(all.Waited), never)
		}
	}
}

// A limit is named. If the record has neither the reason of a wait nor the machine, the cause is
// not known.
func TestGroupCauses(t *testing.T) {
	rec := day().record()
	limited := pointers(rec, func(r *run.Row) bool { return r.User == "cid" })
	c := rec.groups(limited, metrics.ByUser).Groups[0].Causes[0]
	if c.Kind != Limit || c.Text != "because of an association, QOS, partition or license limit: QOSGrpCpuLimit" || c.Share != 1 {
		t.Errorf("%+v", c)
	}
	limited[0].Reasons, rec.manifest.Cluster = nil, run.Cluster{}
	if c := rec.groups(limited, "").Groups[0].Causes[0]; c.Kind != "" || c.Share != 1 {
		t.Errorf("%+v", c)
	}
}

// Jobs of another partition on the same nodes are rivals, by the share of their nodes.
func TestRivalsOfOtherPartitions(t *testing.T) {
	h := &history{}
	h.job("wide", "ann", "n[1-4]", 4, 0, 1, 61, 90)
	h.rows[0].Partition = "big"
	h.job("me", "bob", "n[3-4]", 2, 1, 61, 80, 30)
	rec := h.record()
	g := rec.groups(pointers(rec, func(r *run.Row) bool { return r.Job == "me" }), "").Groups[0]
	if len(g.Rivals) != 1 || g.Rivals[0].Name != "ann" || g.Rivals[0].Processors != 8 || g.OwnShare != 0 {
		t.Errorf("%+v, own share %v", g.Rivals, g.OwnShare)
	}
	if d, _ := waits.Wait(&h.rows[1]); d != time.Hour || rec.manifest.VirtualStart != at(0) {
		t.Errorf("wait %s", d)
	}
}

// The time before a window has a separate cause, for a job, for groups and for an instant. The
// machine looks empty then, so its state does not explain a wait.
func TestBeforeWindow(t *testing.T) {
	h := &history{}
	h.job("early", "ann", "n[1-4]", 4, 0, 70, 90, 30)
	h.job("busy", "bob", "n[1-4]", 4, 60, 60, 70, 30)
	rec := h.record()
	rec.manifest.WindowStart = at(60)
	rec.rows[0].Reasons = []run.Span{
		{From: at(0), To: at(60), Reason: run.BeforeWindow}, {From: at(60), To: at(70), Reason: "Resources"},
	}
	story, err := rec.Job("early")
	if err != nil {
		t.Fatal(err)
	}
	if c := story.Causes[0]; c.Kind != Before || math.Abs(c.Weight-60.0/70) > 1e-9 {
		t.Errorf("causes of the job: %+v", story.Causes)
	}
	sum := 0.0
	for _, c := range story.Causes {
		sum += c.Weight
		if c.Kind == Backfill || c.Kind == Idle {
			t.Errorf("an invented cause: %+v", c)
		}
	}
	if sum > 1 {
		t.Errorf("causes of the job add up to %v", sum)
	}
	causes := map[Kind]float64{}
	for _, c := range rec.Groups(pointers(rec, everything)).Groupings[0].Groups[0].Causes {
		causes[c.Kind] += float64(c.Seconds) / 60
	}
	if causes[Before] != 60 || len(causes) != 2 || causes[Full]+causes[Burst] != 10 {
		t.Errorf("causes of the group: %v", causes)
	}
	stall, err := rec.At(at(30))
	if err != nil {
		t.Fatal(err)
	}
	if len(stall.Causes) != 1 || stall.Causes[0].Kind != Before {
		t.Errorf("causes at an instant: %+v", stall.Causes)
	}
}

// The reasons of jobs do not name a reservation, and the nodes that it keeps do. Both are one cause.
func TestGroupOfReservation(t *testing.T) {
	maintenance := func(name string) hpc.ReservationEvent {
		return hpc.ReservationEvent{At: at(0), Action: "create", Reservation: hpc.Reservation{Name: name, Start: at(2), Duration: time.Hour, Nodes: "n[1-4]"}}
	}
	for _, test := range []struct {
		events []hpc.ReservationEvent
		asks   string
		want   int // causes that are a reservation
	}{
		{[]hpc.ReservationEvent{maintenance("maint")}, "", 1},
		{[]hpc.ReservationEvent{maintenance("maint"), maintenance("maint")}, "", 1},
		{[]hpc.ReservationEvent{maintenance("maint"), maintenance("course")}, "maint", 1},
		{[]hpc.ReservationEvent{maintenance("maint"), maintenance("course")}, "", 2}, // which one it was is not known
	} {
		h := &history{}
		h.job("told", "ann", "n1", 1, 5, 65, 80, 30)
		h.job("blocked", "ann", "n2", 1, 5, 65, 80, 30)
		h.waits("told", 5, "ReqNodeNotAvail: May be reserved for other job", 0)
		h.waits("blocked", 5, "Resources", 0)
		h.rows[0].Reservation, h.rows[1].Reservation = test.asks, test.asks
		h.admin.Reservations = test.events
		rec := h.record()
		var texts []string
		for _, c := range rec.Groups(pointers(rec, everything)).Groupings[0].Groups[0].Causes {
			if c.Kind == Reserved {
				texts = append(texts, c.Text)
			}
		}
		if len(texts) != test.want || test.want == 1 && !strings.HasSuffix(texts[0], ": maint") {
			t.Errorf("%d events, asks for %q: causes %q", len(test.events), test.asks, texts)
		}
	}
}

// Only jobs that compete for nodes of a waiting job's partition explain its wait: for a group, and for one job.
func TestOtherPartitions(t *testing.T) {
	h := &history{}
	h.job("quinn1", "quinn", "n[1-2]", 2, 0, 1, 400, 600)
	h.job("quinn2", "quinn", "n3", 1, 0, 1, 400, 600) // n3 is in both partitions
	h.job("before", "ann", "n4", 1, 0, 1, 10, 600)
	h.job("ann1", "ann", "n3", 1, 400, 401, 410, 30)
	h.job("me", "bob", "n4", 1, 2, 100, 130, 30)
	for i, partition := range []string{"batch", "batch", "gpu", "gpu", "gpu"} {
		h.rows[i].Partition = partition
	}
	h.rows[2].End = at(100)
	h.waits("me", 2, "Resources", 100)
	rec := h.record()
	rec.manifest.Cluster.Partitions = []run.Partition{{Name: "batch", Nodes: 3, Processors: 12}, {Name: "gpu", Nodes: 2, Processors: 8}}
	explained := func(user string) (kinds []Kind, causes []Cause) {
		h.rows[1].User = user
		for _, c := range rec.Groups([]*run.Row{&rec.rows[4]}).Groupings[0].Groups[0].Causes {
			kinds = append(kinds, c.Kind)
		}
		story, err := rec.Job("me")
		if err != nil {
			t.Fatal(err)
		}
		return kinds, story.Causes
	}
	// Quinn holds 12 of the machine's 16 processors, and 4 of the 8 on which jobs of gpu run; 4 more are requested.
	kinds, causes := explained("quinn")
	if !slices.Equal(kinds, []Kind{Full}) || causes[0].Kind != Full || causes[0].Weight != 0.5 ||
		!strings.HasPrefix(causes[0].Text, "jobs on nodes of partition gpu use 8 of 8 processors on 2 of 2 nodes, ") {
		t.Errorf("%v, %+v", kinds, causes)
	}
	kinds, causes = explained("bob") // bob holds 4 of these 8 processors, and requests 4 more
	if !slices.Equal(kinds, []Kind{Burst}) || causes[0].Kind != Burst || math.Abs(causes[0].Weight-8.0/12) > 1e-9 ||
		!strings.Contains(causes[0].Text, "running jobs on 4 of 8 processors in use on nodes of partition gpu: 67 %") {
		t.Errorf("%v, %+v", kinds, causes)
	}
	rec.manifest.Cluster.Partitions = nil // the sizes of the partitions are unknown
	if kinds, causes = explained("quinn"); !slices.Equal(kinds, []Kind{Full}) || causes[0].Kind != Full {
		t.Errorf("%v, %+v", kinds, causes)
	}
}

// TestRecordBeforeWindow: a recorded workload has no reasons at any time, so the time before its window is no cause.
func TestRecordBeforeWindow(t *testing.T) {
	h := &history{}
	h.job("early", "ann", "n[1-4]", 4, 0, 70, 90, 30)
	rec := h.record()
	rec.manifest.Engine, rec.manifest.WindowStart = run.EngineRecorded, at(60)
	rec.rows[0].Reasons = []run.Span{{From: at(0), To: at(60), Reason: run.BeforeWindow}}
	story, err := rec.Job("early")
	if err != nil {
		t.Fatal(err)
	}
	stall, err := rec.At(at(30))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range append(story.Causes, stall.Causes...) {
		if c.Kind == Before {
			t.Errorf("a cause of a recorded workload: %+v", c)
		}
	}
	group := rec.Groups([]*run.Row{&rec.rows[0]}).Groupings[0].Groups[0]
	for _, c := range group.Causes {
		if c.Kind == Before || c.Kind == "" && c.Seconds < 60*60 {
			t.Errorf("a cause of the group: %+v", c)
		}
	}
}

// TestUnknownSize: without the size of the machine, the texts about a job, groups and an instant say why causes are
// missing, and what to do. With the size, or if no job waits for nodes, they do not.
func TestUnknownSize(t *testing.T) {
	const hint = "no causes of waits for nodes: the size of the machine is not known. A trace has it as\n"
	for _, test := range []struct {
		processors int
		part       string
		want       bool
	}{{0, "", true}, {16, "", false}, {0, "Dependency", false}} {
		h := &history{}
		h.job("busy", "bob", "n[1-4]", 16, 0, 0, 70, 30)
		h.job("late", "ann", "n[1-4]", 16, 0, 70, 90, 30)
		rec := h.record()
		rec.manifest.Cluster = run.Cluster{Processors: test.processors}
		if test.part != "" {
			rec.rows[1].Reasons = []run.Span{{From: at(0), To: at(70), Reason: test.part}}
		}
		story, err := rec.Job("late")
		if err != nil {
			t.Fatal(err)
		}
		stall, err := rec.At(at(30))
		if err != nil {
			t.Fatal(err)
		}
		groups := rec.Groups([]*run.Row{&rec.rows[1]})
		for i, render := range []func(io.Writer, *time.Location) error{story.Render, stall.Render, groups.Render} {
			var b strings.Builder
			if err := render(&b, time.UTC); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(b.String(), hint) != test.want {
				t.Errorf("text %d, %d processors, reason %q: hint is not %t\n%s", i, test.processors, test.part, test.want, b.String())
			}
		}
	}
}
