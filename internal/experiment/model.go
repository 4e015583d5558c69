package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/interrupt"
	"rmreplay/internal/metrics"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/slurm/admission"
	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/counters"
	"rmreplay/internal/rm/slurm/fairshare"
	"rmreplay/internal/rm/slurmmodel"
	"rmreplay/internal/rm/slurmmodel/coverage"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// modelEngine is the model of Slurm's scheduler as an engine.
type modelEngine struct {
	spec    Simulator
	release slurmspec.Release
	cluster *conf.Cluster
	config  slurmmodel.Config
	missing []coverage.Missing
	// halfLife is that of fair-share usage.
	halfLife time.Duration
}

func (e *modelEngine) check(spec *Spec) (err error) {
	e.spec = *spec.Simulator
	s := &e.spec
	switch {
	case s.Cluster == "":
		return fieldError("policy", "%s: needs a cluster directory with a slurm.conf", s.Policy)
	case s.Processors != 0 || s.Nodes != 0:
		return fieldError("policy", "%s: takes its nodes from the cluster directory", s.Policy)
	case len(s.FileSystems) > 0:
		return fieldError("policy", "%s: knows no file systems", s.Policy)
	case s.Ties != "" && s.Ties != sim.EndsFirst:
		return fieldError("ties", "%s: slurmctld has an order of its own", s.Ties)
	case s.NodeFactor != 0 && !isFactor(s.NodeFactor):
		return fieldError("nodes", "x%g: not a factor (want, for example, x2 or x0.5)", s.NodeFactor)
	case s.Lead != 0 && s.Lead < ShortestLead:
		return fieldError("lead", "%v: too short (want at least %v)", s.Lead, ShortestLead)
	}
	e.release = slurmspec.R2205
	if s.Release != "" {
		if e.release, err = slurmspec.ParseRelease(s.Release); err != nil {
			return fieldError("slurm", "%w", err)
		}
	}
	if e.cluster, err = OpenCluster(s.Cluster, s.NodeFactor); err != nil {
		return err
	}
	e.halfLife, err = decayHalfLife(e.cluster)
	return inputError(err)
}

func (e *modelEngine) fit(*workload.Workload) (workload.Cluster, error) { return Known(e.cluster), nil }

func (e *modelEngine) admit(p *Prepared) error {
	w := p.workload
	if w.Start != 0 {
		return p.checking(errors.New("the model of Slurm does not play windows (want a workload without a window, or rmreplay replay)"))
	}
	site, err := admission.New(e.cluster, w.Submitters(), admission.Options{Release: e.release})
	if err != nil {
		return inputError(fmt.Errorf("foreseeing rejections: %w", err))
	}
	if err := refuseErrors(problemsOf(site)); err != nil {
		return inputError(fmt.Errorf("checking the cluster: %w", err))
	}
	e.config = modelOf(e.cluster, w.Submitters())
	e.config.Release, e.config.Epoch = e.release, p.begin
	e.config.Rejected = map[string]slurmmodel.Rejection{}
	site.Foresee(w, func(job string, why admission.Finding) {
		if why.Verdict == admission.Rejected && why.Rule != admission.RuleReservation { // which the model has itself
			e.config.Rejected[job] = slurmmodel.Rejection{Reason: why.Text, Late: why.Rule == admission.RuleFeatures || why.Rule == admission.RuleNodes && why.Slurm == "ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE"}
		}
	})
	e.missing = coverage.Lacks(&e.config, w)
	return nil
}

// modelOf returns the configuration of a cluster as the model takes it.
func modelOf(c *conf.Cluster, users []hpc.User) slurmmodel.Config {
	out := slurmmodel.Config{Get: c.Get, Nodes: slices.Clone(c.Nodes)}
	for i := range c.Partitions {
		p := &c.Partitions[i]
		out.Partitions = append(out.Partitions, slurmmodel.Partition{Name: p.Name, Default: p.Default, Nodes: p.Nodes, Get: p.Get})
	}
	if plugin, _ := c.Get("TopologyPlugin"); strings.EqualFold(strings.TrimPrefix(strings.ToLower(plugin), "topology/"), "tree") {
		for _, s := range c.Topology {
			out.Switches = append(out.Switches, switchOf(s))
		}
	}
	if c.Accounting() {
		commands, _ := c.AccountCommands(users)
		out.Associations = associations.Read(commands, c.AccountsFile, c.Name)
	}
	return out
}

// switchOf returns a line of topology.conf. conf has checked its host lists.
func switchOf(s conf.Statement) slurmmodel.Switch {
	names := func(key string) []string {
		text, _ := s.Get(key)
		list, _ := hostlist.Expand(text)
		return list
	}
	return slurmmodel.Switch{Name: s.Value, Nodes: names("Nodes"), Switches: names("Switches")}
}

