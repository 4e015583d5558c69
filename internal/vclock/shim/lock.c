/* Mutexes, read-write locks and semaphores. */
#define _GNU_SOURCE
#include "shim.h"

REAL(int, pthread_mutex_init, pthread_mutex_t *, const pthread_mutexattr_t *)
REAL(int, pthread_mutex_lock, pthread_mutex_t *)
REAL(int, pthread_mutex_trylock, pthread_mutex_t *)
REAL(int, pthread_mutex_timedlock, pthread_mutex_t *, const struct timespec *)
REAL(int, pthread_mutex_unlock, pthread_mutex_t *)
REAL(int, pthread_rwlock_init, pthread_rwlock_t *, const pthread_rwlockattr_t *)
REAL(int, pthread_rwlock_rdlock, pthread_rwlock_t *)
REAL(int, pthread_rwlock_wrlock, pthread_rwlock_t *)
REAL(int, pthread_rwlock_tryrdlock, pthread_rwlock_t *)
REAL(int, pthread_rwlock_trywrlock, pthread_rwlock_t *)
REAL(int, pthread_rwlock_unlock, pthread_rwlock_t *)
REAL(int, sem_init, sem_t *, int, unsigned)
REAL(sem_t *, sem_open, const char *, int, ...)
REAL(int, sem_wait, sem_t *)
REAL(int, sem_trywait, sem_t *)
REAL(int, sem_timedwait, sem_t *, const struct timespec *)
REAL(int, sem_post, sem_t *)

/* Threads wait for an object in queues of their own process, where no other process can wake them. */
int refuse_shared(const char *function)
{
	dprintf(2,
		"rmreplay: %s: an object that several processes share does not work under the virtual clock (want one "
		"that a single process uses: PTHREAD_PROCESS_PRIVATE, or a semaphore without pshared)\n",
		function);
	return ENOTSUP;
}

EXPORT int pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr)
{
	int shared = PTHREAD_PROCESS_PRIVATE;
	if (C && attr)
		pthread_mutexattr_getpshared(attr, &shared);
	return shared == PTHREAD_PROCESS_SHARED ? refuse_shared(__func__) : real(pthread_mutex_init)(m, attr);
}

EXPORT int pthread_rwlock_init(pthread_rwlock_t *l, const pthread_rwlockattr_t *attr)
{
	int shared = PTHREAD_PROCESS_PRIVATE;
	if (C && attr)
		pthread_rwlockattr_getpshared(attr, &shared);
	return shared == PTHREAD_PROCESS_SHARED ? refuse_shared(__func__) : real(pthread_rwlock_init)(l, attr);
}

EXPORT int sem_init(sem_t *s, int shared, unsigned value)
{
	if (!C || !shared)
		return real(sem_init)(s, shared, value);
	errno = refuse_shared(__func__);
	return -1;
}

EXPORT sem_t *sem_open(const char *name, int flags, ...)
{
	va_list ap;
	va_start(ap, flags);
	mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
	unsigned value = flags & O_CREAT ? va_arg(ap, unsigned) : 0;
	va_end(ap);
	if (!C)
		return real(sem_open)(name, flags, mode, value);
	errno = refuse_shared(__func__);
	return SEM_FAILED;
}

/* The library reads a lock's owner at its place in glibc's struct. */
bool knows_locks(void)
{
	pthread_mutexattr_t attr;
	pthread_mutex_t m;
	pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
	real(pthread_mutex_init)(&m, &attr);
	bool known = (m.__data.__kind & 3) == PTHREAD_MUTEX_ERRORCHECK;
	real(pthread_mutex_lock)(&m);
	real(pthread_rwlock_wrlock)(&l);
	known = known && m.__data.__owner == gettid_now() && l.__data.__cur_writer == gettid_now();
	real(pthread_rwlock_unlock)(&l);
	real(pthread_mutex_unlock)(&m);
	return known && m.__data.__owner == 0 && l.__data.__cur_writer == 0;
}

static int try_mutex(void *m)
{
	return real(pthread_mutex_trylock)(m);
}
static int try_read(void *l)
{
	return real(pthread_rwlock_tryrdlock)(l);
}
static int try_write(void *l)
{
	return real(pthread_rwlock_trywrlock)(l);
}
static int try_semaphore(void *s)
{
	int saved = errno;
	int r = real(sem_trywait)(s) == 0 ? 0 : errno == EAGAIN ? EBUSY : errno;
	errno = saved;
	return r;
}

static int lock_mutex(pthread_mutex_t *m, int64_t deadline)
{
	int r = real(pthread_mutex_trylock)(m);
	if (__builtin_expect(r != EBUSY, 1))
		return r;
	if ((m->__data.__kind & 3) == PTHREAD_MUTEX_ERRORCHECK && m->__data.__owner == gettid_now())
		return EDEADLK;
	return wait_for(buckets, m, RMR_WHY_MUTEX, try_mutex, deadline, BY_NOTHING);
}

EXPORT int pthread_mutex_lock(pthread_mutex_t *m)
{
	charge(AT_CALL);
	return counted() ? lock_mutex(m, RMR_NEVER) : real(pthread_mutex_lock)(m);
}

EXPORT int pthread_mutex_timedlock(pthread_mutex_t *m, const struct timespec *until)
{
	charge(AT_CALL);
	return counted() ? lock_mutex(m, ns_of(until)) : real(pthread_mutex_timedlock)(m, until);
}

EXPORT int pthread_mutex_unlock(pthread_mutex_t *m)
{
	charge(AT_CALL);
	int r = real(pthread_mutex_unlock)(m);
	released(buckets, m, false);
	return r;
}

static int lock_rwlock(pthread_rwlock_t *l, int (*try)(void *))
{
	int r = try(l);
	if (__builtin_expect(r != EBUSY, 1))
		return r;
	if (l->__data.__cur_writer == gettid_now())
		return EDEADLK;
	return wait_for(buckets, l, RMR_WHY_RWLOCK, try, RMR_NEVER, BY_NOTHING);
}

EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t *l)
{
	charge(AT_CALL);
	return counted() ? lock_rwlock(l, try_read) : real(pthread_rwlock_rdlock)(l);
}

EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t *l)
{
	charge(AT_CALL);
	return counted() ? lock_rwlock(l, try_write) : real(pthread_rwlock_wrlock)(l);
}

EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *l)
{
	charge(AT_CALL);
	int r = real(pthread_rwlock_unlock)(l);
	released(buckets, l, true);
	return r;
}

static int wait_semaphore(sem_t *s, int64_t deadline)
{
	pthread_testcancel();
	int r = try_semaphore(s);
	if (r == EBUSY)
		r = wait_for(semaphores, s, RMR_WHY_SEMAPHORE, try_semaphore, deadline,
			     BY_CANCEL | BY_SIGNAL);
	if (r == 0)
		return 0;
	errno = r;
	return -1;
}

EXPORT int sem_wait(sem_t *s)
{
	charge(AT_CALL);
	return counted() ? wait_semaphore(s, RMR_NEVER) : real(sem_wait)(s);
}

EXPORT int sem_timedwait(sem_t *s, const struct timespec *until)
{
	charge(AT_CALL);
	return counted() ? wait_semaphore(s, ns_of(until)) : real(sem_timedwait)(s, until);
}

EXPORT int sem_post(sem_t *s)
{
	charge(AT_CALL);
	int r = real(sem_post)(s);
	released(semaphores, s, false);
	return r;
}
