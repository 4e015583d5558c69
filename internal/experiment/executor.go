package experiment

import (
	"context"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// Executor does independent tasks, several at a time. Sets of realizations, sweeps and
// series of simulations all use it.
type Executor struct {
	// Parallel is the most tasks at once; the number of CPUs if 0.
	Parallel int
	// GoOn says whether the other tasks go on after one has failed with err. They do not
	// if it is nil.
	GoOn func(err error) bool
}

// Do calls task with 0 to n-1, begins them in that order, and waits for all that have begun.
// After a failure for which GoOn does not hold, and when ctx is cancelled, no further task
// begins, and the context of those that run is cancelled. Do then returns the failure of the
// first of these tasks, or ctx's error; otherwise nil. A task keeps its result, and a failure
// that does not stop the others, in a place of its own: then nothing depends on the order in
// which tasks end.
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
			if !interrupted(groupCtx, err) {
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

func (e Executor) parallel() int {
	if e.Parallel > 0 {
		return e.Parallel
	}
	return runtime.NumCPU()
}
