// Package generate makes synthetic workloads from a seed: days like those of a large
// machine ([Daint]), the Lublin-Feitelson model ([Lublin]), and workloads that resemble a
// given one ([Like]).
//
// All random numbers come from the seed, in a fixed order: the same options give the same
// workload. docs/GENERATORS.md has the equations and their sources.
package generate

import (
	"cmp"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"rmreplay/internal/formats/trace"
	"rmreplay/internal/hpc"
	"rmreplay/internal/output"
	"rmreplay/internal/workload"
)

// WriteSite writes a cluster and a workload for it to a directory that does not exist or is empty.
// The files go to dir/cluster under their names, and the workload to dir/day.jsonl. All files
// appear at the same time. The error says what cannot be written, or that the directory is not
// empty.
func WriteSite(dir string, w *workload.Workload, files map[string]string) error {
	return output.Directory(dir, func(dir string) error {
		cluster := filepath.Join(dir, "cluster")
		if err := os.Mkdir(cluster, 0o777); err != nil {
			return err
		}
		for name, text := range files {
			if err := output.Text(filepath.Join(cluster, name), text); err != nil {
				return err
			}
		}
		return trace.Save(filepath.Join(dir, "day.jsonl"), w)
	})
}

// pick returns a random index with a probability in proportion to its weight. Weights are not negative. If all weights
// are 0, pick returns the last index.
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

// bisect returns the point of [low, high] at which the increasing function f takes the wanted
// value. It returns an end of the interval if f is below, or above, the wanted value everywhere.
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

// sortJobs sorts jobs by their submission. Jobs of one instant keep their order.
func sortJobs(jobs []*hpc.Job) {
	slices.SortStableFunc(jobs, func(a, b *hpc.Job) int { return cmp.Compare(a.Submit, b.Submit) })
}
