package slurmspec

import "strings"

// PrologAtAllocation reports whether nodes run a prolog when a job is allocated: with
// PrologFlags=Alloc or a flag that implies it (slurm.conf(5)).
func PrologAtAllocation(flags string) bool {
	for flag := range strings.SplitSeq(flags, ",") {
		switch strings.ToLower(strings.TrimSpace(flag)) {
		case "alloc", "contain", "forcerequeueonfail", "nohold", "runinjob", "x11":
			return true
		}
	}
	return false
}
