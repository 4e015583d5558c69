package report

import (
	"bytes"
	"container/heap"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"rmreplay/internal/compare"
	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

var noon = hpc.Unix(1_700_049_600)

// machine is the machine of the tests' jobs.
type machine struct {
	nodes, processors int // processors of each node
}

// ends is a heap of the running jobs. The first job to end is on top.
type ends []*run.Row

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].End < e[j].End }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(*run.Row)) }
func (e *ends) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// schedule makes a run of the given number of jobs, first come, first served, on the free nodes
// with the lowest numbers. After a while the free nodes are scattered, as on a real machine.
func schedule(name string, seed uint64, jobs int, m machine) compare.Realization {
	random := rand.New(rand.NewPCG(seed, 9))
	free := make([]bool, m.nodes)
	for i := range free {
		free[i] = true
	}
	held := make(map[*run.Row][]int)
	var running ends
	rows := make([]run.Row, jobs)
	now, idle, submit := noon, m.nodes, noon
	for i := range rows {
		submit = submit.Add(time.Duration(random.ExpFloat64() * 8 * float64(time.Second)))
		size := min(m.nodes, 1<<random.IntN(8))
		if random.IntN(4) > 0 {
			size = min(size, 1+random.IntN(4))
		}
		now = max(now, submit)
		for len(running) > 0 && (idle < size || running[0].End <= now) {
			done := heap.Pop(&running).(*run.Row)
			now = max(now, done.End)
			for _, n := range held[done] {
				free[n] = true
			}
			idle += len(held[done])
			delete(held, done)
		}
		r := &rows[i]
		var names []string
		for n := 0; len(names) < size; n++ {
			if free[n] {
				free[n] = false
				held[r] = append(held[r], n)
				names = append(names, fmt.Sprintf("nid%05d", n))
			}
		}
		idle -= size
		length := time.Duration(math.Exp(7.5+1.5*random.NormFloat64())) * time.Second
		*r = run.Row{
			Job: fmt.Sprint(100000 + i), Task: -1, User: fmt.Sprint("user", random.IntN(90)), Account: fmt.Sprint("project", random.IntN(20)),
			Partition: []string{"batch", "gpu", "debug"}[random.IntN(3)], QOS: "normal", State: hpc.Completed, Submit: submit, Start: now,
			End: now.Add(min(length, 24*time.Hour)), Nodes: hostlist.Compress(names), NodeCount: size, Processors: size * m.processors,
		}
		heap.Push(&running, r)
	}
	manifest := &run.Manifest{
		Engine: "sim", Policy: "fcfs", Seed: seed, State: run.StateComplete, Valid: true, VirtualStart: noon, VirtualEnd: now,
		Cluster: run.Cluster{Name: "test", Nodes: m.nodes, Processors: m.nodes * m.processors},
	}
	return compare.Realization{Name: name, Manifest: manifest, Rows: rows}
}

// twoSets returns small sets of realizations.
func twoSets() []compare.Set {
	small := machine{nodes: 40, processors: 8}
	sets := []compare.Set{{Name: "before"}, {Name: "after"}}
	for i := range sets {
		for k := range 4 {
			r := schedule(fmt.Sprintf("%s/realization-%03d", sets[i].Name, k+1), 1, 200, small)
			random := rand.New(rand.NewPCG(uint64(10*i+k), 5))
			for n := range r.Rows {
				late := time.Duration(random.IntN(40+60*i)) * time.Second
				r.Rows[n].Start, r.Rows[n].End = r.Rows[n].Start.Add(late), r.Rows[n].End.Add(late)
			}
			withIO(&r, 30<<20)
			r.Manifest.FileSystems[0].Limit = int64(200-50*i) << 20
			sets[i].Runs = append(sets[i].Runs, r)
		}
		addReasons(&sets[i].Runs[0])
	}
	sets[0].Runs[0].Manifest.Versions.Slurm, sets[1].Runs[0].Manifest.Versions.Slurm = "22.05.8", "24.11.5"
	sets[1].Runs[0].Manifest.Cluster.Changes = []run.Change{{Key: "SelectType", From: "", To: "select/linear", Reason: "<the default> of the site's release"}}
	return sets
}

