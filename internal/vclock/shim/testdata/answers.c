/*
 * Prints what threads, locks, condition variables, sockets, signals and processes do.
 * The answers must be the same with and without the virtual clock.
 *
 * Times are printed in whole units, rounded down. A thread that waits for k units sees k of them
 * pass, plus the time that the machine takes, which is less than a unit. Under the virtual clock
 * only the waits take time, so a time that is not a whole number of units is an error there.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define UNIT 40 /* ms */
#define MS 1000000LL

extern char **environ;
static bool managed;
static bool charged; /* computing takes virtual time, but little */

static void say(const char *format, ...)
{
	char line[300];
	va_list ap;
	va_start(ap, format);
	int n = vsnprintf(line, sizeof line, format, ap);
	va_end(ap);
	if (write(1, line, (size_t)n) != n)
		abort();
}

static int64_t clock_ns(clockid_t clock)
{
	struct timespec ts;
	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000 * MS + ts.tv_nsec;
}

static int64_t ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* units returns the whole units since start. */
static int units(int64_t start)
{
	int64_t past = ns() - start;
	if (managed && charged)
		past = (past + MS / 10) / (UNIT * MS) * (UNIT * MS); /* computing takes little */
	if (managed && past % (UNIT * MS))
		say("  not a whole number of units: %lld ns\n", (long long)past);
	return (int)(past / (UNIT * MS));
}

static struct timespec span(int n)
{
	return (struct timespec){n * UNIT * MS / (1000 * MS), n * UNIT * MS % (1000 * MS)};
}

static void nap(int n)
{
	struct timespec ts = span(n);
	nanosleep(&ts, NULL);
}

/* at returns the instant n units from now. */
static struct timespec at(clockid_t clock, int n)
{
	int64_t t = clock_ns(clock) + n * UNIT * MS;
	return (struct timespec){t / (1000 * MS), t % (1000 * MS)};
}

static const char *error_name(int e)
{
	return e ? strerrorname_np(e) : "0";
}

/* outcome describes what a call returned. */
static const char *outcome(long r)
{
	static __thread char text[40];
	if (r >= 0)
		snprintf(text, sizeof text, "%ld", r);
	else
		snprintf(text, sizeof text, "%s", error_name(errno));
	return text;
}

static const char *status_text(int st)
{
	static char text[40];
	if (WIFEXITED(st))
		snprintf(text, sizeof text, "exit %d", WEXITSTATUS(st));
	else if (WIFSIGNALED(st))
		snprintf(text, sizeof text, "signal %s", sigabbrev_np(WTERMSIG(st)));
	else
		snprintf(text, sizeof text, "status %#x", st);
	return text;
}

static pthread_t thread(void *(*run)(void *), void *arg)
{
	pthread_t t;
	if (pthread_create(&t, NULL, run, arg))
		abort();
	return t;
}

static void *join(pthread_t t)
{
	void *r = NULL;
	int e = pthread_join(t, &r);
	if (e)
		say("  join: %s\n", error_name(e));
	return r;
}

/* in_child runs f in a forked child and returns its status. */
static int in_child(void (*f)(void))
{
	int st = -1;
	pid_t pid = fork();
	if (pid == 0) {
		f();
		_exit(0);
	}
	if (waitpid(pid, &st, 0) != pid)
		say("  waitpid: %s\n", error_name(errno));
	return st;
}

static void handler(int sig)
{
	(void)sig;
}

static void on_signal(int sig, int flags)
{
	struct sigaction sa = {.sa_handler = handler, .sa_flags = flags};
	sigaction(sig, &sa, NULL);
}

/* Sends a signal to a thread or to the process after a while. */
struct shot {
	pthread_t to;
	pid_t pid;
	int sig, after;
	_Atomic bool *hit; /* if given, signal until it is set: one may come before the wait */
};

static void *shoot(void *arg)
{
	struct shot *s = arg;
	do {
		nap(s->after);
		if (s->pid)
			kill(s->pid, s->sig);
		else if (!s->hit || !*s->hit)
			pthread_kill(s->to, s->sig);
	} while (s->hit && !*s->hit);
	return NULL;
}

/* ------------------------------------------------------------------- sleeping */

static void sleeping(void)
{
	int64_t t = ns();
	nap(1);
	say("  nanosleep %d\n", units(t));
	t = ns();
	usleep(UNIT * 1000);
	say("  usleep %d\n", units(t));
	struct timespec ts = span(1);
	t = ns();
	say("  clock_nanosleep %d", clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL));
	say(" %d\n", units(t));
	t = ns();
	ts = at(CLOCK_REALTIME, 1);
	int r = clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &ts, NULL);
	say("  absolute %d %d\n", r, units(t));
	t = ns();
	ts.tv_sec -= 100;
	r = clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &ts, NULL);
	say("  past %d %d\n", r, units(t));
	ts.tv_nsec = 1000 * MS;
	say("  bad %s\n", outcome(nanosleep(&ts, NULL)));
	t = time(NULL);
	struct timeval tv;
	gettimeofday(&tv, NULL);
	say("  clocks agree %d\n", tv.tv_sec - t <= 1);
}

static void interrupted(int flags)
{
	on_signal(SIGUSR1, flags);
	struct shot s = {.to = pthread_self(), .sig = SIGUSR1, .after = 1};
	struct timespec want = span(3), rem = {0};
	int64_t t = ns();
	pthread_t p = thread(shoot, &s);
	int r = nanosleep(&want, &rem);
	int past = units(t);
	int64_t left = rem.tv_sec * 1000 * MS + rem.tv_nsec - (charged ? MS / 10 : 0);
	say("  flags %#x: %s after %d, left %d\n", (unsigned)flags, outcome(r), past, (int)((left + UNIT * MS - 1) / (UNIT * MS)));
	join(p);
}

static void sleep_interrupted(void)
{
	interrupted(0);
	interrupted(SA_RESTART);
	on_signal(SIGUSR1, 0);
	struct shot s = {.to = pthread_self(), .sig = SIGUSR1, .after = 1};
	pthread_t p = thread(shoot, &s);
	say("  sleep leaves %u\n", sleep(3));
	join(p);
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	p = thread(shoot, &s);
	struct timespec want = span(2);
	int64_t t = ns();
	say("  blocked %s", outcome(nanosleep(&want, NULL)));
	say(" %d\n", units(t));
	join(p);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* ------------------------------------------------------- condition variables */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int tickets, served;

static void *take_ticket(void *arg)
{
	pthread_mutex_lock(&mutex);
	while (!tickets)
		pthread_cond_wait(&cond, &mutex);
	tickets--;
	served++;
	pthread_mutex_unlock(&mutex);
	return arg;
}

static void cond_static(void)
{
	pthread_t p[4];
	int64_t t = ns();
	tickets = served = 0;
	for (int i = 0; i < 4; i++)
		p[i] = thread(take_ticket, NULL);
	nap(1);
	pthread_mutex_lock(&mutex);
	tickets = 1;
	pthread_cond_signal(&cond);
	pthread_mutex_unlock(&mutex);
	nap(1);
	pthread_mutex_lock(&mutex);
	say("  signal serves %d\n", served);
	tickets = 3;
	pthread_cond_broadcast(&cond);
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < 4; i++)
		join(p[i]);
	say("  broadcast serves %d after %d\n", served, units(t));
}

