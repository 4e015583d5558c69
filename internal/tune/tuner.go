package tune

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"rmreplay/internal/experiment"
	"rmreplay/internal/metrics"
	"rmreplay/internal/output"
	"rmreplay/internal/sweep"
)

// Tuner makes a tuning: the search, and the proof of its result.
type Tuner struct {
	File     *File
	Dir      string
	Program  string // the path of rmreplay
	Version  string // the version of rmreplay: runs of other versions are repeated
	Parallel int    // number of runs at once; 0 for the number of CPUs
	// Model makes the runs of the search on the model of Slurm's scheduler. The proof runs on Slurm.
	Model bool
	// CheckOption and CheckVariant check options of commands as in a sweep.
	CheckOption  sweep.CheckOption
	CheckVariant sweep.CheckVariant
	// Observe is called for each run, and Step before each step. Both may be nil. Several goroutines
	// call Observe.
	Observe func(sweep.Progress)
	Step    func(Step)
}

// HeldOut is the name of the step that makes the runs of the proof.
const HeldOut = "held out"

// The files in the directory of a tuning.
const (
	ResultFile = "tune.json"
	TextFile   = "tune.txt"
)

// InputError says that the file, or something that it names, is wrong.
type InputError struct{ Err error }

// Error returns the text of the wrapped error.
func (e *InputError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *InputError) Unwrap() error { return e.Err }

// Plan describes the runs that a tuning will make.
type Plan struct {
	Name          string   `json:"name"`
	Parameters    []string `json:"parameters"`
	Workloads     []string `json:"workloads"`
	Blocks        int      `json:"blocks"` // workloads x seeds of the search
	Budget        int      `json:"budget"` // largest number of runs of the search
	Races         int      `json:"races"`  // number of planned races
	HeldOut       []string `json:"held_out"`
	HeldOutSeeds  int      `json:"held_out_seeds"`
	HeldOutRuns   int      `json:"held_out_runs"`
	HeldOutUnseen string   `json:"held_out_unseen"` // what the search does not use: "workloads", or only "seeds"
	SmallestP     float64  `json:"smallest_p"`      // the smallest p-value that the proof can give
}

// Plan returns the plan of the tuning.
func (f *File) Plan() Plan {
	s := f.search()
	p := Plan{
		Name: f.Name, Blocks: s.Blocks, Budget: f.Budget, Races: plannedRaces(len(f.Space)),
		HeldOutSeeds: f.HeldOutSeeds, HeldOutRuns: 2 * f.HeldOutSeeds * len(f.heldOut()), HeldOutUnseen: "workloads",
		SmallestP: Smallest(len(f.heldOut()), f.HeldOutSeeds),
	}
	if len(f.HeldOut) == 0 {
		p.HeldOutUnseen = "seeds"
	}
	for _, q := range f.Space {
		p.Parameters = append(p.Parameters, q.Name)
	}
	for _, w := range f.Workloads {
		p.Workloads = append(p.Workloads, w.Name)
	}
	for _, w := range f.heldOut() {
		p.HeldOut = append(p.HeldOut, w.Name)
	}
	return p
}

// Check checks everything that needs no run: the workloads, the cluster, and whether each
// parameter can have its values. It sets those of the site's own values that the file does not
// have. All its errors are errors of the input.
func (t *Tuner) Check() error {
	f := t.File
	if t.Model && f.Slurm == nil {
		return sweep.Located(f.Path, errors.New("slurm is missing, so there is nothing to search on the model of Slurm "+
			"(want no --policy)"))
	}
	if err := mayHold(t.Dir); err != nil {
		return err
	}
	site, err := f.openSite()
	if err != nil {
		return err
	}
	if site != nil {
		if err := f.ownValues(site); err != nil {
			return sweep.Located(f.Path, err)
		}
	}
	var settings []Setting
	for i := range f.Space {
		p := &f.Space[i]
		values := p.Values
		if p.Kind != Categorical {
			values = []string{p.at(0), p.at(1)}
		}
		for _, v := range values {
			s := make(Setting, len(f.Space))
			s[i] = v
			settings = append(settings, s)
			if err := f.checkEdit(site, s, p.line); err != nil {
				return err
			}
		}
	}
	for _, w := range append(f.Workloads[:len(f.Workloads):len(f.Workloads)], f.HeldOut...) {
		e := f.experiment(w, settings)
		if err := e.Complete(t.CheckOption, t.CheckVariant); err != nil {
			return sweep.Located(f.Path, err)
		}
		if t.Model {
			on := f.experiment(w, settings)
			on.Model = true
			if err := on.Complete(t.CheckOption, t.CheckVariant); err != nil {
				return sweep.Located(f.Path, fmt.Errorf("on the model: %w", err))
			}
		}
		if _, err := os.Stat(e.Workload); err != nil {
			return sweep.Located(f.Path, sweep.ErrorAt(w.Line, "workload: %w", err))
		}
	}
	return nil
}

