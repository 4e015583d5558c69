package slurm

import (
	"fmt"
	"path/filepath"
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/conf"
)

// CheckSlurmConf says what is wrong with the slurm.conf of an action that puts one in the
// place of the cluster's, before anything is started, and nil if nothing is or the action is
// another one. A shell's action before it may still change the file.
func CheckSlurmConf(a hpc.Action, cluster *conf.Cluster) error {
	if a.SlurmConf == "" {
		return nil
	}
	if _, err := openReplacement(a.SlurmConf, cluster); err != nil {
		return fmt.Errorf("the action at %s: %w", a.At, err)
	}
	return nil
}

// openReplacement reads a slurm.conf that replaces the cluster's; a relative path counts
// from the cluster directory, and a cluster that is scaled has it scaled. The nodes must be the same ones, and
// accounting there as before or not: slurmctld has to be restarted for others.
func openReplacement(path string, cluster *conf.Cluster) (*conf.Cluster, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(cluster.Path), path)
	}
	other, err := conf.OpenFile(path)
	if err != nil {
		return nil, err
	}
	if f := cluster.Factor(); f != 1 {
		if other, err = other.Scale(f); err != nil {
			return nil, err
		}
	}
	names := func(nodes []hpc.Node) (list []string) {
		for _, n := range nodes {
			list = append(list, n.Name)
		}
		return list
	}
	if !slices.Equal(names(other.Nodes), names(cluster.Nodes)) {
		return nil, fmt.Errorf("reconfiguring with %s: its nodes are not those of %s (Slurm wants a restart for that)", path, cluster.Path)
	}
	if other.Accounting() != cluster.Accounting() {
		return nil, fmt.Errorf("reconfiguring with %s: AccountingStorageType is not that of %s (Slurm wants a restart for that)", path, cluster.Path)
	}
	return other, nil
}
