package accountingcmd

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"rmreplay/internal/accounting/service"
	"rmreplay/internal/cli/console"
	"rmreplay/internal/flags"
	"rmreplay/internal/quantity"
)

func (o commands) remove() *cobra.Command {
	var opts service.Remove
	c := o.removing(&opts, "removed", "would remove", func() error {
		if len(opts.Users) == 0 && opts.ClusterName == "" && opts.Start == 0 && opts.End == 0 {
			return console.Usagef("all jobs would be removed (want --user-name, --cluster-name, --start or --end)")
		}
		return nil
	})
	c.Use = "remove DIR"
	c.Short = "Remove the jobs of a user, a cluster or a period for good"
	c.Long = `Removes jobs with their documents from a data directory, also while the server runs.
--user-name, --cluster-name, --start and --end choose the jobs. A job must match all
given flags. --start and --end bound the ends of the jobs. Earlier documents of these
jobs are removed, too.

Slurm's own accounting, backups and exported files keep their copies. rmreplay accounting
reconcile --fill adds removed jobs again if the records that it reads still have them. To
keep the jobs without the users' names and texts, use rmreplay accounting anonymize.`
	c.Example = `  rmreplay accounting remove /var/lib/rmreplay --user-name alice --dry-run
  rmreplay accounting remove /var/lib/rmreplay --user-name alice \
    --user-name bob
  rmreplay accounting remove /var/lib/rmreplay --cluster-name what-if`
	return c
}

func (o commands) anonymize() *cobra.Command {
	var opts service.Remove
	c := o.removing(&opts, "anonymized", "would anonymize", func() error {
		if len(opts.Users) == 0 {
			return console.Usagef("--user-name is missing (want the users whose jobs are to be anonymized)")
		}
		if opts.As == "" {
			return console.Usagef("--as is empty (want a name for the users)")
		}
		return nil
	})
	c.Use = "anonymize DIR"
	c.Short = "Remove the names and texts of users, and keep their jobs"
	c.Long = `Replaces the documents of the jobs of some users in a data directory, also while the
server runs. Sizes, times and waits of the jobs stay, so sums over jobs stay the same. The
user, the group and the user's texts are removed: names of jobs, the script, comments,
directories, files. If another text, such as the account, contains the user's name as a
word, that word is replaced.

Jobs that come later are not anonymized. Slurm's own accounting, backups and exported
files keep their copies.`
	c.Example = `  rmreplay accounting anonymize /var/lib/rmreplay --user-name alice --dry-run
  rmreplay accounting anonymize /var/lib/rmreplay --user-name alice --as user1`
	c.Flags().StringVar(&opts.As, "as", "anonymous", "`NAME` that replaces the users' names")
	return c
}

// earliest is the smallest number that --start and --end accept as seconds since 1970. People mean
// a date by smaller numbers: --start 2024 would remove everything.
const earliest = 1e8

// removing returns a command that changes the jobs that its flags choose. The function check
// returns an error if the command lacks a flag that it needs.
func (o commands) removing(opts *service.Remove, done, would string, check func() error) *cobra.Command {
	var window flags.Window
	var asJSON bool
	c := &cobra.Command{
		Args: console.WantArgs("DIR"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if opts.Start, opts.End, err = window.Bounds(); err != nil {
				return console.Usagef("%w", err)
			}
			for _, text := range []string{window.Start, window.End} {
				if n, err := strconv.Atoi(text); err == nil && n < earliest {
					return console.Usagef("%s: a time in 1973 or earlier (want a date, such as 2024-03-05)", text)
				}
			}
			if err := check(); err != nil {
				return err
			}
			r, err := work.Remove(c.Context(), args[0], *opts)
			if err != nil {
				return console.BadInput(err)
			}
			if asJSON {
				return o.PrintJSON(r)
			}
			verb := done
			if r.DryRun {
				verb = would
			}
			return o.Print(fmt.Sprintf("%s %s\n", verb, quantity.Counted(int(r.Jobs), "job", "jobs")))
		},
	}
	f := c.Flags()
	f.StringArrayVar(&opts.Users, "user-name", nil, "`NAME` of a user, to choose the user's jobs; may be repeated")
	f.StringVar(&opts.ClusterName, "cluster-name", "", "`NAME` of the cluster, to choose only its jobs (default: all)")
	window.Add(f, "choose only jobs that ended at TIME or later", "choose only jobs that ended before TIME")
	f.BoolVar(&opts.DryRun, "dry-run", false, "say what would be done")
	console.AddJSON(c, &asJSON)
	return c
}
