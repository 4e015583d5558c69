/* Timers of timer_create(2) and timerfd_create(2), and the timer of setitimer(2) and alarm(2).
 *
 * One thread of the library keeps all timers of the process. It waits in its slot until the first
 * timer expires, and then acts like the kernel: it sends a signal, starts a thread, or counts in a
 * descriptor. A thread that sets a timer also sets the deadline of that slot, so the library's
 * thread need not run then.
 *
 * A timer expires a nanosecond after its time. The clock stands still while a program handles the
 * expiry, and programs expect the clock to be past the timer's time, as in real time. slurmctld's
 * connection manager, for example, sets its timer to the same instant again and again until the
 * clock is past that instant (src/conmgr/delayed.c of Slurm). */
#define _GNU_SOURCE
#include "shim.h"

REAL(int, timer_create, clockid_t, struct sigevent *, timer_t *)
REAL(int, timer_settime, timer_t, int, const struct itimerspec *, struct itimerspec *)
REAL(int, timer_gettime, timer_t, struct itimerspec *)
REAL(int, timer_getoverrun, timer_t)
REAL(int, timer_delete, timer_t)
REAL(int, setitimer, __itimer_which_t, const struct itimerval *, struct itimerval *)
REAL(int, getitimer, __itimer_which_t, struct itimerval *)
REAL(int, timerfd_create, int, int)
REAL(int, timerfd_settime, int, int, const struct itimerspec *, struct itimerspec *)
REAL(int, timerfd_gettime, int, struct itimerspec *)
REAL(int, eventfd, unsigned, int)
REAL(int, ppoll, struct pollfd *, nfds_t, const struct timespec *, const sigset_t *)
REAL(ssize_t, read, int, void *, size_t)
REAL(ssize_t, write, int, const void *, size_t)

enum { LATE_NS = 1 };

struct timer {
	struct timer *next;
	struct sigevent event;
	pthread_attr_t attr; /* of the threads that SIGEV_THREAD starts */
	int64_t expires;     /* virtual ns; RMR_NEVER while disarmed */
	int64_t interval;    /* virtual ns; 0 if the timer expires once */
	int overruns;        /* expiries while the last signal was still pending */
	int fd;              /* of timerfd_create, or -1 */
};

static struct timer *timers;
static struct timer process_timer = { /* of setitimer and alarm */
	.event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM},
	.expires = RMR_NEVER,
	.fd = -1,
};
static _Atomic int descriptors; /* number of timers with a descriptor */
static struct rmr_slot *keeper; /* slot of the thread that keeps the timers, or NULL */
static spin_t timers_lock;

/* Signal handlers may set timers, so the lock also blocks all signals. */
static void lock_timers(sigset_t *old)
{
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, old);
	spin_lock(&timers_lock);
}

static void unlock_timers(const sigset_t *old)
{
	spin_unlock(&timers_lock);
	pthread_sigmask(SIG_SETMASK, old, NULL);
}

bool keeps_timers(void)
{
	return keeper != NULL;
}

/* A forked child has no timers. */
void forget_timers(void)
{
	timers = NULL;
	process_timer.next = NULL;
	process_timer.expires = RMR_NEVER;
	keeper = NULL;
	atomic_store(&descriptors, 0);
	atomic_store(&timers_lock, 0);
}

static struct timer *first_timer(void)
{
	struct timer *first = NULL;
	for (struct timer *t = timers; t; t = t->next)
		if (!first || t->expires < first->expires)
			first = t;
	return first;
}

static void add_timer(struct timer *t)
{
	struct timer **end = &timers;
	while (*end)
		end = &(*end)->next;
	t->next = NULL;
	*end = t;
}

/* find_timer returns the place of a timer in the list; NULL if the list lacks the timer. */
static struct timer **find_timer(const void *id)
{
	struct timer **p = &timers;
	while (*p && *p != id)
		p = &(*p)->next;
	return *p ? p : NULL;
}

/* -------------------------------------------------------------------- expiry */

struct notice {
	void (*call)(union sigval);
	union sigval value;
};

/* The thread blocks all signals, as the C library's own does. */
static void *notice_main(void *arg)
{
	struct notice n = *(struct notice *)arg;
	free(arg);
	n.call(n.value);
	return NULL;
}

static void start_notice(const struct timer *t)
{
	pthread_t thread;
	struct notice *n = malloc(sizeof *n);
	if (!n)
		return;
	*n = (struct notice){t->event.sigev_notify_function, t->event.sigev_value};
	if (pthread_create(&thread, &t->attr, notice_main, n))
		free(n);
}

