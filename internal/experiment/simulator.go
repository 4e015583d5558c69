package experiment

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/interrupt"
	"rmreplay/internal/metrics"
	"rmreplay/internal/parallel"
	"rmreplay/internal/predict/model"
	"rmreplay/internal/quantity"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/sim/policy"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/transform"
)

// simEngine is the built-in simulator as an engine.
type simEngine struct {
	spec    Simulator
	config  sim.Config
	trained *model.Model  // the model that the policy uses; nil without a model
	cluster run.Cluster   // the machine from which utilization is computed
	site    *conf.Cluster // the simulated cluster; nil for a machine without a cluster directory
}

func (e *simEngine) check(spec *Spec) (err error) {
	e.spec = *spec.Simulator
	s := &e.spec
	if s.Ties == "" {
		s.Ties = sim.EndsFirst
	}
	if s.Policy == "" {
		s.Policy = defaultPolicy
	}
	switch {
	case s.Ties != sim.EndsFirst && s.Ties != sim.ArrivalsFirst:
		return fieldError("ties", "%s: not an order (want %s or %s)", s.Ties, sim.EndsFirst, sim.ArrivalsFirst)
	case s.Release != "":
		return fieldError("slurm", "%s: only for policy %s", s.Release, SlurmPolicy)
	case s.Lead != 0:
		return fieldError("lead", "%v: only for policy %s", s.Lead, SlurmPolicy)
	case s.Clock != "":
		return fieldError("clock", "%s: only for policy %s", s.Clock, SlurmPolicy)
	case s.Processors < 0:
		return fieldError("processors", "%d: not above 0", s.Processors)
	case s.Nodes < 0:
		return fieldError("nodes", "%d: not above 0", s.Nodes)
	case s.NodeFactor != 0 && !isFactor(s.NodeFactor):
		return fieldError("nodes", "x%g: not a factor (want, for example, x2 or x0.5)", s.NodeFactor)
	case s.Processors != 0 && s.Cluster != "":
		return fieldError("processors", "and --cluster exclude each other")
	case s.Nodes != 0 && s.Cluster != "":
		return fieldError("nodes", "%d: not a factor (want, for example, x2 or x0.5; the number of nodes is in "+
			"its slurm.conf)", s.Nodes)
	}
	if err := CheckPolicy(s.Policy); err != nil {
		return &FieldError{"policy", err}
	}
	e.config = sim.Config{Ties: s.Ties}
	if e.config.Policy, e.trained, err = policy.NewWith(s.Policy, ReadModel); err != nil {
		return &FieldError{"policy", err}
	}
	return nil
}

func (e *simEngine) fit(w *workload.Workload) (workload.Cluster, error) {
	var err error
	if e.config.FileSystems, err = replay.FileSystems(w, e.spec.FileSystems); err != nil {
		return workload.Cluster{}, &FieldError{"filesystem", err}
	}
	e.config.RecordedLimits = !transform.ChangesLimits(w.Transforms)
	if e.trained != nil {
		if err := e.trained.Before(w); err != nil {
			return workload.Cluster{}, fieldError("policy", "%s: %w", e.spec.Policy, err)
		}
	}
	if e.spec.Cluster != "" {
		return e.fitCluster()
	}
	return workload.Cluster{}, e.fitMachine(w)
}

// ReadModel reads the file of a trained model of run times, such as a policy's options name.
func ReadModel(path string) (*model.Model, error) {
	m, err := ReadAnyModel(path)
	if err == nil && m.Target.Measured() {
		return nil, fmt.Errorf("reading a model: %s: it predicts %s (want a model of run times)", filepath.Base(path),
			m.Target.What())
	}
	return m, err
}

// ReadAnyModel reads the file of a trained model of any target.
func ReadAnyModel(path string) (*model.Model, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading a model: %w", err)
	}
	defer f.Close() // only read
	return model.Read(f, filepath.Base(path))
}

