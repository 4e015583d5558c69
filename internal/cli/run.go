package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/experiment"
	"rmreplay/internal/flags"
	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
)

// The values of --time-limit.
const (
	limitAsked = "asked"
	limitTwice = "twice-run-time"
)

// runOptions are the flags that replay and simulate share.
type runOptions struct {
	output       string
	overwrite    bool
	seed         uint64
	perf, limit  string
	drainLimit   time.Duration
	realizations int
	parallel     int
	feedback     feedbackOptions
	zone         flags.Zone
	quiet, json  bool
}

func (o *runOptions) addFlags(c *cobra.Command, seed string) {
	f := c.Flags()
	console.AddOutput(f, &o.output, "write the record to the directory `RUN`")
	f.BoolVar(&o.overwrite, "overwrite", false, "replace an existing run")
	console.AddSeed(f, &o.seed, seed+"--jitter, for the hours of --feedback distribution and, with "+
		"--realizations, for the fields that \"workload complete\" filled in")
	f.StringVar(&o.perf, "perf", "", "divide run times by `FACTOR`, such as x2 or x0.5, as on faster or slower nodes, and keep time limits")
	f.StringVar(&o.limit, "time-limit", limitAsked, "`RULE` for time limits: asked (those of the workload), or twice-run-time (at least twice the run time, so that no job reaches its limit)")
	flags.Duration(f, &o.drainLimit, "drain-limit", experiment.DefaultDrainLimit,
		"give up the remaining jobs when nothing has happened for `DURATION` of virtual time and no job can end")
	console.AddCount(f, &o.realizations, "realizations", 0, "make `N` realizations, runs below the output directory, with the seeds --seed, --seed + 1, ..., for compare and report")
	console.AddParallel(f, &o.parallel, "realizations")
	o.feedback.addFlags(f)
	o.zone.Add(f)
	console.AddQuiet(f, &o.quiet)
	console.AddJSON(c, &o.json)
	console.Require(c, "output")
}

// spec returns the part of a specification that does not depend on the engine.
func (o *runOptions) spec(path string) (experiment.Spec, error) {
	spec := experiment.Spec{
		Workload: experiment.Workload{Path: path}, Seed: o.seed, DrainLimit: o.drainLimit,
		TwiceRunTime: o.limit == limitTwice,
		Output:       o.output, Overwrite: o.overwrite, Command: os.Args, Version: Version(),
	}
	switch {
	case o.limit != limitAsked && o.limit != limitTwice:
		return spec, console.Usagef("--time-limit %s: not a rule (want %s or %s)", o.limit, limitAsked, limitTwice)
	case o.drainLimit <= 0:
		return spec, console.Usagef("--drain-limit %v: not above 0 (want, for example, 24h)", o.drainLimit)
	}
	if err := console.CheckParallel(o.parallel); err != nil {
		return spec, err
	}
	var err error
	if spec.Performance, err = factorOf("perf", o.perf); err != nil {
		return spec, err
	}
	spec.Users, err = o.feedback.users()
	return spec, err
}

// run makes the run that a specification describes, or its realizations, and prints the metrics.
func (o *runOptions) run(ctx context.Context, g *globals, spec experiment.Spec) error {
	display := newRunProgress(g.Progress(o.quiet), o.zone.Location())
	if o.realizations > 0 {
		return o.runSet(ctx, g, spec, display)
	}
	summary, err := experiment.Run(ctx, spec, display.hooks())
	display.End()
	if err != nil {
		return g.UnlessInterrupted(ctx, err, o.output+" has the record up to the interruption")
	}
	return g.printSummary(summary, o.zone.Location(), o.json)
}

func (o *runOptions) runSet(ctx context.Context, g *globals, spec experiment.Spec, display *runProgress) error {
	list, err := experiment.RunSet(ctx, spec, experiment.Set{Count: o.realizations, Parallel: o.parallel}, display.setHooks(o.realizations, console.AtOnce(o.parallel)))
	display.End()
	if err != nil {
		return g.UnlessInterrupted(ctx, err, o.output+" has the record up to the interruption")
	}
	return g.reportSet(spec.Workload.Path, o.output, list, o.json)
}

