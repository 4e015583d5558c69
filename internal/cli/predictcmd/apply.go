package predictcmd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/inert"
	"rmreplay/internal/output"
	"rmreplay/internal/predict"
	"rmreplay/internal/predict/evaluate"
	"rmreplay/internal/quantity"
)

// applyOptions are the flags of `predict apply`.
type applyOptions struct {
	output string
	json   bool
}

func (o commands) newApply() *cobra.Command {
	var opts applyOptions
	c := &cobra.Command{
		Use:   "apply MODEL WORKLOAD -o FILE.csv",
		Short: "Predict the jobs of a workload with a trained model",
		Long: `Predicts each job of a workload that begins after the model's data end. The model is not
trained again. But jobs of the workload that have ended enter the users' histories, and
the intervals of the model are calibrated further.

The result is a CSV table: the job's ID, the submission, P10, P50 and P90 in seconds,
the time limit, and the run time if it is known. For a model of memory or I/O, P10, P50
and P90, the requested memory and the used amount are in MiB. "-" writes the table to
standard output. The command prints the scores of the predictions.`,
		Example: `  rmreplay predict apply march.model april.jsonl -o april.csv`,
		Args:    console.WantArgs("MODEL", "WORKLOAD"),
		RunE: func(c *cobra.Command, args []string) error {
			return o.apply(c.Context(), args[0], args[1], opts)
		},
	}
	console.AddOutput(c.Flags(), &opts.output, "write the table of predictions (CSV) to `FILE`")
	console.AddJSON(c, &opts.json)
	console.Require(c, "output")
	return c
}

func (o commands) apply(ctx context.Context, modelPath, path string, opts applyOptions) error {
	if opts.output == "-" && opts.json {
		return console.Usagef("--output - and --json exclude each other")
	}
	if err := output.NotInput(opts.output, modelPath, path); err != nil {
		return fmt.Errorf("writing the predictions: %w", err)
	}
	m, err := o.model(modelPath)
	if err != nil {
		_, other := o.model(path)
		return console.InOrder(err, other == nil, "predict apply MODEL WORKLOAD")
	}
	cases, err := o.cases(path, m.Target)
	if err != nil {
		return err
	}
	if len(cases.List) > 0 && cases.List[0].At < m.Until() {
		return console.BadInput(fmt.Errorf("%s begins at %v, but the model %s was trained on data until %v (want a later "+
			"workload, or a model that was trained with --until)",
			path, cases.List[0].At, modelPath, m.Until()))
	}
	var applied *evaluate.Applied
	write := func(w io.Writer) error {
		buffered := bufio.NewWriter(w)
		table := inert.NewWriter(buffered)
		_ = table.Write(columns(m.Target)) // Flush reports errors
		applied, err = evaluate.Apply(ctx, m, cases, func(p evaluate.Row) {
			_ = table.Write([]string{p.ID, p.Submit.String(), number(p.P10), number(p.P50), number(p.P90),
				known(p.Asked > 0, p.Asked), known(p.Known, p.Value)})
		})
		if err != nil {
			return err
		}
		table.Flush()
		if err := table.Error(); err != nil {
			return err
		}
		return buffered.Flush()
	}
	if opts.output == "-" {
		err = write(o.Stdout)
	} else {
		_, err = output.File(opts.output, write)
	}
	if err != nil {
		return fmt.Errorf("writing the predictions: %w", err)
	}
	switch {
	case opts.json:
		return o.PrintJSON(applied)
	case opts.output == "-":
		return nil
	}
	return o.Print(fmt.Sprintf("%s: %d %s of %s, predicted by %s (%s)\n%s", opts.output, applied.Jobs,
		quantity.Plural(applied.Jobs, "job", "jobs"),
		filepath.Base(path), filepath.Base(modelPath), m.Describe(), applied.Render()))
}

// columns returns the names of the columns of the table of predictions.
func columns(t predict.Target) []string {
	if t.Measured() {
		return []string{"id", "submit", "p10_mib", "p50_mib", "p90_mib", "asked_mib", "used_mib"}
	}
	return []string{"id", "submit", "p10_s", "p50_s", "p90_s", "limit_s", "ran_s"}
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }

func known(is bool, v float64) string {
	if !is {
		return ""
	}
	return number(v)
}
