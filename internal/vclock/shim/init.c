/* How a process gets under the clock, and how it leaves it. */
#define _GNU_SOURCE
#include "shim.h"

#include <gnu/libc-version.h>

REAL(int, close, int)
REAL(void, _exit, int)

pthread_key_t exit_key;
int wake_signal;

/* A process that ends counts as running until its parent or the driver collects it. So no virtual
 * time passes before its parent knows that it has ended. The driver collects a process that no
 * other process waits for; it recognizes such a process by the state. */
__attribute__((destructor)) static void fini(void)
{
	uint32_t running = RMR_RUNNING;
	if (!me)
		return;
	touch_signal(); /* SIGCHLD to the parent */
	if (atomic_compare_exchange_strong(&me->state, &running, RMR_EXITING))
		leave_turn(me);
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

void lack(const char *function)
{
	dprintf(2, "rmreplay: %s was called, which this glibc %s does not have (want the glibc of the program)\n", function,
		gnu_get_libc_version());
	syscall(SYS_exit_group, 127);
	__builtin_unreachable();
}

static void refuse_c_library(void)
{
	dprintf(2,
		"rmreplay: the preload library does not know how glibc %s stores its locks and streams, and would show "
		"wrong time (want rmreplay built on a system with this glibc)\n",
		gnu_get_libc_version());
	syscall(SYS_exit_group, 127);
}

static struct rmr_clock *map_clock(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		refuse(path, strerror(errno));
	struct stat st;
	if (status_of(fd, &st) || st.st_size < (off_t)offsetof(struct rmr_clock, now))
		refuse(path, "not a clock file");
	struct rmr_clock *c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (c == MAP_FAILED)
		refuse(path, strerror(errno));
	real(close)(fd);
	if (c->magic != RMR_ABI_MAGIC)
		refuse(path, "not a clock file");
	if (c->version != RMR_ABI_VERSION || st.st_size != (off_t)sizeof *c || c->slots != RMR_SLOTS ||
	    c->slot_size != sizeof(struct rmr_slot))
		refuse(path, "made by another version of rmreplay (ABI mismatch); run both from one build");
	return c;
}

/* adopt returns the slot that was reserved for this process, or the slot from before exec; NULL if
 * there is none. */
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
	uint32_t st = atomic_load(&s->state);
	if ((st != RMR_RUNNING && st != RMR_READY) || (owner != -1 && owner != getpid()))
		return NULL;
	return s;
}

__attribute__((constructor)) static void init(void)
{
	const char *path = value_of(RMR_ENV_CLOCK);
	for (void (**load)(void) = __start_rmr_loaders; load < __stop_rmr_loaders; load++)
		(*load)();
	pthread_atfork(NULL, NULL, become_child);
	if (!path)
		return;
	if (!knows_locks() || !knows_streams())
		refuse_c_library();
	struct rmr_clock *c = map_clock(path);
	struct rmr_slot *s = adopt(c, value_of(RMR_ENV_SLOT));
	charged = value_of(RMR_ENV_CHARGED) != NULL;
	if (value_of(RMR_ENV_COARSE))
		choose_coarse(value_of(RMR_ENV_COARSE));
	remember_environment(c);
	wake_signal = SIGRTMIN + 5;
	struct sigaction sa = {.sa_handler = on_wake_signal, .sa_flags = SA_RESTART};
	sigaction(wake_signal, &sa, NULL);
	pthread_key_create(&exit_key, thread_exit);
	C = c;
	atomic_store(&threads, 1);
	me = s ? s : new_slot(getpid(), gettid_now());
	atomic_store(&me->pid, getpid());
	atomic_store(&me->tid, gettid_now());
	pthread_setspecific(exit_key, me);
	await_turn();
	free_process(getpid(), me); /* the slots of threads that exec has ended */
	skip_cpu_time();
}
