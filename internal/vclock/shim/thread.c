/* The start, the end and the joining of threads. */
#define _GNU_SOURCE
#include "shim.h"

#include <dirent.h>

REAL(int, pthread_create, pthread_t *, const pthread_attr_t *, void *(*)(void *), void *)
REAL(int, pthread_join, pthread_t, void **)
REAL(int, pthread_tryjoin_np, pthread_t, void **)
REAL(int, pthread_detach, pthread_t)
REAL(int, pthread_kill, pthread_t, int)
REAL(int, pthread_cancel, pthread_t)
REAL(ssize_t, read, int, void *, size_t)
REAL(int, close, int)

/* What is remembered of a thread: that it ended before anybody joined it, or that it
 * was detached before it ended. */
struct ended {
	struct ended *next;
	pthread_t thread;
	bool detached;
};

struct start {
	void *(*run)(void *);
	void *arg;
	struct rmr_slot *slot;
	bool detached;
};

__thread bool detached OF_THREAD;
static __thread int exit_rounds OF_THREAD;
_Atomic int32_t threads; /* of this process that have slots */

static const volatile void *thread_key(pthread_t t)
{
	return (const volatile void *)t;
}

static struct ended **find_ended(struct bucket *b, pthread_t t)
{
	struct ended **p = &b->ended;
	while (*p && (*p)->thread != t)
		p = &(*p)->next;
	return p;
}

/* forget_ended returns whether something was remembered of t. */
static bool forget_ended(struct bucket *b, pthread_t t)
{
	struct ended **p = find_ended(b, t), *e = *p;
	if (!e)
		return false;
	*p = e->next;
	free(e);
	return true;
}

static void remember_ended(struct bucket *b, pthread_t t, bool is_detached)
{
	struct ended *e = malloc(sizeof *e);
	if (!e)
		return;
	*e = (struct ended){b->ended, t, is_detached};
	b->ended = e;
}

/* hand_over wakes the thread that joins this one, or leaves word for it. */
static void hand_over(void)
{
	const volatile void *key = thread_key(pthread_self());
	struct bucket *b = lock_bucket(buckets, key, NULL);
	bool nobody_will = forget_ended(b, pthread_self()) || detached;
	if (!wake_key(b, key, false) && !nobody_will)
		remember_ended(b, pthread_self(), false);
	unlock_bucket(buckets, b, NULL);
}

/* others_have_gone reports whether all other threads of the process have ended for the
 * kernel: in state Z, as the first thread is until the process ends, or gone. */
static bool others_have_gone(void)
{
	char path[64], line[128];
	bool gone = true;
	struct dirent *e;
	DIR *dir = opendir("/proc/self/task");
	while (dir && gone && (e = readdir(dir))) {
		if (e->d_name[0] == '.' || atoi(e->d_name) == gettid_now())
			continue;
		snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", e->d_name);
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		ssize_t n = real(read)(fd, line, sizeof line - 1);
		real(close)(fd);
		line[n > 0 ? n : 0] = 0;
		const char *name_end = strrchr(line, ')');
		gone = !name_end || strncmp(name_end, ") Z", 3) == 0 || strncmp(name_end, ") X", 3) == 0;
	}
	if (dir)
		closedir(dir);
	return gone;
}

/* thread_exit runs as a thread-specific destructor: after return, pthread_exit and
 * cancellation alike. It puts itself off to the last round of destructors, so that
 * the program's own still run in a managed thread. */
void thread_exit(void *arg)
{
	struct rmr_slot *s = arg;
	if (++exit_rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
		pthread_setspecific(exit_key, s);
		return;
	}
	pay(AT_CLOCK);
	hand_over();
	/* The C library ends the process in its last thread, which runs the exit handlers and
	 * so keeps its slot. It counts for itself, a moment after this: those that were not
	 * the last here must not be so there. */
	if (atomic_fetch_sub(&threads, 1) == 1) {
		static const struct timespec moment = {0, 100 * 1000};
		for (int i = 0; i < 1000 && !others_have_gone(); i++)
			syscall(SYS_nanosleep, &moment, NULL);
		return;
	}
	me = NULL; /* before the slot is free for others, whose wake-ups are not ours */
	if (disown(s, getpid()))
		free_slot(s);
}

