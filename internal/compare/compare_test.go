package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/compare/jobrows"
	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
)

// monday is the instant at which the jobs of the tests begin.
var monday = hpc.Unix(1_700_000_000)

// job returns a row for tests, in seconds from monday. A negative start means that the job
// did not start.
func job(id string, submit, start, runTime int, nodes string) run.Row {
	r := run.Row{
		Job: id, Task: -1, User: "ada", Partition: "batch", State: hpc.Completed, Processors: 4, NodeCount: 1, Nodes: nodes,
		Submit: monday.Add(time.Duration(submit) * time.Second),
	}
	if start >= 0 {
		r.Start = monday.Add(time.Duration(start) * time.Second)
		r.End = r.Start.Add(time.Duration(runTime) * time.Second)
	} else {
		r.State, r.Nodes, r.Processors, r.NodeCount = hpc.Pending, "", 0, 0
	}
	return r
}

func realization(name string, rows ...run.Row) Realization {
	m := &run.Manifest{Engine: "sim", State: run.StateComplete, Valid: true}
	m.Cluster.Nodes, m.Cluster.Processors = 4, 16
	return Realization{Name: name, Manifest: m, Rows: rows}
}

func single(name string, rows ...run.Row) Set {
	return Set{Name: name, Runs: []Realization{realization(name, rows...)}}
}

