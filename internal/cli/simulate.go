package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/experiment"
	"rmreplay/internal/flags"
	"rmreplay/internal/resources"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/sim/policy"
)

// simulateOptions are the flags of `simulate`.
type simulateOptions struct {
	runOptions
	simulator experiment.Simulator
	nodes     string // a number, or a factor such as x2
	clock     string
}

func (o *simulateOptions) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.simulator.Policy, "policy", "easy", "scheduling `POLICY`: rmreplay simulate --help lists them")
	f.StringVar((*string)(&o.simulator.Ties), "ties", string(sim.EndsFirst), "`ORDER` of events at one instant: ends-first, or arrivals-first as in the simulator pyss")
	f.StringVar(&o.simulator.Cluster, "cluster", "", "simulate the cluster in `DIR`: the nodes and partitions of its slurm.conf")
	console.AddCount(f, &o.simulator.Processors, "processors", 0, "the machine has `N` processors (default: that of the machine that the workload was recorded on)")
	f.StringVar(&o.nodes, "nodes", "", "simulate `N` nodes of equal size (not with --cluster) or, with a factor such as x2 or 50%, a larger or smaller machine")
	flags.FileSystems(f, &o.simulator.FileSystems)
	f.StringVar(&o.simulator.Release, "slurm", "", "which Slurm: the `RELEASE` that --policy slurm models, such as 24.11 (default 22.05)")
	flags.Duration(f, &o.simulator.Lead, "lead", 0, "start Slurm `DURATION` before the workload begins, with --policy slurm (default: "+
		"random, between one and six minutes)")
	f.StringVar(&o.clock, "clock", "frozen", "how much virtual time slurmctld's computing takes, with --policy slurm: `MODEL` frozen "+
		"(none), charged=MAIN,BACKFILL (these times for each job that the main scheduler and backfill consider, such as 50us,2ms), "+
		"or charged=RUN (the mean costs of the replay RUN with --clock measured)")
	o.runOptions.addFlags(c, "--lead, ")
	flags.Alias(f, map[string]string{"procs": "processors"})
}

func newSimulateCommand(g *globals) *cobra.Command {
	var opts simulateOptions
	c := &cobra.Command{
		Use:   "simulate WORKLOAD --policy easy -o RUN",
		Short: "Simulate a workload on a built-in scheduler, in about a second",
		Long: `Plays a workload to the built-in simulator and records what happens to every job. The
machine is a pool of processors, or, with --cluster, the nodes and partitions of a
slurm.conf. Virtual time jumps from event to event. The same input gives the same record.

Policies:

` + describePolicies() + `  slurm          a model of Slurm's own scheduler with the slurm.conf of --cluster

In f1 to f4, r is the time limit in seconds, n the number of processors, and s the
submission in seconds since the simulation began.

easy-textbook, easy-sjbf and easy++ take tie rules, as in
easy-textbook:extra=first,end=before. All policies of EASY can schedule by predicted run
times instead of time limits, as in easy-sjbf:predict=nag,correct=incremental. Jobs
still end at their limits. docs/SIMULATOR.md explains the rules and their sources.

The policy slurm needs --cluster. If the configuration or the workload has features of
Slurm that the model lacks, the run is not valid, and a warning names the features.
docs/SLURM-MODEL.md says how closely the model agrees with Slurm.

The exit status is 3 if the run is not valid, because a warning affects its result. It
is 130 if the run was interrupted. The record then ends at the interruption.

` + feedbackHelp,
		Example: `  rmreplay simulate KTH-SP2-1996-2.1-cln.swf.gz --policy easy -o run
  rmreplay simulate KTH-SP2-1996-2.1-cln.swf.gz --policy fcfs \
    --time-limit twice-run-time -o run2
  rmreplay simulate KTH-SP2-1996-2.1-cln.swf.gz --policy easy++ -o run6
  rmreplay simulate day.jsonl --cluster demo/cluster --policy conservative -o run3 --json
  rmreplay simulate day.jsonl --cluster demo/cluster --policy slurm --slurm 24.11 -o run7
  rmreplay simulate day.jsonl --cluster demo/cluster --nodes x2 --perf x0.5 -o run4
  rmreplay simulate KTH-SP2-1996-2.1-cln.swf.gz --perf x0.5 --feedback think-time -o run5
  rmreplay simulate KTH-SP2-1996-2.1-cln.swf.gz --jitter 1m --realizations 10 -o set`,
		Args: console.WantArgs("WORKLOAD"),
		RunE: func(c *cobra.Command, args []string) error {
			spec, err := opts.spec(args[0])
			if err != nil {
				return err
			}
			defer resources.CollectSeldom()()
			return opts.run(c.Context(), g, spec)
		},
	}
	opts.addFlags(c)
	return c
}

// describePolicies returns the list of policies for the help.
func describePolicies() string {
	var b strings.Builder
	for _, p := range policy.List() {
		fmt.Fprintf(&b, "  %-13s  %s\n", p.Name, p.Doc)
	}
	return b.String()
}

// spec returns the specification of the simulation that the flags choose.
func (o *simulateOptions) spec(path string) (experiment.Spec, error) {
	spec, err := o.runOptions.spec(path)
	if err != nil {
		return spec, err
	}
	simulator := o.simulator
	spec.Simulator = &simulator
	if simulator.Clock, err = experiment.ModelClock(o.clock); err != nil {
		return spec, console.Usagef("--clock %w", err)
	}
	n, nerr := strconv.Atoi(o.nodes)
	switch {
	case strings.HasPrefix(o.nodes, "+"), nerr != nil:
		simulator.NodeFactor, err = nodeFactor(o.nodes)
	case n <= 0:
		return spec, console.Usagef("--nodes %d: not above 0 (want 1 or more)", n)
	default:
		simulator.Nodes = n
	}
	return spec, err
}
