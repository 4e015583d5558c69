// Package admission predicts how slurmctld answers the submissions of a workload: which jobs it
// rejects, and which jobs it accepts although they can never start. The prediction depends only on
// the site's configuration, its accounts and the jobs. The package starts no daemon.
//
// The checks run in slurmctld's order, and the first failure decides, as in slurmctld:
// validate_job_create_req, _job_create with _valid_job_part and _part_access_check, and
// job_allocate with _select_nodes_parts in src/slurmctld/job_mgr.c; acct_policy_validate in
// acct_policy.c; build_feature_list in job_scheduler.c; validate_job_resv in reservation.c;
// license_validate in licenses.c; gres_job_state_validate in gres.c; and _build_node_list in
// node_scheduler.c. Differences between the releases 22.05 to 26.05 are marked with the release.
//
// Some rejections depend on the other jobs in the queue: limits on submitted jobs, and
// MaxJobCount. The package predicts such a rejection only for an array that exceeds the limit on
// its own. docs/LIMITATIONS.md lists further omissions.
package admission

import "rmreplay/internal/slurmspec"

// Verdict says what happens to a job.
type Verdict string

const (
	// Rejected is the verdict on a job that slurmctld refuses at submission.
	Rejected Verdict = "rejected"
	// NeverStarts is the verdict on a job that slurmctld accepts but cannot start until somebody
	// changes the job or the configuration.
	NeverStarts Verdict = "never starts"
)

// Finding says why slurmctld does not run a job. Jobs with equal findings have one cause.
type Finding struct {
	Verdict Verdict `json:"verdict"`
	Rule    string  `json:"rule"` // a Rule constant
	// Slurm is slurmctld's answer to the submission ("ESLURM_INVALID_TIME_LIMIT"), or the reason for
	// which the job pends ("PartitionTimeLimit"). It is empty if the job is not even submitted.
	Slurm string `json:"slurm"`
	// Text says what is wrong. Remedy says what to change.
	Text   string `json:"text"`
	Remedy string `json:"remedy"`
}

// The rules of findings.
const (
	RuleSubmission  = "bad_submission"
	RuleUser        = "no_user"
	RuleArray       = "bad_array"
	RulePartition   = "partition"
	RuleAccess      = "partition_access"
	RuleGroups      = "groups"
	RuleAccount     = "account"
	RuleQOS         = "qos"
	RuleWCKey       = "wckey"
	RuleTime        = "time_limit"
	RuleNodes       = "nodes"
	RuleTasks       = "tasks"
	RuleCPUs        = "cpus"
	RuleMemory      = "memory"
	RuleGRES        = "gres"
	RuleLicenses    = "licenses"
	RuleNodeList    = "node_list"
	RuleFeatures    = "features"
	RuleReservation = "reservation"
	RuleDependency  = "dependency"
	RuleLimit       = "limit"
	// RuleSlurm is the rule of every answer of slurmctld for which this package has no rule.
	RuleSlurm = "slurm"
)

// The answers of slurmctld that the package predicts (slurm_errno.h).
const (
	errInvalidPartition  slurmspec.Errno = 2000
	errNoDefault         slurmspec.Errno = 2001
	errAccess            slurmspec.Errno = 2002
	errGroup             slurmspec.Errno = 2003
	errNotInPartition    slurmspec.Errno = 2004
	errTooManyCPUs       slurmspec.Errno = 2005
	errNodeCount         slurmspec.Errno = 2006
	errTooLong           slurmspec.Errno = 2012
	errNodeConfig        slurmspec.Errno = 2014
	errPartConfig        slurmspec.Errno = 2015
	errNodeName          slurmspec.Errno = 2018
	errTaskCount         slurmspec.Errno = 2025
	errFeature           slurmspec.Errno = 2029
	errMemory            slurmspec.Errno = 2044
	errAccount           slurmspec.Errno = 2045
	errLicenses          slurmspec.Errno = 2048
	errPolicy            slurmspec.Errno = 2050
	errTimeLimit         slurmspec.Errno = 2051
	errReservationAccess slurmspec.Errno = 2052
	errReservation       slurmspec.Errno = 2053
	errWCKey             slurmspec.Errno = 2057
	errQOS               slurmspec.Errno = 2066
	errPartitionClosed   slurmspec.Errno = 2070
	errGRES              slurmspec.Errno = 2072
	errArray             slurmspec.Errno = 2081
	errUnsupportedGRES   slurmspec.Errno = 2122
	errNice              slurmspec.Errno = 2123
	errTimeMin           slurmspec.Errno = 2124
	errPartitionAssoc    slurmspec.Errno = 2130
	errPrefer            slurmspec.Errno = 2133
)

// NoSuchNodes is [Finding].Slurm of a job that no node of its partitions can run.
var NoSuchNodes = errNodeConfig.Name()

// reject makes the finding of a rejected job.
func reject(errno slurmspec.Errno, rule, text, remedy string) *Finding {
	return &Finding{Verdict: Rejected, Rule: rule, Slurm: errno.Name(), Text: text, Remedy: remedy}
}

// pend makes the finding of a job that never starts. The parameter reason is the reason for which
// the job pends (job_reason_string in slurm_protocol_defs.c).
func pend(reason, rule, text, remedy string) *Finding {
	return &Finding{Verdict: NeverStarts, Rule: rule, Slurm: reason, Text: text, Remedy: remedy}
}