/* A timer has one signal pending at most. The caller blocks all signals. */
static void send_signal(struct timer *t)
{
	siginfo_t info = {0};
	sigset_t pending;
	int signal = t->event.sigev_signo;
	if (sigpending(&pending) == 0 && sigismember(&pending, signal) == 1) {
		t->overruns++;
		return;
	}
	t->overruns = 0;
	info.si_signo = signal;
	info.si_code = SI_TIMER;
	info.si_value = t->event.sigev_value;
	touch_signal();
	if (t->event.sigev_notify == SIGEV_THREAD_ID)
		syscall(SYS_rt_tgsigqueueinfo, getpid(), t->event._sigev_un._tid, signal, &info);
	else
		syscall(SYS_rt_sigqueueinfo, getpid(), signal, &info);
}

static bool sends_signal(const struct timer *t)
{
	return t->event.sigev_notify == SIGEV_SIGNAL || t->event.sigev_notify == SIGEV_THREAD_ID;
}

static bool readable(int fd)
{
	static const struct timespec zero;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	return real(ppoll)(&p, 1, &zero, NULL) == 1 && p.revents & POLLIN;
}

static void expire(struct timer *t)
{
	t->expires = t->interval ? t->expires + t->interval : RMR_NEVER;
	if (t->fd >= 0) {
		uint64_t one = 1;
		touch();
		if (real(write)(t->fd, &one, sizeof one) < 0)
			t->expires = RMR_NEVER; /* the descriptor is no longer a timer's */
		return;
	}
	if (sends_signal(t))
		send_signal(t);
	else if (t->event.sigev_notify == SIGEV_THREAD)
		start_notice(t);
}

static void *keep_timers(void *unused)
{
	sigset_t old;
	(void)unused;
	pthread_setname_np(pthread_self(), "virtual-timers");
	for (;;) {
		struct timer *t;
		bool asleep = false; /* whether all other threads sleep: only then may signals be sent */
		lock_timers(&old);
		while ((t = first_timer()) && t->expires <= now()) {
			if (!asleep && sends_signal(t)) {
				unlock_timers(&old);
				await_others_asleep();
				asleep = true;
				lock_timers(&old);
				continue;
			}
			asleep = asleep && !sends_signal(t);
			expire(t);
		}
		slot_prepare(RMR_WHY_TIMER, t, t ? t->expires : RMR_NEVER);
		unlock_timers(&old);
		slot_wait(BY_NOTHING);
	}
	return NULL;
}

/* start_keeper starts the thread that keeps the timers, unless it runs. */
static bool start_keeper(void)
{
	pthread_t thread;
	pthread_attr_t attr;
	sigset_t all, old;
	if (keeper)
		return true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	start_thread(&thread, &attr, keep_timers, NULL, &keeper);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return keeper != NULL;
}

/* ----------------------------------------------------------- setting a timer */

static struct itimerspec time_left(const struct timer *t)
{
	struct itimerspec left = {.it_interval = timespec_of(t->interval)};
	if (t->expires != RMR_NEVER) {
		int64_t ns = t->expires - LATE_NS - now();
		left.it_value = timespec_of(ns > 0 ? ns : 1);
	}
	return left;
}

/* set_timer arms a timer, or disarms it if the time is zero. The caller holds the lock. */
static void set_timer(struct timer *t, bool absolute, int64_t time, int64_t interval)
{
	t->interval = interval;
	t->overruns = 0;
	if (time == 0)
		t->expires = RMR_NEVER;
	else if (absolute)
		t->expires = time < RMR_NEVER - LATE_NS ? time + LATE_NS : RMR_NEVER;
	else
		t->expires = deadline_in(time < RMR_NEVER - LATE_NS ? time + LATE_NS : RMR_NEVER);
	/* The keeper computes its deadline itself if it is awake. */
	atomic_store(&keeper->deadline, first_timer()->expires);
}

static bool valid(const struct timespec *ts)
{
	return ts->tv_sec >= 0 && ts->tv_nsec >= 0 && ts->tv_nsec < NS_PER_S;
}

