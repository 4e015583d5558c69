package answers

import (
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurmmodel/selection"
)

func set(nodes string) selection.Bits {
	b := selection.NewBits(8)
	for _, c := range nodes {
		b.Set(int(c - '0'))
	}
	return b
}

func TestOf(t *testing.T) {
	for _, c := range []struct {
		name, nodes, up string
		killed, epilog  bool
		telling, others string
		delay           time.Duration
	}{
		{"the script has ended", "123", "01234567", false, false, "", "123", 0},
		{"the script is killed", "123", "01234567", true, false, "1", "23", 0},
		{"a node without a script is down", "123", "014567", true, false, "1", "", unreachable},
		{"the node with the script is down", "123", "0234567", true, false, "", "23", unreachable},
		{"epilogs", "123", "0124567", false, true, "12", "", unreachable},
		{"all nodes are down", "123", "04567", true, false, "", "", unreachable},
	} {
		a := Expect(set(c.nodes), set(c.up), c.killed, c.epilog)
		if !a.Telling.Equal(set(c.telling)) || !a.Others.Equal(set(c.others)) || a.Delay != c.delay {
			t.Errorf("%s: got %v, %v after %v; want %s, %s after %v",
				c.name, a.Telling, a.Others, a.Delay, c.telling, c.others, c.delay)
		}
		if all := a.All(); !all.Equal(set(c.telling + c.others)) {
			t.Errorf("%s: slurmctld hears of %v, want %s%s", c.name, all, c.telling, c.others)
		}
	}
}

// TestLater: a thread that wakes every second keeps the fraction of its second.
func TestLater(t *testing.T) {
	const ms = hpc.Second / 1000
	for _, c := range []struct{ t, before, want hpc.Time }{
		{300 * ms, 0, 300 * ms},
		{300 * ms, 300 * ms, 300 * ms},
		{300 * ms, 301 * ms, 1300 * ms},
		{300 * ms, 1300 * ms, 1300 * ms},
		{300 * ms, 5 * hpc.Second, 5300 * ms},
	} {
		if got := Later(c.t, c.before); got != c.want {
			t.Errorf("%d ms, not before %d ms: %d ms, want %d ms", c.t/ms, c.before/ms, got/ms, c.want/ms)
		}
	}
}
