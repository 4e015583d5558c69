package tune

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"rmreplay/internal/metrics"
	"rmreplay/internal/parallel"
	"rmreplay/internal/run"
	"rmreplay/internal/sweep"
)

// The directories of the trials within a tuning's directory. Each has one sweep for each workload.
const (
	searchDir  = "search"
	heldOutDir = "held-out"
)

// stage makes the trials of the search, or the trials of the proof.
type stage struct {
	*Tuner
	dir       string
	workloads []sweep.Variant
	seeds     []uint64
	model     bool    // the trials run on the model of Slurm
	seconds   float64 // real time of the runs so far
	locks     []io.Closer

	settings []Setting // the settings that have had a trial
	known    map[string]bool
}

// newStage locks the directories of a stage. The locks end with the process, or with close.
func (t *Tuner) newStage(
	dir string, model bool, workloads []sweep.Variant, firstSeed uint64, seeds int,
) (*stage, error) {
	s := &stage{Tuner: t, dir: dir, model: model, workloads: workloads, known: map[string]bool{}}
	for i := range seeds {
		s.seeds = append(s.seeds, firstSeed+uint64(i))
	}
	for w := range workloads {
		plan, err := s.plan(w)
		if err != nil {
			s.close()
			return nil, err
		}
		lock, err := plan.Lock(false)
		if err != nil {
			s.close()
			return nil, err
		}
		s.locks = append(s.locks, lock)
	}
	return s, nil
}

func (s *stage) close() {
	for _, lock := range s.locks {
		_ = lock.Close()
	}
}

// of returns the workload and the seed of a block. The first blocks are all workloads with the
// first seed, so that even the first test of a race covers several workloads.
func (s *stage) of(block int) (workload, seed int) {
	return block % len(s.workloads), block / len(s.workloads)
}

// plan returns the plan of the runs of all known settings on a workload. The cells of a sweep are
// the settings.
func (s *stage) plan(workload int) (*sweep.Plan, error) {
	e := s.File.experiment(s.workloads[workload], s.settings)
	e.Seeds, e.Model = s.seeds, s.model
	if err := e.Complete(s.CheckOption, s.CheckVariant); err != nil {
		return nil, sweep.Located(s.File.Path, err)
	}
	return sweep.NewPlan(e, filepath.Join(s.Dir, s.dir, sweep.FileName(s.workloads[workload].Name)))
}

// experiment returns the sweep of the given settings, and of the site's own setting, on a workload.
func (f *File) experiment(workload sweep.Variant, settings []Setting) *sweep.Experiment {
	path, _ := workload.Options.Get("workload")
	e := &sweep.Experiment{Name: f.Name, Path: f.Path, Workload: path, Seeds: sweep.Seeds{1}}
	var steps sweep.Options
	for _, o := range workload.Options {
		if o.Name != "workload" {
			steps = append(steps, o)
		}
	}
	if steps = append(steps, f.Transform...); len(steps) > 0 {
		e.Transforms = []sweep.Variant{{Name: workload.Name, Options: steps, Line: workload.Line}}
	}
	var variants []sweep.Variant
	for _, s := range append([]Setting{nil}, settings...) {
		v := sweep.Variant{Name: f.Space.Name(s), Options: f.runOptions(s)}
		if len(v.Options) > 0 {
			v.Line = v.Options[0].Line
		}
		// A setting whose values are all the site's own is the site's own setting.
		if len(variants) == 0 || v.Options.String() != variants[0].Options.String() {
			variants = append(variants, v)
		}
	}
	if f.Sim != nil {
		e.Sim = &sweep.Sim{Policies: variants, Options: f.Sim.Options}
		return e
	}
	cluster := sweep.Variant{Name: "cluster", Options: sweep.Options{{Name: "cluster", Value: f.Slurm.Cluster}}}
	e.Slurm = &sweep.Slurm{Clusters: []sweep.Variant{cluster}, Edits: variants, Options: f.Slurm.Options}
	return e
}

// options returns the changes of a setting, as an edit or as options of simulate.
func (f *File) options(s Setting) sweep.Options {
	var options sweep.Options
	for i, value := range s {
		if value != "" {
			options = append(options, sweep.Option{Name: f.Space[i].Name, Value: value, Line: f.Space[i].line})
		}
	}
	return options
}

