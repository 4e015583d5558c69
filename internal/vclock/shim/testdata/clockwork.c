/*
 * Small programs for the tests of virtual time, chosen by the first argument.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void stamp(const char *what)
{
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	printf("%s %lld.%09ld\n", what, (long long)ts.tv_sec, ts.tv_nsec);
	fflush(stdout);
}

static int number(char **argv, int i)
{
	return atoi(argv[i]);
}

/* steps COUNT MS: sleeps. */
static void steps(char **argv)
{
	struct timespec ts = {number(argv, 3) / 1000, number(argv, 3) % 1000 * 1000000L};
	for (int i = number(argv, 2); i > 0; i--)
		nanosleep(&ts, NULL);
}

static struct sockaddr_in address(const char *host, int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	if (inet_pton(AF_INET, host, &a.sin_addr) != 1)
		die("inet_pton");
	return a;
}

static int cpus(void)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	if (syscall(SYS_sched_getaffinity, 0, sizeof set, &set) == -1)
		die("sched_getaffinity");
	return CPU_COUNT(&set);
}

/* counted_cpus returns on how many CPUs a program believes that it may run. */
static int counted_cpus(void)
{
	cpu_set_t set;
	memset(&set, 0xff, sizeof set);
	if (sched_getaffinity(0, sizeof set, &set) == -1)
		die("sched_getaffinity");
	return CPU_COUNT(&set);
}

static void *look_around(void *name)
{
	static const struct timespec pause = {10, 0};
	for (int i = 0; i < 3; i++) {
		nanosleep(&pause, NULL);
		printf("%s %d\n%s counts %d\n", (const char *)name, cpus(), (const char *)name, counted_cpus());
		fflush(stdout);
	}
	return NULL;
}

/* where: a thread and a child print on how many CPUs they may run, three times, every ten
 * seconds. */
static void where(char **argv)
{
	(void)argv;
	pthread_t thread;
	pid_t child = fork();
	if (child == 0) {
		look_around("child");
		_exit(0);
	}
	if (child == -1 || pthread_create(&thread, NULL, look_around, "thread") != 0)
		die("where");
	pthread_join(thread, NULL);
	waitpid(child, NULL, 0);
}

/* serve: prints its port, answers each message after as many seconds as it says. */
static void serve(char **argv)
{
	struct sockaddr_in a = address("127.0.0.1", 0);
	socklen_t n = sizeof a;
	int l = socket(AF_INET, SOCK_STREAM, 0), fd;
	char c;
	if (bind(l, (struct sockaddr *)&a, n) || listen(l, 5) || getsockname(l, (struct sockaddr *)&a, &n))
		die("listen");
	FILE *f = fopen(argv[2], "w");
	fprintf(f, "%d", ntohs(a.sin_port));
	fclose(f);
	if ((fd = accept(l, NULL, NULL)) < 0)
		die("accept");
	stamp("accepted");
	while (read(fd, &c, 1) == 1) {
		stamp("asked");
		sleep((unsigned)(c - '0'));
		if (write(fd, &c, 1) != 1)
			die("write");
	}
	stamp("closed");
}

/* ask HOST PORT: connects, asks for 1, 2 and 3 seconds, with a sleep of 10 before each. */
static void ask(char **argv)
{
	struct sockaddr_in a = address(argv[2], number(argv, 3));
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(fd, (struct sockaddr *)&a, sizeof a))
		die("connect");
	for (char c = '1'; c <= '3'; c++) {
		sleep(10);
		if (write(fd, &c, 1) != 1 || read(fd, &c, 1) != 1)
			die("ask");
		stamp("answered");
	}
}

/* outside PATH: asks an unmanaged server, then sleeps. */
static void outside(char **argv)
{
	char c = 'x';
	int fd;
	if (argv[2][0] == '/') {
		struct sockaddr_un a = {.sun_family = AF_UNIX};
		strcpy(a.sun_path, argv[2]);
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		if (connect(fd, (struct sockaddr *)&a, sizeof a))
			die("connect");
	} else {
		struct sockaddr_in a = address("127.0.0.1", number(argv, 2));
		fd = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(fd, (struct sockaddr *)&a, sizeof a))
			die("connect");
	}
	for (int i = 0; i < 3; i++) {
		if (write(fd, &c, 1) != 1 || read(fd, &c, 1) != 1)
			die("outside");
		stamp("answered");
		sleep(5);
	}
}

