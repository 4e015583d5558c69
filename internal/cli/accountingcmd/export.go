package accountingcmd

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rmreplay/internal/accounting/service"
	"rmreplay/internal/cli/console"
	"rmreplay/internal/flags"
	"rmreplay/internal/quantity"
)

func (o commands) export() *cobra.Command {
	var opts service.Export
	var window flags.Window
	var asJSON bool
	c := &cobra.Command{
		Use:   "export DIR -o FILE",
		Short: "Write jobs as Parquet, CSV, trace or SWF",
		Long: `Writes jobs of a data directory into a file. Parquet and CSV have all columns that
docs/SCHEMA.md lists. A file whose name ends in .gz is compressed. --start and
--end choose the jobs that ended between them.

With --format trace or swf the file is a workload to replay. Then --start and --end are
the window of the workload, as for workload build: jobs that ran at its start become
preset jobs, which already run when the workload begins.

--where takes a condition in SQL over the columns.`,
		Example: `  rmreplay accounting export /var/lib/rmreplay -o march.parquet \
    --start 2024-03-01 --end 2024-04-01
  rmreplay accounting export /var/lib/rmreplay -o failed.csv \
    --where "state = 'FAILED' AND gpus > 0"
  rmreplay accounting export /var/lib/rmreplay -o day.jsonl \
    --start 2024-03-05 --end 2024-03-06`,
		Args: console.WantArgs("DIR"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if opts.Start, opts.End, err = window.Bounds(); err != nil {
				return console.Usagef("%w", err)
			}
			if opts.Format, err = formatFor(opts.Output, opts.Format); err != nil {
				return err
			}
			r, err := work.Export(c.Context(), args[0], opts)
			if err != nil {
				return console.BadInput(err)
			}
			if r.Jobs == 0 {
				o.Say("rmreplay: no job matches%s", r.Absent)
			}
			if asJSON {
				return o.PrintJSON(r)
			}
			counted := cmp.Or(r.Counted, fmt.Sprintf("%d %s", r.Jobs, quantity.Plural(r.Jobs, "job", "jobs")))
			text := fmt.Sprintf("wrote %s: %s\n", r.Output, counted)
			if n := r.Records; n != nil {
				text += fmt.Sprintf("  records read: %d (jobs or tasks: %d, parts of these: %d, left out: %d)\n", n.Read,
					n.Jobs, n.Parts, n.Dropped)
			}
			for _, name := range sorted(r.Rules) {
				text += fmt.Sprintf("  %s: %d\n", name, r.Rules[name])
			}
			for _, m := range r.Missing {
				text += "missing: " + m + "\n"
			}
			for _, name := range sorted(r.Losses) {
				text += fmt.Sprintf("  this format cannot hold %s: %d\n", name, r.Losses[name])
			}
			return o.Print(text)
		},
	}
	f := c.Flags()
	console.AddOutput(f, &opts.Output, "write the jobs to `FILE`")
	f.StringVar(&opts.Format, "format", "", "`FORMAT`: parquet, csv, trace or swf (default: by the file's name)")
	f.StringVar(&opts.ClusterName, "cluster-name", "", "`NAME` of the cluster, to write only its jobs (default: all)")
	f.StringVar(&opts.Where, "where", "", "write only the jobs for which this `CONDITION` in SQL is true")
	window.Add(f, "leave out jobs that ended before TIME", "leave out jobs that ended at TIME or later")
	_ = c.MarkFlagRequired("output") // the flag exists
	console.AddJSON(c, &asJSON)
	return c
}

// formatFor returns the given format or, if that is "", the format that the file's name implies.
// It returns an error if the format is not known or does not fit the file's name.
func formatFor(path, format string) (string, error) {
	switch {
	case format == "":
		if format = formatOf(path); format == "" {
			return "", console.Usagef(
				"--output %s: its name does not say the format (want a name that ends in .parquet, .csv, .jsonl or .swf, or --format)", path)
		}
	case !slices.Contains(service.ExportFormats, format):
		return "", console.Usagef("--format %q: not known (want %s)", format, strings.Join(service.ExportFormats, ", "))
	}
	if format == "parquet" && filepath.Ext(path) == ".gz" {
		return "", console.Usagef("--output %s: a Parquet file is compressed inside (want a name without .gz)", path)
	}
	return format, nil
}

// formatOf returns the format that a file's name suggests, or "".
func formatOf(path string) string {
	switch filepath.Ext(strings.TrimSuffix(path, ".gz")) {
	case ".parquet":
		return "parquet"
	case ".csv":
		return "csv"
	case ".swf":
		return "swf"
	case ".jsonl":
		return "trace"
	}
	return ""
}

func (o commands) backup() *cobra.Command {
	c := &cobra.Command{
		Use:   "backup DIR TARGET",
		Short: "Copy a data directory, also while the server runs",
		Long: `Writes a copy of all jobs that the server has acknowledged so far into a new data
directory. Meanwhile the server receives jobs and answers searches as usual.

To restore a backup, stop accounting serve, and replace the data directory by a copy of
the backup.`,
		Example: `  rmreplay accounting backup /var/lib/rmreplay /backup/rmreplay-2024-03-05`,
		Args:    console.WantArgs("DIR", "TARGET"),
		RunE: func(c *cobra.Command, args []string) error {
			bytes, err := work.Backup(c.Context(), args[0], args[1])
			if err != nil {
				return console.BadInput(swapped(err, args, "accounting backup DIR TARGET"))
			}
			return o.Print(fmt.Sprintf("wrote %s: %d bytes\n", args[1], bytes))
		},
	}
	return c
}
