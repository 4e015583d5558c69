package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/cli/usage"
	"rmreplay/internal/experiment"
	"rmreplay/internal/flags"
	"rmreplay/internal/quantity"
	"rmreplay/internal/sweep"
)

// sweepOptions are the flags of `sweep`.
type sweepOptions struct {
	output   string
	policy   string
	parallel int
	on       string
	sbatch   []string
	collect  bool
	cell     int
	dryRun   bool
	quiet    bool
	json     bool
}

func (o *sweepOptions) addFlags(c *cobra.Command) {
	f := c.Flags()
	console.AddOutput(f, &o.output, "write to `DIR`, a new directory or that of a sweep to continue")
	f.IntVarP(&o.parallel, "parallel", "j", 0, "make at most `N` runs at the same time (default: one for each CPU; with "+
		"--on slurm: no limit)")
	f.StringVar(&o.policy, "policy", "", "scheduling `POLICY`: slurm, to simulate the cells for Slurm with the model "+
		"of Slurm's scheduler")
	f.StringVar(&o.on, "on", onLocal, "`WHERE` to run: here, or slurm (a job array, submitted with sbatch)")
	f.StringArrayVar(&o.sbatch, "sbatch", nil, "with --on slurm: an `OPTION` of sbatch, such as "+
		"--sbatch=--partition=long; may be repeated")
	f.BoolVar(&o.collect, "collect", false, "make no runs: only write the table of the existing runs")
	console.AddCount(f, &o.cell, "cell", 0, "make only one run: number `N` of the plan, counted from 1 "+
		"(the tasks of a job array do this)")
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would be done: check the experiment, and say how many runs and "+
		"seeds it needs, but make no runs")
	console.AddQuiet(f, &o.quiet)
	console.AddJSON(c, &o.json)
	console.Require(c, "output")
	flags.Alias(f, map[string]string{"jobs": "parallel"})
}

// The values of --on.
const (
	onLocal = "here"
	onSlurm = "slurm"
)

func newSweepCommand(g *globals) *cobra.Command {
	var opts sweepOptions
	c := &cobra.Command{
		Use:   "sweep EXPERIMENT -o DIR",
		Short: "Run a grid of configurations, transforms and seeds",
		Long: `Runs every cell of a grid: policies x machines in the simulator, and clusters x edits of
slurm.conf and of accounts on the stock Slurm. Each of these runs with every transform
and every seed. docs/SWEEPS.md describes the experiment file, which is YAML. Paths in it
are relative to its directory. An example:

  workload: model.jsonl
  seeds: 5
  transforms:
    - name: recorded
    - {name: busy, scale-arrivals: 0.3}
  sim:
    policies: [fcfs, easy]
    options: {processors: 128}

Each cell is a run in DIR/cells/NAME, or a directory of realizations if there are several
seeds. metrics, compare and report read them. DIR/summary.json and DIR/summary.txt hold
the table of all cells.

To continue an interrupted sweep, give the same command again. It keeps complete runs
that have the same inputs and were made by this version of rmreplay, and makes all other
runs. A failed run does not stop the sweep. The sweep lists failed runs at the end, and
makes them again the next time.

The number of seeds that are needed to find a difference between two cells depends on
how much the runs of a cell differ. If complete runs allow an estimate, the sweep prints
this number at the start, after the first three seeds, and below the table. --dry-run
prints it and makes no runs.

With --policy slurm, the cells for Slurm are simulated with the model of Slurm's
scheduler, in about a second a run and without Slurm. The names of these cells begin
with model_ in place of slurm_, so that DIR can have both. An option of replay is an
error if simulate does not have it.

With --on slurm, the missing runs become the tasks of one job array, submitted with
sbatch. DIR, the files of the experiment and this program must have the same paths on the
cluster's nodes. When the array has ended, --collect makes the table.

The exit status is 1 if runs failed or, with --collect, are missing, and 3 if all runs
were made and some are not valid.`,
		Example: `  rmreplay sweep experiment.yaml -o tuning
  rmreplay sweep experiment.yaml -o tuning --parallel 4 --json
  rmreplay sweep experiment.yaml -o tuning --policy slurm
  rmreplay sweep experiment.yaml -o tuning --dry-run
  rmreplay sweep experiment.yaml -o tuning --on slurm --sbatch=--time=2:00:00
  rmreplay sweep experiment.yaml -o tuning --collect
  rmreplay compare tuning/cells/sim_fcfs tuning/cells/sim_easy`,
		Args: console.WantArgs("EXPERIMENT"),
		RunE: func(c *cobra.Command, args []string) error {
			return runSweep(c.Context(), g, args[0], opts)
		},
	}
	opts.addFlags(c)
	return c
}

