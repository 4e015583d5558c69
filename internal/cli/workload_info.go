package cli

import (
	"cmp"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/experiment"
	"rmreplay/internal/flags"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/chart"
)

// infoOptions are the flags of `workload info`.
type infoOptions struct {
	plots, plotFormat string
	cluster           string
	processors        int
	zone              flags.Zone
	json              bool
}

func (o *infoOptions) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.plots, "plots", "", "also write charts to `DIR`")
	c.Flags().StringVar(&o.plotFormat, "plot-format", "svg", "`FORMAT` of the charts: "+
		strings.Join(chart.Formats, " or "))
	console.AddCount(c.Flags(), &o.processors, "processors", 0,
		"the machine has `N` processors (default: that of the machine that the workload was recorded on)")
	c.Flags().StringVar(&o.cluster, "cluster", "", "the machine is the cluster in `DIR`")
	c.MarkFlagsMutuallyExclusive("processors", "cluster")
	flags.Alias(c.Flags(), map[string]string{"procs": "processors"})
	o.zone.Add(c.Flags())
	console.AddJSON(c, &o.json)
}

func newWorkloadInfoCommand(g *globals) *cobra.Command {
	var opts infoOptions
	c := &cobra.Command{
		Use:   "info WORKLOAD",
		Short: "Summarize a workload",
		Long: `Prints the number of jobs by size and run time, by user, account and partition, and by
hour of submission, and how much of their time limits the jobs use. Offered work is the
sum over all jobs of requested processors times run time, at most until the time limit.
Offered load is the offered work of the jobs that are submitted in the window, divided by
the machine's processors and the time until the last submission, if the source,
--processors or --cluster gives the size of the machine.

With --plots, the command also draws charts: the table of sizes and run times, submissions
by hour and by hour of the day, and requested and used time.`,
		Example: `  rmreplay workload info demo/day.jsonl
  rmreplay workload info jobs.events.gz --json
  rmreplay workload info KTH-SP2-1996-2.1-cln.swf.gz --plots kth --plot-format png`,
		Args: console.WantArgs("WORKLOAD"),
		RunE: func(_ *cobra.Command, args []string) error {
			return runWorkloadInfo(g, args[0], opts)
		},
	}
	opts.addFlags(c)
	return c
}

func runWorkloadInfo(g *globals, path string, opts infoOptions) error {
	if !slices.Contains(chart.Formats, opts.plotFormat) {
		return console.Usagef("--plot-format %s: not known (want %s)", opts.plotFormat, strings.Join(chart.Formats, " or "))
	}
	w, err := g.readWorkload(path, workload.ReadOptions{})
	if err != nil {
		return err
	}
	if opts.cluster != "" {
		cluster, err := experiment.OpenCluster(opts.cluster, 0)
		if err != nil {
			return err
		}
		opts.processors = experiment.Site(cluster).Processors
	}
	w.MachineProcessors = cmp.Or(opts.processors, w.MachineProcessors)
	info := workload.NewInfo(w)
	if opts.plots != "" {
		files, err := chart.Write(opts.plots, opts.plotFormat, w, info, opts.zone.Location())
		if err != nil {
			return err
		}
		g.Say("drew %s", strings.Join(files, ", "))
	}
	if opts.json {
		return g.PrintJSON(info)
	}
	return g.Render(func(w io.Writer) error { return info.Render(w, opts.zone.Location()) })
}
