// Package accountingcmd is the command group `rmreplay accounting`: it receives, keeps and exports
// finished jobs. Package service does the work.
package accountingcmd

import (
	"github.com/spf13/cobra"

	"rmreplay/internal/accounting/service"
	"rmreplay/internal/cli/console"
)

// commands makes the commands of the group.
type commands struct{ console.Output }

// work does what the commands ask for.
var work = service.New()

// New returns the command with its subcommands.
func New(out console.Output) *cobra.Command {
	o := commands{out}
	c := &cobra.Command{
		Use:   "accounting",
		Short: "Receive finished jobs from Slurm, keep and export them",
		Long: `Commands about a data directory of finished jobs. rmreplay accounting serve receives
them from the jobcomp/elasticsearch plugin of an unmodified slurmctld as they end, and
keeps them in Parquet files. docs/ACCOUNTING.md has the lines of slurm.conf.

One process has a data directory open. The other commands ask it, through a socket in the
directory, or open the directory themselves.

Pages and searches are answered by processes of rmreplay-engine, a program beside this
one. All else works without it.`,
	}
	c.AddCommand(o.serve(), o.info(), o.importJobs(), o.reconcile(), o.export(), o.remove(), o.anonymize(), o.backup(), o.verify())
	return c
}
