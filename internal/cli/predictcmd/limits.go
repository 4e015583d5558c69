package predictcmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"rmreplay/internal/experiment"
	"rmreplay/internal/predict"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/transform"
)

// Limits are the flags of `workload transform` that belong to --limits-from.
type Limits struct{ quantile float64 }

// Add adds the flags to the command.
func (l *Limits) Add(c *cobra.Command) {
	c.Flags().Float64Var(&l.quantile, "quantile", 0.9, "the `QUANTILE` of the predicted run times, between 0 and 1, "+
		"that --limits-from takes")
}

// Step returns the step that rewrites time limits with the model in a file. The model is read when the
// step is applied.
func (l *Limits) Step(path string) (transform.Step, error) {
	if !(l.quantile > 0 && l.quantile < 1) {
		return transform.Step{}, fmt.Errorf("--quantile %g: want a number between 0 and 1, such as 0.9", l.quantile)
	}
	text := fmt.Sprintf("--limits-from %s --quantile %g", path, l.quantile)
	return transform.PredictedLimits(text, func(w *workload.Workload) ([]float64, error) {
		m, err := experiment.ReadModel(path)
		if err != nil {
			return nil, err
		}
		if err := m.Before(w); err != nil {
			return nil, err
		}
		return predict.Quantiles(context.Background(), w, m.Online(), l.quantile)
	}), nil
}
