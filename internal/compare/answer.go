package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"rmreplay/internal/compare/jobrows"
	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
	"rmreplay/internal/stats"
	"rmreplay/internal/waits"
)

// Answer returns a text that says how a set's waits and use of the machine differ from those of the
// baseline, whether the difference may be chance, and which share of its jobs the set rejects. It
// returns "" if the waits of both sides are unknown.
//
// If equal IDs name different jobs, the text begins with a sentence about this.
func (c *Comparison) Answer(p *Pair) string {
	apart := jobrows.ApartText(p.Jobs.EqualIDs, p.Jobs.Differ, Letter(p.Baseline), Letter(p.Set))
	return strings.TrimSpace(apart + " " + c.answer(p))
}

func (c *Comparison) answer(p *Pair) string {
	wait, d := c.figure("mean_wait_s", p)
	if wait == nil {
		return ""
	}
	name := func(set int) string { return Letter(set) + " (" + quantity.Name(c.Sets[set].Name) + ")" }
	if !d.Difference.Known() {
		for _, at := range []int{p.Set, p.Baseline} {
			if other := p.Set + p.Baseline - at; !wait.Sets[at].Mean.Known() && wait.Sets[other].Mean.Known() {
				return fmt.Sprintf("No job of %s started, so its waits are not known%s.", name(at), c.rejections(at, p))
			}
		}
		return ""
	}
	was, is, jobs := wait.Sets[p.Baseline].Mean, wait.Sets[p.Set].Mean, "jobs"
	change, early, only := d.Difference, c.endedEarly(p), ""
	if early == "" {
		only = c.onlyInOne(p)
	}
	if early != "" || only != "" { // the two means over all jobs would count different jobs
		var n int
		switch was, is, n = p.Jobs.bothStarted(); {
		case n == 0 && early != "" && p.Jobs.Matched > 0: // without a common job there is another reason
			return fmt.Sprintf("No job starts in both %s and %s, because %s ended early.", name(p.Baseline), name(p.Set), early)
		case n == 0:
			return fmt.Sprintf("%sNo job starts in both %s and %s.", only, name(p.Baseline), name(p.Set))
		}
		change, jobs = is-was, fmt.Sprintf("jobs that start in both (%d)", n)
	}
	var text string
	texts := waitTexts(wait, is, was)
	switch {
	case c.sameSchedule(p):
		text = fmt.Sprintf("The schedules are identical: on average, %s wait %s in both %s and %s", jobs, texts[0],
			name(p.Baseline), name(p.Set))
	case math.Abs(float64(change)) < 0.5 && texts[0] == texts[1]:
		text = fmt.Sprintf("On average, %s wait as long in %s as in %s: %s", jobs, name(p.Set), name(p.Baseline),
			texts[0])
	case math.Abs(float64(change)) < 0.5:
		text = fmt.Sprintf("On average, %s wait about as long in %s as in %s: %s and %s", jobs, name(p.Set),
			name(p.Baseline), texts[0], texts[1])
	default:
		how := "longer"
		if change < 0 {
			how = "shorter"
		}
		text = fmt.Sprintf("On average, %s wait %s %s in %s than in %s: %s instead of %s", jobs,
			quantity.Duration(metrics.Float(math.Abs(float64(change)))), how, name(p.Set), name(p.Baseline), texts[0],
			texts[1])
	}
	text = only + text + c.reaction(p) + c.rejections(p.Set, p)
	const tables = " The tables count all jobs that each side has."
	switch {
	case early != "":
		return text + "; no other job counts here, because " + early + " ended early." + tables
	case only != "":
		return text + "; no other job counts here." + tables
	}
	text += startedInOne(p, d.Difference)
	if use, d := c.figure("utilization", p); use != nil && d.Difference.Known() {
		before, after := quantity.Percent(use.Sets[p.Baseline].Mean), quantity.Percent(use.Sets[p.Set].Mean)
		if before != after {
			text += fmt.Sprintf("; jobs hold %s of the machine instead of %s", after, before)
		}
	}
	return text + c.lost(p) + c.chance(p, wait, d, texts[0] != texts[1]) + "."
}

