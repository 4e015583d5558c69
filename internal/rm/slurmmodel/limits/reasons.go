package limits

import (
	"strings"

	"rmreplay/internal/rm/slurmmodel/tres"
	"rmreplay/internal/slurmspec"
)

// The reasons that do not depend on a resource.
var (
	qosGrpJobs         = named("QOSGrpJobsLimit")
	qosGrpSubmit       = named("QOSGrpSubmitJobsLimit")
	qosGrpWall         = named("QOSGrpWallLimit")
	qosMaxWall         = named("QOSMaxWallDurationPerJobLimit")
	qosMaxJobs         = named("QOSMaxJobsPerUserLimit")
	qosMaxSubmit       = named("QOSMaxSubmitJobPerUserLimit")
	accountJobs        = named("MaxJobsPerAccount")
	accountSubmit      = named("MaxSubmitJobsPerAccount")
	assocGrpJobs       = named("AssocGrpJobsLimit")
	assocGrpSubmit     = named("AssocGrpSubmitJobsLimit")
	assocGrpWall       = named("AssocGrpWallLimit")
	assocMaxWall       = named("AssocMaxWallDurationPerJobLimit")
	assocMaxJobs       = named("AssocMaxJobsLimit")
	assocMaxSubmit     = named("AssocMaxSubmitJobLimit")
	reservationDeleted = named("ReservationDeleted")
	invalidAccount     = named("InvalidAccount")
	qosNotAllowed      = named("QOSNotAllowed")
	badConstraints     = named("BadConstraints")
	firstOfLimits      = named("QOSGrpCpuLimit")
	lastOfLimits       = named("AssocMaxSubmitJobLimit")
	oldLimitReasons    = []slurmspec.Reason{
		named("AssociationJobLimit"), named("AssociationResourceLimit"), named("AssociationTimeLimit"),
		named("QOSJobLimit"), named("QOSTimeLimit"),
	}
)

func named(name string) slurmspec.Reason {
	r, ok := slurmspec.ReasonNamed(name)
	if !ok {
		panic("no reason is named " + name) // when the program starts, so every test would show it
	}
	return r
}

// isLimit reports whether a check clears a reason because the reason is a limit. Before 24.05 slurmctld does
// not clear most of the reasons that were added after 14.11 (acct_policy_job_runnable_state).
func (l *Limits) isLimit(r slurmspec.Reason) bool {
	if !l.release.Since(slurmspec.R2405) {
		if r >= firstOfLimits && r <= lastOfLimits {
			return true
		}
		for _, old := range oldLimitReasons {
			if r == old {
				return true
			}
		}
		return false
	}
	return IsLimit(r)
}

// IsLimit reports whether a reason is a limit of a QOS or an association.
func IsLimit(r slurmspec.Reason) bool {
	name := r.String()
	return r != qosNotAllowed && (strings.HasPrefix(name, "Assoc") || strings.HasPrefix(name, "QOS") ||
		strings.HasPrefix(name, "Max") && (strings.HasSuffix(name, "PerAccount") || strings.HasSuffix(name, "PerUser")))
}

// kind is a kind of limits on TRES. The map others has the names of the reasons for some resources. For all
// other resources the name has three parts: the field before, the resource's word, and the field behind.
type kind struct {
	before, behind string
	others         map[string]string // by the resource's word
}