func (o *sweepOptions) check() error {
	switch {
	case o.policy != "" && o.policy != experiment.SlurmPolicy:
		return console.Usagef("--policy %s: not a model of Slurm (want %s; list other policies under sim.policies in the experiment)",
			o.policy, experiment.SlurmPolicy)
	case o.on != onLocal && o.on != onSlurm:
		return console.Usagef("--on %s: not known (want %s or %s)", o.on, onLocal, onSlurm)
	case len(o.sbatch) > 0 && o.on != onSlurm:
		return console.Usagef("--sbatch needs --on slurm")
	case o.collect && (o.cell > 0 || o.on == onSlurm), o.cell > 0 && o.on == onSlurm, o.dryRun &&
		(o.collect || o.cell > 0 || o.on == onSlurm):
		return console.Usagef("--collect, --cell, --dry-run and --on slurm exclude each other")
	}
	return console.CheckParallel(o.parallel)
}

func runSweep(ctx context.Context, g *globals, path string, opts sweepOptions) error {
	if err := opts.check(); err != nil {
		return err
	}
	plan, err := sweep.Open(path, opts.output, opts.policy != "", sweepCheck(g), sweepCheckTogether)
	if err != nil {
		return console.BadInput(err)
	}
	for _, warning := range plan.Warnings {
		g.Say("warning: %s", warning)
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	if opts.cell > len(plan.Runs) {
		return console.Usagef("--cell %d: the plan has only %d %s", opts.cell, len(plan.Runs),
			quantity.Plural(len(plan.Runs), "run", "runs"))
	}
	if opts.dryRun {
		outlook, err := (&sweep.Maker{Plan: plan, Version: Version()}).Outlook()
		switch {
		case err != nil:
			return err
		case opts.json:
			return g.PrintJSON(outlook)
		}
		err = g.Print(outlook.Render())
		return err
	}
	lock, err := plan.Lock(opts.cell > 0)
	if err != nil {
		return err
	}
	defer lock.Close()
	table := newSweepTable(g.Progress(opts.quiet), len(plan.Runs), console.AtOnce(opts.parallel))
	defer table.End()
	maker := &sweep.Maker{Plan: plan, Program: program, Version: Version(), Observe: table.observe}
	switch {
	case opts.cell > 0:
		table.runs = 1
		return runSweepCell(ctx, maker, opts.cell)
	case opts.collect:
		maker.Check()
		return g.finishSweep(plan, opts)
	}
	if err := maker.Prepare(ctx); err != nil {
		var input *sweep.InputError
		if errors.As(err, &input) {
			return console.BadInput(err)
		}
		return err
	}
	if opts.on == onSlurm {
		return submitSweep(ctx, g, maker, opts)
	}
	stop := table.tick()
	err = maker.All(ctx, opts.parallel)
	stop()
	table.End()
	if err != nil {
		return g.UnlessInterrupted(ctx, err, plan.Dir+" keeps the complete runs; the same command continues the sweep")
	}
	return g.finishSweep(plan, opts)
}

// runSweepCell makes one run, as a task of a job array. The submission has prepared its inputs.
func runSweepCell(ctx context.Context, maker *sweep.Maker, number int) error {
	maker.Check()
	return maker.MakeRun(ctx, maker.Plan.Runs[number-1])
}

// finishSweep writes and prints the table. It returns an error if runs failed, are missing or are not valid.
func (g *globals) finishSweep(plan *sweep.Plan, opts sweepOptions) error {
	summary, err := plan.Summarize()
	if err != nil {
		return err
	}
	if err := plan.WriteSummary(summary); err != nil {
		return err
	}
	if opts.json {
		err = g.PrintJSON(summary)
	} else if werr := g.Print(summary.Render()); werr != nil {
		err = fmt.Errorf("writing the result: %w", werr)
	}
	switch bad := summary.Failed + summary.NotRun; {
	case err != nil:
		return err
	case bad > 0:
		return fmt.Errorf("%d of %d %s failed or have not been made", bad, summary.Runs,
			quantity.Plural(summary.Runs, "run", "runs"))
	case summary.Invalid > 0:
		return console.Invalidf("%d of %d %s not valid", summary.Invalid, summary.Runs,
			quantity.Plural(summary.Runs, "run is", "runs are"))
	}
	return nil
}

// sweepReserved are the flags that the sweep itself sets.
var sweepReserved = []string{"help", "output", "overwrite", "seed", "realizations", "parallel", "quiet", "json",
	"cluster-output"}

// sweepCheck returns the function that checks an option in an experiment file. The option must be a
// flag of its command, and the flag must accept its value.
func sweepCheck(g *globals) sweep.CheckOption {
	return func(command, name, value string) (bool, error) {
		var c *cobra.Command
		switch command {
		case "simulate":
			c = newSimulateCommand(g)
		case "replay":
			c = newReplayCommand(g)
		default:
			c = newWorkloadTransformCommand(g)
			if name == "seed" { // a transform may have a seed of its own
				return false, c.Flags().Set(name, value)
			}
		}
		flag := c.Flags().Lookup(name)
		switch {
		case flag == nil:
			var names []string
			c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
			if near := flags.Nearest(name, names); near != "" {
				return false, fmt.Errorf("not an option of rmreplay %s (did you mean %s?)", command, near)
			}
			return false, fmt.Errorf("not an option of rmreplay %s", command)
		case slices.Contains(sweepReserved, flag.Name):
			return false, errors.New("not an option of an experiment: the sweep sets it")
		}
		if err := c.Flags().Set(name, value); err != nil {
			return false, err
		}
		return usage.NamesFile(flag), nil
	}
}

// sweepCheckTogether checks the options of a command as the command does before it reads its input.
func sweepCheckTogether(command string, args []string) error {
	c := &cobra.Command{}
	var simulate simulateOptions
	var replay replayOptions
	var transform transformOptions
	check := func() error { _, err := transform.makeSteps(); return err }
	switch command {
	case "simulate":
		simulate.addFlags(c)
		check = func() error { return checkSpec(simulate.spec(".")) }
	case "replay":
		replay.addFlags(c)
		check = func() error { return checkSpec(replay.spec(".")) }
	default:
		transform.addFlags(c)
		command = "workload transform"
	}
	if err := c.ParseFlags(append(args, "--output=.")); err != nil {
		return err
	}
	if err := usage.CheckDependents(command, c.Flags()); err != nil {
		return console.Usagef("%w", err)
	}
	return check()
}

func checkSpec(spec experiment.Spec, err error) error {
	if err != nil {
		return err
	}
	return experiment.CheckSpec(spec)
}

// submitSweep submits the missing runs as a job array.
func submitSweep(ctx context.Context, g *globals, maker *sweep.Maker, opts sweepOptions) error {
	array, err := maker.Submit(ctx, sweep.ArrayOptions{Limit: opts.parallel, Sbatch: opts.sbatch})
	if err != nil {
		return err
	}
	if array == nil {
		g.Say("rmreplay: all %d %s complete; nothing is submitted", len(maker.Plan.Runs),
			quantity.Plural(len(maker.Plan.Runs), "run is", "runs are"))
		return g.finishSweep(maker.Plan, opts)
	}
	if opts.json {
		return g.PrintJSON(array)
	}
	err = g.Printf("submitted job array %s with %d of %d %s\nwhen it has ended: rmreplay sweep %s -o %s --collect\n",
		array.Job, len(array.Runs), len(maker.Plan.Runs),
		quantity.Plural(len(maker.Plan.Runs), "run", "runs"), maker.Plan.Experiment.Path, opts.output)
	return err
}
