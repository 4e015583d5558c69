package recordcmd

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/explain"
	"rmreplay/internal/flags"
)

// explainOptions are the flags of `explain`.
type explainOptions struct {
	at   string
	zone flags.Zone
	json bool
}

// Explain returns the command `rmreplay explain`.
func Explain(out console.Output) *cobra.Command {
	o := commands{out}
	var opts explainOptions
	c := &cobra.Command{
		Use:   "explain RUN [JOB]",
		Short: "Say why a job waited, or what a stall of the queue came from",
		Long: `Tells the story of one job of a run: when it was submitted, why it waited and how long,
which jobs started before it, who held its nodes, when backfill first planned it, and
what let it start. JOB is an ID of the workload, ID_TASK for a task of an array, or the
resource manager's number.

With --at it explains the whole queue at an instant: limits, reservations, nodes that were
down, a burst of one user, a backfill scheduler that did not reach jobs that fit, a large
job that waits for nodes, or just a full machine.

The causes are ranked by how much of the wait each of them explains, from 0 to 1.
docs/EXPLAIN.md has the formulas. rmreplay replay records the reasons of pending jobs,
unless --reasons 0 is given. A run without them, such as a simulation or a recorded
workload, is explained by what held the machine.`,
		Example: `  rmreplay explain demo/run d0332
  rmreplay explain demo/run d0031_4 --json
  rmreplay explain demo/run --at 2024-03-05T14:00
  rmreplay explain march.jsonl --at 2024-03-12T09:30 --timezone Europe/Zurich`,
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 2 && c.Flags().Changed("at"):
				return fmt.Errorf("JOB and --at exclude each other")
			case len(args) == 1 && !c.Flags().Changed("at"):
				return fmt.Errorf("JOB is missing (want RUN JOB, or RUN --at TIME)")
			case len(args) == 1:
				return console.WantArgs("RUN")(c, args)
			}
			return console.WantArgs("RUN", "JOB")(c, args)
		},
		RunE: func(_ *cobra.Command, args []string) error { return o.runExplain(args, opts) },
	}
	c.Flags().StringVar(&opts.at, "at", "", "look at `TIME`: explain the whole queue")
	opts.zone.Add(c.Flags())
	console.AddJSON(c, &opts.json)
	return c
}

// explanation is a story or a stall.
type explanation interface {
	Render(w io.Writer, zone *time.Location) error
}

func (o commands) runExplain(args []string, opts explainOptions) error {
	at, err := opts.zone.Instant("at", opts.at)
	if err != nil {
		return console.Usagef("%w", err)
	}
	r, err := o.open(args[0])
	if err != nil {
		return err
	}
	record, err := explain.Open(r)
	if err != nil {
		return console.BadInput(err)
	}
	var found explanation
	if len(args) == 2 {
		found, err = record.Job(args[1])
	} else {
		found, err = record.At(at)
	}
	if err != nil {
		return console.BadInput(fmt.Errorf("%s: %w", args[0], err))
	}
	if opts.json {
		return o.PrintJSON(found)
	}
	if err := o.Render(func(w io.Writer) error { return found.Render(w, opts.zone.Location()) }); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}
