/* Connections among managed processes and the driver. They refuse a connection from any other
 * process.
 *
 * The daemons trust every process that reaches them (auth/none), and every user of the machine can
 * reach the loopback network. So each connection that a managed process or the driver makes to one
 * of their ports is recorded as a link in the clock's file, which no other user can write. The
 * process that accepts a connection removes its link. A connection without a link comes from a
 * stranger. */
#define _GNU_SOURCE
#include "shim.h"

/* link_ends are the two ends of a connection, as a link has them. */
struct link_ends {
	uint32_t from_ip, to_ip, ports;
};

static struct link_ends ends_of(const union address *from, const union address *to)
{
	return (struct link_ends){ip4_of(from), ip4_of(to), from->in.sin_port | (uint32_t)to->in.sin_port << 16};
}

/* link_at returns the i-th place where a link may be. links.go uses the same places. */
static struct rmr_link *link_at(const struct link_ends *e, uint32_t i)
{
	uint32_t hash = (e->from_ip ^ e->to_ip * 31u ^ e->ports) * 2654435761u;
	return &C->link[((hash >> 16) + i) % RMR_LINKS];
}

/* claim lets the caller write a link, if the link is in the given state. */
static bool claim(struct rmr_link *l, uint32_t *state)
{
	return atomic_compare_exchange_strong(&l->state, state, (*state & ~3u) | RMR_LINK_WRITING);
}

static void note_link(const struct link_ends *e)
{
	struct rmr_link *l = NULL;
	uint32_t state = 0;
	bool ours = false;
	for (uint32_t i = 0; !ours && i < RMR_LINK_REACH; i++) {
		l = link_at(e, i);
		state = atomic_load(&l->state);
		ours = (state & 3) == RMR_LINK_FREE && claim(l, &state);
	}
	if (!ours) { /* the link of a connection that was never accepted is replaced */
		l = link_at(e, 0);
		state = atomic_load(&l->state);
		if (!claim(l, &state))
			return;
	}
	atomic_store(&l->from_ip, e->from_ip);
	atomic_store(&l->to_ip, e->to_ip);
	atomic_store(&l->ports, e->ports);
	atomic_store(&l->state, (state & ~3u) + RMR_LINK_USE + RMR_LINK_SET);
}

/* take_link removes a link and reports whether there was one. */
static bool take_link(const struct link_ends *e)
{
	for (uint32_t i = 0; i < RMR_LINK_REACH; i++) {
		struct rmr_link *l = link_at(e, i);
		uint32_t state = atomic_load(&l->state);
		if ((state & 3) == RMR_LINK_SET && atomic_load(&l->from_ip) == e->from_ip &&
		    atomic_load(&l->to_ip) == e->to_ip && atomic_load(&l->ports) == e->ports &&
		    atomic_compare_exchange_strong(&l->state, &state, (state & ~3u) | RMR_LINK_FREE))
			return true;
	}
	return false;
}

/* connect_linked connects and records the link. The peer may accept the connection before that.
 * Then the peer waits, because `connecting` counts the connection. */
int connect_linked(int fd, const struct sockaddr *addr, socklen_t len,
		   int (*call)(int, const struct sockaddr *, socklen_t))
{
	union address to = {0}, own = {0};
	socklen_t n = sizeof own;
	memcpy(&to, addr, len < sizeof to ? len : sizeof to);
	if (!port_is_managed(to.in.sin_port) && to.in.sin_port != C->driver_port)
		return call(fd, addr, len);
	atomic_fetch_add(&C->connecting, 1);
	int r = call(fd, addr, len), saved = errno;
	bool made = r == 0 || saved == EINPROGRESS || saved == EINTR;
	if (made && getsockname(fd, &own.any, &n) == 0) {
		struct link_ends e = ends_of(&own, &to);
		note_link(&e);
	}
	atomic_fetch_sub(&C->connecting, 1);
	errno = saved;
	return r;
}

/* A process that is killed in connect leaves `connecting` too large. So after this many pauses,
 * half a second of real time in total, a connection without a link counts as a stranger's. */
enum { MOST_PAUSES = 10000, PAUSE_NS = 50 * 1000 };

/* is_stranger reports whether an accepted connection comes from a process that is neither managed
 * nor the driver. It removes the connection's link. */
bool is_stranger(int fd, const union address *peer)
{
	union address own = {0};
	socklen_t n = sizeof own;
	int saved = errno;
	getsockname(fd, &own.any, &n);
	bool stranger = own.any.sa_family == AF_INET || own.any.sa_family == AF_INET6;
	/* A named socket needs no link: the file system says who may connect. */
	struct link_ends e = ends_of(peer, &own);
	for (int i = 0; stranger && i < MOST_PAUSES; i++) {
		/* `connecting` is read before the search: a connection that has been accepted has its link by
		 * now, unless its maker is still counted in `connecting`. */
		uint32_t connecting = atomic_load(&C->connecting);
		stranger = !take_link(&e);
		if (connecting == 0)
			break;
		if (stranger)
			syscall(SYS_nanosleep, &(struct timespec){0, PAUSE_NS}, NULL);
	}
	errno = saved;
	return stranger;
}
