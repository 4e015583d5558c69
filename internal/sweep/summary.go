package sweep

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"rmreplay/internal/metrics"
	"rmreplay/internal/output"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
)

// Summary is the table of a sweep. Its file is summary.json. It does not depend on the time or
// the speed of the runs.
type Summary struct {
	Name    string        `json:"name"`
	Runs    int           `json:"runs"`
	Failed  int           `json:"failed"`  // runs that failed
	NotRun  int           `json:"not_run"` // runs that did not begin or did not end
	Invalid int           `json:"invalid"` // complete runs that are not valid
	Cells   []CellSummary `json:"cells"`   // in the order of the grid
	// Needs says how many seeds are needed to find differences between cells; nil if no cell has two
	// complete runs with different schedules.
	Needs []Need `json:"seeds_needed,omitempty"`
	// Notes are what transforms say about the workloads that they made.
	Notes []string `json:"notes,omitempty"`
}

// CellSummary is a row of the table.
type CellSummary struct {
	Cell        string       `json:"cell"`
	Dir         string       `json:"dir"` // the cell's directory, relative to the sweep's directory
	Coordinates Coordinates  `json:"coordinates"`
	Runs        []RunSummary `json:"runs"`
	// Metrics are the means over the complete runs, with the keys of [RunSummary.Metrics].
	Metrics map[string]metrics.Float `json:"metrics,omitempty"`
}

// RunSummary is the state and the metrics of a run.
type RunSummary struct {
	Dir   string `json:"dir"`
	Seed  uint64 `json:"seed"`
	State string `json:"state"` // "complete", "failed" or "not run"
	Valid bool   `json:"valid"`
	Error string `json:"error,omitempty"` // why the run failed
	Doubt string `json:"doubt,omitempty"` // why the run is not valid
	Jobs  int    `json:"jobs,omitempty"`  // jobs of a complete run, every task of an array as a job
	// Metrics are the run's metrics by their keys: all figures of package metrics that the run has,
	// including the figures of nodes, fairness and feedback.
	Metrics map[string]metrics.Float `json:"metrics,omitempty"`
}

// The states of a run in a summary.
const (
	stateComplete = string(run.StateComplete)
	stateFailed   = string(run.StateFailed)
	stateNotRun   = "not run"
)

// Summarize reads the records of all runs. The caller must call [Maker.Prepare] or [Maker.Check]
// first. Summarize fails if it cannot read a complete record.
func (p *Plan) Summarize() (*Summary, error) {
	s := &Summary{Name: p.Experiment.Name, Runs: len(p.Runs)}
	for _, c := range p.Cells {
		row := CellSummary{Cell: c.Name, Dir: c.Dir, Coordinates: c.Coordinates}
		for _, r := range c.Runs {
			one, err := p.summarizeRun(r)
			if err != nil {
				return nil, err
			}
			switch {
			case one.State == stateFailed:
				s.Failed++
			case one.State == stateNotRun:
				s.NotRun++
			case !one.Valid:
				s.Invalid++
			}
			row.Runs = append(row.Runs, one)
		}
		row.Metrics = means(row.Runs)
		s.Cells = append(s.Cells, row)
	}
	s.Needs = s.needs(len(p.Experiment.Seeds))
	for _, d := range p.derived {
		s.Notes = append(s.Notes, readStatus(p.path(d.path)).Notes...)
	}
	return s, nil
}

func (p *Plan) summarizeRun(r *Run) (RunSummary, error) {
	one := RunSummary{Dir: r.Dir, Seed: r.Seed, State: stateNotRun}
	record := p.complete(r)
	if record == nil {
		s := readStatus(p.path(r.Dir))
		if r.err != nil {
			s = status{Fingerprint: r.fingerprint, Error: r.err.Error()}
		}
		if s.Fingerprint == r.fingerprint && s.Error != "" {
			one.State, one.Error = stateFailed, s.Error
		}
		return one, nil
	}
	m, err := metrics.FromRun(record, metrics.Options{})
	if err != nil {
		return one, fmt.Errorf("reading %s: %w", filepath.Join(p.Dir, r.Dir), err)
	}
	one.State, one.Valid, one.Doubt = stateComplete, m.Valid, record.Manifest.Doubt()
	one.Jobs, one.Metrics = m.Jobs+m.Rejected, map[string]metrics.Float{}
	for _, f := range slices.Concat(metrics.Figures, metrics.NodeFigures) {
		one.Metrics[f.Key] = f.Of(&m.Metrics)
	}
	for _, f := range metrics.FairnessFigures {
		one.Metrics[f.Key] = f.Of(m.Fairness[f.By])
	}
	if m.Feedback != nil {
		for _, f := range metrics.FeedbackFigures {
			one.Metrics[f.Key] = f.Of(m.Feedback)
		}
	}
	return one, nil
}

