package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"rmreplay/internal/compare"
	"rmreplay/internal/compare/jobrows"
	"rmreplay/internal/figure"
	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
	"rmreplay/internal/report/chart"
	"rmreplay/internal/stats"
	"rmreplay/internal/waits"
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
var atAGlance = []string{"utilization", "median_wait_s", "mean_wait_s", "p90_wait_s", "throughput_jobs_per_h", "makespan_s"}

// summary is the section for readers with little time.
func (r *Report) summary() (Section, error) {
	s := Section{ID: "summary", Title: "What happened"}
	c := r.Comparison
	if r.empty() {
		s.Blocks = append(s.Blocks, paragraph("%s no jobs.", quantity.Plural(len(r.Sets), "The run has", "The runs have")))
		return s, nil
	}
	for i := range c.Pairs {
		if text := c.Answer(&c.Pairs[i]); text != "" {
			s.Blocks = append(s.Blocks, verdict("%s", text))
		}
	}
	if len(c.Sets) > 1 && !c.Inference {
		s.Blocks = append(s.Blocks, warning("No inference %sis possible: %s. The differences may be due to chance alone.", c.OverRuns(), c.Reason))
	}
	for i := range c.Pairs {
		if v := c.Pairs[i].Recorded; v != nil {
			s.Blocks = append(s.Blocks, verdict("Recorded against replayed: %s of %s start within a minute of the record; the mean wait was %s and is %s in %s.",
				quantity.Share(v.SameStart, v.Jobs), quantity.Counted(v.Jobs, "job", "jobs"), quantity.Duration(v.RecordedMean), quantity.Duration(v.ReplayedMean),
				cmp.Or(c.JudgedRun(&c.Pairs[i]), "the replay")))
		}
		if p := &c.Pairs[i]; c.Inference {
			s.Blocks = append(s.Blocks, verdict("%s", r.shortVerdict(p)))
		}
	}
	var tiles []Tile
	for _, key := range atAGlance {
		at := slices.IndexFunc(c.Metrics, func(m compare.Metric) bool { return m.Key == key })
		if at >= 0 && slices.ContainsFunc(c.Metrics[at].Sets, func(e compare.Estimate) bool { return e.Mean.Known() }) {
			tiles = append(tiles, r.tile(&c.Metrics[at]))
		}
	}
	if r.single() {
		s.Blocks = append(append(s.Blocks, r.story(0)...), r.stateBars(), Block{Tiles: tiles})
		return s, nil
	}
	s.Blocks = append(s.Blocks, Block{Tiles: tiles}, paragraph("%s", r.legend()), r.stateBars())
	for i := range r.Sets {
		s.Blocks = append(s.Blocks, r.story(i)...)
	}
	return s, nil
}

// stateBars show how the jobs of each set ended.
func (r *Report) stateBars() (b Block) {
	for i, o := range r.overviews {
		if o.Jobs == 0 {
			continue
		}
		bar := stateBar(r.Sets[i].Runs)
		if len(r.Sets) > 1 {
			bar.Set = setName(i, r.Sets[i])
		}
		b.States = append(b.States, bar)
	}
	return b
}

// legend returns a text about what the letters of the sets and the values mean.
func (r *Report) legend() string {
	var legend []string
	for i, set := range r.Sets {
		legend = append(legend, fmt.Sprintf("%s (%s)", setName(i, set), quantity.Counted(len(set.Runs), "run", "runs")))
	}
	text := strings.Join(legend, ", ") + "."
	if several(r.Sets) {
		text += " Values are means over runs."
	}
	if r.Comparison.Inference {
		text += " A change is significant if it exceeds chance after the correction for the number of metrics."
	}
	return text
}

// tile shows a metric in the summary.
func (r *Report) tile(m *compare.Metric) Tile {
	c := r.Comparison
	t := Tile{Label: labelOf(m), Meaning: metrics.MeaningOf(m.Key, c.Sets[0].Window)}
	for i := range m.Sets {
		v := TileValue{Value: valueOf(m, m.Sets[i].Mean)}
		if len(m.Sets) > 1 {
			v.Set = compare.Letter(i)
		}
		for k := range m.Differences {
			d := &m.Differences[k]
			if d.Set != i || !d.Relative.Known() {
				continue
			}
			v.Change = quantity.SignedPercent(d.Relative)
			if metrics.IsShare(m.Key) {
				v.Change = differenceOf(m, d.Difference)
			}
			if c.Inference && d.Significant(c.Level) {
				v.Kind = "significant"
			}
		}
		t.Values = append(t.Values, v)
	}
	return t
}

