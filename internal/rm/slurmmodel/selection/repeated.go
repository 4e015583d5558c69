package selection

import "rmreplay/internal/rm/slurmmodel/recall"

// repeated stores the answers of tests of jobs without generic resources.
type repeated struct {
	table   recall.Table[outlined]
	outside int      // x.outside at the last question; unused since 24.11: each question sets its nodes' weights
	words   []uint64 // the last question, as the key in table
	size    int      // total words of the keys in table
}

// outlined is a stored answer. allocation is nil if the job could not run.
type outlined struct {
	allocation *Allocation
	stuck      bool     // see [Request.Stuck]
	after      []uint64 // after a test with generic resources, the lowest bytes of its nodes' weights
}

// maxWords limits the memory: the words of all keys.
const maxWords = 1 << 18

// search is [Tester.search] with WillRun. It stores the answers and returns them again. An answer
// depends on the question, and on the weights and the free resources of its nodes. The same state
// often occurs again: in a later cycle, or when other jobs have ended.
func (m *repeated) search(x *Tester, s *State, r *Request, nodes Bits, c Counts, busy bool) *Allocation {
	if r.Class == 0 || len(r.Devices) > 0 {
		return x.search(s, r, nodes, c, WillRun, busy)
	}
	if m.outside != x.outside && !x.Since2411 {
		m.outside, m.size = x.outside, maxWords
	}
	m.words = append(about(m.words[:0], r, c, x.dedicated, false, busy), x.limitOf(s, r))
	m.words = x.Weights.AppendLow(append(m.words, nodes...), nodes, x.memory.devices)
	for i := range nodes.All {
		n := &s.nodes[i]
		if n.memory>>31 != 0 { // too large for a word of the key
			return x.search(s, r, nodes, c, WillRun, busy)
		}
		word := uint64(n.memory) << 1
		if n.jobs > 0 {
			word |= 1
		}
		m.words = recall.Append(m.words, word, 2, s.free[i*x.stride:(i+1)*x.stride])
		if used := s.limited.Of(r.Partition, i); used != nil {
			m.words = recall.Append(m.words, 0, 4, used)
		}
	}
	known, isNew := m.find()
	if isNew {
		stuck := r.Stuck
		r.Stuck = false
		known.allocation = x.search(s, r, nodes, c, WillRun, busy)
		known.stuck, r.Stuck = r.Stuck, stuck
	}
	r.Stuck = r.Stuck || known.stuck
	return known.allocation
}

// possible is [Tester.test] with TestOnly. It stores the answers and returns them again, because each pass
// repeats the questions about pending jobs. An answer depends only on the request, the nodes and their weights,
// which must be those of slurm.conf; for a job with generic resources, only the lowest bytes may differ.
func (m *repeated) possible(x *Tester, s *State, r *Request, set Bits, c Counts) *Allocation {
	m.words = append(about(m.words[:0], r, c, false, true, false), x.limitOf(s, r)) // nowOnly: see search
	m.words = append(m.words, set...)
	if len(r.Devices) > 0 {
		m.words = x.Weights.AppendLow(m.words, set, set)
	}
	known, isNew := m.find()
	if isNew {
		known.allocation = x.test(s, r, set, c, TestOnly, false)
	}
	switch {
	case len(r.Devices) == 0:
	case isNew:
		known.after = x.Weights.AppendLow(known.after[:0], set, set)
	default:
		x.own.Reset()
		x.Weights.SetLow(set, set, known.after)
	}
	return known.allocation
}

// find returns the stored answer to the question in words, or a new answer to fill in.
func (m *repeated) find() (*outlined, bool) {
	if m.size >= maxWords {
		m.size = 0
		m.table.Clear()
	}
	known, isNew := m.table.Find(m.words)
	if isNew {
		m.size += len(m.words)
	}
	return known, isNew
}