static void *signal_later(void *c)
{
	nap(1);
	pthread_mutex_lock(&mutex);
	tickets = 1;
	pthread_cond_signal(c);
	pthread_mutex_unlock(&mutex);
	return NULL;
}

static void cond_timed(void)
{
	pthread_cond_t c;
	pthread_cond_init(&c, NULL);
	tickets = 0;
	pthread_mutex_lock(&mutex);
	int64_t t = ns();
	struct timespec until = at(CLOCK_REALTIME, 1);
	int r = pthread_cond_timedwait(&c, &mutex, &until);
	say("  timeout %s %d, mutex held %s\n", error_name(r), units(t), error_name(pthread_mutex_trylock(&mutex)));
	r = pthread_cond_timedwait(&c, &mutex, &until);
	say("  past %s\n", error_name(r));
	until.tv_nsec = -1;
	say("  bad %s\n", error_name(pthread_cond_timedwait(&c, &mutex, &until)));
	pthread_t p = thread(signal_later, &c);
	t = ns();
	until = at(CLOCK_REALTIME, 3);
	r = 0;
	while (!tickets && r == 0)
		r = pthread_cond_timedwait(&c, &mutex, &until);
	say("  in time %s %d\n", error_name(r), units(t));
	pthread_mutex_unlock(&mutex);
	join(p);
	pthread_cond_destroy(&c);

	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c, &attr);
	pthread_mutex_lock(&mutex);
	t = ns();
	until = at(CLOCK_MONOTONIC, 1);
	r = pthread_cond_timedwait(&c, &mutex, &until);
	say("  monotonic %s %d\n", error_name(r), units(t));
	pthread_mutex_unlock(&mutex);
	pthread_cond_destroy(&c);
}

/* The waiter's object is gone, and overwritten, as soon as it is woken. */
struct request {
	pthread_cond_t done;
	bool ready;
};

static void *wait_and_free(void *arg)
{
	struct request *r = arg;
	pthread_mutex_lock(&mutex);
	while (!r->ready)
		pthread_cond_wait(&r->done, &mutex);
	pthread_mutex_unlock(&mutex);
	pthread_cond_destroy(&r->done);
	memset(r, 0xff, sizeof *r);
	free(r);
	return NULL;
}

static void *just_wait(void *arg)
{
	struct request *r = arg;
	pthread_mutex_lock(&mutex);
	pthread_cond_wait(&r->done, &mutex);
	pthread_mutex_unlock(&mutex);
	return NULL;
}

static void cond_destroyed(void)
{
	for (int i = 0; i < 200; i++) {
		struct request *r = calloc(1, sizeof *r);
		pthread_cond_init(&r->done, NULL);
		pthread_t p = thread(wait_and_free, r);
		if (i % 2)
			sched_yield();
		pthread_mutex_lock(&mutex);
		r->ready = true;
		pthread_cond_signal(&r->done);
		pthread_mutex_unlock(&mutex);
		join(p);
	}
	pthread_t p[5];
	struct request *r = calloc(1, sizeof *r);
	pthread_cond_init(&r->done, NULL);
	for (int i = 0; i < 5; i++)
		p[i] = thread(just_wait, r);
	nap(1);
	pthread_mutex_lock(&mutex);
	pthread_cond_broadcast(&r->done);
	pthread_mutex_unlock(&mutex);
	pthread_cond_destroy(&r->done);
	memset(r, 0xff, sizeof *r);
	free(r);
	for (int i = 0; i < 5; i++)
		join(p[i]);
	say("  done\n");
}

/* ----------------------------------------------------------------------- locks */

static void mutex_types(void)
{
	pthread_mutexattr_t attr;
	pthread_mutex_t m;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&m, &attr);
	int a = pthread_mutex_lock(&m), b = pthread_mutex_lock(&m), c = pthread_mutex_unlock(&m), d = pthread_mutex_unlock(&m);
	say("  errorcheck %s %s %s %s\n", error_name(a), error_name(b), error_name(c), error_name(d));
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&m, &attr);
	a = pthread_mutex_lock(&m), b = pthread_mutex_lock(&m), c = pthread_mutex_unlock(&m), d = pthread_mutex_unlock(&m);
	say("  recursive %s %s %s %s %s\n", error_name(a), error_name(b), error_name(c), error_name(d), error_name(pthread_mutex_unlock(&m)));
	pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
	pthread_rwlock_wrlock(&l);
	a = pthread_rwlock_wrlock(&l), b = pthread_rwlock_rdlock(&l);
	say("  rwlock twice %s %s\n", error_name(a), error_name(b));
}

static void *hold_mutex(void *arg)
{
	pthread_mutex_lock(&mutex);
	++*(int *)arg;
	nap(1);
	pthread_mutex_unlock(&mutex);
	return NULL;
}

static void *wait_for_mutex(void *arg)
{
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
	return arg;
}

static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static _Atomic int readers, most_readers;

static void *hold_read(void *arg)
{
	pthread_rwlock_rdlock(&rwlock);
	int n = ++readers;
	if (n > most_readers)
		most_readers = n;
	nap(1);
	readers--;
	pthread_rwlock_unlock(&rwlock);
	return arg;
}

static void contention(void)
{
	pthread_t p[6];
	int count = 0;
	int64_t t = ns();
	for (int i = 0; i < 3; i++)
		p[i] = thread(hold_mutex, &count);
	for (int i = 3; i < 6; i++)
		p[i] = thread(wait_for_mutex, NULL);
	for (int i = 0; i < 6; i++)
		join(p[i]);
	say("  mutex %d after %d\n", count, units(t));

	t = ns();
	pthread_rwlock_wrlock(&rwlock);
	for (int i = 0; i < 4; i++)
		p[i] = thread(hold_read, NULL);
	nap(1);
	pthread_rwlock_unlock(&rwlock);
	for (int i = 0; i < 4; i++)
		join(p[i]);
	say("  readers together %d after %d\n", most_readers, units(t));
	t = ns();
	p[0] = thread(hold_read, NULL);
	while (!readers)
		sched_yield();
	pthread_rwlock_wrlock(&rwlock);
	say("  writer after %d\n", units(t));
	pthread_rwlock_unlock(&rwlock);
	join(p[0]);

	pthread_mutex_lock(&mutex);
	p[0] = thread(hold_mutex, &count);
	nap(1);
	t = ns();
	pthread_mutex_unlock(&mutex);
	join(p[0]);
	say("  handed over after %d\n", units(t));
}

static void *timed_lock(void *arg)
{
	struct timespec until = at(CLOCK_REALTIME, 1);
	int64_t t = ns();
	int r = pthread_mutex_timedlock(&mutex, &until);
	say("  timedlock %s %d\n", error_name(r), units(t));
	return arg;
}

static sem_t sem;

static void *post_later(void *arg)
{
	for (int i = 0; i < 3; i++) {
		nap(1);
		sem_post(&sem);
	}
	return arg;
}

