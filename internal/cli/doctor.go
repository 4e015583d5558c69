package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/experiment"
	"rmreplay/internal/rm/slurm/install"
)

func newDoctorCommand(g *globals) *cobra.Command {
	var asJSON bool
	var cluster, slurm string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine, and say how to install what is missing",
		Long: `Looks for everything that a replay on real Slurm needs: the daemons and commands in a
supported release, their plugins, MariaDB and nss_wrapper. It also checks this machine's
kernel, its limits of open files, processes, memory and disk space, and rmreplay-engine,
which accounting serve needs. The lines below a row that is not ok tell how to fix it.

A limit of the machine is marked missing if it is too low for a small replay, and
limited if it is too low for a cluster of 10,000 nodes. With --cluster, it is marked
missing if it is too low for that cluster. The row "clock's functions" is marked limited
if Slurm imports a function that the virtual clock does not handle. A replay on that Slurm
runs, with a warning.

The environment variable RMREPLAY_SLURM is the default of --slurm, also for replays.
With RMREPLAY_NETWORK=private, replays refuse to start if the daemons cannot have a
private network; with RMREPLAY_NETWORK=shared, replays do not make one. The exit status
is 5 if replays cannot run here.`,
		Example: `  rmreplay doctor
  rmreplay doctor --cluster demo/cluster
  rmreplay doctor --json
  rmreplay doctor --slurm /opt/slurm/22.05.8`,
		Args: console.WantArgs(),
		RunE: func(*cobra.Command, []string) error {
			return runDoctor(g, cluster, slurm, asJSON)
		},
	}
	c.Flags().StringVar(&cluster, "cluster", "", "check the limits for a replay on the cluster in `DIR`")
	console.AddSlurm(c.Flags(), &slurm)
	console.AddJSON(c, &asJSON)
	return c
}

func runDoctor(g *globals, cluster, slurm string, asJSON bool) error {
	needs := install.Needs{Nodes: 1}
	if cluster != "" {
		c, err := experiment.OpenCluster(cluster, 0)
		if err != nil {
			return err
		}
		needs = install.Needs{Nodes: len(c.Nodes), Accounting: c.Accounting()}
	}
	report := install.Examine(slurm, needs)
	var err error
	if asJSON {
		err = g.PrintJSON(report)
	} else {
		err = g.Print(doctorText(report))
	}
	if err != nil {
		return err
	}
	return report.Err()
}

// doctorText returns the report for people. Below each row that is not ok, a line tells how to fix the problem.
func doctorText(r *install.Report) string {
	var b strings.Builder
	width := 0
	for _, row := range r.Checks {
		width = max(width, len(row.Name))
	}
	for _, row := range r.Checks {
		fmt.Fprintf(&b, "%-8s %-*s  %s\n", row.Status, width, row.Name, row.Found)
		if row.Status != install.OK {
			fmt.Fprintf(&b, "%*s  purpose:   %s\n", 8+1+width, "", row.Why)
			fmt.Fprintf(&b, "%*s  fix:       %s\n", 8+1+width, "", row.Fix)
		}
	}
	b.WriteString("\ninstallations of Slurm on this machine (choose one with --slurm):\n")
	for _, s := range r.Slurms {
		fmt.Fprintf(&b, "  %-10s %-10s %s\n", cmp.Or(s.Named, "default"), cmp.Or(s.Version, "unknown"),
			cmp.Or(s.Path, "not found"))
		if len(s.Lacks) > 0 {
			fmt.Fprintf(&b, "  %10s lacks: %s\n", "", strings.Join(s.Lacks, ", "))
		}
	}
	if r.OK {
		b.WriteString("\nreplays on real Slurm can run here\n")
	}
	return b.String()
}
