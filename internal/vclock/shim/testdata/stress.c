/*
 * Looks for lost wake-ups. Pairs of threads wake each other by condition variables, and
 * processes do so by pipes and sockets; timed waits time out, or not, at the same instants; there
 * are broadcasts, locks whose holders sleep, threads and processes that end soon, and signals.
 * Prints its counters and the virtual time that it took. Both are known beforehand: every part
 * ends with the longest of the sleeps.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAIRS 6
#define LINKS 4
#define MS 1000000LL

static int rounds;
static _Atomic long volleys, timeouts, hits, broadcasts, locked, lives, children, messages, ticks;

static int64_t ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 * MS + ts.tv_nsec;
}

static void nap_us(int us)
{
	struct timespec ts = {us / 1000000, us % 1000000 * 1000};
	nanosleep(&ts, NULL);
}

static struct timespec in_us(int us)
{
	int64_t t = ns() + us * 1000LL;
	return (struct timespec){t / (1000 * MS), t % (1000 * MS)};
}

static void must(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		_exit(1);
	}
}

static pthread_t thread(void *(*run)(void *), void *arg)
{
	pthread_t t;
	must(pthread_create(&t, NULL, run, arg) == 0, "pthread_create");
	return t;
}

/* Two threads wake each other in turn; no virtual time passes. */
struct pair {
	pthread_mutex_t m;
	pthread_cond_t c[2];
	int turn;
};

struct player {
	struct pair *pair;
	int side;
};

static void *play(void *arg)
{
	struct player *p = arg;
	for (int i = 0; i < rounds; i++) {
		pthread_mutex_lock(&p->pair->m);
		while (p->pair->turn != p->side)
			pthread_cond_wait(&p->pair->c[p->side], &p->pair->m);
		p->pair->turn = !p->side;
		volleys++;
		pthread_cond_signal(&p->pair->c[!p->side]);
		pthread_mutex_unlock(&p->pair->m);
		if (i % 16 == 0)
			nap_us(100);
	}
	return NULL;
}

/* One thread signals every millisecond. The other waits for at most half a millisecond, one, or
 * two. With one millisecond, signal and timeout come at one instant, and either is right. */
struct timed {
	pthread_mutex_t m;
	pthread_cond_t c;
	int sent, got, late, over;
};

static void *tick(void *arg)
{
	struct timed *t = arg;
	for (int i = 0; i < rounds / 4; i++) {
		nap_us(1000);
		pthread_mutex_lock(&t->m);
		t->sent++;
		pthread_cond_signal(&t->c);
		pthread_mutex_unlock(&t->m);
	}
	pthread_mutex_lock(&t->m);
	t->over = 1;
	pthread_cond_signal(&t->c);
	pthread_mutex_unlock(&t->m);
	return NULL;
}

static void *wait_ticks(void *arg)
{
	static const int patience[] = {500, 1000, 2000};
	struct timed *t = arg;
	pthread_mutex_lock(&t->m);
	for (int i = 0; !t->over || t->got < t->sent; i++) {
		struct timespec until = in_us(patience[i % 3]);
		int r = 0;
		while (t->got == t->sent && !t->over && r == 0)
			r = pthread_cond_timedwait(&t->c, &t->m, &until);
		if (t->got < t->sent) {
			t->got++;
			hits++;
		} else if (r) {
			timeouts++;
		}
	}
	pthread_mutex_unlock(&t->m);
	return NULL;
}

/* A barrier of a condition variable and broadcasts. */
static pthread_mutex_t gate_m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate = PTHREAD_COND_INITIALIZER;
static int waiting, generation;

static void *march(void *arg)
{
	int pace = (int)(intptr_t)arg;
	for (int i = 0; i < rounds / 4; i++) {
		if (pace)
			nap_us(pace);
		pthread_mutex_lock(&gate_m);
		int g = generation;
		if (++waiting == 8) {
			waiting = 0;
			generation++;
			broadcasts++;
			pthread_cond_broadcast(&gate);
		}
		while (g == generation)
			pthread_cond_wait(&gate, &gate_m);
		pthread_mutex_unlock(&gate_m);
	}
	return NULL;
}

/* Locks whose holders sleep now and then. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

static void *contend(void *arg)
{
	for (int i = 0; i < rounds; i++) {
		pthread_mutex_lock(&lock);
		long n = locked;
		if (i % 64 == (int)(intptr_t)arg)
			nap_us(50);
		locked = n + 1;
		pthread_mutex_unlock(&lock);
		if (i % 3)
			pthread_rwlock_rdlock(&rwlock);
		else
			pthread_rwlock_wrlock(&rwlock);
		if (i % 100 == (int)(intptr_t)arg)
			nap_us(50);
		pthread_rwlock_unlock(&rwlock);
	}
	return NULL;
}

static void *live(void *arg)
{
	lives++;
	if (arg)
		nap_us(20);
	return NULL;
}

static void *give_birth(void *arg)
{
	for (int i = 0; i < rounds / 2; i++) {
		pthread_t a = thread(live, NULL), b = thread(live, &a), c = thread(live, &a);
		pthread_detach(c);
		pthread_join(b, NULL);
		pthread_join(a, NULL);
	}
	nap_us(1000);
	return arg;
}

static void *fork_often(void *arg)
{
	for (int i = 0; i < rounds / 20; i++) {
		int st = -1;
		pid_t pid = fork();
		if (pid == 0) {
			if (i % 2)
				nap_us(100);
			_exit(i % 7);
		}
		must(pid > 0 && waitpid(pid, &st, 0) == pid, "waitpid");
		must(WIFEXITED(st) && WEXITSTATUS(st) == i % 7, "status");
		children++;
	}
	return arg;
}

/* A message to another process and back, by socket pairs and TCP. Now and then one of the two
 * processes sleeps first. */
