package compare

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/compare/periods"
	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

// The answer has the direction, the amounts and how sure they are.
func TestAnswer(t *testing.T) {
	for _, test := range []struct {
		wait, use [2]metrics.Float // values of the baseline and of the other set
		p         metrics.Float
		inference bool
		want      []string
	}{
		{[2]metrics.Float{100, 160}, [2]metrics.Float{0.5, 0.4}, 0.01, true,
			[]string{"wait 1 min longer in B (other) than in A (base): 2 min 40 s instead of 1 min 40 s", "hold 40.0 % of the machine instead of 50.0 %", "more than chance (p = 0.010"}},
		{[2]metrics.Float{160, 100}, [2]metrics.Float{0.5, 0.5}, 0.4, true, []string{"1 min shorter in B", "may be chance (p = 0.40"}},
		{[2]metrics.Float{160, 160.2}, [2]metrics.Float{0.5, 0.5}, metrics.NoValue(), false,
			[]string{"wait about as long in B (other) as in A (base): 160.20 s and 160 s.", "do not show how much of this difference is chance"}},
		{[2]metrics.Float{32.60, 32.75}, [2]metrics.Float{0.5, 0.5}, metrics.NoValue(), false,
			[]string{"wait about as long in B (other) as in A (base): 32.8 s and 32.6 s."}},
		{[2]metrics.Float{32.75, 32.75}, [2]metrics.Float{0.5, 0.5}, metrics.NoValue(), false,
			[]string{"wait as long in B (other) as in A (base): 32.8 s."}},
		{[2]metrics.Float{2633.2, 2633.2 + 1e-9}, [2]metrics.Float{0.5, 0.5}, metrics.NoValue(), false,
			[]string{"wait as long in B (other) as in A (base): 43 min 53 s."}},
		{[2]metrics.Float{133200, 133220.5}, [2]metrics.Float{0.5, 0.5}, metrics.NoValue(), false,
			[]string{"wait 20.5 s longer in B (other) than in A (base): 133220.5 s instead of 133200 s."}},
		{[2]metrics.Float{metrics.NoValue(), 160}, [2]metrics.Float{0.5, 0.5}, metrics.NoValue(), false, []string{"No job of A (base) started, so its waits are not known."}},
		{[2]metrics.Float{metrics.NoValue(), metrics.NoValue()}, [2]metrics.Float{0.5, 0.5}, metrics.NoValue(), false, nil},
	} {
		c := &Comparison{Sets: []SetInfo{{Name: "base"}, {Name: "other"}}, Inference: test.inference, Level: 0.95}
		figure := func(key string, v [2]metrics.Float) Metric {
			return Metric{Key: key, Sets: []Estimate{{Runs: 5, Mean: v[0]}, {Runs: 5, Mean: v[1]}}, Differences: []MetricDifference{{Set: 1, Difference: v[1] - v[0], P: test.p}}}
		}
		c.Metrics = []Metric{figure("utilization", test.use), figure("mean_wait_s", test.wait)}
		got := strings.ReplaceAll(c.Answer(&Pair{Set: 1}), quantity.Space, " ")
		if (got == "") != (test.want == nil) {
			t.Errorf("%v: %q", test.wait, got)
		}
		if strings.Contains(got, "wait as long in") && strings.Contains(got, "this difference") {
			t.Errorf("%v: no difference is visible: %q", test.wait, got)
		}
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("%v: %q lacks %q", test.wait, got, want)
			}
		}
		if test.wait[0] == test.wait[1] && strings.Contains(got, "chance") {
			t.Errorf("%q: there is no difference", got)
		}
		if test.use[0] == test.use[1] && strings.Contains(got, "machine") {
			t.Errorf("%q: the use of the machine is the same", got)
		}
	}
}

