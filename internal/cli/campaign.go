package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"rmreplay/internal/campaign"
	"rmreplay/internal/workload/session"
)

func newCampaignCommand(g *globals) *cobra.Command {
	c := &cobra.Command{
		Use:   "campaign",
		Short: "Run the experiments of a paper on a log",
		Long:  `Commands that run a whole series of simulations and print the tables of a paper.`,
	}
	c.AddCommand(newFeedbackPaperCommand(g))
	return c
}

// feedbackPaperOptions are the flags of `campaign feedback-paper`.
type feedbackPaperOptions struct {
	logs         []string
	processors   int
	realizations int
	jitter       time.Duration
	seed         uint64
	models       bool
	scalability  int
	workers      int
	quiet        bool
	json         bool
}

func (o *feedbackPaperOptions) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVar(&o.logs, "log", nil, "workload `FILE` with recorded ends, such as an SWF log; may be repeated")
	f.IntVar(&o.processors, "processors", 0, "size of the machine (default: what the log's header says)")
	f.IntVar(&o.realizations, "realizations", 0, "as many more simulations of every case with jittered submissions: the bands")
	f.DurationVar(&o.jitter, "jitter", time.Minute, "by up to how much the submissions of those are moved, to either side")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the first of them; the others have the next ones")
	f.BoolVar(&o.models, "all-models", false, "also the models of Zakay and Feitelson: adjusted, fluid and distribution")
	f.IntVar(&o.scalability, "scalability", 0, "instead: additional lateness over `N` parts of the log of growing length (section 7.6)")
	f.IntVar(&o.workers, "workers", 0, "simulations at once (default: one for each CPU)")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "no progress")
	addJSONFlag(c, &o.json)
}

func newFeedbackPaperCommand(g *globals) *cobra.Command {
	var opts feedbackPaperOptions
	c := &cobra.Command{
		Use:   "feedback-paper --log FILE",
		Short: "Rigid replay against replay with feedback, on six systems",
		Long: `Runs the experiments of Madon, Da Costa and Pierson, "Replay with Feedback" (FGCS 155,
2024), on a log: six systems (EASY, FCFS, processors twice and half as fast, twice and
half as many) and three ways to submit the jobs (rigid, and with think times between
sessions of one job, a0, or sessions delimited by an hour without a submission, a60).
Prints the paper's Table 1 and Table 2.

Makespan, waits and mean lateness are in days, additional lateness in seconds. Where a
machine is saturated, a single simulation says little: which of two jobs goes first at
one instant decides over days. --realizations adds the range of as many simulations
whose submissions were moved at random.

docs/FEEDBACK.md has the paper's numbers beside ours, and the definitions.`,
		Example: `  rmreplay campaign feedback-paper --log KTH-SP2-1996-2.1-cln.swf.gz
  rmreplay campaign feedback-paper --log kth.swf --realizations 10 --jitter 30s
  rmreplay campaign feedback-paper --log kth.swf --all-models --json
  rmreplay campaign feedback-paper --log kth.swf --scalability 10`,
		Args: wantArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			return runFeedbackPaper(c.Context(), g, opts)
		},
	}
	opts.addFlags(c)
	if err := c.MarkFlagRequired("log"); err != nil {
		panic(err)
	}
	return c
}

func runFeedbackPaper(ctx context.Context, g *globals, opts feedbackPaperOptions) error {
	how, err := opts.parse()
	if err != nil {
		return err
	}
	display := newProgress(g.stderr, opts.quiet)
	defer display.end()
	var results []*campaign.Result
	var curves []*campaign.Curves
	for _, path := range opts.logs {
		w, err := openToSimulate(path)
		if err != nil {
			return err
		}
		how.Observe = func(done, all int) { display.count("simulating "+filepath.Base(path), done, all) }
		if opts.scalability > 0 {
			c, err := campaign.Scalability(ctx, w, opts.processors, opts.scalability, how)
			if err != nil {
				return campaignError(path, err)
			}
			curves = append(curves, c)
			continue
		}
		r, err := campaign.Run(ctx, w, opts.processors, how)
		if err != nil {
			return campaignError(path, err)
		}
		results = append(results, r)
	}
	display.end()
	switch {
	case opts.json && opts.scalability > 0:
		return g.printJSON(map[string]any{"logs": curves})
	case opts.json:
		return g.printJSON(map[string]any{"logs": results})
	case opts.scalability > 0:
		return campaign.RenderCurves(g.stdout, curves)
	}
	return campaign.Render(g.stdout, results)
}

// campaignError says which log it was; what the log lacks is bad input.
func campaignError(path string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return badInput(fmt.Errorf("simulating %s: %w", path, err))
}

// parse turns the flags into what the campaign needs.
func (o *feedbackPaperOptions) parse() (campaign.Options, error) {
	how := campaign.Options{Realizations: o.realizations, Jitter: o.jitter, Seed: o.seed, Workers: o.workers}
	switch {
	case o.realizations < 0:
		return how, usagef("--realizations %d: negative", o.realizations)
	case o.realizations > 0 && o.jitter <= 0:
		return how, usagef("--jitter %s: not above 0, so all realizations would be the same", o.jitter)
	case o.scalability < 0:
		return how, usagef("--scalability %d: negative", o.scalability)
	case o.processors < 0:
		return how, usagef("--processors %d: negative", o.processors)
	}
	if o.workers <= 0 {
		how.Workers = runtime.GOMAXPROCS(0)
	}
	if o.models {
		how.Users = campaign.AllReplays(session.Default, o.seed)
	}
	return how, nil
}
