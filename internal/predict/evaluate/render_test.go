package evaluate

import (
	"strings"
	"testing"

	"rmreplay/internal/predict"
)

// The scores end in a sentence: which model errs least, and beside what.
func TestSentence(t *testing.T) {
	e := &Evaluation{Target: predict.RunTime, Unit: "s", Scored: 10, Mean: 1000, Floor: &Floor{ClassMAE: 100},
		Models: []Result{{Model: "user", Scores: Scores{MAE: 300}}, {Model: "boost", Scores: Scores{MAE: 250}}}}
	if got := e.Render(); !strings.HasSuffix(got, "\nboost errs least: by 250 s on average, where the mean run time is 1000 s; "+
		"that is 2.5 times the error of the oracle that knows the median of each class\n") {
		t.Errorf("%s", got)
	}
	e.Models = nil
	if got := e.Render(); strings.Contains(got, "errs least") {
		t.Errorf("without a model: %s", got)
	}
}
