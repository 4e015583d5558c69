// Package network is every connection of the driver: those that slurmctld makes to the
// compute nodes, those that nodes and clients make to slurmctld, and the pipe of finished
// jobs.
//
// It is one loop over raw, non-blocking sockets, since the virtual clock must know exactly
// whether a message is on its way: the clock is told of every byte that was read, and told
// before every byte is written. Nothing here waits for an answer, because slurmctld may sleep
// in virtual time before it gives one.
package network

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"rmreplay/internal/rm/slurm/rpc"
)

// Clock is what the network tells of its messages.
type Clock interface {
	// Touch says that the driver is about to do something that can wake a daemon.
	Touch()
	// Read says that the driver has read so many bytes that daemons have written.
	Read(bytes int)
	// Inbox is how many bytes daemons have written that the driver has not read.
	Inbox() int64
	// Connecting comes before the driver connects to slurmctld, and Connected after it, with
	// both ends: slurmctld refuses all other connections. Zero values mean that the attempt failed.
	Connecting()
	Connected(from, to netip.AddrPort)
	// Accepts reports whether a connection to a node comes from a daemon.
	Accepts(from, to netip.AddrPort) bool
}

// Handlers take what comes in.
type Handlers struct {
	// NodeMessage answers what slurmctld sent to the node with the address; nil for a message
	// that has no answer. An error ends the run.
	NodeMessage func(addr [4]byte, m *rpc.Message) (*rpc.Message, error)
	// PipeData takes what was written to the pipe.
	PipeData func([]byte)
}

// Network is the driver's connections. One goroutine uses it.
type Network struct {
	// Source is the address of the driver's own connections.
	Source [4]byte
	// NodePort is the port of all compute nodes.
	NodePort int

	clock    Clock
	handlers Handlers
	codec    rpc.Codec
	ctld     unix.SockaddrInet4
	epoll    int
	listener int
	pipe     int

	conns    map[int]*conn
	queue    []*request // waiting for a free connection
	patience time.Duration
	open     int // requests under way
	writing  int // connections with output that the kernel has not taken yet
	dry      int // polls in a row that found none of the input that the clock counts
	buf      []byte
	events   [128]unix.EpollEvent
}

// conn is one connection; request is nil on those that slurmctld made.
type conn struct {
	fd      int
	addr    [4]byte // the node that slurmctld called
	in, out []byte
	request *request
}

// request is a message to slurmctld and what is to be done with its answer.
type request struct {
	message *rpc.Message
	answer  func(*rpc.Message, error)
}

// ErrNoAnswer says that slurmctld has closed a connection instead of answering.
var ErrNoAnswer = errors.New("slurmctld closed the connection without an answer")

// maxOpen bounds the connections to slurmctld at one time. It serves 256 at once
// (MAX_SERVER_THREADS), and what the kernel's backlog cannot hold is sent again a
// real second later, which no virtual clock knows of.
const maxOpen = 200

// loopback is the interface that the nodes' port is bound to: it serves all of
// 127.0.0.0/8 through one socket that nothing outside can reach.
const loopback = "lo"

// Listen opens the port of all compute nodes. source is the address of the driver's
// own connections, pipe the path of the pipe of finished jobs. Nothing may be sent before
// [Network.Connect].
func Listen(source [4]byte, pipe string, handlers Handlers) (_ *Network, err error) {
	n := &Network{epoll: -1, listener: -1, pipe: -1, Source: source, handlers: handlers, conns: map[int]*conn{}, buf: make([]byte, 1<<16)}
	defer func() {
		if err != nil {
			n.Close()
		}
	}()
	if n.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("opening the network: %w", err)
	}
	if err = n.listenNodes(); err != nil {
		return nil, fmt.Errorf("listening for the compute nodes on interface %s: %w", loopback, err)
	}
	// For reading and writing, so that the pipe never ends when slurmctld reopens it.
	if n.pipe, err = unix.Open(pipe, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("opening the pipe of finished jobs: %w", err)
	}
	for _, fd := range []int{n.listener, n.pipe} {
		if err = n.watch(fd, unix.EPOLLIN); err != nil {
			return nil, fmt.Errorf("opening the network: %w", err)
		}
	}
	return n, nil
}

func (n *Network) listenNodes() (err error) {
	if n.listener, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return err
	}
	if err = unix.BindToDevice(n.listener, loopback); err != nil {
		return err
	}
	if err = unix.Bind(n.listener, &unix.SockaddrInet4{}); err != nil {
		return err
	}
	if err = unix.Listen(n.listener, 65535); err != nil {
		return err
	}
	addr, err := unix.Getsockname(n.listener)
	if err != nil {
		return err
	}
	n.NodePort = addr.(*unix.SockaddrInet4).Port
	return nil
}

