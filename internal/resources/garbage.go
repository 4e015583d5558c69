package resources

import (
	"runtime"
	"runtime/debug"
)

// firstHeap is the heap size, in bytes, at which the garbage collector's first cycle begins in
// a simulation. Go's default is 4 MiB.
const firstHeap = 64 << 20

// CollectLate delays the garbage collector's first cycle until the heap reaches firstHeap.
// After that cycle the previous percentage applies again, so a large log takes no more memory.
// A common log then needs one cycle instead of nine. Without CollectLate, the simulation of the
// KTH log takes 10 % more CPU time and 20 % less memory.
func CollectLate() {
	const defaultHeap = 4 << 20 // bytes, at 100 percent
	before := debug.SetGCPercent(100 * firstHeap / defaultHeap)
	// The first cycle finds the object unused, and the runtime calls the function.
	runtime.AddCleanup(new([64]byte), func(percent int) { debug.SetGCPercent(percent) }, before)
}