// chance returns a clause that says whether the difference of the mean waits may be chance; "" if there is no clause.
// visible says whether the two means differ as they are printed.
func (c *Comparison) chance(p *Pair, wait *Metric, d *MetricDifference, visible bool) (text string) {
	switch {
	case d.Difference == 0, c.Inference && !d.P.Known(): // if the waits are equal, there is nothing to test
	case !c.Inference && p.Periods != nil && len(p.Periods.Quantities) > 0 && p.Periods.Quantities[0].P.Known():
		of := "this difference"
		if len(c.Sets[p.Baseline].Runs)+len(c.Sets[p.Set].Runs) > 2 {
			of = "the difference of the first runs"
		}
		text += fmt.Sprintf(". A test of %s, which permutes whole days, gives p = %s", of,
			quantity.Probability(p.Periods.Quantities[0].P))
	case !c.Inference && !visible:
	case !c.Inference:
		text += ". These runs do not show how much of this difference is chance"
	case float64(d.P) <= 1-c.Level:
		text += fmt.Sprintf(". The mean waits differ by more than chance (p = %s, not corrected for other figures)",
			quantity.Probability(d.P))
	case c.enough(wait, d) > 0:
		text += fmt.Sprintf(". A test of so few runs (%d and %d) cannot show that mean waits differ, however much they do "+
			"(want %d or more on each side)", wait.Sets[p.Baseline].Runs, wait.Sets[p.Set].Runs, c.enough(wait, d))
	default:
		text += fmt.Sprintf(". The difference of the mean waits may be chance (p = %s)", quantity.Probability(d.P))
	}
	return text
}

// sameSchedule reports whether a pair consists of two runs with the same jobs, and all jobs have the same times and
// nodes.
func (c *Comparison) sameSchedule(p *Pair) bool {
	v := &p.Jobs
	return len(c.Sets[p.Baseline].Runs) == 1 && len(c.Sets[p.Set].Runs) == 1 && len(p.Divergences) == 0 &&
		v.Matched > 0 && v.EqualIDs+v.NotReached+v.Only[0]+v.Only[1] == 0 &&
		v.Submit.MeanAbs == 0 && v.Start.MeanAbs == 0 && v.Wait.MeanAbs == 0 && v.RunTime.MeanAbs == 0
}

// reaction returns a clause about the users who react on exactly one side; else "".
func (c *Comparison) reaction(p *Pair) string {
	for _, at := range []int{p.Baseline, p.Set} {
		if other := p.Set + p.Baseline - at; c.Sets[at].reacts && !c.Sets[other].reacts {
			return fmt.Sprintf(", but these waits are not comparable, because only the users of %s react (compare machines by "+
				"lateness)", Letter(at))
		}
	}
	return ""
}

// lost returns a clause about the lost processor time; "" if it hardly changes.
func (c *Comparison) lost(p *Pair) string {
	lost, d := c.figure("lost_processor_s", p)
	if lost == nil || !d.Difference.Known() {
		return ""
	}
	before, after := lost.Sets[p.Baseline].Mean/3600, lost.Sets[p.Set].Mean/3600
	if math.Abs(float64(after-before)) <= notable*float64(max(before, after)) {
		return ""
	}
	return fmt.Sprintf("; runs that did not complete use %s processor hours instead of %s", after.Text(), before.Text())
}

// notable is the share by which the lost processor time changes if the answer names it.
const notable = 0.1

// waitTexts formats mean waits as durations in their two largest units. If different waits would then have the same
// text, it formats them in seconds, as the table of figures does.
func waitTexts(wait *Metric, means ...metrics.Float) []string {
	durations, seconds := make([]string, len(means)), make([]string, len(means))
	for i, mean := range means {
		durations[i], seconds[i] = quantity.Duration(mean), wait.Format(mean)+quantity.Space+"s"
	}
	different := func(texts []string) int { return len(slices.Compact(slices.Sorted(slices.Values(texts)))) }
	if different(durations) < different(seconds) {
		return seconds
	}
	return durations
}

