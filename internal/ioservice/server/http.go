package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"sync"

	"rmreplay/internal/httpjson"
	"rmreplay/internal/ioservice"
	"rmreplay/internal/origin"
)

// Routes returns the paths of the HTTP interface with their methods, as described in
// docs/schemas/io.openapi.json.
func Routes() map[string]string {
	routes := map[string]string{"/v1/classes": http.MethodGet, "/v1/status": http.MethodGet}
	for _, kind := range ioservice.RequestTypes() {
		routes["/v1/"+kind] = http.MethodPost
	}
	return routes
}

// Handler returns the HTTP interface: a POST of a request's fields to /v1/TYPE, and lists. If
// status is not nil, the result of this function is added to the answer of /v1/status. Web pages of
// other sites cannot send requests.
func (s *Server) Handler(status func() any) http.Handler {
	mux := http.NewServeMux()
	for path, method := range Routes() {
		switch path {
		case "/v1/classes":
			mux.HandleFunc(method+" "+path, func(w http.ResponseWriter, _ *http.Request) {
				httpjson.Reply(w, http.StatusOK, map[string]any{"classes": s.Service.Classes()})
			})
		case "/v1/status":
			mux.HandleFunc(method+" "+path, func(w http.ResponseWriter, _ *http.Request) {
				answer := map[string]any{"service": s.Service.Status(s.Now())}
				if status != nil {
					answer["sources"] = status()
				}
				httpjson.Reply(w, http.StatusOK, answer)
			})
		default:
			kind := path[len("/v1/"):]
			mux.HandleFunc(method+" "+path, func(w http.ResponseWriter, r *http.Request) { s.request(w, r, kind) })
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := (origin.Policy{}).Admit(w, r); err != nil {
			httpjson.Reply(w, http.StatusForbidden, refusal(err.Error()))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// request answers a request of the protocol.
func (s *Server) request(w http.ResponseWriter, r *http.Request, kind string) {
	if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); media != "application/json" {
		httpjson.Reply(w, http.StatusUnsupportedMediaType, refusal(fmt.Sprintf("Content-Type %.60q (want application/json)",
			r.Header.Get("Content-Type"))))
		return
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(s.Limits.Message)))
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		httpjson.Reply(w, http.StatusRequestEntityTooLarge, refusal(fmt.Sprintf("the request has more than %d bytes",
			s.Limits.Message)))
		return
	case err != nil:
		return // the client has disconnected
	}
	answer := s.Service.Answer(s.Now(), bytes.TrimSpace(text), kind)
	code := http.StatusOK
	switch answer.Status {
	case ioservice.StatusACK:
		code = http.StatusAccepted
	case ioservice.StatusError:
		code = http.StatusBadRequest
	}
	httpjson.Reply(w, code, answer)
}

// refusal returns the answer to a message that is not a valid request.
func refusal(reason string) ioservice.Answer {
	return ioservice.Answer{ReqID: json.RawMessage(`"error"`), Status: ioservice.StatusError, Error: reason}
}

// ServeHTTP answers HTTP requests of a listener until the context ends.
func (s *Server) ServeHTTP(ctx context.Context, listener net.Listener, status func() any) error {
	web := &http.Server{
		Handler: s.Handler(status), ReadHeaderTimeout: s.Limits.Request, ReadTimeout: s.Limits.Request,
		WriteTimeout: s.Limits.Request + s.Limits.Write, IdleTimeout: s.Limits.Idle, MaxHeaderBytes: 16 << 10,
	}
	stop := context.AfterFunc(ctx, func() { _ = web.Close() }) // Serve then returns
	defer stop()
	err := web.Serve(&limited{listener, make(chan struct{}, s.Limits.Connections)})
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// limited is a listener that closes new connections when too many are open.
type limited struct {
	net.Listener
	slots chan struct{}
}

// Accept returns the next connection within the limit.
func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.slots <- struct{}{}:
			return &counted{Conn: conn, free: sync.OnceFunc(func() { <-l.slots })}, nil
		default:
			_ = conn.Close() // the limit is reached
		}
	}
}

type counted struct {
	net.Conn
	free func()
}

// Close closes the connection, and lets Accept return another connection.
func (c *counted) Close() error {
	defer c.free()
	return c.Conn.Close()
}
