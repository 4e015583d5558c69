package waits

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// at is an instant in minutes.
func at(minute int) hpc.Time { return hpc.Unix(1_700_000_000).Add(time.Duration(minute) * time.Minute) }

func reason(from, to int, name string) run.Span {
	return run.Span{From: at(from), To: at(to), Reason: name}
}

// Each row has the parts of one wait in minutes.
func TestParts(t *testing.T) {
	for _, test := range []struct {
		name  string
		row   run.Row
		since int // the wait since the job was eligible; -1 if it is not known
		want  map[Part]int
	}{
		{"a log with nothing but waits", run.Row{Submit: at(0), Start: at(30)}, -1, map[Part]int{Unknown: 30}},
		{"at once", run.Row{Submit: at(5), Eligible: at(5), Start: at(5)}, 0, nil},
		{"a simulated job with a dependency", run.Row{Submit: at(0), Eligible: at(20), Start: at(30), AskedDependency: true}, 10,
			map[Part]int{Dependency: 20, Unknown: 10}},
		{"a begin time, then a dependency", run.Row{Submit: at(0), Eligible: at(20), Start: at(20), AskedBegin: 5 * time.Minute, AskedDependency: true}, 0,
			map[Part]int{BeginTime: 5, Dependency: 15}},
		{"a task of an array in a log", run.Row{Submit: at(0), Eligible: at(20), Start: at(21), AskedArrayLimit: 2}, 1,
			map[Part]int{Unknown: 21}},
		{"a task of an array with a dependency in a log", run.Row{Submit: at(0), Eligible: at(20), Start: at(21), AskedArrayLimit: 2, AskedDependency: true}, 1,
			map[Part]int{Dependency: 20, Unknown: 1}},
		{"a task of an array whose dependency was met", run.Row{Submit: at(0), Eligible: at(20), Start: at(21), ArrayEligible: at(5), AskedArrayLimit: 2,
			AskedDependency: true, Reasons: []run.Span{reason(8, 19, run.AtArrayLimit)}}, 1, map[Part]int{Dependency: 5, OwnLimit: 11, Unknown: 5}},
		{"a task on Slurm whose array had been held", run.Row{Submit: at(0), Eligible: at(20), Start: at(20), ArrayEligible: at(5), AskedArrayLimit: 2,
			AskedHold: true, Reasons: []run.Span{reason(0, 10, ""), reason(10, 20, "JobArrayTaskLimit")}}, 0, map[Part]int{Held: 5, OwnLimit: 15}},
		{"a dependency that was seen last before it was met", run.Row{Submit: at(0), Eligible: at(20), Start: at(20), ArrayEligible: at(5), AskedArrayLimit: 2,
			AskedDependency: true, Reasons: []run.Span{reason(0, 10, "Dependency"), reason(10, 20, "JobArrayTaskLimit")}}, 0, map[Part]int{Dependency: 5, OwnLimit: 15}},
		{"a simulated task of an array", run.Row{Submit: at(0), Eligible: at(20), First: at(20), Start: at(21), AskedArrayLimit: 2,
			Reasons: []run.Span{reason(3, 15, run.AtArrayLimit)}}, 1, map[Part]int{OwnLimit: 12, Priority: 8, Resources: 1}},
		{"a task of an array on Slurm", run.Row{Submit: at(0), Eligible: at(20), Start: at(21), AskedArrayLimit: 2, Reasons: []run.Span{
			reason(0, 15, ""), reason(15, 20, "JobArrayTaskLimit")}}, 1, map[Part]int{OwnLimit: 20, Unknown: 1}},
		{"a simulated job, first in its queue at last", run.Row{Submit: at(0), Eligible: at(5), First: at(20), Start: at(30), AskedDependency: true}, 25,
			map[Part]int{Dependency: 5, Priority: 15, Resources: 10}},
		{"a simulated job that lost the first place", run.Row{Submit: at(0), Eligible: at(0), First: at(5), Start: at(60), Reasons: []run.Span{
			reason(0, 20, ""), reason(20, 30, "Priority"), reason(30, 60, "Resources")}}, 60, map[Part]int{Priority: 15, Resources: 45}},
		{"first before it was eligible", run.Row{Submit: at(0), Eligible: at(5), First: at(3), Start: at(30), AskedHold: true}, 25,
			map[Part]int{Held: 5, Resources: 25}},
		{"backfilled", run.Row{Submit: at(0), Eligible: at(0), First: at(30), Start: at(30)}, 30, map[Part]int{Priority: 30}},
		{"a reservation in the way of a simulated job", run.Row{Submit: at(0), Eligible: at(0), First: at(10), Start: at(40), Reasons: []run.Span{
			reason(0, 15, ""), reason(15, 25, "ReqNodeNotAvail: May be reserved for other job"), reason(25, 40, "Resources")}}, 40,
			map[Part]int{Priority: 10, Resources: 20, Reservation: 10}},
		{"a simulated job that was in the queue before the window", run.Row{Submit: at(0), Eligible: at(0), First: at(30), Start: at(40), Reasons: []run.Span{
			reason(0, 20, run.BeforeWindow)}}, 40, map[Part]int{Unknown: 20, Priority: 10, Resources: 10}},
		{"a dependency that lasts into the window", run.Row{Submit: at(0), Eligible: at(25), Start: at(30), AskedDependency: true, Reasons: []run.Span{
			reason(0, 20, run.BeforeWindow)}}, 5, map[Part]int{Dependency: 25, Unknown: 5}},
		{"the first run of a simulated job that was lost", run.Row{Submit: at(0), Eligible: at(42), First: at(50), Start: at(60), Segments: []run.Segment{
			{Start: at(10), End: at(40), EndedBy: rm.Requeue, Eligible: at(3)}, {Start: at(60), End: at(90), EndedBy: rm.Ended}}}, 25,
			map[Part]int{Unknown: 10, Requeued: 20}},
		{"held", run.Row{Submit: at(0), Eligible: at(7), Start: at(8), AskedHold: true}, 1, map[Part]int{Held: 7, Unknown: 1}},
		{"not eligible, and nobody knows why", run.Row{Submit: at(0), Eligible: at(7), Start: at(8)}, 1, map[Part]int{Unknown: 8}},
		{"reasons of Slurm", run.Row{Submit: at(0), Eligible: at(0), Start: at(30), Reasons: []run.Span{
			reason(0, 2, ""), reason(2, 10, "Priority"), reason(10, 30, "Resources")}}, 30,
			map[Part]int{Unknown: 2, Priority: 8, Resources: 20}},
		{"a dependency ends when the job becomes eligible, not at the next question", run.Row{Submit: at(0), Eligible: at(11), Start: at(20), AskedDependency: true,
			Reasons: []run.Span{reason(0, 2, ""), reason(2, 13, "Dependency"), reason(13, 20, "Resources")}}, 9,
			map[Part]int{Dependency: 11, Unknown: 2, Resources: 7}},
		{"Slurm's eligible time of a job with a begin time and a dependency is the former", run.Row{Submit: at(0), Eligible: at(5), Start: at(20),
			AskedBegin: 5 * time.Minute, AskedDependency: true, Reasons: []run.Span{reason(0, 2, ""), reason(2, 20, "Dependency")}}, 15,
			map[Part]int{BeginTime: 2, Dependency: 18}},
		{"held again while it was eligible", run.Row{Submit: at(0), Eligible: at(0), Start: at(20), Reasons: []run.Span{
			reason(0, 5, "Resources"), reason(5, 20, "JobHeldUser")}}, 20, map[Part]int{Resources: 5, Held: 15}},
		{"a lost run is not waiting", run.Row{Submit: at(0), Eligible: at(42), Start: at(60), Reasons: []run.Span{
			reason(0, 10, "Resources"), reason(10, 40, "Resources"), reason(40, 60, "Priority")}, Segments: []run.Segment{
			{Start: at(10), End: at(40), EndedBy: rm.Requeue, Eligible: at(3)}, {Start: at(60), End: at(90), EndedBy: rm.Ended}}}, 25,
			map[Part]int{Resources: 10, Requeued: 20}},
		{"the last start is the row's", run.Row{Submit: at(0), Eligible: at(0), Start: at(59), Segments: []run.Segment{
			{Start: at(10), End: at(40), EndedBy: rm.Requeue, Eligible: at(0)}, {Start: at(60), End: at(90), EndedBy: rm.Ended}}}, 29,
			map[Part]int{Unknown: 10, Requeued: 19}},
		{"a suspension is not waiting", run.Row{Submit: at(0), Eligible: at(0), Start: at(10), Segments: []run.Segment{
			{Start: at(10), End: at(20), EndedBy: rm.Suspend}, {Start: at(50), End: at(60), EndedBy: rm.Ended}}}, 10, map[Part]int{Unknown: 10}},
	} {
		sums, ok := Sum(&test.row)
		if !ok {
			t.Errorf("%s: no wait", test.name)
			continue
		}
		total := time.Duration(0)
		for _, part := range Parts {
			if got := sums.Part(part); got != time.Duration(test.want[part])*time.Minute {
				t.Errorf("%s: %s %s, want %d min", test.name, part, got, test.want[part])
			}
			total += sums.Part(part)
		}
		if wait, _ := Wait(&test.row); total != sums.Wait || wait != sums.Wait {
			t.Errorf("%s: wait %s and %s, parts %s", test.name, wait, sums.Wait, total)
		}
		if test.since < 0 && sums.Eligible || test.since >= 0 && (!sums.Eligible || sums.SinceEligible != time.Duration(test.since)*time.Minute) {
			t.Errorf("%s: %s since eligible (known: %t), want %d min", test.name, sums.SinceEligible, sums.Eligible, test.since)
		}
	}
}