// runOptions returns the options of the runs of a setting. On the simulator, they include the site's own values, which
// no other file has. An edit does not need them, because slurm.conf has them.
func (f *File) runOptions(s Setting) sweep.Options {
	options := f.options(s)
	if f.Sim == nil {
		return options
	}
	for i, p := range f.Space {
		_, common := f.Sim.Options.Get(p.Name)
		if p.Now != "" && !common && (s == nil || s[i] == "") && f.Space.used(s, i) {
			options = append(options, sweep.Option{Name: p.Name, Value: p.Now, Line: p.line})
		}
	}
	return options
}

// measure implements [Measure].
func (s *stage) measure(ctx context.Context, trials []Trial) ([]Measurement, error) {
	for _, t := range trials {
		if name := s.File.Space.Name(t.Setting); !s.known[name] {
			s.known[name] = true
			s.settings = append(s.settings, t.Setting)
		}
	}
	makers := make([]*sweep.Maker, len(s.workloads))
	runs := make([]*sweep.Run, len(trials))
	for i, t := range trials {
		workload, seed := s.of(t.Block)
		if makers[workload] == nil {
			plan, err := s.plan(workload)
			if err != nil {
				return nil, err
			}
			makers[workload] = &sweep.Maker{Plan: plan, Program: s.Program, Version: s.Version, Observe: s.Observe}
			if err := makers[workload].Prepare(ctx); err != nil {
				return nil, err
			}
		}
		runs[i] = cellOf(makers[workload].Plan, s.File.Space.Name(t.Setting)).Runs[seed]
	}
	failures := make([]error, len(trials))
	executor := parallel.Executor{Parallel: s.Parallel, GoOn: isOfRun}
	err := executor.Do(ctx, len(trials), func(ctx context.Context, i int) error {
		workload, _ := s.of(trials[i].Block)
		failures[i] = makers[workload].MakeRun(ctx, runs[i])
		return failures[i]
	})
	if err != nil {
		return nil, err
	}
	results := make([]Measurement, len(trials))
	for i := range trials {
		if failures[i] != nil {
			results[i].Failure = failures[i].Error()
			continue
		}
		workload, _ := s.of(trials[i].Block)
		var took float64
		if results[i], took, err = s.File.read(filepath.Join(makers[workload].Plan.Dir, runs[i].Dir)); err != nil {
			return nil, err
		}
		s.seconds += took
	}
	return results, nil
}

// isOfRun reports whether an error means the failure of only one run.
func isOfRun(err error) bool {
	var failed *sweep.RunError
	return errors.As(err, &failed)
}

// cellOf returns the cell of a setting.
func cellOf(p *sweep.Plan, name string) *sweep.Cell {
	for _, c := range p.Cells {
		if c.Coordinates.Edit == name || c.Coordinates.Policy == name {
			return c
		}
	}
	panic(fmt.Sprintf("the plan of %s has no cell for setting %s", p.Dir, name))
}

// read reads the measurement from a complete record, and the real time of its run in seconds.
func (f *File) read(dir string) (m Measurement, seconds float64, err error) {
	record, err := run.Open(dir)
	if err != nil {
		return m, 0, err
	}
	seconds = record.Manifest.WallSeconds
	var groupings []metrics.By
	for _, c := range f.Goal.Constraints {
		if c.By != "" {
			groupings = append(groupings, c.By)
		}
	}
	summary, err := metrics.FromRun(record, metrics.Options{}, groupings...)
	if err != nil {
		return m, 0, fmt.Errorf("reading %s: %w", dir, err)
	}
	if !summary.Valid {
		return Measurement{Failure: fmt.Sprintf("%s is not valid: %s", dir, summary.Doubt)}, seconds, nil
	}
	m = Measurement{Objective: float64(metrics.FigureOf(f.Goal.Metric).Of(&summary.Metrics)),
		Limited: map[Quantity]float64{}, Started: map[Quantity]int{}}
	for i, c := range f.Goal.Constraints {
		figure := metrics.FigureOf(c.Metric)
		add := func(group string, of *metrics.Metrics) {
			if v := figure.Of(of); v.Known() {
				m.Limited[Quantity{i, group}], m.Started[Quantity{i, group}] = float64(v), of.Started
			}
		}
		if c.By == "" {
			add("", &summary.Metrics)
			continue
		}
		for _, g := range summary.Groups[c.By] {
			add(g.Name, &g.Metrics)
		}
	}
	return m, seconds, nil
}