/* unanswered PATH: asks an unmanaged server again and again, which never answers. */
static void unanswered(char **argv)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	strcpy(a.sun_path, argv[2]);
	struct pollfd p = {.fd = socket(AF_UNIX, SOCK_STREAM, 0), .events = POLLIN};
	if (connect(p.fd, (struct sockaddr *)&a, sizeof a))
		die("connect");
	while (poll(&p, 1, 100) == 0)
		sleep(5);
}

/* report PORT: after 7 seconds, sends the driver 3 + 1000 bytes in two writes, and waits for a
 * byte. */
static void report(char **argv)
{
	struct sockaddr_in a = address("127.0.0.1", number(argv, 2));
	static char buf[1000];
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(fd, (struct sockaddr *)&a, sizeof a))
		die("connect");
	sleep(7);
	if (write(fd, buf, 3) != 3 || send(fd, buf, sizeof buf, 0) != sizeof buf)
		die("write");
	if (recv(fd, buf, 1, 0) != 1)
		die("recv");
	stamp("told");
	sleep(1);
}

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static sem_t sem;
static pthread_t first;

static void *wait_cond(void *arg)
{
	pthread_setname_np(pthread_self(), "waits-cond");
	pthread_mutex_lock(&m);
	pthread_cond_wait(&c, &m);
	return arg;
}

static void *wait_sem(void *arg)
{
	pthread_setname_np(pthread_self(), "waits-sem");
	sem_wait(&sem);
	return arg;
}

static void *wait_join(void *arg)
{
	pthread_setname_np(pthread_self(), "waits-join");
	pthread_join(first, NULL);
	return arg;
}

static void *wait_read(void *arg)
{
	int *fds = arg;
	char x;
	pthread_setname_np(pthread_self(), "waits-read");
	return read(fds[0], &x, 1) == 1 ? arg : NULL;
}

static void *wait_mutex(void *arg)
{
	pthread_setname_np(pthread_self(), "waits-mutex");
	pthread_mutex_lock(arg);
	return arg;
}

/* deadlock: after a second, threads wait for events that never come. */
static void deadlock(char **argv)
{
	pthread_t t[5];
	static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
	static int fds[2];
	(void)argv;
	sem_init(&sem, 0, 0);
	pthread_mutex_lock(&held);
	if (pipe(fds))
		die("pipe");
	pthread_create(&t[0], NULL, wait_cond, NULL);
	first = t[0];
	pthread_create(&t[1], NULL, wait_sem, NULL);
	pthread_create(&t[2], NULL, wait_join, NULL);
	pthread_create(&t[3], NULL, wait_read, fds);
	pthread_create(&t[4], NULL, wait_mutex, &held);
	sleep(1);
	pthread_join(t[1], NULL);
}

/* stall: a wait that the clock does not know of. */
static void stall(char **argv)
{
	int word = 0;
	(void)argv;
	sleep(1);
	pthread_setname_np(pthread_self(), "stalls");
	syscall(SYS_futex, &word, 0 /* FUTEX_WAIT */, 0, NULL, NULL, 0);
}

/* spin: after a second, polls for ever for an event that never comes. */
static void spin(char **argv)
{
	(void)argv;
	sleep(1);
	pthread_setname_np(pthread_self(), "spins");
	pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
	for (;;) {
		pthread_mutex_lock(&own);
		pthread_mutex_unlock(&own);
	}
}

/* victim: starts children and threads for the test to kill. */
static void victim(char **argv)
{
	pthread_t t;
	(void)argv;
	for (int i = 0; i < 3; i++)
		pthread_create(&t, NULL, wait_cond, NULL);
	for (int i = 0; i < 3; i++)
		if (fork() == 0)
			break;
	for (;;)
		usleep(100);
}

/* pingpong COUNT: two threads wake each other in turn, each after a sleep of a millisecond. */
static int turn;
static pthread_cond_t turned[2] = {PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER};
static int volleys;

