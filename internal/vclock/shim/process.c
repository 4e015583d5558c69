/* Signals, and the start and the end of processes. */
#define _GNU_SOURCE
#include "shim.h"

REAL(int, sigwait, const sigset_t *, int *)
REAL(int, sigsuspend, const sigset_t *)
REAL(int, pause, void)
REAL(int, kill, pid_t, int)
REAL(int, killpg, pid_t, int)
REAL(int, sigqueue, pid_t, int, const union sigval)
REAL(pid_t, fork, void)
REAL(int, setuid, uid_t)
REAL(int, setgid, gid_t)
REAL(int, seteuid, uid_t)
REAL(int, setegid, gid_t)
REAL(int, setreuid, uid_t, uid_t)
REAL(int, setregid, gid_t, gid_t)
REAL(int, setresuid, uid_t, uid_t, uid_t)
REAL(int, setresgid, gid_t, gid_t, gid_t)
REAL(int, setgroups, size_t, const gid_t *)
REAL(int, initgroups, const char *, gid_t)
REAL(int, execve, const char *, char *const *, char *const *)
REAL(int, execvpe, const char *, char *const *, char *const *)
REAL(int, fexecve, int, char *const *, char *const *)
REAL(int, posix_spawn, pid_t *, const char *, const posix_spawn_file_actions_t *,
     const posix_spawnattr_t *, char *const *, char *const *)
REAL(int, posix_spawnp, pid_t *, const char *, const posix_spawn_file_actions_t *,
     const posix_spawnattr_t *, char *const *, char *const *)
REAL(pid_t, wait4, pid_t, int *, int, struct rusage *)
REAL(int, waitid, idtype_t, id_t, siginfo_t *, int)

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

/* The C library changes the user and the groups of all threads by sending each thread a signal. */
EXPORT int setuid(uid_t a)
{
	touch_signal();
	return real(setuid)(a);
}

EXPORT int setgid(gid_t a)
{
	touch_signal();
	return real(setgid)(a);
}

EXPORT int seteuid(uid_t a)
{
	touch_signal();
	return real(seteuid)(a);
}

EXPORT int setegid(gid_t a)
{
	touch_signal();
	return real(setegid)(a);
}

EXPORT int setreuid(uid_t a, uid_t b)
{
	touch_signal();
	return real(setreuid)(a, b);
}

EXPORT int setregid(gid_t a, gid_t b)
{
	touch_signal();
	return real(setregid)(a, b);
}

EXPORT int setresuid(uid_t a, uid_t b, uid_t c)
{
	touch_signal();
	return real(setresuid)(a, b, c);
}

EXPORT int setresgid(gid_t a, gid_t b, gid_t c)
{
	touch_signal();
	return real(setresgid)(a, b, c);
}

EXPORT int setgroups(size_t a, const gid_t *b)
{
	touch_signal();
	return real(setgroups)(a, b);
}

EXPORT int initgroups(const char *a, gid_t b)
{
	touch_signal();
	return real(initgroups)(a, b);
}

