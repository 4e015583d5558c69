/*
 * The preload library that puts a process under virtual time.
 *
 * Every thread of a managed process owns a slot in shared memory (abi.h) and is
 * running, waiting in its slot, or waiting in the kernel. `busy` counts those that
 * run. Virtual time stands still while busy > 0; the thread that takes it to 0
 * moves the clock to the next deadline in place, or, where that takes a look at
 * what the kernel holds, wakes the driver, which looks.
 *
 * Two rules keep the count exact:
 *
 *  - Who wakes a thread that waits in its slot counts it as running first. So a
 *    wake-up is never in flight while busy says that nobody runs. For this the
 *    library has its own wait queues for condition variables, locks and joins.
 *  - What can wake a thread that waits in the kernel (a write, a connection, a
 *    signal, an exit) bumps `epoch` first. While epoch equals `verified`, every
 *    kernel wait is known to be asleep with nothing on its way to it.
 *
 * A wait for a peer outside (a database, a name service) counts as running: its
 * answer takes real time, not virtual time.
 *
 * Where computing is to take virtual time, a thread computes first and then waits in
 * its slot for as long as that is to have taken: see pay.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "abi.h"

#define EXPORT __attribute__((visibility("default")))
#define NS_PER_S 1000000000LL

static struct rmr_clock *C; /* NULL in a process that is not managed */
static __thread struct rmr_slot *me __attribute__((tls_model("initial-exec")));
static pthread_key_t exit_key; /* its destructor runs when a thread ends, however it ends */
static int wake_signal;        /* gets a thread out of a timed wait in the kernel */

/* ------------------------------------------------------------ real functions */

