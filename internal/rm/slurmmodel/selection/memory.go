package selection

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"
)

// memory has the answers of [Tester.WillRun]. Backfill asks again what it asked in the cycle before, and of many jobs
// alike: an answer depends on nothing but what a question has, the jobs on its nodes, and in which windows jobs end.
type memory struct {
	classes map[string]int
	outside int // changes of weights by the last question; since 24.11 those of running jobs
	seed    maphash.Seed
	// Answers are in blocks, so that a list that grows need not be copied. Their memory is used again.
	blocks []*[perBlock]remembered
	known  int // how many answers there are
	// newest has the number of the newest answer of each slot, which is right if that answer has this slot.
	newest []int32
	most   struct{ answers, devices int }
	// devices are the nodes whose weights tests change; none since 24.11, where no test sees those of
	// another.
	devices Bits
	near    []uint8 // the lowest bytes of their weights, of those in the set of the last question
	changes int     // of running jobs
	changed []int   // number of the last one of each node
}

// remembered is a question with its answer.
type remembered struct {
	question
	set   Bits
	near  []uint8 // the lowest bytes of the weights of nodes with devices, before and afterwards
	after []uint8
	answer
	tests  []int // how many jobs of its nodes had left before each test of the future
	number int   // of changes when it last was right
	slot   int   // of its hash
	next   int   // the answer before of this slot; -1 for none
}

// question is what an answer depends on beside the nodes, their jobs and weights.
type question struct {
	class                                  int
	counts                                 Counts
	exclusive, whole, leastLoaded, patient bool
	memoryPerCPU, now, nowOnly, busy       bool
	memory, linear                         int64
	ended, considered                      int // running jobs, since 24.11
}

// mostRemembered and mostBytes bound the memory.
const (
	mostRemembered = 1 << 15
	mostBytes      = 32 << 20
	perBlock       = 64
	slots          = 1 << 13
)

func newMemory(m *Machine) memory {
	n := len(m.Nodes)
	mem := memory{
		classes: map[string]int{}, seed: maphash.MakeSeed(), newest: make([]int32, slots),
		devices: NewBits(n), changed: make([]int, n),
	}
	for i := range m.Nodes {
		mem.devices.Put(i, len(m.Nodes[i].Devices) > 0 && !m.Since2411)
	}
	mem.most.devices = mem.devices.Count()
	mem.most.answers = min(mostRemembered, mostBytes/(400+n/4+2*mem.most.devices))
	return mem
}

// Changed notes that a job has begun to run on nodes, no longer does, or will end at another time.
func (x *Tester) Changed(nodes Bits) {
	m := &x.memory
	m.changes++
	for i := range nodes.All {
		m.changed[i] = m.changes
	}
}

// isSame reports whether the nodes have had the same jobs since a change.
func (m *memory) isSame(nodes Bits, since int) bool {
	for i := range nodes.All {
		if m.changed[i] > since {
			return false
		}
	}
	return true
}

// Classify sets the class of a request. The request must not change afterwards, except for what its partition and
// the time it has waited decide: Exclusive, Whole, LeastLoaded, Patient, Memory and MemoryPerCPU.
func (x *Tester) Classify(r *Request) {
	plain := *r
	plain.Class, plain.Exclusive, plain.Whole, plain.LeastLoaded, plain.Patient = 0, false, false, false, false
	plain.Memory, plain.MemoryPerCPU = 0, false
	key := fmt.Sprintf("%+v", plain)
	class, known := x.memory.classes[key]
	if !known {
		class = len(x.memory.classes) + 1
		x.memory.classes[key] = class
	}
	r.Class = class
}

