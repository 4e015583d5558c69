// Package tunecmd is the command `rmreplay tune`, which looks for a better setting of a resource
// manager's parameters and proves it. Package tune does the work.
package tunecmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"rmreplay/internal/sweep"
	"rmreplay/internal/tune"
)

// Output is how the program's commands print, and what this command needs of the others.
type Output struct {
	Print     func(text string) error // a result for people
	PrintJSON func(v any) error       // a result as JSON
	WantArgs  func(names ...string) cobra.PositionalArgs
	AddFlags  func(c *cobra.Command, to *Flags) // those that other commands have as well
	BadInput  func(error) error                 // marks an error of what the user named
	// CheckParallel checks the value of --parallel.
	CheckParallel func(n int) error
	Display       func(f *Flags, runs int) Display
	// Interrupted returns err, or says where the results are if it is an interruption.
	Interrupted func(ctx context.Context, err error, left string) error

	Version      string
	CheckOption  sweep.CheckOption
	CheckVariant sweep.CheckVariant
}

// Flags are the flags that the command has in common with others.
type Flags struct {
	Output      string
	Parallel    int
	Quiet, JSON bool
}

// Display shows the progress. End may be called more than once.
type Display struct {
	Run  func(sweep.Progress)
	Step func(text string)
	End  func()
}

// New returns the command.
func New(o Output) *cobra.Command {
	var f Flags
	var dryRun bool
	c := &cobra.Command{
		Use:   "tune EXPERIMENT -o DIR",
		Short: "Find a better setting of parameters, and prove it on held-out data",
		Long: `Looks for values of slurm.conf's parameters, priorities and limits that serve a workload
better. docs/TUNING.md describes the file, which is YAML: the workloads, the parameters
with their ranges, the metric that shall become better, and what must not become worse.

The search races settings against each other on the workloads, with several seeds, and
drops those that are significantly worse. The best one and the site's own then run on
held-out data, which no decision has seen: other workloads, or at least other seeds. Only
this test counts. The result is the lines for slurm.conf, with the gain and its interval,
or that no better setting was found, which is a result too.

Each trial is a run of a sweep in DIR. If the command was interrupted or killed, give it
again: it keeps complete runs, and continues. DIR/tune.json and DIR/tune.txt hold the
result. --dry-run makes no run. It checks the file and says how many runs it needs.

The exit status is 0 whether or not a better setting was found.`,
		Example: `  rmreplay tune tune.yaml -o tuning --dry-run
  rmreplay tune tune.yaml -o tuning
  rmreplay tune tune.yaml -o tuning --parallel 2 --json`,
		Args: o.WantArgs("EXPERIMENT"),
		RunE: func(c *cobra.Command, args []string) error {
			return o.run(c.Context(), args[0], &f, dryRun)
		},
	}
	o.AddFlags(c, &f)
	c.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be done: check the file, and say how many runs it needs")
	return c
}

func (o Output) run(ctx context.Context, path string, f *Flags, dryRun bool) error {
	if err := o.CheckParallel(f.Parallel); err != nil {
		return err
	}
	file, err := tune.Load(path)
	if err != nil {
		return o.BadInput(err)
	}
	dir, err := filepath.Abs(f.Output)
	if err != nil {
		return fmt.Errorf("finding the directory: %w", err)
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	plan := file.Plan()
	display := o.Display(f, plan.Budget+plan.HeldOutRuns)
	defer display.End()
	tuner := &tune.Tuner{
		File: file, Dir: dir, Program: program, Version: o.Version, Parallel: f.Parallel,
		CheckOption: o.CheckOption, CheckVariant: o.CheckVariant, Observe: display.Run,
		Step: func(s tune.Step) {
			display.Step(fmt.Sprintf("%s: %d runs of %d settings on %d blocks (%d of %d runs are used)", s.What, s.Runs, s.Settings, s.Blocks, s.Used, s.Budget))
		},
	}
	if err := tuner.Check(); err != nil {
		return o.BadInput(err)
	}
	if dryRun {
		if f.JSON {
			return o.PrintJSON(plan)
		}
		return o.Print(plan.Render())
	}
	result, err := tuner.Run(ctx)
	display.End()
	if err != nil {
		var input *tune.InputError
		if errors.As(err, &input) {
			return o.BadInput(err)
		}
		return o.Interrupted(ctx, err, f.Output+" keeps the complete runs; the same command continues")
	}
	if f.JSON {
		return o.PrintJSON(result)
	}
	return o.Print(result.Render())
}
