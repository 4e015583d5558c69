// Package page makes an HTML page, in the form of a report, from the results of `predict evaluate`.
package page

import (
	"fmt"

	"rmreplay/internal/compare"
	"rmreplay/internal/figure"
	"rmreplay/internal/predict/evaluate"
	"rmreplay/internal/quantity"
	"rmreplay/internal/report"
)

// New makes the page. It returns an error if a figure cannot be drawn.
func New(e *evaluate.Evaluation) (*report.Report, error) {
	r := &report.Report{Title: "Predicted " + e.Target.What() + ": " + e.Source,
		Comparison: &compare.Comparison{Valid: true}}
	r.Sections = append(r.Sections, scores(e))
	curve, err := curves(e)
	if err != nil {
		return nil, err
	}
	r.Sections = append(r.Sections, curve, groups(e), methods(e))
	return r, nil
}

// scoreHead returns the heads of a table of scores. The parameter first has the columns before the
// scores.
func scoreHead(unit string, first ...string) []string {
	return append(first, "MAE, "+unit, "RMSE, "+unit, "mean signed difference, "+unit, "R²", "R² of log", "pinball loss, "+
		unit,
		"P10–P90 covers", "its width, "+unit, "underestimated")
}

func row(name string, s *evaluate.Scores) []string {
	three := quantity.Significant[float64]
	percent := func(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }
	loss, coverage, width := three(s.Pinball), percent(s.Coverage), three(s.Width)
	if s.Points() {
		loss, coverage, width = "–", "–", "–"
	}
	return []string{name, three(s.MAE), three(s.RMSE), three(s.MSD), fmt.Sprintf("%.3f", s.R2),
		fmt.Sprintf("%.3f", s.R2Log), loss, coverage, width, percent(s.Underestimated)}
}

// scores shows each model's scores, and also the scores of a random split.
func scores(e *evaluate.Evaluation) report.Section {
	s := report.Section{ID: "scores", Title: "Scores"}
	s.Blocks = append(s.Blocks, report.Block{Kind: "story", Text: fmt.Sprintf(
		"The mean %s of %s is %s %s. Each prediction was made at the job's submission, by a model that "+
			"had used only jobs that had ended by then.",
		e.Target.What(), e.Ran(), quantity.Significant(e.Mean), e.Unit)})
	for _, note := range e.Notes {
		s.Blocks = append(s.Blocks, report.Block{Kind: "warning", Text: note})
	}
	honest := &report.Table{Caption: "In the order of time", Head: scoreHead(e.Unit, "model")}
	random := &report.Table{Caption: "Random split, whose scores are too good: the model learns from the future",
		Head: scoreHead(e.Unit, "model")}
	atOnce := &report.Table{Caption: "Known at once, a bound: as if each value were known at the submission",
		Head: scoreHead(e.Unit, "model")}
	for i := range e.Models {
		m := &e.Models[i]
		honest.Rows = append(honest.Rows, row(string(m.Model), &m.Scores))
		if m.RandomSplit != nil {
			random.Rows = append(random.Rows, row(string(m.Model), m.RandomSplit))
		}
		if m.AtOnce != nil {
			atOnce.Rows = append(atOnce.Rows, row(string(m.Model), m.AtOnce))
		}
	}
	s.Blocks = append(s.Blocks, report.Block{Table: honest})
	for _, beside := range []*report.Table{random, atOnce} {
		if len(beside.Rows) > 0 {
			s.Blocks = append(s.Blocks, report.Block{Table: beside})
		}
	}
	return s
}

// curves shows how the errors and the coverage develop over the log.
func curves(e *evaluate.Evaluation) (report.Section, error) {
	s := report.Section{ID: "curve", Title: "Learning curve"}
	for _, f := range []struct {
		name, title, axis, caption string
		value                      func(*evaluate.Scores) float64
	}{
		{"prediction-error", "Error over the log", "mean absolute error, " + e.Unit,
			"The mean absolute error of the median in each tenth of the jobs.",
			func(s *evaluate.Scores) float64 { return s.MAE }},
		{"prediction-coverage", "Coverage over the log", "share between P10 and P90",
			"The share of jobs in each tenth whose value is between P10 and P90. It should be 0.8.",
			func(s *evaluate.Scores) float64 { return s.Coverage }},
	} {
		var lines []figure.Series
		for i := range e.Models {
			m := &e.Models[i]
			var x, y []float64
			for j := range m.Curve {
				x, y = append(x, m.Curve[j].Day), append(y, f.value(&m.Curve[j].Scores))
			}
			lines = append(lines, figure.NewSeries(string(m.Model), x, [][]float64{y}))
		}
		drawn, err := figure.NewLines(f.name, f.title, "days since the first submission", f.axis, f.caption, lines)
		if err != nil {
			return s, err
		}
		if drawn != nil {
			s.Blocks = append(s.Blocks, report.Block{Figure: drawn})
		}
	}
	return s, nil
}

// groups shows the scores by the experience of users.
func groups(e *evaluate.Evaluation) report.Section {
	s := report.Section{ID: "groups", Title: "By the user's experience"}
	for i := range e.Models {
		m := &e.Models[i]
		t := &report.Table{Caption: string(m.Model), Head: scoreHead(e.Unit, "jobs", "number")}
		for j := range m.Groups {
			g := &m.Groups[j]
			line := row(g.Name, &g.Scores)
			t.Rows = append(t.Rows, append([]string{line[0], fmt.Sprint(g.Scores.Jobs)}, line[1:]...))
		}
		s.Blocks = append(s.Blocks, report.Block{Table: t})
	}
	return s
}

// methods says how to read the numbers.
func methods(e *evaluate.Evaluation) report.Section {
	s := report.Section{ID: "methods", Title: "Methods", Blocks: []report.Block{
		{Text: fmt.Sprintf("Trained models are trained again when the number of ended jobs has grown by %.0f %%. Every job "+
			"that ran counts, even the first job.", 100*e.Growth)},
		{List: []string{
			"The point prediction p of a value y is the median, P50.",
			"MAE: mean |p − y|. RMSE: root of the mean (p − y)². Mean signed difference: mean (p − y). R²: 1 − Σ(y − p)² / " +
				"Σ(y − mean y)². These are the definitions of KNIME's Numeric Scorer.",
			"R² of log: R² of log(1 + y).",
			"Pinball loss: mean of max(q(y − p), (q − 1)(y − p)) for P10, P50 and P90.",
			"Underestimated: the share of jobs whose value is above the median.",
		}},
	}}
	if bounds := e.Bounds(); len(bounds) > 0 {
		s.Blocks = append(s.Blocks, report.Block{Text: "Mean absolute errors of the models and of oracles. The oracles " +
			"use jobs of the same class (user, name, size, limit) that are later or have not ended."}, report.Block{List: bounds})
	}
	return s
}
