/* Small allocations of zeroed memory.
 *
 * calloc of glibc before 2.41 never takes memory from the thread's cache (tcache), which free
 * fills. Slurm allocates with calloc (xmalloc.c), most of all its backfill scheduler. */
#define _GNU_SOURCE
#include "shim.h"

/* most is the largest size in bytes that the cache keeps. */
enum { most = 1032 };

extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_malloc(size_t size);

EXPORT void *calloc(size_t n, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(n, size, &bytes) || bytes > most)
		return __libc_calloc(n, size);
	void *p = __libc_malloc(bytes);
	return p ? memset(p, 0, bytes) : NULL;
}
