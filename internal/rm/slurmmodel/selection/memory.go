package selection

import (
	"fmt"

	"rmreplay/internal/rm/slurmmodel/recall"
	"rmreplay/internal/rm/slurmmodel/sharing"
)

// memory stores answers of [Tester.WillRun], because backfill repeats its questions in the next cycle and
// for similar jobs. An answer depends only on the question, the jobs on the question's nodes, and the
// windows in which these jobs end.
type memory struct {
	classes map[string]int
	outside int // x.outside at the last question; since 24.11, the field changes at the last question
	table   recall.Table[remembered]
	most    int // largest number of answers
	// devices are the nodes whose weights tests change. Since 24.11 the set is empty, because a test
	// does not use the weights that an earlier test set.
	devices Bits
	words   []uint64 // the last question: its nodes, and the lowest bytes of the weights of nodes in devices
	changes int      // number of changes of running jobs
	changed []int    // by node, number of the last change
}

// remembered is a stored answer.
type remembered struct {
	answer
	after  []uint64 // the lowest bytes of the weights of nodes in devices, after the tests
	tests  []int    // for each test, how many of the jobs on the answer's nodes the walk had removed before
	number int      // memory.changes when the answer was last found right
}

// maxRemembered and maxBytes limit the memory.
const (
	maxRemembered = 1 << 15
	maxBytes      = 32 << 20
)

func newMemory(m *Machine) memory {
	n := len(m.Nodes)
	mem := memory{classes: map[string]int{}, devices: NewBits(n), changed: make([]int, n)}
	for i := range m.Nodes {
		mem.devices.Put(i, len(m.Nodes[i].Devices) > 0 && !m.Since2411)
	}
	mem.most = min(maxRemembered, maxBytes/(400+n/4+2*mem.devices.Count()))
	return mem
}

// Changed records that a job on these nodes has started or ended, or that its time limit has changed.
func (x *Tester) Changed(nodes Bits) {
	m := &x.memory
	m.changes++
	for i := range nodes.All {
		m.changed[i] = m.changes
	}
}

// isSame reports whether the jobs on the nodes are the same as after the change with the number since.
func (m *memory) isSame(nodes Bits, since int) bool {
	for i := nodes.Next(0); i >= 0; i = nodes.Next(i + 1) {
		if m.changed[i] > since {
			return false
		}
	}
	return true
}

// Classify sets the class of a request. Later, only fields that depend on the partition or on the
// waiting time may change: Exclusive, Sharing, LeastLoaded, Patient, OneUser, Memory and MemoryPerCPU.
func (x *Tester) Classify(r *Request) {
	if x.Turns != nil { // if jobs share cores, answers depend on the rows of jobs
		return
	}
	plain := *r
	plain.Class, plain.Exclusive, plain.Sharing, plain.LeastLoaded, plain.Patient = 0, false, sharing.Use{}, false, false
	plain.Memory, plain.MemoryPerCPU, plain.OneUser, plain.Unclassified = 0, false, false, false
	key := fmt.Sprintf("%+v", plain)
	class, known := x.memory.classes[key]
	if !known {
		class = len(x.memory.classes) + 1
		x.memory.classes[key] = class
	}
	r.Class, r.Unclassified = class, false
}

// answer returns the answer to a question: a stored answer, or the answer of new tests.
func (m *memory) answer(x *Tester, s *State, r *Request, set Bits, c Counts, h *Horizon) answer {
	outside := x.outside
	if x.Since2411 { // each question resets its nodes' weights, and considers only jobs that end before an instant
		outside = m.changes
	}
	if m.outside != outside || m.table.Len() >= m.most {
		m.outside = outside
		m.table.Clear()
	}
	m.words = about(m.words[:0], r, c, h.AsksNow(), h.NowOnly, h.PreferBusy)
	m.words = append(m.words, x.limitOf(s, r), uint64(h.Linear), uint64(h.Ended())<<32|uint64(h.Considered()))
	m.words = x.Weights.AppendLow(append(m.words, set...), set, m.devices)
	known, isNew := m.table.Find(m.words)
	if !isNew && m.holds(known, set, h) {
		if len(r.Devices) > 0 {
			x.own.Reset()
			x.Weights.SetLow(set, m.devices, known.after)
		}
		return known.answer
	}
	x.tests = x.tests[:0]
	known.answer = x.willRun(s, r, set, c, h)
	known.tests = append(known.tests[:0], x.tests...)
	if known.number = m.changes; len(r.Devices) > 0 {
		known.after = x.Weights.AppendLow(known.after[:0], set, m.devices)
	}
	return known.answer
}

// holds reports whether a stored answer is still right: its nodes have the same jobs, and before each test
// the same number of these jobs is removed. If the answer is right, holds updates its number.
func (m *memory) holds(known *remembered, set Bits, h *Horizon) bool {
	switch {
	case known.notBefore > 0 && !h.TooLate(known.notBefore):
		return false
	case known.number == m.changes:
		return true
	case !m.isSame(set, known.number) || !known.follow(set, h):
		return false
	}
	known.number = m.changes
	return true
}

// follow compares the windows in which jobs now end with the windows of a stored answer. If they are
// the same, follow updates the end after which the pending job could start, and returns true.
func (known *remembered) follow(set Bits, h *Horizon) bool {
	if h.NowOnly || known.now {
		return true
	}
	w, tests := h.Walk(set), known.tests
	for w.Next(nil) {
		if len(tests) == 0 || tests[0] != w.Gone {
			return false
		}
		if tests = tests[1:]; len(tests) == 0 && known.notBefore > 0 {
			return true // the search stops again before the test at the same job's end
		}
		if len(tests) == 0 && known.allocation != nil {
			known.end = h.EndBefore(&w, known.allocation.Nodes)
			return true
		}
	}
	return len(tests) == 0 && known.allocation == nil && known.notBefore == 0
}

// about appends the question of a test to words, without the nodes, their jobs and their weights.
func about(words []uint64, r *Request, c Counts, now, nowOnly, busy bool) []uint64 {
	flags := bit(r.Exclusive, 0) | bit(r.Sharing.Mode == sharing.Whole, 1) | bit(r.LeastLoaded, 2) | bit(r.Patient, 3) |
		bit(r.MemoryPerCPU, 4) | bit(now, 5) | bit(nowOnly, 6) | bit(busy, 7)
	return append(words, uint64(r.Class)<<8|flags, uint64(c.Min), uint64(c.Max), uint64(c.Wanted), uint64(r.Memory))
}

func bit(is bool, at int) uint64 {
	if is {
		return 1 << at
	}
	return 0
}
