package slurmspec

import (
	"slices"
	"strconv"
	"strings"
)

// Reason says why a job is pending, or why it failed (enum job_state_reason in slurm.h).
type Reason uint16

// The reasons that affect rmreplay's decisions: no scheduler has examined the job; an administrator or the user holds
// it; its nodes are reserved or out of service; its dependencies can never be met.
const (
	NoReason       Reason = 0
	HeldByAdmin    Reason = 8
	NotAvailable   Reason = 15
	HeldByUser     Reason = 16
	NeverSatisfied Reason = 39
)

// Held reports whether the job waits because it is held.
func (r Reason) Held() bool { return r == HeldByAdmin || r == HeldByUser }

// ForMaintenance describes [NotAvailable] for a job whose nodes are in a reservation with the flag
// MAINT (_pick_best_nodes in node_scheduler.c).
const ForMaintenance = "Reserved for maintenance"

// HeldForReason reports whether a reason, as sacct prints it, says that the job is held.
func HeldForReason(name string) bool { return strings.HasPrefix(name, "JobHeld") }

// AboveLimit reports whether a reason says that the job itself asks for more, or less, than a limit for one job allows
// ("QOSMaxCpuPerJobLimit", "QOSMinCpuNotSatisfied"). A job above a limit waits until somebody changes the job or the
// limit.
func AboveLimit(reason string) bool {
	name, _, _ := strings.Cut(reason, ":")
	return strings.Contains(name, "PerJob") || strings.HasPrefix(name, "QOSMin")
}

// Because returns the reason's name. For ReqNodeNotAvail, slurmctld's description follows the name:
// "ReqNodeNotAvail: Reserved for maintenance".
func (r Reason) Because(words string) string {
	if r == NotAvailable && words != "" {
		return r.String() + ": " + words
	}
	return r.String()
}

// String returns Slurm's name of the reason, as squeue and scontrol print it: "Priority". It
// returns the number if no such reason is known.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return strconv.Itoa(int(r))
}

// ReasonNamed returns the reason that squeue prints under this name. The second result is false if
// there is no such reason.
func ReasonNamed(name string) (Reason, bool) {
	r, ok := reasonsByName[name]
	return r, ok
}

var reasonsByName = func() map[string]Reason {
	m := make(map[string]Reason, len(reasonNames))
	for r, name := range slices.Backward(reasonNames[:]) { // if two reasons have one name, the lower number is taken
		m[name] = Reason(r)
	}
	return m
}()

