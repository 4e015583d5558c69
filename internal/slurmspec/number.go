package slurmspec

// Slurm's markers for "not set" and "no limit" in numbers of each width (slurm.h).
const (
	NoVal8     = uint8(0xfe)
	NoVal16    = uint16(0xfffe)
	NoVal      = uint32(0xfffffffe)
	NoVal64    = uint64(0xfffffffffffffffe)
	Infinite16 = uint16(0xffff)
	Infinite   = uint32(0xffffffff)
)

// MemPerCPU marks an amount of memory that is for each CPU, not for each node
// (MEM_PER_CPU in slurm.h).
const MemPerCPU = uint64(1) << 63
