package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"rmreplay/internal/replay"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/session"
)

// feedbackOptions are the flags of commands that play users: who may react to what
// becomes of their jobs.
type feedbackOptions struct {
	model, sessions string
	jitter          time.Duration
}

func (o *feedbackOptions) addFlags(f *pflag.FlagSet) {
	var names []string
	for _, m := range replay.Models {
		names = append(names, string(m))
	}
	f.StringVar(&o.model, "feedback", string(replay.None), "how users react to what becomes of their jobs: `MODEL` "+strings.Join(names, ", "))
	addSessionsFlag(f, &o.sessions)
	f.DurationVar(&o.jitter, "jitter", 0, "move every submission by up to this long, to either side, as the seed says")
}

// feedbackHelp is the part of a command's help about them.
const feedbackHelp = `With --feedback think-time users wait for the results that they waited for when the
workload was recorded, and submit as long afterwards as then; adjusted, fluid and
distribution are the models of Zakay and Feitelson. The workload must have recorded
ends: a log, or a run. docs/FEEDBACK.md compares them.`

// parse turns the flags into users.
func (o *feedbackOptions) parse(seed uint64) (f replay.Feedback, err error) {
	if f.Model, err = replay.ParseModel(o.model); err != nil {
		return f, usagef("--feedback %w", err)
	}
	if f.Sessions, err = session.Parse(o.sessions); err != nil {
		return f, usagef("--sessions %w", err)
	}
	if o.jitter < 0 {
		return f, usagef("--jitter %s: negative", o.jitter)
	}
	f.Jitter, f.Seed = o.jitter, seed
	return f, nil
}

// check says what is wrong with the flags, or with the workload for them, before
// anything is started.
func (o *feedbackOptions) check(w *workload.Workload) error {
	f, err := o.parse(0)
	if err != nil {
		return err
	}
	_, err = replay.NewController(w, f)
	return badInput(err)
}

// play plays the workload with these users, and with its jobs changed by the rewriters.
func (o *feedbackOptions) play(ctx context.Context, manager rm.ResourceManager, w *workload.Workload, seed uint64, record replay.Recorder, opts replay.Options, rewriters ...replay.Rewriter) (replay.Result, error) {
	f, err := o.parse(seed)
	if err != nil {
		return replay.Result{}, err
	}
	controller, err := replay.NewController(w, f)
	if err != nil {
		return replay.Result{}, err
	}
	return replay.Play(ctx, manager, w, replay.Rewriting(controller, rewriters...), record, opts)
}

// manifest is what the record says of them; nil for a rigid replay.
func (o *feedbackOptions) manifest() *run.Feedback {
	f, err := o.parse(0)
	if err != nil || f.Model == replay.None && f.Jitter == 0 {
		return nil
	}
	m := &run.Feedback{Model: string(f.Model), Jitter: f.Jitter.Seconds()}
	if f.Model != replay.None {
		m.Sessions = f.Sessions.String()
	}
	return m
}