// reportSet prints the metrics of the realizations in dir. If some are not valid, the error names them.
func (g *globals) reportSet(workload, dir string, list []experiment.Realization, asJSON bool) (err error) {
	if asJSON {
		err = g.PrintJSON(newSetReport(dir, list))
	} else {
		err = g.printSet(workload, dir, list)
	}
	if err != nil {
		return err
	}
	var invalid []string
	for _, r := range list {
		if !r.Summary.Valid {
			invalid = append(invalid, filepath.Base(r.Dir))
		}
	}
	if len(invalid) > 0 {
		return console.Invalidf("%d of %d %s not valid: %s (rmreplay metrics RUN says why)", len(invalid), len(list),
			quantity.Plural(len(list), "realization is", "realizations are"), quantity.Few(invalid, 5))
	}
	return nil
}

// setReport is the JSON output about several realizations.
type setReport struct {
	Dir          string             `json:"dir"`
	Realizations []*metrics.Summary `json:"realizations"`
}

func newSetReport(dir string, list []experiment.Realization) setReport {
	report := setReport{Dir: dir}
	for _, r := range list {
		report.Realizations = append(report.Realizations, r.Summary)
	}
	return report
}

// printSet prints a line for each realization.
func (g *globals) printSet(workload, dir string, list []experiment.Realization) error {
	var b strings.Builder
	table := quantity.NewTable(16, 9, 7, 10, 13, 13, 13, 9)
	table.Row("realization", "seed", "valid", "jobs", "makespan", "mean wait", "utilization", "wall")
	for _, r := range list {
		m := r.Summary
		rejected := ""
		if m.Rejected > 0 {
			rejected = fmt.Sprintf("  %d rejected", m.Rejected)
		}
		table.Row(filepath.Base(r.Dir), r.Seed, m.Valid, m.Jobs, fmt.Sprintf("%.0f s", m.MakespanSeconds),
			fmt.Sprintf("%.1f s", m.Wait.Mean), fmt.Sprintf("%.1f %%", 100*m.Utilization),
			fmt.Sprintf("%.1f s", m.WallSeconds), rejected)
	}
	b.WriteString(table.String())
	if oneSchedule(list) {
		fmt.Fprintf(&b, "all %s have the same schedule. They are one realization, and show nothing about chance "+
			"(want --jitter, as in --jitter 30s)\n", quantity.Regular(len(list), "realization"))
	}
	if made := experiment.DrawnAnew(list[0].Made); made != "" {
		fmt.Fprintf(&b, "drawn anew in each: %s\nnext: rmreplay compare %s %s\n", made, workload, dir)
	} else {
		fmt.Fprintf(&b, "compare them with others: rmreplay compare %s OTHER\n", dir)
	}
	return g.Print(b.String())
}

// oneSchedule reports whether all realizations have the same schedule. This happens in a simulation
// without random delays. It also happens in a window on Slurm 23.11 and later, because slurmctld
// restarts itself three seconds before such a window.
func oneSchedule(list []experiment.Realization) bool {
	first := list[0].Summary
	return len(list) > 1 && !slices.ContainsFunc(list, func(r experiment.Realization) bool {
		m := r.Summary
		return m.Jobs != first.Jobs || m.MakespanSeconds != first.MakespanSeconds || m.Wait != first.Wait ||
			m.Turnaround != first.Turnaround
	})
}

// factorOf reads the value of a flag whose value is a factor. It returns 0 if the flag is not given.
func factorOf(flag, text string) (float64, error) {
	f, err := flags.ParseFactor(text)
	if err != nil {
		return 0, console.Usagef("--%s %s: %w", flag, text, err)
	}
	return f, nil
}

// seedOfJobs is the usage of --seed for generated workloads.
const seedOfJobs = "the jobs; the same seed gives the same bytes"

// addSiteSlurmFlag adds the flag that names the release that the site runs.
func addSiteSlurmFlag(f *pflag.FlagSet, site *string) {
	f.StringVar(site, "site-slurm", "", "release `VERSION` of Slurm that the site runs (default: inferred from its keys)")
}

// addNodesFlag adds --nodes to commands that read a site's configuration.
func addNodesFlag(f *pflag.FlagSet, to *string) {
	f.StringVar(to, "nodes", "", "multiply the number of nodes by `FACTOR`, such as x2 or 50%; the total is rounded")
}

// nodeFactor reads the value of --nodes.
func nodeFactor(text string) (float64, error) {
	if n, err := strconv.ParseFloat(text, 64); err == nil && n > 0 && !strings.HasPrefix(text, "+") {
		return 0, console.Usagef("--nodes %s: a number without x (want, for example, x2, x0.5 or 120%%; slurm.conf, "+
			"or a whole number for the simulator, gives the number of nodes)", text)
	}
	return factorOf("nodes", text)
}
