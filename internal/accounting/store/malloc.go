package store

// #include <malloc.h>
import "C"

import "runtime"

// The database allocates with the C library. glibc keeps what was freed between smaller allocations, in up to eight
// arenas for each processor (mallopt(3): M_ARENA_MAX), so the process would hold hundreds of MiB more than the
// database counts. Mapping each of its blocks on its own (M_MMAP_THRESHOLD) holds less, but the slowest panel of a
// million jobs took 24 ms then.

func init() { C.mallopt(C.M_ARENA_MAX, C.int(runtime.NumCPU())) }

// releaseRows is how many rows a transaction changes before [release] is worth its time.
const releaseRows = RowGroup / 2

// release gives freed memory back to the operating system (malloc_trim(3)).
func release() { C.malloc_trim(0) }
