// Package predictcmd has the command `rmreplay predict` with its subcommands, which train, measure,
// apply and serve predictors of run times. The packages below internal/predict do the work.
package predictcmd

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"rmreplay/internal/experiment"
	"rmreplay/internal/predict"
	"rmreplay/internal/predict/model"
	"rmreplay/internal/workload"
)

// Output is how the program's commands read workloads, print, and make errors with an exit status.
type Output struct {
	Out       io.Writer
	Print     func(text string) error
	PrintJSON func(v any) error
	Say       func(format string, args ...any) // a message for people
	WantArgs  func(names ...string) cobra.PositionalArgs
	AddJSON   func(c *cobra.Command, to *bool)
	// AddOutput adds -o, --output, and Require makes flags mandatory.
	AddOutput func(c *cobra.Command, to *string, value, usage string)
	Require   func(c *cobra.Command, names ...string)
	Open      func(path string) (*workload.Workload, error)
	// Update shows how far a command is; the function that Progress returns ends it.
	Progress func() (update func(text string), end func())
	// BadInput marks an error of what the user named, and Usagef makes one of the command line.
	BadInput func(error) error
	Usagef   func(format string, args ...any) error
	Version  string
}

// New returns the command.
func New(o Output) *cobra.Command {
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
func (o Output) cases(path string) (*predict.Cases, error) {
	w, err := o.Open(path)
	if err != nil {
		return nil, err
	}
	cases, err := predict.CasesOf(w)
	if err != nil {
		return nil, o.BadInput(fmt.Errorf("%s: %w", path, err))
	}
	return cases, nil
}

// model reads a model.
func (o Output) model(path string) (*model.Model, error) {
	m, err := experiment.ReadModel(path)
	return m, o.BadInput(err)
}