#define SIGNAL_WAIT(call) \
	({ \
		bool wait_ = counted(); \
		if (wait_) \
			pthread_testcancel(); \
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

/* ------------------------------------------------------ programs and children */

/* The variables, "NAME=value", that put a child under the clock, and the variables in
 * Policy.Inherited. A parent may give its children environments that lack them. */
static char *inherited[2 + RMR_INHERITED];

/* The variables, "NAME=value", that say how this process runs under the clock. A process keeps
 * them when it executes a program, as slurmctld does when it restarts itself to read its
 * configuration. Its children do not get them. */
static char *own[2];

/* variable returns the entry of name in the environment, or NULL. It does not call getenv, because
 * bash replaces getenv by a version that does not work before bash has started. */
static char **variable(const char *name)
{
	size_t n = strlen(name);
	char **e = environ;
	while (e && *e && !(strncmp(*e, name, n) == 0 && (*e)[n] == '='))
		e++;
	return e && *e ? e : NULL;
}

const char *value_of(const char *name)
{
	char **e = variable(name);
	return e ? *e + strlen(name) + 1 : NULL;
}

static void remove_variable(const char *name)
{
	for (char **e = variable(name); e && *e; e++)
		e[0] = e[1];
}

/* remember stores this process's variable, if it exists, in *place and returns the next place. */
static char **remember(char **place, const char *name)
{
	const char *v = value_of(name);
	return v && asprintf(place, "%s=%s", name, v) > 0 ? place + 1 : place;
}

void remember_environment(const struct rmr_clock *c)
{
	char **next = remember(remember(inherited, "LD_PRELOAD"), RMR_ENV_CLOCK);
	for (const char *name = c->inherited; *name; name += strlen(name) + 1)
		next = remember(next, name);
	remember(remember(own, RMR_ENV_CHARGED), RMR_ENV_COARSE);
	remove_variable(RMR_ENV_CHARGED);
	remove_variable(RMR_ENV_COARSE);
	remove_variable(RMR_ENV_SLOT);
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

static size_t add_missing(char **out, size_t n, char *const *variables, size_t count)
{
	for (size_t i = 0; i < count && variables[i]; i++) {
		bool there = false;
		for (size_t j = 0; j < n && !there; j++)
			there = same_name(variables[i], out[j]);
		if (!there)
			out[n++] = variables[i];
	}
	return n;
}

/* The largest number of pointers that managed_env adds, with the slot and the NULL at the end. */
enum { ADDED = sizeof inherited / sizeof *inherited + sizeof own / sizeof *own + 2 };

/* managed_env copies envp into out and adds missing variables and the slot of the process that
 * executes a program. out has room for count_of(envp) + ADDED pointers. */
static void managed_env(char **out, char *const *envp, char *slot_var, size_t slot_len,
			const struct rmr_slot *slot)
{
	size_t n = 0;
	for (size_t i = 0; envp && envp[i]; i++)
		if (!same_name(RMR_ENV_SLOT "=", envp[i]))
			out[n++] = envp[i];
	n = add_missing(out, n, inherited, sizeof inherited / sizeof *inherited);
	if (slot == me)
		n = add_missing(out, n, own, sizeof own / sizeof *own);
	snprintf(slot_var, slot_len, RMR_ENV_SLOT "=%td", slot - C->slot);
	out[n++] = slot_var;
	out[n] = NULL;
}

#define WITH_ENV(envp, slot, call) \
	({ \
		char slot_var[40]; \
		char *env_[count_of(envp) + ADDED]; \
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

EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
	if (!me)
		return real(fexecve)(fd, argv, envp);
	return WITH_ENV(envp, me, real(fexecve)(fd, argv, env_));
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

/* The streams of popen, each with the shell at its other end. */
struct pipe_stream {
	struct pipe_stream *next;
	FILE *f;
	pid_t pid;
};
static struct pipe_stream *pipe_streams;
static spin_t pipe_streams_lock;

/* The process-wide state that the function system changes while it waits. */
static struct {
	spin_t lock;
	int commands; /* number of running commands */
	struct sigaction interrupt, quit;
} ignoring;

/* The slot that fork has reserved for the child. */
static __thread struct rmr_slot *childs_slot OF_THREAD;

/* free_locks frees the locks that other threads of the parent held at the fork: the child has no
 * such threads to release them. The data under these locks are consistent at every instant. */
static void free_locks(void)
{
	atomic_store(&pipe_streams_lock, 0);
	atomic_store(&ignoring.lock, 0);
}

/* In a child, only the forking thread exists, so the queues start empty. This fork handler runs
 * first in the child, so the other handlers find the library ready. It also runs in children that
 * the C library creates itself, as daemon does, and in unmanaged processes, which have the
 * library's queues and locks, too. */
void become_child(void)
{
	memset(buckets, 0, sizeof buckets);
	memset(semaphores, 0, sizeof semaphores);
	free_locks();
	forget_timers();
	if (!C)
		return;
	atomic_store(&threads, 1);
	me = childs_slot ? childs_slot : new_slot(getpid(), 0);
	childs_slot = NULL;
	detached = false;
	charged = false;
	memset(own, 0, sizeof own);
	spin_locks_held = 0;
	atomic_store(&me->pid, getpid());
	atomic_store(&me->tid, gettid_now());
	pthread_setspecific(exit_key, me);
	await_turn();
}

/* say_started gives a reserved slot to a child, unless the child has already taken it. */
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
	spin_locks_held++; /* for the C library's own locks, while it runs the fork handlers */
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

/* A vfork child would run in its parent's memory, and so in its parent's slot. With fork, it gets
 * its own slot. */
EXPORT pid_t vfork(void)
{
	return fork();
}

typedef int spawn_fn(pid_t *, const char *, const posix_spawn_file_actions_t *,
		     const posix_spawnattr_t *, char *const *, char *const *);

static int spawn_managed(spawn_fn *spawn, pid_t *pid, const char *file,
			 const posix_spawn_file_actions_t *fa, const posix_spawnattr_t *attr,
			 char *const argv[], char *const envp[])
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

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *fa,
		       const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
	if (!me)
		return real(posix_spawn)(pid, path, fa, attr, argv, envp);
	if (!real_posix_spawn_p)
		load_posix_spawn();
	return spawn_managed(real_posix_spawn_p, pid, path, fa, attr, argv, envp);
}

EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *fa,
			const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
	if (!me)
		return real(posix_spawnp)(pid, file, fa, attr, argv, envp);
	if (!real_posix_spawnp_p)
		load_posix_spawnp();
	return spawn_managed(real_posix_spawnp_p, pid, file, fa, attr, argv, envp);
}

/* ignore_interrupts ignores the signals of a terminal's keys while a command of system runs.
 * stop_ignoring restores the signals' actions when the last command has ended. */
static void ignore_interrupts(void)
{
	static const struct sigaction ignore = {.sa_handler = SIG_IGN};
	spin_lock(&ignoring.lock);
	if (ignoring.commands++ == 0) {
		sigaction(SIGINT, &ignore, &ignoring.interrupt);
		sigaction(SIGQUIT, &ignore, &ignoring.quit);
	}
	spin_unlock(&ignoring.lock);
}

static void stop_ignoring(void)
{
	spin_lock(&ignoring.lock);
	if (--ignoring.commands == 0) {
		sigaction(SIGINT, &ignoring.interrupt, NULL);
		sigaction(SIGQUIT, &ignoring.quit, NULL);
	}
	spin_unlock(&ignoring.lock);
}

/* A command that system runs, and the caller's signal mask. */
struct command {
	pid_t pid;
	sigset_t mask;
};

static int start_command(struct command *c, const char *command)
{
	char *argv[] = {"sh", "-c", (char *)command, NULL};
	sigset_t restored;
	posix_spawnattr_t attr;
	sigemptyset(&restored); /* the command ignores only signals that the caller ignored */
	if (ignoring.interrupt.sa_handler != SIG_IGN)
		sigaddset(&restored, SIGINT);
	if (ignoring.quit.sa_handler != SIG_IGN)
		sigaddset(&restored, SIGQUIT);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &c->mask);
	posix_spawnattr_setsigdefault(&attr, &restored);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	int r = posix_spawn(&c->pid, "/bin/sh", NULL, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	return r;
}

static void end_command(const struct command *c)
{
	stop_ignoring();
	pthread_sigmask(SIG_SETMASK, &c->mask, NULL);
}

/* A cancelled caller ends its command. */
static void cancel_command(void *arg)
{
	struct command *c = arg;
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
	end_command(c);
}

/* glibc's system waits for its child inside glibc, where no wrapper sees the wait. */
EXPORT int system(const char *command)
{
	struct command c;
	sigset_t child;
	int status = -1;
	pid_t got = -1;
	if (!command)
		return 1;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &child, &c.mask);
	ignore_interrupts();
	if (start_command(&c, command) == 0) {
		pthread_cleanup_push(cancel_command, &c);
		while ((got = waitpid(c.pid, &status, 0)) < 0 && errno == EINTR)
			;
		pthread_cleanup_pop(0);
	}
	end_command(&c);
	return got < 0 ? -1 : status;
}

/* The popen and pclose of glibc also wait inside glibc. */
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

/* The thread that collects a dead child takes the child's threads out of the count. */
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
	siginfo_t unwanted;
	if (!C)
		return real(waitid)(type, id, info, options);
	if (!info)
		info = &unwanted;
	info->si_pid = 0;
	int r = real(waitid)(type, id, info, options | WNOHANG);
	if (r == 0 && info->si_pid == 0 && !(options & WNOHANG)) {
		pthread_testcancel();
		if (counted())
			r = blocking_waitid(type, id, info, options);
		else
			r = real(waitid)(type, id, info, options);
	}
	if (r == 0 && info->si_pid && !(options & WNOWAIT) && info->si_code != CLD_STOPPED &&
	    info->si_code != CLD_CONTINUED)
		collected(info->si_pid);
	return r;
}
