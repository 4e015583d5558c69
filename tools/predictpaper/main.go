// Command predictpaper runs the experiment of Gaussier, Glesser, Reis and Trystram, "Improving
// backfilling by using machine learning to predict running times" (SC'15), on logs, and prints the
// average bounded slowdowns beside the published ones:
//
//	go run ./tools/predictpaper KTH-SP2-1996-2.1-cln.swf.gz CTC-SP2-1996-3.1-cln.swf.gz
//	go run ./tools/predictpaper --realizations 10 --jitter 1m SDSC-SP2-1998-4.2-cln.swf.gz
//
// The schedulers are EASY; EASY++ (Tsafrir, Etsion and Feitelson, 2007); the paper's best
// combination, which is EASY with the shortest jobs backfilled first, predictions of the learner
// with the loss E-Loss, and incremental corrections; the same with run times as features, as the
// paper describes them; and EASY and EASY-SJBF with clairvoyance.
//
// The published numbers come from the authors' result files (github.com/jad-darrous/predictsim,
// experiments/data/LOG/sim_analysis/metrics_complete), by the name of the log. The authors filter
// their logs. Jobs without processors, run time or time limit, and jobs larger than the machine,
// are left out, and run times end at the time limits. The tool does the same, and says how many
// jobs that concerns.
//
// The authors' own jobs are in the schedules that they published
// (experiments/data/LOG/simulations/res_easy_backfill_scheduler_None_None.swf.gz), which the tool
// reads as well. A log whose name contains KTH-SP2, CTC-SP2 or SDSC-SP2 has published numbers.
//
// One simulation says little about predictions. --realizations adds the range over simulations
// with randomly moved submissions, and says how many of them are below the published number.
//
// The exit status is 0 for success, 1 for a failure, 2 for wrong usage, 4 for an unusable log, and
// 130 after an interruption.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/pflag"

	"rmreplay/internal/flags"
	"rmreplay/internal/formats"
	"rmreplay/internal/workload"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := runTool(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "predictpaper:", err)
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

// runTool runs the tool. main adds the signals and the exit status.
func runTool(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := pflag.NewFlagSet("predictpaper", pflag.ContinueOnError)
	f.SetOutput(stderr)
	processors := f.Int("processors", 0, "size of the machine: `N` processors (default: what the log's header says)")
	realizations := f.Int("realizations", 0, "`N` more simulations under every scheduler with jittered submissions")
	jitter := time.Minute
	flags.Duration(f, &jitter, "jitter", jitter, "move the submissions of those by up to `DURATION`, to either side")
	parallel := f.IntP("parallel", "j", 0, "at most `N` simulations at once (default: one for each CPU)")
	asJSON := f.Bool("json", false, "print one JSON object")
	if err := f.Parse(args); errors.Is(err, pflag.ErrHelp) {
		return err // the help has been printed
	} else if err != nil {
		return usageError{err}
	}
	switch {
	case f.NArg() == 0:
		return usageError{errors.New("no log (want the paths of logs with users and time limits)")}
	case *processors < 0:
		return usageError{fmt.Errorf("--processors %d: negative", *processors)}
	case *realizations < 0:
		return usageError{fmt.Errorf("--realizations %d: negative", *realizations)}
	case *realizations > 0 && jitter <= 0:
		return usageError{fmt.Errorf("--jitter %s: not above 0, so all realizations would be the same", jitter)}
	case *parallel < 0:
		return usageError{fmt.Errorf("--parallel %d: negative", *parallel)}
	}
	var results []*Result
	for _, path := range f.Args() {
		w, err := formats.OpenWith(path, workload.ReadOptions{Lean: true})
		if err != nil {
			return logError{err}
		}
		r, err := Run(ctx, w, Options{Processors: *processors, Realizations: *realizations, Jitter: jitter,
			Parallel: *parallel})
		if errors.Is(err, context.Canceled) {
			return err
		}
		if err != nil {
			return logError{fmt.Errorf("simulating %s: %w", path, err)}
		}
		results = append(results, r)
	}
	if !*asJSON {
		return Render(stdout, results)
	}
	text, err := json.MarshalIndent(map[string]any{"logs": results}, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the result as JSON: %w", err)
	}
	_, err = fmt.Fprintf(stdout, "%s\n", text)
	return err
}
