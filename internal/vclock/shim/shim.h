/*
 * Declarations that the files of the preload library share. The comment in clock.c explains how
 * the library works. Nothing that is declared here is visible outside the library.
 */
#ifndef RMR_SHIM_H
#define RMR_SHIM_H

/* From glibc 2.38 on, _GNU_SOURCE gives strtol and sscanf of C23, which older releases lack. */
#include <features.h>
#undef __GLIBC_USE_C2X_STRTOL
#define __GLIBC_USE_C2X_STRTOL 0
#undef __GLIBC_USE_C23_STRTOL
#define __GLIBC_USE_C23_STRTOL 0

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
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "abi.h"

#define EXPORT __attribute__((visibility("default")))
#define NS_PER_S 1000000000LL
#define OF_THREAD __attribute__((tls_model("initial-exec")))

/*
 * The library must run with the C library of every replayed Slurm, from glibc 2.28 (RHEL 8) on.
 * glibc 2.32 and 2.34 gave these functions new versions when they moved from libpthread and libdl
 * into libc. The library asks for their first versions, which every glibc has. TestLibraryFloor
 * finds functions that are too new and missing in this list.
 */
#if defined __x86_64__
#define FIRST_VERSION "GLIBC_2.2.5"
#elif defined __aarch64__ || defined __powerpc64__
#define FIRST_VERSION "GLIBC_2.17"
#else
#error "the first version of glibc for this architecture is not known (want it here, as FIRST_VERSION)"
#endif
#define FIRST(name) __asm__(".symver " #name "," #name "@" FIRST_VERSION);
FIRST(dlsym)
FIRST(pthread_attr_getstacksize)
FIRST(pthread_attr_setstacksize)
FIRST(pthread_condattr_getpshared)
FIRST(pthread_key_create)
FIRST(pthread_mutexattr_getpshared)
FIRST(pthread_mutexattr_init)
FIRST(pthread_mutexattr_settype)
FIRST(pthread_rwlockattr_getpshared)
FIRST(pthread_setspecific)
FIRST(pthread_sigmask)
FIRST(pthread_testcancel)
#if defined __x86_64__
__asm__(".symver pthread_setname_np,pthread_setname_np@GLIBC_2.12");
#else
FIRST(pthread_setname_np)
#endif

/* Without this line, the compiler assumes that any library may define a symbol of another file,
 * and looks the symbol up at run time. */
#pragma GCC visibility push(hidden)

/* ------------------------------------------------------------- real functions */