// shortVerdict returns a sentence about how many metrics of a pair of sets differ.
func (r *Report) shortVerdict(p *compare.Pair) string {
	c := r.Comparison
	significant, vary := 0, 0 // metrics that are equal in all runs are not tested
	for k := range c.Metrics {
		for n := range c.Metrics[k].Differences {
			if d := &c.Metrics[k].Differences[n]; d.Set == p.Set && d.P.Known() && (d.Low != 0 || d.High != 0) {
				vary++
				significant += map[bool]int{true: 1}[d.Significant(c.Level)]
			}
		}
	}
	text := fmt.Sprintf("%s against %s: ", setName(p.Set, r.Sets[p.Set]), setName(p.Baseline, r.Sets[p.Baseline]))
	runs, others := len(r.Sets[p.Baseline].Runs), len(r.Sets[p.Set].Runs)
	if smallest := c.SmallestP(runs, others); significant == 0 && smallest > 1-c.Level {
		text += fmt.Sprintf("%d and %d runs are too few to find out which of the %d metrics that vary differ (corrected for all of them, the smallest p possible is %s; make more runs)",
			runs, others, vary, quantity.Probability(metrics.Float(smallest)))
		if alone := stats.SmallestP(runs, others, stats.TestOptions{}); alone <= 1-c.Level {
			text += fmt.Sprintf("; they suffice for one metric that was chosen beforehand (its p can be %s)", quantity.Probability(metrics.Float(alone)))
		} else {
			text += ", however large the differences are"
		}
	} else if significant == 0 {
		text += fmt.Sprintf("none of the %d metrics that vary differs significantly", vary)
	} else {
		text += fmt.Sprintf("%d of the %d metrics that vary %s significantly", significant, vary, quantity.Plural(significant, "differs", "differ"))
	}
	if p.Schedules != nil {
		text += "; " + p.Schedules.Short(1-c.Level)
	}
	return text + "."
}

// runs returns the section on the runs: what they are, and whether they are valid.
func (r *Report) runs() (Section, error) {
	s := Section{ID: "runs", Title: "What was run"}
	if r.Valid() {
		text := quantity.Plural(r.count(), "The run is valid", "All runs are valid")
		if slices.ContainsFunc(r.Sets, func(set compare.Set) bool { return len(set.Warnings()) > 0 }) {
			text += "; " + quantity.Plural(r.count(), "its", "their") + " warnings are below"
		} else {
			text += ": nothing is known to have affected " + quantity.Plural(r.count(), "its result", "their results")
		}
		s.Blocks = append(s.Blocks, paragraph("%s.", text))
	}
	t := &Table{Head: []string{""}}
	rows := []string{"runs", "engine", "clock", "seeds", "cluster", "workload", "jobs", "virtual time", "speed-up", "state"}
	for _, name := range rows {
		t.Rows = append(t.Rows, []string{name})
	}
	for i, set := range r.Sets {
		t.Head = append(t.Head, r.setHead(i))
		for k, text := range describe(set) {
			t.Rows[k] = append(t.Rows[k], text)
		}
	}
	s.Blocks = append(s.Blocks, Block{Table: t})
	for _, text := range r.Comparison.Warnings {
		s.Blocks = append(s.Blocks, warning("%s", text))
	}
	for i, set := range r.Sets {
		if list := set.Warnings(); len(list) > 0 {
			s.Blocks = append(s.Blocks, paragraph("Warnings of %s:", r.setHead(i)), Block{List: list})
		}
	}
	if t := changesOf(r.Sets); t != nil {
		s.Blocks = append(s.Blocks, Block{Table: t})
	}
	return s, nil
}

// count is the number of runs.
func (r *Report) count() (n int) {
	for _, s := range r.Sets {
		n += len(s.Runs)
	}
	return n
}

// setHead names a set in the head of a table. A single set has no letter.
func (r *Report) setHead(i int) string {
	if len(r.Sets) == 1 {
		return quantity.Name(r.Sets[0].Name)
	}
	return setName(i, r.Sets[i])
}

