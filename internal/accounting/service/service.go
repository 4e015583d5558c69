// Package service implements the accounting commands: the server for a data directory, and the
// client that sends requests to it.
//
// One process has a data directory open. It listens on a socket in the directory, control.sock, which only the
// directory's owner can reach. Every command sends requests to this socket. If no process listens there, the command
// itself opens the directory and listens while it runs. So each command needs only one implementation.
package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"rmreplay/docs/schemas"
	"rmreplay/internal/access"
	"rmreplay/internal/accounting/intake"
	"rmreplay/internal/accounting/receive"
	"rmreplay/internal/accounting/search"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/web"
	"rmreplay/internal/quantity"
)

// Service implements the accounting commands.
type Service struct{}

// New returns a Service.
func New() Service { return Service{} }

const socket = "control.sock"

// site is an open data directory, with the server on its socket.
type site struct {
	dir     string
	intake  *intake.Intake
	handler *receive.Handler
	figures *figures
	routes  []string // patterns of all paths
	control *http.Server
	closed  chan error // receives the error with which the server on the socket ended
}

// open opens a data directory and listens on its socket.
func open(ctx context.Context, dir string, opts intake.Options, who *access.Access) (*site, error) {
	return openAbout(ctx, dir, opts, who, nil)
}

// openAbout does the same as [open]. If the parameter jobs is not nil, the pages show the jobs of
// this source.
func openAbout(ctx context.Context, dir string, opts intake.Options, who *access.Access, jobs web.Source) (s *site,
	err error) {
	opts.Now = time.Now
	f := newFigures()
	opts.Store.Asked = f.asked
	in, err := intake.Open(ctx, dir, opts)
	if err != nil {
		return nil, err
	}
	s = &site{dir: dir, intake: in, handler: receive.New(in, who), figures: f, closed: make(chan error, 1)}
	s.register(jobs)
	listener, err := listenSocket(dir)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listening in the data directory: %w", err), in.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("/", s.handler.Trusted())
	mux.HandleFunc("GET /_accounting/info", s.info)
	mux.HandleFunc("GET /_accounting/wait", s.wait)
	mux.HandleFunc("PUT /_accounting/cluster", s.cluster)
	mux.HandleFunc("POST /_accounting/health", s.takeHealth)
	mux.HandleFunc("POST /_accounting/documents", s.documents)
	mux.HandleFunc("POST /_accounting/table", s.table)
	mux.HandleFunc("POST /_accounting/absent", s.absent)
	mux.HandleFunc("POST /_accounting/remove", s.remove)
	mux.HandleFunc("POST /_accounting/backup", s.backup)
	mux.HandleFunc("POST /_accounting/verify", s.verify)
	s.control = &http.Server{Handler: mux, ReadHeaderTimeout: headerTime}
	go func() { s.closed <- s.control.Serve(listener) }()
	return s, nil
}

// register adds the handlers for searches and pages to the handler that receives documents.
func (s *site) register(jobs web.Source) {
	in := s.intake
	api := search.Register(s.handler.API, in.Store(), search.Options{
		Refresh: func(ctx context.Context) error { return in.Wait(ctx, in.Status().Received) }, Ready: s.ready(),
	})
	mux := http.NewServeMux()
	pages := web.Register(mux, in.Store(), jobs)
	var h http.Handler = mux
	if jobs == nil {
		h = whenReady(s.ready(), mux)
	}
	s.handler.Pages.Handle("/", h)
	const description = "GET /openapi.json"
	s.handler.API.HandleFunc(description, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(schemas.Accounting) // an error means that the client has disconnected
	})
	const figures = "GET /metrics"
	s.handler.API.Handle(figures, s.figures.handler(in))
	s.routes = slices.Concat(s.handler.Routes(), api.Routes(), pages, []string{description, figures})
}

// readyTime is the longest time that pages and searches wait for documents that arrived before the start.
const readyTime = 20 * time.Second

// ready returns a function that waits until the store contains all documents that had arrived
// before the directory was opened. Until then, answers would be about a part of the jobs.
func (s *site) ready() func(ctx context.Context) error {
	before := s.intake.Status().Received
	return func(ctx context.Context) error {
		now := s.intake.Status()
		if now.Fault == nil && now.Applied < before {
			ctx, cancel := context.WithTimeout(ctx, readyTime)
			defer cancel()
			_ = s.intake.Wait(ctx, before) // an error means that documents are missing, which the check below finds
			now = s.intake.Status()
		}
		left := before - now.Applied
		if left <= 0 {
			return nil
		}
		return errors.Join(fmt.Errorf("%d %s that arrived before the server started %s not in the tables yet, so figures "+
			"would lack jobs (repeat the request in a minute; accounting info shows how many are left)", left,
			quantity.Plural(left, "document", "documents"), quantity.Plural(left, "is", "are")), now.Fault)
	}
}

