// Package experiment makes the replay or simulation that a [Spec] describes, or a set of
// realizations. It can run several realizations at once.
//
// [Run] loads and checks everything, starts the engine, plays the workload, compares the result with the engine's
// own accounting, writes the record and computes the metrics. The command line, a server and a test all run a
// replay this way. The package does not write to the terminal. It reports the progress of a run to [Hooks].
//
// Errors have types: [FieldError] for a value of the specification, [InputError] for a file or
// directory, and [IsMissing] for a machine that lacks something. A run without a valid result is not
// an error: its summary says that it is not valid, and [Valid] returns an error for such a summary.
package experiment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"rmreplay/internal/formats"
	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// Hooks receive the progress of a run. The goroutine that called [Run] calls them. Each hook may be nil.
type Hooks struct {
	Notice   func(text string)     // which rejections are expected, before the engine starts
	Step     func(text string)     // a step of the engine's start
	Begin    func(epoch hpc.Time)  // before the workload begins, at the virtual time epoch
	Progress func(replay.Progress) // after each step of the run
}

func (h *Hooks) complete() {
	if h.Notice == nil {
		h.Notice = func(string) {}
	}
	if h.Step == nil {
		h.Step = func(string) {}
	}
	if h.Begin == nil {
		h.Begin = func(hpc.Time) {}
	}
	if h.Progress == nil {
		h.Progress = func(replay.Progress) {}
	}
}

// engine has the steps that differ between the engines. The methods are called in this order.
type engine interface {
	// check checks the engine's part of a specification and the files that it names.
	check(spec *Spec) error
	// fit chooses the machine for a workload, and returns the known facts about this machine.
	fit(w *workload.Workload) (workload.Cluster, error)
	// admit returns an error if the engine cannot play the workload, or if the engine is not installed on this machine.
	admit(p *Prepared) error
	// run makes the run and its record. Several goroutines may call it at once.
	run(ctx context.Context, p *Prepared, one realization, hooks Hooks) (*metrics.Summary, error)
	// watch makes a run without a record. It replaces run for [Watch].
	watch(ctx context.Context, p *Prepared, see watcher) (Watched, error)
}

// realization has the values that differ between the runs that share one [Prepared].
type realization struct {
	seed    uint64
	output  string
	started time.Time // real time
}

// Prepared is a specification whose files are loaded and checked.
type Prepared struct {
	spec     Spec
	engine   engine
	workload *workload.Workload
	source   run.Source
	begin    hpc.Time // the instant at which the workload begins
	futile   error    // says why Slurm will reject all jobs
	started  time.Time
	// controller makes the controller of one run.
	controller func(jitter time.Duration, seed uint64) replay.Controller
}

// Run makes the run that spec describes, with its record, and returns the metrics. If ctx is
// cancelled, the record holds what had happened until then, and Run returns ctx's error.
func Run(ctx context.Context, spec Spec, hooks Hooks) (*metrics.Summary, error) {
	p, err := Prepare(spec)
	if err != nil {
		return nil, err
	}
	return p.Run(ctx, hooks)
}

// Prepare loads and checks everything that a run needs. It does not start the engine.
func Prepare(spec Spec) (*Prepared, error) { return prepare(spec, checkRun) }

// prepare implements [Prepare] with the given check of the output directory. It makes this check first, because reading
// the workload may take long. The check is nil for a run without a record, all of whose jobs may be rejected.
func prepare(spec Spec, checkOutput func(dir string, overwrite bool) error) (*Prepared, error) {
	p := &Prepared{spec: spec, started: time.Now()}
	if err := p.check(); err != nil {
		return nil, err
	}
	if checkOutput != nil {
		if err := checkOutput(p.spec.Output, p.spec.Overwrite); err != nil {
			return nil, inputError(err)
		}
	}
	if err := p.load(); err != nil {
		return nil, err
	}
	known, err := p.engine.fit(p.workload)
	if err != nil {
		return nil, err
	}
	if err := refuseErrors(workload.Validate(p.workload, known)); err != nil {
		return nil, p.checking(err)
	}
	if err := p.findUsers(); err != nil {
		return nil, err
	}
	p.begin = p.workload.Begin()
	if err := p.engine.admit(p); err != nil || checkOutput == nil {
		return p, err
	}
	return p, p.futile
}

