package predictcmd

import (
	"path/filepath"
	"strings"
	"testing"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/wal"
)

// TestJournalLocked checks that a journal cannot be opened twice: each of two services would miss
// the other's events.
func TestJournalLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	j, _, _, err := wal.OpenState(path, "predict")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	model := filepath.Join(t.TempDir(), "m.model")
	writeModel(t, model)
	o := commands{Output: console.Output{Stderr: make(lines, 4)}}
	err = o.serve(t.Context(), model, serveOptions{listen: "127.0.0.1:0", journal: path})
	if err == nil || !strings.Contains(err.Error(), path+": another process uses the directory") {
		t.Errorf("got %v", err)
	}
}
