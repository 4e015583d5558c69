package accountingcmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"rmreplay/internal/accounting/service"
	"rmreplay/internal/cli/console"
	"rmreplay/internal/flags"
	"rmreplay/internal/quantity"
)

func (o commands) remove() *cobra.Command {
	var opts service.Remove
	var window flags.Window
	var asJSON bool
	c := &cobra.Command{
		Use:   "remove DIR",
		Short: "Remove jobs of users, clusters or times for good",
		Long: `Removes jobs with their documents from a data directory, while it is in use: those of
users, of a cluster, or those that ended between --start and --end. A job must match all
that is given. Documents that later ones have replaced are removed, too.

Slurm's own accounting, backups and exported files keep their copies, and accounting
reconcile --fill adds again what slurmdbd still has.`,
		Example: `  rmreplay accounting remove /var/lib/rmreplay --user-name alice --dry-run
  rmreplay accounting remove /var/lib/rmreplay --user-name alice \
    --user-name bob
  rmreplay accounting remove /var/lib/rmreplay --cluster-name what-if`,
		Args: console.WantArgs("DIR"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if opts.Start, opts.End, err = window.Bounds(); err != nil {
				return console.Usagef("%w", err)
			}
			if len(opts.Users) == 0 && opts.ClusterName == "" && opts.Start == 0 && opts.End == 0 {
				return console.Usagef("all jobs would be removed (want --user-name, --cluster-name, --start or --end)")
			}
			r, err := work.Remove(c.Context(), args[0], opts)
			if err != nil {
				return console.BadInput(err)
			}
			if asJSON {
				return o.PrintJSON(r)
			}
			verb := "removed"
			if r.DryRun {
				verb = "would remove"
			}
			return o.Print(fmt.Sprintf("%s %s\n", verb, quantity.Counted(int(r.Jobs), "job", "jobs")))
		},
	}
	f := c.Flags()
	f.StringArrayVar(&opts.Users, "user-name", nil, "`NAME` of a user (repeatable)")
	f.StringVar(&opts.ClusterName, "cluster-name", "", "`NAME` of the cluster, if not the jobs of all are removed")
	window.Add(f, "keep jobs that ended before", "keep jobs that ended then or later")
	f.BoolVar(&opts.DryRun, "dry-run", false, "say what would be done")
	console.AddJSON(c, &asJSON)
	return c
}
