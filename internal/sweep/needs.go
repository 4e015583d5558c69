package sweep

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
	"rmreplay/internal/stats"
)

// The test for which [Need] counts seeds.
const (
	needAlpha = 0.05
	needPower = 0.8
)

// pilotSeeds is the number of seeds in the pilot. A sweep with more seeds reports after the pilot
// how many seeds it needs.
const pilotSeeds = 3

// Need says how many seeds are needed to detect a change of a figure from one cell, the baseline, to another. The test
// is that of `rmreplay compare` at 5 %, without the correction for several figures, and must detect the change in 80 %
// of cases. The number assumes that runs are independent and normally distributed, and that the runs of the other cell
// vary as the complete runs of the baseline and of cells like it.
type Need struct {
	Key string `json:"key"` // a key of [metrics.Figures]
	// Baseline is the valid cell that needs the most seeds to detect a change by a given share of its mean.
	Baseline string `json:"baseline"`
	// Mean is the baseline's mean. Deviation is the standard deviation of runs within a cell, pooled over the valid cells
	// whose means are between half and twice Mean. Cells with a much larger or smaller mean vary differently. Freedom is
	// the number of degrees of freedom of Deviation: the number of these cells' runs less the number of these cells.
	Mean      metrics.Float `json:"mean"`
	Deviation metrics.Float `json:"standard_deviation"`
	Freedom   int           `json:"degrees_of_freedom"`
	// Seeds is the number of seeds of the experiment. Detectable is the smallest difference from Mean that can
	// be detected with these seeds; null if there are too few seeds to detect any difference.
	Seeds      int           `json:"seeds"`
	Detectable metrics.Float `json:"detectable_difference"`
	// For10 and For5 are the numbers of seeds with which differences of 10 % and 5 % of Mean are
	// detected; 0 if the mean is 0, or if more than a million seeds are needed.
	For10 int `json:"seeds_for_10_percent"`
	For5  int `json:"seeds_for_5_percent"`
}

// sample is what the complete runs of a cell show of a figure.
type sample struct {
	cell   string
	values []float64 // one of each run
	mean   float64
}

// like reports whether the means of two samples differ by at most a factor of two.
func (a *sample) like(b *sample) bool {
	return a.mean == b.mean || a.mean*b.mean > 0 && max(a.mean/b.mean, b.mean/a.mean) <= 2
}

// oneRealization reports whether a cell has several complete runs, all with the same metrics, as with the simulator on
// a workload without a random part. Runs with equal metrics have the same schedule, and show nothing about chance.
func (c CellSummary) oneRealization() bool {
	var first map[string]metrics.Float
	n := 0
	for _, r := range c.Runs {
		if r.State != stateComplete {
			continue
		}
		if n++; n == 1 {
			first = r.Metrics
		} else if !maps.EqualFunc(first, r.Metrics, func(a, b metrics.Float) bool {
			return a == b || !a.Known() && !b.Known()
		}) {
			return false
		}
	}
	return n > 1
}

// samples returns a sample of a figure for each cell that has values of the figure, without cells that consist of one
// realization, and without cells that are not valid.
func (s *Summary) samples(key string) (list []sample) {
	for _, c := range s.Cells {
		if c.oneRealization() || !c.valid() {
			continue
		}
		var values []float64
		for _, r := range c.Runs {
			if v := r.Metrics[key]; r.State == stateComplete && v.Known() {
				values = append(values, float64(v))
			}
		}
		if len(values) > 0 {
			list = append(list, sample{c.Cell, values, stats.Mean(values)})
		}
	}
	return list
}

// baseline returns the sample that needs the most seeds to detect a change by a given share of its mean, and the
// standard deviation for it with its degrees of freedom ([Need]). Freedom is 0 if no cell has two runs.
func baseline(samples []sample) (most *sample, deviation float64, freedom int) {
	least := math.Inf(1) // mean in standard deviations
	for i := range samples {
		var alike [][]float64
		for k := range samples {
			if samples[k].like(&samples[i]) {
				alike = append(alike, samples[k].values)
			}
		}
		d, n := stats.PooledDeviation(alike...)
		if n == 0 {
			continue
		}
		shift := math.Inf(1)
		if d > 0 {
			shift = math.Abs(samples[i].mean) / d
		}
		if most == nil || shift < least {
			most, least, deviation, freedom = &samples[i], shift, d, n
		}
	}
	return most, deviation, freedom
}

// needs returns the seeds that each figure of the table needs. It returns nil if no cell has two
// complete runs with different schedules.
func (s *Summary) needs(seeds int) []Need {
	var list []Need
	for _, column := range columns {
		most, deviation, freedom := baseline(s.samples(column.key))
		if freedom == 0 {
			continue
		}
		n := Need{Key: column.key, Baseline: most.cell, Mean: metrics.Float(most.mean), Deviation: metrics.Float(deviation),
			Freedom: freedom, Seeds: seeds, Detectable: metrics.NoValue()}
		if stats.SmallestP(seeds, seeds, stats.TestOptions{}) <= needAlpha {
			n.Detectable = metrics.Float(stats.Detectable(seeds, seeds, needAlpha, needPower) * deviation)
		}
		shift := math.Abs(most.mean) / deviation // infinite if the figure does not vary
		n.For10, n.For5 = stats.Needed(0.1*shift, needAlpha, needPower), stats.Needed(0.05*shift, needAlpha, needPower)
		list = append(list, n)
	}
	return list
}