// checkRun refuses an output directory in which no record can be made.
func checkRun(dir string, overwrite bool) error {
	if dir == "" {
		return nil // a caller that only prepares a run may name no directory
	}
	return run.CheckNew(dir, overwrite)
}

// CheckSpec returns an error if a field of the specification is wrong, or if the specification's
// cluster is wrong. It does not read the workload.
func CheckSpec(spec Spec) error {
	p := &Prepared{spec: spec}
	return p.check()
}

// check completes and checks the specification, and chooses the engine.
func (p *Prepared) check() error {
	p.spec.complete()
	if err := p.spec.check(); err != nil {
		return err
	}
	switch {
	case p.spec.Slurm != nil:
		p.engine = &slurmEngine{}
	case p.spec.Simulator.models():
		p.engine = &modelEngine{}
	default:
		p.engine = &simEngine{}
	}
	return p.engine.check(&p.spec)
}

// Run makes the run. The caller may call it once.
func (p *Prepared) Run(ctx context.Context, hooks Hooks) (*metrics.Summary, error) {
	hooks.complete()
	return p.engine.run(ctx, p, realization{p.spec.Seed, p.spec.Output, p.started}, hooks)
}

// load reads the workload, unless the specification has it as a value.
func (p *Prepared) load() error {
	w := p.spec.Workload
	p.workload = w.Value
	if w.Value == nil {
		var err error
		// Only Slurm uses the data that a lean reader leaves out.
		if p.workload, err = formats.OpenWith(w.Path, workload.ReadOptions{Lean: p.spec.Simulator != nil}); err != nil {
			return inputError(err)
		}
	}
	if w.SHA256 == "" {
		w.SHA256 = fileHash(w.Path)
	}
	p.source = run.Source{
		Path: w.Path, Jobs: p.workload.Jobs.Len(), Rules: p.workload.Rules, SHA256: w.SHA256,
	}
	return nil
}

// checking wraps the error of a workload that was read and cannot be played.
func (p *Prepared) checking(err error) error {
	name := p.spec.Workload.Path
	if name == "" {
		name = p.workload.Source
	}
	return inputError(fmt.Errorf("checking %s: %w", name, err))
}

// findUsers finds the sessions of the users. It returns an error if the workload lacks data that the
// users' model needs.
func (p *Prepared) findUsers() (err error) {
	p.controller, err = replay.NewControllers(p.workload, p.spec.Users)
	return inputError(err)
}

// play plays the workload with the users of the specification. The rewriters change the workload's jobs.
func (p *Prepared) play(ctx context.Context, manager rm.ResourceManager, seed uint64, record replay.Recorder, opts replay.Options, rewriters ...replay.Rewriter) (replay.Result, error) {
	return p.playWith(ctx, manager, seed, func(c replay.Controller) replay.Controller { return c }, record, opts, rewriters...)
}

// playWith is [Prepared.play] with a wrapped controller. The function around wraps the controller.
func (p *Prepared) playWith(ctx context.Context, manager rm.ResourceManager, seed uint64, around func(replay.Controller) replay.Controller, record replay.Recorder, opts replay.Options, rewriters ...replay.Rewriter) (replay.Result, error) {
	controller := replay.Rewriting(p.controller(p.spec.Users.Jitter, seed), rewriters...)
	opts.DrainLimit = p.spec.DrainLimit
	return replay.Play(ctx, manager, p.workload, around(controller), record, opts)
}

// manifest returns the manifest of a run with the data that are known before the run starts.
func (p *Prepared) manifest(one realization) (run.Manifest, error) {
	spec, err := p.spec.recorded(one.seed)
	return run.Manifest{
		Made: p.workload.Made(), Seed: one.seed, Command: p.spec.Command, Spec: spec, Started: one.started, Workload: p.source,
		Versions:     run.Versions{RMReplay: p.spec.Version, Go: runtime.Version()},
		VirtualStart: p.begin, WindowStart: p.workload.Start, Feedback: describeUsers(p.spec.Users),
		Warnings: p.absent(),
	}, err
}

