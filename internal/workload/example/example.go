// Package example makes the bundled example from a seed: a cluster directory of fifty nodes
// and a day of jobs for it.
//
// The machine, its users and its jobs are invented. The shape of the day is realistic:
// submissions follow office hours, run times are log-normal, and time limits are round and
// far too long. A few jobs of every kind time out, fail, are cancelled, are arrays or
// depend on others.
package example

import (
	"fmt"

	"rmreplay/internal/workload"
	"rmreplay/internal/workload/generate"
)

// Example returns the day of jobs and the files of the cluster directory, by name. The same
// seed gives the same workload. The cluster is the same for every seed.
func Example(seed uint64) (*workload.Workload, map[string]string) {
	return day(seed), clusterFiles()
}

// WriteExample writes the example to a directory that does not exist or is empty: the
// cluster to dir/cluster and the workload to dir/day.jsonl. The same seed gives the same
// bytes. The error says what cannot be written, or that the directory is not empty.
func WriteExample(dir string, seed uint64) error {
	w, files := Example(seed)
	if err := generate.WriteSite(dir, w, files); err != nil {
		return fmt.Errorf("writing example: %w", err)
	}
	return nil
}
