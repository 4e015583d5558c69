// Package agenda has queues of entries that are due at instants of virtual time. It orders them by
// time, then by class, then by sequence number. So their order never depends on chance.
package agenda

import "rmreplay/internal/hpc"

// Entry is a value that is due at a given time.
type Entry[T any] struct {
	What  T
	At    hpc.Time
	Seq   int // order within the class; the caller chooses it
	Class uint8
}

func (e *Entry[T]) before(other *Entry[T]) bool {
	if e.At != other.At {
		return e.At < other.At
	}
	if e.Class != other.Class {
		return e.Class < other.Class
	}
	return e.Seq < other.Seq
}

// Agenda is a binary heap of entries. The zero value is empty. It does not use container/heap,
// which would allocate for every entry. A rigid replay adds every job of its workload.
type Agenda[T any] []Entry[T]

// Next returns the time of the first entry, or [hpc.Never] for an empty agenda.
func (a Agenda[T]) Next() hpc.Time {
	if len(a) == 0 {
		return hpc.Never
	}
	return a[0].At
}

// Put adds an entry.
func (a *Agenda[T]) Put(e Entry[T]) {
	*a = append(*a, e)
	h := *a
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h[i].before(&h[parent]) {
			return
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

// Pop removes and returns the first entry. The agenda must not be empty.
func (a *Agenda[T]) Pop() Entry[T] {
	h := *a
	first, last := h[0], len(h)-1
	h[0], h[last] = h[last], Entry[T]{} // so that the heap does not keep the value alive
	h = h[:last]
	*a = h
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
