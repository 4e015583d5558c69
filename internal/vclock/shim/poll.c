/* Waits for several descriptors, or for a signal, with a deadline. */
#define _GNU_SOURCE
#include "shim.h"

REAL(int, sigtimedwait, const sigset_t *, siginfo_t *, const struct timespec *)
REAL(int, ppoll, struct pollfd *, nfds_t, const struct timespec *, const sigset_t *)
REAL(int, pselect, int, fd_set *, fd_set *, fd_set *, const struct timespec *, const sigset_t *)
REAL(int, epoll_ctl, int, int, int, struct epoll_event *)
REAL(int, epoll_pwait, int, struct epoll_event *, int, int, const sigset_t *)

/* The handler sets this flag. An interrupted wait then knows whether the wake signal interrupted
 * it. */
static __thread volatile sig_atomic_t wake_signal_came OF_THREAD;

void on_wake_signal(int sig)
{
	(void)sig;
	wake_signal_came = 1;
}

/* When the clock has ended a wait, the wake signal always arrives. consume_wake_signal waits for
 * the signal. Otherwise it could arrive in the next wait, or, after exec, in another program. The
 * wait is limited, because the sending thread may be killed first. */
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

/* What a timed wait restores at its end. */
struct timed_wait {
	sigset_t mask;
	bool for_room; /* counted in writers: a read by another thread can end the wait */
};

static void end_timed_wait(const struct timed_wait *w)
{
	if (w->for_room)
		atomic_fetch_sub(&C->writers, 1);
	pthread_sigmask(SIG_SETMASK, &w->mask, NULL);
}

static void abandon_timed_wait(void *w)
{
	if (!kernel_leave())
		consume_wake_signal();
	end_timed_wait(w);
}

/* timed_kernel_wait waits in the kernel until wait(arg, mask) returns or the clock ends the wait
 * with the wake signal. This signal is unblocked only inside the wait, so it cannot arrive between
 * the decision to wait and the wait. It returns the result of wait, or 0 at the deadline. for_room
 * is set if the wait may be for room to write. */
static int timed_kernel_wait(uint32_t why, uint64_t object, int64_t deadline, bool for_room,
			     int (*wait)(void *, const sigset_t *), void *arg, const sigset_t *mask)
{
	struct timed_wait w = {.for_room = for_room};
	sigset_t block, waiting;
	int r, e;
	bool by_clock;
	empty_reads.times = 0;
	sigemptyset(&block);
	sigaddset(&block, wake_signal);
	pthread_testcancel();
	pthread_sigmask(SIG_BLOCK, &block, &w.mask);
	waiting = mask ? *mask : w.mask;
	if (for_room)
		atomic_fetch_add(&C->writers, 1);
	sigdelset(&waiting, wake_signal);
	do {
		r = 0;
		e = errno;
		wake_signal_came = 0;
		if (kernel_enter(why, object, deadline)) {
			pthread_cleanup_push(abandon_timed_wait, &w);
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
		/* The driver also sends the signal to a thread that may have missed it. */
	} while (!by_clock && r < 0 && e == EINTR && wake_signal_came);
	end_timed_wait(&w);
	errno = e;
	return r;
}

/* looked handles the result of a look at descriptors. A thread that has repeatedly found nothing
 * lets other threads run, because they may produce the input. */
static int looked(int r)
{
	enum { MOST_LOOKS = 100 };
	static __thread unsigned times OF_THREAD;
	int saved = errno;
	if (r != 0)
		times = 0;
	else if (++times % MOST_LOOKS == 0 && counted())
		yield_turn();
	errno = saved;
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

/* await_ready waits until descriptors are ready, and returns what look finds once the thread has
 * its turn. It does not return what woke the thread, because that depends on when the kernel ran
 * the thread. In the meantime, other descriptors may have become ready, and another thread may
 * have taken the input. */
static int await_ready(struct pollfd *fds, nfds_t n, int64_t deadline, bool for_room,
		       const sigset_t *mask, int (*look)(struct pollfd *, nfds_t, void *), void *arg)
{
	struct poll_args p = {fds, n};
	uint64_t first = n ? (uint64_t)fds[0].fd : 0;
	int r;
	do {
		r = timed_kernel_wait(RMR_WHY_POLL, first, deadline, for_room, do_poll, &p, mask);
	} while (r > 0 && (r = look(fds, n, arg)) == 0);
	return r;
}

static int look_again(struct pollfd *fds, nfds_t n, void *unused)
{
	static const struct timespec zero;
	(void)unused;
	return real(ppoll)(fds, n, &zero, NULL);
}

static int poll_until(struct pollfd *fds, nfds_t n, int64_t timeout_ns, const sigset_t *mask)
{
	static const struct timespec zero;
	int r = real(ppoll)(fds, n, &zero, mask);
	if (r != 0 || timeout_ns == 0)
		return looked(r);
	bool for_room = false;
	for (nfds_t i = 0; i < n; i++) {
		for_room = for_room || fds[i].events & POLLOUT;
		if (outside(fds[i].fd)) {
			struct timespec ts = timespec_of(timeout_ns);
			const struct timespec *timeout = timeout_ns == RMR_NEVER ? NULL : &ts;
			return OUTSIDE_CALL(fds[i].fd, real(ppoll)(fds, n, timeout, mask));
		}
	}
	return await_ready(fds, n, deadline_in(timeout_ns), for_room, mask, look_again, NULL);
}

void wait_to_read(int fd, int64_t timeout_ns)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	poll_until(&p, 1, timeout_ns, NULL);
}

EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	charge(AT_CALL);
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

EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		       const sigset_t *mask, size_t len)
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

