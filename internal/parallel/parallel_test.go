package parallel

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// The executor runs every task, and at most the allowed number of tasks at once.
func TestExecutorParallel(t *testing.T) {
	var now, most, all atomic.Int32
	err := Executor{Parallel: 3}.Do(t.Context(), 20, func(context.Context, int) error {
		n := now.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		time.Sleep(time.Millisecond)
		now.Add(-1)
		all.Add(1)
		return nil
	})
	if err != nil || most.Load() > 3 || most.Load() < 2 || all.Load() != 20 {
		t.Errorf("%d at once, %d in all, %v", most.Load(), all.Load(), err)
	}
}

// The first failure ends the other tasks. Do returns that failure, and not the errors that it
// caused.
func TestExecutorFailure(t *testing.T) {
	boom := errors.New("boom")
	var begun atomic.Int32
	err := Executor{Parallel: 2}.Do(t.Context(), 100, func(ctx context.Context, i int) error {
		begun.Add(1)
		if i == 1 {
			return boom
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, boom) || begun.Load() > 3 {
		t.Errorf("%v after %d tasks", err, begun.Load())
	}
}

// A failure that GoOn accepts stops no other task.
func TestExecutorGoOn(t *testing.T) {
	small, large := errors.New("small"), errors.New("large")
	e := Executor{Parallel: 1, GoOn: func(err error) bool { return errors.Is(err, small) }}
	for _, c := range []struct {
		at   int // the task with the large failure
		want error
		ran  int
	}{{99, nil, 10}, {4, large, 5}} {
		ran := 0
		err := e.Do(t.Context(), 10, func(_ context.Context, i int) error {
			ran++
			if i == c.at {
				return large
			}
			return small
		})
		if !errors.Is(err, c.want) || ran != c.ran {
			t.Errorf("large failure at %d: %v after %d tasks", c.at, err, ran)
		}
	}
}

// After an interruption, Do returns the error of the context.
func TestExecutorInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ran := 0
	err := Executor{Parallel: 1}.Do(ctx, 10, func(ctx context.Context, i int) error {
		if ran++; i == 2 {
			cancel()
		}
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || ran != 3 {
		t.Errorf("%v after %d tasks", err, ran)
	}
}