// renderNeeds writes which cells are one realization, and how many seeds are needed to find differences. It writes
// nothing if the numbers are not known.
func (s *Summary) renderNeeds(b *strings.Builder) {
	same, first := 0, ""
	for _, c := range s.Cells {
		if c.oneRealization() {
			same, first = same+1, cmp.Or(first, c.Cell)
		}
	}
	if same > 0 {
		fmt.Fprintf(b, "\nIn %d of %d cells, such as %s, all runs have the same schedule: they are one realization, and\n"+
			"show nothing about chance (want runs that differ, as with the option jitter).\n", same, len(s.Cells), first)
	}
	invalid := slices.ContainsFunc(s.Cells, func(c CellSummary) bool { return len(c.Runs) > 1 && !c.valid() })
	if len(s.Needs) == 0 {
		if invalid {
			b.WriteString("\nWithout the cells that are NOT VALID, no cell shows how many seeds a difference needs.\n")
		}
		return
	}
	fmt.Fprintf(b, "\nseeds to find a difference between two cells in %.0f %% of cases (test at %.0f %%)\n", 100*needPower,
		100*needAlpha)
	fmt.Fprintf(b, "%-16s  %13s  %13s  %22s  %9s  %9s  %s\n", "", "baseline mean", "deviation",
		fmt.Sprintf("found with %d %s", s.Needs[0].Seeds,
			quantity.Plural(s.Needs[0].Seeds, "seed", "seeds")), "for 10 %", "for 5 %", "baseline")
	freedom, most := math.MaxInt, 0
	for i, n := range s.Needs {
		found := figure(n.Key, n.Detectable)
		if !n.Detectable.Known() {
			found = "nothing, too few"
		}
		if n.Detectable.Known() && n.Mean != 0 {
			found += fmt.Sprintf(" (%.1f %%)", 100*math.Abs(float64(n.Detectable/n.Mean)))
		}
		fmt.Fprintf(b, "%-16s  %13s  %13s  %22s  %9s  %9s  %s\n", titleOf(s.Needs[i].Key), figure(n.Key, n.Mean),
			figure(n.Key, n.Deviation), found, seedCount(n.For10), seedCount(n.For5), n.Baseline)
		freedom, most = min(freedom, n.Freedom), max(most, n.Freedom)
	}
	b.WriteString("The baseline is the cell for which a change by 10 % or 5 % of its mean needs the most seeds.\n" +
		"This assumes that runs are independent and normally distributed, with the deviation of the complete runs\n" +
		"of the baseline and of all cells whose means are between half and twice the baseline's.\n")
	if invalid {
		b.WriteString("Cells that are NOT VALID do not count here.\n")
	}
	low, high := stats.DeviationInterval(freedom, 1-needAlpha)
	fewest := ""
	if freedom < most {
		fewest = "; other lines have more, and a narrower interval"
	}
	fmt.Fprintf(b, "The true deviation is %.2g to %.2g times that of these runs (95 %%, %d %s of freedom%s).\n", low,
		high, freedom, quantity.Plural(freedom, "degree", "degrees"), fewest)
}

func titleOf(key string) string {
	for _, column := range columns {
		if column.key == key {
			return column.title
		}
	}
	return key
}

func seedCount(n int) string { return cmp.Or(strings.TrimPrefix(fmt.Sprint(n), "0"), "-") }

// Outlook describes what a sweep would do. It has the numbers of planned and of complete runs and,
// if the complete runs show it, how many seeds are needed to detect differences.
type Outlook struct {
	Cells    int    `json:"cells"`
	Seeds    int    `json:"seeds"`
	Runs     int    `json:"runs"`
	Complete int    `json:"complete"` // complete runs with the same inputs and of this version
	Needs    []Need `json:"seeds_needed"`

	text string
}

// Outlook returns what the sweep would do. It makes no run and writes no file.
func (m *Maker) Outlook() (*Outlook, error) {
	m.Check()
	s, err := m.Plan.Summarize()
	if err != nil {
		return nil, err
	}
	o := &Outlook{Cells: len(m.Plan.Cells), Seeds: len(m.Plan.Experiment.Seeds), Runs: len(m.Plan.Runs), Needs: s.Needs}
	if o.Needs == nil {
		o.Needs = []Need{}
	}
	o.Complete = s.complete()
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s x %d %s = %d %s, of which %d are complete\n", o.Cells,
		quantity.Plural(o.Cells, "cell", "cells"), o.Seeds, quantity.Plural(o.Seeds, "seed", "seeds"), o.Runs,
		quantity.Plural(o.Runs, "run", "runs"), o.Complete)
	if s.renderNeeds(&b); len(s.Needs) == 0 && !slices.ContainsFunc(s.Cells, CellSummary.oneRealization) {
		b.WriteString("The number of seeds that a difference needs is known when cells have runs of two or more seeds.\n")
	}
	o.text = b.String()
	return o, nil
}

// complete returns the number of complete runs.
func (s *Summary) complete() (n int) {
	for _, c := range s.Cells {
		for _, r := range c.Runs {
			if r.State == stateComplete {
				n++
			}
		}
	}
	return n
}

// Render returns the outlook as text.
func (o *Outlook) Render() string { return o.text }

// tellNeeds reports how many seeds are needed to detect differences, if the complete runs show this and other runs are
// still to be made. The report says how many runs it is of, because the summary has other figures.
func (m *Maker) tellNeeds() error {
	if m.Observe == nil {
		return nil
	}
	s, err := m.Plan.Summarize()
	if err != nil {
		return err
	}
	complete, all := s.complete(), len(m.Plan.Runs)
	var b strings.Builder
	if s.renderNeeds(&b); b.Len() > 0 && complete < all {
		m.observe(Progress{Phase: Noted, Name: fmt.Sprintf("so far, with %d of %s:\n%s", complete,
			quantity.Regular(all, "run"), strings.TrimSpace(b.String()))})
	}
	return nil
}
