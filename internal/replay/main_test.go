package replay_test

import (
	"os"
	"testing"

	"rmreplay/internal/supervise"
)

// TestMain lets the test program be the guard, the parent of the daemons.
func TestMain(m *testing.M) {
	supervise.RunIfGuard()
	os.Exit(m.Run())
}