static void *play(void *arg)
{
	int side = (int)(intptr_t)arg;
	for (int i = 0; i < volleys; i++) {
		pthread_mutex_lock(&m);
		while (turn != side)
			pthread_cond_wait(&turned[side], &m);
		turn = !side;
		pthread_mutex_unlock(&m);
		usleep(1000);
		pthread_cond_signal(&turned[!side]);
	}
	return NULL;
}

static void pingpong(char **argv)
{
	pthread_t t;
	volleys = number(argv, 2);
	pthread_create(&t, NULL, play, (void *)1);
	play((void *)0);
	pthread_join(t, NULL);
}

/* crowd COUNT: like steps, with 20 threads that wait in the kernel. A write to a pipe at each step
 * makes the driver look. */
static void crowd(char **argv)
{
	pthread_t t;
	int fds[20][2], busy[2];
	char x = 'x';
	if (pipe(busy))
		die("pipe");
	for (int i = 0; i < 20; i++) {
		if (pipe(fds[i]))
			die("pipe");
		pthread_create(&t, NULL, wait_read, fds[i]);
	}
	for (int i = number(argv, 2); i > 0; i--) {
		if (write(busy[1], &x, 1) != 1 || read(busy[0], &x, 1) != 1)
			die("busy");
		usleep(100000);
	}
	exit(0);
}

