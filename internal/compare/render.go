package compare

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/compare/clusters"
	"rmreplay/internal/compare/jobrows"
	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
	"rmreplay/internal/stats"
)

// Render writes the comparison for people. Dates are in the given time zone. It returns w's
// error.
func (c *Comparison) Render(w io.Writer, zone *time.Location) error {
	var b bytes.Buffer
	if !c.Valid {
		fmt.Fprintf(&b, "NOT VALID: %s\n", c.Doubt)
	}
	c.renderSets(&b)
	if text := c.order(); text != "" {
		fmt.Fprintf(&b, "\n%s\n", plainSpaces(text))
	}
	for i := range c.Pairs {
		c.renderPair(&b, &c.Pairs[i], zone)
		if c.ShowFairness {
			c.renderFairness(&b, &c.Pairs[i])
		}
	}
	sameJobs := func(p Pair) bool { return p.Periods == nil }
	if c.Distances != nil && (len(c.Pairs) == 0 || slices.ContainsFunc(c.Pairs, sameJobs)) {
		c.renderDistances(&b)
	}
	for _, by := range metrics.Groupings {
		if groups, ok := c.Groups[by]; ok {
			c.renderGroups(&b, by, groups)
		}
	}
	if len(c.Warnings) > 0 {
		b.WriteString("\n")
	}
	for _, text := range c.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", text)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Letter returns the letter of a set in tables: A for the baseline, then B and so on.
func Letter(set int) string {
	if set < 26 {
		return string(rune('A' + set))
	}
	return fmt.Sprint(set)
}

func (c *Comparison) renderSets(b *bytes.Buffer) {
	for i, s := range c.Sets {
		first := s.Runs[0]
		what := "1 run"
		if n := len(s.Runs); n > 1 {
			what = quantity.Regular(n, "realization")
		}
		engine := first.MadeBy
		if first.Clock != "" {
			engine += ", clock " + first.Clock
		}
		role := map[bool]string{true: "  [baseline]"}[i == 0]
		fmt.Fprintf(b, "%s  %s: %s, %s, %s%s\n", Letter(i), s.Name, what, engine, quantity.Regular(first.Jobs, "job"), role)
	}
	if !c.Inference {
		fmt.Fprintf(b, "\nNo inference %sis possible: %s.\nWhat follows is true of these runs alone.\n",
			c.OverRuns(), c.Reason)
	}
}

// OverRuns says that inference is not possible over runs, but over the days of periods; else "".
func (c *Comparison) OverRuns() string {
	if slices.ContainsFunc(c.Pairs, func(p Pair) bool { return p.Periods != nil }) {
		return "over runs "
	}
	return ""
}

// renderPair writes the comparison of one set with the baseline.
func (c *Comparison) renderPair(b *bytes.Buffer, p *Pair, zone *time.Location) {
	name := Letter(p.Set) + " - " + Letter(p.Baseline)
	if text := c.Answer(p); text != "" {
		fmt.Fprintf(b, "\n%s\n", plainSpaces(text))
	}
	c.renderTable(b, p, "", c.Metrics)
	c.renderSizes(b, p)
	if c.Inference {
		if c.marks(p) {
			b.WriteString("* is significant after Holm's correction for the whole table\n")
		} else {
			c.renderCorrection(b)
		}
		if text := c.Pairing(p); text != "" {
			b.WriteString(text + "\n")
		}
		c.renderPower(b, p)
	}
	c.renderZeroRunTimes(b, p)
	c.renderIO(b, p)
	if t := p.Schedules; t != nil {
		fmt.Fprintf(b, "\nschedules as a whole (the waits of all jobs; smallest p possible %.2g):\n", float64(t.SmallestP))
		for _, line := range t.Figures(Letter(p.Baseline), Letter(p.Set)) {
			fmt.Fprintf(b, "  %s\n", line)
		}
		fmt.Fprintf(b, "  %s\n", t.Verdict(1-c.Level))
	}
	if len(c.Nodes) > 0 {
		c.renderTable(b, p, "nodes, each once", c.Nodes)
		c.renderCorrection(b)
	}
	if len(c.Lost) > 0 {
		c.renderTable(b, p, "runs that did not complete", c.Lost)
	}
	c.renderWaits(b, p)
	if p.Recorded != nil {
		b.WriteString("\n")
		if text := c.JudgedRun(p); text != "" {
			fmt.Fprintf(b, "for %s; the distance and the intervals are for all runs:\n", text)
		}
		metrics.RenderVerdict(b, p.Recorded, zone)
	}
	if p.Draws != nil {
		p.Draws.Render(b)
	}
	renderJobs(b, &p.Jobs, name, p.Periods != nil)
	clusters.Render(b, p.Clusters, Letter(p.Baseline), Letter(p.Set))
	jobrows.RenderLimits(b, p.OtherLimits, Letter(p.Set), Letter(p.Baseline))
	if p.Releases != nil {
		first := hpc.Never
		if len(p.Divergences) > 0 {
			first = hpc.Time(p.Divergences[0].At)
		}
		p.Releases.Render(b, Letter(p.Baseline), Letter(p.Set), first)
	}
	renderDivergences(b, p, zone)
}

// JudgedRun names the run that the verdict on a pair with a recorded workload is about; "" if there is only one.
func (c *Comparison) JudgedRun(p *Pair) string {
	runs := c.Sets[p.Set].Runs
	if len(runs) == 1 {
		runs = c.Sets[p.Baseline].Runs
	}
	if len(runs) == 1 {
		return ""
	}
	return fmt.Sprintf("the run with seed %d, the first of %d runs", runs[0].Seed, len(runs))
}

// renderSizes writes why sides have no utilization or only a lower bound of it, and what to do.
func (c *Comparison) renderSizes(b *bytes.Buffer, p *Pair) {
	if c.leavesOut(p) {
		b.WriteString("utilization is a lower bound: jobs that ran when the window began are left out, because the record " +
			"names no nodes\n")
		for _, set := range []int{p.Baseline, p.Set} {
			fmt.Fprintf(b, "  %s: %s left out\n", Letter(set), cmp.Or(c.Sets[set].left, "none"))
		}
	}
	use, _ := c.figure("utilization", p)
	span, _ := c.figure("makespan_s", p)
	var list []string
	for _, set := range []int{p.Baseline, p.Set} {
		if use != nil && !use.Sets[set].Mean.Known() && span.Sets[set].Mean > 0 {
			list = append(list, Letter(set))
		}
	}
	if list != nil {
		b.WriteString(metrics.NoSize("", "no utilization of "+strings.Join(list, " and ")))
	}
}

// renderZeroRunTimes writes how many jobs have no slowdown, because the sides may leave out different jobs. For
// several runs it writes the smallest and the largest number.
func (c *Comparison) renderZeroRunTimes(b *bytes.Buffer, p *Pair) {
	var list []string
	some := false
	for _, set := range []int{p.Baseline, p.Set} {
		least, most := c.Sets[set].Runs[0].ZeroRunTime, 0
		for _, r := range c.Sets[set].Runs {
			least, most = min(least, r.ZeroRunTime), max(most, r.ZeroRunTime)
		}
		text := fmt.Sprint(least)
		if most > least {
			text += fmt.Sprint(" to ", most)
		}
		list = append(list, text+" in "+Letter(set))
		some = some || most > 0
	}
	if some {
		fmt.Fprintf(b, "jobs that ran for 0 s count in the bounded slowdown only: %s\n", strings.Join(list, ", "))
	}
}

// plainSpaces replaces each [quantity.Space] by a plain space, for a terminal.
func plainSpaces(text string) string { return strings.ReplaceAll(text, quantity.Space, " ") }

// renderTable writes the head of a table of figures and its lines.
func (c *Comparison) renderTable(b *bytes.Buffer, p *Pair, title string, table []Metric) {
	rows := quantity.NewTable(24, 12, 12, 12, 10)
	head := []any{title, Letter(p.Baseline), Letter(p.Set), Letter(p.Set) + " - " + Letter(p.Baseline)}
	if c.Inference {
		rows = quantity.NewTable(24, 12, 12, 12, 24, 8, 8)
		rows.Row(append(head, fmt.Sprintf("%.4g %% interval", 100*c.Level), "p", "p Holm")...)
	} else {
		rows.Row(append(head, "relative")...)
	}
	for i := range table {
		if row := c.metricRow(&table[i], p); row != nil {
			rows.Row(row...)
		}
	}
	b.WriteString("\n" + rows.String())
}

// renderWaits writes why jobs waited, in one set and the baseline.
func (c *Comparison) renderWaits(b *bytes.Buffer, p *Pair) {
	if len(c.Waits) == 0 {
		return
	}
	c.renderTable(b, p, "why jobs waited, mean", c.Waits)
	c.renderCorrection(b)
	for _, set := range []int{p.Baseline, p.Set} {
		if text := c.Unexplained(set); text != "" {
			b.WriteString(plainSpaces(text) + "\n")
		}
	}
}

// renderCorrection writes for which p-values a table's correction is.
func (c *Comparison) renderCorrection(b *bytes.Buffer) {
	if c.Inference {
		b.WriteString("Holm's correction is for this table\n")
	}
}

// renderFairness writes the figures of fairness of one set and the baseline.
func (c *Comparison) renderFairness(b *bytes.Buffer, p *Pair) {
	c.renderTable(b, p, "fairness", c.Fairness)
	b.WriteString("equal service has Gini 0 and Jain 1")
	if c.Inference {
		b.WriteString("; Holm's correction is for this table")
	}
	b.WriteString("\n")
}

// renderPower writes which difference this number of runs detects, in general and for the
// mean wait.
func (c *Comparison) renderPower(b *bytes.Buffer, p *Pair) {
	na, nb := len(c.Sets[p.Baseline].Runs), len(c.Sets[p.Set].Runs)
	wait, d := c.figure("mean_wait_s", p)
	if wait != nil && (c.enough(wait, d) > 0 || d.Paired) {
		return // the first sentence says that so few runs cannot detect a difference, or the formula is not that of pairs
	}
	detectable := stats.Detectable(na, nb, 1-c.Level, detectPower)
	fmt.Fprintf(b, "%d and %d %s find a difference of %.2g pooled standard deviations in %.0f %% of cases\n", na, nb,
		quantity.Plural(nb, "run", "runs"), detectable, 100*detectPower)
	if wait != nil && d.Detectable > 0 {
		detectable = stats.Detectable(wait.Sets[p.Baseline].Runs, wait.Sets[p.Set].Runs, 1-c.Level, detectPower)
		observed := d.Difference / d.Detectable * metrics.Float(detectable)
		fmt.Fprintf(b, "(for the mean wait %s s; the observed difference is %s pooled standard deviations)\n",
			d.Detectable.Text(), observed.Text())
	}
}

// marks says whether a table of a pair marks a significant difference.
func (c *Comparison) marks(p *Pair) bool {
	return slices.ContainsFunc(slices.Concat(c.Metrics, c.Nodes, c.Lost, c.Waits, c.Fairness), func(m Metric) bool {
		d := m.difference(p.Set)
		return d != nil && d.Significant(c.Level)
	})
}

// metricRow returns the table cells of a figure; nil if neither set has a value.
func (c *Comparison) metricRow(m *Metric, p *Pair) []any {
	d := m.difference(p.Set)
	if d == nil || !m.Sets[p.Baseline].Mean.Known() && !m.Sets[p.Set].Mean.Known() {
		return nil
	}
	label := m.Label
	if m.Unit != "" {
		label += " [" + m.Unit + "]"
	}
	row := []any{label, m.Format(m.Sets[p.Baseline].Mean), m.Format(m.Sets[p.Set].Mean), m.FormatDifference(d.Difference)}
	if !c.Inference {
		return append(row, signedPercent(d.Relative))
	}
	mark := ""
	if d.Significant(c.Level) {
		mark = " *"
	}
	interval := "-"
	if d.Low.Known() {
		interval = m.FormatDifference(d.Low) + " to " + m.FormatDifference(d.High)
	}
	return append(row, interval, pValue(d.P), pValue(d.PAdjusted), mark)
}

// difference returns the difference of a set from the baseline.
func (m *Metric) difference(set int) *MetricDifference {
	for i := range m.Differences {
		if m.Differences[i].Set == set {
			return &m.Differences[i]
		}
	}
	return nil
}

// Format formats a value of the metric for people.
func (m *Metric) Format(v metrics.Float) string {
	if metrics.IsShare(m.Key) {
		return v.Percent()
	}
	return v.Text()
}

// FormatDifference formats a difference of two values; a difference of percentages is in
// percentage points.
func (m *Metric) FormatDifference(v metrics.Float) string {
	if metrics.IsShare(m.Key) && v.Known() {
		return fmt.Sprintf("%.2f pp", 100*float64(v))
	}
	return v.Text()
}

func pValue(p metrics.Float) string {
	switch {
	case !p.Known():
		return "-"
	case p < 0.001:
		return fmt.Sprintf("%.0e", float64(p))
	}
	return fmt.Sprintf("%.3f", float64(p))
}

func signedPercent(v metrics.Float) string {
	if !v.Known() {
		return "-"
	}
	return fmt.Sprintf("%+.1f%%", 100*float64(v))
}

// renderJobs writes the differences job by job. The parameter periods says that the sets are two samples of jobs.
func renderJobs(b *bytes.Buffer, v *JobView, name string, periods bool) {
	fmt.Fprintf(b, "\njob by job, %s: %s on both sides", name, quantity.Regular(v.Matched, "job"))
	b.WriteString(v.MatchedBy.Text())
	if v.Only[0]+v.Only[1] > 0 {
		fmt.Fprintf(b, ", %d and %d on one only", v.Only[0], v.Only[1])
	}
	if v.NoStart[0]+v.NoStart[1] > 0 {
		fmt.Fprintf(b, ", %d started in one only", v.NoStart[0]+v.NoStart[1])
	}
	if v.NotReached > 0 {
		fmt.Fprintf(b, ", %d not reached by a run that ended early", v.NotReached)
	}
	if periods && v.Submit.Changed+v.Start.Changed+v.Wait.Changed+v.RunTime.Changed == 0 {
		b.WriteString("\n") // few or no jobs, without a difference
		return
	}
	table := quantity.NewTable(14, 14, 12, 12, 12, 12, 12, 12)
	table.Row("  seconds", "changed > "+v.Tolerance.Text(), "mean", "mean abs", "p5", "median", "p95", "largest")
	for _, row := range []struct {
		name string
		Spread
	}{{"submit", v.Submit}, {"start", v.Start}, {"wait", v.Wait}, {"run time", v.RunTime}} {
		s := row.Spread
		largest := s.Max
		if -s.Min > s.Max {
			largest = s.Min
		}
		table.Row("  "+row.name, s.Changed, s.Mean.Text(), s.MeanAbs.Text(), s.P5.Text(), s.Median.Text(), s.P95.Text(),
			largest.Text())
	}
	b.WriteString("\n" + table.String())
	if len(v.Largest) == 0 {
		return
	}
	var parts []string
	for _, d := range v.Largest[:min(5, len(v.Largest))] {
		sign := "+"
		if d.Wait < 0 {
			sign = ""
		}
		parts = append(parts, fmt.Sprintf("%s %s%s", d.Key, sign, d.Wait.Text()))
	}
	fmt.Fprintf(b, "  largest changes of wait: %s\n", strings.Join(parts, ", "))
}

// Agreement returns a text about the number of jobs in which the first runs of a pair without
// divergences agree.
func (p *Pair) Agreement() string {
	switch v := &p.Jobs; {
	case v.EqualIDs > 0:
		return "no job in common: equal IDs name different jobs, so the runs cannot be compared job by job"
	case v.Matched == 0:
		return "no job in common: no ID is in both runs, and names repeat or differ, so the runs cannot be " +
			"compared job by job"
	case v.NotReached > 0:
		return fmt.Sprintf("no divergence in the %s that both sides have until a run ended early: their first runs agree in "+
			"each of them", quantity.Regular(v.Matched, "job"))
	case v.Only[0]+v.Only[1] > 0:
		return fmt.Sprintf("no divergence in the %s that both sides have: their first runs agree in each of them; %d and "+
			"%d %s on one side only",
			quantity.Regular(v.Matched, "job"), v.Only[0], v.Only[1], quantity.Plural(v.Only[1], "job is", "jobs are"))
	}
	return "no divergence: the first runs of both sides agree in every job"
}

func renderDivergences(b *bytes.Buffer, p *Pair, zone *time.Location) {
	if p.Periods != nil {
		p.Periods.Render(b, Letter(p.Baseline), Letter(p.Set))
	}
	if len(p.Divergences) == 0 {
		b.WriteString("\n" + p.Agreement() + "\n")
		return
	}
	for i := range p.Divergences {
		d := &p.Divergences[i]
		if i > 0 {
			fmt.Fprintf(b, "first of kind %s, %s: %s\n", d.Kind, d.At.Text(zone), d.Reason)
			renderCauses(b, d, p.Releases != nil)
			continue
		}
		fmt.Fprintf(b, "\nfirst divergence, %s: %s\n", d.At.Text(zone), d.Reason)
		size := quantity.Regular(d.Processors, "processor")
		if d.NodeCount > 0 { // otherwise no record has the number of nodes
			size += " on " + quantity.Regular(d.NodeCount, "node")
		}
		fmt.Fprintf(b, "  %s in %s, %s, limit %s\n", orNone(d.User), orNone(d.Partition), size, d.TimeLimit.Clock())
		for _, side := range []struct {
			set int
			Situation
		}{{p.Baseline, d.Baseline}, {p.Set, d.Set}} {
			s := side.Situation
			started := orNone(s.Start.Text(zone))
			if s.By != "" {
				started += " by the " + string(s.By) + " scheduler"
			}
			if s.Nodes != "" {
				started += " on " + s.Nodes
			}
			fmt.Fprintf(b, "  %s: started %s", Letter(side.set), started)
			if d.BeforeWindow {
				b.WriteByte('\n')
				continue
			}
			before := "just before"
			if s.Start != d.At {
				before += " " + d.At.Text(zone)
			}
			on := quantity.Regular(s.BusyProcessors, "processor")
			if s.Busy() != "" {
				on = fmt.Sprintf("%s (%s)", quantity.Regular(s.BusyNodes, "node"), on)
			}
			fmt.Fprintf(b, "; %s, %s waited and %d ran on %s\n", before, quantity.Regular(s.Queued, "job"), s.Running, on)
			if len(s.OnlyQueued)+len(s.OnlyRunning) > 0 || s.OnlyBusy != "" {
				fmt.Fprintf(b, "     only here: waiting %s; running %s; busy %s\n", names(s.OnlyQueued), names(s.OnlyRunning),
					orNone(s.OnlyBusy))
			}
		}
		if len(d.Overtook) > 0 {
			fmt.Fprintf(b, "  overtaken by: %s\n", names(d.Overtook))
		}
		renderCauses(b, d, p.Releases != nil)
	}
}

// renderCauses writes the causes of a divergence. If no cause is known, it writes a sentence about this if say is
// true, and otherwise nothing.
func renderCauses(b *bytes.Buffer, d *Divergence, say bool) {
	for _, cause := range d.Causes {
		word := "a likely cause"
		if cause.Proven {
			word = "because"
		}
		fmt.Fprintf(b, "  %s: %s\n", word, cause.Text)
	}
	if say && len(d.Causes) == 0 {
		b.WriteString("  the records do not show why\n")
	}
}

func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (c *Comparison) renderDistances(b *bytes.Buffer) {
	fmt.Fprintf(b, "\ndistances between runs over the waits of %s [s], mean ± standard deviation:\n",
		quantity.Regular(c.Distances.Jobs, "job"))
	table := quantity.NewTable(14, 12)
	for _, block := range c.Distances.Blocks {
		if block.Pairs == 0 {
			continue
		}
		where := "within " + Letter(block.Sets[0])
		if block.Sets[0] != block.Sets[1] {
			where = Letter(block.Sets[0]) + " to " + Letter(block.Sets[1])
		}
		table.Row("  "+where, block.Mean.Text(), " ± "+block.Deviation.Text()+" ("+quantity.Regular(block.Pairs, "pair")+")")
	}
	b.WriteString(table.String())
}

func (c *Comparison) renderGroups(b *bytes.Buffer, by metrics.By, groups []Group) {
	for set := 1; set < len(c.Sets); set++ {
		table := quantity.NewTable(22, 16, 14, 14, 14, 24, 8, 12, 8)
		table.Row(fmt.Sprintf("by %s, %s - %s", by, Letter(set), Letter(0)), "jobs", "mean wait "+Letter(0),
			"mean wait "+Letter(set), "difference", fmt.Sprintf("%.4g %% interval", 100*c.Level), "p", "total [h]", "share")
		for _, g := range ByChange(groups, set) {
			sum, share := g.change(groups, set)
			for i := range g.Metrics {
				m := &g.Metrics[i]
				d := m.difference(set)
				if m.Key != "mean_wait_s" || d == nil {
					continue
				}
				interval := "-"
				if d.Low.Known() {
					interval = d.Low.Text() + " to " + d.High.Text()
				}
				table.Row(metrics.ShownName(g.Name), g.Jobs[0].Text()+"/"+g.Jobs[set].Text(), m.Sets[0].Mean.Text(),
					m.Sets[set].Mean.Text(), d.Difference.Text(), interval, pValue(d.P), (sum / 3600).Text(), share.Percent())
			}
		}
		b.WriteString("\n" + table.String())
		renderSides(b, by, groups, set)
		c.renderFewer(b, groups, set)
	}
}

// renderFewer names the groups of which clearly fewer jobs start on one side. The waits of their other jobs are not in
// the totals. Two periods have different jobs, so for them it writes nothing.
func (c *Comparison) renderFewer(b *bytes.Buffer, groups []Group, set int) {
	for i := range c.Pairs {
		if p := &c.Pairs[i]; p.Set == set && p.Periods != nil {
			return
		}
	}
	for _, at := range []int{0, set} {
		var list []string
		for _, g := range ByChange(groups, set) {
			if here, there := g.Jobs[at], g.Jobs[set-at]; here > 0 && here <= there-1 && here < 0.95*there {
				list = append(list, fmt.Sprintf("%s (%s instead of %s)", metrics.ShownName(g.Name), here.Text(), there.Text()))
			}
		}
		if len(list) > 0 {
			fmt.Fprintf(b, "fewer jobs start in %s, and the others' waits are not in its totals: %s\n",
				Letter(at), strings.Join(list, ", "))
		}
	}
}

// renderSides writes a sentence about the groups whose total wait grows or shrinks. It names the groups whose mean wait
// moves in the opposite direction.
func renderSides(b *bytes.Buffer, by metrics.By, groups []Group, set int) {
	var n, seconds [2]metrics.Float // index 0: groups whose total wait grows; index 1: groups whose total wait shrinks
	var opposite []string
	var none [2][]string // groups of which no job started in the baseline, or in the set
	for _, g := range ByChange(groups, set) {
		sum, _ := g.change(groups, set)
		for i, change := range []metrics.Float{sum, -sum} {
			if change > 0 {
				n[i], seconds[i] = n[i]+1, seconds[i]+change
			}
		}
		for i, at := range []int{0, set} {
			if g.Jobs[at] == 0 && sum != 0 {
				none[i] = append(none[i], metrics.ShownName(g.Name))
			}
		}
		for i := range g.Metrics {
			if d := g.Metrics[i].difference(set); g.Metrics[i].Key == "mean_wait_s" && d != nil && d.Difference*sum < 0 {
				opposite = append(opposite, metrics.ShownName(g.Name))
			}
		}
	}
	fmt.Fprintf(b, "by %s, the total wait grows in %.0f, by %s h in all, and shrinks in %.0f, by %s h; jobs, waits and "+
		"totals: of jobs that started in the window, share: of all changes, p: of each group alone (not corrected)\n",
		by, n[0], (seconds[0] / 3600).Text(), n[1], (seconds[1] / 3600).Text())
	for i, at := range []int{0, set} {
		if len(none[i]) > 0 {
			fmt.Fprintf(b, "%d of them started no job in %s, so the change is all that they waited in %s: %s\n",
				len(none[i]), Letter(at), Letter(set-at), strings.Join(none[i], ", "))
		}
	}
	if opposite != nil {
		fmt.Fprintf(b, "in %d of them the mean wait moves the other way, because another number of jobs started: %s\n",
			len(opposite), strings.Join(opposite, ", "))
	}
}
