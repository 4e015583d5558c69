package audit

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"rmreplay/internal/hpc"
)

// By finds the job that preempted another job, even if a line of the log is read in two pieces.
func TestPreemptions(t *testing.T) {
	at := func(minute int) hpc.Time {
		return hpc.Time(time.Date(2024, 3, 5, 12, minute, 0, 0, time.UTC).UnixNano())
	}
	const first = `[2024-03-05T12:01:00.914] sched/backfill: _start_job: Started JobId=1 in low on n[1-2]
[2024-03-05T12:10:00.914] preempted JobId=2 has been killed to reclaim resources for JobId=5_3(8)
[2024-03-05T12:10:00.914] preempted JobId=1 has been requeued to reclaim resources for JobId=3
[2024-03-05T12:40:00.914] preempted JobId=1 has been requ`
	const second = `eued to reclaim resources for JobId=99
[2024-03-05T12:41:00.914] preempted JobId=9_2(10) has been requeued to reclaim resources for JobId=3
[2024-03-05T12:50:00.914] preempted JobId=11 has been requeued to reclaim resources for JobId=12_1(12)
[2024-03-05T12:41:00.914] preempted JobId=x has been requeued to reclaim resources for JobId=3
`
	path := filepath.Join(t.TempDir(), "log")
	p := Endings{Path: path}
	if _, _, err := p.By(1, at(10)); err == nil {
		t.Error("a log that is not there has no preemptions")
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	by := func(job uint32, end hpc.Time, want Preemptor, known bool) {
		t.Helper()
		if got, ok, err := p.By(job, end); got != want || ok != known || err != nil {
			t.Errorf("job %d at %v: %+v %v %v, want %+v %v", job, end, got, ok, err, want, known)
		}
	}
	write(first)
	by(2, at(10), Preemptor{8, "3"}, true)
	by(1, at(40), Preemptor{}, false)
	by(1, at(10), Preemptor{3, ""}, true)
	by(1, at(10), Preemptor{}, false) // another run, which ended otherwise
	write(first + second)
	by(1, at(30), Preemptor{}, false)
	by(1, at(40), Preemptor{99, ""}, true)
	by(10, at(41), Preemptor{3, ""}, true)
	by(11, at(50), Preemptor{12, "1"}, true)
}

// NeverSatisfied finds the jobs that slurmctld cancelled because of their dependencies: jobs, tasks, and the tasks of an
// array that have no record of their own.
func TestNeverSatisfied(t *testing.T) {
	const log = `[2024-03-05T12:05:40.926] _kill_dependent: Job dependency can't be satisfied, cancelling JobId=4
[2024-03-05T12:05:40.926] _kill_dependent: Job dependency can't be satisfied, cancelling JobId=9_2(10)
[2024-03-05T12:05:40.926] _kill_dependent: Job dependency can't be satisfied, cancelling JobId=12_*
[2024-03-05T12:06:00.914] preempted JobId=5 has been killed to reclaim resources for JobId=3
`
	p := Endings{Path: filepath.Join(t.TempDir(), "log")}
	if _, err := p.NeverSatisfied(4); err == nil {
		t.Error("a log that is not there says why a job was cancelled")
	}
	if err := os.WriteFile(p.Path, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	for job, want := range map[uint32]bool{3: false, 4: true, 5: false, 9: false, 10: true, 12: true} {
		if got, err := p.NeverSatisfied(job); got != want || err != nil {
			t.Errorf("job %d: %t (%v), want %t", job, got, err, want)
		}
	}
}
