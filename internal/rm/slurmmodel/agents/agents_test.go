package agents

import (
	"testing"
	"time"

	"rmreplay/internal/hpc"
)

// TestLaunch starts 73 one-node jobs in a pass, as slurmctld 22.05 did with a prolog at the
// allocation. 42 launches reached their nodes at once, and the others 5 ms later.
func TestLaunch(t *testing.T) {
	var p Pool
	begin := hpc.Unix(1704294026)
	counts := map[time.Duration]int{}
	for range 73 {
		counts[p.Launch(begin, 1, true).Sub(begin)]++
	}
	if len(counts) != 2 || counts[0] != 42 || counts[Nap] != 31 {
		t.Errorf("launches by delay: %v", counts)
	}
	if at := p.Send(begin.Add(time.Millisecond), 1); at != begin.Add(Nap) {
		t.Errorf("a message behind those that wait: %v", at)
	}
	if at := p.Send(begin.Add(time.Second), 1); at != begin.Add(time.Second) {
		t.Errorf("a message when all agents have ended: %v", at)
	}

	// An agent for many nodes has 12 threads, so 21 agents have 252.
	p = Pool{}
	for i := range 43 {
		if want := begin.Add(Nap * time.Duration(i/21)); p.Send(begin, 300) != want {
			t.Fatalf("message %d to 300 nodes not at %v", i, want)
		}
	}
}

// TestMany starts jobs at once. For 5 ms, 85 agents of three threads are at work, then the others.
func TestMany(t *testing.T) {
	begin := hpc.Unix(1704294026)
	for _, c := range []struct {
		jobs  int
		after time.Duration
		many  bool
	}{
		{50, 0, false},
		{51, 0, true},
		{51, Nap - 1, true},
		{51, Nap, false},
		{130, Nap, false},
		{140, Nap + 1, true},
		{140, 2 * Nap, false},
	} {
		var p Pool
		for range c.jobs {
			p.Send(begin, 1)
		}
		if many := p.Many(begin.Add(c.after)); many != c.many {
			t.Errorf("%d jobs, after %v: %t, want %t", c.jobs, c.after, many, c.many)
		}
	}
}
