package agreement

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/experiment"
	"rmreplay/internal/hpc"
	"rmreplay/internal/parallel"
	"rmreplay/internal/quantity"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec"
)

// Options are the options of [Measure] and [Compare].
type Options struct {
	// Realizations is the number of replays. Their seeds count up from the seed of the specification. Parallel is the
	// number of runs at once; 0 means one for each CPU.
	Realizations, Parallel int
	// Within is the real time that the measurement may take. Replays that take too long are ended, and only the
	// replayed parts are compared. 0 means no limit.
	Within time.Duration
	// Instants is the number of seconds whose decisions are compared; 0 for all.
	Instants int
	// Dir is the directory for the records. Its subdirectory "slurm" has the records of the replays,
	// and "model" has the records of the model.
	Dir string
	// Show, if not nil, is called with the progress of the work, many times a second. Several
	// goroutines call Show.
	Show func(text string)
}

// The directories of the records.
const (
	slurmDir = "slurm"
	modelDir = "model"
)

// share is the part of [Options.Within] for the replays. The rest is for ending Slurm and for the model.
const share = 0.85

// study makes the runs of a measurement.
type study struct {
	Options
	spec    experiment.Spec // the specification of the first replay
	release string
}

// ErrNothing says that replays ended before there was anything to compare.
var ErrNothing = errors.New("no job was replayed (want a longer --within, or a smaller part of the workload)")

// Measure replays a workload on Slurm, simulates the workload with the model under the same seeds, and reports how
// well the results agree. If Dir has complete replays of the same specification, Measure uses them. Measure returns
// the errors of [experiment.Run], and [ErrNothing].
func Measure(ctx context.Context, spec experiment.Spec, o Options) (*Report, error) {
	s := &study{Options: o, spec: spec, release: install.Series(spec.Slurm.Installation)}
	dirs := make([]string, o.Realizations)
	for i := range dirs {
		dirs[i] = filepath.Join(o.Dir, slurmDir, run.RealizationDir(i+1))
	}
	if err := s.index(slurmDir, len(dirs)); err != nil {
		return nil, err
	}
	err := parallel.Executor{Parallel: o.Parallel}.Do(ctx, len(dirs), func(ctx context.Context, i int) error {
		return s.replay(ctx, i, dirs[i])
	})
	if err != nil {
		return nil, err
	}
	replays := make([]*run.Run, len(dirs))
	for i, dir := range dirs {
		if replays[i], err = run.Open(dir); err != nil {
			return nil, err
		}
	}
	return s.compare(ctx, replays, nil)
}

// Compare reports how well runs of the model agree with existing replays. If models is nil, Compare makes the runs of
// the model; otherwise models must have a run for the seed of each replay. An error names the record that cannot be
// compared.
func Compare(ctx context.Context, replays, models []*run.Run, o Options) (*Report, error) {
	for _, r := range replays {
		if r.Manifest.Engine != "slurm" {
			return nil, unfit("comparing %s: the record was made by %q (want a record of rmreplay replay)", r.Dir,
				r.Manifest.Engine)
		}
	}
	first := replays[0]
	spec, err := experiment.RerunSpec(first)
	if err == nil && spec.Slurm == nil {
		err = unfit("comparing %s: %w", first.Dir, experiment.ErrNoSpec)
	}
	if err != nil {
		return nil, err
	}
	release, err := slurmspec.ParseRelease(first.Manifest.Versions.Slurm)
	if err != nil {
		return nil, unfit("comparing %s: finding the release of Slurm that made it: %w", first.Dir, err)
	}
	s := &study{Options: o, spec: spec, release: release.Series().String()}
	if models == nil {
		return s.compare(ctx, replays, nil)
	}
	pairs := make([]*run.Run, len(replays))
	for i, r := range replays {
		if pairs[i], err = modelFor(r, models); err != nil {
			return nil, err
		}
	}
	return s.compare(ctx, replays, pairs)
}

