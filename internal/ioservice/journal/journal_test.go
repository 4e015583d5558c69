package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// reopen opens a directory and returns what it holds as one text.
func reopen(t *testing.T, dir string) (*Journal, string) {
	t.Helper()
	j, snapshot, records, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	list := []string{string(snapshot)}
	for _, r := range records {
		list = append(list, string(r))
	}
	return j, strings.Join(list, " ")
}

func write(t *testing.T, j *Journal, records ...string) {
	t.Helper()
	for _, r := range records {
		n, err := j.Write([]byte(r))
		if err == nil {
			err = j.Sync(n)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestRecordsAndSnapshots(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "state")
	j, got := reopen(t, dir)
	if info, err := os.Stat(dir); got != "" || err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("a new directory: %q, %v, %v", got, err, info.Mode())
	}
	for step, want := range []string{" a b", " a b a b", "S0 c a b", "S1 c a b", "S2 c a b"} {
		if step >= 2 {
			if err := j.Snapshot(fmt.Appendf(nil, "S%d", step-2)); err != nil {
				t.Fatal(err)
			}
			write(t, j, "c")
		}
		write(t, j, "a", "b")
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if j, got = reopen(t, dir); got != want {
			t.Errorf("step %d: %q, want %q", step, got, want)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	for i := range names {
		names[i] = filepath.Base(names[i])
	}
	if diff := cmp.Diff([]string{"journal.3", "lock", "snapshot.3"}, names); diff != "" {
		t.Error(diff)
	}
}

// TestTornAtEveryByte: wherever a crash cuts the last record, those before it are kept and new ones
// follow them.
func TestTornAtEveryByte(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	j, _ := reopen(t, dir)
	write(t, j, "first", "second")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "journal.0")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	end := strings.Index(string(text), "\n") + 1
	for cut := end; cut < len(text); cut++ {
		if err := os.WriteFile(path, text[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		j, got := reopen(t, dir)
		write(t, j, "third")
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j, again := reopen(t, dir)
		if got != " first" || again != " first third" {
			t.Errorf("cut at %d: %q, then %q", cut, got, again)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	damaged := []byte(string(text))
	damaged[12] ^= 1
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "record 1: damaged") {
		t.Errorf("a damaged record: %v", err)
	}
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "want 0700") {
		t.Errorf("a public directory: %v", err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := Open(file); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("a file: %v", err)
	}
	private := filepath.Join(dir, "state")
	j, _ := reopen(t, private)
	defer j.Close()
	if _, _, _, err := Open(private); !errors.Is(err, ErrInUse) {
		t.Errorf("a second writer: %v", err)
	}
}

// TestTogether: records of many goroutines are all there, in the order of their numbers.
func TestTogether(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	j, _ := reopen(t, dir)
	var group sync.WaitGroup
	var order sync.Mutex
	numbers := map[uint64]string{}
	for g := range 8 {
		group.Go(func() {
			for i := range 20 {
				order.Lock() // as the service's lock
				text := fmt.Sprintf("%d.%d", g, i)
				n, err := j.Write([]byte(text))
				numbers[n] = text
				order.Unlock()
				if err = errors.Join(err, j.Sync(n)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	want := ""
	for n := range uint64(160) {
		want += " " + numbers[n+1]
	}
	j, got := reopen(t, dir)
	defer j.Close()
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestInterruptedSnapshot: a crash before the new snapshot has its name leaves the old state.
func TestInterruptedSnapshot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	j, _ := reopen(t, dir)
	if err := j.Snapshot([]byte("S")); err != nil {
		t.Fatal(err)
	}
	write(t, j, "a")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"journal.2", "new"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		var got string
		if j, got = reopen(t, dir); got != "S a" {
			t.Errorf("got %q", got)
		}
		if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
			t.Error("half a snapshot is left")
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "snapshot.1"), []byte("00000000 S\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a damaged snapshot: %v", err)
	}
}