// whenReady returns a handler that calls the function ready before each request, and fails with
// the function's error.
func whenReady(ready func(ctx context.Context) error, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := ready(r.Context()); err != nil {
			w.Header().Set("Retry-After", "10")
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Close stops the server on the socket and closes the directory.
func (s *site) Close() error {
	err := s.control.Close()
	if ended := <-s.closed; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return errors.Join(err, s.intake.Close())
}

// listenSocket creates the socket. A socket that already exists belongs to a process that has ended, because this
// process has the directory's lock.
func listenSocket(dir string) (net.Listener, error) {
	if err := os.Remove(filepath.Join(dir, socket)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var listener net.Listener
	err := shortPath(dir, func(path string) (err error) {
		listener, err = net.Listen("unix", path)
		return err
	})
	if err != nil {
		return nil, err
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false) // Go would use the path from shortPath
	return listener, os.Chmod(filepath.Join(dir, socket), 0o600)
}

// shortPath calls the function do with a path of the socket that fits into a socket address (107
// bytes).
func shortPath(dir string, do func(path string) error) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(do(fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), socket)), d.Close())
}

// client sends requests to the process that has a data directory open.
type client struct {
	http  *http.Client
	close func() error
	own   bool // the directory was not open, so this process has opened it
}

// connect returns a client for an existing data directory.
func connect(ctx context.Context, dir string) (*client, error) {
	switch err := store.Exists(dir); {
	case errors.Is(err, store.ErrAbsent), errors.Is(err, unix.ENOTDIR):
		return nil, fmt.Errorf("opening the data directory: %s: %w (want a directory of accounting serve or import)", dir,
			store.ErrAbsent)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("opening the data directory: %w (want the command to run as the directory's owner)", err)
	case err != nil:
		return nil, fmt.Errorf("opening the data directory: %w", err)
	}
	return connectNew(ctx, dir)
}

// connectNew returns a client for a data directory, and creates the directory if necessary.
func connectNew(ctx context.Context, dir string) (*client, error) {
	c := &client{close: func() error { return nil }}
	c.http = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (conn net.Conn,
		err error) {
		err = shortPath(dir, func(path string) (err error) {
			conn, err = new(net.Dialer).DialContext(ctx, "unix", path)
			return err
		})
		return conn, err
	}}}
	if response, err := c.http.Get("http://data/_accounting/info"); err == nil {
		return c, response.Body.Close()
	}
	s, err := open(ctx, dir, intake.Options{}, nil)
	if err != nil {
		return nil, err
	}
	c.close, c.own = s.Close, true
	return c, nil
}

// Close closes the connections, and stops the server if the client started a server.
func (c *client) Close() error {
	c.http.CloseIdleConnections()
	return c.close()
}

// get requests a JSON object and decodes it. The parameter to is a pointer to the variable for the
// result.
func (c *client) get(ctx context.Context, path string, to any) error {
	body, err := c.stream(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(body).Decode(to); err != nil {
		return fmt.Errorf("reading the server's answer: %w", err)
	}
	return nil
}

// stream sends a request and returns the body of the response. The caller must close the body.
func (c *client) stream(ctx context.Context, method, path string, body io.Reader, header ...string) (io.ReadCloser,
	error) {
	answer, _, err := c.send(ctx, method, path, body, header...)
	return answer, err
}

// send is like stream, and also returns the header of the response.
func (c *client) send(ctx context.Context, method, path string, body io.Reader, header ...string) (io.ReadCloser,
	http.Header, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://data"+path, body)
	if err != nil {
		return nil, nil, err
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, nil, fmt.Errorf("asking the server: %w", err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		defer response.Body.Close()
		var answer struct{ Error struct{ Reason string } }
		if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Error.Reason == "" {
			return nil, nil, fmt.Errorf("asking the server: %s", response.Status)
		}
		return nil, nil, errors.New(answer.Error.Reason)
	}
	return response.Body, response.Header, nil
}
