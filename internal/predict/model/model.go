// Package model has the predictors that learn: linear regression, random forest and gradient
// boosting on the features of package features, calibrated online, and the file of a trained
// model.
package model

import (
	"fmt"
	"math"
	"strings"

	"rmreplay/internal/predict"
	"rmreplay/internal/predict/trees"
)

// Kind names a model.
type Kind string

// The models.
const (
	Limit   Kind = "limit"  // the user's time limit
	LastTwo Kind = "last2"  // the mean of the user's last two
	Class   Kind = "class"  // the recursive average of the class
	Linear  Kind = "linear" // ridge regression
	Forest  Kind = "forest" // random forest
	Boost   Kind = "boost"  // gradient boosting of three quantiles
)

// Kinds are all models, the simple ones first.
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
	return "", fmt.Errorf("%q: not a model (want %s)", name, strings.Join(known, ", "))
}

// simple returns the predictor of a kind that needs no training.
func simple(k Kind) predict.Predictor {
	switch k {
	case Limit:
		return predict.NewUserLimit()
	case Class:
		return predict.NewClassAverage()
	}
	return predict.NewLastTwo()
}

// fitted is a model after its training. At most one field is set.
type fitted struct {
	Linear *linear         `json:"linear,omitempty"`
	Forest *trees.Ensemble `json:"forest,omitempty"`
	Boost  *boosted        `json:"boost,omitempty"`
}

// boosted predicts three quantiles.
type boosted struct {
	P10 *trees.Ensemble `json:"p10"`
	P50 *trees.Ensemble `json:"p50"`
	P90 *trees.Ensemble `json:"p90"`
}

func (b *boosted) all() []*trees.Ensemble { return []*trees.Ensemble{b.P10, b.P50, b.P90} }

// predict returns the prediction for features, before its calibration. limit is in seconds, 0
// for none.
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
		p.P10, p.P50, p.P90 = ofLogScale(f.Boost.P10.Value(x)), ofPowerScale(f.Boost.P50.Value(x)), ofLogScale(f.Boost.P90.Value(x))
	}
	return p.Sound()
}

// The tails are boosted on the scale log(1+seconds), the median on the scale seconds^power.
func logScale(seconds float64) float64 { return math.Log1p(seconds) }
func ofLogScale(y float64) float64     { return math.Expm1(y) }

var power = 0.5

func powerScale(seconds float64) float64 { return math.Pow(seconds, power) }
func ofPowerScale(y float64) float64     { return math.Pow(max(y, 0), 1/power) }

// fit trains a model on a table whose answers are in seconds. The table must have a row.
func fit(k Kind, t *trees.Table, seed uint64) (*fitted, error) {
	switch k {
	case Linear:
		l, err := fitLinear(t)
		return &fitted{Linear: l}, err
	case Forest:
		return &fitted{Forest: trees.NewTrainer(t).Forest(trees.ForestOptions{
			Trees: 50, Leaves: 256, MinRows: 5, Features: 1.0 / 3, MaxRows: 100000, Seed: seed,
		})}, nil
	}
	b := new(boosted)
	o := trees.BoostOptions{Leaves: leaves, MinRows: 20, Rate: 0.1, Features: 0.5, Rows: 0.7, MaxRows: 100000, Seed: seed}
	trainer := trees.NewTrainer(t)
	for _, q := range []struct {
		to       **trees.Ensemble
		quantile float64
		rounds   int
		scale    func(float64) float64
	}{{&b.P10, 0.1, 40, logScale}, {&b.P50, 0.5, rounds, powerScale}, {&b.P90, 0.9, 40, logScale}} {
		o.Quantile, o.Rounds = q.quantile, q.rounds
		*q.to = trainer.Boost(scaled(t.Y, q.scale), o)
	}
	return &fitted{Boost: b}, nil
}

var leaves, rounds = 31, 120

// scaled returns the answers on another scale.
func scaled(seconds []float64, scale func(float64) float64) []float64 {
	y := make([]float64, len(seconds))
	for i, s := range seconds {
		y[i] = scale(s)
	}
	return y
}
