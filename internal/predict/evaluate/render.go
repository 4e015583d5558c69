package evaluate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/predict"
	"rmreplay/internal/quantity"
)

// Render returns the scores as text.
func (e *Evaluation) Render() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, mean %s %s %s\n", e.Source, e.Ran(), e.Target.What(), quantity.Significant(e.Mean), e.Unit)
	head := head(e.Target)
	for _, note := range e.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	b.WriteString("\n" + head)
	for i := range e.Models {
		r := &e.Models[i]
		b.WriteString(r.Scores.line(string(r.Model)))
	}
	beside := func(title string, of func(r *Result) *Scores) {
		for i := range e.Models {
			r := &e.Models[i]
			if s := of(r); s != nil {
				if title != "" {
					fmt.Fprintf(&b, "\n%s, %s\n%s", quantity.Regular(s.Jobs, "job"), title, head)
				}
				b.WriteString(s.line(string(r.Model)))
				title = ""
			}
		}
	}
	beside("a random fifth: random split (too good, because the model also learns from later jobs)",
		func(r *Result) *Scores { return r.RandomSplit })
	beside("each job known at once (a bound: as if each job ended at its submission)",
		func(r *Result) *Scores { return r.AtOnce })
	if bounds := e.Bounds(); len(bounds) > 0 {
		b.WriteString("\nmean absolute errors beside those of oracles, over the same jobs\n")
		for _, line := range bounds {
			b.WriteString(line + "\n")
		}
	}
	b.WriteString(e.sentence())
	return b.String()
}

// Bounds has a line for each figure of the [Floor]: the jobs that it covers, and the errors of the
// oracle and of each model for these jobs.
func (e *Evaluation) Bounds() []string {
	var lines []string
	add := func(jobs int, which, oracle string, mae float64, of func(r *Result) float64) {
		if jobs == 0 {
			return
		}
		line := fmt.Sprintf("%.0f %% of the jobs %s: %s %s %s", 100*float64(jobs)/float64(e.Scored), which, oracle,
			quantity.Significant(mae), e.Unit)
		for i := range e.Models {
			line += fmt.Sprintf(", %s %s %s", e.Models[i].Model, quantity.Significant(of(&e.Models[i])), e.Unit)
		}
		lines = append(lines, line)
	}
	f := e.Floor
	add(f.Classmates, "are not alone in their class", "the median of the class's other jobs", f.ClassMAE,
		func(r *Result) float64 { return r.ClassMAE })
	add(f.Neighbours, "have an earlier job in their class", "the last of these earlier jobs", f.NeighbourMAE,
		func(r *Result) float64 { return r.NeighbourMAE })
	add(f.Twins, "are twins (of one class, with the same ended jobs of their user)", "at least about", f.TwinMAE,
		func(r *Result) float64 { return r.TwinMAE })
	return lines
}

// sentence returns a sentence about the model with the smallest error. It compares the model's error with the error of
// the oracle that uses the other jobs of the class.
func (e *Evaluation) sentence() string {
	if len(e.Models) == 0 || e.Scored == 0 {
		return ""
	}
	best := slices.MinFunc(e.Models, func(a, b Result) int { return cmp.Compare(a.Scores.MAE, b.Scores.MAE) })
	var names []string // of all models with this error
	for i := range e.Models {
		if nearly(e.Models[i].Scores.MAE, best.Scores.MAE) {
			names = append(names, string(e.Models[i].Model))
		}
	}
	text := fmt.Sprintf("\n%s %s least: by %s %s on average, where the mean %s is %s %s", strings.Join(names, ", "),
		quantity.Plural(len(names), "errs", "err"), quantity.Significant(best.Scores.MAE), e.Unit, e.Target.What(),
		quantity.Significant(e.Mean), e.Unit)
	if e.Floor != nil && e.Floor.ClassMAE > 0 {
		text += fmt.Sprintf("; for jobs that are not alone in their class, it errs %.1f times as much as the median of the "+
			"class's other jobs", best.ClassMAE/e.Floor.ClassMAE)
	}
	return text + "\n"
}

// Render returns the scores as text.
func (a *Applied) Render() string {
	if a.Scores.Jobs == 0 {
		return fmt.Sprintf("no job of the workload has a %s, so there are no scores\n", a.Model.Target.What())
	}
	return head(a.Model.Target) + a.Scores.line(string(a.Model.Kind))
}

// head returns the heads of the columns. Heads of errors have the unit.
func head(t predict.Target) string {
	with := func(name string) string { return name + " " + t.Unit() }
	return fmt.Sprintf("%-8s %8s  %8s  %8s  %6s  %6s  %7s  %11s  %8s  %9s  %s\n",
		"model", with("MAE"), with("RMSE"), with("MSD"), "R²", "R² log", "MAE log", with("pinball"), "coverage",
		with("width"), "under")
}

// line returns the scores as a line of the table, without the columns of intervals if there are no
// intervals.
func (s *Scores) line(name string) string {
	three := quantity.Significant[float64]
	loss, width := three(s.Pinball), three(s.Width)
	coverage := fmt.Sprintf("%.1f %%", 100*s.Coverage)
	if s.Points() {
		loss, coverage, width = "-", "-", "-"
	}
	return fmt.Sprintf("%-8s %8s  %8s  %8s  %6.3f  %6.3f  %7.3f  %11s  %8s  %9s  %3.0f %%\n",
		name, three(s.MAE), three(s.RMSE), three(s.MSD), s.R2, s.R2Log, s.MAELog, loss, coverage, width,
		100*s.Underestimated)
}
