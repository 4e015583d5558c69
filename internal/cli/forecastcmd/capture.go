package forecastcmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/forecast/capture"
)

// captureOptions are the flags of `forecast capture`.
type captureOptions struct {
	output           string
	history, timeout time.Duration
}

func (o commands) newCapture() *cobra.Command {
	var opts captureOptions
	c := &cobra.Command{
		Use:   "capture -o DIR",
		Short: "Save the queue of the live cluster for forecasts",
		Long: `Runs scontrol, sdiag, sshare, sacct and sacctmgr, which change nothing on the cluster,
and saves their output: pending and running jobs, the states of nodes and partitions,
reservations, fair-share usage, finished jobs, accounts and QOS, and the site's
configuration. Any user may run the command. Jobs that the user may not see (PrivateData
in slurm.conf) are missing in the forecast, too.`,
		Example: `  rmreplay forecast capture -o queue
  rmreplay forecast queue --starts-by 2024-03-05T18:00`,
		Args: console.WantArgs(),
		RunE: func(c *cobra.Command, _ []string) error { return o.capture(c.Context(), opts) },
	}
	console.AddOutput(c.Flags(), &opts.output, "write to `DIR`, a new directory")
	addLive(c.Flags(), &opts.history, &opts.timeout)
	console.Require(c, "output")
	return c
}

func (o commands) capture(ctx context.Context, opts captureOptions) error {
	err := capture.Run(ctx, opts.output, capture.Options{History: opts.history, Timeout: opts.timeout, Now: time.Now()})
	if err != nil {
		return err
	}
	q, err := capture.Read(opts.output)
	if err != nil {
		return console.BadInput(err)
	}
	o.Say("%s: %d pending jobs at %s", opts.output, len(q.Pending()), q.At)
	return nil
}
