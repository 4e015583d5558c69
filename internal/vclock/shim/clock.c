/*
 * The preload library that puts a process under virtual time.
 *
 * Every thread of a managed process owns a slot in shared memory (abi.h). The thread is running,
 * waiting in its slot, or waiting in the kernel; `busy` counts the running threads. Virtual time
 * stands still while busy > 0. The thread that takes busy to 0 advances the clock to the next
 * deadline in place. If threads in the kernel must be examined first, it wakes the driver, which
 * examines them.
 *
 * Two rules keep the count exact:
 *
 *  - A thread that wakes another thread in its slot first counts that thread as running. So no
 *    such wake-up is in flight while busy is 0. For this the library has its own wait queues for
 *    condition variables, locks and joins.
 *  - Whatever can wake a thread in the kernel (a write, a connection, a signal, an exit) raises
 *    `epoch` first. While epoch equals `verified`, every thread that waits in the kernel is
 *    asleep, and nothing is about to wake it.
 *
 * Only the thread that has the turn runs. So the order of the threads' actions does not depend on
 * the kernel's scheduler. A thread that waits gives its turn to the next thread:
 *
 *  - first to threads that other threads have woken or started (RMR_READY), in the order of these
 *    wake-ups;
 *  - then to threads that the kernel has woken (RMR_ARRIVED). When no thread has the turn, the
 *    driver waits until all other threads sleep. Then all threads that the kernel has woken are
 *    known, and they get the turn in the order of their slots.
 *
 * A wait for an unmanaged peer (a database, a name service) counts as running: the answer takes
 * real time, not virtual time.
 *
 * Where computing takes virtual time, a thread computes first and then waits in its slot for the
 * virtual time that the computing takes: see charge.c.
 */
#define _GNU_SOURCE
#include "shim.h"

struct rmr_clock *C;
__thread struct rmr_slot *me OF_THREAD;
__thread char *wait_frame OF_THREAD;

/* ------------------------------------------------------------------ the clock */

void wake_driver(void)
{
	atomic_fetch_add(&C->driver_word, 1);
	if (atomic_load(&C->driver_waiting))
		futex(&C->driver_word, FUTEX_WAKE, 1);
}

/* lock_clock returns false if another thread advances the clock at this moment. The lock's value
 * is its owner's thread id: the driver can then take the lock from a thread that was killed. */
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
	return atomic_load(&C->busy) == 0 && atomic_load(&C->turn) == 0 &&
	       atomic_load(&C->inbox) == 0 &&
	       atomic_load(&C->epoch) == atomic_load(&C->verified);
}

__thread bool woken_by_self OF_THREAD;

static uint32_t turn_of(const struct rmr_slot *s)
{
	return (uint32_t)(s - C->slot) + 1;
}

static uint64_t next_ticket(void)
{
	return atomic_fetch_add(&C->tickets, 1);
}

bool make_ready(struct rmr_slot *s, uint32_t from)
{
	if (atomic_load(&s->state) != from)
		return false;
	atomic_fetch_add(&C->busy, 1);
	atomic_store(&s->ticket, next_ticket());
	if (atomic_compare_exchange_strong(&s->state, &from, RMR_READY))
		return true;
	atomic_fetch_sub(&C->busy, 1);
	return false;
}

/* go_home moves the calling thread to the CPU that the driver has chosen for all managed threads.
 * Children and new threads inherit this CPU. */
static void go_home(void)
{
	static __thread uint32_t here OF_THREAD; /* the home at the last turn */
	uint32_t home = atomic_load_explicit(&C->home, memory_order_relaxed);
	uint64_t cpus[sizeof C->cpus / sizeof *C->cpus] = {0};
	if (__builtin_expect(home == here, 1))
		return;
	here = home;
	if (home != 0)
		cpus[(home - 1) / 64] |= 1ULL << (home - 1) % 64;
	else
		memcpy(cpus, C->cpus, sizeof cpus);
	syscall(SYS_sched_setaffinity, 0, sizeof cpus, cpus); /* may be forbidden */
}

