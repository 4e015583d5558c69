package cli

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/experiment"
	"rmreplay/internal/resources"
	"rmreplay/internal/run"
)

// rerunOptions are the flags of `rerun`: the flags of replay and of simulate.
type rerunOptions struct {
	replay   replayOptions
	simulate simulateOptions
	workload string
}

func newRerunCommand(g *globals) *cobra.Command {
	var opts rerunOptions
	c := &cobra.Command{
		Use:   "rerun RUN [changed options]",
		Short: "Make a run again, as it was or with other options",
		Long: `Makes a run again, from any directory, with the workload, the cluster, the seed and the
options that its record names. Options on the command line replace those of the record:
for a run on Slurm they are the options of replay, otherwise those of simulate.

The cluster's files are those in the record. The workload is the file that the run read.
If that file has changed or is gone, the copy of its jobs in the record is used.

If RUN is a directory of realizations, the command makes all its runs again.

Without changed options the result is the same in the simulator, and on the same release
of Slurm with the frozen clock.`,
		Example: `  rmreplay rerun demo/run
  rmreplay rerun demo/run --seed 2 -o demo/run2
  rmreplay rerun demo/run --cluster vale-new -o demo/new
  rmreplay rerun demo/run --nodes x2 --realizations 10 -o demo/twofold`,
		Args: console.WantArgs("RUN"),
		RunE: func(c *cobra.Command, args []string) error { return opts.rerun(c, g, args[0]) },
	}
	opts.addFlags(c.Flags())
	return c
}

// addFlags adds the flags of replay and of simulate. A flag that both commands have sets the options of both.
func (o *rerunOptions) addFlags(to *pflag.FlagSet) {
	replay, simulate := &cobra.Command{}, &cobra.Command{}
	o.replay.addFlags(replay)
	o.simulate.addFlags(simulate)
	to.SetNormalizeFunc(simulate.Flags().GetNormalizeFunc())
	replay.Flags().VisitAll(func(f *pflag.Flag) {
		if other := simulate.Flags().Lookup(f.Name); other != nil {
			f.Value = both{f.Value, other.Value}
		}
		to.AddFlag(f)
	})
	to.AddFlagSet(simulate.Flags())
	to.VisitAll(func(f *pflag.Flag) {
		f.Annotations = nil // remove the mark that a flag is required
		usage, _, says := strings.Cut(f.Usage, " (default")
		shows := says || !slices.Contains([]string{"", "0", "0s", "false", "[]"}, f.DefValue)
		if shows && (changes[f.Name] != nil || slurmChanges[f.Name] != nil || simulatorChanges[f.Name] != nil) {
			f.Usage, f.DefValue = usage+" (default: that of the record)", ""
		}
	})
	to.Lookup("output").Usage = "write the record to the directory `RUN` (default: RUN-again)"
	to.StringVar(&o.workload, "workload", "", "play `WORKLOAD` in place of the run's")
}

// both is the value of a flag that two commands have.
type both struct {
	pflag.Value
	other pflag.Value
}

// Set implements [pflag.Value].
func (b both) Set(text string) error { return errors.Join(b.Value.Set(text), b.other.Set(text)) }

// change copies one option from given, the specification that the command line describes, into to, the specification
// of a run.
type change func(to, given *experiment.Spec)

// changes has the options that every run has, by their names. slurmChanges are the flags of a run
// on Slurm, simulatorChanges the flags of a simulation. All other flags say where the results go.
var changes = map[string]change{
	"seed":        func(to, given *experiment.Spec) { to.Seed = given.Seed },
	"perf":        func(to, given *experiment.Spec) { to.Performance = given.Performance },
	"time-limit":  func(to, given *experiment.Spec) { to.TwiceRunTime = given.TwiceRunTime },
	"drain-limit": func(to, given *experiment.Spec) { to.DrainLimit = given.DrainLimit },
	"jitter":      func(to, given *experiment.Spec) { to.Users.Jitter = given.Users.Jitter },
	"sessions":    func(to, given *experiment.Spec) { to.Users.Sessions = given.Users.Sessions },
	"feedback": func(to, given *experiment.Spec) {
		to.Users.Model = given.Users.Model
		to.Users.Sessions = cmp.Or(to.Users.Sessions, given.Users.Sessions)
	},
	"workload": func(to, given *experiment.Spec) { to.Workload = given.Workload },
}

