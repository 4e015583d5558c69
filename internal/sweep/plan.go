package sweep

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"rmreplay/internal/output"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
)

// The files and directories in the directory of a sweep.
const (
	cellsDir     = "cells"
	workloadsDir = "workloads"
	clustersDir  = "clusters"
	logsDir      = "logs"
	lockFile     = "lock"
	runLocksFile = "runs.lock"
	SummaryFile  = "summary.json" // the table of [Plan.Summarize]
	TableFile    = "summary.txt"  // the same table as text
	scriptFile   = "array.sh"
	arrayFile    = "array.json"
)

// Coordinates are the position of a cell in the grid. A coordinate is empty if the experiment does
// not vary it and does not name it.
type Coordinates struct {
	Engine    string `json:"engine"` // "sim", "slurm" or, for the model of Slurm, "model"
	Policy    string `json:"policy,omitempty"`
	Machine   string `json:"machine,omitempty"`
	Cluster   string `json:"cluster,omitempty"`
	Edit      string `json:"edit,omitempty"`
	Release   string `json:"release,omitempty"`
	Transform string `json:"transform,omitempty"`
}

// Name returns the cell's name: the nonempty coordinates, joined by "_".
func (c Coordinates) Name() string {
	var parts []string
	for _, p := range []string{c.Engine, c.Policy, c.Machine, c.Cluster, c.Edit, c.Release, c.Transform} {
		if p != "" {
			parts = append(parts, slug(p))
		}
	}
	return strings.Join(parts, "_")
}

// Cell is a point of the grid.
type Cell struct {
	Name        string
	Coordinates Coordinates
	// Dir is the cell's directory, relative to the sweep's directory. It is a run record or, if the
	// experiment has several seeds, a directory of realizations.
	Dir  string
	Runs []*Run
}

// Run is a run of a cell.
type Run struct {
	Number int // the run's number in the plan, from 1
	Seed   uint64
	Dir    string // the record's directory, relative to the sweep's directory
	Cell   *Cell

	command  string  // "simulate" or "replay"
	options  Options // without the workload, the edited cluster, the seed and the output
	workload input
	cluster  *input // the edited cluster; nil if the cluster is not edited
	// fingerprint covers everything that the run depends on, except the default Slurm of replay.
	// err says why the run cannot be made.
	fingerprint string
	err         error
}

// Name returns the run's name for users: the cell's name, and the seed if there are several seeds.
func (r *Run) Name() string {
	if len(r.Cell.Runs) == 1 {
		return r.Cell.Name
	}
	return fmt.Sprintf("%s seed %d", r.Cell.Name, r.Seed)
}

// input is a file or directory that runs read. Either the user has made it, or the sweep makes it.
type input struct {
	path string   // absolute, or relative to the sweep's directory
	made *derived // nil for an input of the user
}

// derived is an input that the sweep makes from other files: a transformed workload or an edited
// cluster. Several runs share it.
type derived struct {
	path      string // relative to the sweep's directory
	source    string
	transform Options // options of `workload transform`; or
	edit      Options // settings of parameters
	variant   Variant // the variant that has these options

	fingerprint string
	err         error // why the input could not be made
}

// Open reads an experiment file and plans its runs in the directory dir. It makes all paths
// absolute, because the plan records them and tasks of a job array run in other directories. model
// is [Experiment.Model]. Every error is an error in the input.
func Open(path, dir string, model bool, check CheckOption, together CheckVariant) (*Plan, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("reading experiment: %w", err)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("reading experiment: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("planning: %w", err)
	}
	if err := mayHold(dir); err != nil {
		return nil, fmt.Errorf("planning: %w", err)
	}
	experiment, err := Load(path, model, check)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(experiment.Workload); err != nil {
		return nil, fmt.Errorf("reading experiment: %s: workload: %w", path, err)
	}
	if err := experiment.checkVariants(together); err != nil {
		return nil, located(path, err)
	}
	warnings, err := experiment.checkEdits(targets{})
	if err != nil {
		return nil, located(path, err)
	}
	plan, err := NewPlan(experiment, dir)
	if err != nil {
		return nil, err
	}
	plan.Warnings = warnings
	return plan, nil
}

