package evaluate

import (
	"slices"
	"strings"
	"testing"

	"rmreplay/internal/predict"
)

// The text ends with a sentence about the model with the smallest error. It compares this error
// with the mean run time, and the error for jobs with others in their class with the oracle's
// error.
func TestSentence(t *testing.T) {
	e := &Evaluation{Target: predict.RunTime, Unit: "s", Scored: 10, Mean: 1000, Floor: &Floor{ClassMAE: 100},
		Models: []Result{{Model: "user", Scores: Scores{MAE: 300}}, {Model: "boost", ClassMAE: 130, Scores: Scores{MAE: 250}}}}
	if got := e.Render(); !strings.HasSuffix(got, "\nboost errs least: by 250 s on average, where the mean run time is 1000 s; "+
		"for jobs that are not alone in their class, it errs 1.3 times as much as the median of the class's other jobs\n") {
		t.Errorf("%s", got)
	}
	tied := *e
	tied.Models = append(slices.Clone(e.Models), Result{Model: "trees", Scores: Scores{MAE: 250 + 1e-12}})
	if got := tied.Render(); !strings.Contains(got, "\nboost, trees err least: by 250 s on average") {
		t.Errorf("%s", got)
	}
	// Predictions of one value have no interval to be covered.
	e.Models[0].Scores = Scores{Jobs: 10, MAE: 300, Pinball: 150}
	e.Models[1].Scores = Scores{Jobs: 10, MAE: 250, Pinball: 77, Coverage: 0.8, Width: 60}
	got := e.Render()
	if strings.Contains(got, "150") || strings.Contains(got, " 0.0 %") || !strings.Contains(got, "77.0    80.0 %       60.0") {
		t.Errorf("%s", got)
	}
	// Errors of memory are often a few MiB: they have three significant digits.
	small := &Evaluation{Target: predict.Memory, Unit: "MiB", Scored: 10, Mean: 403.4, Floor: &Floor{}, Models: []Result{
		{Model: "limit", Scores: Scores{Jobs: 10, MAE: 5.764, RMSE: 44.14, MSD: -2.953}}, {Model: "boost", Scores: Scores{Jobs: 10, MAE: 2.561}}}}
	if got := small.Render(); !strings.Contains(got, "\nlimit        5.76      44.1     -2.95 ") ||
		!strings.Contains(got, "boost errs least: by 2.56 MiB on average") {
		t.Errorf("%s", got)
	}
	e.Models = nil
	if got := e.Render(); strings.Contains(got, "errs least") {
		t.Errorf("without a model: %s", got)
	}
}
