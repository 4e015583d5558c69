package generate

import (
	"os"
	"path/filepath"
	"testing"

	"rmreplay/internal/formats"
)

// sharedLogs are real logs beside the checkout, if they are there.
const sharedLogs = "../../../../shared/data/swf"

// TestLikeRealLogs draws workloads like real logs and compares them.
func TestLikeRealLogs(t *testing.T) {
	for _, name := range []string{"KTH-SP2-1996-2.1-cln.swf.gz", "SDSC-SP2-1998-4.2-cln.swf.gz"} {
		path := filepath.Join(sharedLogs, name)
		if _, err := os.Stat(path); err != nil {
			t.Skipf("SKIPPED: the log %s is absent, so nothing is drawn after a real log", path)
		}
		model, err := formats.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		w, err := Like(model, LikeOptions{Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		near(t, model, w, 0.05)
	}
}
