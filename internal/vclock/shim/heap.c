/* Small allocations of zeroed memory.
 *
 * free puts memory into the thread's cache (tcache). Before glibc 2.41, malloc takes memory from
 * this cache, but calloc never does. Slurm allocates with calloc (xmalloc.c), above all in its
 * backfill scheduler.
 *
 * The memory comes from the program's own allocator, because the program's free must accept it: a
 * daemon may be linked with jemalloc, tcmalloc or another allocator. */
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
	__asm__("" : "+r"(p)); /* otherwise the compiler turns the two calls into one call of calloc */
	return p ? memset(p, 0, bytes) : NULL;
}
