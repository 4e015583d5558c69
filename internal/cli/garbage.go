package cli

import (
	"runtime"
	"runtime/debug"
)

// firstHeap is the size of the heap in bytes at which the collector's first cycle begins in a
// simulation. Go's default is 4 MiB.
const firstHeap = 64 << 20

// collectLate has the garbage collector's first cycle begin at a heap of firstHeap. After
// that cycle the percentage of before applies again, so that a large log takes no more
// memory. A common log needs one cycle instead of nine: without collectLate the simulation of
// the KTH log takes 10 % more CPU time, and 20 % less memory.
func collectLate() {
	const defaultHeap = 4 << 20 // at 100 per cent
	before := debug.SetGCPercent(100 * firstHeap / defaultHeap)
	// The first cycle finds the object unused and calls the function.
	runtime.AddCleanup(new([64]byte), func(percent int) { debug.SetGCPercent(percent) }, before)
}
