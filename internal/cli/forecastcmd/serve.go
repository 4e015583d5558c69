package forecastcmd

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rmreplay/internal/access"
	"rmreplay/internal/cli/console"
	"rmreplay/internal/flags"
	"rmreplay/internal/forecast"
	"rmreplay/internal/forecast/service"
	"rmreplay/internal/interrupt"
)

// serveOptions are the flags of `forecast serve`.
type serveOptions struct {
	drawOptions
	data, cluster, listen, auth string
	every, keep                 time.Duration
	questions                   int
	history, timeout            time.Duration
	zone                        flags.Zone
}

func (o commands) newServe() *cobra.Command {
	var opts serveOptions
	c := &cobra.Command{
		Use:   "serve --data DIR",
		Short: "Forecast the live cluster's queue again and again, and tell users when their jobs will start",
		Long: `Captures the live cluster every few minutes with commands of Slurm that only read,
simulates its scheduler from this state on with the model of Slurm's scheduler, and
answers until it is interrupted: when pending jobs will start, what they wait for, and
how long a job that is submitted now would wait. It compares earlier forecasts with the
starts that later captures show.

It serves pages at /, JSON (docs/schemas/forecast.openapi.json), and figures for
Prometheus at /metrics. rmreplay forecast ask prints the answer about a job. Each answer
says how old its forecast is, and whether it is stale: older than three times --every.

The directory of --data has the last forecast and the quality of earlier forecasts. A
service that is started again continues with both, even if it was killed.

The service runs Slurm's commands for at most a tenth of the time, and less often while
Slurm does not answer. If a forecast up to --horizon would take more than half of
--every, the service forecasts less far ahead.

--listen takes addresses and paths of Unix sockets, separated by commas. On a socket the
service knows which user sends a request. If the site hides jobs (PrivateData=jobs),
users see only their own jobs on a socket, and over TCP only what a credential permits.
--auth names a file with one line for each credential. With the line user USER PASSWORD
a client sees the jobs of USER. With all USER PASSWORD or all token TOKEN it sees all
jobs. Without --auth the service listens on sockets and on the loopback interface only.`,
		Example: `  rmreplay forecast serve --data /var/lib/rmreplay/forecast \
    --listen 127.0.0.1:8766,/run/rmreplay/forecast.sock
  rmreplay forecast ask 4711`,
		Args: console.WantArgs(),
		RunE: func(c *cobra.Command, _ []string) error { return o.serve(c.Context(), opts) },
	}
	f := c.Flags()
	f.StringVar(&opts.data, "data", "", "the data directory `DIR`, which keeps the forecasts; it is made with mode 0700")
	f.StringVar(&opts.cluster, "cluster", "", "`DIR` of the cluster (default: that of the capture)")
	flags.Duration(f, &opts.every, "every", 5*time.Minute, "capture the queue and make a forecast every `DURATION`")
	flags.Days(f, &opts.keep, "judge-over", 30*24*time.Hour, "judge forecasts by the starts of the last `DURATION`")
	f.StringVar(&opts.listen, "listen", "127.0.0.1:8766", "`ADDRESS` to listen on: HOST:PORT or the path of a socket; "+
		"several are separated by commas")
	f.StringVar(&opts.auth, "auth", "", "`FILE` of credentials")
	console.AddCount(f, &opts.questions, "questions", 20, "answer each user at most `N` questions an hour about what "+
		"would make a job start sooner")
	addLive(f, &opts.history, &opts.timeout)
	opts.add(f, 48*time.Hour)
	opts.zone.Add(f)
	console.Require(c, "data")
	return c
}

// atLeast checks durations of flags.
func atLeast(name string, d, minimum time.Duration) error {
	if d < minimum {
		return console.Usagef("--%s %v: want %v or more", name, d, minimum)
	}
	return nil
}

// serviceOptions returns the options of the service.
func (o commands) serviceOptions(opts *serveOptions) (service.Options, error) {
	how := service.Options{
		Every: opts.every, Keep: opts.keep, History: opts.history, Timeout: opts.timeout, Cluster: opts.cluster,
		Questions: opts.questions, Zone: opts.zone.Location(), Version: o.Version, Say: o.Say,
	}
	err := errors.Join(atLeast("every", opts.every, time.Second), atLeast("judge-over", opts.keep, 24*time.Hour),
		atLeast("history", opts.history, 0), atLeast("timeout", opts.timeout, time.Second), atLeast("horizon", opts.horizon,
			time.Minute),
		opts.check())
	if err != nil {
		return how, err
	}
	how.Forecast = forecast.Options{Realizations: opts.realizations, Parallel: opts.parallel, Seed: opts.seed,
		Horizon: opts.horizon,
		Within:  []time.Duration{time.Hour, 4 * time.Hour, 24 * time.Hour}}
	if how.NewLearner, err = opts.learner(o, &how.Forecast); err != nil {
		return how, err
	}
	return how, opts.later(nil, &how.Forecast)
}

func (o commands) serve(ctx context.Context, opts serveOptions) (err error) {
	how, err := o.serviceOptions(&opts)
	if err != nil {
		return err
	}
	var credentials *access.Access
	if opts.auth != "" {
		if credentials, err = access.Read(opts.auth, service.User, service.All); err != nil {
			return console.BadInput(err)
		}
	}
	addresses := strings.Split(opts.listen, ",")
	for _, address := range addresses {
		if err := service.CheckAddress(address, credentials.Required()); err != nil {
			return console.Usagef("--listen %w", err)
		}
	}
	defer interrupt.Hold()() // the state is saved at the end
	s, err := service.Open(opts.data, how)
	if err != nil {
		return console.BadInput(err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for _, torn := range s.Torn() {
		o.Say("rmreplay: %s: the last record is not complete (%d bytes, moved to %s)", opts.data, torn.Bytes, torn.Path)
	}
	var listeners []net.Listener
	for _, address := range addresses {
		l, err := service.Listen(ctx, address)
		if err != nil {
			for _, other := range listeners {
				_ = other.Close() // no client has connected yet
			}
			return err
		}
		listeners = append(listeners, l)
		if l.Addr().Network() == "unix" {
			o.Say("rmreplay: serving at %s", l.Addr())
			continue
		}
		o.Say("rmreplay: serving at http://%s", l.Addr())
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx)
	}()
	err = service.Serve(ctx, s.Handler(credentials), listeners)
	cancel()
	<-ended
	return err
}
