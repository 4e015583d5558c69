package answers

import (
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurmmodel/parameters"
)

// Line has the messages of one type that slurmctld has not served. It serves one at a time, and sleeps before
// each (_throttle_start in proc_req.c). The zero value is an empty line with a thread for each message.
type Line[M any] struct {
	// Threads is how many messages are in the line; further ones wait for a thread (workers.c). 0 is no bound.
	Threads int
	inside  []M // from head on
	head    int
	outside []M
	served  hpc.Time // the first one
}

// Threads returns how many threads serve messages. A replay has two processors (CPU_THREAD_MULTIPLIER in workers.c).
func Threads(rules parameters.Rules) int {
	switch {
	case rules.Since2505:
		return 4
	case rules.Since2411: // SLURMCTLD_CONMGR_DEFAULT_THREADS in controller.c
		return 64
	}
	return 0
}

// Throttle returns how long slurmctld sleeps before it serves a message. many says that many agents are at work.
func Throttle(many bool) time.Duration {
	if many {
		return time.Millisecond
	}
	return time.Microsecond
}

// Come adds a message that comes at an instant. Before the first one slurmctld sleeps for a time.
func (l *Line[M]) Come(at hpc.Time, m M, sleep time.Duration) {
	switch {
	case len(l.inside) == l.head:
		l.inside, l.head = append(l.inside[:0], m), 0
		l.served = at.Add(sleep)
	case l.Threads > 0 && len(l.inside)-l.head >= l.Threads:
		l.outside = append(l.outside, m)
	default:
		l.inside = append(l.inside, m)
	}
}

// Next returns when slurmctld serves the next message, and [hpc.Never] without one.
func (l *Line[M]) Next() hpc.Time {
	if len(l.inside) == l.head {
		return hpc.Never
	}
	return l.served
}

// Serve takes off the message that is due. Before the next one slurmctld sleeps for a time. A message that waits
// for a thread is the next one: the thread that has just served a message takes it, ahead of threads that sleep.
func (l *Line[M]) Serve(sleep time.Duration) M {
	m := l.inside[l.head]
	if len(l.outside) > 0 {
		l.inside[l.head], l.outside = l.outside[0], l.outside[1:]
	} else {
		l.head++
	}
	l.served = l.served.Add(sleep)
	return m
}
