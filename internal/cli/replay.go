package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm/slurm"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/rm/slurm/nodes"
	"rmreplay/internal/run"
	"rmreplay/internal/vclock"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/sbatch"
)

// replayOptions are the flags of `replay`.
type replayOptions struct {
	cluster, output       string
	nodes, perf           string  // what-ifs: factors such as x0.5
	performance           float64 // of --perf
	overwrite             bool
	seed                  uint64
	launch, prolog, after string // delays on the node side
	drainLimit, lead      time.Duration
	noAccounting          bool
	fixedPriorities       bool
	allowShell            bool
	realizations          realizationOptions
	feedback              feedbackOptions
	clock                 string
	clockFactor           float64 // of --clock
	quiet                 bool
	json                  bool
}

func (o *replayOptions) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.cluster, "cluster", "", "cluster `DIR`: slurm.conf and, if the site has them, gres.conf, topology.conf, accounts.sacctmgr and users")
	addNodesFlag(f, &o.nodes)
	f.StringVar(&o.perf, "perf", "", "change how fast the nodes are by a `FACTOR`, x2 or x0.5: run times are divided by it, and time limits are not")
	f.StringVarP(&o.output, "output", "o", "", "`RUN` directory to write the record to")
	f.BoolVar(&o.overwrite, "overwrite", false, "replace a run that is there")
	f.Uint64Var(&o.seed, "seed", 1, "seed of everything drawn: how long Slurm has run when the workload begins, and the delays")
	f.StringVar(&o.launch, "launch-delay", "", "`DELAY` between a job's allocation and the start of its script: 2s, uniform:1s,5s, exp:2s or lognormal:2s,0.5")
	f.StringVar(&o.prolog, "prolog-delay", "", "`DELAY` of the prolog on each node (needs PrologFlags=Alloc)")
	f.StringVar(&o.after, "epilog-delay", "", "`DELAY` of the epilog on each node, during which the node is not free")
	f.DurationVar(&o.lead, "lead", 0, "how long Slurm has run when the workload begins, at least 5s (default: between one and six minutes, drawn)")
	f.DurationVar(&o.drainLimit, "drain-limit", 24*time.Hour, "virtual time in which nothing happens, nor any job can end, after which what is left is given up")
	f.BoolVar(&o.noAccounting, "no-accounting", false, "run without slurmdbd even if the site has it: no associations, limits, QOS or fair-share")
	f.BoolVar(&o.fixedPriorities, "fixed-priorities", false, "give every job the priority that the workload records, so that the order of the queue is not Slurm's to compute (a run's record has the one with which a job started, sacct the one with which it became eligible)")
	f.BoolVar(&o.allowShell, "allow-shell", false, "run the shell lines among the workload's actions, which can do whatever you can")
	o.realizations.addFlags(f)
	o.feedback.addFlags(f)
	f.StringVar(&o.clock, "clock", "frozen", "how long slurmctld's computing takes in virtual time: `MODEL` frozen (no time), measured (its CPU time here) or measured=F (F times that)")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "no progress")
	addJSONFlag(c, &o.json)
}