EXPORT int timer_create(clockid_t clock, struct sigevent *event, timer_t *id)
{
	charge(AT_CALL);
	if (!counted() || clock < 0 || clock == CLOCK_PROCESS_CPUTIME_ID ||
	    clock == CLOCK_THREAD_CPUTIME_ID)
		return real(timer_create)(clock, event, id);
	struct timer *t = calloc(1, sizeof *t);
	if (!t || !start_keeper()) {
		free(t);
		errno = EAGAIN;
		return -1;
	}
	t->expires = RMR_NEVER;
	t->fd = -1;
	if (event)
		t->event = *event;
	else
		t->event = (struct sigevent){.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM,
					     .sigev_value.sival_ptr = t};
	pthread_attr_init(&t->attr);
	if (t->event.sigev_notify == SIGEV_THREAD && t->event.sigev_notify_attributes) {
		size_t stack;
		if (pthread_attr_getstacksize(t->event.sigev_notify_attributes, &stack) == 0)
			pthread_attr_setstacksize(&t->attr, stack);
	}
	pthread_attr_setdetachstate(&t->attr, PTHREAD_CREATE_DETACHED);
	sigset_t old;
	lock_timers(&old);
	add_timer(t);
	unlock_timers(&old);
	*id = t;
	return 0;
}

EXPORT int timer_settime(timer_t id, int flags, const struct itimerspec *v, struct itimerspec *before)
{
	sigset_t old;
	charge(AT_CALL);
	if (!C || !keeper)
		return real(timer_settime)(id, flags, v, before);
	lock_timers(&old);
	struct timer **p = find_timer(id);
	bool ours = p != NULL, good = valid(&v->it_value) && valid(&v->it_interval);
	if (ours && good) {
		if (before)
			*before = time_left(*p);
		set_timer(*p, flags & TIMER_ABSTIME, ns_of(&v->it_value), ns_of(&v->it_interval));
	}
	unlock_timers(&old);
	if (!ours)
		return real(timer_settime)(id, flags, v, before);
	if (good)
		return 0;
	errno = EINVAL;
	return -1;
}

EXPORT int timer_gettime(timer_t id, struct itimerspec *v)
{
	sigset_t old;
	charge(AT_CALL);
	if (!C || !keeper)
		return real(timer_gettime)(id, v);
	lock_timers(&old);
	struct timer **p = find_timer(id);
	bool ours = p != NULL;
	if (ours)
		*v = time_left(*p);
	unlock_timers(&old);
	return ours ? 0 : real(timer_gettime)(id, v);
}

EXPORT int timer_getoverrun(timer_t id)
{
	sigset_t old;
	if (!C || !keeper)
		return real(timer_getoverrun)(id);
	lock_timers(&old);
	struct timer **p = find_timer(id);
	int overruns = p ? (*p)->overruns : -1;
	unlock_timers(&old);
	return overruns >= 0 ? overruns : real(timer_getoverrun)(id);
}

EXPORT int timer_delete(timer_t id)
{
	sigset_t old;
	charge(AT_CALL);
	if (!C || !keeper)
		return real(timer_delete)(id);
	lock_timers(&old);
	struct timer **p = find_timer(id), *t = p ? *p : NULL;
	if (t)
		*p = t->next;
	unlock_timers(&old);
	if (!t)
		return real(timer_delete)(id);
	pthread_attr_destroy(&t->attr);
	free(t);
	return 0;
}

/* ------------------------------------------------------- setitimer and alarm */

static struct timeval timeval_of(const struct timespec *ts)
{
	/* Rounded up, as the kernel does: zero means disarmed. */
	int64_t us = (ns_of(ts) + 999) / 1000;
	return (struct timeval){us / 1000000, us % 1000000};
}

static struct itimerval process_time_left(void)
{
	struct itimerspec left = time_left(&process_timer);
	return (struct itimerval){timeval_of(&left.it_interval), timeval_of(&left.it_value)};
}

EXPORT int setitimer(__itimer_which_t which, const struct itimerval *v, struct itimerval *before)
{
	sigset_t old;
	charge(AT_CALL);
	if (which != ITIMER_REAL || !counted())
		return real(setitimer)(which, v, before);
	if (v->it_value.tv_sec < 0 || v->it_value.tv_usec < 0 || v->it_value.tv_usec >= 1000000 ||
	    v->it_interval.tv_sec < 0 || v->it_interval.tv_usec < 0 || v->it_interval.tv_usec >= 1000000) {
		errno = EINVAL;
		return -1;
	}
	if (!start_keeper()) {
		errno = ENOMEM;
		return -1;
	}
	struct timespec time = {v->it_value.tv_sec, v->it_value.tv_usec * 1000};
	struct timespec interval = {v->it_interval.tv_sec, v->it_interval.tv_usec * 1000};
	lock_timers(&old);
	if (!find_timer(&process_timer))
		add_timer(&process_timer);
	if (before)
		*before = process_time_left();
	set_timer(&process_timer, false, ns_of(&time), ns_of(&interval));
	unlock_timers(&old);
	return 0;
}

