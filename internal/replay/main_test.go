package replay_test

import (
	"os"
	"testing"

	"rmreplay/internal/supervise"
)

// TestMain makes the test program the guard, the parent of the daemons, if it is started as one.
func TestMain(m *testing.M) {
	supervise.RunIfGuard()
	os.Exit(m.Run())
}
