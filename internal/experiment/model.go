package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/interrupt"
	"rmreplay/internal/metrics"
	"rmreplay/internal/parallel"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/slurm"
	"rmreplay/internal/rm/slurm/admission"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/counters"
	"rmreplay/internal/rm/slurm/fairshare"
	"rmreplay/internal/rm/slurmmodel"
	"rmreplay/internal/rm/slurmmodel/charge"
	"rmreplay/internal/rm/slurmmodel/config"
	"rmreplay/internal/rm/slurmmodel/coverage"
	"rmreplay/internal/rm/slurmmodel/guide"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// modelEngine is the model of Slurm's scheduler as an engine.
type modelEngine struct {
	spec    Simulator
	release slurmspec.Release
	machine
	config  slurmmodel.Config
	costs   charge.Costs
	missing []coverage.Missing
	guide   guide.Guide // nil without a guide
	// halfLife is the half-life of fair-share usage.
	halfLife time.Duration
}

func (e *modelEngine) check(spec *Spec) (err error) {
	e.spec = *spec.Simulator
	s := &e.spec
	switch {
	case s.Cluster == "":
		return fieldError("policy", "%s: needs a cluster directory with a slurm.conf (want --cluster DIR)", s.Policy)
	case s.Nodes != 0:
		return fieldError("nodes", "%d: not a factor (want, for example, x2 or x0.5; the number of nodes is in the slurm.conf of "+
			"the cluster)", s.Nodes)
	case s.Processors != 0:
		return fieldError("policy", "%s: has its processors from the cluster directory (want no --processors)", s.Policy)
	case len(s.FileSystems) > 0:
		return fieldError("policy", "%s: does not model file systems", s.Policy)
	case s.Ties != "" && s.Ties != sim.EndsFirst:
		return fieldError("ties", "%s: refused, because the model orders events as slurmctld does (want no --ties)", s.Ties)
	case s.NodeFactor != 0 && !isFactor(s.NodeFactor):
		return fieldError("nodes", "x%g: not a factor (want, for example, x2 or x0.5)", s.NodeFactor)
	case s.Clock != "" && e.setCosts(s.Clock) != nil:
		return fieldError("clock", "%w", e.setCosts(s.Clock))
	case s.Lead != 0 && s.Lead < ShortestLead:
		return fieldError("lead", "%v: too short (want at least %v)", s.Lead, ShortestLead)
	}
	if e.release, err = slurmspec.ParseRelease(cmp.Or(s.Release, ModelRelease)); err != nil {
		return fieldError("slurm", "%w", err)
	}
	if e.machine, err = s.open(); err != nil {
		return err
	}
	e.halfLife, err = decayHalfLife(e.cluster)
	return inputError(err)
}

// ModelClock returns the value of [Simulator.Clock] for a clock model: frozen, or charged with the costs of a job, such
// as charged=50us,2ms. Instead of the costs, the parameter model may name the directory of a replay with the measured
// clock. The costs are then the mean costs of that replay.
func ModelClock(model string) (string, error) {
	name, costs, given := strings.Cut(model, "=")
	switch {
	case model == "frozen":
		return "", nil
	case name == "measured":
		return "", fmt.Errorf("%s: the model of Slurm has no daemon whose CPU time can be measured (want frozen or charged=COSTS)", model)
	case name != "charged" || !given:
		return "", fmt.Errorf("%s: not a clock model (want frozen, or charged=COSTS such as charged=50us,2ms)", model)
	}
	if info, err := os.Stat(costs); err != nil || !info.IsDir() {
		c, err := charge.Parse(costs)
		return "charged=" + c.String(), err
	}
	r, err := run.Open(costs)
	if err != nil {
		return "", err
	}
	c, err := charge.Fit(r.Manifest.Scheduler)
	if err != nil {
		return "", fmt.Errorf("reading the costs %s: %w", costs, err)
	}
	return "charged=" + c.String(), nil
}

// setCosts sets the costs of a clock of [ModelClock].
func (e *modelEngine) setCosts(clock string) (err error) {
	e.costs, err = charge.Parse(strings.TrimPrefix(clock, "charged="))
	return err
}

