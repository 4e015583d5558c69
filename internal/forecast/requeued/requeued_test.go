package requeued

import (
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// A job that was requeued shortly before the instant waits until it is eligible again.
func TestDelay(t *testing.T) {
	const second = hpc.Time(time.Second)
	lost := hpc.Interruptions{LostRuns: []hpc.LostRun{{End: 100 * second, EligibleAgain: 221 * second}}}
	record := &workload.Workload{Jobs: workload.JobsOf(
		&hpc.Job{ID: "a", Submit: 5 * second, Recorded: &hpc.Recorded{Interruptions: lost}},
		&hpc.Job{ID: "b", Submit: 6 * second, Recorded: &hpc.Recorded{}})}
	for at, want := range map[hpc.Time]time.Duration{100 * second: 0, 112 * second: 121 * time.Second, 221 * second: 0} {
		window := &workload.Workload{Jobs: workload.JobsOf(&hpc.Job{ID: "a", Submit: 100 * second}, &hpc.Job{ID: "b", Submit: 6 * second})}
		Delay(window, record, at)
		for _, job := range window.Jobs.All() {
			if job.ID == "b" && job.Begin != 0 || job.ID == "a" && job.Begin != want {
				t.Errorf("at %v: job %s begins after %v, want %v", time.Duration(at), job.ID, job.Begin, want)
			}
		}
	}
}
