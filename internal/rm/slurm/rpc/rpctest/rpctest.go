// Package rpctest has helpers for tests of Slurm's messages: they run the stock programs of
// Slurm's releases, and a recorder that takes slurmctld's place.
package rpctest

import (
	"io"
	"net"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/rm/slurm/rpc/wire"
	"rmreplay/internal/slurmspec"
)

// Body returns the bytes of a body in the version of Slurm 22.05.
func Body(b rpc.Body) []byte {
	codec, err := rpc.NewCodec(slurmspec.R2205)
	if err != nil {
		panic(err) // 22.05 is supported
	}
	return codec.Body(b)
}

// CurrentUser returns the name of the user who runs the test.
func CurrentUser(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("id", "-un").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// ReadMessage reads one message from a connection.
func ReadMessage(c net.Conn) (*rpc.Message, error) {
	var buf []byte
	for {
		frame, need, err := rpc.Split(buf)
		if err != nil {
			return nil, err
		}
		if frame != nil {
			return rpc.Decode(frame)
		}
		chunk := make([]byte, need-len(buf))
		if _, err := io.ReadFull(c, chunk); err != nil {
			return nil, err
		}
		buf = append(buf, chunk...)
	}
}

// Recorder takes slurmctld's place: it records the messages that clients send, and answers each
// message.
type Recorder struct {
	net.Listener
	// Messages are the messages that [Recorder.Next] has not returned yet.
	Messages chan *rpc.Message
	failures chan error
}

// NewRecorder starts a recorder that answers each message with the result of reply. The recorder
// stops when the test ends.
func NewRecorder(t *testing.T, reply func(*rpc.Message) *rpc.Message) *Recorder {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Recorder{Listener: l, Messages: make(chan *rpc.Message, 100), failures: make(chan error, 100)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if err := r.serve(c, reply); err != nil {
				r.failures <- err
			}
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return r
}

func (r *Recorder) serve(c net.Conn, reply func(*rpc.Message) *rpc.Message) error {
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	m, err := ReadMessage(c)
	if err != nil {
		return err
	}
	r.Messages <- m
	b, err := reply(m).Append(nil)
	if err != nil {
		return err
	}
	_, err = c.Write(b)
	return err
}

// Port returns the port of 127.0.0.1 at which the recorder listens.
func (r *Recorder) Port() int { return r.Addr().(*net.TCPAddr).Port }

// Next returns the next message that a client has sent, and waits for it up to 10 s.
func (r *Recorder) Next(t *testing.T) *rpc.Message {
	t.Helper()
	select {
	case m := <-r.Messages:
		return m
	case err := <-r.failures:
		t.Fatalf("reading what the client sent: %v", err)
	case <-time.After(10 * time.Second):
		t.Fatal("the client sent nothing")
	}
	return nil
}

// DecodeFields reads a body in the given version into a struct. The struct lists the message's
// fields in order; a field's type alone decides how it is read. DecodeFields does not use package
// rpc's encoders, so tests can check them. A field that the version does not have keeps its value.
func DecodeFields(t *testing.T, version rpc.Version, body []byte, into any) {
	t.Helper()
	d := wire.NewDecoder("fields", body)
	v := reflect.ValueOf(into).Elem()
	_, isJob := into.(*rpc.JobDesc)
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		if isJob && !jobDescHas(version, name) {
			continue
		}
		if empty := fieldsBefore[name]; isJob && version >= rpc.V2311 && empty {
			if s := d.Str("before " + name); s != "" {
				t.Errorf("the field before %s is %q, which the struct does not have", name, s)
			}
		}
		switch p := f.Addr().Interface().(type) {
		case *string:
			*p = d.Str(name)
		case *[]string:
			*p = d.Strs(name)
		case *uint8:
			*p = d.U8(name)
		case *uint16:
			*p = d.U16(name)
		case *uint32:
			*p = d.U32(name)
		case *uint64:
			*p = d.U64(name)
		case *int64:
			*p = d.Time(name)
		case *[]uint32:
			*p = d.U32s(name)
		default:
			t.Fatalf("field %s has no wire form", name)
		}
	}
	if isJob {
		d.U8("crontab")
		if version >= rpc.V2405 {
			d.U16("segment size")
		}
	}
	if err := d.Finish(); err != nil {
		t.Fatal(err)
	}
}

// fieldsBefore are the fields of a [rpc.JobDesc] before which versions since 23.11 have an
// additional string. No submission of this project sets these strings: the container's id and the
// sizes to choose from.
var fieldsBefore = map[string]bool{"CoreSpec": true, "BoardsPerNode": true}

// jobDescHas reports whether a version has a field of [rpc.JobDesc].
func jobDescHas(version rpc.Version, field string) bool {
	switch field {
	case "SelectPlugin":
		return version < rpc.V2302
	case "PowerFlags":
		return version < rpc.V2411
	case "ReservedPorts":
		return version >= rpc.V2405
	case "OOMKillStep":
		return version >= rpc.V2411
	}
	return true
}
