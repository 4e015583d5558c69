package rpc

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/rpc/wire"
	"rmreplay/internal/slurmspec"
)

// body returns the bytes of a body in version 22.05.
func body(b Body) []byte { return Codec{protocol: protocol2205}.Body(b) }

func TestMessageBytes(t *testing.T) {
	m := Message{
		Version: V2205, Flags: 1, Type: RequestPing, UID: 7, GID: 8, Host: "h",
		Forward: Forward{Nodes: "n2", Count: 1, Timeout: 10000, TreeWidth: 50},
		Body:    []byte{0xab},
	}
	for _, c := range []struct {
		version Version
		want    string
	}{
		{V2205, "00000030" + "2600" + "0001" + "03f0" + "00000001" + "0001" + "00000003" + "6e3200" + "00002710" + "0032" + "0000" + "0000" +
			"00000064" + "00000007" + "00000008" + "00000002" + "6800" + "ab"},
		{V2011, "00000032" + "2400" + "0001" + "0000" + "03f0" + "00000001" + "0001" + "00000003" + "6e3200" + "00002710" + "0032" + "0000" + "0000" +
			"00000064" + "00000007" + "00000008" + "00000002" + "6800" + "ab"},
	} {
		m.Version = c.version
		b, err := m.Append([]byte("before"))
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(bytes.TrimPrefix(b, []byte("before"))); got != c.want {
			t.Errorf("%v: got\n%s, want\n%s", c.version, got, c.want)
		}
	}
}