static void post_by_handler(int sig)
{
	(void)sig;
	sem_post(&sem);
}

static void semaphores(void)
{
	sem_init(&sem, 0, 1);
	pthread_t p = thread(post_later, NULL);
	int64_t t = ns();
	for (int i = 0; i < 4; i++)
		sem_wait(&sem);
	say("  four after %d, then %s\n", units(t), outcome(sem_trywait(&sem)));
	join(p);
	struct timespec until = at(CLOCK_REALTIME, 1);
	t = ns();
	say("  sem_timedwait %s", outcome(sem_timedwait(&sem, &until)));
	say(" %d\n", units(t));
	on_signal(SIGUSR1, 0);
	_Atomic bool hit = false;
	struct shot s = {.to = pthread_self(), .sig = SIGUSR1, .after = 1, .hit = &hit};
	p = thread(shoot, &s);
	say("  interrupted %s\n", outcome(sem_wait(&sem)));
	hit = true;
	join(p);
	s.hit = NULL;
	struct sigaction sa = {.sa_handler = post_by_handler, .sa_flags = SA_RESTART};
	sigaction(SIGUSR1, &sa, NULL);
	p = thread(shoot, &s);
	t = ns();
	say("  posted by handler %s", outcome(sem_wait(&sem)));
	say(" %d\n", units(t));
	join(p);
	pthread_mutex_lock(&mutex);
	join(thread(timed_lock, NULL));
	pthread_mutex_unlock(&mutex);
}

/* --------------------------------------------------------------------- threads */

static void *sleeper(void *arg)
{
	nap((int)(intptr_t)arg);
	return arg;
}

static void *exiter(void *arg)
{
	pthread_exit(arg);
}

static pthread_key_t key;

static void key_gone(void *arg)
{
	int64_t t = ns();
	nap(1);
	say("  destructor %d slept %d\n", (int)(intptr_t)arg, units(t));
}

static void *with_key(void *arg)
{
	pthread_setspecific(key, arg);
	return arg;
}

static void *detach_myself(void *arg)
{
	pthread_detach(pthread_self());
	nap(1);
	sem_post(arg);
	return NULL;
}

static void joining(void)
{
	int64_t t = ns();
	pthread_t p = thread(sleeper, (void *)2);
	say("  sleeping: %d", (int)(intptr_t)join(p));
	say(" after %d\n", units(t));
	p = thread(sleeper, (void *)0);
	nap(1);
	t = ns();
	say("  ended: %d", (int)(intptr_t)join(p));
	say(" after %d\n", units(t));
	say("  exited: %d\n", (int)(intptr_t)join(thread(exiter, (void *)7)));
	say("  self: %s\n", error_name(pthread_join(pthread_self(), NULL)));
	pthread_key_create(&key, key_gone);
	join(thread(with_key, (void *)3));
	sem_init(&sem, 0, 0);
	t = ns();
	for (int i = 0; i < 3; i++)
		thread(detach_myself, &sem);
	p = thread(sleeper, (void *)1);
	say("  detach %s\n", error_name(pthread_detach(p)));
	for (int i = 0; i < 3; i++)
		sem_wait(&sem);
	say("  detached after %d\n", units(t));
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_create(&p, &attr, sleeper, (void *)1);
	nap(2);
	/* The C library reuses thread ids: what is stored about old threads must not matter. */
	t = ns();
	for (int i = 0; i < 20; i++) {
		p = thread(sleeper, (void *)0);
		pthread_detach(p);
		nap(0);
	}
	for (int i = 0; i < 50; i++)
		join(thread(exiter, NULL));
	p = thread(sleeper, (void *)1);
	join(p);
	say("  id again after %d\n", units(t));
}

static void cleanup(void *arg)
{
	int64_t t = ns();
	nap(1);
	say("  cleanup of %s slept %d\n", (char *)arg, units(t));
}

static void *cancelled_sleep(void *arg)
{
	pthread_cleanup_push(cleanup, "sleep");
	nap(arg ? 100 : 0);
	pthread_cleanup_pop(0);
	return NULL;
}

static void unlock_cleanup(void *arg)
{
	say("  cond: mutex held %s\n", error_name(pthread_mutex_trylock(arg)));
	pthread_mutex_unlock(arg);
}

static void *cancelled_cond(void *arg)
{
	pthread_mutex_lock(&mutex);
	pthread_cleanup_push(unlock_cleanup, &mutex);
	for (;;)
		pthread_cond_wait(arg, &mutex);
	pthread_cleanup_pop(0);
	return NULL;
}

static void *cancelled_poll(void *arg)
{
	int *fds = arg;
	struct pollfd p = {fds[0], POLLIN, 0};
	pthread_cleanup_push(cleanup, "poll");
	poll(&p, 1, 100000);
	pthread_cleanup_pop(0);
	return NULL;
}

static void *cancelled_read(void *arg)
{
	int *fds = arg;
	char c;
	pthread_cleanup_push(cleanup, "read");
	if (read(fds[0], &c, 1) == 1)
		say("  read something\n");
	pthread_cleanup_pop(0);
	return NULL;
}

static void *cancelled_sem(void *arg)
{
	pthread_cleanup_push(cleanup, "semaphore");
	sem_wait(arg);
	pthread_cleanup_pop(0);
	return NULL;
}

static void *cancelled_join(void *arg)
{
	pthread_cleanup_push(cleanup, "join");
	pthread_join(*(pthread_t *)arg, NULL);
	pthread_cleanup_pop(0);
	return NULL;
}

static void *cancel_off(void *arg)
{
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	nap(2);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	pthread_cleanup_push(cleanup, "late sleep");
	nap(100);
	pthread_cleanup_pop(0);
	return arg;
}

static void cancel(void *(*run)(void *), void *arg)
{
	int64_t t = ns();
	pthread_t p = thread(run, arg);
	nap(1);
	pthread_cancel(p);
	bool was = join(p) == PTHREAD_CANCELED;
	say("  cancelled %d after %d\n", was, units(t));
}

static void cancelling(void)
{
	int fds[2];
	pthread_cond_t c = PTHREAD_COND_INITIALIZER;
	if (pipe(fds))
		abort();
	cancel(cancelled_sleep, &fds);
	cancel(cancelled_cond, &c);
	cancel(cancelled_poll, fds);
	cancel(cancelled_read, fds);
	sem_init(&sem, 0, 0);
	cancel(cancelled_sem, &sem);
	cancel(cancel_off, NULL);
	pthread_t p = thread(sleeper, (void *)4);
	cancel(cancelled_join, &p);
	join(p);
	/* One of two waiters is cancelled: the other gets the signal. */
	tickets = served = 0;
	pthread_t a = thread(take_ticket, NULL), b = thread(take_ticket, NULL);
	nap(1);
	pthread_cancel(a);
	join(a);
	say("  mutex after it %s\n", error_name(pthread_mutex_trylock(&mutex)));
	pthread_mutex_unlock(&mutex);
	pthread_mutex_lock(&mutex);
	tickets = 1;
	pthread_cond_signal(&cond);
	pthread_mutex_unlock(&mutex);
	join(b);
	say("  served %d\n", served);
	close(fds[0]);
	close(fds[1]);
}