// endedEarly returns the letters of those sides of a pair that have a run that ended early; "" without such a side.
func (c *Comparison) endedEarly(p *Pair) string {
	var list []string
	for _, set := range []int{p.Baseline, p.Set} {
		if slices.ContainsFunc(c.Sets[set].Runs, func(r RunInfo) bool { return ended(r.State) }) {
			list = append(list, Letter(set))
		}
	}
	return strings.Join(list, " and ")
}

// enough returns the smallest number of runs on each side with which the test of a difference can be significant. It
// returns 0 if the difference has enough runs, or if even a thousand runs are too few.
func (c *Comparison) enough(m *Metric, d *MetricDifference) int {
	significant := func(runs, others int) bool {
		return stats.SmallestOf(d.Paired, runs, others) <= 1-c.Level
	}
	if significant(m.Sets[d.Baseline].Runs, m.Sets[d.Set].Runs) {
		return 0
	}
	return max(fewRuns, c.runsFor(1, d.Paired))
}

// fewJobs is the largest share of jobs that count as few: without these jobs the mean wait hardly changes.
const fewJobs = 0.01

// rejections returns a text about the share of jobs that a set rejects, because rejected jobs have
// no waits. It returns "" if these jobs are few ([fewJobs]).
func (c *Comparison) rejections(set int, p *Pair) string {
	rejected, _ := c.figure("rejected", p)
	if rejected == nil || len(c.Sets[set].Runs) == 0 {
		return ""
	}
	n, jobs := float64(rejected.Sets[set].Mean), float64(c.Sets[set].Runs[0].Jobs)
	if !(n > fewJobs*jobs) {
		return ""
	}
	return fmt.Sprintf("; %s of its jobs were rejected and have no waits", quantity.Percent(metrics.Float(n/jobs)))
}

// onlyInOne returns a text about the jobs that are in the workload of one side only, and about the other jobs that
// start on one side only. It returns "" if these jobs are few ([fewJobs]), or if two samples of jobs are compared.
func (c *Comparison) onlyInOne(p *Pair) string {
	var list []string
	all, only := p.Jobs.Matched, 0
	add := func(side, n int, verbs ...string) {
		if only += n; n > 0 {
			list = append(list, quantity.Regular(n, "job")+quantity.Plural(n, verbs[0], verbs[1])+" only in "+
				Letter([]int{p.Baseline, p.Set}[side]))
		}
	}
	for i, n := range p.Jobs.own {
		add(i, n, " is", " are")
		add(i, p.Jobs.startsIn[i], " starts", " start")
	}
	if p.Periods != nil || float64(only) <= fewJobs*float64(all+only) {
		return ""
	}
	return strings.Join(list, ", and ") + jobrows.TwiceText(p.Jobs.twice) + ". "
}

// startedInOne returns a text about the jobs that start in only one of two sets, or in a smaller share of its runs.
// The parameter difference is the difference of all waits. If the difference over the jobs that start in both sets has
// the opposite sign, the text also has that difference.
func startedInOne(p *Pair, difference metrics.Float) (text string) {
	v := &p.Jobs
	add := func(n int, where, how string) {
		if n > 0 {
			text += fmt.Sprintf("; %s in %s, so %s there %s", quantity.Plural(n, "1 job starts", fmt.Sprint(n, " jobs start")),
				where, quantity.Plural(n, "its wait counts", "their waits count"), how)
		}
	}
	add(v.startsIn[0]+v.startsIn[1], "only one of the two", "only")
	add(v.fewer[0], fmt.Sprintf("a smaller share of the runs of %s than of %s", Letter(p.Baseline), Letter(p.Set)), "less")
	add(v.fewer[1], fmt.Sprintf("a smaller share of the runs of %s than of %s", Letter(p.Set), Letter(p.Baseline)), "less")
	if text == "" {
		return ""
	}
	if both := v.Wait.Mean; both*difference < 0 && math.Abs(float64(both)) >= 0.5 {
		text += fmt.Sprintf(" (the jobs that start in both wait %s %s)",
			quantity.Duration(metrics.Float(math.Abs(float64(both)))),
			map[bool]string{true: "longer", false: "shorter"}[both > 0])
	}
	return text
}

