// Package predictcmd has the command `rmreplay predict` with its subcommands, which train, measure,
// apply and serve predictors of run times, memory and I/O. The packages below internal/predict do
// the work.
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

// New returns the command. The function open reads a workload and shows its progress.
func New(out console.Output, open func(path string) (*workload.Workload, error)) *cobra.Command {
	o := commands{out, open}
	c := &cobra.Command{
		Use:   "predict",
		Short: "Predict how long jobs will run, and their memory and I/O",
		Long: `Predicts run times of jobs from what is known at their submission: the user's request,
and the history of the jobs that had ended by then. docs/PREDICTION.md describes the
models, the features and the measurements.

  limit    the time limit that the user requested
  last2    the mean of the user's two jobs that ended last (Tsafrir, Etsion and Feitelson)
  class    the recursive average, with decay, over jobs of one user, name, size and limit
  linear   ridge regression
  forest   a random forest
  boost    gradient boosting of the quantiles P10, P50 and P90

With --target memory or --target io the models predict memory or I/O in place of run
times, for workloads that record them.

linear, forest and boost are trained. All models have an interval from P10 to P90, which
is calibrated online.`,
	}
	c.AddCommand(o.newTrain(), o.newEvaluate(), o.newApply(), o.newCompare(), o.newServe(), o.newScript(), o.newHint())
	return c
}

// addTarget adds the flag --target, which chooses what is predicted.
func addTarget(c *cobra.Command, name *string) {
	c.Flags().StringVar(name, "target", string(predict.RunTime), "`TARGET` of the predictions: run-time, memory or io")
}

// target reads the value of the flag that [addTarget] adds.
func target(name string) (predict.Target, error) {
	t, err := predict.ParseTarget(name)
	if err != nil {
		return "", console.Usagef("--target: %w", err)
	}
	return t, nil
}

// cases reads a workload and returns its jobs.
func (o commands) cases(path string, t predict.Target) (*predict.Cases, error) {
	w, err := o.open(path)
	if err != nil {
		return nil, err
	}
	cases, err := predict.TargetCases(w, t)
	if err != nil {
		return nil, console.BadInput(fmt.Errorf("%s: %w", path, err))
	}
	return cases, nil
}

// model reads a model of any target.
func (o commands) model(path string) (*model.Model, error) {
	m, err := experiment.ReadAnyModel(path)
	return m, console.BadInput(err)
}
