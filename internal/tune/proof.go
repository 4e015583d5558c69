package tune

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"

	"rmreplay/internal/metrics"
	"rmreplay/internal/stats"
)

// Confidence is the level of all intervals. 1 - Confidence is the level of the test.
const Confidence = 0.95

// workloadsAsUnits is the smallest number of held-out workloads with which the units of the test are
// workloads instead of runs. With five workloads, no difference could be significant.
const workloadsAsUnits = 6

// Pair is a held-out block with the measurements of the site's own setting and of the best setting.
type Pair struct {
	Workload   int // counted from 0
	Site, Best Measurement
}

// Outcome names the result of a search in one or two words.
type Outcome string

// The outcomes.
const (
	// Better: the setting is significantly better on held-out data, and fulfils the constraints.
	Better Outcome = "better"
	// NothingFound: no setting had better results than the site's own setting in the search and kept the constraints.
	NothingFound Outcome = "nothing found"
	// NotProven: the best setting of the search is not significantly better on held-out data.
	NotProven Outcome = "not proven"
	// Broken: the best setting is significantly better, but breaks a constraint on held-out data.
	Broken Outcome = "constraint broken"
	// BestFailed: a held-out run of the best setting failed or is not valid.
	BestFailed Outcome = "run failed"
)

// Proof compares a setting with the site's own setting on held-out data.
type Proof struct {
	// Unit says which results the test assumes to be independent: results of a "realization" or of a
	// "workload".
	Unit  string `json:"unit"`
	Pairs int    `json:"pairs"` // number of units
	// Site and Best are means of the objective.
	Site metrics.Float `json:"site"`
	Best metrics.Float `json:"best"`
	// Gain is the improvement by the setting, in the objective's unit; negative if the setting is
	// worse.
	Gain     metrics.Float `json:"gain"`
	GainLow  metrics.Float `json:"gain_low"`
	GainHigh metrics.Float `json:"gain_high"`
	// Relative is gain / site, with its own interval.
	Relative     metrics.Float `json:"relative_gain"`
	RelativeLow  metrics.Float `json:"relative_gain_low"`
	RelativeHigh metrics.Float `json:"relative_gain_high"`
	// P is the p-value of [stats.PairedTest], two-sided.
	P           metrics.Float `json:"p"`
	Exact       bool          `json:"p_exact"`
	SmallestP   metrics.Float `json:"smallest_p"` // the smallest p-value that this number of pairs can give
	Constraints []Kept        `json:"constraints"`
	Failure     string        `json:"failure,omitempty"`
}

// Kept says whether a setting fulfils a constraint on held-out data. Worse is the worsening in the
// metric's unit. It is negative if the metric improved.
type Kept struct {
	Metric      string        `json:"metric"`
	By          metrics.By    `json:"by,omitempty"`
	Group       string        `json:"group,omitempty"`
	Pairs       int           `json:"pairs"` // units with a pair in which both runs have the metric
	Site        metrics.Float `json:"site"`
	Best        metrics.Float `json:"best"`
	Worse       metrics.Float `json:"worse"`
	WorseLow    metrics.Float `json:"worse_low"`
	WorseHigh   metrics.Float `json:"worse_high"`
	Allowed     metrics.Float `json:"allowed"`      // in the metric's unit
	Broken      bool          `json:"broken"`       // the mean is beyond the limit
	NotExcluded bool          `json:"not_excluded"` // part of the interval is beyond the limit
	// SiteStarted and BestStarted are how many jobs started, on average over the pairs. If they differ, Site and Best
	// describe different jobs.
	SiteStarted metrics.Float `json:"site_started"`
	BestStarted metrics.Float `json:"best_started"`
}

// compareQuantities sorts by constraint, then by group.
func (g *Goal) compareQuantities(a, b Quantity) int {
	return cmp.Or(cmp.Compare(a.Constraint, b.Constraint),
		metrics.CompareGroups(g.Constraints[a.Constraint].By, a.Group, b.Group))
}

// Smallest returns the smallest p-value that held-out data can give.
func Smallest(workloads, seeds int) float64 {
	if workloads >= workloadsAsUnits {
		return stats.SmallestPairedP(workloads, stats.TestOptions{})
	}
	return stats.SmallestPairedP(workloads*seeds, stats.TestOptions{})
}