// leavesOut reports whether two samples of jobs are compared, and one of them leaves out jobs that ran when its window
// began. The utilization is then a lower bound, and its difference is not known.
func (c *Comparison) leavesOut(p *Pair) bool {
	return p.Periods != nil && c.Sets[p.Baseline].left+c.Sets[p.Set].left != ""
}

// onlyBounds removes the difference of a set's utilization, and marks the utilization as a lower bound.
func (c *Comparison) onlyBounds(set int) {
	for _, table := range [][]Metric{c.Metrics, c.Nodes} {
		for i := range table {
			m := &table[i]
			ofNodes := slices.ContainsFunc(metrics.NodeFigures, func(f metrics.Figure) bool { return f.Key == m.Key })
			switch {
			case m.Key == "utilization":
				m.Label = "utilization, at least"
			case !ofNodes:
				continue
			}
			if d := m.difference(set); d != nil {
				d.Difference, d.Relative = metrics.NoValue(), metrics.NoValue()
				d.withoutChance()
			}
		}
		adjust(table)
	}
}

// figure returns a metric and its difference in a pair. Both are nil if the comparison lacks this metric.
func (c *Comparison) figure(key string, p *Pair) (*Metric, *MetricDifference) {
	for _, table := range [][]Metric{c.Metrics, c.Lost} {
		for i := range table {
			for k := range table[i].Differences {
				if d := &table[i].Differences[k]; table[i].Key == key && d.Set == p.Set && d.Baseline == p.Baseline {
					return &table[i], d
				}
			}
		}
	}
	return nil, nil
}

// unexplained is a share of the waits. If at least this share has no known reason, the figures of the known reasons
// are only lower bounds.
const unexplained = 0.05

// Unexplained returns a text about the share of a set's waits without a known reason; "" if the share is below
// [unexplained]. The other parts of the waits may be larger than the figures say.
func (c *Comparison) Unexplained(set int) string {
	total, unknown := 0.0, 0.0
	for i := range c.Waits {
		part, isPart := strings.CutPrefix(c.Waits[i].Key, "mean_wait_")
		mean := float64(c.Waits[i].Sets[set].Mean)
		if !isPart || strings.HasPrefix(part, "since_") || math.IsNaN(mean) {
			continue
		}
		if total += mean; part == string(waits.Unknown)+"_s" {
			unknown = mean
		}
	}
	if total == 0 || unknown/total < unexplained {
		return ""
	}
	return fmt.Sprintf("%s: for %s of the waits the record does not say why, so each other part may be larger",
		Letter(set), quantity.Percent(metrics.Float(unknown/total)))
}

// order returns a text that ranks three or more sets by their mean waits. Sets with runs that are not valid are last.
// It returns "" for two sets.
func (c *Comparison) order() string {
	if len(c.Sets) < 3 {
		return ""
	}
	valid := func(set int) bool {
		return !slices.ContainsFunc(c.Sets[set].Runs, func(r RunInfo) bool { return !r.Valid })
	}
	for i := range c.Metrics {
		m := &c.Metrics[i]
		if m.Key != "mean_wait_s" {
			continue
		}
		sets := []int{}
		for set := range c.Sets {
			if m.Sets[set].Mean.Known() {
				sets = append(sets, set)
			}
		}
		slices.SortFunc(sets, func(a, b int) int {
			if valid(a) != valid(b) {
				return map[bool]int{true: -1, false: 1}[valid(a)]
			}
			return cmp.Or(cmp.Compare(m.Sets[a].Mean, m.Sets[b].Mean), cmp.Compare(a, b))
		})
		var list []string
		means := make([]metrics.Float, len(sets))
		for k, set := range sets {
			means[k] = m.Sets[set].Mean
		}
		for k, wait := range waitTexts(m, means...) {
			set := sets[k]
			text := Letter(set) + " " + wait
			if c.Sets[set].reacts && slices.ContainsFunc(c.Sets, func(s SetInfo) bool { return !s.reacts }) {
				text += " (users react: not comparable)"
			}
			if !valid(set) {
				text += " (not valid)"
			}
			list = append(list, text)
		}
		return "mean wait, the shortest first: " + strings.Join(list, ", ")
	}
	return ""
}
