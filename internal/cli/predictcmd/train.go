package predictcmd

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/flags"
	"rmreplay/internal/output"
	"rmreplay/internal/predict"
	"rmreplay/internal/predict/model"
	"rmreplay/internal/quantity"
)

// trainOptions are the flags of `predict train`.
type trainOptions struct {
	output string
	kind   string
	target string
	until  string
	seed   uint64
	window int
	json   bool
}

func (o commands) newTrain() *cobra.Command {
	var opts trainOptions
	c := &cobra.Command{
		Use:   "train WORKLOAD -o MODEL",
		Short: "Train a model of run times, memory or I/O on a workload or on a run",
		Long: `Trains a model on the ended jobs of a workload, a log or a run, up to --until, and
writes the model and its users' histories to a file.

The file begins with a line that says where the model comes from: the data with their
hash, the window, the seed and the version. The line also has scores. They are those of
another model, which was trained on the first four fifths of the jobs and predicted the
last fifth. The same data and seed give the same file to the byte.`,
		Example: `  rmreplay predict train march.jsonl -o march.model
  rmreplay predict train march.jsonl --target memory -o memory.model
  rmreplay predict train kth.swf --model forest --until 1997-06-01T00:00:00Z -o k.model
  gunzip -c < march.model | head -1`,
		Args: console.WantArgs("WORKLOAD"),
		RunE: func(c *cobra.Command, args []string) error { return o.train(c.Context(), args[0], opts) },
	}
	console.AddOutput(c.Flags(), &opts.output, "write the model to `FILE`")
	f := c.Flags()
	f.StringVar(&opts.kind, "model", string(model.Boost), "the `MODEL`: linear, forest or boost")
	addTarget(c, &opts.target)
	f.StringVar(&opts.until, "until", "", "use nothing that happened after this `TIME` (default: the last end)")
	console.AddSeed(f, &opts.seed, "the samples of trained models")
	console.AddCount(f, &opts.window, "last", model.DefaultWindow, "train on the last `N` jobs that ended")
	console.AddJSON(c, &opts.json)
	console.Require(c, "output")
	return c
}

func (o commands) train(ctx context.Context, path string, opts trainOptions) error {
	how := model.TrainOptions{Seed: opts.seed, Window: opts.window, Source: filepath.Base(path), Program: o.Version}
	var err error
	if how.Kind, err = model.ParseKind(opts.kind); err != nil {
		return console.Usagef("--model: %w", err)
	}
	if !how.Kind.Trained() {
		return console.Usagef("--model %s has nothing to train (want linear, forest or boost)", how.Kind)
	}
	of, err := target(opts.target)
	if err != nil {
		return err
	}
	if opts.until != "" {
		if how.Until, err = flags.ParseInstant(opts.until, time.UTC); err != nil {
			return console.Usagef("--until: %w", err)
		}
	}
	if err := output.Replaces(opts.output, "a model", model.IsModel); err != nil {
		return fmt.Errorf("writing the model: %w", err)
	}
	cases, err := o.cases(path, of)
	if err != nil {
		return err
	}
	m, err := model.Train(ctx, cases, how)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return console.BadInput(fmt.Errorf("%s: %w", path, err))
	}
	size, err := output.File(opts.output, m.Write)
	if err != nil {
		return fmt.Errorf("writing the model: %w", err)
	}
	if opts.json {
		return o.PrintJSON(struct {
			File  string `json:"file"`
			Bytes int64  `json:"bytes"`
			Note  string `json:"note,omitempty"`
			model.Header
		}{opts.output, size, strings.Join(notes(cases), "; "), m.Header})
	}
	text := fmt.Sprintf("%s: %s (%.1f MB)\nthe last fifth, predicted from the first four: %s\n",
		opts.output, m.Describe(), float64(size)/1e6, scored(m.Scores, of))
	for _, note := range notes(cases) {
		text += "note: " + note + "\n"
	}
	return o.Print(text)
}

// scored says how well the last fifth was predicted. There is no score if all jobs of the last fifth
// were submitted before the first four fifths had ended.
func scored(c model.Check, of predict.Target) string {
	if c.Jobs == 0 {
		return "not scored, since all of its jobs were submitted before the first four fifths had ended"
	}
	return fmt.Sprintf("mean absolute error %s %s, %.1f %% of %d %s between P10 and P90 (jobs that were submitted after the first four fifths had ended)", quantity.Significant(c.MAE), of.Unit(),
		100*c.Coverage, c.Jobs, quantity.Plural(c.Jobs, "job", "jobs"))
}

// notes says which fields rules made, which starts are not known, and how many jobs a training could not use.
func notes(cases *predict.Cases) (list []string) {
	if made := cases.MadeNote(); made != "" {
		list = append(list, made)
	}
	if cases.NoStart > 0 {
		list = append(list, predict.NoStartNote(cases.NoStart))
	}
	if cases.NoValue > 0 {
		list = append(list, fmt.Sprintf("the %s of %d %s that ran is not recorded; the model does not learn from them",
			cases.Target.What(), cases.NoValue, quantity.Plural(cases.NoValue, "job", "jobs")))
	}
	return list
}
