package recordcmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/explain"
	"rmreplay/internal/flags"
	"rmreplay/internal/hpc"
	"rmreplay/internal/jobtable"
	"rmreplay/internal/metrics"
	"rmreplay/internal/run"
)

// explainOptions are the flags of `explain`.
type explainOptions struct {
	at     string
	filter string
	by     []string
	window flags.Window
	json   bool
}

// Explain returns the command `rmreplay explain`.
func Explain(out console.Output) *cobra.Command {
	o := commands{out}
	var opts explainOptions
	c := &cobra.Command{
		Use: "explain RUN [JOB]",

		ValidArgsFunction: completeJobs,

		Short: "Say why a job or a group of jobs waited, or why the queue did not move",
		Long: `Explains one job of a run: when it was submitted, why and how long it waited, which jobs
started before it, whose jobs were on its nodes, when backfill first planned it, and why
it could start. JOB is an ID of the workload, ID_TASK for a task of an array, or the
resource manager's number.

Without JOB it adds up the waits of all jobs. It prints the parts of the waits, as
rmreplay metrics does, the ten largest causes with hours and examples, and whose jobs
used the processors meanwhile. --filter, --start and --end choose jobs, and --by divides
them into groups. --filter takes the expressions of rmreplay jobs.

With --at it explains why the queue waited at an instant: limits, reservations, nodes
that were down, many jobs of one user, jobs that fit but that backfill did not consider,
a large job that waited for nodes, or a full machine.

The causes are ranked by how much of the wait each of them explains, from 0 to 1.
docs/EXPLAIN.md has the formulas.

With the frozen clock, rmreplay replay records the reasons of pending jobs every two
minutes of virtual time, or at the interval of --reasons. With --clock measured, it
records no reasons. rmreplay simulate --policy slurm records all reasons. Other
simulations record which job was first in the queue. For a run without reasons, such as a
recorded workload, the causes follow from the jobs that used the machine.`,
		Example: `  rmreplay explain demo/run d0332
  rmreplay explain demo/run d0563_32 --json
  rmreplay explain demo/run --filter 'partition == "gpu"'
  rmreplay explain demo/run --by user --start 2024-03-05T12:00 --end 2024-03-05T18:00
  rmreplay explain demo/run --at 2024-03-05T14:00
  rmreplay explain march.jsonl --at 2024-03-12T09:30 --timezone Europe/Zurich`,
		Args: func(c *cobra.Command, args []string) error {
			for _, name := range []string{"filter", "by", "start", "end"} {
				if c.Flags().Changed(name) && (len(args) == 2 || c.Flags().Changed("at")) {
					return fmt.Errorf("--%s chooses a group of jobs (want neither JOB nor --at with it)", name)
				}
			}
			if len(args) == 2 && c.Flags().Changed("at") {
				return fmt.Errorf("JOB and --at exclude each other")
			}
			if len(args) < 2 {
				return console.WantArgs("RUN")(c, args)
			}
			return console.WantArgs("RUN", "JOB")(c, args)
		},
		RunE: func(_ *cobra.Command, args []string) error { return o.runExplain(args, opts) },
	}
	c.Flags().StringVar(&opts.at, "at", "", "explain the whole queue at `TIME`")
	c.Flags().Var((*expression)(&opts.filter), "filter", "keep the jobs for which `EXPR` is true")
	console.AddBy(c.Flags(), &opts.by)
	opts.window.Add(c.Flags(), "keep later submissions", "keep earlier submissions")
	console.AddJSON(c, &opts.json)
	return c
}

// explanation is the output of the command: about one job, about the queue at an instant, or about
// groups of jobs.
type explanation interface {
	Render(w io.Writer, zone *time.Location) error
}

func (o commands) runExplain(args []string, opts explainOptions) error {
	at, err := opts.window.Instant("at", opts.at)
	if err != nil {
		return console.Usagef("%w", err)
	}
	start, end, err := opts.window.Bounds()
	if err == nil {
		err = jobtable.Check(jobtable.Options{Filter: opts.filter})
	}
	if err != nil {
		return console.Usagef("%w", err)
	}
	by, err := console.ParseBy(opts.by)
	if err != nil {
		return err
	}
	r, err := o.open(args[0])
	if err != nil {
		_, missing := os.Stat(args[len(args)-1])
		return console.InOrder(err, errors.Is(err, fs.ErrNotExist) && missing == nil, "explain RUN JOB")
	}
	record, err := explain.Open(r)
	if err != nil {
		return console.BadInput(err)
	}
	var found explanation
	switch {
	case len(args) == 2:
		found, err = record.Job(args[1])
	case opts.at != "":
		found, err = record.At(at)
	default:
		found, err = groups(r, record, opts.filter, start, end, by)
	}
	if err != nil {
		return console.BadInput(fmt.Errorf("%s: %w", args[0], err))
	}
	if opts.json {
		return o.PrintJSON(found)
	}
	if err := o.Render(func(w io.Writer) error { return found.Render(w, opts.window.Location()) }); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

// mostCompleted is the largest number of job IDs that a shell shows.
const mostCompleted = 200

// completeJobs completes a run, or a workload, and then an ID of one of the run's jobs.
func completeJobs(_ *cobra.Command, before []string, typed string) (ids []cobra.Completion, d cobra.ShellCompDirective) {
	if len(before) == 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	d = cobra.ShellCompDirectiveNoFileComp
	if len(before) > 1 {
		return nil, d
	}
	r, err := run.Open(before[0]) // a log may be large, so its jobs are not completed
	if err != nil {
		return nil, d
	}
	rows, err := r.Jobs()
	if err != nil {
		return nil, d
	}
	for i := range rows {
		id := rows[i].Job
		if rows[i].Task >= 0 {
			id = fmt.Sprintf("%s_%d", id, rows[i].Task)
		}
		if strings.HasPrefix(id, typed) && len(ids) < mostCompleted {
			ids = append(ids, id)
		}
	}
	return ids, d
}

// groups explains the jobs that a filter keeps and that were submitted between start and end
// (start included). A start or end of 0 means no bound.
func groups(r *run.Run, record *explain.Record, filter string, start, end hpc.Time, by []metrics.By) (explain.Groupings, error) {
	rows, absent, err := jobtable.Filter(r, record.Rows(), filter)
	if err != nil {
		return explain.Groupings{}, err
	}
	rows = slices.DeleteFunc(rows, func(row *run.Row) bool {
		submitted := record.Submission(row)
		return start != 0 && submitted < start || end != 0 && submitted >= end
	})
	if len(rows) == 0 {
		why, given := "there is none", []string(nil)
		for i, is := range []bool{filter != "", start != 0, end != 0} {
			if is {
				given = append(given, []string{"--filter", "--start", "--end"}[i])
			}
		}
		if given != nil {
			why = "no job matches " + strings.Join(given, " and ")
		}
		return explain.Groupings{}, fmt.Errorf("explaining jobs: %s (jobs of the run: %d)%s", why,
			metrics.CountJobs(record.Rows()), absent)
	}
	return record.Groups(rows, by...), nil
}
