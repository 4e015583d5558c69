/* Reading the time, and sleeping. */
#define _GNU_SOURCE
#include "shim.h"

#include <sys/prctl.h>

REAL(int, prctl, int, unsigned long, unsigned long, unsigned long, unsigned long)
REAL(int, clock_gettime, clockid_t, struct timespec *)
REAL(int, clock_nanosleep, clockid_t, int, const struct timespec *, struct timespec *)
REAL(int, nanosleep, const struct timespec *, struct timespec *)

EXPORT time_t time(time_t *t)
{
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	ts = timespec_of(coarse_floor(ns_of(&ts)));
	if (t)
		*t = ts.tv_sec;
	return ts.tv_sec;
}

EXPORT int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	if (tz)
		memset(tz, 0, sizeof(struct timezone));
	*tv = (struct timeval){ts.tv_sec, ts.tv_nsec / 1000};
	return 0;
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *ts)
{
	/* CPU clocks stay real, including the CPU clocks of other processes, which have negative ids. */
	if (!C || clock < 0 || clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID)
		return real(clock_gettime)(clock, ts);
	charge(AT_CLOCK);
	*ts = timespec_of(now());
	return 0;
}

EXPORT int timespec_get(struct timespec *ts, int base)
{
	if (base != TIME_UTC)
		return 0;
	clock_gettime(CLOCK_REALTIME, ts);
	return base;
}

/* sleep_until returns the remaining virtual ns if a signal handler ended the sleep, and otherwise
 * 0. */
static int64_t sleep_until(int64_t deadline)
{
	pthread_testcancel();
	if (deadline <= now()) {
		yield_turn();
		return 0;
	}
	slot_prepare(RMR_WHY_SLEEP, NULL, deadline);
	if (slot_wait(BY_CANCEL | BY_ANY_SIGNAL))
		return 0;
	int64_t left = deadline - now();
	return left > 0 ? left : 1;
}

EXPORT int nanosleep(const struct timespec *want, struct timespec *rem)
{
	charge(AT_CALL);
	if (!counted())
		return real(nanosleep)(want, rem);
	if (want->tv_sec < 0 || want->tv_nsec < 0 || want->tv_nsec >= NS_PER_S) {
		errno = EINVAL;
		return -1;
	}
	int64_t left = sleep_until(deadline_in(ns_of(want)));
	if (!left)
		return 0;
	if (rem)
		*rem = timespec_of(left);
	errno = EINTR;
	return -1;
}

EXPORT int clock_nanosleep(clockid_t clock, int flags, const struct timespec *want,
			   struct timespec *rem)
{
	charge(AT_CALL);
	if (!counted() || clock == CLOCK_PROCESS_CPUTIME_ID || clock < 0)
		return real(clock_nanosleep)(clock, flags, want, rem);
	if (want->tv_sec < 0 || want->tv_nsec < 0 || want->tv_nsec >= NS_PER_S)
		return EINVAL;
	int64_t ns = ns_of(want);
	int64_t left = sleep_until(flags & TIMER_ABSTIME ? ns : deadline_in(ns));
	if (!left)
		return 0;
	if (rem && !(flags & TIMER_ABSTIME))
		*rem = timespec_of(left);
	return EINTR;
}

EXPORT int usleep(useconds_t us)
{
	struct timespec ts = timespec_of((int64_t)us * 1000);
	return nanosleep(&ts, NULL);
}

EXPORT unsigned sleep(unsigned s)
{
	struct timespec ts = {s, 0}, rem = {0, 0};
	if (nanosleep(&ts, &rem) == 0)
		return 0;
	return (unsigned)rem.tv_sec;
}

__thread int64_t coarse_step OF_THREAD;
static char coarse_name[16]; /* as long as the kernel's names of threads */
static int64_t chosen_step;

void choose_coarse(const char *name_and_seconds)
{
	long seconds;
	if (sscanf(name_and_seconds, "%15[^=]=%ld", coarse_name, &seconds) == 2 && seconds > 0)
		chosen_step = seconds * NS_PER_S;
}

EXPORT int prctl(int option, ...)
{
	va_list args;
	va_start(args, option);
	unsigned long a[4];
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(args, unsigned long);
	va_end(args);
	if (option == PR_SET_NAME && chosen_step && C)
		coarse_step = strncmp((const char *)a[0], coarse_name, sizeof coarse_name) ? 0 : chosen_step;
	return real(prctl)(option, a[0], a[1], a[2], a[3]);
}
