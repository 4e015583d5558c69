/* Sockets and descriptors: which process is at the other end, and waits for that process. */
#define _GNU_SOURCE
#include "shim.h"

REAL(int, ppoll, struct pollfd *, nfds_t, const struct timespec *, const sigset_t *)
REAL(int, accept4, int, struct sockaddr *, socklen_t *, int)
REAL(int, connect, int, const struct sockaddr *, socklen_t)
REAL(int, listen, int, int)
REAL(int, shutdown, int, int)
REAL(int, close, int)
REAL(int, dup2, int, int)
REAL(int, dup3, int, int, int)
REAL(void, closefrom, int)
REAL(ssize_t, read, int, void *, size_t)
REAL(ssize_t, recv, int, void *, size_t, int)
REAL(ssize_t, recvfrom, int, void *, size_t, int, struct sockaddr *, socklen_t *)
REAL(ssize_t, recvmsg, int, struct msghdr *, int)
REAL(ssize_t, write, int, const void *, size_t)
REAL(ssize_t, writev, int, const struct iovec *, int)
REAL(ssize_t, send, int, const void *, size_t, int)
REAL(ssize_t, sendto, int, const void *, size_t, int, const struct sockaddr *, socklen_t)
REAL(ssize_t, sendmsg, int, const struct msghdr *, int)

/* ------------------------------------------------------------------ the peers */

bool port_is_managed(uint16_t port_be)
{
	uint16_t p = ntohs(port_be);
	return p && (atomic_load_explicit(&C->ports[p >> 6], memory_order_relaxed) >> (p & 63) & 1);
}

/* ip4_of returns an IPv4 address, also one mapped into IPv6, in network byte order; 0 for any
 * other address. */
uint32_t ip4_of(const union address *a)
{
	uint32_t ip = 0;
	if (a->any.sa_family == AF_INET)
		return a->in.sin_addr.s_addr;
	if (a->any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&a->in6.sin6_addr))
		memcpy(&ip, &a->in6.sin6_addr.s6_addr[12], sizeof ip);
	return ip;
}

/* is_driver reports whether a peer is the driver. As a client, the driver connects from driver_ip;
 * as a server, it listens at driver_port. */
bool is_driver(const union address *peer)
{
	if (peer->any.sa_family != AF_INET && peer->any.sa_family != AF_INET6)
		return false;
	return (C->driver_ip && ip4_of(peer) == C->driver_ip) || peer->in.sin_port == C->driver_port;
}

bool with_driver(int fd)
{
	union address a = {0};
	socklen_t n = sizeof a;
	return getpeername(fd, &a.any, &n) == 0 && is_driver(&a);
}

/* outside reports whether input on fd can come only from an unmanaged peer, which is neither a
 * managed process nor the driver. Waiting for it then takes real time. */
bool outside(int fd)
{
	struct stat st;
	int saved = errno;
	if (fd < 0 || status_of(fd, &st)) {
		errno = saved;
		return false;
	}
	if (!S_ISSOCK(st.st_mode))
		return S_ISCHR(st.st_mode) || S_ISREG(st.st_mode);
	union address peer, local;
	socklen_t n = sizeof peer, ln = sizeof local;
	memset(&peer, 0, sizeof peer);
	memset(&local, 0, sizeof local);
	bool connected = getpeername(fd, &peer.any, &n) == 0;
	getsockname(fd, &local.any, &ln);
	errno = saved;
	switch (local.any.sa_family) {
	case AF_UNIX: /* a client of a named socket, on which no managed process listens */
		return connected && n > sizeof(sa_family_t);
	case AF_INET:
	case AF_INET6:
		if (port_is_managed(local.in.sin_port) || local.in.sin_port == C->driver_port)
			return false;
		return connected && !is_driver(&peer) && !port_is_managed(peer.in.sin_port);
	}
	return true;
}

/* -------------------------------------------------------------------- sockets */

/* Slurm and other programs write a message's length and body separately. Nagle's algorithm and a
 * delayed acknowledgement would then delay the body by 40 ms of real time. Every thread would
 * sleep meanwhile, and virtual time would advance before the body arrives. */
