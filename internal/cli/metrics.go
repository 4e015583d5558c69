package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/experiment"
	"rmreplay/internal/fairstart"
	"rmreplay/internal/flags"
	"rmreplay/internal/formats"
	"rmreplay/internal/metrics"
	"rmreplay/internal/run"
)

// metricsOptions are the flags of `metrics`.
type metricsOptions struct {
	by      []string
	tau     time.Duration
	window  flags.Window
	partial bool
	json    bool
	fairnessOptions
}

func (o *metricsOptions) addFlags(c *cobra.Command) {
	f := c.Flags()
	console.AddBy(f, &o.by)
	addTauFlag(f, &o.tau)
	o.addFairness(f)
	const bounds = "only the use of the machine and the jobs submitted %s then count (default: the %s)"
	o.window.Add(f, fmt.Sprintf(bounds, "from", "first start"), fmt.Sprintf(bounds, "until", "last end"))
	addPartialFlag(f, &o.partial)
	console.AddJSON(c, &o.json)
	flags.Alias(f, map[string]string{"from": "start", "to": "end"})
}

// fairnessOptions are the flags about fairness, for the commands that read records.
type fairnessOptions struct {
	fairness  bool
	fairStart fairstart.Policy
}

func (o *fairnessOptions) addFairness(f *pflag.FlagSet) {
	f.BoolVar(&o.fairness, "fairness", false, "show how equally users, accounts, QOS and jobs were served (Gini, Jain)")
	f.Var(&o.fairStart, "fair-start", "count the jobs that later jobs delayed; a simulation with `POLICY` finds them (own: the run's policy)")
}

// addTauFlag adds the flag --tau. [checkTau] checks its value.
func addTauFlag(f *pflag.FlagSet, to *time.Duration) {
	flags.Duration(f, to, "tau", metrics.DefaultTau, "`DURATION` τ of the bounded slowdown")
}

func checkTau(tau time.Duration) error {
	if tau <= 0 {
		return console.Usagef("--tau %s: not above 0 (want, for example, 10s)", tau)
	}
	return nil
}

// addPartialFlag adds --partial to the commands that read records. [unlessPartial] acts on it.
func addPartialFlag(f *pflag.FlagSet, to *bool) {
	f.BoolVar(to, "partial", false, "accept a run that is not valid: exit with 0")
}

// notValidHelp is the last paragraph of the help of commands that read records.
const notValidHelp = `A run is not valid if it was interrupted or killed, if it failed, or if a warning affects
its result. Then the first line of the output says so, and the exit status is 3, or 0 with
--partial.`

// unlessPartial returns the error of a command that has printed its result. With --partial it
// returns nil for a run that is not valid.
func unlessPartial(err error, partial bool) error {
	switch {
	case exitCode(context.Background(), err) != console.ExitInvalid:
		return err
	case partial:
		return nil
	}
	return fmt.Errorf("%w (with --partial the exit status is 0)", err)
}

