package cli

import (
	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/experiment"
	"rmreplay/internal/quantity"
	"rmreplay/internal/rm/slurm/conf"
)

func newConfCommand(g *globals) *cobra.Command {
	c := &cobra.Command{
		Use:   "conf",
		Short: "Show what a replay changes in a site's slurm.conf",
		Long:  `Commands that read a site's slurm.conf and the files beside it. They change no file.`,
	}
	c.AddCommand(newConfAdaptCommand(g))
	return c
}

func newConfAdaptCommand(g *globals) *cobra.Command {
	var asJSON bool
	var nodes string
	var slurm, site string
	c := &cobra.Command{
		Use:   "adapt SLURM.CONF|DIR",
		Short: "List what a replay changes in a configuration, and why",
		Long: `Reads a cluster directory, or a slurm.conf, as Slurm does. Lists every key that a replay
changes, adds or leaves out, with the reason. A replay keeps everything that decides
scheduling: nodes, partitions, priorities, node selection, preemption, topology, generic
resources and licences. Warnings name changes that may alter decisions.

--slurm adapts the configuration to another release than the installed one. The list
then ends with the changes that the site itself has to make for that release: removed
keys, renamed options, and defaults that changed scheduling. --site-slurm names the
release that the site runs now, since defaults depend on it. Without --site-slurm the
command infers the release from the keys.

Each replay chooses its own directories and ports. The directories and ports in the list
are examples.`,
		Example: `  rmreplay conf adapt /etc/slurm/slurm.conf
  rmreplay conf adapt demo/cluster --nodes x0.5
  rmreplay conf adapt demo/cluster --slurm 26.05 --site-slurm 22.05
  rmreplay conf adapt demo/cluster --json`,
		Args: console.WantArgs("SLURM.CONF or DIR"),
		RunE: func(_ *cobra.Command, args []string) error {
			return runConfAdapt(g, args[0], nodes, slurm, site, asJSON)
		},
	}
	addNodesFlag(c.Flags(), &nodes)
	console.AddSlurm(c.Flags(), &slurm)
	addSiteSlurmFlag(c.Flags(), &site)
	console.AddJSON(c, &asJSON)
	return c
}

// adaptReport is the JSON output of `conf adapt --json`.
type adaptReport struct {
	File       string        `json:"file"`
	Cluster    string        `json:"cluster"`
	Nodes      int           `json:"nodes"`
	Partitions int           `json:"partitions"`
	Accounting bool          `json:"accounting"`
	Slurm      string        `json:"slurm"`
	Changes    []conf.Change `json:"changes"`
	Upgrade    []conf.Change `json:"upgrade"`
	Warnings   []string      `json:"warnings"`
}

func runConfAdapt(g *globals, path, nodes, slurm, site string, asJSON bool) error {
	scale, err := nodeFactor(nodes)
	if err != nil {
		return err
	}
	cluster, err := experiment.OpenCluster(path, scale)
	if err != nil {
		return err
	}
	target, err := experiment.FindTarget(slurm)
	if err != nil {
		return err
	}
	adapted, err := target.Preview(cluster, site)
	if err != nil {
		return err
	}
	if asJSON {
		r := adaptReport{
			File: cluster.Path, Slurm: adapted.Release.String(), Cluster: cluster.Name, Nodes: len(cluster.Nodes),
			Partitions: len(cluster.Partitions),
			Accounting: adapted.Accounting, Changes: adapted.Changes, Upgrade: adapted.Upgrade, Warnings: adapted.Warnings,
		}
		return g.PrintJSON(r)
	}
	if err := g.Printf("%s: cluster %s, %d %s, %d %s\n\n",
		cluster.Path, cluster.Name, len(cluster.Nodes),
		quantity.Plural(len(cluster.Nodes), "node", "nodes"), len(cluster.Partitions),
		quantity.Plural(len(cluster.Partitions), "partition", "partitions")); err != nil {
		return err
	}
	return g.Render(adapted.Render)
}