#define REAL(ret, name, ...) \
	static ret (*real_##name##_p)(__VA_ARGS__); \
	__attribute__((noinline)) static void load_##name(void) { \
		*(void **)&real_##name##_p = dlsym(RTLD_NEXT, #name); \
		if (!real_##name##_p) _exit(127); \
	} \
	__attribute__((used, section("rmr_loaders"))) static void (*loader_##name)(void) = load_##name;
#define real(name) (*({ if (__builtin_expect(!real_##name##_p, 0)) load_##name(); real_##name##_p; }))

/* All of them are looked up at the start, since dlsym is nothing for a signal handler
 * or for the child of a threaded process; the check in real() is for constructors of
 * other libraries, which may run before ours. */
extern void (*__start_rmr_loaders[])(void) __attribute__((visibility("hidden")));
extern void (*__stop_rmr_loaders[])(void) __attribute__((visibility("hidden")));

REAL(int, clock_gettime, clockid_t, struct timespec *)
REAL(int, clock_nanosleep, clockid_t, int, const struct timespec *, struct timespec *)
REAL(int, nanosleep, const struct timespec *, struct timespec *)
REAL(int, pthread_mutex_lock, pthread_mutex_t *)
REAL(int, pthread_mutex_trylock, pthread_mutex_t *)
REAL(int, pthread_mutex_timedlock, pthread_mutex_t *, const struct timespec *)
REAL(int, pthread_mutex_unlock, pthread_mutex_t *)
REAL(int, pthread_rwlock_rdlock, pthread_rwlock_t *)
REAL(int, pthread_rwlock_wrlock, pthread_rwlock_t *)
REAL(int, pthread_rwlock_tryrdlock, pthread_rwlock_t *)
REAL(int, pthread_rwlock_trywrlock, pthread_rwlock_t *)
REAL(int, pthread_rwlock_unlock, pthread_rwlock_t *)
REAL(int, pthread_create, pthread_t *, const pthread_attr_t *, void *(*)(void *), void *)
REAL(int, pthread_join, pthread_t, void **)
REAL(int, pthread_tryjoin_np, pthread_t, void **)
REAL(int, pthread_detach, pthread_t)
REAL(int, pthread_kill, pthread_t, int)
REAL(int, pthread_cancel, pthread_t)
REAL(int, sem_wait, sem_t *)
REAL(int, sem_trywait, sem_t *)
REAL(int, sem_timedwait, sem_t *, const struct timespec *)
REAL(int, sem_post, sem_t *)
REAL(int, sigwait, const sigset_t *, int *)
REAL(int, sigtimedwait, const sigset_t *, siginfo_t *, const struct timespec *)
REAL(int, sigsuspend, const sigset_t *)
REAL(int, pause, void)
REAL(int, kill, pid_t, int)
REAL(int, killpg, pid_t, int)
REAL(int, sigqueue, pid_t, int, const union sigval)
REAL(int, ppoll, struct pollfd *, nfds_t, const struct timespec *, const sigset_t *)
REAL(int, pselect, int, fd_set *, fd_set *, fd_set *, const struct timespec *, const sigset_t *)
REAL(int, epoll_pwait, int, struct epoll_event *, int, int, const sigset_t *)
REAL(int, accept4, int, struct sockaddr *, socklen_t *, int)
REAL(int, connect, int, const struct sockaddr *, socklen_t)
REAL(int, listen, int, int)
REAL(int, shutdown, int, int)
REAL(int, close, int)
REAL(int, dup2, int, int)
REAL(int, dup3, int, int, int)
REAL(ssize_t, read, int, void *, size_t)
REAL(ssize_t, recv, int, void *, size_t, int)
REAL(ssize_t, recvfrom, int, void *, size_t, int, struct sockaddr *, socklen_t *)
REAL(ssize_t, recvmsg, int, struct msghdr *, int)
REAL(ssize_t, write, int, const void *, size_t)
REAL(ssize_t, writev, int, const struct iovec *, int)
REAL(ssize_t, send, int, const void *, size_t, int)
REAL(ssize_t, sendto, int, const void *, size_t, int, const struct sockaddr *, socklen_t)
REAL(ssize_t, sendmsg, int, const struct msghdr *, int)
REAL(pid_t, fork, void)
REAL(int, execve, const char *, char *const *, char *const *)
REAL(int, execvpe, const char *, char *const *, char *const *)
REAL(int, posix_spawn, pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const *, char *const *)
REAL(int, posix_spawnp, pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const *, char *const *)
REAL(pid_t, wait4, pid_t, int *, int, struct rusage *)
REAL(int, waitid, idtype_t, id_t, siginfo_t *, int)
REAL(void, _exit, int)

static long futex(_Atomic uint32_t *word, int op, uint32_t v)
{
	return syscall(SYS_futex, word, op, v, NULL, NULL, 0);
}

static pid_t gettid_now(void)
{
	return (pid_t)syscall(SYS_gettid);
}

static int64_t ns_of(const struct timespec *ts)
{
	if (ts->tv_sec >= RMR_NEVER / NS_PER_S)
		return RMR_NEVER;
	return ts->tv_sec * NS_PER_S + ts->tv_nsec;
}

static struct timespec timespec_of(int64_t ns)
{
	return (struct timespec){ns / NS_PER_S, ns % NS_PER_S};
}

static int64_t now(void)
{
	return atomic_load(&C->now);
}

/* deadline_in returns the instant ns from now, RMR_NEVER where that overflows. */
static int64_t deadline_in(int64_t ns)
{
	int64_t d;
	return ns == RMR_NEVER || __builtin_add_overflow(now(), ns, &d) ? RMR_NEVER : d;
}

/* Calls that can wake somebody in the kernel say so first. */
static void touch(void)
{
	if (C)
		atomic_fetch_add(&C->epoch, 1);
}

/* A signal reaches threads that wait in their slots, too: the driver looks at them
 * all when `signals` has moved. It moves before the epoch, which makes it look. */
static void touch_signal(void)
{
	if (C) {
		atomic_fetch_add(&C->signals, 1);
		atomic_fetch_add(&C->epoch, 1);
	}
}

/* ------------------------------------------------------------------ the clock */

static void wake_driver(void)
{
	atomic_fetch_add(&C->driver_word, 1);
	if (atomic_load(&C->driver_waiting))
		futex(&C->driver_word, FUTEX_WAKE, 1);
}

/* lock_clock returns false when somebody else advances the clock at this moment. The
 * owner's id lets the driver take the lock from a thread that was killed with it. */
static bool lock_clock(void)
{
	uint32_t free = 0, owner = (uint32_t)(me ? atomic_load(&me->tid) : gettid_now());
	return atomic_compare_exchange_strong(&C->lock, &free, owner);
}

static void unlock_clock(void)
{
	atomic_store(&C->lock, 0);
}

static bool nothing_in_flight(void)
{
	return atomic_load(&C->busy) == 0 && atomic_load(&C->inbox) == 0 &&
	       atomic_load(&C->epoch) == atomic_load(&C->verified);
}

/* Set when the calling thread's own step of the clock has ended its wait. */
static __thread bool woken_by_self __attribute__((tls_model("initial-exec")));

/* mark_running counts the waiting thread of s as running before it is woken;
 * false if somebody else was first. */
static bool mark_running(struct rmr_slot *s, uint32_t from)
{
	atomic_fetch_add(&C->busy, 1);
	if (atomic_compare_exchange_strong(&s->state, &from, RMR_RUNNING))
		return true;
	atomic_fetch_sub(&C->busy, 1);
	return false;
}

/* advance_in_place moves the clock to the next deadline and wakes everyone who is
 * due then. Everyone is counted as running before the first is woken: a woken
 * thread signals others at once. False: the driver has to look. */
static bool advance_in_place(void)
{
	struct { uint32_t index; uint32_t from; } due[256];
	uint32_t n = 0, used = atomic_load(&C->used);
	int64_t next = RMR_NEVER;

	if (!lock_clock())
		return false;
	/* Before the search as well as after it: a thread that runs during the search
	 * could set a deadline behind it and be idle again at its end. */
	if (!nothing_in_flight()) {
		unlock_clock();
		return false;
	}
	for (uint32_t i = 0; i < used; i++) {
		struct rmr_slot *s = &C->slot[i];
		uint32_t st = atomic_load_explicit(&s->state, memory_order_acquire);
		if (st != RMR_SLOT && st != RMR_KERNEL)
			continue;
		int64_t d = atomic_load_explicit(&s->deadline, memory_order_relaxed);
		if (d < next) {
			next = d;
			n = 0;
		}
		if (d == next && d != RMR_NEVER) {
			if (n < 256) {
				due[n].index = i;
				due[n].from = st;
			}
			n++;
		}
	}
	if (next == RMR_NEVER || n > 256 || next >= atomic_load(&C->limit) || !nothing_in_flight()) {
		unlock_clock();
		return false;
	}
	if (next > now())
		atomic_store(&C->now, next);
	atomic_fetch_add(&C->steps, 1);
	uint32_t marked = 0;
	for (uint32_t i = 0; i < n; i++)
		if (mark_running(&C->slot[due[i].index], due[i].from))
			due[marked++] = due[i];
	unlock_clock();
	for (uint32_t i = 0; i < marked; i++) {
		struct rmr_slot *s = &C->slot[due[i].index];
		if (s == me)
			woken_by_self = true;
		else if (due[i].from == RMR_SLOT)
			futex(&s->state, FUTEX_WAKE, 1);
		else
			syscall(SYS_tgkill, atomic_load(&s->pid), atomic_load(&s->tid), wake_signal);
	}
	return true;
}

/* idle takes the calling thread out of the count; the last one moves the clock. */
static void idle(void)
{
	if (atomic_fetch_sub(&C->busy, 1) != 1)
		return;
	if (!nothing_in_flight() || !advance_in_place())
		wake_driver();
}

/* ----------------------------------------------------------------- the slots */

static struct rmr_slot *new_slot(pid_t pid, pid_t tid)
{
	for (uint32_t i = 0; i < RMR_SLOTS; i++) {
		struct rmr_slot *s = &C->slot[i];
		uint32_t free = RMR_FREE;
		if (atomic_load_explicit(&s->state, memory_order_relaxed) != RMR_FREE)
			continue;
		atomic_fetch_add(&C->busy, 1);
		if (!atomic_compare_exchange_strong(&s->state, &free, RMR_RUNNING)) {
			atomic_fetch_sub(&C->busy, 1);
			continue;
		}
		atomic_store(&s->pid, pid);
		atomic_store(&s->tid, tid);
		atomic_store(&s->why, RMR_WHY_NONE);
		atomic_store(&s->deadline, RMR_NEVER);
		uint32_t used = atomic_load(&C->used);
		while (used < i + 1 && !atomic_compare_exchange_weak(&C->used, &used, i + 1))
			;
		return s;
	}
	dprintf(2, "rmreplay: more than %d managed threads\n", RMR_SLOTS);
	abort();
}

/* disown takes a slot from pid. The owner's id is what two who free a slot at the same
 * time fight for: only the winner may free it, since it can have a new owner at once. */
static bool disown(struct rmr_slot *s, pid_t pid)
{
	return atomic_compare_exchange_strong(&s->pid, &pid, 0);
}

/* free_slot frees a slot that the caller has disowned. */
static void free_slot(struct rmr_slot *s)
{
	uint32_t st = atomic_exchange(&s->state, RMR_FREE);
	if (st == RMR_RUNNING || st == RMR_EXITING)
		idle();
}

/* free_process frees what a dead process left, except keep. */
static void free_process(pid_t pid, struct rmr_slot *keep)
{
	uint32_t used = atomic_load(&C->used);
	for (uint32_t i = 0; i < used; i++)
		if (&C->slot[i] != keep && disown(&C->slot[i], pid))
			free_slot(&C->slot[i]);
}

/* counted reports whether the calling thread has a slot and counts as running. It does
 * not in a signal handler that has interrupted one of its waits; what a handler waits
 * for is left to the kernel. A handler may also jump out of the wait altogether, as
 * shells do: then the stack is shorter than it was in the wait. */
static __thread char *wait_frame __attribute__((tls_model("initial-exec")));

static bool counted(void)
{
	if (!me)
		return false;
	uint32_t st = atomic_load(&me->state);
	if (__builtin_expect(st == RMR_SLOT || st == RMR_KERNEL, 0)) {
		if ((char *)__builtin_frame_address(0) <= wait_frame)
			return false;
		mark_running(me, st);
	}
	return true;
}

/* ------------------------------------------------------ the price of computing */

/* In a process that pays, computing takes the thread's CPU time times the clock's
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
 * what the wait itself costs is not paid for. */
static bool pays; /* whether this process does */

/* What the calling thread has computed and not paid for yet. */
static __thread struct {
	int64_t cpu;   /* its CPU clock when that was last read */
	int64_t debt;  /* CPU ns up to then */
	uint64_t from; /* ticks at which a thread without debt would have begun to run */
} meter __attribute__((tls_model("initial-exec")));

/* The spin locks that the calling thread holds, in case that a signal handler has
 * interrupted it: who waits for one of them keeps the clock from going on. */
static __thread int spin_locks_held __attribute__((tls_model("initial-exec")));

/* How much a thread may compute before it pays: little where it looks at the clock,
 * since daemons time their own work. Counters of common processors tick at 2 to 3 GHz;
 * a faster or slower one only moves the moment of payment. */
#define TICKS_PER_NS 2
enum { AT_CLOCK = 20 * 1000, AT_CALL = 100 * 1000 };

static uint64_t ticks(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	struct timespec ts;
	real(clock_gettime)(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ns_of(&ts) * TICKS_PER_NS;
#endif
}

static void read_meter(bool add)
{
	struct timespec ts;
	real(clock_gettime)(CLOCK_THREAD_CPUTIME_ID, &ts);
	int64_t cpu = ns_of(&ts);
	if (add)
		meter.debt += cpu - meter.cpu;
	meter.cpu = cpu;
	meter.from = ticks() - (uint64_t)meter.debt * TICKS_PER_NS;
}

static void stop_meter(void)
{
	if (__builtin_expect(pays, 0))
		read_meter(true);
}

static void restart_meter(void)
{
	if (__builtin_expect(pays, 0))
		read_meter(false);
}

/* settle pays the debt if it is at least so many ns of CPU time. */
static void settle(int64_t least);

/* pay settles if the calling thread can have computed for so many ns of CPU time. */
static inline __attribute__((always_inline)) void pay(int64_t least)
{
	if (__builtin_expect(pays, 0) && ticks() - meter.from >= (uint64_t)least * TICKS_PER_NS)
		settle(least / 2);
}

/* What can end a wait in the slot besides a wake-up. */
enum ends {
	BY_NOTHING = 0,
	BY_CANCEL = 1,
	BY_SIGNAL = 2,     /* a handler without SA_RESTART */
	BY_ANY_SIGNAL = 6, /* any handler */
};

static void leave_slot(void *unused)
{
	(void)unused;
	mark_running(me, RMR_SLOT);
}

/* sleep_in_slot sleeps until the slot's state changes, or until something in ends
 * happens. The kernel restarts a futex wait after a handler with SA_RESTART, but one
 * with a timeout never. */
static bool sleep_in_slot(enum ends ends)
{
	static const struct timespec forever = {1LL << 32, 0};
	int type = PTHREAD_CANCEL_DEFERRED;
	/* As in glibc's own blocking calls: deferred cancellation acts here. */
	if (ends & BY_CANCEL)
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	long r = syscall(SYS_futex, &me->state, FUTEX_WAIT, RMR_SLOT, ends == BY_NOTHING || !(ends & 4) ? NULL : &forever, NULL, 0);
	bool interrupted = r == -1 && errno == EINTR;
	if (ends & BY_CANCEL)
		pthread_setcanceltype(type, NULL);
	return !(interrupted && (ends & BY_SIGNAL));
}

/* slot_wait sleeps until somebody has marked the calling thread as running. The
 * caller has set state and deadline, and holds no lock of this library. It returns
 * false when a signal handler has ended the wait. */
static bool slot_wait(enum ends ends)
{
	volatile bool woken = true;
	int saved = errno;
	stop_meter();
	idle();
	pthread_cleanup_push(leave_slot, NULL);
	while (woken && atomic_load(&me->state) == RMR_SLOT)
		if (!sleep_in_slot(ends) && mark_running(me, RMR_SLOT))
			woken = false;
	pthread_cleanup_pop(0);
	restart_meter();
	errno = saved;
	return woken;
}

static void slot_prepare(uint32_t why, const volatile void *object, int64_t deadline)
{
	atomic_store_explicit(&me->why, why, memory_order_relaxed);
	atomic_store_explicit(&me->object, (uint64_t)(uintptr_t)object, memory_order_relaxed);
	atomic_store_explicit(&me->deadline, deadline, memory_order_relaxed);
	wait_frame = __builtin_frame_address(0);
	atomic_store(&me->state, RMR_SLOT);
}

__attribute__((noinline)) static void settle(int64_t least)
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

/* kernel_enter says that the calling thread is about to sleep in the kernel. A caller
 * that is not sure that it will sleep calls touch first. It returns false if the clock
 * has ended the wait already. */
static bool kernel_enter(uint32_t why, uint64_t object, int64_t deadline)
{
	int saved = errno;
	stop_meter();
	wait_frame = __builtin_frame_address(0);
	woken_by_self = false;
	if (why == RMR_WHY_WRITE)
		atomic_fetch_add(&C->writers, 1);
	atomic_store_explicit(&me->why, why, memory_order_relaxed);
	atomic_store_explicit(&me->object, object, memory_order_relaxed);
	atomic_store_explicit(&me->deadline, deadline, memory_order_relaxed);
	atomic_store(&me->state, RMR_KERNEL);
	idle();
	errno = saved;
	return atomic_load(&me->state) == RMR_KERNEL;
}

/* kernel_leave returns false if the clock has woken the thread: its time is up. */
static bool kernel_leave(void)
{
	int saved = errno;
	bool own = mark_running(me, RMR_KERNEL);
	if (atomic_load_explicit(&me->why, memory_order_relaxed) == RMR_WHY_WRITE)
		atomic_fetch_sub(&C->writers, 1);
	touch();
	atomic_store_explicit(&me->deadline, RMR_NEVER, memory_order_relaxed);
	atomic_store_explicit(&me->why, RMR_WHY_NONE, memory_order_relaxed);
	restart_meter();
	errno = saved;
	return own;
}

static void abandon_kernel(void *unused)
{
	(void)unused;
	kernel_leave();
}

/* IN_KERNEL makes a call that sleeps in the kernel, and may be cancelled there. */
#define IN_KERNEL(why, object, call) \
	({ \
		kernel_enter(why, (uint64_t)(object), RMR_NEVER); \
		__typeof__(call) volatile got_; \
		pthread_cleanup_push(abandon_kernel, NULL); \
		got_ = (call); \
		pthread_cleanup_pop(0); \
		kernel_leave(); \
		got_; \
	})

/* OUTSIDE_CALL makes a call that waits for an unmanaged peer, as a running thread. */
#define OUTSIDE_CALL(fd, call) \
	({ \
		atomic_store(&me->object, (uint64_t)(fd)); \
		atomic_store(&me->why, RMR_WHY_OUTSIDE); \
		__typeof__(call) out_ = (call); \
		atomic_store(&me->why, RMR_WHY_NONE); \
		out_; \
	})

/* --------------------------------------------------------------------- queues */

/* A thread that waits in its slot for an object of its own process. It lies on the
 * thread's stack, in the queue of its bucket until woken is set: from then on nobody
 * else touches it, or the object. */
struct waiter {
	struct waiter *next;
	const volatile void *key;
	struct rmr_slot *slot;
	_Atomic bool woken;
};

typedef _Atomic int32_t spin_t;

/* Waiters for locks, condition variables and joins, by the address waited for. They
 * are kept here and not in the objects, which their owners may free as soon as the
 * last waiter is woken, and which a forked child has copies of. */
#define BUCKETS 256
struct bucket {
	spin_t lock;
	struct waiter *head;
	struct ended *ended;
};
static struct bucket buckets[BUCKETS];
static struct bucket semaphores[BUCKETS]; /* apart: sem_post may be called by a signal handler */
static _Atomic int32_t lock_waiters;      /* all of them, so that an unlock without waiters costs one load */

static uint32_t hash(const volatile void *key)
{
	return (uint32_t)((uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15ULL >> 56);
}

static void spin_lock(spin_t *l)
{
	int32_t free = 0;
	spin_locks_held++;
	while (!atomic_compare_exchange_weak(l, &free, 1)) {
		free = 0;
		sched_yield();
	}
}

static void spin_unlock(spin_t *l)
{
	atomic_store(l, 0);
	spin_locks_held--;
}

/* lock_bucket returns key's bucket, locked. The table of semaphores is locked with
 * signals blocked, whose mask old keeps. */
static struct bucket *lock_bucket(struct bucket *table, const volatile void *key, sigset_t *old)
{
	struct bucket *b = &table[hash(key)];
	if (table == semaphores) {
		sigset_t all;
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, old);
	}
	spin_lock(&b->lock);
	return b;
}

static void unlock_bucket(struct bucket *table, struct bucket *b, const sigset_t *old)
{
	spin_unlock(&b->lock);
	if (table == semaphores)
		pthread_sigmask(SIG_SETMASK, old, NULL);
}

static void enqueue(struct bucket *b, struct waiter *w)
{
	struct waiter **tail = &b->head;
	while (*tail)
		tail = &(*tail)->next;
	*tail = w;
}

/* dequeue returns false if w has been woken, and so is in the queue no more. */
__attribute__((noinline)) static bool dequeue(struct bucket *b, struct waiter *w)
{
	for (struct waiter **p = &b->head; *p; p = &(*p)->next)
		if (*p == w) {
			*p = w->next;
			return true;
		}
	return false;
}

/* wake_waiter wakes a thread that has been taken out of its queue. */
static void wake_waiter(struct waiter *w)
{
	struct rmr_slot *s = w->slot;
	atomic_store(&w->woken, true);
	if (!C || s < C->slot || s >= C->slot + RMR_SLOTS) { /* of slot_or's making */
		atomic_store(&s->state, RMR_RUNNING);
		futex(&s->state, FUTEX_WAKE, 1);
	} else if (mark_running(s, RMR_SLOT)) {
		futex(&s->state, FUTEX_WAKE, 1);
	}
}

/* wake_key wakes those who wait for key: the first, or all of them. */
static int wake_key(struct bucket *b, const volatile void *key, bool all)
{
	int n = 0;
	for (struct waiter **p = &b->head; *p;) {
		struct waiter *w = *p;
		if (w->key != key) {
			p = &w->next;
			continue;
		}
		*p = w->next;
		wake_waiter(w);
		n++;
		if (!all)
			break;
	}
	return n;
}

/* released wakes whoever waits for a lock: one thread, or all of them. */
static void released(struct bucket *table, const volatile void *object, bool all)
{
	if (!C)
		return;
	atomic_thread_fence(memory_order_seq_cst);
	if (__builtin_expect(atomic_load(&lock_waiters) == 0, 1))
		return;
	sigset_t old;
	int saved = errno;
	struct bucket *b = lock_bucket(table, object, &old);
	atomic_fetch_sub(&lock_waiters, wake_key(b, object, all));
	unlock_bucket(table, b, &old);
	errno = saved;
}

/* A wait in a queue that its end, however it comes, has to take out of the queue. */
struct lock_wait {
	struct bucket *table;
	struct waiter waiter;
};

/* leave_queue returns false if a wake-up came first. */
static bool leave_queue(struct lock_wait *l)
{
	if (atomic_load(&l->waiter.woken))
		return false;
	sigset_t old;
	struct bucket *b = lock_bucket(l->table, l->waiter.key, &old);
	bool was_there = dequeue(b, &l->waiter);
	if (was_there)
		atomic_fetch_sub(&lock_waiters, 1);
	unlock_bucket(l->table, b, &old);
	return was_there;
}

static void cancel_lock_wait(void *arg)
{
	struct lock_wait *l = arg;
	mark_running(me, RMR_SLOT);
	if (!leave_queue(l)) /* the wake-up was meant for somebody */
		released(l->table, l->waiter.key, false);
}

/* wait_for blocks until try(object) no longer says EBUSY, and returns what it says
 * then; ETIMEDOUT at the deadline, EINTR when a signal has ended the wait. */
static int wait_for(struct bucket *table, const volatile void *object, uint32_t why, int (*try)(void *), int64_t deadline,
		    enum ends ends)
{
	for (;;) {
		struct lock_wait l = {table, {.key = object, .slot = me}};
		sigset_t old;
		struct bucket *b = lock_bucket(table, object, &old);
		enqueue(b, &l.waiter);
		atomic_fetch_add(&lock_waiters, 1);
		/* Again, now that an unlock would see us. */
		int r = try((void *)object);
		if (r != EBUSY) {
			dequeue(b, &l.waiter);
			atomic_fetch_sub(&lock_waiters, 1);
			unlock_bucket(table, b, &old);
			return r;
		}
		if (deadline <= now()) {
			dequeue(b, &l.waiter);
			atomic_fetch_sub(&lock_waiters, 1);
			unlock_bucket(table, b, &old);
			return ETIMEDOUT;
		}
		slot_prepare(why, object, deadline);
		unlock_bucket(table, b, &old);
		bool volatile woken = false;
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

/* -------------------------------------------------------------------- locks */

static int try_mutex(void *m)
{
	return real(pthread_mutex_trylock)(m);
}
static int try_read(void *l)
{
	return real(pthread_rwlock_tryrdlock)(l);
}
static int try_write(void *l)
{
	return real(pthread_rwlock_trywrlock)(l);
}
static int try_semaphore(void *s)
{
	int saved = errno;
	int r = real(sem_trywait)(s) == 0 ? 0 : errno == EAGAIN ? EBUSY : errno;
	errno = saved;
	return r;
}

static int lock_mutex(pthread_mutex_t *m, int64_t deadline)
{
	int r = real(pthread_mutex_trylock)(m);
	if (__builtin_expect(r != EBUSY, 1))
		return r;
	if ((m->__data.__kind & 3) == PTHREAD_MUTEX_ERRORCHECK && m->__data.__owner == gettid_now())
		return EDEADLK;
	return wait_for(buckets, m, RMR_WHY_MUTEX, try_mutex, deadline, BY_NOTHING);
}

EXPORT int pthread_mutex_lock(pthread_mutex_t *m)
{
	pay(AT_CALL);
	return counted() ? lock_mutex(m, RMR_NEVER) : real(pthread_mutex_lock)(m);
}

EXPORT int pthread_mutex_timedlock(pthread_mutex_t *m, const struct timespec *until)
{
	pay(AT_CALL);
	return counted() ? lock_mutex(m, ns_of(until)) : real(pthread_mutex_timedlock)(m, until);
}

EXPORT int pthread_mutex_unlock(pthread_mutex_t *m)
{
	pay(AT_CALL);
	int r = real(pthread_mutex_unlock)(m);
	released(buckets, m, false);
	return r;
}

static int lock_rwlock(pthread_rwlock_t *l, int (*try)(void *))
{
	int r = try(l);
	if (__builtin_expect(r != EBUSY, 1))
		return r;
	if (l->__data.__cur_writer == gettid_now())
		return EDEADLK;
	return wait_for(buckets, l, RMR_WHY_RWLOCK, try, RMR_NEVER, BY_NOTHING);
}

EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t *l)
{
	pay(AT_CALL);
	return counted() ? lock_rwlock(l, try_read) : real(pthread_rwlock_rdlock)(l);
}

EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t *l)
{
	pay(AT_CALL);
	return counted() ? lock_rwlock(l, try_write) : real(pthread_rwlock_wrlock)(l);
}

EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *l)
{
	pay(AT_CALL);
	int r = real(pthread_rwlock_unlock)(l);
	released(buckets, l, true);
	return r;
}

static int wait_semaphore(sem_t *s, int64_t deadline)
{
	pthread_testcancel();
	int r = try_semaphore(s);
	if (r == EBUSY)
		r = wait_for(semaphores, s, RMR_WHY_SEMAPHORE, try_semaphore, deadline, BY_CANCEL | BY_SIGNAL);
	if (r == 0)
		return 0;
	errno = r;
	return -1;
}

EXPORT int sem_wait(sem_t *s)
{
	pay(AT_CALL);
	return counted() ? wait_semaphore(s, RMR_NEVER) : real(sem_wait)(s);
}

EXPORT int sem_timedwait(sem_t *s, const struct timespec *until)
{
	pay(AT_CALL);
	return counted() ? wait_semaphore(s, ns_of(until)) : real(sem_timedwait)(s, until);
}

EXPORT int sem_post(sem_t *s)
{
	pay(AT_CALL);
	int r = real(sem_post)(s);
	released(semaphores, s, false);
	return r;
}

/* ------------------------------------------------------ condition variables */

/* They live in the queues alone: nothing in a pthread_cond_t is used, so one that was
 * initialised statically needs no care, and one that is freed is not missed. */

/* A thread that has no slot (it started before the library, or is ending) waits in
 * one of its own that no clock sees. */
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
	(void)attr;
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

/* leave_cond returns false if a signal came first. */
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

/* A cancelled wait leaves the queue and takes the mutex again, as POSIX wants. */
static void cancel_cond_wait(void *arg)
{
	struct cond_wait *w = arg;
	if (me)
		mark_running(me, RMR_SLOT);
	if (!leave_cond(&w->waiter)) /* the signal was meant for somebody */
		cond_wake(w->waiter.key, false);
	pthread_mutex_lock(w->mutex);
}

/* No clock ends this wait, so it looks itself. */
static void wait_uncounted(struct rmr_slot *s, int64_t deadline)
{
	static const struct timespec a_while = {0, 1000 * 1000};
	struct timespec ts;
	while (atomic_load(&s->state) == RMR_SLOT) {
		clock_gettime(CLOCK_REALTIME, &ts);
		if (ns_of(&ts) >= deadline)
			return;
		syscall(SYS_futex, &s->state, FUTEX_WAIT, RMR_SLOT, deadline == RMR_NEVER ? NULL : &a_while, NULL, 0);
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
	pay(AT_CALL);
	return cond_wait(c, m, RMR_NEVER);
}

EXPORT int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until)
{
	pay(AT_CALL);
	if (until->tv_nsec < 0 || until->tv_nsec >= NS_PER_S)
		return EINVAL;
	int64_t deadline = ns_of(until);
	if (C && deadline <= now()) {
		pthread_testcancel();
		/* A caller that polls like this lets others have the mutex. */
		pthread_mutex_unlock(m);
		sched_yield();
		pthread_mutex_lock(m);
		return ETIMEDOUT;
	}
	return cond_wait(c, m, deadline);
}

EXPORT int pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock, const struct timespec *until)
{
	(void)clock; /* every clock shows virtual time */
	return pthread_cond_timedwait(c, m, until);
}

EXPORT int pthread_cond_signal(pthread_cond_t *c)
{
	pay(AT_CALL);
	cond_wake(c, false);
	return 0;
}

EXPORT int pthread_cond_broadcast(pthread_cond_t *c)
{
	pay(AT_CALL);
	cond_wake(c, true);
	return 0;
}

/* -------------------------------------------------------------------- threads */

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

static __thread bool detached __attribute__((tls_model("initial-exec")));
static __thread int exit_rounds __attribute__((tls_model("initial-exec")));
static _Atomic int32_t threads; /* of this process that have slots */

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
	int joining = wake_key(b, key, false);
	atomic_fetch_sub(&lock_waiters, joining);
	if (!joining && !nobody_will)
		remember_ended(b, pthread_self(), false);
	unlock_bucket(buckets, b, NULL);
}

