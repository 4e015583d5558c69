/* Small allocations of zeroed memory.
 *
 * Before glibc 2.41, malloc takes memory from the thread's cache (tcache), which free fills, but
 * calloc never does. Slurm allocates with calloc (xmalloc.c), most of all its backfill scheduler.
 *
 * The memory comes from the program's own allocator, so that the program's free gets it back: a
 * daemon may be linked with jemalloc, tcmalloc or another one in place of glibc's. */
#define _GNU_SOURCE
#include "shim.h"

REAL(void *, calloc, size_t, size_t)

/* most is the largest size in bytes that the cache keeps. */
enum { most = 1032 };

EXPORT void *calloc(size_t n, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(n, size, &bytes) || bytes > most)
		return real(calloc)(n, size);
	void *p = malloc(bytes);
	__asm__("" : "+r"(p)); /* otherwise the compiler makes the two calls one call of calloc */
	return p ? memset(p, 0, bytes) : NULL;
}
