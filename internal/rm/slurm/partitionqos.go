package slurm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/slurmspec"
)

// checkPartitionQOS returns an error for a QOS of a partition that no command for sacctmgr
// declares and with which slurmctld ends at its start: the partition's own QOS if QOS are
// enforced, and since 25.11 each that the partition names (src/slurmctld/read_config.c). Commands
// with mistakes are not held against the partitions.
func checkPartitionQOS(cluster *conf.Cluster, release slurmspec.Release) error {
	declared := associations.Read(cluster.Accounts, cluster.AccountsFile, cluster.Name)
	if len(declared.Mistakes) > 0 {
		return nil
	}
	value, _ := cluster.Get("AccountingStorageEnforce")
	enforced := slices.ContainsFunc(strings.Split(strings.ToLower(value), ","), func(option string) bool {
		return option == "qos" || option == "all"
	})
	all := release.Since(slurmspec.R2511)
	for _, p := range cluster.Partitions {
		var names []string
		if p.QOS != "" && (enforced || all) {
			names = append(names, strings.ToLower(p.QOS))
		}
		if all {
			names = slices.Concat(names, p.AllowQOS, p.DenyQOS)
		}
		for _, name := range names {
			if !declared.QOS[name] {
				return fmt.Errorf("%s:%d: partition %s: QOS %s is not in %s, and slurmctld does not start without it (want add qos %s there)",
					p.File, p.Line, p.Name, name, cmp.Or(cluster.AccountsFile, "accounts.sacctmgr"), name)
			}
		}
	}
	return nil
}
