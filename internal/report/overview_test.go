package report

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"rmreplay/internal/compare"
	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
)

// alone returns the report of one run.
func alone(t testing.TB, r compare.Realization, opts Options) *Report {
	t.Helper()
	report, err := New([]compare.Set{{Name: r.Name, Runs: []compare.Realization{r}}}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// textOf returns the text of a page as a reader sees it, with plain spaces.
func textOf(t testing.TB, r *Report) string {
	t.Helper()
	root, err := html.Parse(bytes.NewReader(pageOf(t, r)))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	walk(root, func(n *html.Node) {
		if n.Type == html.TextNode && n.Parent.Data != "script" && n.Parent.Data != "style" {
			b.WriteString(n.Data + "\n")
		}
	})
	return strings.ReplaceAll(b.String(), quantity.Space, " ")
}

// The first section says in words what happened. Its figures are counted here by hand.
func TestStory(t *testing.T) {
	r := schedule("run", 1, 2, machine{nodes: 2, processors: 5})
	row := func(i int, user, partition string, state hpc.State, submit, start, end time.Duration) {
		x := r.Rows[i%2] // either row; its fields are replaced
		x.Job, x.User, x.Account, x.Partition, x.State, x.Processors, x.NodeCount = fmt.Sprint(i), user, "project", partition, state, 10, 2
		x.Submit, x.Start, x.End = noon.Add(submit), noon.Add(start), noon.Add(end)
		if start == 0 {
			x.Start = 0
		}
		r.Rows = append(r.Rows, x)
	}
	r.Rows = r.Rows[:2]
	rows := r.Rows
	r.Rows = rows[:0:0]
	rest := rows
	r.Rows = append(r.Rows, rest...)
	row(2, "ada", "cpu", hpc.Completed, time.Minute, time.Hour, 2*time.Hour)
	row(3, "bob", "gpu", hpc.TimedOut, time.Minute, 2*time.Hour, 3*time.Hour)
	row(4, "bob", "gpu", hpc.Cancelled, 2*time.Minute, 0, 3*time.Hour)
	row(5, "bob", "gpu", hpc.Rejected, 3*time.Minute, 0, 0)
	r.Rows = r.Rows[2:]
	text := textOf(t, alone(t, r, Options{Zone: time.FixedZone("CET", 3600)}))
	for _, want := range []string{
		"4 jobs were submitted by 2 users of 1 account between Wed 15 Nov 2023 13:01 and Wed 15 Nov 2023 13:03 (CET).",
		"1 job (25.0 %) ended well, 1 (25.0 %) reached its time limit, 1 (25.0 %) was cancelled and 1 (25.0 %) was rejected at submission.",
		"1 job ended before it started.",
		"jobs held 100.0 % of the machine's 10 processors; for 100.0 % of the time until the last end the machine was full",
		"Half of the jobs waited at most 1 h 29 min, and nine of ten at most 1 h 53 min; the mean wait was 1 h 29 min. Job 3 of user bob in partition gpu waited longest: 1 h 59 min.",
		"The queue was longest on Wed 15 Nov 2023 13:02, with 3 waiting jobs.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if t.Failed() {
		t.Log(text[:min(len(text), 3000)])
	}
}

// The numbers of jobs by their end are means over the runs of a set.
func TestStatesOfSeveralRuns(t *testing.T) {
	runs := twoSets()[0].Runs
	runs[3].Rows = append(runs[3].Rows, runs[3].Rows[0])
	runs[1].Rows[0].State = hpc.Cancelled
	bar := stateBar(runs)
	text := []string{bar.Jobs}
	for _, p := range bar.Parts {
		text = append(text, p.Count)
	}
	if want := []string{"200.2" + quantity.Space + "jobs", "200", "0.25"}; !slices.Equal(text, want) {
		t.Errorf("%q, want %q", text, want)
	}
}

// In a run with a window, the table of users counts the waits and the hours of the window only, and
// says how many waits it counts.
func TestUsersOfWindow(t *testing.T) {
	r := schedule("run", 1, 2, machine{nodes: 2, processors: 5})
	for i, start := range []time.Duration{-time.Hour, time.Hour} {
		x := &r.Rows[i]
		x.User, x.Processors, x.Submit, x.Start, x.End = "ada", 10, noon.Add(start-time.Hour), noon.Add(start), noon.Add(2*time.Hour)
	}
	r.Manifest.WindowStart = noon
	table := alone(t, r, Options{}).usersTable(0)
	if !slices.Equal(table.Head[1:5], []string{"jobs", "CPU hours", "share", "waits counted"}) ||
		!slices.Equal(table.Rows[0][1:5], []string{"2", "30", "100.0" + quantity.Space + "%", "1"}) {
		t.Errorf("%q\n%q", table.Head, table.Rows)
	}
}

// The sentence about the longest mean waits says how many jobs a group needs to count.
func TestLongestWaits(t *testing.T) {
	r := schedule("run", 1, 1000, machine{nodes: 40, processors: 8})
	for i := range r.Rows {
		x := &r.Rows[i]
		x.User, x.Account, x.Partition = []string{"ann", "bob"}[i%2], "", []string{"cpu", "gpu"}[i%2]
	}
	r.Rows[0].User, r.Rows[0].Submit = "rare", r.Rows[0].Start.Add(-1000*time.Hour) // one job does not count
	text := textOf(t, alone(t, r, Options{}))
	want := regexp.MustCompile(`Of the partitions and users of which at least 10 jobs started, partition cpu \([^)]*\) and user ann \([^)]*\) waited longest on average\.`)
	if !want.MatchString(text) {
		t.Errorf("no %s in %.2000s", want, text)
	}
}

// A rejected array counts as its tasks in all counts of the page.
func TestRejectedArray(t *testing.T) {
	r := schedule("run", 1, 20, machine{nodes: 40, processors: 8})
	job := &hpc.Job{ID: "array"}
	job.Array = "1-10"
	r.Rows = append(r.Rows, run.Row{Job: "array", Task: -1, State: hpc.Rejected, Submit: noon, Request: string(run.EncodeJob(job))})
	report := alone(t, r, Options{})
	if counted := describe(report.Sets[0])[6]; counted != "30" || report.stateBars().States[0].Jobs != "30"+quantity.Space+"jobs" {
		t.Errorf("%s and %s jobs, want 30", counted, report.stateBars().States[0].Jobs)
	}
}

// For two windows, figures over time end with the last submission, and their definitions say so. The makespan ends with
// the last end.
func TestMeaningsOfWindows(t *testing.T) {
	one, other := schedule("one", 1, 50, machine{nodes: 40, processors: 8}), schedule("other", 2, 50, machine{nodes: 40, processors: 8})
	for i := range other.Rows {
		x := &other.Rows[i]
		x.Job = "other" + x.Job
		x.Submit, x.Start, x.End = x.Submit.Add(1000*time.Hour), x.Start.Add(1000*time.Hour), x.End.Add(1000*time.Hour)
	}
	one.Manifest.WindowStart, other.Manifest.WindowStart = noon.Add(-time.Hour), noon.Add(999*time.Hour)
	r, err := New([]compare.Set{{Name: "one", Runs: []compare.Realization{one}}, {Name: "other", Runs: []compare.Realization{other}}}, Options{})
	if err != nil || !r.Comparison.Sets[0].Window {
		t.Fatal(err, "want windows")
	}
	text := textOf(t, r)
	for _, m := range []string{"the part of all processors that jobs held, on average", "waiting jobs, on average", "jobs that started and ended, for each hour"} {
		if strings.Contains(text, m+" from the first start, or the begin of the window, to the last end") ||
			!strings.Contains(text, m+" from the first start, or the begin of the window, to the last submission") {
			t.Errorf("%s ...: want it to end with the last submission", m)
		}
	}
	if !strings.Contains(text, "from the first start of a job, or the begin of the window, to the last end") {
		t.Error("no definition of the makespan until the last end")
	}
}

// Only a replay on Slurm asks for reasons every few minutes.
func TestPrecisionOfReasons(t *testing.T) {
	sets := twoSets()
	for _, engine := range []string{"slurm", "sim", run.EngineRecorded} {
		sets[0].Runs[0].Manifest.Engine, sets[1].Runs[0].Manifest.Engine = "sim", engine
		f, err := newReasons(sets, newCourses(sets, nil, time.UTC))
		if err != nil || strings.Contains(f.Caption, "every few minutes") != (engine == "slurm") {
			t.Errorf("%s: %v, %s", engine, err, f.Caption)
		}
	}
}

// The table of nodes has a correction of its own, so it is not a part of the table of metrics.
func TestTwoCorrections(t *testing.T) {
	for _, s := range mustReport(t).Sections {
		if s.ID != "metrics" {
			continue
		}
		tables := map[bool]int{} // whether the table has figures of nodes
		for _, b := range s.Blocks {
			if b.Table != nil && slices.Contains(b.Table.Head, "p (Holm)") {
				nodes := func(row []string) bool { return row[0] == "node utilization" || row[0] == "idle node time" }
				if tables[nodes(b.Table.Rows[0])]++; slices.ContainsFunc(b.Table.Rows, nodes) != nodes(b.Table.Rows[0]) {
					t.Errorf("two corrections in one table: %q", b.Table.Rows)
				}
			}
		}
		if tables[true] != 1 || tables[false] != 1 {
			t.Errorf("%v tables, want one of each kind", tables)
		}
	}
}

// An administrator's questions come before the statistics, and a report of one run has no parts
// that need two runs.
func TestOneRun(t *testing.T) {
	r := alone(t, schedule("run", 1, 500, machine{nodes: 40, processors: 8}), Options{})
	var ids []string
	for _, s := range r.Sections {
		ids = append(ids, s.ID)
	}
	if want := []string{"summary", "machine", "waits", "users", "groups", "nodes", "metrics", "waiting", "distributions", "runs", "methods"}; !slices.Equal(ids, want) {
		t.Errorf("sections %q, want %q", ids, want)
	}
	text := textOf(t, r)
	for _, word := range []string{"baseline", "p-value", "permutation", "Hedges", "bootstrap", "Bands", "means over", "lowest run", "realization", "A run", "All runs", "interval"} {
		if strings.Contains(text, word) {
			t.Errorf("the page of one run has %q", word)
		}
	}
	for _, word := range []string{"What happened", "ended well", "Users with the most CPU hours", "The longest waits", "Utilization by partition", "Running jobs", "nine of ten jobs waited no longer", "15 Nov"} {
		if !strings.Contains(text, word) {
			t.Errorf("the page of one run lacks %q", word)
		}
	}
}

// The page has a figure of GPUs if jobs had GPUs.
func TestGPUFigure(t *testing.T) {
	has := func(r *Report) bool {
		return slices.ContainsFunc(r.Figures, func(f *Figure) bool { return f.Name == "gpus" })
	}
	run := schedule("run", 1, 50, machine{nodes: 10, processors: 8})
	if has(alone(t, run, Options{})) {
		t.Error("a figure of GPUs without GPUs")
	}
	run.Rows[7].TRES = "cpu=8,gres/gpu=4"
	r := alone(t, run, Options{})
	if !has(r) || !strings.Contains(textOf(t, r), "GPU hours") {
		t.Error("no figure or column of GPUs")
	}
}

// Every section has contents, every table rows of the length of its head, and no text has a plural
// after the number 1.
func TestNothingEmpty(t *testing.T) {
	small := machine{nodes: 4, processors: 2}
	one := schedule("one", 1, 1, small)
	bare := schedule("bare", 1, 30, small) // like the jobs of a log, which has only the names of users
	for i := range bare.Rows {
		row := &bare.Rows[i]
		row.Nodes, row.NodeCount, row.Partition, row.Account, row.QOS = "", 0, "", "", ""
	}
	waitless := schedule("waitless", 1, 30, small)
	for i := range waitless.Rows {
		row := &waitless.Rows[i]
		row.Start = row.Submit
	}
	for name, runs := range map[string][]compare.Realization{"one job": {one}, "bare": {bare}, "no waits": {waitless}, "two of one job": {one, one}} {
		t.Run(name, func(t *testing.T) {
			r, err := New([]compare.Set{{Name: name, Runs: runs}}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range r.Sections {
				if len(s.Blocks) == 0 {
					t.Errorf("section %s is empty", s.ID)
				}
				for _, b := range s.Blocks {
					for _, table := range tablesOf(b) {
						if len(table.Rows) == 0 {
							t.Errorf("section %s: table %q is empty", s.ID, table.Caption)
						}
						for _, row := range table.Rows {
							if len(row) != len(table.Head) {
								t.Fatalf("section %s: row %q below %q", s.ID, row, table.Head)
							}
						}
					}
				}
			}
			text := textOf(t, r)
			for _, wrong := range []string{" 1 jobs", " 1 nodes", " 1 runs", " 1 users", " 1 processors", "(s)", "NaN"} {
				if strings.Contains(text, wrong) {
					t.Errorf("the page has %q: %q", wrong, text[max(0, strings.Index(text, wrong)-60):strings.Index(text, wrong)+60])
				}
			}
		})
	}
}

func tablesOf(b Block) []*Table {
	var list []*Table
	if b.Table != nil {
		list = append(list, b.Table)
	}
	if b.Figure != nil && b.Figure.Data != nil {
		list = append(list, b.Figure.Data)
	}
	return list
}

// A figure gives the same file whenever it is drawn.
func TestFiguresAreReproducible(t *testing.T) {
	draw := func() map[string][]byte {
		files := make(map[string][]byte)
		for _, f := range alone(t, schedule("run", 1, 60, machine{nodes: 20, processors: 8}), Options{}).Figures {
			for _, format := range Formats {
				if format != "pdf" && f.Name != "utilization-partition" {
					continue
				}
				var b bytes.Buffer
				if err := f.WriteTo(&b, format); err != nil {
					t.Fatal(err)
				}
				files[f.Name+"."+format] = b.Bytes()
			}
		}
		return files
	}
	first := draw()
	time.Sleep(1100 * time.Millisecond) // a PDF's dates have seconds
	for name, again := range draw() {
		if !bytes.Equal(first[name], again) {
			t.Errorf("%s differs when it is drawn again", name)
		}
		if bytes.Contains(again, []byte("/CreationDate")) || bytes.Contains(again, []byte("/ModDate")) {
			t.Errorf("%s has a date", name)
		}
	}
}

// Names come from outside. They must not become markup, wherever they appear.
func TestHostileNames(t *testing.T) {
	const bad = `"><img src=x onerror=alert(1)><script>alert(1)</script>`
	run := schedule(bad, 1, 60, machine{nodes: 6, processors: 8})
	for i := range run.Rows {
		row := &run.Rows[i]
		row.Job += bad
		row.User, row.Account, row.Partition, row.QOS = fmt.Sprint(row.User, bad), fmt.Sprint(i%3, bad), fmt.Sprint(i%9, bad), bad
		row.TRES = "gres/gpu:" + bad + "=1,gres/gpu=2"
	}
	run.Manifest.Workload.Path, run.Manifest.Cluster.Name = bad, bad
	for name, r := range map[string]*Report{
		"one run": alone(t, run, Options{}),
		"a pair": func() *Report {
			r, err := New([]compare.Set{{Name: bad, Runs: []compare.Realization{run, run}}, {Name: bad, Runs: []compare.Realization{run, run}}}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}(),
	} {
		root, err := html.Parse(bytes.NewReader(pageOf(t, r)))
		if err != nil {
			t.Fatal(err)
		}
		walk(root, func(n *html.Node) {
			if n.Data == "img" && attribute(n, "onerror") != "" || n.Data == "script" && n.FirstChild != nil && strings.HasPrefix(n.FirstChild.Data, "alert") {
				t.Errorf("%s: a name became the element %s", name, n.Data)
			}
		})
	}
}

// Runs on other dates are shown on the dates of the first run.
func TestOtherDates(t *testing.T) {
	first := schedule("first", 1, 100, machine{nodes: 10, processors: 8})
	later := schedule("later", 1, 100, machine{nodes: 10, processors: 8})
	for i := range later.Rows {
		row := &later.Rows[i]
		row.Submit, row.Start, row.End = row.Submit.Add(1000*time.Hour), row.Start.Add(1000*time.Hour), row.End.Add(1000*time.Hour)
	}
	sets := []compare.Set{{Name: "first", Runs: []compare.Realization{first}}, {Name: "later", Runs: []compare.Realization{later}}}
	var overviews []*metrics.Overview
	for i := range sets {
		overviews = append(overviews, metrics.NewOverview(sets[i].Runs[0].Rows, metrics.Options{}, ending(&sets[i].Runs[0])))
	}
	c := newCourses(sets, overviews, time.UTC)
	if !c.moved || c.to != ending(&first) || !slices.Equal(c.sets[0][0].processors, c.sets[1][0].processors) {
		t.Errorf("moved %v, to %v, want the dates of the first run until %v", c.moved, c.to, ending(&first))
	}
}

// A group is named as the group that waited longest only if it has some jobs and is not the only
// group.
func TestLongestWaiting(t *testing.T) {
	of := func(name string, jobs int, mean float64) metrics.Usage {
		return metrics.Usage{Name: name, Jobs: jobs, Waits: metrics.Waits{Jobs: jobs, Seconds: mean * float64(jobs)}}
	}
	for name, c := range map[string]struct {
		list []metrics.Usage
		want string
	}{
		"the longest mean":  {[]metrics.Usage{of("a", 500, 10), of("b", 400, 20), of("c", 2, 900)}, "b"},
		"one of many jobs":  {[]metrics.Usage{of("a", 999, 10), of("b", 1, 20)}, ""},
		"without a name":    {[]metrics.Usage{of("", 900, 10), of("b", 100, 20)}, ""},
		"nobody had waited": {[]metrics.Usage{of("a", 500, 0), of("b", 500, 0)}, ""},
	} {
		got := ""
		if u := longestWaiting(c.list, 1000); u != nil {
			got = u.Name
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestStackUnits checks that panels of one figure are all in per cent or all in processors: the
// record of a real machine often lacks the machine's size, which a run has.
func TestStackUnits(t *testing.T) {
	parts := make([]float64, bins)
	for i := range parts {
		parts[i] = 8
	}
	c := &courses{groups: []string{"batch"}, sets: [][]course{{{parts: [][]float64{parts}}}, {{parts: [][]float64{parts}}}}}
	set := func(processors int) compare.Set {
		return compare.Set{Runs: []compare.Realization{{Manifest: &run.Manifest{Cluster: run.Cluster{Processors: processors}}}}}
	}
	for _, tt := range []struct {
		sets []compare.Set
		want []float64
	}{{[]compare.Set{set(0), set(16)}, []float64{8, 8}}, {[]compare.Set{set(32), set(16)}, []float64{25, 50}}} {
		for k, s := range tt.sets {
			if got := c.meanParts(s, k, capacity(tt.sets))[0][0]; got != tt.want[k] {
				t.Errorf("set %d of %d processors: %v, want %v", k, s.Runs[0].Manifest.Cluster.Processors, got, tt.want[k])
			}
		}
	}
}

// Windows of different months are compared up to their last submissions, and name the longest wait of the jobs that
// were submitted in them.
func TestStoryOfWindows(t *testing.T) {
	const month = 30 * 24 * time.Hour
	a, b := schedule("a", 1, 40, machine{nodes: 8, processors: 4}), schedule("b", 2, 40, machine{nodes: 8, processors: 4})
	for i := range b.Rows {
		x := &b.Rows[i]
		x.Job, x.Submit, x.Eligible, x.Start, x.End = "b"+x.Job, x.Submit.Add(month), x.Eligible.Add(month), x.Start.Add(month), x.End.Add(month)
	}
	carried := &b.Rows[0]
	carried.Submit, carried.Eligible, carried.Start, carried.End = noon, noon, noon.Add(month+time.Hour), noon.Add(month+2*time.Hour)
	a.Manifest.WindowStart, b.Manifest.WindowStart = noon, noon.Add(month)
	r, err := New([]compare.Set{{Name: "a", Runs: []compare.Realization{a}}, {Name: "b", Runs: []compare.Realization{b}}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	text := textOf(t, r)
	if strings.Count(text, "Until the window's last submission, on ") != 2 || strings.Contains(text, "Until the last end, on ") ||
		strings.Contains(text, "Job "+carried.Job+" of") {
		t.Error(text)
	}
}

// TestChangeOfShare checks that a tile shows the change of a percentage in points, and other changes as relative.
func TestChangeOfShare(t *testing.T) {
	r := mustReport(t)
	for _, key := range []string{"utilization", "mean_wait_s"} {
		i := slices.IndexFunc(r.Comparison.Metrics, func(m compare.Metric) bool { return m.Key == key })
		values := r.tile(&r.Comparison.Metrics[i]).Values
		unit := "%"
		if key == "utilization" {
			unit = "pp"
		}
		if got := values[1].Change; !strings.HasSuffix(got, quantity.Space+unit) || values[0].Change != "" {
			t.Errorf("%s: %q, want a change in %s", key, got, unit)
		}
	}
}