// absent returns a warning about days of the week on which the workload has no submissions. The users of
// [replay.Distribution] submit no jobs on days of the week without recorded submissions.
func (p *Prepared) absent() []run.Warning {
	n := replay.AbsentDays(&p.workload.Jobs)
	if p.spec.Users.Model != replay.Distribution || n == 0 || p.workload.Jobs.Len() == 0 {
		return nil
	}
	text := fmt.Sprintf("the workload has no submission on %d of the 7 days of the week (UTC), so users submit nothing on "+
		"these days, and jobs can come a week later; use a workload of several weeks", n)
	return []run.Warning{{Code: run.DaysWithoutSubmissions, Text: text, Count: 1}}
}

// describeUsers returns the record's description of the users, or nil for a rigid replay.
func describeUsers(f replay.Feedback) *run.Feedback {
	if f.Model == replay.NoFeedback && f.Jitter == 0 {
		return nil
	}
	m := &run.Feedback{Model: string(f.Model), Jitter: f.Jitter.Seconds()}
	if f.Model != replay.NoFeedback {
		m.Sessions = f.Sessions.String()
	}
	return m
}

// create makes the record of a run. The caller must close it.
func (p *Prepared) create(one realization, manifest run.Manifest, unjournaled bool) (*run.Writer, error) {
	record, err := run.Create(one.output, manifest, run.Options{Overwrite: p.spec.Overwrite, Unjournaled: unjournaled})
	if err != nil {
		return nil, inputError(err)
	}
	if err := record.Setting(p.workload); err != nil {
		return nil, errors.Join(err, record.Close())
	}
	return record, nil
}

// measured is the part of a summary that is computed from a run's jobs.
type measured struct {
	rows    iter.Seq[*run.Row]
	metrics metrics.Metrics
	reasons []metrics.ReasonTotal
}

// measure starts to compute the part of a summary that depends on a run's jobs, while the caller completes the
// record. It returns a function that waits for the result. The parameter end is the end of the run.
func measure(record *run.Writer, m run.Manifest, end hpc.Time, opts metrics.Options) (wait func() *measured) {
	var of measured
	done := make(chan struct{})
	m.VirtualEnd = end
	go func() {
		defer close(done)
		rows := metrics.DecodedOnce(record.Histories(end))
		of = measured{rows, metrics.ComputeAll(rows, opts.WithManifest(&m)), metrics.ReasonsOfAll(rows, &m)}
	}()
	return func() *measured {
		<-done
		return &of
	}
}

// summarize returns the metrics of a run with a complete record. The parameter known contains the
// metrics of its jobs; if it is nil, they are computed from the record.
func summarize(record *run.Writer, known *measured, opts metrics.Options) (*metrics.Summary, error) {
	r, err := run.Open(record.Dir())
	if err != nil {
		return nil, err
	}
	m := &r.Manifest
	if known == nil {
		rows, err := r.Histories()
		if err != nil {
			return nil, err
		}
		summary := metrics.Describe(metrics.Compute(rows, opts.WithManifest(m)), m)
		summary.Reasons = metrics.ReasonsOf(rows, m)
		if how := m.Feedback; how != nil {
			summary.Feedback = metrics.NewFeedback(rows, *how, opts.WithManifest(m))
		}
		summary.IO, err = metrics.NewIO(rows, m, opts)
		return summary, err
	}
	summary := metrics.Describe(known.metrics, m)
	summary.Reasons = known.reasons
	if how := m.Feedback; how != nil {
		summary.Feedback = metrics.NewFeedbackOf(known.rows, *how, opts.WithManifest(m))
	}
	if len(m.FileSystems) == 0 {
		return summary, nil
	}
	rows, err := r.Jobs()
	if err != nil {
		return nil, err
	}
	summary.IO, err = metrics.NewIO(rows, m, opts)
	return summary, err
}

// refuseErrors returns one error for all problems that prevent a run; nil without such problems.
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

// absolute returns the absolute form of a path, for the manifest. If the current directory is not known, absolute
// returns the path unchanged.
func absolute(path string) string {
	if path == "" {
		return ""
	}
	if whole, err := filepath.Abs(path); err == nil {
		return whole
	}
	return path
}

// fileHash returns the SHA-256 of a file in hexadecimal. It returns "" if it cannot read the file,
// or if the file is a named pipe or another file that can be read only once.
func fileHash(path string) string {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close() // only read
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}
