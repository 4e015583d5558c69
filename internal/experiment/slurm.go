package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rmreplay/internal/hpc"
	"rmreplay/internal/interrupt"
	"rmreplay/internal/ioaware"
	"rmreplay/internal/metrics"
	"rmreplay/internal/parallel"
	"rmreplay/internal/procfs"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/rm/slurm/nodes"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/spelling"
	"rmreplay/internal/workload"
)

// slurmEngine is the stock Slurm as an engine.
type slurmEngine struct {
	spec     Slurm
	cluster  *conf.Cluster
	install  *install.Installation
	delays   nodes.Delays
	halfLife time.Duration // half-life of fair-share usage; [hpc.Unlimited] for no decay
	foreseen foreseen
	// ioSchedule is the plan of the driver outside slurmctld that decides on starts; nil if slurmctld decides.
	ioSchedule  *ioaware.Planning
	fileSystems []hpc.FileSystem
}

func (e *slurmEngine) check(spec *Spec) (err error) {
	e.spec = *spec.Slurm
	s := &e.spec
	for _, d := range []struct {
		field, spec string
		to          *nodes.Delay
	}{
		{"launch-delay", s.LaunchDelay, &e.delays.Launch}, {"prolog-delay", s.PrologDelay, &e.delays.Prolog}, {"epilog-delay", s.EpilogDelay, &e.delays.Epilog},
	} {
		if *d.to, err = nodes.ParseDelay(d.spec); err != nil {
			return &FieldError{d.field, err}
		}
	}
	switch {
	case s.Cluster == "":
		return fieldError("cluster", "is missing (want a cluster directory)")
	case s.Lead != 0 && s.Lead < ShortestLead:
		return fieldError("lead", "%v: slurmctld needs longer to start (want at least %v)", s.Lead, ShortestLead)
	case s.ReasonsEvery < 0:
		return fieldError("reasons", "%v: negative (want 0 for none)", s.ReasonsEvery)
	case s.ClockFactor != 0 && s.ReasonsEvery != 0:
		return fieldError("reasons", "%v: with the measured clock, querying slurmctld for reasons would take virtual time "+
			"(want 0)", s.ReasonsEvery)
	case s.ClockFactor != 0 && (!isFactor(s.ClockFactor) || s.ClockFactor > maxClockFactor):
		return fieldError("clock", "%g: not a factor (want a number above 0 and at most %.0f)", s.ClockFactor, float64(maxClockFactor))
	}
	if e.cluster, err = OpenCluster(s.Cluster, s.NodeFactor); err != nil {
		return err
	}
	if err := setSite(e.cluster, s.SiteSlurm); err != nil {
		return err
	}
	if err := e.scheduleIO(); err != nil {
		return err
	}
	if s.PrologDelay != "" && !e.cluster.PrologAtAllocation() {
		return fieldError("prolog-delay", "%s: without PrologFlags=Alloc no prolog runs when a job is allocated (want this flag in %s)", s.PrologDelay, e.cluster.Path)
	}
	e.halfLife, err = decayHalfLife(e.cluster)
	return inputError(err)
}

// decayHalfLife returns a cluster's half-life of fair-share usage; [hpc.Unlimited] for no decay.
func decayHalfLife(c *conf.Cluster) (time.Duration, error) {
	const byDefault = 7 * 24 * time.Hour // slurm.conf(5), PriorityDecayHalfLife
	text, ok := c.Get("PriorityDecayHalfLife")
	if !ok {
		return byDefault, nil
	}
	d, err := slurmspec.ParseTimeLimit(text)
	if err != nil {
		return 0, fmt.Errorf("reading slurm.conf: PriorityDecayHalfLife=%s: %w", text, err)
	}
	return d, nil
}

func (e *slurmEngine) fit(w *workload.Workload) (_ workload.Cluster, err error) {
	if e.fileSystems, err = replay.FileSystems(w, e.spec.FileSystems); err != nil {
		return workload.Cluster{}, &FieldError{"filesystem", err}
	}
	return ClusterFacts(e.cluster), nil
}

// earliestBegin is the earliest begin of a workload. The daemons start before the workload begins, and must not start
// before 1970.
const earliestBegin = hpc.Time(24 * time.Hour)

