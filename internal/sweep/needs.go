package sweep

import (
	"cmp"
	"fmt"
	"math"
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

// Need says how many seeds are needed to detect a difference of a figure between two cells. The
// test is the test of `rmreplay compare` at 5 %, without the correction for several figures. It
// must detect the difference in 80 % of cases. The number rests on three assumptions: runs are
// independent, they are normally distributed, and the runs of every cell have the same variance as
// the complete runs.
type Need struct {
	Key string `json:"key"` // a key of [metrics.Figures]
	// Mean is the mean of the cells' means. Deviation is the standard deviation of runs within a cell,
	// pooled over all cells. Freedom is the number of degrees of freedom of Deviation: the number of
	// runs less the number of cells.
	Mean      metrics.Float `json:"mean"`
	Deviation metrics.Float `json:"standard_deviation"`
	Freedom   int           `json:"degrees_of_freedom"`
	// Seeds is the number of seeds of the experiment. Detectable is the smallest difference that
	// these seeds can detect; null if there are too few seeds to detect any difference.
	Seeds      int           `json:"seeds"`
	Detectable metrics.Float `json:"detectable_difference"`
	// For10 and For5 are the numbers of seeds that detect differences of 10 % and 5 % of the mean; 0 if the mean
	// is 0, or if more than a million seeds are needed. One seed is enough for a figure that does not vary.
	For10 int `json:"seeds_for_10_percent"`
	For5  int `json:"seeds_for_5_percent"`
}

// needs returns the seeds that each figure of the table needs. It returns nil if no cell has two
// complete runs.
func (s *Summary) needs(seeds int) []Need {
	var list []Need
	for _, column := range columns {
		var sets [][]float64
		total, cells := 0.0, 0.0
		for _, c := range s.Cells {
			var values []float64
			for _, r := range c.Runs {
				if v := r.Metrics[column.key]; r.State == stateComplete && v.Known() {
					values = append(values, float64(v))
				}
			}
			if len(values) > 0 {
				total += stats.Mean(values)
				cells++
				sets = append(sets, values)
			}
		}
		deviation, freedom := stats.PooledDeviation(sets...)
		if freedom == 0 {
			continue
		}
		n := Need{Key: column.key, Mean: metrics.Float(total / cells), Deviation: metrics.Float(deviation), Freedom: freedom,
			Seeds: seeds, Detectable: metrics.NoValue(), For10: 1, For5: 1}
		if stats.SmallestP(seeds, seeds, stats.TestOptions{}) <= needAlpha {
			n.Detectable = metrics.Float(stats.Detectable(seeds, seeds, needAlpha, needPower) * deviation)
		}
		if deviation > 0 {
			shift := math.Abs(float64(n.Mean)) / deviation
			n.For10, n.For5 = stats.Needed(0.1*shift, needAlpha, needPower), stats.Needed(0.05*shift, needAlpha, needPower)
		}
		list = append(list, n)
	}
	return list
}

// renderNeeds writes how many seeds are needed to find differences. It writes nothing if the numbers
// are not known.
func (s *Summary) renderNeeds(b *strings.Builder) {
	if len(s.Needs) == 0 {
		return
	}
	fmt.Fprintf(b, "\nseeds to find a difference between two cells in %.0f %% of cases (test at %.0f %%)\n", 100*needPower,
		100*needAlpha)
	fmt.Fprintf(b, "%-16s  %13s  %13s  %22s  %9s  %9s\n", "", "mean of cells", "deviation",
		fmt.Sprintf("found with %d %s", s.Needs[0].Seeds,
			quantity.Plural(s.Needs[0].Seeds, "seed", "seeds")), "for 10 %", "for 5 %")
	freedom := math.MaxInt
	for i, n := range s.Needs {
		found := figure(n.Key, n.Detectable)
		if !n.Detectable.Known() {
			found = "nothing, too few"
		}
		if n.Detectable.Known() && n.Mean != 0 {
			found += fmt.Sprintf(" (%.1f %%)", 100*math.Abs(float64(n.Detectable/n.Mean)))
		}
		fmt.Fprintf(b, "%-16s  %13s  %13s  %22s  %9s  %9s\n", titleOf(s.Needs[i].Key), figure(n.Key, n.Mean),
			figure(n.Key, n.Deviation), found, seedCount(n.For10), seedCount(n.For5))
		freedom = min(freedom, n.Freedom)
	}
	b.WriteString("This assumes that runs are independent and normally distributed, with the deviation of the " +
		"complete runs.\n")
	low, high := stats.DeviationInterval(freedom, 1-needAlpha)
	fmt.Fprintf(b, "The true deviation is %.2g to %.2g times that of these runs (95 %%, %d degrees of freedom).\n", low,
		high, freedom)
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
	for _, c := range s.Cells {
		for _, r := range c.Runs {
			if r.State == stateComplete {
				o.Complete++
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s x %d %s = %d %s, of which %d are complete\n", o.Cells,
		quantity.Plural(o.Cells, "cell", "cells"), o.Seeds, quantity.Plural(o.Seeds, "seed", "seeds"), o.Runs,
		quantity.Plural(o.Runs, "run", "runs"), o.Complete)
	if s.renderNeeds(&b); len(s.Needs) == 0 {
		b.WriteString("The number of seeds that a difference needs is known when cells have runs of two or more seeds.\n")
	}
	o.text = b.String()
	return o, nil
}

// Render returns the outlook as text.
func (o *Outlook) Render() string { return o.text }

// tellNeeds reports how many seeds are needed to detect differences, if the complete runs show this.
func (m *Maker) tellNeeds() error {
	if m.Observe == nil {
		return nil
	}
	s, err := m.Plan.Summarize()
	if err != nil {
		return err
	}
	var b strings.Builder
	if s.renderNeeds(&b); b.Len() > 0 {
		m.observe(Progress{Phase: Noted, Name: strings.TrimSpace(b.String())})
	}
	return nil
}