void await_turn(void)
{
	uint32_t st;
	int saved = errno;
	while ((st = atomic_load(&me->state)) != RMR_RUNNING)
		futex(&me->state, FUTEX_WAIT, st);
	go_home();
	errno = saved;
}

bool resume(uint32_t from)
{
	touch(); /* the driver has to look */
	bool own = (from == RMR_SLOT || from == RMR_KERNEL) &&
		   atomic_compare_exchange_strong(&me->state, &from, RMR_ARRIVED);
	if (own && atomic_load(&C->turn) == 0)
		wake_driver();
	await_turn();
	return own;
}

/* pass_turn gives the turn, which the caller has, to the ready thread with the lowest ticket. It
 * returns false if no thread is ready. */
static bool pass_turn(void)
{
	for (;;) {
		struct rmr_slot *next = NULL;
		uint64_t lowest = UINT64_MAX;
		uint32_t ready = RMR_READY, used = atomic_load(&C->used);
		for (struct rmr_slot *s = C->slot; s < C->slot + used; s++) {
			if (atomic_load_explicit(&s->state, memory_order_acquire) != RMR_READY)
				continue;
			uint64_t ticket = atomic_load_explicit(&s->ticket, memory_order_relaxed);
			if (ticket < lowest) {
				lowest = ticket;
				next = s;
			}
		}
		if (!next)
			return false;
		atomic_store(&C->turn, turn_of(next));
		if (!atomic_compare_exchange_strong(&next->state, &ready, RMR_RUNNING))
			continue; /* its process was killed */
		if (next != me)
			futex(&next->state, FUTEX_WAKE, 1);
		return true;
	}
}

void leave_turn(struct rmr_slot *s)
{
	if (atomic_load(&C->turn) == turn_of(s) && !pass_turn())
		atomic_store(&C->turn, 0);
}

void yield_turn(void)
{
	enum { MOST_ALONE = 100 };
	static __thread unsigned alone OF_THREAD; /* how often in a row no other thread was ready */
	bool others = me && atomic_load(&C->turn) == turn_of(me) && atomic_load(&C->busy) > 1;
	if (others)
		alone = 0;
	else if (!me || atomic_load(&C->turn) != turn_of(me) || ++alone % MOST_ALONE != 0) {
		syscall(SYS_sched_yield);
		return;
	}
	wait_frame = __builtin_frame_address(0);
	if (others) {
		atomic_store(&me->ticket, next_ticket());
		atomic_store(&me->state, RMR_READY);
		pass_turn(); /* the caller itself is ready */
	} else {
		touch();
		atomic_store(&me->state, RMR_ARRIVED);
		idle(me);
	}
	await_turn();
}

void await_others_asleep(void)
{
	touch_signal();
	atomic_store(&me->state, RMR_ARRIVED);
	idle(me);
	await_turn();
}

/* advance_in_place advances the clock to the next deadline and wakes the thread that is due then.
 * If several threads are due, it wakes the one with the first slot. The others follow one by one,
 * each when all threads wait again. So their order does not depend on the kernel's scheduler.
 * advance_in_place returns false if the driver must examine threads first. */
static bool advance_in_place(void)
{
	struct rmr_slot *due = NULL;
	uint32_t from = RMR_FREE, used = atomic_load(&C->used);
	int64_t next = RMR_NEVER;

	if (!lock_clock())
		return false;
	/* This is checked before and after the search. Otherwise a thread that runs during the search
	 * could set a deadline in a slot that the search has passed, and wait again before the search
	 * ends. */
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
			due = s;
			from = st;
		}
	}
	if (!due || next >= atomic_load(&C->limit) || !nothing_in_flight()) {
		unlock_clock();
		return false;
	}
	if (next > now())
		atomic_store(&C->now, next);
	atomic_fetch_add(&C->steps, 1);
	uint32_t state = from;
	atomic_fetch_add(&C->busy, 1);
	atomic_store(&C->turn, turn_of(due));
	bool marked = atomic_compare_exchange_strong(&due->state, &state, RMR_RUNNING);
	if (!marked) {
		atomic_store(&C->turn, 0);
		atomic_fetch_sub(&C->busy, 1);
	}
	unlock_clock();
	if (!marked)
		return false;
	if (due == me)
		woken_by_self = true;
	else if (from == RMR_SLOT)
		futex(&due->state, FUTEX_WAKE, 1);
	else
		syscall(SYS_tgkill, atomic_load(&due->pid), atomic_load(&due->tid), wake_signal);
	return true;
}