static int64_t read_clock(clockid_t clock)
{
	struct timespec ts;
	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

/* spend computes until the calling thread has used ns of CPU time. Like a daemon, it reads the
 * clock, or takes a lock, now and then. */
enum how { LOOKING, LOCKING };

static void spend(int64_t ns, enum how how)
{
	static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
	volatile int sink = 0;
	int64_t end = read_clock(CLOCK_THREAD_CPUTIME_ID) + ns;
	while (read_clock(CLOCK_THREAD_CPUTIME_ID) < end) {
		for (int i = 0; i < 1000; i++)
			sink += i;
		if (how == LOOKING) {
			read_clock(CLOCK_REALTIME);
		} else {
			pthread_mutex_lock(&own);
			pthread_mutex_unlock(&own);
		}
	}
}

/* print_spent prints the CPU time and the virtual time that computing took, in µs. */
static void print_spent(const char *what, int64_t cpu, int64_t virtual)
{
	printf("%s %lld %lld\n", what, (long long)(cpu / 1000), (long long)(virtual / 1000));
	fflush(stdout);
}

/* compute MS HOW: computes for MS of CPU time and prints what that took. */
static void compute(char **argv)
{
	int64_t begin = read_clock(CLOCK_REALTIME), cpu = read_clock(CLOCK_THREAD_CPUTIME_ID);
	spend(number(argv, 2) * 1000000LL, strcmp(argv[3], "locking") == 0 ? LOCKING : LOOKING);
	int64_t used = read_clock(CLOCK_THREAD_CPUTIME_ID) - cpu;
	print_spent("computed", used, read_clock(CLOCK_REALTIME) - begin);
}

/* bits MS COUNT: computes in COUNT pieces, with a sleep of a virtual second after each. Prints the
 * CPU time and the virtual time without the sleeps. */
static void bits(char **argv)
{
	int64_t begin = read_clock(CLOCK_REALTIME), cpu = read_clock(CLOCK_THREAD_CPUTIME_ID);
	int n = number(argv, 3);
	for (int i = 0; i < n; i++) {
		spend(number(argv, 2) * 1000000LL / n, LOCKING);
		sleep(1);
	}
	int64_t used = read_clock(CLOCK_THREAD_CPUTIME_ID) - cpu;
	print_spent("computed", used, read_clock(CLOCK_REALTIME) - begin - n * 1000000000LL);
}

static int64_t crew_work;

static void *work(void *arg)
{
	spend(crew_work, LOCKING);
	return arg;
}

/* crew THREADS MS: THREADS threads compute for MS of CPU time each. */
static void crew(char **argv)
{
	pthread_t t[16];
	int n = number(argv, 2);
	crew_work = number(argv, 3) * 1000000LL;
	int64_t begin = read_clock(CLOCK_REALTIME), cpu = read_clock(CLOCK_PROCESS_CPUTIME_ID);
	for (int i = 0; i < n; i++)
		pthread_create(&t[i], NULL, work, NULL);
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	int64_t used = read_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	print_spent("computed", used / n, read_clock(CLOCK_REALTIME) - begin);
}

/* lockout MS: one thread computes while it holds a lock that another thread waits for. */
static void *want(void *arg)
{
	int64_t begin = read_clock(CLOCK_REALTIME);
	pthread_mutex_lock(&m);
	*(int64_t *)arg = read_clock(CLOCK_REALTIME) - begin;
	pthread_mutex_unlock(&m);
	return NULL;
}

static void lockout(char **argv)
{
	pthread_t t;
	int64_t waited, cpu = read_clock(CLOCK_THREAD_CPUTIME_ID);
	pthread_mutex_lock(&m);
	pthread_create(&t, NULL, want, &waited);
	spend(number(argv, 2) * 1000000LL, LOCKING);
	pthread_mutex_unlock(&m);
	cpu = read_clock(CLOCK_THREAD_CPUTIME_ID) - cpu;
	pthread_join(t, NULL);
	print_spent("waited", cpu, waited);
}

/* tick: prints the time of ten sleeps of 5 ms, while another thread computes for MS. */
static void tick(char **argv)
{
	pthread_t t;
	crew_work = number(argv, 2) * 1000000LL;
	pthread_create(&t, NULL, work, NULL);
	for (int i = 0; i < 10; i++) {
		usleep(5000);
		stamp("tick");
	}
	pthread_join(t, NULL);
}

/* save NAME SECONDS: something changes every second, SECONDS times. A thread named NAME saves the
 * changes, at most every five seconds, as slurmctld's state saver does. Prints when it saved. */
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static int changes;
static bool ending;

static void *saver(void *name)
{
	time_t last = 0, t;
	prctl(PR_SET_NAME, name, NULL, NULL, NULL);
	pthread_mutex_lock(&m);
	while (changes || !ending) {
		t = time(NULL);
		struct timespec ts = {t + 1, 0};
		if (changes && (ending || t - last >= 5)) {
			last = t;
			changes = 0;
			stamp("saved");
		} else if (changes)
			pthread_cond_timedwait(&change, &m, &ts);
		else
			pthread_cond_wait(&change, &m);
	}
	pthread_mutex_unlock(&m);
	return NULL;
}

static void announce(bool last)
{
	pthread_mutex_lock(&m);
	changes++;
	ending = last;
	pthread_cond_broadcast(&change);
	pthread_mutex_unlock(&m);
}

static void save(char **argv)
{
	pthread_t t;
	pthread_create(&t, NULL, saver, argv[2]);
	for (int i = number(argv, 3); i > 0; i--) {
		announce(false);
		sleep(1);
	}
	announce(true);
	pthread_join(t, NULL);
}

/* together THREADS ROUNDS: in every round all threads sleep until the same instant. Prints how
 * often two threads were awake together, and in how many rounds their order was not that of the
 * first round. */
static int awake, overlaps, other_orders, woken, threads, rounds;
static int order[64];

static void *sleep_together(void *arg)
{
	int id = (int)(intptr_t)arg;
	struct timespec at;
	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_nsec = 0;
	for (int round = 0; round < rounds; round++) {
		at.tv_sec += 10;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
		if (__atomic_fetch_add(&awake, 1, __ATOMIC_SEQ_CST))
			__atomic_fetch_add(&overlaps, 1, __ATOMIC_SEQ_CST);
		int place = __atomic_fetch_add(&woken, 1, __ATOMIC_SEQ_CST) % threads;
		if (round == 0)
			order[place] = id;
		else if (order[place] != id)
			__atomic_fetch_add(&other_orders, 1, __ATOMIC_SEQ_CST);
		for (int i = 0; i < 100; i++)
			sched_yield();
		__atomic_fetch_sub(&awake, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

static void together(char **argv)
{
	pthread_t t[64];
	threads = number(argv, 2);
	rounds = number(argv, 3);
	for (int i = 0; i < threads; i++)
		pthread_create(&t[i], NULL, sleep_together, (void *)(intptr_t)i);
	for (int i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	printf("%d overlaps, %d in other places\n", overlaps, other_orders);
}

/* restless MS: a thread reads two bytes from a non-blocking pipe, again and again. The second byte
 * is written MS of virtual time after the first. Prints how many bytes the thread got. */
static int restless_pipe[2];

static void *ask_without_waiting(void *arg)
{
	(void)arg;
	char bytes[2];
	intptr_t got = 0;
	while (got < 2) {
		ssize_t n = read(restless_pipe[0], bytes + got, (size_t)(2 - got));
		if (n > 0)
			got += n;
	}
	return (void *)got;
}

static void restless(char **argv)
{
	struct timespec ts = {number(argv, 2) / 1000, number(argv, 2) % 1000 * 1000000L};
	pthread_t reader;
	void *got;
	if (pipe2(restless_pipe, O_NONBLOCK) || pthread_create(&reader, NULL, ask_without_waiting, NULL))
		die("pipe");
	if (write(restless_pipe[1], "a", 1) != 1 || nanosleep(&ts, NULL) || write(restless_pipe[1], "b", 1) != 1)
		die("write");
	pthread_join(reader, &got);
	printf("%d bytes\n", (int)(intptr_t)got);
}

/* order ROUNDS: in every round, the main thread makes five threads and wakes them in the opposite
 * order: by a condition variable, by a lock that it releases, and through pipes. It goes on
 * meanwhile. Each writes down its letter when it runs. Prints how many rounds had another order
 * than expected, and the first of those. */
enum { CREW = 5 };
static char written[64];
static int written_length;
static pthread_mutex_t written_lock = PTHREAD_MUTEX_INITIALIZER, gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t call = PTHREAD_COND_INITIALIZER;
static int called, ways[CREW][2];

static void write_down(char letter)
{
	pthread_mutex_lock(&written_lock);
	written[written_length++] = letter;
	pthread_mutex_unlock(&written_lock);
}

static void *one_of_crew(void *arg)
{
	int id = (int)(intptr_t)arg;
	char byte, letter = (char)('a' + id);
	write_down(letter);
	pthread_mutex_lock(&gate);
	while (!called)
		pthread_cond_wait(&call, &gate);
	pthread_mutex_unlock(&gate);
	write_down(letter);
	usleep(1000 + id);
	pthread_mutex_lock(&gate);
	write_down(letter);
	pthread_mutex_unlock(&gate);
	if (read(ways[id][0], &byte, 1) != 1)
		die("read");
	write_down(letter);
	return NULL;
}

static void compute_a_moment(void)
{
	for (volatile int i = 0; i < 200000; i++)
		;
}

static void in_order(char **argv)
{
	static const char expected[] = "1abcde2abcde3abcde4abcde";
	int others = 0;
	pthread_t t[CREW];
	for (int i = 0; i < CREW; i++)
		if (pipe(ways[i]))
			die("pipe");
	for (int round = 0; round < number(argv, 2); round++) {
		written_length = called = 0;
		for (int i = 0; i < CREW; i++)
			pthread_create(&t[i], NULL, one_of_crew, (void *)(intptr_t)i);
		compute_a_moment();
		write_down('1');
		usleep(1000);
		pthread_mutex_lock(&gate);
		called = 1;
		pthread_cond_broadcast(&call);
		pthread_mutex_unlock(&gate);
		compute_a_moment();
		write_down('2');
		usleep(100);
		pthread_mutex_lock(&gate);
		usleep(2000);
		pthread_mutex_unlock(&gate);
		compute_a_moment();
		write_down('3');
		usleep(2000);
		for (int i = CREW - 1; i >= 0; i--)
			if (write(ways[i][1], "x", 1) != 1)
				die("write");
		compute_a_moment();
		write_down('4');
		for (int i = 0; i < CREW; i++)
			pthread_join(t[i], NULL);
		written[written_length] = 0;
		if (strcmp(written, expected) && others++ == 0)
			printf("%s\n", written);
	}
	printf("%d rounds in another order\n", others);
}

/* answered ROUNDS BYTES US: in each round, computes for up to US of CPU time, sends BYTES to a
 * child through a pipe, and waits for the child's answer without checking whether it has come.
 * Another thread takes the answer. slurmctld and slurmscriptd up to 24.11.5 do this. */
static int to_child[2], from_child[2];

static void transfer(int fd, bool out, size_t n)
{
	static __thread char bytes[1 << 16];
	for (ssize_t r; n > 0; n -= (size_t)r) {
		r = out ? write(fd, bytes, n) : read(fd, bytes, n);
		if (r <= 0)
			_exit(out ? 1 : 0);
	}
}

static void *take_answers(void *arg)
{
	for (;;) {
		transfer(from_child[0], false, 1);
		pthread_mutex_lock(&m);
		pthread_cond_signal(&c);
		pthread_mutex_unlock(&m);
	}
	return arg;
}

static void answered(char **argv)
{
	pthread_t t;
	size_t bytes = (size_t)number(argv, 3);
	if (pipe(to_child) || pipe(from_child))
		die("pipe");
	if (fork() == 0) {
		close(to_child[1]);
		for (;;) {
			transfer(to_child[0], false, bytes);
			transfer(from_child[1], true, 1);
		}
	}
	pthread_create(&t, NULL, take_answers, NULL);
	for (int i = 0, rounds = number(argv, 2); i < rounds; i++) {
		spend(number(argv, 4) * 1000LL * i / rounds, LOCKING);
		transfer(to_child[1], true, bytes);
		pthread_mutex_lock(&m);
		pthread_cond_wait(&c, &m);
		pthread_mutex_unlock(&m);
	}
	puts("answered");
	exit(0);
}

/* bypass: reads the time and sleeps by direct system calls, and polls through the C library. */
static void bypass(char **argv)
{
	struct timespec ts;
	(void)argv;
	poll(NULL, 0, 10);
	if (syscall(SYS_clock_gettime, CLOCK_REALTIME, &ts))
		die("clock_gettime");
	ts = (struct timespec){0, 1000};
	syscall(SYS_nanosleep, &ts, NULL);
}

/* several CALL: a thread waits for three pipes, which another thread writes to one after the other.
 * It says how many are ready when it runs. Two threads then wait for one byte. */
static int pipes[3][2];
static int set_of_pipes;

static int ready(const char *call, int timeout)
{
	struct pollfd fds[3];
	struct epoll_event events[3];
	struct timeval most = {timeout / 1000, timeout % 1000 * 1000};
	fd_set rd;
	FD_ZERO(&rd);
	for (int i = 0; i < 3; i++) {
		fds[i] = (struct pollfd){.fd = pipes[i][0], .events = POLLIN};
		FD_SET(pipes[i][0], &rd);
	}
	if (strcmp(call, "poll") == 0)
		return poll(fds, 3, timeout);
	if (strcmp(call, "select") == 0)
		return select(pipes[2][0] + 1, &rd, NULL, NULL, &most);
	return epoll_wait(set_of_pipes, events, 3, timeout);
}

static void *await_pipes(void *call)
{
	char byte;
	int found = ready(call, 60000);
	fcntl(pipes[0][0], F_SETFL, O_NONBLOCK);
	if (read(pipes[0][0], &byte, 1) != 1)
		die("read");
	return (void *)(intptr_t)found;
}

static void *take(void *call)
{
	char byte;
	int found = ready(call, 60000);
	return (void *)(intptr_t)(found == 1 && read(pipes[0][0], &byte, 1) == 1);
}

static void several(char **argv)
{
	static const struct timespec second = {1, 0}, moment = {0, 2000000};
	struct epoll_event e = {.events = EPOLLIN};
	pthread_t t[2];
	void *found[2];
	set_of_pipes = epoll_create1(0);
	for (int i = 0; i < 3; i++)
		if (pipe(pipes[i]) || epoll_ctl(set_of_pipes, EPOLL_CTL_ADD, pipes[i][0], &e))
			die("a set of pipes");
	pthread_create(&t[0], NULL, await_pipes, argv[2]);
	nanosleep(&second, NULL);
	for (int i = 0; i < 3; i++) {
		if (write(pipes[i][1], "x", 1) != 1)
			die("write");
		syscall(SYS_nanosleep, &moment, NULL); /* of real time: the kernel runs the other thread */
	}
	pthread_join(t[0], &found[0]);
	printf("%d are ready\n", (int)(intptr_t)found[0]);
	for (int i = 1; i < 3; i++) {
		char byte;
		if (read(pipes[i][0], &byte, 1) != 1)
			die("read");
	}
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, take, argv[2]);
	nanosleep(&second, NULL);
	if (write(pipes[0][1], "x", 1) != 1)
		die("write");
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], &found[i]);
	printf("%d took a byte\n", (int)((intptr_t)found[0] + (intptr_t)found[1]));
	stamp("end");
}

/* peer HOST: connects to itself at HOST, and prints the address that the connection came from. */
static void peer(char **argv)
{
	struct sockaddr_in a = address(argv[2], 0), from;
	socklen_t n = sizeof a;
	char text[INET_ADDRSTRLEN];
	int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(server, (struct sockaddr *)&a, n) || listen(server, 1) || getsockname(server, (struct sockaddr *)&a, &n) ||
	    connect(client, (struct sockaddr *)&a, n) || accept(server, (struct sockaddr *)&from, &n) < 0)
		die("peer");
	puts(inet_ntop(AF_INET, &from.sin_addr, text, sizeof text));
}

/* shared: makes objects that several processes can share, and prints the errors of the calls. */
static void shared(char **argv)
{
	pthread_mutexattr_t ma;
	pthread_condattr_t ca;
	pthread_rwlockattr_t ra;
	pthread_rwlock_t lock;
	(void)argv;
	pthread_mutexattr_init(&ma);
	pthread_condattr_init(&ca);
	pthread_rwlockattr_init(&ra);
	for (int how = PTHREAD_PROCESS_PRIVATE; how <= PTHREAD_PROCESS_SHARED; how++) {
		pthread_mutexattr_setpshared(&ma, how);
		pthread_condattr_setpshared(&ca, how);
		pthread_rwlockattr_setpshared(&ra, how);
		printf("%s ", strerrorname_np(pthread_cond_init(&c, &ca)));
		printf("%s ", strerrorname_np(pthread_mutex_init(&m, &ma)));
		printf("%s ", strerrorname_np(pthread_rwlock_init(&lock, &ra)));
		printf("%s\n", sem_init(&sem, how, 1) ? strerrorname_np(errno) : "0");
	}
	sem_t *named = sem_open("/rmreplay-no-such-semaphore", 0);
	printf("%s\n", named == SEM_FAILED ? strerrorname_np(errno) : "0");
}

/* streams FORKS: threads look for the shell of a stream among many, all the time. Children are
 * forked meanwhile, each of which opens and closes a stream. Prints how many of them came to an
 * end. */
static void *look_for_shells(void *unused)
{
	char *text;
	size_t size;
	for (;;) {
		FILE *volatile other = open_memstream(&text, &size); /* not a stream of popen */
		pclose(other);
	}
	return unused;
}

static void streams(char **argv)
{
	enum { STREAMS = 300 };
	pthread_t t;
	int ended = 0, forks = number(argv, 2), status;
	for (int i = 0; i < STREAMS; i++)
		if (!popen("exit 0", "re"))
			die("popen");
	for (int i = 0; i < 2; i++)
		if (pthread_create(&t, NULL, look_for_shells, NULL))
			die("pthread_create");
	for (int i = 0; i < forks; i++) {
		pid_t child = fork();
		if (child == 0) {
			alarm(5);
			_exit(pclose(popen("exit 0", "r")));
		}
		ended += waitpid(child, &status, 0) == child && status == 0;
	}
	printf("%d children ended\n", ended);
	exit(0);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(char **);
	} all[] = {{"steps", steps}, {"serve", serve}, {"ask", ask}, {"outside", outside}, {"report", report},
		   {"deadlock", deadlock}, {"stall", stall}, {"spin", spin}, {"victim", victim},
		   {"pingpong", pingpong}, {"crowd", crowd},
		   {"compute", compute}, {"bits", bits}, {"crew", crew}, {"lockout", lockout}, {"tick", tick},
		   {"save", save}, {"where", where}, {"together", together}, {"restless", restless}, {"bypass", bypass}, {"answered", answered}, {"order", in_order}, {"several", several}, {"unanswered", unanswered},
		   {"peer", peer}, {"shared", shared}, {"streams", streams}};
	for (size_t i = 0; argc > 1 && i < sizeof all / sizeof *all; i++)
		if (strcmp(all[i].name, argv[1]) == 0) {
			all[i].run(argv);
			return 0;
		}
	return 2;
}