// unfit is the error of a record that cannot be compared.
func unfit(format string, args ...any) error {
	return &experiment.InputError{Err: fmt.Errorf(format, args...)}
}

// modelFor returns the run of the model that has the seed of a replay.
func modelFor(r *run.Run, models []*run.Run) (*run.Run, error) {
	for _, m := range models {
		switch {
		case m.Manifest.Engine != "sim" || m.Manifest.Policy != experiment.SlurmPolicy:
			return nil, unfit("comparing %s: this is not a run of the model (want a run of rmreplay simulate --policy %s)",
				m.Dir, experiment.SlurmPolicy)
		case m.Manifest.State != run.StateComplete:
			return nil, unfit("comparing %s: %s (want a complete run)", m.Dir, m.Manifest.Doubt())
		case m.Manifest.Seed != r.Manifest.Seed:
		case m.Manifest.Workload.SHA256 != r.Manifest.Workload.SHA256:
			return nil, unfit("comparing %s with %s: they are runs of different workloads (want runs of the same file)", m.Dir,
				r.Dir)
		default:
			return m, nil
		}
	}
	return nil, unfit("comparing %s: no run of the model has its seed %d, which determines the phase of slurmctld "+
		"(want simulate --seed %d)", r.Dir, r.Manifest.Seed, r.Manifest.Seed)
}

// show reports the progress of the work.
func (s *study) show(format string, args ...any) {
	if s.Show != nil {
		s.Show(fmt.Sprintf(format, args...))
	}
}

// index makes the directory of a set of records, and its index.
func (s *study) index(name string, n int) error {
	dir := filepath.Join(s.Dir, name)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("creating %s: %w", dir, err)
	}
	index := run.SetIndex{Command: s.spec.Command, Seed: s.spec.Seed}
	for i := range n {
		one := run.SetEntry{Run: run.RealizationDir(i + 1), Seed: s.spec.Seed + uint64(i)}
		index.Realizations = append(index.Realizations, one)
	}
	return run.WriteSetIndex(dir, index)
}

// replay makes a replay, unless its record exists. It ends a replay that takes too long.
func (s *study) replay(ctx context.Context, i int, dir string) error {
	spec := s.spec
	spec.Seed, spec.Output, spec.Overwrite = spec.Seed+uint64(i), dir, true
	if r, err := run.Open(dir); err == nil && experiment.Made(r, spec) {
		return nil
	}
	bounded, cancel := context.WithCancel(ctx)
	if s.Within > 0 {
		atOnce := parallel.Executor{Parallel: s.Parallel}.AtOnce(s.Realizations)
		waves := (s.Realizations + atOnce - 1) / atOnce
		cancel()
		bounded, cancel = context.WithTimeout(ctx, time.Duration(share*float64(s.Within))/time.Duration(waves))
	}
	defer cancel()
	hooks := experiment.Hooks{Progress: func(p replay.Progress) {
		if i == 0 {
			s.show("replaying on Slurm: at %s %d %s ended in the first of %d replays", hpc.Unix(p.Now.UnixSeconds()), p.Ended,
				quantity.Plural(p.Ended, "job has", "jobs have"), s.Realizations)
		}
	}}
	_, err := experiment.Run(bounded, spec, hooks)
	if err == nil || ctx.Err() != nil || bounded.Err() == nil {
		return err
	}
	r, opened := run.Open(dir)
	if opened != nil || r.Manifest.State != run.StateInterrupted || r.Manifest.VirtualEnd == 0 {
		return fmt.Errorf("replaying on Slurm within %v: %w", s.Within, ErrNothing)
	}
	return nil
}

