package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/output"
	"rmreplay/internal/workload/session"
)

// sessionsOptions are the flags of `workload sessions`.
type sessionsOptions struct {
	by         string
	user       string
	dot, graph string
	batches    bool
	json       bool
}

func (o *sessionsOptions) addFlags(c *cobra.Command) {
	f := c.Flags()
	addSessionsFlag(f, &o.by)
	f.StringVar(&o.user, "user", "", "only the sessions of `USER`")
	f.BoolVar(&o.batches, "batches", false, "divide the sessions into batches of overlapping jobs")
	f.StringVar(&o.dot, "dot", "", "write the graphs to a `FILE` for Graphviz; - is standard output")
	f.StringVar(&o.graph, "graph", "", "write the graphs to a `FILE` as JSON Lines, one line for each user; - is "+
		"standard output")
	console.AddJSON(c, &o.json)
}

// addSessionsFlag adds --sessions, the rule that divides submissions into sessions.
func addSessionsFlag(f *pflag.FlagSet, by *string) {
	f.StringVar(by, "sessions", session.Default.String(),
		"`RULE` for sessions: a submission begins a new session if it comes DURATION or more after the user's previous "+
			"submission (arrival:60m), after the end of the previously submitted job (last:20m), or after the last end of "+
			"the session's jobs (max:20m)")
}

func newWorkloadSessionsCommand(g *globals) *cobra.Command {
	var opts sessionsOptions
	c := &cobra.Command{
		Use:   "sessions WORKLOAD",
		Short: "Find the sessions of users, and how they depend on each other",
		Long: `Divides the submissions of each user into sessions, by one of three rules (Zakay and
Feitelson, 2013). A session depends on the sessions that had ended when it began;
dependencies that follow from others are left out. The think time is the time from the
end of a session to the start of a session that depends on it; a replay with feedback
keeps think times. The command prints the number of sessions, the longest chain of
dependent sessions, and the largest number of sessions that depend on one session.

The workload must record the ends of its jobs. Runs, traces with recorded ends, and SWF
logs with wait times (field 3) do. Replay any other workload first, and use that run.`,
		Example: `  rmreplay workload sessions KTH-SP2-1996-2.1-cln.swf.gz
  rmreplay workload sessions log.swf --sessions max:20m --json
  rmreplay workload sessions demo/run --user ada --dot - | dot -Tsvg > ada.svg`,
		Args: console.WantArgs("WORKLOAD"),
		RunE: func(_ *cobra.Command, args []string) error {
			return runWorkloadSessions(g, args[0], opts)
		},
	}
	opts.addFlags(c)
	return c
}

func runWorkloadSessions(g *globals, path string, opts sessionsOptions) error {
	by, err := session.Parse(opts.by)
	if err != nil {
		return console.Usagef("--sessions %w", err)
	}
	if (opts.dot == "-" || opts.graph == "-") && (opts.json || opts.dot == opts.graph) {
		return console.Usagef("standard output can have only one of these (want one of --json, --dot - and --graph -)")
	}
	for _, to := range []string{opts.dot, opts.graph} {
		if err := output.NotInput(to, path); err != nil {
			return fmt.Errorf("writing the sessions: %w", err)
		}
	}
	w, err := openWorkload(path)
	if err != nil {
		return err
	}
	s, err := session.New(w, by)
	if err != nil {
		return console.BadInput(fmt.Errorf("%s: %w", path, err))
	}
	if opts.user != "" {
		only, found := s.OfUser(opts.user)
		if !found {
			return console.BadInput(fmt.Errorf("%s: no job of user %s (want a user who submitted a job)", path, opts.user))
		}
		s = only
	}
	if opts.batches {
		s = s.Batches()
	}
	if err := g.writeTo(opts.dot, s.WriteDOT); err != nil {
		return err
	}
	if err := g.writeTo(opts.graph, s.WriteJSON); err != nil {
		return err
	}
	if opts.dot == "-" || opts.graph == "-" {
		return nil
	}
	summary := s.Summary()
	if opts.json {
		return g.PrintJSON(summary)
	}
	return g.Render(summary.Render)
}

// writeTo writes to the file with the path that a flag gives. It writes nothing if the path is
// empty, and to standard output if the path is "-".
func (g *globals) writeTo(path string, write func(io.Writer) error) (err error) {
	switch path {
	case "":
		return nil
	case "-":
		return write(g.Stdout)
	}
	_, err = output.File(path, write)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
