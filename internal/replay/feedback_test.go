package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/session"
)

// oracle is a resource manager that knows the time from submission to end of every job. It refuses
// jobs for which that time is negative.
type oracle struct {
	rm.ResourceManager
	now    hpc.Time
	lag    time.Duration // time from an end to its event
	takes  func(job *hpc.Job) time.Duration
	open   []rm.Event // future starts and ends, in order
	submit map[string]hpc.Time
	end    map[string]hpc.Time
	order  []string
}

func newOracle(takes func(job *hpc.Job) time.Duration) *oracle {
	return &oracle{takes: takes, submit: map[string]hpc.Time{}, end: map[string]hpc.Time{}}
}

func (o *oracle) Submit(job *hpc.Job) error {
	o.submit[job.ID] = o.now
	o.order = append(o.order, job.ID)
	ev := rm.Event{At: o.now, Kind: rm.Accepted, Job: job.ID, Task: -1}
	takes := o.takes(job)
	if takes < 0 {
		ev.Kind = rm.Refused
		o.open = append(o.open, ev)
		o.end[job.ID] = o.now
	} else {
		end := o.now.Add(takes)
		o.end[job.ID] = end
		o.open = append(o.open, ev, rm.Event{At: o.now, Kind: rm.Started, Job: job.ID, Task: -1},
			rm.Event{At: end.Add(o.lag), Kind: rm.Ended, Job: job.ID, Task: -1, Outcome: &rm.Outcome{Start: o.now, End: end}})
	}
	slices.SortStableFunc(o.open, func(a, b rm.Event) int { return int(a.At - b.At) })
	return nil
}

func (o *oracle) AdvanceTo(ctx context.Context, t hpc.Time) ([]rm.Event, error) {
	if len(o.open) == 0 || o.open[0].At > t {
		o.now = max(o.now, t)
		return nil, ctx.Err()
	}
	o.now = max(o.now, o.open[0].At)
	n := 0
	for n < len(o.open) && o.open[n].At <= o.now {
		n++
	}
	events := slices.Clone(o.open[:n])
	o.open = o.open[n:]
	return events, ctx.Err()
}

func (o *oracle) Can() rm.Capabilities { return rm.Capabilities{Name: "the oracle"} }
func (o *oracle) Now() hpc.Time        { return o.now }
func (o *oracle) Do(rm.Command) error  { return nil }
func (o *oracle) Job(*hpc.Job) error   { return nil }
func (o *oracle) Event(rm.Event) error { return nil }

// asRecorded is how long a job took in the record.
func asRecorded(job *hpc.Job) time.Duration { return job.Recorded.End.Sub(job.Submit) }

// play runs a workload with users who react, and returns the times of the events.
func play(t interface{ Fatal(...any) }, w *workload.Workload, f Feedback, takes func(*hpc.Job) time.Duration) *oracle {
	return playOn(t, newOracle(takes), w, f)
}

