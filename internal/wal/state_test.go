package wal

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

// reopen opens a directory and returns its contents as one text.
func reopen(t *testing.T, dir string) (*State, string) {
	t.Helper()
	j, snapshot, records, err := OpenState(dir, "test")
	if err != nil {
		t.Fatal(err)
	}
	list := []string{string(snapshot)}
	for _, r := range records {
		list = append(list, string(r))
	}
	return j, strings.Join(list, " ")
}

func write(t *testing.T, j *State, records ...string) {
	t.Helper()
	for _, r := range records {
		if err := j.Append([]byte(r)); err != nil {
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
	if diff := cmp.Diff([]string{"0000000000000000008.segment", "0000000000000000011.segment", "lock", "snapshot"}, names); diff != "" {
		t.Error(diff)
	}
}

// TestTornAtEveryByte checks that wherever a crash cuts the last record, the records before it are
// kept, and new records follow them.
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
	path := filepath.Join(dir, "0000000000000000001.segment")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	end := headerBytes + prefix + len("first")
	for cut := end; cut < len(text); cut++ {
		if err := os.WriteFile(path, text[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		j, got := reopen(t, dir)
		if torn := j.Torn(); cut > end && (len(torn) != 1 || torn[0].Bytes != int64(cut-end)) {
			t.Errorf("cut at %d: moved away %v", cut, torn)
		}
		write(t, j, "third")
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j, again := reopen(t, dir)
		if got != " first" || again != " first third" {
			t.Errorf("cut at %d: %q, then %q", cut, got, again)
		}
		if err := errors.Join(j.Snapshot(nil), j.Close()); err != nil {
			t.Fatal(err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*.torn")); len(left) > 0 {
			t.Errorf("after a snapshot: %q", left)
		}
		for _, name := range append([]string{filepath.Join(dir, "snapshot")}, segments(t, dir)...) {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	damaged := []byte(string(text))
	damaged[headerBytes+prefix] ^= 1
	for range 2 { // opening does not change it
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := OpenState(dir, "test"); err == nil || !strings.Contains(err.Error(), "record 1: damaged") {
			t.Errorf("a damaged record: %v", err)
		}
	}
}

func segments(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.segment"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := OpenState(dir, "test"); err == nil || !strings.Contains(err.Error(), "want 0700") {
		t.Errorf("a public directory: %v", err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := OpenState(file, "test"); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("a file: %v", err)
	}
	old := t.TempDir()
	err := errors.Join(os.Chmod(old, 0o700), os.WriteFile(filepath.Join(old, "journal.0"), nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := OpenState(old, "test"); err == nil || !strings.Contains(err.Error(), "journal.0, and this one cannot read it") {
		t.Errorf("an earlier version: %v", err)
	}
	private := filepath.Join(dir, "state")
	j, _ := reopen(t, private)
	if _, _, _, err := OpenState(private, "test"); !errors.Is(err, ErrInUse) {
		t.Errorf("a second writer: %v", err)
	}
	write(t, j, "record")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, _, err = OpenState(private, "other")
	if err == nil || !strings.Contains(err.Error(), `begins with "rmreplay test journal 1" (want "rmreplay other journal 1")`) {
		t.Errorf("another kind: %v", err)
	}
}

// TestTogether checks that records of many goroutines are all there, in the order of their numbers.
func TestTogether(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	j, _ := reopen(t, dir)
	var group sync.WaitGroup
	var order sync.Mutex
	var wrote []string
	for g := range 8 {
		group.Go(func() {
			for i := range 20 {
				order.Lock() // stands for the lock of the service
				text := fmt.Sprintf("%d.%d", g, i)
				wait, err := j.Begin([]byte(text))
				wrote = append(wrote, text)
				order.Unlock()
				if err == nil {
					err = wait()
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	want := " " + strings.Join(wrote, " ")
	j, got := reopen(t, dir)
	defer j.Close()
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestInterruptedSnapshot checks that a crash before the new snapshot has its name leaves the old
// state.
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
	if err := os.WriteFile(filepath.Join(dir, "snapshot.new"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var got string
		if j, got = reopen(t, dir); got != "S a" {
			t.Errorf("got %q", got)
		}
		if _, err := os.Stat(filepath.Join(dir, "snapshot.new")); err == nil {
			t.Error("half a snapshot is left")
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)-1] ^= 1
	if err := os.WriteFile(filepath.Join(dir, "snapshot"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := OpenState(dir, "test"); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a damaged snapshot: %v", err)
	}
}

// TestStateFails checks that after a record that could not be written no record follows, until the
// whole state was saved. A rest of the failed write that could not be removed is removed before the
// next record.
func TestStateFails(t *testing.T) {
	for _, uncut := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "state")
		j, _ := reopen(t, dir)
		d := &disk{}
		j.log.opts.create = d.create
		write(t, j, "a")
		d.fail(true, uncut)
		var waits []func() error
		for _, text := range []string{"b", "c"} {
			wait, err := j.Begin([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			waits = append(waits, wait)
		}
		for _, wait := range waits {
			if err := wait(); !errors.Is(err, errDisk) {
				t.Errorf("not written: %v", err)
			}
		}
		d.fail(false, uncut)
		if _, err := j.Begin([]byte("d")); !errors.Is(err, errDisk) || !strings.Contains(err.Error(), "until the whole state is saved") {
			t.Errorf("after it: %v", err)
		}
		if err := j.Snapshot([]byte("S")); err != nil {
			t.Fatal(err)
		}
		if uncut {
			if err := j.Append([]byte("d")); !errors.Is(err, errDisk) || !strings.Contains(err.Error(), "removing the bytes of an earlier failed write") {
				t.Errorf("behind what is left: %v", err)
			}
			d.fail(false, false)
		}
		write(t, j, "d")
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j, got := reopen(t, dir)
		if got != "S d" {
			t.Errorf("got %q", got)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