// CheckPolicy returns an error with the names of all policies if the name of a policy is not known.
func CheckPolicy(spec string) error {
	name, _, _ := strings.Cut(spec, ":")
	if name == SlurmPolicy || slices.Contains(policy.Names(), name) {
		return nil
	}
	return policy.Unknown(name, SlurmPolicy)
}

// PolicyModel returns the file of the trained model that a policy's options name, as in
// "easy-sjbf:predict=model:FILE", or "".
func PolicyModel(spec string) string {
	_, options, _ := strings.Cut(spec, ":")
	for option := range strings.SplitSeq(options, ",") {
		if file, ok := strings.CutPrefix(option, "predict=model:"); ok {
			return file
		}
	}
	return ""
}

// fitCluster makes the machine of a cluster directory.
func (e *simEngine) fitCluster() (workload.Cluster, error) {
	c, err := e.spec.open()
	if err != nil {
		return workload.Cluster{}, err
	}
	if e.config.Cluster, err = simulatedCluster(c.cluster); err != nil {
		return workload.Cluster{}, inputError(err)
	}
	e.site, e.cluster = c.cluster, capacity(c.cluster)
	e.cluster.Dir = absolute(e.spec.Cluster)
	return c.facts, nil
}

// The largest machines without a slurm.conf.
const (
	maxProcessors = math.MaxInt32
	maxNodes      = 1 << 20 // the limit of host lists
)

// fitMachine makes a machine from the sizes that the specification or the workload gives.
func (e *simEngine) fitMachine(w *workload.Workload) error {
	processors := e.spec.Processors
	if processors == 0 {
		processors = w.MachineProcessors
	}
	if processors == 0 {
		return fieldError("processors", "is missing: %s does not say how large its machine was (want the processors of all "+
			"nodes together, or a cluster)", w.Source)
	}
	if e.spec.Nodes > 0 {
		return e.fitNodes(e.spec.Nodes, processors)
	}
	if what := needsNodes(w); what != "" {
		return inputError(fmt.Errorf("%s has %s nodes, but the machine has only processors (want, for example, --nodes 100, "+
			"or --cluster DIR)", w.Source, what))
	}
	if f := e.spec.NodeFactor; f != 0 {
		scaled := math.Round(float64(processors) * f)
		if scaled > maxProcessors {
			return fieldError("nodes", "x%g: %d processors would become %.3g (want at most %d)", f, processors, scaled,
				maxProcessors)
		}
		if int(scaled) == processors && f != 1 {
			return fieldError("nodes", "x%g: the number of processors would stay %d (want a factor that changes it)", f,
				processors)
		}
		processors = int(scaled)
	}
	if processors > maxProcessors {
		return fieldError("processors", "%d: too many (want at most %d)", processors, maxProcessors)
	}
	e.config.Processors = processors
	e.cluster = run.Cluster{Processors: processors}
	return nil
}

// fitNodes makes a machine of equal nodes.
func (e *simEngine) fitNodes(nodes, processors int) error {
	if nodes > maxNodes {
		return fieldError("nodes", "%d: too many (want at most %d)", nodes, maxNodes)
	}
	if processors%nodes != 0 {
		return fieldError("nodes", "%d: does not divide %d processors", nodes, processors)
	}
	c := &sim.Cluster{}
	for i := range nodes {
		c.Nodes = append(c.Nodes, hpc.Node{Name: fmt.Sprintf("n%d", i+1), CPUs: processors / nodes})
	}
	e.config.Cluster = c
	e.cluster = run.Cluster{Nodes: nodes, Processors: processors}
	return nil
}

// needsNodes returns a text about a part of the workload that a pool of processors cannot play. The text includes a
// verb: "node events, which need". needsNodes returns "" if a pool can play the whole workload.
func needsNodes(w *workload.Workload) string {
	switch {
	case len(w.NodeEvents) > 0:
		return "node events, which need"
	case len(w.Reservations) > 0:
		return "reservations, which need"
	case w.Start != 0:
		return "a window, which needs"
	}
	return ""
}

