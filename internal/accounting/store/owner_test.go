package store_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
)

// TestOwner: a directory of another user remains unchanged, even if root opens a store there.
func TestOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, another user's directory: only root can make one")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(context.Background(), dir, store.Options{})
	if err == nil {
		_ = s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "belongs to the user with the ID 65534") {
		t.Errorf("opened: %v", err)
	}
	entries, err := os.ReadDir(dir)
	info, statErr := os.Stat(dir)
	if err != nil || statErr != nil || len(entries) > 0 || info.Mode().Perm() != 0o755 {
		t.Errorf("the directory has %v and the mode %v, %v, %v", entries, info.Mode(), err, statErr)
	}
}

// TestNames opens stores in directories whose names have a meaning in SQL. A name that engines take for a glob
// pattern is refused: it could match the files of another store, and not match its own.
func TestNames(t *testing.T) {
	parent := t.TempDir()
	for _, name := range []string{"a?b", "a*b", "a[x]b"} {
		dir := filepath.Join(parent, name)
		s, err := store.Open(t.Context(), dir, options(1000))
		if err == nil {
			_ = s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "pattern") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a directory is left: %v", name, err)
		}
	}
	for _, name := range []string{"a{x,y}b", "it's \"a\" %20;--b", "übung", "a\\b"} {
		s := open(t, filepath.Join(parent, name), options(1000))
		if err := storetest.Fill(t.Context(), s, 1, 30); err != nil {
			t.Fatal(err)
		}
		for range 2 { // first with a fresh part, then with a durable part
			var n int
			err := s.Read(t.Context(), func(v *store.Snapshot) error { return v.Scan("SELECT count(*) FROM jobs", nil, &n) })
			if err != nil || n != 30 {
				t.Errorf("%s: %d jobs: %v", name, n, err)
			}
			if err := s.Seal(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
