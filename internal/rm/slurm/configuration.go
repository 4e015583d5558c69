package slurm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/sandbox"
	"rmreplay/internal/slurmspec"
)

// configuration is the adapted configuration of a run.
type configuration struct {
	cluster *conf.Cluster
	release slurmspec.Release
	env     conf.Environment
	sandbox *sandbox.Sandbox
	adapted *conf.Adapted
	// slurmConf is the adapted slurm.conf in force. An action may replace it. slurmConf has the site's scheduling
	// parameters, which slurmctld gets when the pre-roll ends and the window begins.
	slurmConf   []byte
	preRoll     bool
	presetBurst int
	backfill    time.Duration // interval of backfill cycles in the pre-roll; 0 turns backfill off
}

// configure adapts the site's configuration. It writes the result into the daemons' configuration
// directory, and a copy of slurm.conf into the log directory.
func configure(cfg *Config, env conf.Environment, in *sandbox.Sandbox) (*configuration, error) {
	c := &configuration{cluster: cfg.Cluster, release: cfg.Install.Release, env: env, sandbox: in, preRoll: cfg.PreRoll,
		presetBurst: cfg.PresetBurst, backfill: cfg.PreRollBackfill}
	if c.release.Since(slurmspec.R2311) { // slurmctld restarts itself when the window begins
		c.backfill = 0
	}
	var err error
	if c.adapted, err = conf.Adapt(cfg.Cluster, c.release, env); err != nil {
		return nil, err
	}
	if err := c.writeAll(c.adapted); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(cfg.LogDir, "slurm.conf"), c.adapted.Files["slurm.conf"], 0o666); err != nil {
		return nil, fmt.Errorf("copying the adapted slurm.conf to the log directory: %w", err)
	}
	return c, cfg.Install.Link(in.File("bin"))
}

// file writes a file of the adapted configuration into the daemons' configuration directory.
// Before the window begins, the slurm.conf there has the scheduling parameters of the pre-roll.
func (c *configuration) file(name string, content []byte) error {
	if name == "slurm.conf" && c.preRoll {
		content = preRoll(content, c.presetBurst, c.backfill)
	}
	if err := c.sandbox.WriteFile(content, "conf", name); err != nil {
		return fmt.Errorf("writing the adapted configuration: %w", err)
	}
	return nil
}

// writeAll writes all files of an adapted configuration and puts the configuration into force.
func (c *configuration) writeAll(adapted *conf.Adapted) error {
	c.slurmConf = adapted.Files["slurm.conf"]
	for name, content := range adapted.Files {
		if err := c.file(name, content); err != nil {
			return err
		}
	}
	return nil
}

// replace adapts another slurm.conf and puts it into force. It writes a copy into the log
// directory, with the instant in the copy's name. It returns the cluster that the file describes,
// and the warnings that are new.
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
	if err := os.WriteFile(name, adapted.Files["slurm.conf"], 0o666); err != nil {
		return nil, nil, fmt.Errorf("copying the adapted slurm.conf to the log directory: %w", err)
	}
	return cluster, warnings, nil
}

// CheckSlurmConf checks the file with which an action replaces the cluster's slurm.conf. It returns
// nil for an action that does not replace slurm.conf. It needs no running engine. An earlier action
// may still change the file.
func CheckSlurmConf(a hpc.Action, cluster *conf.Cluster) error {
	if a.SlurmConf == "" {
		return nil
	}
	if _, err := openReplacement(a.SlurmConf, cluster); err != nil {
		return fmt.Errorf("the action at %s: %w", a.At, err)
	}
	return nil
}

// openReplacement reads a slurm.conf that replaces the cluster's. A relative path starts at the cluster directory.
// openReplacement scales the file's nodes by the cluster's factor. The file must have the cluster's nodes, and must not
// turn accounting on or off: slurmctld changes its nodes and its accounting only at a restart.
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
	other.SiteRelease = cluster.SiteRelease
	names := func(nodes []hpc.Node) (list []string) {
		for _, n := range nodes {
			list = append(list, n.Name)
		}
		return list
	}
	if !slices.Equal(names(other.Nodes), names(cluster.Nodes)) {
		return nil, fmt.Errorf("reconfiguring with %s: its nodes differ from %s (want the same nodes; slurmctld "+
			"needs a restart for other nodes)", path,
			cluster.Path)
	}
	if other.Accounting() != cluster.Accounting() {
		return nil, fmt.Errorf(
			"reconfiguring with %s: its AccountingStorageType differs from %s (want the same value; slurmctld needs a "+
				"restart for another)", path,
			cluster.Path)
	}
	return other, nil
}
