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
// An answer counts when the job ends, so no prediction knows of a later end. By then the bounds have
// moved on, most of all for long jobs, which leaves a bias. So the share aimed at is corrected by
// gain times the distance of the share so far from a tenth (the integral term of PID control).
type conformal struct {
	Low  bound `json:"low"`  // how far P10 is lowered
	High bound `json:"high"` // how far P90 is raised
	// Answers is the number of answers so far.
	Answers float64 `json:"answers"`
}

// bound is the distance by which a bound is moved outwards, and how many answers lay outside.
type bound struct {
	Distance float64 `json:"distance"`
	Outside  float64 `json:"outside"`
}

const (
	// miss is the share of answers that may lie beyond either bound.
	miss = 0.1
	// step is how fast a bound moves, on the scale log(1+seconds).
	step = 0.05
	// farthest bounds the distances: e^8 is a factor of 3,000.
	farthest = 8
	// gain is the weight of the share so far, from enough answers on.
	gain, enough = 3, 100
	// The share aimed at stays between these.
	leastMiss, mostMiss = 0.02, 0.3
)

// apply returns the prediction with its bounds moved.
func (c *conformal) apply(p predict.Prediction) predict.Prediction {
	p.P10 = math.Expm1(math.Log1p(p.P10) - c.Low.Distance)
	p.P90 = math.Expm1(math.Log1p(p.P90) + c.High.Distance)
	return p.Sound()
}

// learn moves the bounds after a job for which p was predicted ran so many seconds.
func (c *conformal) learn(p predict.Prediction, seconds float64) {
	c.Answers++
	c.Low.move(seconds < p.P10, c.Answers)
	c.High.move(seconds > p.P90, c.Answers)
}

// move moves a bound after one of so many answers.
func (b *bound) move(outside bool, answers float64) {
	if outside {
		b.Outside++
	}
	aim := float64(miss)
	if answers >= enough {
		aim = min(max(miss-gain*(b.Outside/answers-miss), leastMiss), mostMiss)
	}
	if outside {
		b.Distance = min(b.Distance+step*(1-aim), farthest)
	} else {
		b.Distance = max(b.Distance-step*aim, -farthest)
	}
}
