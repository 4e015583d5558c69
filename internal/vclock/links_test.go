package vclock

import (
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestStrangerIsRefused checks that a managed server closes a connection of a process that is
// neither managed nor the driver, even if the connection comes from the driver's address.
func TestStrangerIsRefused(t *testing.T) {
	l, server, dial := serve(t)
	conn := dial()
	defer conn.Close()
	l.run()
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("read %d bytes", n)
	}
	if text := server.output(); !strings.Contains(text, "accept: Software caused connection abort") {
		t.Errorf("the server printed %q", text)
	}
}

// TestLinks checks that each link is accepted once, in any order, with several threads that accept
// at once.
func TestLinks(t *testing.T) {
	c, err := New(t.TempDir(), epoch, Policy{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	to := netip.MustParseAddrPort("127.16.255.254:6817")
	from := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 16, byte(i >> 8), byte(i)}), uint16(30000+i))
	}
	const links = 1000
	var accepted [2 * links]int
	var mu sync.Mutex
	var group sync.WaitGroup
	for i := range links {
		c.Connecting()
		c.Connected(from(i), to)
	}
	for range 3 {
		group.Go(func() {
			for i := range 2 * links { // the second half are strangers
				if c.Accepts(from(i), to) {
					mu.Lock()
					accepted[i]++
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	for i, n := range accepted {
		if want := 1; i >= links && n != 0 || i < links && n != want {
			t.Errorf("connection %d was accepted %d times", i, n)
		}
	}
	if c.Accepts(to, from(0)) || c.Accepts(netip.AddrPort{}, to) {
		t.Error("a connection without a link was accepted")
	}
}

// TestLinksLeftBehind checks that the links of connections that are never accepted do not keep out
// later links.
func TestLinksLeftBehind(t *testing.T) {
	c, err := New(t.TempDir(), epoch, Policy{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	from, to := netip.MustParseAddrPort("127.0.0.1:40000"), netip.MustParseAddrPort("127.16.0.1:6818")
	for range 2 * linkReach { // the same ends, so the same places
		c.Connecting()
		c.Connected(from, to)
	}
	if !c.Accepts(from, to) {
		t.Error("the last connection was refused")
	}
	c.Connecting()
	c.Connected(netip.AddrPort{}, netip.AddrPort{}) // the attempt failed
	if n := c.s.connecting.Load(); n != 0 {
		t.Errorf("%d connections are counted as being made", n)
	}
}

// TestLinkIsAwaited checks that a thread that accepts a connection waits for the connection's link
// if the maker has not written the link yet.
func TestLinkIsAwaited(t *testing.T) {
	c, err := New(t.TempDir(), epoch, Policy{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	from, to := netip.MustParseAddrPort("127.0.0.1:40000"), netip.MustParseAddrPort("127.16.0.1:6818")
	c.Connecting()
	done := make(chan bool)
	go func() { done <- c.Accepts(from, to) }()
	time.Sleep(5 * time.Millisecond) // Accepts must not give up in this time
	c.Connected(from, to)
	if !<-done {
		t.Error("the connection was refused")
	}
}
