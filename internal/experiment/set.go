package experiment

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"rmreplay/internal/metrics"
	"rmreplay/internal/parallel"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// Set says how many realizations of a [Spec] are made.
type Set struct {
	Count    int // at least 1; the seeds count up from the seed of the specification
	Parallel int // the largest number at once; the number of CPUs if 0
}

// Realization is one run of a set.
type Realization struct {
	Number  int // from 1
	Dir     string
	Seed    uint64
	Made    []workload.MadeField // fields that were drawn again for this realization; nil if rules made no fields
	Summary *metrics.Summary     // nil until the realization has ended, and after a failure
}

// SetHooks receive the progress of a set. Several goroutines call them at once. Each hook may be nil.
type SetHooks struct {
	// Of returns the hooks of a realization. It is called before the realization begins.
	Of func(Realization) Hooks
	// Ended is called when a realization has ended or failed.
	Ended func(Realization)
}

// RunSet makes the realizations of a specification as runs below its output directory, with an index
// of them. It loads the workload once, and for each realization it draws again those fields that
// were not recorded ([workload.Completion]). The first realization that fails stops the others. A
// realization without a valid result does not stop them.
func RunSet(ctx context.Context, spec Spec, set Set, hooks SetHooks) ([]Realization, error) {
	if set.Count < 1 {
		return nil, fieldError("realizations", "%d: want 1 or more", set.Count)
	}
	p, err := prepare(spec, func(dir string, overwrite bool) error {
		_, err := oldSet(dir, overwrite)
		return err
	})
	if err != nil {
		return nil, err
	}
	list := set.list(&p.spec)
	if err := prepareSet(&p.spec, list); err != nil {
		return nil, err
	}
	err = parallel.Executor{Parallel: set.Parallel}.Do(ctx, len(list), func(ctx context.Context, i int) error {
		r := &list[i]
		var one Hooks
		if hooks.Of != nil {
			one = hooks.Of(*r)
		}
		one.complete()
		drawn, err := p.draw(set, r)
		if err == nil {
			r.Made = drawn.workload.Made()
			r.Summary, err = p.engine.run(ctx, drawn, realization{r.Seed, r.Dir, time.Now()}, one)
		}
		if hooks.Ended != nil {
			hooks.Ended(*r)
		}
		if err != nil {
			return fmt.Errorf("realization %d (seed %d): %w", r.Number, r.Seed, err)
		}
		return nil
	})
	return list, err
}

func (s Set) list(spec *Spec) []Realization {
	list := make([]Realization, s.Count)
	for i := range list {
		list[i] = Realization{Number: i + 1, Dir: filepath.Join(spec.Output, run.RealizationDir(i+1)), Seed: spec.Seed + uint64(i)}
	}
	return list
}

// prepareSet makes the directory of a set and its index. It replaces an existing set if the specification allows that.
func prepareSet(spec *Spec, list []Realization) error {
	dir := spec.Output
	if err := clearSet(dir, spec.Overwrite); err != nil {
		return inputError(err)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return inputError(fmt.Errorf("creating %s: %w", dir, err))
	}
	index := run.SetIndex{Command: spec.Command, Seed: spec.Seed}
	for _, r := range list {
		index.Realizations = append(index.Realizations, run.SetEntry{Run: filepath.Base(r.Dir), Seed: r.Seed})
	}
	return run.WriteSetIndex(dir, index)
}

// oldSet returns the realizations of an existing set. It returns an error if a set exists but
// overwrite is false, or if the directory has other contents.
func oldSet(dir string, overwrite bool) (old []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		return nil, nil // if dir cannot be created, the caller's attempt returns the error
	}
	_, noIndex := os.Stat(filepath.Join(dir, run.RealizationsFile))
	switch {
	case noIndex != nil:
		return nil, fmt.Errorf("creating %s: %w, and holds no set of realizations (want a new or an empty directory)", dir, run.ErrNotEmpty)
	case !overwrite:
		return nil, fmt.Errorf("creating %s: %w: it holds a set of realizations (want a new directory, or --overwrite)", dir, run.ErrNotEmpty)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), run.RealizationPrefix) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if err := run.Overwritable(path); err != nil {
			return nil, fmt.Errorf("overwriting %s: %s: %w", dir, path, err)
		}
		old = append(old, path)
	}
	return old, nil
}

// clearSet removes the realizations of an existing set, if overwrite allows it.
func clearSet(dir string, overwrite bool) error {
	old, err := oldSet(dir, overwrite)
	if err != nil {
		return err
	}
	for _, path := range old {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("overwriting %s: %w", dir, err)
		}
	}
	return nil
}
