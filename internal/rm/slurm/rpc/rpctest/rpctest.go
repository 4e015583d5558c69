// Package rpctest has what tests of Slurm's messages share: the stock programs of Slurm 22.05,
// and a recorder that stands for slurmctld.
package rpctest

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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

// NeedSlurm skips the test, with a message, unless the stock programs of Slurm 22.05 are
// installed.
func NeedSlurm(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("SKIPPED: %s is not installed, so nothing is checked against the real Slurm", p)
		}
	}
	// The clients read slurm.conf before they say their version.
	dir := t.TempDir()
	conf := ControllerConf(t, dir, 1, "NodeName=n1\nPartitionName=p1 Nodes=n1")
	out, err := RunClient(t, conf, dir, "", "scontrol", "--version")
	if err != nil || !strings.Contains(out, " 22.05.") {
		t.Skipf("SKIPPED: scontrol --version says %q (%v), want Slurm 22.05", out, err)
	}
}

// ControllerConf writes a slurm.conf with which clients connect to a port of this machine, and
// returns its path. more has further lines.
func ControllerConf(t *testing.T, dir string, port int, more string) string {
	t.Helper()
	conf := fmt.Sprintf(`ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=%d
SlurmUser=%s
AuthType=auth/none
CredType=cred/none
CommunicationParameters=NoCtldInAddrAny
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu,nvme
AllowSpecResourcesUsage=yes
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
DebugFlags=NO_CONF_HASH
StateSaveLocation=%s/state
SlurmctldPidFile=%[3]s/ctld.pid
SlurmctldLogFile=%[3]s/ctld.log
AccountingStorageType=accounting_storage/none
%[4]s
`, port, CurrentUser(t), dir, more)
	path := filepath.Join(dir, "slurm.conf")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
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

// Recorder stands for slurmctld: it records the messages that clients send, and answers each of
// them.
type Recorder struct {
	net.Listener
	// Messages has the messages that [Recorder.Next] has not returned.
	Messages chan *rpc.Message
	failures chan error
}

// NewRecorder starts a recorder that answers with reply. It ends with the test.
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

// RunClient runs a stock client with a slurm.conf and returns its output. The environment has no
// other variables that could change the client's options.
func RunClient(t *testing.T, conf, dir, stdin string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = []string{"SLURM_CONF=" + conf, "PATH=" + os.Getenv("PATH"), "TZ=UTC", "HOME=/"}
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// DecodeFields reads a body into a struct whose fields are in the order of the message, by their
// types alone. It is independent of package rpc's encoders, which it checks.
func DecodeFields(t *testing.T, body []byte, into any) {
	t.Helper()
	d := wire.NewDecoder("fields", body)
	v := reflect.ValueOf(into).Elem()
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
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
	if _, ok := into.(*rpc.JobDesc); ok {
		d.U8("crontab")
	}
	if err := d.Finish(); err != nil {
		t.Fatal(err)
	}
}
