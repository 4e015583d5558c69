package explain

import (
	"fmt"
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec/sbatch"
)

// unmet sets Unmet for a job that never started: the ends of other jobs that make it impossible to meet the job's
// dependencies.
func (s *Story) unmet(rec *Record, row *run.Row) {
	s.Unmet = []string{}
	job := rec.requests[row.Job]
	if row.Start != 0 || job == nil || job.Dependency == "" {
		return
	}
	deps, err := sbatch.ParseDependency(job.Dependency)
	if err != nil {
		return
	}
	failed := 0
	for _, d := range deps.List {
		ends := rec.failing(row, d)
		if len(ends) == 0 {
			continue
		}
		failed++
		for _, end := range ends[:min(listed, len(ends))] {
			s.Unmet = append(s.Unmet, fmt.Sprintf("job %s ended at %s in the state %s, so %s:%s can never be met",
				key{end.Job, end.Task}, end.End, end.State, d.Type, d.Job))
		}
	}
	if deps.Any && failed < len(deps.List) { // the job can also start if another condition is met
		s.Unmet = []string{}
	}
}

// failing returns the jobs, or the tasks of an array, whose ends make it impossible to meet the condition d of a job's
// dependencies.
func (rec *Record) failing(row *run.Row, d sbatch.Dependency) (list []*run.Row) {
	all := 0
	for i := range rec.rows {
		other := &rec.rows[i]
		whole := other.Job == d.Job && (d.Type != "aftercorr" || other.Task == row.Task)
		if !whole && (key{other.Job, other.Task}).String() != d.Job {
			continue
		}
		all++
		ended := other.State.Ended() && other.State != hpc.Rejected && (row.End == 0 || other.End <= row.End)
		well := other.State == hpc.Completed
		if ended && (d.Type == "afternotok" && well || slices.Contains([]string{"afterok", "aftercorr"}, d.Type) && !well) {
			list = append(list, other)
		}
	}
	if d.Type == "afternotok" && len(list) < all { // afternotok needs only one task that fails
		return nil
	}
	return list
}
