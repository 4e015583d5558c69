package store_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"rmreplay/internal/accounting/store"
)

// TestOwner: a directory of another user is left as it is, by root too.
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
