package service

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/net/netutil"

	"rmreplay/internal/access"
	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/elastic"
	"rmreplay/internal/accounting/engine"
	"rmreplay/internal/accounting/forward"
	"rmreplay/internal/accounting/intake"
	"rmreplay/internal/accounting/kafka"
	"rmreplay/internal/accounting/receive"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/web"
	"rmreplay/internal/hpc"
	"rmreplay/internal/interrupt"
	"rmreplay/internal/quantity"
	"rmreplay/internal/workload/build"
)

const (
	headerTime  = 10 * time.Second // time limit for receiving a request's header
	idleTime    = 60 * time.Second // time limit of a connection between two requests
	answerTime  = 15 * time.Minute // time limit from the end of a request's header to the end of the response
	connections = 8192             // highest number of open connections
	endTime     = time.Second      // time limit for requests in progress when the server ends
	// ownMemory is the memory limit of this process in bytes, at which garbage is collected more
	// often.
	ownMemory = 256 << 20
)

// Serve runs the server until ctx ends.
func (Service) Serve(ctx context.Context, opts Serve, say func(format string, args ...any)) (err error) {
	var who *access.Access
	if opts.Auth != "" {
		if who, err = access.Read(opts.Auth, receive.Ingest, receive.Read, receive.All); err != nil {
			return err
		}
	}
	for _, address := range opts.Listen {
		if err := checkAddress(address, who.Required() || opts.Open); err != nil {
			return err
		}
	}
	if err := errors.Join(checkAddresses(&opts), checkSdiag(&opts), checkRuns(opts.Runs)); err != nil {
		return err
	}
	config, err := certified(&opts)
	if err != nil {
		return err
	}
	release := interrupt.Hold()
	defer release()
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(min(debug.SetMemoryLimit(-1), ownMemory)))
	jobs, err := newSource(&opts)
	if err != nil {
		return err
	}
	takes := opts.Data != ""
	if err := missingEngine(); err != nil && jobs == nil {
		if !takes {
			return &MissingError{err}
		}
		say("rmreplay: warning: %v", err)
	}
	if !takes {
		if opts.Data, err = os.MkdirTemp("", "rmreplay-accounting-"); err != nil {
			return fmt.Errorf("making a directory for the server: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(opts.Data)) }()
	}
	s, err := openAbout(ctx, opts.Data, intake.Options{
		Cluster: opts.ClusterName, Store: store.Options{Memory: opts.MemoryMiB},
		Report: func(err error) { say("rmreplay: %v", err) },
	}, who, jobs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if len(opts.Runs) > 0 {
		if err := s.openRuns(ctx, opts.Runs, say); err != nil {
			return &InputError{err}
		}
	}
	if !takes && jobs != nil {
		s.handler.Refuses = "this server shows an Elasticsearch cluster, and receives no jobs (want --data DIR, too)"
	}
	if opts.Forward != "" {
		end, err := s.forward(ctx, opts, say)
		if err != nil {
			return err
		}
		defer end()
	}
	before := s.tally()
	end, err := s.health(ctx, opts, say)
	if err != nil {
		return err
	}
	defer end()
	endKafka, err := s.kafka(ctx, opts, say)
	if err != nil {
		return err
	}
	err = s.serve(ctx, opts, config, takes, say)
	endKafka()
	if err != nil {
		return err
	}
	s.sayTally(before, say)
	return nil
}

// checkRuns returns an error that names the first path that is not a run.
func checkRuns(runs []string) error {
	for _, path := range runs {
		if _, err := os.Stat(path); err != nil {
			return &InputError{fmt.Errorf("opening the run: %w", err)}
		}
		if found, err := isRun(path); err != nil {
			return &InputError{fmt.Errorf("opening the run: %w", err)}
		} else if !found {
			return &InputError{fmt.Errorf("opening the run %s: neither a record of rmreplay nor a workload with the outcome "+
				"of its jobs (accounting import reads other records)", path)}
		}
	}
	return nil
}

// missingEngine returns an error that says how to get rmreplay-engine, or nil if it is installed.
func missingEngine() error {
	if err := engine.Installed(); err != nil {
		return fmt.Errorf("pages and searches need rmreplay-engine, which is installed with rmreplay's packages, and made "+
			"by make build: %w", err)
	}
	return nil
}

// certified returns the configuration of TLS; nil if the server has no certificate.
func certified(opts *Serve) (*tls.Config, error) {
	if opts.TLSCert == "" {
		return nil, nil
	}
	certificate, err := tls.LoadX509KeyPair(opts.TLSCert, opts.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"}}, nil
}

// newSource returns the Elasticsearch cluster whose jobs the pages show, and nil for the store. It
// also makes the server forward received documents to this cluster.
func newSource(opts *Serve) (web.Source, error) {
	if opts.Store != Elasticsearch {
		return nil, nil
	}
	cluster, err := elastic.New(elastic.Options{URL: opts.URL, Credentials: opts.URLAuth})
	if err == nil && opts.Data != "" {
		opts.Forward, opts.ForwardAuth = opts.URL, opts.URLAuth
	}
	return cluster, err
}

// openRuns imports the jobs of runs. The server then refuses other jobs, which would be lost when
// the temporary directory is removed.
func (s *site) openRuns(ctx context.Context, runs []string, say func(format string, args ...any)) error {
	imported, err := (Service{}).Import(ctx, s.dir, Records{Sources: runs, From: string(build.Auto), Live: true})
	if err != nil {
		return err
	}
	for _, path := range runs {
		if doubt := Doubt(path); doubt != "" {
			say("rmreplay: %s", doubt)
		}
	}
	s.handler.Refuses = "this server shows runs, and receives no jobs (want accounting serve --data DIR)"
	say("rmreplay: %s of %s", quantity.Regular(imported.Added, "job record"), quantity.Regular(len(runs), "run"))
	return nil
}

// tally counts what happened to the documents of a data directory up to an instant.
type tally struct {
	received int64            // number of the last received document
	rules    map[string]int64 // number of documents per rule that they broke
	outcome  store.Outcome    // since the directory was opened
	behind   int64            // documents that are not in the store yet
}

func (s *site) tally() tally {
	status := s.intake.Status()
	v := s.intake.Store().View()
	defer v.Close()
	return tally{status.Received, v.Counts(), status.Outcome, status.Received - status.Applied}
}

// sayTally prints what happened to the documents since an earlier tally.
func (s *site) sayTally(before tally, say func(format string, args ...any)) {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	_ = s.intake.Wait(ctx, s.intake.Status().Received) // documents that are still missing then are counted below
	now := s.tally()
	text := fmt.Sprintf("%d %s new, %d already there, %d replaced by a later document",
		now.outcome.Added-before.outcome.Added, quantity.Plural(now.outcome.Added-before.outcome.Added, "job", "jobs"),
		now.outcome.Duplicate-before.outcome.Duplicate, now.outcome.Replaced-before.outcome.Replaced)
	if kept := now.outcome.Kept - before.outcome.Kept; kept > 0 {
		text += fmt.Sprintf(", %d kept as Slurm sent them", kept)
	}
	if now.behind > 0 {
		text += fmt.Sprintf(", %d to enter the database at the next start", now.behind)
	}
	for _, mark := range document.Rules {
		if n := now.rules[mark] - before.rules[mark]; n > 0 {
			text += fmt.Sprintf("; %d marked %s", n, mark)
		}
	}
	say("rmreplay: received %d %s: %s", now.received-before.received,
		quantity.Plural(now.received-before.received, "document", "documents"), text)
}

// forward starts to forward documents. The returned function stops the forwarder.
func (s *site) forward(ctx context.Context, opts Serve, say func(format string, args ...any)) (end func(), err error) {
	f, err := forward.New(s.intake.Store(), forward.Options{
		URL: opts.Forward, Credentials: opts.ForwardAuth, Dir: s.dir, Derived: opts.Store == Elasticsearch,
		Report: func(err error) { say("rmreplay: %v", err) },
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	return func() { cancel(); <-done }, nil
}

// checkAddress refuses an address that can be reached from other machines, unless the parameter
// guarded is true.
func checkAddress(address string, guarded bool) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return usage(fmt.Errorf("listening on %s: %w (want HOST:PORT)", address, err))
	}
	if ip := net.ParseIP(host); guarded || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("listening on %s: everybody on the network could read and send jobs (want --auth FILE, or --open)",
		address)
}

// checkAddresses returns an error for invalid URLs or addresses of other servers.
func checkAddresses(opts *Serve) error {
	for name, text := range map[string]string{"--forward": opts.Forward, "--url": opts.URL} {
		if text == "" {
			continue
		}
		if _, _, err := forward.Target(text); err != nil {
			return usage(fmt.Errorf("%s: %w", name, err))
		}
	}
	if opts.Kafka == "" {
		return nil
	}
	_, _, err := kafka.ParseFrom(opts.Kafka)
	return usage(err)
}

// serve listens on the addresses until ctx ends. The parameter takes says whether the server
// accepts documents.
func (s *site) serve(ctx context.Context, opts Serve, config *tls.Config, takes bool,
	say func(format string, args ...any)) error {
	server := &http.Server{
		Handler: s.figures.count(s.handler, s.handler.Takes), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime,
		WriteTimeout:   answerTime,
		MaxHeaderBytes: 64 << 10,
		ErrorLog:       log.New(reporter(say), "", 0),
	}
	ended := make(chan error, len(opts.Listen))
	scheme := "http"
	for _, address := range opts.Listen {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return errors.Join(fmt.Errorf("listening: %w", err), server.Close())
		}
		address = listener.Addr().String()
		listener = netutil.LimitListener(listener, connections)
		if config != nil {
			scheme = "https"
			listener = tls.NewListener(listener, config)
		}
		go func() { ended <- server.Serve(listener) }()
		if !takes {
			say("rmreplay: pages on %s://%s%s", scheme, address, receive.Pages)
			continue
		}
		say("rmreplay: receiving on %s://%s: JobCompLoc=%s://%s/%s/_doc", scheme, address, scheme, address,
			cmp.Or(opts.ClusterName, "NAME"))
	}
	keep := time.NewTicker(retentionEvery)
	defer keep.Stop()
	for {
		if err := s.expire(ctx, opts, say); err != nil {
			say("rmreplay: %v", err)
		}
		select {
		case <-keep.C:
		case err := <-ended:
			return errors.Join(fmt.Errorf("serving: %w", err), server.Close())
		case <-ctx.Done():
			late, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
			defer cancel()
			if err := server.Shutdown(late); err != nil {
				return server.Close()
			}
			return nil
		}
	}
}

const retentionEvery = 24 * time.Hour

// expire removes jobs that ended before the retention time, and figures of schedulers that are
// older than the retention time of figures. It says how many jobs it removed.
func (s *site) expire(ctx context.Context, opts Serve, say func(format string, args ...any)) (err error) {
	if opts.Retention > 0 {
		var jobs int64
		jobs, err = s.intake.Store().Expire(ctx, time.Now().Add(-opts.Retention))
		say("rmreplay: --retention %s: removed %d %s", hpc.FormatDuration(opts.Retention), jobs,
			quantity.Plural(int(jobs), "job", "jobs"))
	}
	if len(opts.Sdiag) > 0 && opts.SdiagKeep > 0 {
		_, healthErr := s.intake.Store().ExpireHealth(time.Now().Add(-opts.SdiagKeep))
		err = errors.Join(err, healthErr)
	}
	return err
}

// reporter prints log messages of the HTTP server.
type reporter func(format string, args ...any)

// Write prints one message.
func (r reporter) Write(text []byte) (int, error) {
	r("rmreplay: %s", strings.TrimSpace(string(text)))
	return len(text), nil
}