// describe returns the rows of the table of runs for a set.
func describe(set compare.Set) []string {
	m := set.Runs[0].Manifest
	clock := m.Clock.Model
	if m.Clock.Factor != 0 {
		clock = fmt.Sprintf("%s × %g", clock, m.Clock.Factor)
	}
	var cluster []string
	if m.Cluster.Nodes > 0 {
		cluster = append(cluster, quantity.Counted(m.Cluster.Nodes, "node", "nodes"))
	}
	if m.Cluster.Processors > 0 {
		cluster = append(cluster, quantity.Counted(m.Cluster.Processors, "processor", "processors"))
	}
	machine := strings.Join(cluster, ", ")
	if m.Cluster.Name != "" {
		machine = m.Cluster.Name + ": " + machine
	}
	virtual, speedup := metrics.Float(m.VirtualSeconds), quantity.Unknown
	if m.Speedup > 0 {
		speedup = quantity.Count(int(math.Round(m.Speedup))) + quantity.Space + "×"
	}
	return []string{
		quantity.Count(len(set.Runs)), m.MadeBy(), quantity.OrUnknown(clock), seedsOf(set), quantity.OrUnknown(machine), quantity.OrUnknown(m.Workload.Path), quantity.Count(metrics.CountJobs(set.Runs[0].Rows)),
		quantity.Duration(virtual), speedup, statesOf(set),
	}
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
	s := Section{ID: "metrics", Title: "Metrics", Part: "Statistics for researchers"}
	c := r.Comparison
	if r.empty() {
		return s, nil
	}
	s.Blocks = append(s.Blocks, r.verdicts()...)
	if !c.Inference || len(c.Nodes) == 0 {
		s.Blocks = append(s.Blocks, r.figures(slices.Concat(c.Metrics, c.Nodes, c.Lost))...)
	} else { // each table has its own correction
		s.Blocks = append(s.Blocks, r.figures(c.Metrics)...)
		s.Blocks = append(s.Blocks, paragraph("Figures of nodes and of lost work. Holm's corrections are for nodes and for lost work alone."))
		s.Blocks = append(s.Blocks, r.figures(slices.Concat(c.Nodes, c.Lost))...)
	}
	forest, err := newForest(c)
	if err != nil {
		return s, err
	}
	s.Blocks = append(s.Blocks, figureBlocks(forest)...)
	return s, nil
}

// fileSystems is the section on file systems that jobs share, if a run has one.
func (r *Report) fileSystems() (Section, error) {
	s := Section{ID: "file-systems", Title: "File systems that jobs share"}
	if r.courses.empty() || len(r.Comparison.IO) == 0 {
		return s, nil
	}
	c := &r.courses.frame
	var runs []chart.IORun
	for i := range r.Sets {
		first := &r.Sets[i].Runs[0]
		back := -c.shift(first)
		courses, err := metrics.NewFileSystemCourses(first.Rows, first.Manifest, c.from.Add(back), c.to.Add(back), bins)
		if err != nil {
			return s, err
		}
		runs = append(runs, chart.IORun{Name: setName(i, r.Sets[i]), Courses: courses})
	}
	if several(r.Sets) {
		s.Blocks = append(s.Blocks, paragraph("The figures show the first run of each set."))
	}
	figures, err := chart.IO(runs, c.points(), c.zone)
	s.Blocks = append(s.Blocks, figureBlocks(figures...)...)
	s.Blocks = append(s.Blocks, r.figures(r.Comparison.IO)...)
	return s, err
}

// waiting is the section with the parts of the waits.
func (r *Report) waiting() (Section, error) {
	s := Section{ID: "waiting", Title: "Why jobs waited"}
	if r.empty() || len(r.Comparison.Waits) == 0 {
		return s, nil
	}
	s.Blocks = append(s.Blocks, paragraph("The parts of the mean wait of all jobs that started. They add up to the mean wait. The part unknown is the waiting without a recorded reason."))
	s.Blocks = append(s.Blocks, r.figures(r.Comparison.Waits)...)
	for i, set := range r.Sets {
		if text := r.Comparison.Unexplained(i); text != "" && len(r.Sets) > 1 {
			s.Blocks = append(s.Blocks, paragraph("%s.", text))
		}
		of := " in " + setName(i, set)
		if r.single() {
			of = ""
		}
		s.Blocks = append(s.Blocks, paragraph("The largest causes of the waits%s%s, and who held processors while jobs waited for nodes:", of,
			quantity.Plural(len(set.Runs), ", which divide the same time in another way than the parts above", ", of the first run alone")))
		blocks, err := causesOf(&set.Runs[0])
		if err != nil {
			return s, err
		}
		s.Blocks = append(s.Blocks, blocks...)
	}
	return s, nil
}

// fairness is the section with the figures of fairness. It is empty unless the options request them.
func (r *Report) fairness() (Section, error) {
	s := Section{ID: "fairness", Title: "Fairness"}
	if r.empty() || !r.Comparison.ShowFairness {
		return s, nil
	}
	s.Blocks = append(s.Blocks, paragraph("How equally users, accounts, QOS and jobs were served. These figures also depend on what was requested: compare them only between runs of one workload."))
	s.Blocks = append(s.Blocks, r.figures(r.Comparison.Fairness)...)
	return s, nil
}