// TestRecordedArray checks the waits of an array's tasks in a recorded workload. While the number
// of running tasks was at the limit, the other tasks waited for the limit. All other times have no
// reason, before and after the tasks were eligible.
func TestRecordedArray(t *testing.T) {
	job := &hpc.Job{ID: "1", Submit: at(0), Request: hpc.Request{Array: "1-3%2"}, Behaviour: hpc.Behaviour{RunTime: time.Minute}, Recorded: &hpc.Recorded{
		TaskStarts: map[int]hpc.Time{1: at(10), 2: at(20), 3: at(50)}, TaskEnds: map[int]hpc.Time{1: at(40), 2: at(60), 3: at(70)},
		TaskEligible: map[int]hpc.Time{1: at(0), 2: at(0), 3: at(43)}, Start: at(10), End: at(70), State: hpc.Completed, Processors: 1}}
	rows := historiesOf(t, job)
	for i, want := range []map[Part]int{{Unknown: 10}, {Unknown: 20}, {Unknown: 30, OwnLimit: 20}} {
		sums, _ := Sum(&rows[i])
		for _, part := range Parts {
			if got := sums.Part(part); got != time.Duration(want[part])*time.Minute {
				t.Errorf("task %d: %s %s, want %d min", rows[i].Task, part, got, want[part])
			}
		}
		if rows[i].HasReasons() {
			t.Errorf("task %d: %v is a reason of slurmctld", rows[i].Task, rows[i].Reasons)
		}
	}
}

