package answers

import (
	"slices"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurmmodel/parameters"
)

// TestDepartures checks that a node is free when it has answered, and that its job is over when all
// its nodes have.
func TestDepartures(t *testing.T) {
	s := NewDepartures(8, 0, parameters.Rules{})
	over := ""
	alone := s.Begin(100, set("12"), set("0123"), func() { over += "a" })
	other := s.Begin(105, set("23"), set("234"), func() { over += "b" })
	s.Tell(1000, alone, set("12"), false)
	s.Tell(1000, other, set("3"), false)
	for k, want := range []struct {
		free, over string
		jobs       int
	}{
		{"014567", "", 2},
		{"014567", "a", 1}, // the other job still leaves node 2
		{"0134567", "a", 1},
	} {
		at := hpc.Time(2000 + 1000*k)
		if got := s.Line.Next(); got != at {
			t.Errorf("message %d is served at %d, want %d", k, got, at)
		}
		last := s.Serve(false)
		free := set("01234567")
		s.Exclude(free)
		if !free.Equal(set(want.free)) || over != want.over || len(s.jobs) != want.jobs {
			t.Errorf("after message %d: nodes %v without jobs that leave, %q over, %d leave; want %+v",
				k, free, over, len(s.jobs), want)
		}
		if last != (k == 1) {
			t.Errorf("message %d is the last of its job: %t", k, last)
		}
	}
	if !s.Any(set("12")) || s.Any(set("013")) {
		t.Error("a job leaves node 2, and no other node")
	}
	if !s.Answer(other, set("2")) || over != "ab" || s.Any(set("2")) {
		t.Errorf("the last node has answered: over %q", over)
	}
}

// CompleteWait delays the partitions of completing jobs that ended at most so many seconds ago.
func TestDelayed(t *testing.T) {
	s := NewDepartures(8, 10, parameters.Rules{})
	s.Begin(100, set("1"), set("012"), func() {})
	last := s.Begin(105, set("2"), set("23"), func() {})
	for second, want := range map[int64]string{105: "0123", 110: "0123", 111: "23", 115: "23", 116: ""} {
		if got := s.Delayed(second); !slices.Equal(got, set(want)) && (want != "" || got != nil) {
			t.Errorf("second %d: nodes %v, want %q", second, got, want)
		}
	}
	s.Answer(last, set("2"))
	if got := s.Delayed(105); !got.Equal(set("012")) {
		t.Errorf("after the last answer of a job: %v", got)
	}
	none := NewDepartures(8, 0, parameters.Rules{})
	none.Begin(100, set("1"), set("012"), func() {})
	if got := none.Delayed(100); got != nil {
		t.Errorf("without CompleteWait: %v", got)
	}
}

// A node is open for others again when the last job that shares no nodes has ended or is suspended there.
func TestClose(t *testing.T) {
	s := NewDepartures(8, 0, parameters.Rules{})
	s.Close(set("123"), true)
	s.Close(set("23"), true)
	s.Close(set("123"), false)
	if want := set("23"); !s.Closed.Equal(want) {
		t.Errorf("closed: %v, want %v", s.Closed, want)
	}
}

func TestThrottle(t *testing.T) {
	if few, many := Throttle(false), Throttle(true); few != time.Microsecond || many != time.Millisecond {
		t.Errorf("slurmctld sleeps %v with few agents and %v with many", few, many)
	}
}