func (e *modelEngine) fit(*workload.Workload) (workload.Cluster, error) {
	return e.facts, nil
}

func (e *modelEngine) admit(p *Prepared) error {
	w := p.workload
	if w.Start != 0 && e.release.Since(slurmspec.R2311) {
		return p.checking(errors.New("the model of Slurm 23.11 and later cannot play a workload with a window (want a " +
			"workload without a window, " +
			"--slurm 22.05, or rmreplay replay)"))
	}
	var err error
	if e.config, p.futile, err = e.configure(p); err != nil {
		return err
	}
	e.missing = coverage.Lacks(&e.config, w)
	return nil
}

// configure returns the configuration for the model: the cluster's configuration, the users and accounts that rules
// made, and the jobs that Slurm will reject. futile is [Prepared.futility].
func (e *modelEngine) configure(p *Prepared) (config slurmmodel.Config, futile, err error) {
	w := p.workload
	cluster := withMade(e.cluster, w)
	site, err := admission.New(cluster, w.Submitters(), admission.Options{Release: e.release})
	if err != nil {
		return config, nil, inputError(fmt.Errorf("foreseeing rejections: %w", err))
	}
	if err := refuseErrors(problemsOf(site)); err != nil {
		return config, nil, inputError(fmt.Errorf("checking the cluster: %w", err))
	}
	if _, err := conf.Preview(cluster, e.release, ""); err != nil { // slurmctld refuses such configurations
		return config, nil, inputError(fmt.Errorf("checking the cluster: %w", err))
	}
	config = modelOf(cluster, site, e.release)
	config.Epoch = p.begin
	config.PreRoll, config.PresetBurst = p.begin < w.Start, w.PresetBurst()
	config.Rejected = map[string]string{}
	forecast := site.Foresee(w, func(job string, why admission.Finding) {
		own := why.Rule == admission.RuleReservation || why.Slurm == admission.NoSuchNodes // the model checks these itself
		if why.Verdict == admission.Rejected && !own {
			config.Rejected[job] = why.Text
		}
	})
	return config, p.futility(forecast), refuseHopeless(cluster, forecast, w.Jobs.Len())
}

// modelOf converts the configuration of a cluster, as a replay on a release has it, to the model's types.
func modelOf(c *conf.Cluster, rules *admission.Site, release slurmspec.Release) slurmmodel.Config {
	out := slurmmodel.Config{Release: release, Get: c.On(release), Nodes: slices.Clone(c.Nodes), Associations: rules.Declared()}
	for i := range c.Partitions {
		p := &c.Partitions[i]
		out.Partitions = append(out.Partitions, config.Partition{Name: p.Name, Default: p.Default, Nodes: p.Nodes, Get: p.Get})
	}
	if plugin, _ := c.Get("TopologyPlugin"); strings.EqualFold(strings.TrimPrefix(strings.ToLower(plugin), "topology/"), "tree") {
		for _, s := range c.Topology {
			out.Switches = append(out.Switches, switchOf(s))
		}
	}
	return out
}

// switchOf converts a line of topology.conf. Package conf has checked the line's host lists.
func switchOf(s conf.Statement) config.Switch {
	names := func(key string) []string {
		text, _ := s.Get(key)
		list, _ := hostlist.Expand(text)
		return list
	}
	return config.Switch{Name: s.Value, Nodes: names("Nodes"), Switches: names("Switches")}
}

// engine makes the engine of one realization. The warnings say which initial usage it leaves out. As in a replay, the
// seed decides how long slurmctld has run.
func (e *modelEngine) engine(p *Prepared, seed uint64) (*slurmmodel.Engine, []run.Warning, error) {
	config := e.config
	if p.workload.Completion != nil { // each draw has different users, accounts and limits
		var err error
		if config, _, err = e.configure(p); err != nil {
			return nil, nil, err
		}
	}
	config.Costs, config.Guide = e.costs, e.guide
	if config.Lead = e.spec.Lead; config.Lead == 0 {
		config.Lead = DrawLead(seed)
	}
	var warnings []run.Warning
	if config.Associations != nil {
		config.Usage = e.usage(&config, p.workload, p.begin.Add(-config.Lead), func(code, text string, affects bool) {
			warnings = append(warnings, run.Warning{Code: code, Text: text, AffectsResult: affects, Count: 1})
		})
	}
	engine, err := slurmmodel.New(config)
	return engine, warnings, inputError(err)
}

