package cli

import (
	"strings"
	"time"

	"github.com/spf13/pflag"

	"rmreplay/internal/flags"
	"rmreplay/internal/replay"
	"rmreplay/internal/workload/session"
)

// feedbackOptions are the flags of commands that play users: they may react to what becomes
// of their jobs.
type feedbackOptions struct {
	model, sessions string
	jitter          time.Duration
}

func (o *feedbackOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.model, "feedback", string(replay.None), "how users react to what becomes of their jobs: `MODEL` "+strings.Join(modelNames(), ", "))
	addSessionsFlag(f, &o.sessions)
	flags.Duration(f, &o.jitter, "jitter", 0, jitterUsage)
}

// jitterUsage is the usage of --jitter, which a run and a transform have.
const jitterUsage = "move every submission by up to `DURATION`: to either side, as the seed says"

func modelNames() (names []string) {
	for _, m := range replay.Models {
		names = append(names, string(m))
	}
	return names
}

// feedbackHelp is the part of a command's help about them.
const feedbackHelp = `With --feedback think-time users wait for the results that they waited for when the
workload was recorded, and submit as long afterwards as then; adjusted, fluid and
distribution are the models of Zakay and Feitelson. The workload must have recorded
ends: a log, or a run. docs/FEEDBACK.md compares them.`

// users turns the flags into users.
func (o *feedbackOptions) users() (f replay.Feedback, err error) {
	if f.Model, err = replay.ParseModel(o.model); err != nil {
		return f, usagef("--feedback %w", err)
	}
	if f.Sessions, err = session.Parse(o.sessions); err != nil {
		return f, usagef("--sessions %w", err)
	}
	f.Jitter = o.jitter
	return f, nil
}
