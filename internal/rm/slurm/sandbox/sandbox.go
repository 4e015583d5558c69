// Package sandbox gives one run of Slurm a world of its own on this machine: a directory
// that disappears with the run, and loopback addresses that no other run has.
package sandbox

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/vclock"
)

// Sandbox is where one run lives. [New] makes one and [Sandbox.Close] removes it.
type Sandbox struct {
	// Dir is a directory on a memory file system that only its owner reads (0700).
	Dir string
	// Library is the path of the preload library in it.
	Library string
	// NodeAddress gives the address of each node of the cluster by its index.
	NodeAddress func(int) netip.Addr

	octet byte // 127.octet.0.0/16 and, for many nodes, what follows is this run's
	lock  int  // the socket that keeps the octet ours
	nodes int
}

// The last addresses of a run's network; those of nodes end at .250.
const (
	controlHost = 254
	driverHost  = 253
	lockPort    = 47816
)

// New makes the directory and reserves addresses for so many nodes. The sandbox is to be
// closed even after an error.
func New(nodes int) (p *Sandbox, err error) {
	p = &Sandbox{nodes: nodes, lock: -1}
	scratch, _, err := install.ScratchDir()
	if err != nil {
		return p, err
	}
	if p.Dir, err = os.MkdirTemp(scratch, "rmreplay-"); err != nil {
		return p, fmt.Errorf("making a directory for the daemons' state: %w", err)
	}
	if p.Library, err = vclock.InstallLibrary(p.Dir); err != nil {
		return p, err
	}
	for _, d := range []string{"conf", "state", "spool", "bin", "db", "out"} {
		if err = os.Mkdir(filepath.Join(p.Dir, d), 0o700); err != nil {
			return p, fmt.Errorf("making a directory for the daemons' state: %w", err)
		}
	}
	if err = p.reserveAddresses(); err != nil {
		return p, err
	}
	p.NodeAddress = conf.LoopbackAddresses(p.octet)
	if last := p.NodeAddress(nodes - 1); nodes > 0 && !last.IsValid() {
		return p, fmt.Errorf("%d nodes: more than the loopback network has addresses for", nodes)
	}
	return p, nil
}

// reserveAddresses finds a network that no other run holds. A run holds one as long as it
// has bound the lock's address and port; the kernel frees both whatever ends the run.
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

// Control is the address of slurmctld and slurmdbd.
func (p *Sandbox) Control() netip.Addr {
	return netip.AddrFrom4([4]byte{127, p.octet, 255, controlHost})
}

// Driver is the address from which the driver and the clients connect.
func (p *Sandbox) Driver() [4]byte { return [4]byte{127, p.octet, 255, driverHost} }

// FreePorts finds ports of the control address that are free, no two the same. Nobody
// else uses the address, so they stay free.
func (p *Sandbox) FreePorts(ports ...*uint16) error {
	for _, port := range ports {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("looking for a free port: %w", err)
		}
		defer unix.Close(fd) // when all are found
		if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: p.Control().As4()}); err != nil {
			return fmt.Errorf("looking for a free port: %w", err)
		}
		addr, err := unix.Getsockname(fd)
		if err != nil {
			return fmt.Errorf("looking for a free port: %w", err)
		}
		*port = uint16(addr.(*unix.SockaddrInet4).Port)
	}
	return nil
}

// NodeIndex is the inverse of NodeAddress; ok is false for an address that no node has.
func (p *Sandbox) NodeIndex(addr [4]byte) (index int, ok bool) {
	i := ((int(addr[1])-int(p.octet))*256+int(addr[2]))*250 + int(addr[3]) - 1
	return i, i >= 0 && i < p.nodes && p.NodeAddress(i) == netip.AddrFrom4(addr)
}

// File is the path of a file in the directory.
func (p *Sandbox) File(elem ...string) string {
	return filepath.Join(append([]string{p.Dir}, elem...)...)
}

// Close removes what the guard has not removed. It may be called on nil.
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