/* ---------------------------------------------------------------- multiplexing */

struct message {
	int fd, after;
	const char *text;
};

static void *send_later(void *arg)
{
	struct message *m = arg;
	nap(m->after);
	if (m->text ? write(m->fd, m->text, strlen(m->text)) < 0 : close(m->fd))
		say("  send: %s\n", error_name(errno));
	return NULL;
}

static void multiplexing(void)
{
	int fds[2], sv[2];
	char buf[20];
	if (pipe(fds) || socketpair(AF_UNIX, SOCK_STREAM, 0, sv))
		abort();
	struct pollfd p[2] = {{fds[0], POLLIN, 0}, {sv[0], POLLIN, 0}};
	int64_t t = ns();
	int r = poll(p, 2, UNIT);
	say("  poll timeout %d after %d\n", r, units(t));
	t = ns();
	r = poll(NULL, 0, UNIT);
	say("  empty poll %d after %d\n", r, units(t));
	struct message m = {fds[1], 1, "abc"};
	pthread_t s = thread(send_later, &m);
	t = ns();
	r = poll(p, 2, 5 * UNIT);
	say("  poll %d %#x %#x after %d\n", r, p[0].revents, p[1].revents, units(t));
	join(s);
	say("  read %s\n", outcome(read(fds[0], buf, sizeof buf)));
	m = (struct message){sv[1], 1, "hello"};
	s = thread(send_later, &m);
	t = ns();
	struct timespec ts = span(5);
	r = ppoll(p, 2, &ts, NULL);
	say("  ppoll %d %#x %#x after %d\n", r, p[0].revents, p[1].revents, units(t));
	join(s);
	say("  recv %s\n", outcome(recv(sv[0], buf, sizeof buf, 0)));
	say("  recv again %s\n", outcome(recv(sv[0], buf, sizeof buf, MSG_DONTWAIT)));

	fd_set rd;
	FD_ZERO(&rd);
	FD_SET(fds[0], &rd);
	FD_SET(sv[0], &rd);
	struct timeval tv = {0, UNIT * 1000};
	t = ns();
	r = select(sv[1] + 1, &rd, NULL, NULL, &tv);
	say("  select timeout %d %d %d after %d\n", r, FD_ISSET(fds[0], &rd) != 0, FD_ISSET(sv[0], &rd) != 0, units(t));
	FD_SET(fds[0], &rd);
	FD_SET(sv[0], &rd);
	s = thread(send_later, &m);
	tv = (struct timeval){1, 0};
	t = ns();
	r = select(sv[1] + 1, &rd, NULL, NULL, &tv);
	say("  select %d %d %d after %d\n", r, FD_ISSET(fds[0], &rd) != 0, FD_ISSET(sv[0], &rd) != 0, units(t));
	join(s);
	say("  recv %s\n", outcome(recv(sv[0], buf, sizeof buf, 0)));

	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fds[0]}, got;
	epoll_ctl(ep, EPOLL_CTL_ADD, fds[0], &ev);
	t = ns();
	r = epoll_wait(ep, &got, 1, UNIT);
	say("  epoll timeout %d after %d\n", r, units(t));
	m = (struct message){fds[1], 1, "x"};
	s = thread(send_later, &m);
	t = ns();
	r = epoll_wait(ep, &got, 1, -1);
	say("  epoll %d %#x after %d\n", r, got.events, units(t));
	join(s);
	say("  read %s\n", outcome(read(fds[0], buf, sizeof buf)));

	on_signal(SIGUSR1, SA_RESTART);
	struct shot shot = {.to = pthread_self(), .sig = SIGUSR1, .after = 1};
	s = thread(shoot, &shot);
	t = ns();
	r = poll(p, 2, 5 * UNIT);
	say("  poll interrupted %s", outcome(r));
	say(" after %d\n", units(t));
	join(s);

	m = (struct message){fds[1], 1, NULL};
	s = thread(send_later, &m);
	t = ns();
	r = poll(p, 1, -1);
	say("  hang up %d %#x after %d\n", r, p[0].revents, units(t));
	join(s);
	close(ep);
	close(fds[0]);
	close(sv[0]);
	close(sv[1]);
}

static void *read_later(void *arg)
{
	int fd = *(int *)arg;
	static char buf[1 << 20];
	size_t sum = 0;
	ssize_t n;
	nap(1);
	while ((n = read(fd, buf, sizeof buf)) > 0)
		sum += (size_t)n;
	return (void *)sum;
}

static void *stream_writer(void *arg)
{
	FILE *f = fdopen(*(int *)arg, "w");
	for (int i = 0; i < 3; i++) {
		nap(1);
		fprintf(f, "line %d", i);
		fflush(f);
		nap(1);
		fputs(" and its end\n", f);
		fflush(f);
	}
	fclose(f);
	return NULL;
}

static void blocking(void)
{
	int sv[2], fds[2];
	char buf[20];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv) || pipe(fds))
		abort();
	struct message m = {sv[1], 1, "hello"};
	pthread_t s = thread(send_later, &m);
	int64_t t = ns();
	say("  recv %s", outcome(recv(sv[0], buf, sizeof buf, 0)));
	say(" after %d\n", units(t));
	join(s);
	m = (struct message){fds[1], 1, "hello"};
	s = thread(send_later, &m);
	t = ns();
	say("  read %s", outcome(read(fds[0], buf, sizeof buf)));
	say(" after %d\n", units(t));
	join(s);
	/* A writer that waits for a reader which sleeps. */
	static char big[300000];
	s = thread(read_later, &fds[0]);
	t = ns();
	say("  write %s", outcome(write(fds[1], big, sizeof big)));
	say(" after %d\n", units(t));
	close(fds[1]);
	say("  was read %zu\n", (size_t)join(s));
	s = thread(read_later, &sv[0]);
	t = ns();
	say("  send %s", outcome(send(sv[1], big, sizeof big, 0)));
	say(" after %d\n", units(t));
	close(sv[1]);
	say("  was read %zu\n", (size_t)join(s));
	close(fds[0]);
	close(sv[0]);
	/* Streams read inside the C library. */
	if (pipe(fds))
		abort();
	s = thread(stream_writer, &fds[1]);
	FILE *f = fdopen(fds[0], "r");
	char line[100];
	t = ns();
	while (fgets(line, sizeof line, f))
		say("  %.*s after %d\n", (int)strcspn(line, "\n"), line, units(t));
	fclose(f);
	join(s);
}

/* --------------------------------------------------------------------- sockets */

static int listening(struct sockaddr_in *a)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t n = sizeof *a;
	*a = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	if (bind(fd, (struct sockaddr *)a, n) || listen(fd, 10) || getsockname(fd, (struct sockaddr *)a, &n))
		abort();
	return fd;
}

static void *client(void *arg)
{
	char buf[10];
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	nap(1);
	if (connect(fd, arg, sizeof(struct sockaddr_in)))
		say("  connect: %s\n", error_name(errno));
	nap(1);
	if (write(fd, "ping", 4) != 4)
		say("  write: %s\n", error_name(errno));
	if (recv(fd, buf, 4, MSG_WAITALL) != 4)
		say("  recv: %s\n", error_name(errno));
	nap(1);
	close(fd);
	return NULL;
}

