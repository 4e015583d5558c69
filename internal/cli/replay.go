package cli

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/experiment"
	"rmreplay/internal/flags"
)

// replayOptions are the flags of `replay`.
type replayOptions struct {
	runOptions
	slurm           experiment.Slurm
	nodes           string
	lead            time.Duration
	fixedPriorities bool
	clock           string
	reasons         time.Duration
}

func (o *replayOptions) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.slurm.Cluster, "cluster", "", "`DIR` of the cluster: slurm.conf and, if the site has them, "+
		"gres.conf, topology.conf, accounts.sacctmgr and users")
	addNodesFlag(f, &o.nodes)
	o.runOptions.addFlags(c, "--lead, the delays, ")
	f.StringVar(&o.slurm.LaunchDelay, "launch-delay", "", "`DELAY` from a job's allocation to the start of its script: "+
		"2s, uniform:1s,5s, exp:2s or lognormal:2s,0.5")
	f.StringVar(&o.slurm.PrologDelay, "prolog-delay", "", "`DELAY` of the prolog on each node (needs PrologFlags=Alloc)")
	f.StringVar(&o.slurm.EpilogDelay, "epilog-delay", "", "`DELAY` of the epilog on each node, during which the node is "+
		"not free")
	flags.Duration(f, &o.lead, "lead", 0, "start Slurm `DURATION` before the workload begins, at least 5s (default: "+
		"random, between one and six minutes)")
	console.AddSlurm(f, &o.slurm.Installation)
	addSiteSlurmFlag(f, &o.slurm.SiteSlurm)
	f.BoolVar(&o.slurm.WithoutAccounting, "no-accounting", false,
		"run without slurmdbd even if the site has it: without associations, limits, QOS and fair-share")
	f.BoolVar(&o.fixedPriorities, "fixed-priorities", false, "give every job its recorded priority instead of "+
		"Slurm's own (a run records the priority at the job's start; sacct records the priority when the job became eligible)")
	flags.FileSystems(f, &o.slurm.FileSystems)
	f.StringVar(&o.slurm.IOSchedule, "io-schedule", "", "let a driver outside slurmctld decide which jobs start, "+
		"by `STRATEGY`: baseline, aware or two-group, with the options of simulate's io-aware (docs/IO.md)")
	f.BoolVar(&o.slurm.AllowShell, "allow-shell", false, "also run those actions of the workload that may write files "+
		"or run programs with your permissions: shell lines, and commands such as scontrol write and sacctmgr archive")
	f.StringVar(&o.clock, "clock", "frozen", "how much virtual time slurmctld's computing takes: `MODEL` frozen (none), "+
		"measured (its CPU time here) or measured=F (F times that)")
	flags.Duration(f, &o.reasons, "reasons", 2*time.Minute, "record the reasons of pending jobs every "+
		"`DURATION` of virtual time (0: do not record them; with --clock measured they are never recorded)")
	console.Require(c, "cluster")
}

func newReplayCommand(g *globals) *cobra.Command {
	var opts replayOptions
	c := &cobra.Command{
		Use:   "replay WORKLOAD --cluster DIR -o RUN",
		Short: "Replay a workload on the stock Slurm under virtual time",
		Long: `Runs the stock slurmctld with the site's own configuration, and slurmdbd with a private
MariaDB if the site has accounting. Submits every job of the workload at its submit time
and as its user, answers for all compute nodes, and records what happens to every job.
Virtual time stands still while Slurm computes, and jumps to the next event when all
daemons wait. With --clock measured, slurmctld's computing takes virtual time.
Scheduling cycles then reach bf_max_time, pause and fall behind as on a controller that
is as fast as this machine (with measured=F: F times slower).

A replay does not need root, and its daemons never run as root. It installs nothing,
does not use services of the machine, cannot be reached from other machines, and leaves
no file outside RUN. RUN/manifest.json lists every change of the configuration with its
reason. To see these changes before a replay, use ` + "`rmreplay conf adapt`" + `.

The exit status is 3 if the run is not valid, because a warning affects its result. It
is 130 if the run was interrupted. The record then ends at the interruption.

` + feedbackHelp,
		Example: `  rmreplay workload generate example --seed 1 -o demo
  rmreplay replay demo/day.jsonl --cluster demo/cluster -o demo/run
  rmreplay replay demo/day.jsonl --cluster demo/cluster -o demo/run2 --seed 2 --json
  rmreplay replay demo/day.jsonl --cluster demo/cluster -o demo/set --realizations 10
  rmreplay replay demo/day.jsonl --cluster demo/cluster -o demo/run3 --epilog-delay exp:2s
  rmreplay replay demo/day.jsonl --cluster demo/cluster -o demo/run4 --clock measured=2
  rmreplay replay demo/run --cluster demo/cluster --nodes x0.5 -o demo/run5
  rmreplay replay demo/run --cluster demo/cluster --nodes x0.5 -o demo/run6 \
    --feedback think-time`,
		Args: console.WantArgs("WORKLOAD"),
		RunE: func(c *cobra.Command, args []string) error {
			spec, err := opts.specOf(args[0], c.Flags())
			if err != nil {
				return err
			}
			return opts.run(c.Context(), g, spec)
		},
	}
	opts.addFlags(c)
	return c
}

// specOf returns the specification of the replay that the parsed flags choose.
func (o *replayOptions) specOf(path string, f *pflag.FlagSet) (experiment.Spec, error) {
	if o.clock != "frozen" && !f.Changed("reasons") {
		o.reasons = 0 // slurmctld's answers to requests for reasons would take virtual time
	}
	return o.spec(path)
}

// spec returns the specification of the replay that the flags choose.
func (o *replayOptions) spec(path string) (experiment.Spec, error) {
	spec, err := o.runOptions.spec(path)
	if err != nil {
		return spec, err
	}
	slurm := o.slurm
	spec.Slurm, spec.FixedPriorities, slurm.Lead = &slurm, o.fixedPriorities, o.lead
	if slurm.ClockFactor, err = experiment.ParseClock(o.clock); err != nil {
		return spec, console.Usagef("--clock %w", err)
	}
	slurm.ReasonsEvery = o.reasons
	slurm.NodeFactor, err = nodeFactor(o.nodes)
	return spec, err
}
