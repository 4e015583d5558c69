package forecast

import (
	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
)

// trained is a trained model, which knows what happened until an instant.
type trained struct {
	predict.Predictor
	until hpc.Time
}

// Trained returns a [Learner] of a trained model. It does not learn again from what happened before
// until, which the model has been trained on.
func Trained(until hpc.Time, model predict.Predictor) Learner {
	return Modelled{&trained{model, until}}
}

// Start is [predict.Predictor.Start].
func (t *trained) Start(number int64, at hpc.Time) { t.Predictor.Start(number, at) }

// End is [predict.Predictor.End].
func (t *trained) End(number int64, at hpc.Time, state hpc.State) {
	if at > t.until {
		t.Predictor.End(number, at, state)
	}
}
