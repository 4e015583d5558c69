package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rmreplay/internal/experiment"
	"rmreplay/internal/flags"
	"rmreplay/internal/metrics"
	"rmreplay/internal/run"
)

// metricsOptions are the flags of `metrics`.
type metricsOptions struct {
	by     []string
	tau    time.Duration
	window flags.Window
	json   bool
}

func (o *metricsOptions) addFlags(c *cobra.Command) {
	f := c.Flags()
	addByFlag(f, &o.by)
	addTauFlag(f, &o.tau)
	o.window.Add(f, "utilization and throughput are those of the window (default: the first start)", "(default: the last end)")
	addJSONFlag(c, &o.json)
	flags.Alias(f, map[string]string{"from": "start", "to": "end"})
}

// addByFlag adds the flag that names groupings, which [parseBy] reads.
func addByFlag(f *pflag.FlagSet, to *[]string) {
	f.StringSliceVar(to, "by", nil, "also for the jobs of each `GROUP`, one or more of "+strings.Join(groupings(), ", "))
}

func groupings() (names []string) {
	for _, by := range metrics.Groupings {
		names = append(names, string(by))
	}
	return names
}

func parseBy(names []string) (list []metrics.By, err error) {
	for _, name := range names {
		by, err := metrics.ParseBy(name)
		if err != nil {
			return nil, usagef("--by %w", err)
		}
		list = append(list, by)
	}
	return list, nil
}

// addTauFlag adds the flag of the bounded slowdown, which [checkTau] checks.
func addTauFlag(f *pflag.FlagSet, to *time.Duration) {
	flags.Duration(f, to, "tau", metrics.DefaultTau, "bound of the bounded slowdown: `DURATION`")
}

func checkTau(tau time.Duration) error {
	if tau <= 0 {
		return usagef("--tau %s: not above 0 (want, for example, 10s)", tau)
	}
	return nil
}

func newMetricsCommand(g *globals) *cobra.Command {
	var opts metricsOptions
	c := &cobra.Command{
		Use:   "metrics RUN",
		Short: "Say how well a run served the machine and its users",
		Long: `Computes the metrics of a run from its record. A record of a run that was interrupted
or killed is measured as far as it goes.

  makespan          last end - first start
  utilization       processor time held by jobs / (window x processors)
  throughput        jobs that started and ended in the window
  wait              start - submit
  turnaround        end - submit
  slowdown          turnaround / run time, with run time = end - start
  bounded slowdown  max(1, turnaround / max(run time, tau))

The window goes from the first start to the last end unless --start and --end say
otherwise; leave out the filling and the emptying of the machine to judge a scheduler.

The exit status is 3 if the run is not valid, that is, if a warning affects its result.`,
		Example: `  rmreplay metrics demo/run
  rmreplay metrics demo/run --by partition,qos
  rmreplay metrics demo/run --json
  rmreplay metrics demo/run --start 2024-03-05T08:00 --end 2024-03-05T18:00`,
		Args: wantArgs("RUN"),
		RunE: func(_ *cobra.Command, args []string) error {
			return runMetrics(g, args[0], opts)
		},
	}
	opts.addFlags(c)
	return c
}

func runMetrics(g *globals, dir string, opts metricsOptions) error {
	how, by, err := opts.parse()
	if err != nil {
		return err
	}
	r, err := run.Open(dir)
	if err != nil {
		return badInput(err)
	}
	summary, err := metrics.Of(r, how, by...)
	if err != nil {
		return badInput(err)
	}
	return g.printSummary(summary, opts.window.Location(), opts.json)
}

// parse turns the flags into what the metrics are computed with.
func (o *metricsOptions) parse() (how metrics.Options, by []metrics.By, err error) {
	how.Tau = o.tau
	if err := checkTau(o.tau); err != nil {
		return how, nil, err
	}
	if how.From, how.To, err = o.window.Bounds(); err != nil {
		return how, nil, usagef("%w", err)
	}
	by, err = parseBy(o.by)
	return how, by, err
}

// printSummary prints the metrics of a run. Its error says why they do not count, if so.
func (g *globals) printSummary(s *metrics.Summary, zone *time.Location, asJSON bool) error {
	var err error
	if asJSON {
		err = g.printJSON(s)
	} else if err = s.Render(g.stdout, zone); err != nil {
		err = fmt.Errorf("writing the result: %w", err)
	}
	if err != nil {
		return err
	}
	return experiment.Valid(s)
}