// usage returns the fair-share usage with which the modelled slurmctld starts at an instant. A
// replay would write the same usage into slurmctld's files (giveUsage in package slurm).
func (e *modelEngine) usage(c *slurmmodel.Config, w *workload.Workload, at hpc.Time, warn fairshare.Warn) config.Usage {
	given, accrued := replay.InitialUsage(w, at, e.halfLife)
	usage := fairshare.Usage{Given: given, Accrued: accrued, At: replay.UsageInstant(w)}.WithCluster(e.cluster)
	known := fairshare.DeclaredAccounts(c.Associations)
	if len(given) > 0 || w.Start > w.Epoch {
		usage.CheckLimits(known, warn)
	}
	if len(given) == 0 {
		return config.Usage{}
	}
	return config.Usage{Own: usage.Own(known, warn), OfCPUs: usage.BillsProcessors, Reset: usage.At}
}

func (e *modelEngine) run(ctx context.Context, p *Prepared, one realization, hooks Hooks) (*metrics.Summary, error) {
	engine, warnings, err := e.engine(p, one.seed)
	if err != nil {
		return nil, err
	}
	manifest, err := p.manifest(one)
	if err != nil {
		return nil, err
	}
	manifest.Engine, manifest.Policy, manifest.Cluster = "sim", e.spec.Policy, capacity(e.cluster)
	manifest.Cluster.Dir = absolute(e.spec.Cluster)
	manifest.Clock = describeClock(0)
	if e.costs != (charge.Costs{}) {
		manifest.Clock = run.Clock{Model: "charged", MainJob: e.costs.Main.Seconds(), BackfillJob: e.costs.Backfill.Seconds()}
	}
	defer interrupt.Hold()() // until the record is complete
	record, err := p.create(one, manifest, true)
	if err != nil {
		return nil, err
	}
	defer record.Close()
	if err := keep(record, e.cluster, p.workload.Actions); err != nil {
		return nil, err
	}
	// A replay records these statistics at the same intervals, so the two records can be compared.
	asked := counters.Watch(engine, counters.Every, func(s rm.Statistics) { _ = record.Statistics(s) })
	if w := p.workload; p.begin < w.Start {
		engine.At(max(p.begin, w.Start.Add(-time.Second)), func() {
			asked.Cut()
			asked.Ask()
		})
	}
	state, err := e.play(ctx, p, one.seed, engine, warnings, record, hooks)
	asked.Ask()
	total := asked.Total()
	opts := metrics.Options{Tau: metrics.DefaultTau}
	computed := measure(record, manifest, engine.Now(), opts)
	ferr := record.Finish(state, func(m *run.Manifest) {
		m.Finished, m.VirtualEnd, m.Scheduler = time.Now(), engine.Now(), &total
		if state == run.StateFailed {
			m.Error = err.Error()
		}
	})
	known := computed()
	if ferr != nil || err != nil {
		return nil, bothOf(err, ferr)
	}
	return summarize(record, known, opts)
}

