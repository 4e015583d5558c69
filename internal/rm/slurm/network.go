package slurm

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/vclock"
)

// network is every connection of the driver: those that slurmctld makes to the
// compute nodes, those that nodes and clients make to slurmctld, and the pipe of
// finished jobs. It is one loop over raw, non-blocking sockets, since the clock must
// know exactly whether a message is on its way: every byte read is reported to it,
// and it is told before every byte written. Nothing here waits for an answer, for
// slurmctld may sleep in virtual time before it gives one.
type network struct {
	clock    *vclock.Clock
	epoll    int
	listener int
	pipe     int
	nodePort int
	source   [4]byte // of connections to slurmctld
	ctld     unix.SockaddrInet4

	conns map[int]*conn
	queue []*request // waiting for a free connection
	// patience is the virtual time after which to look again for one that was closed.
	patience time.Duration
	open     int // requests under way
	writing  int // connections with output that the kernel has not taken yet
	dry      int // polls in a row that found none of the input that the clock counts
	buf      []byte
	events   [128]unix.EpollEvent

	// nodeMessage answers what slurmctld sent to the node with the address.
	nodeMessage func(addr [4]byte, m *rpc.Message) (*rpc.Message, error)
	// pipeData takes what was written to the pipe.
	pipeData func([]byte)
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

var errNoAnswer = errors.New("slurmctld closed the connection without an answer")

// maxOpen bounds the connections to slurmctld at one time. It serves 256 at once
// (MAX_SERVER_THREADS), and what the kernel's backlog cannot hold is sent again a
// real second later, which no virtual clock knows of.
const maxOpen = 200

// loopback is the interface that the nodes' port is bound to: it serves all of
// 127.0.0.0/8 through one socket that nothing outside can reach.
const loopback = "lo"

// listen opens the port of all compute nodes. source is the address of the driver's
// own connections, pipe the path of the pipe of finished jobs.
func listen(source [4]byte, pipe string) (_ *network, err error) {
	n := &network{epoll: -1, listener: -1, pipe: -1, source: source, conns: map[int]*conn{}, buf: make([]byte, 1<<16)}
	defer func() {
		if err != nil {
			n.close()
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

func (n *network) listenNodes() (err error) {
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
	n.nodePort = addr.(*unix.SockaddrInet4).Port
	return nil
}

func (n *network) close() {
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

func (n *network) watch(fd int, events uint32) error {
	return unix.EpollCtl(n.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

// send sends a message to slurmctld. answer gets the reply, or why there is none; it
// may be nil.
func (n *network) send(m *rpc.Message, answer func(*rpc.Message, error)) {
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
func (n *network) start(r *request) {
	frame, err := r.message.Append(nil)
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
func (n *network) connect() (int, error) {
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
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: n.source}); err != nil {
		return fail(err)
	}
	for {
		err := unix.Connect(fd, &n.ctld)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) {
			return fail(err)
		}
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return fail(err)
	}
	if err := n.watch(fd, unix.EPOLLIN); err != nil {
		return fail(err)
	}
	return fd, nil
}

// poll handles everything that is ready, until nothing is. It does not wait, but for
// output that the kernel has no room for.
func (n *network) poll() error {
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

// reap handles connections that were closed, so that messages which wait for one can
// go. Where none was, slurmctld needs virtual time first, and patience grows.
func (n *network) reap() error {
	const first, most = time.Microsecond, time.Millisecond
	waiting := len(n.queue)
	if err := n.poll(); err != nil {
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
func (n *network) checkInbox(read bool) {
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

func (n *network) ready(fd int, events uint32) error {
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

func (n *network) accept() error {
	for {
		fd, _, err := unix.Accept4(n.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if errors.Is(err, unix.EAGAIN) {
			return nil
		}
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNABORTED) {
			continue
		}
		if err != nil {
			return fmt.Errorf("accepting a connection from slurmctld: %w", err)
		}
		local, err := unix.Getsockname(fd)
		if err != nil {
			unix.Close(fd)
			continue
		}
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		c := &conn{fd: fd, addr: local.(*unix.SockaddrInet4).Addr}
		n.conns[fd] = c
		if err := n.watch(fd, unix.EPOLLIN); err != nil {
			return fmt.Errorf("accepting a connection from slurmctld: %w", err)
		}
	}
}

func (n *network) readPipe() error {
	for {
		k, err := unix.Read(n.pipe, n.buf)
		if k > 0 {
			n.clock.Read(k)
			n.pipeData(n.buf[:k])
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
func (n *network) read(c *conn) error {
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
			err = errNoAnswer
		}
		n.finish(c, nil, err)
		return nil
	}
}

// messages cuts complete messages off a connection's input.
func (n *network) messages(c *conn) error {
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
	reply, err := n.nodeMessage(c.addr, m)
	if err != nil {
		return err
	}
	c.in = append(c.in[:0], c.in[used:]...)
	if reply == nil {
		n.finish(c, nil, nil)
		return nil
	}
	out, err := reply.Append(nil)
	if err != nil {
		return fmt.Errorf("answering a message (%v) of slurmctld: %w", m.Type, err)
	}
	n.write(c, out)
	return nil
}

// write sends what the kernel takes of data and keeps the rest for when it has room.
func (n *network) write(c *conn, data []byte) {
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
func (n *network) finish(c *conn, m *rpc.Message, err error) {
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
func (n *network) drain(fd int) {
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
