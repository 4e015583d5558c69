package selection

import "encoding/binary"

// empty has the answers of tests with TestOnly about nodes with their own weights. They depend on the request and
// the nodes alone: of jobs that wait, each pass asks again whether they could ever run.
type empty struct {
	sets    map[string]int
	answers map[emptyQuestion]*Allocation
	key     []byte // memory for test
}

// emptyQuestion is a question about a set of nodes, by its number among all that were asked about.
type emptyQuestion struct {
	question
	set int
}

// test returns the answer to a question, from the memory or by a test.
func (m *empty) test(x *Tester, s *State, r *Request, set Bits, c Counts) *Allocation {
	if m.answers == nil || len(m.answers) >= mostRemembered {
		m.sets, m.answers = map[string]int{}, map[emptyQuestion]*Allocation{}
	}
	m.key = m.key[:0]
	for _, w := range set {
		m.key = binary.LittleEndian.AppendUint64(m.key, w)
	}
	number, known := m.sets[string(m.key)]
	if !known {
		number = len(m.sets)
		m.sets[string(m.key)] = number
	}
	q := emptyQuestion{question{
		class: r.Class, counts: c, exclusive: r.Exclusive, whole: r.Whole, leastLoaded: r.LeastLoaded,
		patient: r.Patient, memoryPerCPU: r.MemoryPerCPU, memory: r.Memory,
	}, number}
	answer, known := m.answers[q]
	if !known {
		answer = x.test(s, r, set, c, TestOnly, false)
		m.answers[q] = answer
	}
	return answer
}
