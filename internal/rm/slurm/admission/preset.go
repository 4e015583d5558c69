package admission

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/window"
	"rmreplay/internal/slurmspec"
)

// Admitted returns the job of [window.OperatorsJob] as a replay submits it: the parameter job, or a copy with another
// time limit. On a controller a job runs on if an administrator lowers its partition's MaxTime below the job's limit,
// but slurmctld admits no new job with such a limit. Therefore the copy has a limit of a minute, and the replay then
// raises the limit: slurmctld does not compare a limit that an operator has set by an update with MaxTime
// (ADMIN_SET_LIMIT in job_limits_check). Jobs of other kinds, and jobs whose limit one of their partitions allows, are
// returned unchanged.
func Admitted(c *conf.Cluster, job *hpc.Job) *hpc.Job {
	if job.Reservation != window.Reservation || job.TimeLimit == 0 || !aboveMaxTime(c, job) {
		return job
	}
	admitted := *job
	admitted.TimeLimit, admitted.TimeMin = time.Minute, 0
	return &admitted
}

// aboveMaxTime reports whether the job's time limit is above the MaxTime of each of its partitions.
func aboveMaxTime(c *conf.Cluster, job *hpc.Job) bool {
	limit, err := slurmspec.Minutes(job.TimeLimit)
	if err != nil {
		return false // the submission reports the error
	}
	names := strings.Split(cmp.Or(job.Partition, c.DefaultPartition()), ",")
	above := false
	for i := range c.Partitions {
		p, longest := &c.Partitions[i], slurmspec.Infinite
		if !slices.Contains(names, p.Name) {
			continue
		}
		if err := timeLimit(p, "MaxTime", &longest); err != nil || limit <= longest {
			return false
		}
		above = true
	}
	return above
}