// mayHold returns an error if dir has contents that are not a tuning.
func mayHold(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		return nil // if dir cannot be created, the caller's attempt returns the error
	}
	if _, err := os.Stat(filepath.Join(dir, searchDir)); err != nil {
		return fmt.Errorf("%s: %w, and holds no tuning (want a new or an empty directory)", dir, output.ErrNotEmpty)
	}
	return nil
}

// cluster returns the path of the site's cluster.
func (f *File) cluster() string {
	if filepath.IsAbs(f.Slurm.Cluster) {
		return f.Slurm.Cluster
	}
	return filepath.Join(filepath.Dir(f.Path), f.Slurm.Cluster)
}

// Run makes the search and the proof. A result without a better setting is not an error. Run
// returns an error in four cases: the input cannot be read, Run was interrupted, a run of the
// site's own setting failed, or the directory cannot be written.
func (t *Tuner) Run(ctx context.Context) (*Result, error) {
	f := t.File
	if t.Model { // the search is useless if the proof cannot run on Slurm
		installation, _ := f.Slurm.Options.Get("slurm")
		without, _ := f.Slurm.Options.Get("no-accounting")
		slurm := experiment.Slurm{Cluster: f.cluster(), Installation: installation, WithoutAccounting: without == "true"}
		if err := experiment.CanReplay(slurm); err != nil {
			return nil, fmt.Errorf("finding the Slurm for the proof: %w", err)
		}
	}
	searching, err := t.newStage(searchDir, t.Model, f.Workloads, 1, f.Seeds)
	if err != nil {
		return nil, err
	}
	defer searching.close()
	s := f.search()
	s.Measure, s.Observe = searching.measure, t.Step
	found, err := s.Run(ctx)
	if err != nil {
		return nil, inputError(err)
	}
	r, err := f.newResult(found)
	if err != nil {
		return nil, err
	}
	if t.Model {
		kept := 0
		if found.Best != found.Site {
			kept = 1
		}
		took := metrics.Float(searching.seconds)
		r.Stages = append(r.Stages, Stage{"search", "model", r.SearchRuns, len(r.Tried) - 1, kept, took})
	}
	if found.Best != found.Site {
		if err := t.prove(ctx, found, r); err != nil {
			return nil, err
		}
	}
	r.Found, r.Text = r.Outcome == Better, r.sentence()
	return r, t.write(r)
}

// inputError marks an error about the input that is found only when the runs of a step are
// prepared.
func inputError(err error) error {
	var input *sweep.InputError
	if errors.As(err, &input) {
		return &InputError{err}
	}
	return err
}

