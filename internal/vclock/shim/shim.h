/*
 * What the files of the preload library share; the comment in clock.c says how it works.
 * Nothing that is declared here is visible outside the library.
 */
#ifndef RMR_SHIM_H
#define RMR_SHIM_H

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
#define OF_THREAD __attribute__((tls_model("initial-exec")))

/* Without this, what other files define is looked up as if any library could define it. */
#pragma GCC visibility push(hidden)

/* ------------------------------------------------------------- real functions */

#define REAL(ret, name, ...) \
	static ret (*real_##name##_p)(__VA_ARGS__); \
	__attribute__((noinline)) static void load_##name(void) { \
		*(void **)&real_##name##_p = dlsym(RTLD_NEXT, #name); \
		if (!real_##name##_p) _exit(127); \
	} \
	__attribute__((used, section("rmr_loaders"))) static void (*loader_##name)(void) = load_##name;
#define real(name) (*({ if (__builtin_expect(!real_##name##_p, 0)) load_##name(); real_##name##_p; }))

/* Each file names those that it calls. All of them are looked up at the start, since
 * dlsym is nothing for a signal handler or for the child of a threaded process; the check
 * in real() is for constructors of other libraries, which may run before ours. */
extern void (*__start_rmr_loaders[])(void) __attribute__((visibility("hidden")));
extern void (*__stop_rmr_loaders[])(void) __attribute__((visibility("hidden")));

/* --------------------------------------------------------------- small things */

extern struct rmr_clock *C; /* NULL in a process that is not managed */
extern __thread struct rmr_slot *me OF_THREAD;
extern pthread_key_t exit_key; /* its destructor runs when a thread ends, however it ends */
extern int wake_signal;        /* gets a thread out of a timed wait in the kernel */

static inline long futex(_Atomic uint32_t *word, int op, uint32_t v)
{
	return syscall(SYS_futex, word, op, v, NULL, NULL, 0);
}

static inline pid_t gettid_now(void)
{
	return (pid_t)syscall(SYS_gettid);
}

static inline int64_t ns_of(const struct timespec *ts)
{
	if (ts->tv_sec >= RMR_NEVER / NS_PER_S)
		return RMR_NEVER;
	return ts->tv_sec * NS_PER_S + ts->tv_nsec;
}

static inline struct timespec timespec_of(int64_t ns)
{
	return (struct timespec){ns / NS_PER_S, ns % NS_PER_S};
}

static inline int64_t now(void)
{
	return atomic_load(&C->now);
}

/* deadline_in returns the instant ns from now, RMR_NEVER where that overflows. */
static inline int64_t deadline_in(int64_t ns)
{
	int64_t d;
	return ns == RMR_NEVER || __builtin_add_overflow(now(), ns, &d) ? RMR_NEVER : d;
}

/* A coarse thread, known by the name that it gives itself, is one whose work can wait: time()
 * has steps of `grain` for it, and what it waits for with a time limit it gets at a step. */
extern __thread int64_t grain OF_THREAD; /* virtual ns; 0 for all other threads */
void choose_coarse(const char *name_and_seconds);

static inline int64_t coarse_floor(int64_t ns)
{
	return __builtin_expect(grain, 0) ? ns - ns % grain : ns;
}

static inline int64_t coarse_ceiling(int64_t ns)
{
	return __builtin_expect(grain, 0) && ns < RMR_NEVER - grain ? coarse_floor(ns + grain - 1) : ns;
}

/* Calls that can wake somebody in the kernel say so first. */
static inline void touch(void)
{
	if (C)
		atomic_fetch_add(&C->epoch, 1);
}

/* A signal reaches threads that wait in their slots, too: the driver looks at them
 * all when `signals` has moved. It moves before the epoch, which makes it look. */
static inline void touch_signal(void)
{
	if (C) {
		atomic_fetch_add(&C->signals, 1);
		atomic_fetch_add(&C->epoch, 1);
	}
}

/* --------------------------------------------------------- the clock: clock.c */

void wake_driver(void);

/* Set when the calling thread's own step of the clock has ended its wait. */
extern __thread bool woken_by_self OF_THREAD;

/* mark_running counts the waiting thread of s as running before it is woken;
 * false if somebody else was first. */
bool mark_running(struct rmr_slot *s, uint32_t from);

/* idle takes the calling thread out of the count; the last one moves the clock. */
void idle(void);

struct rmr_slot *new_slot(pid_t pid, pid_t tid);

/* disown takes a slot from pid; who wins that may free it, by free_slot. */
bool disown(struct rmr_slot *s, pid_t pid);
void free_slot(struct rmr_slot *s);

/* free_process frees what a dead process left, except keep. */
void free_process(pid_t pid, struct rmr_slot *keep);

extern __thread char *wait_frame OF_THREAD; /* where the stack was in the last wait */

/* counted reports whether the calling thread has a slot and counts as running. It does
 * not in a signal handler that has interrupted one of its waits; what a handler waits
 * for is left to the kernel. A handler may also jump out of the wait altogether, as
 * shells do: then the stack is shorter than it was in the wait. */
static inline bool counted(void)
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

/* What can end a wait in the slot besides a wake-up. */
enum ends {
	BY_NOTHING = 0,
	BY_CANCEL = 1,
	BY_SIGNAL = 2,     /* a handler without SA_RESTART */
	BY_ANY_SIGNAL = 6, /* any handler */
};

/* slot_prepare sets what the calling thread waits for, and slot_wait sleeps until somebody
 * has marked it as running: false if a signal handler has ended the wait. */
void slot_prepare(uint32_t why, const volatile void *object, int64_t deadline);
bool slot_wait(enum ends ends);

/* kernel_enter says that the calling thread is about to sleep in the kernel, and
 * kernel_leave that it is back; both return false if the clock has ended the wait. */
bool kernel_enter(uint32_t why, uint64_t object, int64_t deadline);
bool kernel_leave(void);
void abandon_kernel(void *unused);

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

/* -------------------------------------------- the price of computing: price.c */

extern bool pays; /* whether this process pays for its computing */

/* What the calling thread has computed and not paid for yet. */
struct meter {
	int64_t cpu;   /* its CPU clock when that was last read */
	int64_t debt;  /* CPU ns up to then */
	uint64_t from; /* ticks at which a thread without debt would have begun to run */
};
extern __thread struct meter meter OF_THREAD;

/* The spin locks that the calling thread holds, in case that a signal handler has
 * interrupted it: who waits for one of them keeps the clock from going on. */
extern __thread int spin_locks_held OF_THREAD;

/* How much a thread may compute before it pays: little where it looks at the clock,
 * since daemons time their own work. Counters of common processors tick at 2 to 3 GHz;
 * a faster or slower one only moves the moment of payment. */
#define TICKS_PER_NS 2
enum { AT_CLOCK = 20 * 1000, AT_CALL = 100 * 1000 };

uint64_t ticks_elsewhere(void);

static inline uint64_t ticks(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	return ticks_elsewhere();
#endif
}

/* read_meter reads the CPU clock, and with add puts what was used since then on the bill. */
void read_meter(bool add);

static inline void stop_meter(void)
{
	if (__builtin_expect(pays, 0))
		read_meter(true);
}

static inline void restart_meter(void)
{
	if (__builtin_expect(pays, 0))
		read_meter(false);
}

/* settle pays the debt if it is at least so many ns of CPU time. */
void settle(int64_t least);

/* pay settles if the calling thread can have computed for so many ns of CPU time. */
static inline __attribute__((always_inline)) void pay(int64_t least)
{
	if (__builtin_expect(pays, 0) && ticks() - meter.from >= (uint64_t)least * TICKS_PER_NS)
		settle(least / 2);
}

/* ------------------------------------------------------------ queues: queue.c */

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
	_Atomic int32_t waiters; /* so that an unlock for which nobody waits costs one load */
	struct waiter *head;
	struct ended *ended;
};

extern struct bucket buckets[BUCKETS];
extern struct bucket semaphores[BUCKETS]; /* apart: sem_post may be called by a signal handler */

static inline struct bucket *bucket_of(struct bucket *table, const volatile void *key)
{
	return &table[(uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15ULL >> 56];
}

void spin_lock(spin_t *l);
void spin_unlock(spin_t *l);
struct bucket *lock_bucket(struct bucket *table, const volatile void *key, sigset_t *old);
void unlock_bucket(struct bucket *table, struct bucket *b, const sigset_t *old);
void enqueue(struct bucket *b, struct waiter *w);
bool dequeue(struct bucket *b, struct waiter *w);
int wake_key(struct bucket *b, const volatile void *key, bool all);

/* A wait in a queue that its end, however it comes, has to take out of the queue. */
struct lock_wait {
	struct bucket *table;
	struct waiter waiter;
};

bool leave_queue(struct lock_wait *l);
void cancel_lock_wait(void *arg);

/* wait_for blocks until try(object) no longer says EBUSY. */
int wait_for(struct bucket *table, const volatile void *object, uint32_t why, int (*try)(void *), int64_t deadline, enum ends ends);

void wake_lock_waiters(struct bucket *table, const volatile void *object, bool all);

/* released wakes whoever waits for a lock: one thread, or all of them. */
static inline void released(struct bucket *table, const volatile void *object, bool all)
{
	if (!C)
		return;
	atomic_thread_fence(memory_order_seq_cst);
	if (__builtin_expect(atomic_load(&bucket_of(table, object)->waiters) != 0, 0))
		wake_lock_waiters(table, object, all);
}

/* ---------------------------------------------------------- threads: thread.c */

extern __thread bool detached OF_THREAD;
extern _Atomic int32_t threads; /* of this process that have slots */
void thread_exit(void *arg);

/* --------------------------------------------- peers and waits: net.c, poll.c */

/* An internet address of either family; the port is at the same place in both. */
union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_un un;
};

bool outside(int fd);
void on_wake_signal(int sig);

/* How a call waits: not at all (or for the disk only), for something managed, for the
 * outside. */
enum wait { NO_WAIT, MANAGED_WAIT, OUTSIDE_WAIT };

enum wait wait_for_events(int fd, short events, int flags);

/* How often the calling thread has asked a descriptor that does not block in vain. */
struct asked {
	int fd;
	unsigned times;
};
extern __thread struct asked in_vain OF_THREAD;

/* wait_to_read waits until there is something to read, or that much virtual time has passed. */
void wait_to_read(int fd, int64_t timeout_ns);

#define WAITING_CALL(how, why, fd, call) \
	({ \
		enum wait how_ = (how); \
		if (how_ == MANAGED_WAIT) \
			pthread_testcancel(); \
		how_ == NO_WAIT ? (call) : how_ == MANAGED_WAIT ? IN_KERNEL(why, fd, call) : OUTSIDE_CALL(fd, call); \
	})

/* Who is at the other end of a descriptor that is written. */
enum reader { NOBODY, SOMEBODY, DRIVER };

enum reader reader_of(int fd);

/* wait_to_write says how output of n bytes would wait now. */
enum wait wait_to_write(int fd, size_t n, int flags);

/* ------------------------------------------------------- processes: process.c */

const char *value_of(const char *name);
void remove_variable(const char *name);
void remember_environment(void);
void become_child(void);

#pragma GCC visibility pop

#endif
