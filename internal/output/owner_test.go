package output

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOwned(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Owned(dir); err != nil {
		t.Error(err)
	}
	if err := Owned(filepath.Join(dir, "missing")); err != nil {
		t.Error(err)
	}
	if err := Owned(file); err != nil {
		t.Error(err)
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, another user's directory: only root can make one")
	}
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	err := Owned(dir)
	if err == nil || !strings.Contains(err.Error(), "the ID 65534") || !strings.Contains(err.Error(), "chown -R 0 "+dir) {
		t.Errorf("another user's directory: %v", err)
	}
}
