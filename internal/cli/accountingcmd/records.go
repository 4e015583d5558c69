package accountingcmd

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"rmreplay/internal/accounting/service"
	"rmreplay/internal/cli/console"
	"rmreplay/internal/flags"
	"rmreplay/internal/quantity"
)

// addRecordFlags adds the flags that say how the command reads records.
func addRecordFlags(r *service.Records, c *cobra.Command, window *flags.Window) {
	f := c.Flags()
	f.StringVar(&r.From, "from", "auto", "`KIND` of the source: auto, sacct, pbs, lsf, gridengine, gwf or slurmdbd")
	f.StringVar(&r.ClusterName, "cluster-name", "", "`NAME` of the cluster, for records that name no cluster, for a run, "+
		"or to read from slurmdbd")
	window.Add(f, "leave out jobs that ended before TIME", "leave out later submissions")
}

// passwordVariable is the environment variable with the database's password. A flag would show the
// password: every user of a machine can read command lines.
const passwordVariable = "RMREPLAY_DB_PASSWORD"

func parseRecords(r *service.Records, window *flags.Window) (err error) {
	r.Zone, r.Password = window.Zone, os.Getenv(passwordVariable)
	if r.Start, r.End, err = window.Bounds(); err != nil {
		return console.Usagef("%w", err)
	}
	return nil
}

func (o commands) importJobs() *cobra.Command {
	var from service.Records
	var window flags.Window
	var asJSON bool
	c := &cobra.Command{
		Use:   "import DIR SOURCE...",
		Short: "Add jobs of accounting records, of runs and of workloads",
		Long: `Adds jobs to a data directory, which it makes if necessary. SOURCE is the output of
sacct -P or sacct --json, records of other systems, a run of rmreplay, or a workload
with the outcome of its jobs. With --from slurmdbd it is the database of slurmdbd, as
for workload build.

A run becomes a cluster with the name of the run's directory, or of --cluster-name.
Searches and pages show this cluster beside the production clusters, with its
utilization and a link to the run's report.

Imported records do not replace jobs that Slurm has sent. If accounting serve runs, the
server does the import.`,
		Example: `  sacct -a -P -D -S 2024-01-01 -o ALL > 2024.sacct
  rmreplay accounting import /var/lib/rmreplay 2024.sacct --timezone Europe/Zurich
  rmreplay accounting import /var/lib/rmreplay run --cluster-name what-if`,
		Args: atLeast(o, "DIR", "SOURCE"),
		RunE: func(c *cobra.Command, args []string) error {
			from.Sources = args[1:]
			if err := parseRecords(&from, &window); err != nil {
				return err
			}
			r, err := work.Import(c.Context(), args[0], from)
			if err != nil {
				return console.BadInput(swapped(err, args, "accounting import DIR SOURCE..."))
			}
			for _, source := range args[1:] {
				if doubt := service.Doubt(source); doubt != "" {
					o.Say("rmreplay: %s", doubt)
				}
			}
			if asJSON {
				return o.PrintJSON(r)
			}
			return o.Print(importedText(r))
		},
	}
	addRecordFlags(&from, c, &window)
	console.AddJSON(c, &asJSON)
	return c
}

func importedText(r *service.Imported) string {
	text := fmt.Sprintf("%d %s: %d %s added, %d already there, %d replaced, %d kept as Slurm sent them\n",
		r.Records, quantity.Plural(r.Records, "record", "records"), r.Added,
		quantity.Plural(r.Added, "job", "jobs"), r.Duplicate, r.Replaced, r.Kept)
	for _, name := range sorted(r.Rules) {
		text += fmt.Sprintf("  %s: %d\n", name, r.Rules[name])
	}
	if r.Mistake != "" {
		text += fmt.Sprintf("  the first mistake: %s\n", r.Mistake)
	}
	if r.NoCluster > 0 {
		text += fmt.Sprintf("note: %d %s no cluster, and count as jobs of the cluster %s: --cluster-name NAME names their cluster\n",
			r.NoCluster, quantity.Plural(r.NoCluster, "record names", "records name"), service.NoClusterIndex)
	}
	if r.NoClusterBefore > 0 && r.Added > 0 {
		text += fmt.Sprintf("note: %d %s in the directory name no cluster, and count as jobs of a cluster with their index's name. If "+
			"the cluster has another name, an imported record of such a job is added as a second job: use rmreplay accounting "+
			"reconcile --fill, which finds these jobs by number and start\n", r.NoClusterBefore, quantity.Plural(r.NoClusterBefore, "document", "documents"))
	}
	if r.Mixed > 0 && r.Added > 0 {
		text += fmt.Sprintf("warning: the cluster had %d %s before: if they are of another run, it is now a mixture of two runs "+
			"(want another --cluster-name for each run)\n", r.Mixed, quantity.Plural(int(r.Mixed), "job", "jobs"))
	}
	for _, why := range r.Unreported {
		text += fmt.Sprintf("no report was made of %s\n", why)
	}
	return text
}