/* thread_exit runs as a thread-specific destructor: after return, pthread_exit and
 * cancellation alike. It puts itself off to the last round of destructors, so that
 * the program's own still run in a managed thread. */
static void thread_exit(void *arg)
{
	struct rmr_slot *s = arg;
	if (++exit_rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
		pthread_setspecific(exit_key, s);
		return;
	}
	pay(AT_CLOCK);
	hand_over();
	/* The C library ends the process in its last thread, which runs the exit handlers. */
	if (atomic_fetch_sub(&threads, 1) == 1)
		return;
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
	atomic_fetch_add(&lock_waiters, 1);
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

/* ----------------------------------------------------------- reading the time */

EXPORT time_t time(time_t *t)
{
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	if (t)
		*t = ts.tv_sec;
	return ts.tv_sec;
}

EXPORT int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	if (tz)
		memset(tz, 0, sizeof(struct timezone));
	*tv = (struct timeval){ts.tv_sec, ts.tv_nsec / 1000};
	return 0;
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *ts)
{
	/* CPU clocks (and those of other processes, which are negative) stay real. */
	if (!C || clock < 0 || clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID)
		return real(clock_gettime)(clock, ts);
	pay(AT_CLOCK);
	*ts = timespec_of(now());
	return 0;
}

EXPORT int timespec_get(struct timespec *ts, int base)
{
	if (base != TIME_UTC)
		return 0;
	clock_gettime(CLOCK_REALTIME, ts);
	return base;
}

