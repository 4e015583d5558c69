package resources

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"rmreplay/internal/procfs"
)

func TestControlGroups(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("v2/a/pids.max", "300\n")
	write("v2/a/pids.current", "40\n")
	write("v2/a/b/pids.max", "max\n")
	write("v1/pids/c/pids.max", "77\n")
	tests := []struct {
		self, root string
		want       uint64
		ok         bool
	}{
		{"0::/a/b\n", "v2", 260, true}, // an ancestor's limit counts
		{"0::/elsewhere\n", "v2", 0, false},
		{"3:cpu:/c\n5:pids:/c\n", "v1", 77, true},
		{"nonsense", "v2", 0, false},
	}
	for _, tt := range tests {
		self := write("self", tt.self)
		got, ok := controlGroups(self, filepath.Join(root, tt.root), "pids", "pids.max", "pids.current")
		if got != tt.want || ok != tt.ok {
			t.Errorf("controlGroups(%q) = %d, %v; want %d, %v", tt.self, got, ok, tt.want, tt.ok)
		}
	}
}

// TestShortage checks that the reason names the resource that is short, and its amount.
func TestShortage(t *testing.T) {
	full := &os.PathError{Op: "write", Path: filepath.Join(t.TempDir(), "jobs.parquet"), Err: syscall.ENOSPC}
	for _, test := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("writing run record: %w", full), "the file system of " + filepath.Dir(full.Path) + " has "},
		{fmt.Errorf("opening: %w", syscall.EMFILE), "a process may have "},
		{syscall.EFBIG, "a file may have "},
		{syscall.EACCES, ""},
		{errors.New("broken"), ""},
		{syscall.ENOSPC, ""}, // an error without a file
	} {
		if got := Shortage(test.err); !strings.HasPrefix(got, test.want) || got != "" && test.want == "" {
			t.Errorf("%v: %q, want %q", test.err, got, test.want)
		}
	}
}

func TestMachine(t *testing.T) {
	memory, err := Memory()
	if err != nil || memory < 1<<20 {
		t.Errorf("%d bytes of memory, %v", memory, err)
	}
	if n, err := Processes(); err != nil || n == 0 {
		t.Errorf("%d processes, %v", n, err)
	}
	if n := procfs.ThreadsOf(os.Getuid()); n == 0 {
		t.Error("this user has no threads, not even those of this test")
	}
	free, total, err := Room(t.TempDir())
	if err != nil || free > total || total == 0 {
		t.Errorf("%d of %d bytes free, %v", free, total, err)
	}
}