// figures returns a table of figures with their meaning, and tables of the differences.
func (r *Report) figures(table []compare.Metric) (blocks []Block) {
	c := r.Comparison
	t := &Table{Head: []string{"metric"}}
	for i, set := range c.Sets {
		t.Head = append(t.Head, r.setHead(i))
		if len(set.Runs) > 1 {
			t.Head = append(t.Head, fmt.Sprintf("%.4g %% interval", 100*c.Level))
		}
	}
	var terms []Term
	if t.Prose = r.single(); t.Prose {
		t.Head = append(t.Head, "meaning")
	}
	for i := range table {
		m := &table[i]
		row := []string{labelOf(m)}
		for k := range c.Sets {
			row = append(row, valueOf(m, m.Sets[k].Mean))
			if len(c.Sets[k].Runs) > 1 {
				row = append(row, interval(valueOf, m, m.Sets[k].Low, m.Sets[k].High))
			}
		}
		if meaning := metrics.MeaningOf(m.Key, c.Sets[0].Window); t.Prose {
			row = append(row, meaning)
		} else {
			terms = append(terms, Term{m.Label, meaning})
		}
		t.Rows = append(t.Rows, row)
	}
	blocks = append(blocks, Block{Table: t}, Block{Terms: terms})
	for k := 1; k < len(c.Sets); k++ {
		blocks = append(blocks, Block{Table: r.differences(k, table)})
	}
	return blocks
}

