package answers

import (
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurmmodel/parameters"
)

// TestLine checks the order in which slurmctld serves messages that come together. The order for
// four threads is that of slurmctld 26.05 when an array of eight tasks is cancelled.
func TestLine(t *testing.T) {
	for _, c := range []struct {
		threads          int
		messages, served string
	}{
		{0, "abcdefgh", "abcdefgh"},
		{4, "abc", "abc"},
		{4, "abcd", "abcd"},
		{4, "abcdefgh", "aefghbcd"},
		{2, "abcd", "acdb"},
	} {
		l, now := Line[rune]{Threads: c.threads}, hpc.Time(1000)
		for _, m := range c.messages {
			l.Come(now, m, time.Microsecond)
		}
		got := ""
		for now = l.Next(); now != hpc.Never; now = l.Next() {
			if want := hpc.Time(2000 + 1000*len(got)); now != want {
				t.Errorf("%d threads, message %d: served at %d, want %d", c.threads, len(got), now, want)
			}
			got += string(l.Serve(time.Microsecond))
		}
		if got != c.served {
			t.Errorf("%d threads serve %s as %s, want %s", c.threads, c.messages, got, c.served)
		}
	}
}

// TestLineComesLate checks messages that come while another message is served, and after all are
// served.
func TestLineComesLate(t *testing.T) {
	var l Line[rune]
	l.Come(5_000, 'a', time.Millisecond)
	l.Come(6_000, 'b', time.Microsecond)
	for _, want := range []struct {
		at hpc.Time
		m  rune
	}{{1_005_000, 'a'}, {1_006_000, 'b'}} {
		if at := l.Next(); at != want.at {
			t.Errorf("%c is served at %d, want %d", want.m, at, want.at)
		}
		if m := l.Serve(time.Microsecond); m != want.m {
			t.Errorf("%c is served, want %c", m, want.m)
		}
	}
	if l.Next() != hpc.Never {
		t.Errorf("an empty line serves at %d", l.Next())
	}
	if l.Come(2_000_000, 'c', time.Microsecond); l.Next() != 2_001_000 {
		t.Errorf("a message to an empty line is served at %d", l.Next())
	}
}

func TestThreads(t *testing.T) {
	for _, c := range []struct {
		rules parameters.Rules
		want  int
	}{
		{parameters.Rules{}, 0}, {parameters.Rules{Since2411: true}, 64},
		{parameters.Rules{Since2411: true, Since2505: true, Since2605: true}, 4},
	} {
		if got := Threads(c.rules); got != c.want {
			t.Errorf("%+v: %d threads, want %d", c.rules, got, c.want)
		}
	}
}