/* ------------------------------------------------------------------- sleeping */

/* sleep_until returns what is left when a signal handler ended the sleep, else 0. */
static int64_t sleep_until(int64_t deadline)
{
	pthread_testcancel();
	if (deadline <= now())
		return 0;
	slot_prepare(RMR_WHY_SLEEP, NULL, deadline);
	if (slot_wait(BY_CANCEL | BY_ANY_SIGNAL))
		return 0;
	int64_t left = deadline - now();
	return left > 0 ? left : 1;
}

EXPORT int nanosleep(const struct timespec *want, struct timespec *rem)
{
	pay(AT_CALL);
	if (!counted())
		return real(nanosleep)(want, rem);
	if (want->tv_sec < 0 || want->tv_nsec < 0 || want->tv_nsec >= NS_PER_S) {
		errno = EINVAL;
		return -1;
	}
	int64_t left = sleep_until(deadline_in(ns_of(want)));
	if (!left)
		return 0;
	if (rem)
		*rem = timespec_of(left);
	errno = EINTR;
	return -1;
}

EXPORT int clock_nanosleep(clockid_t clock, int flags, const struct timespec *want, struct timespec *rem)
{
	pay(AT_CALL);
	if (!counted() || clock == CLOCK_PROCESS_CPUTIME_ID || clock < 0)
		return real(clock_nanosleep)(clock, flags, want, rem);
	if (want->tv_sec < 0 || want->tv_nsec < 0 || want->tv_nsec >= NS_PER_S)
		return EINVAL;
	int64_t ns = ns_of(want);
	int64_t left = sleep_until(flags & TIMER_ABSTIME ? ns : deadline_in(ns));
	if (!left)
		return 0;
	if (rem && !(flags & TIMER_ABSTIME))
		*rem = timespec_of(left);
	return EINTR;
}

EXPORT int usleep(useconds_t us)
{
	struct timespec ts = timespec_of((int64_t)us * 1000);
	return nanosleep(&ts, NULL);
}

EXPORT unsigned sleep(unsigned s)
{
	struct timespec ts = {s, 0}, rem = {0, 0};
	if (nanosleep(&ts, &rem) == 0)
		return 0;
	return (unsigned)rem.tv_sec;
}

/* ------------------------------------------------------------ who is the peer */

static bool port_is_managed(uint16_t port_be)
{
	uint16_t p = ntohs(port_be);
	return p && (atomic_load_explicit(&C->ports[p >> 6], memory_order_relaxed) >> (p & 63) & 1);
}

/* An internet address of either family; the port is at the same place in both. */
union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_un un;
};

/* ip4_of returns an IPv4 address, mapped ones too, in network byte order; 0 for others. */
static uint32_t ip4_of(const union address *a)
{
	uint32_t ip = 0;
	if (a->any.sa_family == AF_INET)
		return a->in.sin_addr.s_addr;
	if (a->any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&a->in6.sin6_addr))
		memcpy(&ip, &a->in6.sin6_addr.s6_addr[12], sizeof ip);
	return ip;
}

/* is_driver reports whether a peer is the driver: as a client it comes from driver_ip,
 * as the compute nodes it listens at driver_port. */
static bool is_driver(const union address *peer)
{
	if (peer->any.sa_family != AF_INET && peer->any.sa_family != AF_INET6)
		return false;
	return (C->driver_ip && ip4_of(peer) == C->driver_ip) || peer->in.sin_port == C->driver_port;
}

static bool with_driver(int fd)
{
	union address a = {0};
	socklen_t n = sizeof a;
	return getpeername(fd, &a.any, &n) == 0 && is_driver(&a);
}

/* outside reports whether input on fd can only come from something that no managed
 * process or driver does: then waiting for it takes real time. */
static bool outside(int fd)
{
	struct stat st;
	int saved = errno;
	if (fd < 0 || fstat(fd, &st)) {
		errno = saved;
		return false;
	}
	if (!S_ISSOCK(st.st_mode))
		return S_ISCHR(st.st_mode) || S_ISREG(st.st_mode);
	union address peer, local;
	socklen_t n = sizeof peer, ln = sizeof local;
	memset(&peer, 0, sizeof peer);
	memset(&local, 0, sizeof local);
	bool connected = getpeername(fd, &peer.any, &n) == 0;
	getsockname(fd, &local.any, &ln);
	errno = saved;
	switch (local.any.sa_family) {
	case AF_UNIX: /* a client of a named socket: no managed process listens on one */
		return connected && n > sizeof(sa_family_t);
	case AF_INET:
	case AF_INET6:
		if (port_is_managed(local.in.sin_port) || local.in.sin_port == C->driver_port)
			return false;
		return connected && !is_driver(&peer) && !port_is_managed(peer.in.sin_port);
	}
	return true;
}

/* ------------------------------------------------------------- multiplexing */

/* Set by the handler, so that an interrupted wait knows whose signal it was. */
static __thread volatile sig_atomic_t wake_signal_came __attribute__((tls_model("initial-exec")));

static void on_wake_signal(int sig)
{
	(void)sig;
	wake_signal_came = 1;
}

/* consume_wake_signal takes the signal that is certain to come, sooner or later, when
 * the clock has ended a wait, so that none comes late: in the next wait, or in a
 * program that this thread becomes. It does not wait for ever, since the thread that
 * sends it can be killed before it does. */
