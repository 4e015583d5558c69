package experiment

import (
	"time"

	"rmreplay/internal/rm/slurm"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/workload"
)

// The rules of [Check] about actions on Slurm. [workload.Validate] does not know Slurm's
// commands.
const (
	RuleBadAction   = "bad_action"
	RuleShellAction = "shell_action"
)

// Check returns all problems of a workload that would spoil a replay of it: the findings of
// [workload.ValidateIn], and mistakes in the workload's actions. Without a cluster (nil), Check
// compares nothing with a cluster and does not read the files that actions name. Dates in the
// texts are in the given time zone.
func Check(w *workload.Workload, cluster *conf.Cluster, zone *time.Location) []workload.Problem {
	var known workload.Cluster
	if cluster != nil {
		known = Known(cluster)
	}
	list := workload.ValidateIn(w, known, zone)
	for _, a := range w.Actions {
		if err := CheckAction(a, w.Start, cluster); err != nil {
			list = append(list, workload.Problem{Severity: workload.Error, Rule: RuleBadAction, Text: err.Error()})
		}
		if err := slurm.CheckPermitted(a, zone); err != nil {
			list = append(list, workload.Problem{Severity: workload.Warning, Rule: RuleShellAction, Text: err.Error()})
		}
	}
	return list
}
