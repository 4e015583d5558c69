/*
 * In a process that pays, computing takes the thread's CPU time times the clock's
 * factor. The thread computes while virtual time stands still, and pays when it is
 * about to do something that others can see, or to look at the clock: it waits in its
 * slot until that much virtual time has gone by. Such a wait is as any other sleep:
 *
 *  - Threads that compute at the same time do so in parallel in virtual time as well,
 *    as on a machine with a core for each, whatever this one has.
 *  - What is due meanwhile, sleepers as well as the driver's own events, is due at its
 *    instant: the clock stops there on its way.
 *  - A thread that computes with a lock held keeps it for that time.
 *
 * Reading a thread's CPU clock is a system call, so it is read only when the time stamp
 * counter says that there can be something to pay for, and where a wait begins and ends:
 * what the wait itself costs is not paid for.
 */
#define _GNU_SOURCE
#include "shim.h"

REAL(int, clock_gettime, clockid_t, struct timespec *)

bool pays;
__thread struct meter meter OF_THREAD;
__thread int spin_locks_held OF_THREAD;

#ifndef __x86_64__
uint64_t ticks_elsewhere(void)
{
	struct timespec ts;
	real(clock_gettime)(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ns_of(&ts) * TICKS_PER_NS;
}
#endif

void read_meter(bool add)
{
	struct timespec ts;
	real(clock_gettime)(CLOCK_THREAD_CPUTIME_ID, &ts);
	int64_t cpu = ns_of(&ts);
	if (add)
		meter.debt += cpu - meter.cpu;
	meter.cpu = cpu;
	meter.from = ticks() - (uint64_t)meter.debt * TICKS_PER_NS;
}

void settle(int64_t least)
{
	if (spin_locks_held || !counted())
		return;
	read_meter(true);
	if (meter.debt < least)
		return;
	double price = (double)meter.debt * atomic_load_explicit(&C->factor, memory_order_relaxed);
	meter.debt = 0;
	if (price < 1)
		return restart_meter();
	atomic_fetch_add(&C->paid, (int64_t)price);
	slot_prepare(RMR_WHY_PAY, NULL, deadline_in((int64_t)price));
	slot_wait(BY_NOTHING);
}
