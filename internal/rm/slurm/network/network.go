// Package network manages all connections of the driver: from slurmctld to the compute nodes, from
// nodes and clients to slurmctld, and the pipe into which slurmctld writes finished jobs.
//
// One loop serves raw, non-blocking sockets. The virtual clock must know exactly whether a message is under way, so the
// network tells the clock before each write, and reports every byte that it reads. The network never waits for an
// answer, because slurmctld may sleep in virtual time before it answers.
package network

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/supervise"
)

// Clock is the part of the virtual clock that the network informs about messages.
type Clock interface {
	// Touch says that the driver is about to do something that may wake a daemon.
	Touch()
	// Read says that the driver has read this number of bytes from daemons.
	Read(bytes int)
	// Inbox returns the number of bytes that daemons have written and the driver has not read.
	Inbox() int64
	// Connecting is called before the driver connects to slurmctld. Connected is called afterwards
	// with both ends of the connection; zero values mean that the attempt failed. slurmctld refuses
	// connections that Connected has not reported.
	Connecting()
	Connected(from, to netip.AddrPort)
	// Accepts reports whether a connection to a node comes from a daemon.
	Accepts(from, to netip.AddrPort) bool
}

// Handlers handle the messages and data that arrive.
type Handlers struct {
	// NodeMessage handles a message from slurmctld to the node with the given address. It returns the
	// node's answer, or nil for a message without an answer. An error ends the run.
	NodeMessage func(addr [4]byte, m *rpc.Message) (*rpc.Message, error)
	// PipeData gets the data that slurmctld has written to the pipe. It must not keep the slice.
	PipeData func([]byte)
}

// Network has the driver's connections. Only one goroutine may use it.
type Network struct {
	// Source is the address from which the driver connects to slurmctld.
	Source [4]byte
	// NodePort is the port of all compute nodes.
	NodePort int

	socket   func() (int, error)
	clock    Clock
	handlers Handlers
	codec    rpc.Codec
	ctld     unix.SockaddrInet4
	epoll    int
	listener int
	pipe     int

	conns    map[int]*conn
	queue    []*request // requests that wait for a free connection
	patience time.Duration
	open     int // requests under way
	maxOpen  int // limit on open
	writing  int // connections with output for which the kernel has no room yet
	dry      int // consecutive polls without bytes although the clock counts unread bytes
	buf      []byte
	events   [128]unix.EpollEvent
}

// conn is one connection. request is nil for a connection that slurmctld opened.
type conn struct {
	fd      int
	addr    [4]byte // of the node that slurmctld connected to
	in, out []byte
	request *request
}

// request is a message to slurmctld, and the function that gets its answer.
type request struct {
	message *rpc.Message
	answer  func(*rpc.Message, error)
}

// ErrNoAnswer says that slurmctld closed a connection without an answer.
var ErrNoAnswer = errors.New("slurmctld closed the connection without an answer")

// maxOpen returns the largest number of connections that the driver opens to slurmctld at one time. The number is less
// than slurmctld's own limit, which leaves room for clients. If slurmctld's backlog is full, the kernel retries after a
// second of real time, and the virtual clock does not notice this wait. Up to 24.05, slurmctld serves 256 connections
// at once (MAX_SERVER_THREADS in slurmctld.h); 24.11 serves 50; 25.05 and later serve 512
// (SLURMCTLD_CONMGR_DEFAULT_MAX_CONNECTIONS in controller.c).
func maxOpen(release slurmspec.Release) int {
	if release.Series() == slurmspec.R2411 {
		return 40
	}
	return 200
}

// Listen opens the port of all compute nodes. socket makes TCP sockets in the daemons' network.
// source is the address from which the driver will connect to slurmctld. pipe is the path of the
// named pipe of finished jobs. The caller must call [Network.Connect] before it sends or polls,
// and [Network.Close] at the end.
func Listen(socket func() (int, error), source [4]byte, pipe string, handlers Handlers) (_ *Network, err error) {
	n := &Network{epoll: -1, listener: -1, pipe: -1, Source: source, socket: socket, handlers: handlers,
		conns: map[int]*conn{}, buf: make([]byte, 1<<16)}
	defer func() {
		if err != nil {
			n.Close()
		}
	}()
	if n.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("opening the network: %w", err)
	}
	if err = n.listenNodes(); err != nil {
		return nil, fmt.Errorf("listening for the compute nodes on the loopback interface: %w", err)
	}
	// The driver also opens the pipe for writing; otherwise the pipe would end when slurmctld closes and reopens it.
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

