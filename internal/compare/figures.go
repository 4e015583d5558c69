package compare

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"rmreplay/internal/compare/draws"
	"rmreplay/internal/fairstart"
	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/run"
	"rmreplay/internal/stats"
)

// detectPower is the probability with which a detectable difference is detected.
const detectPower = 0.8

// Metric is one figure over all sets.
type Metric struct {
	Key    string         `json:"key"` // the key in `metrics --json`
	Label  string         `json:"label"`
	Unit   string         `json:"unit"`
	Better metrics.Better `json:"better"`
	Sets   []Estimate     `json:"sets"`
	// Differences has an element for each set after the first. It compares the set with the first set.
	Differences []MetricDifference `json:"differences"`
}

// Estimate is the mean of a figure over the runs of a set, with its expanded BCa interval (see [stats.Bootstrap]).
type Estimate struct {
	Runs      int             `json:"runs"` // runs in which the figure has a value
	Mean      metrics.Float   `json:"mean"`
	Low       metrics.Float   `json:"low"`
	High      metrics.Float   `json:"high"`
	Deviation metrics.Float   `json:"standard_deviation"` // standard deviation of a single run
	Values    []metrics.Float `json:"values"`             // the value of each run
}

// MetricDifference is the difference of a set from the baseline in one figure. If the set or the baseline has only one
// run, only Set, Baseline, Difference and Relative have a value.
type MetricDifference struct {
	Set        int           `json:"set"`
	Baseline   int           `json:"baseline"`
	Difference metrics.Float `json:"difference"` // mean of the set − mean of the baseline
	Low        metrics.Float `json:"low"`
	High       metrics.Float `json:"high"`
	// Relative is difference / mean of the baseline, with its own interval.
	Relative     metrics.Float `json:"relative"`
	RelativeLow  metrics.Float `json:"relative_low"`
	RelativeHigh metrics.Float `json:"relative_high"`
	// P is the p-value of [stats.MeanTest]. PAdjusted is corrected by Holm's method for all
	// figures of the table that vary.
	P         metrics.Float `json:"p"`
	PAdjusted metrics.Float `json:"p_holm"`
	Exact     bool          `json:"p_exact"`
	// HedgesG and CliffsDelta are effect sizes (see package stats).
	HedgesG     metrics.Float `json:"hedges_g"`
	CliffsDelta metrics.Float `json:"cliffs_delta"`
	// Detectable is the true difference that a test with this number of runs detects in 80 % of
	// cases.
	Detectable metrics.Float `json:"detectable_difference"`
	// Paired says that the runs of both sets belong together in pairs, which have the same workload
	// and seed. Intervals and P are then computed from the differences within pairs. HedgesG, CliffsDelta and
	// Detectable have no value.
	Paired bool `json:"paired,omitempty"`
}

// withoutChance removes the values that depend on how much runs differ by chance.
func (d *MetricDifference) withoutChance() {
	none := metrics.NoValue()
	d.Low, d.High, d.RelativeLow, d.RelativeHigh, d.P, d.PAdjusted = none, none, none, none, none, none
	d.Exact, d.HedgesG, d.CliffsDelta, d.Detectable = false, none, none, none
}

// gauge is one figure with its value in each run of each set.
type gauge struct {
	metrics.Figure
	values [][]metrics.Float
}

// any reports whether a run has a value other than 0.
func (q *gauge) any() bool {
	return slices.ContainsFunc(slices.Concat(q.values...), func(v metrics.Float) bool { return v.Known() && v != 0 })
}

// Reacted reports whether the users of a run reacted. A run in which only jitter moved submissions
// also has a lateness, but this does not describe its users.
func Reacted(m *run.Manifest) bool { return m.Feedback != nil && m.Feedback.Model != "none" }

// measured are the figures of a run.
type measured struct {
	metrics.Metrics
	feedback *metrics.Feedback // nil if the run's users did not react
	served   map[metrics.By]metrics.Fairness
	groups   map[metrics.By][]metrics.Group
	started  *metrics.FairStart // nil unless fair start times were requested
	io       *metrics.IO        // nil unless a run has file systems
}

