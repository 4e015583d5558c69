package ioaware

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
)

func TestRounds(t *testing.T) {
	begin := at(1000)
	after := func(fixed time.Duration, last int) *Rounds {
		r := &Rounds{Fixed: fixed, Begin: begin}
		if last > 0 {
			r.Planned(at(int64(last)))
		}
		return r
	}
	for _, c := range []struct {
		what    string
		rounds  *Rounds
		now     int64
		changed bool
		want    int64
	}{
		{"before the beginning", after(0, 0), 900, true, 1000},
		{"the first round", after(0, 0), 1000, true, 1000},
		{"a change long after a round", after(0, 1000), 1010, true, 1010},
		{"a change soon after a round", after(0, 1000), 1001, true, 1003},
		{"no change", after(0, 1000), 1001, false, 1030},
		{"fixed, before the beginning", after(30*time.Second, 0), 900, true, 1000},
		{"fixed", after(30*time.Second, 0), 1001, true, 1030},
		{"fixed, at a round", after(30*time.Second, 1030), 1030, false, 1060},
	} {
		if got := c.rounds.Next(at(c.now), c.changed); got != at(c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, at(c.want))
		}
	}
}

// TestRoundsKeepTheirPauses: with changes at random times, pauses between rounds are LeastPause or
// longer and, apart from the 5 s between two looks, MostPause or shorter.
func TestRoundsKeepTheirPauses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, clock, last, changed := &Rounds{}, hpc.Time(0), hpc.Time(-1), false
		for range 200 {
			clock = clock.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "milliseconds")) * time.Millisecond)
			changed = changed || rapid.IntRange(0, 3).Draw(t, "change") == 0
			next := r.Next(clock, changed)
			if next > clock {
				continue
			}
			if pause := clock.Sub(last); last >= 0 && (pause < LeastPause || pause > MostPause+5*time.Second || !changed && pause < MostPause) {
				t.Fatalf("a round %v after the last one, changed %t", pause, changed)
			}
			r.Planned(clock)
			last, changed = clock, false
		}
	})
}