// mayHold returns an error if dir has contents that are not a sweep. A sweep has a lock file from
// its beginning.
func mayHold(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		return nil // if dir cannot be created, the caller's attempt returns the error
	}
	if _, err := os.Stat(filepath.Join(dir, lockFile)); err != nil {
		return fmt.Errorf("%s: %w, and holds no sweep (want a new or an empty directory)", dir, output.ErrNotEmpty)
	}
	return nil
}

// Plan is the grid of an experiment and the directory for its runs.
type Plan struct {
	Experiment *Experiment
	Dir        string
	Cells      []*Cell
	Runs       []*Run // the runs of all cells, in the order of their numbers
	// Warnings name edits that have no effect, with the file and the line.
	Warnings []string

	derived []*derived
	shared  map[string]*derived // the derived inputs by path
}

// cells returns the number of cells of the grid.
func (e *Experiment) cells() int {
	n := 0
	if e.Sim != nil {
		n += len(e.Sim.Policies) * len(orNone(e.Sim.Machines))
	}
	if e.Slurm != nil {
		n += len(e.Slurm.Clusters) * len(orNone(e.Slurm.Edits)) * len(orNone(e.Slurm.Releases))
	}
	return n * len(orNone(e.Transforms))
}

// NewPlan returns the plan of the grid. The simulator's cells come before the cells of Slurm. Cells
// that differ only in the transform are next to each other. NewPlan fails if two cells have the same
// name.
func NewPlan(e *Experiment, dir string) (*Plan, error) {
	p := &Plan{Experiment: e, Dir: dir, shared: map[string]*derived{}}
	if n := e.cells() * len(e.Seeds); n > maxRuns {
		return nil, fmt.Errorf("planning %s: %d %s (want at most %d)", e.Path, n,
			quantity.Plural(n, "run", "runs"), maxRuns)
	}
	transforms := orNone(e.Transforms)
	if e.Sim != nil {
		for _, policy := range e.Sim.Policies {
			for _, machine := range orNone(e.Sim.Machines) {
				options := slices.Concat(e.Sim.Options, machine.Options, policy.Options)
				for _, t := range transforms {
					p.add(Coordinates{Engine: "sim", Policy: policy.Name, Machine: machine.Name, Transform: t.Name}, simulateCommand,
						options, nil, t)
				}
			}
		}
	}
	if e.Slurm != nil {
		for _, cluster := range e.Slurm.Clusters {
			for _, edit := range orNone(e.Slurm.Edits) {
				edited := p.edited(cluster, edit)
				for _, release := range orNone(e.Slurm.Releases) {
					options := slices.Concat(e.slurmOptions(), cluster.Options, release.Options)
					for _, t := range transforms {
						at := Coordinates{Engine: "slurm", Cluster: cluster.Name, Edit: edit.Name, Release: release.Name,
							Transform: t.Name}
						if e.Model {
							at.Engine = "model"
						}
						p.add(at, e.slurmCommand(), options, edited, t)
					}
				}
			}
		}
	}
	seen := map[string]bool{}
	for _, c := range p.Cells {
		if seen[c.Name] {
			return nil, fmt.Errorf("planning %s: two cells would have the name %s (want different names of variants)", e.Path,
				c.Name)
		}
		seen[c.Name] = true
	}
	return p, nil
}

// orNone returns the axis. For an empty axis it returns one variant without name and options.
func orNone(axis []Variant) []Variant {
	if len(axis) == 0 {
		return []Variant{{}}
	}
	return axis
}

