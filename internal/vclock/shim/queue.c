/* Queues of threads that wait in their slots for an object of their own process. */
#define _GNU_SOURCE
#include "shim.h"

struct bucket buckets[BUCKETS];
struct bucket semaphores[BUCKETS];

void spin_lock(spin_t *l)
{
	int32_t free = 0;
	spin_locks_held++;
	while (!atomic_compare_exchange_weak(l, &free, 1)) {
		free = 0;
		syscall(SYS_sched_yield);
	}
}

void spin_unlock(spin_t *l)
{
	atomic_store(l, 0);
	spin_locks_held--;
}

/* lock_bucket locks key's bucket and returns it. For the table of semaphores, it also blocks all
 * signals, and stores the thread's signal mask in old. */
struct bucket *lock_bucket(struct bucket *table, const volatile void *key, sigset_t *old)
{
	struct bucket *b = bucket_of(table, key);
	if (table == semaphores) {
		sigset_t all;
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, old);
	}
	spin_lock(&b->lock);
	return b;
}

void unlock_bucket(struct bucket *table, struct bucket *b, const sigset_t *old)
{
	spin_unlock(&b->lock);
	if (table == semaphores)
		pthread_sigmask(SIG_SETMASK, old, NULL);
}

void enqueue(struct bucket *b, struct waiter *w)
{
	struct waiter **tail = &b->head;
	while (*tail)
		tail = &(*tail)->next;
	*tail = w;
	atomic_fetch_add(&b->waiters, 1);
}

/* dequeue returns false if w is no longer in the queue because it was woken. */
__attribute__((noinline)) bool dequeue(struct bucket *b, struct waiter *w)
{
	for (struct waiter **p = &b->head; *p; p = &(*p)->next)
		if (*p == w) {
			*p = w->next;
			atomic_fetch_sub(&b->waiters, 1);
			return true;
		}
	return false;
}

/* wake_waiter wakes a thread that has been taken out of its queue. */
static void wake_waiter(struct waiter *w)
{
	struct rmr_slot *s = w->slot;
	atomic_store(&w->woken, true);
	if (!C || s < C->slot || s >= C->slot + RMR_SLOTS) { /* a slot of slot_or in cond.c */
		atomic_store(&s->state, RMR_RUNNING);
		futex(&s->state, FUTEX_WAKE, 1);
	} else {
		make_ready(s, RMR_SLOT);
	}
}

/* wake_key wakes the first thread that waits for key, or all such threads, and returns their
 * number. */
int wake_key(struct bucket *b, const volatile void *key, bool all)
{
	int n = 0;
	for (struct waiter **p = &b->head; *p;) {
		struct waiter *w = *p;
		if (w->key != key) {
			p = &w->next;
			continue;
		}
		*p = w->next;
		atomic_fetch_sub(&b->waiters, 1);
		wake_waiter(w);
		n++;
		if (!all)
			break;
	}
	return n;
}

/* leave_queue returns false if a wake-up came first. */
bool leave_queue(struct lock_wait *l)
{
	if (atomic_load(&l->waiter.woken))
		return false;
	sigset_t old;
	struct bucket *b = lock_bucket(l->table, l->waiter.key, &old);
	bool was_there = dequeue(b, &l->waiter);
	unlock_bucket(l->table, b, &old);
	return was_there;
}

void cancel_lock_wait(void *arg)
{
	struct lock_wait *l = arg;
	resume(RMR_SLOT);
	if (!leave_queue(l)) /* pass the wake-up on to the next waiter */
		released(l->table, l->waiter.key, false);
}

void wake_lock_waiters(struct bucket *table, const volatile void *object, bool all)
{
	sigset_t old;
	int saved = errno;
	struct bucket *b = lock_bucket(table, object, &old);
	wake_key(b, object, all);
	unlock_bucket(table, b, &old);
	errno = saved;
}

/* wait_for calls try(object) until the result is not EBUSY, and returns this result. It returns
 * ETIMEDOUT at the deadline, and EINTR when a signal has ended the wait. */
int wait_for(struct bucket *table, const volatile void *object, uint32_t why, int (*try)(void *),
	     int64_t deadline, enum ends ends)
{
	for (;;) {
		struct lock_wait l = {table, {.key = object, .slot = me}};
		sigset_t old;
		struct bucket *b = lock_bucket(table, object, &old);
		enqueue(b, &l.waiter);
		/* Try again: from here on an unlock sees this waiter. */
		int r = try((void *)object);
		if (r != EBUSY) {
			dequeue(b, &l.waiter);
			unlock_bucket(table, b, &old);
			return r;
		}
		if (deadline <= now()) {
			dequeue(b, &l.waiter);
			unlock_bucket(table, b, &old);
			return ETIMEDOUT;
		}
		slot_prepare(why, object, deadline);
		unlock_bucket(table, b, &old);
		bool woken = false;
		pthread_cleanup_push(cancel_lock_wait, &l);
		woken = slot_wait(ends);
		pthread_cleanup_pop(0);
		bool gave_up = leave_queue(&l);
		r = try((void *)object);
		if (r != EBUSY)
			return r;
		if (gave_up)
			return woken ? ETIMEDOUT : EINTR;
	}
}
