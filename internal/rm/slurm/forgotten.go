package slurm

import (
	"fmt"
	"strings"

	"rmreplay/internal/quantity"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmspec/sbatch"
)

// Since 23.02 slurmctld refuses a submission with afterok or afternotok on a job that it has forgotten. slurmctld
// forgets a job MinJobAge after the job's end (_parse_dependency_jobid_new in job_scheduler.c). Earlier releases treat
// a dependency on a forgotten job as met. The workload comes from users whose Slurm may have accepted dependencies on
// forgotten jobs. A user would submit a refused job again without the dependency, and the engine does the same.

// withoutForgotten asks slurmctld which dependencies of a refused job name forgotten jobs. It
// submits the job again without these dependencies. If slurmctld still has all these jobs, the
// refused job stays refused.
func (j *jobs) withoutForgotten(s *submission, index int, refusal error) {
	var candidates []string
	deps, err := sbatch.ParseDependency(s.job.Dependency)
	if err == nil {
		for _, d := range deps.List {
			on, _ := j.dependedOn(d.Job)
			if (d.Type == "afterok" || d.Type == "afternotok") && on != nil && on.number != 0 && on.ended == len(on.tasks) &&
				!s.forgotten[d.Job] {
				candidates = append(candidates, d.Job)
			}
		}
	}
	if len(candidates) == 0 {
		j.refuse(s, refusal.Error())
		return
	}
	open, found := len(candidates), false
	for _, name := range candidates {
		on, _ := j.dependedOn(name)
		j.ask(rpc.RequestJobInfoSingle, j.codec.Body(&rpc.JobInfoRequest{Job: on.number}),
			func(reply *rpc.Message, err error) {
				_, err = jobInfos(reply, err)
				if errno, _ := asErrno(err); errno == slurmspec.ErrInvalidJob {
					if s.forgotten == nil {
						s.forgotten = map[string]bool{}
					}
					s.forgotten[name], found = true, true
				}
				if open--; open > 0 {
					return
				}
				if !found {
					j.refuse(s, refusal.Error())
					return
				}
				j.sendSubmission(index)
			})
	}
}

// warnForgotten adds a warning that names the jobs that were submitted without a dependency. The
// removed dependencies do not affect the result: without the rule, the jobs would start at the
// same time.
func (j *jobs) warnForgotten() {
	var names []string
	for _, s := range j.submissions {
		if len(s.forgotten) > 0 {
			names = append(names, s.job.ID)
		}
	}
	if n := len(names); n > 0 {
		const shown = 5
		list := strings.Join(names[:min(n, shown)], ", ")
		if n > shown {
			list += fmt.Sprintf(" and %d more", n-shown)
		}
		j.warn("dependency-forgotten", fmt.Sprintf("%s (%s) %s submitted without a dependency on an ended job, because "+
			"slurmctld %s had forgotten that job (MinJobAge) and refuses such dependencies", quantity.Regular(n, "job"), list,
			quantity.Plural(n, "was", "were"), j.codec.Release()), false)
	}
}
