package iocmd

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/flags"
	"rmreplay/internal/hpc"
	"rmreplay/internal/interrupt"
	"rmreplay/internal/ioservice"
	"rmreplay/internal/ioservice/server"
	"rmreplay/internal/ioservice/site"
	"rmreplay/internal/ioservice/sources"
	"rmreplay/internal/output"
	"rmreplay/internal/wal"
)

// stateOptions are the flags of the commands that open the service's state.
type stateOptions struct {
	state  string
	config ioservice.Config
}

func (s *stateOptions) add(f *pflag.FlagSet) {
	s.config = ioservice.DefaultConfig()
	f.StringVar(&s.state, "state", "", "the `DIR` of the service's state; it is made with mode 0700")
	f.Float64Var(&s.config.Decay, "decay", s.config.Decay, "each job of a class multiplies the weight of earlier "+
		"jobs by 1-`A`")
}

// open opens the state directory. The caller closes the journal.
func (o commands) open(s *stateOptions, from []ioservice.Source) (*ioservice.Service, *wal.State, error) {
	log, saved, records, err := wal.OpenState(s.state, "io")
	if err != nil {
		return nil, nil, console.BadInput(err)
	}
	service, err := ioservice.New(s.config, from, log, saved, records)
	if err != nil {
		return nil, nil, errors.Join(console.BadInput(err), log.Close())
	}
	return service, log, nil
}

// serveOptions are the flags of `io serve`.
type serveOptions struct {
	stateOptions
	sources      sources.Options
	zone         flags.Zone
	bandwidth    bandwidth
	listen, http string
	table        string
	limits       server.Limits
}

func (o commands) serve() *cobra.Command {
	var opts serveOptions
	c := &cobra.Command{
		Use:   "serve --state DIR --bandwidth RATE",
		Short: "Serve estimates of jobs' use of the file system, and its measured use",
		Long: `Serves until it is interrupted. Schedulers ask over TCP for the class of a job, for the
expected use of a class, and for the measured use of the file system. An epilog reports
which job has ended. The service then looks for the job's I/O in the files that --source
names, and updates the estimates of the job's class. The protocol is that of the
Slurm-LDMS project. With --http, the same requests are served over HTTP
(docs/schemas/io.openapi.json).

The service counts use in licences. --licenses is the number of licences that are equal
to the whole --bandwidth. --source may be given several times: KIND:FILES, where FILES
is a path or a pattern and KIND one of

` + sources.Kinds() + `
An acknowledged job is on disk in the state directory, and survives a crash.
--class-table writes the classes to a file that job_submit.lua reads (rmreplay io
script).

The service does not authenticate clients. By default only this machine can reach it.`,
		Example: `  rmreplay io serve --state /var/lib/rmreplay/io --bandwidth 200MiB/s \
    --source 'ldms:/var/ldms/csv/lustre_client.*' --class-table /var/lib/rmreplay/classes
  rmreplay io serve --state io --bandwidth 80GB/s --source 'jobstats:/shared/jobstats/*' \
    --http 127.0.0.1:9998`,
		Args: console.WantArgs(),
		RunE: func(c *cobra.Command, _ []string) error { return o.runServe(c.Context(), &opts) },
	}
	f := c.Flags()
	opts.add(f)
	opts.limits = server.DefaultLimits()
	f.Var(&opts.bandwidth, "bandwidth", "`RATE` that the file system carries, such as 150MiB/s or 80GB/s")
	f.Float64Var(&opts.config.Licenses, "licenses", opts.config.Licenses, "the whole file system is `N` licences")
	f.StringArrayVar(&opts.sources.Files, "source", nil, "learn from `SOURCE`, as KIND:FILES")
	f.StringVar(&opts.sources.FileSystem, "file-system", "", "count only the use of the file system `NAME` in LDMS's files "+
		"(default: all)")
	flags.Days(f, &opts.sources.Retention, "retain", 48*time.Hour,
		"keep samples for a `DURATION`, which must be longer than the longest job runs")
	flags.Duration(f, &opts.config.Delay, "delay", opts.config.Delay,
		"look for a job's counters `DURATION` after its end, and twice more, each time DURATION later")
	flags.Duration(f, &opts.config.MeasureOver, "measure-over", opts.config.MeasureOver,
		"measure the use of the file system over a `DURATION`")
	f.Float64Var(&opts.config.RateSigmas, "rate-sigmas", 0, "add `K` standard deviations to expected rates")
	f.Float64Var(&opts.config.TimeSigmas, "time-sigmas", 0, "add `K` standard deviations to expected run times")
	f.BoolVar(&opts.config.Baseline, "baseline", false, "answer each request as if the use were 0 and no class were known")
	f.StringVar(&opts.listen, "listen", "127.0.0.1:9999", "`ADDRESS` to listen on, as HOST:PORT")
	f.StringVar(&opts.http, "http", "", "also serve HTTP at `ADDRESS`, as HOST:PORT")
	f.StringVar(&opts.table, "class-table", "", "write the classes to `FILE` when they change")
	console.AddCount(f, &opts.limits.Connections, "connections", opts.limits.Connections, "serve at most `N` clients at once")
	opts.zone.Add(f)
	for _, name := range []string{"state", "bandwidth"} {
		_ = c.MarkFlagRequired(name) // the flag exists
	}
	return c
}

