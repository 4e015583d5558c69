// Package agreementcmd is the command `rmreplay agreement`, which says how far to trust the model of Slurm on a
// workload. Package agreement does the work.
package agreementcmd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"rmreplay/internal/agreement"
	"rmreplay/internal/cli/console"
	"rmreplay/internal/experiment"
	"rmreplay/internal/flags"
	"rmreplay/internal/output"
	"rmreplay/internal/run"
)

// commands makes the command.
type commands struct{ console.Output }

// options are the flags.
type options struct {
	cluster, slurm, output           string
	seed                             uint64
	realizations, parallel, instants int
	within                           time.Duration
	quiet, json                      bool
}

// New returns the command.
func New(out console.Output) *cobra.Command {
	o := commands{out}
	var opts options
	c := &cobra.Command{
		Use:   "agreement WORKLOAD --cluster DIR",
		Short: "Say how far to trust the model of Slurm on a workload",
		Long: `Replays a workload on the stock Slurm, simulates it with the model of Slurm's scheduler
(simulate --policy slurm) under the same seeds, and compares both:

  whole runs   which jobs start in the same second and on the same nodes, how the other
               jobs differ, and the first difference with its cause, if it is known
  decisions    the model decides in the state that Slurm was in at each instant, so that a
               difference does not hide the next one
  waits        statistics of the waits, over all realizations of Slurm and of the model

The result begins with a verdict: how many of Slurm's decisions the model makes on this
workload, how the other decisions differ, and what the model can be used for.

The replays take at most ten minutes together, or --within. A replay that has not ended
by then is compared up to the instant that it reached, and the verdict names this part
of the workload. To compare another part, cut it out with
` + "`rmreplay workload transform --start`" + `.

In place of WORKLOAD and --cluster you may give an existing replay: its record, or a
directory of its realizations. Existing runs of the model, with the same seeds, may
follow.

With -o, the records are kept in DIR/slurm and DIR/model for compare, explain and
report, and the result in DIR/agreement.json. If the command is given again, it uses the
complete replays in DIR.

The exit status is 3 if a replay is not valid, and 5 if this machine lacks the
release of Slurm to replay on.`,
		Example: `  rmreplay workload generate example --seed 1 -o demo
  rmreplay agreement demo/day.jsonl --cluster demo/cluster
  rmreplay agreement demo/day.jsonl --cluster demo/cluster --slurm 24.11 -o trust
  rmreplay agreement march.jsonl --cluster vale --within 30m --realizations 4 -o march
  rmreplay agreement demo/run
  rmreplay agreement demo/run demo/modelled --json`,
		Args: console.AtMost(2),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args, opts) },
	}
	f := c.Flags()
	f.StringVar(&opts.cluster, "cluster", "", "play WORKLOAD on the cluster in `DIR`")
	console.AddSlurm(f, &opts.slurm)
	console.AddOutput(f, &opts.output, "keep the records and the result in `DIR` (default: nothing is kept)")
	console.AddSeed(f, &opts.seed, "the phase of slurmctld's cycles")
	console.AddCount(f, &opts.realizations, "realizations", 2, "make `N` realizations, with the seeds --seed, --seed + 1, ...")
	console.AddParallel(f, &opts.parallel, "replays")
	f.IntVar(&opts.instants, "instants", 0, "compare the decisions at `N` random instants (0: all)")
	flags.Duration(f, &opts.within, "within", 10*time.Minute, "end the replays when they have taken `DURATION` of real time, all together (0: never)")
	console.AddQuiet(f, &opts.quiet)
	console.AddJSON(c, &opts.json)
	return c
}

// check returns an error for flags or arguments that contradict each other.
func (o *options) check(args []string) error {
	switch {
	case len(args) == 0:
		return console.Usagef("WORKLOAD is missing")
	case o.cluster != "" && len(args) > 1:
		return console.Usagef("%q: unexpected argument (want WORKLOAD with --cluster, or records without it)", args[1])
	case o.cluster == "" && o.slurm != "":
		return console.Usagef("--slurm needs --cluster (the record of a replay has its release)")
	case o.instants < 0:
		return console.Usagef("--instants %d: negative (want 0 for all)", o.instants)
	case o.within < 0:
		return console.Usagef("--within %v: negative (want, for example, 10m, or 0 for no end)", o.within)
	}
	return console.CheckParallel(o.parallel)
}

func (o commands) run(ctx context.Context, args []string, opts options) error {
	if err := opts.check(args); err != nil {
		return err
	}
	dir, kept, err := opts.directory()
	if err != nil {
		return err
	}
	if !kept {
		defer func() { _ = os.RemoveAll(dir) }() // only temporary files
	}
	show := o.Progress(opts.quiet)
	defer show.End()
	var mu sync.Mutex
	how := agreement.Options{
		Realizations: opts.realizations, Parallel: opts.parallel, Within: opts.within, Instants: opts.instants, Dir: dir,
		Show: func(text string) { mu.Lock(); defer mu.Unlock(); show.Update(text) },
	}
	report, err := o.measure(ctx, args, opts, how)
	show.End()
	if err != nil {
		left := "nothing is kept"
		if kept {
			left = dir + " keeps the complete replays, and the same command continues"
		}
		return o.UnlessInterrupted(ctx, err, left)
	}
	if kept {
		if err := report.Write(dir); err != nil {
			return err
		}
	}
	if opts.json {
		err = o.PrintJSON(report)
	} else {
		err = o.Print(report.Render())
	}
	if err == nil && report.Doubt != "" {
		return console.Invalidf("%s", report.Doubt)
	}
	return err
}

// measure makes the runs, or reads the given records, and compares them.
func (o commands) measure(ctx context.Context, args []string, opts options, how agreement.Options) (*agreement.Report, error) {
	if opts.cluster != "" {
		spec := experiment.Spec{
			Workload: experiment.Workload{Path: args[0]}, Seed: opts.seed, Command: os.Args, Version: o.Version,
			Slurm: &experiment.Slurm{Cluster: opts.cluster, Installation: opts.slurm, ReasonsEvery: 2 * time.Minute},
		}
		return agreement.Measure(ctx, spec, how)
	}
	replays, err := run.OpenSet(args[0])
	if err != nil {
		return nil, console.BadInput(fmt.Errorf("%w (want --cluster DIR for a workload, or the record of a replay)", err))
	}
	var models []*run.Run
	if len(args) > 1 {
		set, err := run.OpenSet(args[1])
		if err != nil {
			return nil, console.BadInput(err)
		}
		models = set.Runs
	}
	return agreement.Compare(ctx, replays.Runs, models, how)
}

// directory returns the directory of the records, and whether the command keeps the directory.
func (o *options) directory() (dir string, kept bool, err error) {
	if o.output == "" {
		dir, err = os.MkdirTemp("", "rmreplay-agreement-")
		return dir, false, err
	}
	entries, err := os.ReadDir(o.output)
	if err == nil && len(entries) > 0 && !agreement.Holds(o.output) {
		return "", false, fmt.Errorf("%s: %w, and is not from rmreplay agreement (want a new or an empty directory)", o.output, output.ErrNotEmpty)
	}
	dir, err = filepath.Abs(o.output)
	return dir, true, err
}