// answer returns the answer to a question, from the memory or by tests.
func (m *memory) answer(x *Tester, s *State, r *Request, set Bits, c Counts, h *Horizon) answer {
	outside := x.outside
	if x.Since2411 { // each question gives its nodes their weights, and is about jobs that end until an instant
		outside = m.changes
	}
	if m.outside != outside || m.known >= m.most.answers {
		m.outside, m.known = outside, 0
	}
	q := question{
		class: r.Class, counts: c, exclusive: r.Exclusive, whole: r.Whole, leastLoaded: r.LeastLoaded,
		patient: r.Patient, memory: r.Memory, memoryPerCPU: r.MemoryPerCPU, now: h.AsksNow(), nowOnly: h.NowOnly,
		busy: h.PreferBusy, linear: h.Linear, ended: h.Ended(), considered: h.Considered(),
	}
	m.near = m.weights(m.near, set, x.Weights)
	known, isNew := m.find(&q, set)
	if !isNew && m.holds(known, h) {
		if len(r.Devices) > 0 {
			m.reweigh(x, set, known.after)
		}
		return known.answer
	}
	x.tests = known.tests[:0]
	known.answer = x.willRun(s, r, set, c, h)
	if known.tests, known.number = x.tests, m.changes; len(r.Devices) > 0 {
		known.after = m.weights(known.after, set, x.Weights)
	}
	return known.answer
}

// at returns an answer by its number.
func (m *memory) at(number int) *remembered { return &m.blocks[number/perBlock][number%perBlock] }

// find returns the entry of a question, which has no answer yet if it is new.
func (m *memory) find(q *question, set Bits) (entry *remembered, isNew bool) {
	slot := int(m.hash(q, set) % slots)
	newest := int(m.newest[slot])
	if newest >= m.known || m.at(newest).slot != slot {
		newest = -1
	}
	for at := newest; at >= 0; at = entry.next {
		entry = m.at(at)
		if entry.question == *q && entry.set.Equal(set) && bytes.Equal(entry.near, m.near) {
			return entry, false
		}
	}
	if m.known == len(m.blocks)*perBlock {
		m.blocks = append(m.blocks, new([perBlock]remembered))
	}
	entry = m.at(m.known)
	entry.question, entry.set, entry.near = *q, append(entry.set[:0], set...), append(entry.near[:0], m.near...)
	entry.slot, entry.next, m.newest[slot] = slot, newest, int32(m.known)
	m.known++
	return entry, true
}

// holds reports whether an answer is still right: its nodes have the same jobs, and as many of these would have left
// at each test. It brings the answer up to date.
func (m *memory) holds(known *remembered, h *Horizon) bool {
	if known.number == m.changes {
		return true
	}
	if !m.isSame(known.set, known.number) || !known.follow(h) {
		return false
	}
	known.number = m.changes
	return true
}

// follow compares the windows in which jobs leave now with those of an answer, and renews the end after which the job
// could start.
func (known *remembered) follow(h *Horizon) bool {
	if known.nowOnly || known.answer.now {
		return true
	}
	w, tests := h.Walk(known.set), known.tests
	for w.Next(nil) {
		if len(tests) == 0 || tests[0] != w.Gone {
			return false
		}
		if tests = tests[1:]; len(tests) == 0 && known.allocation != nil {
			known.end = endBefore(h, &w, known.allocation)
			return true
		}
	}
	return len(tests) == 0 && known.allocation == nil
}

// reweigh gives nodes with devices the weights that the tests gave them.
func (m *memory) reweigh(x *Tester, set Bits, after []uint8) {
	x.own.Reset()
	for i := set.NextAnd(m.devices, 0); i >= 0; i = set.NextAnd(m.devices, i+1) {
		x.Weights[i] = x.Weights[i]&^0xff | uint64(after[0])
		after = after[1:]
	}
}

// hash spreads questions.
func (m *memory) hash(q *question, set Bits) uint64 {
	const prime = 0x9e3779b97f4a7c15
	sum := uint64(q.class)
	add := func(n uint64) { sum = (sum ^ n) * prime; sum ^= sum >> 29 }
	add(uint64(q.counts.Min)<<40 ^ uint64(q.counts.Max)<<20 ^ uint64(q.counts.Wanted))
	add(uint64(q.ended)<<32 ^ uint64(q.considered))
	add(set.Hash())
	add(maphash.Bytes(m.seed, m.near))
	return sum
}

// weights returns the lowest bytes of the weights of nodes with devices.
func (m *memory) weights(to []uint8, set Bits, w Weights) []uint8 {
	to = slices.Grow(to[:0], m.most.devices)[:m.most.devices]
	n := 0
	for k, word := range set { // a large machine has thousands, and each question looks at them
		for word &= m.devices[k]; word != 0; word &= word - 1 {
			to[n] = uint8(w[k<<6+bits.TrailingZeros64(word)])
			n++
		}
	}
	return to[:n]
}
