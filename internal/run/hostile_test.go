package run

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestStrangeFiles checks that reading a foreign record whose files are pipes or devices neither
// hangs nor fills the memory.
func TestStrangeFiles(t *testing.T) {
	manifest := `{"format":1,"state":"running"}`
	for name, fill := range map[string]func(dir string) error{
		"manifest.json: a device":     func(dir string) error { return os.Symlink("/dev/zero", filepath.Join(dir, manifestFile)) },
		"manifest.json: a named pipe": func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, manifestFile), 0o600) },
		journalFile + ": a named pipe": func(dir string) error {
			if err := os.WriteFile(filepath.Join(dir, manifestFile), []byte(manifest), 0o600); err != nil {
				return err
			}
			return syscall.Mkfifo(filepath.Join(dir, journalFile), 0o600)
		},
	} {
		dir := t.TempDir()
		if err := fill(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), name+" (want a regular file)") {
			t.Errorf("%s: %v", name, err)
		}
		if err := Overwritable(dir); strings.HasPrefix(name, "manifest") && err == nil {
			t.Errorf("%s: would be overwritten", name)
		}
	}
}
