package sandbox

import (
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rmreplay/internal/rm/slurm/conf"
)

// NodeIndex finds the index of each node by its address, and no index for other addresses.
func TestNodeIndex(t *testing.T) {
	p := Sandbox{octet: 40, nodes: 70_000, NodeAddress: conf.LoopbackAddresses(40)}
	for i := range p.nodes {
		if got, ok := p.NodeIndex(p.NodeAddress(i).As4()); !ok || got != i {
			t.Fatalf("node %d: %v, %t", i, got, ok)
		}
	}
	for _, bad := range []string{"127.40.0.0", "127.40.0.251", "127.39.0.1", "127.41.255.1", "10.40.0.1"} {
		if i, ok := p.NodeIndex(netip.MustParseAddr(bad).As4()); ok {
			t.Errorf("%s is node %d", bad, i)
		}
	}
}

// Free ports are below the range that Linux gives to clients. Otherwise a client of a daemon could
// get the daemon's port before the daemon listens. FreePorts skips a port that is in use.
func TestFreePorts(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Fatal(err)
	}
	lowest, err := strconv.Atoi(strings.Fields(string(text))[0])
	if err != nil {
		t.Fatal(err)
	}
	p := Sandbox{octet: 250, lock: -1} // no replay has this network
	socket := func() (int, error) { return unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0) }
	taken, err := socket()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(taken)
	if err := unix.Bind(taken, &unix.SockaddrInet4{Addr: p.Control().As4(), Port: firstPort}); err != nil {
		t.Fatal(err)
	}
	var a, b uint16
	if err := p.FreePorts(socket, &a, &b); err != nil {
		t.Fatal(err)
	}
	if a == firstPort || a == b || lowest > firstPort+10 && int(max(a, b)) >= lowest {
		t.Errorf("free ports %d and %d, want two others than %d, below %d", a, b, firstPort, lowest)
	}
}

// A process that was forked while [Sandbox.FreePorts] tried a port has a copy of the socket. The
// copy does not keep slurmctld from listening at the port.
func TestFreePortsWithCopies(t *testing.T) {
	p := Sandbox{octet: 250, lock: -1} // no replay has this network
	var copies []int
	defer func() {
		for _, fd := range copies {
			unix.Close(fd)
		}
	}()
	socket := func() (int, error) {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fd, err
		}
		other, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		copies = append(copies, other)
		return fd, err
	}
	var port uint16
	if err := p.FreePorts(socket, &port); err != nil {
		t.Fatal(err)
	}
	ctld, err := socket()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ctld)
	// slurmctld sets this option, too.
	if err := unix.SetsockoptInt(ctld, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(ctld, &unix.SockaddrInet4{Addr: p.Control().As4(), Port: int(port)}); err != nil {
		t.Fatalf("binding port %d: %v", port, err)
	}
	if err := unix.Listen(ctld, 1); err != nil {
		t.Fatalf("listening at port %d: %v", port, err)
	}
}
