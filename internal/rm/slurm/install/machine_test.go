package install

import (
	"strings"
	"testing"
)

// The remedy for the preload library begins with the command that helps in most cases.
func TestPreloadRemedy(t *testing.T) {
	t.Setenv("RMREPLAY_TMPDIR", "")
	if c := checkPreload(); !strings.HasPrefix(c.Fix, "run make build ") || !strings.Contains(c.Fix, "glibc") {
		t.Errorf("remedy %q", c.Fix)
	}
}