func playOn(t interface{ Fatal(...any) }, o *oracle, w *workload.Workload, f Feedback) *oracle {
	c, err := NewController(w, f)
	if err != nil {
		t.Fatal(err)
	}
	// The workload does not know how long the oracle's jobs take.
	result, err := Play(context.Background(), o, w, c, o, Options{DrainLimit: 10_000 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if result.InputsDone != result.Inputs || result.Inputs != w.Jobs.Len() || len(result.Undrained) != 0 {
		t.Fatal(fmt.Sprintf("not everything was submitted: %+v", result))
	}
	return o
}

// start is the beginning of a Monday.
var start = hpc.Unix(4 * 86400)

func at(minutes int) hpc.Time { return start.Add(time.Duration(minutes) * time.Minute) }

// recorded is a job with its record, in minutes.
func recorded(id, user string, submit, end int) *hpc.Job {
	return &hpc.Job{ID: id, Submit: at(submit), Request: hpc.Request{User: user}, Recorded: &hpc.Recorded{Start: at(submit), End: at(end)}}
}

// drawLog makes the log of a few users with gaps of all sizes.
func drawLog(t *rapid.T) *workload.Workload {
	w := &workload.Workload{}
	now := 0
	for i := range rapid.IntRange(1, 60).Draw(t, "jobs") {
		now += rapid.SampledFrom([]int{0, 0, 1, 5, 30, 59, 60, 61, 300, 2000}).Draw(t, "gap")
		user := rapid.SampledFrom([]string{"ada", "ben", "eve"}).Draw(t, "user")
		w.Jobs.Append(recorded(fmt.Sprint(i), user, now, now+rapid.SampledFrom([]int{0, 1, 10, 45, 100, 1000}).Draw(t, "turnaround")))
	}
	return w
}

func drawFeedback(t *rapid.T, models ...Model) Feedback {
	return Feedback{
		Model: rapid.SampledFrom(models).Draw(t, "model"),
		Sessions: session.Delimitation{
			Method:    rapid.SampledFrom([]session.Method{session.Arrival, session.Last, session.Max}).Draw(t, "method"),
			Threshold: time.Duration(rapid.SampledFrom([]int{0, 20, 60}).Draw(t, "threshold")) * time.Minute,
		},
		Seed: rapid.Uint64().Draw(t, "seed"),
	}
}

// TestSameMachineSameSubmissions checks that users do not act differently if the machine treats
// every job as recorded.
func TestSameMachineSameSubmissions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawLog(t)
		o := play(t, w, drawFeedback(t, NoFeedback, ThinkTime, Adjusted, Fluid), asRecorded)
		for _, job := range w.Jobs.All() {
			if o.submit[job.ID] != job.Submit {
				t.Fatalf("job %s: submitted at %v, recorded at %v", job.ID, o.submit[job.ID], job.Submit)
			}
		}
	})
}

// TestLateNewsDoNotAddUp has a resource manager that reports ends some seconds late. Users react to
// the recorded end, so the delays must not add up over a chain of jobs.
func TestLateNewsDoNotAddUp(t *testing.T) {
	w := &workload.Workload{}
	for i := range 50 {
		w.Jobs.Append(recorded(fmt.Sprint(i), "ada", i*30, i*30+20)) // ten minutes of thought
	}
	late := newOracle(asRecorded)
	late.lag = 40 * time.Second
	playOn(t, late, w, Feedback{Model: ThinkTime, Sessions: session.Delimitation{Method: session.Arrival}})
	for _, job := range w.Jobs.All() {
		if late.submit[job.ID] != job.Submit {
			t.Errorf("job %s: submitted %v late", job.ID, late.submit[job.ID].Sub(job.Submit))
		}
	}
}

// drawTurnarounds draws the time from submission to end of every job. Some jobs are refused.
func drawTurnarounds(t *rapid.T, w *workload.Workload) func(*hpc.Job) time.Duration {
	takes := map[string]time.Duration{}
	for _, job := range w.Jobs.All() {
		takes[job.ID] = time.Duration(rapid.SampledFrom([]int{-1, 0, 1, 10, 50, 500, 5000}).Draw(t, "takes")) * time.Minute
	}
	return func(job *hpc.Job) time.Duration { return takes[job.ID] }
}

// TestThinkTimesAreKept checks the definitions of FGCS 2024, section 4.2, on any machine. A session
// (or batch) begins at the latest end + think time of its dependencies. A session without
// dependencies begins at its recorded instant. A session moves as a whole.
func TestThinkTimesAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawLog(t)
		f := drawFeedback(t, ThinkTime, Adjusted)
		o := play(t, w, f, drawTurnarounds(t, w))
		graphs, err := session.New(w, f.Sessions)
		if err != nil {
			t.Fatal(err)
		}
		if f.Model == Adjusted {
			graphs = graphs.Batches()
		}
		for _, g := range graphs.Users {
			for s := range g.Sessions {
				want := g.Sessions[s].Start
				for i, before := range g.DependsOn(s) {
					end := hpc.Time(0)
					for _, j := range g.Sessions[before].Jobs {
						end = max(end, o.end[w.Jobs.At(j).ID])
					}
					ready := end.Add(g.ThinkTime(before, s))
					if i == 0 || ready > want {
						want = ready
					}
				}
				for _, j := range g.Sessions[s].Jobs {
					job := w.Jobs.At(j)
					if due := want.Add(job.Submit.Sub(g.Sessions[s].Start)); o.submit[job.ID] != due {
						t.Fatalf("%s session %d, job %s: submitted at %v, want %v", g.User, s, job.ID, o.submit[job.ID], due)
					}
				}
			}
		}
	})
}