static void tcp(void)
{
	struct sockaddr_in a;
	char buf[10];
	int l = listening(&a);
	pthread_t p = thread(client, &a);
	int64_t t = ns();
	int fd = accept(l, NULL, NULL);
	say("  accept after %d\n", units(t));
	say("  read %s", outcome(read(fd, buf, sizeof buf)));
	say(" after %d\n", units(t));
	nap(1);
	/* In two pieces, as Slurm does. */
	if (send(fd, "po", 2, 0) != 2 || send(fd, "ng", 2, 0) != 2)
		say("  send: %s\n", error_name(errno));
	say("  end %s", outcome(read(fd, buf, sizeof buf)));
	say(" after %d\n", units(t));
	join(p);
	close(fd);

	int c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	int r = connect(c, (struct sockaddr *)&a, sizeof a);
	say("  connect %s\n", r && errno != EINPROGRESS ? error_name(errno) : "in progress");
	struct pollfd pf = {c, POLLOUT, 0};
	r = poll(&pf, 1, 1000);
	int e = -1;
	socklen_t n = sizeof e;
	getsockopt(c, SOL_SOCKET, SO_ERROR, &e, &n);
	say("  connected %d %#x %s\n", r, pf.revents, error_name(e));
	fcntl(l, F_SETFL, O_NONBLOCK);
	pf = (struct pollfd){l, POLLIN, 0};
	poll(&pf, 1, 1000);
	fd = accept4(l, NULL, NULL, SOCK_CLOEXEC);
	say("  accepted %d, again %s\n", fd >= 0, outcome(accept(l, NULL, NULL)));
	close(fd);
	close(c);
	close(l);
	c = socket(AF_INET, SOCK_STREAM, 0);
	say("  refused %s\n", outcome(connect(c, (struct sockaddr *)&a, sizeof a)));
	close(c);
}

/* --------------------------------------------------------------------- signals */

static void *wait_signal(void *arg)
{
	int sig = 0;
	int64_t t = ns();
	int r = sigwait(arg, &sig);
	say("  sigwait %d %s after %d\n", r, sigabbrev_np(sig), units(t));
	return NULL;
}

static void signals(void)
{
	sigset_t set, old;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, &old);
	pthread_t p = thread(wait_signal, &set);
	nap(1);
	kill(getpid(), SIGTERM);
	join(p);
	p = thread(wait_signal, &set);
	nap(1);
	pthread_kill(p, SIGUSR2);
	join(p);
	kill(getpid(), SIGUSR2); /* pending before the wait */
	nap(1);
	wait_signal(&set);
	on_signal(SIGUSR2, 0);
	struct shot s = {.pid = getpid(), .sig = SIGUSR2, .after = 1};
	p = thread(shoot, &s);
	int64_t t = ns();
	int r = sigsuspend(&old);
	say("  sigsuspend %s", outcome(r));
	say(" after %d\n", units(t));
	join(p);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* ------------------------------------------------------------------- processes */

static void child_naps(void)
{
	nap(1);
	_exit(3);
}

static void child_idles(void)
{
	nap(1000);
}

static void child_orphans(void)
{
	if (fork() == 0) {
		nap(2);
		say("  orphan lives\n");
		_exit(0);
	}
}

static void forks(void)
{
	int64_t t = ns();
	int st = in_child(child_naps);
	say("  child %s after %d\n", status_text(st), units(t));
	t = ns();
	pid_t pid = fork();
	if (pid == 0)
		child_naps();
	int polls = 0;
	while (waitpid(pid, &st, WNOHANG) == 0) {
		usleep(UNIT * 1000 / 4);
		polls++;
	}
	int64_t past = ns() - t;
	say("  polled %s, %d, %d\n", status_text(st), polls >= 3, (int)(past / (UNIT * MS)));
	t = ns();
	pid = fork();
	if (pid == 0)
		child_idles();
	nap(1);
	kill(pid, SIGKILL);
	waitpid(pid, &st, 0);
	say("  killed %s after %d\n", status_text(st), units(t));
	t = ns();
	pid = fork();
	if (pid == 0)
		child_idles();
	nap(1);
	kill(pid, SIGTERM);
	siginfo_t info;
	waitid(P_PID, (id_t)pid, &info, WEXITED);
	say("  terminated %d %d after %d\n", info.si_code == CLD_KILLED, info.si_status, units(t));
	t = ns();
	st = in_child(child_orphans);
	say("  parent of orphan %s after %d\n", status_text(st), units(t));
	nap(3);
	say("  no child %s\n", outcome(waitpid(-1, NULL, 0)));
	pid_t a = fork();
	if (a == 0) {
		nap(2);
		_exit(1);
	}
	pid_t b = fork();
	if (b == 0) {
		nap(1);
		_exit(2);
	}
	t = ns();
	pid = wait(&st);
	say("  first %d %s after %d\n", pid == b, status_text(st), units(t));
	pid = wait(&st);
	say("  second %d %s after %d\n", pid == a, status_text(st), units(t));
}

static pthread_cond_t shared_cond = PTHREAD_COND_INITIALIZER;

static void *wait_shared(void *arg)
{
	struct timespec until = at(CLOCK_REALTIME, 3);
	int64_t t = ns();
	pthread_mutex_lock(&mutex);
	int r = pthread_cond_timedwait(&shared_cond, &mutex, &until);
	pthread_mutex_unlock(&mutex);
	say("  parent's waiter %s after %d\n", error_name(r), units(t));
	return arg;
}

static void child_signals(void)
{
	pthread_cond_broadcast(&shared_cond);
	pthread_t p = thread(sleeper, (void *)1);
	join(p);
}

/* The child has copies of its parent's locks and condition variables, not its waiters. */
static void fork_with_waiters(void)
{
	pthread_t p = thread(wait_shared, NULL);
	nap(1);
	say("  child %s\n", status_text(in_child(child_signals)));
	join(p);
}

static char *self;

static void exec_empty(void)
{
	char *argv[] = {self, "nap", NULL}, *envp[] = {NULL};
	execve(self, argv, envp);
	_exit(99);
}

static void *exec_thread(void *arg)
{
	exec_empty();
	return arg;
}

static void exec_from_thread(void)
{
	thread(sleeper, (void *)1000);
	pthread_t p = thread(exec_thread, NULL);
	join(p);
}

static void exec_fails(void)
{
	execl("/nonexistent", "x", NULL);
	say("  exec %s\n", error_name(errno));
	nap(1);
	_exit(5);
}

static pid_t vfork_nap(void)
{
	pid_t pid = vfork();
	if (pid == 0) {
		execl(self, self, "nap", NULL);
		_exit(98);
	}
	return pid;
}

