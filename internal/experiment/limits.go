package experiment

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/experiment/overtime"
	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// remedyOfLimits says how jobs without a time limit can run to their recorded end.
const remedyOfLimits = "replay with --time-limit twice-run-time, or raise DefaultTime"

// unlikeRecord returns warnings about jobs that may have ended differently than in the record: a job without a limit
// reaches a default limit, the workload does not cancel a job that the record says was killed, slower nodes make a job
// reach its own limit, or a job's limit is shorter than its recorded run time.
func (p *Prepared) unlikeRecord(rows iter.Seq[*run.Row]) []run.Warning {
	without, killed, slowed := map[string]hpc.State{}, map[string]hpc.Recorded{}, map[string]bool{}
	for _, job := range p.workload.Jobs.All() {
		if ran := float64(job.RunTime); job.TimeLimit > 0 && job.TimeLimit != hpc.Unlimited && job.RunTime <= job.TimeLimit &&
			ran/cmp.Or(p.spec.Performance, 1) > float64(job.TimeLimit) {
			slowed[job.ID] = true
		}
		r := job.Recorded
		if r == nil || r.Start == 0 {
			continue
		}
		if job.TimeLimit == 0 && r.State != hpc.TimedOut {
			without[job.ID] = r.State
		}
		if job.CancelAfter == 0 && (isKilled(r.State) || slices.ContainsFunc(slices.Collect(maps.Values(r.TaskStates)), isKilled)) {
			killed[job.ID] = *r
		}
	}
	past := overtime.Ended(p.workload, cmp.Or(p.spec.Performance, 1), rows)
	return slices.Concat(unrecordedLimits(without, rows), killedOnRecord(killed, rows), slowedToLimit(slowed, rows), past)
}

// slowedToLimit returns a warning about jobs that reached their limit because slower nodes make them run longer.
func slowedToLimit(slowed map[string]bool, rows iter.Seq[*run.Row]) []run.Warning {
	n := 0
	if len(slowed) > 0 {
		for row := range rows {
			if row.State == hpc.TimedOut && slowed[row.Job] {
				n++
			}
		}
	}
	if n == 0 {
		return nil
	}
	text := fmt.Sprintf("%s at the time limit, because slower nodes (--perf) lengthen run times but not limits; waits and "+
		"utilization include this (with --time-limit twice-run-time, no job reaches its limit)",
		quantity.Plural(n, "1 job was ended", fmt.Sprint(n, " jobs were ended")))
	return []run.Warning{{Code: "slowed-to-limit", Text: text}}
}

// isKilled reports whether a job in this state was ended by something other than its own exit or its time limit.
func isKilled(s hpc.State) bool {
	return s == hpc.Cancelled || s == hpc.NodeFail || s == hpc.OutOfMemory || s == hpc.Preempted || s == hpc.Deadlined
}

// killedOnRecord returns a warning about jobs that failed in the run because in the record something else had ended
// them ([isKilled]). In the run they have their recorded run time, and then exit with an error.
func killedOnRecord(killed map[string]hpc.Recorded, rows iter.Seq[*run.Row]) []run.Warning {
	if len(killed) == 0 {
		return nil
	}
	states, n := map[hpc.State]int{}, 0
	for row := range rows {
		r := killed[row.Job]
		if recorded := r.OfTask(row.Task).State; row.State == hpc.Failed && isKilled(recorded) {
			states[recorded]++
			n++
		}
	}
	if n == 0 {
		return nil
	}
	var list []string
	for _, state := range slices.Sorted(maps.Keys(states)) {
		list = append(list, fmt.Sprintf("%d %s", states[state], state))
	}
	text := fmt.Sprintf("%s as FAILED: on record %s %s (a run ends such jobs with an exit code, after their recorded "+
		"run time)", quantity.Plural(n, "1 job ended", fmt.Sprint(n, " jobs ended")), quantity.Plural(n, "it was", "they were"),
		strings.Join(list, ", "))
	return []run.Warning{{Code: run.EndsAsFailed, Text: text}}
}

// unrecordedLimits returns a warning about jobs that were ended at a time limit although the workload has no limit for
// them. The map without contains the jobs that have no limit and did not end at a time limit in the record, with their
// recorded states. A run that ends these jobs at a time limit has a different load than the record.
func unrecordedLimits(without map[string]hpc.State, rows iter.Seq[*run.Row]) []run.Warning {
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
	text := fmt.Sprintf("%d %s ended at a default time limit, because the workload has no time limit for them; %d of them "+
		"were COMPLETED on record: %s (%s)",
		len(ended), quantity.Plural(len(ended), "job was", "jobs were"), completed, replay.Few(ended, 5), remedyOfLimits)
	return []run.Warning{{Code: "limit-not-recorded", Text: text, AffectsResult: true}}
}

// RuleDefaultLimit is the rule of [Check] about jobs without a time limit that run longer than the
// default limit of their partition.
const RuleDefaultLimit = "default_time_limit"

// checkDefaultLimits returns one warning about all jobs without a time limit that will end at the
// default limit of their partition.
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
