package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"rmreplay/internal/experiment"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/install"
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
	c := &cobra.Command{
		Use:   "adapt SLURM.CONF|DIR",
		Short: "List what a replay changes in a configuration, and why",
		Long: `Reads a cluster directory, or the slurm.conf in it, as Slurm does. Lists every key that a
replay changes, adds or leaves out, with the reason. A replay keeps everything that
decides scheduling: nodes, partitions, priorities, node selection, preemption, topology,
generic resources and licences. Warnings name changes that may alter decisions.

Each replay chooses its own directories and ports. Those in the list are examples.`,
		Example: `  rmreplay conf adapt /etc/slurm/slurm.conf
  rmreplay conf adapt demo/cluster --nodes x0.5
  rmreplay conf adapt demo/cluster --json`,
		Args: wantArgs("SLURM.CONF or DIR"),
		RunE: func(_ *cobra.Command, args []string) error {
			return runConfAdapt(g, args[0], nodes, asJSON)
		},
	}
	addNodesFlag(c.Flags(), &nodes)
	addJSONFlag(c, &asJSON)
	return c
}

// adaptReport is the answer of `conf adapt --json`.
type adaptReport struct {
	File       string        `json:"file"`
	Cluster    string        `json:"cluster"`
	Nodes      int           `json:"nodes"`
	Partitions int           `json:"partitions"`
	Accounting bool          `json:"accounting"`
	Changes    []conf.Change `json:"changes"`
	Warnings   []string      `json:"warnings"`
}

func runConfAdapt(g *globals, path, nodes string, asJSON bool) error {
	scale, err := nodeFactor(nodes)
	if err != nil {
		return err
	}
	cluster, err := experiment.OpenCluster(path, scale)
	if err != nil {
		return err
	}
	in, _ := install.Find() // without an installed Slurm, Preview looks for no plugins
	adapted, err := conf.Preview(cluster, in.Release, in.PluginDir)
	if err != nil {
		return badInput(err)
	}
	if asJSON {
		r := adaptReport{
			File: cluster.Path, Cluster: cluster.Name, Nodes: len(cluster.Nodes), Partitions: len(cluster.Partitions),
			Accounting: adapted.Accounting, Changes: adapted.Changes, Warnings: adapted.Warnings,
		}
		if r.Changes == nil {
			r.Changes = []conf.Change{}
		}
		if r.Warnings == nil {
			r.Warnings = []string{}
		}
		return g.printJSON(r)
	}
	if _, err := fmt.Fprintf(g.stdout, "%s: cluster %s, %d nodes, %d partitions\n\n",
		cluster.Path, cluster.Name, len(cluster.Nodes), len(cluster.Partitions)); err != nil {
		return err
	}
	return adapted.Render(g.stdout)
}