// means returns the means over the complete runs. A figure that is missing in one run has no
// mean.
func means(runs []RunSummary) map[string]metrics.Float {
	var sums map[string]metrics.Float
	n := 0
	for _, r := range runs {
		if r.State != stateComplete {
			continue
		}
		n++
		if sums == nil {
			sums = map[string]metrics.Float{}
		}
		for key, v := range r.Metrics {
			sums[key] += v
		}
	}
	for key := range sums {
		sums[key] /= metrics.Float(n)
	}
	return sums
}

// column is a figure in the text table, by its key in the JSON.
type column struct{ key, title string }

// width returns the width of the column in the table.
func (c *column) width() int { return max(13, len(c.title)) }

// columns are the figures in the text table. The JSON has all figures.
var columns = []column{
	{"mean_wait_s", "mean wait"},
	{"median_wait_s", "median wait"},
	{"p90_wait_s", "p90 wait"},
	{"mean_bounded_slowdown", "bounded slowdown"},
	{"utilization", "utilization"},
	{"makespan_s", "makespan"},
}

// rejected is the column of rejected jobs. The column rejected is shown only if a run rejects jobs. completed is the
// column of completed jobs. The column completed is shown only if the cells' numbers differ by more than fewCompleted
// of the largest number.
var (
	rejected  = column{"rejected", "rejected"}
	completed = column{"completed_jobs", "completed"}
)

const fewCompleted = 0.01

// shown returns the columns of the table.
func (s *Summary) shown() []column {
	shown := slices.Clone(columns)
	rejects := func(c CellSummary) bool { return c.Metrics[rejected.key] > 0 }
	if slices.ContainsFunc(s.Cells, rejects) {
		shown = append(shown, rejected)
	}
	var counts []metrics.Float
	for _, c := range s.Cells {
		if n, ok := c.Metrics[completed.key]; ok && n.Known() {
			counts = append(counts, n)
		}
	}
	if len(counts) > 0 && slices.Min(counts) < (1-fewCompleted)*slices.Max(counts) {
		shown = append(shown, completed)
	}
	return shown
}

// shares returns the smallest and the largest share of its jobs that a cell completes.
func (s *Summary) shares() (least, most float64) {
	least = 1
	for _, c := range s.Cells {
		jobs, done := 0, metrics.Float(0)
		for _, r := range c.Runs {
			if n, ok := r.Metrics[completed.key]; ok && n.Known() && r.Jobs > 0 {
				jobs, done = jobs+r.Jobs, done+n
			}
		}
		if jobs > 0 {
			share := float64(done) / float64(jobs)
			least, most = min(least, share), max(most, share)
		}
	}
	return least, most
}

// jobs returns the numbers of jobs of the first seed with which cells have different numbers, in ascending order.
func (s *Summary) jobs() []int {
	counts := map[uint64][]int{}
	for _, c := range s.Cells {
		for _, r := range c.Runs {
			if r.State == stateComplete {
				counts[r.Seed] = append(counts[r.Seed], r.Jobs)
			}
		}
	}
	for _, seed := range slices.Sorted(maps.Keys(counts)) {
		slices.Sort(counts[seed])
		if distinct := slices.Compact(counts[seed]); len(distinct) > 1 {
			return distinct
		}
	}
	return nil
}