// measure computes the figures of a run. If submitted is not 0 ([table.submitted]), only the jobs that were submitted
// since then count ([metrics.Options.LeavesOut]). Figures over time then end with the last submission: after it the
// machine only finishes its jobs, which takes longer in some windows. The parameter shared says that some run has file
// systems that jobs share.
func measure(rows []run.Row, m *run.Manifest, submitted hpc.Time, shared bool, opts Options) (of measured, err error) {
	how := metrics.Options{Tau: opts.Tau, SubmittedFrom: submitted}
	for i := 0; submitted != 0 && i < len(rows); i++ {
		how.To = max(how.To, rows[i].Submit)
	}
	summary := metrics.NewSummary(rows, m, how, opts.By...)
	of = measured{Metrics: summary.Metrics, feedback: summary.Feedback, served: summary.Fairness, groups: summary.Groups}
	if shared {
		if of.io, err = ioOf(rows, m, how); err != nil {
			return of, err
		}
	}
	if opts.FairStart != "" {
		of.started, err = fairstart.Compute(rows, m, string(opts.FairStart), how)
	}
	return of, err
}

// quantitiesOf returns figures of all runs: the main figures (with lost runs and lateness if at least one run has
// them), and the figures of nodes, of lost work, of reasons for waits, and of fairness.
func quantitiesOf(tables [][]table, opts Options) (figures, nodes, lost, waiting, fairness []gauge) {
	for _, f := range metrics.Figures {
		figures = append(figures, newGauge(f, tables, func(t *table) metrics.Float { return f.Of(&t.Metrics) }))
	}
	for _, of := range []struct {
		list *[]gauge
		from []metrics.Figure
	}{
		{&figures, metrics.LossFigures}, {&nodes, metrics.NodeFigures}, {&lost, metrics.LostFigures},
		{&waiting, metrics.WaitFigures},
	} {
		for _, f := range of.from {
			q := newGauge(f, tables, func(t *table) metrics.Float { return f.Of(&t.Metrics) })
			if q.any() {
				*of.list = append(*of.list, q)
			}
		}
	}
	if anyOf(tables, func(t *table) bool { return Reacted(t.Manifest) }) {
		for _, f := range metrics.FeedbackFigures {
			figures = append(figures, newGauge(f.Figure, tables, func(t *table) metrics.Float {
				if t.feedback == nil {
					return metrics.NoValue()
				}
				return f.Of(t.feedback)
			}))
		}
	}
	for _, f := range metrics.FairnessFigures {
		// With only one group, all groups are always served equally.
		if anyOf(tables, func(t *table) bool { return t.served[f.By].Groups > 1 }) {
			fairness = append(fairness, newGauge(f.Figure, tables, func(t *table) metrics.Float { return f.Of(t.served[f.By]) }))
		}
	}
	if opts.FairStart != "" {
		for _, f := range metrics.FairStartFigures {
			fairness = append(fairness, newGauge(f.Figure, tables, func(t *table) metrics.Float { return f.Of(t.started) }))
		}
	}
	return figures, nodes, lost, waiting, fairness
}

func anyOf(tables [][]table, is func(*table) bool) bool {
	for _, runs := range tables {
		for k := range runs {
			if is(&runs[k]) {
				return true
			}
		}
	}
	return false
}

// newGauge returns a figure of all runs.
func newGauge(f metrics.Figure, tables [][]table, value func(*table) metrics.Float) gauge {
	q := gauge{f, make([][]metrics.Float, len(tables))}
	for i, runs := range tables {
		q.values[i] = make([]metrics.Float, len(runs))
		for k := range runs {
			q.values[i][k] = value(&runs[k])
		}
	}
	return q
}