// Prove tests a setting on held-out pairs.
func (g *Goal) Prove(pairs []Pair, seed uint64) (*Proof, Outcome) {
	pairs = different(pairs)
	p := &Proof{Unit: "realization", Constraints: []Kept{}}
	workloads := map[int]bool{}
	for _, pair := range pairs {
		workloads[pair.Workload] = true
		if f := pair.Best.Failure; f != "" {
			p.Failure = f
		}
	}
	if len(workloads) >= workloadsAsUnits {
		p.Unit = "workload"
	}
	nothing := metrics.NoValue()
	p.Site, p.Best, p.Gain, p.GainLow, p.GainHigh, p.P = nothing, nothing, nothing, nothing, nothing, nothing
	p.Relative, p.RelativeLow, p.RelativeHigh = nothing, nothing, nothing
	if p.Failure != "" {
		return p, BestFailed
	}
	site, best := p.units(pairs, func(pair Pair) (a, b float64, ok bool) {
		return pair.Site.Objective, pair.Best.Objective,
			true
	})
	p.Pairs = len(site)
	p.SmallestP = metrics.Float(stats.SmallestPairedP(p.Pairs, stats.TestOptions{}))
	gains := make([]float64, len(site))
	for i := range site {
		gains[i] = -worsening(g.Lower, site[i], best[i])
	}
	options := stats.BootstrapOptions{Level: Confidence, Seed: seed}
	p.Site, p.Best = metrics.Float(stats.Mean(site)), metrics.Float(stats.Mean(best))
	gain := stats.Bootstrap(stats.Mean, options, gains)
	p.Gain, p.GainLow, p.GainHigh = metrics.Float(gain.Estimate), metrics.Float(gain.Low), metrics.Float(gain.High)
	relative := stats.PairedBootstrap(func(samples ...[]float64) float64 {
		base := math.Abs(stats.Mean(samples[0]))
		if base == 0 {
			return math.NaN()
		}
		return stats.Mean(samples[1]) / base
	}, options, site, gains)
	p.Relative, p.RelativeLow, p.RelativeHigh = metrics.Float(relative.Estimate), metrics.Float(relative.Low),
		metrics.Float(relative.High)
	test := stats.PairedTest(gains, stats.TestOptions{Seed: seed})
	p.P, p.Exact = metrics.Float(test.P), test.Exact
	p.Constraints = g.kept(p, pairs, options)
	switch {
	case !(test.P <= 1-Confidence) || gain.Estimate <= 0:
		return p, NotProven
	case slices.ContainsFunc(p.Constraints, func(k Kept) bool { return k.Broken }):
		return p, Broken
	}
	return p, Better
}

// different removes pairs that equal an earlier pair of the same workload. An engine without random
// numbers makes the same run for every seed, so equal pairs are only one observation.
func different(pairs []Pair) []Pair {
	var list []Pair
	for _, p := range pairs {
		if !slices.ContainsFunc(list, func(q Pair) bool { return reflect.DeepEqual(p, q) }) {
			list = append(list, p)
		}
	}
	return list
}

// units returns the values of pairs, or their means over the pairs of each workload if workloads are
// the units. Pairs without a value do not count.
func (p *Proof) units(pairs []Pair, of func(Pair) (site, best float64, ok bool)) (site, best []float64) {
	at := map[int]int{}
	var number []float64
	for i, pair := range pairs {
		a, b, ok := of(pair)
		if !ok {
			continue
		}
		key := i
		if p.Unit == "workload" {
			key = pair.Workload
		}
		k, have := at[key]
		if !have {
			k = len(site)
			at[key] = k
			site, best, number = append(site, 0), append(best, 0), append(number, 0)
		}
		site[k] += a
		best[k] += b
		number[k]++
	}
	for k := range site {
		site[k] /= number[k]
		best[k] /= number[k]
	}
	return site, best
}

// kept tests each constraint, for each group of jobs that the constraint is about.
func (g *Goal) kept(p *Proof, pairs []Pair, options stats.BootstrapOptions) []Kept {
	var list []Quantity
	for _, pair := range pairs {
		for q := range pair.Site.Limited {
			if !slices.Contains(list, q) {
				list = append(list, q)
			}
		}
	}
	slices.SortFunc(list, g.compareQuantities)
	out := []Kept{}
	for _, q := range list {
		c := &g.Constraints[q.Constraint]
		site, best := p.units(pairs, func(pair Pair) (a, b float64, ok bool) {
			a, have := pair.Site.Limited[q]
			b, ok = pair.Best.Limited[q]
			return a, b, ok && have
		})
		k := Kept{Metric: c.Metric, By: c.By, Group: q.Group, Pairs: len(site)}
		if len(site) == 0 {
			k.Site, k.Best, k.Worse, k.WorseLow, k.WorseHigh, k.Allowed = metrics.NoValue(), metrics.NoValue(),
				metrics.NoValue(), metrics.NoValue(), metrics.NoValue(), metrics.NoValue()
			k.SiteStarted, k.BestStarted = metrics.NoValue(), metrics.NoValue()
			out = append(out, k)
			continue
		}
		worse := make([]float64, len(site))
		for i := range site {
			worse[i] = worsening(c.Lower, site[i], best[i])
		}
		k.Site, k.Best = metrics.Float(stats.Mean(site)), metrics.Float(stats.Mean(best))
		started, also := p.units(pairs, func(pair Pair) (a, b float64, ok bool) {
			n, have := pair.Site.Started[q]
			m, ok := pair.Best.Started[q]
			return float64(n), float64(m), ok && have
		})
		k.SiteStarted, k.BestStarted = metrics.Float(stats.Mean(started)), metrics.Float(stats.Mean(also))
		interval := stats.Bootstrap(stats.Mean, options, worse)
		k.Worse, k.WorseLow, k.WorseHigh = metrics.Float(interval.Estimate), metrics.Float(interval.Low),
			metrics.Float(interval.High)
		allowed := max(c.allowed(float64(k.Site)), c.Ignore)
		k.Allowed = metrics.Float(allowed)
		k.Broken = c.excess(float64(k.Site), float64(k.Best)) > 0
		k.NotExcluded = !k.Broken && interval.High > allowed
		out = append(out, k)
	}
	return out
}

// Text returns a sentence about what an outcome means.
func (o Outcome) Text() string {
	switch o {
	case Better:
		return "A better setting was found."
	case NothingFound:
		return "No better setting was found: no setting had better results than the site's own in the search."
	case NotProven:
		return "No better setting was found: the best setting of the search is not significantly better on the held-out data."
	case Broken:
		return "No better setting was found: the best setting of the search breaks a constraint on the held-out data."
	case BestFailed:
		return "No better setting was found: a run of the best setting of the search failed on the held-out data."
	}
	panic(fmt.Sprintf("outcome %q", string(o)))
}
