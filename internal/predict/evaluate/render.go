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
	fmt.Fprintf(&b, "%s: %s, mean %s %.0f %s\n", e.Source, e.Ran(), e.Target.What(), e.Mean, e.Unit)
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
	beside("a random fifth: random split (not honest: the model learns from the future of these jobs, too)",
		func(r *Result) *Scores { return r.RandomSplit })
	beside("each job known at once (a bound: as if it ended when it is submitted)",
		func(r *Result) *Scores { return r.AtOnce })
	f := e.Floor
	fmt.Fprintf(&b, "\nan oracle that knows the median of each job's class: mean absolute error %.0f %s\n", f.ClassMAE,
		e.Unit)
	if f.Neighbours > 0 {
		fmt.Fprintf(&b, "an oracle that knows the class's job before: %.0f %s, for the %.0f %% of the jobs that have one\n",
			f.NeighbourMAE, e.Unit, 100*f.Resubmitted)
	}
	if f.Twins > 0 {
		fmt.Fprintf(&b, "%d twins (of one class, with the same ended jobs of their user): at least about %.0f %s", f.Twins,
			f.TwinMAE, e.Unit)
		for i := range e.Models {
			fmt.Fprintf(&b, ", %s %.0f %s", e.Models[i].Model, e.Models[i].TwinMAE, e.Unit)
		}
		b.WriteString("\n")
	}
	b.WriteString(e.sentence())
	return b.String()
}

// sentence says which model has the smallest error, and how far this error is from the bound.
func (e *Evaluation) sentence() string {
	if len(e.Models) == 0 || e.Scored == 0 {
		return ""
	}
	best := slices.MinFunc(e.Models, func(a, b Result) int { return cmp.Compare(a.Scores.MAE, b.Scores.MAE) })
	text := fmt.Sprintf("\n%s errs least: by %.0f %s on average, where the mean %s is %.0f %s", best.Model,
		best.Scores.MAE, e.Unit, e.Target.What(), e.Mean, e.Unit)
	if e.Floor != nil && e.Floor.ClassMAE > 0 {
		text += fmt.Sprintf("; that is %.1f times the error of the oracle that knows the median of each class",
			best.Scores.MAE/e.Floor.ClassMAE)
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
	loss, width := fmt.Sprintf("%.0f", s.Pinball), fmt.Sprintf("%.0f", s.Width)
	coverage := fmt.Sprintf("%.1f %%", 100*s.Coverage)
	if s.Points() {
		loss, coverage, width = "-", "-", "-"
	}
	return fmt.Sprintf("%-8s %8.0f  %8.0f  %8.0f  %6.3f  %6.3f  %7.3f  %11s  %8s  %9s  %3.0f %%\n",
		name, s.MAE, s.RMSE, s.MSD, s.R2, s.R2Log, s.MAELog, loss, coverage, width, 100*s.Underestimated)
}