var (
	assocGrp        = kind{"AssocGrp", "", limitSuffix("AssocGrp", "Cpu", "Mem", "Node")}
	assocGrpMins    = kind{"AssocGrp", "Minutes", map[string]string{"Cpu": "AssocGrpCPUMinutesLimit"}}
	assocGrpRunMins = kind{"AssocGrp", "RunMinutes", map[string]string{"Cpu": "AssocGrpCPURunMinutesLimit"}}
	assocMax        = kind{"AssocMax", "PerJob", limitSuffix("AssocMax", "CpuPerJob", "NodePerJob")}
	assocMaxMins    = kind{"AssocMax", "MinutesPerJob", limitSuffix("AssocMax", "CpuMinutesPerJob")}
	assocMaxPerNode = kind{"AssocMax", "PerNode", perNode("Assoc")}
	qosGrp          = kind{"QOSGrp", "", limitSuffix("QOSGrp", "Cpu", "Mem", "Node")}
	qosGrpMins      = kind{"QOSGrp", "Minutes", map[string]string{"Cpu": "QOSGrpCPUMinutesLimit"}}
	qosGrpRunMins   = kind{"QOSGrp", "RunMinutes", map[string]string{"Cpu": "QOSGrpCPURunMinutesLimit"}}
	qosMax          = kind{"QOSMax", "PerJob", limitSuffix("QOSMax", "CpuPerJob", "NodePerJob")}
	// For burst buffers slurmctld gives the reason of an association's limit.
	qosMaxMins = kind{"QOSMax", "MinutesPerJob", map[string]string{
		"Cpu": "QOSMaxCpuMinutesPerJobLimit", "BB": "AssocMaxBBMinutesPerJob"}}
	qosMaxPerNode = kind{"QOSMax", "PerNode", perNode("QOS")}
	qosMin        = kind{"QOSMin", "", map[string]string{"Cpu": "QOSMinCpuNotSatisfied"}}
	qosPerUser    = kind{"QOSMax", "PerUser", limitSuffix("QOSMax", "CpuPerUser", "NodePerUser")}
	qosPerAccount = kind{"Max", "PerAccount", nil}
	qosRunPerUser = kind{"Max", "RunMinsPerUser", nil}
	qosRunPerAcct = kind{"Max", "RunMinsPerAccount", nil}
)

// limitSuffix returns reasons whose names end in Limit, by resource. Each word begins with the name
// of its resource.
func limitSuffix(before string, words ...string) map[string]string {
	names := map[string]string{}
	for _, word := range words {
		for _, resource := range []string{"Cpu", "Mem", "Node"} {
			if strings.HasPrefix(word, resource) {
				names[resource] = before + word + "Limit"
			}
		}
	}
	return names
}

// perNode returns the reasons of limits per node for resources that have no such reason in
// slurmctld.
func perNode(of string) map[string]string {
	return map[string]string{"Node": of + "MaxUnknownPerNode", "License": of + "MaxUnknownPerNode"}
}

// reason returns the reason of a limit on a resource (_get_tres_state_reason).
func (l *Limits) reason(k kind, i int) slurmspec.Reason {
	resource := l.word(i)
	name, ok := k.others[resource]
	if !ok {
		name = k.before + resource + k.behind
		if resource == "Mem" && !strings.HasPrefix(k.before, "Assoc") {
			name = k.before + "Memory" + k.behind
		}
	}
	return named(name)
}

// word returns the resource's word in the names of reasons, such as "Cpu".
func (l *Limits) word(i int) string {
	switch i {
	case tres.CPU:
		return "Cpu"
	case tres.Memory:
		return "Mem"
	case tres.Energy:
		return "Energy"
	case tres.Node:
		return "Node"
	case tres.Billing:
		return "Billing"
	}
	switch kind, _, _ := strings.Cut(l.accounts.TRES.Name(i), "/"); kind {
	case "gres":
		return "GRES"
	case "license":
		return "License"
	case "bb":
		return "BB"
	}
	return "Unknown"
}

// StaysHeld reports whether a held job with this reason keeps the reason (_job_runnable_test1 in
// job_scheduler.c).
func StaysHeld(r slurmspec.Reason) bool {
	const maxRequeue = 71
	return r == slurmspec.HeldByAdmin || r == slurmspec.HeldByUser || r == badConstraints || r == reservationDeleted ||
		r == maxRequeue
}

// KeepsBehind reports whether a pending job waits because of a limit. A new job may then start
// before this pending job (acct_policy_job_runnable_state in acct_policy.c). Before 24.11 slurmctld
// ignores newer reasons, such as limits on generic resources.
func KeepsBehind(r slurmspec.Reason, since2411 bool) bool {
	const assocJobs, assocTime, qosJobs, qosTime, qosGrpCPU, assocSubmitted = 11, 13, 30, 32, 40, 70
	if since2411 {
		return IsLimit(r)
	}
	return r >= qosGrpCPU && r <= assocSubmitted || r >= assocJobs && r <= assocTime || r == qosJobs || r == qosTime
}