static void *thread_main(void *arg)
{
	struct start st = *(struct start *)arg;
	free(arg);
	me = st.slot;
	detached = st.detached;
	atomic_store(&me->tid, gettid_now());
	pthread_setspecific(exit_key, me);
	restart_meter();
	return st.run(st.arg);
}

EXPORT int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	pay(AT_CALL);
	if (!me)
		return real(pthread_create)(t, attr, run, arg);
	struct start *st = malloc(sizeof *st);
	if (!st)
		return EAGAIN;
	int state = PTHREAD_CREATE_JOINABLE;
	if (attr)
		pthread_attr_getdetachstate(attr, &state);
	*st = (struct start){run, arg, new_slot(getpid(), 0), state == PTHREAD_CREATE_DETACHED};
	struct rmr_slot *slot = st->slot;
	atomic_fetch_add(&threads, 1);
	int r = real(pthread_create)(t, attr, thread_main, st);
	if (r) {
		atomic_fetch_sub(&threads, 1);
		if (disown(slot, getpid()))
			free_slot(slot);
		free(st);
	}
	return r;
}

/* A join that is cancelled can be made again: if the thread has handed over already,
 * word is left for that. */
static void cancel_join(void *arg)
{
	struct lock_wait *l = arg;
	mark_running(me, RMR_SLOT);
	if (leave_queue(l))
		return;
	struct bucket *b = lock_bucket(buckets, l->waiter.key, NULL);
	remember_ended(b, (pthread_t)l->waiter.key, false);
	unlock_bucket(buckets, b, NULL);
}

/* await_end waits in the slot until thread t has handed over. */
static void await_end(pthread_t t)
{
	const volatile void *key = thread_key(t);
	struct lock_wait l = {buckets, {.key = key, .slot = me}};
	pthread_testcancel();
	struct bucket *b = lock_bucket(buckets, key, NULL);
	if (forget_ended(b, t)) {
		unlock_bucket(buckets, b, NULL);
		return;
	}
	enqueue(b, &l.waiter);
	slot_prepare(RMR_WHY_JOIN, key, RMR_NEVER);
	unlock_bucket(buckets, b, NULL);
	pthread_cleanup_push(cancel_join, &l);
	slot_wait(BY_CANCEL);
	pthread_cleanup_pop(0);
}

EXPORT int pthread_join(pthread_t t, void **result)
{
	pay(AT_CALL);
	if (counted() && t != pthread_self())
		await_end(t);
	return real(pthread_join)(t, result);
}

static void forget_thread(pthread_t t)
{
	struct bucket *b = lock_bucket(buckets, thread_key(t), NULL);
	forget_ended(b, t);
	unlock_bucket(buckets, b, NULL);
}

EXPORT int pthread_tryjoin_np(pthread_t t, void **result)
{
	int r = real(pthread_tryjoin_np)(t, result);
	if (C && r == 0)
		forget_thread(t);
	return r;
}

EXPORT int pthread_detach(pthread_t t)
{
	if (C && t == pthread_self()) {
		detached = true;
	} else if (C) {
		/* Either it has left word, or it finds ours. */
		struct bucket *b = lock_bucket(buckets, thread_key(t), NULL);
		if (!forget_ended(b, t))
			remember_ended(b, t, true);
		unlock_bucket(buckets, b, NULL);
	}
	return real(pthread_detach)(t);
}

EXPORT int pthread_kill(pthread_t t, int sig)
{
	touch_signal();
	return real(pthread_kill)(t, sig);
}

EXPORT int pthread_cancel(pthread_t t)
{
	touch_signal(); /* glibc sends one */
	return real(pthread_cancel)(t);
}