static void no_delay(int fd)
{
	int one = 1, saved = errno;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	errno = saved;
}

/* A server may connect back to the address of its client. The kernel would choose 127.0.0.1 as
 * this address, and no server listens there. If the driver has set own_address, every client binds
 * to its server's address. */
static void call_from(int fd, const struct sockaddr_in *to)
{
	struct sockaddr_in own = {.sin_family = AF_UNSPEC};
	socklen_t n = sizeof own;
	int one = 1, saved = errno;
	if (C->own_address && port_is_managed(to->sin_port) && getsockname(fd, (struct sockaddr *)&own, &n) == 0 &&
	    own.sin_family == AF_INET && own.sin_port == 0 && own.sin_addr.s_addr == INADDR_ANY) {
		own.sin_addr = to->sin_addr;
		/* The kernel chooses the port in connect, where it knows the peer. */
		setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
		bind(fd, (struct sockaddr *)&own, sizeof own);
	}
	errno = saved;
}

EXPORT int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	charge(AT_CALL);
	if (C && addr && (addr->sa_family == AF_INET || addr->sa_family == AF_INET6))
		no_delay(fd);
	if (C && addr && addr->sa_family == AF_INET && len >= sizeof(struct sockaddr_in))
		call_from(fd, (const struct sockaddr_in *)addr);
	touch();
	if (C && addr && (addr->sa_family == AF_INET || addr->sa_family == AF_INET6))
		return connect_linked(fd, addr, len, real(connect));
	return real(connect)(fd, addr, len);
}

static void note_port(int fd)
{
	union address a;
	socklen_t n = sizeof a;
	int saved = errno;
	if (getsockname(fd, &a.any, &n) == 0 &&
	    (a.any.sa_family == AF_INET || a.any.sa_family == AF_INET6)) {
		uint16_t p = ntohs(a.in.sin_port);
		if (p)
			atomic_fetch_or(&C->ports[p >> 6], 1ULL << (p & 63));
	}
	errno = saved;
}

/* The port is recorded before any process can connect to it. It is recorded again after listen, in
 * case the kernel chose it there. */
EXPORT int listen(int fd, int backlog)
{
	if (C)
		note_port(fd);
	int r = real(listen)(fd, backlog);
	if (C && r == 0)
		note_port(fd);
	return r;
}

/* wait_for_events returns how a blocking call on fd for these events would wait now. */
enum wait wait_for_events(int fd, short events, int flags)
{
	struct pollfd p = {.fd = fd, .events = events};
	static const struct timespec zero;
	enum wait how = NO_WAIT;
	if (!counted() || (flags & MSG_DONTWAIT))
		return NO_WAIT;
	int saved = errno;
	if (real(ppoll)(&p, 1, &zero, NULL) == 0) {
		int mode = fcntl(fd, F_GETFL);
		if (mode != -1 && !(mode & O_NONBLOCK))
			how = outside(fd) ? OUTSIDE_WAIT : MANAGED_WAIT;
	}
	errno = saved;
	return how;
}

EXPORT int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	union address peer;
	socklen_t n;
	int r;
	for (;;) {
		peer = (union address){0};
		n = sizeof peer;
		charge(AT_CALL);
		r = WAITING_CALL(wait_for_events(fd, POLLIN, 0), RMR_WHY_ACCEPT, fd,
				 real(accept4)(fd, &peer.any, &n, flags));
		if (!C || r < 0 || !is_stranger(r, &peer))
			break;
		real(close)(r);
		/* After any error but EAGAIN, the connection manager of newer daemons gives up a listening
		 * socket. Its sockets are non-blocking, so accept returns the next connection or EAGAIN. Older
		 * daemons call accept again after an error. */
		int mode = fcntl(fd, F_GETFL);
		if (mode == -1 || !(mode & O_NONBLOCK)) {
			errno = ECONNABORTED;
			return -1;
		}
	}
	if (r >= 0 && addr && len) {
		memcpy(addr, &peer, *len < n ? *len : n);
		*len = n;
	}
	if (C && r >= 0)
		no_delay(r);
	return r;
}

EXPORT int accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	return accept4(fd, addr, len, 0);
}

