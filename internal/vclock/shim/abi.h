/*
 * The memory that the clock (Go, package vclock) shares with the library that is preloaded into
 * every managed process. Go declares the same layout in abi.go; abi_test.go compares the two.
 *
 * Increase RMR_ABI_VERSION with every change of meaning or layout: the library refuses a clock of
 * another version.
 */
#ifndef RMR_ABI_H
#define RMR_ABI_H

#include <stdatomic.h>
#include <stdint.h>

#define RMR_ABI_MAGIC 0x6b6c6372u /* "rclk" */
#define RMR_ABI_VERSION 9u
#define RMR_SLOTS 8192
#define RMR_INHERITED 8 /* largest number of inherited variables */
#define RMR_INHERITED_SIZE 256

/* Environment of a managed process. Children inherit only the first variable; fork and exec assign
 * them their own slots. */
#define RMR_ENV_CLOCK "RMREPLAY_CLOCK" /* path of the clock's file */
#define RMR_ENV_SLOT "RMREPLAY_SLOT" /* slot that was reserved for its first thread */
#define RMR_ENV_CHARGED "RMREPLAY_CHARGED" /* set: its CPU time takes virtual time */
#define RMR_ENV_COARSE "RMREPLAY_COARSE" /* NAME=SECONDS: step of time(2) in threads with this name */

/* What a thread is doing: rmr_slot.state. */
enum {
	RMR_FREE = 0,
	RMR_RUNNING = 1, /* has the turn; counted in busy */
	RMR_SLOT = 2,    /* waits in its slot: only a managed thread or the clock wakes it */
	RMR_KERNEL = 3,  /* waits in the kernel: input, a signal or a child wakes it */
	RMR_EXITING = 4, /* its process is ending; counted in busy until it is collected */
	RMR_READY = 5,   /* a thread woke it; it waits for its turn; counted in busy */
	RMR_ARRIVED = 6, /* the kernel woke it; it waits for its turn; not counted */
};

/* What a thread waits for: rmr_slot.why. */
enum {
	RMR_WHY_NONE = 0,
	RMR_WHY_SLEEP,
	RMR_WHY_COND,
	RMR_WHY_MUTEX,
	RMR_WHY_RWLOCK,
	RMR_WHY_SEMAPHORE,
	RMR_WHY_JOIN,
	RMR_WHY_POLL,
	RMR_WHY_ACCEPT,
	RMR_WHY_READ,
	RMR_WHY_CHILD,
	RMR_WHY_SIGNAL,
	RMR_WHY_OUTSIDE, /* running, but inside a wait for an unmanaged peer */
	/* After it was woken, a thread with one of the next two reasons may run for a while and wake
	 * other threads. The driver therefore looks twice. */
	RMR_WHY_WRITE,
	RMR_WHY_STREAM,
	RMR_WHY_CHARGE, /* for the virtual time that its own computing takes */
	RMR_WHY_TIMER,  /* for the first timer of its process: see timer.c */
};

#define RMR_NEVER INT64_MAX

/* One managed thread. */
struct rmr_slot {
	_Atomic uint32_t state; /* futex word of RMR_SLOT waits */
	_Atomic int32_t pid;    /* -1 while reserved for a process that is being started */
	_Atomic int32_t tid;
	_Atomic uint32_t why;
	_Atomic int64_t deadline; /* virtual ns at which the wait times out, or RMR_NEVER */
	_Atomic uint64_t object;  /* address or descriptor waited for */
	_Atomic uint64_t ticket;  /* place in the order of turns, while RMR_READY */
	uint64_t pad[3];
};

/* A connection that its peer has not accepted yet. A managed process or the driver made it.
 * Addresses and ports are in network byte order. */
struct rmr_link {
	_Atomic uint32_t state; /* RMR_LINK_FREE, _WRITING or _SET; the higher bits count uses */
	_Atomic uint32_t from_ip, to_ip;
	_Atomic uint32_t ports; /* the maker's port; in the upper half its peer's port */
};

enum { RMR_LINK_FREE = 0, RMR_LINK_WRITING = 1, RMR_LINK_SET = 2, RMR_LINK_USE = 4 };

#define RMR_LINKS 4096
#define RMR_LINK_REACH 64 /* a link is at the place of its hash, or in one of the next places */

struct rmr_clock {
	uint32_t magic, version;
	uint32_t slots, slot_size;
	/* The driver's settings, constant after set-up: see Policy in clock.go. Addresses and ports are
	 * in network byte order. */
	uint32_t driver_ip;    /* source address of the driver's connections */
	uint16_t driver_port;  /* port at which the driver listens */
	uint16_t own_address;  /* 1: processes connect from the address that they connect to */
	uint64_t fifo_dev, fifo_ino; /* the named pipe that the driver reads; 0 if there is none */
	uint64_t pad1[3];

	/* offset 64 */
	_Atomic int64_t now;   /* virtual ns since the Unix epoch */
	_Atomic int64_t limit; /* the driver's next event: only the driver advances to it or beyond */
	_Atomic int32_t busy;  /* threads that run, are ready or are exiting, and the working driver */
	_Atomic uint32_t lock; /* tid of the thread that advances the clock, or 0 */
	_Atomic uint64_t epoch;    /* raised before any action that can wake a thread in the kernel */
	_Atomic uint64_t verified; /* epoch at which the driver saw all threads in the kernel asleep */
	_Atomic int64_t inbox;     /* bytes sent to the driver that it has not read */
	_Atomic uint32_t driver_word;    /* futex word of the driver */
	_Atomic uint32_t driver_waiting; /* 1 while the driver may be asleep on driver_word */
	_Atomic uint32_t used;           /* slots below this index have been used */
	_Atomic uint32_t signals;        /* raised, before epoch, by every sender of a signal */
	_Atomic uint64_t steps; /* advances that managed threads made in place */
	_Atomic int64_t writers; /* threads that wait in the kernel for room to write */
	_Atomic double factor;   /* virtual seconds that a charged second of CPU time takes; 0: none */
	_Atomic int64_t charged; /* virtual ns that threads have waited for their own computing */
	_Atomic uint32_t connecting; /* calls of connect whose connection is not among links yet */
	_Atomic uint32_t turn;       /* slot, plus 1, of the thread that has the turn; 0: none */
	_Atomic uint64_t tickets;    /* number of tickets given out */
	_Atomic uint32_t home;       /* CPU, plus 1, on which all managed threads run; 0: on all CPUs in cpus */
	uint32_t pad3;
	uint64_t pad4[1];

	/* offset 192 */
	_Atomic uint64_t ports[1024]; /* bit set: a managed process listens at this TCP port */
	struct rmr_slot slot[RMR_SLOTS];
	struct rmr_link link[RMR_LINKS];
	uint64_t cpus[16]; /* a bit for each CPU that the driver may use, constant after set-up */
	/* Names of environment variables, each with a 0 at its end, and one more 0. Children keep them
	 * even if their parents give them environments without them. Constant after set-up. */
	char inherited[RMR_INHERITED_SIZE];
};

_Static_assert(sizeof(struct rmr_slot) == 64, "one cache line a slot");
_Static_assert(sizeof(struct rmr_link) == 16, "four to a cache line");
_Static_assert(__builtin_offsetof(struct rmr_clock, now) == 64, "layout");
_Static_assert(__builtin_offsetof(struct rmr_clock, ports) == 192, "layout");

#endif