func (e *simEngine) admit(p *Prepared) error {
	e.config.Epoch = p.begin
	return nil
}

func (e *simEngine) run(ctx context.Context, p *Prepared, one realization, hooks Hooks) (*metrics.Summary, error) {
	engine, err := sim.New(e.config)
	if err != nil {
		return nil, inputError(err)
	}
	manifest, err := p.manifest(one)
	if err != nil {
		return nil, err
	}
	manifest.Engine, manifest.Policy, manifest.Cluster = "sim", e.spec.Policy, e.cluster
	manifest.Clock = run.Clock{Model: "frozen"}
	manifest.FileSystems, manifest.IOEstimate = describeFileSystems(e.config.FileSystems),
		policy.EstimateName(e.spec.Policy)
	defer interrupt.Hold()() // until the record is complete
	record, err := p.create(one, manifest, true)
	if err != nil {
		return nil, err
	}
	defer record.Close()
	if e.site != nil {
		if err := keep(record, e.site, nil); err != nil {
			return nil, err
		}
	}
	state, err := e.play(ctx, p, one.seed, engine, record, hooks)
	opts := metrics.Options{Tau: metrics.DefaultTau}
	computed := measure(record, manifest, engine.Now(), opts)
	ferr := record.Finish(state, func(m *run.Manifest) {
		m.Finished, m.VirtualEnd = time.Now(), engine.Now()
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

// play runs the simulation and warns of the inputs that it did not carry out.
func (e *simEngine) play(ctx context.Context, p *Prepared, seed uint64, engine *sim.Engine, record *run.Writer,
	hooks Hooks) (run.State, error) {
	hooks.Begin(p.begin)
	result, err := p.play(ctx, engine, seed, record, replay.Options{Processors: e.cluster.Processors,
		Observe: seldom(hooks.Progress), Released: record.Released}, p.spec.rewriters()...)
	switch {
	case parallel.Interrupted(ctx, err):
		return run.StateInterrupted, err
	case err != nil:
		return run.StateFailed, err
	}
	warnings := p.undone(result, engine.NeverStarts())
	if e.site != nil && e.site.Mismatch != "" {
		warnings = append(warnings, run.Warning{Code: "configuration", Text: e.site.Mismatch, Count: 1})
	}
	if len(e.spec.FileSystems) > 0 || policy.SchedulesIO(e.spec.Policy) {
		warnings = append(warnings, withoutIO(p.workload, e.config.FileSystems)...)
	}
	warnings = append(warnings, (&foreseen{}).rejected(result)...)
	warnings = append(warnings, refusedEvents(engine.Refused())...)
	return warned(record, append(warnings, p.unlikeRecord(record.Rows)...))
}

// refusedEvents returns a warning about events that an engine refused.
func refusedEvents(refused []string) []run.Warning {
	if len(refused) == 0 {
		return nil
	}
	text := fmt.Sprintf("%d %s refused: %s", len(refused), quantity.Plural(len(refused),
		"event of nodes or reservations was", "events of nodes or reservations were"), replay.Few(refused, 5))
	return []run.Warning{{Code: "event-refused", Text: text, AffectsResult: true, Count: len(refused)}}
}

// warned records the warnings of a run that has ended.
func warned(record *run.Writer, warnings []run.Warning) (run.State, error) {
	for _, w := range warnings {
		if err := record.Warn(w); err != nil {
			return run.StateFailed, err
		}
	}
	return run.StateComplete, nil
}

// seldom returns a function that calls the observer for one instant in 256. The observer reads the real clock to decide
// whether to print, and reading the clock takes as long as simulating an instant.
func seldom(observe func(replay.Progress)) func(replay.Progress) {
	n := 0
	return func(p replay.Progress) {
		if n++; n%256 == 0 {
			observe(p)
		}
	}
}
