package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/sim/policy"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// simulateOptions are the flags of `simulate`.
type simulateOptions struct {
	policy, ties string
	cluster      string
	procs        int
	nodes, perf  string // what-ifs: a number, or a factor such as x2
	limit        string
	output       string
	overwrite    bool
	seed         uint64
	drainLimit   time.Duration
	realizations realizationOptions
	feedback     feedbackOptions
	quiet        bool
	json         bool
}

// The values of --time-limit.
const (
	limitAsked = "asked"
	limitTwice = "twice-run-time"
)

func (o *simulateOptions) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.policy, "policy", "easy", "scheduling `POLICY`; the list is above")
	f.StringVar(&o.ties, "ties", string(sim.EndsFirst), "`ORDER` of what happens at one instant: ends-first, or arrivals-first as in the pyss simulator")
	f.StringVar(&o.cluster, "cluster", "", "simulate the nodes and partitions of this cluster `DIR` (its slurm.conf)")
	f.IntVar(&o.procs, "procs", 0, "simulate a machine of `N` processors (default: what the workload says it was recorded on)")
	f.StringVar(&o.nodes, "nodes", "", "simulate `N` nodes that share the processors evenly; or change the machine's size by a factor: x2, x0.5")
	f.StringVar(&o.perf, "perf", "", "change how fast the machine is by a `FACTOR`, x2 or x0.5: run times are divided by it, and time limits are not")
	f.StringVar(&o.limit, "time-limit", limitAsked, "`RULE` for time limits: asked, or twice-run-time (at least twice the run time, so that no job is killed)")
	f.StringVarP(&o.output, "output", "o", "", "`RUN` directory to write the record to")
	f.BoolVar(&o.overwrite, "overwrite", false, "replace a run that is there")
	f.Uint64Var(&o.seed, "seed", 1, "seed of everything drawn: --jitter and the working hours of --feedback distribution; nothing is drawn without them")
	f.DurationVar(&o.drainLimit, "drain-limit", 24*time.Hour, "virtual time in which nothing happens, nor any job can end, after which what is left is given up")
	o.realizations.addFlags(f)
	o.feedback.addFlags(f)
	f.BoolVarP(&o.quiet, "quiet", "q", false, "no progress")
	addJSONFlag(c, &o.json)
}

func newSimulateCommand(g *globals) *cobra.Command {
	var opts simulateOptions
	c := &cobra.Command{
		Use:   "simulate WORKLOAD --policy easy -o RUN",
		Short: "Simulate a workload on a built-in scheduler, in a second or so",
		Long: `Plays a workload to the built-in simulator and records what happened to every job. The
machine is a pool of processors, or with --cluster the nodes and partitions of a
slurm.conf. Virtual time jumps from event to event; the same input gives the same
record.

Policies:

` + describePolicies() + `
easy-textbook takes tie rules, as in easy-textbook:extra=first,end=before.
docs/SIMULATOR.md has the rules, their sources, and how to add a policy.

The exit status is 3 if the run is not valid, that is, if a warning affects its result,
and 130 if it was interrupted; the record then holds what had happened.

` + feedbackHelp,
		Example: `  rmreplay simulate KTH-SP2-1996-2.1-cln.swf.gz --policy easy -o run
  rmreplay simulate KTH-SP2-1996-2.1-cln.swf.gz --policy fcfs \
    --time-limit twice-run-time -o run2
  rmreplay simulate day.jsonl --cluster demo/cluster --policy conservative -o run3 --json
  rmreplay simulate day.jsonl --cluster demo/cluster --nodes x2 --perf x0.5 -o run4
  rmreplay simulate KTH-SP2-1996-2.1-cln.swf.gz --perf x0.5 --feedback think-time -o run5
  rmreplay simulate KTH-SP2-1996-2.1-cln.swf.gz --jitter 1m --realizations 10 -o set`,
		Args: wantArgs("WORKLOAD"),
		RunE: func(c *cobra.Command, args []string) error {
			return runSimulate(c.Context(), g, args[0], opts)
		},
	}
	opts.addFlags(c)
	if err := c.MarkFlagRequired("output"); err != nil {
		panic(err)
	}
	return c
}

// describePolicies lists the policies for the help.
func describePolicies() string {
	var b strings.Builder
	for _, p := range policy.List() {
		fmt.Fprintf(&b, "  %-13s  %s\n", p.Name, p.Doc)
	}
	return b.String()
}

// simulateInput is all that a simulation starts from.
type simulateInput struct {
	workload *workload.Workload
	config   sim.Config
	cluster  run.Cluster
	source   run.Source
	begin    hpc.Time
}

