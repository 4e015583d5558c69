package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/slurmspec"
)

// countingClock counts what the network tells the virtual clock.
type countingClock struct {
	touched, read, connecting, connected int
	// strangers says that the connections to nodes come from strangers.
	strangers bool
}

func (c *countingClock) Touch()       { c.touched++ }
func (c *countingClock) Read(n int)   { c.read += n }
func (c *countingClock) Inbox() int64 { return 0 }

func (c *countingClock) Connecting() { c.connecting++ }
func (c *countingClock) Connected(from, to netip.AddrPort) {
	c.connecting--
	if from.IsValid() && to.IsValid() {
		c.connected++
	}
}
func (c *countingClock) Accepts(from, to netip.AddrPort) bool { return !c.strangers }

// slurmctld is a listener that acts as slurmctld, with the network under test.
type slurmctld struct {
	t     *testing.T
	net   *Network
	clock *countingClock
	codec rpc.Codec
	pipe  string
	l     *net.TCPListener
	// sent has the requests that the nodes got, as "address type", and piped the pipe's data.
	sent  []string
	piped string
}

func tcpSocket() (int, error) {
	return unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
}

func start(t *testing.T) *slurmctld {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s := &slurmctld{t: t, clock: &countingClock{}, pipe: filepath.Join(t.TempDir(), "pipe"), l: l.(*net.TCPListener)}
	if err := unix.Mkfifo(s.pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if s.codec, err = rpc.NewCodec(slurmspec.R2205); err != nil {
		t.Fatal(err)
	}
	s.net, err = Listen(tcpSocket, [4]byte{127, 0, 0, 1}, s.pipe, Handlers{
		NodeMessage: func(addr [4]byte, m *rpc.Message) (*rpc.Message, error) {
			s.sent = append(s.sent, fmt.Sprintf("%v %v", addr, m.Type))
			if m.Type == rpc.RequestShutdown {
				return nil, nil
			}
			return rpc.Reply(m, rpc.ResponseRC, rpc.AppendRC(nil, 0), nil), nil
		},
		PipeData: func(b []byte) { s.piped += string(b) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.net.Close)
	s.net.Connect(netip.MustParseAddrPort(l.Addr().String()), s.codec, s.clock)
	return s
}

// accept accepts the driver's next connection and reads its message.
func (s *slurmctld) accept() net.Conn {
	s.t.Helper()
	if err := s.l.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	c, err := s.l.Accept()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	var in []byte
	for buf := make([]byte, 4096); ; {
		n, err := c.Read(buf)
		if err != nil {
			s.t.Fatal(err)
		}
		in = append(in, buf[:n]...)
		frame, _, err := rpc.Split(in)
		if err != nil {
			s.t.Fatal(err)
		}
		if frame != nil {
			return c
		}
	}
}

// encode returns the bytes of a message in 22.05.
func (s *slurmctld) encode(m *rpc.Message) []byte {
	s.t.Helper()
	b, err := s.codec.Encode(m)
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

// poll polls until done, for 10 s at most.
func (s *slurmctld) poll(done func() bool) {
	s.t.Helper()
	for end := time.Now().Add(10 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if err := s.net.Poll(); err != nil {
			s.t.Fatal(err)
		}
		if time.Now().After(end) {
			s.t.Fatal("what the test waits for did not happen")
		}
	}
}

// Send passes the reply to the given function. The network tells the clock about every byte that it
// reads, even if the reply arrives in pieces.
func TestSendGetsReply(t *testing.T) {
	s := start(t)
	var got *rpc.Message
	var failed error
	s.net.Send(&rpc.Message{Type: rpc.RequestPing}, func(m *rpc.Message, err error) { got, failed = m, err })
	if s.net.Idle() || s.clock.touched == 0 {
		t.Errorf("idle %v, clock touched %d times: want a message under way", s.net.Idle(), s.clock.touched)
	}
	c := s.accept()
	reply := s.encode(&rpc.Message{Type: rpc.ResponseRC, Body: rpc.AppendRC(nil, slurmspec.ErrInvalidJob)})
	half := len(reply) / 2
	for _, part := range [][]byte{reply[:half], reply[half:]} {
		read := s.clock.read
		if _, err := c.Write(part); err != nil {
			t.Fatal(err)
		}
		s.poll(func() bool { return s.clock.read == read+len(part) })
	}
	if failed != nil || got == nil || !errors.Is(rpc.ReplyError(got), slurmspec.ErrInvalidJob) {
		t.Errorf("the answer is %v, %v", got, failed)
	}
	if !s.net.Idle() {
		t.Error("the network is not idle after the answer")
	}
}

// A connection that ends without an answer is an error for its message only.
func TestNoAnswer(t *testing.T) {
	s := start(t)
	var failed error
	s.net.Send(&rpc.Message{Type: rpc.RequestPing}, func(_ *rpc.Message, err error) { failed = err })
	c := s.accept()
	c.Close()
	s.poll(func() bool { return failed != nil })
	if !errors.Is(failed, ErrNoAnswer) && !errors.Is(failed, unix.ECONNRESET) {
		t.Errorf("the error is %v", failed)
	}
}

// 24.11 serves 50 connections at once, the releases before and after it serve more.
func TestMostOpen(t *testing.T) {
	for release, want := range map[slurmspec.Release]int{
		slurmspec.R2205: 200, slurmspec.R2411: 40, {Major: 24, Minor: 11, Patch: 5}: 40, slurmspec.R2605: 200,
	} {
		if got := maxOpen(release); got != want {
			t.Errorf("%v: %d connections, want %d", release, got, want)
		}
	}
}

// No more connections than maxOpen are open at one time; the other messages wait in their order.
func TestQueue(t *testing.T) {
	s := start(t)
	const more = 3
	most := s.net.maxOpen
	var answered []int
	for i := range most + more {
		s.net.Send(&rpc.Message{Type: rpc.RequestPing}, func(_ *rpc.Message, err error) {
			if err != nil {
				t.Errorf("message %d: %v", i, err)
			}
			answered = append(answered, i)
		})
	}
	if _, waiting := s.net.Waiting(); !waiting || s.net.open != most || len(s.net.queue) != more {
		t.Fatalf("%d messages are open and %d wait, want %d and %d", s.net.open, len(s.net.queue), most, more)
	}
	if err := s.net.Reap(); err != nil {
		t.Fatal(err)
	}
	if patience, _ := s.net.Waiting(); patience != time.Microsecond {
		t.Errorf("the patience is %v after a Reap without a closed connection, want 1µs", patience)
	}
	reply := s.encode(&rpc.Message{Type: rpc.ResponseRC, Body: rpc.AppendRC(nil, 0)})
	for i := range most + more {
		c := s.accept()
		if _, err := c.Write(reply); err != nil {
			t.Fatal(err)
		}
		s.poll(func() bool { return len(answered) == i+1 })
	}
	if !slices.IsSorted(answered) || !s.net.Idle() {
		t.Errorf("answered in the order %v; idle: %v", answered, s.net.Idle())
	}
}

// The network closes a stranger's connection to a node, and does not read or count its bytes.
func TestStranger(t *testing.T) {
	s := start(t)
	s.clock.strangers = true
	c, err := net.Dial("tcp4", fmt.Sprintf("127.1.2.3:%d", s.net.NodePort))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(s.encode(&rpc.Message{Version: rpc.V2108, Type: rpc.RequestPing})); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	closed := false
	s.poll(func() bool {
		n, err := c.Read(make([]byte, 1))
		if n > 0 {
			t.Fatal("a stranger is answered")
		}
		closed = err != nil && !os.IsTimeout(err)
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Millisecond)) // as above
		return closed
	})
	if len(s.sent) > 0 || s.clock.read > 0 {
		t.Errorf("%d messages and %d bytes of a stranger were taken", len(s.sent), s.clock.read)
	}
}

// The network tells the clock about each connection that the driver tries to open, even if it
// fails.
func TestConnectionsAreNoted(t *testing.T) {
	s := start(t)
	s.net.Send(&rpc.Message{Type: rpc.RequestPing}, func(*rpc.Message, error) {})
	if s.clock.connecting != 0 || s.clock.connected != 1 {
		t.Errorf("%d connections under way and %d made, want 0 and 1", s.clock.connecting, s.clock.connected)
	}
	s.l.Close()
	var failed error
	s.net.Send(&rpc.Message{Type: rpc.RequestPing}, func(_ *rpc.Message, err error) { failed = err })
	if failed == nil || s.clock.connecting != 0 || s.clock.connected != 1 {
		t.Errorf("refused: %v, %d connections under way and %d made, want 0 and 1", failed, s.clock.connecting, s.clock.connected)
	}
}

// A message to a node reaches the handler with the node's address, and the answer goes back in the
// version of the request. A type without an answer closes the connection.
func TestNodeMessage(t *testing.T) {
	s := start(t)
	for _, typ := range []rpc.Type{rpc.RequestPing, rpc.RequestShutdown} {
		c, err := net.Dial("tcp4", fmt.Sprintf("127.1.2.3:%d", s.net.NodePort))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		before := len(s.sent)
		if _, err := c.Write(s.encode(&rpc.Message{Version: rpc.V2108, Type: typ})); err != nil {
			t.Fatal(err)
		}
		s.poll(func() bool { return len(s.sent) > before })
		in := make([]byte, 4096)
		n, err := c.Read(in)
		if typ == rpc.RequestShutdown {
			if err == nil {
				t.Errorf("%v is answered", typ)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		frame, _, err := rpc.Split(in[:n])
		if err != nil {
			t.Fatal(err)
		}
		if m, err := rpc.Decode(frame); err != nil || m.Type != rpc.ResponseRC || m.Version != rpc.V2108 {
			t.Errorf("the node answers %v, %v", m, err)
		}
	}
	want := []string{"[127 1 2 3] REQUEST_PING(1008)", "[127 1 2 3] REQUEST_SHUTDOWN(1005)"}
	if !slices.Equal(s.sent, want) {
		t.Errorf("the nodes got %v, want %v", s.sent, want)
	}
}

// A message of an impossible length to a node ends the run: the rest of the connection cannot be
// read.
func TestImpossibleLength(t *testing.T) {
	s := start(t)
	c, err := net.Dial("tcp4", fmt.Sprintf("127.1.2.3:%d", s.net.NodePort))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte{0xff, 0xff, 0xff, 0xf0}); err != nil {
		t.Fatal(err)
	}
	var broken error
	for end := time.Now().Add(10 * time.Second); broken == nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
		broken = s.net.Poll()
	}
	const want = "reading a message of slurmctld to node 127.1.2.3: reading a message: length 4294967280 is beyond the limit"
	if broken == nil || !strings.HasPrefix(broken.Error(), want) {
		t.Errorf("Poll: %v, want %s", broken, want)
	}
}

// The network passes the pipe's data on, also after the writer has closed and opened the pipe.
func TestPipe(t *testing.T) {
	s := start(t)
	for _, line := range []string{"JobId=1\n", "JobId=2\n"} {
		f, err := os.OpenFile(s.pipe, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(line); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s.poll(func() bool { return s.piped == "JobId=1\nJobId=2\n" })
	if s.clock.read != len(s.piped) {
		t.Errorf("the clock heard of %d bytes, want %d", s.clock.read, len(s.piped))
	}
}
