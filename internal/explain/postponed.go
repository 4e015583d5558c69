package explain

import (
	"bytes"
	"fmt"
	"time"

	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec/sbatch"
)

// Postponed says that the run submitted a job later than the workload does. The job's wait is then too
// short. The job depends, directly or through other jobs, on a preset job. A replay on Slurm submits preset
// jobs only at their starts, and slurmctld refuses dependencies on jobs that have not been submitted.
type Postponed struct {
	By      string  `json:"by"` // the preset job
	Seconds float64 `json:"seconds"`
}

// postponed returns nil for a job that was not postponed.
func (rec *Record) postponed(row *run.Row) *Postponed {
	if by := rec.postponedBy(row, map[string]bool{}); by != "" {
		return &Postponed{By: by, Seconds: row.Submit.Sub(row.RecordedSubmit).Seconds()}
	}
	return nil
}

// postponedBy returns the preset job that delayed the submission of a job; "" if no preset job did. The
// map seen has the jobs that were examined, because dependencies of a hostile record may form a circle.
func (rec *Record) postponedBy(row *run.Row, seen map[string]bool) string {
	request := rec.requests[row.Job]
	if request == nil || request.Dependency == "" || row.RecordedSubmit == 0 || seen[row.Job] ||
		row.Submit <= row.RecordedSubmit {
		return ""
	}
	seen[row.Job] = true
	deps, err := sbatch.ParseDependency(request.Dependency)
	if err != nil {
		return "" // the resource manager refused the job
	}
	for _, dep := range deps.List {
		array, _, _ := dep.Task()
		for i := range rec.rows {
			other := &rec.rows[i]
			named := other.Job == dep.Job || other.Job == array
			if dep.Type == "singleton" {
				named = rec.sameName(row, other)
			}
			switch {
			case !named || other.Job == row.Job:
			case rec.waitedFor(row, other):
				return key{other.Job, other.Task}.String()
			default:
				if by := rec.postponedBy(other, seen); by != "" && row.RecordedSubmit < other.Submit {
					return by
				}
			}
		}
	}
	return ""
}

// waitedFor reports whether the other job is a preset job that started between a job's submission in the workload and
// its submission in the run. Slurm's instants are whole seconds.
func (rec *Record) waitedFor(row, other *run.Row) bool {
	start := other.FirstStart()
	return start != 0 && start < rec.manifest.WindowStart && row.RecordedSubmit < start &&
		start < row.Submit.Add(time.Second)
}

// sameName reports whether two jobs have the same user and name: as singletons, they would wait
// for each other.
func (rec *Record) sameName(row, other *run.Row) bool {
	name := func(r *run.Row) string {
		if job := rec.requests[r.Job]; job != nil {
			return job.Name
		}
		return ""
	}
	return row.User == other.User && name(row) == name(other) && row.RecordedSubmit < rec.manifest.WindowStart
}

// render writes the warning for people. It writes nothing if p is nil.
func (p *Postponed) render(b *bytes.Buffer) {
	if p != nil {
		fmt.Fprintf(b, "%-12s its wait is too short by %s: the run submitted it late, because it depends on job %s, which "+
			"ran when the window began and is submitted only at its start\n", "warning", span(p.Seconds), p.By)
	}
}