EXPORT int pselect(int n, fd_set *rd, fd_set *wr, fd_set *ex, const struct timespec *timeout,
		   const sigset_t *mask)
{
	charge(AT_CALL);
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
		return looked(r);
	for (int fd = 0; fd < n; fd++)
		for (int i = 0; i < 3; i++)
			if (s.sets[i] && FD_ISSET(fd, &s.want[i]) && outside(fd)) {
				restore_sets(&s);
				return OUTSIDE_CALL(fd, real(pselect)(n, rd, wr, ex, timeout, mask));
			}
	int64_t deadline = deadline_in(ns);
	do { /* as in await_ready */
		r = timed_kernel_wait(RMR_WHY_POLL, 0, deadline, wr != NULL, do_select, &s, mask);
		if (r <= 0)
			break;
		restore_sets(&s);
		r = real(pselect)(n, rd, wr, ex, &zero, NULL);
	} while (r == 0);
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
	struct epoll_event *events;
	int max;
};

static bool sets_have_output; /* whether a set has ever waited for room to write */

static int look_into_set(struct pollfd *set, nfds_t one, void *arg)
{
	struct epoll_args *e = arg;
	(void)one;
	return real(epoll_pwait)(set->fd, e->events, e->max, 0, NULL);
}

static int epoll_until(int fd, struct epoll_event *events, int max, int64_t timeout_ns,
		       const sigset_t *mask)
{
	charge(AT_CALL);
	if (!counted()) {
		int64_t ms = timeout_ns == RMR_NEVER ? -1 : (timeout_ns + 999999) / 1000000;
		return real(epoll_pwait)(fd, events, max, ms > INT_MAX ? INT_MAX : (int)ms, mask);
	}
	int r = real(epoll_pwait)(fd, events, max, 0, mask);
	if (r != 0 || timeout_ns == 0)
		return looked(r);
	struct epoll_args e = {events, max};
	struct pollfd set = {.fd = fd, .events = POLLIN};
	return await_ready(&set, 1, deadline_in(timeout_ns), sets_have_output, mask, look_into_set, &e);
}

/* A descriptor that is already ready wakes the threads that wait for the set. */
EXPORT int epoll_ctl(int set, int op, int fd, struct epoll_event *event)
{
	touch();
	if (op != EPOLL_CTL_DEL && event && event->events & EPOLLOUT)
		sets_have_output = true;
	return real(epoll_ctl)(set, op, fd, event);
}

EXPORT int epoll_pwait(int fd, struct epoll_event *events, int max, int ms, const sigset_t *mask)
{
	return epoll_until(fd, events, max, ms < 0 ? RMR_NEVER : (int64_t)ms * 1000000, mask);
}

EXPORT int epoll_pwait2(int fd, struct epoll_event *events, int max, const struct timespec *timeout,
			const sigset_t *mask)
{
	return epoll_until(fd, events, max, timeout ? ns_of(timeout) : RMR_NEVER, mask);
}

EXPORT int epoll_wait(int fd, struct epoll_event *events, int max, int ms)
{
	return epoll_pwait(fd, events, max, ms, NULL);
}

/* Waits for a signal, with a deadline. */
struct signal_args {
	const sigset_t *set;
	siginfo_t *info;
};

/* The wake signal is blocked, so it ends the wait like the signals of the set. */
static int do_sigtimedwait(void *arg, const sigset_t *mask)
{
	struct signal_args *s = arg;
	sigset_t set = *s->set;
	(void)mask;
	sigaddset(&set, wake_signal);
	int r = real(sigtimedwait)(&set, s->info, NULL);
	if (r != wake_signal)
		return r;
	wake_signal_came = 1;
	errno = EINTR;
	return -1;
}

EXPORT int sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout)
{
	static const struct timespec zero;
	charge(AT_CALL);
	if (!counted())
		return real(sigtimedwait)(set, info, timeout);
	int64_t ns = timeout ? ns_of(timeout) : RMR_NEVER;
	int r = real(sigtimedwait)(set, info, &zero);
	if (r >= 0 || errno != EAGAIN || ns == 0)
		return r;
	struct signal_args s = {set, info};
	r = timed_kernel_wait(RMR_WHY_SIGNAL, 0, deadline_in(ns), false, do_sigtimedwait, &s, NULL);
	if (r != 0)
		return r;
	errno = EAGAIN;
	return -1;
}

EXPORT int sigwaitinfo(const sigset_t *set, siginfo_t *info)
{
	return sigtimedwait(set, info, NULL);
}
