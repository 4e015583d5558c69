package run

import (
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
)

// TestSuspendedAtTheEnd checks a job that was suspended or resumed in the second in which it
// ended. The event is then after the end in the accounting, but the job's suspensions stay within
// its run.
func TestSuspendedAtTheEnd(t *testing.T) {
	at := func(seconds float64) hpc.Time {
		return hpc.Unix(1000).Add(time.Duration(seconds * float64(time.Second)))
	}
	for _, resumed := range []float64{28, 30.4} {
		row := Row{Job: "a", Task: -1, Submit: at(0), Eligible: at(0), Start: at(10), End: at(30), State: hpc.Failed, Processors: 1,
			Nodes: "n1", NodeCount: 1, Segments: []Segment{
				{Start: at(10), End: at(15), EndedBy: rm.Suspend}, {Start: at(20), End: at(25), EndedBy: rm.Suspend},
				{Start: at(resumed), End: at(30.6), EndedBy: rm.Suspend}}}
		record := row.Finished(nil)
		r := record.Recorded()
		if err := r.CheckRuns(); err != nil || len(r.Suspensions) != 3 || r.Suspensions[2].To != at(30) {
			t.Errorf("resumed at %v: %v, %+v", resumed, err, r.Suspensions)
		}
	}
}
