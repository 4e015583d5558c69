// Package example makes the bundled example: a cluster directory of fifty nodes and
// a day of jobs for it, both from a seed.
//
// The machine, its people and its jobs are invented. The shape of the day is not:
// submissions follow office hours, run times are log-normal, time limits are round
// and far too long, and a few jobs of every kind time out, fail, are cancelled, are
// arrays or wait for others.
package example

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"rmreplay/internal/workload"
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
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("writing example: %s: is not empty", dir)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("writing example: %w", err)
	}
	w, files := Example(seed)
	cluster := filepath.Join(dir, "cluster")
	if err := os.MkdirAll(cluster, 0o755); err != nil {
		return fmt.Errorf("writing example: %w", err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(cluster, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing example: %w", err)
		}
	}
	if err := workload.Save(filepath.Join(dir, "day.jsonl"), w); err != nil {
		return fmt.Errorf("writing example: %w", err)
	}
	return nil
}
