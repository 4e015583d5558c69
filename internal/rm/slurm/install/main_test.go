package install

import (
	"os"
	"testing"

	"rmreplay/internal/supervise"
)

func TestMain(m *testing.M) {
	supervise.RunIfGuard() // the check of the network starts a guard from this very binary
	os.Exit(m.Run())
}
