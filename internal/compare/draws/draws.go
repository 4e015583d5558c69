// Package draws computes how much the waits of realizations depend on fields that were not recorded, if each
// realization draws these fields anew.
package draws

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
	"rmreplay/internal/stats"
	"rmreplay/internal/workload"
)

// Result is the result for the realizations of a set.
type Result struct {
	Set int `json:"set"`
	// Figures are figures of the waits with their intervals over the draws.
	Figures []Figure `json:"figures"`
	// Fields are the fields that were drawn, the field with the largest share first.
	Fields []FieldShare `json:"fields"`
}

// Figure is a figure over the draws. Low and High are values of two draws. For any distribution, a further draw is
// between Low and High with the probability Coverage, which is (n + 1 − 2k) / (n + 1) for the k-th lowest and k-th
// highest of n draws.
type Figure struct {
	Key      string        `json:"key"`
	Label    string        `json:"label"`
	Draws    int           `json:"draws"`
	Low      metrics.Float `json:"low"`
	Median   metrics.Float `json:"median"`
	High     metrics.Float `json:"high"`
	Coverage metrics.Float `json:"coverage"`
	// Recorded is the record's value; null without a record. Inside says that this value is in the interval, or at
	// most a minute outside.
	Recorded metrics.Float `json:"recorded"`
	Inside   bool          `json:"recorded_inside"`
}

const (
	inside = "inside"
	near   = "within a minute of them"
)

// where returns a text about whether the recorded value is inside the interval. A value within a minute of the
// interval counts as inside, because cycles of the scheduler and delays of prologs move starts by seconds.
func (f *Figure) where() string {
	const minute = 60
	switch {
	case f.Recorded < f.Low-minute:
		return "below"
	case f.Recorded > f.High+minute:
		return "above"
	case f.Recorded < f.Low || f.Recorded > f.High:
		return near
	}
	return inside
}

// FieldShare is the share of a field's draw in the variance of the mean wait (Sobol's first-order index).
// It is the intraclass correlation of pairs of realizations that have only the draw of this field in common
// ([stats.Intraclass]). The rest of the variance is due to combinations of draws and to seeds.
type FieldShare struct {
	Field workload.Field `json:"field"`
	Rule  string         `json:"rule"`
	Jobs  int            `json:"jobs"` // jobs in which a rule filled the field
	Pairs int            `json:"pairs"`
	Share metrics.Float  `json:"share"`
	Low   metrics.Float  `json:"low"`
	High  metrics.Float  `json:"high"`
}

// Keys are the figures of a [Result].
var Keys = []string{Variable, "median_wait_s", "p90_wait_s", "p99_wait_s"}

// Variable is the figure whose variance is divided among the fields.
const Variable = "mean_wait_s"

// Alike reports whether the same rules filled the same fields in all realizations.
func Alike(runs []*run.Manifest) bool {
	first := runs[0].Made
	return len(first) > 0 && !slices.ContainsFunc(runs, func(r *run.Manifest) bool {
		return !slices.EqualFunc(r.Made, first, func(a, b workload.MadeField) bool {
			return a.Field == b.Field && a.Rule == b.Rule
		})
	})
}

// NewFigure returns the interval of a figure at a level from its values in the realizations. If the recorded value is
// known, the result also says whether it is inside. With too few draws for the level, the interval reaches from the
// lowest to the highest value. Without known values, the number of draws is 0.
func NewFigure(key, label string, inRuns []metrics.Float, recorded metrics.Float, level float64) Figure {
	var values []float64
	for _, v := range inRuns {
		if v.Known() {
			values = append(values, float64(v))
		}
	}
	f := Over(values, level)
	f.Key, f.Label = key, label
	if f.Draws > 0 && recorded.Known() {
		f.Recorded = recorded
		where := f.where()
		f.Inside = where == inside || where == near
	}
	return f
}

// Over returns the interval of the values of draws at a level. It sorts the values. Without values, all its
// numbers are [metrics.NoValue].
func Over(values []float64, level float64) Figure {
	slices.Sort(values)
	n, nothing := len(values), metrics.NoValue()
	f := Figure{Draws: n, Recorded: nothing, Low: nothing, Median: nothing, High: nothing, Coverage: nothing}
	if n == 0 {
		return f
	}
	k := min(max(1, int((1-level)/2*float64(n+1)+1e-9)), (n+1)/2)
	f.Low, f.High = metrics.Float(values[k-1]), metrics.Float(values[n-k])
	f.Median = metrics.Float((values[(n-1)/2] + values[n/2]) / 2)
	f.Coverage = metrics.Float(float64(n+1-2*k) / float64(n+1))
	return f
}