func (e *slurmEngine) admit(p *Prepared) error {
	for _, a := range p.workload.Actions {
		if err := slurm.CheckPermitted(a, time.UTC); err != nil && !e.spec.AllowShell {
			return p.checking(err)
		}
		if err := CheckAction(a, p.workload.Start, e.cluster); err != nil {
			return p.checking(err)
		}
		if a.SlurmConf != "" && e.ioSchedule != nil {
			return p.checking(fmt.Errorf("the action at %s replaces slurm.conf, and with it the scheduling that --io-schedule needs", a.At))
		}
	}
	if p.begin < earliestBegin {
		return p.checking(fmt.Errorf("the workload begins at %s, which is too early for Slurm, whose clock starts in 1970 (want an epoch near the submissions)",
			p.begin.Std().Format(time.RFC3339)))
	}
	if err := e.find(); err != nil {
		return err
	}
	if _, err := conf.Preview(e.cluster, e.install.Release, ""); err != nil { // errors of the cluster come first
		return inputError(fmt.Errorf("checking the cluster: %w", err))
	}
	e.foreseen = e.foresee(p.workload)
	if err := refuseErrors(e.foreseen.problems); err != nil {
		return inputError(fmt.Errorf("checking the cluster: %w", err))
	}
	if e.foreseen.err != nil {
		return nil
	}
	p.futile = p.futility(e.foreseen.forecast)
	if e.spec.WithoutAccounting {
		return nil
	}
	return refuseHopeless(withMade(e.cluster, p.workload), e.foreseen.forecast, p.workload.Jobs.Len())
}

// find finds Slurm, and returns an error if this machine cannot replay the cluster with it.
func (e *slurmEngine) find() error {
	e.install, _ = install.FindSlurm(e.spec.Installation) // Need returns the error if Slurm is missing
	accounting := e.cluster.Accounting() && !e.spec.WithoutAccounting
	if err := e.install.Need(accounting); err != nil {
		return err
	}
	if err := e.install.Reach(); err != nil {
		return err
	}
	if _, err := install.Network(); err != nil {
		return err
	}
	if _, err := install.DaemonUser(0); err != nil {
		return err
	}
	return (install.Needs{Nodes: len(e.cluster.Nodes), Accounting: accounting}).Admit()
}

// CanReplay returns an error if this machine cannot replay with the given Slurm and cluster, for
// example because that Slurm is not installed ([IsMissing]). It does not start a process.
func CanReplay(s Slurm) error {
	e := &slurmEngine{}
	if err := e.check(&Spec{Slurm: &s}); err != nil {
		return err
	}
	return e.find()
}

