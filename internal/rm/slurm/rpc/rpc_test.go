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
	"rmreplay/internal/slurmspec"
)

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

// TestMessageRoundTrip checks that every message that can be written is read as it was.
func TestMessageRoundTrip(t *testing.T) {
	text := rapid.StringOfN(rapid.RuneFrom([]rune("abc[]1-,")), 0, 20, -1)
	rapid.Check(t, func(t *rapid.T) {
		m := &Message{
			Version: rapid.SampledFrom([]Version{V2205, V2108, V2011}).Draw(t, "version"),
			Flags:   rapid.Uint16().Draw(t, "flags"),
			Type:    Type(rapid.Uint16().Draw(t, "type")),
			UID:     rapid.Uint32().Draw(t, "uid"),
			GID:     rapid.Uint32().Draw(t, "gid"),
			Host:    text.Draw(t, "host"),
			Body:    rapid.SliceOf(rapid.Byte()).Draw(t, "body"),
		}
		if rapid.Bool().Draw(t, "forwarded") {
			m.Forward = Forward{Nodes: text.Draw(t, "nodes"), Count: rapid.Uint16Min(1).Draw(t, "count"), Timeout: 3, TreeWidth: 4}
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
	b, err := (&Message{Type: RequestPing}).Append(nil)
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
	for _, n := range []uint32{0, 1, 31, MaxMessage + 1, 0x47455420, 0xffffffff} {
		if _, _, err := Split(binary.BigEndian.AppendUint32(nil, n)); err == nil {
			t.Errorf("length %d is taken", n)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	good, err := (&Message{Type: RequestPing, Body: []byte{1, 2}}).Append(nil)
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
		{"a version of the future", "not supported", change(0, 0x28, 0)},
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
	b, err := Reply(req, ResponsePing, AppendPing(nil, 5, 6), []string{"n2", "n3"}).Append(nil)
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

// TestStringsEndAtNUL checks that no text can shift the fields after it.
func TestStringsEndAtNUL(t *testing.T) {
	b := (&EpilogComplete{JobID: 1, Node: "n1\x00evil"}).Append(nil)
	if got, want := hex.EncodeToString(b), "0000000100000000"+"00000003"+"6e3100"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNodeMessages(t *testing.T) {
	for _, c := range []struct {
		name, want string
		got        []byte
	}{
		{"epilog complete", "0000000c" + "00000fb7" + "00000003" + "6e3100", (&EpilogComplete{JobID: 12, Code: slurmspec.ErrEpilogFailed, Node: "n1"}).Append(nil)},
		{"batch complete", "00" + "0000000c" + "00000300" + "00000000" + "000003e8" + "00000003" + "6e3100", (&BatchComplete{JobID: 12, Status: slurmspec.ExitCode{Status: 3}.Wait(), UID: 1000, Node: "n1"}).Append(nil)},
		{"prolog complete", "0000000c" + "00000003" + "6e3100" + "00000000", (&PrologComplete{JobID: 12, Node: "n1"}).Append(nil)},
		{"step complete", "0000000c" + "fffffffc" + "fffffffe" + "00000000" + "00000001" + "00000009" + "00",
			(&StepComplete{StepID: StepID{12, StepExtern, slurmspec.NoVal}, Last: 1, Status: (slurmspec.ExitCode{Status: 0, Signal: 9}).Wait()}).Append(nil)},
		{"no gres", "2600" + "0000", appendGRES(nil, nil)},
		{"gres", "2600" + "0001" + "438a34d4" + "0000000000000002" + "0000000c" + "00000006" + "00757067" + "00000004302d3100" + "00000000" + "0000000467707500" + "0000000576313030" + "00" + "00000000",
			appendGRES(nil, []GRES{{Name: "gpu", Type: "v100", Count: 2, CPUs: 12, Cores: "0-1", Flags: GRESHasFile | GRESHasType}})},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s: got\n%s, want\n%s", c.name, got, c.want)
		}
	}
}

func TestGRESPluginID(t *testing.T) {
	for name, want := range map[string]uint32{"gpu": 7696487, "": 0, "abcde": 0x64636261 + 0x65} {
		if got := GRESPluginID(name); got != want {
			t.Errorf("%q: got %d, want %d", name, got, want)
		}
	}
}

func TestAnswer(t *testing.T) {
	silent := map[Type]bool{
		RequestReconfigure: true, RequestReconfigureWithConfig: true, RequestShutdown: true,
		RequestRebootNodes: true, RequestJobNotify: true,
	}
	for typ := range typeNames {
		_, _, ok := Answer(typ, "n1", 1, 2)
		if ok == silent[typ] {
			t.Errorf("%v: answered %v", typ, ok)
		}
	}
	if _, body, _ := Answer(12345, "n1", 1, 2); !bytes.Equal(body, AppendRC(nil, 22)) {
		t.Errorf("an unknown request is answered %x", body)
	}
}

func TestReplyError(t *testing.T) {
	withText := encoder{}
	withText.u32(2050)
	withText.str("over the limit\n")
	array := encoder{}
	array.u32(2)
	array.u32(0)
	array.str("12_1")
	array.u32(2021)
	array.str("12_2")
	for _, c := range []struct {
		m    Message
		code slurmspec.Errno
		text string
	}{
		{Message{Type: ResponseRC, Body: AppendRC(nil, 0)}, 0, ""},
		{Message{Type: ResponseSubmitBatchJob}, 0, ""},
		{Message{Type: ResponseRC, Body: AppendRC(nil, 2066)}, 2066, "ESLURM_INVALID_QOS: the QOS does not exist or is not allowed here"},
		{Message{Type: ResponseRCMessage, Body: withText.b}, 2050, "over the limit: ESLURM_ACCOUNTING_POLICY: a limit of the association or the QOS is exceeded"},
		{Message{Type: ResponseJobArrayErrors, Body: array.b}, 2021, "job 12_2: ESLURM_ALREADY_DONE: the job has already ended"},
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

func TestSubmissionRefuses(t *testing.T) {
	for _, c := range []struct {
		want string
		s    Submission
	}{
		{`"#!"`, Submission{Script: "echo"}},
		{"NUL", Submission{Script: "#!/bin/sh\x00"}},
		{"exclude each other", Submission{Request: hpc.Request{MemPerCPU: 1, MemPerNode: 1}}},
		{"--core-spec and --thread-spec", Submission{Request: hpc.Request{CoreSpec: 1, ThreadSpec: 1}}},
		{"--ntasks-per-gpu and --gpus-per-task", Submission{Request: hpc.Request{TasksPerGPU: 1, GPUsPerTask: "1"}}},
		{"--cpus-per-gpu and --cpus-per-task", Submission{Request: hpc.Request{CPUsPerGPU: 1, CPUsPerTask: 1}}},
		{"less than at least", Submission{Request: hpc.Request{MinNodes: 4, MaxNodes: 2}}},
		{"--nodes -1", Submission{Request: hpc.Request{MinNodes: -1}}},
		{"--cpus-per-task 70000", Submission{Request: hpc.Request{CPUsPerTask: 70000}}},
		{"--distribution", Submission{Request: hpc.Request{Distribution: "spiral"}}},
		{"plane's size", Submission{Request: hpc.Request{Distribution: "plane"}}},
		{"needs a node list", Submission{Request: hpc.Request{Distribution: "arbitrary"}}},
		{"--hint", Submission{Request: hpc.Request{Hint: "fast"}}},
		{"--exclusive", Submission{Request: hpc.Request{Exclusive: "maybe"}}},
		{"--gres-flags", Submission{Request: hpc.Request{GRESFlags: "loose"}}},
		{"no signal", Submission{Request: hpc.Request{Signal: "B:NOPE"}}},
		{"no time in seconds", Submission{Request: hpc.Request{Signal: "USR1@soon"}}},
		{"brackets", Submission{Request: hpc.Request{NodeList: "n[1-"}}},
		{"more than 65536 hosts", Submission{Request: hpc.Request{NodeList: "n[0-99999999]"}}},
		{"before --begin", Submission{Request: hpc.Request{Begin: 2 * time.Hour, Deadline: time.Hour}}},
		{"negative", Submission{Request: hpc.Request{TimeMin: -1}}},
	} {
		if c.s.Script == "" {
			c.s.Script = "#!/bin/sh\n"
		}
		if _, err := c.s.JobDesc(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.s.Request, err, c.want)
		}
	}
}

func TestExpandHosts(t *testing.T) {
	for list, want := range map[string]string{
		"n1":                                    "n1",
		"n[3-1]":                                "",
		"n[08-11]":                              "n08 n09 n10 n11",
		"n[1,3-4]x,m,n1x,,m":                    "m n1x n3x n4x",
		"r[1-2]n[1-2]":                          "r1n1 r1n2 r2n1 r2n2",
		"n[[1]]":                                "",
		"n1]":                                   "",
		"":                                      "",
		"n[a]":                                  "",
		"n[" + strings.Repeat("0", 1000) + "1]": "",
		strings.Repeat("n", 1000) + "[1-2]":     "",
		strings.Repeat("n[1]", 1000):            "",
	} {
		got, err := expandHosts(list)
		if strings.Join(got, " ") != want || (err != nil) != (want == "") {
			t.Errorf("%q: got %q, %v, want %q", list, got, err, want)
		}
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

// FuzzDecode gives whole messages to the decoders of headers and bodies.
func FuzzDecode(f *testing.F) {
	files, _ := filepath.Glob("testdata/captured/*.msg")
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

// FuzzBody gives anything to the decoder of every type's body.
func FuzzBody(f *testing.F) {
	files, _ := filepath.Glob("testdata/captured/*.msg")
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

// FuzzSubmission gives anything to the parsers of a submission's texts.
func FuzzSubmission(f *testing.F) {
	f.Add("n[1-3],m", "block:cyclic,pack", "B:USR1@30", "compute_bound", "gpu:a100:2,nvme", "2", 4, 2)
	f.Add("", "plane=4", "12", "", "gpu:18446744073709551615", "x:y:z", 1, 1)
	f.Fuzz(func(t *testing.T, nodes, dist, signal, hint, gres, gpus string, n, tasks int) {
		s := Submission{Script: "#!", Request: hpc.Request{
			NodeList: nodes, Distribution: dist, Signal: signal, Hint: hint, GRES: gres, GPUs: gpus,
			GPUsPerTask: gpus, MinNodes: n, Tasks: tasks,
		}}
		j, err := s.JobDesc()
		if err != nil {
			return
		}
		var back JobDesc
		decodeFields(t, j.Append(nil), &back)
	})
}