/* Programs such as Slurm read a non-blocking descriptor again and again for the rest of a message.
 * The writer may be waiting for virtual time, which does not pass while the reader runs. So a
 * thread that has read nothing a hundred times in a row waits for input, for at most PAUSE_NS of
 * virtual time. */
__thread struct empty_reads empty_reads OF_THREAD;

static void note_read(int fd, ssize_t got)
{
	enum { MOST_EMPTY_READS = 100, PAUSE_NS = 10 * 1000 };
	bool empty = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
	if (!empty || fd != empty_reads.fd) {
		empty_reads.fd = fd;
		empty_reads.times = 0;
	}
	if (!empty || ++empty_reads.times < MOST_EMPTY_READS || !counted())
		return;
	int saved = errno;
	wait_to_read(fd, PAUSE_NS);
	errno = saved;
}

/* A read makes room for the threads that wait to write. */
#define INPUT_CALL(fd, flags, call) \
	({ \
		charge(AT_CALL); \
		ssize_t in_ = WAITING_CALL(wait_for_events(fd, POLLIN, flags), RMR_WHY_READ, fd, call); \
		if (C && __builtin_expect(in_ < 0 || empty_reads.times, 0)) \
			note_read(fd, in_); \
		if (C && atomic_load(&C->writers) > 0) \
			touch(); \
		in_; \
	})

EXPORT ssize_t read(int fd, void *buf, size_t n)
{
	return INPUT_CALL(fd, 0, real(read)(fd, buf, n));
}

EXPORT ssize_t __read_chk(int fd, void *buf, size_t n, size_t len)
{
	(void)len;
	return read(fd, buf, n);
}

EXPORT ssize_t recv(int fd, void *buf, size_t n, int flags)
{
	return INPUT_CALL(fd, flags, real(recv)(fd, buf, n, flags));
}

EXPORT ssize_t __recv_chk(int fd, void *buf, size_t n, size_t len, int flags)
{
	(void)len;
	return recv(fd, buf, n, flags);
}

EXPORT ssize_t recvfrom(int fd, void *buf, size_t n, int flags, struct sockaddr *addr,
			socklen_t *len)
{
	return INPUT_CALL(fd, flags, real(recvfrom)(fd, buf, n, flags, addr, len));
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	return INPUT_CALL(fd, flags, real(recvmsg)(fd, m, flags));
}

enum reader reader_of(int fd)
{
	struct stat st;
	enum reader r = OTHER_READER;
	int saved = errno;
	if (status_of(fd, &st) || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISBLK(st.st_mode) ||
	    S_ISCHR(st.st_mode))
		r = NO_READER;
	else if (S_ISFIFO(st.st_mode) && C->fifo_ino && st.st_ino == C->fifo_ino &&
		 st.st_dev == C->fifo_dev)
		r = DRIVER;
	else if (S_ISSOCK(st.st_mode))
		r = with_driver(fd) ? DRIVER : OTHER_READER;
	errno = saved;
	return r;
}

