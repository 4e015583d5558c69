package experiment

import (
	"fmt"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/rm/slurm"
	"rmreplay/internal/rm/slurm/admission"
	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/workload"
)

// The rules of [Check] about actions on Slurm. [workload.Validate] does not check Slurm's commands.
const (
	RuleBadAction   = "bad_action"
	RuleShellAction = "shell_action"
)

// RuleConfiguration is the rule of [Check] about odd statements of the configuration.
const RuleConfiguration = "configuration"

// The rules of [Check] about the commands for sacctmgr in the cluster directory.
const (
	RuleBadAccounts    = "bad_accounts"
	RuleUnknownAccount = "unknown_account"
	RuleUnknownQOS     = "unknown_qos"
	RuleNoAssociation  = "no_association"
)

// Check returns all problems that would make a replay of the workload wrong or impossible. The problems are the
// findings of [workload.ValidateIn], odd statements of the configuration, mistakes in the workload's actions and in the
// cluster's commands for sacctmgr, jobs that slurmctld would refuse because of their associations, and jobs that a
// default limit would end. If cluster is nil, Check does not compare the workload with a cluster, and does not read the
// files that actions name. Dates in the texts are in the given time zone.
func Check(w *workload.Workload, cluster *conf.Cluster, zone *time.Location) []workload.Problem {
	var known workload.Cluster
	if cluster != nil {
		known = ClusterFacts(cluster)
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
	if cluster != nil {
		for _, text := range cluster.Warnings {
			list = append(list, workload.Problem{Severity: workload.Warning, Rule: RuleConfiguration, Text: text})
		}
		list = append(list, checkAssociations(w, cluster)...)
		list = append(list, checkDefaultLimits(w, cluster)...)
	}
	return list
}

// checkAssociations checks the commands for sacctmgr, and whether they make the users, accounts and QOS of the jobs.
func checkAssociations(w *workload.Workload, cluster *conf.Cluster) (list []workload.Problem) {
	cluster = withMade(cluster, w)
	declared := declaredBy(cluster)
	if declared == nil {
		return nil
	}
	for _, mistake := range declared.Mistakes {
		list = append(list, workload.Problem{Severity: workload.Error, Rule: RuleBadAccounts, Text: mistake})
	}
	warn := func(job *hpc.Job, rule, format string, args ...any) {
		list = append(list, workload.Problem{Severity: workload.Warning, Job: job.ID, Rule: rule, Text: fmt.Sprintf(format, args...)})
	}
	enforced := cluster.EnforcesAssociations()
	for _, job := range w.Jobs.All() {
		// sacctmgr and slurmctld store these names in lower case.
		user, account, qos := strings.ToLower(job.User), strings.ToLower(job.Account), strings.ToLower(job.QOS)
		switch of := declared.Users[user]; {
		case job.User == "" || !enforced:
		case of == nil:
			warn(job, RuleNoAssociation, "user %s has no association in %s: slurmctld refuses the job", job.User, cluster.AccountsFile)
		case account != "" && !declared.Accounts[account]:
			warn(job, RuleUnknownAccount, "account %s is not in %s: slurmctld refuses the job", job.Account, cluster.AccountsFile)
		case account != "" && !of[account]:
			warn(job, RuleNoAssociation, "user %s has no association with account %s in %s: slurmctld refuses the job", job.User, job.Account, cluster.AccountsFile)
		}
		if qos != "" && !declared.QOS[qos] {
			warn(job, RuleUnknownQOS, "QOS %s is not in %s", job.QOS, cluster.AccountsFile)
		}
	}
	return list
}

// declaredBy returns what a cluster's commands for sacctmgr declare; nil without such commands.
func declaredBy(cluster *conf.Cluster) *associations.Set {
	if cluster.Accounts == nil || !cluster.Accounting() {
		return nil
	}
	return admission.Declared(cluster, cluster.Accounts)
}

// refusedCommands returns a text about the commands of a cluster's file that sacctmgr refuses; "" if
// it accepts all commands.
func refusedCommands(cluster *conf.Cluster) string {
	declared := declaredBy(cluster)
	if declared == nil || len(declared.Mistakes) == 0 {
		return ""
	}
	n := len(declared.Mistakes)
	return fmt.Sprintf("sacctmgr refuses %s for the cluster's accounts; the first is: %s (rmreplay workload validate WORKLOAD --cluster DIR lists them)",
		quantity.Regular(n, "command"), declared.Mistakes[0])
}

// refuseHopeless returns an error if sacctmgr refuses commands of a cluster's file, and Slurm would therefore reject
// every job. If Slurm would accept some jobs, the run is made, but its result is not valid.
func refuseHopeless(cluster *conf.Cluster, forecast *admission.Forecast, jobs int) error {
	if jobs == 0 || forecast.Rejected < jobs || refusedCommands(cluster) == "" {
		return nil
	}
	return inputError(fmt.Errorf("checking the cluster: %s; Slurm would therefore reject all jobs of the workload (%s)",
		refusedCommands(cluster), quantity.Regular(jobs, "job")))
}
