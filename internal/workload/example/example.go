// Package example makes the bundled example: a cluster directory of fifty nodes and
// a day of jobs for it, both from a seed.
//
// The machine, its people and its jobs are invented. The shape of the day is not:
// submissions follow office hours, run times are log-normal, time limits are round
// and far too long, and a few jobs of every kind time out, fail, are cancelled, are
// arrays or wait for others.
package example

import (
	"fmt"

	"rmreplay/internal/workload"
	"rmreplay/internal/workload/generate"
)

// Example returns the day of jobs and the files of the cluster directory, by name.
// The same seed gives the same workload; the cluster is the same for every seed.
func Example(seed uint64) (*workload.Workload, map[string]string) {
	return day(seed), clusterFiles()
}

// WriteExample writes the example to a directory that does not exist or is empty:
// the cluster to dir/cluster and the workload to dir/day.jsonl. The same seed gives
// the same bytes.
func WriteExample(dir string, seed uint64) error {
	w, files := Example(seed)
	if err := generate.WriteSite(dir, w, files); err != nil {
		return fmt.Errorf("writing example: %w", err)
	}
	return nil
}