// TestFluidStaysInSessions checks the models with presence. No batch is submitted before the ends
// of its dependencies, or outside the user's recorded sessions unless all of them are over.
func TestFluidStaysInSessions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawLog(t)
		f := drawFeedback(t, Fluid, Distribution)
		o := play(t, w, f, drawTurnarounds(t, w))
		sessions, err := session.New(w, f.Sessions)
		if err != nil {
			t.Fatal(err)
		}
		batches := sessions.Batches()
		for u, g := range batches.Users {
			for b := range g.Sessions {
				begun := o.submit[w.Jobs.At(g.Sessions[b].Jobs[0]).ID]
				for _, before := range g.DependsOn(b) {
					for _, j := range g.Sessions[before].Jobs {
						if o.end[w.Jobs.At(j).ID] > begun {
							t.Fatalf("batch %d of %s began at %v, before job %s ended", b, g.User, begun, w.Jobs.At(j).ID)
						}
					}
				}
				if f.Model != Fluid {
					continue
				}
				present := false
				for _, s := range sessions.Users[u].Sessions {
					present = present || s.Start <= begun && begun <= s.LastSubmit
				}
				last := sessions.Users[u].Sessions[len(sessions.Users[u].Sessions)-1].LastSubmit
				if !present && begun <= last {
					t.Fatalf("batch %d of %s began at %v, when its user was away", b, g.User, begun)
				}
			}
		}
	})
}

// TestModels has a case that can be checked by hand: a session in the evening and a session on the
// next morning. The job of the evening ends three hours late.
func TestModels(t *testing.T) {
	w := &workload.Workload{Jobs: workload.JobsOf(
		recorded("evening", "ada", 18*60, 19*60), // Monday
		recorded("morning", "ada", 32*60, 32*60+20),
		recorded("after", "ada", 32*60+30, 32*60+40), // ten minutes of thought later
		recorded("next", "ada", 60*60, 60*60+10),     // Wednesday noon
		recorded("other", "ben", 33*60, 34*60),
	)}
	late := func(by time.Duration) func(*hpc.Job) time.Duration {
		return func(job *hpc.Job) time.Duration {
			if job.ID == "evening" {
				return asRecorded(job) + by
			}
			return asRecorded(job)
		}
	}
	tests := []struct {
		model Model
		by    time.Duration
		want  []int // minutes
	}{
		{NoFeedback, 3 * time.Hour, []int{18 * 60, 32 * 60, 32*60 + 30, 60 * 60, 33 * 60}},
		{ThinkTime, 3 * time.Hour, []int{18 * 60, 35 * 60, 35*60 + 30, 63 * 60, 33 * 60}},
		{Adjusted, 3 * time.Hour, []int{18 * 60, 35 * 60, 35*60 + 30, 63 * 60, 33 * 60}},
		// The night absorbs the delay. The day after does not.
		{Fluid, 3 * time.Hour, []int{18 * 60, 32 * 60, 32*60 + 30, 60 * 60, 33 * 60}},
		{Fluid, 13*time.Hour + 10*time.Minute, []int{18 * 60, 32*60 + 10, 60 * 60, 60*60 + 10, 33 * 60}},
		// Earlier results do not bring the user back before the recorded instant.
		{Fluid, -time.Hour, []int{18 * 60, 32 * 60, 32*60 + 30, 60 * 60, 33 * 60}},
		{ThinkTime, -time.Hour, []int{18 * 60, 31 * 60, 31*60 + 30, 59 * 60, 33 * 60}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.model, tt.by), func(t *testing.T) {
			o := play(t, w, Feedback{Model: tt.model, Sessions: session.Default}, late(tt.by))
			var got []int
			for _, job := range w.Jobs.All() {
				got = append(got, int(o.submit[job.ID].Sub(start).Minutes()))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("submissions in minutes (-want +got)\n%s", diff)
			}
		})
	}
}

