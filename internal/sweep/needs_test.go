package sweep

import (
	"math"
	"slices"
	"strings"
	"testing"

	"rmreplay/internal/metrics"
	"rmreplay/internal/stats"
)

// summaryOf returns a summary of cells with a mean wait for each complete run.
func summaryOf(cells ...[]float64) *Summary {
	s := &Summary{}
	for _, values := range cells {
		c := CellSummary{Cell: string(rune('a' + len(s.Cells)))}
		for _, v := range values {
			c.Runs = append(c.Runs, RunSummary{State: stateComplete, Valid: true, Metrics: map[string]metrics.Float{"mean_wait_s": metrics.Float(v), "p90_wait_s": metrics.NoValue(), "median_wait_s": metrics.NoValue(),
				"mean_bounded_slowdown": 2, "utilization": 0, "makespan_s": metrics.Float(v)}})
		}
		c.Runs = append(c.Runs, RunSummary{State: stateFailed}, RunSummary{State: stateNotRun})
		s.Cells = append(s.Cells, c)
	}
	return s
}

func TestNeeds(t *testing.T) {
	s := summaryOf([]float64{190, 210}, []float64{290, 300, 310}, []float64{250})
	s.Needs = s.needs(10)
	if len(s.Needs) != 4 { // no run has a p90 wait
		t.Fatalf("%d figures: %+v", len(s.Needs), s.Needs)
	}
	wait := s.Needs[0]
	deviation := math.Sqrt((200.0 + 200.0) / 3)
	if wait.Key != "mean_wait_s" || wait.Baseline != "a" || wait.Mean != 200 || wait.Freedom != 3 || wait.Seeds != 10 || math.Abs(float64(wait.Deviation)-deviation) > 1e-9 {
		t.Errorf("mean wait %+v", wait)
	}
	for seeds, difference := range map[int]float64{wait.For10: 20, wait.For5: 10, 10: float64(wait.Detectable)} {
		if p := stats.Power(seeds, seeds, difference/deviation, 0.05); p < 0.7999 {
			t.Errorf("%d seeds find a difference of %v s with probability %v", seeds, difference, p)
		}
		if p := stats.Power(seeds-1, seeds-1, difference/deviation, 0.05); p >= 0.8 {
			t.Errorf("%d seeds find a difference of %v s, too", seeds-1, difference)
		}
	}
	if slowdown := s.Needs[1]; slowdown.Deviation != 0 || slowdown.For5 != 4 || slowdown.Detectable != 0 {
		t.Errorf("a slowdown that does not vary: %+v", slowdown)
	}
	if use := s.Needs[2]; use.Mean != 0 || use.For10 != 0 || use.For5 != 0 {
		t.Errorf("a mean of 0: %+v", use)
	}
	text := s.Render()
	for _, want := range []string{"for 10 %", "  median wait       p90 wait  bounded slowdown  ", "The true deviation is 0.57 to 3.7 times that of these runs (95 %, 3 degrees of freedom)"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if needs := summaryOf([]float64{1}, []float64{2}, nil).needs(1); needs != nil {
		t.Errorf("from single runs: %+v", needs)
	}
	// With three runs in each cell, even the largest difference is not significant at 5 %.
	few := summaryOf([]float64{1, 2, 3}, []float64{100, 101, 102})
	few.Needs = few.needs(3)
	if text := few.Render(); few.Needs[0].Detectable.Known() || !strings.Contains(text, "nothing, too few") || few.Needs[0].For10 < 4 {
		t.Errorf("found with 3 seeds: %+v in\n%s", few.Needs[0], text)
	}
	zero := summaryOf([]float64{-1, 1})
	if n := zero.needs(1)[0]; n.For10 != 0 || n.Detectable.Known() {
		t.Errorf("of a mean of 0: %+v", n)
	}
}

// Runs of a cell with equal metrics have the same schedule. They show nothing about chance, so the seeds are those that
// the other cells show.
func TestNeedsOfCellsWithOneSchedule(t *testing.T) {
	only := summaryOf([]float64{200, 200}, []float64{300, 300, 300}, []float64{250})
	only.Needs = only.needs(3)
	if text := only.Render(); only.Needs != nil || !strings.Contains(text, "\nIn 2 of 3 cells, such as a, all runs have the same schedule: ") {
		t.Errorf("%+v in\n%s", only.Needs, text)
	}
	varied := []float64{200, 210, 190}
	mixed := summaryOf([]float64{200, 200}, varied)
	mixed.Needs = mixed.needs(3)
	wait, alone := mixed.Needs[0], summaryOf(varied).needs(3)[0]
	if alone.Baseline = "b"; wait.For10 != alone.For10 || wait.Deviation != alone.Deviation || wait.Baseline != "b" {
		t.Errorf("%+v, want %+v", wait, alone)
	}
	if text := mixed.Render(); !strings.Contains(text, "\nIn 1 of 2 cells, such as a, ") {
		t.Error(text)
	}
}

// TestDifferentJobs: the text says that cells have different jobs, and that a cell completes fewer of its own jobs.
func TestDifferentJobs(t *testing.T) {
	const fewer, different = "completes fewer of its jobs", "the cells have different jobs (1033 to 1090)"
	for _, c := range []struct {
		jobs, completed    int
		fewer, differently bool
	}{{1090, 955, false, true}, {1033, 905, false, false}, {1033, 880, true, false}, {1090, 905, true, true}} {
		s := summaryOf([]float64{300, 310}, []float64{300, 310})
		for i := range s.Cells {
			one := &s.Cells[i]
			for j := range one.Runs[:2] {
				one.Runs[j].Seed, one.Runs[j].Jobs, one.Runs[j].Metrics["completed_jobs"] = uint64(j), 1033, 905
				if i == 1 {
					one.Runs[j].Jobs, one.Runs[j].Metrics["completed_jobs"] = c.jobs, metrics.Float(c.completed)
				}
			}
			one.Metrics = means(one.Runs)
		}
		if text := s.Render(); strings.Contains(text, fewer) != c.fewer || strings.Contains(text, different) != c.differently {
			t.Errorf("%+v:\n%s", c, text)
		}
	}
}

// A cell with a run that is not valid is never a baseline, and its runs count in no deviation.
func TestNeedsWithoutInvalidCells(t *testing.T) {
	sound := []float64{300, 310, 305}
	s, alone := summaryOf([]float64{250, 300, 350}, sound), summaryOf(sound).needs(5)[0]
	s.Cells[0].Runs[1].Valid = false
	s.Needs = s.needs(5)
	if alone.Baseline = "b"; s.Needs[0] != alone {
		t.Errorf("with a cell that is not valid %+v, without %+v", s.Needs[0], alone)
	}
	if text := s.Render(); !strings.Contains(text, "\nCells that are NOT VALID do not count here.\n") {
		t.Error(text)
	}
	s.Cells[1].Runs[1].Valid = false
	if s.Needs = s.needs(5); s.Needs != nil {
		t.Errorf("of cells that are not valid: %+v", s.Needs)
	}
	if text := s.Render(); !strings.Contains(text, "\nWithout the cells that are NOT VALID, no cell shows how many seeds ") {
		t.Error(text)
	}
}

// The last line has the fewest degrees of freedom of all figures, and says so if others have more.
func TestNeedsNamesTheFewestDegrees(t *testing.T) {
	s := summaryOf([]float64{200, 210})
	s.Needs = s.needs(10)
	if text := s.Render(); !strings.Contains(text, "(95 %, 1 degree of freedom).") {
		t.Error(text)
	}
	s.Needs[0].Freedom = 8
	if text := s.Render(); !strings.Contains(text, "(95 %, 1 degree of freedom; other lines have more, and a narrower interval).") {
		t.Error(text)
	}
}

// The seeds are those of a baseline with its own mean, and with the deviation of cells of its size. Cells with much
// longer waits do not hide it.
func TestNeedsOfCellsOfDifferentSizes(t *testing.T) {
	short := [][]float64{{2600, 2750, 2640}, {3100, 3350, 3000}}
	long := []float64{15000, 15100, 15050}
	alone, all := summaryOf(short...).needs(5)[0], summaryOf(long, short[0], short[1], long)
	all.Needs = all.needs(5)
	wait := all.Needs[0]
	if alone.Baseline != "a" || wait.Baseline != "b" {
		t.Errorf("baselines %s and %s", alone.Baseline, wait.Baseline)
	}
	if alone.Baseline = wait.Baseline; wait != alone || wait.For10 < 5 {
		t.Errorf("with cells of another size %+v, without %+v", wait, alone)
	}
	for line := range strings.Lines(all.Render()) {
		if f := strings.Fields(line); len(f) > 3 && f[0] == "mean" && f[2] == "2663.3" && f[len(f)-1] == "b" {
			return
		}
	}
	t.Errorf("no line for the baseline in\n%s", all.Render())
}

// A cell with a run that is not valid is marked in its row, and all valid cells are above it.
func TestInvalidCellsComeLast(t *testing.T) {
	cell := func(name string, valid ...bool) CellSummary {
		c := CellSummary{Cell: name, Metrics: map[string]metrics.Float{"mean_wait_s": 1}}
		for _, v := range valid {
			c.Runs = append(c.Runs, RunSummary{Dir: name, State: stateComplete, Valid: v})
		}
		return c
	}
	s := Summary{Runs: 5, Cells: []CellSummary{cell("best", true, false), cell("good", true), cell("worst", false), cell("fair", true)}}
	var order []string
	for line := range strings.Lines(s.Render()) {
		name, _, _ := strings.Cut(line, " ")
		if strings.Contains(line, "1.0 s") {
			order = append(order, name)
			if marked := strings.HasSuffix(line, "  NOT VALID\n"); marked != (name == "best" || name == "worst") {
				t.Errorf("%q", line)
			}
		}
	}
	if want := []string{"good", "fair", "best", "worst"}; !slices.Equal(order, want) {
		t.Errorf("order %q, want %q", order, want)
	}
}

// Rejected jobs have no waits, so a table with rejected jobs counts the rejected jobs in each row and says how they
// affect the other columns. A table without rejected jobs lacks this column.
func TestRejectedJobsAreInTheTable(t *testing.T) {
	cell := func(name string, rejected metrics.Float) CellSummary {
		return CellSummary{Cell: name, Metrics: map[string]metrics.Float{"mean_wait_s": 1, "rejected": rejected}}
	}
	s := Summary{Cells: []CellSummary{cell("as-is", 0), cell("shorter", 31), cell("varies", 30.5), {Cell: "unmade"}}}
	last := map[string]string{}
	for line := range strings.Lines(s.Render()) {
		fields := strings.Fields(line)
		last[fields[0]] = fields[len(fields)-1]
	}
	for name, want := range map[string]string{"cell": "rejected", "as-is": "0", "shorter": "31", "varies": "30.50", "unmade": "-", "rejected": "less"} {
		if last[name] != want {
			t.Errorf("%s ends in %q, want %q:\n%s", name, last[name], want, s.Render())
		}
	}
	if s.Cells = s.Cells[:1]; strings.Contains(s.Render(), "rejected") {
		t.Errorf("a column of zeros:\n%s", s.Render())
	}
}