// differences returns the table of a set's differences from the baseline.
func (r *Report) differences(set int, table []compare.Metric) *Table {
	c := r.Comparison
	t := &Table{Caption: fmt.Sprintf("Difference %s − %s", compare.Letter(set), compare.Letter(0)), Head: []string{"metric", "difference", "relative"}}
	if c.Inference {
		t.Head = append(t.Head, fmt.Sprintf("%.4g %% interval", 100*c.Level), "p", "p (Holm)", "Hedges' g", "Cliff's δ", "detectable", "significant")
	}
	for i := range table {
		m := &table[i]
		for k := range m.Differences {
			d := &m.Differences[k]
			if d.Set != set {
				continue
			}
			row := []string{m.Label, differenceOf(m, d.Difference), quantity.SignedPercent(d.Relative)}
			if c.Inference {
				significant := "no"
				if d.Significant(c.Level) {
					significant = "yes"
				}
				row = append(row, interval(differenceOf, m, d.Low, d.High), quantity.Probability(d.P), quantity.Probability(d.PAdjusted), quantity.Decimal(d.HedgesG),
					quantity.Decimal(d.CliffsDelta), strings.TrimPrefix(differenceOf(m, d.Detectable), "+"), significant)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// verdicts returns paragraphs about the results of the tests of whole schedules.
func (r *Report) verdicts() []Block {
	c := r.Comparison
	var list []Block
	for i := range c.Pairs {
		if p := &c.Pairs[i]; p.Schedules != nil {
			figures := p.Schedules.Figures(compare.Letter(p.Baseline), compare.Letter(p.Set))
			list = append(list, verdict("Schedules as a whole, the waits of all jobs: %s; %s. %s",
				strings.Join(strings.Fields(figures[0]), " "), strings.Join(strings.Fields(figures[1]), " "), p.Schedules.Verdict(1-c.Level)))
		}
	}
	return list
}

// machine is the section on the machine over time.
func (r *Report) machine() (Section, error) {
	s := Section{ID: "machine", Title: "The machine over time"}
	c := r.courses
	if c.empty() {
		return s, nil
	}
	axis, percent := "processors in use", capacity(r.Sets)
	if percent {
		axis = "processors in use [%]"
	}
	many := ""
	if several(r.Sets) {
		many = " Lines are means over the runs of a set, and bands show the range of its runs."
	}
	if c.moved {
		many += " Runs on different dates are shown on the dates of the first run."
	}
	stack, err := newStack(r.Sets, c)
	if err != nil {
		return s, err
	}
	figures := []*Figure{stack}
	for _, f := range []struct {
		name, title, axis, caption string
		value                      func(*compare.Realization, *course) []float64
	}{
		{"utilization", "Utilization", axis, "Processors that jobs held.", func(run *compare.Realization, c *course) []float64 {
			if percent {
				return scaled(c.processors, 100/float64(run.Manifest.Cluster.Processors))
			}
			return c.processors
		}},
		{"running", "Running jobs", "running jobs", "Number of running jobs.", func(_ *compare.Realization, c *course) []float64 { return c.running }},
		{"queue", "Waiting jobs", "waiting jobs", "Number of jobs that were submitted and had not started.", func(_ *compare.Realization, c *course) []float64 { return c.queued }},
		{"gpus", "GPUs", "GPUs in use", "GPUs that jobs held.", func(_ *compare.Realization, c *course) []float64 { return c.gpus }},
	} {
		if f.name == "utilization" && stack != nil && r.single() {
			continue // the upper edge of the stack is the utilization
		}
		lines := c.lines(r.Sets, f.value)
		if f.name == "gpus" && !slices.ContainsFunc(lines, positive) {
			continue
		}
		figure, err := figure.NewTimeline(f.name, f.title, f.axis, f.caption+many, lines, c.zone)
		if err != nil {
			return s, err
		}
		figures = append(figures, figure)
		if f.name == "queue" {
			reasons, err := newReasons(r.Sets, c)
			if err != nil {
				return s, err
			}
			figures = append(figures, reasons)
		}
	}
	s.Blocks = figureBlocks(figures...)
	return s, nil
}

func scaled(values []float64, factor float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = v * factor
	}
	return out
}

// positive reports whether a line is above 0 at some point.
func positive(s figure.Series) bool { return slices.Max(s.High) > 0 }

// names are the names of the sets in figures.
func (r *Report) names() []string {
	var list []string
	for i := range r.Sets {
		list = append(list, setName(i, r.Sets[i]))
	}
	return list
}

// waits is the section on who waited, and when.
func (r *Report) waits() (Section, error) {
	s := Section{ID: "waits", Title: "Who waited, and when"}
	s.Blocks = figureBlocks(chart.Week(r.names(), r.overviews, r.options.Zone))
	for i := range r.Sets {
		if t := r.waitsTable(i); t != nil {
			s.Blocks = append(s.Blocks, Block{Table: t})
		}
	}
	return s, nil
}

// users is the section on who used the machine.
func (r *Report) users() (Section, error) {
	s := Section{ID: "users", Title: "Who used the machine"}
	for i := range r.Sets {
		if t := r.usersTable(i); t != nil {
			s.Blocks = append(s.Blocks, Block{Table: t})
		}
	}
	if len(s.Blocks) > 0 {
		s.Blocks = append(s.Blocks, Block{Terms: []Term{
			{"CPU hours", "hours for which the user's jobs held processors, times their number"},
			{"share", "of the CPU hours of all jobs"},
			{"wait", "the time from submission to start"},
		}})
	}
	return s, nil
}

// distributions is the section on the distributions of waits and slowdowns.
func (r *Report) distributions() (Section, error) {
	s := Section{ID: "distributions", Title: "Waits and slowdowns"}
	waits := distributions(r.Sets, 1, waits.Seconds)
	if len(waits) == 0 {
		return s, nil
	}
	many := ""
	if several(r.Sets) {
		many = " Bands are the range of the runs."
	}
	wait, err := figure.NewDistribution("wait-cdf", "Distribution of waits", "wait",
		"Share of the jobs whose wait is at most the value on the axis. Waits below a second count as one second."+many, figure.DurationTicks{}, quantity.Duration[float64], waits)
	if err != nil {
		return s, err
	}
	tau := metrics.DefaultTau
	if r.options.Compare.Tau > 0 {
		tau = r.options.Compare.Tau
	}
	slowdowns := distributions(r.Sets, 1, slowdownOf(tau.Seconds()))
	var slowdown *Figure
	if len(slowdowns) > 0 {
		slowdown, err = figure.NewDistribution("slowdown-cdf", "Distribution of bounded slowdowns", "bounded slowdown",
			fmt.Sprintf("Share of the jobs whose bounded slowdown is at most the value on the axis, with τ = %s.", quantity.Duration(tau.Seconds()))+many, figure.LogTicks{}, quantity.Decimal[float64], slowdowns)
		if err != nil {
			return s, err
		}
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
		Caption: fmt.Sprintf("Euclidean distances over the waits of the %s that started in every run", quantity.Counted(d.Jobs, "job", "jobs")),
		Head:    []string{"runs", "pairs", "mean", "standard deviation", "per job"},
	}
	for _, b := range d.Blocks {
		if b.Pairs == 0 {
			continue
		}
		where := "within " + compare.Letter(b.Sets[0])
		if b.Sets[0] != b.Sets[1] {
			where = compare.Letter(b.Sets[0]) + " to " + compare.Letter(b.Sets[1])
		}
		t.Rows = append(t.Rows, []string{where, quantity.Count(b.Pairs), quantity.Duration(b.Mean), quantity.Duration(b.Deviation), quantity.Duration(b.Mean / metrics.Float(d.Jobs))})
	}
	if len(t.Rows) == 0 || d.Jobs == 0 {
		return s, nil
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
		s.Blocks = append(s.Blocks, twoSamples(p)...)
		if v.Matched == 0 {
			if !r.empty() {
				s.Blocks = append(s.Blocks, paragraph("%s and %s have no job in common.", compare.Letter(p.Set), compare.Letter(p.Baseline)))
			}
			s.Blocks = append(s.Blocks, clusterSettings(p)...)
			continue
		}
		mean := ""
		if several(r.Sets) {
			mean = "; a job's value is its mean over runs"
		}
		t := &Table{
			Caption: fmt.Sprintf("%s over %s%s%s", name, quantity.Counted(v.Matched, "job", "jobs"),
				v.MatchedBy.Text(), mean),
			Head: []string{"difference of", "changed by more than " + quantity.Duration(v.Tolerance), "mean", "mean absolute", "least", "5 %", "median", "95 %", "most"},
		}
		for _, row := range []struct {
			name string
			compare.Spread
		}{{"submission", v.Submit}, {"start", v.Start}, {"wait", v.Wait}, {"run time", v.RunTime}} {
			d := row.Spread
			t.Rows = append(t.Rows, []string{row.name, quantity.Count(d.Changed), quantity.SignedDuration(d.Mean), quantity.Duration(d.MeanAbs), quantity.SignedDuration(d.Min), quantity.SignedDuration(d.P5),
				quantity.SignedDuration(d.Median), quantity.SignedDuration(d.P95), quantity.SignedDuration(d.Max)})
		}
		s.Blocks = append(s.Blocks, Block{Table: t})
		figure, err := newJobDifferences(p, name, firstSubmission(&r.Sets[0].Runs[0]), r.options.Zone)
		if err != nil {
			return s, err
		}
		s.Blocks = append(s.Blocks, figureBlocks(figure)...)
		s.Blocks = append(s.Blocks, clusterSettings(p)...)
		if p.OtherLimits > 0 {
			s.Blocks = append(s.Blocks, Block{Text: fmt.Sprintf("In the first runs, %s in %s than in %s.",
				jobrows.LimitsText(p.OtherLimits), compare.Letter(p.Set), compare.Letter(p.Baseline))})
		}
		s.Blocks = append(s.Blocks, r.releases(p)...)
		s.Blocks = append(s.Blocks, r.divergences(p)...)
		if len(v.Largest) > 0 {
			t := &Table{Caption: "The largest changes of wait, " + name, Head: []string{"job", "wait in the baseline", "wait in the set", "difference"}, Folded: true}
			for _, d := range v.Largest {
				t.Rows = append(t.Rows, []string{d.String(), quantity.Duration(d.BaselineWait), quantity.Duration(d.SetWait), quantity.SignedDuration(d.Wait)})
			}
			s.Blocks = append(s.Blocks, Block{Table: t})
		}
	}
	return s, nil
}

// divergences returns blocks about how the first runs of both sides begin to differ.
func (r *Report) divergences(p *compare.Pair) []Block {
	if len(p.Divergences) == 0 {
		return []Block{paragraph("%s against %s: %s.", compare.Letter(p.Set), compare.Letter(p.Baseline), p.Agreement())}
	}
	first := &p.Divergences[0]
	list := []Block{paragraph("First divergence of the first runs, on %s (%s): %s.", quantity.Instant(hpc.Time(first.At), r.options.Zone), r.options.Zone, first.Reason)}
	t := &Table{Caption: "The job of the first divergence", Head: []string{"", compare.Letter(p.Baseline), compare.Letter(p.Set)}}
	add := func(name string, value func(*compare.Situation) string) {
		t.Rows = append(t.Rows, []string{name, value(&first.Baseline), value(&first.Set)})
	}
	add("job started", func(s *compare.Situation) string { return quantity.Instant(hpc.Time(s.Start), r.options.Zone) })
	add("on nodes", func(s *compare.Situation) string { return quantity.OrUnknown(s.Nodes) })
	if !first.BeforeWindow {
		t.Caption += ", and the queue and the nodes just before"
		add("jobs that waited", func(s *compare.Situation) string { return quantity.Count(s.Queued) })
		add("waiting only here", func(s *compare.Situation) string { return quantity.OrUnknown(strings.Join(s.OnlyQueued, ", ")) })
		add("jobs that ran", func(s *compare.Situation) string { return quantity.Count(s.Running) })
		add("running only here", func(s *compare.Situation) string { return quantity.OrUnknown(strings.Join(s.OnlyRunning, ", ")) })
		add("busy nodes", func(s *compare.Situation) string { return quantity.OrUnknown(s.Busy()) })
		add("busy only here", func(s *compare.Situation) string { return quantity.OrUnknown(s.OnlyBusy) })
	}
	list = append(list, Block{Table: t})
	if why := causes(first); len(why) > 0 {
		list = append(list, paragraph("Why, as far as the records show it:"), Block{List: why})
	} else if p.Releases != nil {
		list = append(list, paragraph("The records do not show why."))
	}
	var later []string
	for i := range p.Divergences[1:] {
		d := &p.Divergences[i+1]
		text := fmt.Sprintf("%s: %s", quantity.Instant(hpc.Time(d.At), r.options.Zone), d.Reason)
		if why := causes(d); len(why) > 0 {
			text += ". " + strings.Join(why, " ")
		}
		later = append(later, text)
	}
	if len(later) > 0 {
		list = append(list, paragraph("The first divergence of each other kind:"), Block{List: later})
	}
	return list
}

// clusterSettings returns the table of the settings that differ between the clusters of a pair.
func clusterSettings(p *compare.Pair) []Block {
	if len(p.Clusters) == 0 {
		return nil
	}
	return []Block{{Table: &Table{Caption: "Settings of the clusters that differ in the first runs",
		Head: []string{"setting", compare.Letter(p.Baseline), compare.Letter(p.Set)}, Rows: p.ClusterRows(), Prose: true}}}
}

// twoSamples returns the tables that compare two samples of jobs.
func twoSamples(p *compare.Pair) []Block {
	if p.Periods == nil {
		return nil
	}
	a, b := compare.Letter(p.Baseline), compare.Letter(p.Set)
	quantities := &Table{Caption: "Two samples of jobs; p tests the difference of the means by permuting whole days. Demand: processors that running and waiting jobs ask for, divided by the machine's",
		Head: []string{"", "mean " + a, "mean " + b, "median " + a, "median " + b, "p90 " + a, "p90 " + b, "Cliff's delta", "p"}}
	for _, q := range p.Periods.Quantities {
		row := []string{q.Label}
		for _, v := range [][]metrics.Float{q.Mean, q.Median, q.P90} {
			for _, x := range v {
				text := x.Text()
				if q.Unit == "s" {
					text = quantity.Duration(x)
				}
				row = append(row, text)
			}
		}
		quantities.Rows = append(quantities.Rows, append(row, q.CliffsDelta.Text(), q.P.Text()))
	}
	factors := &Table{Caption: "Possible causes of the difference of the mean waits. Each factor is examined separately, over the jobs " +
		"whose value of it occurs on both sides. Above 100 %, the rest of the difference has the opposite sign",
		Head: []string{"factor", "jobs in common strata", "difference", "if " + b + " were distributed as " + a, "explained"}}
	for _, f := range p.Periods.Factors {
		factors.Rows = append(factors.Rows, []string{f.Factor, f.Covered.Percent(), quantity.SignedDuration(f.Difference), quantity.SignedDuration(f.Standardized), f.Explained.Percent()})
	}
	return []Block{{Table: quantities}, {Table: factors}}
}

// groupingNames are the properties by which jobs are grouped, as the page names them.
var groupingNames = map[metrics.By]string{
	metrics.ByPartition: "partition", metrics.ByAccount: "account", metrics.ByUser: "user", metrics.ByQOS: "QOS", metrics.BySize: "processors", metrics.ByState: "state",
}

// groups is the section with the tables of groups of jobs.
func (r *Report) groups() (Section, error) {
	s := Section{ID: "groups", Title: "Groups of jobs"}
	c := r.Comparison
	for _, by := range metrics.Groupings {
		groups := c.Groups[by]
		if len(groups) == 0 || len(groups) == 1 && groups[0].Name == "" {
			continue // no job has the property
		}
		t := &Table{Caption: "By " + groupingNames[by], Folded: by == metrics.ByUser || len(groups)*len(c.Sets) > 12, Head: []string{groupingNames[by]}}
		if len(c.Sets) > 1 {
			t.Head = append(t.Head, "set")
		}
		t.Head = append(t.Head, "jobs")
		for _, f := range metrics.GroupFigures {
			t.Head = append(t.Head, f.Label)
			if c.Inference && len(c.Sets) > 1 && f.Key == "mean_wait_s" {
				t.Head = append(t.Head, fmt.Sprintf("change: %.4g %% interval", 100*c.Level))
			}
		}
		ordered := compare.ByChange(groups, min(1, len(c.Sets)-1))
		for _, g := range ordered {
			t.Rows = append(t.Rows, r.groupRows(g)...)
		}
		s.Blocks = append(s.Blocks, Block{Table: t})
	}
	if len(s.Blocks) > 0 {
		s.Blocks = append(s.Blocks, Block{Terms: groupTerms()})
	}
	return s, nil
}

// groupTerms define the columns of the tables of groups.
func groupTerms() []Term {
	terms := []Term{
		{"jobs", "the jobs of the group whose waits count: they started in the window"},
		{"utilization of a group", "the part of the machine's processors, or of a partition's own processors, that all " +
			"jobs of the group held"},
	}
	for _, f := range metrics.GroupFigures[1:] {
		terms = append(terms, Term{f.Label, f.Meaning})
	}
	return terms
}

// groupRows returns the rows of a group, one for each set.
func (r *Report) groupRows(g *compare.Group) [][]string {
	c := r.Comparison
	var rows [][]string
	for k := range c.Sets {
		row := []string{metrics.ShownName(g.Name)}
		if len(c.Sets) > 1 {
			row = append(row, compare.Letter(k))
		}
		row = append(row, quantity.Decimal(g.Jobs[k]))
		for i := range g.Metrics {
			m := &g.Metrics[i]
			row = append(row, valueOf(m, m.Sets[k].Mean))
			if c.Inference && len(c.Sets) > 1 && m.Key == "mean_wait_s" {
				change := ""
				for _, d := range m.Differences {
					if d.Set == k {
						change = interval(differenceOf, m, d.Low, d.High)
					}
				}
				row = append(row, change)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// nodes is the section with the Gantt charts of the first run of each set. It is empty if no
// record has the nodes of its jobs.
func (r *Report) nodes() (Section, error) {
	s := Section{ID: "nodes", Title: "Nodes over time"}
	charts := 0
	for i := range r.Sets {
		run := &r.Sets[i].Runs[0]
		g, err := newGantt("gantt-"+compare.Letter(i), "Jobs on nodes"+r.ofSet(i), run, &r.courses.frame)
		if err != nil {
			return s, err
		}
		if g == nil {
			s.Blocks = append(s.Blocks, paragraph("The record of %s does not say which nodes its jobs had.", run.Name))
			continue
		}
		charts++
		s.Blocks = append(s.Blocks, Block{Gantt: g})
		r.Figures = append(r.Figures, newGanttFigure(g, g.begin, r.options.Zone))
	}
	if charts == 0 {
		s.Blocks = nil
	}
	return s, nil
}

// methods is the section on how the numbers were computed. It explains only numbers that are on the
// page.
func (r *Report) methods() (Section, error) {
	c := r.Comparison
	s := Section{ID: "methods", Title: "How to read this"}
	if r.single() {
		s.Blocks = append(s.Blocks, Block{List: []string{
			"One run does not show how much of what happened was chance: another run of the same workload gives different waits. To compare two configurations, make several runs of each.",
			"Waits are skewed: a few jobs wait long, and most jobs hardly wait. The mean describes the few jobs, and the median the many.",
		}})
		return s, nil
	}
	list := []string{"The unit of observation is a run, not a job: jobs of one run share the machine, so that one job gains what another job loses."}
	if several(r.Sets) {
		list = append(list, fmt.Sprintf("Intervals are bootstrap intervals over runs (BCa with the tails of Student's t), %.4g %%, seed %d. With fewer than about eight runs on each side they are somewhat too narrow.", 100*c.Level, c.Seed))
	}
	if c.Inference && len(c.Sets) > 1 {
		list = append(list,
			"p is the p-value of a permutation test of equal means. With ten or more pairs of runs with the same workload and seed, intervals and p come from the differences within pairs, and the columns g, δ and detectable are empty. Holm's correction accounts for all metrics of the table: a difference is significant if the corrected p-value is small enough.",
			"Hedges' g is the difference in pooled standard deviations of a run, reduced for small numbers of runs. Cliff's δ is the share of pairs of runs in which the set's value is larger, less the share in which it is smaller.",
			"Detectable is the true difference that this number of runs detects in 80 % of cases. If it is larger than a difference that would matter to you, there are too few runs, and “no significant difference” means little.",
			"The energy test compares the distances between runs within and across sets; it detects any kind of difference, but jobs with long, erratic waits weigh most. "+
				"The depth test (Liu and Singh, with spatial depth) compares how central the runs of one set are in the other; it is robust to outliers, but detects little with few runs. Holm's correction accounts for both tests.",
			fmt.Sprintf("A significant difference is hardly chance, but on average %.4g of 100 comparisons of equal settings find one. "+
				"Its size shows whether it matters.", 100*(1-c.Level)))
	}
	s.Blocks = append(s.Blocks, Block{List: list})
	return s, nil
}
