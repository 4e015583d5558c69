package supervise

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Network says in which network a guard and its processes are.
type Network string

const (
	// AnyNetwork is a private network if the machine allows it, and otherwise the shared network.
	AnyNetwork Network = ""
	// PrivateNetwork has only a loopback interface, and no process outside can reach it. Linux lets
	// root make such a network with the capability SYS_ADMIN, and any user in a user namespace.
	PrivateNetwork Network = "private"
	// SharedNetwork is the driver's own network.
	SharedNetwork Network = "shared"
)

// way is one way to start a guard.
type way struct {
	what    string // its name in errors
	network Network
	attr    *syscall.SysProcAttr
}

// ways returns the ways to start a guard with these options, the best first.
func (o *Options) ways() []way {
	private := func(what string, flags uintptr) way {
		return way{what, PrivateNetwork, &syscall.SysProcAttr{Setsid: true, Cloneflags: flags}}
	}
	user := private("a user namespace", unix.CLONE_NEWNET|unix.CLONE_NEWUSER)
	ids := func(own int, more func(*User) int) []syscall.SysProcIDMap {
		list := []syscall.SysProcIDMap{{ContainerID: own, HostID: own, Size: 1}}
		if o.User != nil {
			list = append(list, syscall.SysProcIDMap{ContainerID: more(o.User), HostID: more(o.User), Size: 1})
		}
		return list
	}
	user.attr.UidMappings = ids(os.Geteuid(), func(u *User) int { return u.UID })
	user.attr.GidMappings = ids(os.Getegid(), func(u *User) int { return u.GID })
	user.attr.GidMappingsEnableSetgroups = o.User != nil
	var list []way
	if o.Network != SharedNetwork {
		if os.Geteuid() == 0 {
			list = append(list, private("a network namespace", unix.CLONE_NEWNET), user)
		} else {
			user.attr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN} // execve would remove it
			list = append(list, user)
		}
	}
	if o.Network != PrivateNetwork {
		list = append(list, way{"the shared network", SharedNetwork, &syscall.SysProcAttr{Setsid: true}})
	}
	return list
}

// prepareNetwork raises the loopback interface of the guard's own network. It then drops the
// capability for this, so that the guard's processes do not inherit it.
func (g *guard) prepareNetwork() error {
	if g.Network != PrivateNetwork {
		return nil
	}
	if err := RaiseLoopback(); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
}

// RaiseLoopback raises the loopback interface of the caller's network namespace. The interface then has the addresses
// 127.0.0.0/8. RaiseLoopback needs the capability NET_ADMIN there. The errors are the errors of netdevice(7).
//
// The C library looks up host names only on a machine with an address other than 127.0.0.1
// (AI_ADDRCONFIG, getaddrinfo(3)), so the interface gets a second address.
func RaiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("raising the loopback interface: %w", err)
	}
	second, err := unix.NewIfreq("lo:1")
	if err != nil {
		return err
	}
	if err := second.SetInet4Addr([]byte{127, 0, 0, 2}); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFADDR, second); err != nil {
		return fmt.Errorf("giving the loopback interface an address: %w", err)
	}
	return nil
}

// HearLoopback makes a TCP socket accept packets only from the loopback interface, so that other
// machines cannot reach it, whatever its address. It tries two ways. The error comes from setsockopt;
// it is EPERM if the kernel allows neither method to this process in the socket's network.
func HearLoopback(fd int) error {
	err := unix.BindToDevice(fd, "lo")
	if errors.Is(err, unix.EPERM) { // before Linux 5.7, this requires NET_RAW
		return dropOthers(fd)
	}
	return err
}

// dropOthers attaches a filter to a socket, and to the connections that it accepts. The filter
// drops all packets that do not come from the loopback interface. Old kernels let any process
// attach it. New kernels require the capability NET_ADMIN for TCP, but they let any process bind a
// socket to an interface instead.
func dropOthers(fd int) error {
	program, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtLinkLayerType},
		bpf.JumpIf{Val: unix.ARPHRD_LOOPBACK, SkipFalse: 1},
		bpf.RetConstant{Val: 1<<32 - 1}, // the packet's bytes that are kept
		bpf.RetConstant{Val: 0},
	})
	if err != nil {
		return err
	}
	filter := make([]unix.SockFilter, len(program))
	for i, in := range program {
		filter[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
}

// batch is the number of sockets that the guard makes at a time.
const batch = 64

// serveSockets makes sockets for the driver in the guard's network. A socket stays in the network
// of the process that made it, even if another process uses it.
func serveSockets(conn int) {
	for {
		if n, err := unix.Read(conn, make([]byte, 1)); err != nil && !errors.Is(err, unix.EINTR) || err == nil && n == 0 {
			return
		}
		fds := make([]int, 0, batch)
		var failed error
		for failed == nil && len(fds) < batch {
			var fd int
			if fd, failed = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); failed == nil {
				fds = append(fds, fd)
			}
		}
		text := []byte("ok")
		if len(fds) == 0 {
			text = []byte(failed.Error())
		}
		_ = unix.Sendmsg(conn, text, unix.UnixRights(fds...), nil, 0) // if the driver has ended, Read notices it
		for _, fd := range fds {
			unix.Close(fd)
		}
	}
}

// Network returns the network of the guard's processes: private or shared.
func (g *Guard) Network() Network { return g.network }

// WhyShared returns why a private network was not possible, or nil.
func (g *Guard) WhyShared() error { return g.whyShared }

// Socket returns a TCP socket for IPv4 in the network of the guard's processes. The socket is blocking, and exec closes
// it. Only one goroutine may call Socket at a time. The error wraps [ErrGuardGone] if the guard has ended.
func (g *Guard) Socket() (int, error) {
	if len(g.pool) == 0 {
		if err := g.fillPool(); err != nil {
			return -1, fmt.Errorf("getting a socket: %w", err)
		}
	}
	fd := g.pool[len(g.pool)-1]
	g.pool = g.pool[:len(g.pool)-1]
	return fd, nil
}

// socketPatience is how long, in real time, the driver waits for the guard's sockets.
const socketPatience = 30 * time.Second

func (g *Guard) fillPool() error {
	if _, err := g.sockets.Write([]byte{batch}); err != nil {
		return ErrGuardGone
	}
	text, rights := make([]byte, 256), make([]byte, unix.CmsgSpace(4*batch))
	var n, control int
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		n, control, _, _, err = unix.Recvmsg(int(g.sockets.Fd()), text, rights, unix.MSG_CMSG_CLOEXEC)
	}
	if errors.Is(err, unix.EAGAIN) {
		return fmt.Errorf("the process that ends the daemons (the guard) has not answered for %v", socketPatience)
	}
	if err != nil || n == 0 {
		return ErrGuardGone
	}
	messages, err := unix.ParseSocketControlMessage(rights[:control])
	if err != nil {
		return err
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return err
		}
		g.pool = append(g.pool, fds...)
	}
	if len(g.pool) == 0 {
		return errors.New(string(text[:n])) // the guard's error, or the driver has too many open files
	}
	return nil
}

// closeSockets closes the sockets that were not returned by Socket.
func (g *Guard) closeSockets() {
	for _, fd := range g.pool {
		unix.Close(fd)
	}
	g.pool = nil
	_ = g.sockets.Close() // the guard has ended
}
