package slurmspec

import "strings"

// PartitionState says what a partition does with jobs: whether it accepts new ones, and whether it starts
// pending ones. The parameter get returns an attribute of the partition's line in slurm.conf; PartitionState
// reads the attribute State. Without a known state, a partition does both, as with UP.
func PartitionState(get func(key string) (string, bool)) (accepts, starts bool) {
	switch text, _ := get("State"); strings.ToUpper(text) {
	case "DOWN":
		return true, false
	case "DRAIN":
		return false, true
	case "INACTIVE":
		return false, false
	}
	return true, true
}