func runSimulate(ctx context.Context, g *globals, path string, opts simulateOptions) error {
	started := time.Now()
	defer collectLate()()
	in, err := opts.load(path)
	if err != nil {
		return err
	}
	display := newProgress(g.stderr, opts.quiet)
	if opts.realizations.count > 0 {
		set := realizationSet{
			realizationOptions: opts.realizations, dir: opts.output, seed: opts.seed,
			overwrite: opts.overwrite, json: opts.json, command: os.Args,
		}
		return runRealizations(ctx, g, set, func(ctx context.Context, r realization) (*metrics.Summary, error) {
			one := opts
			one.output, one.seed = r.dir, r.seed
			return one.simulate(ctx, in, time.Now(), display.of(r.number))
		}, display)
	}
	summary, err := opts.simulate(ctx, in, started, display)
	display.end()
	if err != nil {
		return g.unlessInterrupted(ctx, err, opts.output+" has what happened until then")
	}
	return g.printSummary(summary, opts.json)
}

// simulate makes one run and its record.
func (o *simulateOptions) simulate(ctx context.Context, in simulateInput, started time.Time, display replayDisplay) (*metrics.Summary, error) {
	engine, err := sim.New(in.config)
	if err != nil {
		return nil, badInput(err)
	}
	manifest := o.manifest(in, started)
	record, err := run.Create(o.output, manifest, run.Options{Overwrite: o.overwrite, Unjournaled: true})
	if err != nil {
		return nil, badInput(err)
	}
	defer record.Close()
	if err := record.Setting(in.workload); err != nil {
		return nil, err
	}
	state, err := o.play(ctx, in, engine, record, display)
	// The metrics are those of jobs, which have all ended: they need not wait for the disk.
	var computed metrics.Metrics
	opts := metrics.Options{Tau: metrics.DefaultTau}
	var group errgroup.Group
	group.Go(func() error {
		computed = metrics.ComputeAll(record.Outcomes, opts.Of(&manifest))
		return nil
	})
	ferr := record.Finish(state, func(m *run.Manifest) {
		m.Finished, m.VirtualEnd = time.Now(), engine.Now()
		if state == run.StateFailed {
			m.Error = err.Error()
		}
	})
	_ = group.Wait() // computing has no errors
	if ferr != nil || err != nil {
		return nil, errors.Join(err, ferr)
	}
	return summarize(record, computed, opts)
}

// play runs the simulation and notes what a reader of the record must know.
func (o *simulateOptions) play(ctx context.Context, in simulateInput, engine *sim.Engine, record *run.Writer, display replayDisplay) (run.State, error) {
	display.begin(in.begin, time.Now())
	result, err := o.feedback.play(ctx, engine, in.workload, o.seed, record, replay.Options{DrainLimit: o.drainLimit, Observe: seldom(display.observe)})
	switch {
	case interrupted(ctx, err):
		return run.StateInterrupted, err
	case err != nil:
		return run.StateFailed, err
	}
	for _, w := range undone(result, o.drainLimit) {
		if err := record.Warn(w); err != nil {
			return run.StateFailed, err
		}
	}
	return run.StateComplete, nil
}

// seldom passes on one instant of many: the simulator is done with one as soon as a look
// at the clock is, which decides whether there is something to show.
func seldom(observe func(replay.Progress)) func(replay.Progress) {
	n := 0
	return func(p replay.Progress) {
		if n++; n%256 == 0 {
			observe(p)
		}
	}
}

// load reads and checks everything before anything is simulated.
func (o *simulateOptions) load(path string) (in simulateInput, err error) {
	in.config.Ties = sim.Ties(o.ties)
	if in.config.Ties != sim.EndsFirst && in.config.Ties != sim.ArrivalsFirst {
		return in, usagef("--ties %s: not an order (want %s or %s)", o.ties, sim.EndsFirst, sim.ArrivalsFirst)
	}
	if err := o.realizations.check(); err != nil {
		return in, err
	}
	if o.drainLimit <= 0 {
		return in, usagef("--drain-limit %v: not above 0 (want, for example, 24h)", o.drainLimit)
	}
	if in.config.Policy, err = policy.New(o.policy); err != nil {
		return in, usagef("--policy %w", err)
	}
	if in.config.Performance, err = factor("--perf", o.perf); err != nil {
		return in, err
	}
	switch o.limit {
	case limitAsked:
	case limitTwice:
		in.config.Limit = sim.LimitAtLeastTwice
	default:
		return in, usagef("--time-limit %s: not a rule (want %s or %s)", o.limit, limitAsked, limitTwice)
	}
	if in.workload, err = openToSimulate(path); err != nil {
		return in, err
	}
	var known workload.Cluster
	if o.cluster != "" {
		known, err = o.loadCluster(&in)
	} else {
		err = o.loadMachine(&in)
	}
	if err != nil {
		return in, err
	}
	if err := refuseErrors(workload.Validate(in.workload, known)); err != nil {
		return in, badInput(fmt.Errorf("checking %s: %w", path, err))
	}
	if err := o.feedback.check(in.workload); err != nil {
		return in, err
	}
	in.source = run.Source{Path: path, Jobs: in.workload.Jobs.Len(), Rules: in.workload.Rules, SHA256: fileHash(path)}
	in.begin = in.workload.Begin()
	in.config.Epoch = in.begin
	return in, nil
}