static void consume_wake_signal(void)
{
	static const struct timespec patience = {0, 100 * 1000 * 1000};
	sigset_t set;
	if (woken_by_self || wake_signal_came)
		return;
	sigemptyset(&set);
	sigaddset(&set, wake_signal);
	while (real(sigtimedwait)(&set, NULL, &patience) < 0 && errno == EINTR)
		;
}

static void abandon_timed_wait(void *old)
{
	if (!kernel_leave())
		consume_wake_signal();
	pthread_sigmask(SIG_SETMASK, old, NULL);
}

/* A wait in the kernel that the clock can end with the wake signal, which is let in
 * only inside the wait itself, so none is lost between the decision to wait and the
 * wait. Returns what wait(arg, mask) returned, 0 at the deadline. */
static int timed_kernel_wait(uint32_t why, uint64_t object, int64_t deadline, int (*wait)(void *, const sigset_t *), void *arg,
			     const sigset_t *mask)
{
	sigset_t block, old, waiting;
	volatile int r, e;
	bool by_clock;
	sigemptyset(&block);
	sigaddset(&block, wake_signal);
	pthread_testcancel();
	pthread_sigmask(SIG_BLOCK, &block, &old);
	waiting = mask ? *mask : old;
	sigdelset(&waiting, wake_signal);
	do {
		r = 0;
		e = errno;
		wake_signal_came = 0;
		if (kernel_enter(why, object, deadline)) {
			pthread_cleanup_push(abandon_timed_wait, &old);
			r = wait(arg, &waiting);
			pthread_cleanup_pop(0);
			e = errno;
		}
		by_clock = !kernel_leave();
		if (by_clock) {
			consume_wake_signal();
			if (r < 0 && e == EINTR)
				r = 0;
		}
		/* Sent by a driver that took a sleeper for one that had missed its signal. */
	} while (!by_clock && r < 0 && e == EINTR && wake_signal_came);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = e;
	return r;
}

struct poll_args {
	struct pollfd *fds;
	nfds_t n;
};

static int do_poll(void *arg, const sigset_t *mask)
{
	struct poll_args *p = arg;
	return real(ppoll)(p->fds, p->n, NULL, mask);
}

static int poll_until(struct pollfd *fds, nfds_t n, int64_t timeout_ns, const sigset_t *mask)
{
	static const struct timespec zero;
	int r = real(ppoll)(fds, n, &zero, mask);
	if (r != 0 || timeout_ns == 0)
		return r;
	for (nfds_t i = 0; i < n; i++)
		if (outside(fds[i].fd)) {
			struct timespec ts = timespec_of(timeout_ns);
			return OUTSIDE_CALL(fds[i].fd, real(ppoll)(fds, n, timeout_ns == RMR_NEVER ? NULL : &ts, mask));
		}
	struct poll_args p = {fds, n};
	return timed_kernel_wait(RMR_WHY_POLL, n ? (uint64_t)fds[0].fd : 0, deadline_in(timeout_ns), do_poll, &p, mask);
}

EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	pay(AT_CALL);
	if (!counted())
		return real(ppoll)(fds, n, timeout, mask);
	return poll_until(fds, n, timeout ? ns_of(timeout) : RMR_NEVER, mask);
}

EXPORT int poll(struct pollfd *fds, nfds_t n, int ms)
{
	struct timespec ts = timespec_of((int64_t)(ms < 0 ? 0 : ms) * 1000000);
	return ppoll(fds, n, ms < 0 ? NULL : &ts, NULL);
}

EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t len)
{
	(void)len;
	return poll(fds, n, ms);
}

EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask, size_t len)
{
	(void)len;
	return ppoll(fds, n, timeout, mask);
}

struct select_args {
	int n;
	fd_set *sets[3];
	fd_set want[3];
};

static void restore_sets(struct select_args *s)
{
	for (int i = 0; i < 3; i++)
		if (s->sets[i])
			*s->sets[i] = s->want[i];
}

static int do_select(void *arg, const sigset_t *mask)
{
	struct select_args *s = arg;
	restore_sets(s);
	return real(pselect)(s->n, s->sets[0], s->sets[1], s->sets[2], NULL, mask);
}

EXPORT int pselect(int n, fd_set *rd, fd_set *wr, fd_set *ex, const struct timespec *timeout, const sigset_t *mask)
{
	pay(AT_CALL);
	static const struct timespec zero;
	if (!counted())
		return real(pselect)(n, rd, wr, ex, timeout, mask);
	struct select_args s = {.n = n, .sets = {rd, wr, ex}};
	for (int i = 0; i < 3; i++)
		if (s.sets[i])
			s.want[i] = *s.sets[i];
	int64_t ns = timeout ? ns_of(timeout) : RMR_NEVER;
	int r = real(pselect)(n, rd, wr, ex, &zero, mask);
	if (r != 0 || ns == 0)
		return r;
	for (int fd = 0; fd < n; fd++)
		for (int i = 0; i < 3; i++)
			if (s.sets[i] && FD_ISSET(fd, &s.want[i]) && outside(fd)) {
				restore_sets(&s);
				return OUTSIDE_CALL(fd, real(pselect)(n, rd, wr, ex, timeout, mask));
			}
	r = timed_kernel_wait(RMR_WHY_POLL, 0, deadline_in(ns), do_select, &s, mask);
	if (r == 0)
		for (int i = 0; i < 3; i++)
			if (s.sets[i])
				FD_ZERO(s.sets[i]);
	return r;
}

EXPORT int select(int n, fd_set *rd, fd_set *wr, fd_set *ex, struct timeval *timeout)
{
	struct timespec ts;
	if (timeout)
		ts = (struct timespec){timeout->tv_sec, timeout->tv_usec * 1000};
	return pselect(n, rd, wr, ex, timeout ? &ts : NULL, NULL);
}

struct epoll_args {
	int fd;
	struct epoll_event *events;
	int max;
};

static int do_epoll(void *arg, const sigset_t *mask)
{
	struct epoll_args *e = arg;
	return real(epoll_pwait)(e->fd, e->events, e->max, -1, mask);
}

EXPORT int epoll_pwait(int fd, struct epoll_event *events, int max, int ms, const sigset_t *mask)
{
	pay(AT_CALL);
	if (!counted())
		return real(epoll_pwait)(fd, events, max, ms, mask);
	int r = real(epoll_pwait)(fd, events, max, 0, mask);
	if (r != 0 || ms == 0)
		return r;
	struct epoll_args e = {fd, events, max};
	int64_t deadline = ms < 0 ? RMR_NEVER : deadline_in((int64_t)ms * 1000000);
	return timed_kernel_wait(RMR_WHY_POLL, (uint64_t)fd, deadline, do_epoll, &e, mask);
}

EXPORT int epoll_wait(int fd, struct epoll_event *events, int max, int ms)
{
	return epoll_pwait(fd, events, max, ms, NULL);
}

/* -------------------------------------------------------------------- sockets */

/* Slurm writes a message's length and body separately. Nagle's algorithm and a
 * delayed acknowledgement then hold the body back for 40 real ms while every thread
 * sleeps, and the clock would run away over it. */
static void no_delay(int fd)
{
	int one = 1, saved = errno;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	errno = saved;
}

EXPORT int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	pay(AT_CALL);
	if (C && addr && (addr->sa_family == AF_INET || addr->sa_family == AF_INET6))
		no_delay(fd);
	touch();
	return real(connect)(fd, addr, len);
}

static void note_port(int fd)
{
	union address a;
	socklen_t n = sizeof a;
	int saved = errno;
	if (getsockname(fd, &a.any, &n) == 0 && (a.any.sa_family == AF_INET || a.any.sa_family == AF_INET6)) {
		uint16_t p = ntohs(a.in.sin_port);
		if (p)
			atomic_fetch_or(&C->ports[p >> 6], 1ULL << (p & 63));
	}
	errno = saved;
}

/* The port is noted before anybody can connect to it, and once more for one that the
 * kernel chooses here. */
EXPORT int listen(int fd, int backlog)
{
	if (C)
		note_port(fd);
	int r = real(listen)(fd, backlog);
	if (C && r == 0)
		note_port(fd);
	return r;
}

/* How a call waits: not at all (or for the disk only), for something managed, for the
 * outside. */
enum wait { NO_WAIT, MANAGED_WAIT, OUTSIDE_WAIT };

/* wait_for_events says how a blocking call on fd that needs these events would wait now. */
static enum wait wait_for_events(int fd, short events, int flags)
{
	struct pollfd p = {.fd = fd, .events = events};
	static const struct timespec zero;
	enum wait how = NO_WAIT;
	if (!counted() || (flags & MSG_DONTWAIT))
		return NO_WAIT;
	int saved = errno;
	if (real(ppoll)(&p, 1, &zero, NULL) == 0) {
		int mode = fcntl(fd, F_GETFL);
		if (mode != -1 && !(mode & O_NONBLOCK))
			how = outside(fd) ? OUTSIDE_WAIT : MANAGED_WAIT;
	}
	errno = saved;
	return how;
}

#define WAITING_CALL(how, why, fd, call) \
	({ \
		enum wait how_ = (how); \
		if (how_ == MANAGED_WAIT) \
			pthread_testcancel(); \
		how_ == NO_WAIT ? (call) : how_ == MANAGED_WAIT ? IN_KERNEL(why, fd, call) : OUTSIDE_CALL(fd, call); \
	})

EXPORT int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	pay(AT_CALL);
	int r = WAITING_CALL(wait_for_events(fd, POLLIN, 0), RMR_WHY_ACCEPT, fd, real(accept4)(fd, addr, len, flags));
	if (C && r >= 0)
		no_delay(r);
	return r;
}

EXPORT int accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	return accept4(fd, addr, len, 0);
}

/* Who reads makes room for those who wait to write. */
#define INPUT_CALL(fd, flags, call) \
	({ \
		pay(AT_CALL); \
		ssize_t in_ = WAITING_CALL(wait_for_events(fd, POLLIN, flags), RMR_WHY_READ, fd, call); \
		if (C && atomic_load(&C->writers) > 0) \
			touch(); \
		in_; \
	})

EXPORT ssize_t read(int fd, void *buf, size_t n)
{
	return INPUT_CALL(fd, 0, real(read)(fd, buf, n));
}

