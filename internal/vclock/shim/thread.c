/* The start, the end and the joining of threads. */
#define _GNU_SOURCE
#include "shim.h"

#include <dirent.h>
#include <sched.h>

REAL(int, pthread_create, pthread_t *, const pthread_attr_t *, void *(*)(void *), void *)
REAL(int, pthread_join, pthread_t, void **)
REAL(int, pthread_tryjoin_np, pthread_t, void **)
REAL(int, pthread_detach, pthread_t)
REAL(int, pthread_kill, pthread_t, int)
REAL(int, pthread_cancel, pthread_t)
REAL(int, sched_getaffinity, pid_t, size_t, cpu_set_t *)
REAL(ssize_t, read, int, void *, size_t)
REAL(int, close, int)

/* The library's note about a thread: it ended before it was joined, or it was detached before it
 * ended. */
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
_Atomic int32_t threads; /* how many threads of this process have slots */

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

/* forget_ended reports whether something was remembered of t. */
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

/* hand_over wakes the thread that joins this one, or records that this thread has ended. */
static void hand_over(void)
{
	const volatile void *key = thread_key(pthread_self());
	struct bucket *b = lock_bucket(buckets, key, NULL);
	bool no_join = forget_ended(b, pthread_self()) || detached;
	if (!wake_key(b, key, false) && !no_join)
		remember_ended(b, pthread_self(), false);
	unlock_bucket(buckets, b, NULL);
}

/* others_have_gone reports whether the kernel has ended all other threads of the process: they no
 * longer exist or, like the first thread until the process ends, are in state Z. */
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

/* thread_exit is the destructor of exit_key: it runs after return, pthread_exit and cancellation.
 * It postpones itself to the last round of destructors: the program's own destructors then still
 * run in a managed thread. */
void thread_exit(void *arg)
{
	struct rmr_slot *s = arg;
	if (++exit_rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
		pthread_setspecific(exit_key, s);
		return;
	}
	charge(AT_CLOCK);
	hand_over();
	int32_t others = atomic_fetch_sub(&threads, 1) - 1;
	/* The program does not know the thread that keeps the timers: apart from it, this is the last
	 * thread. */
	if (others == 1 && keeps_timers())
		exit(0);
	/* The C library ends the process in its last thread. That thread runs the exit handlers, so it
	 * keeps its slot. The C library counts the threads itself, a moment later. So this thread waits
	 * until it is the last thread in the C library's count, too. */
	if (others == 0) {
		static const struct timespec moment = {0, 100 * 1000};
		for (int i = 0; i < 1000 && !others_have_gone(); i++)
			syscall(SYS_nanosleep, &moment, NULL);
		return;
	}
	me = NULL; /* first: once the slot is free, its wake-ups concern another thread */
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
	await_turn();
	skip_cpu_time();
	return st.run(st.arg);
}

int start_thread(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *), void *arg,
		 struct rmr_slot **its_slot)
{
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
	} else if (its_slot) {
		*its_slot = slot;
	}
	return r;
}

EXPORT int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	charge(AT_CALL);
	return me ? start_thread(t, attr, run, arg, NULL) : real(pthread_create)(t, attr, run, arg);
}

/* A thread may repeat a cancelled join. If the other thread has already handed over, the library
 * keeps its end for the next join. */
static void cancel_join(void *arg)
{
	struct lock_wait *l = arg;
	resume(RMR_SLOT);
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
	charge(AT_CALL);
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
		/* Either the thread's end is stored already, or the thread will find that it was
		 * detached. */
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

EXPORT int sched_yield(void)
{
	charge(AT_CALL);
	if (counted())
		yield_turn();
	else
		syscall(SYS_sched_yield);
	return 0;
}

/* The CPUs that a program sees must not depend on the CPU that the clock has chosen (go_home in
 * clock.c). conmgr of Slurm 25.05 and newer derives its number of threads from the number of CPUs
 * (workers.c). */
EXPORT int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	int r = real(sched_getaffinity)(pid, size, set);
	bool ours = pid == 0 || pid == getpid() || pid == gettid_now();
	uint64_t any = 0;
	for (size_t i = 0; C && i < sizeof C->cpus / sizeof *C->cpus; i++)
		any |= C->cpus[i];
	if (r == 0 && ours && any) {
		memset(set, 0, size);
		memcpy(set, C->cpus, size < sizeof C->cpus ? size : sizeof C->cpus);
	}
	return r;
}
