package model

import (
	"context"
	"encoding/json"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/predict/features"
)

// ahead computes the features of submissions in another goroutine, before the training needs them. Features can be
// computed ahead because they do not depend on predictions.
type ahead struct {
	rows chan []float32 // each element has the features of several submissions, one after the other
	next []float32
}

const (
	// aheadRows is the number of submissions whose features are sent at once.
	aheadRows = 256
	// maxAhead is the maximum number of submissions whose features are computed but not yet used. The features of maxAhead
	// submissions need 100 MB.
	maxAhead = 1 << 18
)

func newAhead() *ahead { return &ahead{rows: make(chan []float32, maxAhead/aheadRows)} }

// play is [predict.PlayUntil] for a history. It returns the history as JSON. It returns the context's error.
func (a *ahead) play(ctx context.Context, list []predict.Case, until hpc.Time, h *features.History) ([]byte, error) {
	defer close(a.rows)
	var rows []float32
	send := func() {
		select {
		case a.rows <- rows:
		case <-ctx.Done():
		}
		rows = nil
	}
	collect := &collector{h, func(s predict.Submission) {
		if rows == nil {
			rows = make([]float32, 0, aheadRows*features.Count)
		}
		n := len(rows)
		rows = rows[:n+len(h.Vector(s, rows[n:n]))]
		if len(rows) == cap(rows) {
			send()
		}
	}}
	err := predict.PlayUntil(ctx, list, until, collect)
	send()
	if err != nil {
		return nil, err
	}
	return json.Marshal(h)
}

// Vector returns the features of the next submission that play has processed, in new memory. It
// returns zeros if the context of play has ended.
func (a *ahead) Vector(predict.Submission, []float32) []float32 {
	if len(a.next) == 0 {
		a.next = <-a.rows
	}
	if len(a.next) == 0 {
		return make([]float32, features.Count)
	}
	x := a.next[:features.Count:features.Count]
	a.next = a.next[features.Count:]
	return x
}

// [ahead.play] already passes the events to a history, so these methods do nothing.

func (*ahead) Submit(predict.Submission)                      {}
func (*ahead) Start(int64, hpc.Time)                          {}
func (*ahead) Measure(int64, float64)                         {}
func (*ahead) End(int64, hpc.Time, hpc.State) (float64, bool) { return 0, false }