static void execs(void)
{
	int64_t t = ns();
	int st = in_child(exec_empty);
	say("  empty environment %s after %d\n", status_text(st), units(t));
	t = ns();
	st = in_child(exec_from_thread);
	say("  from a thread %s after %d\n", status_text(st), units(t));
	t = ns();
	st = in_child(exec_fails);
	say("  failed %s after %d\n", status_text(st), units(t));
	char *argv[] = {self, "nap", NULL}, *envp[] = {"A=b", NULL};
	pid_t pid;
	t = ns();
	int r = posix_spawn(&pid, self, NULL, NULL, argv, envp);
	waitpid(pid, &st, 0);
	say("  spawned %d %s after %d\n", r, status_text(st), units(t));
	say("  spawn %s\n", error_name(posix_spawn(&pid, "/nonexistent", NULL, NULL, argv, environ)));
	t = ns();
	char command[4200];
	snprintf(command, sizeof command, "%s nap; exit 4", self);
	st = system(command);
	say("  system %s after %d\n", status_text(st), units(t));
	t = ns();
	waitpid(vfork_nap(), &st, 0);
	say("  vfork %s after %d\n", status_text(st), units(t));
	snprintf(command, sizeof command, "%s nap; echo from popen", self);
	t = ns();
	FILE *f = popen(command, "r");
	char line[100] = "";
	if (!fgets(line, sizeof line, f))
		say("  nothing\n");
	line[strcspn(line, "\n")] = 0;
	st = pclose(f);
	say("  popen '%s' %s after %d\n", line, status_text(st), units(t));
}

static void *spin(void *arg)
{
	for (;;)
		sched_yield();
	return arg;
}

static void exit_with_threads(void)
{
	thread(sleeper, (void *)1000);
	thread(cancelled_cond, &cond);
	nap(1);
	thread(spin, NULL);
	_exit(6);
}

static int ready[2];

static void killed_with_threads(void)
{
	thread(sleeper, (void *)1000);
	thread(cancelled_cond, &cond);
	nap(1);
	thread(spin, NULL);
	if (write(ready[1], "x", 1) != 1)
		_exit(9);
	nap(1000);
}

static void *last_thread(void *arg)
{
	nap(1);
	say("  last thread\n");
	return arg;
}

static void at_exit(void)
{
	int64_t t = ns();
	nap(1);
	say("  exit handler slept %d\n", units(t));
}

static void main_exits_first(void)
{
	atexit(at_exit);
	thread(last_thread, NULL);
	pthread_exit(NULL);
}

static void endings(void)
{
	int64_t t = ns();
	int st = in_child(exit_with_threads);
	say("  _exit %s after %d\n", status_text(st), units(t));
	char c;
	if (pipe(ready))
		abort();
	t = ns();
	pid_t pid = fork();
	if (pid == 0)
		killed_with_threads();
	say("  child is ready: %s\n", outcome(read(ready[0], &c, 1)));
	kill(pid, SIGKILL);
	waitpid(pid, &st, 0);
	say("  killed %s after %d\n", status_text(st), units(t));
	t = ns();
	st = in_child(main_exits_first);
	say("  pthread_exit in main %s after %d\n", status_text(st), units(t));
	t = ns();
	pid = fork();
	if (pid == 0)
		abort();
	waitpid(pid, &st, 0);
	say("  abort %s after %d\n", status_text(st), units(t));
}

static _Atomic int children_seen;

static void on_child(int sig)
{
	(void)sig;
	int saved = errno;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		children_seen++;
	errno = saved;
}

/* A parent that sleeps and learns of its child's end only by the signal. */
static void child_signal(void)
{
	struct sigaction sa = {.sa_handler = on_child};
	sigaction(SIGCHLD, &sa, NULL);
	int64_t t = ns();
	if (fork() == 0)
		child_naps();
	struct timespec ts = span(10);
	int r = nanosleep(&ts, NULL);
	say("  %s, %d children", outcome(r), children_seen);
	say(" after %d\n", units(t));
	signal(SIGCHLD, SIG_DFL);
}

static _Atomic int interrupts;

static void on_interrupt(int sig)
{
	(void)sig;
	interrupts++;
}

static void *run_command(void *arg)
{
	system("exec sleep 100");
	return arg;
}

/* A cancelled caller of system ends its command, and gives the signals back. */
static void cancelled_command(void)
{
	struct sigaction now;
	pthread_t p = thread(run_command, NULL);
	int64_t t = ns();
	nap(1);
	sigaction(SIGINT, NULL, &now);
	say("  ignored %d", now.sa_handler == SIG_IGN);
	pthread_cancel(p);
	say(", cancelled %d", join(p) == PTHREAD_CANCELED);
	sigaction(SIGINT, NULL, &now);
	say(", then %d", now.sa_handler == on_interrupt);
	say(", children %s", outcome(waitpid(-1, NULL, WNOHANG)));
	say(" after %d\n", units(t));
}

/* While a command of system runs, the keys of the terminal interrupt only the command, and its end
 * causes no SIGCHLD in the caller. */
static void commands(void)
{
	struct sigaction sa = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART}, reap = {.sa_handler = on_child}, now;
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGQUIT, &sa, NULL);
	sigaction(SIGCHLD, &reap, NULL);
	children_seen = 0;
	say("  command %s", status_text(system("kill -INT $PPID; kill -QUIT $PPID; exit 5")));
	say(", %d interrupts, %d children\n", interrupts, children_seen);
	say("  interrupted %s\n", status_text(system("kill -INT $$")));
	raise(SIGINT);
	sigaction(SIGINT, NULL, &now);
	sigset_t set;
	pthread_sigmask(SIG_BLOCK, NULL, &set);
	say("  afterwards %d interrupts, %d, SIGCHLD blocked %d\n", interrupts, now.sa_handler == on_interrupt,
	    sigismember(&set, SIGCHLD));
	signal(SIGCHLD, SIG_DFL);
	cancelled_command();
	signal(SIGINT, SIG_DFL);
	signal(SIGQUIT, SIG_DFL);
	signal(SIGCHLD, SIG_DFL);
}

/* ------------------------------------------------------- handlers on other stacks */

static int handlers_pipe[2];
static char stack_for_signals[1 << 16];
static sigjmp_buf before_wait;
static _Atomic bool ticket_ready;
static sem_t in_place; /* the thread is about to wait */

static void handler_writes(int sig)
{
	(void)sig;
	if (write(handlers_pipe[1], "x", 1) != 1)
		abort();
}

static void handler_jumps(int sig)
{
	(void)sig;
	siglongjmp(before_wait, 1);
}

static void on_signal_stack(int sig, void (*run)(int), char *stack)
{
	stack_t s = {.ss_sp = stack, .ss_size = sizeof stack_for_signals};
	struct sigaction sa = {.sa_handler = run, .sa_flags = SA_ONSTACK | SA_RESTART};
	if (sigaltstack(&s, NULL) || sigaction(sig, &sa, NULL))
		abort();
}

/* A wait goes on after a handler that ran on another stack, higher up or lower down. */
static void *wait_through_handler(void *stack)
{
	int wakeups = 0, r = 0;
	on_signal_stack(SIGUSR1, handler_writes, stack);
	int64_t t = ns();
	pthread_mutex_lock(&mutex);
	sem_post(&in_place);
	while (!ticket_ready) {
		r = pthread_cond_wait(&cond, &mutex);
		wakeups++;
	}
	pthread_mutex_unlock(&mutex);
	say("  %s, %d wake-up", error_name(r), wakeups);
	say(" after %d\n", units(t));
	return NULL;
}

