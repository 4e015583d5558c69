package selection

import "rmreplay/internal/rm/slurmmodel/recall"

// empty has the answers of tests with TestOnly about nodes with their own weights. They depend on the request and
// the nodes alone: of jobs that wait, each pass asks again whether they could ever run.
type empty struct {
	table recall.Table[*Allocation]
	words []uint64 // of the last question
}

// test returns the answer to a question, from the memory or by a test.
func (m *empty) test(x *Tester, s *State, r *Request, set Bits, c Counts) *Allocation {
	if m.table.Len() >= mostRemembered {
		m.table.Clear()
	}
	q := question{
		class: r.Class, counts: c, exclusive: r.Exclusive, whole: r.Whole, leastLoaded: r.LeastLoaded,
		patient: r.Patient, memoryPerCPU: r.MemoryPerCPU, memory: r.Memory,
	}
	m.words = append(q.append(m.words[:0]), set...)
	known, isNew := m.table.Find(m.words)
	if isNew {
		*known = x.test(s, r, set, c, TestOnly, false)
	}
	return *known
}
