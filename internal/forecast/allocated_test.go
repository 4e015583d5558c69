package forecast

import (
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
)

func TestLastBackfill(t *testing.T) {
	for line, want := range map[string]hpc.Time{
		"\tLast cycle when: Mon Jan  1 03:59:33 2024 (1704081573)": hpc.Unix(1704081573),
		"\tLast cycle when: N/A":                                   0, "\tLast cycle:   12": 0, "Last cycle when: now (-5)": 0, "Last cycle when: (99999999999999999999)": 0, "": 0,
	} {
		if got, ok := LastBackfill(line); got != want || ok != (want != 0) {
			t.Errorf("%q: %s, %t", line, got, ok)
		}
	}
}

// TestAllocated checks that a job's start is the time of its allocation, in each of its runs.
func TestAllocated(t *testing.T) {
	second := hpc.Time(time.Second)
	events := []run.Event{
		{At: 10*second + 914, Kind: rm.Started, Job: "a", Task: -1, Start: 10*second + 914},
		{At: 11 * second, Kind: rm.Started, Job: "a", Task: 3, Start: 11 * second},
		{At: 12 * second, Kind: rm.Requeue, Job: "a", Task: -1, Start: 10 * second},
		{At: 20*second + 914, Kind: rm.Started, Job: "a", Task: -1, Start: 20*second + 914},
		{At: 30 * second, Kind: rm.Ended, Job: "a", Task: -1, Start: 18 * second},
		{At: 31 * second, Kind: rm.Ended, Job: "a", Task: 3},
	}
	allocated(events)
	for i, want := range map[int]hpc.Time{0: 10 * second, 1: 11 * second, 3: 18 * second} {
		if events[i].Start != want {
			t.Errorf("event %d: start %s, want %s", i, events[i].Start, want)
		}
	}
}
