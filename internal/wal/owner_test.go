package wal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOwner checks that a state that belongs to another user is not opened, even by root.
func TestOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, another user's directory: only root can make one")
	}
	dir := filepath.Join(t.TempDir(), "state")
	j, _, _, err := OpenState(dir, "test")
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if j, _, _, err = OpenState(dir, "test"); err == nil || !strings.Contains(err.Error(), "belongs to the user with the ID 65534") {
		t.Errorf("opened: %v", err)
	}
	if err == nil {
		_ = j.Close()
	}
}