// loadCluster makes the machine of a cluster directory.
func (o *simulateOptions) loadCluster(in *simulateInput) (workload.Cluster, error) {
	if o.procs != 0 {
		return workload.Cluster{}, usagef("--procs and --cluster exclude each other")
	}
	c, err := openScaled(o.cluster, o.nodes)
	if err != nil {
		return workload.Cluster{}, err
	}
	simulated, err := simulatedCluster(c)
	if err != nil {
		return workload.Cluster{}, badInput(err)
	}
	in.config.Cluster = simulated
	in.cluster = simulatedCapacity(c.Name, simulated)
	in.cluster.Dir = o.cluster
	return knownOf(c), nil
}

// loadMachine makes a machine without a cluster directory.
func (o *simulateOptions) loadMachine(in *simulateInput) error {
	w := in.workload
	procs := o.procs
	switch {
	case procs < 0:
		return usagef("--procs %d: not above 0", procs)
	case procs == 0:
		procs = w.MachineProcessors
	}
	count, scale := 0, 1.0
	if n, err := strconv.Atoi(o.nodes); err == nil {
		if count = n; n <= 0 {
			return usagef("--nodes %d: not above 0", n)
		}
		if procs == 0 {
			procs = n
		}
	} else if o.nodes != "" {
		if scale, err = factor("--nodes", o.nodes); err != nil {
			return err
		}
	}
	if procs == 0 {
		return usagef("%s does not say how large its machine was (want --procs N, --nodes N or --cluster DIR)", w.Source)
	}
	if count > 0 {
		return o.evenNodes(in, count, procs)
	}
	if what := needsNodes(w); what != "" {
		return badInput(fmt.Errorf("%s has %s, which need nodes (want --nodes N or --cluster DIR)", w.Source, what))
	}
	procs = int(math.Round(float64(procs) * scale))
	in.config.Processors = procs
	in.cluster = run.Cluster{Processors: procs}
	return nil
}

// evenNodes makes a machine of nodes that are all alike.
func (o *simulateOptions) evenNodes(in *simulateInput, count, procs int) error {
	if procs%count != 0 {
		return usagef("--nodes %d: does not divide %d processors", count, procs)
	}
	c := &sim.Cluster{}
	for i := range count {
		c.Nodes = append(c.Nodes, hpc.Node{Name: fmt.Sprintf("n%d", i+1), CPUs: procs / count})
	}
	in.config.Cluster = c
	in.cluster = run.Cluster{Nodes: count, Processors: procs}
	return nil
}

// needsNodes names what a workload has that a pool of processors cannot play; empty for
// nothing.
func needsNodes(w *workload.Workload) string {
	switch {
	case len(w.NodeEvents) > 0:
		return "node events"
	case len(w.Reservations) > 0:
		return "reservations"
	case w.Start != 0:
		return "a window"
	}
	return ""
}

// factor reads "x2", "2" or nothing, which is 1.
func factor(flag, s string) (float64, error) {
	if s == "" {
		return 1, nil
	}
	f, err := strconv.ParseFloat(strings.TrimPrefix(s, "x"), 64)
	if err != nil || !(f > 0) || math.IsInf(f, 0) {
		return 0, usagef("%s %s: not a factor (want, for example, x2 or x0.5)", flag, s)
	}
	return f, nil
}

// manifest describes the run as far as it is known before it starts.
func (o *simulateOptions) manifest(in simulateInput, started time.Time) run.Manifest {
	return run.Manifest{
		Engine: "sim", Policy: o.policy, Seed: o.seed, Command: os.Args, Started: started, Workload: in.source,
		Versions: run.Versions{RMReplay: Version(), Go: runtime.Version()},
		Clock:    run.Clock{Model: "frozen"}, Cluster: in.cluster,
		VirtualStart: in.begin, WindowStart: in.workload.Start, Feedback: o.feedback.manifest(),
	}
}
