package page

import (
	"bytes"
	"strings"
	"testing"

	"rmreplay/internal/predict/evaluate"
	"rmreplay/internal/predict/model"
	"rmreplay/internal/report"
)

// TestPage writes a page with all parts, and a page without the optional parts.
func TestPage(t *testing.T) {
	scores := evaluate.Scores{Jobs: 40, MAE: 1234, R2: 0.512, Coverage: 0.8, Width: 60}
	points := evaluate.Scores{Jobs: 40, MAE: 4321}
	e := &evaluate.Evaluation{
		Source: "log <b>", Scored: 40, Users: 3, Notes: []string{"40 jobs are few"},
		Floor: &evaluate.Floor{ClassMAE: 777, Classmates: 10},
		Models: []evaluate.Result{{
			Model: model.Boost, Scores: scores, Groups: []evaluate.Group{{Name: "first 10 jobs of a user", Scores: scores}},
			Curve: []evaluate.Point{{Day: 1, Scores: scores}, {Day: 2, Scores: scores}}, RandomSplit: &points,
		}},
	}
	text := write(t, e)
	for _, want := range []string{"log &lt;b&gt;", "1234", "0.512", "80.0 %", "40 jobs are few", "25 % of the jobs are not alone in their class: the median of the class&#39;s other jobs 777 ", "4321", ">–<", "Random split", "first 10 jobs of a user", "prediction-error", "prediction-coverage"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q on the page", want)
		}
	}
	if !report.IsPage([]byte(text)) {
		t.Error("the page is not recognized as one of ours")
	}
	e.Models[0].RandomSplit, e.Models[0].Curve = nil, e.Models[0].Curve[:1]
	if text := write(t, e); strings.Contains(text, "Random split") || strings.Contains(text, "prediction-error") {
		t.Error("the page shows what was not measured")
	}
}

func write(t *testing.T, e *evaluate.Evaluation) string {
	t.Helper()
	r, err := New(e)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