var slurmChanges = map[string]change{
	"cluster":          func(to, given *experiment.Spec) { to.Slurm.Cluster = given.Slurm.Cluster },
	"nodes":            func(to, given *experiment.Spec) { to.Slurm.NodeFactor = given.Slurm.NodeFactor },
	"launch-delay":     func(to, given *experiment.Spec) { to.Slurm.LaunchDelay = given.Slurm.LaunchDelay },
	"prolog-delay":     func(to, given *experiment.Spec) { to.Slurm.PrologDelay = given.Slurm.PrologDelay },
	"epilog-delay":     func(to, given *experiment.Spec) { to.Slurm.EpilogDelay = given.Slurm.EpilogDelay },
	"lead":             func(to, given *experiment.Spec) { to.Slurm.Lead = given.Slurm.Lead },
	"slurm":            func(to, given *experiment.Spec) { to.Slurm.Installation = given.Slurm.Installation },
	"site-slurm":       func(to, given *experiment.Spec) { to.Slurm.SiteSlurm = given.Slurm.SiteSlurm },
	"no-accounting":    func(to, given *experiment.Spec) { to.Slurm.WithoutAccounting = given.Slurm.WithoutAccounting },
	"fixed-priorities": func(to, given *experiment.Spec) { to.FixedPriorities = given.FixedPriorities },
	"filesystem":       func(to, given *experiment.Spec) { to.Slurm.FileSystems = given.Slurm.FileSystems },
	"io-schedule":      func(to, given *experiment.Spec) { to.Slurm.IOSchedule = given.Slurm.IOSchedule },
	"allow-shell":      func(to, given *experiment.Spec) { to.Slurm.AllowShell = given.Slurm.AllowShell },
	"reasons":          func(to, given *experiment.Spec) { to.Slurm.ReasonsEvery = given.Slurm.ReasonsEvery },
	"clock": func(to, given *experiment.Spec) {
		to.Slurm.ClockFactor, to.Slurm.ReasonsEvery = given.Slurm.ClockFactor, given.Slurm.ReasonsEvery
	},
}

var simulatorChanges = map[string]change{
	"policy":     func(to, given *experiment.Spec) { to.Simulator.Policy = given.Simulator.Policy },
	"ties":       func(to, given *experiment.Spec) { to.Simulator.Ties = given.Simulator.Ties },
	"cluster":    func(to, given *experiment.Spec) { to.Simulator.Cluster = given.Simulator.Cluster },
	"processors": func(to, given *experiment.Spec) { to.Simulator.Processors = given.Simulator.Processors },
	"filesystem": func(to, given *experiment.Spec) { to.Simulator.FileSystems = given.Simulator.FileSystems },
	"slurm":      func(to, given *experiment.Spec) { to.Simulator.Release = given.Simulator.Release },
	"lead":       func(to, given *experiment.Spec) { to.Simulator.Lead = given.Simulator.Lead },
	"clock":      func(to, given *experiment.Spec) { to.Simulator.Clock = given.Simulator.Clock },
	"nodes": func(to, given *experiment.Spec) {
		to.Simulator.Nodes, to.Simulator.NodeFactor = given.Simulator.Nodes, given.Simulator.NodeFactor
	},
}

// change copies the options on the command line into the specification of a run.
func (o *rerunOptions) change(spec *experiment.Spec, f *pflag.FlagSet) (err error) {
	engine, own, others, given := "Slurm", slurmChanges, simulatorChanges, experiment.Spec{}
	if spec.Slurm != nil {
		given, err = o.replay.specOf(o.workload, f)
	} else {
		engine, own, others = "the simulator", simulatorChanges, slurmChanges
		given, err = o.simulate.spec(o.workload)
	}
	f.Visit(func(flag *pflag.Flag) {
		if change := own[flag.Name]; change != nil {
			change(spec, &given)
		} else if change := changes[flag.Name]; change != nil {
			change(spec, &given)
		} else if others[flag.Name] != nil && err == nil {
			err = console.Usagef("--%s: the run was made on %s, which has no such option", flag.Name, engine)
		}
	})
	spec.Output, spec.Overwrite, spec.Command, spec.Version = given.Output, given.Overwrite, given.Command, given.Version
	return err
}

func (o *rerunOptions) rerun(c *cobra.Command, g *globals, dir string) error {
	first, count, err := realizationsOf(dir)
	if err != nil {
		return console.BadInput(err)
	}
	f := c.Flags()
	for _, shared := range []*runOptions{&o.replay.runOptions, &o.simulate.runOptions} {
		shared.output = cmp.Or(shared.output, filepath.Clean(dir)+"-again")
		if !f.Changed("realizations") {
			shared.realizations = count
		}
	}
	spec, err := experiment.SpecOf(first.Dir, &first.Manifest)
	if err == nil && !f.Changed("workload") {
		spec, err = experiment.RerunSpec(first)
	}
	if err != nil {
		return console.BadInput(err)
	}
	if err := o.change(&spec, f); err != nil {
		return err
	}
	if !f.Changed("output") {
		g.Say("rmreplay: the record is in %s", spec.Output)
	}
	if spec.Slurm != nil {
		return o.replay.run(c.Context(), g, spec)
	}
	defer resources.CollectSeldom()()
	return o.simulate.run(c.Context(), g, spec)
}

// realizationsOf opens the record of a run, or of the first realization in a directory. The result
// count is the number of realizations, or 0 for a single run.
func realizationsOf(dir string) (first *run.Run, count int, err error) {
	if _, err := os.Stat(filepath.Join(dir, run.RealizationsFile)); err != nil {
		first, err = run.Open(dir)
		return first, 0, err
	}
	set, err := run.OpenSet(dir)
	if err != nil {
		return nil, 0, err
	}
	return set.Runs[0], len(set.Runs), nil
}
