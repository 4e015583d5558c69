// Package tunecmd is the command `rmreplay tune`, which looks for a better setting of a resource
// manager's parameters and tests it on held-out data. Package tune does the work.
package tunecmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/experiment"
	"rmreplay/internal/quantity"
	"rmreplay/internal/sweep"
	"rmreplay/internal/tune"
)

// Lent are functions of package cli that the command uses: the display of a sweep's runs, and the
// checks of an experiment's options.
type Lent struct {
	Display      func(p *console.Progress, runs, parallel int) Display
	CheckOption  sweep.CheckOption
	CheckVariant sweep.CheckVariant
}

type options struct {
	output, policy      string
	parallel            int
	quiet, json, dryRun bool
}

// commands makes the command.
type commands struct {
	console.Output
	Lent
}

// Display shows the progress. End may be called more than once. The parameter rest of Step is the number of the last
// runs if these begin, on another engine than the runs before, and otherwise 0.
type Display struct {
	Run  func(sweep.Progress)
	Step func(text string, rest int)
	End  func()
}

// New returns the command.
func New(out console.Output, lent Lent) *cobra.Command {
	o := commands{out, lent}
	var opts options
	c := &cobra.Command{
		Use:   "tune EXPERIMENT -o DIR",
		Short: "Find a better setting of parameters, and prove it on held-out data",
		Long: `Looks for values of slurm.conf's parameters, priorities and limits that serve a workload
better. docs/TUNING.md describes the file, which is YAML: the workloads, the parameters
with their ranges, the metric to improve, and the metrics that must not become worse.
An example:

  workloads: [may.jsonl]
  held-out: [june.jsonl]
  slurm: {cluster: cluster}
  parameters:
    - {name: PriorityWeightAge, integer: [100, 100000], log: true}
    - {name: SchedulerParameters.bf_max_job_test, values: [100, 500, 1000]}
  objective: mean_wait_s
  constraints:
    - {metric: utilization, worse-by: 2%}

The search runs settings on the workloads, with several seeds, and drops settings that
are significantly worse than others. Then the best setting and the site's own run on
held-out data that the search has not used: other workloads, or at least other seeds.
Only this test decides. The command prints the lines for slurm.conf, with the gain and
its interval, or that no better setting was found.

With --policy slurm, the search runs on the model of Slurm's scheduler, in about a
second a run, and the test on held-out data runs on real Slurm. The result says how many
settings the search and the test tried, and how long each took. Run rmreplay agreement
first: it says whether the model is good enough for the workload.

Each trial is a run of a sweep in DIR. If the command was interrupted or killed, give
the same command again. It keeps complete runs, and continues. DIR/tune.json and
DIR/tune.txt have the result. --dry-run makes no run: it checks the file and says how
many runs are needed.

The exit status is 0 whether or not a better setting was found.`,
		Example: `  rmreplay tune tune.yaml -o tuning --dry-run
  rmreplay tune tune.yaml -o tuning
  rmreplay tune tune.yaml -o tuning --policy slurm
  rmreplay tune tune.yaml -o tuning --parallel 2 --json`,
		Args: console.WantArgs("EXPERIMENT"),
		RunE: func(c *cobra.Command, args []string) error {
			return o.run(c.Context(), args[0], opts)
		},
	}
	f := c.Flags()
	console.AddOutput(f, &opts.output, "write to `DIR`, a new directory or that of a tuning to continue")
	f.StringVar(&opts.policy, "policy", "", "scheduling `POLICY`: slurm, to search on the model of Slurm's scheduler")
	console.AddParallel(f, &opts.parallel, "runs")
	console.AddQuiet(f, &opts.quiet)
	console.AddJSON(c, &opts.json)
	console.Require(c, "output")
	f.BoolVar(&opts.dryRun, "dry-run", false, "say what would be done: check the file, and say how many runs it needs")
	return c
}

func (o commands) run(ctx context.Context, path string, opts options) error {
	if err := console.CheckParallel(opts.parallel); err != nil {
		return err
	}
	if opts.policy != "" && opts.policy != experiment.SlurmPolicy {
		return console.Usagef("--policy %s: not a model of Slurm (want %s)", opts.policy, experiment.SlurmPolicy)
	}
	file, err := tune.Load(path)
	if err != nil {
		return console.BadInput(err)
	}
	dir, err := filepath.Abs(opts.output)
	if err != nil {
		return fmt.Errorf("finding the directory: %w", err)
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	plan := file.Plan()
	runs := plan.Budget + plan.HeldOutRuns
	if opts.policy != "" {
		runs = plan.Budget // the runs of the proof follow on Slurm
	}
	display := o.Display(o.Progress(opts.quiet), runs, opts.parallel)
	defer display.End()
	tuner := &tune.Tuner{
		File: file, Dir: dir, Program: program, Version: o.Version, Parallel: opts.parallel, Model: opts.policy != "",
		CheckOption: o.CheckOption, CheckVariant: o.CheckVariant, Observe: display.Run,
		Step: func(s tune.Step) {
			rest := 0
			if opts.policy != "" && s.What == tune.HeldOut {
				rest = s.Runs
			}
			display.Step(fmt.Sprintf("%s: %d %s of %d settings on %d blocks (%d of %d %s used)", s.What, s.Runs,
				quantity.Plural(s.Runs, "run", "runs"),
				s.Settings, s.Blocks, s.Used, s.Budget, quantity.Plural(s.Budget, "run is", "runs are")), rest)
		},
	}
	if err := tuner.Check(); err != nil {
		return console.BadInput(err)
	}
	if opts.dryRun {
		if opts.json {
			return o.PrintJSON(plan)
		}
		return o.Print(plan.Render())
	}
	result, err := tuner.Run(ctx)
	display.End()
	if err != nil {
		var input *tune.InputError
		if errors.As(err, &input) {
			return console.BadInput(err)
		}
		return o.UnlessInterrupted(ctx, err, opts.output+" keeps the complete runs; the same command continues")
	}
	if opts.json {
		return o.PrintJSON(result)
	}
	return o.Print(result.Render())
}
