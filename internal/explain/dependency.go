package explain

import (
	"fmt"
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec/sbatch"
)

// NeverMet returns texts about the ends of other jobs that make it impossible to meet a job's dependencies; nil for a
// job that started. The parameter rows has all rows of the run. The parameter asked is the job's submission; nil if
// the record does not have it.
func NeverMet(rows []run.Row, row *run.Row, asked *hpc.Job) (texts []string) {
	if row.Start != 0 || asked == nil || asked.Dependency == "" {
		return nil
	}
	deps, err := sbatch.ParseDependency(asked.Dependency)
	if err != nil {
		return nil
	}
	failed := 0
	for _, d := range deps.List {
		ends := failing(rows, row, d)
		if len(ends) == 0 {
			continue
		}
		failed++
		for _, end := range ends[:min(listed, len(ends))] {
			texts = append(texts, fmt.Sprintf("job %s ended at %s in the state %s, so %s:%s can never be met",
				key{end.Job, end.Task}, end.End, end.State, d.Type, d.Job))
		}
	}
	if deps.Any && failed < len(deps.List) { // the job can also start if another condition is met
		return nil
	}
	return texts
}

// failing returns the jobs, or the tasks of an array, whose ends make it impossible to meet the condition d of a job's
// dependencies.
func failing(rows []run.Row, row *run.Row, d sbatch.Dependency) (list []*run.Row) {
	all := 0
	for i := range rows {
		other := &rows[i]
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
