package model

import (
	"math"

	"rmreplay/internal/predict"
)

// conformal widens or narrows intervals so that a tenth of the run times lies below P10 and a
// tenth above P90. It tracks the two quantiles of the scores online: after each answer, a bound
// moves outwards by step*0.9 if the answer lay outside, and inwards by step*0.1 if it did not. The
// share of answers outside then tends to a tenth whatever the jobs do (Gibbs and Candès,
// "Adaptive conformal inference under distribution shift", NeurIPS 2021; Angelopoulos, Candès and
// Tibshirani, "Conformal PID control for time series prediction", NeurIPS 2023, section 2). The
// scores are distances on the scale log(1+seconds), as in conformalized quantile regression
// (Romano, Patterson and Candès, NeurIPS 2019).
//
// An answer counts when the job ends, so no prediction knows of a later end.
type conformal struct {
	Low  float64 `json:"low"`  // distance by which P10 is lowered
	High float64 `json:"high"` // distance by which P90 is raised
}

const (
	// miss is the share of answers that may lie beyond either bound.
	miss = 0.1
	// step is how fast a bound moves, on the scale log(1+seconds).
	step = 0.05
	// farthest bounds the distances: e^8 is a factor of 3,000.
	farthest = 8
)

// apply returns the prediction with its bounds moved.
func (c *conformal) apply(p predict.Prediction) predict.Prediction {
	p.P10 = math.Expm1(math.Log1p(p.P10) - c.Low)
	p.P90 = math.Expm1(math.Log1p(p.P90) + c.High)
	return p.Sound()
}

// learn moves the bounds after a job for which p was predicted ran so many seconds.
func (c *conformal) learn(p predict.Prediction, seconds float64) {
	c.Low = move(c.Low, seconds < p.P10)
	c.High = move(c.High, seconds > p.P90)
}

func move(bound float64, outside bool) float64 {
	if outside {
		return min(bound+step*(1-miss), farthest)
	}
	return max(bound-step*miss, -farthest)
}
