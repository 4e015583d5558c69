package session

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

const epoch = hpc.Time(1_000_000 * int64(time.Second))

// job returns a job of user u that was submitted and ended at the given minutes. An end
// before the submission is not recorded.
func job(id string, submit, end int) *hpc.Job {
	j := &hpc.Job{ID: id, Submit: epoch.Add(time.Duration(submit) * time.Minute), Request: hpc.Request{User: "u"}}
	if end >= submit {
		j.Recorded = &hpc.Recorded{End: epoch.Add(time.Duration(end) * time.Minute)}
	}
	return j
}

// text writes sessions as "[a b] [c]<0", with the direct dependencies after "<".
func text(s *Sessions) string {
	var parts []string
	g := s.Users[0]
	for i := range g.Sessions {
		var ids, on []string
		for _, j := range g.Sessions[i].Jobs {
			ids = append(ids, s.jobs.At(j).ID)
		}
		for _, before := range g.DependsOn(i) {
			on = append(on, fmt.Sprint(before))
		}
		part := "[" + strings.Join(ids, " ") + "]"
		if len(on) > 0 {
			part += "<" + strings.Join(on, ",")
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

func TestSessions(t *testing.T) {
	// Figure 1 of FGCS 2024: six jobs and four sessions under arrival:60m. j3 is submitted
	// while j2 runs; j4 after the end of the first session and before the end of the
	// second.
	figure := []*hpc.Job{job("j1", 0, 60), job("j2", 30, 150), job("j3", 120, 400), job("j4", 240, 300), job("j5", 480, 560), job("j6", 500, 520)}
	same := []*hpc.Job{job("a", 0, 0), job("b", 0, 0), job("c", 0, 10), job("d", 0, 0), job("e", 10, 10)}
	tests := []struct {
		name string
		by   string
		jobs []*hpc.Job
		want string
	}{
		{"figure 1", "arrival:60m", figure, "[j1 j2] [j3] [j4]<0 [j5 j6]<2,1"},
		{"every job", "arrival:0", figure, "[j1] [j2] [j3]<0 [j4]<0,1 [j5]<3,2 [j6]<3,2"},
		{"think time after the last job", "last:80m", figure, "[j1 j2 j3 j4] [j5 j6]<0"},
		{"think time after the latest end", "max:80m", figure, "[j1 j2 j3 j4] [j5 j6]<0"},
		{"latest end, no threshold", "max:0", figure, "[j1 j2 j3 j4] [j5 j6]<0"},
		{"last job, no threshold", "last:0", figure, "[j1 j2 j3 j4] [j5 j6]<0"},
		{"exactly the threshold", "arrival:30m", []*hpc.Job{job("a", 0, 1), job("b", 30, 31), job("c", 59, 60)}, "[a] [b c]<0"},
		{"no duration at one instant", "arrival:0", same, "[a] [b]<0 [c]<1 [d]<1 [e]<3,2"},
		{"transitive", "arrival:0", []*hpc.Job{job("a", 0, 1), job("b", 2, 3), job("c", 4, 5)}, "[a] [b]<0 [c]<1"},
		{"parallel", "arrival:0", []*hpc.Job{job("a", 0, 9), job("b", 1, 5), job("c", 6, 7), job("d", 10, 11)}, "[a] [b] [c]<1 [d]<2,0"},
		{"without end", "arrival:0", []*hpc.Job{job("a", 0, -1), job("b", 1, 2), job("c", 3, 4)}, "[a] [b] [c]<1"},
		{"without end, last", "last:1m", []*hpc.Job{job("a", 0, -1), job("b", 100, 102), job("c", 103, 104)}, "[a b] [c]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, err := Parse(tt.by)
			if err != nil {
				t.Fatal(err)
			}
			s, err := New(&workload.Workload{Jobs: workload.JobsOf(tt.jobs...)}, d)
			if err != nil {
				t.Fatal(err)
			}
			if got := text(s); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestBatches(t *testing.T) {
	jobs := []*hpc.Job{job("a", 0, 30), job("b", 10, 20), job("c", 30, 31), job("d", 40, 100), job("e", 99, 99), job("f", 300, 301)}
	s, err := New(&workload.Workload{Jobs: workload.JobsOf(jobs...)}, Default)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := text(s), "[a b c d e] [f]<0"; got != want {
		t.Errorf("sessions: got %s, want %s", got, want)
	}
	b := s.Batches()
	if got, want := text(b), "[a b] [c]<0 [d e]<1 [f]<2"; got != want {
		t.Errorf("batches: got %s, want %s", got, want)
	}
	var parents []int
	for _, batch := range b.Users[0].Sessions {
		parents = append(parents, batch.Parent)
	}
	if diff := gocmp.Diff([]int{0, 0, 0, 1}, parents); diff != "" {
		t.Errorf("parents (-want +got)\n%s", diff)
	}
}

func TestNoRecord(t *testing.T) {
	_, err := New(&workload.Workload{Jobs: workload.JobsOf(job("a", 0, -1))}, Default)
	if !errors.Is(err, ErrNoRecord) {
		t.Errorf("got %v", err)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{"arrival:60m": "arrival:60m", "last:1h": "last:60m", "max:90s": "max:1m30s", "arrival:0": "arrival:0m",
		"last:00:20:00": "last:20m", "max:60": "max:1m", "arrival:1d": "arrival:1440m"} {
		d, err := Parse(text)
		if err != nil || d.String() != want {
			t.Errorf("%s: got %v, %v, want %s", text, d, err, want)
		}
	}
	for _, bad := range []string{"", "arrival", "arrival:", "arrival:60x", "arrival:12:30", "first:60m", "last:-1m", "max:1h:2h"} {
		if d, err := Parse(bad); err == nil {
			t.Errorf("%q: got %v", bad, d)
		}
	}
}

// drawWorkload draws a user's jobs with many coincident instants.
func drawWorkload(t *rapid.T) *workload.Workload {
	w := &workload.Workload{}
	submit := 0
	for i := range rapid.IntRange(1, 40).Draw(t, "jobs") {
		submit += rapid.IntRange(0, 3).Draw(t, "gap")
		w.Jobs.Append(job(fmt.Sprint(i), submit, submit+rapid.IntRange(-1, 12).Draw(t, "turnaround")))
	}
	w.Jobs.Change(0, func(j *hpc.Job) { j.Recorded = &hpc.Recorded{End: w.Jobs.Submit(0)} })
	return w
}

// The edges and the statistics equal those computed by brute force from the definitions.
func TestReductionProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		by := Delimitation{rapid.SampledFrom([]Method{Arrival, Last, Max}).Draw(t, "method"), time.Duration(rapid.IntRange(0, 4).Draw(t, "threshold")) * time.Minute}
		s, err := New(drawWorkload(t), by)
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "batches") {
			s = s.Batches()
		}
		g := s.Users[0]
		depends := func(after, before int) bool {
			return before < after && g.Sessions[before].End != never && g.Sessions[before].End <= g.Sessions[after].Start
		}
		var want Stats
		level := make([]int, len(g.Sessions))
		children := make([]int, len(g.Sessions))
		var thinks []time.Duration
		for after := range g.Sessions {
			var on []int
			level[after] = 1
			for before := range after {
				if !depends(after, before) {
					continue
				}
				level[after] = max(level[after], level[before]+1)
				direct := true
				for between := range g.Sessions {
					direct = direct && (!depends(after, between) || !depends(between, before))
				}
				if direct {
					on = append(on, before)
					children[before]++
					thinks = append(thinks, g.ThinkTime(before, after))
				}
			}
			slices.SortFunc(on, func(a, b int) int {
				return cmp.Or(cmp.Compare(g.Sessions[a].End, g.Sessions[b].End), cmp.Compare(a, b))
			})
			if got := g.DependsOn(after); !slices.Equal(got, on) {
				t.Fatalf("session %d depends on %v, want %v of %s", after, got, on, text(s))
			}
			want.Jobs += len(g.Sessions[after].Jobs)
			want.Sessions++
			want.Edges += int64(len(on))
			want.Fan = max(want.Fan, len(on))
			want.LongestPath = max(want.LongestPath, level[after])
			if len(on) == 0 {
				want.Roots++
			}
		}
		want.Arity = slices.Max(children)
		summary := s.Summary()
		if summary.Stats != want {
			t.Fatalf("statistics %+v, want %+v", summary.Stats, want)
		}
		if len(thinks) == 0 {
			return
		}
		slices.Sort(thinks)
		short := 0
		for _, d := range thinks {
			if d < 0 {
				t.Fatalf("think time %v", d)
			}
			if d < time.Hour {
				short++
			}
		}
		if got := summary.ThinkTimes.UnderHour; got != float64(short)/float64(len(thinks)) {
			t.Fatalf("%v of %d edges are under an hour, want %d", got, len(thinks), short)
		}
		median := int64(thinks[(len(thinks)+1)/2-1] / time.Second)
		if summary.ThinkTimes.Median != median {
			t.Fatalf("median %d s, want %d", summary.ThinkTimes.Median, median)
		}
	})
}

// A hundred thousand jobs at once, followed by a hundred thousand more, have 10^10 edges.
func TestManyEdges(t *testing.T) {
	const n = 100_000
	w := &workload.Workload{}
	for i := range 2 * n {
		w.Jobs.Append(job(fmt.Sprint(i), i/n*10, i/n*10+5))
	}
	s, err := New(w, Delimitation{Method: Arrival})
	if err != nil {
		t.Fatal(err)
	}
	got := s.Summary()
	if want := (Stats{Jobs: 2 * n, Sessions: 2 * n, Edges: n * n, Roots: n, LongestPath: 2, Arity: n, Fan: n}); got.Stats != want {
		t.Errorf("got %+v, want %+v", got.Stats, want)
	}
	if got.ThinkTimes.Median != 300 {
		t.Errorf("median think time %d s, want 300", got.ThinkTimes.Median)
	}
}

func TestWrite(t *testing.T) {
	w := &workload.Workload{Jobs: workload.JobsOf(job("a", 0, 10), job("b", 5, -1), job("c", 100, 110), job("d", 101, 102))}
	w.Jobs.Change(1, func(j *hpc.Job) { j.User = `quo"ted` })
	s, err := New(w, Default)
	if err != nil {
		t.Fatal(err)
	}
	var dot bytes.Buffer
	if err := s.WriteDOT(&dot); err != nil {
		t.Fatal(err)
	}
	want := `digraph sessions {
	rankdir=LR;
	node [shape=box];
	label="sessions delimited by arrival:60m";
	subgraph cluster_0 {
		label="u";
		s0_0 [label="0: a"];
		s0_1 [label="1: c ... d (2 jobs)"];
		s0_0 -> s0_1 [label="1.50 h"];
	}
	subgraph cluster_1 {
		label="quo\"ted";
		s1_0 [label="0: b"];
	}
}
`
	if diff := gocmp.Diff(want, dot.String()); diff != "" {
		t.Errorf("DOT (-want +got)\n%s", diff)
	}
	var lines bytes.Buffer
	if err := s.WriteJSON(&lines); err != nil {
		t.Fatal(err)
	}
	first, rest, _ := strings.Cut(lines.String(), "\n")
	wantJSON := `{"user":"u","sessions":[` +
		`{"start":"1970-01-12T13:46:40Z","last_submit":"1970-01-12T13:46:40Z","end":"1970-01-12T13:56:40Z","jobs":["a"],"depends_on":[]},` +
		`{"start":"1970-01-12T15:26:40Z","last_submit":"1970-01-12T15:27:40Z","end":"1970-01-12T15:36:40Z","jobs":["c","d"],"depends_on":[{"session":0,"think_time_s":5400}]}]}`
	if diff := gocmp.Diff(wantJSON, first); diff != "" {
		t.Errorf("JSON (-want +got)\n%s", diff)
	}
	if strings.Contains(rest, `"end"`) || !json.Valid([]byte(rest)) {
		t.Errorf("JSON of a session without end: %s", rest)
	}
	only, ok := s.OfUser(`quo"ted`)
	if !ok || only.Summary().Jobs != 1 || only.WithoutEnd != 1 {
		t.Errorf("only one user: %v, %+v", ok, only)
	}
	if _, ok := s.OfUser("nobody"); ok {
		t.Error("a user who submitted nothing was found")
	}
	var text bytes.Buffer
	summary := s.Summary()
	if err := summary.Render(&text); err != nil || !strings.Contains(text.String(), "without end     1 job") {
		t.Errorf("%v, %s", err, text.String())
	}
}

// The arity is the largest number of sessions that depend on one session, and not a number of sessions that depend on
// few others.
func TestRenderArity(t *testing.T) {
	var b strings.Builder
	if err := (&Summary{Stats: Stats{Sessions: 9, Edges: 12, Arity: 3, Fan: 2}}).Render(&b); err != nil {
		t.Fatal(err)
	}
	if want := "arity           3 sessions at most depend on the same session; a session depends on 2 at most\n"; !strings.Contains(b.String(), want) {
		t.Errorf("%s\nwant %s", b.String(), want)
	}
}

// Without dependencies between sessions, the text prints "-" for the think time and the arity.
func TestRenderWithoutEdges(t *testing.T) {
	for edges, want := range map[int64]bool{0: true, 1: false} {
		var b strings.Builder
		if err := (&Summary{Stats: Stats{Sessions: 2, Edges: edges}}).Render(&b); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.String(), "think time      -\n") && strings.Contains(b.String(), "arity           -\n"); got != want {
			t.Errorf("%d edges:\n%s", edges, b.String())
		}
	}
}
