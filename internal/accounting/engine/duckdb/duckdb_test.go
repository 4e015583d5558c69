package duckdb_test

import (
	"database/sql"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/duckdb/duckdb-go/v2"

	"rmreplay/internal/accounting/engine/enginetest"
	"rmreplay/internal/accounting/engine/wire"
)

// started is an engine without a pool that watches it.
type started struct {
	cmd *exec.Cmd
	out *wire.Writer
	in  *wire.Reader
	end func() error // closes the input and waits for the process
}

func start(t *testing.T, settings wire.Settings) *started {
	t.Helper()
	argv := enginetest.Program()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	e := &started{cmd, wire.NewWriter(in), wire.NewReader(out), func() error { _ = in.Close(); return cmd.Wait() }}
	text, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.out.Send(wire.Configure, text); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *started) ask(t *testing.T, number uint64, query string) {
	t.Helper()
	if err := e.out.Send(wire.Ask, wire.AppendString(wire.AppendUint(nil, number), query)); err != nil {
		t.Fatal(err)
	}
}

// next reads a frame, which must be of the given kind.
func (e *started) next(t *testing.T, want wire.Kind) []byte {
	t.Helper()
	kind, payload, err := e.in.Next()
	if err != nil || kind != want {
		t.Fatalf("got kind %d, %q, %v, want kind %d", kind, payload, err, want)
	}
	return payload
}

// TestKernel checks that the kernel limits the memory of an engine that no pool watches, even if
// DuckDB's limit is higher.
func TestKernel(t *testing.T) {
	e := start(t, wire.Settings{MemoryMiB: 10_000, DataMiB: 128, AnswerMiB: 1})
	e.next(t, wire.Ready)
	e.ask(t, 1, "SELECT quantile_cont(range * random(), 0.5) FROM range(300000000)")
	kind, payload, err := e.in.Next()
	if err == nil && (kind != wire.Fault || wire.Cause(payload[0]) != wire.Memory) {
		t.Errorf("got kind %d, %q", kind, payload)
	}
	_ = e.end() // an error if the kernel's refusal ended the process
	mib := e.cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10
	if t.Logf("%d MiB: %v", mib, err); mib > 300 {
		t.Errorf("the engine had %d MiB", mib)
	}
}

// TestAttach reads an old database, and checks that queries cannot change it.
func TestAttach(t *testing.T) {
	path := filepath.Join(t.TempDir(), "what's old.duckdb")
	connector, err := duckdb.NewConnector(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	if _, err := db.Exec("CREATE TABLE jobs AS SELECT range AS id FROM range(7)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	e := start(t, wire.Settings{MemoryMiB: 64, DataMiB: 256, AnswerMiB: 1, Attach: path})
	e.next(t, wire.Ready)
	if err := e.out.Send(wire.Begin, wire.AppendString(wire.AppendUint(nil, 1), "DELETE FROM old.jobs")); err != nil {
		t.Fatal(err)
	}
	if payload := e.next(t, wire.Fault); !strings.Contains(string(payload), "read-only") {
		t.Errorf("got %q", payload)
	}
	if err := e.out.Send(wire.Begin, wire.AppendUint(nil, 2)); err != nil {
		t.Fatal(err)
	}
	e.next(t, wire.Done)
	e.ask(t, 3, "SELECT count(*) FROM old.jobs")
	e.next(t, wire.Columns)
	if n := wire.NewDecoder(e.next(t, wire.Rows)).Value(); n != int64(7) {
		t.Errorf("got %v rows", n)
	}
}

// TestEnd closes the input of an engine whose query ignores interrupts: the engine still ends at
// once.
func TestEnd(t *testing.T) {
	e := start(t, wire.Settings{MemoryMiB: 64, DataMiB: 256, AnswerMiB: 1})
	e.next(t, wire.Ready)
	e.ask(t, 1, "SELECT count(*) FROM (SELECT repeat('a', 400) || range t FROM range(100000)) "+
		"WHERE t LIKE '%_a%_a%_a%_a%_a%_a%_a%_a%_a%b'")
	if err := e.end(); err != nil {
		t.Errorf("got %v", err)
	}
}

// TestInterrupt checks that an interrupt ends only its own query.
func TestInterrupt(t *testing.T) {
	e := start(t, wire.Settings{MemoryMiB: 64, DataMiB: 256, AnswerMiB: 1})
	e.next(t, wire.Ready)
	if err := e.out.Send(wire.Begin, wire.AppendUint(nil, 1)); err != nil {
		t.Fatal(err)
	}
	e.next(t, wire.Done)
	e.ask(t, 2, "SELECT 1")
	if err := e.out.Send(wire.Interrupt, wire.AppendUint(nil, 1)); err != nil { // of a request that has ended
		t.Fatal(err)
	}
	e.next(t, wire.Columns)
	e.next(t, wire.Rows)
	e.next(t, wire.Done)
	e.ask(t, 3, "SELECT sum(a.range * b.range) FROM range(100000000000) a, range(10000) b")
	if err := e.out.Send(wire.Interrupt, wire.AppendUint(nil, 3)); err != nil {
		t.Fatal(err)
	}
	if payload := e.next(t, wire.Fault); wire.Cause(payload[0]) != wire.Interrupted {
		t.Errorf("got %q", payload)
	}
	if err := e.end(); err != nil {
		t.Error(err)
	}
}

// TestGarbage sends bytes that are not a frame, and a question before the settings. Both end the
// engine.
func TestGarbage(t *testing.T) {
	argv := enginetest.Program()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin = strings.NewReader("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "rmreplay-engine: reading a frame: ") {
		t.Errorf("garbage: %v: %s", err, out)
	}
	var early strings.Builder
	if err := wire.NewWriter(&early).Send(wire.Begin, wire.AppendUint(nil, 1)); err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(argv[0], argv[1:]...)
	cmd.Stdin = strings.NewReader(early.String())
	// The end of the input may come before the engine's answer; then there is no error.
	if out, err := cmd.CombinedOutput(); err != nil && !strings.Contains(string(out), "before the settings") {
		t.Errorf("early: %v: %s", err, out)
	}
}
