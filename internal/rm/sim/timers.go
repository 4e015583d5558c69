package sim

import "rmreplay/internal/hpc"

// timerClass orders what is due at one instant.
type timerClass uint8

const (
	jobEnds timerClass = iota
	machineChanges
	jobBecomesEligible
	jobExpires
)

// timer is something that is due at an instant: the end of job, or due().
type timer struct {
	at    hpc.Time
	class timerClass
	seq   int
	job   *Job
	due   func()
}

// timers is a binary heap of timers in the order (time, class, sequence).
type timers struct {
	heap []timer
	seq  int
}

func (t *timer) before(u *timer) bool {
	if t.at != u.at {
		return t.at < u.at
	}
	if t.class != u.class {
		return t.class < u.class
	}
	return t.seq < u.seq
}

// add sets a timer and returns its sequence number, which is never 0.
func (q *timers) add(at hpc.Time, class timerClass, job *Job, due func()) int {
	q.seq++
	q.put(timer{at, class, q.seq, job, due})
	return q.seq
}

// put adds a timer that has its sequence number.
func (q *timers) put(t timer) {
	q.heap = append(q.heap, t)
	h := q.heap
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h[i].before(&h[parent]) {
			break
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

// next is when the first timer is due; [Never] if there is none.
func (q *timers) next() hpc.Time {
	if len(q.heap) == 0 {
		return Never
	}
	return q.heap[0].at
}

// pop takes out the first timer.
func (q *timers) pop() timer {
	h := q.heap
	first, last := h[0], len(h)-1
	h[0], h[last] = h[last], timer{}
	q.heap, h = h[:last], h[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return first
		}
		if child+1 < last && h[child+1].before(&h[child]) {
			child++
		}
		if !h[child].before(&h[i]) {
			return first
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