func mustCompare(t *testing.T, opts Options, sets ...Set) *Comparison {
	t.Helper()
	c, err := Compare(sets, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// randomSet returns runs whose waits are random around a mean.
func randomSet(name string, seed uint64, runs int, mean float64) Set {
	random := rand.New(rand.NewPCG(seed, 1))
	s := Set{Name: name}
	for k := range runs {
		var rows []run.Row
		load := random.NormFloat64()
		for i := range 30 {
			wait := max(0, mean+20*random.NormFloat64()+20*load)
			rows = append(rows, job(fmt.Sprint("j", i), 10*i, 10*i+int(wait), 60, "n1"))
		}
		s.Runs = append(s.Runs, realization(fmt.Sprintf("%s/realization-%03d", name, k+1), rows...))
	}
	return s
}

func TestOneRunEachAllowsNoInference(t *testing.T) {
	c := mustCompare(t, Options{},
		single("a", job("x", 0, 0, 100, "n1"), job("y", 5, 100, 50, "n1")),
		single("b", job("x", 0, 0, 100, "n1"), job("y", 5, 160, 50, "n1")))
	if c.Inference || !strings.Contains(c.Reason, "a is one run") {
		t.Errorf("inference %v, reason %q", c.Inference, c.Reason)
	}
	for _, m := range c.Metrics {
		d := m.Differences[0]
		for name, v := range map[string]metrics.Float{
			"low": d.Low, "p": d.P, "p_holm": d.PAdjusted, "g": d.HedgesG, "detectable": d.Detectable, "estimate low": m.Sets[0].Low,
		} {
			if v.Known() {
				t.Errorf("%s of %s is %v from one run each", name, m.Key, v)
			}
		}
	}
	if c.Pairs[0].Schedules != nil {
		t.Error("schedules are tested with one run each")
	}
	if got := c.Distances.Matrix[0][1]; got != 60 {
		t.Errorf("distance %v, want 60", got)
	}
	var text bytes.Buffer
	if err := c.Render(&text, time.UTC); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "No inference is possible") || strings.Contains(text.String(), "interval") {
		t.Errorf("rendered:\n%s", text.String())
	}
}

func TestOneSideOfOneRun(t *testing.T) {
	c := mustCompare(t, Options{}, single("a", job("j0", 0, 0, 100, "n1")), randomSet("b", 1, 4, 50))
	if c.Inference || c.Metrics[4].Differences[0].P.Known() || c.Pairs[0].Schedules != nil {
		t.Error("inference from one run on a side")
	}
}

// The sentence about the detectable difference gives both differences in one measure: the pooled standard deviation.
// Hedges' g, with its correction for few runs, is another measure.
func TestObservedDifferenceInPooledDeviations(t *testing.T) {
	idle := job("z", 0, 0, 0, "")
	idle.Start, idle.End, idle.State = 0, 0, hpc.Pending
	b := randomSet("b", 2, 6, 400)
	b.Runs = append(b.Runs, realization("b/idle", idle)) // its mean wait has no value
	c := mustCompare(t, Options{}, randomSet("a", 1, 5, 300), b)
	wait := find(t, c.Metrics, "mean_wait_s")
	x, y := wait.Sets[0], wait.Sets[1]
	pooled := math.Sqrt((4*math.Pow(float64(x.Deviation), 2) + 5*math.Pow(float64(y.Deviation), 2)) / 9)
	var text bytes.Buffer
	if err := c.Render(&text, time.UTC); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("(for the mean wait %s s; the observed difference is %s pooled standard deviations)\n",
		wait.Differences[0].Detectable.Text(), metrics.Float(float64(y.Mean-x.Mean)/pooled).Text())
	if y.Runs != 6 || !strings.Contains(text.String(), want) || !strings.Contains(text.String(), "5 and 7 runs find a difference of 1.8 pooled standard deviations in 80 % of cases\n") {
		t.Errorf("no %q in\n%s", want, text.String())
	}
}

func TestSetsThatDiffer(t *testing.T) {
	c := mustCompare(t, Options{}, randomSet("a", 1, 10, 300), randomSet("b", 2, 10, 400))
	if !c.Inference {
		t.Fatal(c.Reason)
	}
	wait := find(t, c.Metrics, "mean_wait_s")
	d := wait.Differences[0]
	if d.Difference < 70 || d.Difference > 130 || d.Low > d.Difference || d.High < d.Difference || d.Low < 30 {
		t.Errorf("difference %v, interval %v to %v, want about 100 and well above 0", d.Difference, d.Low, d.High)
	}
	if d.P > 0.001 || d.PAdjusted < d.P || !d.Significant(0.95) || d.CliffsDelta < 0.95 || d.HedgesG < 2 {
		t.Errorf("p %v, adjusted %v, delta %v, g %v", d.P, d.PAdjusted, d.CliffsDelta, d.HedgesG)
	}
	if r := float64(d.Relative); math.Abs(r-float64(d.Difference)/float64(wait.Sets[0].Mean)) > 1e-12 {
		t.Errorf("relative %v", r)
	}
	s := c.Pairs[0].Schedules
	if s.Energy.P > 0.001 || s.Depth.P > 0.01 {
		t.Errorf("energy p %v, depth p %v of very different schedules", s.Energy.P, s.Depth.P)
	}
	if len(c.Warnings) != 0 {
		t.Errorf("warnings %q", c.Warnings)
	}
}

func TestSetsThatDoNotDiffer(t *testing.T) {
	c := mustCompare(t, Options{}, randomSet("a", 3, 10, 300), randomSet("b", 4, 10, 300))
	for _, m := range c.Metrics {
		if m.Differences[0].Significant(0.95) {
			t.Errorf("%s: adjusted p %v of the same distribution", m.Key, m.Differences[0].PAdjusted)
		}
	}
	if s := c.Pairs[0].Schedules; s.Energy.P < 0.01 || s.Depth.P < 0.01 {
		t.Errorf("energy p %v, depth p %v of the same distribution", s.Energy.P, s.Depth.P)
	}
}

func find(t *testing.T, table []Metric, key string) *Metric {
	t.Helper()
	for i := range table {
		if table[i].Key == key {
			return &table[i]
		}
	}
	t.Fatalf("no %s", key)
	return nil
}

func TestWarnings(t *testing.T) {
	same := job("x", 0, 5, 100, "n1")
	doubtful := single("bad", same)
	doubtful.Runs[0].Manifest.Valid = false
	ended := single("ended", same)
	ended.Runs[0].Manifest.Warnings = []run.Warning{{Code: run.EndsAsFailed, Text: "2 jobs ended as FAILED"}}
	if list := ofResults([]Set{ended, ended}); list != nil {
		t.Errorf("sets that end their jobs alike: %q", list)
	}
	away := single("away", same)
	away.Runs[0].Manifest.Warnings = []run.Warning{{Code: run.DaysWithoutSubmissions, Text: "users rest on 6 days"}, {Code: "other", Text: "x"}}
	for name, c := range map[string]struct {
		sets []Set
		want string
	}{
		"away":      {[]Set{single("a", same), away}, "away: users rest on 6 days"},
		"failed":    {[]Set{single("a", same), ended}, "ended: 2 jobs ended as FAILED"},
		"twice":     {[]Set{single("a", same), single("a", same)}, "a is given twice"},
		"doubtful":  {[]Set{single("a", same), doubtful}, "bad: 1 of 1 run is not complete and valid"},
		"identical": {[]Set{{"s", []Realization{realization("s1", same), realization("s2", same)}}, single("a", same)}, "s: all 2 runs have the same waits"},
		"few":       {[]Set{randomSet("a", 1, 3, 10), randomSet("b", 2, 3, 10)}, "no p-value can be below 0.1"},
		"corrected": {[]Set{randomSet("a", 1, 5, 10), randomSet("b", 2, 5, 10)}, "5 and 5 runs: no p-value can be below 0.0079, and none is significant after the correction"},
		"fewer":     {[]Set{randomSet("a", 1, 4, 10), randomSet("b", 2, 8, 10)}, "a: 4 runs are too few for trustworthy intervals"},
	} {
		got := strings.Join(mustCompare(t, Options{}, c.sets...).Warnings, "\n")
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: warnings %q, want %q", name, got, c.want)
		}
	}
}

