package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sys/unix"

	"rmreplay/internal/access"
	"rmreplay/internal/accounts"
)

// connections is the largest number of clients that are served at once over TCP.
const connections = 256

// whoKey is the key of the [who] in a request's context, and peerKey the key of the user at the other end of a
// socket.
type (
	whoKey  struct{}
	peerKey struct{}
)

func whoAsks(r *http.Request) who {
	w, _ := r.Context().Value(whoKey{}).(who)
	return w
}

// identify adds the client to the request's context: the owner of the process at the other end of
// a Unix socket, or the owner of the credentials.
func identify(r *http.Request, credentials *access.Access) (*http.Request, error) {
	w, known := r.Context().Value(peerKey{}).(who)
	if !known && credentials.Required() {
		grants := credentials.Who(r)
		if len(grants) == 0 {
			return nil, &statusError{http.StatusUnauthorized, errors.New("no valid credentials " +
				"(want a user and password, or a token, of the server's --auth file)")}
		}
		w = who{name: grants[0].User, all: slices.ContainsFunc(grants, func(g access.Grant) bool { return g.Role == All })}
	}
	return r.WithContext(context.WithValue(r.Context(), whoKey{}, w)), nil
}

// peer puts the user at the other end of a Unix socket into the context of its requests.
func peer(ctx context.Context, conn net.Conn) context.Context {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return ctx
	}
	w := who{} // no name if the kernel does not report the user
	raw, err := socket.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { // it fails only on a closed connection
			var c *unix.Ucred
			if c, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
				w.all = c.Uid == 0 || int(c.Uid) == os.Getuid()
				w.name, _ = accounts.Name(int(c.Uid)) // a user without a name has no jobs
			}
		})
	}
	return context.WithValue(ctx, peerKey{}, w)
}

// CheckAddress returns an error if users of other machines can reach the server at an address, and
// the server requires no credentials (guarded is false). An address with a slash is the path of a
// Unix socket.
func CheckAddress(address string, guarded bool) error {
	if strings.Contains(address, "/") {
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%s: %w (want HOST:PORT, or the path of a socket)", address, err)
	}
	if ip := net.ParseIP(host); guarded || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("%s: all users of the network could read the queue without credentials "+
		"(want an address of the loopback interface, or --auth FILE)", address)
}

// Listen listens on an address, or on a Unix socket that every user of this machine can reach. Listen replaces the
// socket of a service that no longer runs.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	network := "tcp"
	if strings.Contains(address, "/") {
		network = "unix"
		if conn, err := net.DialTimeout("unix", address, time.Second); err == nil {
			_ = conn.Close()
			return nil, fmt.Errorf("listening on %s: another process listens there", address)
		}
		if info, err := os.Lstat(address); err == nil && info.Mode()&fs.ModeSocket != 0 {
			if err := os.Remove(address); err != nil {
				return nil, fmt.Errorf("listening on %s: %w", address, err)
			}
		}
	}
	l, err := new(net.ListenConfig).Listen(ctx, network, address)
	if err == nil && network == "unix" {
		if err = os.Chmod(address, 0o666); err != nil {
			err = errors.Join(err, l.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", address, err)
	}
	if network == "tcp" {
		l = netutil.LimitListener(l, connections)
	}
	return l, nil
}

// Serve answers the requests of listeners until the context ends.
func Serve(ctx context.Context, handler http.Handler, listeners []net.Listener) error {
	server := &http.Server{
		Handler: handler, ConnContext: peer, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { failed <- server.Serve(l) }()
	}
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 400*time.Millisecond)
	defer cancel()
	if server.Shutdown(end) != nil {
		_ = server.Close() // the clients had time to complete their requests
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}