// sayOnce reports an error after which the service continues. It reports the same error only once
// in a row.
type sayOnce struct {
	say  func(format string, args ...any)
	last string
}

func (s *sayOnce) error(err error) {
	if err == nil {
		s.last = ""
	} else if s.last != err.Error() {
		s.last = err.Error()
		s.say("rmreplay: %v", err)
	}
}

func (o commands) runServe(ctx context.Context, opts *serveOptions) (err error) {
	if opts.limits.Connections < 1 {
		return console.Usagef("--connections %d: want 1 or more", opts.limits.Connections)
	}
	opts.config.Bandwidth = float64(opts.bandwidth)
	opts.config.Retry = opts.config.Delay
	opts.sources.Zone = opts.zone.Location()
	files, err := sources.New(opts.sources, func(format string, args ...any) { o.Say("rmreplay: "+format, args...) })
	if err != nil {
		return console.Usagef("%w", err)
	}
	defer interrupt.Hold()() // the state is saved at the end
	service, log, err := o.open(&opts.stateOptions, []ioservice.Source{files})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answers := &server.Server{Service: service, Now: now, Limits: opts.limits}
	served := make(chan error, 2)
	serving := 0
	for _, one := range []struct {
		address string
		serve   func(net.Listener) error
	}{
		{opts.listen, func(l net.Listener) error { return answers.Serve(ctx, l) }},
		{opts.http, func(l net.Listener) error {
			return answers.ServeHTTP(ctx, l, func() any { return files.Counts() })
		}},
	} {
		if one.address == "" {
			continue
		}
		listener, err := o.listen(ctx, one.address)
		if err != nil {
			return err
		}
		serving++
		go func() {
			err := one.serve(listener)
			cancel(err)
			served <- err
		}()
	}
	if len(opts.sources.Files) == 0 {
		o.Say("rmreplay: without --source the service learns nothing new")
	}
	o.work(ctx, service, files, opts)
	for range serving {
		err = errors.Join(err, <-served)
	}
	return errors.Join(err, service.Save())
}

// listen opens a socket, and prints its address.
func (o commands) listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, console.BadInput(err)
	}
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		o.Say("rmreplay: %v: every client that reaches this address can send requests and report jobs", tcp)
	}
	o.Say("serving at %v", listener.Addr())
	return listener, nil
}

func now() hpc.Time { return hpc.Time(time.Now().UnixNano()) }

// work reads files, learns from jobs and writes the class table, until the context ends.
func (o commands) work(ctx context.Context, service *ioservice.Service, files *sources.Files, opts *serveOptions) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	problem, tableProblem := sayOnce{say: o.Say}, sayOnce{say: o.Say}
	var written uint64
	tableProblem.error(o.writeTable(service, opts)) // the classes of the saved state
	for {
		if at := now(); at >= service.Next() {
			files.Refresh(at)
			problem.error(service.Advance(at))
		}
		if changes := service.Changes(); changes != written {
			written = changes
			tableProblem.error(o.writeTable(service, opts))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (o commands) writeTable(service *ioservice.Service, opts *serveOptions) error {
	if opts.table == "" {
		return nil
	}
	_, err := output.File(opts.table, func(w io.Writer) error {
		return site.Table(w, service.Classes(), int64(opts.config.Licenses))
	})
	return err
}
