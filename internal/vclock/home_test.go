package vclock

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// usages replaces the machine's CPU usage for a home. Each look is a second after the last.
type usages struct {
	busy map[int]time.Duration
	own  time.Duration
	at   time.Time
}

func (u *usages) read() usage {
	u.at = u.at.Add(time.Second)
	return usage{at: u.at, busy: maps.Clone(u.busy), own: u.own}
}

// TestHome checks that all threads and processes move to the CPU that other programs use least, and
// leave it when other programs use it.
func TestHome(t *testing.T) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil || allowed.Count() < 2 {
		t.Skipf("SKIPPED: threads do not move on a machine with one CPU (%v)", err)
	}
	l := newLab(t, Policy{})
	h, fake := &l.home, &usages{busy: map[int]time.Duration{}, at: time.Now()}
	h.usage = fake.read
	h.last = fake.read()
	look := func() { h.next = time.Time{}; h.look(); h.next = time.Now().Add(time.Hour) }
	for i, cpu := range h.choices {
		fake.busy[cpu] = time.Duration(10+i) * time.Millisecond // the first is the least busy
	}
	at := func(seconds int) {
		t.Helper()
		if err := l.waitTo(epoch.Add(time.Duration(seconds) * time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	h.next = time.Now().Add(time.Hour)
	for _, cpu := range h.choices {
		h.last.busy[cpu] = 0
	}
	p := l.start(program(t, "clockwork"), "where")
	at(15)
	look()
	if got, want := int(h.word.Load())-1, h.choices[0]; got != want {
		t.Errorf("home %d, want %d, the least busy", got, want)
	}
	at(25)

	home := h.choices[0]
	fake.busy[home] += time.Second
	fake.own += 900 * time.Millisecond // other programs used 100 ms
	look()
	if h.word.Load() == 0 {
		t.Error("left home, where others used 10 % of the CPU")
	}
	fake.busy[home] += time.Second
	fake.own += 600 * time.Millisecond
	look()
	if h.word.Load() != 0 {
		t.Error("still at home, where others used 40 % of the CPU")
	}
	if h.pause != 2*homePause {
		t.Errorf("the next pause is %v, want twice the first", h.pause)
	}
	l.run()

	n := allowed.Count()
	want := fmt.Sprint(n, 1, n)
	seen := map[string][]string{}
	for line := range strings.Lines(p.output()) {
		at := strings.LastIndexByte(strings.TrimSpace(line), ' ')
		seen[line[:at]] = append(seen[line[:at]], strings.TrimSpace(line[at:]))
	}
	for _, name := range []string{"thread", "child"} {
		if got := strings.Join(seen[name], " "); got != want {
			t.Errorf("%s may run on %s CPUs, want %s", name, got, want)
		}
		// slurmctld chooses its number of threads by this count.
		if got, want := strings.Join(seen[name+" counts"], " "), fmt.Sprint(n, n, n); got != want {
			t.Errorf("%s counts %s CPUs, want %s", name, got, want)
		}
	}
	l.checkCount()
}

// TestHomesOfOneProcess checks that two clocks do not share a CPU, and that a third clock gets no
// CPU when both are taken.
func TestHomesOfOneProcess(t *testing.T) {
	var all []*home
	for range 3 {
		fake := &usages{busy: map[int]time.Duration{0: 0, 1: 0}}
		h := &home{choices: []int{0, 1}, usage: fake.read, word: &new(shared).home}
		h.last = fake.read()
		h.look()
		all = append(all, h)
		t.Cleanup(h.leave)
	}
	var got []uint32
	for _, h := range all {
		got = append(got, h.word.Load())
	}
	if want := []uint32{1, 2, 0}; !slices.Equal(got, want) {
		t.Errorf("homes, plus 1: %v, want %v", got, want)
	}
	all[0].leave()
	all[2].next = time.Time{}
	all[2].look()
	if all[2].word.Load() != 1 {
		t.Error("a CPU that was left is not taken")
	}
}
