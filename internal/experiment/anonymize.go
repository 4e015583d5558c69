package experiment

import (
	"fmt"
	"os"
	"path/filepath"

	"rmreplay/internal/hpc"
	"rmreplay/internal/output"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/transform"
)

// Anonymization says how names are replaced in a workload and in its cluster.
type Anonymization struct {
	KeyFile string // holds the secret key, of at least [transform.LeastKey] bytes
	// Cluster is the cluster of the workload, nil if it is not known. ClusterDir is the directory from which it was read.
	Cluster    *conf.Cluster
	ClusterDir string
	// Output is a new or empty directory for the anonymized cluster. If Output is "", no cluster is written.
	Output string
}

// Anonymized is the result of an [Anonymization].
type Anonymized struct {
	Workload *workload.Workload
	Steps    []transform.Result
	// Remaining are names, for example of partitions and features, that contain a replaced name but were not changed.
	// Shared are replaced names that are also words of Slurm. Both lists cover the workload and the cluster.
	Remaining []transform.Found
	Shared    []string
}

// Anonymize replaces the names in a workload and, if how has a cluster, in the cluster. It fails
// with an [InputError] if the key, the workload or the cluster is wrong.
func Anonymize(w *workload.Workload, how Anonymization) (*Anonymized, error) {
	key, err := os.ReadFile(how.KeyFile)
	if err != nil {
		return nil, inputError(fmt.Errorf("reading key: %w", err))
	}
	var nodes []string
	var users []hpc.User
	var with transform.Anonymity
	if how.Cluster != nil {
		for _, n := range how.Cluster.Nodes {
			nodes = append(nodes, n.Name)
		}
		users = how.Cluster.Users
		if how.Output != "" {
			with.Accounts = how.Cluster.Accounts
		}
	}
	a, err := transform.NewAnonymizerWith(key, w, nodes, users, with)
	if err != nil {
		return nil, inputError(fmt.Errorf("anonymizing: %s: %w", how.KeyFile, err))
	}
	out := &Anonymized{}
	if out.Workload, out.Steps, err = transform.Apply(w, transform.Environment{}, a.Step()); err != nil {
		return nil, inputError(err)
	}
	if how.Output != "" {
		files, err := a.Cluster(how.ClusterDir, how.Cluster.Accounts, users)
		if err != nil {
			return nil, inputError(err)
		}
		if err := saveCluster(how.Output, files); err != nil {
			return nil, fmt.Errorf("writing cluster: %w", err)
		}
	}
	out.Remaining, out.Shared = a.Remaining(), a.Shared()
	return out, nil
}

// saveCluster writes the files of a cluster into a new or empty directory.
func saveCluster(dir string, files map[string]string) error {
	return output.Directory(dir, func(dir string) error {
		for name, text := range files {
			if err := output.Text(filepath.Join(dir, name), text); err != nil {
				return err
			}
		}
		return nil
	})
}
