// Package evaluate measures the errors of predictions of run times without data from the future.
// Predictions are made in the order of time. Each prediction is by a model that was trained only on
// jobs that had ended before. Every job that ran counts, even the first job.
package evaluate

import (
	"context"
	"math"

	"rmreplay/internal/predict"
)

// Scores say how good predictions p are for values y of the target. Scores that are not shares are
// in the target's unit. The point prediction is the median. R2, MAE, MSE, RMSE and MSD are the
// statistics of KNIME's Numeric Scorer, with its definitions.
type Scores struct {
	Jobs int `json:"jobs"`
	// R2 is the coefficient of determination, 1 - sum (y-p)² / sum (y-mean(y))²; 0 if all
	// values are equal.
	R2 float64 `json:"r2"`
	// MAE is the mean absolute error, mean |p-y|.
	MAE float64 `json:"mae"`
	// MSE is the mean squared error, mean (p-y)², in the unit's square, and RMSE its root.
	MSE  float64 `json:"mse"`
	RMSE float64 `json:"rmse"`
	// MSD is the mean signed difference, mean (p-y): negative if values are underestimated on average.
	MSD float64 `json:"mean_signed_difference"`
	// R2Log and MAELog are R2 and MAE of log(1+y), with y in the target's unit.
	R2Log  float64 `json:"r2_log"`
	MAELog float64 `json:"mae_log"`
	// Pinball is the mean pinball loss of P10, P50 and P90: mean max(q(y-p), (q-1)(y-p)).
	Pinball float64 `json:"pinball"`
	// Coverage is the share of values from P10 to P90, and Width the mean of P90-P10.
	Coverage float64 `json:"coverage"`
	Width    float64 `json:"width"`
	// Underestimated is the share of jobs whose value is above the point prediction.
	Underestimated float64 `json:"underestimated"`
}

// Points reports whether each prediction is one value without an interval. Without intervals, pinball loss, coverage
// and width have no meaning.
func (s *Scores) Points() bool { return s.Width == 0 }

// Score calls a new predictor with the events of the cases, and returns its scores. It returns the
// context's error.
func Score(ctx context.Context, cases *predict.Cases, p predict.Predictor) (Scores, error) {
	var all sums
	err := predict.Play(ctx, cases.List, p, func(c *predict.Case, p predict.Prediction) {
		if c.Observed() {
			all.add(p, c.Value())
		}
	})
	return all.scores(), err
}

// sums has the sums from which scores are computed.
type sums struct {
	jobs                           float64
	absolute, squared, signed      float64
	absoluteLog, squaredLog        float64
	pinball, covered, width, under float64
	run, runLog                    moments
}

// moments are a mean and the sum of the squared differences from it (Welford's algorithm).
type moments struct{ count, mean, squares float64 }

func (m *moments) add(x float64) {
	m.count++
	d := x - m.mean
	m.mean += d / m.count
	m.squares += d * (x - m.mean)
}

// add adds a prediction and the value.
func (s *sums) add(p predict.Prediction, y float64) {
	s.jobs++
	p.P10, p.P50, p.P90 = unlessEqual(p.P10, y), unlessEqual(p.P50, y), unlessEqual(p.P90, y)
	d := p.P50 - y
	s.absolute += math.Abs(d)
	s.squared += d * d
	s.signed += d
	log := math.Log1p(p.P50) - math.Log1p(y)
	s.absoluteLog += math.Abs(log)
	s.squaredLog += log * log
	s.pinball += (pinball(0.1, p.P10, y) + pinball(0.5, p.P50, y) + pinball(0.9, p.P90, y)) / 3
	if p.P10 <= y && y <= p.P90 {
		s.covered++
	}
	s.width += p.P90 - p.P10
	if y > p.P50 {
		s.under++
	}
	s.run.add(y)
	s.runLog.add(math.Log1p(y))
}

// unlessEqual returns the prediction, or the value if they differ only by rounding. The mean of equal values may be
// the next smaller number: it does not underestimate the value.
func unlessEqual(prediction, value float64) float64 {
	if nearly(prediction, value) {
		return value
	}
	return prediction
}

func nearly(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b)) }

func pinball(q, p, y float64) float64 { return max(q*(y-p), (q-1)*(y-p)) }

// scores returns the scores. Without jobs, all scores are 0.
func (s *sums) scores() Scores {
	if s.jobs == 0 {
		return Scores{}
	}
	n := s.jobs
	return Scores{
		Jobs: int(n), R2: determination(s.squared, s.run.squares), MAE: s.absolute / n, MSE: s.squared / n,
		RMSE: math.Sqrt(s.squared / n),
		MSD:  s.signed / n, R2Log: determination(s.squaredLog, s.runLog.squares), MAELog: s.absoluteLog / n,
		Pinball:  s.pinball / n,
		Coverage: s.covered / n, Width: s.width / n, Underestimated: s.under / n,
	}
}

func determination(residual, total float64) float64 {
	if total == 0 {
		return 0
	}
	return 1 - residual/total
}