// withIO has every second job of a run write at a rate in bytes per second, and request licenses.
func withIO(r *compare.Realization, rate int64) {
	r.Manifest.FileSystems = []run.FileSystem{{Name: "lustre", Bandwidth: 200 << 20}}
	r.Manifest.IOEstimate = "x2"
	for i := range r.Rows {
		row := &r.Rows[i]
		job := &hpc.Job{ID: row.Job}
		row.AskedRunTime = row.End.Sub(row.Start)
		job.RunTime, job.IO = row.AskedRunTime, []hpc.Phase{{FileSystem: "lustre", Rate: rate}}
		switch i % 4 {
		case 1:
			row.Request = string(run.EncodeJob(job))
		case 3:
			job.Licenses = "lustre:500"
			row.Request = string(run.EncodeJob(job))
		}
	}
}

// addReasons gives each job that waits a minute one of eight reasons.
func addReasons(r *compare.Realization) {
	names := []string{"Resources", "Priority", "Dependency", "ReqNodeNotAvail: Reserved for maintenance", "Licenses", "BeginTime", "JobHeldUser", "QOSMaxCpuPerUserLimit"}
	var events []run.Event
	for i := range r.Rows {
		row := &r.Rows[i]
		if at := row.Submit.Add(time.Minute); at < row.Start {
			events = append(events, run.Event{At: at, Kind: rm.Waiting, Job: row.Job, Task: -1, Reason: names[i%(1+i%len(names))]})
		}
	}
	reasons := run.NewReasons(events, r.Manifest.VirtualEnd)
	for i := range r.Rows {
		r.Rows[i].Reasons = reasons.Spans(&r.Rows[i])
	}
}

// comparison is the report that most tests use.
var comparison = sync.OnceValues(func() (*Report, error) {
	return New(twoSets(), Options{Created: noon.Std(), Command: []string{"rmreplay", "report", "<script>alert(1)</script>"}, Version: "test"})
})