// CheckAction returns an error if an action of a workload is wrong. start is the begin of the workload's window, or 0
// if it has no window. CheckAction checks the files that the action names only if cluster is not nil.
func CheckAction(a hpc.Action, start hpc.Time, cluster *conf.Cluster) error {
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

// ParseClock reads a clock model and returns its factor, which is 0 for the frozen clock:
// frozen, measured or measured=F.
func ParseClock(model string) (float64, error) {
	name, factor, given := strings.Cut(model, "=")
	switch {
	case name == "frozen" && !given:
		return 0, nil
	case name == "measured" && !given:
		return 1, nil
	case name == "measured":
		if f, err := strconv.ParseFloat(factor, 64); err == nil && f > 0 && f <= maxClockFactor {
			return f, nil
		}
		return 0, fmt.Errorf("%s: not a factor (want a number above 0 and at most %.0f, such as measured=1.5)", model, float64(maxClockFactor))
	}
	meant := spelling.Nearest(name, 2, []string{"frozen", "measured"})
	if meant == "" {
		return 0, fmt.Errorf("%s: not a clock model (want frozen, measured or measured=F)", model)
	}
	return 0, fmt.Errorf("%s: not a clock model (did you mean %s?)", model, meant)
}

// describeClock returns the clock model of a factor, for the record.
func describeClock(factor float64) run.Clock {
	if factor == 0 {
		return run.Clock{Model: "frozen"}
	}
	return run.Clock{Model: "measured", Factor: factor}
}

// DrawLead returns a random lead. The lead is the time for which slurmctld has run when the workload begins. Two real
// runs of one workload differ in the phase of slurmctld's periodic work (Simakov et al., PEARC'22). The longest period
// that affects jobs is the period of the fair-share computation: five minutes unless PriorityCalcPeriod changes it.
func DrawLead(seed uint64) time.Duration {
	const longestPeriod = 5 * time.Minute
	return time.Minute + time.Duration(rand.New(rand.NewPCG(seed, 1)).Float64()*float64(longestPeriod))
}

func (e *slurmEngine) run(ctx context.Context, p *Prepared, one realization, hooks Hooks) (*metrics.Summary, error) {
	one.started = time.Now()
	hooks.complete()
	if text := refusedCommands(withMade(e.cluster, p.workload)); text != "" && !e.spec.WithoutAccounting {
		hooks.Notice(text)
	}
	if text := e.foreseen.notice(p.workload.Jobs.Len()); text != "" {
		hooks.Notice(text)
	}
	if text := replay.BeforeWindow(p.workload); text != "" {
		hooks.Notice(text)
	}
	manifest, err := p.manifest(one)
	if err != nil {
		return nil, err
	}
	manifest.Engine, manifest.Clock, manifest.Cluster = "slurm", describeClock(e.spec.ClockFactor), capacity(e.cluster)
	manifest.Cluster.Dir = absolute(e.spec.Cluster)
	manifest.FileSystems, manifest.IOSchedule, manifest.IOEstimate = describeFileSystems(e.fileSystems), e.spec.IOSchedule, ioaware.EstimateName(e.spec.IOSchedule)
	manifest.Cluster.SchedulerParameters, _ = e.cluster.Get("SchedulerParameters")
	v := &manifest.Versions
	v.Slurm, v.MariaDB, v.Kernel = e.install.Version, e.install.MariaDBVersion, kernel()
	defer interrupt.Hold()() // until the daemons have ended and the record is complete
	record, err := p.create(one, manifest, false)
	if err != nil {
		return nil, err
	}
	defer record.Close()
	if err := keep(record, e.cluster, p.workload.Actions); err != nil {
		return nil, err
	}
	complete, err := e.play(ctx, p, one.seed, record, hooks)
	state := run.StateComplete
	switch {
	case parallel.Interrupted(ctx, err):
		state = run.StateInterrupted
	case err != nil:
		state = run.StateFailed
	}
	verdict := p.judge(record, state, &manifest)
	ferr := record.Finish(state, func(m *run.Manifest) {
		complete(m)
		m.Recorded = verdict
		if state == run.StateFailed {
			m.Error = err.Error()
		}
	})
	if ferr != nil || err != nil {
		return nil, bothOf(err, ferr)
	}
	opts := metrics.Options{Tau: metrics.DefaultTau}
	return summarize(record, nil, opts)
}

// kernel returns the release of the running kernel, or "" if it is not known.
func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// start starts Slurm for one realization. start draws all random values with the seed.
func (e *slurmEngine) start(ctx context.Context, p *Prepared, seed uint64, logDir string, statistics func(rm.Statistics), hooks Hooks) (*slurm.Engine, error) {
	delays, lead := e.delays, e.spec.Lead
	delays.Seed = seed
	if lead == 0 {
		lead = DrawLead(seed)
	}
	w := p.workload
	usage, accrued := replay.InitialUsage(w, p.begin.Add(-lead), e.halfLife)
	return slurm.Start(ctx, slurm.Config{
		Cluster: withMade(e.cluster, w), Install: e.install, Users: w.Submitters(),
		Epoch: p.begin, PreRoll: p.begin < w.Start, PresetBurst: w.PresetBurst(),
		Usage: usage, Accrued: accrued, UsageAt: replay.UsageInstant(w),
		PreRollBackfill: e.spec.PreRollBackfill,
		Delays:          delays, FileSystems: e.fileSystems, ClockFactor: e.spec.ClockFactor, ReasonsEvery: e.spec.ReasonsEvery,
		LogDir: logDir, WithoutAccounting: e.spec.WithoutAccounting, Progress: hooks.Step, Statistics: statistics,
	}, lead)
}

// play starts Slurm, plays the workload, audits the result and stops Slurm. It returns a
// function that completes the manifest, also after an error.
func (e *slurmEngine) play(ctx context.Context, p *Prepared, seed uint64, record *run.Writer, hooks Hooks) (complete func(*run.Manifest), err error) {
	nothing := func(*run.Manifest) {}
	statistics := func(s rm.Statistics) { _ = record.Statistics(s) } // the record's next call returns the error
	engine, err := e.start(ctx, p, seed, record.LogDir(), statistics, hooks)
	if err != nil {
		return nothing, err
	}
	err = record.Update(func(m *run.Manifest) {
		describeConfiguration(m, engine.Adapted())
		if m.Network = string(engine.Network()); len(e.spec.FileSystems) > 0 || e.ioSchedule != nil {
			m.Warnings = append(m.Warnings, withoutIO(p.workload, e.fileSystems)...)
		}
	})
	if err != nil {
		return nothing, errors.Join(err, engine.Close())
	}
	hooks.Begin(p.begin)
	rewriters, fixed := e.rewriters(&p.spec)
	var driverCPU time.Duration
	controller := func(c replay.Controller) replay.Controller { return e.decideStarts(c, p.workload, engine, &driverCPU) }
	result, err := p.playWith(ctx, engine, seed, controller, record, replay.Options{
		DefaultLimit: e.cluster.DefaultLimit(), Processors: capacity(e.cluster).Processors, Observe: hooks.Progress,
	}, rewriters...)
	finished := time.Now()
	var facts *slurm.Facts
	if err == nil {
		facts = factsOf(p, record)
	}
	report, rerr := engine.Report(ctx, facts) // first, because the run ends with the report
	if parallel.Interrupted(ctx, err) {
		err = errors.Join(err, record.Amend(engine.Interrupted()))
	}
	if err == nil {
		err = rerr
	}
	// A command that sacctmgr refused can make Slurm reject jobs, so its warning comes before the audit's.
	refused := func(w slurm.Warning) bool { return w.Code == "sacctmgr" }
	for _, w := range report.Warnings {
		if text := refusedCommands(withMade(e.cluster, p.workload)); refused(w) {
			w.Text = strings.TrimPrefix(text+"; ", "; ") + w.Text
			err = errors.Join(err, record.Warn(run.Warning{Code: w.Code, Text: w.Text, AffectsResult: w.AffectsResult, Count: 1}))
		}
	}
	if err == nil {
		err = e.audit(p, record, result, report, fixed.Unknown)
	}
	for _, w := range slices.DeleteFunc(report.Warnings, refused) {
		err = errors.Join(err, record.Warn(run.Warning{Code: w.Code, Text: w.Text, AffectsResult: w.AffectsResult, Count: 1}))
	}
	if cerr := engine.Close(); cerr != nil && err == nil {
		err = cerr
	}
	return func(m *run.Manifest) {
		m.Finished = finished
		describeReport(m, report)
		if e.ioSchedule != nil {
			m.DaemonCPU["io-schedule"] = driverCPU.Seconds()
		}
	}, err
}

// rewriters returns the rewriters of jobs for the specification. The result fixed counts the jobs
// whose priority could not be fixed.
func (e *slurmEngine) rewriters(spec *Spec) (list []replay.Rewriter, fixed *replay.FixedPriorities) {
	fixed = &replay.FixedPriorities{}
	list = spec.rewriters()
	if spec.FixedPriorities {
		list = append(list, fixed.Rewrite)
	}
	return list, fixed
}

// factsOf returns the facts that are compared with slurmdbd.
func factsOf(p *Prepared, record *run.Writer) *slurm.Facts {
	w := p.workload
	reservations := w.Reservations
	if w.Start != 0 {
		reservations = slurm.WindowReservations(replay.NewWindow(w))
	}
	return &slurm.Facts{
		Rows: record.Rows, Begin: p.begin, NodeEvents: w.NodeEvents, Reservations: reservations, OthersAct: len(w.Actions) > 0,
	}
}

// describeReport writes the engine's final report into the manifest.
func describeReport(m *run.Manifest, r *slurm.Report) {
	m.VirtualEnd, m.Scheduler = r.End, r.Scheduler
	m.Clock.Steps, m.Clock.ComputingSeconds = int64(r.ClockSteps), r.Computing.Seconds()
	m.DaemonCPU = map[string]float64{}
	for name, d := range r.DaemonCPU {
		m.DaemonCPU[name] = d.Seconds()
	}
	m.PeakMemory = map[string]float64{"rmreplay": mebibytes(procfs.PeakMemory(os.Getpid()))}
	for name, bytes := range r.PeakMemory {
		m.PeakMemory[name] = mebibytes(bytes)
	}
}

// mebibytes returns bytes in MiB, to a tenth.
func mebibytes(bytes int64) float64 { return math.Round(float64(bytes)/(1<<20)*10) / 10 }

// describeConfiguration writes the changes of the configuration into the manifest.
func describeConfiguration(m *run.Manifest, a *conf.Adapted) {
	for _, c := range a.Changes {
		m.Cluster.Changes = append(m.Cluster.Changes, run.Change{File: filepath.Base(c.File), Key: c.Key, From: c.From, To: c.To, Reason: c.Reason})
	}
	for _, text := range a.Warnings {
		m.Warnings = append(m.Warnings, run.Warning{Code: "configuration", Text: text, Count: 1})
	}
}