static bool is_pipe(int fd)
{
	struct stat st;
	return status_of(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

/* If a pipe is empty, its whole capacity is free. */
static bool fits_into_pipe(int fd, size_t n)
{
	int used, saved = errno;
	bool fits = is_pipe(fd) && ioctl(fd, FIONREAD, &used) == 0 && used == 0 &&
		    (long)n <= fcntl(fd, F_GETPIPE_SZ);
	errno = saved;
	return fits;
}

/* Output may also have to wait for a sleeping peer: when there is no room, and when the output is
 * larger than what certainly fits. A thread whose output certainly fits keeps its turn. slurmctld
 * up to 24.11.5 relies on this: it begins to wait for slurmscriptd's answer without checking
 * whether the answer is already there. The answer must therefore not come before the wait
 * (slurmscriptd.c of Slurm). */
enum wait wait_to_write(int fd, size_t n, int flags)
{
	bool large = n > PIPE_BUF && !fits_into_pipe(fd, n);
	return wait_for_events(fd, large ? 0 : POLLOUT, flags);
}

/* A thread is charged for all its computing before it writes to a pipe, and is not charged for a
 * while afterwards. So the thread begins to wait for an answer before the answer arrives. On real
 * hardware, the process at the other end needs at least a millisecond for its answer, but under
 * the clock the answer takes no virtual time. */
static void charge_output(int fd)
{
	if (!charged)
		return;
	bool asks = is_pipe(fd);
	cpu_use.has_asked = false;
	charge(asks ? 0 : AT_CALL);
	cpu_use.has_asked = asks;
}

/* Bytes for the driver are counted until the driver has read them. The driver is not a managed
 * thread; this count tells the clock that the driver has work. */
#define OUTPUT_CALL(fd, n, flags, call) \
	({ \
		enum reader reader_ = C ? reader_of(fd) : NO_READER; \
		size_t n_ = reader_ == NO_READER ? 0 : (n); \
		ssize_t r_; \
		if (reader_ != NO_READER) { \
			charge_output(fd); \
			touch(); \
		} \
		if (reader_ == DRIVER) { \
			atomic_fetch_add(&C->inbox, (int64_t)n_); \
			r_ = (call); \
			int saved_ = errno; \
			atomic_fetch_sub(&C->inbox, (int64_t)n_ - (r_ > 0 ? r_ : 0)); \
			errno = saved_; \
		} else { \
			enum wait to_write_ = \
				reader_ == NO_READER ? NO_WAIT : wait_to_write(fd, n_, flags); \
			r_ = WAITING_CALL(to_write_, RMR_WHY_WRITE, fd, call); \
		} \
		r_; \
	})

static size_t total_of(const struct iovec *v, size_t n)
{
	size_t sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += v[i].iov_len;
	return sum;
}

EXPORT ssize_t write(int fd, const void *buf, size_t n)
{
	return OUTPUT_CALL(fd, n, 0, real(write)(fd, buf, n));
}

EXPORT ssize_t writev(int fd, const struct iovec *v, int n)
{
	return OUTPUT_CALL(fd, total_of(v, (size_t)n), 0, real(writev)(fd, v, n));
}

EXPORT ssize_t send(int fd, const void *buf, size_t n, int flags)
{
	return OUTPUT_CALL(fd, n, flags, real(send)(fd, buf, n, flags));
}

EXPORT ssize_t sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *addr,
		      socklen_t len)
{
	return OUTPUT_CALL(fd, n, flags, real(sendto)(fd, buf, n, flags, addr, len));
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	return OUTPUT_CALL(fd, total_of(m->msg_iov, m->msg_iovlen), flags, real(sendmsg)(fd, m, flags));
}

EXPORT int shutdown(int fd, int how)
{
	charge(AT_CALL);
	touch();
	return real(shutdown)(fd, how);
}

/* The last close of a pipe or socket ends its reader's input. */
static void about_to_close(int fd)
{
	forget_descriptors(fd, fd);
	if (C && reader_of(fd) != NO_READER)
		touch();
}

EXPORT int close(int fd)
{
	about_to_close(fd);
	return real(close)(fd);
}

EXPORT int dup2(int from, int to)
{
	if (from != to)
		about_to_close(to);
	return real(dup2)(from, to);
}

EXPORT int dup3(int from, int to, int flags)
{
	if (from != to)
		about_to_close(to);
	return real(dup3)(from, to, flags);
}

EXPORT int close_range(unsigned first, unsigned last, int flags)
{
	if (!(flags & CLOSE_RANGE_CLOEXEC))
		forget_descriptors((int)(first < INT_MAX ? first : INT_MAX), last < INT_MAX ? (int)last : INT_MAX);
	touch();
	return (int)syscall(SYS_close_range, first, last, flags);
}

EXPORT void closefrom(int first)
{
	forget_descriptors(first, INT_MAX);
	touch();
	real(closefrom)(first);
}

/* The C library's own implementations call read and write where no wrapper sees the calls. */
EXPORT int eventfd_read(int fd, eventfd_t *value)
{
	return read(fd, value, sizeof *value) == sizeof *value ? 0 : -1;
}

EXPORT int eventfd_write(int fd, eventfd_t value)
{
	return write(fd, &value, sizeof value) == sizeof value ? 0 : -1;
}
