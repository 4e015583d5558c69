package evaluate

import (
	"context"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/predict/model"
)

// Applied has the scores of a trained model's predictions for later jobs.
type Applied struct {
	Model  model.Header `json:"model"`
	Jobs   int          `json:"jobs"`
	Scores Scores       `json:"scores"` // of the jobs whose value is known
}

// Row is a job with its prediction.
type Row struct {
	predict.Prediction
	ID     string
	Submit hpc.Time
	Asked  float64 // the requested value, in the target's unit; 0 if the job requests no value
	Known  bool
	Value  float64 // the target's value, if Known
}

// Apply predicts all jobs of a workload, and calls the function seen with each prediction. The cases must have the
// model's target. Apply returns the context's error.
func Apply(ctx context.Context, m *model.Model, cases *predict.Cases, seen func(Row)) (*Applied, error) {
	var all sums
	err := predict.Play(ctx, cases.List, m.Online(), func(c *predict.Case, p predict.Prediction) {
		row := Row{Prediction: p, ID: c.ID, Submit: c.At, Known: c.Observed(), Asked: cases.Target.Asked(c.Request)}
		if row.Known {
			row.Value = c.Value()
			all.add(p, row.Value)
		}
		seen(row)
	})
	if err != nil {
		return nil, err
	}
	return &Applied{Model: m.Header, Jobs: len(cases.List), Scores: all.scores()}, nil
}
