package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"rmreplay/internal/predict"
)

// TestAhead checks that [Train], which computes features ahead, trains the same model as an
// [Online] predictor, whose history gets each event in turn.
func TestAhead(t *testing.T) {
	all := cases(t, log(3000, 5))
	m, err := Train(t.Context(), all, TrainOptions{Kind: Boost})
	if err != nil {
		t.Fatal(err)
	}
	online := NewOnline(Options{Kind: Boost, First: m.Data.Jobs * 4 / 5})
	if err := predict.PlayUntil(t.Context(), all.List, m.until, online); err != nil {
		t.Fatal(err)
	}
	check := online.check.mean()
	online.train(m.until)
	text := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, one := range []struct {
		name      string
		got, want any
	}{
		{"scores", m.Scores, check}, {"model", m.fitted, online.fitted}, {"calibration", m.conformal, online.conformal},
		{"mixture", m.mixture, online.mixture}, {"history", json.RawMessage(m.history), online.history},
	} {
		if !bytes.Equal(text(one.got), text(one.want)) {
			t.Errorf("the %s differs", one.name)
		}
	}
}

// TestCancelled checks that a training ends when its context ends, at any time, and does not begin
// if the context has ended before.
func TestCancelled(t *testing.T) {
	all := cases(t, log(5000, 5))
	for delay := time.Duration(0); delay < time.Second; delay = 2*delay + time.Millisecond {
		ctx, cancel := context.WithTimeout(t.Context(), delay)
		_, err := Train(ctx, all, TrainOptions{Kind: Linear})
		cancel()
		if (err != nil || delay == 0) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %v: %v", delay, err)
		}
		if err == nil {
			break
		}
	}
}
