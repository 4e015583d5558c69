package store

// #include <malloc.h>
import "C"

// mapped is the size from which the C library maps each allocation on its own, in bytes, and so gives it back when
// it is freed. The database's blocks have 256 KiB. Otherwise glibc raises the size as blocks are freed (malloc(3),
// mallopt(3): M_MMAP_THRESHOLD), and freed blocks stay between smaller allocations: the process then holds up to
// twice what the database counts.
const mapped = 128 << 10

func init() { C.mallopt(C.M_MMAP_THRESHOLD, mapped) }