func TestJobByJob(t *testing.T) {
	a := single("a", job("x", 0, 0, 100, "n1"), job("y", 5, 100, 50, "n1"), job("z", 6, -1, 0, ""), job("gone", 7, 8, 1, "n2"))
	b := single("b", job("x", 0, 0, 110, "n1"), job("y", 8, 130, 50, "n1"), job("z", 6, 200, 5, "n1"), job("new", 7, 8, 1, "n2"))
	v := mustCompare(t, Options{EveryJob: true}, a, b).Pairs[0].Jobs
	if v.Matched != 3 || v.Only[0] != 1 || v.Only[1] != 1 || v.NoStart[0] != 1 || v.NoStart[1] != 0 {
		t.Errorf("matched %d, only %v, no start %v", v.Matched, v.Only, v.NoStart)
	}
	y := v.All[1]
	if y.Job != "y" || y.Submit != 3 || y.Start != 30 || y.Wait != 27 || y.RunTime != 0 || y.SubmitAt != 5 || y.BaselineWait != 95 {
		t.Errorf("y differs by %+v", y)
	}
	if v.All[2].Wait.Known() {
		t.Errorf("z waited in one run only: %v", v.All[2].Wait)
	}
	if v.RunTime.Changed != 1 || v.RunTime.Max != 10 || v.RunTime.MeanAbs != 5 {
		t.Errorf("run times %+v", v.RunTime)
	}
	if len(v.Largest) != 1 || v.Largest[0].Job != "y" {
		t.Errorf("largest %+v", v.Largest)
	}
}

// Of three runs of the set, one delays a job by 300 s. The mean over jobs is then the difference of the mean waits;
// the median of each job's waits would hide the delay.
func TestMeansOverRuns(t *testing.T) {
	set := Set{Name: "b"}
	for _, wait := range []int{10, 10, 310} {
		set.Runs = append(set.Runs, realization("r", job("x", 0, wait, 50, "n1"), job("y", 0, 10, 50, "n2")))
	}
	c := mustCompare(t, Options{}, single("a", job("x", 0, 10, 50, "n1"), job("y", 0, 10, 50, "n2")), set)
	figure := find(t, c.Metrics, "mean_wait_s").Differences[0].Difference
	if got := c.Pairs[0].Jobs.Wait; figure != 50 || got.Mean != 50 || got.Changed != 1 {
		t.Errorf("mean wait %+v, job by job %+v, want 50 s of one job", figure, got)
	}
}

// A replay may be on another date than the log that it replays.
func TestOtherDate(t *testing.T) {
	a := []run.Row{job("x", 0, 0, 100, "n1"), job("y", 5, 100, 50, "n1")}
	b := []run.Row{job("x", 0, 0, 100, "n1"), job("y", 5, 107, 50, "n1")}
	const shift = 400 * 24 * time.Hour
	for i := range b {
		b[i].Submit, b[i].Start, b[i].End = b[i].Submit.Add(shift), b[i].Start.Add(shift), b[i].End.Add(shift)
	}
	p := mustCompare(t, Options{}, single("a", a...), single("b", b...)).Pairs[0]
	if p.Jobs.Shift != metrics.Float(-shift.Seconds()) || p.Jobs.Submit.Changed != 0 || p.Jobs.Start.Max != 7 {
		t.Errorf("shift %v, submit %+v, start %+v", p.Jobs.Shift, p.Jobs.Submit, p.Jobs.Start)
	}
	if d := p.Divergences; len(d) != 1 || d[0].Job != "y" || d[0].At != Instant(monday.Add(100*time.Second)) {
		t.Errorf("divergences %+v", d)
	}
}

// z overtakes y. The divergence describes the queue, the nodes, and the overtaking job.
func TestFirstDivergence(t *testing.T) {
	a := single("a", job("w", 0, 0, 90, "n2"), job("x", 0, 0, 100, "n1"), job("y", 5, 100, 50, "n1"), job("z", 6, 150, 20, "n1"))
	b := single("b", job("w", 0, 0, 120, "n3"), job("x", 0, 0, 100, "n1"), job("y", 5, 120, 50, "n1"), job("z", 6, 100, 20, "n1"))
	list := mustCompare(t, Options{}, a, b).Pairs[0].Divergences
	if len(list) != 3 || list[0].Kind != DivergedNodes || list[0].Job != "w" || list[1].Kind != DivergedRunTime || list[2].Kind != DivergedStart {
		t.Fatalf("divergences %+v, want nodes of w, run time of w, start of y", list)
	}
	d := list[2]
	if d.Job != "y" || d.At != Instant(monday.Add(100*time.Second)) || d.Reason != "job y started 20 s later than in the baseline" {
		t.Errorf("start: %s at %s: %s", d.Key, d.At.Text(time.UTC), d.Reason)
	}
	if d.Baseline.Queued != 2 || d.Baseline.Running != 0 || d.Set.Queued != 2 || d.Set.Running != 1 || d.Set.BusyNodes != 1 {
		t.Errorf("baseline %+v, set %+v", d.Baseline, d.Set)
	}
	if d.Set.OnlyBusy != "n3" || len(d.Set.OnlyRunning) != 1 || d.Set.OnlyRunning[0] != "w" || d.Baseline.OnlyBusy != "" {
		t.Errorf("only in the set: %+v", d.Set)
	}
	if len(d.Overtook) != 1 || d.Overtook[0] != "z" {
		t.Errorf("overtook %v, want z", d.Overtook)
	}
	// People read dates in their time zone, and JSON has UTC.
	at := monday.Add(100 * time.Second)
	if got, want := d.At.Text(time.FixedZone("", 3600)), at.Std().Add(time.Hour).Format("2006-01-02T15:04:05")+"+01:00"; got != want {
		t.Errorf("in another zone %s, want %s", got, want)
	}
	encoded, err := json.Marshal(d)
	if err != nil || !strings.Contains(string(encoded), `"at":"`+at.String()+`"`) || !strings.Contains(string(encoded), `"job_start":"`+at.String()+`"`) {
		t.Errorf("JSON %s, %v", encoded, err)
	}
	if same := mustCompare(t, Options{}, a, a).Pairs[0].Divergences; len(same) != 0 {
		t.Errorf("a run diverges from itself: %+v", same)
	}
}