/* A handler on another stack may leave a wait by a jump; waits after it take time as before. */
static void *jump_out_of_wait(void *stack)
{
	on_signal_stack(SIGUSR1, handler_jumps, stack);
	volatile int64_t t = ns();
	if (!sigsetjmp(before_wait, 1)) {
		sem_post(&in_place);
		nap(9);
	}
	say("  left after %d", units(t));
	nap(2);
	say(", ended after %d\n", units(t));
	return NULL;
}

static void signal_thread(void *(*run)(void *), char *stack)
{
	char byte;
	ticket_ready = false;
	pthread_t p = thread(run, stack);
	sem_wait(&in_place);
	nap(1);
	pthread_kill(p, SIGUSR1);
	if (run == wait_through_handler) {
		nap(2);
		pthread_mutex_lock(&mutex);
		ticket_ready = true;
		pthread_cond_signal(&cond);
		pthread_mutex_unlock(&mutex);
	}
	join(p);
	if (run == wait_through_handler && read(handlers_pipe[0], &byte, 1) != 1)
		abort();
}

static ucontext_t waiting_context, other_context;

static void nap_elsewhere(void)
{
	int64_t t = ns();
	nap(2);
	say("  another context sleeps %d\n", units(t));
	setcontext(&waiting_context);
}

static void handler_changes_context(int sig)
{
	(void)sig;
	setcontext(&other_context);
}

/* The stack of the other context lies below the stack that waits. */
static void change_of_context(void)
{
	static char stack[1 << 16];
	struct sigaction sa = {.sa_handler = handler_changes_context, .sa_flags = SA_NODEFER};
	volatile bool been_there = false;
	volatile int64_t t = ns();
	sigaction(SIGUSR1, &sa, NULL);
	getcontext(&other_context);
	other_context.uc_stack = (stack_t){.ss_sp = stack, .ss_size = sizeof stack};
	makecontext(&other_context, nap_elsewhere, 0);
	struct shot s = {.to = pthread_self(), .sig = SIGUSR1, .after = 1};
	static pthread_t p;
	getcontext(&waiting_context);
	if (!been_there) {
		been_there = true;
		p = thread(shoot, &s);
		nap(9);
	}
	say("  back after %d\n", units(t));
	join(p);
	signal(SIGUSR1, SIG_DFL);
}

static void stacks(void)
{
	char higher[sizeof stack_for_signals];
	if (pipe(handlers_pipe) || sem_init(&in_place, 0, 0))
		abort();
	signal_thread(wait_through_handler, higher);
	signal_thread(wait_through_handler, stack_for_signals);
	signal_thread(jump_out_of_wait, higher);
	signal_thread(jump_out_of_wait, stack_for_signals);
	signal(SIGUSR1, SIG_DFL);
	change_of_context();
	close(handlers_pipe[0]);
	close(handlers_pipe[1]);
}

/* --------------------------------------------------------------------- timers */

/* timer_units returns the whole units from start to a timer's expiry. A virtual timer expires a
 * nanosecond after its time. */
static int timer_units(int64_t start)
{
	return units(start + managed);
}

/* half_units returns n half units as a time. */
static struct timespec half_units(int n)
{
	return (struct timespec){n * UNIT * MS / 2 / (1000 * MS), n * UNIT * MS / 2 % (1000 * MS)};
}

static void set_timer(timer_t timer, int first, int every)
{
	struct itimerspec v = {half_units(every), half_units(first)};
	if (timer_settime(timer, 0, &v, NULL))
		say("  timer_settime: %s\n", error_name(errno));
}

/* left rounds what is left of a timer to whole units. */
static int left(const struct timespec *ts)
{
	return (int)((ts->tv_sec * 1000 * MS + ts->tv_nsec + UNIT * MS / 2) / (UNIT * MS));
}

static timer_t new_timer(int how, int sig, int value)
{
	struct sigevent e = {.sigev_notify = how, .sigev_signo = sig, .sigev_value.sival_int = value};
	timer_t timer;
	e._sigev_un._tid = (int)syscall(SYS_gettid);
	if (timer_create(CLOCK_MONOTONIC, &e, &timer))
		abort();
	return timer;
}

static void timer_signals(void)
{
	struct timespec want = span(5);
	timer_t timer = new_timer(SIGEV_SIGNAL, SIGUSR1, 1);
	on_signal(SIGUSR1, 0);
	int64_t t = ns();
	set_timer(timer, 4, 0);
	int r = nanosleep(&want, NULL);
	say("  sleep %s", outcome(r));
	say(" after %d\n", timer_units(t));
	t = ns();
	set_timer(timer, 4, 0);
	r = poll(NULL, 0, 5 * UNIT);
	say("  poll %s", outcome(r));
	say(" after %d\n", timer_units(t));
	struct itimerspec v, old;
	set_timer(timer, 6, 2);
	nap(1);
	timer_gettime(timer, &v);
	say("  left %d, every %d\n", left(&v.it_value), left(&v.it_interval));
	memset(&v, 0, sizeof v);
	r = timer_settime(timer, 0, &v, &old);
	say("  disarmed %s, %d was left", outcome(r), left(&old.it_value));
	timer_gettime(timer, &v);
	say(", %d is\n", left(&v.it_value));
	t = ns();
	r = nanosleep(&want, NULL);
	say("  sleep %s", outcome(r));
	say(" %d\n", units(t));
	v.it_value = at(CLOCK_MONOTONIC, -3);
	sigset_t set, empty;
	siginfo_t info;
	sigemptyset(&set);
	sigemptyset(&empty);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	t = ns();
	timer_settime(timer, TIMER_ABSTIME, &v, NULL);
	r = sigtimedwait(&set, &info, &want);
	say("  past %d", r == SIGUSR1);
	say(" after %d\n", units(t));
	v.it_value.tv_nsec = 1000 * MS;
	say("  bad %s\n", outcome(timer_settime(timer, 0, &v, NULL)));
	/* five expiries, of which one is pending and four are counted */
	set_timer(timer, 1, 2);
	nap(5);
	r = sigtimedwait(&set, &info, &(struct timespec){0});
	say("  blocked %d, timer %d, value %d, overruns %d\n", r == SIGUSR1, info.si_code == SI_TIMER,
	    info.si_value.sival_int, timer_getoverrun(timer));
	say("  deleted %s", outcome(timer_delete(timer)));
	t = ns();
	r = sigtimedwait(&set, &info, &want);
	say(" %s", outcome(r));
	say(" after %d\n", units(t));
	say("  again %s\n", outcome(timer_delete(timer)));
	timer = new_timer(SIGEV_THREAD_ID, SIGUSR1, 7);
	t = ns();
	set_timer(timer, 2, 4);
	for (int i = 0; i < 3; i++) {
		r = sigtimedwait(&set, &info, NULL);
		say("  tick %d of %d", r == SIGUSR1, info.si_value.sival_int);
		say(" after %d\n", timer_units(t));
	}
	timer_delete(timer);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static sem_t noticed;
static _Atomic int notices;

static void notice(union sigval value)
{
	sigset_t now;
	pthread_sigmask(SIG_BLOCK, NULL, &now);
	notices += value.sival_int + sigismember(&now, SIGUSR1);
	sem_post(&noticed);
}

static void timer_notices(void)
{
	struct sigevent e = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = notice, .sigev_value.sival_int = 5};
	timer_t timer;
	sem_init(&noticed, 0, 0);
	if (timer_create(CLOCK_REALTIME, &e, &timer))
		abort();
	int64_t t = ns();
	set_timer(timer, 2, 2);
	for (int i = 0; i < 3; i++) {
		sem_wait(&noticed);
		say("  notice %d", notices);
		say(" after %d\n", timer_units(t));
	}
	timer_delete(timer);
}

