// Package generate makes workloads that nobody recorded, from a seed: days like those
// of a large machine ([Daint]), the Lublin-Feitelson model ([Lublin]), and logs drawn
// anew after the likeness of a given one ([Like]).
//
// Everything random comes from the seed, in a fixed order: the same options give the
// same workload. docs/GENERATORS.md has the equations and where they come from.
package generate

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"rmreplay/internal/formats/trace"
	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// WriteSite writes a cluster and a workload for it to a directory that does not exist
// or is empty: the files, by name, to dir/cluster and the workload to dir/day.jsonl.
func WriteSite(dir string, w *workload.Workload, files map[string]string) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s: is not empty", dir)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	cluster := filepath.Join(dir, "cluster")
	if err := os.MkdirAll(cluster, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(cluster, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return trace.Save(filepath.Join(dir, "day.jsonl"), w)
}

// pick returns an index with a probability in proportion to its weight. Negative
// weights do not occur; if all are 0, it returns the last index.
func pick(rng *rand.Rand, weights []float64) int {
	total := 0.0
	for _, w := range weights {
		total += w
	}
	u := rng.Float64() * total
	for i, w := range weights {
		if u < w {
			return i
		}
		u -= w
	}
	return len(weights) - 1
}

// bisect returns where in [low, high] the rising function f comes to the wanted value:
// an end, if f stays below or above.
func bisect(low, high, want float64, f func(float64) float64) float64 {
	for range 16 {
		middle := (low + high) / 2
		if f(middle) < want {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}

// sortJobs puts jobs into the order of their submission, those of one instant as
// they stand.
func sortJobs(jobs []*hpc.Job) {
	slices.SortStableFunc(jobs, func(a, b *hpc.Job) int { return cmp.Compare(a.Submit, b.Submit) })
}
