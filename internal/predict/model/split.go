package model

import (
	"context"
	"math/rand/v2"
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/predict/features"
	"rmreplay/internal/predict/trees"
)

// RandomSplit trains a model on a random four fifths of the jobs that ran, and calls the function seen with each job of
// the other fifth and its prediction. A random split makes scores too good, because the model learns from jobs that ran
// later than the predicted jobs, and from jobs of the same burst. RandomSplit shows how much better published scores
// are if they come from such a split. Even here, a job has only the features that are known at its submission.
func RandomSplit(ctx context.Context, cases *predict.Cases, k Kind, seed uint64,
	seen func(c *predict.Case, p predict.Prediction)) error {
	var rows [][]float32
	h := features.New(cases.Target)
	collect := &collector{h, func(s predict.Submission) { rows = append(rows, h.Vector(s, nil)) }}
	if err := predict.Play(ctx, cases.List, collect, nil); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	table := &trees.Table{Width: features.Count}
	var rest []int
	for i := range cases.List {
		c := &cases.List[i]
		switch {
		case !c.Observed():
		case rng.IntN(5) == 0:
			rest = append(rest, i)
		default:
			table.X = append(table.X, rows[i]...)
			table.Y = append(table.Y, c.Value())
		}
	}
	if table.Len() == 0 {
		return nil
	}
	fitted, err := fit(k, table, seed)
	if err != nil {
		return err
	}
	most := slices.Max(table.Y)
	for _, i := range rest {
		c := &cases.List[i]
		seen(c, cut(fitted.predict(rows[i], cases.Target.Limit(c.Request)), most))
	}
	return nil
}

// collector calls the function before with each submission, and then passes the submission to the
// history. It predicts nothing.
type collector struct {
	*features.History
	before func(predict.Submission)
}

func (c *collector) Predict(predict.Submission) predict.Prediction { return predict.Prediction{} }

func (c *collector) Submit(s predict.Submission) predict.Prediction {
	c.before(s)
	c.History.Submit(s)
	return predict.Prediction{}
}

func (c *collector) End(number int64, at hpc.Time, state hpc.State) { c.History.End(number, at, state) }