// reasonNames are the names by number (job_reason_string in slurm_protocol_defs.c).
var reasonNames = [...]string{
	"None", "Priority", "Dependency", "Resources", "PartitionNodeLimit", "PartitionTimeLimit",
	"PartitionDown", "PartitionInactive", "JobHeldAdmin", "BeginTime", "Licenses",
	"AssociationJobLimit", "AssociationResourceLimit", "AssociationTimeLimit", "Reservation",
	"ReqNodeNotAvail", "JobHeldUser", "FrontEndDown", "SchedDefer", "PartitionDown", "NodeDown",
	"BadConstraints", "SystemFailure", "JobLaunchFailure", "NonZeroExitCode", "TimeLimit",
	"InactiveLimit", "InvalidAccount", "InvalidQOS", "QOSUsageThreshold", "QOSJobLimit",
	"QOSResourceLimit", "QOSTimeLimit", "BlockMaxError", "BlockFreeAction", "Cleaning", "Prolog",
	"QOSNotAllowed", "AccountNotAllowed", "DependencyNeverSatisfied", "QOSGrpCpuLimit",
	"QOSGrpCPUMinutesLimit", "QOSGrpCPURunMinutesLimit", "QOSGrpJobsLimit", "QOSGrpMemLimit",
	"QOSGrpNodeLimit", "QOSGrpSubmitJobsLimit", "QOSGrpWallLimit", "QOSMaxCpuPerJobLimit",
	"QOSMaxCpuMinutesPerJobLimit", "QOSMaxNodePerJobLimit", "QOSMaxWallDurationPerJobLimit",
	"QOSMaxCpuPerUserLimit", "QOSMaxJobsPerUserLimit", "QOSMaxNodePerUserLimit",
	"QOSMaxSubmitJobPerUserLimit", "QOSMinCpuNotSatisfied", "AssocGrpCpuLimit",
	"AssocGrpCPUMinutesLimit", "AssocGrpCPURunMinutesLimit", "AssocGrpJobsLimit",
	"AssocGrpMemLimit", "AssocGrpNodeLimit", "AssocGrpSubmitJobsLimit", "AssocGrpWallLimit",
	"AssocMaxJobsLimit", "AssocMaxCpuPerJobLimit", "AssocMaxCpuMinutesPerJobLimit",
	"AssocMaxNodePerJobLimit", "AssocMaxWallDurationPerJobLimit", "AssocMaxSubmitJobLimit",
	"JobHoldMaxRequeue", "JobArrayTaskLimit", "BurstBufferResources", "BurstBufferStageIn",
	"BurstBufferOperation", "PowerNotAvail", "PowerReserved", "AssocGrpUnknown",
	"AssocGrpUnknownMinutes", "AssocGrpUnknownRunMinutes", "AssocMaxUnknownPerJob",
	"AssocMaxUnknownPerNode", "AssocMaxUnknownMinutesPerJob", "AssocMaxCpuPerNode",
	"AssocGrpMemMinutes", "AssocGrpMemRunMinutes", "AssocMaxMemPerJob", "AssocMaxMemPerNode",
	"AssocMaxMemMinutesPerJob", "AssocGrpNodeMinutes", "AssocGrpNodeRunMinutes",
	"AssocMaxNodeMinutesPerJob", "AssocGrpEnergy", "AssocGrpEnergyMinutes",
	"AssocGrpEnergyRunMinutes", "AssocMaxEnergyPerJob", "AssocMaxEnergyPerNode",
	"AssocMaxEnergyMinutesPerJob", "AssocGrpGRES", "AssocGrpGRESMinutes",
	"AssocGrpGRESRunMinutes", "AssocMaxGRESPerJob", "AssocMaxGRESPerNode",
	"AssocMaxGRESMinutesPerJob", "AssocGrpLicense", "AssocGrpLicenseMinutes",
	"AssocGrpLicenseRunMinutes", "AssocMaxLicensePerJob", "AssocMaxLicenseMinutesPerJob",
	"AssocGrpBB", "AssocGrpBBMinutes", "AssocGrpBBRunMinutes", "AssocMaxBBPerJob",
	"AssocMaxBBPerNode", "AssocMaxBBMinutesPerJob", "QOSGrpUnknown", "QOSGrpUnknownMinutes",
	"QOSGrpUnknownRunMinutes", "QOSMaxUnknownPerJob", "QOSMaxUnknownPerNode",
	"QOSMaxUnknownPerUser", "QOSMaxUnknownMinutesPerJob", "QOSMinUnknown", "QOSMaxCpuPerNode",
	"QOSGrpMemoryMinutes", "QOSGrpMemoryRunMinutes", "QOSMaxMemoryMinutesPerJob",
	"QOSMaxMemoryPerJob", "QOSMaxMemoryPerNode", "QOSMaxMemoryPerUser", "QOSMinMemory",
	"QOSGrpEnergy", "QOSGrpEnergyMinutes", "QOSGrpEnergyRunMinutes", "QOSMaxEnergyPerJob",
	"QOSMaxEnergyPerNode", "QOSMaxEnergyPerUser", "QOSMaxEnergyMinutesPerJob", "QOSMinEnergy",
	"QOSGrpNodeMinutes", "QOSGrpNodeRunMinutes", "QOSMaxNodeMinutesPerJob", "QOSMinNode",
	"QOSGrpGRES", "QOSGrpGRESMinutes", "QOSGrpGRESRunMinutes", "QOSMaxGRESPerJob",
	"QOSMaxGRESPerNode", "QOSMaxGRESPerUser", "QOSMaxGRESMinutesPerJob", "QOSMinGRES",
	"QOSGrpLicense", "QOSGrpLicenseMinutes", "QOSGrpLicenseRunMinutes", "QOSMaxLicensePerJob",
	"QOSMaxLicensePerUser", "QOSMaxLicenseMinutesPerJob", "QOSMinLicense", "QOSGrpBB",
	"QOSGrpBBMinutes", "QOSGrpBBRunMinutes", "QOSMaxBBPerJob", "QOSMaxBBPerNode",
	"QOSMaxBBPerUser", "AssocMaxBBMinutesPerJob", "QOSMinBB", "DeadLine", "MaxBBPerAccount",
	"MaxCpuPerAccount", "MaxEnergyPerAccount", "MaxGRESPerAccount", "MaxNodePerAccount",
	"MaxLicensePerAccount", "MaxMemoryPerAccount", "MaxUnknownPerAccount", "MaxJobsPerAccount",
	"MaxSubmitJobsPerAccount", "PartitionConfig", "AccountingPolicy", "FedJobLock", "OutOfMemory",
	"MaxMemPerLimit", "AssocGrpBilling", "AssocGrpBillingMinutes", "AssocGrpBillingRunMinutes",
	"AssocMaxBillingPerJob", "AssocMaxBillingPerNode", "AssocMaxBillingMinutesPerJob",
	"QOSGrpBilling", "QOSGrpBillingMinutes", "QOSGrpBillingRunMinutes", "QOSMaxBillingPerJob",
	"QOSMaxBillingPerNode", "QOSMaxBillingPerUser", "QOSMaxBillingMinutesPerJob",
	"MaxBillingPerAccount", "QOSMinBilling", "ReservationDeleted",
	// The following reasons are in releases after 22.05.
	"ReservationInvalid", "Constraints",
	"MaxBBRunMinsPerAccount", "MaxBillingRunMinsPerAccount", "MaxCpuRunMinsPerAccount", "MaxEnergyRunMinsPerAccount",
	"MaxGRESRunMinsPerAccount", "MaxNodeRunMinsPerAccount", "MaxLicenseRunMinsPerAccount", "MaxMemoryRunMinsPerAccount",
	"MaxUnknownRunMinsPerAccount", "MaxBBRunMinsPerUser", "MaxBillingRunMinsPerUser", "MaxCpuRunMinsPerUser",
	"MaxEnergyRunMinsPerUser", "MaxGRESRunMinsPerUser", "MaxNodeRunMinsPerUser", "MaxLicenseRunMinsPerUser",
	"MaxMemoryRunMinsPerUser", "MaxUnknownRunMinsPerUser", "MaxPoweredUpNodes", "MpiPortsBusy",
}