// Connect says where slurmctld listens, how it is spoken to, and which clock is told of the
// messages.
func (n *Network) Connect(ctld netip.AddrPort, codec rpc.Codec, clock Clock) {
	n.ctld = unix.SockaddrInet4{Addr: ctld.Addr().As4(), Port: int(ctld.Port())}
	n.codec, n.clock = codec, clock
}

// Waiting reports whether messages wait for a free connection, and for how long virtual time
// may go on before [Network.Reap] is to be called. The clock does not tell of connections
// that slurmctld closes.
func (n *Network) Waiting() (patience time.Duration, waiting bool) {
	return n.patience, len(n.queue) > 0
}

// Idle reports whether every message has been answered.
func (n *Network) Idle() bool { return n.open == 0 && len(n.queue) == 0 }

// Close closes all connections.
func (n *Network) Close() {
	for fd := range n.conns {
		unix.Close(fd)
	}
	n.conns = nil
	for _, fd := range []int{n.listener, n.pipe, n.epoll} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

func (n *Network) watch(fd int, events uint32) error {
	return unix.EpollCtl(n.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

// Send sends a message to slurmctld. answer gets the reply, or why there is none; it
// may be nil.
func (n *Network) Send(m *rpc.Message, answer func(*rpc.Message, error)) {
	if answer == nil {
		answer = func(*rpc.Message, error) {}
	}
	r := &request{m, answer}
	if n.open >= maxOpen {
		n.queue = append(n.queue, r)
		return
	}
	n.start(r)
}

// start opens a request's connection and writes its message.
func (n *Network) start(r *request) {
	frame, err := n.codec.Encode(r.message)
	if err != nil {
		r.answer(nil, fmt.Errorf("encoding a message (%v): %w", r.message.Type, err))
		return
	}
	n.clock.Touch()
	fd, err := n.connect()
	if err != nil {
		r.answer(nil, fmt.Errorf("connecting to slurmctld for a message (%v): %w", r.message.Type, err))
		return
	}
	c := &conn{fd: fd, request: r}
	n.conns[fd] = c
	n.open++
	n.write(c, frame)
}

// connect opens a connection to slurmctld. The kernel accepts it at once, whatever
// slurmctld does, as long as its backlog has room.
func (n *Network) connect() (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	fail := func(err error) (int, error) {
		unix.Close(fd)
		return 0, err
	}
	// The port is chosen when the connection is made, so that only pairs of ports
	// must be unique, not ports. Ours are closed by a reset: a busy run would run out
	// of ports otherwise, each one blocked for a minute of real time.
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return fail(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: n.Source}); err != nil {
		return fail(err)
	}
	n.clock.Connecting()
	err = unix.Connect(fd, &n.ctld)
	for errors.Is(err, unix.EINTR) {
		err = unix.Connect(fd, &n.ctld)
	}
	var own, peer netip.AddrPort
	if err == nil {
		own, peer = localEnd(fd), end(&n.ctld)
	}
	n.clock.Connected(own, peer)
	if err != nil {
		return fail(err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return fail(err)
	}
	if err := n.watch(fd, unix.EPOLLIN); err != nil {
		return fail(err)
	}
	return fd, nil
}

// end is one end of a connection.
func end(a *unix.SockaddrInet4) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
}

// localEnd is the own end of a connection; the zero value if the kernel does not tell it.
func localEnd(fd int) netip.AddrPort {
	if a, err := unix.Getsockname(fd); err == nil {
		if own, ok := a.(*unix.SockaddrInet4); ok {
			return end(own)
		}
	}
	return netip.AddrPort{}
}

// Poll handles everything that is ready, until nothing is. It does not wait, but for
// output that the kernel has no room for.
func (n *Network) Poll() error {
	read := false
	for {
		timeout := 0
		if n.writing > 0 {
			timeout = 1
		}
		k, err := unix.EpollWait(n.epoll, n.events[:], timeout)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("waiting for messages: %w", err)
		}
		if k == 0 {
			break
		}
		read = true
		for _, ev := range n.events[:k] {
			if err := n.ready(int(ev.Fd), ev.Events); err != nil {
				return err
			}
		}
	}
	n.checkInbox(read)
	return nil
}

// Reap handles connections that were closed, so that messages which wait for one can
// go. Where none was, slurmctld needs virtual time first, and patience grows.
func (n *Network) Reap() error {
	const first, most = time.Microsecond, time.Millisecond
	waiting := len(n.queue)
	if err := n.Poll(); err != nil {
		return err
	}
	if len(n.queue) < waiting {
		n.patience = 0
	} else {
		n.patience = min(max(first, 2*n.patience), most)
	}
	return nil
}

// checkInbox gives up on input that the clock counts but that never comes, as when a
// process was killed in the middle of a write.
func (n *Network) checkInbox(read bool) {
	if read || n.clock.Inbox() <= 0 {
		n.dry = 0
		return
	}
	if n.dry++; n.dry < 100 {
		return
	}
	time.Sleep(100 * time.Microsecond)
	if n.dry > 20000 {
		n.clock.Read(int(n.clock.Inbox()))
		n.dry = 0
	}
}

func (n *Network) ready(fd int, events uint32) error {
	switch fd {
	case n.listener:
		return n.accept()
	case n.pipe:
		return n.readPipe()
	}
	c := n.conns[fd]
	if c == nil {
		return nil
	}
	if events&unix.EPOLLOUT != 0 {
		n.write(c, nil)
	}
	if events&(unix.EPOLLIN|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		return n.read(c)
	}
	return nil
}

func (n *Network) accept() error {
	for {
		fd, peer, err := unix.Accept4(n.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if errors.Is(err, unix.EAGAIN) {
			return nil
		}
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNABORTED) {
			continue
		}
		if err != nil {
			return fmt.Errorf("accepting a connection from slurmctld: %w", err)
		}
		own := localEnd(fd)
		if from, ok := peer.(*unix.SockaddrInet4); !ok || !n.clock.Accepts(end(from), own) {
			unix.Close(fd) // a stranger: nothing of it is read or counted
			continue
		}
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		c := &conn{fd: fd, addr: own.Addr().As4()}
		n.conns[fd] = c
		if err := n.watch(fd, unix.EPOLLIN); err != nil {
			return fmt.Errorf("accepting a connection from slurmctld: %w", err)
		}
	}
}

func (n *Network) readPipe() error {
	for {
		k, err := unix.Read(n.pipe, n.buf)
		if k > 0 {
			n.clock.Read(k)
			n.handlers.PipeData(n.buf[:k])
			continue
		}
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil || errors.Is(err, unix.EAGAIN) {
			return nil
		}
		return fmt.Errorf("reading the pipe of finished jobs: %w", err)
	}
}

// read takes what has come and handles every complete message in it.
func (n *Network) read(c *conn) error {
	for {
		k, err := unix.Read(c.fd, n.buf)
		if k > 0 {
			n.clock.Read(k)
			c.in = append(c.in, n.buf[:k]...)
			if err := n.messages(c); err != nil || n.conns[c.fd] != c {
				return err
			}
			continue
		}
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return nil
		}
		if err == nil {
			err = ErrNoAnswer
		}
		n.finish(c, nil, err)
		return nil
	}
}