void idle(struct rmr_slot *s)
{
	bool had_turn = atomic_load(&C->turn) == turn_of(s);
	bool last = atomic_fetch_sub(&C->busy, 1) == 1;
	if (had_turn) {
		if (!last && pass_turn())
			return;
		atomic_store(&C->turn, 0);
	} else if (!last) {
		return;
	}
	if (!last || !nothing_in_flight() || !advance_in_place())
		wake_driver();
}

/* ------------------------------------------------------------------ the slots */

struct rmr_slot *new_slot(pid_t pid, pid_t tid)
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
		atomic_store(&s->ticket, next_ticket());
		atomic_store(&s->state, RMR_READY);
		uint32_t used = atomic_load(&C->used);
		while (used < i + 1 && !atomic_compare_exchange_weak(&C->used, &used, i + 1))
			;
		return s;
	}
	dprintf(2, "rmreplay: more than %d managed threads\n", RMR_SLOTS);
	abort();
}

/* Two processes may want to free a slot at the same time. Only the process that clears the owner's
 * id may free it, because the slot may get a new owner at once. */
bool disown(struct rmr_slot *s, pid_t pid)
{
	return atomic_compare_exchange_strong(&s->pid, &pid, 0);
}

/* free_slot frees a slot that the caller has taken from its owner by disown. */
void free_slot(struct rmr_slot *s)
{
	uint32_t st = atomic_exchange(&s->state, RMR_FREE);
	if (st == RMR_RUNNING || st == RMR_READY || st == RMR_EXITING)
		idle(s);
}

void free_process(pid_t pid, struct rmr_slot *keep)
{
	uint32_t used = atomic_load(&C->used);
	for (uint32_t i = 0; i < used; i++)
		if (&C->slot[i] != keep && disown(&C->slot[i], pid))
			free_slot(&C->slot[i]);
}

/* ---------------------------------------------------------------------- waits */

REAL(int, setcontext, const ucontext_t *)
REAL(int, swapcontext, ucontext_t *, const ucontext_t *)

/* A handler runs further down on the stack that it interrupted, or on the stack that the thread
 * has set aside for signals. After a jump out of the handler, the stack is shorter than in the
 * wait, or it is the ordinary stack again. */
bool in_handler(const char *frame)
{
	stack_t aside = {0};
	syscall(SYS_sigaltstack, NULL, &aside);
	bool on_it = aside.ss_flags & SS_ONSTACK;
	bool waited_on_it = !(aside.ss_flags & SS_DISABLE) && wait_frame >= (char *)aside.ss_sp &&
			    wait_frame < (char *)aside.ss_sp + aside.ss_size;
	return on_it != waited_on_it ? on_it : frame <= wait_frame;
}

/* Other contexts have other stacks, so in_handler cannot compare their addresses with the stack of
 * the wait. Therefore a handler that switches to another context leaves the wait that it
 * interrupted. */
static void leave_wait(void)
{
	uint32_t st = me ? atomic_load(&me->state) : RMR_RUNNING;
	if (st != RMR_RUNNING && st != RMR_EXITING)
		resume(st);
}

EXPORT int setcontext(const ucontext_t *to)
{
	leave_wait();
	return real(setcontext)(to);
}

EXPORT int swapcontext(ucontext_t *from, const ucontext_t *to)
{
	leave_wait();
	return real(swapcontext)(from, to);
}