func newReplayCommand(g *globals) *cobra.Command {
	var opts replayOptions
	c := &cobra.Command{
		Use:   "replay WORKLOAD --cluster DIR -o RUN",
		Short: "Replay a workload on the stock Slurm under virtual time",
		Long: `Runs the stock slurmctld, and slurmdbd with a private MariaDB where the site keeps
accounts, with the site's own configuration, submits every job of the workload at its
time as its own user, plays all compute nodes, and records what happened to every job.
Virtual time stands still while Slurm computes and jumps ahead when it waits. With
--clock measured, slurmctld's computing takes virtual time, too: bf_max_time, yields and
backlogs then act as on a controller as fast as this machine, or F times as slow.

Nothing is installed, no service is touched, nothing listens beyond loopback, no root
is needed, and nothing is left behind but RUN. What was changed in the configuration,
and why, is in RUN/manifest.json; ` + "`rmreplay conf adapt`" + ` shows it beforehand.

The exit status is 3 if the run is not valid, that is, if a warning affects its result,
and 130 if it was interrupted; the record then holds what had happened.

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
		Args: wantArgs("WORKLOAD"),
		RunE: func(c *cobra.Command, args []string) error {
			return runReplay(c.Context(), g, args[0], opts)
		},
	}
	opts.addFlags(c)
	for _, name := range []string{"cluster", "output"} {
		if err := c.MarkFlagRequired(name); err != nil {
			panic(err)
		}
	}
	return c
}

// replayInput is all that a replay starts from.
type replayInput struct {
	workload *workload.Workload
	cluster  *conf.Cluster
	install  *install.Installation
	delays   nodes.Delays
	lead     time.Duration
	begin    hpc.Time // when virtual time begins to matter
	usage    []hpc.Usage
	accrued  []hpc.Accrual
	source   run.Source
}

func runReplay(ctx context.Context, g *globals, path string, opts replayOptions) error {
	in, err := opts.load(path)
	if err != nil {
		return err
	}
	display := newProgress(g.stderr, opts.quiet)
	if opts.realizations.count > 0 {
		return runRealizations(ctx, g, opts.set(), func(ctx context.Context, r realization) (*metrics.Summary, error) {
			one, drawn := opts, in
			one.output, one.seed = r.dir, r.seed
			if err := drawn.draw(r.seed); err != nil {
				return nil, err
			}
			return one.replay(ctx, drawn, display.of(r.number))
		}, display)
	}
	if err := in.draw(opts.seed); err != nil {
		return err
	}
	summary, err := opts.replay(ctx, in, display)
	display.end()
	if err != nil {
		return g.unlessInterrupted(ctx, err, opts.output+" has what happened until then")
	}
	return g.printSummary(summary, opts.json)
}

// replay makes one run and its record.
func (o *replayOptions) replay(ctx context.Context, in replayInput, display replayDisplay) (*metrics.Summary, error) {
	manifest := o.manifest(in)
	record, err := run.Create(o.output, manifest, run.Options{Overwrite: o.overwrite})
	if err != nil {
		return nil, badInput(err)
	}
	defer record.Close()
	if err := record.Setting(in.workload); err != nil {
		return nil, err
	}
	state, final, err := o.play(ctx, in, record, display)
	if ferr := record.Finish(state, final); ferr != nil || err != nil {
		return nil, errors.Join(err, ferr)
	}
	opts := metrics.Options{Tau: metrics.DefaultTau}
	return summarize(record, metrics.ComputeAll(record.Outcomes, opts.Of(&manifest)), opts)
}

// set is the set of realizations that is asked for.
func (o *replayOptions) set() realizationSet {
	return realizationSet{
		realizationOptions: o.realizations, dir: o.output, seed: o.seed, overwrite: o.overwrite, json: o.json,
		command: os.Args,
	}
}

// load reads and checks everything before anything is started.
func (o *replayOptions) load(path string) (in replayInput, err error) {
	for _, d := range []struct {
		flag, spec string
		to         *nodes.Delay
	}{
		{"launch-delay", o.launch, &in.delays.Launch}, {"prolog-delay", o.prolog, &in.delays.Prolog}, {"epilog-delay", o.after, &in.delays.Epilog},
	} {
		if *d.to, err = nodes.ParseDelay(d.spec); err != nil {
			return in, usagef("--%s: %w", d.flag, err)
		}
	}
	if err := o.realizations.check(); err != nil {
		return in, err
	}
	if o.drainLimit <= 0 {
		return in, usagef("--drain-limit %v: not above 0 (want, for example, 24h)", o.drainLimit)
	}
	if o.clockFactor, err = parseClock(o.clock); err != nil {
		return in, usagef("--clock: %w", err)
	}
	if o.lead != 0 && o.lead < shortestLead {
		return in, usagef("--lead %v: slurmctld needs longer to start (want at least %v)", o.lead, shortestLead)
	}
	if o.performance, err = factor("--perf", o.perf); err != nil {
		return in, err
	}
	if in.cluster, err = openScaled(o.cluster, o.nodes); err != nil {
		return in, err
	}
	if o.prolog != "" && !in.cluster.PrologAtAllocation() {
		return in, usagef("--prolog-delay %s: no prolog runs when a job is allocated (want PrologFlags=Alloc in %s)", o.prolog, in.cluster.Path)
	}
	if in.workload, err = openWorkload(path); err != nil {
		return in, err
	}
	if err := refuseErrors(workload.Validate(in.workload, knownOf(in.cluster))); err != nil {
		return in, badInput(fmt.Errorf("checking %s: %w", path, err))
	}
	if err := o.checkActions(in.workload, in.cluster); err != nil {
		return in, badInput(fmt.Errorf("checking %s: %w", path, err))
	}
	if in.begin = in.workload.Begin(); in.begin < earliestBegin {
		return in, badInput(fmt.Errorf("checking %s: it begins at %s: too early for Slurm, whose clock starts in 1970 (want an epoch near the submissions)",
			path, in.begin.Std().Format(time.RFC3339)))
	}
	if err := o.feedback.check(in.workload); err != nil {
		return in, err
	}
	in.install, _ = install.Find() // what is missing without accounting is for Need to say
	accounting := in.cluster.Accounting() && !o.noAccounting
	if err = in.install.Need(accounting); err != nil {
		return in, err
	}
	in.source = run.Source{Path: path, Jobs: in.workload.Jobs.Len(), Rules: in.workload.Rules}
	in.source.SHA256 = fileHash(path)
	in.lead = o.lead
	return in, nil
}

// draw takes from the seed what differs between two realizations.
func (in *replayInput) draw(seed uint64) error {
	in.delays.Seed = seed
	if in.lead == 0 {
		in.lead = drawLead(seed)
	}
	return badInput(in.findUsage())
}

// shortestLead is what slurmctld and the nodes need before they can take a job.
const shortestLead = 5 * time.Second

// earliestBegin leaves the time before a workload begins, in which the daemons start, in 1970.
const earliestBegin = hpc.Time(24 * time.Hour)

// drawLead draws how long slurmctld has been running when the workload begins. The phase
// of its periodic work against the workload is what differs between two real runs of one
// workload (Simakov et al., PEARC'22). The longest period that decides about jobs is that
// of the fair-share computation, five minutes unless PriorityCalcPeriod says otherwise.
func drawLead(seed uint64) time.Duration {
	const longestPeriod = 5 * time.Minute
	return time.Minute + time.Duration(rand.New(rand.NewPCG(seed, 1)).Float64()*float64(longestPeriod))
}

// checkActions looks at the workload's actions before anything is started.
func (o *replayOptions) checkActions(w *workload.Workload, cluster *conf.Cluster) error {
	for _, a := range w.Actions {
		if a.Shell != "" && !o.allowShell {
			return fmt.Errorf("the action at %s is a shell line (%.60q): it runs with --allow-shell only, for it can do whatever you can", a.At, a.Shell)
		}
		if err := checkAction(a, w.Start, cluster); err != nil {
			return err
		}
	}
	return nil
}

// checkAction says what is wrong with an action of a workload whose window begins at start, if it
// has one, on a cluster, which is nil if not known, and nil if nothing is.
func checkAction(a hpc.Action, start hpc.Time, cluster *conf.Cluster) error {
	if err := slurm.CheckAction(a); err != nil {
		return err
	}
	if a.At < start {
		if err := slurm.CheckPreRoll(a); err != nil {
			return err
		}
	}
	if cluster == nil {
		return nil
	}
	return slurm.CheckSlurmConf(a, cluster)
}

// findUsage finds the fair-share usage with which slurmctld has to start.
func (in *replayInput) findUsage() error {
	halfLife := 7 * 24 * time.Hour // Slurm's default
	if text, ok := in.cluster.Get("PriorityDecayHalfLife"); ok {
		var err error
		if halfLife, err = sbatch.ParseTimeLimit(text); err != nil { // 0 is no decay
			return fmt.Errorf("reading slurm.conf: PriorityDecayHalfLife=%s: %w", text, err)
		}
	}
	in.usage, in.accrued = replay.InitialUsage(in.workload, in.begin.Add(-in.lead), halfLife)
	return nil
}

// mostClockFactor is more than any controller is slower than this machine.
const mostClockFactor = 1e6

// parseClock reads a clock model and returns its factor, 0 for the frozen one.
func parseClock(model string) (float64, error) {
	name, factor, given := strings.Cut(model, "=")
	switch {
	case name == "frozen" && !given:
		return 0, nil
	case name == "measured" && !given:
		return 1, nil
	case name == "measured":
		if f, err := strconv.ParseFloat(factor, 64); err == nil && f > 0 && f <= mostClockFactor {
			return f, nil
		}
		return 0, fmt.Errorf("%s: not a factor (want a number above 0 and at most %.0f, such as measured=1.5)", model, float64(mostClockFactor))
	}
	return 0, fmt.Errorf("%s: not a clock model (want frozen, measured or measured=F)", model)
}

// clockOf is the clock model of a factor, for the record.
func clockOf(factor float64) run.Clock {
	if factor == 0 {
		return run.Clock{Model: "frozen"}
	}
	return run.Clock{Model: "measured", Factor: factor}
}

// refuseErrors makes one error of the problems that make a replay meaningless.
func refuseErrors(problems []workload.Problem) error {
	var first []string
	errs := 0
	for _, p := range problems {
		if p.Severity == workload.Error {
			if errs++; errs <= 5 {
				first = append(first, p.String())
			}
		}
	}
	if errs == 0 {
		return nil
	}
	if errs > len(first) {
		first = append(first, fmt.Sprintf("and %d more (rmreplay workload validate lists them)", errs-len(first)))
	}
	return errors.New(strings.Join(first, "; "))
}

// fileHash is the SHA-256 of a file in hexadecimal, empty for what cannot be read as one.
func fileHash(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close() // nothing is written
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}

// manifest describes the run as far as it is known before it starts.
func (o *replayOptions) manifest(in replayInput) run.Manifest {
	m := run.Manifest{
		Engine: "slurm", Seed: o.seed, Command: os.Args, Started: time.Now(), Workload: in.source,
		Versions: run.Versions{RMReplay: Version(), Slurm: in.install.Version, MariaDB: in.install.MariaDBVersion, Go: runtime.Version(), Kernel: kernel()},
		Clock:    clockOf(o.clockFactor),
		Cluster:  capacity(in.cluster),
	}
	m.Cluster.Dir = o.cluster
	m.VirtualStart = in.begin
	m.WindowStart = in.workload.Start
	m.Feedback = o.feedback.manifest()
	return m
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// capacity is what utilization refers to.
func capacity(c *conf.Cluster) run.Cluster {
	out := run.Cluster{Name: c.Name, Nodes: len(c.Nodes)}
	cpus := map[string]int{}
	for _, n := range c.Nodes {
		out.Processors += n.CPUs
		cpus[n.Name] = n.CPUs
	}
	for _, p := range c.Partitions {
		rp := run.Partition{Name: p.Name, Nodes: len(p.Nodes)}
		for _, n := range p.Nodes {
			rp.Processors += cpus[n]
		}
		out.Partitions = append(out.Partitions, rp)
	}
	return out
}

// play starts Slurm, plays the workload and stops Slurm. The final function completes
// the manifest.
func (o *replayOptions) play(ctx context.Context, in replayInput, record *run.Writer, display replayDisplay) (run.State, func(*run.Manifest), error) {
	final := func(*run.Manifest) {}
	failed := func(err error) (run.State, func(*run.Manifest), error) {
		if interrupted(ctx, err) {
			return run.StateInterrupted, final, err
		}
		before := final
		return run.StateFailed, func(m *run.Manifest) { before(m); m.Error = err.Error() }, err
	}
	engine, err := slurm.Start(ctx, slurm.Config{
		Cluster: in.cluster, Install: in.install, Users: in.workload.Submitters(),
		Epoch: in.begin, PreRoll: in.begin < in.workload.Start, PresetBurst: in.workload.PresetBurst(),
		Usage: in.usage, Accrued: in.accrued, UsageAt: replay.UsageInstant(in.workload),
		Delays: in.delays, ClockFactor: o.clockFactor,
		LogDir: record.LogDir(), WithoutAccounting: o.noAccounting, Progress: display.say,
	}, in.lead)
	if err != nil {
		return failed(err)
	}
	if err := record.Update(func(m *run.Manifest) { describeConfiguration(m, engine.Adapted()) }); err != nil {
		return failed(errors.Join(err, engine.Close()))
	}
	begun := time.Now()
	display.begin(in.begin, begun)
	rewriters, fixed := o.rewriters()
	result, err := o.feedback.play(ctx, engine, in.workload, o.seed, record, replay.Options{
		DrainLimit: o.drainLimit, DefaultLimit: in.cluster.DefaultLimit(), Observe: display.observe,
	}, rewriters...)
	end := engine.Now()
	cpu := engine.CPU() // before sacct runs
	finished := time.Now()
	var counted *run.Scheduler
	if err == nil {
		var scheduler run.Scheduler
		scheduler, err = engine.Scheduler(ctx)
		counted = &scheduler
	}
	if err == nil {
		err = o.check(ctx, engine, record, in.workload, result, fixed)
	}
	for _, w := range engine.Warnings() {
		if werr := record.Warn(run.Warning{Code: w.Code, Text: w.Text, AffectsResult: w.AffectsResult, Count: 1}); werr != nil {
			err = errors.Join(err, werr)
		}
	}
	peaks := engine.PeakMemory()
	steps, computing := engine.ClockSteps()
	if cerr := engine.Close(); cerr != nil && err == nil {
		err = cerr
	}
	final = func(m *run.Manifest) {
		m.Finished, m.VirtualEnd, m.Scheduler = finished, end, counted
		m.Clock.Steps, m.Clock.ComputingSeconds = int64(steps), computing.Seconds()
		m.DaemonCPU = map[string]float64{}
		for name, d := range cpu {
			m.DaemonCPU[name] = d.Seconds()
		}
		m.PeakMemory = map[string]float64{}
		peaks["rmreplay"] = vclock.PeakMemory(os.Getpid())
		for name, bytes := range peaks {
			m.PeakMemory[name] = math.Round(float64(bytes)/(1<<20)*10) / 10
		}
	}
	if err != nil {
		return failed(err)
	}
	return run.StateComplete, final, nil
}

// rewriters change the jobs as the flags say; fixed counts what could not be fixed.
func (o *replayOptions) rewriters() (list []replay.Rewriter, fixed *replay.FixedPriorities) {
	fixed = &replay.FixedPriorities{}
	if o.performance != 0 && o.performance != 1 {
		list = append(list, replay.Performance(o.performance))
	}
	if o.fixedPriorities {
		list = append(list, fixed.Rewrite)
	}
	return list, fixed
}

func describeConfiguration(m *run.Manifest, a *conf.Adapted) {
	for _, c := range a.Changes {
		m.Cluster.Changes = append(m.Cluster.Changes, run.Change{File: filepath.Base(c.File), Key: c.Key, From: c.From, To: c.To, Reason: c.Reason})
	}
	for _, text := range a.Warnings {
		m.Warnings = append(m.Warnings, run.Warning{Code: "configuration", Text: text, Count: 1})
	}
}

// forSize matches the reasons for which jobs are rejected that would fit a larger machine, or wait for one
// that is.
var forSize = regexp.MustCompile(`ESLURM_(REQUESTED_NODES_NOT_IN_PARTITION|TOO_MANY_REQUESTED_(CPUS|NODES)|INVALID_NODE_COUNT|` +
	`REQUESTED_(NODE|PART)_CONFIG_UNAVAILABLE|INVALID_NODE_NAME)|which was rejected`)

// check compares the record with what slurmdbd has, and says what was left undone.
func (o *replayOptions) check(ctx context.Context, engine *slurm.Engine, record *run.Writer, w *workload.Workload, result replay.Result, fixed *replay.FixedPriorities) error {
	end := engine.Now()
	warnings := undone(result, o.drainLimit)
	if n := len(result.Rejected); n > 0 {
		text := fmt.Sprintf("%d jobs were rejected, of which %d ran when the workload was recorded or have no record: %s", n, len(result.Missing), few(result.Rejected, 5))
		// On other nodes than they had, jobs are rejected that do not fit any more.
		unasked := func(why string) bool { return o.nodes == "" || !forSize.MatchString(why) }
		affects := slices.ContainsFunc(result.Missing, unasked) || result.Refused == result.Submitted
		warnings = append(warnings, run.Warning{Code: "jobs-rejected", Text: text, AffectsResult: affects, Count: n})
	}
	if unfinished := engine.Unfinished(); len(unfinished) > 0 {
		text := fmt.Sprintf("%d actions had not ended when the replay did: %s", len(unfinished), few(unfinished, 5))
		warnings = append(warnings, run.Warning{Code: "action-unfinished", Text: text, Count: len(unfinished)})
	}
	if n := fixed.Unknown; n > 0 {
		text := fmt.Sprintf("%d jobs have no recorded priority to be fixed: Slurm computed theirs", n)
		warnings = append(warnings, run.Warning{Code: "priority-not-fixed", Text: text, AffectsResult: true, Count: n})
	}
	for _, w := range warnings {
		if err := record.Warn(w); err != nil {
			return err
		}
	}
	text, err := engine.Sacct(ctx)
	if err != nil || text == "" {
		return err
	}
	if err := os.WriteFile(filepath.Join(record.LogDir(), "sacct.txt"), []byte(text), 0o644); err != nil {
		return fmt.Errorf("keeping what sacct said: %w", err)
	}
	var differences []string
	sacct, err := slurm.ParseSacct(text)
	if err == nil {
		differences = sacct.Compare(record.Rows)
		record.Amend(sacct.Amend)
	}
	if err := warnOfDifferences(record, "sacct-differs", "the record", differences, err); err != nil {
		return err
	}
	return checkEvents(ctx, engine, record, w, end)
}

// warnOfDifferences warns of what slurmdbd has differently, or that it could not be compared:
// the run is complete all the same.
func warnOfDifferences(record *run.Writer, code, what string, differences []string, err error) error {
	n := len(differences)
	warning := run.Warning{Code: code, AffectsResult: true, Count: max(n, 1)}
	switch {
	case err != nil:
		warning.Code, warning.Text = "slurmdbd-not-compared", fmt.Sprintf("%s could not be compared with slurmdbd: %v", what, err)
	case n > 0:
		warning.Text = fmt.Sprintf("%s and slurmdbd differ in %d places: %s", what, n, few(differences, 5))
	default:
		return nil
	}
	return record.Warn(warning)
}

// undone warns of what a run, replayed or simulated, left undone.
func undone(result replay.Result, limit time.Duration) []run.Warning {
	var list []run.Warning
	if n := len(result.Undrained); n > 0 {
		text := fmt.Sprintf("%d jobs had not ended when nothing had happened for %v, and were given up: %s", n, limit, few(result.Undrained, 5))
		list = append(list, run.Warning{Code: "queue-not-drained", Text: text, AffectsResult: true, Count: n})
	}
	if n := len(result.LatePresets); n > 0 {
		text := fmt.Sprintf("%d jobs that ran when the window began do not run here: %s", n, few(result.LatePresets, 5))
		list = append(list, run.Warning{Code: "preset-late", Text: text, AffectsResult: true, Count: n})
	}
	return list
}

// checkEvents compares the events of the workload up to end with what slurmdbd has of
// nodes and reservations.
func checkEvents(ctx context.Context, engine *slurm.Engine, record *run.Writer, w *workload.Workload, end hpc.Time) error {
	outages, err := engine.Outages(ctx)
	if err != nil {
		return err
	}
	reservations, err := engine.Reservations(ctx)
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"outages.txt": outages, "reservations.txt": reservations} {
		if err := os.WriteFile(filepath.Join(record.LogDir(), name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("keeping what sacctmgr said: %w", err)
		}
	}
	differences, err := eventDifferences(outages, reservations, w, end)
	return warnOfDifferences(record, "events-differ", "the workload's events", differences, err)
}

// eventDifferences are what slurmdbd has of nodes and reservations otherwise than the workload.
func eventDifferences(outages, reservations string, w *workload.Workload, end hpc.Time) ([]string, error) {
	nodeEvents := slices.DeleteFunc(slices.Clone(w.NodeEvents), func(ev hpc.NodeEvent) bool { return ev.At > end })
	differences, err := slurm.CompareOutages(outages, nodeEvents, w.Begin(), len(w.Actions) > 0)
	if err != nil || len(w.Actions) > 0 { // which may change reservations
		return differences, err
	}
	booked := slices.DeleteFunc(slices.Clone(reservationsOf(w)), func(ev hpc.ReservationEvent) bool { return ev.At > end })
	more, err := slurm.CompareReservations(reservations, booked)
	return append(differences, more...), err
}

// reservationsOf are a workload's reservations as its replay makes them.
func reservationsOf(w *workload.Workload) []hpc.ReservationEvent {
	if w.Start == 0 {
		return w.Reservations
	}
	return slurm.WindowReservations(replay.NewWindow(w))
}

// few names the first of a list.
func few(list []string, n int) string {
	if len(list) <= n {
		return strings.Join(list, ", ")
	}
	return strings.Join(list[:n], ", ") + fmt.Sprintf(" and %d more", len(list)-n)
}
