// Command feedbackpaper runs the experiments of Madon, Da Costa and Pierson, "Replay with
// Feedback: How does the performance of HPC system impact user submission behavior?" (FGCS
// 155, 2024), on logs, and prints the paper's Table 1 and Table 2:
//
//	go run ./tools/feedbackpaper --log KTH-SP2-1996-2.1-cln.swf.gz
//	go run ./tools/feedbackpaper --log kth.swf --realizations 10 --jitter 30s
//	go run ./tools/feedbackpaper --log kth.swf --all-models --json
//	go run ./tools/feedbackpaper --log kth.swf --scalability 10
//
// There are six systems: EASY, FCFS, processors of twice and half the speed, and twice and half
// the number of processors. There are three ways to submit the jobs. Rigid replay uses the
// log's submission times. a0 and a60 keep think times between sessions. A session of a0 is one
// job. A session of a60 ends after an hour without a submission. Makespan, waits and mean
// lateness are in days. Additional lateness is in seconds.
//
// If a machine is saturated, a single simulation says little. The order of two jobs at one
// instant then changes the results by days. --realizations adds the range over the given number
// of simulations with randomly moved submissions. docs/measurements/feedback.md compares the paper's numbers
// with ours; docs/FEEDBACK.md has the definitions.
//
// A simulation keeps no record here. Its result depends only on the log, the system and the
// users. The tool computes its figures at once. Simulations run in parallel, and the results do
// not depend on their order. The exit status is 0 for success, 1 for a failure, 2 for wrong
// usage, 4 for an unusable log, and 130 after an interruption.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"rmreplay/internal/flags"
	"rmreplay/internal/formats"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/session"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := runTool(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "feedbackpaper:", err)
	}
	os.Exit(exitStatus(err))
}

// usageError is an error in the command line. logError is an error in a log.
type usageError struct{ error }
type logError struct{ error }

func (e logError) Unwrap() error { return e.error }

func exitStatus(err error) int {
	var usage usageError
	var log logError
	switch {
	case err == nil, errors.Is(err, pflag.ErrHelp):
		return 0
	case errors.Is(err, context.Canceled):
		return 130
	case errors.As(err, &usage):
		return 2
	case errors.As(err, &log):
		return 4
	}
	return 1
}

// settings holds the values of the flags.
type settings struct {
	logs         []string
	processors   int
	realizations int
	jitter       time.Duration
	seed         uint64
	models       bool
	scalability  int
	parallel     int
	quiet        bool
	json         bool
}

func (o *settings) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.logs, "log", nil, "workload `FILE` with recorded ends, such as an SWF log; may be repeated")
	f.IntVar(&o.processors, "processors", 0, "size of the machine: `N` processors (default: what the log's header says)")
	f.IntVar(&o.realizations, "realizations", 0, "`N` more simulations of every case with jittered submissions: the bands")
	flags.Duration(f, &o.jitter, "jitter", time.Minute,
		"move the submissions of those by up to `DURATION`, to either side")
	f.Uint64Var(&o.seed, "seed", 1, "`SEED` of the first of them; the others have the next ones")
	f.BoolVar(&o.models, "all-models", false, "also the models of Zakay and Feitelson: adjusted, fluid and distribution")
	f.IntVar(&o.scalability, "scalability", 0, "instead: additional lateness over `N` parts of the log of growing "+
		"length (section 7.6)")
	f.IntVarP(&o.parallel, "parallel", "j", 0, "at most `N` at once: simulations (default: one for each CPU)")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "no progress")
	f.BoolVar(&o.json, "json", false, "print one JSON object")
	flags.Alias(f, map[string]string{"workers": "parallel", "procs": "processors"})
}

// options returns the simulations' options according to the flags.
func (o *settings) options() (Options, error) {
	how := Options{Realizations: o.realizations, Jitter: o.jitter, Seed: o.seed, Parallel: o.parallel}
	wrong := func(format string, args ...any) (Options, error) { return how, usageError{fmt.Errorf(format, args...)} }
	switch {
	case len(o.logs) == 0:
		return wrong("--log is missing (want the path of a log)")
	case o.realizations < 0:
		return wrong("--realizations %d: negative", o.realizations)
	case o.realizations > 0 && o.jitter <= 0:
		return wrong("--jitter %s: not above 0, so all realizations would be the same", o.jitter)
	case o.scalability < 0:
		return wrong("--scalability %d: negative", o.scalability)
	case o.processors < 0:
		return wrong("--processors %d: negative", o.processors)
	case o.parallel < 0:
		return wrong("--parallel %d: negative", o.parallel)
	}
	if o.models {
		how.Users = AllReplays(session.Default, o.seed)
	}
	return how, nil
}

// runTool runs the tool. main adds the signals and the exit status.
func runTool(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o settings
	f := pflag.NewFlagSet("feedbackpaper", pflag.ContinueOnError)
	f.SetOutput(stderr)
	o.addFlags(f)
	if err := f.Parse(args); errors.Is(err, pflag.ErrHelp) {
		return err // the help has been printed
	} else if err != nil {
		return usageError{err}
	}
	if f.NArg() > 0 {
		return usageError{fmt.Errorf("%q: unexpected argument", f.Arg(0))}
	}
	how, err := o.options()
	if err != nil {
		return err
	}
	var results []*Result
	var curves []*Curves
	for _, path := range o.logs {
		w, err := formats.OpenWith(path, workload.ReadOptions{Lean: true})
		if err != nil {
			return logError{err}
		}
		how.Observe = o.progress(stderr, filepath.Base(path))
		if o.scalability > 0 {
			var c *Curves
			c, err = Scalability(ctx, w, o.processors, o.scalability, how)
			curves = append(curves, c)
		} else {
			var r *Result
			r, err = Run(ctx, w, o.processors, how)
			results = append(results, r)
		}
		if errors.Is(err, context.Canceled) {
			return err
		}
		if err != nil {
			return logError{fmt.Errorf("simulating %s: %w", path, err)}
		}
	}
	return o.print(stdout, results, curves)
}

// progress returns a function that prints a line at most every ten seconds.
func (o *settings) progress(stderr io.Writer, name string) func(done, all int) {
	last := time.Now()
	return func(done, all int) {
		if o.quiet || time.Since(last) < 10*time.Second {
			return
		}
		last = time.Now()
		_, _ = fmt.Fprintf(stderr, "simulating %s: %d of %d\n", name, done, all) // a failed write does not stop the tool
	}
}

func (o *settings) print(stdout io.Writer, results []*Result, curves []*Curves) error {
	var object map[string]any
	switch {
	case o.json && o.scalability > 0:
		object = map[string]any{"logs": curves}
	case o.json:
		object = map[string]any{"logs": results}
	case o.scalability > 0:
		return RenderCurves(stdout, curves)
	default:
		return Render(stdout, results)
	}
	text, err := json.MarshalIndent(object, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the result as JSON: %w", err)
	}
	_, err = fmt.Fprintf(stdout, "%s\n", text)
	return err
}
