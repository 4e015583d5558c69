// Command predictpeers compares the gradient boosting of `rmreplay predict` with that of LightGBM and scikit-learn on
// logs:
//
//	tools/predict-peers KTH-SP2-1996-2.1-cln.swf.gz CTC-SP2-1996-3.1-cln.swf.gz
//
// which installs LightGBM and scikit-learn and runs this program. All models see the same features
// of each job at its submission, and are trained on the same rows at the same instants, as
// `rmreplay predict evaluate` does. All predictions are cut to the time limit, calibrated online by
// the same rule, and scored alike. Until the first training, all models predict as last2.
//
// The times are CPU times. Our model predicts each job as it is submitted, and its time includes
// the features. LightGBM and scikit-learn get the features from a file, and predict all jobs
// between two trainings at once.
//
// The exit status is 0 for success, 1 for a failure, 2 for wrong usage and 130 after an interruption.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"rmreplay/internal/formats"
	"rmreplay/internal/predict"
	"rmreplay/internal/predict/evaluate"
	"rmreplay/internal/predict/model"
	"rmreplay/internal/workload"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := runTool(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	var usage usageError
	switch {
	case err == nil || errors.Is(err, pflag.ErrHelp):
		return
	case errors.Is(err, context.Canceled):
		os.Exit(130)
	}
	fmt.Fprintln(os.Stderr, "predictpeers:", err)
	if errors.As(err, &usage) {
		os.Exit(2)
	}
	os.Exit(1)
}

// usageError is an error in the command line.
type usageError struct{ error }

// peers are the models of peers.py.
var peers = []string{"lightgbm", "lightgbm-log", "scikit-learn", "scikit-learn-log"}

// Result is what a model achieves on a log.
type Result struct {
	Model     string          `json:"model"`
	Scores    evaluate.Scores `json:"scores"`
	TrainingS float64         `json:"training_s"` // CPU seconds
	// PredictionS are the CPU seconds of all predictions: see the command's comment.
	PredictionS float64 `json:"prediction_s"`
}

// Log has the results of all models on a log.
type Log struct {
	Log       string   `json:"log"`
	Jobs      int      `json:"jobs"`
	Trainings int      `json:"trainings"`
	Models    []Result `json:"models"`
}

func runTool(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := pflag.NewFlagSet("predictpeers", pflag.ContinueOnError)
	f.SetOutput(stderr)
	python := f.String("python", "python3", "`PROGRAM` that has LightGBM and scikit-learn")
	script := f.String("script", "tools/predictpeers/peers.py", "`FILE` that it executes")
	growth := f.Float64("retrain-growth", 1, "train again when the number of ended jobs has grown by this `SHARE`")
	most := f.Int("jobs", 0, "only the first `N` jobs of each log")
	asJSON := f.Bool("json", false, "print one JSON object")
	if err := f.Parse(args); errors.Is(err, pflag.ErrHelp) {
		return err
	} else if err != nil {
		return usageError{err}
	}
	switch {
	case f.NArg() == 0:
		return usageError{errors.New("no log (want the paths of logs with users)")}
	case !(*growth > 0) || math.IsInf(*growth, 0):
		return usageError{fmt.Errorf("--retrain-growth %g (want a number above 0)", *growth)}
	case *most < 0:
		return usageError{fmt.Errorf("--jobs %d: negative", *most)}
	}
	var logs []*Log
	for _, path := range f.Args() {
		l, err := compare(ctx, path, *most, *growth, []string{*python, *script}, stderr)
		if err != nil {
			return fmt.Errorf("comparing models on %s: %w", path, err)
		}
		logs = append(logs, l)
	}
	if !*asJSON {
		return render(stdout, logs)
	}
	text, err := json.MarshalIndent(map[string]any{"logs": logs}, "", "  ")
	if err == nil {
		_, err = fmt.Fprintf(stdout, "%s\n", text)
	}
	return err
}

// compare measures all models on a log, or on its first jobs.
func compare(
	ctx context.Context, path string, maxJobs int, growth float64, program []string, stderr io.Writer,
) (l *Log, err error) {
	w, err := formats.OpenWith(path, workload.ReadOptions{Lean: true})
	if err != nil {
		return nil, err
	}
	w.Sort()
	cases, err := predict.CasesOf(w)
	if err != nil {
		return nil, err
	}
	if maxJobs > 0 {
		cases.List = cases.List[:min(maxJobs, len(cases.List))]
	}
	dir, err := os.MkdirTemp("", "predictpeers")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	rows := newRecorder(growth)
	if err := predict.Play(ctx, cases.List, rows, nil); err != nil {
		return nil, err
	}
	if len(rows.trainings) == 0 {
		return nil, fmt.Errorf("%d jobs ended before the last submission (want at least %d)", len(rows.known), firstTraining)
	}
	if err := rows.write(dir); err != nil {
		return nil, err
	}
	ours, err := own(ctx, cases, rows)
	if err != nil {
		return nil, err
	}
	l = &Log{Log: name(path), Jobs: ours.Scores.Jobs, Trainings: len(rows.trainings), Models: []Result{ours}}
	for _, peer := range peers {
		_, _ = fmt.Fprintf(stderr, "%s: %s\n", l.Log, peer)
		r, err := other(ctx, cases, rows, dir, peer, program)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", peer, err)
		}
		l.Models = append(l.Models, r)
	}
	return l, nil
}