// Shares divides the variance of the realizations' values among the fields.
func Shares(runs []*run.Manifest, values []metrics.Float, level float64) []FieldShare {
	list := []FieldShare{}
	for i, f := range runs[0].Made {
		pairs := pairsOf(runs, values, i)
		r := stats.Intraclass(pairs, level)
		list = append(list, FieldShare{
			Field: f.Field, Rule: f.Rule, Jobs: f.Jobs, Pairs: len(pairs),
			Share: share(r.Estimate), Low: share(r.Low), High: share(r.High),
		})
	}
	slices.SortStableFunc(list, func(a, b FieldShare) int { return cmp.Compare(known(b.Share), known(a.Share)) })
	return list
}

func known(v metrics.Float) metrics.Float {
	if v.Known() {
		return v
	}
	return -1
}

// share returns the estimate r of a share, or 0 if r is negative.
func share(r float64) metrics.Float {
	if math.IsNaN(r) {
		return metrics.NoValue()
	}
	return metrics.Float(max(0, r))
}

// pairsOf returns the values of those pairs of runs that have the draw of the given field in common, but no other
// draw.
func pairsOf(runs []*run.Manifest, values []metrics.Float, field int) (pairs [][2]float64) {
	for i := range runs {
		for k := range i {
			if !values[i].Known() || !values[k].Known() {
				continue
			}
			only := true
			for f := range runs[i].Made {
				only = only && (runs[i].Made[f].Draw == runs[k].Made[f].Draw) == (f == field)
			}
			if only {
				pairs = append(pairs, [2]float64{float64(values[i]), float64(values[k])})
			}
		}
	}
	return pairs
}

// Render writes the intervals and the shares for people.
func (d *Result) Render(b *bytes.Buffer) {
	if d == nil || len(d.Figures) == 0 {
		return
	}
	var names []string
	for _, f := range d.Fields {
		names = append(names, f.Field.Words())
	}
	fmt.Fprintf(b, "\nover %d %s of what was not recorded (%s):\n", d.Figures[0].Draws,
		quantity.Plural(d.Figures[0].Draws, "draw", "draws"), strings.Join(names, ", "))
	for _, f := range d.Figures {
		fmt.Fprintf(b, "  %-12s %s to %s with %.0f %% of draws, median %s", f.Label, f.Low.Clock(), f.High.Clock(),
			100*float64(f.Coverage), f.Median.Clock())
		if f.Recorded.Known() {
			fmt.Fprintf(b, "; recorded %s, %s", f.Recorded.Clock(), f.where())
		}
		b.WriteString("\n")
	}
	var without []string
	text := "  depends most on"
	for _, f := range d.Fields {
		switch {
		case !f.Share.Known():
			continue
		case f.Low <= 0:
			without = append(without, f.Field.Words())
			continue
		}
		fmt.Fprintf(b, "%s the %s (%s): %s of the mean wait's variance", text, f.Field.Words(), f.Rule, f.Share.Percent())
		if f.Low.Known() {
			fmt.Fprintf(b, ", %s to %s", f.Low.Percent(), f.High.Percent())
		}
		b.WriteString("\n")
		text = "  then"
	}
	if len(without) > 0 {
		fmt.Fprintf(b, "  shares that cannot be told from zero: %s\n", strings.Join(without, ", "))
	}
	if text := d.doubt(); text != "" {
		fmt.Fprintf(b, "  %s\n", text)
	}
}

// fewPairs is the smallest number of pairs for useful shares. With fewer pairs, the intervals of the
// shares are wider than 0.8.
const fewPairs = 10

// doubt returns the reason why the order of the fields is not certain; "" if the order is certain.
func (d *Result) doubt() string {
	switch {
	case len(d.Fields) == 0 || !d.Fields[0].Share.Known():
		return "these realizations do not say what the mean wait depends on (want --realizations 20 or more)"
	case d.Fields[0].Pairs < fewPairs:
		return fmt.Sprintf("%d %s little about that (want --realizations 20 or more)", d.Fields[0].Pairs,
			quantity.Plural(d.Fields[0].Pairs, "pair of realizations says", "pairs of realizations say"))
	case d.Fields[0].Low <= 0:
		return fmt.Sprintf("these realizations cannot tell on which field the mean wait depends (want more than %d)",
			d.Figures[0].Draws)
	case len(d.Fields) > 1 && d.Fields[1].Low > 0 && d.Fields[0].Low < d.Fields[1].High:
		return fmt.Sprintf("these realizations cannot tell the first two apart (want more than %d)", d.Figures[0].Draws)
	}
	return ""
}