static _Atomic int alarms;

static void on_alarm(int sig)
{
	(void)sig;
	alarms++;
}

static void child_waits(void)
{
	nap(3);
	_exit(alarms);
}

static void interval_timer(void)
{
	struct sigaction sa = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	struct itimerval v = {.it_value = {0, 2 * UNIT * 1000}}, got;
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &v, NULL);
	nap(1);
	getitimer(ITIMER_REAL, &got);
	say("  left %d\n", (int)(got.it_value.tv_usec + UNIT * 500) / (UNIT * 1000));
	say("  a child has no timer: %s\n", status_text(in_child(child_waits)));
	say("  %d alarms", alarms);
	int64_t t = ns();
	say(", alarm %u", alarm(1));
	say(" %u", alarm(1));
	sleep(2);
	say(", %d alarms %d\n", alarms, (int)((ns() - t) / (1000 * MS)));
	signal(SIGALRM, SIG_DFL);
}

static void *add_later(void *arg)
{
	nap(1);
	say("  added %s\n", outcome(eventfd_write(*(int *)arg, 3)));
	return NULL;
}

static void descriptors(void)
{
	struct itimerspec v = {half_units(2), half_units(4)};
	uint64_t n = 0;
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC), set = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event e = {.events = EPOLLIN, .data.u32 = 9};
	int64_t t = ns();
	timerfd_settime(fd, 0, &v, NULL);
	long r = read(fd, &n, sizeof n);
	say("  timer %s: %d", outcome(r), (int)n);
	say(" after %d\n", timer_units(t));
	epoll_ctl(set, EPOLL_CTL_ADD, fd, &e);
	memset(&e, 0, sizeof e);
	r = epoll_wait(set, &e, 1, -1);
	say("  epoll %s %u", outcome(r), e.data.u32);
	say(" after %d\n", timer_units(t));
	struct timespec half = half_units(5);
	nanosleep(&half, NULL);
	r = read(fd, &n, sizeof n);
	say("  later %s: %d\n", outcome(r), (int)n);
	timerfd_gettime(fd, &v);
	say("  every %d\n", left(&v.it_interval));
	memset(&v, 0, sizeof v);
	timerfd_settime(fd, 0, &v, NULL);
	t = ns();
	r = epoll_wait(set, &e, 1, 2 * UNIT);
	say("  disarmed %s", outcome(r));
	say(" after %d\n", units(t));
	close(fd);
	say("  closed %s\n", outcome(timerfd_settime(fd, 0, &v, NULL)));
	fd = timerfd_create(CLOCK_MONOTONIC, 0);
	v.it_value = span(1);
	say("  unknown flag %s", outcome(timerfd_settime(fd, 1 << 5, &v, NULL)));
	timerfd_gettime(fd, &v);
	say(", %d is left\n", left(&v.it_value));
	v.it_value = span(1);
	int other = open("/", O_RDONLY); /* readable, as an expired timer is */
	syscall(SYS_dup2, other, fd);
	say("  another file %s", outcome(timerfd_settime(fd, 0, &v, NULL)));
	say(" %s\n", outcome(timerfd_gettime(fd, &v)));
	close(other);
	close(fd);
	fd = eventfd(0, EFD_CLOEXEC);
	e = (struct epoll_event){.events = EPOLLIN, .data.u32 = 4};
	epoll_ctl(set, EPOLL_CTL_ADD, fd, &e);
	t = ns();
	pthread_t p = thread(add_later, &fd);
	struct timespec most = span(5);
	r = epoll_pwait2(set, &e, 1, &most, NULL);
	join(p);
	say("  event %s %u", outcome(r), e.data.u32);
	say(" after %d\n", units(t));
	eventfd_t value = 0;
	say("  value %s", outcome(eventfd_read(fd, &value)));
	say(" %d\n", (int)value);
	close(fd);
	close(set);
}

static void child_exits_with_timer(void)
{
	timer_t timer = new_timer(SIGEV_SIGNAL, SIGUSR1, 1);
	set_timer(timer, 20, 0);
	pthread_exit(NULL);
}

static void timers(void)
{
	timer_signals();
	timer_notices();
	interval_timer();
	say("  the last thread ends the process: %s\n", status_text(in_child(child_exits_with_timer)));
}

/* Memory of calloc is zero, also where freed memory with other bytes is used again. */
static void allocations(void)
{
	static const size_t sizes[] = {0, 1, 24, 1032, 1033, 70000};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		size_t wrong = 0;
		for (int round = 0; round < 100; round++) {
			unsigned char *volatile p = calloc(1, sizes[i]);
			if (!p) {
				say("no memory\n");
				return;
			}
			for (size_t k = 0; k < sizes[i]; k++)
				wrong += p[k] != 0;
			memset(p, 0xff, sizes[i]);
			free(p);
		}
		say("%zu bytes: %zu are not zero\n", sizes[i], wrong);
	}
	volatile size_t half = SIZE_MAX / 2 + 2;
	errno = 0;
	void *volatile none = calloc(half, 2);
	say("too much: %s, %s\n", none ? "memory" : "none", strerror(errno));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} all[] = {
		{"sleeping", sleeping}, {"sleep interrupted", sleep_interrupted}, {"condition variable", cond_static},
		{"timed condition variable", cond_timed}, {"condition variable destroyed", cond_destroyed},
		{"mutex types", mutex_types}, {"contention", contention}, {"semaphores", semaphores}, {"joining", joining},
		{"cancelling", cancelling}, {"multiplexing", multiplexing}, {"blocking", blocking}, {"tcp", tcp}, {"signals", signals},
		{"forks", forks}, {"fork with waiters", fork_with_waiters}, {"execs", execs}, {"endings", endings},
		{"child signal", child_signal}, {"commands", commands}, {"stacks", stacks}, {"timers", timers}, {"descriptors", descriptors},
		{"allocations", allocations},
	};
	self = "/proc/self/exe";
	static char path[4096];
	if (readlink(self, path, sizeof path - 1) > 0)
		self = path;
	managed = getenv("RMREPLAY_CLOCK") != NULL;
	charged = getenv("TEST_CHARGED") != NULL;
	if (argc > 1 && strcmp(argv[1], "nap") == 0) {
		nap(1);
		return 7;
	}
	prctl(PR_SET_TIMERSLACK, 1);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		if (argc > 1 && strcmp(argv[1], all[i].name))
			continue;
		say("%s\n", all[i].name);
		all[i].run();
	}
	return 0;
}
