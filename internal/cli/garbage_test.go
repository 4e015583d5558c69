package cli

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestGCPercent(t *testing.T) {
	for _, c := range []struct {
		held uint64
		want int
	}{{0, 1600}, {1 << 20, 1600}, {16 << 20, 400}, {64 << 20, 100}, {1 << 40, 100}} {
		if got := gcPercent(c.held); got != c.want {
			t.Errorf("%d bytes held: %d %%, want %d", c.held, got, c.want)
		}
	}
}

// The collector follows what is held, and is as before in the end.
func TestCollectLate(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(77))
	undo := collectLate()
	kept := make([]byte, 32<<20)
	percent := func() int {
		p := debug.SetGCPercent(1)
		debug.SetGCPercent(p)
		return p
	}
	deadline := time.Now().Add(10 * time.Second)
	for p := percent(); p > 200; p = percent() {
		if time.Now().After(deadline) {
			t.Fatalf("%d %% while 32 MiB are held", p)
		}
		runtime.GC()
	}
	runtime.KeepAlive(kept)
	undo()
	runtime.GC()
	if got := percent(); got != 77 {
		t.Errorf("%d %% in the end, want 77 as before", got)
	}
}
