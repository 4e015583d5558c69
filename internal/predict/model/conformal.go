package model

import (
	"math"

	"rmreplay/internal/predict"
)

// conformal widens or narrows intervals so that a tenth of the values is below P10 and a tenth
// above P90. It tracks the two quantiles of the scores online. With each value, a bound moves
// outwards by step*0.9 if the value is outside the bound, and otherwise inwards by step*0.1. The
// share of values outside then approaches a tenth. If values repeat exactly, the share may be
// smaller, because a bound can equal such a value (Gibbs and Candès, "Adaptive conformal inference
// under distribution shift", NeurIPS 2021; Angelopoulos, Candès and Tibshirani, "Conformal PID
// control for time series prediction", NeurIPS 2023, section 2). The scores are distances on the
// scale log(1+value), as in conformalized quantile regression (Romano, Patterson and Candès,
// NeurIPS 2019).
//
// A value counts when its job ends, so no prediction depends on a later end. Between the submission and the end, the
// bounds move. A value is compared with the present bounds instead of the bounds at the submission; otherwise a
// thousand equal jobs that are submitted at once would move the bounds a thousand times. But the predictions were made
// with the bounds at the submission, so a bias remains. Therefore the target share is corrected by gain times the
// difference between a tenth and the share of values outside the predicted bounds (the integral term of PID control).
type conformal struct {
	Low  bound `json:"low"`  // how far P10 is lowered
	High bound `json:"high"` // how far P90 is raised
	// Answers is the number of known values of ended jobs so far (the answers), and Most is the
	// largest of these values.
	Answers float64 `json:"answers"`
	Most    float64 `json:"most"`
}

// bound is the distance by which P10 or P90 moves outwards, and the number of answers outside the
// bound that was predicted for them.
type bound struct {
	Distance float64 `json:"distance"`
	Outside  float64 `json:"outside"`
}

const (
	// miss is the share of answers that may be below P10, and also the share that may be above P90.
	miss = 0.1
	// step is the size of a bound's move, on the scale log(1+value).
	step = 0.05
	// farthest is the largest distance: e^8 is a factor of 3,000.
	farthest = 8
	// gain is the weight of the share of answers that were outside so far. With fewer answers than enough, this share does
	// not count.
	gain, enough = 6, 100
	// minMiss and maxMiss bound the target share.
	minMiss, maxMiss = 0.02, 0.3
)

// apply returns the prediction with moved bounds. The distances were learned from all jobs, so they
// can move the bound of a long job far above any known value. Therefore, after enough answers, no
// bound of a job without a limit exceeds the largest answer so far. The next answer exceeds all n
// answers only with probability 1/(n+1), which is much less than miss.
func (c *conformal) apply(p predict.Prediction) predict.Prediction {
	p.P10 = math.Expm1(math.Log1p(p.P10) - c.Low.Distance)
	p.P90 = math.Expm1(math.Log1p(p.P90) + c.High.Distance)
	if c.Answers >= enough {
		p = cut(p, c.Most)
	}
	return p.Sound()
}

// cut lowers the quantiles of a job without a limit to at most longest, the largest value of a job
// so far.
func cut(p predict.Prediction, longest float64) predict.Prediction {
	if p.Limit == 0 {
		p.P10, p.P50, p.P90 = min(p.P10, longest), min(p.P50, longest), min(p.P90, longest)
	}
	return p
}

// learn moves the bounds after a job has ended with a value. The parameter raw is the prediction
// at the job's submission before apply, and made is the prediction after apply.
func (c *conformal) learn(raw, made predict.Prediction, value float64) {
	c.Answers++
	now := c.apply(raw)
	c.Low.move(value < now.P10, value < made.P10, c.Answers)
	c.High.move(value > now.P90, value > made.P90, c.Answers)
	c.Most = max(c.Most, value)
}

// move moves a bound after an answer. The parameter now says whether the answer is outside the current bound, and made
// says whether it is outside the bound that was predicted for it. The parameter answers is the number of answers so
// far.
func (b *bound) move(now, made bool, answers float64) {
	if made {
		b.Outside++
	}
	aim := float64(miss)
	if answers >= enough {
		aim = min(max(miss-gain*(b.Outside/answers-miss), minMiss), maxMiss)
	}
	if now {
		b.Distance = min(b.Distance+step*(1-aim), farthest)
	} else {
		b.Distance = max(b.Distance-step*aim, -farthest)
	}
}
