// Package server lets clients send requests to an [ioservice.Service], over TCP with the protocol
// of the Slurm-LDMS project, and over HTTP.
//
// The number of connections is limited. A client that reads slowly, stops in the middle of a
// request or is idle occupies a connection. When the limit is reached, a new connection replaces
// the connection that has been idle longest. Anything except white space between requests ends the
// connection. Therefore the body of an HTTP request cannot contain a request of this protocol,
// which is important because a web page can make a browser send HTTP requests to any port.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/ioservice"
)

// Limits limits what clients can do.
type Limits struct {
	Connections int
	Message     int           // bytes in one request
	Request     time.Duration // time limit from the first to the last byte of a request
	Idle        time.Duration // time limit between two requests
	Write       time.Duration // time limit for sending an answer
}

// DefaultLimits returns limits for a site. The clients are parts of the Slurm-LDMS project's fork of Slurm. Its
// backfill scheduler sends a request every 30 s. Its job_submit plugin keeps a connection between submissions, and
// opens a new connection if the old one was closed.
func DefaultLimits() Limits {
	return Limits{Connections: 256, Message: 1 << 20, Request: 30 * time.Second, Idle: 10 * time.Minute,
		Write: 10 * time.Second}
}

// Server answers clients.
type Server struct {
	Service *ioservice.Service
	Now     func() hpc.Time // returns the instant of a request
	Limits  Limits

	mu          sync.Mutex
	connections map[*connection]bool
}

// connection is a client's connection. active is the client's last activity in real time: the
// limits are about the real network, even if the requests have virtual times.
type connection struct {
	net.Conn
	active time.Time
}

// Serve serves the clients of a listener until ctx ends, and then closes their connections.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	var clients sync.WaitGroup
	defer clients.Wait()
	stop := context.AfterFunc(ctx, func() {
		_ = listener.Close() // Accept then fails
		s.closeAll()
	})
	defer stop()
	pause := time.Millisecond
	for {
		conn, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			if conn != nil {
				_ = conn.Close() // nothing has been read
			}
			s.closeAll()
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // for example, too many open files: a temporary error
			time.Sleep(pause)
			pause = min(2*pause, time.Second)
			continue
		}
		pause = time.Millisecond
		c := s.admit(conn)
		clients.Go(func() {
			defer s.release(c)
			s.talk(c)
		})
	}
}

// admit registers a connection. If there are too many connections, it closes the connection that
// was idle longest.
func (s *Server) admit(conn net.Conn) *connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.connections == nil {
		s.connections = map[*connection]bool{}
	}
	if len(s.connections) >= s.Limits.Connections {
		var idle *connection
		for c := range s.connections {
			if idle == nil || c.active.Before(idle.active) {
				idle = c
			}
		}
		delete(s.connections, idle)
		_ = idle.Close() // the client reconnects if necessary
	}
	c := &connection{conn, time.Now()}
	s.connections[c] = true
	return c
}

func (s *Server) release(c *connection) {
	s.mu.Lock()
	delete(s.connections, c)
	s.mu.Unlock()
	_ = c.Close() // all answers have been sent
}

func (s *Server) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.connections {
		_ = c.Close() // all answers have been sent
	}
}

// talk answers a client's requests until the client disconnects, exceeds a limit or sends something
// that is not a request.
func (s *Server) talk(c *connection) {
	var frames framer
	buffer := make([]byte, 4096)
	began := time.Time{} // when the incomplete request began
	for {
		deadline := time.Now().Add(s.Limits.Idle)
		if !began.IsZero() {
			deadline = began.Add(s.Limits.Request)
		}
		_ = c.SetReadDeadline(deadline) // Read reports a closed connection
		n, err := c.Read(buffer)
		if n > 0 {
			frames.add(buffer[:n])
		}
		for {
			message, bad := frames.next()
			if message == nil && !bad {
				break
			}
			if bad {
				s.send(c, ioservice.Refusal("JSON decode error"))
				return
			}
			if !s.send(c, s.Service.Handle(s.Now(), message)) {
				return
			}
			began = time.Time{}
		}
		switch {
		case err != nil:
			return
		case frames.pending() > s.Limits.Message:
			s.send(c, ioservice.Refusal(fmt.Sprintf("the request has more than %d bytes", s.Limits.Message)))
			return
		case frames.pending() == 0:
			began = time.Time{}
		case began.IsZero():
			began = time.Now()
		}
	}
}

// send sends an answer. It returns false if the client has disconnected.
func (s *Server) send(c *connection, line []byte) bool {
	_ = c.SetWriteDeadline(time.Now().Add(s.Limits.Write)) // Write reports a closed connection
	_, err := c.Write(line)
	s.mu.Lock()
	c.active = time.Now()
	s.mu.Unlock()
	return err == nil
}

// framer finds JSON objects in a stream, with or without white space between them. It counts braces
// outside of strings, because objects may be nested.
type framer struct {
	data            []byte
	at              int // index of the next byte to examine
	depth           int
	inText, escaped bool
}

func (f *framer) add(data []byte) { f.data = append(f.data, data...) }

// pending returns the number of bytes received of an incomplete object.
func (f *framer) pending() int { return len(f.data) }

// next returns the next complete object, or nil. The result bad is true if something other than an
// object arrived; the beginning of the next request is then unknown.
func (f *framer) next() (object []byte, bad bool) {
	for ; f.at < len(f.data); f.at++ {
		c := f.data[f.at]
		switch {
		case f.inText:
			switch {
			case f.escaped:
				f.escaped = false
			case c == '\\':
				f.escaped = true
			case c == '"':
				f.inText = false
			}
		case f.depth == 0 && (c == ' ' || c == '\n' || c == '\r' || c == '\t'):
			f.data = f.data[1:]
			f.at--
		case c == '{':
			f.depth++
		case f.depth == 0:
			f.data, f.at = f.data[:0], 0
			return nil, true
		case c == '"':
			f.inText = true
		case c == '}':
			if f.depth--; f.depth == 0 {
				object = f.data[:f.at+1]
				f.data, f.at = f.data[f.at+1:], 0
				return object, false
			}
		}
	}
	if len(f.data) == 0 {
		f.data = nil // free the memory of a long request
	}
	return nil, false
}