// engine makes the engine of one realization, and the warnings of what it cannot give it. As in a replay, the
// seed decides how long slurmctld has run.
func (e *modelEngine) engine(p *Prepared, seed uint64) (*slurmmodel.Engine, []run.Warning, error) {
	config := e.config
	if config.Lead = e.spec.Lead; config.Lead == 0 {
		config.Lead = DrawLead(seed)
	}
	var warnings []run.Warning
	if config.Associations != nil {
		config.Usage = e.usage(p.workload, p.begin.Add(-config.Lead), func(code, text string, affects bool) {
			warnings = append(warnings, run.Warning{Code: code, Text: text, AffectsResult: affects, Count: 1})
		})
	}
	engine, err := slurmmodel.New(config)
	return engine, warnings, inputError(err)
}

// usage returns the fair-share usage with which slurmctld starts at an instant, as a replay gives it
// (giveUsage in package slurm).
func (e *modelEngine) usage(w *workload.Workload, at hpc.Time, warn fairshare.Warn) slurmmodel.Usage {
	given, accrued := replay.InitialUsage(w, at, e.halfLife)
	usage := fairshare.Usage{Given: given, Accrued: accrued, At: replay.UsageInstant(w)}.Of(e.cluster)
	known := fairshare.DeclaredAccounts(e.config.Associations)
	if len(given) > 0 || w.Start > w.Epoch {
		usage.CheckLimits(known, warn)
	}
	if len(given) == 0 {
		return slurmmodel.Usage{}
	}
	return slurmmodel.Usage{Own: usage.Own(known, warn), OfCPUs: usage.BillsProcessors, Reset: usage.At}
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
	manifest.Clock = run.Clock{Model: "frozen"}
	defer interrupt.Hold()() // until the record is complete
	record, err := p.create(one, manifest, true)
	if err != nil {
		return nil, err
	}
	defer record.Close()
	var asked *counters.Counters
	engine.At(p.begin, func() { // asked as slurmctld is in a replay, so that the records have the same statistics
		asked = counters.Watch(engine, counters.Every, func(s rm.Statistics) { _ = record.Statistics(s) })
	})
	state, err := e.play(ctx, p, one.seed, engine, warnings, record, hooks)
	var total *rm.Scheduler
	if asked != nil {
		asked.Ask()
		sums := asked.Total()
		total = &sums
	}
	ferr := record.Finish(state, func(m *run.Manifest) {
		m.Finished, m.VirtualEnd, m.Scheduler = time.Now(), engine.Now(), total
		if state == run.StateFailed {
			m.Error = err.Error()
		}
	})
	if ferr != nil || err != nil {
		return nil, bothOf(err, ferr)
	}
	return summarize(record, nil, metrics.Options{Tau: metrics.DefaultTau})
}

// play runs the model. It records warnings, and those of inputs that it did not carry out and of what it lacks.
func (e *modelEngine) play(
	ctx context.Context, p *Prepared, seed uint64, engine *slurmmodel.Engine, warnings []run.Warning, record *run.Writer, hooks Hooks,
) (run.State, error) {
	hooks.Begin(p.begin)
	for _, m := range e.missing {
		hooks.Notice("the model of Slurm lacks " + m.String())
	}
	options := replay.Options{DefaultLimit: e.cluster.DefaultLimit(), Processors: capacity(e.cluster).Processors, Observe: seldom(hooks.Progress), Released: record.Released}
	result, err := p.play(ctx, engine, seed, record, options, p.spec.rewriters()...)
	switch {
	case interrupted(ctx, err):
		return run.StateInterrupted, err
	case err != nil:
		return run.StateFailed, err
	}
	warnings = append(append(warnings, e.partial()...), p.undone(result, engine.NeverStarts())...)
	if refused := engine.Refused(); len(refused) > 0 {
		text := fmt.Sprintf("%d events of nodes or reservations were refused: %s", len(refused), few(refused, 5))
		warnings = append(warnings, run.Warning{Code: "event-refused", Text: text, AffectsResult: true, Count: len(refused)})
	}
	for _, w := range warnings {
		if err := record.Warn(w); err != nil {
			return run.StateFailed, err
		}
	}
	return run.StateComplete, nil
}

// partial returns the warning that the run is not Slurm's in all respects, if it is not.
func (e *modelEngine) partial() []run.Warning {
	if len(e.missing) == 0 {
		return nil
	}
	texts, jobs := make([]string, len(e.missing)), 0
	for i, m := range e.missing {
		texts[i] = m.String()
		jobs += m.Jobs
	}
	text := "model: partial: the model of Slurm lacks " + strings.Join(texts, "; ")
	return []run.Warning{{Code: "model-partial", Text: text, AffectsResult: true, Count: max(1, jobs)}}
}

func (e *modelEngine) watch(ctx context.Context, p *Prepared, see watcher) (w Watched, err error) {
	engine, warnings, err := e.engine(p, p.spec.Seed)
	if err != nil {
		return w, err
	}
	w.Result, err = p.play(ctx, ending{engine, see.until}, p.spec.Seed, see, replay.Options{Processors: capacity(e.cluster).Processors}, p.spec.rewriters()...)
	for _, warning := range append(warnings, e.partial()...) {
		w.Warnings = append(w.Warnings, warning.Text)
	}
	return w, err
}