EXPORT ssize_t __read_chk(int fd, void *buf, size_t n, size_t len)
{
	(void)len;
	return read(fd, buf, n);
}

EXPORT ssize_t recv(int fd, void *buf, size_t n, int flags)
{
	return INPUT_CALL(fd, flags, real(recv)(fd, buf, n, flags));
}

EXPORT ssize_t __recv_chk(int fd, void *buf, size_t n, size_t len, int flags)
{
	(void)len;
	return recv(fd, buf, n, flags);
}

EXPORT ssize_t recvfrom(int fd, void *buf, size_t n, int flags, struct sockaddr *addr, socklen_t *len)
{
	return INPUT_CALL(fd, flags, real(recvfrom)(fd, buf, n, flags, addr, len));
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	return INPUT_CALL(fd, flags, real(recvmsg)(fd, m, flags));
}

/* Who is at the other end of a descriptor that is written. */
enum reader { NOBODY, SOMEBODY, DRIVER };

static enum reader reader_of(int fd)
{
	struct stat st;
	enum reader r = SOMEBODY;
	int saved = errno;
	if (fstat(fd, &st) || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISBLK(st.st_mode) || S_ISCHR(st.st_mode))
		r = NOBODY;
	else if (S_ISFIFO(st.st_mode))
		r = C->fifo_ino && st.st_ino == C->fifo_ino && st.st_dev == C->fifo_dev ? DRIVER : SOMEBODY;
	else if (S_ISSOCK(st.st_mode))
		r = with_driver(fd) ? DRIVER : SOMEBODY;
	errno = saved;
	return r;
}

/* Output may wait as well, for a peer that sleeps: when there is no room, and, where
 * there is some, when it is more than is certain to fit. */
static enum wait wait_to_write(int fd, size_t n, int flags)
{
	return wait_for_events(fd, n > PIPE_BUF ? 0 : POLLOUT, flags);
}

/* Bytes for the driver are counted until it has read them: it is no managed thread,
 * and this is how the clock knows that it has work. */
#define OUTPUT_CALL(fd, n, flags, call) \
	({ \
		enum reader reader_ = C ? reader_of(fd) : NOBODY; \
		size_t n_ = reader_ == NOBODY ? 0 : (n); \
		ssize_t r_; \
		if (reader_ != NOBODY) { \
			pay(AT_CALL); \
			touch(); \
		} \
		if (reader_ == DRIVER) { \
			atomic_fetch_add(&C->inbox, (int64_t)n_); \
			r_ = (call); \
			int saved_ = errno; \
			atomic_fetch_sub(&C->inbox, (int64_t)n_ - (r_ > 0 ? r_ : 0)); \
			wake_driver(); \
			errno = saved_; \
		} else { \
			enum wait to_write_ = reader_ == NOBODY ? NO_WAIT : wait_to_write(fd, n_, flags); \
			r_ = WAITING_CALL(to_write_, RMR_WHY_WRITE, fd, call); \
		} \
		r_; \
	})

static size_t total_of(const struct iovec *v, size_t n)
{
	size_t sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += v[i].iov_len;
	return sum;
}

EXPORT ssize_t write(int fd, const void *buf, size_t n)
{
	return OUTPUT_CALL(fd, n, 0, real(write)(fd, buf, n));
}

EXPORT ssize_t writev(int fd, const struct iovec *v, int n)
{
	return OUTPUT_CALL(fd, total_of(v, (size_t)n), 0, real(writev)(fd, v, n));
}

EXPORT ssize_t send(int fd, const void *buf, size_t n, int flags)
{
	return OUTPUT_CALL(fd, n, flags, real(send)(fd, buf, n, flags));
}

EXPORT ssize_t sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *addr, socklen_t len)
{
	return OUTPUT_CALL(fd, n, flags, real(sendto)(fd, buf, n, flags, addr, len));
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	return OUTPUT_CALL(fd, total_of(m->msg_iov, m->msg_iovlen), flags, real(sendmsg)(fd, m, flags));
}

EXPORT int shutdown(int fd, int how)
{
	pay(AT_CALL);
	touch();
	return real(shutdown)(fd, how);
}

/* The last close of a pipe or socket is the end of input for its reader. */
static void touch_reader(int fd)
{
	if (C && reader_of(fd) != NOBODY)
		touch();
}

EXPORT int close(int fd)
{
	touch_reader(fd);
	return real(close)(fd);
}

EXPORT int dup2(int from, int to)
{
	touch_reader(to);
	return real(dup2)(from, to);
}

EXPORT int dup3(int from, int to, int flags)
{
	touch_reader(to);
	return real(dup3)(from, to, flags);
}

/* -------------------------------------------------------------------- streams */

/* The C library's streams read and write inside it, where no other wrapper sees it. */

static bool is_channel(int fd)
{
	struct stat st;
	int saved = errno;
	bool is = fd >= 0 && fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
	errno = saved;
	return is;
}

/* wait_to_fill says how an input call waits that needs want bytes, or a line's end if
 * that is in the buffer. It may find that it need not wait, so it calls touch. */
static enum wait wait_to_fill(FILE *f, size_t want, int delimiter)
{
	size_t have = (size_t)(f->_IO_read_end - f->_IO_read_ptr);
	if (!counted() || have >= want || (delimiter >= 0 && have && memchr(f->_IO_read_ptr, delimiter, have)) || !is_channel(f->_fileno))
		return NO_WAIT;
	touch();
	return outside(f->_fileno) ? OUTSIDE_WAIT : MANAGED_WAIT;
}

#define STREAM_INPUT(f, want, delimiter, call) WAITING_CALL(wait_to_fill(f, want, delimiter), RMR_WHY_STREAM, (f)->_fileno, call)
#define NO_DELIMITER (-1)

REAL(size_t, fread, void *, size_t, size_t, FILE *)
REAL(size_t, fread_unlocked, void *, size_t, size_t, FILE *)
REAL(char *, fgets, char *, int, FILE *)
REAL(char *, fgets_unlocked, char *, int, FILE *)
REAL(int, fgetc, FILE *)
REAL(ssize_t, getdelim, char **, size_t *, int, FILE *)
REAL(int, __uflow, FILE *)
REAL(int, __underflow, FILE *)
REAL(size_t, fwrite, const void *, size_t, size_t, FILE *)
REAL(size_t, fwrite_unlocked, const void *, size_t, size_t, FILE *)
REAL(int, fputs, const char *, FILE *)
REAL(int, fputs_unlocked, const char *, FILE *)
REAL(int, puts, const char *)
REAL(int, fputc, int, FILE *)
REAL(int, __overflow, FILE *, int)
REAL(int, vfprintf, FILE *, const char *, va_list)
REAL(int, __vfprintf_chk, FILE *, int, const char *, va_list)
REAL(int, fflush, FILE *)
REAL(int, fflush_unlocked, FILE *)
REAL(int, fclose, FILE *)

EXPORT size_t fread(void *p, size_t size, size_t n, FILE *f)
{
	return STREAM_INPUT(f, size * n, NO_DELIMITER, real(fread)(p, size, n, f));
}

EXPORT size_t(fread_unlocked)(void *p, size_t size, size_t n, FILE *f)
{
	return STREAM_INPUT(f, size * n, NO_DELIMITER, real(fread_unlocked)(p, size, n, f));
}

EXPORT size_t __fread_chk(void *p, size_t len, size_t size, size_t n, FILE *f)
{
	(void)len;
	return fread(p, size, n, f);
}

EXPORT char *fgets(char *s, int n, FILE *f)
{
	return STREAM_INPUT(f, (size_t)n, '\n', real(fgets)(s, n, f));
}

EXPORT char *fgets_unlocked(char *s, int n, FILE *f)
{
	return STREAM_INPUT(f, (size_t)n, '\n', real(fgets_unlocked)(s, n, f));
}

EXPORT char *__fgets_chk(char *s, size_t len, int n, FILE *f)
{
	(void)len;
	return fgets(s, n, f);
}

EXPORT ssize_t getdelim(char **line, size_t *n, int delimiter, FILE *f)
{
	return STREAM_INPUT(f, SIZE_MAX, delimiter, real(getdelim)(line, n, delimiter, f));
}

EXPORT ssize_t __getdelim(char **line, size_t *n, int delimiter, FILE *f)
{
	return getdelim(line, n, delimiter, f);
}

EXPORT ssize_t getline(char **line, size_t *n, FILE *f)
{
	return getdelim(line, n, '\n', f);
}

EXPORT int fgetc(FILE *f)
{
	return STREAM_INPUT(f, 1, NO_DELIMITER, real(fgetc)(f));
}

EXPORT int(getc)(FILE *f)
{
	return fgetc(f);
}

EXPORT int getchar(void)
{
	return fgetc(stdin);
}

/* What the macros of getc_unlocked call for more. */
EXPORT int __uflow(FILE *f)
{
	return STREAM_INPUT(f, 1, NO_DELIMITER, real(__uflow)(f));
}

EXPORT int __underflow(FILE *f)
{
	return STREAM_INPUT(f, 1, NO_DELIMITER, real(__underflow)(f));
}

static enum reader reader_of_stream(FILE *f)
{
	enum reader r = C && f && f->_fileno >= 0 ? reader_of(f->_fileno) : NOBODY;
	if (r != NOBODY)
		touch();
	return r;
}

/* tell_driver counts what has left a stream that goes to the driver. It is too late to
 * count it before, but this thread runs, and so the clock stands still, meanwhile. */
static void tell_driver(int64_t bytes)
{
	int saved = errno;
	atomic_fetch_add(&C->inbox, bytes);
	wake_driver();
	errno = saved;
}

/* STREAM_OUTPUT makes a call that puts at most `most` bytes into f, and has put
 * `produced` (which may look at the result, r_) when it is over. */
#define STREAM_OUTPUT(f, most, produced, call) \
	({ \
		FILE *to_ = (f); \
		enum reader reader_ = reader_of_stream(to_); \
		size_t pending_ = reader_ == DRIVER ? __fpending(to_) : 0; \
		enum wait to_write_ = reader_ == SOMEBODY ? wait_to_write(to_->_fileno, most, 0) : NO_WAIT; \
		__typeof__(call) r_ = WAITING_CALL(to_write_, RMR_WHY_WRITE, to_->_fileno, call); \
		if (reader_ == DRIVER) \
			tell_driver((int64_t)pending_ + (int64_t)(produced) - (int64_t)__fpending(to_)); \
		r_; \
	})

