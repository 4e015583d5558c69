package selection

import "rmreplay/internal/rm/slurmmodel/recall"

// repeated has the answers of tests with WillRun of jobs without generic resources. An answer depends on nothing but
// what a question has, the weights of its nodes, and what is free there. That often is what it was some cycles ago, or
// what it is after the ends of other jobs.
type repeated struct {
	table   recall.Table[outlined]
	outside int      // changes of weights by the last question; not since 24.11, where each gives its nodes their weights
	words   []uint64 // of the last question
	size    int      // words that the table has
}

// outlined is what a job could have; nil if it could not run.
type outlined struct {
	allocation *Allocation
	stuck      bool // see [Request.Stuck]
}

// mostWords bounds the memory.
const mostWords = 1 << 18

// search is [Tester.search] from the memory.
func (m *repeated) search(x *Tester, s *State, r *Request, nodes Bits, c Counts, busy bool) *Allocation {
	if m.size > mostWords || m.outside != x.outside && !x.Since2411 {
		m.outside, m.size = x.outside, 0
		m.table.Clear()
	}
	q := question{
		class: r.Class, counts: c, exclusive: r.Exclusive, whole: r.Whole, leastLoaded: r.LeastLoaded,
		patient: r.Patient, memory: r.Memory, memoryPerCPU: r.MemoryPerCPU, busy: busy, now: x.dedicated,
	}
	m.words = x.memory.appendWeights(append(q.append(m.words[:0]), nodes...), nodes, x.Weights)
	var ok bool
	if m.words, ok = x.appendFree(m.words, s, nodes); !ok {
		return x.search(s, r, nodes, c, WillRun, busy)
	}
	known, isNew := m.table.Find(m.words)
	if isNew {
		m.size += len(m.words)
		stuck := r.Stuck
		r.Stuck = false
		known.allocation = x.search(s, r, nodes, c, WillRun, busy)
		known.stuck, r.Stuck = r.Stuck, stuck
	}
	r.Stuck = r.Stuck || known.stuck
	return known.allocation
}

// appendFree appends what is free of each node of a set: memory, if it counts, and the cores of each socket. ok is
// false if a number is too large.
func (m *Machine) appendFree(to []uint64, s *State, nodes Bits) (words []uint64, ok bool) {
	for i := range nodes.All {
		used := s.memory[i]
		if !m.CountMemory {
			used = 0
		}
		if used>>31 != 0 {
			return to, false
		}
		word := uint64(used) << 1
		if s.busy.Has(i) {
			word |= 1
		}
		left := 2 // sockets that fit into the word
		for _, cores := range s.free[i*m.stride : (i+1)*m.stride] {
			if left == 0 {
				to = append(to, word)
				word, left = 0, 4
			}
			word, left = word<<16|uint64(uint16(cores)), left-1
		}
		to = append(to, word)
	}
	return to, true
}