func (o commands) reconcile() *cobra.Command {
	var from service.Records
	var window flags.Window
	var asJSON, fill bool
	c := &cobra.Command{
		Use:   "reconcile DIR SOURCE...",
		Short: "List jobs that the receiver did not get, and add them",
		Long: `Compares a data directory with accounting records: the output of sacct, or with --from
slurmdbd the database. It lists the jobs that the directory lacks, and the jobs that
differ.

slurmctld keeps in memory the jobs that it could not send, and loses these jobs if it is
killed. slurmdbd has them. With --fill the command adds the missing jobs. Run sacct with
-D, so that it prints each run of a requeued job. The exit status is 3 if a job is
missing or differs.`,
		Example: `  sacct -a -X -P -D -S 2024-03-01 -E 2024-03-08 -o ALL > week.sacct
  rmreplay accounting reconcile /var/lib/rmreplay week.sacct \
    --timezone Europe/Zurich --fill
  rmreplay accounting reconcile /var/lib/rmreplay --from slurmdbd \
    'reader@unix(/run/mysqld/mysqld.sock)/slurm_acct_db' --cluster-name vale --json`,
		Args: atLeast(o, "DIR", "SOURCE"),
		RunE: func(c *cobra.Command, args []string) error {
			from.Sources = args[1:]
			if err := parseRecords(&from, &window); err != nil {
				return err
			}
			r, err := work.Reconcile(c.Context(), args[0], from, fill)
			if err != nil {
				return console.BadInput(swapped(err, args, "accounting reconcile DIR SOURCE..."))
			}
			if asJSON {
				err = o.PrintJSON(r)
			} else {
				err = o.Print(reconciledText(r))
			}
			if lacks := len(r.Missing) - r.Filled; err == nil && (lacks > 0 || len(r.Differing) > 0) {
				return console.Invalidf("%d %s missing, %d fields differ", lacks,
					quantity.Plural(lacks, "job is", "jobs are"), len(r.Differing))
			}
			return err
		},
	}
	addRecordFlags(&from, c, &window)
	c.Flags().BoolVar(&fill, "fill", false, "add the jobs that are missing")
	console.AddJSON(c, &asJSON)
	return c
}

func reconciledText(r *service.Reconciled) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s: %d %s equal, %d are missing, %d fields differ; %d %s in the data directory only\n",
		r.Records, quantity.Plural(r.Records, "record", "records"), r.Equal,
		quantity.Plural(r.Equal, "job is", "jobs are"), len(r.Missing), len(r.Differing), r.Unknown,
		quantity.Plural(r.Unknown, "job is", "jobs are"))
	const most = 20 // the largest number of jobs of each kind in the text output
	if r.NoCluster > 0 {
		fmt.Fprintf(&b, "%d %s found by number and start, because their documents name no cluster (see "+
			"--cluster-name of accounting serve)\n", r.NoCluster, quantity.Plural(r.NoCluster, "job was", "jobs were"))
	}
	if r.Shifted > 0 {
		fmt.Fprintf(&b, "%d of the missing jobs are in the data directory with other dates: the dates of the records are "+
			"in another time zone (see --timezone)\n", r.Shifted)
	}
	for i, id := range r.Missing {
		if i == most {
			fmt.Fprintf(&b, "  and %d more (--json has all)\n", len(r.Missing)-most)
			break
		}
		fmt.Fprintf(&b, "  missing %s\n", id)
	}
	for i, d := range r.Differing {
		if i == most {
			fmt.Fprintf(&b, "  and %d more (--json has all)\n", len(r.Differing)-most)
			break
		}
		fmt.Fprintf(&b, "  %s: %s is %q in the records, and Slurm sent %q\n", d.Job, d.Field, d.Recorded, d.Received)
	}
	if r.Filled > 0 {
		fmt.Fprintf(&b, "added %d %s\n", r.Filled, quantity.Plural(r.Filled, "job", "jobs"))
	}
	return b.String()
}

// atLeast requires the named arguments; the last argument may be repeated.
func atLeast(o commands, names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		return console.WantArgs(names...)(c, args[:min(len(args), len(names))])
	}
}