EXPORT size_t fwrite(const void *p, size_t size, size_t n, FILE *f)
{
	return STREAM_OUTPUT(f, size * n, size * r_, real(fwrite)(p, size, n, f));
}

EXPORT size_t(fwrite_unlocked)(const void *p, size_t size, size_t n, FILE *f)
{
	return STREAM_OUTPUT(f, size * n, size * r_, real(fwrite_unlocked)(p, size, n, f));
}

EXPORT int fputs(const char *s, FILE *f)
{
	return STREAM_OUTPUT(f, strlen(s), r_ < 0 ? 0 : strlen(s), real(fputs)(s, f));
}

EXPORT int fputs_unlocked(const char *s, FILE *f)
{
	return STREAM_OUTPUT(f, strlen(s), r_ < 0 ? 0 : strlen(s), real(fputs_unlocked)(s, f));
}

EXPORT int puts(const char *s)
{
	return STREAM_OUTPUT(stdout, strlen(s) + 1, r_ < 0 ? 0 : strlen(s) + 1, real(puts)(s));
}

EXPORT int fputc(int c, FILE *f)
{
	return STREAM_OUTPUT(f, 1, r_ != EOF, real(fputc)(c, f));
}

EXPORT int(putc)(int c, FILE *f)
{
	return fputc(c, f);
}

EXPORT int putchar(int c)
{
	return fputc(c, stdout);
}

/* What the macros of putc_unlocked call for room. */
EXPORT int __overflow(FILE *f, int c)
{
	return STREAM_OUTPUT(f, 1, c != EOF && r_ != EOF, real(__overflow)(f, c));
}

EXPORT int vfprintf(FILE *f, const char *format, va_list ap)
{
	return STREAM_OUTPUT(f, 1, r_ < 0 ? 0 : r_, real(vfprintf)(f, format, ap));
}

EXPORT int __vfprintf_chk(FILE *f, int flag, const char *format, va_list ap)
{
	return STREAM_OUTPUT(f, 1, r_ < 0 ? 0 : r_, real(__vfprintf_chk)(f, flag, format, ap));
}

#define FORWARD_ARGS(last, call) \
	({ \
		va_list ap; \
		va_start(ap, last); \
		int forwarded_ = (call); \
		va_end(ap); \
		forwarded_; \
	})

EXPORT int vprintf(const char *format, va_list ap)
{
	return vfprintf(stdout, format, ap);
}

EXPORT int printf(const char *format, ...)
{
	return FORWARD_ARGS(format, vfprintf(stdout, format, ap));
}

EXPORT int fprintf(FILE *f, const char *format, ...)
{
	return FORWARD_ARGS(format, vfprintf(f, format, ap));
}

EXPORT int __vprintf_chk(int flag, const char *format, va_list ap)
{
	return __vfprintf_chk(stdout, flag, format, ap);
}

EXPORT int __printf_chk(int flag, const char *format, ...)
{
	return FORWARD_ARGS(format, __vfprintf_chk(stdout, flag, format, ap));
}

EXPORT int __fprintf_chk(FILE *f, int flag, const char *format, ...)
{
	return FORWARD_ARGS(format, __vfprintf_chk(f, flag, format, ap));
}

EXPORT int fflush(FILE *f)
{
	if (!f) { /* all of them */
		touch();
		return real(fflush)(f);
	}
	return STREAM_OUTPUT(f, __fpending(f), 0, real(fflush)(f));
}

EXPORT int fflush_unlocked(FILE *f)
{
	if (!f) {
		touch();
		return real(fflush_unlocked)(f);
	}
	return STREAM_OUTPUT(f, __fpending(f), 0, real(fflush_unlocked)(f));
}

EXPORT int fclose(FILE *f)
{
	if (C && __fpending(f))
		fflush(f);
	reader_of_stream(f); /* its end of input */
	return real(fclose)(f);
}

/* -------------------------------------------------------------------- signals */

EXPORT int kill(pid_t pid, int sig)
{
	touch_signal();
	return real(kill)(pid, sig);
}

EXPORT int killpg(pid_t group, int sig)
{
	touch_signal();
	return real(killpg)(group, sig);
}

EXPORT int sigqueue(pid_t pid, int sig, const union sigval value)
{
	touch_signal();
	return real(sigqueue)(pid, sig, value);
}

/* The signal may be pending already: then this is no sleep, and the driver must look. */
#define SIGNAL_WAIT(call) \
	({ \
		bool wait_ = counted(); \
		if (wait_) { \
			pthread_testcancel(); \
			touch(); \
		} \
		wait_ ? IN_KERNEL(RMR_WHY_SIGNAL, 0, call) : (call); \
	})

EXPORT int sigwait(const sigset_t *set, int *sig)
{
	return SIGNAL_WAIT(real(sigwait)(set, sig));
}

EXPORT int sigsuspend(const sigset_t *mask)
{
	return SIGNAL_WAIT(real(sigsuspend)(mask));
}

EXPORT int pause(void)
{
	return SIGNAL_WAIT(real(pause)());
}

/* --------------------------------------------------------------------- memory */

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

/* ------------------------------------------------------------------ processes */

/* What a child's environment must hold to be managed too, "NAME=value". Slurm gives
 * its scripts environments of their own making. */
static char *inherited[6];

/* variable returns NAME's place in the environment. Not by getenv, which bash replaces
 * by one of its own that is not ready yet. */
static char **variable(const char *name)
{
	size_t n = strlen(name);
	char **e = environ;
	while (e && *e && !(strncmp(*e, name, n) == 0 && (*e)[n] == '='))
		e++;
	return e && *e ? e : NULL;
}

static const char *value_of(const char *name)
{
	char **e = variable(name);
	return e ? *e + strlen(name) + 1 : NULL;
}

static void remove_variable(const char *name)
{
	for (char **e = variable(name); e && *e; e++)
		e[0] = e[1];
}

static void remember_environment(void)
{
	static const char *const names[] = {"LD_PRELOAD", RMR_ENV_CLOCK, "NSS_WRAPPER_PASSWD", "NSS_WRAPPER_GROUP"};
	int n = 0;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const char *v = value_of(names[i]);
		if (v && asprintf(&inherited[n], "%s=%s", names[i], v) > 0)
			n++;
	}
}

static bool same_name(const char *a, const char *b)
{
	size_t n = (size_t)(strchrnul(a, '=') - a);
	return strncmp(a, b, n) == 0 && b[n] == '=';
}

static size_t count_of(char *const *v)
{
	size_t n = 0;
	while (v && v[n])
		n++;
	return n;
}

/* managed_env writes envp with what is missing, and with the child's slot, into out,
 * which has room for count_of(envp) + 8 pointers. */
static void managed_env(char **out, char *const *envp, char *slot_var, size_t slot_len, const struct rmr_slot *slot)
{
	size_t n = 0;
	for (size_t i = 0; envp && envp[i]; i++)
		if (!same_name(RMR_ENV_SLOT "=", envp[i]))
			out[n++] = envp[i];
	for (size_t i = 0; i < sizeof inherited / sizeof *inherited && inherited[i]; i++) {
		bool there = false;
		for (size_t j = 0; j < n && !there; j++)
			there = same_name(inherited[i], out[j]);
		if (!there)
			out[n++] = inherited[i];
	}
	snprintf(slot_var, slot_len, RMR_ENV_SLOT "=%td", slot - C->slot);
	out[n++] = slot_var;
	out[n] = NULL;
}

#define WITH_ENV(envp, slot, call) \
	({ \
		char slot_var[40]; \
		char *env_[count_of(envp) + 8]; \
		managed_env(env_, envp, slot_var, sizeof slot_var, slot); \
		touch(); \
		(call); \
	})

EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
	if (!me)
		return real(execve)(path, argv, envp);
	return WITH_ENV(envp, me, real(execve)(path, argv, env_));
}

EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
	if (!me)
		return real(execvpe)(file, argv, envp);
	return WITH_ENV(envp, me, real(execvpe)(file, argv, env_));
}

EXPORT int execv(const char *path, char *const argv[])
{
	return execve(path, argv, environ);
}

EXPORT int execvp(const char *file, char *const argv[])
{
	return execvpe(file, argv, environ);
}

#define COLLECT_ARGS(argv, first, last) \
	size_t argc_ = 1; \
	va_list ap_; \
	va_start(ap_, last); \
	while (va_arg(ap_, char *)) \
		argc_++; \
	va_end(ap_); \
	char *argv[argc_ + 1]; \
	argv[0] = (char *)(first); \
	va_start(ap_, last); \
	for (size_t i_ = 1; i_ <= argc_; i_++) \
		argv[i_] = va_arg(ap_, char *);

EXPORT int execl(const char *path, const char *arg, ...)
{
	COLLECT_ARGS(argv, arg, arg)
	va_end(ap_);
	return execve(path, argv, environ);
}

EXPORT int execlp(const char *file, const char *arg, ...)
{
	COLLECT_ARGS(argv, arg, arg)
	va_end(ap_);
	return execvpe(file, argv, environ);
}

EXPORT int execle(const char *path, const char *arg, ...)
{
	COLLECT_ARGS(argv, arg, arg)
	char **envp = va_arg(ap_, char **);
	va_end(ap_);
	return execve(path, argv, envp);
}

/* The slot that fork has reserved for the child that it is about to make. */
static __thread struct rmr_slot *childs_slot __attribute__((tls_model("initial-exec")));

/* In a child only the forking thread lives: its queues start empty. This runs as the
 * first fork handler, so that the others, and children that the C library makes
 * itself, as daemon does, find everything in place. */
static void become_child(void)
{
	memset(buckets, 0, sizeof buckets);
	memset(semaphores, 0, sizeof semaphores);
	atomic_store(&lock_waiters, 0);
	atomic_store(&threads, 1);
	me = childs_slot ? childs_slot : new_slot(getpid(), 0);
	childs_slot = NULL;
	detached = false;
	pays = false;
	spin_locks_held = 0;
	atomic_store(&me->pid, getpid());
	atomic_store(&me->tid, gettid_now());
	pthread_setspecific(exit_key, me);
}