// TestAnswerIdentical: two runs have identical schedules only if they have the same jobs, with the same times.
func TestAnswerIdentical(t *testing.T) {
	for name, test := range map[string]struct {
		change func(c *Comparison, p *Pair)
		same   bool
	}{
		"equal":            {func(*Comparison, *Pair) {}, true},
		"another start":    {func(_ *Comparison, p *Pair) { p.Jobs.Start.MeanAbs = 1e-4 }, false},
		"other nodes":      {func(_ *Comparison, p *Pair) { p.Divergences = make([]Divergence, 1) }, false},
		"a job only in B":  {func(_ *Comparison, p *Pair) { p.Jobs.Only[1] = 1 }, false},
		"several runs":     {func(c *Comparison, _ *Pair) { c.Sets[1].Runs = make([]RunInfo, 2) }, false},
		"no job in common": {func(_ *Comparison, p *Pair) { p.Jobs.Matched = 0 }, false},
	} {
		c := &Comparison{Sets: []SetInfo{{Name: "base", Runs: make([]RunInfo, 1)}, {Name: "other", Runs: make([]RunInfo, 1)}}, Metrics: []Metric{{
			Key: "mean_wait_s", Sets: []Estimate{{Runs: 1, Mean: 160}, {Runs: 1, Mean: 160}}, Differences: []MetricDifference{{Set: 1}}}}}
		p := &Pair{Set: 1, Jobs: JobView{Matched: 9, Only: []int{0, 0}, NoStart: []int{0, 0}}}
		test.change(c, p)
		got := strings.ReplaceAll(c.Answer(p), quantity.Space, " ")
		const want = "The schedules are identical: on average, jobs wait 2 min 40 s in both A (base) and B (other)."
		if (got == want) != test.same || strings.Contains(got, "identical") != test.same {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Rejected jobs have no waits, so the answer counts them.
func TestAnswerRejected(t *testing.T) {
	for _, test := range []struct {
		wait     metrics.Float
		rejected metrics.Float
		want     string
	}{
		{160, 30, "2 min 40 s instead of 1 min 40 s; 30.0 % of its jobs were rejected and have no waits. "},
		{160, 1, "2 min 40 s instead of 1 min 40 s. "},
		{metrics.NoValue(), 100, "No job of B (other) started, so its waits are not known; 100.0 % of its jobs were rejected and have no waits."},
	} {
		c := &Comparison{Sets: []SetInfo{{Name: "base", Runs: []RunInfo{{Jobs: 100}}}, {Name: "other", Runs: []RunInfo{{Jobs: 100}}}}}
		figure := func(key string, was, is metrics.Float) Metric {
			return Metric{Key: key, Sets: []Estimate{{Mean: was}, {Mean: is}}, Differences: []MetricDifference{{Set: 1, Difference: is - was}}}
		}
		c.Metrics = []Metric{figure("mean_wait_s", 100, test.wait), figure("rejected", 0, test.rejected)}
		if got := strings.ReplaceAll(c.Answer(&Pair{Set: 1}), quantity.Space, " "); !strings.Contains(got, test.want) {
			t.Errorf("%q lacks %q", got, test.want)
		}
	}
}

// If so few runs cannot prove any difference, the answer says this, and not that the difference may
// be chance.
func TestAnswerOfFewRuns(t *testing.T) {
	for _, test := range []struct {
		runs, others int
		paired       bool
		want         string
	}{
		{3, 3, false, "A test of so few runs (3 and 3) cannot show that mean waits differ, however much they do (want 5 or more on each side)."},
		{2, 5, false, "may be chance (p = 0.1"}, // these runs can prove a difference: p can be 1/21, which is below 0.05
		{2, 4, false, "so few runs (2 and 4)"},
		{4, 4, false, "may be chance (p = 0.1"},
		{5, 5, true, "want 6 or more on each side"},
		{6, 6, true, "may be chance (p = 0.1"},
	} {
		c := &Comparison{Sets: []SetInfo{{Name: "base"}, {Name: "other"}}, Inference: true, Level: 0.95}
		c.Metrics = []Metric{{Key: "mean_wait_s", Sets: []Estimate{{Runs: test.runs, Mean: 100}, {Runs: test.others, Mean: 900}},
			Differences: []MetricDifference{{Set: 1, Difference: 800, P: 0.1, Paired: test.paired}}}}
		if got := c.Answer(&Pair{Set: 1}); !strings.Contains(got, test.want) {
			t.Errorf("%+v: %q", test, got)
		}
	}
}

// If the reason of many waits is not known, a note gives their share.
func TestUnexplained(t *testing.T) {
	part := func(p waits.Part, a, b metrics.Float) Metric {
		return Metric{Key: "mean_wait_" + string(p) + "_s", Sets: []Estimate{{Mean: a}, {Mean: b}}}
	}
	c := &Comparison{Waits: []Metric{{Key: "mean_wait_since_eligible_s", Sets: []Estimate{{Mean: 1e6}, {Mean: 1e6}}}, part(waits.Priority, 75, 99), part(waits.Unknown, 25, 1)}}
	if got := strings.ReplaceAll(c.Unexplained(0), quantity.Space, " "); !strings.HasPrefix(got, "A: for 25.0 % of the waits") {
		t.Errorf("%q", got)
	}
	if got := c.Unexplained(1); got != "" {
		t.Errorf("%q", got)
	}
}

// TestCopiesAreOneRealization: if the runs of a set are copies of each other, no figure has an
// interval or a p-value. Sets whose runs differ have intervals and p-values.
func TestCopiesAreOneRealization(t *testing.T) {
	copies := func(name string, wait int) Set {
		s := Set{Name: name}
		for i := range 5 {
			s.Runs = append(s.Runs, realization(fmt.Sprintf("%s%d", name, i), job("x", 0, wait, 100, "n1"), job("y", 10, wait, 50, "n2")))
		}
		return s
	}
	for name, sets := range map[string][]Set{
		"both": {copies("a", 60), copies("b", 20)}, "one": {randomSet("a", 1, 5, 10), copies("b", 20)}, "none": {randomSet("a", 1, 5, 10), randomSet("b", 2, 5, 10)},
	} {
		c := mustCompare(t, Options{By: []metrics.By{metrics.ByUser}}, sets...)
		known := 0
		for _, table := range [][]Metric{c.Metrics, c.Waits, c.Fairness, c.Groups[metrics.ByUser][0].Metrics} {
			for _, m := range table {
				for _, d := range m.Differences {
					if d.P.Known() || d.Low.Known() || d.HedgesG.Known() {
						known++
					}
				}
			}
		}
		answer := c.Answer(&c.Pairs[0])
		if differ := name == "none"; c.Inference != differ || (known > 0) != differ || (c.Pairs[0].Schedules != nil) != differ ||
			strings.Contains(answer, "do not show how much of this difference is chance") == differ {
			t.Errorf("%s: inference %t, %d figures with p, reason %q, answer %q", name, c.Inference, known, c.Reason, answer)
		}
	}
}

// Jobs that start on one side only change the mean, although no wait changes.
func TestAnswerStartedInOne(t *testing.T) {
	for _, test := range []struct {
		both     metrics.Float
		startsIn [2]int
		fewer    [2]int
		want     string
	}{
		{65, [2]int{1, 2}, [2]int{}, "; 3 jobs start in only one of the two, so their waits count there only (the jobs that start in both wait 1 min 5 s longer)"},
		{-65, [2]int{1, 2}, [2]int{}, "; 3 jobs start in only one of the two, so their waits count there only"},
		{-65, [2]int{0, 1}, [2]int{0, 11}, "; 1 job starts in only one of the two, so its wait counts there only; 11 jobs start in " +
			"a smaller share of the runs of B than of A, so their waits count there less"},
		{65, [2]int{}, [2]int{1, 0}, "; 1 job starts in a smaller share of the runs of A than of B, so its wait counts there less " +
			"(the jobs that start in both wait 1 min 5 s longer)"},
	} {
		p := Pair{Set: 1, Jobs: JobView{startsIn: test.startsIn, fewer: test.fewer, Wait: Spread{Mean: test.both}}}
		if got := strings.ReplaceAll(startedInOne(&p, -130), quantity.Space, " "); got != test.want {
			t.Errorf("%v: %q, want %q", test.both, got, test.want)
		}
	}
	if got := startedInOne(&Pair{}, 1); got != "" {
		t.Errorf("all jobs start on both sides: %q", got)
	}
}

// Jobs may start in some runs of a set only.
func TestAnswerStartedInFewerRuns(t *testing.T) {
	rows := func(starts ...int) []run.Row {
		var list []run.Row
		for i, start := range starts {
			list = append(list, job(fmt.Sprint("j", i), 0, start, 10, "n1"))
		}
		for i := range 100 { // with these jobs, few jobs start on one side only
			list = append(list, job(fmt.Sprint("k", i), 0, 1, 10, "n2"))
		}
		return list
	}
	set := func(name string, runs ...[]run.Row) (s Set) {
		s.Name = name
		for i, r := range runs {
			s.Runs = append(s.Runs, realization(fmt.Sprint(name, i), r...))
		}
		return s
	}
	a := set("a", rows(1, 2, 3, 4, -1), rows(1, 2, 3, -1, -1))
	b := set("b", rows(1, 2, -1, 9, -1), rows(1, -1, -1, -1, -1), rows(5, 2, -1, 4, -1), rows(1, 2, -1, -1, -1))
	c := mustCompare(t, Options{}, a, b)
	const want = "; 1 job starts in only one of the two, so its wait counts there only; 1 job starts in a smaller share of the " +
		"runs of B than of A, so its wait counts there less"
	if got := c.Answer(&c.Pairs[0]); !strings.Contains(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// If the workloads differ, the waits of the jobs of both are compared, and the answer first counts the other jobs.
func TestAnswerOfDifferentWorkloads(t *testing.T) {
	both := JobView{Matched: 150, own: [2]int{1, 2}, NoStart: []int{0, 0}, differences: []JobDifference{
		{Wait: 60, BaselineWait: 10, SetWait: 70}, {Wait: 20, BaselineWait: 30, SetWait: 50}, {Wait: metrics.NoValue()}}}
	none := JobView{Matched: 5, own: [2]int{0, 30}, NoStart: []int{0, 0}}
	few := both
	few.Matched = 297
	for _, test := range []struct {
		pair Pair
		want string
	}{
		{Pair{Jobs: both}, "1 job is only in A, and 2 jobs are only in B. On average, jobs that start in both (2) wait 40 s " +
			"longer in B (other) than in A (base): 1 min instead of 20 s; no other job counts here. The tables count all jobs " +
			"that each side has."},
		{Pair{Jobs: none}, "30 jobs are only in B. No job starts in both A (base) and B (other)."},
		{Pair{Jobs: few}, "On average, jobs wait 15 min longer in B (other)"},
		{Pair{Jobs: both, Periods: &periods.Comparison{}}, "On average, jobs wait 15 min longer in B (other)"},
	} {
		c := &Comparison{Sets: []SetInfo{{Name: "base"}, {Name: "other"}}, Level: 0.95}
		c.Metrics = []Metric{{Key: "mean_wait_s", Sets: []Estimate{{Runs: 1, Mean: 100}, {Runs: 1, Mean: 1000}},
			Differences: []MetricDifference{{Set: 1, Difference: 900}}}}
		test.pair.Set = 1
		got := strings.ReplaceAll(c.Answer(&test.pair), quantity.Space, " ")
		if !strings.HasPrefix(got, test.want) {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

// A job that one side rejected is in the workloads of both.
func TestAnswerOfRejectedJobs(t *testing.T) {
	rejected := job("y", 10, -1, 0, "")
	rejected.State = hpc.Rejected
	whole := single("a", job("x", 0, 5, 10, "n1"), job("y", 10, 60, 10, "n1"))
	for name, test := range map[string]struct {
		rows []run.Row
		only bool
	}{
		"rejected": {[]run.Row{job("x", 0, 5, 10, "n1"), rejected}, false}, "absent": {[]run.Row{job("x", 0, 5, 10, "n1")}, true},
	} {
		c := mustCompare(t, Options{}, whole, single("b", test.rows...))
		if got := c.Answer(&c.Pairs[0]); strings.HasPrefix(got, "1 job is only in A. ") != test.only {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// If many jobs start on one side only, because the other side rejects, cancels or never starts them, the waits of the
// jobs that start on both sides are compared.
func TestAnswerOfJobsThatStartOnOneSide(t *testing.T) {
	long, never := job("y", 10, 5000, 10, "n1"), job("y", 10, -1, 0, "")
	rejected, cancelled := never, never
	rejected.State = hpc.Rejected
	cancelled.State, cancelled.End = hpc.Cancelled, monday.Add(time.Minute)
	a := single("a", job("x", 0, 5, 10, "n1"), long)
	const want = "1 job starts only in %s. On average, jobs that start in both (1) wait 3 s %s in B (b) than in A (a): "
	for name, row := range map[string]run.Row{"rejected": rejected, "cancelled": cancelled, "never started": never} {
		b := single("b", job("x", 0, 8, 10, "n1"), row)
		c := mustCompare(t, Options{}, a, b)
		if got := strings.ReplaceAll(c.Answer(&c.Pairs[0]), quantity.Space, " "); !strings.HasPrefix(got, fmt.Sprintf(want, "A", "longer")) {
			t.Errorf("%s: %q", name, got)
		}
		a, b := a, b
		a.Name, b.Name = "b", "a"
		c = mustCompare(t, Options{}, b, a)
		if got := strings.ReplaceAll(c.Answer(&c.Pairs[0]), quantity.Space, " "); !strings.HasPrefix(got, fmt.Sprintf(want, "B", "shorter")) {
			t.Errorf("%s, turned: %q", name, got)
		}
	}
}

// With more than two sets a line ranks the sets. A set that is not valid is not the best.
func TestOrderOfSets(t *testing.T) {
	c := &Comparison{Sets: []SetInfo{{Runs: []RunInfo{{Valid: true}}}, {Runs: []RunInfo{{Valid: false}}}, {Runs: []RunInfo{{Valid: true}}}},
		Metrics: []Metric{{Key: "mean_wait_s", Sets: []Estimate{{Mean: 120}, {Mean: 1}, {Mean: 60}}}}}
	const want = "mean wait, the shortest first: C 1 min, A 2 min, B 1 s (not valid)"
	if got := strings.ReplaceAll(c.order(), quantity.Space, " "); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	c.Sets = c.Sets[:2]
	if got := c.order(); got != "" {
		t.Errorf("two sets: %q", got)
	}
}

// Users who react submit less if they wait longer, so their waits and those of a rigid replay are not comparable. The
// answer and the order of three sets say so, also if a run ended early or if the workloads differ.
func TestAnswerOfUsersWhoReact(t *testing.T) {
	set := func(name, model string, state run.State, more int) Set {
		rows := []run.Row{job("x", 0, 5+len(name), 10, "n1"), job("y", 10, 60, 10, "n1")}
		for i := range more {
			rows = append(rows, job(fmt.Sprint("only", i), 0, 5, 10, "n1"))
		}
		s := single(name, rows...)
		if s.Runs[0].Manifest.State = state; model != "" {
			s.Runs[0].Manifest.Feedback = &run.Feedback{Model: model}
		}
		return s
	}
	const caution = ", but these waits are not comparable, because only the users of %s react (compare machines by lateness)"
	for name, test := range map[string]struct {
		models [2]string
		state  run.State
		more   int
		side   string // the side whose users react; "" without a caution
	}{
		"set": {[2]string{"", "think-time"}, run.StateComplete, 0, "B"}, "baseline": {[2]string{"fluid", "none"}, run.StateComplete, 0, "A"},
		"both": {[2]string{"fluid", "think-time"}, run.StateComplete, 0, ""}, "jitter": {[2]string{"", "none"}, run.StateComplete, 0, ""},
		"early": {[2]string{"", "fluid"}, run.StateInterrupted, 0, "B"}, "other jobs": {[2]string{"", "fluid"}, run.StateComplete, 3, "B"},
	} {
		c := mustCompare(t, Options{}, set("a", test.models[0], run.StateComplete, 0), set("longer", test.models[1], test.state, test.more))
		got := c.Answer(&c.Pairs[0])
		if want := fmt.Sprintf(caution, test.side); strings.Contains(got, want) != (test.side != "") || strings.Contains(got, "not comparable") != (test.side != "") {
			t.Errorf("%s: %q, the users of side %q react", name, got, test.side)
		}
	}
	c := mustCompare(t, Options{}, set("a", "", run.StateComplete, 0), set("longer", "fluid", run.StateComplete, 0), set("b", "", run.StateComplete, 0))
	if got := c.order(); strings.Count(got, "(users react: not comparable)") != 1 || !strings.HasSuffix(got, "(users react: not comparable)") {
		t.Errorf("%q does not say that the users of B react", got)
	}
}

// The order of three sets writes different waits differently.
func TestOrderTellsWaitsApart(t *testing.T) {
	c := &Comparison{Sets: make([]SetInfo, 3), Metrics: []Metric{{Key: "mean_wait_s",
		Sets: []Estimate{{Mean: 133220.5}, {Mean: 133200}, {Mean: 60}}}}}
	want := "mean wait, the shortest first: C 60 s, B 133200 s, A 133220.5 s"
	if got := strings.ReplaceAll(c.order(), quantity.Space, " "); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestAnswerNamesLostWork: shorter waits that cost killed jobs are not the whole answer.
func TestAnswerNamesLostWork(t *testing.T) {
	for after, want := range map[metrics.Float]string{
		10.5: "", 20: "; runs that did not complete use 20 processor hours instead of 10",
		0: "; runs that did not complete use 0 processor hours instead of 10",
	} {
		c := &Comparison{Lost: []Metric{{
			Key: "lost_processor_s", Sets: []Estimate{{Mean: 36000}, {Mean: 3600 * after}},
			Differences: []MetricDifference{{Set: 1, Difference: 3600*after - 36000}},
		}}}
		if got := c.lost(&Pair{Set: 1}); got != want {
			t.Errorf("%v hours: %q, want %q", after, got, want)
		}
	}
}