// TestDependencyMetAtOnce checks that an array that Slurm first looks at a second after its submission waits for no other
// job, unless the record says so.
func TestDependencyMetAtOnce(t *testing.T) {
	second := at(0).Add(time.Second)
	row := func(change func(*run.Row)) run.Row {
		r := run.Row{Submit: at(0), Eligible: second, Start: second, ArrayEligible: second, AskedDependency: true}
		change(&r)
		return r
	}
	for name, test := range map[string]struct {
		row  run.Row
		want Part
	}{
		"an array on Slurm": {row(func(*run.Row) {}), Unknown},
		"a later task": {row(func(r *run.Row) {
			r.Eligible, r.Start, r.Reasons = at(5), at(5), []run.Span{{From: second, To: at(5), Reason: "JobArrayTaskLimit"}}
		}),
			Unknown},
		"Slurm names the dependency": {row(func(r *run.Row) { r.Reasons = []run.Span{{From: at(0), To: second, Reason: "Dependency"}} }), Dependency},
		"two seconds": {row(func(r *run.Row) {
			r.ArrayEligible = second.Add(time.Second)
			r.Eligible, r.Start = r.ArrayEligible, r.ArrayEligible
		}), Dependency},
		"a policy of the simulator": {row(func(r *run.Row) { r.First = second }), Dependency},
	} {
		if got := Decompose(&test.row, at(9))[0]; got.Part != test.want {
			t.Errorf("%s: %+v, want the part %s", name, got, test.want)
		}
	}
}

