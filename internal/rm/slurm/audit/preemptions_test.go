package audit

import (
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
)

// The log says who preempted whom; the row gets it at the run that ended then.
func TestPreemptions(t *testing.T) {
	at := func(minute int) hpc.Time {
		return hpc.Time(time.Date(2024, 3, 5, 12, minute, 0, 0, time.UTC).UnixNano())
	}
	log := `[2024-03-05T12:01:00.914] sched/backfill: _start_job: Started JobId=1 in low on n[1-2]
[2024-03-05T12:10:00.914] preempted JobId=2 has been killed to reclaim resources for JobId=5_3(8)
[2024-03-05T12:10:00.914] preempted JobId=1 has been requeued to reclaim resources for JobId=3
[2024-03-05T12:40:00.914] preempted JobId=1 has been requeued to reclaim resources for JobId=99
[2024-03-05T12:41:00.914] preempted JobId=9_2(10) has been requeued to reclaim resources for JobId=3
[2024-03-05T12:50:00.914] preempted JobId=11 has been requeued to reclaim resources for JobId=12_1(12)
[2024-03-05T12:55:00.914] preempted JobId=14 has been requeued to reclaim resources for JobId=3
[2024-03-05T12:41:00.914] preempted JobId=x has been requeued to reclaim resources for JobId=3
`
	rows := []run.Row{
		{Job: "low", Task: -1, RMJob: 1, Start: at(50), End: at(60), Segments: []run.Segment{
			{Start: at(1), End: at(10), EndedBy: rm.Requeue}, {Start: at(20), End: at(30), EndedBy: rm.Requeue},
			{Start: at(31), End: at(40), EndedBy: rm.Requeue}, {Start: at(50), End: at(60), EndedBy: rm.Ended},
		}},
		{Job: "kill", Task: -1, RMJob: 2, Start: at(1), End: at(10), State: hpc.Preempted},
		{Job: "high", Task: -1, RMJob: 3, Start: at(10), End: at(20)},
		{Job: "array", Task: 3, RMJob: 8, Start: at(10), End: at(20)},
		{Job: "other", Task: 2, RMJob: 10, Start: at(10), End: at(41)},
		{Job: "victim", Task: -1, RMJob: 11, Start: at(10), End: at(50)},
		// Its task 1 had no number of its own yet, but that of the array, which its last task keeps.
		{Job: "tasks", Task: 1, RMJob: 13}, {Job: "tasks", Task: 2, RMJob: 12},
	}
	began := at(55).Add(900 * time.Millisecond)
	rows = append(rows, run.Row{Job: "brief", Task: -1, RMJob: 14, Segments: []run.Segment{
		{Start: began, End: began.Add(14190 * time.Microsecond), EndedBy: rm.Requeue},
	}})
	each := func(yield func(*run.Row) bool) {
		for i := range rows {
			if !yield(&rows[i]) {
				return
			}
		}
	}
	p, err := ReadPreemptions(strings.NewReader(log), each)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for row := range each {
		p.Amend(row)
		for _, s := range row.Segments {
			got = append(got, row.Job+" by "+s.PreemptedBy)
		}
	}
	// The second run of low ended otherwise, and job 99 is not in the record.
	want := []string{"low by high", "low by ", "low by 99", "low by ", "kill by array_3", "other by high", "victim by tasks_1", "brief by high"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
