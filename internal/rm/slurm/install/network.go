package install

import (
	"fmt"
	"net"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"rmreplay/internal/supervise"
)

// NetworkVariable is the environment variable that selects the network of a replay's daemons:
// private or shared. The default is a private network if the machine allows it.
const NetworkVariable = "RMREPLAY_NETWORK"

// Network returns the value of [NetworkVariable].
func Network() (supervise.Network, error) {
	switch n := supervise.Network(os.Getenv(NetworkVariable)); n {
	case supervise.AnyNetwork, supervise.PrivateNetwork, supervise.SharedNetwork:
		return n, nil
	default:
		return "", fmt.Errorf("reading %s: %q: not a network (want private or shared)", NetworkVariable, n)
	}
}

// allowNamespaces is the advice for a machine that allows no private network.
const allowNamespaces = "allow user namespaces: sysctl user.max_user_namespaces=10000 kernel.apparmor_restrict_unprivileged_userns=0"

// NetworkError says that a replay needs a private network, and that this machine does not allow
// one.
type NetworkError struct{ Err error }

// Error says how to allow a private network.
func (e *NetworkError) Error() string {
	return fmt.Sprintf("%s=private, but this machine allows no private network: %v (%s)",
		NetworkVariable, e.Err, allowNamespaces)
}

// Unwrap returns the wrapped error.
func (e *NetworkError) Unwrap() error { return e.Err }

// checkNetwork starts a guard as a replay does, and says which network the daemons would have. If the daemons would
// share this machine's network, the network needs a loopback interface.
func checkNetwork() []Check {
	c := Check{
		Name: "private network", Why: "no other process reaches the daemons", OK: true,
		Fix: allowNamespaces + ", or unset " + NetworkVariable,
	}
	which, err := Network()
	var guard *supervise.Guard
	if err == nil {
		guard, err = supervise.Start(supervise.Options{Network: which}, func(supervise.Exit) {})
	}
	if err != nil {
		c.OK, c.Required, c.Found = false, true, err.Error()
		return []Check{c}
	}
	defer func() { _ = guard.Close() }() // the guard has done nothing
	if guard.Network() == supervise.PrivateNetwork {
		c.Found = "the daemons have a network of their own"
		return []Check{c, checkReach(guard)}
	}
	c.Found = "off (" + NetworkVariable + "=shared): the daemons refuse strangers' connections on loopback"
	if guard.WhyShared() != nil {
		c.Found = fmt.Sprintf("none (%v): the daemons refuse strangers' connections on loopback", guard.WhyShared())
	}
	if addresses, err := net.InterfaceAddrs(); err == nil && !findsAddresses(addresses) {
		c.OK, c.Required = false, true
		c.Found += "; no interface has an address other than 127.0.0.1, so the C library finds no addresses (AI_ADDRCONFIG)"
		c.Fix = "ip address add 127.0.0.2/8 dev lo (as root), or " + allowNamespaces
	}
	return []Check{c, checkReach(guard), checkLoopback()}
}

// checkReach makes a socket in the daemons' network unreachable from other machines, as a replay
// does with the nodes' socket.
func checkReach(guard *supervise.Guard) Check {
	c := Check{Name: "out of reach", Why: "other machines must not reach the nodes' port", Required: true,
		Fix: "use Linux 5.7 or later, or " + allowNamespaces}
	fd, err := guard.Socket()
	if err == nil {
		err = supervise.HearLoopback(fd)
		_ = unix.Close(fd) // nothing was sent
	}
	if err != nil {
		c.Found = "opening a port that only this machine reaches: " + err.Error()
		return c
	}
	c.OK, c.Found = true, "only this machine reaches the nodes' port"
	return c
}

// findsAddresses reports whether getaddrinfo(3) finds IPv4 addresses on a machine whose interfaces
// have the given addresses: see [supervise.RaiseLoopback].
func findsAddresses(addresses []net.Addr) bool {
	return slices.ContainsFunc(addresses, func(a net.Addr) bool {
		network, is := a.(*net.IPNet)
		return is && network.IP.To4() != nil && network.IP.String() != "127.0.0.1"
	})
}
