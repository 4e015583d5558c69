// Package recorded computes from a run record what its jobs read from and wrote to file systems.
package recorded

import (
	"cmp"
	"fmt"
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/ioservice/counters"
	"rmreplay/internal/metrics"
	"rmreplay/internal/run"
)

// Job is a job of a run that started and ended.
type Job struct {
	counters.Total
	Comment string // comment of the job's submission
	// Counted is set if the record has the job's request and the run has file systems.
	Counted bool
}

// Jobs returns the jobs of a run that started and ended, ordered by their ends. The result open is
// the number of all other jobs. The bytes are computed with the model of package bandwidth: they
// are what counters would have counted. Each task of a job array is a separate job. Jobs returns
// an error for a row that cannot be read.
func Jobs(rows []run.Row, m *run.Manifest) (jobs []Job, open int, err error) {
	moved, err := metrics.MovedBytes(rows, m)
	if err != nil {
		return nil, 0, err
	}
	requests := map[string]*hpc.Job{} // only the first row of an array has the request
	for i := range rows {
		r := &rows[i]
		if r.Request != "" {
			if requests[r.Job], err = run.DecodeJob([]byte(r.Request)); err != nil {
				return nil, 0, fmt.Errorf("job %s: %w", r.Job, err)
			}
		}
		if r.Start == 0 || r.End <= r.Start {
			if r.State != hpc.Rejected {
				open++
			}
			continue
		}
		job := Job{Total: counters.Total{Job: r.Job, Start: r.Start, End: r.End}}
		if r.Task >= 0 {
			job.Job = fmt.Sprintf("%s_%d", r.Job, r.Task)
		}
		if request := requests[r.Job]; request != nil {
			job.Comment = request.Comment
			if job.Counted = moved != nil; job.Counted {
				job.Bytes = moved[i]
			}
		}
		jobs = append(jobs, job)
	}
	slices.SortStableFunc(jobs, func(a, b Job) int { return cmp.Compare(a.End, b.End) })
	return jobs, open, nil
}
