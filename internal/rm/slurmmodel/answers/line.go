package answers

import (
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurmmodel/parameters"
)

// Line has the messages of one type that slurmctld has not served yet. slurmctld serves them one
// after the other, and sleeps before each (_throttle_start in proc_req.c). The zero value is an
// empty line in which each message has a thread.
type Line[M any] struct {
	// Threads is how many messages can have a thread at the same time; 0 is unlimited. Further messages
	// wait for a thread (workers.c).
	Threads int
	inside  []M // messages with a thread, from index head on
	head    int
	outside []M
	served  hpc.Time // when the message at head will be served
}

// Threads returns how many threads of slurmctld serve messages; 0 is unlimited. The numbers are for
// two processors, as in a replay (CPU_THREAD_MULTIPLIER in workers.c).
func Threads(rules parameters.Rules) int {
	switch {
	case rules.Since2505:
		return 4
	case rules.Since2411: // SLURMCTLD_CONMGR_DEFAULT_THREADS in controller.c
		return 64
	}
	return 0
}

// Throttle returns how long slurmctld sleeps before it serves a message. The parameter many is the
// result of [agents.Pool.Many].
func Throttle(many bool) time.Duration {
	if many {
		return time.Millisecond
	}
	return time.Microsecond
}

// Come adds a message that comes at an instant. If the line is empty, slurmctld sleeps for the
// given time and then serves the message.
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

// Next returns when slurmctld serves the next message, or [hpc.Never] if the line is empty.
func (l *Line[M]) Next() hpc.Time {
	if len(l.inside) == l.head {
		return hpc.Never
	}
	return l.served
}

// Serve removes the message that is due and returns it. slurmctld sleeps for the given time before
// it serves the next message. If messages wait for a thread, the next message is the oldest of these: the
// thread that is now free serves it, and the other threads still sleep.
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
