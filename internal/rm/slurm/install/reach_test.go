package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Root's daemons run as another user. A directory is refused if others may not search a directory
// above it, and the error names the directory above.
func TestScratchDirIsSearchable(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root's daemons run as another user")
	}
	private := filepath.Join(t.TempDir(), "private")
	below := filepath.Join(private, "below")
	if err := os.MkdirAll(below, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(private, 0o700); err != nil {
		t.Fatal(err)
	}
	_, _, err := scratchDir([]string{below})
	if err == nil || !strings.Contains(err.Error(), private+" has mode 0700 (want 0711 or more)") {
		t.Errorf("error %v", err)
	}
	if dir, _, err := scratchDir([]string{below, "/dev/shm"}); err != nil || dir != "/dev/shm" {
		t.Errorf("scratchDir gives %q, %v (want the next candidate)", dir, err)
	}
}
