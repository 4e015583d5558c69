package cli

import (
	"strings"
	"time"

	"github.com/spf13/pflag"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/flags"
	"rmreplay/internal/replay"
	"rmreplay/internal/workload/session"
)

// feedbackOptions are the flags that choose how users react to the results of their jobs.
type feedbackOptions struct {
	model, sessions string
	jitter          time.Duration
}

func (o *feedbackOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.model, "feedback", string(replay.NoFeedback), "how users react to the ends of their jobs: `MODEL` "+
		strings.Join(modelNames(), ", "))
	addSessionsFlag(f, &o.sessions)
	flags.Duration(f, &o.jitter, "jitter", 0, jitterUsage)
}

// jitterUsage is the usage of --jitter, a flag of runs and of transforms.
const jitterUsage = "move each submission by a random time of up to `DURATION`, earlier or later"

func modelNames() (names []string) {
	for _, m := range replay.Models {
		names = append(names, string(m))
	}
	return names
}

// feedbackHelp is the part of a command's help about reacting users.
const feedbackHelp = `With --feedback think-time, each user's submissions are divided into sessions. A session
begins when the sessions on which it depends have ended and the recorded think time has
passed. Within a session, the times between submissions stay as recorded. The models
adjusted, fluid and distribution are those of Zakay and Feitelson. The workload must have
recorded ends: use a run, or a log that has them. docs/FEEDBACK.md says how sessions are
found, and compares the models.`

// users returns the model of users that the flags choose.
func (o *feedbackOptions) users() (f replay.Feedback, err error) {
	if f.Model, err = replay.ParseModel(o.model); err != nil {
		return f, console.Usagef("--feedback %w", err)
	}
	if f.Sessions, err = session.Parse(o.sessions); err != nil {
		return f, console.Usagef("--sessions %w", err)
	}
	f.Jitter = o.jitter
	return f, nil
}
