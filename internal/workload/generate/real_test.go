package generate

import (
	"testing"

	"rmreplay/internal/formats"
	"rmreplay/internal/realdata"
)

// TestLikeRealLogs draws workloads like real logs and compares them.
func TestLikeRealLogs(t *testing.T) {
	for _, name := range []string{"KTH-SP2-1996-2.1-cln.swf.gz", "SDSC-SP2-1998-4.2-cln.swf.gz"} {
		model, err := formats.Open(realdata.Path(t, "swf", name))
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