// add appends a cell and its runs.
func (p *Plan) add(at Coordinates, command string, options Options, cluster *input, t Variant) {
	c := &Cell{Name: at.Name(), Coordinates: at}
	c.Dir = filepath.Join(cellsDir, c.Name)
	for i, seed := range p.Experiment.Seeds {
		r := &Run{
			Number: len(p.Runs) + 1, Seed: seed, Dir: c.Dir, Cell: c,
			command: command, options: options, cluster: cluster, workload: p.transformed(t, seed),
		}
		if len(p.Experiment.Seeds) > 1 {
			r.Dir = filepath.Join(c.Dir, run.RealizationDir(i+1))
		}
		c.Runs, p.Runs = append(c.Runs, r), append(p.Runs, r)
	}
	p.Cells = append(p.Cells, c)
}

// transformed returns the workload of a transform. A random transform makes one workload for each
// seed, unless the transform has a seed among its options.
func (p *Plan) transformed(t Variant, seed uint64) input {
	if len(t.Options) == 0 {
		return input{path: p.Experiment.Workload}
	}
	options, name := t.Options, slug(t.Name)
	if _, own := options.Get("seed"); !own && draws(options) {
		options = append(slices.Clone(options), Option{Name: "seed", Value: fmt.Sprint(seed)})
		name += fmt.Sprintf(".seed-%d", seed)
	}
	return p.share(&derived{path: filepath.Join(workloadsDir, name+".jsonl.gz"), source: p.Experiment.Workload,
		transform: options, variant: t})
}

// draws reports whether the result of a transform depends on a seed.
func draws(options Options) bool {
	for _, name := range []string{"jitter", "shake", "time-limit-model", "share"} { // shake is the former name of jitter
		if _, ok := options.Get(name); ok {
			return true
		}
	}
	return false
}

// edited returns the edited cluster, or nil if there is no edit.
func (p *Plan) edited(cluster, edit Variant) *input {
	if len(edit.Options) == 0 {
		return nil
	}
	source, _ := cluster.Options.Get("cluster")
	made := p.share(&derived{path: filepath.Join(clustersDir, slug(cluster.Name)+"_"+slug(edit.Name)), source: source,
		edit: edit.Options, variant: edit})
	return &made
}

// share returns the derived input with the path of d. If there is no such input yet, share adds d.
func (p *Plan) share(d *derived) input {
	if have := p.shared[d.path]; have != nil {
		return input{path: d.path, made: have}
	}
	p.shared[d.path] = d
	p.derived = append(p.derived, d)
	return input{path: d.path, made: d}
}

// seedBySeed returns the runs in the order of their execution: all cells with the first seed, then
// all cells with the second seed, and so on. So even after a sweep that was stopped early, all cells
// can be compared.
func (p *Plan) seedBySeed() []*Run {
	var runs []*Run
	for i := range p.Experiment.Seeds {
		for _, c := range p.Cells {
			runs = append(runs, c.Runs[i])
		}
	}
	return runs
}

// path returns the path of a file in the sweep's directory.
func (p *Plan) path(below string) string {
	if filepath.IsAbs(below) {
		return below
	}
	return filepath.Join(p.Dir, below)
}

// locate returns the path of an input for a command line.
func (p *Plan) locate(in input) string {
	if in.made != nil {
		return p.path(in.path)
	}
	return in.path
}

// arguments returns the arguments of the run's command line.
func (p *Plan) arguments(r *Run) []string {
	args := append([]string{r.command, p.locate(r.workload)}, r.options.arguments()...)
	if r.cluster != nil {
		args = append(args, "--cluster="+p.locate(*r.cluster)) // the last --cluster applies
	}
	return append(args, "--seed="+fmt.Sprint(r.Seed), "--output="+p.path(r.Dir), "--quiet")
}

func (o Options) arguments() []string {
	var args []string
	for _, option := range o {
		args = append(args, "--"+option.Name+"="+option.Value)
	}
	return args
}
