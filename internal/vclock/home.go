package vclock

import (
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"rmreplay/internal/procfs"
)

// home chooses one CPU for all managed threads of a clock. Only one of these threads runs at a
// time, so a second CPU gains nothing. A switch to a thread on the same CPU is faster than waking
// a thread on another CPU (measured: 500 jobs in 25 s instead of 32 s of real time). Each thread
// moves to the chosen CPU by itself, at its next turn: see await_turn in shim/clock.c. Virtual
// time does not depend on the choice.
//
// A CPU that other programs also use would be worse than the kernel's choice. When other programs
// use the chosen CPU, the threads may therefore run on all CPUs again. home tries again later,
// after pauses that grow exponentially.
type home struct {
	word    *atomic.Uint32 // shared.home
	choices []int          // CPUs that the driver may use
	usage   func() usage

	next  time.Time     // when to look next
	pause time.Duration // pause before the next try, after other programs used the CPU
	last  usage
}

// usage is how long the CPUs have been busy since the machine was started.
type usage struct {
	at   time.Time
	busy map[int]time.Duration // by CPU
	own  time.Duration         // of the managed processes and this one
}

const (
	homeEvery    = 500 * time.Millisecond // time between two looks
	homePause    = 2 * time.Second        // the first pause after other programs used the CPU; it doubles
	longestPause = time.Minute
	// maxOthersShare is the largest share of the chosen CPU that other programs may use.
	maxOthersShare = 0.25
)

// homes counts the clocks of this process by the CPU on which their threads run.
var homes = struct {
	sync.Mutex
	clocks map[int]int
}{clocks: map[int]int{}}

// settle prepares the choice. The function used returns the CPU time of the managed processes. On
// a machine with one CPU, settle does nothing.
func (h *home) settle(s *shared, used func() time.Duration) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil || allowed.Count() < 2 {
		return
	}
	h.word, h.pause = &s.home, homePause
	h.usage = func() usage {
		return usage{at: time.Now(), busy: procfs.BusyTimes(), own: used() + procfs.Process(os.Getpid()).CPU}
	}
	for cpu := range len(s.cpus) * 64 {
		if allowed.IsSet(cpu) {
			h.choices = append(h.choices, cpu)
			s.cpus[cpu/64] |= 1 << (cpu % 64)
		}
	}
	h.next = time.Now().Add(homeEvery)
	h.last = h.usage()
}

// look lets the threads run on all CPUs if other programs use the chosen CPU too much. If no CPU is chosen, look
// chooses one. Until the time of the next look, look does nothing.
func (h *home) look() {
	if len(h.choices) == 0 || time.Now().Before(h.next) {
		return
	}
	before := h.last
	h.last = h.usage()
	h.next = h.last.at.Add(homeEvery)
	if home := int(h.word.Load()) - 1; home >= 0 {
		others := h.last.busy[home] - before.busy[home] - (h.last.own - before.own)
		if others.Seconds() > maxOthersShare*h.last.at.Sub(before.at).Seconds() {
			h.leave()
			// The pauses are random, because the other programs may be replays that also choose CPUs in
			// this way.
			h.next = h.last.at.Add(time.Duration(float64(h.pause) * (0.75 + rand.Float64()/2)))
			h.pause = min(2*h.pause, longestPause)
		}
		return
	}
	if cpu, ok := claimHome(h.choices, before.busy, h.last.busy); ok {
		h.word.Store(uint32(cpu) + 1)
	}
}

// leave lets the threads run on all CPUs again.
func (h *home) leave() {
	if h.word == nil || h.word.Load() == 0 {
		return
	}
	homes.Lock()
	homes.clocks[int(h.word.Load())-1]--
	homes.Unlock()
	h.word.Store(0)
}

// claimHome reserves the CPU that was the least busy between two readings. It does not choose the
// CPU of another clock of this process.
func claimHome(choices []int, before, after map[int]time.Duration) (best int, ok bool) {
	homes.Lock()
	defer homes.Unlock()
	var least time.Duration
	for _, cpu := range choices {
		was, known := before[cpu]
		is, still := after[cpu]
		if !known || !still || homes.clocks[cpu] > 0 {
			continue
		}
		if !ok || is-was < least {
			best, least, ok = cpu, is-was, true
		}
	}
	if ok {
		homes.clocks[best]++
	}
	return best, ok
}