// compareQuantities returns the table of figures.
func compareQuantities(list []gauge, opts Options) []Metric {
	var table []Metric
	for _, q := range list {
		m := Metric{Key: q.Key, Label: q.Label, Unit: q.Unit, Better: q.Better, Differences: []MetricDifference{}}
		var baseline []float64
		for i, values := range q.values {
			known := make([]float64, 0, len(values))
			for _, v := range values {
				if v.Known() {
					known = append(known, float64(v))
				}
			}
			e := Estimate{Values: values}
			e.summarize(known, opts)
			m.Sets = append(m.Sets, e)
			if i == 0 {
				baseline = known
				continue
			}
			d := difference(i, baseline, known, opts)
			if opts.pairs != nil && opts.pairs[i] != nil {
				pairUp(&d, q.values[0], values, opts.pairs[i], opts)
			}
			m.Differences = append(m.Differences, d)
		}
		table = append(table, m)
	}
	adjust(table)
	return table
}

func (e *Estimate) summarize(values []float64, opts Options) {
	e.Runs = len(values)
	interval := stats.Bootstrap(stats.Mean, opts.bootstrap(), values)
	e.Mean, e.Low, e.High = metrics.Float(interval.Estimate), metrics.Float(interval.Low), metrics.Float(interval.High)
	e.Deviation = metrics.NoValue()
	if len(values) > 1 {
		e.Deviation = metrics.Float(stat.StdDev(values, nil))
	}
}

func difference(set int, a, b []float64, opts Options) MetricDifference {
	nothing := metrics.NoValue()
	d := MetricDifference{
		Set: set, P: nothing, PAdjusted: nothing, HedgesG: nothing, CliffsDelta: nothing, Detectable: nothing,
	}
	absolute := stats.Bootstrap(stats.Difference, opts.bootstrap(), a, b)
	d.Difference, d.Low, d.High = metrics.Float(absolute.Estimate), metrics.Float(absolute.Low),
		metrics.Float(absolute.High)
	relative := stats.Bootstrap(stats.Relative, opts.bootstrap(), a, b)
	d.Relative, d.RelativeLow, d.RelativeHigh = metrics.Float(relative.Estimate), metrics.Float(relative.Low),
		metrics.Float(relative.High)
	if len(a) < 2 || len(b) < 2 {
		return d
	}
	t := stats.MeanTest(a, b, opts.test())
	d.P, d.Exact = metrics.Float(t.P), t.Exact
	d.HedgesG = metrics.Float(t.Effect)
	d.CliffsDelta = metrics.Float(stats.CliffsDelta(a, b))
	d.Detectable = metrics.Float(stats.DetectableDifference(a, b, 1-opts.Level, detectPower))
	return d
}

// adjust corrects the p-values of a table for their number (Holm). Figures that are equal in all
// runs do not count, because they cannot differ by chance.
func adjust(table []Metric) {
	var all []float64
	var where []*metrics.Float
	for i := range table {
		for k := range table[i].Differences {
			d := &table[i].Differences[k]
			if d.constant() {
				d.PAdjusted = d.P
				continue
			}
			all = append(all, float64(d.P))
			where = append(where, &d.PAdjusted)
		}
	}
	for i, p := range stats.Holm(all) {
		*where[i] = metrics.Float(p)
	}
}

// constant reports whether the figure is equal in all runs of both sides.
func (d *MetricDifference) constant() bool { return d.Low == 0 && d.High == 0 }

// correctedFor returns the number of p-values for which the p-values of a table are corrected.
func correctedFor(table []Metric) (n int) {
	for i := range table {
		for k := range table[i].Differences {
			if d := &table[i].Differences[k]; d.P.Known() && !d.constant() {
				n++
			}
		}
	}
	return n
}

// Group is the table of figures for one group of jobs.
type Group struct {
	Name    string          `json:"name"` // empty for jobs without the property
	Jobs    []metrics.Float `json:"jobs"` // jobs with a wait ([metrics.Metrics.Waited]), as means over each set's runs
	Metrics []Metric        `json:"metrics"`
}