/* say_started gives a reserved slot to a child, which may have done so itself. */
static void say_started(struct rmr_slot *slot, pid_t child)
{
	int32_t reserved = -1;
	atomic_compare_exchange_strong(&slot->pid, &reserved, child);
}

EXPORT pid_t fork(void)
{
	if (!me)
		return real(fork)();
	struct rmr_slot *slot = new_slot(-1, 0);
	touch();
	childs_slot = slot;
	spin_locks_held++; /* the C library's own, while it runs the fork handlers */
	pid_t pid = real(fork)();
	if (pid == 0)
		return 0;
	spin_locks_held--;
	childs_slot = NULL;
	if (pid > 0)
		say_started(slot, pid);
	else if (disown(slot, -1))
		free_slot(slot);
	return pid;
}

/* A vfork child runs on its parent's memory, slot included; fork serves as well. */
EXPORT pid_t vfork(void)
{
	return fork();
}

typedef int spawn_fn(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const *, char *const *);

static int spawn_managed(spawn_fn *spawn, pid_t *pid, const char *file, const posix_spawn_file_actions_t *fa,
			 const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
	pid_t child = -1;
	struct rmr_slot *slot = new_slot(-1, 0);
	int r = WITH_ENV(envp, slot, spawn(&child, file, fa, attr, argv, env_));
	if (r == 0) {
		say_started(slot, child);
		if (pid)
			*pid = child;
	} else if (disown(slot, -1)) {
		free_slot(slot);
	}
	return r;
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *fa, const posix_spawnattr_t *attr,
		       char *const argv[], char *const envp[])
{
	if (!me)
		return real(posix_spawn)(pid, path, fa, attr, argv, envp);
	return spawn_managed(real_posix_spawn_p ? real_posix_spawn_p : (load_posix_spawn(), real_posix_spawn_p), pid, path, fa, attr, argv, envp);
}

EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *fa, const posix_spawnattr_t *attr,
			char *const argv[], char *const envp[])
{
	if (!me)
		return real(posix_spawnp)(pid, file, fa, attr, argv, envp);
	return spawn_managed(real_posix_spawnp_p ? real_posix_spawnp_p : (load_posix_spawnp(), real_posix_spawnp_p), pid, file, fa, attr, argv, envp);
}

/* glibc's own waits inside where no wrapper sees it. */
EXPORT int system(const char *command)
{
	int status;
	pid_t pid;
	if (!command)
		return 1;
	char *argv[] = {"sh", "-c", (char *)command, NULL};
	if (posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ))
		return -1;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return status;
}

/* Streams of popen and the shells at their other ends. */
struct pipe_stream {
	struct pipe_stream *next;
	FILE *f;
	pid_t pid;
};
static struct pipe_stream *pipe_streams;
static spin_t pipe_streams_lock;

/* As with system. */
EXPORT FILE *popen(const char *command, const char *mode)
{
	bool reads = strchr(mode, 'r') != NULL;
	int fds[2], childs = reads ? 1 : 0, ours = !childs;
	struct pipe_stream *s = malloc(sizeof *s);
	char *argv[] = {"sh", "-c", (char *)command, NULL};
	posix_spawn_file_actions_t fa;
	if (!s || pipe2(fds, O_CLOEXEC)) {
		free(s);
		return NULL;
	}
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, fds[childs], childs);
	int r = posix_spawn(&s->pid, "/bin/sh", &fa, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	close(fds[childs]);
	s->f = r ? NULL : fdopen(fds[ours], reads ? "r" : "w");
	if (!s->f) {
		close(fds[ours]);
		free(s);
		errno = r ? r : errno;
		return NULL;
	}
	if (!strchr(mode, 'e'))
		fcntl(fds[ours], F_SETFD, 0);
	FILE *f = s->f;
	spin_lock(&pipe_streams_lock);
	s->next = pipe_streams;
	pipe_streams = s;
	spin_unlock(&pipe_streams_lock);
	return f;
}

EXPORT int pclose(FILE *f)
{
	struct pipe_stream *found = NULL;
	spin_lock(&pipe_streams_lock);
	for (struct pipe_stream **p = &pipe_streams; *p && !found; p = &(*p)->next)
		if ((*p)->f == f) {
			found = *p;
			*p = found->next;
			break;
		}
	spin_unlock(&pipe_streams_lock);
	fclose(f);
	if (!found) {
		errno = ECHILD;
		return -1;
	}
	int status = -1;
	pid_t pid = found->pid, r;
	free(found);
	while ((r = waitpid(pid, &status, 0)) < 0 && errno == EINTR)
		;
	return r < 0 ? -1 : status;
}

/* A dead child's threads are taken out of the count by whoever collects it. */
static void collected(pid_t pid)
{
	if (C && pid > 0)
		free_process(pid, NULL);
}

EXPORT pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
	int st = 0;
	if (!C)
		return real(wait4)(pid, status, options, usage);
	pid_t r = real(wait4)(pid, &st, options | WNOHANG, usage);
	if (r == 0 && !(options & WNOHANG)) {
		pthread_testcancel();
		if (counted())
			r = IN_KERNEL(RMR_WHY_CHILD, pid, real(wait4)(pid, &st, options, usage));
		else
			r = real(wait4)(pid, &st, options, usage);
	}
	if (r > 0 && (WIFEXITED(st) || WIFSIGNALED(st)))
		collected(r);
	if (status)
		*status = st;
	return r;
}

EXPORT pid_t waitpid(pid_t pid, int *status, int options)
{
	return wait4(pid, status, options, NULL);
}

EXPORT pid_t wait(int *status)
{
	return wait4(-1, status, 0, NULL);
}

EXPORT pid_t wait3(int *status, int options, struct rusage *usage)
{
	return wait4(-1, status, options, usage);
}

static int blocking_waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
	return IN_KERNEL(RMR_WHY_CHILD, id, real(waitid)(type, id, info, options));
}

EXPORT int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
	siginfo_t own;
	if (!C)
		return real(waitid)(type, id, info, options);
	if (!info)
		info = &own;
	info->si_pid = 0;
	int r = real(waitid)(type, id, info, options | WNOHANG);
	if (r == 0 && info->si_pid == 0 && !(options & WNOHANG)) {
		pthread_testcancel();
		r = counted() ? blocking_waitid(type, id, info, options) : real(waitid)(type, id, info, options);
	}
	if (r == 0 && info->si_pid && !(options & WNOWAIT) && info->si_code != CLD_STOPPED && info->si_code != CLD_CONTINUED)
		collected(info->si_pid);
	return r;
}

/* A process on its way out counts as running until it has been collected, so that
 * no time passes between its end and its parent's knowledge of it. The driver
 * collects those that nobody waits for; saying so here spares it the search. */
__attribute__((destructor)) static void fini(void)
{
	uint32_t running = RMR_RUNNING;
	if (!me)
		return;
	touch_signal(); /* of the child to its parent */
	atomic_compare_exchange_strong(&me->state, &running, RMR_EXITING);
	wake_driver();
}

EXPORT __attribute__((noreturn)) void _exit(int status)
{
	fini();
	real(_exit)(status);
	__builtin_unreachable();
}

EXPORT __attribute__((noreturn)) void _Exit(int status)
{
	_exit(status);
}

static void refuse(const char *path, const char *why)
{
	dprintf(2, "rmreplay: clock %s: %s\n", path, why);
	syscall(SYS_exit_group, 127);
}

static struct rmr_clock *map_clock(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		refuse(path, strerror(errno));
	struct stat st;
	if (fstat(fd, &st) || st.st_size < (off_t)offsetof(struct rmr_clock, now))
		refuse(path, "not a clock file");
	struct rmr_clock *c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (c == MAP_FAILED)
		refuse(path, strerror(errno));
	real(close)(fd);
	if (c->magic != RMR_ABI_MAGIC)
		refuse(path, "not a clock file");
	if (c->version != RMR_ABI_VERSION || st.st_size != (off_t)sizeof *c || c->slots != RMR_SLOTS || c->slot_size != sizeof(struct rmr_slot))
		refuse(path, "made by another version of rmreplay (ABI mismatch); run both from one build");
	return c;
}

/* adopt takes the slot that was reserved for this process, or that it had before
 * exec; NULL where there is none. */
static struct rmr_slot *adopt(struct rmr_clock *c, const char *var)
{
	char *end;
	if (!var)
		return NULL;
	unsigned long i = strtoul(var, &end, 10);
	if (*end || i >= RMR_SLOTS)
		return NULL;
	struct rmr_slot *s = &c->slot[i];
	int32_t owner = atomic_load(&s->pid);
	if (atomic_load(&s->state) != RMR_RUNNING || (owner != -1 && owner != getpid()))
		return NULL;
	return s;
}

__attribute__((constructor)) static void init(void)
{
	const char *path = value_of(RMR_ENV_CLOCK);
	for (void (**load)(void) = __start_rmr_loaders; load < __stop_rmr_loaders; load++)
		(*load)();
	if (!path)
		return;
	struct rmr_clock *c = map_clock(path);
	struct rmr_slot *s = adopt(c, value_of(RMR_ENV_SLOT));
	pays = value_of(RMR_ENV_PAYS) != NULL;
	remove_variable(RMR_ENV_SLOT);
	remove_variable(RMR_ENV_PAYS);
	remember_environment();
	wake_signal = SIGRTMIN + 5;
	struct sigaction sa = {.sa_handler = on_wake_signal, .sa_flags = SA_RESTART};
	sigaction(wake_signal, &sa, NULL);
	pthread_key_create(&exit_key, thread_exit);
	pthread_atfork(NULL, NULL, become_child);

	C = c;
	atomic_store(&threads, 1);
	me = s ? s : new_slot(getpid(), gettid_now());
	atomic_store(&me->pid, getpid());
	atomic_store(&me->tid, gettid_now());
	pthread_setspecific(exit_key, me);
	free_process(getpid(), me); /* threads that exec has ended */
	restart_meter();
}
