/*
 * CPU time that takes virtual time, in processes that are charged for it.
 *
 * Computing takes the thread's CPU time times the clock's factor. A thread computes while virtual
 * time stands still. It is charged before it does something that other threads can see, and before
 * it reads the clock: it then waits in its slot for that much virtual time. To the clock, this
 * wait is an ordinary sleep:
 *
 *  - Threads that compute at the same time do so in parallel in virtual time, too. This
 *    corresponds to a machine with a core for each thread.
 *  - Sleepers and the driver's events that fall due meanwhile keep their instants, because the
 *    clock stops at each of them.
 *  - A thread that computes while it holds a lock holds the lock for that virtual time.
 *
 * Reading a thread's CPU clock is a system call. The library makes it only where the time stamp
 * counter shows that a charge may be due, and where a wait begins and ends: the wait itself is not
 * charged.
 */
#define _GNU_SOURCE
#include "shim.h"

REAL(int, clock_gettime, clockid_t, struct timespec *)

bool charged;
__thread struct cpu_use cpu_use OF_THREAD;
__thread int spin_locks_held OF_THREAD;

#ifndef __x86_64__
uint64_t ticks_elsewhere(void)
{
	struct timespec ts;
	real(clock_gettime)(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ns_of(&ts) * TICKS_PER_NS;
}
#endif

void read_cpu_time(bool add)
{
	struct timespec ts;
	real(clock_gettime)(CLOCK_THREAD_CPUTIME_ID, &ts);
	int64_t cpu = ns_of(&ts);
	if (add)
		cpu_use.uncharged += cpu - cpu_use.read;
	else
		cpu_use.has_asked = false;
	cpu_use.read = cpu;
	cpu_use.since = ticks() - (uint64_t)cpu_use.uncharged * TICKS_PER_NS;
}

void charge_all(int64_t least)
{
	/* No thread pays while it holds a lock of the library. The waiters for that lock count as
	 * running, so virtual time would stand still for ever. */
	if (spin_locks_held || !counted())
		return;
	read_cpu_time(true);
	if (cpu_use.uncharged < (cpu_use.has_asked ? AFTER_ASKING : least))
		return;
	double factor = atomic_load_explicit(&C->factor, memory_order_relaxed);
	double virtual_ns = (double)cpu_use.uncharged * factor;
	cpu_use.uncharged = 0;
	if (virtual_ns < 1)
		return skip_cpu_time();
	atomic_fetch_add(&C->charged, (int64_t)virtual_ns);
	slot_prepare(RMR_WHY_CHARGE, NULL, deadline_in((int64_t)virtual_ns));
	slot_wait(BY_NOTHING);
}