// TestDependencyOfArray checks that the tasks of an array wait for its dependency until the first task is eligible
// (or starts, if the array has a begin time), unless each task depends on a task of another array.
func TestDependencyOfArray(t *testing.T) {
	for _, c := range []struct {
		dependency string
		begin      time.Duration
		want       map[Part]int // of the second task
	}{
		{"afterok:0", 0, map[Part]int{Dependency: 5, Unknown: 8, OwnLimit: 30}},
		{"afterok:0", 3 * time.Minute, map[Part]int{BeginTime: 3, Dependency: 7, Unknown: 3, OwnLimit: 30}},
		{"aftercorr:0", 0, map[Part]int{Dependency: 13, OwnLimit: 30}},
	} {
		job := &hpc.Job{ID: "1", Submit: at(0), Request: hpc.Request{Array: "1-2%1", Dependency: c.dependency, Begin: c.begin}, Recorded: &hpc.Recorded{
			TaskStarts: map[int]hpc.Time{1: at(10), 2: at(43)}, TaskEnds: map[int]hpc.Time{1: at(40), 2: at(60)},
			TaskEligible: map[int]hpc.Time{1: at(5), 2: at(43)}, Start: at(10), End: at(60), State: hpc.Completed, Processors: 1}}
		rows := historiesOf(t, job)
		sums, _ := Sum(&rows[1])
		for _, part := range Parts {
			if got := sums.Part(part); got != time.Duration(c.want[part])*time.Minute {
				t.Errorf("%s, begin %s: %s %s, want %d min", c.dependency, c.begin, part, got, c.want[part])
			}
		}
	}
}

// A job that never started has no wait in statistics, and its time in the queue has parts nevertheless.
func TestNeverStarted(t *testing.T) {
	row := run.Row{Submit: at(0), AskedHold: true, State: hpc.Pending, Reasons: []run.Span{reason(0, 2, ""), reason(2, 50, "JobHeldUser")}}
	if _, ok := Sum(&row); ok {
		t.Error("a pending job has a wait")
	}
	if sums := SumUntil(&row, at(50)); sums.Wait != 50*time.Minute || sums.Part(Held) != 50*time.Minute {
		t.Errorf("%+v", sums)
	}
	for name, row := range map[string]run.Row{
		"rejected": {Submit: at(0), Start: at(1), State: hpc.Rejected}, "backwards": {Submit: at(2), Start: at(1)}, "no submission": {Start: at(1)},
	} {
		if _, ok := Wait(&row); ok {
			t.Errorf("%s: a wait", name)
		}
	}
}