func TestHabits(t *testing.T) {
	// The user submits in office hours from Monday to Friday, for thirty weeks, and seldom
	// before nine.
	w := &workload.Workload{}
	for d := range 30 * 7 {
		for h := 8; d%7 < 5 && h < 18; h++ {
			if h == 8 && d%3 != 0 {
				continue
			}
			w.Jobs.Append(recorded(fmt.Sprint(d, h), "ada", (d*24+h)*60+30, (d*24+h)*60+31))
		}
	}
	sessions, err := session.New(w, session.Default)
	if err != nil {
		t.Fatal(err)
	}
	h := newHabits(&w.Jobs, sessions.Users[0], newProfile(&w.Jobs), 1)
	rapid.Check(t, func(t *rapid.T) {
		from := start.Add(time.Duration(rapid.Int64Range(0, int64(300*24*time.Hour)).Draw(t, "from")))
		next := h.next(from)
		if next < from || next.Sub(from) > 3*24*time.Hour || h.next(next) != next {
			t.Fatalf("from %v the user is there at %v, and then at %v", from, next, h.next(next))
		}
		std := next.Std()
		if std.Weekday() == time.Saturday || std.Weekday() == time.Sunday || std.Hour() < 8 || std.Hour() >= 18 {
			t.Fatalf("from %v: works on %v", from, std)
		}
	})
	if a, b := newHabits(&w.Jobs, sessions.Users[0], newProfile(&w.Jobs), 2), h; cmp.Equal(days(a), days(b)) {
		t.Error("another seed gives the same presence")
	}
}

// days returns the first instants of the user's presence on many days.
func days(p presence) (out []hpc.Time) {
	for d := range 200 {
		out = append(out, p.next(at(d*24*60)))
	}
	return out
}

func TestJitter(t *testing.T) {
	w := &workload.Workload{}
	for i := range 200 {
		w.Jobs.Append(recorded(fmt.Sprint(i), "ada", i*60*5, i*60*5+10))
	}
	submissions := func(f Feedback) (out []time.Duration) {
		o := play(t, w, f, asRecorded)
		for _, job := range w.Jobs.All() {
			out = append(out, o.submit[job.ID].Sub(job.Submit))
		}
		return out
	}
	f := Feedback{Jitter: 30 * time.Second, Seed: 1}
	first := submissions(f)
	if slices.Max(first) < 20*time.Second || slices.Max(first) > 30*time.Second || slices.Min(first) > -20*time.Second || slices.Min(first) < -30*time.Second {
		t.Errorf("moved by %v to %v", slices.Min(first), slices.Max(first))
	}
	if !slices.Equal(first, submissions(f)) {
		t.Error("the same seed gives other submissions")
	}
	f.Seed = 2
	if slices.Equal(first, submissions(f)) {
		t.Error("another seed gives the same submissions")
	}
}

