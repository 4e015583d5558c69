package resources

import "runtime"

// spare is how much garbage, in bytes, a simulation makes at least before the garbage collector's next cycle.
const spare = 128 << 20

// CollectSeldom lets the garbage collector's cycles begin later until the caller calls the function that it returns.
// The live heap of a simulation is small, so without this function it is marked again and again. The collector
// counts a block of memory that nobody touches, and that therefore takes no memory, as live.
func CollectSeldom() (end func()) {
	block := make([]byte, spare)
	return func() { runtime.KeepAlive(block) }
}
