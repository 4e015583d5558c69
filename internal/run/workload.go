package run

import (
	"fmt"

	"rmreplay/internal/workload"
)

// Workload reads the record in dir as a workload: what was submitted, as it was
// submitted. It has the signature of [workload.OpenRun].
func Workload(dir string) (*workload.Workload, error) {
	r, err := Open(dir)
	if err != nil {
		return nil, fmt.Errorf("reading workload: %w", err)
	}
	jobs, err := r.Submissions()
	if err != nil {
		return nil, fmt.Errorf("reading workload: %s: %w", dir, err)
	}
	if len(jobs) == 0 {
		return nil, fmt.Errorf("reading workload: %s: the run has no jobs", dir)
	}
	return &workload.Workload{Jobs: jobs, Epoch: r.Manifest.VirtualStart, Source: dir}, nil
}
