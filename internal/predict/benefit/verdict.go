package benefit

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
	"rmreplay/internal/stats"
)

// Contrast compares the mean bounded slowdowns of two schedulers.
type Contrast struct {
	Scheduler string `json:"scheduler"`
	Against   string `json:"against"`
	// Difference is the relative difference of the means over the realizations: -0.1 means 10 % less.
	// Low and High bound its 95 % interval (a bootstrap of pairs).
	Difference float64       `json:"relative_difference"`
	Low        metrics.Float `json:"low"`
	High       metrics.Float `json:"high"`
	// P is the p-value of the paired permutation test over the realizations, with Holm's correction
	// for all contrasts with the same baseline.
	P metrics.Float `json:"p"`
	// WeeksBetter and WeeksWorse count the weeks with a lower and a higher mean bounded slowdown.
	// WeeksP is the p-value of the paired permutation test over the weeks, corrected in the same way.
	// TypicalWeek is the relative difference in a typical week, computed from the mean logarithm of
	// the weeks' ratios.
	WeeksBetter int           `json:"weeks_better"`
	WeeksWorse  int           `json:"weeks_worse"`
	WeeksP      metrics.Float `json:"weeks_p"`
	TypicalWeek metrics.Float `json:"typical_week"`
}

// Outcome is the result of a comparison.
type Outcome string

// The outcomes. The mean is the mean bounded slowdown.
const (
	Helps     Outcome = "helps"           // the best predictor lowers the mean of the log and of most weeks
	ThisLog   Outcome = "helps this log"  // the best predictor lowers only the mean of the log for certain
	Hurts     Outcome = "hurts"           // every predictor raises the mean
	Undecided Outcome = "no effect shown" // the tests show neither a gain nor a loss
)

// Verdict says whether predictions help.
type Verdict struct {
	Outcome Outcome `json:"outcome"`
	// Scheduler is the predictor that the verdict is about: the best predictor.
	Scheduler string `json:"scheduler"`
	Text      string `json:"text"`
}

// level is the significance level. tests is the number of tests that [Comparison.judge] makes with the scheduler
// limits-sjbf as the baseline. The verdict is about these tests.
const level, tests = 0.05, 5

// of returns a scheduler by its name.
func (c *Comparison) of(name string) *Scheduler {
	return &c.Schedulers[slices.IndexFunc(c.Schedulers, func(s Scheduler) bool { return s.Name == name })]
}

// judge computes the contrasts and the verdict.
func (c *Comparison) judge() {
	weeks := map[int]bool{}
	for _, s := range c.Schedulers {
		for week := range s.weeks {
			weeks[week] = true
		}
	}
	c.Weeks = len(weeks)
	c.contrasts(limits, sjbf, "last-two", "learner", "model", bound, short)
	c.contrasts(sjbf, "last-two", "learner", "model", bound, short)
	c.verdict()
}

// contrasts compares schedulers with the baseline against, as one family of tests.
func (c *Comparison) contrasts(against string, names ...string) {
	base := c.of(against)
	var list []Contrast
	var p, weeksP []float64
	for _, name := range names {
		s := c.of(name)
		differences := make([]float64, len(s.Slowdowns))
		for i := range differences {
			differences[i] = s.Slowdowns[i] - base.Slowdowns[i]
		}
		interval := stats.PairedBootstrap(stats.Relative, stats.BootstrapOptions{Seed: c.Seed}, base.Slowdowns, s.Slowdowns)
		one := Contrast{
			Scheduler: name, Against: against, Difference: interval.Estimate, Low: metrics.Float(interval.Low),
			High: metrics.Float(interval.High),
		}
		logs := one.weeks(s.weeks, base.weeks)
		p = append(p, stats.PairedTest(differences, stats.TestOptions{Seed: c.Seed}).P)
		weeksP = append(weeksP, stats.PairedTest(logs, stats.TestOptions{Seed: c.Seed}).P)
		list = append(list, one)
	}
	for i, q := range stats.Holm(p) {
		list[i].P = metrics.Float(q)
	}
	for i, q := range stats.Holm(weeksP) {
		list[i].WeeksP = metrics.Float(q)
	}
	c.Contrasts = append(c.Contrasts, list...)
}

// weeks sets the counts of weeks. It returns the logarithms of the weeks' ratios.
func (t *Contrast) weeks(of, base map[int]*mean) (logs []float64) {
	sum := 0.0
	for _, week := range slices.Sorted(maps.Keys(of)) {
		a, b := of[week], base[week]
		if b == nil {
			continue
		}
		log := math.Log(a.sum / a.count / (b.sum / b.count))
		switch {
		case log < 0:
			t.WeeksBetter++
		case log > 0:
			t.WeeksWorse++
		}
		logs = append(logs, log)
		sum += log
	}
	t.TypicalWeek = metrics.Float(math.Expm1(sum / float64(len(logs))))
	return logs
}

