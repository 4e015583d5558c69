package slurm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/sandbox"
	"rmreplay/internal/slurmspec"
)

// configuration is the adapted configuration of a run, and what of it is in force.
type configuration struct {
	cluster *conf.Cluster
	release slurmspec.Release
	env     conf.Environment
	dir     string // where the daemons look
	adapted *conf.Adapted
	// slurmConf is the adapted slurm.conf in force, which an action may replace. It has the
	// site's scheduling. slurmctld has that scheduling once the window has begun: not in the
	// preRoll.
	slurmConf   []byte
	preRoll     bool
	presetBurst int
}

// configure adapts the site's configuration and writes it where the daemons look, and into
// the log directory.
func configure(cfg *Config, env conf.Environment, in *sandbox.Sandbox) (*configuration, error) {
	c := &configuration{cluster: cfg.Cluster, release: cfg.Install.Release, env: env, dir: in.File("conf"), preRoll: cfg.PreRoll, presetBurst: cfg.PresetBurst}
	var err error
	if c.adapted, err = conf.Adapt(cfg.Cluster, c.release, env); err != nil {
		return nil, err
	}
	if err := c.writeAll(c.adapted); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(cfg.LogDir, "slurm.conf"), c.adapted.Files["slurm.conf"], 0o644); err != nil {
		return nil, fmt.Errorf("keeping the adapted slurm.conf: %w", err)
	}
	// slurmctld looks at the name that it was started by.
	if err := os.Symlink(cfg.Install.Slurmctld, in.File("bin", "slurmctld")); err != nil {
		return nil, fmt.Errorf("giving slurmctld its name: %w", err)
	}
	return c, nil
}

// file writes a file of the adapted configuration where the daemons look. Before the
// window begins slurm.conf has other scheduling there.
func (c *configuration) file(name string, content []byte) error {
	if name == "slurm.conf" && c.preRoll {
		content = conf.PreRoll(content, c.presetBurst)
	}
	if err := os.WriteFile(filepath.Join(c.dir, name), content, 0o600); err != nil {
		return fmt.Errorf("writing the adapted configuration: %w", err)
	}
	return nil
}

// writeAll writes all files of an adapted configuration, which is the one in force then.
func (c *configuration) writeAll(adapted *conf.Adapted) error {
	c.slurmConf = adapted.Files["slurm.conf"]
	for name, content := range adapted.Files {
		if err := c.file(name, content); err != nil {
			return err
		}
	}
	return nil
}

// replace puts an adapted slurm.conf in the place of the one in force, and keeps it in the log
// directory with the instant in its name. It returns the cluster that it describes, and the
// warnings that the first configuration does not have.
func (c *configuration) replace(path string, now hpc.Time) (cluster *conf.Cluster, warnings []string, err error) {
	if cluster, err = openReplacement(path, c.cluster); err != nil {
		return nil, nil, err
	}
	adapted, err := conf.Adapt(cluster, c.release, c.env)
	if err != nil {
		return nil, nil, err
	}
	if err := c.writeAll(adapted); err != nil {
		return nil, nil, err
	}
	for _, text := range adapted.Warnings {
		if !slices.Contains(c.adapted.Warnings, text) {
			warnings = append(warnings, text)
		}
	}
	name := filepath.Join(c.env.LogDir, "slurm.conf."+now.String())
	if err := os.WriteFile(name, adapted.Files["slurm.conf"], 0o644); err != nil {
		return nil, nil, fmt.Errorf("keeping the adapted configuration: %w", err)
	}
	return cluster, warnings, nil
}

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
