package experiment

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// remedyOfLimits is what helps jobs that have no time limit.
const remedyOfLimits = "replay with --time-limit twice-run-time, or raise DefaultTime"

// unrecordedLimits warns of jobs that were ended at a time limit although their workload has none for
// them, and although they did not reach one when it was recorded. Such a run has another load.
func (p *Prepared) unrecordedLimits(rows iter.Seq[*run.Row]) []run.Warning {
	without := map[string]hpc.State{} // the recorded states
	for _, job := range p.workload.Jobs.All() {
		if r := job.Recorded; job.TimeLimit == 0 && r != nil && r.Start != 0 && r.State != hpc.TimedOut {
			without[job.ID] = r.State
		}
	}
	if len(without) == 0 {
		return nil
	}
	var ended []string
	completed := 0
	for row := range rows {
		recorded, known := without[row.Job]
		if !known || row.State != hpc.TimedOut {
			continue
		}
		ended = append(ended, row.Job)
		if recorded == hpc.Completed {
			completed++
		}
	}
	if len(ended) == 0 {
		return nil
	}
	text := fmt.Sprintf("%d %s ended at a default time limit, which their workload does not have; %d of them "+
		"were COMPLETED on record: %s (%s)",
		len(ended), quantity.Plural(len(ended), "job was", "jobs were"), completed, few(ended, 5), remedyOfLimits)
	return []run.Warning{{Code: "limit-not-recorded", Text: text, AffectsResult: true, Count: len(ended)}}
}

// RuleDefaultLimit is the rule of [Check] about jobs without a time limit that run longer than the
// default limit of their partition.
const RuleDefaultLimit = "default_time_limit"

// checkDefaultLimits warns once of all jobs without a time limit that the default limit of their
// partition will end.
func checkDefaultLimits(w *workload.Workload, cluster *conf.Cluster) []workload.Problem {
	limits := map[string]time.Duration{}
	for _, p := range cluster.Partitions {
		limits[p.Name] = p.DefaultLimit()
		if p.Default {
			limits[""] = limits[p.Name]
		}
	}
	without, ended, first := 0, 0, ""
	for _, job := range w.Jobs.All() {
		if job.TimeLimit != 0 {
			continue
		}
		without++
		name, _, _ := strings.Cut(job.Partition, ",")
		limit := limits[name]
		if limit == 0 || job.RunTime <= limit || job.RunTime == hpc.Unlimited {
			continue
		}
		if ended++; ended == 1 {
			first = fmt.Sprintf("job %s runs for %s, the limit is %s", job.ID, hpc.FormatDuration(job.RunTime),
				hpc.FormatDuration(limit))
		}
	}
	if ended == 0 {
		return nil
	}
	return []workload.Problem{{Severity: workload.Warning, Rule: RuleDefaultLimit, Text: fmt.Sprintf(
		"%d of %d %s without a time limit run longer than the default limit of their partition, which ends them (%s; %s)",
		ended, without, quantity.Plural(without, "job", "jobs"), first, remedyOfLimits)}}
}
