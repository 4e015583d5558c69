// Package predictcmd has the command `rmreplay predict` with its subcommands, which train, measure,
// apply and serve predictors of run times. The packages below internal/predict do the work.
package predictcmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/experiment"
	"rmreplay/internal/predict"
	"rmreplay/internal/predict/model"
	"rmreplay/internal/workload"
)

// commands makes the commands of the group.
type commands struct {
	console.Output
	open func(path string) (*workload.Workload, error)
}

// New returns the command. open reads a workload and shows its progress.
func New(out console.Output, open func(path string) (*workload.Workload, error)) *cobra.Command {
	o := commands{out, open}
	c := &cobra.Command{
		Use:   "predict",
		Short: "Predict how long jobs will run",
		Long: `Predicts run times of jobs from what is known at their submission: what the user asked
for, and the history of the jobs that had ended by then. docs/PREDICTION.md describes the
models, the features and the measurements.

  limit    the time limit that the user asked for
  last2    the mean of the user's two jobs that ended last (Tsafrir, Etsion and Feitelson)
  class    the recursive average, with decay, of jobs of one user, name, size and limit
  linear   ridge regression
  forest   a random forest
  boost    gradient boosting of the quantiles P10, P50 and P90

The last three are trained. All have an interval from P10 to P90, which is calibrated
online.`,
	}
	c.AddCommand(o.newTrain(), o.newEvaluate(), o.newApply(), o.newCompare(), o.newServe())
	return c
}

// cases reads a workload and returns its jobs.
func (o commands) cases(path string) (*predict.Cases, error) {
	w, err := o.open(path)
	if err != nil {
		return nil, err
	}
	cases, err := predict.CasesOf(w)
	if err != nil {
		return nil, console.BadInput(fmt.Errorf("%s: %w", path, err))
	}
	return cases, nil
}

// model reads a model.
func (o commands) model(path string) (*model.Model, error) {
	m, err := experiment.ReadModel(path)
	return m, console.BadInput(err)
}