// prove runs the best setting and the site's own setting on the held-out data, and tests the
// difference.
func (t *Tuner) prove(ctx context.Context, found *Found, r *Result) error {
	f := t.File
	proving, err := t.newStage(heldOutDir, false, f.heldOut(), firstHeldOutSeed, f.HeldOutSeeds)
	if err != nil {
		return err
	}
	defer proving.close()
	var trials []Trial
	blocks := len(proving.workloads) * len(proving.seeds)
	for b := range blocks {
		trials = append(trials, Trial{nil, b}, Trial{found.Best.Setting, b})
	}
	if t.Step != nil {
		t.Step(Step{HeldOut, len(trials), found.Runs, f.Budget, 2, blocks})
	}
	results, err := proving.measure(ctx, trials)
	if err != nil {
		return inputError(err)
	}
	var pairs []Pair
	for b := range blocks {
		workload, _ := proving.of(b)
		pair := Pair{Workload: workload, Site: checked(results[2*b]), Best: checked(results[2*b+1])}
		if pair.Site.Failure != "" {
			return fmt.Errorf("the site's own setting on held-out data: %s", pair.Site.Failure)
		}
		pairs = append(pairs, pair)
	}
	r.HeldOutRuns = len(trials)
	r.Proof, r.Outcome = f.Goal.Prove(pairs, f.Seed)
	if t.Model {
		kept := 0
		if r.Outcome == Better {
			kept = 1
		}
		r.Stages = append(r.Stages, Stage{HeldOut, "slurm", len(trials), 1, kept, metrics.Float(proving.seconds)})
	}
	for w := range proving.workloads {
		plan, err := proving.plan(w)
		if err != nil {
			return err
		}
		r.Records = append(r.Records, Record{
			Workload: proving.workloads[w].Name,
			Site:     t.relative(plan, cellOf(plan, found.Site.Name)), Best: t.relative(plan, cellOf(plan, found.Best.Name)),
		})
	}
	return nil
}

// relative returns a cell's directory relative to the tuning's directory.
func (t *Tuner) relative(p *sweep.Plan, c *sweep.Cell) string {
	path := filepath.Join(p.Dir, c.Dir)
	if below, err := filepath.Rel(t.Dir, path); err == nil {
		return below
	}
	return path
}

// write writes the result into the directory.
func (t *Tuner) write(r *Result) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = output.Text(filepath.Join(t.Dir, ResultFile), string(text)+"\n")
	}
	if err == nil {
		err = output.Text(filepath.Join(t.Dir, TextFile), r.Render())
	}
	if err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

// Result is the result of a tuning. Other programs rely on its JSON keys.
type Result struct {
	Name    string  `json:"name"`
	Found   bool    `json:"found"` // whether the held-out data confirmed a better setting
	Outcome Outcome `json:"outcome"`
	Text    string  `json:"text"` // the outcome in a sentence
	Metric  string  `json:"metric"`
	Want    string  `json:"want"` // "lower" or "higher"
	// Setting is the best setting of the search, even if the proof did not confirm it. It is empty
	// if no setting had better results than the site's own setting.
	Setting []Change `json:"setting"`
	// Lines are the lines that the site must write for this setting.
	Lines    []Line   `json:"lines"`
	Warnings []string `json:"warnings"`
	Proof    *Proof   `json:"proof"` // null if there was nothing to prove
	Plan     Plan     `json:"plan"`

	// Stages describe the search on the model and the proof on Slurm: their time, and how many settings remained.
	// Stages is nil if both run on one engine.
	Stages []Stage `json:"stages,omitempty"`

	SearchRuns  int `json:"search_runs"`
	HeldOutRuns int `json:"held_out_runs"`
	// SearchGain is the relative gain in the search. It is biased, because the setting was chosen for
	// its gain.
	SearchGain metrics.Float  `json:"search_gain"`
	Races      []RaceResult   `json:"races"`
	Tried      []TriedSetting `json:"tried"`
	Records    []Record       `json:"records"` // the records of the proof
}

// Stage is a part of a tuning whose search runs on the model of Slurm.
type Stage struct {
	Name     string        `json:"name"` // "search" or "held out"
	On       string        `json:"on"`   // "model" or "slurm"
	Runs     int           `json:"runs"`
	Settings int           `json:"settings"` // tried settings, without the site's own setting
	Kept     int           `json:"kept"`     // how many of the tried settings remained
	Seconds  metrics.Float `json:"run_wall_s"`
}

// Line is a line of a file in the cluster directory, or an option of `rmreplay simulate`.
type Line struct {
	File string `json:"file"`
	Text string `json:"text"`
}

