// Package schedules tests whether two sets of runs come from one distribution of schedules, and returns the result as
// a text. A schedule is the vector of the waits of all jobs.
package schedules

import (
	"fmt"

	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
	"rmreplay/internal/stats"
)

// Tests are tests of the hypothesis that two sets of runs come from one distribution of schedules.
type Tests struct {
	Energy Energy `json:"energy"`
	Depth  Depth  `json:"depth"`
	// SmallestP is the smallest p-value that one test can have with this number of runs.
	SmallestP metrics.Float `json:"smallest_p"`
}

// Energy is the result of [stats.Energy].
type Energy struct {
	Statistic metrics.Float `json:"statistic_s"`
	P         metrics.Float `json:"p"`
	// PAdjusted is P, corrected by Holm's method for both tests.
	PAdjusted    metrics.Float `json:"p_holm"`
	Exact        bool          `json:"p_exact"`
	Arrangements int           `json:"arrangements"`
	// Inhomogeneity is the effect, from 0 for no difference to 1.
	Inhomogeneity metrics.Float `json:"inhomogeneity"`
}

// Depth is the result of [stats.Depth].
type Depth struct {
	Statistic metrics.Float `json:"statistic"`
	P         metrics.Float `json:"p"`
	// PAdjusted is P, corrected by Holm's method for both tests.
	PAdjusted    metrics.Float `json:"p_holm"`
	Exact        bool          `json:"p_exact"`
	Arrangements int           `json:"arrangements"`
	// QBaseline is the quality index of the set's runs in the baseline, and QSet the quality index of the baseline's
	// runs in the set. Both are 1/2 if there is no difference.
	QBaseline metrics.Float `json:"quality_in_baseline"`
	QSet      metrics.Float `json:"quality_in_set"`
}

// Test compares the waits of a set with those of the baseline. The waits are in seconds, by run and job. It returns
// nil if a side has a single run, or if there is no job.
func Test(baseline, set [][]float64, opts stats.TestOptions) *Tests {
	if len(baseline) < 2 || len(set) < 2 || len(baseline[0]) == 0 {
		return nil
	}
	energy, err := stats.Energy(baseline, set, opts)
	if err != nil {
		return nil
	}
	depth, err := stats.Depth(baseline, set, opts)
	if err != nil {
		return nil
	}
	holm := stats.Holm([]float64{energy.P, depth.P})
	return &Tests{
		SmallestP: metrics.Float(stats.SmallestP(len(baseline), len(set), opts)),
		Energy: Energy{
			Statistic: metrics.Float(energy.Statistic), P: metrics.Float(energy.P), PAdjusted: metrics.Float(holm[0]),
			Exact: energy.Exact, Arrangements: energy.Arrangements, Inhomogeneity: metrics.Float(energy.Effect),
		},
		Depth: Depth{
			Statistic: metrics.Float(depth.Statistic), P: metrics.Float(depth.P), PAdjusted: metrics.Float(holm[1]),
			Exact: depth.Exact, Arrangements: depth.Arrangements,
			QBaseline: metrics.Float(depth.QAB), QSet: metrics.Float(depth.QBA),
		},
	}
}

// smallest is the smallest corrected p-value that a test can have with this number of runs.
func (t *Tests) smallest() float64 { return min(1, 2*float64(t.SmallestP)) }

// Short returns a clause about whether the schedules differ. The parameter alpha is the probability of a false
// rejection by either test.
func (t *Tests) Short(alpha float64) string {
	tests := fmt.Sprintf("(corrected for two tests: energy test p = %s, depth test p = %s)",
		quantity.Probability(t.Energy.PAdjusted), quantity.Probability(t.Depth.PAdjusted))
	switch {
	case t.smallest() > alpha:
		return "there are too few runs for a test of the schedules as a whole"
	case float64(min(t.Energy.PAdjusted, t.Depth.PAdjusted)) <= alpha:
		return "the schedules as a whole differ significantly " + tests
	}
	return "the schedules as a whole do not differ significantly " + tests
}

// Figures returns the results of both tests, a line each. The parameter a names the baseline, and
// b names the set.
func (t *Tests) Figures(a, b string) [2]string {
	p := func(raw, holm metrics.Float) string {
		return fmt.Sprintf("p = %s (Holm %s)", quantity.Probability(raw), quantity.Probability(holm))
	}
	return [2]string{
		fmt.Sprintf("energy test   %s, inhomogeneity %s of 1", p(t.Energy.P, t.Energy.PAdjusted),
			t.Energy.Inhomogeneity.Text()),
		fmt.Sprintf("depth test    %s, quality of %s in %s %s, of %s in %s %s (0.5: no difference)",
			p(t.Depth.P, t.Depth.PAdjusted), b, a, t.Depth.QBaseline.Text(), a, b, t.Depth.QSet.Text()),
	}
}

// Verdict returns a sentence about which tests reject the hypothesis, after Holm's correction for
// both tests.
func (t *Tests) Verdict(alpha float64) string {
	energy, depth := float64(t.Energy.PAdjusted) <= alpha, float64(t.Depth.PAdjusted) <= alpha
	const hypothesis = "the hypothesis that the runs come from one distribution"
	switch {
	case t.smallest() > alpha:
		return fmt.Sprintf("This number of runs cannot give a corrected p-value below %s, so neither test can reject.",
			quantity.Probability(t.smallest()))
	case energy && depth:
		return "Both tests reject " + hypothesis + "."
	case energy:
		return "The energy test rejects " + hypothesis + ", the depth test does not: " +
			"the difference is in how far apart the schedules are rather than in their order around a centre."
	case depth:
		return "The depth test rejects " + hypothesis + ", the energy test does not: " +
			"the difference is too small for the distances, which a few jobs with erratic waits may dominate."
	}
	return "Neither test rejects " + hypothesis + "."
}