#define REAL(ret, name, ...) \
	static ret (*real_##name##_p)(__VA_ARGS__); \
	__attribute__((noinline)) static void load_##name(void) { \
		*(void **)&real_##name##_p = dlsym(RTLD_NEXT, #name); \
	} \
	__attribute__((noinline, cold)) static void find_##name(void) { \
		load_##name(); \
		if (!real_##name##_p) lack(#name); \
	} \
	__attribute__((used, section("rmr_loaders"))) static void (*loader_##name)(void) = load_##name;
#define real(name) (*({ if (__builtin_expect(!real_##name##_p, 0)) find_##name(); real_##name##_p; }))

/* lack ends the process because it called a function that its old C library does not have. */
__attribute__((noreturn)) void lack(const char *function);

/* Each file names the functions that it calls. The library looks all of them up at the start,
 * because a signal handler and the child of a threaded process must not call dlsym. An old C
 * library lacks some of them, but programs that were built for it do not call these. The check in
 * real() is for constructors of other libraries, which may run before this library's. */
extern void (*__start_rmr_loaders[])(void) __attribute__((visibility("hidden")));
extern void (*__stop_rmr_loaders[])(void) __attribute__((visibility("hidden")));

/* --------------------------------------------------------------- small things */

extern struct rmr_clock *C; /* NULL in a process that is not managed */
extern __thread struct rmr_slot *me OF_THREAD;
extern pthread_key_t exit_key; /* its destructor runs when a thread ends, however it ends */
extern int wake_signal;        /* ends a timed wait in the kernel */

static inline long futex(_Atomic uint32_t *word, int op, uint32_t v)
{
	return syscall(SYS_futex, word, op, v, NULL, NULL, 0);
}

static inline pid_t gettid_now(void)
{
	return (pid_t)syscall(SYS_gettid);
}

/* status_of is fstat, which glibc exports only since 2.33. */
static inline int status_of(int fd, struct stat *st)
{
	return (int)syscall(SYS_fstat, fd, st);
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

/* deadline_in returns the virtual instant ns nanoseconds from now; RMR_NEVER on overflow. */
static inline int64_t deadline_in(int64_t ns)
{
	int64_t d;
	return ns == RMR_NEVER || __builtin_add_overflow(now(), ns, &d) ? RMR_NEVER : d;
}

/* A coarse thread is a thread that may work late. It is recognized by the name that it gives
 * itself. For it, time() advances in steps of coarse_step, and a wait for a condition with a time
 * limit ends at a step. */
extern __thread int64_t coarse_step OF_THREAD; /* virtual ns; 0 for all other threads */
void choose_coarse(const char *name_and_seconds);

static inline int64_t coarse_floor(int64_t ns)
{
	return __builtin_expect(coarse_step, 0) ? ns - ns % coarse_step : ns;
}

static inline int64_t coarse_ceiling(int64_t ns)
{
	if (__builtin_expect(coarse_step, 0) && ns < RMR_NEVER - coarse_step)
		return coarse_floor(ns + coarse_step - 1);
	return ns;
}

/* touch must be called before every call that can wake a thread in the kernel. */
static inline void touch(void)
{
	if (C)
		atomic_fetch_add(&C->epoch, 1);
}

/* A signal also reaches threads that wait in their slots: the driver looks at all of them when
 * `signals` has changed. touch_signal changes it before the epoch, because the new epoch makes the
 * driver look. */
static inline void touch_signal(void)
{
	if (C) {
		atomic_fetch_add(&C->signals, 1);
		atomic_fetch_add(&C->epoch, 1);
	}
}

/* --------------------------------------------------------- the clock: clock.c */

void wake_driver(void);

/* Set when the calling thread ended its own wait by advancing the clock. */
extern __thread bool woken_by_self OF_THREAD;

/* make_ready counts the waiting thread of s in busy, and appends it to the order of turns. It
 * returns false if the thread no longer waits in state from. */
bool make_ready(struct rmr_slot *s, uint32_t from);

/* await_turn sleeps until the calling thread has the turn. */
void await_turn(void);

/* A thread that the kernel has woken calls resume, which waits for the thread's turn. resume
 * returns false if a thread or the clock ended the wait before. */
bool resume(uint32_t from);

/* yield_turn lets all other runnable threads run. It is for a thread that repeatedly checks for an
 * action of another thread. */
void yield_turn(void);

/* await_others_asleep returns when all other managed threads sleep. A signal that is sent
 * afterwards ends the wait of a thread that has begun to wait. */
void await_others_asleep(void);

/* idle stops counting the thread of s as running, and gives its turn to the next thread. The last
 * thread advances the clock. */
void idle(struct rmr_slot *s);

/* leave_turn gives the turn of s, if s has it, to the next thread. */
void leave_turn(struct rmr_slot *s);

struct rmr_slot *new_slot(pid_t pid, pid_t tid);

/* disown takes a slot from process pid. Only the caller that succeeds may free the slot. */
bool disown(struct rmr_slot *s, pid_t pid);
void free_slot(struct rmr_slot *s);

/* free_process frees the slots that a dead process left, except keep. */
void free_process(pid_t pid, struct rmr_slot *keep);

extern __thread char *wait_frame OF_THREAD; /* where the stack was in the last wait */

/* in_handler reports whether code with this frame runs in a signal handler that interrupted the
 * thread's wait. */
bool in_handler(const char *frame);

/* counted reports whether the calling thread has a slot and counts as running. A thread does not
 * count in a signal handler that interrupted one of its waits: the library leaves the handler's
 * own waits to the kernel. A handler may also jump out of the wait, as shells do: then the wait
 * has ended. */
static inline bool counted(void)
{
	if (!me)
		return false;
	uint32_t st = atomic_load(&me->state);
	if (__builtin_expect(st != RMR_RUNNING && st != RMR_EXITING, 0)) {
		if (in_handler(__builtin_frame_address(0)))
			return false;
		resume(st);
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

/* slot_prepare sets what the calling thread waits for. slot_wait then sleeps until another thread
 * or the clock has woken the calling thread and this thread has the turn. It returns false if a
 * signal handler ended the wait. */
void slot_prepare(uint32_t why, const volatile void *object, int64_t deadline);
bool slot_wait(enum ends ends);

/* A thread calls kernel_enter before it sleeps in the kernel and kernel_leave afterwards.
 * Both return false if the clock has ended the wait. */
bool kernel_enter(uint32_t why, uint64_t object, int64_t deadline);
bool kernel_leave(void);
void abandon_kernel(void *unused);

/* IN_KERNEL makes a call that sleeps in the kernel and may be cancelled there. */
#define IN_KERNEL(why, object, call) \
	({ \
		kernel_enter(why, (uint64_t)(object), RMR_NEVER); \
		__typeof__(call) got_; \
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

/* ----------------------------------- CPU time that takes virtual time: charge.c */

extern bool charged; /* whether this process is charged for CPU time */

/* The CPU time for which the calling thread has not been charged. */
struct cpu_use {
	int64_t read;      /* its CPU clock when the library last read it, ns */
	int64_t uncharged; /* CPU ns before `read` for which the thread was not charged */
	uint64_t since;    /* ticks at which uncharged was 0 if the thread has run ever since */
	bool has_asked;    /* it wrote to a pipe and has not waited since: see charge_output */
};
extern __thread struct cpu_use cpu_use OF_THREAD;

/* The number of spin locks that the calling thread holds. It matters in a signal handler: a thread
 * that waits for such a lock counts as running, so virtual time stands still. */
extern __thread int spin_locks_held OF_THREAD;

/* The CPU time, in ns, that a thread may use before it is charged. It is short before reads of the
 * clock, because daemons time their own work. It is long after a write to a pipe: a virtual
 * machine's CPU clock also counts the time that its host took, which can be several milliseconds
 * at once. Counters of common processors tick at 2 to 3 GHz; with another rate the charge only
 * comes earlier or later. */
#define TICKS_PER_NS 2
enum { AT_CLOCK = 20 * 1000, AT_CALL = 100 * 1000, AFTER_ASKING = 10 * 1000 * 1000 };

uint64_t ticks_elsewhere(void);

static inline uint64_t ticks(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	return ticks_elsewhere();
#endif
}

/* read_cpu_time reads the thread's CPU clock. The CPU time since the last reading becomes
 * uncharged time if add is set; otherwise it is never charged. */
void read_cpu_time(bool add);

/* count_cpu_time comes before a wait: it records the computing up to the wait. */
static inline void count_cpu_time(void)
{
	if (__builtin_expect(charged, 0))
		read_cpu_time(true);
}

/* skip_cpu_time comes after a wait: it leaves out the CPU time of the wait. */
static inline void skip_cpu_time(void)
{
	if (__builtin_expect(charged, 0))
		read_cpu_time(false);
}

/* charge_all charges the calling thread for its uncharged CPU time, if this is at least `least`
 * ns. */
void charge_all(int64_t least);

/* charge charges the calling thread if it may have used `least` ns of CPU time since the last
 * charge. The time stamp counter decides this without a system call. */
static inline __attribute__((always_inline)) void charge(int64_t least)
{
	if (__builtin_expect(charged, 0) && ticks() - cpu_use.since >= (uint64_t)least * TICKS_PER_NS)
		charge_all(least / 2);
}

/* ------------------------------------------------------------ queues: queue.c */

/* A thread that waits in its slot for an object of its own process. The struct lies on the
 * thread's stack. It is in the queue of its bucket until woken is set. From then on, no other
 * thread touches the struct or the object. */
struct waiter {
	struct waiter *next;
	const volatile void *key;
	struct rmr_slot *slot;
	_Atomic bool woken;
};

typedef _Atomic int32_t spin_t;

/* Waiters for locks, condition variables and joins, by the address of the object. The queues are
 * outside the objects: owners may free an object as soon as its last waiter is woken, and a forked
 * child has copies of the objects. */
#define BUCKETS 256
struct bucket {
	spin_t lock;
	_Atomic int32_t waiters; /* so that an unlock without waiters costs one load */
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

/* A wait in a queue. However the wait ends, it must leave the queue. */
struct lock_wait {
	struct bucket *table;
	struct waiter waiter;
};

bool leave_queue(struct lock_wait *l);
void cancel_lock_wait(void *arg);

/* refuse_shared logs that the function cannot make an object for several processes, and returns
 * the function's error. */
int refuse_shared(const char *function);

/* Whether the C library's structs have the layout that lock.c and stream.c expect. */
bool knows_locks(void);
bool knows_streams(void);

/* wait_for blocks until try(object) no longer returns EBUSY. */
int wait_for(struct bucket *table, const volatile void *object, uint32_t why, int (*try)(void *),
	     int64_t deadline, enum ends ends);

void wake_lock_waiters(struct bucket *table, const volatile void *object, bool all);

/* released wakes the waiters for a lock: the first, or all of them. */
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
extern _Atomic int32_t threads; /* how many threads of this process have slots */
void thread_exit(void *arg);

/* start_thread starts a managed thread for a managed caller, and stores its slot in *its_slot
 * unless its_slot is NULL. It returns the result of pthread_create. */
int start_thread(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *), void *arg,
		 struct rmr_slot **its_slot);

/* ----------------------------------------------------------- timers: timer.c */

bool keeps_timers(void); /* whether this process has a thread that keeps its timers */
void forget_timers(void);

/* forget_descriptors removes the timers of these descriptors, which are about to be closed. */
void forget_descriptors(int first, int last);

/* --------------------------------------------- peers and waits: links.c, net.c, poll.c */

/* An internet address of either family; the port is at the same place in both. */
union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_un un;
};

uint32_t ip4_of(const union address *a);
bool port_is_managed(uint16_t port_be);
int connect_linked(int fd, const struct sockaddr *addr, socklen_t len,
		   int (*call)(int, const struct sockaddr *, socklen_t));
bool is_stranger(int fd, const union address *peer);
bool outside(int fd);
void on_wake_signal(int sig);

/* How a call waits: not at all (or for the disk only), for the driver or a managed process,
 * or for an unmanaged peer. */
enum wait { NO_WAIT, MANAGED_WAIT, OUTSIDE_WAIT };

enum wait wait_for_events(int fd, short events, int flags);

/* How often in a row the calling thread found no input at a non-blocking descriptor. */
struct empty_reads {
	int fd;
	unsigned times;
};
extern __thread struct empty_reads empty_reads OF_THREAD;

/* wait_to_read waits for input, for at most timeout_ns of virtual time. */
void wait_to_read(int fd, int64_t timeout_ns);

#define WAITING_CALL(how, why, fd, call) \
	({ \
		enum wait how_ = (how); \
		if (how_ == MANAGED_WAIT) \
			pthread_testcancel(); \
		how_ == NO_WAIT ? (call) : \
		how_ == MANAGED_WAIT ? IN_KERNEL(why, fd, call) : OUTSIDE_CALL(fd, call); \
	})

/* Which process reads the output to a descriptor. */
enum reader { NO_READER, OTHER_READER, DRIVER };

enum reader reader_of(int fd);

/* wait_to_write returns how output of n bytes would wait now. */
enum wait wait_to_write(int fd, size_t n, int flags);

/* ------------------------------------------------------- processes: process.c */

const char *value_of(const char *name);
void remember_environment(const struct rmr_clock *c);
void become_child(void);

#pragma GCC visibility pop

#endif
