package iocmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/flags"
	"rmreplay/internal/hpc"
	"rmreplay/internal/ioaware"
	"rmreplay/internal/ioaware/driver"
	"rmreplay/internal/ioaware/live"
	"rmreplay/internal/quantity"
)

// clusterOptions are the flags of the commands that change a live cluster.
type clusterOptions struct {
	partitions []string
	lease      string
}

func (o *clusterOptions) add(c *cobra.Command) error {
	f := c.Flags()
	f.StringSliceVar(&o.partitions, "partition", nil, "the `PARTITION` whose jobs the driver starts (several times, or "+
		"with commas)")
	f.StringVar(&o.lease, "lease", "/var/lib/rmreplay/io-driver",
		"the `FILE` that a running driver keeps locked, and touches in every round")
	return c.MarkFlagRequired("partition")
}

// scheduleOptions are the flags of `io schedule`.
type scheduleOptions struct {
	clusterOptions
	strategy   string
	trackNodes bool
	license    string
	total      int64
	service    string
	interval   time.Duration
	dryRun     bool
}

func (s *scheduleOptions) add(f *pflag.FlagSet) {
	f.StringVar(&s.strategy, "strategy", "aware", "`STRATEGY` of the plan: baseline, aware or two-group")
	f.BoolVar(&s.trackNodes, "track-nodes", false, "for later starts, plan only how many nodes a job gets, not which")
	f.StringVar(&s.license, "license", "lustre", "the `NAME` of the licence that represents the file system")
	f.Int64Var(&s.total, "total", hpc.DefaultIOLicenses, "the whole file system is `N` licences, unless slurm.conf "+
		"defines their number")
	f.StringVar(&s.service, "service", "", "`ADDRESS` of the service of estimates, as HOST:PORT (rmreplay io serve); "+
		"without a service only requested licences count")
	flags.Duration(f, &s.interval, "interval", 0, "`DURATION` between two rounds (default: rounds follow changes, 3 to "+
		"30 s apart)")
	f.BoolVar(&s.dryRun, "dry-run", false, "say what would be done: plan one round, and change nothing")
}

func (o commands) schedule() *cobra.Command {
	var opts scheduleOptions
	c := &cobra.Command{
		Use:   "schedule --partition PARTITION",
		Short: "Decide which jobs of a live cluster start, with the file system as a resource",
		Long: `Decides in rounds which pending jobs of the given partitions start, and releases these
jobs. The other jobs stay held. slurmctld is unmodified: the driver uses squeue, sinfo
and scontrol, and needs the rights of a Slurm operator. It does not change jobs of other
partitions, or jobs that users or administrators hold. It leaves jobs with a reservation
to Slurm. It holds a job with a dependency or a begin time only when the job becomes
eligible.

The driver refuses to start if slurm.conf lacks necessary lines, and prints them. If the
driver dies, "rmreplay io release --if-driver-dead" releases the jobs that it held. A
driver that is started again continues with the held jobs. docs/IO.md is the guide.`,
		Example: `  rmreplay io schedule --partition batch --dry-run
  rmreplay io schedule --partition batch,long --service 127.0.0.1:9999`,
		Args: console.WantArgs(),
		RunE: func(c *cobra.Command, _ []string) error { return o.runSchedule(c.Context(), &opts) },
	}
	opts.add(c.Flags())
	must(opts.clusterOptions.add(c))
	return c
}

// must panics if err is not nil. Only a mistake in this package can cause such an error.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (o commands) runSchedule(ctx context.Context, opts *scheduleOptions) error {
	strategy, err := ioaware.ParseStrategy(opts.strategy)
	if err != nil {
		return console.Usagef("--strategy %w", err)
	}
	if opts.interval != 0 && opts.interval < time.Second {
		return console.Usagef("--interval %v: too short (want at least 1s)", opts.interval)
	}
	config := live.Config{
		Partitions: opts.partitions, FileSystem: opts.license, Total: opts.total, Run: live.Exec, Now: now,
		Say: o.Say, DryRun: opts.dryRun,
	}
	if opts.service != "" {
		config.Forecaster = live.Service{Address: opts.service}
	}
	cluster := live.New(config)
	if err := cluster.Check(ctx); err != nil {
		return console.BadInput(err)
	}
	d := &driver.Driver{Options: ioaware.Options{Strategy: strategy, TrackNodes: opts.trackNodes},
		Patience: driver.PatienceOf(opts.interval)}
	if opts.dryRun {
		_, err := cluster.Round(ctx, d)
		return err
	}
	lease, err := live.Take(opts.lease)
	if err != nil {
		return console.BadInput(err)
	}
	defer lease.Close() // an error loses nothing: the file has no content
	// A failed round is reported, and the next round tries again.
	cluster.Loop(ctx, d, opts.interval, func(round driver.Round, err error) {
		if err := errors.Join(err, round.Failed, lease.Touch()); err != nil {
			o.Say("%v", err)
		}
		for _, job := range round.Held {
			o.Say("job %s did not start after its release, and is held again", job)
		}
		if n := len(round.Released); n > 0 {
			o.Say("released %d %s: %s", n, quantity.Plural(n, "job", "jobs"), few(round.Released))
		}
	})
	return nil
}

// few returns the first jobs of a list as text.
func few(list []string) string {
	const most = 10
	text := ""
	for i, name := range list[:min(len(list), most)] {
		if i > 0 {
			text += ", "
		}
		text += name
	}
	if more := len(list) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// release makes the command that releases the driver's jobs. With --if-driver-dead it is a
// watchdog.
func (o commands) release() *cobra.Command {
	var opts clusterOptions
	var ifDead bool
	var after time.Duration
	c := &cobra.Command{
		Use:   "release --partition PARTITION --if-driver-dead",
		Short: "Release the jobs that the driver holds",
		Long: `Releases the jobs of the given partitions that "rmreplay io schedule", or its
job_submit.lua, holds, so that Slurm schedules them. Jobs that a user or an administrator
has put on hold stay on hold. With --if-driver-dead the command does nothing while the
driver works, so cron or a timer of systemd can run it every minute. It must run on the
machine of the driver.`,
		Example: `  rmreplay io release --partition batch --if-driver-dead
  rmreplay io release --partition batch`,
		Args: console.WantArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			if ifDead {
				dead, err := live.Dead(opts.lease, after)
				if err != nil || !dead {
					return err
				}
			}
			cluster := live.New(live.Config{Partitions: opts.partitions, Run: live.Exec, Now: now, Say: o.Say})
			n, err := cluster.ReleaseAll(c.Context())
			if n > 0 {
				o.Say("released %d %s", n, quantity.Plural(n, "job", "jobs"))
			}
			return err
		},
	}
	f := c.Flags()
	f.BoolVar(&ifDead, "if-driver-dead", false, "do nothing if the driver's last round is less than --after ago")
	flags.Duration(f, &after, "after", 2*time.Minute, "a driver whose last round is `DURATION` or more ago counts as dead")
	must(opts.add(c))
	return c
}
