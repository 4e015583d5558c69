package engine

import (
	"fmt"
	"runtime"
	"time"
)

// mapped returns the limit, in MiB, for the growth of a process's mapped memory that lets the process use the given
// MiB. The limit is higher than the given number, because a process also maps stacks of threads (8 MiB each), parts of
// malloc's arenas, and freed memory, which stays mapped. For example, questions that read texts of 5 MiB used 105 MiB
// in a process that mapped 290.
func mapped(used int) int { return 2*used + 64 + 8*runtime.NumCPU() }

// watch limits the memory of all engines together until the pool is closed.
func (p *Pool) watch() {
	defer p.ending.Done()
	const often, seldom = 5 * time.Millisecond, 100 * time.Millisecond
	timer := time.NewTimer(seldom)
	defer timer.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-timer.C:
		}
		interval := seldom
		if p.weigh() {
			interval = often
		}
		timer.Reset(interval)
	}
}

// weigh kills the largest engine if all engines together use too much memory. It reports whether any engine works on a
// question.
func (p *Pool) weigh() (asked bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all, most int64
	var largest *process
	for e := range p.live {
		asked = asked || e.asked.Load()
		n := e.memory.Anonymous()
		if all += n; n > most {
			most, largest = n, e
		}
	}
	// An eighth of the limit is a reserve: engines allocate memory before the next check, and the
	// kernel frees the memory of a killed engine with a delay.
	if limit := int64(p.opts.MemoryMiB) << 20; all > limit-limit/8 {
		largest.kill(fmt.Errorf("%w (engines had %d MiB, the limit for all is %d MiB, and this one had %d MiB)",
			ErrMemory, all>>20, p.opts.MemoryMiB, most>>20))
	}
	return asked
}