// own measures the model of `rmreplay predict`.
func own(ctx context.Context, cases *predict.Cases, rows *recorder) (Result, error) {
	runtime.GC() // so that older garbage is not collected during the measurement
	ours := &timed{Online: model.NewOnline(model.Options{Kind: model.Boost, Growth: rows.growth, Seed: 1})}
	scores, err := evaluate.Score(ctx, cases, ours)
	if err = cmp.Or(err, ours.Err()); err != nil {
		return Result{}, err
	}
	if ours.Trainings() != len(rows.trainings) {
		return Result{}, fmt.Errorf("our model was trained %d times, and others would be %d times", ours.Trainings(),
			len(rows.trainings))
	}
	return Result{"rmreplay boost", scores, ours.training.Seconds(), ours.submitting.Seconds()}, nil
}

// other measures a model of peers.py.
func other(
	ctx context.Context, cases *predict.Cases, rows *recorder, dir, peer string, program []string,
) (r Result, err error) {
	c := exec.CommandContext(ctx, program[0], append(program[1:], dir, peer)...)
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return r, fmt.Errorf("running %s: %w: %s", strings.Join(c.Args, " "), err, stderr.String())
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return r, fmt.Errorf("%q: not the times of a model: %w", out, err)
	}
	given, err := rows.given(filepath.Join(dir, peer))
	if err != nil {
		return r, err
	}
	r.Model = peer
	r.Scores, err = evaluate.Score(ctx, cases, model.NewOnline(model.Options{Kind: model.LastTwo, Given: given}))
	return r, err
}

func name(path string) string {
	base := filepath.Base(path)
	if parts := strings.Split(base, "-"); len(parts) > 2 {
		return strings.Join(parts[:2], " ")
	}
	return base
}

// render prints the results as tables in Markdown.
func render(w io.Writer, logs []*Log) error {
	var b strings.Builder
	b.WriteString("| log | model | R² | MAE, s | pinball, s | coverage | training, CPU s | prediction, CPU µs a job |\n" +
		"| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, l := range logs {
		for i, m := range l.Models {
			first := ""
			if i == 0 {
				first = fmt.Sprintf("%s, %d jobs, %d trainings", l.Log, l.Jobs, l.Trainings)
			}
			fmt.Fprintf(&b, "| %s | %s | %.3f | %.0f | %.0f | %.1f %% | %.1f | %.1f |\n",
				first, m.Model, m.Scores.R2, m.Scores.MAE,
				m.Scores.Pinball, 100*m.Scores.Coverage, m.TrainingS, 1e6*m.PredictionS/float64(l.Jobs))
		}
	}
	b.WriteString("\nOur model against the best of the others, on each log and on the median log " +
		"(positive: ours is better):\n\n" +
		"| measure |")
	for _, l := range logs {
		fmt.Fprintf(&b, " %s |", l.Log)
	}
	fmt.Fprintf(&b, " median |\n| --- |%s\n", strings.Repeat(" ---: |", len(logs)+1))
	for _, measure := range []struct {
		name string
		of   func(*Result) float64 // smaller is better
	}{
		{"RMSE (R²)", func(r *Result) float64 { return r.Scores.RMSE }},
		{"MAE", func(r *Result) float64 { return r.Scores.MAE }},
		{"pinball", func(r *Result) float64 { return r.Scores.Pinball }},
		{"distance of the coverage from 80 %", func(r *Result) float64 { return math.Abs(r.Scores.Coverage - 0.8) }},
		{"training time", func(r *Result) float64 { return r.TrainingS }},
		{"prediction time", func(r *Result) float64 { return r.PredictionS }},
	} {
		gains := make([]float64, len(logs))
		fmt.Fprintf(&b, "| %s |", measure.name)
		for i, l := range logs {
			best := math.Inf(1)
			for k := range l.Models[1:] {
				best = min(best, measure.of(&l.Models[k+1]))
			}
			gains[i] = 1 - measure.of(&l.Models[0])/best
			if strings.HasPrefix(measure.name, "distance") { // the best distance may be 0, so no ratio
				gains[i] = best - measure.of(&l.Models[0])
			}
			fmt.Fprintf(&b, " %+.1f %% |", 100*gains[i])
		}
		slices.Sort(gains)
		fmt.Fprintf(&b, " %+.1f %% |\n", 100*(gains[(len(gains)-1)/2]+gains[len(gains)/2])/2)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
