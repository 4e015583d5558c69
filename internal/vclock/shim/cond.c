/* Condition variables. */
#define _GNU_SOURCE
#include "shim.h"

/* The library stores nothing in a pthread_cond_t: the waiters are in the library's queues. So a
 * condition variable needs no extra code when it is initialised statically or freed. */

/* A thread without a slot started before the library or is ending. It waits in a temporary slot
 * that the clock does not see. */
static struct rmr_slot *slot_or(struct rmr_slot *own)
{
	if (counted())
		return me;
	memset(own, 0, sizeof *own);
	atomic_store(&own->deadline, RMR_NEVER);
	return own;
}

EXPORT int pthread_cond_init(pthread_cond_t *c, const pthread_condattr_t *attr)
{
	int shared = PTHREAD_PROCESS_PRIVATE;
	if (attr)
		pthread_condattr_getpshared(attr, &shared);
	if (shared == PTHREAD_PROCESS_SHARED)
		return refuse_shared(__func__);
	memset(c, 0, sizeof *c);
	return 0;
}

EXPORT int pthread_cond_destroy(pthread_cond_t *c)
{
	(void)c;
	return 0;
}

struct cond_wait {
	struct waiter waiter;
	pthread_mutex_t *mutex;
};

/* leave_cond takes w out of its queue. It returns false if w was signalled before. */
static bool leave_cond(struct waiter *w)
{
	if (atomic_load(&w->woken))
		return false;
	struct bucket *b = lock_bucket(buckets, w->key, NULL);
	bool was_there = dequeue(b, w);
	unlock_bucket(buckets, b, NULL);
	return was_there;
}

static void cond_wake(const volatile void *c, bool all)
{
	int saved = errno;
	struct bucket *b = lock_bucket(buckets, c, NULL);
	wake_key(b, c, all);
	unlock_bucket(buckets, b, NULL);
	errno = saved;
}

/* A cancelled wait leaves the queue and takes the mutex again, as POSIX requires. */
static void cancel_cond_wait(void *arg)
{
	struct cond_wait *w = arg;
	if (me)
		resume(RMR_SLOT);
	if (!leave_cond(&w->waiter)) /* pass the signal on to the next waiter */
		cond_wake(w->waiter.key, false);
	pthread_mutex_lock(w->mutex);
}

/* The clock does not end this wait, so the thread reads the time itself. */
static void wait_uncounted(struct rmr_slot *s, int64_t deadline)
{
	static const struct timespec a_while = {0, 1000 * 1000};
	struct timespec ts;
	while (atomic_load(&s->state) == RMR_SLOT) {
		clock_gettime(CLOCK_REALTIME, &ts);
		if (ns_of(&ts) >= deadline)
			return;
		syscall(SYS_futex, &s->state, FUTEX_WAIT, RMR_SLOT,
			deadline == RMR_NEVER ? NULL : &a_while, NULL, 0);
	}
}

static int cond_wait(pthread_cond_t *c, pthread_mutex_t *m, int64_t deadline)
{
	struct rmr_slot own;
	struct rmr_slot *const s = slot_or(&own);
	struct cond_wait w = {{.key = c, .slot = s}, m};

	pthread_testcancel();
	struct bucket *b = lock_bucket(buckets, c, NULL);
	enqueue(b, &w.waiter);
	if (s == me)
		slot_prepare(RMR_WHY_COND, c, deadline);
	else
		atomic_store(&s->state, RMR_SLOT);
	unlock_bucket(buckets, b, NULL);

	pthread_cleanup_push(cancel_cond_wait, &w);
	pthread_mutex_unlock(m);
	if (s == me)
		slot_wait(BY_CANCEL);
	else
		wait_uncounted(s, deadline);
	pthread_cleanup_pop(0);
	bool timed_out = leave_cond(&w.waiter);
	pthread_mutex_lock(m);
	return timed_out ? ETIMEDOUT : 0;
}

EXPORT int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
	charge(AT_CALL);
	return cond_wait(c, m, RMR_NEVER);
}

EXPORT int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m,
				  const struct timespec *until)
{
	charge(AT_CALL);
	if (until->tv_nsec < 0 || until->tv_nsec >= NS_PER_S)
		return EINVAL;
	int64_t deadline = coarse_ceiling(ns_of(until));
	if (C && deadline <= now()) {
		pthread_testcancel();
		/* A caller that polls with short time limits must let other threads take the mutex. */
		pthread_mutex_unlock(m);
		yield_turn();
		pthread_mutex_lock(m);
		return ETIMEDOUT;
	}
	return cond_wait(c, m, deadline);
}

EXPORT int pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
				  const struct timespec *until)
{
	(void)clock; /* every clock shows virtual time */
	return pthread_cond_timedwait(c, m, until);
}

EXPORT int pthread_cond_signal(pthread_cond_t *c)
{
	charge(AT_CALL);
	cond_wake(c, false);
	return 0;
}

EXPORT int pthread_cond_broadcast(pthread_cond_t *c)
{
	charge(AT_CALL);
	cond_wake(c, true);
	return 0;
}
