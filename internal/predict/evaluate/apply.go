package evaluate

import (
	"context"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/predict/model"
)

// Applied says how good the predictions of a trained model were for later jobs.
type Applied struct {
	Model  model.Header `json:"model"`
	Jobs   int          `json:"jobs"`
	Scores Scores       `json:"scores"` // of the jobs that ran
}

// Row is a job with its prediction.
type Row struct {
	predict.Prediction
	ID      string
	Submit  hpc.Time
	Ran     bool
	Seconds float64 // how long it ran, if Ran
}

// Apply predicts all jobs of a workload and calls seen with each. It returns the context's error.
func Apply(ctx context.Context, m *model.Model, cases *predict.Cases, seen func(Row)) (*Applied, error) {
	var all sums
	err := predict.Play(ctx, cases.List, m.Online(), func(c *predict.Case, p predict.Prediction) {
		row := Row{Prediction: p, ID: c.ID, Submit: c.At, Ran: c.Ran()}
		if row.Ran {
			row.Seconds = c.Seconds()
			all.add(p, row.Seconds)
		}
		seen(row)
	})
	if err != nil {
		return nil, err
	}
	return &Applied{Model: m.Header, Jobs: len(cases.List), Scores: all.scores()}, nil
}