// play runs the model. It records the engine's warnings, and warnings about inputs that were not carried out and
// about functions that the model lacks.
func (e *modelEngine) play(
	ctx context.Context, p *Prepared, seed uint64, engine *slurmmodel.Engine, warnings []run.Warning, record *run.Writer, hooks Hooks,
) (run.State, error) {
	hooks.Begin(p.begin)
	if text := refusedCommands(withMade(e.cluster, p.workload)); text != "" {
		hooks.Notice(text)
		warnings = append(warnings, run.Warning{Code: "sacctmgr", Text: text, AffectsResult: true, Count: 1})
	}
	for _, m := range e.missing {
		hooks.Notice("the model of Slurm lacks " + m.String())
	}
	options := replay.Options{DefaultLimit: e.cluster.DefaultLimit(), Processors: capacity(e.cluster).Processors, Observe: seldom(hooks.Progress), Released: record.Released}
	result, err := p.play(ctx, engine, seed, record, options, p.spec.rewriters()...)
	switch {
	case parallel.Interrupted(ctx, err):
		return run.StateInterrupted, err
	case err != nil:
		return run.StateFailed, err
	}
	for _, text := range slices.Concat(e.cluster.Warnings, e.cluster.Unplayed()) { // as in a replay on Slurm
		warnings = append(warnings, run.Warning{Code: "configuration", Text: text, Count: 1})
	}
	warnings = append(append(warnings, e.partial()...), p.undone(result, engine.NeverStarts())...)
	warnings = append(warnings, (&foreseen{}).rejected(result)...)
	warnings = append(warnings, p.unlikeRecord(record.Rows)...)
	return warned(record, append(warnings, refusedEvents(engine.Refused())...))
}

// PartialPrefix begins the warning that names what the model lacks. Semicolons separate the names.
const PartialPrefix = "model: partial: the model of Slurm lacks "

// partial returns a warning about everything that this run needs and that the model of Slurm
// lacks; nil if it lacks nothing.
func (e *modelEngine) partial() []run.Warning {
	if len(e.missing) == 0 {
		return nil
	}
	texts := make([]string, len(e.missing)) // each text also has the number of jobs that need the function
	for i, m := range e.missing {
		texts[i] = m.String()
	}
	text := PartialPrefix + strings.Join(texts, "; ")
	return []run.Warning{{Code: "model-partial", Text: text, AffectsResult: true, Count: 1}}
}

// Guide makes decisions for the model of Slurm. Its method Attach is called with the engine before the run begins.
type Guide interface {
	guide.Guide
	Attach(engine *slurmmodel.Engine)
}

// Follow runs the model of Slurm with a guide and without a record, and returns the scheduler's counters.
// The run ends at an instant, which may be [hpc.Never].
func Follow(ctx context.Context, spec Spec, leader Guide, until hpc.Time) (*rm.Scheduler, error) {
	spec.Output = os.DevNull // nothing is written
	p, err := prepare(spec, nil)
	if err != nil {
		return nil, err
	}
	e, ok := p.engine.(*modelEngine)
	if !ok {
		return nil, fmt.Errorf("following a record with %s (want the policy %s)", spec.Simulator.Policy, SlurmPolicy)
	}
	e.guide = leader
	engine, _, err := e.engine(p, spec.Seed)
	if err != nil {
		return nil, err
	}
	leader.Attach(engine)
	asked := counters.Watch(engine, counters.Every, nil)
	everything := watcher{func(rm.Event) error { return nil }, hpc.Never}
	if _, err = p.play(ctx, ending{engine, until}, spec.Seed, everything, replay.Options{
		DefaultLimit: e.cluster.DefaultLimit(), Processors: capacity(e.cluster).Processors,
	}, p.spec.rewriters()...); err != nil && !errors.Is(err, ErrEnough) {
		return nil, fmt.Errorf("following a record with the model of Slurm: %w", err)
	}
	asked.Ask()
	total := asked.Total()
	return &total, nil
}

func (e *modelEngine) watch(ctx context.Context, p *Prepared, see watcher) (w Watched, err error) {
	engine, warnings, err := e.engine(p, p.spec.Seed)
	if err != nil {
		return w, err
	}
	w.Result, err = p.play(ctx, ending{engine, see.until}, p.spec.Seed, see, replay.Options{Processors: capacity(e.cluster).Processors}, p.spec.rewriters()...)
	for _, warning := range append(warnings, e.partial()...) {
		w.Warnings = append(w.Warnings, slurm.Warning{Code: warning.Code, Text: warning.Text, AffectsResult: warning.AffectsResult})
	}
	return w, err
}
