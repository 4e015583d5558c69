package resources

import "runtime"

// spare is the smallest amount of garbage, in bytes, that a simulation makes before the garbage
// collector's next cycle.
const spare = 128 << 20

// CollectSeldom lets the garbage collector's cycles begin later until the caller calls the function that it returns.
// The live heap of a simulation is small, so without this function the collector would mark it
// again and again. CollectSeldom allocates a block that no code touches. The block takes no
// physical memory, but the collector counts it as live.
func CollectSeldom() (end func()) {
	block := make([]byte, spare)
	return func() { runtime.KeepAlive(block) }
}
