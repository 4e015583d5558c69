package storetest

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"rmreplay/internal/accounting/store"
)

// Generate makes a store with n synthetic jobs (see [Fill]) in an empty directory, for benchmarks.
func Generate(ctx context.Context, dir string, n int64) (err error) {
	s, err := store.Open(ctx, dir, store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := Fill(ctx, s, 1, n); err != nil {
		return err
	}
	return s.Seal()
}

// Entries returns the synthetic jobs with the numbers from first to last. All processors make them
// in parallel.
func Entries(first, last int64) []store.Entry {
	list := make([]store.Entry, last-first+1)
	var group sync.WaitGroup
	workers := runtime.NumCPU()
	for k := range workers {
		group.Go(func() {
			for i := k; i < len(list); i += workers {
				list[i] = Entry(first + int64(i))
			}
		})
	}
	group.Wait()
	return list
}
