package slurm

import (
	"os"
	"testing"

	"rmreplay/internal/supervise"
)

func TestMain(m *testing.M) {
	supervise.RunIfGuard()
	os.Exit(m.Run())
}
