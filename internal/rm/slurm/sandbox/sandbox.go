// Package sandbox gives one run of Slurm its own directory and its own loopback addresses. The
// directory is removed at the end of the run. No other run has the same addresses.
package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/supervise"
	"rmreplay/internal/vclock"
)

// Sandbox is the directory and the addresses of one run. [New] makes one and [Sandbox.Close]
// removes it.
type Sandbox struct {
	// Dir is a directory on a memory file system. Other users cannot enter it.
	Dir string
	// User is the user of the daemons. It is the driver's own user. If the driver is root, the user
	// is a number without an account that no other run uses, because daemons never run as root.
	User supervise.User
	// Library is the path of the preload library in Dir.
	Library string
	// NodeAddress returns the address of a node by the node's index in the cluster.
	NodeAddress func(int) netip.Addr

	octet byte // the run uses 127.octet.0.0/16 and, for many nodes, the next networks
	lock  int  // the socket that reserves the octet
	nodes int
}

// The last octets of the addresses of the daemons and of the driver. The last octets of nodes are
// at most 250.
const (
	controlHost = 254
	driverHost  = 253
	lockPort    = 47816
)

// New reserves addresses for the given number of nodes and chooses the directory's name.
// [Sandbox.Make] makes the directory later: the guard that removes the directory must be started
// first. The caller must close the sandbox even after an error.
func New(nodes int) (p *Sandbox, err error) {
	p = &Sandbox{nodes: nodes, lock: -1}
	if err = p.reserveAddresses(); err != nil {
		return p, err
	}
	if p.User, err = install.DaemonUser(int(p.octet)); err != nil {
		return p, err
	}
	scratch, _, err := install.ScratchDir()
	if err != nil {
		return p, err
	}
	p.Dir = filepath.Join(scratch, "rmreplay-"+rand.Text()[:12])
	p.NodeAddress = conf.LoopbackAddresses(p.octet)
	if last := p.NodeAddress(nodes - 1); nodes > 0 && !last.IsValid() {
		return p, fmt.Errorf("the loopback network has too few addresses for %d nodes", nodes)
	}
	return p, nil
}

// Make makes the directory with the preload library.
func (p *Sandbox) Make() (err error) {
	if err := p.makeDirectories(); err != nil {
		return fmt.Errorf("making a directory for the daemons' state: %w", err)
	}
	if p.Library, err = vclock.InstallLibrary(p.Dir); err != nil {
		return err
	}
	return p.Give(p.Library)
}

// makeDirectories makes Dir and the directories in it. If the daemons run as another user, they can write only into
// their own directories. In all other directories, the daemons cannot replace a file by a link that would lead the
// driver elsewhere.
func (p *Sandbox) makeDirectories() error {
	if err := os.Mkdir(p.Dir, 0o700); err != nil {
		return err
	}
	for _, d := range []string{"conf", "bin", "out"} {
		if err := os.Mkdir(p.File(d), 0o700); err != nil {
			return err
		}
		if err := p.share(p.File(d), 0o750); err != nil {
			return err
		}
	}
	for _, d := range []string{"state", "spool", "db", "tmp"} {
		if err := os.Mkdir(p.File(d), 0o700); err != nil {
			return err
		}
		if err := p.Give(p.File(d)); err != nil {
			return err
		}
	}
	// Sockets and files of process ids are in Dir itself.
	return p.share(p.Dir, 0o770|os.ModeSticky)
}

// share lets the daemons use a directory of the driver.
func (p *Sandbox) share(dir string, mode os.FileMode) error {
	if p.OwnUser() {
		return nil
	}
	if err := os.Chown(dir, -1, p.User.GID); err != nil {
		return err
	}
	return os.Chmod(dir, mode)
}

// OwnUser reports whether the daemons run as the driver's user.
func (p *Sandbox) OwnUser() bool { return p.User.UID == os.Geteuid() }

