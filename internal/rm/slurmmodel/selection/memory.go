package selection

import (
	"fmt"
	"math/bits"
	"slices"
)

// memory has the answers of [Tester.WillRun] about the present running jobs. Backfill asks again what it asked
// in the cycle before, and of many jobs alike: an answer depends on nothing but what a question has.
type memory struct {
	classes map[string]int
	version int
	outside int            // changes of weights by then
	first   map[uint64]int // the newest answer with a hash, counted from 1
	list    []remembered
	// devices are the nodes whose weights tests change; nil since 24.11, where no test sees those of
	// another.
	devices []int
}

// remembered is a question with its answer.
type remembered struct {
	question
	set   Bits
	near  []uint8 // the lowest bytes of the weights of nodes with devices, before and afterwards
	after []uint8
	answer
	next int // the one before with this hash, counted from 1; 0 for none
}

// question is what an answer depends on beside the nodes and their weights.
type question struct {
	class                                  int
	counts                                 Counts
	exclusive, whole, leastLoaded, patient bool
	memoryPerCPU, now, nowOnly, busy       bool
	memory, linear                         int64
	ended, considered                      int // running jobs
}

// mostRemembered bounds the memory.
const mostRemembered = 1 << 15

func newMemory(m *Machine) memory {
	mem := memory{classes: map[string]int{}, first: map[uint64]int{}}
	for i := range m.Nodes {
		if len(m.Nodes[i].Devices) > 0 && !m.Since2411 {
			mem.devices = append(mem.devices, i)
		}
	}
	return mem
}

// Classify sets the class of a request. The request must not change afterwards, but for what its partition and
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
	if x.Since2411 {
		outside = 0 // each question gives its nodes their weights
	}
	if m.version != h.Version || m.outside != outside || len(m.list) >= mostRemembered {
		m.version, m.outside, m.list = h.Version, outside, m.list[:0]
		clear(m.first)
	}
	q := question{
		class: r.Class, counts: c, exclusive: r.Exclusive, whole: r.Whole, leastLoaded: r.LeastLoaded,
		patient: r.Patient, memory: r.Memory, memoryPerCPU: r.MemoryPerCPU, now: h.asksNow(), nowOnly: h.NowOnly,
		busy: h.PreferBusy, linear: h.Linear,
		ended: h.ended(), considered: h.considered(),
	}
	hash := m.hash(&q, set, x.Weights)
	for at := m.first[hash]; at > 0; at = m.list[at-1].next {
		known := &m.list[at-1]
		if known.question == q && known.set.Equal(set) && m.weighsAs(known.near, x.Weights) {
			if len(known.after) > 0 {
				x.own.Reset()
			}
			for k, b := range known.after {
				w := &x.Weights[m.devices[k]]
				*w = *w&^0xff | uint64(b)
			}
			return known.answer
		}
	}
	at := len(m.list)
	m.list = slices.Grow(m.list, 1)[:at+1] // with the sets of an older answer
	m.list[at].question, m.list[at].next = q, m.first[hash]
	m.list[at].set, m.list[at].near = append(m.list[at].set[:0], set...), m.weights(m.list[at].near, x.Weights)
	m.first[hash] = at + 1
	m.list[at].answer = x.willRun(s, r, set, c, h)
	m.list[at].after = m.weights(m.list[at].after, x.Weights)
	return m.list[at].answer
}

// hash spreads questions.
func (m *memory) hash(q *question, set Bits, w Weights) uint64 {
	const prime = 0x9e3779b97f4a7c15
	sum := uint64(q.class)
	add := func(n uint64) { sum = (sum ^ n) * prime; sum ^= sum >> 29 }
	add(uint64(q.counts.Min)<<40 ^ uint64(q.counts.Max)<<20 ^ uint64(q.counts.Wanted))
	add(uint64(q.ended)<<32 ^ uint64(q.considered))
	var a, b, c, d uint64 // on a large machine the set is most of a question, and the processor computes these at once
	for ; len(set) >= 4; set = set[4:] {
		a, b = bits.RotateLeft64((a^set[0])*prime, 31), bits.RotateLeft64((b^set[1])*prime, 31)
		c, d = bits.RotateLeft64((c^set[2])*prime, 31), bits.RotateLeft64((d^set[3])*prime, 31)
	}
	for _, word := range [...]uint64{a, b, c, d} {
		add(word)
	}
	for _, word := range set { // what is left
		add(word)
	}
	for _, i := range m.devices {
		add(w[i])
	}
	return sum
}

// weights returns the lowest bytes of the weights of nodes with devices.
func (m *memory) weights(to []uint8, w Weights) []uint8 {
	to = to[:0]
	for _, i := range m.devices {
		to = append(to, uint8(w[i]))
	}
	return to
}

func (m *memory) weighsAs(near []uint8, w Weights) bool {
	for k, i := range m.devices {
		if near[k] != uint8(w[i]) {
			return false
		}
	}
	return true
}
