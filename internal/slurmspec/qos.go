package slurmspec

// QOSFlags are the flags of a QOS in the order of their bits (QOS_FLAG_ in slurmdb.h of 22.05). Later releases add
// Relative.
var QOSFlags = []string{
	"PartitionMinNodes", "PartitionMaxNodes", "PartitionTimeLimit", "EnforceUsageThreshold", "NoReserve",
	"RequiresReservation", "DenyOnLimit", "OverPartQOS", "NoDecay", "UsageFactorSafe",
}