// compareGroups compares the groups of one grouping. The p-values of a group are corrected for the
// number of its figures, and not for the number of groups.
func compareGroups(tables [][]table, by metrics.By, opts Options) []Group {
	var names []string
	found := map[string]map[*table]*metrics.Metrics{}
	for i := range tables {
		for k := range tables[i] {
			t := &tables[i][k]
			for g := range t.groups[by] {
				name := t.groups[by][g].Name
				if found[name] == nil {
					found[name] = map[*table]*metrics.Metrics{}
					names = append(names, name)
				}
				found[name][t] = &t.groups[by][g].Metrics
			}
		}
	}
	slices.SortFunc(names, func(a, b string) int { return metrics.CompareGroups(by, a, b) })
	groups := make([]Group, len(names))
	for n, name := range names {
		groups[n] = Group{Name: name, Jobs: make([]metrics.Float, len(tables))}
		for i := range tables {
			for k := range tables[i] {
				if m := found[name][&tables[i][k]]; m != nil {
					groups[n].Jobs[i] += metrics.Float(m.Waited)
				}
			}
			groups[n].Jobs[i] /= metrics.Float(len(tables[i]))
		}
		var list []gauge
		for _, f := range metrics.GroupFigures {
			list = append(list, newGauge(f, tables, func(t *table) metrics.Float {
				if m := found[name][t]; m != nil {
					return f.Of(m)
				}
				return f.OfNone()
			}))
		}
		groups[n].Metrics = compareQuantities(list, opts)
	}
	return groups
}

// ByChange returns the groups sorted by change. The group whose sum of waits grows most from the baseline to the set
// is first, and the group whose sum of waits shrinks most is last.
func ByChange(groups []Group, set int) []*Group {
	list := make([]*Group, len(groups))
	for i := range groups {
		list[i] = &groups[i]
	}
	slices.SortStableFunc(list, func(a, b *Group) int {
		x, _ := a.change(groups, set)
		y, _ := b.change(groups, set)
		return cmp.Compare(y, x)
	})
	return list
}

// change returns by how much the sum of a group's waits in a set differs from the baseline, in seconds,
// and its share of the changes of all groups. Both are 0 if the waits are not known.
func (g *Group) change(groups []Group, set int) (sum, share metrics.Float) {
	all := metrics.Float(0)
	for i := range groups {
		for k := range groups[i].Metrics {
			m := &groups[i].Metrics[k]
			if d := m.difference(set); m.Key == "total_wait_s" && d != nil && d.Difference.Known() {
				all += metrics.Float(math.Abs(float64(d.Difference)))
				if groups[i].Name == g.Name {
					sum = d.Difference
				}
			}
		}
	}
	if all > 0 {
		share = metrics.Float(math.Abs(float64(sum))) / all
	}
	return sum, share
}

// Significant reports whether the difference is significant at the given confidence level
// after the correction for the whole table.
func (d *MetricDifference) Significant(level float64) bool {
	return d.PAdjusted.Known() && float64(d.PAdjusted) <= 1-level && !math.IsNaN(float64(d.Difference))
}

// drawsOf returns the intervals over the draws of a pair's set or, if the set has no draws, of the baseline. It
// returns nil if neither has draws.
func (c *Comparison) drawsOf(sets []Set, pair [2]int) *draws.Result {
	for _, at := range []int{pair[1], pair[0]} {
		var runs []*run.Manifest
		for _, r := range sets[at].Runs {
			runs = append(runs, r.Manifest)
		}
		if len(runs) < 2 || !draws.Alike(runs) {
			continue
		}
		other := pair[0] + pair[1] - at
		record := len(sets[other].Runs) == 1 && sets[other].Runs[0].Manifest.Engine == run.EngineRecorded
		d := &draws.Result{Set: at, Figures: []draws.Figure{}, Fields: []draws.FieldShare{}}
		for i := range c.Metrics {
			m := &c.Metrics[i]
			if !slices.Contains(draws.Keys, m.Key) {
				continue
			}
			recorded := metrics.NoValue()
			if record {
				recorded = m.Sets[other].Mean
			}
			f := draws.NewFigure(m.Key, m.Label, m.Sets[at].Values, recorded, c.Level)
			if f.Draws == 0 {
				continue // no job started
			}
			d.Figures = append(d.Figures, f)
			if m.Key == draws.Variable {
				d.Fields = draws.Shares(runs, m.Sets[at].Values, c.Level)
			}
		}
		return d
	}
	return nil
}