// TestMessageRoundTrip checks that a message that was written is read as the same message.
func TestMessageRoundTrip(t *testing.T) {
	text := rapid.StringOfN(rapid.RuneFrom([]rune("abc[]1-,")), 0, 20, -1)
	rapid.Check(t, func(t *rapid.T) {
		m := &Message{
			Version: rapid.SampledFrom([]Version{V2605, V2511, V2505, V2411, V2405, V2311, V2302, V2205, V2108, V2011}).Draw(t, "version"),
			Flags:   rapid.Uint16().Draw(t, "flags"),
			Type:    Type(rapid.Uint16().Draw(t, "type")),
			UID:     rapid.Uint32().Draw(t, "uid"),
			GID:     rapid.Uint32().Draw(t, "gid"),
			Host:    text.Draw(t, "host"),
			Body:    rapid.SliceOf(rapid.Byte()).Draw(t, "body"),
		}
		if rapid.Bool().Draw(t, "forwarded") {
			m.Forward = Forward{Nodes: text.Draw(t, "nodes"), Count: rapid.Uint16Min(1).Draw(t, "count"), Timeout: 3, TreeWidth: 4}
			if m.Version >= V2311 && m.Flags&flagAddresses != 0 {
				m.Forward.Addresses = text.Draw(t, "addresses")
			}
			if m.Version >= V2411 {
				m.Forward.TreeDepth = 5
			}
		}
		if m.Version >= V2302 && m.Flags&flagNoCredential != 0 {
			m.UID, m.GID, m.Host = 0, 0, ""
		}
		for range rapid.IntRange(0, 3).Draw(t, "returns") {
			m.Returns = append(m.Returns, Return{Err: 5, Type: ResponseRC, Node: text.Draw(t, "node"), Body: AppendRC(nil, 3)})
		}
		b, err := m.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		stream := append(b, "the next message"...)
		frame, need, err := Split(stream)
		if err != nil || need != len(b) {
			t.Fatalf("need %d of %d: %v", need, len(b), err)
		}
		got, err := Decode(frame)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Body) == 0 {
			m.Body, got.Body = nil, nil
		}
		if diff := cmp.Diff(m, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSplitIncomplete(t *testing.T) {
	b, err := (&Message{Version: V2205, Type: RequestPing}).Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := range b {
		frame, need, err := Split(b[:n])
		want := len(b)
		if n < 4 {
			want = 4
		}
		if frame != nil || need != want || err != nil {
			t.Errorf("%d bytes: frame %v, need %d (want %d), %v", n, frame, need, want, err)
		}
	}
}

func TestSplitRefusesAbsurdLengths(t *testing.T) {
	for _, n := range []uint32{0, 1, 15, MaxMessage + 1, 0x47455420, 0xffffffff} {
		if _, _, err := Split(binary.BigEndian.AppendUint32(nil, n)); err == nil {
			t.Errorf("length %d is taken", n)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	good, err := (&Message{Version: V2205, Type: RequestPing, Body: []byte{1, 2}}).Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	frame := good[4:]
	change := func(at int, b ...byte) []byte {
		return append(append(append([]byte(nil), frame[:at]...), b...), frame[at+len(b):]...)
	}
	for _, c := range []struct {
		name, want string
		frame      []byte
	}{
		{"nothing", "version needs 2 bytes", nil},
		{"a version of the future", "not supported", change(0, 0x2e, 0)},
		{"munge", "plugin 101 (want 100, auth/none)", change(16, 0, 0, 0, 101)},
		{"a body that is cut", "the body is 2 bytes long, 1 are left", frame[:len(frame)-1]},
		{"bytes after the body", "the body is 2 bytes long, 3 are left", append(frame[:len(frame):len(frame)], 0)},
		{"an unreadable return", "cannot be read", change(12, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0)},
	} {
		if _, err := Decode(c.frame); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func TestAppendRefusesVersion(t *testing.T) {
	if _, err := (&Message{Version: 35 << 8, Type: RequestPing}).Append(nil); err == nil {
		t.Error("20.02 is taken")
	}
}

func TestReply(t *testing.T) {
	req := &Message{Version: V2108, Type: RequestPing}
	b, err := Reply(req, ResponsePing, Codec{}.Answer(req, Ping{Load: 5, FreeMemory: 6}), []string{"n2", "n3"}).Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Decode(b[4:])
	if err != nil {
		t.Fatal(err)
	}
	body := []byte{0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 6}
	want := &Message{Version: V2108, Type: ResponsePing, Body: body, Returns: []Return{
		{Type: ResponsePing, Node: "n2", Body: body}, {Type: ResponsePing, Node: "n3", Body: body},
	}}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Error(diff)
	}
}

// TestStringsEndAtNUL checks that a NUL in a text cannot shift the fields after the text.
func TestStringsEndAtNUL(t *testing.T) {
	b := body(&EpilogComplete{JobID: 1, Node: "n1\x00evil"})
	if got, want := hex.EncodeToString(b), "0000000100000000"+"00000003"+"6e3100"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNodeMessages(t *testing.T) {
	for _, c := range []struct {
		name, want string
		got        []byte
	}{
		{"epilog complete", "0000000c" + "00000fb7" + "00000003" + "6e3100", body(&EpilogComplete{JobID: 12, Code: slurmspec.ErrEpilogFailed, Node: "n1"})},
		{"batch complete", "00" + "0000000c" + "00000300" + "00000000" + "000003e8" + "00000003" + "6e3100", body(&BatchComplete{JobID: 12, Status: slurmspec.ExitCode{Status: 3}.Wait(), UID: 1000, Node: "n1"})},
		{"prolog complete", "0000000c" + "00000003" + "6e3100" + "00000000", body(&PrologComplete{JobID: 12, Node: "n1"})},
		{"step complete", "0000000c" + "fffffffc" + "fffffffe" + "00000000" + "00000001" + "00000009" + "00",
			body(&StepComplete{StepID: StepID{12, StepExtern, slurmspec.NoVal}, Last: 1, Status: (slurmspec.ExitCode{Status: 0, Signal: 9}).Wait()})},
		{"no gres", "00000004" + "00000004" + "2600" + "0000", gresBlock()},
		{"gres", "0000003d" + "0000003d" + "2600" + "0001" + "438a34d4" + "0000000000000002" + "0000000c" + "00000006" + "00757067" + "00000004302d3100" + "00000000" + "0000000467707500" + "0000000576313030" + "00" + "00000000",
			gresBlock(GRES{Name: "gpu", Type: "v100", Count: 2, CPUs: 12, Cores: "0-1", Flags: GRESHasFile | GRESHasType})},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s: got\n%s, want\n%s", c.name, got, c.want)
		}
	}
}

// gresBlock returns the block of generic resources in a registration of version 22.05.
func gresBlock(records ...GRES) []byte {
	e := newEncoder(nil, protocol2205)
	e.gresBlock(records)
	return e.Bytes
}

func TestGRESPluginID(t *testing.T) {
	for name, want := range map[string]uint32{"gpu": 7696487, "": 0, "abcde": 0x64636261 + 0x65} {
		if got := GRESPluginID(name); got != want {
			t.Errorf("%q: got %d, want %d", name, got, want)
		}
	}
}

func TestReplyError(t *testing.T) {
	withText := wire.Encoder{}
	withText.U32(2050)
	withText.Str("over the limit\n")
	array := wire.Encoder{}
	array.U32(2)
	array.U32(0)
	array.Str("12_1")
	array.U32(2021)
	array.Str("12_2")
	for _, c := range []struct {
		m    Message
		code slurmspec.Errno
		text string
	}{
		{Message{Type: ResponseRC, Body: AppendRC(nil, 0)}, 0, ""},
		{Message{Type: ResponseSubmitBatchJob}, 0, ""},
		{Message{Type: ResponseRC, Body: AppendRC(nil, 2066)}, 2066, "ESLURM_INVALID_QOS: the QOS does not exist or is not allowed here"},
		{Message{Type: ResponseRCMessage, Body: withText.Bytes}, 2050, "over the limit: ESLURM_ACCOUNTING_POLICY: a limit of the association or the QOS is exceeded"},
		{Message{Version: V2205, Type: ResponseJobArrayErrors, Body: array.Bytes}, 2021, "job 12_2: ESLURM_ALREADY_DONE: the job has already ended"},
	} {
		err := ReplyError(&c.m)
		if c.text == "" {
			if err != nil {
				t.Errorf("%v: %v", c.m.Type, err)
			}
			continue
		}
		if err == nil || err.Error() != c.text || !errors.Is(err, c.code) {
			t.Errorf("%v: got %v, want %s", c.m.Type, err, c.text)
		}
	}
	if err := ReplyError(&Message{Type: ResponseRC, Body: []byte{1}}); err == nil {
		t.Error("a reply that is cut is taken for success")
	}
}

func TestReservationRefuses(t *testing.T) {
	full := hpc.Reservation{Name: "r", Start: 1, Duration: time.Hour, Nodes: "n1", Users: []string{"u"}}
	for want, change := range map[string]func(*hpc.Reservation){
		"no start":     func(r *hpc.Reservation) { r.Start = 0 },
		"no duration":  func(r *hpc.Reservation) { r.Duration = 0 },
		"no users":     func(r *hpc.Reservation) { r.Users = nil },
		"has no nodes": func(r *hpc.Reservation) { r.Nodes = "" },
		"not known":    func(r *hpc.Reservation) { r.Flags = []string{"shiny"} },
	} {
		r := full
		change(&r)
		if _, err := NewReservationDesc(r, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// FuzzDecode gives random streams to the decoders of headers and bodies.
func FuzzDecode(f *testing.F) {
	files, _ := filepath.Glob("testdata/captured/*/*.msg")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, need, err := Split(b)
		if err != nil || frame == nil {
			if err == nil && need <= len(b) {
				t.Fatalf("%d bytes of %d are needed", need, len(b))
			}
			return
		}
		m, err := Decode(frame)
		if err != nil {
			return
		}
		_ = decodeBody(m.Type, m.Version, m.Body)
	})
}

// FuzzBody gives random bytes to the decoder of every type's body.
func FuzzBody(f *testing.F) {
	files, _ := filepath.Glob("testdata/captured/*/*.msg")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		m, err := Decode(b[4:])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint16(m.Type), uint16(m.Version), m.Body)
	}
	f.Add(uint16(ResponseJobArrayErrors), uint16(V2205), []byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, typ, version uint16, body []byte) {
		_ = decodeBody(Type(typ), Version(version), body)
	})
}

// TestCaptured decodes recorded messages of a real slurmctld. The records are in testdata, so the
// test needs no Slurm. "go test -run RealController -capture" writes them again. The exception are
// the messages in 26.05's own version: these are the repeated messages of
// slurm.TestUnansweredMessages.
func TestCaptured(t *testing.T) {
	files, err := filepath.Glob("testdata/captured/*/*.msg")
	if err != nil || len(files) < 10 {
		t.Fatalf("only %d captured messages: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimPrefix(file, "testdata/captured/"), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			frame, need, err := Split(b)
			if err != nil || need != len(b) {
				t.Fatalf("%d of %d bytes: %v", need, len(b), err)
			}
			m, err := Decode(frame)
			if err != nil {
				t.Fatal(err)
			}
			again, err := m.Append(nil)
			if err != nil || !bytes.Equal(again, b) {
				t.Errorf("encoded again it is another: %v", err)
			}
			if err := decodeBody(m.Type, m.Version, m.Body); err != nil {
				t.Error(err)
			}
			// Decoding must fail for every shorter part of a body, and must not panic.
			if len(m.Body) > 0 && m.Type != RequestSuspendInt {
				for n := range m.Body {
					if decodeBody(m.Type, m.Version, m.Body[:n]) == nil {
						t.Errorf("the first %d of %d bytes are taken for the whole", n, len(m.Body))
					}
				}
			}
		})
	}
}

// decodeBody decodes the body of any message to a node or a client.
func decodeBody(typ Type, v Version, body []byte) error {
	var err error
	switch typ {
	case RequestBatchLaunch:
		_, err = DecodeBatchLaunch(v, body)
	case RequestLaunchProlog:
		_, err = DecodePrologLaunch(v, body)
	case RequestTerminateJob, RequestKillTimelimit, RequestKillPreempted, RequestAbortJob:
		_, err = DecodeKillJob(v, body)
	case RequestSuspendInt:
		_, err = DecodeSuspend(v, body)
	case RequestSignalTasks, RequestTerminateTasks:
		_, err = DecodeSignal(v, body)
	case RequestRebootNodes:
		_, err = DecodeReboot(v, body)
	case RequestJobNotify:
		_, err = DecodeNotify(v, body)
	case ResponseJobInfo:
		_, err = DecodeJobInfo(&Message{Version: v, Type: typ, Body: body})
	case ResponseStats:
		_, err = DecodeStats(&Message{Version: v, Body: body})
	case ResponseSubmitBatchJob:
		_, err = DecodeSubmitResponse(&Message{Version: v, Type: typ, Body: body})
	case ResponseCreateReservation:
		_, err = DecodeCreateReservation(&Message{Version: v, Type: typ, Body: body})
	default:
		err = ReplyError(&Message{Version: v, Type: typ, Body: body})
	}
	return err
}