static void leave_slot(void *unused)
{
	(void)unused;
	resume(RMR_SLOT);
}

/* The C library declares that syscall does not throw. This variant may: a cancelled thread unwinds
 * out of it, so the compiler must keep its callers' clean-up code. */
long cancellable_syscall(long number, ...) __asm__("syscall");

/* sleep_in_slot sleeps until the slot's state changes, or until an event of `ends` happens. After
 * a handler with SA_RESTART, the kernel restarts a futex wait without a timeout, but never a wait
 * with a timeout. This is a separate function: cancellation can occur at any of its instructions,
 * and callers clean up only after calls. */
__attribute__((noinline)) static bool sleep_in_slot(enum ends ends)
{
	static const struct timespec forever = {1LL << 32, 0};
	int type = PTHREAD_CANCEL_DEFERRED;
	/* As in glibc's own blocking calls: deferred cancellation acts here. */
	if (ends & BY_CANCEL)
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	const struct timespec *timeout = ends == BY_NOTHING || !(ends & 4) ? NULL : &forever;
	long r = cancellable_syscall(SYS_futex, &me->state, FUTEX_WAIT, RMR_SLOT, timeout, NULL, 0);
	bool interrupted = r == -1 && errno == EINTR;
	if (ends & BY_CANCEL)
		pthread_setcanceltype(type, NULL);
	return !(interrupted && (ends & BY_SIGNAL));
}

/* The caller must have called slot_prepare, and must not hold a lock of this library. */
bool slot_wait(enum ends ends)
{
	bool woken = true;
	int saved = errno;
	count_cpu_time();
	idle(me);
	pthread_cleanup_push(leave_slot, NULL);
	while (woken && atomic_load(&me->state) == RMR_SLOT)
		if (!sleep_in_slot(ends) && resume(RMR_SLOT))
			woken = false;
	pthread_cleanup_pop(0);
	await_turn();
	skip_cpu_time();
	errno = saved;
	return woken;
}

void slot_prepare(uint32_t why, const volatile void *object, int64_t deadline)
{
	atomic_store_explicit(&me->why, why, memory_order_relaxed);
	atomic_store_explicit(&me->object, (uint64_t)(uintptr_t)object, memory_order_relaxed);
	atomic_store_explicit(&me->deadline, deadline, memory_order_relaxed);
	wait_frame = __builtin_frame_address(0);
	atomic_store(&me->state, RMR_SLOT);
}

/* The driver must see the calling thread asleep before virtual time advances. The thread may still
 * find that it need not sleep, and a signal that arrives before it sleeps does not end its wait. */
bool kernel_enter(uint32_t why, uint64_t object, int64_t deadline)
{
	int saved = errno;
	count_cpu_time();
	wait_frame = __builtin_frame_address(0);
	woken_by_self = false;
	if (why == RMR_WHY_WRITE)
		atomic_fetch_add(&C->writers, 1);
	touch();
	atomic_store_explicit(&me->why, why, memory_order_relaxed);
	atomic_store_explicit(&me->object, object, memory_order_relaxed);
	atomic_store_explicit(&me->deadline, deadline, memory_order_relaxed);
	atomic_store(&me->state, RMR_KERNEL);
	idle(me);
	errno = saved;
	return atomic_load(&me->state) == RMR_KERNEL;
}

bool kernel_leave(void)
{
	int saved = errno;
	bool own = resume(RMR_KERNEL);
	if (atomic_load_explicit(&me->why, memory_order_relaxed) == RMR_WHY_WRITE)
		atomic_fetch_sub(&C->writers, 1);
	touch();
	atomic_store_explicit(&me->deadline, RMR_NEVER, memory_order_relaxed);
	atomic_store_explicit(&me->why, RMR_WHY_NONE, memory_order_relaxed);
	skip_cpu_time();
	errno = saved;
	return own;
}

void abandon_kernel(void *unused)
{
	(void)unused;
	kernel_leave();
}