func TestDivergenceOfStartsThatDidNotHappen(t *testing.T) {
	a := single("a", job("x", 0, 0, 100, "n1"), job("y", 5, 100, 50, "n1"))
	b := single("b", job("x", 0, 0, 100, "n1"), job("y", 5, -1, 0, ""))
	for want, pair := range map[string][2]Set{
		"job y did not start, but it started in the baseline": {a, b},
		"job y started, but it did not start in the baseline": {b, a},
	} {
		list := mustCompare(t, Options{}, pair[0], pair[1]).Pairs[0].Divergences
		if len(list) != 1 || list[0].Reason != want {
			t.Errorf("divergences %+v, want %q", list, want)
		}
	}
}

// The same nodes in another order or notation are equal, and a record without nodes does not count as different
// nodes. Instants within the tolerance are equal.
func TestToleranceAndNodes(t *testing.T) {
	a := single("a", job("x", 0, 0, 100, "n[1-3]"))
	b := single("b", job("x", 0, 1, 100, "n3,n[1-2]"))
	if list := mustCompare(t, Options{}, a, b).Pairs[0].Divergences; len(list) != 0 {
		t.Errorf("divergences %+v", list)
	}
	for _, nodes := range [][2]string{{"", "n1"}, {"n1", ""}} {
		x, y := single("a", job("x", 0, 0, 100, nodes[0])), single("b", job("x", 0, 0, 100, nodes[1]))
		if list := mustCompare(t, Options{}, x, y).Pairs[0].Divergences; len(list) != 0 {
			t.Errorf("nodes %q: divergences %+v", nodes, list)
		}
	}
	list := mustCompare(t, Options{Tolerance: time.Millisecond}, a, b).Pairs[0].Divergences
	if len(list) != 1 || list[0].Kind != DivergedStart {
		t.Errorf("divergences %+v, want the start", list)
	}
}