func mustReport(t testing.TB) *Report {
	t.Helper()
	r, err := comparison()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func pageOf(t testing.TB, r *Report) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The verdict on few runs says that the runs are few: with four and four runs no figure can be
// significant after the correction, however large the difference.
func TestVerdictOfFewRuns(t *testing.T) {
	page := string(pageOf(t, mustReport(t)))
	if want := "4 and 4 runs are too few to find out which of"; !strings.Contains(page, want) || !strings.Contains(page, "they suffice for one metric that was chosen beforehand") {
		t.Errorf("the page lacks %q", want)
	}
	said, warned := regexp.MustCompile(`which of the (\d+) metrics`).FindStringSubmatch(page), regexp.MustCompile(`correction for (\d+) figures`).FindStringSubmatch(page)
	if said == nil || warned == nil || said[1] != warned[1] {
		t.Errorf("%q metrics in the verdict, %q in the warning", said, warned)
	}
	if unwanted := "vary differs significantly"; strings.Contains(page, unwanted) {
		t.Errorf("the page has %q", unwanted)
	}
}

// The page needs no other file: everything that it could fetch is in it.
func TestPageIsSelfContained(t *testing.T) {
	text := pageOf(t, mustReport(t))
	root, err := html.Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	ids := make(map[string]bool)
	var references, missing []string
	walk(root, func(n *html.Node) {
		for _, a := range n.Attr {
			switch a.Key {
			case "id":
				if ids[a.Val] {
					t.Errorf("id %q is there twice", a.Val)
				}
				ids[a.Val] = true
			case "src", "href", "data", "poster", "action", "srcset":
				if !strings.HasPrefix(a.Val, "#") && !strings.HasPrefix(a.Val, "data:") {
					t.Errorf("<%s %s=%.60q> is outside of the page", n.Data, a.Key, a.Val)
				}
				references = append(references, strings.TrimPrefix(a.Val, "#"))
			case "aria-labelledby", "aria-describedby":
				references = append(references, strings.Fields(a.Val)...)
			}
		}
	})
	for _, id := range references {
		if !ids[id] && !strings.HasPrefix(id, "data:") {
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 {
		t.Errorf("references to what is not there: %q", missing)
	}
	if bytes.Contains(text, []byte("<script>alert(1)")) {
		t.Error("text from outside is part of the page's code")
	}
}

func walk(n *html.Node, visit func(*html.Node)) {
	visit(n)
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		walk(c, visit)
	}
}

// Every picture has a name, a description and a table. Every table has headings.
func TestPageForEveryReader(t *testing.T) {
	r := mustReport(t)
	root, err := html.Parse(bytes.NewReader(pageOf(t, r)))
	if err != nil {
		t.Fatal(err)
	}
	figures := 0
	walk(root, func(n *html.Node) {
		count := make(map[string]int)
		walk(n, func(c *html.Node) { count[c.Data]++ })
		switch n.Data {
		case "figure":
			figures++
			if count["figcaption"] != 1 || count["h3"] != 1 || count["svg"]+count["img"] == 0 {
				t.Errorf("a figure with %v", count)
			}
			if id := attribute(n, "id"); count["table"] == 0 && id != "figure-metrics" {
				t.Errorf("figure %s has no table", id)
			}
		case "table":
			if count["th"] == 0 || count["td"] == 0 {
				t.Errorf("a table with %v", count)
			}
		case "img":
			if attribute(n, "alt") == "" {
				t.Error("a picture without words")
			}
		}
	})
	if figures < 8 {
		t.Errorf("%d figures", figures)
	}
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func TestFiguresInAllFormats(t *testing.T) {
	r := mustReport(t)
	var names []string
	for _, f := range r.Figures {
		names = append(names, f.Name)
		for _, format := range Formats {
			var b bytes.Buffer
			if err := f.WriteTo(&b, format); err != nil {
				t.Fatalf("%s as %s: %v", f.Name, format, err)
			}
			switch format {
			case "png":
				if img, err := png.Decode(&b); err != nil || img.Bounds().Dx() < 400 {
					t.Errorf("%s: not a picture of a size to print: %v", f.Name, err)
				}
			case "pdf":
				if !bytes.HasPrefix(b.Bytes(), []byte("%PDF-")) {
					t.Errorf("%s: not a PDF", f.Name)
				}
			case "svg":
				decoder := xml.NewDecoder(&b)
				for {
					if _, err := decoder.Token(); errors.Is(err, io.EOF) {
						break
					} else if err != nil {
						t.Fatalf("%s: %v", f.Name, err)
					}
				}
			}
		}
		if f.Caption == "" || f.Title == "" {
			t.Errorf("%s: no caption or title", f.Name)
		}
	}
	for _, want := range []string{"metrics", "utilization", "utilization-partition", "running", "queue", "wait-week", "wait-cdf", "slowdown-cdf", "high-slowdowns", "distances", "jobs-B", "gantt-A", "gantt-B"} {
		if !slices.Contains(names, want) {
			t.Errorf("no figure %s, but %q", want, names)
		}
	}
	if err := r.Figures[0].WriteTo(io.Discard, "doc"); err == nil {
		t.Error("an unknown format is drawn")
	}
}

// The page says how often chance alone makes a difference significant, at the level of the page.
func TestHardlyChance(t *testing.T) {
	var sets []compare.Set
	for seed, name := range []string{"a", "b"} {
		set := compare.Set{Name: name}
		for i := range 3 {
			set.Runs = append(set.Runs, schedule(name, uint64(10*seed+i), 20, machine{nodes: 4, processors: 2}))
		}
		sets = append(sets, set)
	}
	r, err := New(sets, Options{Compare: compare.Options{Level: 0.9}})
	if err != nil {
		t.Fatal(err)
	}
	if text := textOf(t, r); !strings.Contains(text, "is hardly chance, but on average 10 of 100 comparisons of equal settings find one.") {
		t.Error("the page does not say how often a difference that is significant is chance")
	}
}

// The page of valid runs does not say that nothing is known if it lists warnings.
func TestValidWithWarnings(t *testing.T) {
	for _, warned := range []bool{false, true} {
		run1, run2 := schedule("a", 1, 20, machine{nodes: 4, processors: 2}), schedule("a", 2, 20, machine{nodes: 4, processors: 2})
		if warned {
			run2.Manifest.Warnings = []run.Warning{{Code: "c", Text: "a hint", Count: 1}}
		}
		r, err := New([]compare.Set{{Name: "a", Runs: []compare.Realization{run1, run2}}}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		text := textOf(t, r)
		if strings.Contains(text, "All runs are valid: nothing is known to have affected their results.") == warned ||
			strings.Contains(text, "All runs are valid; their warnings are below.") != warned {
			t.Errorf("warned %v: %s", warned, text)
		}
	}
}

// Missing data in a run must not make the report fail.
func TestUnusualRuns(t *testing.T) {
	small := machine{nodes: 4, processors: 2}
	nodeless := schedule("nodeless", 1, 20, small)
	for i := range nodeless.Rows {
		nodeless.Rows[i].Nodes = ""
	}
	odd := schedule("odd", 1, 20, small)
	odd.Manifest.Cluster = run.Cluster{}
	odd.Manifest.Valid = false
	odd.Manifest.Warnings = []run.Warning{{Code: "c", Text: "a doubt", AffectsResult: true, Count: 2}}
	odd.Rows[3].End, odd.Rows[3].State = 0, hpc.Running
	odd.Rows[4].Start, odd.Rows[4].End, odd.Rows[4].State = 0, 0, hpc.Pending
	odd.Rows[5].State = hpc.Rejected
	odd.Rows[6].Nodes = "n[1-"
	empty := compare.Realization{Name: "empty", Manifest: &run.Manifest{State: run.StateComplete}}
	one := schedule("one", 1, 1, small)
	one.Rows[0].End = one.Rows[0].Start
	of := func(runs ...compare.Realization) compare.Set { return compare.Set{Name: runs[0].Name, Runs: runs} }
	cases := map[string][]compare.Set{
		"no nodes":   {of(nodeless)},
		"odd":        {of(odd), of(schedule("good", 2, 20, small))},
		"empty":      {of(empty)},
		"empty pair": {of(empty), of(empty)},
		"one job":    {of(one), of(one, one)},
	}
	for kind, n := range map[string]int{"one weekday, a set": 1, "one weekday": 3, "one weekday, many sets": 9, "week": 3, "no jobs": 3, "a job": 5} {
		for k := range n {
			r := schedule("", uint64(k), 60, small)
			addReasons(&r)
			withIO(&r, 30<<20)
			switch kind {
			case "week":
				for i := range r.Rows {
					row, late := &r.Rows[i], time.Duration(i%7)*24*time.Hour
					row.Submit, row.Start, row.End = row.Submit.Add(late), row.Start.Add(late), row.End.Add(late)
				}
			case "no jobs":
				r.Rows = nil
			case "a job":
				r.Rows = r.Rows[:1]
			}
			set := of(r)
			set.Name = strings.Repeat("a set with a long name, ", 5) + strings.Repeat("I", k)
			cases[kind] = append(cases[kind], set)
		}
	}
	for name, sets := range cases {
		r, err := New(sets, Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text := string(pageOf(t, r))
		if notFinite(text) {
			t.Errorf("%s: the page has NaN or an infinite number", name)
		}
		if name == "odd" && !strings.Contains(text, "[affects the result] a doubt") {
			t.Error("the warning is not on the page")
		}
		for _, f := range r.Figures {
			var b bytes.Buffer
			if err := f.WriteTo(&b, "svg"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if notFinite(b.String()) {
				t.Errorf("%s: figure %s has NaN or an infinite number", name, f.Name)
			}
		}
	}
	if _, err := New(nil, Options{}); err == nil {
		t.Error("a report of nothing")
	}
}

// packed matches the pictures and the data of Gantt charts within a page or a figure.
var packed = regexp.MustCompile(`[A-Za-z0-9+/=]{60,}`)

// notFinite reports whether a page or a figure has a number that is not finite.
func notFinite(text string) bool {
	text = packed.ReplaceAllString(text, "")
	return strings.Contains(text, "NaN") || strings.Contains(text, "Inf")
}

// A bin has the mean over its time.
func TestBins(t *testing.T) {
	s := schedule("r", 7, 100, machine{nodes: 20, processors: 1})
	sets := []compare.Set{{Name: "s", Runs: []compare.Realization{s}}}
	overview := metrics.NewOverview(s.Rows, metrics.Options{}, ending(&s))
	c := newCourses(sets, []*metrics.Overview{overview}, time.UTC)
	sum := func(values []float64) (seconds float64) {
		for _, v := range values {
			seconds += v * c.width()
		}
		return seconds
	}
	want, waiting := 0.0, 0.0
	for i := range s.Rows {
		want += s.Rows[i].End.Sub(s.Rows[i].Start).Seconds() * float64(s.Rows[i].Processors)
		waiting += s.Rows[i].Start.Sub(s.Rows[i].Submit).Seconds()
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-6*want {
			t.Errorf("the bins hold %v %s seconds, want %v", got, what, want)
		}
	}
	near("processor", sum(c.sets[0][0].processors), want)
	near("waiting", sum(c.sets[0][0].queued), waiting)
	parts := 0.0
	for g := range c.groups {
		parts += sum(c.sets[0][0].parts[g])
	}
	near("processor", parts, want)
	cdf := distributions([]compare.Set{{Name: "s", Runs: []compare.Realization{s}}}, 1, waits.Seconds)
	last := cdf[0].Mean[bins-1]
	if last != 1 || !slices.IsSorted(cdf[0].Mean) {
		t.Errorf("a distribution that ends at %v, or falls", last)
	}
}

// reacting makes the users of a run react: users with odd numbers submit later and later.
func reacting(r compare.Realization) compare.Realization {
	m := *r.Manifest
	m.Feedback = &run.Feedback{Model: "think-time", Sessions: "arrival:60m"}
	r.Manifest, r.Rows = &m, slices.Clone(r.Rows)
	for i := range r.Rows {
		r.Rows[i].RecordedSubmit = r.Rows[i].Submit
		if i%2 == 1 {
			r.Rows[i].RecordedSubmit = r.Rows[i].Submit.Add(-time.Duration(i) * time.Second)
		}
	}
	return r
}

// Runs with feedback have a section of their own. Rigid runs do not.
func TestFeedbackSection(t *testing.T) {
	rigid := schedule("rigid", 1, 300, machine{nodes: 40, processors: 8})
	sets := []compare.Set{
		{Name: "rigid", Runs: []compare.Realization{rigid}},
		{Name: "reacting", Runs: []compare.Realization{reacting(rigid), reacting(schedule("r2", 2, 300, machine{nodes: 40, processors: 8}))}},
	}
	r, err := New(sets, Options{})
	if err != nil {
		t.Fatal(err)
	}
	text := string(pageOf(t, r))
	for _, name := range []string{"submissions", "lateness-cdf", "user-lateness", "week"} {
		if !strings.Contains(text, `<figure id="figure-`+name+`">`) {
			t.Errorf("no figure %s", name)
		}
	}
	alone, err := New(sets[:1], Options{})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(pageOf(t, alone)), `id="feedback"`) {
		t.Error("a rigid replay has a section on feedback")
	}
	lines := submissionLines(sets[1:], []string{"B"})
	if got := lines[0].Mean[bins-1]; got != 300 || !slices.IsSorted(lines[0].Mean) || lines[0].Mean[bins/2] < lines[1].Mean[bins/2] {
		t.Errorf("%v submissions recorded, want 300 and a replay that is late", got)
	}
}

// TestFairnessSection: the page has the figures of fairness if somebody asks for them.
func TestFairnessSection(t *testing.T) {
	for _, asked := range []bool{false, true} {
		opts := Options{Zone: time.UTC}
		if opts.Compare.Fairness = asked; asked {
			opts.Compare.FairStart = "fcfs"
		}
		r, err := New(twoSets(), opts)
		if err != nil {
			t.Fatal(err)
		}
		var page bytes.Buffer
		if err := r.WriteHTML(&page); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{`id="fairness"`, "wait Gini by user", "mean miss of fair start", "the Gini coefficient of the mean wait of each account"} {
			if strings.Contains(page.String(), text) != asked {
				t.Errorf("asked %t: %q on the page: %t", asked, text, !asked)
			}
		}
	}
}

// The scheduler did not decide the waits of preset jobs, so no figure shows them.
func TestPresetJobsHaveNoWait(t *testing.T) {
	r := schedule("r", 1, 100, machine{nodes: 10, processors: 1})
	m := *r.Manifest
	m.WindowStart = r.Rows[50].Start + 1
	r.Manifest = &m
	late := 0
	for i := range r.Rows {
		if r.Rows[i].Start >= m.WindowStart {
			late++
		}
	}
	counted := 0
	distributions([]compare.Set{{Name: "s", Runs: []compare.Realization{r}}}, 1, func(row *run.Row) float64 {
		counted++
		return waits.Seconds(row)
	})
	if counted != late || late == 100 {
		t.Errorf("%d waits, want those of the %d jobs that started in the window", counted, late)
	}
	if _, err := New([]compare.Set{{Name: "s", Runs: []compare.Realization{r}}}, Options{}); err != nil {
		t.Error(err)
	}
}

// TestSlowJobs counts jobs with known slowdowns: only new jobs with a slowdown above 5
// count.
func TestSlowJobs(t *testing.T) {
	of := func(slowdowns ...int) compare.Realization {
		r := compare.Realization{Manifest: &run.Manifest{WindowStart: noon}}
		for _, s := range slowdowns {
			start := noon.Add(time.Duration(s-1) * time.Minute)
			r.Rows = append(r.Rows, run.Row{State: hpc.Completed, Submit: noon, Start: start, End: start.Add(time.Minute)})
		}
		before := noon.Add(-time.Minute) // a preset job with a long wait
		r.Rows = append(r.Rows, run.Row{State: hpc.Completed, Submit: noon.Add(-time.Hour), Start: before, End: noon})
		return r
	}
	f, err := newSlowJobs([]compare.Set{
		{Name: "some", Runs: []compare.Realization{of(1, 5, 6, 10), of(6, 8, 20, 30)}},
		{Name: "none", Runs: []compare.Realization{of(1, 2)}},
		{Name: "one", Runs: []compare.Realization{of(5, 7)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{"A some", "3", "75.0\u00a0%", "9", "25", "2", "2", "4"},
		{"C one", "1", "50.0\u00a0%", "7", "7", "1", "1", "1"},
	}
	if diff := cmp.Diff(want, f.Data.Rows); diff != "" {
		t.Errorf("rows (-want +got)\n%s", diff)
	}
	if f, err := newSlowJobs([]compare.Set{{Name: "none", Runs: []compare.Realization{of(1, 2)}}}); f != nil || err != nil {
		t.Errorf("of no such job: %v, %v", f, err)
	}
}

// Every number that a reader sees has a suitable number of digits: at most six decimals, and no exponent below
// zero.
func TestDigits(t *testing.T) {
	manyDigits := regexp.MustCompile(`\d\.\d{7,}|\d[eE]-\d`)
	root, err := html.Parse(bytes.NewReader(pageOf(t, mustReport(t))))
	if err != nil {
		t.Fatal(err)
	}
	numbers := 0
	walk(root, func(n *html.Node) {
		if n.Type != html.TextNode || n.Parent.Data == "script" || n.Parent.Data == "style" {
			return
		}
		if strings.ContainsAny(n.Data, "0123456789") {
			numbers++
		}
		if found := manyDigits.FindString(n.Data); found != "" {
			t.Errorf("<%s> has %q in %.80q", n.Parent.Data, found, n.Data)
		}
	})
	if numbers < 500 {
		t.Errorf("%d texts with numbers: the test does not see the tables", numbers)
	}
}