// TestNeverEligible checks the waits of jobs that were cancelled, and that have no eligible date: the job never became
// eligible, or the record does not have the date.
func TestNeverEligible(t *testing.T) {
	polled := []run.Span{reason(0, 2, ""), reason(2, 10, "Dependency")}
	for name, test := range map[string]struct {
		row  run.Row
		want map[Part]int
	}{
		"a dependency on Slurm":                    {run.Row{AskedDependency: true, Reasons: polled}, map[Part]int{Dependency: 10}},
		"a dependency that can never be met":       {run.Row{AskedDependency: true, Reason: "DependencyNeverSatisfied"}, map[Part]int{Dependency: 10}},
		"a dependency in the simulator":            {run.Row{AskedDependency: true, First: at(10)}, map[Part]int{Dependency: 10}},
		"a begin time, then a dependency":          {run.Row{AskedDependency: true, AskedBegin: 4 * time.Minute, First: at(10)}, map[Part]int{BeginTime: 4, Dependency: 6}},
		"a hold in the simulator":                  {run.Row{AskedHold: true, First: at(10)}, map[Part]int{Held: 10}},
		"a job of the simulator without a request": {run.Row{First: at(10)}, map[Part]int{Priority: 10}},
		"a begin time in a record":                 {run.Row{AskedBegin: 40 * time.Minute, First: at(10)}, map[Part]int{BeginTime: 10}},
		"a begin time that had passed":             {run.Row{AskedBegin: 4 * time.Minute, First: at(10)}, map[Part]int{BeginTime: 4, Unknown: 6}},
		"a task of a recorded array":               {run.Row{AskedDependency: true, ArrayEligible: at(4)}, map[Part]int{Dependency: 4, Unknown: 6}},
		"a begin time in a log without dates":      {run.Row{AskedBegin: 40 * time.Minute}, map[Part]int{Unknown: 10}},
		"a log without eligible dates":             {run.Row{AskedDependency: true}, map[Part]int{Unknown: 10}},
		"a reason for which the job was eligible":  {run.Row{AskedDependency: true, Reasons: []run.Span{reason(0, 2, ""), reason(2, 10, "Priority")}}, map[Part]int{Unknown: 2, Priority: 8}},
		"a task of an array whose dependency is met": {run.Row{AskedDependency: true, ArrayEligible: at(4), AskedArrayLimit: 2, Reasons: polled[:1], First: at(10)},
			map[Part]int{Dependency: 4, Priority: 6}},
	} {
		test.row.Submit, test.row.End, test.row.State = at(0), at(10), hpc.Cancelled
		sums := SumUntil(&test.row, at(99))
		for _, part := range Parts {
			if got := sums.Part(part); got != time.Duration(test.want[part])*time.Minute {
				t.Errorf("%s: %s %s, want %d min", name, part, got, test.want[part])
			}
		}
	}
}

// TestEligibleAt checks that a job is eligible from its eligible date on. Without a date, its reasons decide.
func TestEligibleAt(t *testing.T) {
	lost := []run.Segment{{Start: at(10), End: at(20), EndedBy: rm.Requeue}, {Start: at(60), EndedBy: rm.Ended}}
	still := lost[:1]
	for name, test := range map[string]struct {
		row  run.Row
		from int // the job is eligible from this minute on, until it starts in minute 60; -1: at no time
	}{
		"a date":                         {run.Row{Eligible: at(30), Start: at(60), Reasons: []run.Span{reason(5, 60, "Priority")}}, 30},
		"a date and a limit":             {run.Row{Eligible: at(3), Start: at(60), Reasons: []run.Span{reason(0, 60, "JobArrayTaskLimit")}}, 3},
		"no date":                        {run.Row{Start: at(60)}, 0},
		"a dependency":                   {run.Row{End: at(60), Reasons: []run.Span{reason(0, 33, "Dependency"), reason(33, 60, "Priority")}}, 33},
		"a limit of an array":            {run.Row{End: at(60), Reasons: []run.Span{reason(0, 60, "JobArrayTaskLimit")}}, -1},
		"a limit of a user":              {run.Row{End: at(60), Reasons: []run.Span{reason(0, 60, "QOSMaxJobsPerUserLimit")}}, 0},
		"never eligible":                 {run.Row{End: at(60), AskedDependency: true, First: at(60)}, -1},
		"eligible again":                 {run.Row{Eligible: at(40), Start: at(60), Segments: lost, Reasons: []run.Span{reason(20, 50, "BeginTime")}}, 40},
		"eligible again, without a date": {run.Row{Eligible: at(0), Segments: still, Reasons: []run.Span{reason(20, 45, "BeginTime")}}, 45},
	} {
		test.row.Submit = at(0)
		for minute := range 60 {
			if len(test.row.Segments) > 0 && minute < 20 {
				continue
			}
			if want := test.from >= 0 && minute >= test.from; EligibleAt(&test.row, at(minute), at(60)) != want {
				t.Errorf("%s: eligible in minute %d: %v, want %v", name, minute, !want, want)
			}
		}
	}
}