// listenNodes opens the port of all compute nodes and sets NodePort. One socket serves all
// addresses of 127.0.0.0/8, and no other machine can reach it.
func (n *Network) listenNodes() (err error) {
	if n.listener, err = n.socket(); err != nil {
		return err
	}
	if err = unix.SetNonblock(n.listener, true); err != nil {
		return err
	}
	if err = supervise.HearLoopback(n.listener); err != nil {
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

// Connect sets the address at which slurmctld listens, the codec of its release, and the clock
// that the network informs. It opens no connection.
func (n *Network) Connect(ctld netip.AddrPort, codec rpc.Codec, clock Clock) {
	n.ctld = unix.SockaddrInet4{Addr: ctld.Addr().As4(), Port: int(ctld.Port())}
	n.codec, n.clock, n.maxOpen = codec, clock, maxOpen(codec.Release())
}

// Waiting reports whether messages wait for a free connection. If so, virtual time may advance by
// patience before the caller must call [Network.Reap], because the clock does not notice that
// slurmctld closes connections.
func (n *Network) Waiting() (patience time.Duration, waiting bool) {
	return n.patience, len(n.queue) > 0
}

// Idle reports whether every message has its answer.
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

// watch adds a file to the set that [Network.Poll] waits for.
func (n *Network) watch(fd int, events uint32) error {
	return unix.EpollCtl(n.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

// Send sends a message to slurmctld, or queues it if too many connections are open. answer, which
// may be nil, gets the reply, or an error if no reply comes. If the message cannot be sent, Send
// calls answer at once.
func (n *Network) Send(m *rpc.Message, answer func(*rpc.Message, error)) {
	if answer == nil {
		answer = func(*rpc.Message, error) {}
	}
	r := &request{m, answer}
	if n.open >= n.maxOpen {
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

// connect opens a connection to slurmctld. If slurmctld's backlog has room, the kernel accepts the
// connection at once, even while slurmctld sleeps.
func (n *Network) connect() (int, error) {
	fd, err := n.socket()
	if err != nil {
		return 0, err
	}
	fail := func(err error) (int, error) {
		unix.Close(fd)
		return 0, err
	}
	// The kernel chooses the port in connect, where only the pair of ports must be unique. A reset closes the connection;
	// otherwise its port would stay blocked for a minute of real time, and a busy run would use up all ports.
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

// localEnd returns the driver's end of a connection; the zero value if the kernel returns an error.
func localEnd(fd int) netip.AddrPort {
	if a, err := unix.Getsockname(fd); err == nil {
		if own, ok := a.(*unix.SockaddrInet4); ok {
			return end(own)
		}
	}
	return netip.AddrPort{}
}

// Poll handles files that are ready, until no file is ready. It waits only while the kernel has no
// room for output. An error ends the run.
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

// Reap handles connections that slurmctld has closed. Waiting messages can then be sent. If no
// connection was closed, slurmctld needs more virtual time, and the patience of [Network.Waiting]
// doubles, up to 1 ms.
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

// checkInbox corrects the clock's count of unread bytes if bytes do not arrive, for example
// because a process ended during a write.
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

// ready handles one file that epoll has reported.
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

// accept takes all connections that slurmctld has made to nodes.
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
			unix.Close(fd) // not from a daemon: nothing is read or counted
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

// readPipe passes all data of the pipe on.
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

// read reads a connection until it is empty, and handles every complete message.
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

// messages handles the first message of a connection's input, if it is complete. A reply ends the
// connection. For a message to a node, messages sends the node's answer.
func (n *Network) messages(c *conn) error {
	frame, used, err := rpc.Split(c.in)
	if err == nil && frame == nil {
		return nil
	}
	var m *rpc.Message
	if err == nil {
		m, err = rpc.Decode(frame)
	}
	if c.request != nil {
		n.finish(c, m, err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading a message of slurmctld to node %v: %w", netip.AddrFrom4(c.addr), err)
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

// write sends as much of data as the kernel accepts, and keeps the rest until the kernel has room.
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

// finish closes a connection, passes the answer on, and sends queued messages.
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
	for n.open < n.maxOpen && len(n.queue) > 0 {
		r := n.queue[0]
		n.queue[0] = nil
		n.queue = n.queue[1:]
		n.start(r)
	}
}

// drain reads the remaining bytes of a closing connection, because the clock has counted them.
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