// The number of a group's jobs is a mean over the runs, as all other figures of the group are.
func TestJobsOfGroups(t *testing.T) {
	a, b := randomSet("a", 1, 3, 300), randomSet("b", 2, 3, 300)
	n := len(a.Runs[0].Rows)
	b.Runs[1].Rows[0].Start, b.Runs[2].Rows[1].Partition = 0, "new"
	c := mustCompare(t, Options{By: []metrics.By{metrics.ByPartition}}, a, b)
	var text strings.Builder
	if err := c.Render(&text, time.UTC); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{fmt.Sprintf(" %d/%.2f ", n, float64(3*n-2)/3), " 0/0.33 "} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

func TestGroups(t *testing.T) {
	a, b := randomSet("a", 1, 6, 300), randomSet("b", 2, 6, 300)
	for _, s := range []Set{a, b} {
		for _, r := range s.Runs {
			for i := range r.Rows {
				if i%3 == 0 {
					r.Rows[i].Partition = "short"
				}
			}
		}
	}
	for _, r := range b.Runs { // a job of a group that the baseline does not have
		r.Rows[1].Partition = "new"
	}
	groups := mustCompare(t, Options{By: []metrics.By{metrics.ByPartition}}, a, b).Groups[metrics.ByPartition]
	var names []string
	for _, g := range groups {
		names = append(names, fmt.Sprint(g.Name, g.Jobs))
	}
	if got := strings.Join(names, " "); got != "batch[20 19] new[0 1] short[10 10]" {
		t.Errorf("groups %s", got)
	}
	if d := find(t, groups[1].Metrics, "mean_wait_s").Differences[0]; d.Difference.Known() || d.P.Known() {
		t.Errorf("a group on one side only differs by %v", d.Difference)
	}
}

func TestUnusualInput(t *testing.T) {
	if _, err := Compare([]Set{single("a")}, Options{}); err == nil {
		t.Error("one set is compared")
	}
	if _, err := Compare([]Set{single("a"), {Name: "b"}}, Options{}); err == nil {
		t.Error("a set without runs is compared")
	}
	if _, err := Describe(nil, Options{}); err == nil {
		t.Error("nothing is described")
	}
	empty := mustCompare(t, Options{}, single("a"), single("b"))
	if _, err := json.Marshal(empty); err != nil {
		t.Error(err)
	}
	var text bytes.Buffer
	if err := empty.Render(&text, time.UTC); err != nil {
		t.Error(err)
	}
	alone, err := Describe([]Set{randomSet("a", 1, 5, 10)}, Options{})
	if err != nil || len(alone.Pairs) != 0 || alone.Distances == nil {
		t.Errorf("described %+v, error %v", alone, err)
	}
}

// If users react, lateness is compared too. A rigid run has no lateness.
func TestLateness(t *testing.T) {
	rows := func(late int) []run.Row {
		var list []run.Row
		for i := range 5 {
			r := job(fmt.Sprint("j", i), 100*i+late, 100*i+late, 10, "n1")
			r.RecordedSubmit = monday.Add(time.Duration(100*i) * time.Second)
			list = append(list, r)
		}
		return list
	}
	reacting := func(name string, late int) Set {
		s := single(name, rows(late)...)
		s.Runs[0].Manifest.Feedback = &run.Feedback{Model: "think-time"}
		return s
	}
	c := mustCompare(t, Options{}, reacting("a", 20), reacting("b", 50), single("rigid", rows(0)...))
	m := find(t, c.Metrics, "mean_lateness_s")
	if m.Sets[0].Mean != 20 || m.Differences[0].Difference != 30 || m.Differences[1].Difference.Known() {
		t.Errorf("lateness %+v", m)
	}
	for _, m := range mustCompare(t, Options{}, single("a", rows(0)...), single("b", rows(1)...)).Metrics {
		if strings.Contains(m.Key, "lateness") {
			t.Errorf("rigid runs have %s", m.Key)
		}
	}
}

// Vectors of waits and the jobs of groups leave out preset jobs, whose waits do not count.
func TestPresetJobs(t *testing.T) {
	rows := []run.Row{job("preset", 0, 10, 100, "n1"), job("x", 50, 60, 100, "n2")}
	a, b := single("a", rows...), single("b", rows...)
	for _, s := range []Set{a, b} {
		s.Runs[0].Manifest.WindowStart = monday.Add(40 * time.Second)
	}
	c := mustCompare(t, Options{EveryJob: true, By: []metrics.By{metrics.ByUser}}, a, b)
	if groups := c.Groups[metrics.ByUser]; len(groups) != 1 || !slices.Equal(groups[0].Jobs, []metrics.Float{1, 1}) {
		t.Errorf("groups %+v, want one with the job that started in the window", groups)
	}
	if c.Distances.Jobs != 1 || c.Distances.LeftOut != 1 {
		t.Errorf("%d jobs in the vectors, %d left out, want 1 and 1", c.Distances.Jobs, c.Distances.LeftOut)
	}
	if all := c.Pairs[0].Jobs.All; all[0].Wait.Known() || !all[1].Wait.Known() {
		t.Errorf("waits %v and %v", all[0].Wait, all[1].Wait)
	}
}

// A run submits a preset job a second before the job's start, but the record has the true submission. That
// is not a divergence, whichever side is the record, and with or without a window in the record.
func TestPresetSubmission(t *testing.T) {
	for _, whole := range []bool{false, true} {
		recorded := single("record", job("preset", -900, 10, 100, "n1"), job("x", 50, 60, 100, "n2"), job("y", 55, 61, 9, "n3"))
		run := single("run", job("preset", 9, 10, 100, "n1"), job("x", 50, 62, 100, "n2"), job("y", 58, 61, 9, "n3"))
		run.Runs[0].Manifest.WindowStart = monday.Add(40 * time.Second)
		if !whole {
			recorded.Runs[0].Manifest.WindowStart = run.Runs[0].Manifest.WindowStart
		}
		for _, sets := range [][]Set{{recorded, run}, {run, recorded}} {
			p := mustCompare(t, Options{EveryJob: true}, sets...).Pairs[0]
			if d := p.Divergences[0]; d.Kind != DivergedSubmit || d.Job != "y" {
				t.Errorf("whole record %t: first divergence %q, want the submission of y", whole, d.Reason)
			}
			if s := p.Jobs.Submit; s.Changed != 1 || math.Abs(float64(s.MeanAbs)) != 1.5 {
				t.Errorf("whole record %t: submissions %+v, want one of two jobs to change by 3 s", whole, s)
			}
			if all := p.Jobs.All; all[0].Submit.Known() || !all[0].SubmitAt.Known() {
				t.Errorf("whole record %t: preset job %+v", whole, all[0])
			}
		}
	}
}

// Jobs that an interrupted run did not reach are not rejected, and are not jobs of one side only. The headline compares
// the jobs that started on both sides.
func TestInterrupted(t *testing.T) {
	recorded := single("record", job("x", 0, 1000, 10, "n1"), job("y", 10, 60, 10, "n1"), job("waits", 20, 100, 10, "n1"),
		job("later", 900, 90000, 10, "n1"), job("bad", 910, 920, 10, "n1"), job("void", 911, 921, 10, "n1"))
	recorded.Runs[0].Manifest.Engine = run.EngineRecorded
	refused := job("bad", 910, -1, 0, "")
	refused.State = hpc.Rejected
	void := job("void", 911, -1, 0, "")
	void.State, void.End = hpc.Cancelled, monday.Add(1000*time.Second)
	cut := single("run", job("x", 0, 0, 10, "n1"), job("y", 10, 210, 10, "n1"), job("waits", 20, -1, 0, ""), refused, void)
	for state, want := range map[run.State]struct{ only, noStart, notReached, onlyRecorded int }{
		run.StateInterrupted: {1, 1, 2, 2}, run.StateFailed: {1, 1, 2, 2}, run.StateComplete: {2, 2, 0, 4},
	} {
		cut.Runs[0].Manifest.State = state
		c := mustCompare(t, Options{}, recorded, cut)
		p := &c.Pairs[0]
		if v := p.Jobs; v.Only[0] != want.only || v.NoStart[1] != want.noStart || v.NotReached != want.notReached {
			t.Errorf("%s: only in one %v, started in one %v, not reached %d, want %+v", state, v.Only, v.NoStart, v.NotReached, want)
		}
		if n := p.Recorded.OnlyRecorded; n != want.onlyRecorded {
			t.Errorf("%s: %d jobs in the record only, want %d", state, n, want.onlyRecorded)
		}
		d := slices.IndexFunc(p.Divergences, func(d Divergence) bool { return d.Job == "waits" })
		if state != run.StateComplete && d >= 0 {
			t.Errorf("%s: %q", state, p.Divergences[d].Reason)
		}
		answer := strings.ReplaceAll(c.Answer(p), quantity.Space, " ")
		const both = "On average, jobs that start in both (2) wait 7 min 5 s shorter in B (run) than in A (record): 1 min 40 s instead of " +
			"8 min 45 s; "
		if state != run.StateComplete && (!strings.HasPrefix(answer, both) || !strings.HasSuffix(answer, "no other job counts here, because B ended early. The tables count all jobs that each side has.")) {
			t.Errorf("%s: %q", state, answer)
		} else if state == run.StateComplete && strings.Contains(answer, "early") {
			t.Errorf("%s: %q", state, answer)
		}
	}
	cut.Runs[0].Rows, cut.Runs[0].Manifest.State = cut.Runs[0].Rows[2:3], run.StateInterrupted
	c := mustCompare(t, Options{}, recorded, cut)
	if got := c.Answer(&c.Pairs[0]); got != "" && !strings.HasPrefix(got, "No job starts in both") && !strings.HasPrefix(got, "No job of B") {
		t.Errorf("%q", got)
	}
	if got := c.Pairs[0].Agreement(); !strings.Contains(got, "until a run ended early") {
		t.Errorf("%q", got)
	}
}

// In the complete run, a job lost its run and started again after the other run had been interrupted. Its wait has no
// counterpart, so the waits of both sides are equal.
func TestLostAfterInterruption(t *testing.T) {
	at := func(s int) hpc.Time { return monday.Add(time.Duration(s) * time.Second) }
	running := job("x", 0, 10, 0, "n1")
	running.State, running.End = hpc.Running, 0
	cut := single("cut", running, job("y", 5, 25, 50, "n2"))
	cut.Runs[0].Manifest.State, cut.Runs[0].Manifest.VirtualEnd = run.StateInterrupted, at(200)
	whole := single("whole", afterLoss(job("x", 0, 500, 1000, "n2"), 10, 300, "n1", "z"), job("y", 5, 25, 50, "n2"))
	for _, sets := range [][2]Set{{cut, whole}, {whole, cut}} {
		c := mustCompare(t, Options{}, sets[0], sets[1])
		p := &c.Pairs[0]
		answer := strings.ReplaceAll(c.Answer(p), quantity.Space, " ")
		if !strings.HasPrefix(answer, "On average, jobs that start in both (1) wait as long in B") {
			t.Errorf("%q", answer)
		}
		if v := p.Jobs; v.NotReached != 1 || v.Wait.Changed != 0 || len(v.Largest) != 0 {
			t.Errorf("not reached %d, waits %+v, largest %+v; want 1 job, and equal waits", v.NotReached, v.Wait, v.Largest)
		}
	}
}

// Sides may leave out different jobs without run time from their slowdowns. The output says how
// many.
func TestZeroRunTimes(t *testing.T) {
	rows := func(runTimes ...int) (list []run.Row) {
		for i, s := range runTimes {
			list = append(list, job(fmt.Sprint("j", i), 10*i, 10*i+20, s, "n1"))
		}
		return list
	}
	several := Set{Name: "b", Runs: []Realization{realization("b1", rows(0, 0, 9)...), realization("b2", rows(0, 7, 9)...), realization("b3", rows(0, 0, 9)...)}}
	for _, test := range []struct {
		a, b Set
		want string // the text after the table
		of   [2]int // the counts in the first runs
	}{
		{single("a", rows(1, 5, 9)...), single("b", rows(0, 0, 9)...), "0 in A, 2 in B", [2]int{0, 2}},
		{single("a", rows(0, 5, 9)...), several, "1 in A, 1 to 2 in B", [2]int{1, 2}},
		{single("a", rows(1, 5, 9)...), single("b", rows(1, 5, 8)...), "", [2]int{}},
	} {
		c := mustCompare(t, Options{}, test.a, test.b)
		if got := [2]int{c.Sets[0].Runs[0].ZeroRunTime, c.Sets[1].Runs[0].ZeroRunTime}; got != test.of {
			t.Errorf("%d jobs of the first runs, want %d", got, test.of)
		}
		var b bytes.Buffer
		if err := c.Render(&b, time.UTC); err != nil {
			t.Fatal(err)
		}
		line := "\njobs that ran for 0 s count in the bounded slowdown only: "
		if has := strings.Contains(b.String(), line); has != (test.want != "") || has && !strings.Contains(b.String(), line+test.want+"\n") {
			t.Errorf("want %q in\n%s", test.want, b.String())
		}
	}
}

// The state at a divergence has the divergence's date, unless the job started then. Before a window it is not known.
func TestDateOfState(t *testing.T) {
	for _, test := range []struct {
		submit, start, window int // of the second run
		want                  []string
	}{
		{30, 60, 0, []string{"A: started 2023-11-14T22:14:20Z on n1; just before 2023-11-14T22:13:30Z, 0 jobs waited and 1 ran on 1 node",
			"B: started 2023-11-14T22:14:20Z on n1; just before 2023-11-14T22:13:30Z, 0 jobs waited and 1 ran on 1 node"}},
		{10, 80, 0, []string{"A: started 2023-11-14T22:14:20Z on n1; just before, 1 job waited and 1 ran on 1 node",
			"B: started 2023-11-14T22:14:40Z on n1; just before 2023-11-14T22:14:20Z, 1 job waited and 1 ran on 1 node"}},
		{30, 60, 40, []string{"A: started 2023-11-14T22:14:20Z on n1\n  B: started 2023-11-14T22:14:20Z on n1\n"}},
	} {
		a := single("a", job("x", 0, 5, 100, "n2"), job("y", 10, 60, 10, "n1"))
		b := single("b", job("x", 0, 5, 100, "n2"), job("y", test.submit, test.start, 10, "n1"))
		if test.window > 0 {
			b.Runs[0].Manifest.WindowStart = monday.Add(time.Duration(test.window) * time.Second)
		}
		var text bytes.Buffer
		if err := mustCompare(t, Options{}, a, b).Render(&text, time.UTC); err != nil {
			t.Fatal(err)
		}
		for _, want := range test.want {
			if !strings.Contains(text.String(), want) {
				t.Errorf("no %q in\n%s", want, text.String())
			}
		}
	}
}

// A window of a workload has the tasks that ran when it began as jobs of their own (17_3); the other window has them in
// the array. Jobs match by the ID that both windows print, in all runs of a set.
func TestTasksThatAreJobs(t *testing.T) {
	array := func(tasks ...int) (rows []run.Row) {
		for _, task := range tasks {
			rows = append(rows, with(job("17", 0, 10*task, 100, "n1"), func(r *run.Row) { r.Task = task }))
		}
		return rows
	}
	own := func(start int) []run.Row {
		return append(array(3), job("17_1", 0, start, 100, "n1"), job("8_2", 0, 5, 5, "n2"))
	}
	first := single("a", append(array(1, 2, 3), job("8_2", 0, 5, 5, "n2"))...)
	second := Set{Name: "b", Runs: []Realization{realization("b/1", own(10)...), realization("b/2", own(50)...)}}
	before := slices.Clone(second.Runs[0].Rows)
	for _, sets := range [][]Set{{first, second}, {second, first}} {
		v := mustCompare(t, Options{}, sets...).Pairs[0].Jobs
		if v.Matched != 3 || v.Only[0]+v.Only[1] != 1 || v.Wait.Changed != 1 || math.Abs(float64(v.Wait.Mean))*3 != 20 {
			t.Errorf("%d jobs match (want 17_1, 17_3 and 8_2), %v on one side only, %+v", v.Matched, v.Only, v.Wait)
		}
		for _, d := range v.Differences() {
			if name := d.String(); !slices.Contains([]string{"17_1", "17_3", "8_2"}, name) {
				t.Errorf("job %s", name)
			}
		}
	}
	if !reflect.DeepEqual(second.Runs[0].Rows, before) {
		t.Error("the comparison changed the caller's rows")
	}
	both := single("b", append(array(1, 2), job("17_1", 0, 70, 100, "n1"))...) // the job 17_1 is not the task
	if v := mustCompare(t, Options{}, first, both).Pairs[0].Jobs; v.Matched != 2 || v.Only[1] != 1 || v.Wait.Changed != 0 {
		t.Errorf("%+v", v)
	}
}

// The tasks of the parts of an array, which workload build makes of tasks with different requests, are compared with
// the tasks of an array that is one job.
func TestPartsOfArrays(t *testing.T) {
	task := func(id string, task, start int) run.Row {
		return with(job(id, 0, start, 100, "n1"), func(r *run.Row) { r.Task = task })
	}
	whole := single("a", task("17", 0, 0), task("17", 1, 10), task("17", 2, 20), task("17", 3, 30),
		job("8#2", 0, 5, 5, "n2"))
	second := task("17#2", 1, 10)
	second.Request = "asked"
	parts := single("b", task("17", 0, 0), second, task("17#2", 2, 40), job("17#2_3", 0, 30, 100, "n1"),
		job("8#2", 0, 5, 5, "n2"))
	for _, sets := range [][]Set{{whole, parts}, {parts, whole}} {
		v := mustCompare(t, Options{}, sets...).Pairs[0].Jobs
		if v.Matched != 5 || v.Only[0]+v.Only[1] != 0 || v.Wait.Changed != 1 {
			t.Errorf("%d jobs match (want 4 tasks and 8#2), %v on one side only, %+v", v.Matched, v.Only, v.Wait)
		}
	}
	rows := jobrows.Tasks(parts.Runs[0].Rows, map[string]bool{"17": true})
	if rows[2].Request != "asked" || rows[0].Request != "" {
		t.Errorf("the submission of the part is lost: %+v", rows)
	}
	twice := single("b", task("17", 1, 10), task("17#2", 1, 50)) // this is not the task
	c := mustCompare(t, Options{}, whole, twice)
	if v := c.Pairs[0].Jobs; v.Matched != 1 || v.Only[1] != 1 {
		t.Errorf("%+v", v)
	}
	const why = "only in B; 1 job is named like a task that its own side also has in the array, and cannot be matched. "
	if got := c.Answer(&c.Pairs[0]); !strings.Contains(got, why) {
		t.Error(got)
	}
	request := run.EncodeJob(&hpc.Job{ID: "17", Request: hpc.Request{Array: "0-3"}})
	rejected := with(job("17", 0, 0, 0, ""), func(r *run.Row) {
		r.Task, r.State, r.Request = -1, hpc.Rejected, string(request)
	})
	ran := single("b", job("17_0", 0, 0, 100, "n1"), job("17_1", 0, 0, 100, "n1"))
	c = mustCompare(t, Options{}, single("a", rejected), ran)
	if v := c.Pairs[0].Jobs; v.own != [2]int{} {
		t.Errorf("tasks of a rejected array: %+v", v)
	}
}

// The star is explained if a table has one.
func TestStarIsExplained(t *testing.T) {
	for mean, want := range map[float64]bool{5: false, 500: true} {
		var text bytes.Buffer
		if err := mustCompare(t, Options{}, randomSet("a", 1, 8, 5), randomSet("b", 2, 8, mean)).Render(&text, time.UTC); err != nil {
			t.Fatal(err)
		}
		if has, star := strings.Contains(text.String(), "* is significant after Holm"), strings.Contains(text.String(), " *\n"); has != want || star != want {
			t.Errorf("mean %v: explained %v, a star %v, want %v\n%s", mean, has, star, want, text.String())
		}
	}
}

// Before the window, a preset job is in the queue since its submission in the workload, although the run submits it
// just before its start.
func TestPresetJobInQueue(t *testing.T) {
	recorded := single("record", job("preset", -900, 100, 900, "n1"), job("y", 50, 300, 9, "n3"))
	run := single("run", job("preset", 99, 100, 900, "n1"), job("y", 53, 300, 9, "n3"))
	run.Runs[0].Manifest.WindowStart = monday.Add(200 * time.Second)
	run.Runs[0].Rows[0].RecordedSubmit = monday.Add(-900 * time.Second)
	d := mustCompare(t, Options{}, recorded, run).Pairs[0].Divergences[0]
	if d.Kind != DivergedSubmit || d.Baseline.Queued != 1 || d.Set.Queued != 1 || len(d.Baseline.OnlyQueued) > 0 {
		t.Errorf("%s at %v: %+v, %+v", d.Reason, d.At, d.Baseline, d.Set)
	}
}
