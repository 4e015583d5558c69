// Package parallel runs independent tasks, several at a time.
package parallel

import (
	"context"
	"errors"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// Executor runs independent tasks, several at a time. Sets of realizations, sweeps and series
// of simulations all use it.
type Executor struct {
	// Parallel is the largest number of tasks at once. 0 means the number of CPUs.
	Parallel int
	// GoOn reports whether the other tasks continue after a task has failed with err. If GoOn is nil, the other tasks do
	// not continue.
	GoOn func(err error) bool
}

// Do calls the function task with the numbers from 0 to n-1, and starts the calls in that order. It waits for all calls
// that have started. If a task fails and GoOn is false for its error, or if ctx is cancelled, Do starts no further task
// and cancels the context of the running tasks. Do then returns the error of the failed task with the lowest number, or
// ctx's error; otherwise it returns nil. Each task must store its result, and an error that GoOn accepts, in its own
// variable. Nothing then depends on the order in which tasks end.
func (e Executor) Do(ctx context.Context, n int, task func(ctx context.Context, i int) error) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(e.parallel())
	failures := make([]error, n)
	for i := range n {
		group.Go(func() error {
			if groupCtx.Err() != nil {
				return groupCtx.Err()
			}
			err := task(groupCtx, i)
			if err == nil || e.GoOn != nil && e.GoOn(err) {
				return nil
			}
			if !Interrupted(groupCtx, err) {
				failures[i] = err
			}
			return err
		})
	}
	err := group.Wait()
	if ctx.Err() != nil && err != nil {
		return err
	}
	for _, failure := range failures {
		if failure != nil {
			return failure
		}
	}
	return err
}

// AtOnce returns how many of n tasks run at the same time.
func (e Executor) AtOnce(n int) int { return min(n, e.parallel()) }

func (e Executor) parallel() int {
	if e.Parallel > 0 {
		return e.Parallel
	}
	return runtime.NumCPU()
}

// Interrupted reports whether err comes from the end of ctx.
func Interrupted(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err())
}