// Give makes a file belong to the user of the daemons.
func (p *Sandbox) Give(path string) error {
	if p.OwnUser() {
		return nil
	}
	if err := os.Lchown(path, p.User.UID, p.User.GID); err != nil {
		return fmt.Errorf("making the daemons' user the owner of a file: %w", err)
	}
	return nil
}

// WriteFile writes a file that only the daemons and the driver can read. It does not follow links.
func (p *Sandbox) WriteFile(content []byte, elem ...string) error {
	f, err := os.OpenFile(p.File(elem...), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close(), p.Give(f.Name()))
}

// reserveAddresses finds a network that no other run has reserved. A run reserves a network by
// binding an address and a port in it. The kernel frees them even after a crash.
func (p *Sandbox) reserveAddresses() error {
	const first, count = 16, 224
	start := os.Getpid() % count
	for i := range count {
		octet := byte(first + (start+i)%count)
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("reserving loopback addresses: %w", err)
		}
		err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, octet, 255, driverHost}, Port: lockPort})
		if err == nil {
			p.octet, p.lock = octet, fd
			return nil
		}
		unix.Close(fd)
		if !errors.Is(err, unix.EADDRINUSE) {
			return fmt.Errorf("reserving loopback addresses: binding 127.%d.255.%d: %w", octet, driverHost, err)
		}
	}
	return fmt.Errorf("reserving loopback addresses: %d replays run on this machine already", count)
}

// Control returns the address of slurmctld and slurmdbd.
func (p *Sandbox) Control() netip.Addr {
	return netip.AddrFrom4([4]byte{127, p.octet, 255, controlHost})
}

// Driver returns the address from which the driver and the clients connect.
func (p *Sandbox) Driver() [4]byte { return [4]byte{127, p.octet, 255, driverHost} }

// firstPort is the first port that [Sandbox.FreePorts] tries: slurmctld's default.
const firstPort = 6817

// FreePorts finds distinct free ports of the control address. The ports stay free: no other run
// uses the address, and the ports are below the range that Linux gives to clients
// (ip_local_port_range, from 32768 by default). The range matters because Slurm's clients use the
// address before slurmctld listens. socket makes TCP sockets in the daemons' network.
func (p *Sandbox) FreePorts(socket func() (int, error), ports ...*uint16) error {
	next := firstPort
	for _, port := range ports {
		for ; ; next++ {
			free, err := p.isFree(socket, next)
			if err != nil {
				return fmt.Errorf("looking for a free port: %w", err)
			}
			if free {
				break
			}
		}
		*port = uint16(next)
		next++
	}
	return nil
}

// isFree reports whether a port of the control address is free. For a number that is not a port, isFree returns the
// error of [unix.Bind].
func (p *Sandbox) isFree(socket func() (int, error), port int) (bool, error) {
	fd, err := socket()
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	// A process that forks now inherits a copy of the socket until it executes its program. With SO_REUSEADDR, which
	// slurmctld also sets, the copy does not keep slurmctld from listening.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return false, err
	}
	err = unix.Bind(fd, &unix.SockaddrInet4{Addr: p.Control().As4(), Port: port})
	if errors.Is(err, unix.EADDRINUSE) {
		return false, nil
	}
	return err == nil, err
}

// NodeIndex returns the index of the node with the given address. ok is false if no node has the
// address.
func (p *Sandbox) NodeIndex(addr [4]byte) (index int, ok bool) {
	i := ((int(addr[1])-int(p.octet))*256+int(addr[2]))*250 + int(addr[3]) - 1
	return i, i >= 0 && i < p.nodes && p.NodeAddress(i) == netip.AddrFrom4(addr)
}

// File returns the path of a file in the directory.
func (p *Sandbox) File(elem ...string) string {
	return filepath.Join(append([]string{p.Dir}, elem...)...)
}

// Close frees the addresses and removes the directory unless the guard has removed it. A nil
// sandbox may be closed.
func (p *Sandbox) Close() {
	if p == nil {
		return
	}
	if p.lock >= 0 {
		unix.Close(p.lock)
	}
	if p.Dir != "" {
		_ = os.RemoveAll(p.Dir)
	}
}
