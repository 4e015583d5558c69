/* Memory. */
#define _GNU_SOURCE
#include "shim.h"

/* The calloc of glibc 2.36 does not take small blocks from the thread's cache, its malloc
 * does (malloc/malloc.c). Slurm allocates everything by calloc: with this, slurmctld
 * used about a sixth less CPU time for a workload of 500 jobs. */
#define CACHED_BLOCK 1032

extern void *__libc_calloc(size_t n, size_t size);

EXPORT void *calloc(size_t n, size_t size)
{
	size_t total;
	if (__builtin_mul_overflow(n, size, &total) || total > CACHED_BLOCK)
		return __libc_calloc(n, size);
	void *p = malloc(total);
	__asm__("" : "+r"(p)); /* or the compiler makes one call of the two: calloc */
	if (p)
		memset(p, 0, total);
	return p;
}
