package report

import (
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/compare"
	"rmreplay/internal/metrics"
	"rmreplay/internal/run"
)

// paragraph, warning and verdict make blocks of text.
func paragraph(format string, args ...any) Block { return Block{Text: fmt.Sprintf(format, args...)} }

func warning(format string, args ...any) Block {
	return Block{Text: fmt.Sprintf(format, args...), Kind: "warning"}
}

func verdict(format string, args ...any) Block {
	return Block{Text: fmt.Sprintf(format, args...), Kind: "verdict"}
}

// figureBlocks returns blocks of the figures that are not nil.
func figureBlocks(figures ...*Figure) []Block {
	var list []Block
	for _, f := range figures {
		if f != nil {
			list = append(list, Block{Figure: f})
		}
	}
	return list
}

// atAGlance are the keys of the metrics in the summary.
var atAGlance = []string{"mean_wait_s", "p90_wait_s", "mean_bounded_slowdown", "utilization", "throughput_jobs_per_h", "makespan_s"}

// summary is the section for readers with little time.
func (r *Report) summary() (Section, error) {
	s := Section{ID: "summary", Title: "At a glance"}
	c := r.Comparison
	if !r.Valid() {
		s.Blocks = append(s.Blocks, warning("Not all runs are valid. What follows may not mean what it seems to."))
	}
	if len(c.Sets) > 1 && !c.Inference {
		s.Blocks = append(s.Blocks, warning("No inference is possible: %s. The differences may be due to chance alone.", c.Reason))
	}
	for i := range c.Pairs {
		if p := &c.Pairs[i]; c.Inference {
			s.Blocks = append(s.Blocks, verdict("%s", r.shortVerdict(p)))
		}
	}
	var tiles []Tile
	for _, key := range atAGlance {
		at := slices.IndexFunc(c.Metrics, func(m compare.Metric) bool { return m.Key == key })
		if at >= 0 {
			tiles = append(tiles, r.tile(&c.Metrics[at]))
		}
	}
	s.Blocks = append(s.Blocks, Block{Tiles: tiles})
	var legend []string
	for i, set := range r.Sets {
		legend = append(legend, fmt.Sprintf("%s (%d %s)", setName(i, set), len(set.Runs), plural(len(set.Runs), "run", "runs")))
	}
	text := strings.Join(legend, ", ") + "."
	if slices.ContainsFunc(r.Sets, func(set compare.Set) bool { return len(set.Runs) > 1 }) {
		text += " Values are means over runs."
	}
	if c.Inference {
		text += " A change is significant if it exceeds chance after the correction for the number of metrics."
	}
	s.Blocks = append(s.Blocks, paragraph("%s", text))
	return s, nil
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// tile shows a metric in the summary.
func (r *Report) tile(m *compare.Metric) Tile {
	c := r.Comparison
	t := Tile{Label: m.Label}
	if m.Unit != "" && m.Unit != "s" {
		t.Label += " [" + m.Unit + "]"
	}
	for i := range m.Sets {
		v := TileValue{Value: m.Format(m.Sets[i].Mean)}
		if m.Unit == "s" {
			v.Value = m.Sets[i].Mean.Clock()
		}
		if len(m.Sets) > 1 {
			v.Set = compare.Letter(i)
		}
		for k := range m.Differences {
			d := &m.Differences[k]
			if d.Set != i || !d.Relative.Known() {
				continue
			}
			v.Change = fmt.Sprintf("%+.1f %%", 100*float64(d.Relative))
			if c.Inference && d.Significant(c.Level) {
				v.Kind = "significant"
			}
		}
		t.Values = append(t.Values, v)
	}
	return t
}

// shortVerdict says how much one pair of sets differs.
func (r *Report) shortVerdict(p *compare.Pair) string {
	c := r.Comparison
	significant := 0
	for k := range c.Metrics {
		for n := range c.Metrics[k].Differences {
			if d := &c.Metrics[k].Differences[n]; d.Set == p.Set && d.Significant(c.Level) {
				significant++
			}
		}
	}
	text := fmt.Sprintf("%s against %s: ", setName(p.Set, r.Sets[p.Set]), setName(p.Baseline, r.Sets[p.Baseline]))
	if significant == 0 {
		text += fmt.Sprintf("none of %d metrics differs significantly", len(c.Metrics))
	} else {
		text += fmt.Sprintf("%d of %d metrics %s significantly", significant, len(c.Metrics), plural(significant, "differs", "differ"))
	}
	t, alpha := p.Schedules, metrics.Float(1-c.Level)
	if t == nil {
		return text + "."
	}
	tests := fmt.Sprintf("(energy test p = %s, depth test p = %s)", probability(t.Energy.P), probability(t.Depth.P))
	switch {
	case t.SmallestP > alpha:
		text += "; there are too few runs for a test of the schedules as a whole"
	case t.Energy.P <= alpha || t.Depth.P <= alpha:
		text += "; the schedules as a whole differ significantly " + tests
	default:
		text += "; the schedules as a whole do not differ significantly " + tests
	}
	return text + "."
}

// runs is the section on what was run and whether the runs are valid.
func (r *Report) runs() (Section, error) {
	s := Section{ID: "runs", Title: "What was run"}
	if r.Valid() {
		s.Blocks = append(s.Blocks, paragraph("All runs are valid: nothing is known to have affected their results."))
	}
	t := &Table{Head: []string{"set", "runs", "engine", "clock", "seeds", "cluster", "workload", "jobs", "virtual time", "speed-up", "state"}}
	for i, set := range r.Sets {
		m := set.Runs[0].Manifest
		engine := strings.TrimSpace(m.Engine + " " + m.Versions.Slurm)
		if m.Policy != "" {
			engine += " (" + m.Policy + ")"
		}
		clock := m.Clock.Model
		if m.Clock.Factor != 0 {
			clock = fmt.Sprintf("%s × %g", clock, m.Clock.Factor)
		}
		cluster := fmt.Sprintf("%d nodes, %d processors", m.Cluster.Nodes, m.Cluster.Processors)
		if m.Cluster.Name != "" {
			cluster = m.Cluster.Name + ": " + cluster
		}
		t.Rows = append(t.Rows, []string{
			setName(i, set), fmt.Sprint(len(set.Runs)), engine, dash(clock), seedsOf(set), cluster, dash(m.Workload.Path), fmt.Sprint(len(set.Runs[0].Rows)),
			metrics.Float(m.VirtualSeconds).Clock(), metrics.Float(m.Speedup).Text(), statesOf(set),
		})
	}
	s.Blocks = append(s.Blocks, Block{Table: t})
	for _, text := range r.Comparison.Warnings {
		s.Blocks = append(s.Blocks, warning("%s", text))
	}
	for i, set := range r.Sets {
		if list := warningsOf(set); len(list) > 0 {
			s.Blocks = append(s.Blocks, paragraph("Warnings of %s:", setName(i, set)), Block{List: list})
		}
	}
	if t := changesOf(r.Sets); t != nil {
		s.Blocks = append(s.Blocks, Block{Table: t})
	}
	return s, nil
}

func dash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

func seedsOf(s compare.Set) string {
	var list []string
	for _, r := range s.Runs {
		list = append(list, fmt.Sprint(r.Manifest.Seed))
	}
	if len(list) > 6 {
		return strings.Join(list[:5], ", ") + ", …, " + list[len(list)-1]
	}
	return strings.Join(list, ", ")
}

// statesOf counts the final states of a set's runs.
func statesOf(s compare.Set) string {
	counts := make(map[string]int)
	var order []string
	for _, r := range s.Runs {
		state := string(r.Manifest.State)
		if !r.Manifest.Valid {
			state += ", not valid"
		}
		if counts[state] == 0 {
			order = append(order, state)
		}
		counts[state]++
	}
	if len(order) == 1 {
		return order[0]
	}
	for i, state := range order {
		order[i] = fmt.Sprintf("%d %s", counts[state], state)
	}
	return strings.Join(order, "; ")
}

// warningsOf lists the warnings of a set's runs. Each text appears once.
func warningsOf(s compare.Set) []string {
	type tally struct{ runs, count int }
	found := make(map[run.Warning]*tally)
	var order []run.Warning
	for _, r := range s.Runs {
		for _, w := range r.Manifest.Warnings {
			key := w
			key.Count = 0
			if found[key] == nil {
				found[key] = &tally{}
				order = append(order, key)
			}
			found[key].runs++
			found[key].count += w.Count
		}
	}
	// Warnings that affect the result come first.
	slices.SortStableFunc(order, func(a, b run.Warning) int {
		switch {
		case a.AffectsResult == b.AffectsResult:
			return 0
		case a.AffectsResult:
			return -1
		}
		return 1
	})
	var list []string
	for _, w := range order {
		text := w.Text
		if w.AffectsResult {
			text = "[affects the result] " + text
		}
		if n := found[w]; n.count > n.runs || len(s.Runs) > 1 {
			text += fmt.Sprintf(" (%d times in %d of %d runs)", n.count, n.runs, len(s.Runs))
		}
		list = append(list, text)
	}
	return list
}

// changesOf returns the table of the changes to the sites' configurations.
func changesOf(sets []compare.Set) *Table {
	t := &Table{Caption: "Changes to the site's configuration", Head: []string{"set", "file", "key", "from", "to", "reason"}, Folded: true}
	for i, s := range sets {
		for _, c := range s.Runs[0].Manifest.Cluster.Changes {
			t.Rows = append(t.Rows, []string{compare.Letter(i), c.File, c.Key, c.From, c.To, c.Reason})
		}
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return t
}

// metrics is the section with the table of figures and the tests.
func (r *Report) metrics() (Section, error) {
	s := Section{ID: "metrics", Title: "Metrics"}
	c := r.Comparison
	s.Blocks = append(s.Blocks, r.verdicts()...)
	t := &Table{Head: []string{"metric"}}
	for i, set := range c.Sets {
		t.Head = append(t.Head, compare.Letter(i)+" "+set.Name)
		if len(set.Runs) > 1 {
			t.Head = append(t.Head, fmt.Sprintf("%.4g %% interval", 100*c.Level))
		}
	}
	for i := range c.Metrics {
		m := &c.Metrics[i]
		row := []string{m.Label}
		if m.Unit != "" {
			row[0] += " [" + m.Unit + "]"
		}
		for k := range c.Sets {
			row = append(row, m.Format(m.Sets[k].Mean))
			if len(c.Sets[k].Runs) > 1 {
				row = append(row, interval(m.Format, m.Sets[k].Low, m.Sets[k].High))
			}
		}
		t.Rows = append(t.Rows, row)
	}
	s.Blocks = append(s.Blocks, Block{Table: t})
	for k := 1; k < len(c.Sets); k++ {
		s.Blocks = append(s.Blocks, Block{Table: r.differences(k)})
	}
	forest, err := newForest(c)
	if err != nil {
		return s, err
	}
	if forest != nil {
		s.Blocks = append(s.Blocks, Block{Figure: forest})
	}
	return s, nil
}

// interval formats the ends of an interval with a metric's format.
func interval(format func(metrics.Float) string, low, high metrics.Float) string {
	if !low.Known() || !high.Known() {
		return "–"
	}
	return format(low) + " to " + format(high)
}

func probability(p metrics.Float) string {
	switch {
	case !p.Known():
		return "–"
	case p < 0.001:
		return fmt.Sprintf("%.1e", float64(p))
	}
	return fmt.Sprintf("%.3f", float64(p))
}

// differences returns the table of a set against the baseline.
func (r *Report) differences(set int) *Table {
	c := r.Comparison
	t := &Table{Caption: fmt.Sprintf("Difference %s − %s", compare.Letter(set), compare.Letter(0)), Head: []string{"metric", "difference", "relative"}}
	if c.Inference {
		t.Head = append(t.Head, fmt.Sprintf("%.4g %% interval", 100*c.Level), "p", "p (Holm)", "Hedges' g", "Cliff's δ", "detectable", "significant")
	}
	for i := range c.Metrics {
		m := &c.Metrics[i]
		for k := range m.Differences {
			d := &m.Differences[k]
			if d.Set != set {
				continue
			}
			relative := "–"
			if d.Relative.Known() {
				relative = fmt.Sprintf("%+.1f%%", 100*float64(d.Relative))
			}
			row := []string{m.Label, m.FormatDifference(d.Difference), relative}
			if c.Inference {
				significant := "no"
				if d.Significant(c.Level) {
					significant = "yes"
				}
				row = append(row, interval(m.FormatDifference, d.Low, d.High), probability(d.P), probability(d.PAdjusted), d.HedgesG.Text(),
					d.CliffsDelta.Text(), m.FormatDifference(d.Detectable), significant)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// verdicts say in words what the tests of the whole schedules found.
func (r *Report) verdicts() []Block {
	c := r.Comparison
	var list []Block
	for i := range c.Pairs {
		if p := &c.Pairs[i]; p.Schedules != nil {
			list = append(list, verdict("%s", schedulesVerdict(p.Schedules, compare.Letter(p.Baseline), compare.Letter(p.Set), 1-c.Level)))
		}
	}
	return list
}

// schedulesVerdict says what the tests of the whole schedules found for one pair.
func schedulesVerdict(t *compare.ScheduleTests, a, b string, alpha float64) string {
	text := fmt.Sprintf("Schedules as a whole, the waits of all jobs: energy test p = %s (inhomogeneity %s of 1), depth test p = %s "+
		"(quality of %s in %s %s, of %s in %s %s; 0.5 means no difference). ",
		probability(t.Energy.P), t.Energy.Inhomogeneity.Text(), probability(t.Depth.P), b, a, t.Depth.QBaseline.Text(), a, b, t.Depth.QSet.Text())
	energy, depth := float64(t.Energy.P) <= alpha, float64(t.Depth.P) <= alpha
	switch {
	case float64(t.SmallestP) > alpha:
		return text + fmt.Sprintf("This number of runs cannot give a p-value below %s, so no test can reject.", t.SmallestP.Text())
	case energy && depth:
		return text + "Both tests reject the hypothesis that the runs come from one distribution."
	case energy:
		return text + "The energy test rejects the hypothesis that the runs come from one distribution, the depth test does not: " +
			"the difference is in how far apart the schedules are rather than in their order around a centre."
	case depth:
		return text + "The depth test rejects the hypothesis that the runs come from one distribution, the energy test does not: " +
			"the difference is too small for the distances, which a few jobs with erratic waits may dominate."
	}
	return text + "Neither test rejects the hypothesis that the runs come from one distribution."
}

// machine is the section on the machine over time.
func (r *Report) machine() (Section, error) {
	s := Section{ID: "machine", Title: "The machine over time"}
	used := timelines(r.Sets, func(run *compare.Realization, p metrics.Point) float64 {
		if run.Manifest.Cluster.Processors > 0 {
			return 100 * float64(p.Processors) / float64(run.Manifest.Cluster.Processors)
		}
		return float64(p.Processors)
	})
	if used == nil {
		return s, nil
	}
	utilization, err := newTimeline("utilization", "Utilization", "processors in use [%]",
		"Processors that jobs hold. Lines are means over the runs of a set, bands the range of its runs.", used)
	if err != nil {
		return s, err
	}
	waiting := timelines(r.Sets, func(_ *compare.Realization, p metrics.Point) float64 { return float64(p.Queued) })
	queue, err := newTimeline("queue", "Queue", "waiting jobs", "Number of waiting jobs. Lines are means over the runs of a set, bands the range of its runs.", waiting)
	if err != nil {
		return s, err
	}
	s.Blocks = figureBlocks(utilization, queue)
	return s, nil
}

// users is the section on waits and slowdowns.
func (r *Report) users() (Section, error) {
	s := Section{ID: "users", Title: "Waits and slowdowns"}
	waits := distributions(r.Sets, 1, waitOf)
	if len(waits) == 0 {
		return s, nil
	}
	wait, err := newDistribution("wait-cdf", "Distribution of waits", "wait [s]",
		"Share of the jobs whose wait is at most the value on the axis. Waits below a second count as one second. Bands are the range of the runs.", waits)
	if err != nil {
		return s, err
	}
	tau := metrics.DefaultTau
	if r.options.Compare.Tau > 0 {
		tau = r.options.Compare.Tau
	}
	slowdowns := distributions(r.Sets, 1, slowdownOf(tau.Seconds()))
	slowdown, err := newDistribution("slowdown-cdf", "Distribution of bounded slowdowns", "bounded slowdown",
		fmt.Sprintf("Share of the jobs whose bounded slowdown is at most the value on the axis, with τ = %g s.", tau.Seconds()), slowdowns)
	if err != nil {
		return s, err
	}
	slow, err := newSlowJobs(r.Sets)
	if err != nil {
		return s, err
	}
	s.Blocks = figureBlocks(wait, slowdown, slow)
	return s, nil
}

// distances is the section on the distances between runs.
func (r *Report) distances() (Section, error) {
	s := Section{ID: "distances", Title: "Distances between runs"}
	d := r.Comparison.Distances
	if d == nil {
		return s, nil
	}
	t := &Table{
		Caption: fmt.Sprintf("Euclidean distances over the waits of the %d jobs that started in every run", d.Jobs),
		Head:    []string{"runs", "pairs", "mean [s]", "standard deviation [s]", "per job [s]"},
	}
	for _, b := range d.Blocks {
		if b.Pairs == 0 {
			continue
		}
		where := "within " + compare.Letter(b.Sets[0])
		if b.Sets[0] != b.Sets[1] {
			where = compare.Letter(b.Sets[0]) + " to " + compare.Letter(b.Sets[1])
		}
		t.Rows = append(t.Rows, []string{where, fmt.Sprint(b.Pairs), b.Mean.Text(), b.Deviation.Text(), (b.Mean / metrics.Float(d.Jobs)).Text()})
	}
	s.Blocks = append(s.Blocks, Block{Table: t})
	if len(d.Rows) > 2 {
		heat, err := newHeatMap(r.Comparison)
		if err != nil {
			return s, err
		}
		s.Blocks = append(s.Blocks, Block{Figure: heat})
	}
	return s, nil
}

// jobs is the section that compares job by job.
func (r *Report) jobs() (Section, error) {
	s := Section{ID: "jobs", Title: "Job by job"}
	c := r.Comparison
	for i := range c.Pairs {
		p := &c.Pairs[i]
		name := compare.Letter(p.Set) + " − " + compare.Letter(p.Baseline)
		v := &p.Jobs
		t := &Table{
			Caption: fmt.Sprintf("%s over %d jobs, in seconds; a job's value is its median over runs", name, v.Matched),
			Head:    []string{"difference of", "changed jobs", "mean", "mean absolute", "least", "5 %", "median", "95 %", "most"},
		}
		for _, row := range []struct {
			name string
			compare.Spread
		}{{"submission", v.Submit}, {"start", v.Start}, {"wait", v.Wait}, {"run time", v.RunTime}} {
			d := row.Spread
			t.Rows = append(t.Rows, []string{row.name, fmt.Sprint(d.Changed), d.Mean.Text(), d.MeanAbs.Text(), d.Min.Text(), d.P5.Text(),
				d.Median.Text(), d.P95.Text(), d.Max.Text()})
		}
		s.Blocks = append(s.Blocks, Block{Table: t})
		figure, err := newJobDifferences(p, name)
		if err != nil {
			return s, err
		}
		if figure != nil {
			s.Blocks = append(s.Blocks, Block{Figure: figure})
		}
		s.Blocks = append(s.Blocks, r.divergences(p)...)
		if len(v.Largest) > 0 {
			t := &Table{Caption: "The largest changes of wait, " + name, Head: []string{"job", "wait in the baseline [s]", "wait in the set [s]", "difference [s]"}, Folded: true}
			for _, d := range v.Largest {
				t.Rows = append(t.Rows, []string{d.String(), d.BaselineWait.Text(), d.SetWait.Text(), d.Wait.Text()})
			}
			s.Blocks = append(s.Blocks, Block{Table: t})
		}
	}
	return s, nil
}

// divergences describe where the first runs of both sides begin to differ.
func (r *Report) divergences(p *compare.Pair) []Block {
	if len(p.Divergences) == 0 {
		return []Block{paragraph("The first runs of %s and %s agree in every job.", compare.Letter(p.Baseline), compare.Letter(p.Set))}
	}
	first := &p.Divergences[0]
	list := []Block{paragraph("First divergence of the first runs, at %s: %s.", first.At.Text(r.options.Zone), first.Reason)}
	t := &Table{Caption: "Just before the first divergence", Head: []string{"", compare.Letter(p.Baseline), compare.Letter(p.Set)}}
	add := func(name string, value func(*compare.Situation) string) {
		t.Rows = append(t.Rows, []string{name, value(&first.Baseline), value(&first.Set)})
	}
	add("job started", func(s *compare.Situation) string { return dash(s.Start.Text(r.options.Zone)) })
	add("on nodes", func(s *compare.Situation) string { return dash(s.Nodes) })
	add("jobs that waited", func(s *compare.Situation) string { return fmt.Sprint(s.Queued) })
	add("waiting only here", func(s *compare.Situation) string { return dash(strings.Join(s.OnlyQueued, ", ")) })
	add("jobs that ran", func(s *compare.Situation) string { return fmt.Sprint(s.Running) })
	add("running only here", func(s *compare.Situation) string { return dash(strings.Join(s.OnlyRunning, ", ")) })
	add("busy nodes", func(s *compare.Situation) string { return fmt.Sprint(s.BusyNodes) })
	add("busy only here", func(s *compare.Situation) string { return dash(s.OnlyBusy) })
	list = append(list, Block{Table: t})
	var later []string
	for _, d := range p.Divergences[1:] {
		later = append(later, fmt.Sprintf("%s: %s", d.At.Text(r.options.Zone), d.Reason))
	}
	if len(later) > 0 {
		list = append(list, paragraph("The first of the other kinds:"), Block{List: later})
	}
	return list
}

// groups is the section with the tables of groups of jobs.
func (r *Report) groups() (Section, error) {
	s := Section{ID: "groups", Title: "Groups of jobs"}
	c := r.Comparison
	for _, by := range metrics.Groupings {
		groups := c.Groups[by]
		if len(groups) == 0 {
			continue
		}
		t := &Table{Caption: "By " + string(by), Folded: by == metrics.ByUser || len(groups) > 12, Head: []string{string(by)}}
		for i := range c.Sets {
			t.Head = append(t.Head, compare.Letter(i)+" jobs")
		}
		for _, f := range metrics.GroupFigures {
			for i := range c.Sets {
				t.Head = append(t.Head, compare.Letter(i)+" "+f.Label)
			}
			if c.Inference && len(c.Sets) > 1 && f.Key == "mean_wait_s" {
				for i := 1; i < len(c.Sets); i++ {
					t.Head = append(t.Head, fmt.Sprintf("%s − %s: %.4g %% interval", compare.Letter(i), compare.Letter(0), 100*c.Level))
				}
			}
		}
		for g := range groups {
			t.Rows = append(t.Rows, r.groupRow(&groups[g]))
		}
		s.Blocks = append(s.Blocks, Block{Table: t})
	}
	return s, nil
}

func (r *Report) groupRow(g *compare.Group) []string {
	c := r.Comparison
	row := []string{dash(g.Name)}
	for _, n := range g.Jobs {
		row = append(row, fmt.Sprint(n))
	}
	for i := range g.Metrics {
		m := &g.Metrics[i]
		for k := range c.Sets {
			row = append(row, m.Format(m.Sets[k].Mean))
		}
		if c.Inference && m.Key == "mean_wait_s" {
			for _, d := range m.Differences {
				row = append(row, interval(m.FormatDifference, d.Low, d.High))
			}
		}
	}
	return row
}

// nodes is the section with the Gantt charts of the first run of each set.
func (r *Report) nodes() (Section, error) {
	s := Section{ID: "nodes", Title: "Nodes over time"}
	for i := range r.Sets {
		run := &r.Sets[i].Runs[0]
		g, err := newGantt("gantt-"+compare.Letter(i), "Nodes over time, "+compare.Letter(i)+" "+run.Name, run, r.options.Zone)
		if err != nil {
			return s, err
		}
		if g == nil {
			s.Blocks = append(s.Blocks, paragraph("The record of %s does not say which nodes its jobs had.", run.Name))
			continue
		}
		s.Blocks = append(s.Blocks, Block{Gantt: g})
		r.Figures = append(r.Figures, newGanttFigure(g, origin(run), r.options.Zone))
	}
	return s, nil
}

// methods is the section on how the numbers were computed.
func (r *Report) methods() (Section, error) {
	c := r.Comparison
	s := Section{ID: "methods", Title: "How to read this"}
	list := []string{
		"The unit of observation is a run, not a job: jobs of one run share the machine, and what one loses another gains.",
		fmt.Sprintf("Intervals are bootstrap intervals over runs (BCa with the tails of Student's t), %.4g %%, seed %d. Below about eight runs a side they are somewhat too narrow.", 100*c.Level, c.Seed),
		"p is the p-value of a permutation test of equal means. Holm's correction accounts for all metrics of the table: a difference is significant if the corrected p-value is small enough.",
		"Detectable is the true difference that this number of runs detects in 80 % of cases. If it is larger than a difference that matters, there are too few runs, and “no difference found” says little.",
		"The energy test compares the distances between runs within and across sets; it notices any difference, but jobs with long, erratic waits weigh most. " +
			"The depth test (Liu and Singh, with spatial depth) compares how central the runs of one set are in the other; it is robust to outliers and weak with few runs.",
		"A difference that is significant is real. Whether it matters is another question: look at its size.",
	}
	s.Blocks = append(s.Blocks, Block{List: list})
	return s, nil
}
