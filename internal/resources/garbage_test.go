package resources

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// TestCollectLate: only the collector's first cycle is delayed. Afterwards the previous percentage
// applies again.
func TestCollectLate(t *testing.T) {
	percent := func() int {
		p := debug.SetGCPercent(-1)
		debug.SetGCPercent(p)
		return p
	}
	// An earlier test may have simulated in this process. Its cleanup must not come later.
	for range 20 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(77))
	CollectLate()
	deadline := time.Now().Add(10 * time.Second)
	for p := percent(); p != 77; p = percent() {
		if p != 1600 {
			t.Fatalf("%d %%, want 1600 before the first cycle and 77 after it", p)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d %% after many cycles, want 77 as before", p)
		}
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
}
