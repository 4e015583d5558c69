package predictcmd

import (
	"context"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rmreplay/internal/accounts"
	"rmreplay/internal/cli/console"
	"rmreplay/internal/flags"
	"rmreplay/internal/forecast/hint"
	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
)

func (o commands) newScript() *cobra.Command {
	return &cobra.Command{
		Use:   "script NAME",
		Short: "Print a script that gives users of sbatch a hint at submission",
		Long: `Prints a Lua script for a stock Slurm. When a user submits a job, the script prints one
line: which time limit jobs like this one need, and the expected start of such a job.
The script runs "rmreplay predict hint", which asks the servers "predict serve" and
"forecast serve". It changes no job, and prints nothing if no answer comes within 0.2
seconds. Its first lines have the addresses of the servers. NAME is

  cli_filter.lua  for CliFilterPlugins=lua, which runs in sbatch and salloc
  job_submit.lua  for JobSubmitPlugins=lua, which runs in slurmctld and keeps it waiting

docs/FORECAST.md says where to install the scripts.`,
		Example:   `  rmreplay predict script cli_filter.lua > /etc/slurm/cli_filter.lua`,
		Args:      console.WantArgs("NAME"),
		ValidArgs: slices.Sorted(maps.Keys(hint.Scripts)),
		RunE: func(_ *cobra.Command, args []string) error {
			text, known := hint.Scripts[args[0]]
			if !known {
				return console.Usagef("%s: not a script (want %s)", args[0],
					strings.Join(slices.Sorted(maps.Keys(hint.Scripts)), " or "))
			}
			return o.Print(text)
		},
	}
}

// hintOptions are the flags of `predict hint`.
type hintOptions struct {
	servers  hint.Servers
	patience time.Duration
}

func (o commands) newHint() *cobra.Command {
	var opts hintOptions
	c := &cobra.Command{
		Use:   "hint [KEY=VALUE]...",
		Short: "Print one line about a job that is being submitted",
		Long: `Asks the server "predict serve" which time limit jobs like this one need, and the server
"forecast serve" for the expected start of such a job. It prints the answers that come
within --patience in one line. If no answer comes, the command prints nothing and exits
with status 0. The scripts that "rmreplay predict script" prints run this command.

KEY is name, user (default: you), account, partition, qos, limit, nodes or tasks, with
the VALUE that sbatch takes. A value that cannot be read is taken as unknown, so that
submissions do not fail.`,
		Example: `  rmreplay predict hint partition=batch nodes=4 limit=12:00:00`,
		RunE:    func(c *cobra.Command, args []string) error { return o.hint(c.Context(), args, opts) },
	}
	f := c.Flags()
	f.StringVar(&opts.servers.Predict, "predict-server", "http://127.0.0.1:8765", "the `URL` of the server \"predict serve\"; \"\": do not ask it")
	f.StringVar(&opts.servers.Forecast, "forecast-server", "http://127.0.0.1:8766",
		"the `URL` of the server \"forecast serve\", or the path of its socket; \"\": do not ask it")
	flags.Duration(f, &opts.patience, "patience", 120*time.Millisecond, "give up after `DURATION`")
	return c
}

func (o commands) hint(ctx context.Context, words []string, opts hintOptions) error {
	ctx, cancel := context.WithTimeout(ctx, opts.patience)
	defer cancel()
	job := submitted(words)
	if job.User == "" {
		job.User, _ = accounts.Name(os.Getuid()) // a user whose name is not known has no history
	}
	if line := opts.servers.Line(ctx, &job); line != "" {
		return o.Print(line + "\n")
	}
	return nil
}

// submitted returns the job that words of the form KEY=VALUE describe.
func submitted(words []string) (job hint.Job) {
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "name":
			job.Name = value
		case "user":
			job.User = value
		case "account":
			job.Account = value
		case "partition":
			job.Partition = value
		case "qos":
			job.QOS = value
		case "limit":
			if limit, err := slurmspec.ParseTimeLimit(value); err == nil && limit > 0 && limit != hpc.Unlimited {
				job.Limit = limit.Seconds()
			}
		case "nodes":
			least, _, _ := strings.Cut(value, "-")
			job.Nodes = count(least)
		case "tasks":
			job.Tasks = count(value)
		}
	}
	return job
}

// maxCounted is the largest number that [count] returns. Larger numbers, such as NO_VAL, are
// Slurm's marks of a number that is not set.
const maxCounted = 1 << 24

// count reads a number. It returns 0 for any other text.
func count(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maxCounted {
		return 0
	}
	return n
}
