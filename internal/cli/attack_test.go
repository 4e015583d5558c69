package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rmreplay/internal/run"
)

// TestForeignBytes writes into the pipe of finished jobs, as only a process of the same user
// can. The clock's count of bytes is impossible then: the run ends at once and is not valid.
func TestForeignBytes(t *testing.T) {
	needSlurm(t)
	r := startReplay(t, longTrace())
	r.untilMidRun(t)
	in := r.inventory(t)
	pipe, err := os.OpenFile(filepath.Join(in.state, "jobcomp.pipe"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	if _, err := pipe.WriteString(" "); err != nil {
		t.Fatal(err)
	}
	if status := r.wait(t); status != ExitFailed {
		t.Errorf("exit status %d, want %d", status, ExitFailed)
	}
	in.mustGo(t)
	rec, rows := openRows(t, r.record)
	if m := rec.Manifest; m.State != run.StateFailed || m.Valid || len(rows) >= 2000 {
		t.Errorf("state %s, valid %v, %d jobs", m.State, m.Valid, len(rows))
	}
	// The pipe is also read before the clock compares: then the foreign byte is in a record.
	said := r.said(t, "stderr")
	if !strings.Contains(said, "bytes too many had arrived at") && !strings.Contains(said, "does not begin with JobId=") {
		t.Errorf("it says %q", said)
	}
}
