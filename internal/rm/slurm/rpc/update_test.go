package rpc

import (
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
)

// An update refuses values that a job cannot have, and rounds a time limit up to Slurm's minutes.
func TestUpdateValues(t *testing.T) {
	j := NewJobUpdate("12")
	for _, priority := range []uint32{0, slurmspec.NoVal, slurmspec.Infinite} {
		if err := j.SetPriority(priority); err == nil || j.Priority != slurmspec.NoVal {
			t.Errorf("priority %d: %v, and the update has %d", priority, err, j.Priority)
		}
	}
	for _, limit := range []time.Duration{0, -time.Minute} {
		if err := j.SetTimeLimit(limit); err == nil {
			t.Errorf("time limit %v: the update has %d", limit, j.TimeLimit)
		}
	}
	for limit, want := range map[time.Duration]uint32{1: 1, time.Minute: 1, time.Minute + 1: 2, hpc.Unlimited: slurmspec.Infinite} {
		if err := j.SetTimeLimit(limit); err != nil || j.TimeLimit != want {
			t.Errorf("time limit %v: %d minutes, %v; want %d", limit, j.TimeLimit, err, want)
		}
	}
	if j.SetNodes(0, "n1"); j.MinNodes != slurmspec.NoVal || j.ReqNodes != "n1" {
		t.Errorf("nodes by name: %d, %q", j.MinNodes, j.ReqNodes)
	}
}
