package predictcmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/experiment"
	"rmreplay/internal/hpc"
	"rmreplay/internal/predict/service"
	"rmreplay/internal/wal"
)

// serveOptions are the flags of `predict serve`.
type serveOptions struct {
	listen  string
	token   string
	journal string
}

func (o commands) newServe() *cobra.Command {
	var opts serveOptions
	c := &cobra.Command{
		Use:   "serve MODEL",
		Short: "Answer questions about run times over HTTP, with a trained model",
		Long: `Answers over HTTP with JSON, for job-submit plugins, portals and accounting pages, until
it is interrupted. docs/schemas/predict.openapi.json describes the interface:

  POST /v1/predict  predicts the run times of jobs from their users' requests
  POST /v1/events   takes submissions, starts and ends, from which the service learns
  GET  /v1/model    says where the model comes from and what was learned since

With --journal, a directory keeps the events: a service that was stopped or killed
continues where it was. Without --journal, a service that is started again has forgotten
the events.

The service listens on the loopback interface only, unless --token is given. The file of
--token has one line, the token. Clients send it as "Authorization: Bearer TOKEN".`,
		Example: `  rmreplay predict serve march.model --journal march.events
  curl -s localhost:8765/v1/predict -d '{"jobs":[{"user":"ana","tasks":64}]}'`,
		Args: console.WantArgs("MODEL"),
		RunE: func(c *cobra.Command, args []string) error { return o.serve(c.Context(), args[0], opts) },
	}
	f := c.Flags()
	f.StringVar(&opts.listen, "listen", "127.0.0.1:8765", "`ADDRESS` to listen on; port 0 takes a free one")
	f.StringVar(&opts.token, "token", "", "answer only clients that give the token in this `FILE`")
	f.StringVar(&opts.journal, "journal", "", "keep the events in this `DIR`, and continue with those in it")
	return c
}

func (o commands) serve(ctx context.Context, path string, opts serveOptions) error {
	how := service.Options{Now: func() hpc.Time { return hpc.Time(time.Now().UnixNano()) }}
	if opts.token != "" {
		text, err := os.ReadFile(opts.token)
		if err != nil {
			return console.BadInput(fmt.Errorf("reading the token: %w", err))
		}
		if how.Token = strings.TrimSpace(string(text)); how.Token == "" || strings.ContainsAny(how.Token, " \t\r\n") {
			return console.BadInput(fmt.Errorf("reading the token: %s: not a token (want one word)", opts.token))
		}
	}
	if err := o.checkListen(opts); err != nil {
		return err
	}
	m, err := experiment.ReadModel(path)
	if err != nil {
		return console.BadInput(err)
	}
	var kept [][]byte
	if opts.journal != "" {
		journal, _, records, err := wal.OpenState(opts.journal, "predict")
		if err != nil {
			return console.BadInput(fmt.Errorf("opening the journal: %w", err))
		}
		defer journal.Close() // each batch was synced
		for _, torn := range journal.Torn() {
			o.Say("rmreplay: %s: the last record is not complete (%d bytes, moved to %s)", opts.journal, torn.Bytes,
				torn.Path)
		}
		kept, how.Journal = records, journal
	}
	s := service.New(m, how)
	if err := s.Replay(kept); err != nil {
		return console.BadInput(fmt.Errorf("reading the journal: %s: %w", opts.journal, err))
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", opts.listen)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", opts.listen, err)
	}
	o.Say("rmreplay: %s: http://%s", m.Describe(), listener.Addr())
	return run(ctx, listener, s)
}

// checkListen refuses addresses that other machines can reach, unless --token is given.
func (o commands) checkListen(opts serveOptions) error {
	host, _, err := net.SplitHostPort(opts.listen)
	if err != nil {
		return console.Usagef("--listen %s: not an address (want HOST:PORT, as 127.0.0.1:8765)", opts.listen)
	}
	if ip := net.ParseIP(host); opts.token == "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return console.Usagef("--listen %s: other machines could reach it (want an address of the loopback interface, or a --token)",
			opts.listen)
	}
	return nil
}

// run serves until the context is done. Requests that are in progress at that moment have 0.4 s to complete, because
// the program ends half a second after a signal.
func run(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 60 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 400*time.Millisecond)
	defer cancel()
	err := server.Shutdown(end)
	if served := <-failed; err == nil && !errors.Is(served, http.ErrServerClosed) {
		err = served
	}
	if err != nil {
		return fmt.Errorf("ending the service: %w", err)
	}
	return ctx.Err()
}
