package recordcmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/flags"
	"rmreplay/internal/jobtable"
)

// jobsOptions are the flags of `jobs`.
type jobsOptions struct {
	table     jobtable.Options
	zone      flags.Zone
	csv, json bool
}

// Jobs returns the command `rmreplay jobs`.
func Jobs(out console.Output) *cobra.Command {
	o := commands{out}
	var opts jobsOptions
	c := &cobra.Command{
		Use:   "jobs RUN",
		Short: "List the jobs of a run: filter, columns, order",
		Long: `Lists the jobs of a run, or of a recorded workload. Each task of an array is a line.

--filter takes the expressions of rmreplay workload transform, over the same fields and
over what happened to the job:

` + console.Words(jobtable.FilterFields()) + `
id is ID_TASK for a task of an array, as in the column id. array_id is the array's ID, and
"" for other jobs. A duration is in seconds. It is -1 if the job did not get that far, for
example if the job never started. start_s and end_s count from the beginning of the
workload, as submit_s does. state is the state in the run. run_time_s is how long the job
would run undisturbed, and ran_s is end - start.

The columns are

` + columns() + `
--sort and --columns take these names, also with the unit that CSV and JSON append
(wait_s). Jobs without a value come last. CSV and JSON have durations in seconds and dates
in UTC.

If the run is not valid, a message on standard error says so.`,
		Example: `  rmreplay jobs demo/run --sort wait:desc --limit 20
  rmreplay jobs demo/run --filter 'partition == "gpu" and wait_s > 3600'
  rmreplay jobs demo/run --columns id,user,start,end,node_list --sort start
  rmreplay jobs demo/run --filter 'not started' --json
  rmreplay jobs march.jsonl --csv > march.csv`,
		Args: console.WantArgs("RUN"),
		RunE: func(_ *cobra.Command, args []string) error { return o.runJobs(args[0], opts) },
	}
	f := c.Flags()
	f.Var((*expression)(&opts.table.Filter), "filter", "keep the jobs for which `EXPR` is true")
	f.StringSliceVar(&opts.table.Columns, "columns", nil, "the `COLUMNS`, separated by commas (default: "+
		strings.Join(jobtable.Default, ",")+")")
	f.StringSliceVar(&opts.table.Sort, "sort", nil, "sort by `COLUMNS`, each with :desc for the largest first (default: "+
		"the order of submission)")
	console.AddCount(f, &opts.table.Limit, "limit", 0, "at most `N` jobs (default: all)")
	f.BoolVar(&opts.csv, "csv", false, "print CSV")
	opts.zone.Add(f)
	console.AddJSON(c, &opts.json)
	flags.Alias(f, map[string]string{"where": "filter", "fields": "columns", "format": "columns", "order-by": "sort"})
	return c
}

// expression is the value of --filter.
type expression string

func (e *expression) String() string        { return string(*e) }
func (e *expression) Type() string          { return "expression" }
func (e *expression) Set(text string) error { *e = expression(text); return nil }

// Columns returns the names of the columns of jobs.
func Columns() []string { return jobtable.Names() }

// columns lists the columns for the help.
func columns() string {
	var b strings.Builder
	for _, c := range jobtable.Columns {
		fmt.Fprintf(&b, "  %-19s  %s\n", c.Name, c.Doc)
	}
	return b.String()
}

func (o commands) runJobs(path string, opts jobsOptions) error {
	switch {
	case opts.csv && opts.json:
		return console.Usagef("--csv and --json exclude each other")
	}
	if err := jobtable.Check(opts.table); err != nil {
		return console.Usagef("%w", err)
	}
	r, err := o.open(path)
	if err != nil {
		return err
	}
	table, err := jobtable.FromRun(r, opts.table)
	if err != nil {
		return console.BadInput(err)
	}
	if table.Absent != "" {
		o.Say("rmreplay: the filter keeps no job%s", table.Absent)
	}
	switch {
	case opts.json:
		return o.PrintJSON(table.Document(path))
	case opts.csv:
		err = table.CSV(o.Stdout)
	default:
		err = o.Render(func(w io.Writer) error { return table.Render(w, opts.zone.Location()) })
	}
	if err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}