// compare compares replays with runs of the model, and makes the runs of the model if models is
// nil.
func (s *study) compare(ctx context.Context, replays, models []*run.Run) (*Report, error) {
	modelled, lacks := experiment.Modelled(s.spec, s.release)
	made := models == nil
	if made {
		models = make([]*run.Run, len(replays))
		if err := s.index(modelDir, len(replays)); err != nil {
			return nil, err
		}
	}
	lockstep := make([]*Lockstep, len(replays))
	err := parallel.Executor{Parallel: s.Parallel}.Do(ctx, len(replays), func(ctx context.Context, i int) (err error) {
		spec := modelled
		spec.Seed, spec.Overwrite = replays[i].Manifest.Seed, true
		spec.Output = filepath.Join(s.Dir, modelDir, run.RealizationDir(i+1))
		if made {
			s.show("simulating with seed %d", spec.Seed)
			if _, err := experiment.Run(ctx, spec, experiment.Hooks{}); err != nil {
				return fmt.Errorf("simulating: %w", err)
			}
			if models[i], err = run.Open(spec.Output); err != nil {
				return err
			}
		}
		s.show("comparing decisions with seed %d", spec.Seed)
		lockstep[i], err = follow(ctx, spec, replays[i], s.Instants)
		return err
	})
	if err != nil {
		return nil, err
	}
	return newReport(replays, models, lockstep, lacks)
}

// newReport compares the runs.
func newReport(replays, models []*run.Run, lockstep []*Lockstep, lacks []string) (*Report, error) {
	first := &replays[0].Manifest
	r := &Report{
		Workload: first.Workload.Path, Slurm: first.Versions.Slurm, Lacks: lacks, Runs: []Whole{},
	}
	all := hpc.Never // the instant up to which all runs can be compared
	var slurm, model []*history
	for i := range replays {
		a, err := historyOf(replays[i])
		if err != nil {
			return nil, err
		}
		b, err := historyOf(models[i])
		if err != nil {
			return nil, err
		}
		end := until(&replays[i].Manifest)
		all = min(all, end)
		w := compareWhole(replays[i].Manifest.Seed, a, b, end)
		w.explain(lockstep[i])
		r.Runs = append(r.Runs, w)
		r.Whole.join(&w)
		r.Lockstep.join(lockstep[i])
		slurm, model = append(slurm, a), append(model, b)
		r.Jobs = max(r.Jobs, w.Starts.All+w.Neither+w.Preset)
		r.ReplaySeconds += replays[i].Manifest.WallSeconds
		r.ModelSeconds += models[i].Manifest.WallSeconds
		r.doubt(&replays[i].Manifest)
		r.lacking(&models[i].Manifest)
	}
	if len(replays) == 1 {
		r.Lockstep.recorded, r.Lockstep.model = lockstep[0].recorded, lockstep[0].model
	}
	r.Lockstep.finish()
	if r.Whole.Until = ""; all != hpc.Never {
		r.Whole.Until = all.String()
	}
	r.Submissions, r.Of = first.Jobs.Submitted, first.Workload.Jobs
	r.Begin = max(first.WindowStart, first.VirtualStart).String()
	r.Figures = figuresOf(slurm, model, all)
	if r.Jobs == 0 {
		return nil, ErrNothing
	}
	r.judge()
	return r, nil
}

// doubt sets [Report.Doubt] if a replay is not valid for a reason other than its early end.
func (r *Report) doubt(m *run.Manifest) {
	if m.Valid || m.State == run.StateInterrupted || r.Doubt != "" {
		return
	}
	r.Doubt = fmt.Sprintf("the replay with seed %d is not valid: %s", m.Seed, m.Doubt())
}

// lacking adds to [Report.Lacks] what the model lacks according to the record of its run.
func (r *Report) lacking(m *run.Manifest) {
	for _, w := range m.Warnings {
		if text, is := strings.CutPrefix(w.Text, experiment.PartialPrefix); is {
			for one := range strings.SplitSeq(text, "; ") {
				if !slices.Contains(r.Lacks, one) {
					r.Lacks = append(r.Lacks, one)
				}
			}
		}
	}
}