// messages cuts complete messages off a connection's input.
func (n *Network) messages(c *conn) error {
	frame, used, err := rpc.Split(c.in)
	if err != nil || frame == nil {
		if err != nil {
			n.finish(c, nil, err)
		}
		return nil
	}
	m, err := rpc.Decode(frame)
	if c.request != nil {
		n.finish(c, m, err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading a message of slurmctld to node %v: %w", c.addr, err)
	}
	reply, err := n.handlers.NodeMessage(c.addr, m)
	if err != nil {
		return err
	}
	c.in = append(c.in[:0], c.in[used:]...)
	if reply == nil {
		n.finish(c, nil, nil)
		return nil
	}
	out, err := n.codec.Encode(reply)
	if err != nil {
		return fmt.Errorf("answering a message (%v) of slurmctld: %w", m.Type, err)
	}
	n.write(c, out)
	return nil
}

// write sends what the kernel takes of data and keeps the rest for when it has room.
func (n *Network) write(c *conn, data []byte) {
	had := len(c.out) > 0
	c.out = append(c.out, data...)
	n.clock.Touch()
	for len(c.out) > 0 {
		k, err := unix.Write(c.fd, c.out)
		if k > 0 {
			c.out = c.out[k:]
			continue
		}
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		if had {
			n.writing--
		}
		c.out = nil
		n.finish(c, nil, fmt.Errorf("writing to slurmctld: %w", err))
		return
	}
	has := len(c.out) > 0
	if has == had {
		return
	}
	events := uint32(unix.EPOLLIN)
	n.writing--
	if has {
		events |= unix.EPOLLOUT
		n.writing += 2
	}
	_ = unix.EpollCtl(n.epoll, unix.EPOLL_CTL_MOD, c.fd, &unix.EpollEvent{Events: events, Fd: int32(c.fd)})
}

// finish closes a connection and passes its answer on.
func (n *Network) finish(c *conn, m *rpc.Message, err error) {
	delete(n.conns, c.fd)
	if len(c.out) > 0 {
		n.writing--
	}
	n.drain(c.fd)
	n.clock.Touch()
	unix.Close(c.fd)
	if c.request == nil {
		return
	}
	n.open--
	c.request.answer(m, err)
	for n.open < maxOpen && len(n.queue) > 0 {
		r := n.queue[0]
		n.queue[0] = nil
		n.queue = n.queue[1:]
		n.start(r)
	}
}

// drain reads what nobody will, since the clock has counted it.
func (n *Network) drain(fd int) {
	for {
		k, err := unix.Read(fd, n.buf)
		if k > 0 {
			n.clock.Read(k)
			continue
		}
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
