// Package model has the trained predictors: linear regression, random forest and gradient boosting on the features of
// package features. The predictors are calibrated online. The package also reads and writes files of trained models.
package model

import (
	"fmt"
	"math"
	"sync"

	"rmreplay/internal/predict"
	"rmreplay/internal/predict/features"
	"rmreplay/internal/predict/trees"
	"rmreplay/internal/spelling"
)

// Kind names a model.
type Kind string

// The models.
const (
	Limit   Kind = "limit"  // the user's time limit
	LastTwo Kind = "last2"  // the mean of the user's last two run times
	Class   Kind = "class"  // the recursive average of the class
	Linear  Kind = "linear" // ridge regression
	Forest  Kind = "forest" // random forest
	Boost   Kind = "boost"  // gradient boosting of three quantiles
)

// Kinds returns all models, with the simple models first.
func Kinds() []Kind { return []Kind{Limit, LastTwo, Class, Linear, Forest, Boost} }

// Trained reports whether the model is trained on past jobs.
func (k Kind) Trained() bool { return k == Linear || k == Forest || k == Boost }

// ParseKind reads the name of a model.
func ParseKind(name string) (Kind, error) {
	var known []string
	for _, k := range Kinds() {
		if string(k) == name {
			return k, nil
		}
		known = append(known, string(k))
	}
	return "", fmt.Errorf("%q: not a model (%s)", name, spelling.Meant(name, known))
}

// measuring is a predictor of any target.
type measuring interface {
	predict.Predictor
	predict.Measurer
}

// simple returns the predictor of a kind that needs no training.
func simple(k Kind, t predict.Target) measuring {
	switch k {
	case Limit:
		return predict.NewUserLimit(t)
	case Class:
		return predict.NewClassAverage(t)
	}
	return predict.NewLastTwo(t)
}

// fitted is a model after its training. At most one field is set.
type fitted struct {
	Linear *linear         `json:"linear,omitempty"`
	Forest *trees.Ensemble `json:"forest,omitempty"`
	Boost  *boosted        `json:"boost,omitempty"`
}

// boosted predicts three quantiles. The median has two ensembles. One is boosted on the scale of seconds, where long
// jobs decide, and the other on the scale of square roots of seconds, where short jobs count more. The optimum of both
// is the median. [mixture] weights both, together with four rules. P10 and P90 are boosted on the scale log(1+seconds).
// The trees predict the difference from a first guess ([features.Guess]), because trees approximate an average badly.
type boosted struct {
	P10     *trees.Ensemble `json:"p10"`
	Seconds *trees.Ensemble `json:"p50_seconds"`
	Root    *trees.Ensemble `json:"p50_root"`
	P90     *trees.Ensemble `json:"p90"`
}

func (b *boosted) all() []*trees.Ensemble { return []*trees.Ensemble{b.P10, b.Seconds, b.Root, b.P90} }

// predict returns the prediction for features, before its calibration. The parameter limit is in
// seconds; 0 means no limit. For boosting, the median is the plain mean of the two ensembles;
// [Online] weighs more candidates ([mixture]).
func (f *fitted) predict(x []float32, limit float64) predict.Prediction {
	p := predict.Prediction{Limit: limit}
	switch {
	case f.Linear != nil:
		p.P50 = f.Linear.seconds(x)
		p.P10, p.P90 = p.P50, p.P50
	case f.Forest != nil:
		p.P50 = f.Forest.Value(x)
		p.P10, p.P90 = p.P50, p.P50
	default:
		c := f.Boost.candidates(x)
		p.P10, p.P90 = f.Boost.bounds(x)
		p.P50 = (c[0] + c[1]) / 2
	}
	return p.Sound()
}

// bounds returns P10 and P90 in seconds.
func (b *boosted) bounds(x []float32) (p10, p90 float64) {
	log := math.Log1p(features.Guess(x))
	return math.Expm1(log + b.P10.Value(x)), math.Expm1(log + b.P90.Value(x))
}

// fit trains a model on a table whose answers are in seconds. The table must have at least one row.
func fit(k Kind, t *trees.Table, seed uint64) (*fitted, error) {
	switch k {
	case Linear:
		l, err := fitLinear(t)
		return &fitted{Linear: l}, err
	case Forest:
		return &fitted{Forest: trees.NewTrainer(t).Forest(trees.ForestOptions{
			Trees: 50, Leaves: 256, MinRows: 5, Features: 0.5, MaxRows: maxRows, Seed: seed,
		})}, nil
	}
	b := new(boosted)
	o := trees.BoostOptions{Leaves: 31, MinRows: 20, Rate: 0.1, Features: 0.5, Rows: 0.7, MaxRows: maxRows, Seed: seed}
	trainer := trees.NewTrainer(t)
	var group sync.WaitGroup // for the four ensembles, which do not depend on each other
	for _, part := range []struct {
		to       **trees.Ensemble
		quantile float64
		rounds   int
		scale    func(seconds float64) float64
	}{
		{&b.P10, 0.1, 40, math.Log1p},
		{&b.Seconds, 0.5, 100, func(seconds float64) float64 { return seconds }},
		{&b.Root, 0.5, 100, math.Sqrt},
		{&b.P90, 0.9, 40, math.Log1p},
	} {
		group.Go(func() {
			o := o
			o.Quantile, o.Rounds = part.quantile, part.rounds
			answers := make([]float64, t.Len())
			for i, y := range t.Y {
				answers[i] = part.scale(y) - part.scale(features.Guess(t.Row(i)))
			}
			*part.to = trainer.Boost(answers, o)
		})
	}
	group.Wait()
	return &fitted{Boost: b}, nil
}

// maxRows is the maximum number of rows on which each tree is grown. It also bounds the time of a
// training.
const maxRows = 50000