func newMetricsCommand(g *globals) *cobra.Command {
	var opts metricsOptions
	c := &cobra.Command{
		Use:   "metrics RUN",
		Short: "Compute utilization, waits, slowdowns and other metrics of a run",
		Long: `Computes the metrics of a run from its record. For a run that was interrupted or killed,
the metrics are those of its jobs until then; such a run is not valid. RUN may also be a
recorded workload: then the metrics are those of the recorded jobs. For a directory of
realizations, such as a cell of a sweep, the command prints a line for each of them.

  makespan          last end - first start, or last end - begin of the workload's window
  utilization       processor time of jobs / (window x processors); for nodes: node time
                    with at least one job / (window x nodes). With --by it is the column
                    "use"; a partition's is of the partition's own processors
  throughput        jobs that started and ended in the window
  wait              start - submit
  turnaround        end - submit
  slowdown          turnaround / run time, with run time = end - start
  bounded slowdown  max(1, turnaround / max(run time, tau))

The window goes from the first start, or the begin of the workload's own window, to the
last end, unless --start and --end bound it. Then all figures of jobs (counts, waits,
turnarounds, slowdowns, losses) are those of the jobs that were submitted in it. Use,
throughput and queue are those of all jobs in it. The makespan and the lateness of
reacting users stay those of the run. To judge a scheduler, leave out the time when the
machine fills and the time when it empties.

On a terminal, small pictures show the use of the machine, the queue and the waits over
time.

--fairness shows how equally users, accounts, QOS and jobs were served: the Gini
coefficient and Jain's index of their mean waits and mean bounded slowdowns.
--fair-start shows these figures, too, and counts the jobs that later jobs delayed: jobs
that started after their fair start time (Sabin et al., 2004). --json has the figures of
fairness only with these flags.

--fair-start simulates each job that waited, with a policy of simulate (own is
easy-textbook for runs of Slurm and of its model). The figures are exact for a run of
the simulator with that policy, and approximate for other runs. The output says whether
they are exact.

` + notValidHelp,
		Example: `  rmreplay metrics demo/run
  rmreplay metrics demo/run --by partition,qos
  rmreplay metrics demo/run --json
  rmreplay metrics demo/set
  rmreplay metrics demo/run --fairness --fair-start own
  rmreplay metrics march.jsonl
  rmreplay metrics demo/run --start 2024-03-05T08:00 --end 2024-03-05T18:00`,
		Args: console.WantArgs("RUN"),
		RunE: func(_ *cobra.Command, args []string) error {
			return runMetrics(g, args[0], opts)
		},
	}
	opts.addFlags(c)
	return c
}

// pictureColumns is the width of pictures over time, in columns. The captions get the rest of a terminal's line.
const pictureColumns = 60

func runMetrics(g *globals, dir string, opts metricsOptions) error {
	how, by, err := opts.parse()
	if err != nil {
		return err
	}
	set, err := formats.OpenRuns(dir)
	if err != nil {
		return console.BadInput(err)
	}
	several := len(set.Runs) > 1
	if several && !opts.json && (len(by) > 0 || opts.fairness || opts.fairStart != "") {
		return console.Usagef("%s has several runs: --by, --fairness and --fair-start show one run (want --json, or a run "+
			"such as %s)", dir, set.Runs[0].Dir)
	}
	if g.Pictures() {
		how.Columns = pictureColumns
	}
	var list []experiment.Realization
	for i, r := range set.Runs {
		summary, err := opts.summarize(r, how, by)
		if err != nil {
			return console.BadInput(err)
		}
		m := &r.Manifest
		list = append(list, experiment.Realization{Number: i + 1, Dir: r.Dir, Seed: m.Seed, Made: m.Made, Summary: summary})
	}
	if several {
		err = g.reportSet(set.Runs[0].Manifest.Workload.Path, dir, list, opts.json)
	} else {
		err = g.printSummary(list[0].Summary, opts.window.Location(), opts.json)
	}
	return unlessPartial(err, opts.partial)
}

// summarize returns the metrics of a run that the flags choose.
func (o *metricsOptions) summarize(r *run.Run, how metrics.Options, by []metrics.By) (*metrics.Summary, error) {
	summary, err := metrics.FromRun(r, how, by...)
	if err == nil {
		err = o.fairStart.Add(summary, r, how)
	}
	if err == nil && !o.fairness && o.fairStart == "" {
		summary.Fairness = nil // replay and simulate do not print it either
	}
	return summary, err
}

// parse returns the options of the metrics that the flags choose.
func (o *metricsOptions) parse() (how metrics.Options, by []metrics.By, err error) {
	how.Tau = o.tau
	if err := checkTau(o.tau); err != nil {
		return how, nil, err
	}
	if how.From, how.To, err = o.window.Bounds(); err != nil {
		return how, nil, console.Usagef("%w", err)
	}
	how.SubmittedFrom, how.SubmittedTo = how.From, how.To
	by, err = console.ParseBy(o.by)
	return how, by, err
}

// printSummary prints the metrics of a run. If the run is not valid, the error says why.
func (g *globals) printSummary(s *metrics.Summary, zone *time.Location, asJSON bool) error {
	var err error
	if asJSON {
		err = g.PrintJSON(s)
	} else if err = g.Render(func(w io.Writer) error { return s.Render(w, zone) }); err != nil {
		err = fmt.Errorf("writing the result: %w", err)
	}
	if err != nil {
		return err
	}
	return experiment.Valid(s)
}
