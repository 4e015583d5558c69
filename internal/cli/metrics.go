package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/run"
)

// metricsOptions are the flags of `metrics`.
type metricsOptions struct {
	by       []string
	tau      time.Duration
	from, to string
	json     bool
}

func (o *metricsOptions) addFlags(c *cobra.Command) {
	var names []string
	for _, by := range metrics.Groupings {
		names = append(names, string(by))
	}
	c.Flags().StringSliceVar(&o.by, "by", nil, "also for the jobs of each `GROUP`, one or more of "+strings.Join(names, ", "))
	c.Flags().DurationVar(&o.tau, "tau", metrics.DefaultTau, "bound of the bounded slowdown")
	c.Flags().StringVar(&o.from, "from", "", "begin of the interval of utilization and throughput (default: the first start)")
	c.Flags().StringVar(&o.to, "to", "", "end of that interval (default: the last end)")
	addJSONFlag(c, &o.json)
}

func newMetricsCommand(g *globals) *cobra.Command {
	var opts metricsOptions
	c := &cobra.Command{
		Use:   "metrics RUN",
		Short: "Say how well a run served the machine and its users",
		Long: `Computes the metrics of a run from its record. A record of a run that was interrupted
or killed is measured as far as it goes.

  makespan          last end - first start
  utilization       processor time held by jobs / (interval x processors)
  throughput        jobs that started and ended in the interval
  wait              start - submit
  turnaround        end - submit
  slowdown          turnaround / run time, with run time = end - start
  bounded slowdown  max(1, turnaround / max(run time, tau))

The interval goes from the first start to the last end unless --from and --to say
otherwise; leave out the filling and the emptying of the machine to judge a scheduler.

The exit status is 3 if the run is not valid, that is, if a warning affects its result.`,
		Example: `  rmreplay metrics demo/run
  rmreplay metrics demo/run --by partition,qos
  rmreplay metrics demo/run --json
  rmreplay metrics demo/run --from 2024-03-05T08:00:00Z --to 2024-03-05T18:00:00Z`,
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
	return g.printSummary(summary, opts.json)
}

// parse turns the flags into what the metrics are computed with.
func (o *metricsOptions) parse() (metrics.Options, []metrics.By, error) {
	how := metrics.Options{Tau: o.tau}
	if o.tau <= 0 {
		return how, nil, usagef("--tau %s: not above 0 (want, for example, 10s)", o.tau)
	}
	var by []metrics.By
	for _, name := range o.by {
		b, err := metrics.ParseBy(name)
		if err != nil {
			return how, nil, usagef("--by %w", err)
		}
		by = append(by, b)
	}
	for _, bound := range []struct {
		flag, text string
		to         *hpc.Time
	}{{"--from", o.from, &how.From}, {"--to", o.to, &how.To}} {
		if bound.text == "" {
			continue
		}
		t, err := hpc.ParseTime(bound.text)
		if err != nil {
			return how, nil, usagef("%s %w", bound.flag, err)
		}
		*bound.to = t
	}
	if how.From != 0 && how.To != 0 && how.To <= how.From {
		return how, nil, usagef("--to %s is not after --from %s", o.to, o.from)
	}
	return how, by, nil
}

// summarize says what a run of which the record is complete came to.
func summarize(record *run.Writer, computed metrics.Metrics, opts metrics.Options) (*metrics.Summary, error) {
	r, err := run.Open(record.Dir())
	if err != nil {
		return nil, err
	}
	summary := metrics.Describe(computed, &r.Manifest)
	if how := r.Manifest.Feedback; how != nil {
		summary.Feedback = metrics.NewFeedbackOf(record.Outcomes, *how, opts.Of(&r.Manifest))
	}
	return summary, nil
}

// printSummary prints the metrics of a run and says with its error whether they count.
func (g *globals) printSummary(s *metrics.Summary, asJSON bool) error {
	var err error
	if asJSON {
		err = g.printJSON(s)
	} else if err = s.Render(g.stdout); err != nil {
		err = fmt.Errorf("writing the result: %w", err)
	}
	if err != nil || s.Valid {
		return err
	}
	for _, w := range s.Warnings {
		if w.AffectsResult {
			return invalidf("the run is not valid: %s", w.Text)
		}
	}
	return invalidf("the run is not valid: its state is %s", s.State)
}