// TestDependenciesStayInOrder checks that a job is not submitted before a job that its dependency
// names, even if its session may begin earlier.
func TestDependenciesStayInOrder(t *testing.T) {
	w := &workload.Workload{Jobs: workload.JobsOf(
		recorded("a", "ada", 0, 10), recorded("b", "ada", 5, 500),
		recorded("c", "ada", 100, 110), // after a; slow in the replay
		recorded("d", "ada", 600, 610), // after b and c
		recorded("e", "ada", 605, 620), // after b and c, and names d
		recorded("f", "ben", 1, 2), recorded("g", "ben", 300, 310),
	)}
	w.Jobs.Change(4, func(j *hpc.Job) { j.Dependency = "afterok:d" })
	w.Jobs.Change(6, func(j *hpc.Job) { j.Dependency = "afterany:d_1:nothing" })
	w.Jobs.Change(5, func(j *hpc.Job) { j.Dependency = "not a dependency:" })
	w.Jobs.Sort()
	// g comes before d in the log and names d. The resource manager may refuse g, as in a rigid
	// replay. e comes after d.
	o := play(t, w, Feedback{Model: ThinkTime, Sessions: session.Delimitation{Method: session.Arrival}}, func(job *hpc.Job) time.Duration {
		if job.ID == "c" {
			return 50 * time.Hour
		}
		return asRecorded(job)
	})
	if o.submit["e"] < o.submit["d"] || slices.Index(o.order, "e") < slices.Index(o.order, "d") {
		t.Errorf("order %v", o.order)
	}
	// With jitter d and e would often change places.
	for seed := range uint64(20) {
		o := play(t, w, Feedback{Jitter: time.Hour, Seed: seed}, asRecorded)
		if slices.Index(o.order, "e") < slices.Index(o.order, "d") {
			t.Errorf("seed %d: order %v", seed, o.order)
		}
	}
}

// Jitter does not move an array behind the start of its tasks that run when the window begins.
func TestJitterOfCutArray(t *testing.T) {
	task := recorded("a_1", "ada", -100, 300)
	rest := recorded("a", "ada", 20, 300)
	rest.Array, rest.Submit = "2-9%3", start.Add(-110*time.Second)
	w := &workload.Workload{Start: start, Jobs: workload.JobsOf(task, rest)}
	w.Jobs.Sort()
	early := 0
	for seed := range uint64(20) {
		c, err := NewController(w, Feedback{Jitter: time.Hour, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range c.Begin().Submit {
			if w.Jobs.At(s.Job).ID != "a" {
				continue
			}
			if s.At > task.Recorded.Start {
				t.Errorf("seed %d: submitted at %s, after the start of a task", seed, s.At)
			}
			if s.At < rest.Submit {
				early++
			}
		}
	}
	if early == 0 {
		t.Error("jitter never moved the array")
	}
}

func TestNewControllerErrors(t *testing.T) {
	w := &workload.Workload{Jobs: workload.JobsOf([]*hpc.Job{{ID: "a", Submit: start}}...)}
	if _, err := NewController(w, Feedback{Model: ThinkTime, Sessions: session.Default}); !errors.Is(err, session.ErrNoRecord) {
		t.Errorf("a workload without a record: got %v", err)
	}
	if _, err := NewController(w, Feedback{}); err != nil {
		t.Errorf("rigid: %v", err)
	}
	if _, err := ParseModel("psychic"); err == nil {
		t.Error("psychic users: no error")
	}
	if m, err := ParseModel("fluid"); m != Fluid || err != nil {
		t.Errorf("fluid: got %v, %v", m, err)
	}
}

// TestManyEdges checks that a controller does not visit every pair if fifty thousand jobs depend on
// fifty thousand others.
func TestManyEdges(t *testing.T) {
	const n = 50_000
	w := &workload.Workload{}
	for i := range 2 * n {
		w.Jobs.Append(recorded(fmt.Sprint(i), "ada", i/n*100, i/n*100+5))
	}
	c, err := NewController(w, Feedback{Model: ThinkTime, Sessions: session.Delimitation{Method: session.Arrival}})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(c.Begin().Submit); got != n {
		t.Fatalf("%d roots, want %d", got, n)
	}
	for i := range n {
		list := c.Event(&Event{Job: i, Over: true, End: at(7)}).Submit
		if want := i / (n - 1) * n; len(list) != want {
			t.Fatalf("after %d ends %d submissions, want %d", i+1, len(list), want)
		}
		if i == n-1 && list[0].At != at(102) {
			t.Errorf("submitted at %v, want %v", list[0].At, at(102))
		}
	}
}
