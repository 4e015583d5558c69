package values

import (
	"strings"

	"rmreplay/internal/rm/slurm/conf/syntax"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmspec/history"
)

// Instead returns a replacement for an attribute of a node or a partition that the release does not know: the results
// instead and to are the nearest attribute and its value. The result instead is "" if no attribute does the same. The
// result effect says how scheduling changes; "" if scheduling stays the same.
func Instead(key, value string, release slurmspec.Release) (instead, to, effect string) {
	switch key {
	case "Exclusive":
		switch strings.ToUpper(value) {
		case "NODE":
			return "OverSubscribe", "EXCLUSIVE", ""
		case "USER":
			return "ExclusiveUser", "YES", ""
		case "TOPO":
			if history.Attributes["PartitionName ExclusiveTopo"].Includes(release) {
				return "ExclusiveTopo", "YES", ""
			}
			return "OverSubscribe", "EXCLUSIVE", "jobs get whole nodes, and other jobs may run on the same block"
		}
	case "ExclusiveTopo":
		if yes, _ := syntax.ParseBool(value); yes {
			return "OverSubscribe", "EXCLUSIVE", "jobs get whole nodes, and other jobs may run on the same block"
		}
	case "MaxCPUsPerSocket":
		return "", "", "jobs of the partition may use all CPUs of a socket"
	case "RestrictedCoresPerGPU":
		return "", "", "jobs without GPUs may use the cores beside the GPUs"
	case "Topology":
		return "", "", "jobs are placed by the one topology of the cluster"
	}
	return "", "", ""
}
