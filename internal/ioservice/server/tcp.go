// Package server lets clients ask a [ioservice.Service] over TCP, with the protocol of the Slurm-LDMS
// project, and over HTTP.
//
// The number of connections is limited. A client that reads slowly, stops in the middle of a
// request or does nothing occupies one. When all are taken, a new connection replaces the one that
// has been idle longest. Anything but white space between requests ends the connection. So the body
// of an HTTP request cannot contain a request of this protocol. This matters because a web page can
// make a browser send an HTTP request to any port.
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

// Limits of clients.
type Limits struct {
	Connections int
	Message     int           // bytes of one request
	Request     time.Duration // from a request's first byte to its last
	Idle        time.Duration // between requests
	Write       time.Duration // of an answer
}

// DefaultLimits returns limits for a site: the fork's backfill scheduler asks every 30 s, and its
// job_submit plugin keeps a connection between submissions and makes a new one if it was closed.
func DefaultLimits() Limits {
	return Limits{Connections: 256, Message: 1 << 20, Request: 30 * time.Second, Idle: 10 * time.Minute,
		Write: 10 * time.Second}
}

// Server answers clients.
type Server struct {
	Service *ioservice.Service
	Now     func() hpc.Time // the instant of a request
	Limits  Limits

	mu          sync.Mutex
	connections map[*connection]bool
}

// connection is a connection of a client. active is when the client last did something, in real
// time: the limits are about the real network, even if the requests have virtual times.
type connection struct {
	net.Conn
	active time.Time
}

// Serve answers the clients of a listener until the context ends, and then closes their connections.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	var clients sync.WaitGroup
	defer clients.Wait()
	stop := context.AfterFunc(ctx, func() {
		_ = listener.Close() // Accept says so
		s.closeAll()
	})
	defer stop()
	pause := time.Millisecond
	for {
		conn, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			if conn != nil {
				_ = conn.Close() // nothing was read
			}
			s.closeAll()
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // too many open files, for example: a temporary error
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

// admit registers a connection, and closes the one that was idle longest if there are too many.
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
		_ = idle.Close() // the client connects again if it needs to
	}
	c := &connection{conn, time.Now()}
	s.connections[c] = true
	return c
}

func (s *Server) release(c *connection) {
	s.mu.Lock()
	delete(s.connections, c)
	s.mu.Unlock()
	_ = c.Close() // the client has all its answers
}

func (s *Server) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.connections {
		_ = c.Close() // as above
	}
}

// talk answers a client's requests until it closes the connection, breaks a limit or sends something else.
func (s *Server) talk(c *connection) {
	var frames framer
	buffer := make([]byte, 4096)
	began := time.Time{} // when the request that is not complete began
	for {
		deadline := time.Now().Add(s.Limits.Idle)
		if !began.IsZero() {
			deadline = began.Add(s.Limits.Request)
		}
		_ = c.SetReadDeadline(deadline) // Read says if the connection is closed
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

// send sends an answer. It returns false if the client is gone.
func (s *Server) send(c *connection, line []byte) bool {
	_ = c.SetWriteDeadline(time.Now().Add(s.Limits.Write)) // Write says if the connection is closed
	_, err := c.Write(line)
	s.mu.Lock()
	c.active = time.Now()
	s.mu.Unlock()
	return err == nil
}

// framer finds JSON objects in a stream, with or without white space between them. Objects may be
// nested, so it counts braces, except in strings.
type framer struct {
	data            []byte
	at              int // everything before was looked at
	depth           int
	inText, escaped bool
}

func (f *framer) add(data []byte) { f.data = append(f.data, data...) }

// pending is the number of bytes so far of an incomplete object.
func (f *framer) pending() int { return len(f.data) }

// next returns the next complete object, or nil. bad says that something other than an object came.
// It is then not known where the next request begins.
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
		f.data = nil // frees the memory of a long request
	}
	return nil, false
}
