package slurm

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

// place is where one run lives: a directory that disappears with it, and addresses
// below 127.0.0.0/8 that no other run on this machine has.
type place struct {
	dir     string // on a memory file system, 0700
	library string // the preload library
	octet   byte   // 127.octet.0.0/16 is this run's
	lock    int    // socket that keeps the octet ours
	nodes   int
	address func(int) netip.Addr
}

// The last addresses of a run's network; those of nodes end at .250.
const (
	controlHost = 254
	driverHost  = 253
	lockPort    = 47816
)

// newPlace makes the directory and reserves the addresses.
func newPlace(nodes int) (p place, err error) {
	p = place{nodes: nodes, lock: -1}
	scratch, _, err := install.ScratchDir()
	if err != nil {
		return p, err
	}
	if p.dir, err = os.MkdirTemp(scratch, "rmreplay-"); err != nil {
		return p, fmt.Errorf("making a directory for the daemons' state: %w", err)
	}
	if p.library, err = vclock.InstallLibrary(p.dir); err != nil {
		return p, err
	}
	for _, d := range []string{"conf", "state", "spool", "bin", "db", "out"} {
		if err = os.Mkdir(filepath.Join(p.dir, d), 0o700); err != nil {
			return p, fmt.Errorf("making a directory for the daemons' state: %w", err)
		}
	}
	if err = p.reserveAddresses(); err != nil {
		return p, err
	}
	p.address = conf.LoopbackAddresses(p.octet)
	if last := p.address(nodes - 1); nodes > 0 && !last.IsValid() {
		return p, fmt.Errorf("%d nodes: more than the loopback network has addresses for", nodes)
	}
	return p, nil
}

// reserveAddresses finds a network that no other run holds. Whoever has the lock's
// address and port bound has it; the kernel lets go of it whatever ends the run.
func (p *place) reserveAddresses() error {
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

func (p *place) control() netip.Addr {
	return netip.AddrFrom4([4]byte{127, p.octet, 255, controlHost})
}
func (p *place) driver() [4]byte { return [4]byte{127, p.octet, 255, driverHost} }

// freePorts finds ports of the control address that are free, no two the same. Nobody
// else uses the address, so they stay free.
func (p *place) freePorts(ports ...*uint16) error {
	for _, port := range ports {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("looking for a free port: %w", err)
		}
		defer unix.Close(fd) // when all are found
		if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: p.control().As4()}); err != nil {
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

// nodeIndex is the inverse of address.
func (p *place) nodeIndex(addr [4]byte) (int, bool) {
	i := ((int(addr[1])-int(p.octet))*256+int(addr[2]))*250 + int(addr[3]) - 1
	return i, i >= 0 && i < p.nodes && p.address(i) == netip.AddrFrom4(addr)
}

func (p *place) file(elem ...string) string {
	return filepath.Join(append([]string{p.dir}, elem...)...)
}

// remove takes away what the guard did not.
func (p *place) remove() {
	if p.lock >= 0 {
		unix.Close(p.lock)
	}
	if p.dir != "" {
		_ = os.RemoveAll(p.dir)
	}
}