// Change is the value of a parameter in a setting.
type Change struct {
	Parameter string `json:"parameter"`
	Now       string `json:"now"` // the site's own value; empty if it is not known
	// Default is Slurm's default, if Now is empty and the default is known.
	Default string `json:"default,omitempty"`
	Value   string `json:"value"` // empty for the site's own value
	// Dropped is a value that the search found. The search set this value back because the setting has almost the same
	// gain without it.
	Dropped string `json:"dropped,omitempty"`
}

// RaceResult is a [Race].
type RaceResult struct {
	Settings  int `json:"settings"`
	New       int `json:"new"`
	Blocks    int `json:"blocks"`
	Survivors int `json:"survivors"`
	Runs      int `json:"runs"`
}

// TriedSetting is a setting that the search tried.
type TriedSetting struct {
	Name   string            `json:"name"`
	Values map[string]string `json:"values"`
	Blocks int               `json:"blocks"` // number of blocks on which the setting ran
	Mean   metrics.Float     `json:"mean"`   // mean of the objective over these blocks
	// Relative is the setting's gain over the site's own setting on the same blocks.
	Relative metrics.Float `json:"relative_gain"`
	// Broken says that the setting breaks a constraint on these blocks.
	Broken   bool       `json:"constraint_broken"`
	Exceeded []Exceeded `json:"broken_constraints,omitempty"`
	Failure  string     `json:"failure,omitempty"`
}

// Record names the runs of the proof on a workload.
type Record struct {
	Workload string `json:"workload"`
	Site     string `json:"site"`
	Best     string `json:"best"`
}

// newResult returns the result of the search. The proof completes it.
func (f *File) newResult(found *Found) (*Result, error) {
	r := &Result{
		Name: f.Name, Outcome: NothingFound, Metric: f.Goal.Metric, Want: "higher", Plan: f.Plan(), SearchRuns: found.Runs,
		SearchGain: metrics.NoValue(), Setting: []Change{}, Lines: []Line{}, Warnings: []string{}, Races: []RaceResult{},
		Records: []Record{},
	}
	if f.Goal.Lower {
		r.Want = "lower"
	}
	for _, race := range found.Races {
		r.Races = append(r.Races, RaceResult(race))
	}
	for _, t := range found.Tried {
		r.Tried = append(r.Tried, f.triedSetting(found.Site, t))
	}
	if found.Best == found.Site {
		return r, nil
	}
	r.SearchGain = f.triedSetting(found.Site, found.Best).Relative
	for i := range f.Space {
		c := f.change(i)
		c.Value = found.Best.Setting[i]
		if before := found.Before.Setting[i]; c.Value == "" && before != "" {
			c.Dropped = before
		}
		r.Setting = append(r.Setting, c)
	}
	var err error
	r.Lines, r.Warnings, err = f.lines(found.Best.Setting)
	return r, err
}

// change returns a [Change] of a parameter without a new value.
func (f *File) change(parameter int) Change {
	p := &f.Space[parameter]
	c := Change{Parameter: p.Name, Now: p.Now}
	if p.Now == "" && f.Slurm != nil {
		c.Default = p.slurmDefault()
	}
	return c
}

func (f *File) triedSetting(site, t *Tried) TriedSetting {
	s := TriedSetting{Name: t.Name, Values: map[string]string{}, Blocks: len(t.Of), Mean: metrics.NoValue(),
		Relative: metrics.NoValue()}
	for i, value := range t.Setting {
		if value != "" {
			s.Values[f.Space[i].Name] = value
		}
	}
	var blocks []int
	for b := range len(f.Workloads) * f.Seeds {
		m, have := t.Of[b]
		if !have {
			continue
		}
		blocks = append(blocks, b)
		if m.Failure != "" {
			s.Failure = m.Failure
		}
	}
	if s.Failure != "" || len(blocks) == 0 {
		return s
	}
	own, its := mean(site.Of, blocks), mean(t.Of, blocks)
	s.Mean = metrics.Float(its)
	if own != 0 {
		s.Relative = metrics.Float(-worsening(f.Goal.Lower, own, its) / math.Abs(own))
	}
	s.Exceeded = f.Goal.exceeded(site.Of, t.Of, blocks)
	s.Broken = len(s.Exceeded) > 0
	return s
}