// After a lost run a job waits for its begin time until it is eligible again, not until slurmctld's
// reason is read again.
func TestReasonsAfterRequeue(t *testing.T) {
	row := run.Row{Submit: at(0), Eligible: at(42), Start: at(60), Segments: []run.Segment{
		{Start: at(10), End: at(40), EndedBy: rm.Requeue}, {Start: at(60), EndedBy: rm.Ended},
	}, Reasons: []run.Span{reason(0, 40, "Priority"), reason(40, 45, "BeginTime"), reason(45, 60, "Resources")}}
	var got []string
	for _, s := range Decompose(&row, at(60)) {
		got = append(got, fmt.Sprint(s.From.Sub(at(0)).Minutes(), s.To.Sub(at(0)).Minutes(), s.Part, s.Reason))
	}
	want := []string{
		fmt.Sprint(0., 10., Priority, "Priority"), fmt.Sprint(40., 42., Requeued, "BeginTime"),
		fmt.Sprint(42., 45., Requeued, ""), fmt.Sprint(45., 60., Requeued, "Resources"),
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// If nodes were in service that the reason calls unavailable, an earlier job in the queue names them.
func TestUnavailableInService(t *testing.T) {
	row := run.Row{Submit: at(0), Eligible: at(0), Start: at(60), Reasons: []run.Span{
		reason(0, 40, "ReqNodeNotAvail: UnavailableNodes:n1"), reason(40, 60, "ReqNodeNotAvail: UnavailableNodes:n1"),
	}}
	row.Reasons[0].InService = true
	sums := SumUntil(&row, at(60))
	if sums.Part(Priority) != 40*time.Minute || sums.Part(Outage) != 20*time.Minute {
		t.Errorf("%+v", sums)
	}
}

// Each reason of Slurm belongs to one part, and every part has a meaning.
func TestPartOf(t *testing.T) {
	for name, want := range map[string]Part{
		"": Unknown, "None": Unknown, "Priority": Priority, "Resources": Resources, "Dependency": Dependency, "DependencyNeverSatisfied": Dependency,
		"BeginTime": BeginTime, "JobHeldUser": Held, "JobHeldAdmin": Held, "JobArrayTaskLimit": OwnLimit, "QOSMaxCpuPerUserLimit": OwnLimit,
		"QOSGrpCpuLimit": Limit, "AssocGrpJobsLimit": Limit, "MaxJobsPerAccount": Limit, "Licenses": Limit, "PartitionTimeLimit": Limit,
		"ReqNodeNotAvail": Resources, "ReqNodeNotAvail: May be reserved for other job": Reservation, "ReqNodeNotAvail: UnavailableNodes:n1": Outage,
		"NodeDown": Outage, "Reservation": Reservation, "Cleaning": Unknown, "launch_failed_requeued_held": Held,
		"Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions": Outage,
	} {
		if got := PartOf(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if len(Parts) != len(Sums{}.Parts) {
		t.Errorf("%d parts, and Sums has %d", len(Parts), len(Sums{}.Parts))
	}
	for _, part := range Parts {
		if part.Meaning() == "" {
			t.Errorf("%s has no meaning", part)
		}
	}
}

// historiesOf returns the rows of a workload that has one recorded job.
func historiesOf(t *testing.T, job *hpc.Job) []run.Row {
	t.Helper()
	r, err := run.FromWorkload(&workload.Workload{Jobs: workload.JobsOf(job)})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := r.Histories()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}
