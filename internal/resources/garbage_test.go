package resources

import (
	"runtime"
	"testing"
)

var sink []byte

// TestCollectSeldom: fewer of the collector's cycles begin while a program makes garbage.
func TestCollectSeldom(t *testing.T) {
	cycles := func() uint32 {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range spare / 2 / 1000 {
			sink = make([]byte, 1000)
		}
		runtime.ReadMemStats(&after)
		return after.NumGC - before.NumGC
	}
	end := CollectSeldom()
	if n := cycles(); n != 0 {
		t.Errorf("%d cycles, want none", n)
	}
	end()
	if n := cycles(); n < 2 {
		t.Errorf("%d cycles after the end, want several", n)
	}
}