EXPORT int getitimer(__itimer_which_t which, struct itimerval *v)
{
	sigset_t old;
	if (which != ITIMER_REAL || !C)
		return real(getitimer)(which, v);
	lock_timers(&old);
	*v = process_time_left();
	unlock_timers(&old);
	return 0;
}

EXPORT unsigned alarm(unsigned seconds)
{
	struct itimerval before = {0}, v = {.it_value = {seconds, 0}};
	if (setitimer(ITIMER_REAL, &v, &before))
		return 0;
	/* Rounded up or down, but not to 0, which means that there was no alarm. */
	unsigned up = before.it_value.tv_usec >= 500000 ||
		      (before.it_value.tv_sec == 0 && before.it_value.tv_usec > 0);
	return (unsigned)before.it_value.tv_sec + up;
}

EXPORT useconds_t ualarm(useconds_t us, useconds_t interval)
{
	struct itimerval before = {0};
	struct itimerval v = {{interval / 1000000, interval % 1000000}, {us / 1000000, us % 1000000}};
	if (setitimer(ITIMER_REAL, &v, &before))
		return (useconds_t)-1;
	return (useconds_t)(before.it_value.tv_sec * 1000000 + before.it_value.tv_usec);
}

/* --------------------------------------------------------- timer descriptors */

/* A timer's descriptor is an eventfd(2), whose counter and reads work in the same way. The library
 * finds the timer only by the descriptor's number. So a copy of the descriptor, from dup or in a
 * child, stops counting when this process closes the number. */
static struct timer *find_descriptor(int fd)
{
	struct timer *t = timers;
	while (t && t->fd != fd)
		t = t->next;
	return fd >= 0 ? t : NULL;
}

/* forget_timer removes a timer that has a descriptor. The caller holds the lock. */
static void forget_timer(struct timer *t)
{
	*find_timer(t) = t->next;
	atomic_fetch_sub(&descriptors, 1);
	free(t);
}

EXPORT int timerfd_create(int clock, int flags)
{
	charge(AT_CALL);
	if (!counted())
		return real(timerfd_create)(clock, flags);
	if (flags & ~(TFD_CLOEXEC | TFD_NONBLOCK) ||
	    (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME &&
	     clock != CLOCK_REALTIME_ALARM && clock != CLOCK_BOOTTIME_ALARM)) {
		errno = EINVAL;
		return -1;
	}
	struct timer *t = calloc(1, sizeof *t);
	int fd = t && start_keeper() ? real(eventfd)(0, flags) : -1;
	if (fd < 0) {
		free(t);
		return -1;
	}
	*t = (struct timer){.event.sigev_notify = SIGEV_NONE, .expires = RMR_NEVER, .fd = fd};
	pthread_attr_init(&t->attr);
	sigset_t old;
	lock_timers(&old);
	add_timer(t);
	unlock_timers(&old);
	atomic_fetch_add(&descriptors, 1);
	return fd;
}

EXPORT int timerfd_settime(int fd, int flags, const struct itimerspec *v, struct itimerspec *before)
{
	sigset_t old;
	uint64_t expiries;
	charge(AT_CALL);
	bool good = valid(&v->it_value) && valid(&v->it_interval) &&
		    !(flags & ~(TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET));
	lock_timers(&old);
	struct timer *t = find_descriptor(fd);
	if (t && good && readable(fd) && real(read)(fd, &expiries, sizeof expiries) < 0) {
		forget_timer(t); /* the number now belongs to another file: the kernel answers */
		t = NULL;
	}
	if (t && good) {
		if (before)
			*before = time_left(t);
		set_timer(t, flags & TFD_TIMER_ABSTIME, ns_of(&v->it_value), ns_of(&v->it_interval));
	}
	unlock_timers(&old);
	if (!t)
		return real(timerfd_settime)(fd, flags, v, before);
	if (good)
		return 0;
	errno = EINVAL;
	return -1;
}

EXPORT int timerfd_gettime(int fd, struct itimerspec *v)
{
	sigset_t old;
	charge(AT_CALL);
	lock_timers(&old);
	struct timer *t = find_descriptor(fd);
	if (t)
		*v = time_left(t);
	unlock_timers(&old);
	return t ? 0 : real(timerfd_gettime)(fd, v);
}

void forget_descriptors(int first, int last)
{
	sigset_t old;
	if (!C || atomic_load(&descriptors) == 0)
		return;
	lock_timers(&old);
	for (struct timer *t = timers, *next; t; t = next) {
		next = t->next;
		if (t->fd >= 0 && t->fd >= first && t->fd <= last)
			forget_timer(t);
	}
	unlock_timers(&old);
}
