package predictcmd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rmreplay/internal/cli/console"
)

// failing is a file on a disk that fails: it takes room more bytes, and syncs or cuts not at all.
type failing struct {
	*os.File
	room         int
	sync, uncut  bool
	afterFailure bool
}

var errFull = errors.New("no space left on device")

func (f *failing) Write(b []byte) (int, error) {
	if len(b) > f.room {
		n, _ := f.File.Write(b[:f.room])
		f.room -= n
		f.afterFailure = true
		return n, errFull
	}
	f.room -= len(b)
	return f.File.Write(b)
}

func (f *failing) Sync() error {
	if f.sync && !f.afterFailure {
		f.afterFailure = true
		return errFull
	}
	return f.File.Sync()
}

func (f *failing) Truncate(size int64) error {
	if f.uncut {
		return errors.New("input/output error")
	}
	return f.File.Truncate(size)
}

// TestJournalFails fails to write or to sync a batch. Nothing of it is left, so the same batch can be
// sent again. If it cannot be removed, nothing may follow it.
func TestJournalFails(t *testing.T) {
	const first, second = "{\"events\":[1]}\n", "{\"events\":[2]}\n"
	for name, c := range map[string]struct {
		disk failing
		want string
		next string // the error of the batch that is sent again
	}{
		"half a batch":     {failing{room: len(first) + 5}, first + second, ""},
		"no sync":          {failing{room: 1000, sync: true, afterFailure: true}, first + second, ""},
		"cannot be undone": {failing{room: len(first) + 5, uncut: true}, first + second[:5], "an earlier batch could not be removed"},
	} {
		path := filepath.Join(t.TempDir(), "events")
		j, err := openJournal(path)
		if err != nil {
			t.Fatal(err)
		}
		c.disk.File = j.file.(*os.File)
		j.file = &c.disk
		if _, err := j.Write([]byte(first)); err != nil {
			t.Fatal(err)
		}
		c.disk.afterFailure = false
		if _, err := j.Write([]byte(second)); !errors.Is(err, errFull) {
			t.Errorf("%s: %v", name, err)
		}
		c.disk.room = 1000
		if _, err := j.Write([]byte(second)); (c.next == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.next) {
			t.Errorf("%s: the batch again: %v, want %q", name, err, c.next)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != c.want {
			t.Errorf("%s: the journal has %q, want %q; %v", name, text, c.want, err)
		}
		if err := j.file.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestJournalLocked opens a journal twice. Two services would each miss the other's events.
func TestJournalLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	j, err := openJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	model := filepath.Join(t.TempDir(), "m.model")
	writeModel(t, model)
	err = commands{Output: console.Output{Stderr: make(lines, 4)}}.serve(t.Context(), model, serveOptions{listen: "127.0.0.1:0", journal: path})
	if err == nil || !strings.Contains(err.Error(), "opening the journal: "+path+": another process has it open") {
		t.Errorf("got %v", err)
	}
	if err := j.file.Close(); err != nil {
		t.Fatal(err)
	}
	if j, err = openJournal(path); err != nil {
		t.Fatalf("after it was closed: %v", err)
	}
	j.file.Close()
}

// TestJournalOwner: another user's journal is not opened, by root either.
func TestJournalOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, another user's journal: only root can make one")
	}
	path := filepath.Join(t.TempDir(), "events")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	j, err := openJournal(path)
	if err == nil {
		_ = j.file.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "belongs to the user with the ID 65534") {
		t.Errorf("opened: %v", err)
	}
}