static void echo(int fd)
{
	char buf[64];
	ssize_t n;
	for (int i = 0; (n = read(fd, buf, sizeof buf)) > 0; i++) {
		if (i % 10 == 5)
			nap_us(30);
		must(write(fd, buf, (size_t)n) == n, "echo");
	}
	_exit(0);
}

static int tcp_pair(int fds[2])
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof a;
	int l = socket(AF_INET, SOCK_STREAM, 0);
	must(l >= 0 && bind(l, (struct sockaddr *)&a, n) == 0 && listen(l, 1) == 0, "listen");
	must(getsockname(l, (struct sockaddr *)&a, &n) == 0, "getsockname");
	fds[0] = socket(AF_INET, SOCK_STREAM, 0);
	must(connect(fds[0], (struct sockaddr *)&a, n) == 0, "connect");
	fds[1] = accept(l, NULL, NULL);
	must(fds[1] >= 0, "accept");
	return close(l);
}

static void *talk(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char buf[64] = "";
	for (int i = 0; i < rounds; i++) {
		if (i % 10 == 0)
			nap_us(30);
		must(write(fd, "four", 4) == 4, "write");
		ssize_t n = 0;
		while (n < 4) {
			struct pollfd p = {fd, POLLIN, 0};
			if (i % 2)
				must(poll(&p, 1, 1000) == 1, "poll");
			ssize_t r = read(fd, buf + n, sizeof buf - (size_t)n);
			must(r > 0, "read");
			n += r;
		}
		messages++;
	}
	close(fd);
	return NULL;
}

static void on_tick(int sig)
{
	(void)sig;
	ticks++;
}

static void *signal_often(void *arg)
{
	pthread_t *to = arg;
	for (int i = 0; i < rounds / 10; i++) {
		nap_us(700);
		pthread_kill(*to, SIGUSR1);
	}
	return NULL;
}

static void *be_signalled(void *arg)
{
	struct timespec rem = {1, 0};
	while (nanosleep(&rem, &rem))
		;
	return arg;
}

int main(int argc, char **argv)
{
	rounds = argc > 1 ? atoi(argv[1]) : 1000;
	int64_t start = ns();
	pthread_t all[100];
	int n = 0;
	signal(SIGUSR1, on_tick);

	/* The processes come first, so that they inherit no descriptors of the other parts. */
	int link[LINKS];
	for (int i = 0; i < LINKS; i++) {
		int fds[2];
		if (i % 2)
			must(tcp_pair(fds) == 0, "tcp");
		else
			must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0, "socketpair");
		pid_t pid = fork();
		if (pid == 0) {
			for (int j = 0; j < i; j++)
				close(link[j]);
			close(fds[0]);
			echo(fds[1]);
		}
		must(pid > 0, "fork");
		close(fds[1]);
		link[i] = fds[0];
	}

	struct pair pairs[PAIRS];
	struct player players[PAIRS][2];
	memset(pairs, 0, sizeof pairs);
	for (int i = 0; i < PAIRS; i++)
		for (int side = 0; side < 2; side++) {
			players[i][side] = (struct player){&pairs[i], side};
			all[n++] = thread(play, &players[i][side]);
		}
	struct timed timed[3];
	memset(timed, 0, sizeof timed);
	for (int i = 0; i < 3; i++) {
		all[n++] = thread(tick, &timed[i]);
		all[n++] = thread(wait_ticks, &timed[i]);
	}
	for (int i = 0; i < 8; i++)
		all[n++] = thread(march, (void *)(intptr_t)(i * 10));
	for (int i = 0; i < 4; i++)
		all[n++] = thread(contend, (void *)(intptr_t)i);
	all[n++] = thread(give_birth, NULL);
	all[n++] = thread(fork_often, NULL);
	for (int i = 0; i < LINKS; i++)
		all[n++] = thread(talk, (void *)(intptr_t)link[i]);
	pthread_t signalled = all[n++] = thread(be_signalled, NULL);
	all[n++] = thread(signal_often, &signalled);
	/* This takes longer than all other parts. */
	nap_us(10 * 1000 * 1000);
	for (int i = 0; i < n; i++)
		pthread_join(all[i], NULL);
	for (int i = 0; i < LINKS; i++)
		must(wait(NULL) > 0, "wait");

	int lost = 0;
	for (int i = 0; i < 3; i++)
		lost += timed[i].sent - timed[i].got;
	printf("volleys %ld\nhits %ld\nlost %d\ntimeouts %s\nbroadcasts %ld\nlocked %ld\nlives %ld\nchildren %ld\nmessages %ld\nticks %ld\n",
	       volleys, hits, lost, timeouts > 0 ? "some" : "none", broadcasts, locked, lives, children, messages, ticks);
	printf("ns %lld\n", (long long)(ns() - start));
	return 0;
}