// contrast returns the contrast between a scheduler and the same policy with time limits.
func (c *Comparison) contrast(name string) Contrast {
	return c.Contrasts[slices.IndexFunc(c.Contrasts, func(t Contrast) bool {
		return t.Scheduler == name &&
			t.Against == sjbf
	})]
}

// verdict judges the best of the predictors.
func (c *Comparison) verdict() {
	var best Contrast
	worse := true
	for i, name := range []string{"last-two", "learner", "model"} {
		t := c.contrast(name)
		if i == 0 || t.Difference < best.Difference {
			best = t
		}
		worse = worse && t.Difference > 0 && float64(t.P) < level
	}
	v := Verdict{Outcome: Undecided, Scheduler: best.Scheduler}
	shown := best.Difference < 0 && float64(best.P) < level && float64(best.High) < 0
	switch {
	case worse:
		v.Outcome = Hurts
	case shown && best.WeeksBetter > best.WeeksWorse && float64(best.TypicalWeek) < 0 && float64(best.WeeksP) < level:
		v.Outcome = Helps
	case shown:
		v.Outcome = ThisLog
	}
	v.Text = c.sentence(&v, &best)
	c.Verdict = v
}

// sentence returns the text of a verdict.
func (c *Comparison) sentence(v *Verdict, best *Contrast) string {
	found := map[Outcome]string{
		Helps:     "Prediction helps this site",
		ThisLog:   "Prediction improves the mean of this log, but a gain over its weeks is not shown",
		Hurts:     "Prediction makes this workload's mean bounded slowdown worse",
		Undecided: "This comparison does not show that prediction helps this site",
	}[v.Outcome]
	text := fmt.Sprintf("%s: with %s the mean bounded slowdown differs by %s from that of the same policy with time "+
		"limits (95 %% interval %s to %s, p = %s, %d %s); it is lower in %s and higher in "+
		"%d (p = %s).",
		found, best.Scheduler, percent(best.Difference), percent(float64(best.Low)), percent(float64(best.High)),
		number(best.P), c.Realizations,
		quantity.Plural(c.Realizations, "realization", "realizations"),
		quantity.Counted(best.WeeksBetter, "week", "weeks"), best.WeeksWorse, number(best.WeeksP))
	if gain := c.contrast(bound).Difference; gain < 0 && best.Difference < 0 {
		text += fmt.Sprintf(" With the true run times it differs by %s.", percent(gain))
	}
	if smallest := tests * stats.SmallestPairedP(c.Realizations, stats.TestOptions{}); smallest >= level {
		text += fmt.Sprintf(" %d %s too few to show a difference (want 8 or more).", c.Realizations,
			quantity.Plural(c.Realizations, "realization is", "realizations are"))
	}
	return text
}

func percent(share float64) string {
	if math.IsNaN(share) {
		return "unknown"
	}
	return fmt.Sprintf("%+.1f %%", 100*share)
}

func number(p metrics.Float) string {
	if !p.Known() {
		return "unknown"
	}
	return fmt.Sprintf("%.2g", float64(p))
}

// Render returns the comparison as text.
func (c *Comparison) Render() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d %s, %d %s, %d %s of each scheduler\n", c.Source, c.Jobs,
		quantity.Plural(c.Jobs, "job", "jobs"), c.Weeks, quantity.Plural(c.Weeks, "week", "weeks"),
		c.Realizations, quantity.Plural(c.Realizations, "realization", "realizations"))
	for _, note := range c.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	fmt.Fprintf(&b, "\n%-13s  %9s  %11s  %11s  %12s  %9s  %11s\n", "scheduler", "slowdown", "mean wait s", "p99 wait s",
		"longest s", "timed out", "lost core-h")
	for _, s := range c.Schedulers {
		fmt.Fprintf(&b, "%-13s  %9.2f  %11.0f  %11.0f  %12.0f  %9.0f  %11.0f\n", s.Name, s.Slowdown, s.Wait, s.P99Wait,
			s.MaxWait, s.TimedOut, s.LostCoreHours)
	}
	for _, against := range []string{limits, sjbf} {
		fmt.Fprintf(&b, "\n%-13s  %10s  %20s  %8s  %12s  %8s\n", "against "+against, "difference", "95 % interval", "p",
			"weeks -/+", "p")
		for _, t := range c.Contrasts {
			if t.Against == against {
				fmt.Fprintf(&b, "%-13s  %10s  %20s  %8s  %12s  %8s\n", t.Scheduler, percent(t.Difference), percent(float64(t.Low))+
					" to "+percent(float64(t.High)),
					number(t.P), fmt.Sprintf("%d/%d", t.WeeksBetter, t.WeeksWorse), number(t.WeeksP))
			}
		}
	}
	b.WriteString("\n")
	for _, s := range c.Schedulers {
		fmt.Fprintf(&b, "%-13s  %s\n", s.Name, s.Doc)
	}
	fmt.Fprintf(&b, "\n%s\n", c.Verdict.Text)
	return b.String()
}
