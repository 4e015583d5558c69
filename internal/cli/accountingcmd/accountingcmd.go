// Package accountingcmd is the command group `rmreplay accounting`: it receives, keeps and exports
// finished jobs. Package service does the work.
package accountingcmd

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"rmreplay/internal/accounting/service"
	"rmreplay/internal/cli/console"
)

// commands makes the commands of the group.
type commands struct{ console.Output }

// work has the functions that do the work of the commands.
var work = service.New()

// New returns the command with its subcommands.
func New(out console.Output) *cobra.Command {
	o := commands{out}
	c := &cobra.Command{
		Use:   "accounting",
		Short: "Receive finished jobs from Slurm, keep and export them",
		Long: `Commands about a data directory of finished jobs. rmreplay accounting serve receives the
jobs from the jobcomp/elasticsearch plugin of an unmodified slurmctld when they end, and
keeps them in Parquet files. docs/ACCOUNTING.md has the lines of slurm.conf.

Only one process at a time can open a data directory. While rmreplay accounting serve
has it open, the other commands send their requests to this server, through a socket in
the directory.

The program rmreplay-engine, which is installed beside rmreplay, answers the queries of
pages and searches. Everything else works without rmreplay-engine.`,
	}
	c.AddCommand(o.serve(), o.info(), o.importJobs(), o.reconcile(), o.export(), o.remove(), o.anonymize(), o.backup(), o.verify())
	return c
}

// swapped adds the order of the two arguments to an error, if the second is a data directory and the first is
// not.
func swapped(err error, args []string, order string) error {
	isStore := func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, "store.json"))
		return err == nil
	}
	return console.InOrder(err, len(args) == 2 && !isStore(args[0]) && isStore(args[1]), order)
}