// Render returns the text table. It has a line for each cell, with means over its seeds. Cells with
// a run that is not valid come last and are marked, even if their figures are good.
func (s *Summary) Render() string {
	width := utf8.RuneCountInString("cell")
	for _, c := range s.Cells {
		width = max(width, utf8.RuneCountInString(c.Cell))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-*s  %8s", width, "cell", "runs")
	shown := s.shown()
	for _, col := range shown {
		fmt.Fprintf(&b, "  %*s", col.width(), col.title)
	}
	b.WriteString("\n")
	for _, c := range s.validFirst() {
		done := 0
		for _, r := range c.Runs {
			if r.State == stateComplete {
				done++
			}
		}
		fmt.Fprintf(&b, "%-*s  %8s", width, c.Cell, fmt.Sprintf("%d/%d", done, len(c.Runs)))
		for _, col := range shown {
			v, ok := c.Metrics[col.key]
			if !ok {
				v = metrics.Float(math.NaN())
			}
			fmt.Fprintf(&b, "  %*s", col.width(), figure(col.key, v))
		}
		if !c.valid() {
			b.WriteString("  NOT VALID")
		}
		b.WriteString("\n")
	}
	if slices.Contains(shown, rejected) {
		b.WriteString("rejected jobs (for each run) have no waits: a cell that rejects more may seem to wait less\n")
	}
	least, most := s.shares()
	if least < (1-fewCompleted)*most {
		b.WriteString("a cell that completes fewer of its jobs may seem to wait less: its other jobs never started, were " +
			"killed or failed (rmreplay compare of two cells says how many processor hours these used)\n")
	}
	if counts := s.jobs(); len(counts) > 1 {
		fmt.Fprintf(&b, "the cells have different jobs (%d to %d): their waits are not of the same jobs\n", counts[0],
			counts[len(counts)-1])
	}
	s.renderNeeds(&b)
	for _, note := range s.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	s.renderBad(&b)
	return b.String()
}

// valid reports whether all complete runs of a cell are valid.
func (c *CellSummary) valid() bool {
	return !slices.ContainsFunc(c.Runs, func(r RunSummary) bool { return r.State == stateComplete && !r.Valid })
}

// validFirst returns the cells with valid cells first, and otherwise in the order of the grid.
func (s *Summary) validFirst() []CellSummary {
	list := slices.Clone(s.Cells)
	slices.SortStableFunc(list, func(a, b CellSummary) int {
		switch {
		case a.valid() == b.valid():
			return 0
		case a.valid():
			return -1
		}
		return 1
	})
	return list
}

func figure(key string, v metrics.Float) string {
	switch {
	case !v.Known():
		return "-"
	case metrics.IsShare(key):
		return fmt.Sprintf("%.1f %%", 100*v)
	case key == rejected.key, key == completed.key:
		return v.Text()
	case strings.HasSuffix(key, "_s"):
		return fmt.Sprintf("%.1f s", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// renderBad lists the failed runs and the runs that are not valid. It also counts the missing runs.
func (s *Summary) renderBad(b *strings.Builder) {
	for _, c := range s.Cells {
		var invalid []RunSummary
		for _, r := range c.Runs {
			switch {
			case r.State == stateFailed:
				fmt.Fprintf(b, "failed: %s: %s\n", r.Dir, r.Error)
			case r.State == stateComplete && !r.Valid:
				invalid = append(invalid, r)
			}
		}
		if n := len(invalid); n > 0 {
			fmt.Fprintf(b, "not valid: %d of %d %s of %s: %s (all warnings: rmreplay metrics %s, in the sweep's directory)\n",
				n, len(c.Runs), quantity.Plural(len(c.Runs), "run", "runs"), c.Cell, invalid[0].Doubt, invalid[0].Dir)
		}
	}
	if s.NotRun > 0 {
		fmt.Fprintf(b, "%d of %d %s not been made\n", s.NotRun, s.Runs, quantity.Plural(s.Runs, "run has", "runs have"))
	}
}

// WriteSummary writes the summary as JSON and as text into the sweep's directory.
func (p *Plan) WriteSummary(s *Summary) error {
	if err := writeJSON(p.path(SummaryFile), s); err != nil {
		return fmt.Errorf("writing the summary: %w", err)
	}
	if err := output.Text(p.path(TableFile), s.Render()); err != nil {
		return fmt.Errorf("writing the summary: %w", err)
	}
	return nil
}
