package vclock

import (
	"encoding/binary"
	"net/netip"
	"time"
)

// Connections between managed processes and the driver are recorded as links in the clock's file.
// Both sides refuse a connection that has no link. The comment in shim/links.c says why.

// ends are the two ends of a connection, in the form of a link.
type ends struct{ fromIP, toIP, ports uint32 }

func endsOf(from, to netip.AddrPort) ends {
	ip := func(a netip.AddrPort) uint32 {
		b := a.Addr().Unmap().As4()
		return binary.NativeEndian.Uint32(b[:])
	}
	port := func(a netip.AddrPort) uint32 {
		b := []byte{byte(a.Port() >> 8), byte(a.Port())}
		return uint32(binary.NativeEndian.Uint16(b))
	}
	return ends{ip(from), ip(to), port(from) | port(to)<<16}
}

// linkAt returns the i-th place in the table where the link of a connection may be. links.c uses
// the same places.
func (c *Clock) linkAt(e ends, i uint32) *link {
	hash := (e.fromIP ^ e.toIP*31 ^ e.ports) * 2654435761
	return &c.s.link[(hash>>16+i)%linkCount]
}

// Connecting must be called before the driver connects to a managed process, and [Clock.Connected]
// after it. In between, processes that accept a connection wait until its link exists.
func (c *Clock) Connecting() { c.s.connecting.Add(1) }

// Connected records a connection that the driver has made since [Clock.Connecting]. The process at
// the other end then accepts the connection. Zero values mean that the attempt failed.
func (c *Clock) Connected(from, to netip.AddrPort) {
	if from.IsValid() && to.IsValid() {
		c.note(endsOf(from, to))
	}
	c.s.connecting.Add(^uint32(0))
}

func (c *Clock) note(e ends) {
	claim := func(l *link, state uint32) bool {
		return l.state.CompareAndSwap(state, state&^linkState|linkWriting)
	}
	var l *link
	var state uint32
	ours := false
	for i := uint32(0); !ours && i < linkReach; i++ {
		l = c.linkAt(e, i)
		state = l.state.Load()
		ours = state&linkState == linkFree && claim(l, state)
	}
	if !ours { // the old link of a connection that was never accepted
		l = c.linkAt(e, 0)
		if state = l.state.Load(); !claim(l, state) {
			return
		}
	}
	l.fromIP.Store(e.fromIP)
	l.toIP.Store(e.toIP)
	l.ports.Store(e.ports)
	l.state.Store(state&^linkState + linkUse + linkSet)
}

// Accepts reports whether a connection that the driver has accepted comes from a managed process.
// It removes the connection's link. If a process has connected but not written the link yet,
// Accepts waits for it in real time. If it returns false, the driver must close the connection
// without reading from it.
func (c *Clock) Accepts(from, to netip.AddrPort) bool {
	const maxPauses, pause = 10000, 50 * time.Microsecond // as in links.c
	if !from.IsValid() || !to.IsValid() {
		return false
	}
	e := endsOf(from, to)
	for range maxPauses {
		connecting := c.s.connecting.Load() // before the search, as in links.c
		if c.takeLink(e) {
			return true
		}
		if connecting == 0 {
			return false
		}
		time.Sleep(pause)
	}
	return false
}

func (c *Clock) takeLink(e ends) bool {
	for i := range uint32(linkReach) {
		l := c.linkAt(e, i)
		state := l.state.Load()
		if state&linkState == linkSet && l.fromIP.Load() == e.fromIP && l.toIP.Load() == e.toIP &&
			l.ports.Load() == e.ports &&
			l.state.CompareAndSwap(state, state&^linkState|linkFree) {
			return true
		}
	}
	return false
}
