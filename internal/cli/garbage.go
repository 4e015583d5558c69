package cli

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// The garbage collector of a simulation lets so many bytes of garbage pile up however little
// is held, so that a common log is done before it has begun twice; where more is held than
// that, as much as is held, which is Go's default.
const garbage = 64 << 20

// mostGCPercent makes the first cycle, which begins at 4 MiB by default, begin there. What is
// held shows at its end.
const mostGCPercent = 100 * garbage / (4 << 20)

// gcPercent is by how many per cent the heap may grow of which so many bytes are held.
func gcPercent(held uint64) int {
	return int(max(100, min(mostGCPercent, 100*garbage/max(held, 1))))
}

// collectLate sets the collector to that, after each of its cycles anew, until undo.
func collectLate() (undo func()) {
	var mu sync.Mutex
	over := false
	before := debug.SetGCPercent(mostGCPercent)
	var watch func(struct{})
	watch = func(struct{}) {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		debug.SetGCPercent(gcPercent(held()))
		runtime.AddCleanup(new([64]byte), watch, struct{}{}) // called when the next cycle has found it unused
	}
	watch(struct{}{})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
		debug.SetGCPercent(before)
	}
}

// held is how many bytes the last cycle of the collector found in use.
func held() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
