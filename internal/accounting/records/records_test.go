package records_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/records"
	"rmreplay/internal/finished"
	"rmreplay/internal/formats/sacct"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
	"rmreplay/internal/workload"
)

// at returns an instant, given in minutes.
func at(minute int64) hpc.Time { return hpc.Unix(1709251200 + 60*minute) }

// TestBack checks that finished jobs become documents without a mark, and that the documents give
// the same jobs again.
func TestBack(t *testing.T) {
	priority := uint32(77)
	jobs := []finished.Job{{
		ID: "16_3", Cluster: "vale", Number: 17, ArrayJob: 16, ArrayTask: 3, Elapsed: 6 * time.Minute, Name: "Mü\tller \"x\"", User: "ann", Group: "staff",
		Account: "physics", Partition: "batch", QOS: "normal", WCKey: "w", Reservation: "r", UID: 1000, GID: 100, HasUID: true, Constraint: "fast", Comment: "c",
		Submit: at(0), Eligible: at(1), Start: at(2), End: at(9), TimeLimit: 30 * time.Minute, State: hpc.Failed, ExitCode: 3, Signal: 9, HasExit: true, Priority: &priority,
		ReqCPUs: 4, ReqNodes: 1, AllocCPUs: 8, AllocNodes: 2, ReqTRES: "cpu=4,mem=8G,node=1", AllocTRES: "cpu=8,mem=16G,node=2", NodeList: "n[1-2]",
		Memory: 8192, Licenses: "matlab:1", Suspended: time.Minute, Restarts: 2, Held: true, Flags: "SchedBackfill", UsedMemory: 1 << 40, MovedBytes: 1 << 50,
		Dependency: "afterok:3", SubmitLine: "sbatch -n 4 x", Script: "#!/bin/sh\nexit 3\n", WorkDir: "/home/ann", WholeLine: true,
	}, {
		ID: "16_[1,4-9%2]", Number: 16, ArrayJob: 16, ArrayTask: -1, ArrayRest: "1,4-9%2", Elapsed: -1, Cluster: "vale", Submit: at(0), End: at(5), State: hpc.Cancelled,
		TimeLimit: hpc.Unlimited, ReqCPUs: 4, ReqNodes: 2, MemPerCPU: 2800, GPUs: "a100:2,h100:1",
	}, {
		ID: "30+1", Number: 31, HetJob: 30, HetOffset: 1, ArrayTask: -1, Cluster: "vale", Submit: at(0), Start: at(1), State: hpc.Running, AllocCPUs: 4, AllocNodes: 1,
		NodeList: "n1", ReqCPUs: 1, MemPerNode: hpc.AllMemory, GRES: "gpu:2,shard:1", TasksPerNode: 2,
	}}
	said := map[string]bool{}
	for i := range jobs {
		job := &jobs[i]
		text, err := records.Document(job, "other", false)
		if err != nil {
			t.Fatal(err)
		}
		back, marks := records.Finished(text, "")
		if marks&^document.StartEvent != 0 || marks != 0 && job.State.Ended() {
			t.Errorf("%s: %q", text, marks.Names())
		}
		if diff := cmp.Diff(job, back); diff != "" {
			t.Errorf("%s: -before +after\n%s", job.ID, diff)
		}
		for field, v := range reflect.ValueOf(job).Elem().Fields() {
			said[field.Name] = said[field.Name] || !v.IsZero()
		}
	}
	for name, is := range said {
		if !is && name != "Interruptions" && name != "Ran" { // from the documents of several runs, and of jobs on unknown nodes
			t.Errorf("no job of this test has %s", name)
		}
	}
	cancelled := finished.Job{ID: "18", Number: 18, ArrayTask: -1, Elapsed: -1, Submit: at(0), End: at(5), State: hpc.Cancelled, TimeLimit: hpc.Unlimited}
	text, err := records.Document(&cancelled, "vale", false)
	if err != nil {
		t.Fatal(err)
	}
	unknown := finished.Job{ID: "19", Number: 19, ArrayTask: -1, Submit: at(0), Start: at(1), End: at(5), State: hpc.Completed, AllocCPUs: 64}
	ran, err := records.Document(&unknown, "vale", false)
	if err != nil {
		t.Fatal(err)
	}
	if j := document.Parse(ran, ""); j.Nodes.Known || j.CPUs != document.KnownInt(64) || !j.Ran() {
		t.Errorf("a job whose number of nodes nobody knows: %s: %+v", ran, j)
	}
	if j := document.Parse(text, ""); j.Run != -at(0).UnixSeconds() || j.Cluster != "vale" || j.Limit.Known || j.Wait.Known || j.Marks != 0 {
		t.Errorf("%s: %+v", text, j)
	}
}

// documentOf returns the document of a job without lost runs.
func documentOf(row *run.Row, m *run.Manifest, cluster string) ([]byte, error) {
	list, err := records.RunDocuments(row, m, cluster, records.Numbers([]run.Row{*row}, m)[row.Job])
	if err != nil || len(list) != 1 {
		return nil, fmt.Errorf("%d documents: %w", len(list), err)
	}
	return list[0], nil
}

// TestLostRuns checks the documents of a job that was preempted, lost its node, and was cancelled
// while it waited, and of a job that ran again.
func TestLostRuns(t *testing.T) {
	lost := []run.Segment{
		{Start: at(10), End: at(40), EndedBy: rm.Requeue, Eligible: at(3), Nodes: "n1", NodeCount: 1, Processors: 4, PreemptedBy: "high_3"},
		{Start: at(50), End: at(55), EndedBy: rm.Requeue, Nodes: "n2", NodeCount: 1, Processors: 4},
	}
	for _, row := range []run.Row{
		{Job: "a", Task: -1, RMJob: 5, Submit: at(0), Resubmit: at(55), Eligible: at(57), End: at(70), State: hpc.Cancelled, Segments: lost},
		{Job: "a", Task: -1, RMJob: 5, Submit: at(0), Resubmit: at(55), Eligible: at(57), Start: at(60), End: at(70), State: hpc.Failed, ExitCode: 1, Nodes: "n3", NodeCount: 1, Processors: 4,
			Segments: append(lost[:2:2], run.Segment{Start: at(60), End: at(70), EndedBy: rm.Ended, NodeCount: 1, Processors: 4})},
	} {
		list, err := records.RunDocuments(&row, &run.Manifest{}, "vale", 0)
		if err != nil || len(list) != 3 {
			t.Fatalf("%d documents, %v", len(list), err)
		}
		seen := map[int64]bool{}
		for i, text := range list {
			j := document.Parse(text, "")
			seen[j.Run] = true
			if j.JobID != 5 || j.Marks != 0 || j.Submit.Unix() != at(0).UnixSeconds() || j.Eligible.Unix() != at(3).UnixSeconds() || j.Lost != (i < 2) {
				t.Errorf("%s: %+v", text, j)
			}
			if i == 2 {
				continue
			}
			want := map[bool]string{true: "PREEMPTED", false: "REQUEUED"}[i == 0]
			if j.State != want || j.Start.Unix() != lost[i].Start.UnixSeconds() || j.End.Unix() != lost[i].End.UnixSeconds() || j.NodeList != lost[i].Nodes ||
				j.Wait.Known || j.ExitCode.Known || j.CPUHours.Value != 4*lost[i].End.Sub(lost[i].Start).Hours() {
				t.Errorf("%s: %+v", text, j)
			}
		}
		if len(seen) != 3 {
			t.Errorf("three runs have the numbers %v", seen)
		}
		last := document.Parse(list[2], "")
		if sums, ok := waits.Sum(&row); last.Wait != (document.Int{Value: int64(sums.Wait.Seconds()), Known: ok}) || ok && sums.Wait != 25*time.Minute {
			t.Errorf("%s: wait %+v, want %v", list[2], last.Wait, sums.Wait)
		}
	}
}

// A job of a log that ran for 0 seconds on unknown nodes has run, whatever its state. It requested
// as many processors as the log says.
func TestRecordedForZeroSeconds(t *testing.T) {
	for _, state := range []hpc.State{hpc.Completed, hpc.Failed} {
		row := run.Row{Job: "7", Task: -1, RMJob: 7, Submit: at(0), Start: at(60), End: at(60), State: state, Processors: 8, AskedTasks: 3, AskedCPUsPerTask: 2}
		text, err := documentOf(&row, &run.Manifest{Engine: run.EngineRecorded}, "kth")
		if err != nil {
			t.Fatal(err)
		}
		job, marks := records.Finished(text, "")
		if !job.Ran || job.ReqCPUs != 6 || job.AllocCPUs != 8 || marks != 0 {
			t.Errorf("%s: %+v, marks %v", text, job, marks)
		}
		b := finished.NewBuilder("test", workload.ReadOptions{})
		if err := b.Add(job, string(text)); err != nil {
			t.Fatal(err)
		}
		w, err := b.Finish()
		if err != nil || w.Jobs.Len() != 1 {
			t.Fatalf("%v, rules %v", err, w)
		}
		for _, j := range w.Jobs.All() {
			if j.RunTime != 0 || j.Recorded.Start != at(60) || j.Recorded.State != state {
				t.Errorf("%s: %+v", state, j)
			}
		}
	}
}

// On Slurm, tasks of an array that never started have the array's number. In a run's documents
// they are separate jobs. The waits of a job that started equal the waits of package metrics.
func TestRunDocument(t *testing.T) {
	seen := map[string]bool{}
	for task := range 3 {
		row := run.Row{Job: "d0031", Task: task, RMJob: 77, Submit: at(0), End: at(500), State: hpc.Cancelled}
		text, err := documentOf(&row, &run.Manifest{}, "vale")
		if err != nil {
			t.Fatal(err)
		}
		j := document.Parse(text, "")
		if j.JobID != 77 || j.Marks != 0 {
			t.Errorf("task %d: %+v", task, j)
		}
		seen[fmt.Sprint(j.Cluster, j.JobID, j.Run)] = true
	}
	if len(seen) != 3 {
		t.Errorf("three tasks are %d jobs", len(seen))
	}
	row := run.Row{Job: "a", Task: -1, RMJob: 5, Submit: at(0), Eligible: at(60), Start: at(100), End: at(200), State: hpc.Completed, Nodes: "n1"}
	text, err := documentOf(&row, &run.Manifest{}, "vale")
	if err != nil {
		t.Fatal(err)
	}
	sums, _ := waits.Sum(&row)
	if j := document.Parse(text, ""); j.Wait != document.KnownInt(6000) || j.SinceEligible != document.KnownInt(int64(sums.SinceEligible.Seconds())) {
		t.Errorf("%s: wait %+v, %+v since eligible; metrics have %+v", text, j.Wait, j.SinceEligible, sums)
	}
	if text, err = documentOf(&row, &run.Manifest{WindowStart: at(101)}, "vale"); err != nil {
		t.Fatal(err)
	}
	if j := document.Parse(text, ""); j.Wait.Known || j.SinceEligible.Known || j.WaitParts[10].Known || j.Marks != 0 {
		t.Errorf("%s: a preset job has the wait %+v", text, j.Wait)
	}
}

// A run's tasks stay tasks of their array, even if the workload's ID is not a number. A job that
// never started keeps the size of its request.
func TestRunArrays(t *testing.T) {
	task := func(job string, n int, number uint32, start hpc.Time) run.Row {
		row := run.Row{Job: job, Task: n, RMJob: number, Submit: at(0), Start: start, End: at(500), State: hpc.Completed,
			AskedTasks: 6, AskedMinNodes: 2, AskedCPUsPerTask: 4}
		if start != 0 {
			row.Nodes, row.NodeCount, row.Processors = "n1", 1, 8
		}
		return row
	}
	rows := []run.Row{task("d0031", 1, 15, at(10)), task("d0031", 2, 14, at(20)), task("30", 1, 9, at(10)),
		task("30", 2, 31, 0), task("40_[1-2]", 1, 0, at(10)), task("alone", -1, 50, 0),
		task("first", -1, 0, at(10)), task("many", 1, 0, at(10)), task("many", 2, 0, at(20))} // without numbers
	for engine, want := range map[string][]string{
		"slurm":            {"14_1", "14_2", "9_1", "9_2", "40_1", "50", "1", "2_1", "2_2"},
		run.EngineRecorded: {"14_1", "14_2", "30_1", "30_2", "40_1", "50", "1", "2_1", "2_2"},
	} {
		m := &run.Manifest{Engine: engine}
		numbers := records.Numbers(rows, m)
		for i := range rows {
			list, err := records.RunDocuments(&rows[i], m, "vale", numbers[rows[i].Job])
			if err != nil || len(list) != 1 {
				t.Fatalf("%d documents, %v", len(list), err)
			}
			job, marks := records.Finished(list[0], "")
			if job.ID != want[i] || marks != 0 {
				t.Errorf("%s: %s is job %s, want %s, marks %v", engine, list[0], job.ID, want[i], marks)
			}
			if rows[i].Start == 0 && (job.ReqCPUs != 24 || engine == "slurm" && job.ReqNodes != 2) {
				t.Errorf("%s: %s asks for %d processors of %d nodes", engine, list[0], job.ReqCPUs, job.ReqNodes)
			}
		}
	}
}

// TestUnknownExit checks that the exit code stays unknown for a record without an exit code, and
// for a workload that is imported as a run.
func TestUnknownExit(t *testing.T) {
	for engine, known := range map[string]bool{"sim": true, "slurm": true, run.EngineRecorded: false} {
		row := run.Row{Job: "7", Task: -1, Submit: at(0), Start: at(100), End: at(200), State: hpc.Failed, ExitCode: 3, Processors: 1}
		ofRun, err := documentOf(&row, &run.Manifest{Engine: engine}, "vale")
		if err != nil {
			t.Fatal(err)
		}
		record := finished.Job{ID: "7", ArrayTask: -1, Submit: at(0), Start: at(100), End: at(200), State: hpc.Failed, ExitCode: 3, HasExit: known, AllocCPUs: 1}
		ofRecord, err := records.Document(&record, "vale", false)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range [][]byte{ofRun, ofRecord} {
			back, _ := records.Finished(text, "")
			if j := document.Parse(text, ""); j.ExitCode.Known != known || back.HasExit != known || known && back.ExitCode != 3 {
				t.Errorf("%s: %s: exit code %+v, read back %v", engine, text, j.ExitCode, back.HasExit)
			}
		}
	}
}

// TestAsked checks the waits of accounting records: what the command line asks for, and the lost runs of a job.
func TestAsked(t *testing.T) {
	lost := []finished.Job{{Submit: at(0), Eligible: at(2), Start: at(5), End: at(15), State: hpc.Requeued}}
	for _, c := range []struct {
		line    string
		earlier []finished.Job
		want    map[waits.Part]int64 // minutes
	}{
		{"sbatch job.sh", nil, map[waits.Part]int64{waits.Unknown: 20}},
		{"sbatch --dependency=afterok:3 job.sh", nil, map[waits.Part]int64{waits.Dependency: 17, waits.Unknown: 3}},
		{"sbatch --dependency=afterok:3 --begin=now+4minutes job.sh", nil, map[waits.Part]int64{waits.BeginTime: 4, waits.Dependency: 13, waits.Unknown: 3}},
		{"sbatch --dependency=afterok:3 --array=1-9%2 job.sh", nil, map[waits.Part]int64{waits.Unknown: 20}},
		{"sbatch --dependency=afterok:3 job.sh", lost, map[waits.Part]int64{waits.Dependency: 2, waits.Unknown: 3, waits.Requeued: 25}},
	} {
		job := finished.Job{ID: "7", Number: 7, ArrayTask: -1, Submit: at(20), Eligible: at(37), Start: at(40), End: at(50), State: hpc.Completed,
			AllocCPUs: 1, Elapsed: -1, SubmitLine: c.line}
		text, err := records.Document(&job, "vale", false, c.earlier...)
		if err != nil {
			t.Fatal(err)
		}
		j := document.Parse(text, "")
		for i, part := range waits.Parts {
			if got := j.WaitParts[i].Value; got != 60*c.want[part] {
				t.Errorf("%s after %d lost runs: %s %d s, want %d min", c.line, len(c.earlier), part, got, c.want[part])
			}
		}
		if want := map[bool]string{true: "afterok:3"}[strings.Contains(c.line, "afterok")]; j.Dependency != want || j.Marks != 0 {
			t.Errorf("%s: dependency %q, marks %q", c.line, j.Dependency, j.Marks.Names())
		}
	}
	text, err := records.Document(&lost[0], "vale", true)
	if err != nil {
		t.Fatal(err)
	}
	if j := document.Parse(text, ""); j.Wait.Known || !j.Lost {
		t.Errorf("a lost run waits %+v; it is lost: %t", j.Wait, j.Lost)
	}
}

// Jobs whose records call them tasks of an array only by name (ARRAY_TASK) are separate jobs,
// although they start at the same time.
func TestTasksByName(t *testing.T) {
	seen := map[string]bool{}
	for task := range 3 {
		name := fmt.Sprintf("5313029_%d", task)
		row := run.Row{Job: name, Task: -1, Submit: at(0), Start: at(100), End: at(500), State: hpc.Completed, Processors: 1}
		ofRun, err := documentOf(&row, &run.Manifest{}, "vale")
		if err != nil {
			t.Fatal(err)
		}
		ofRecord, err := records.Document(&finished.Job{ID: name, ArrayTask: -1, Submit: at(0), Start: at(100), End: at(500), State: hpc.Completed, AllocCPUs: 1, Elapsed: -1}, "dale", false)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range [][]byte{ofRun, ofRecord} {
			j := document.Parse(text, "")
			if j.JobID != 5313029 || j.ArrayTaskID != document.KnownInt(int64(task)) || j.Marks != 0 {
				t.Errorf("%s: %+v", text, j)
			}
			seen[fmt.Sprint(j.Cluster, j.JobID, j.Run)] = true
		}
	}
	if len(seen) != 6 {
		t.Errorf("three tasks of two records are %d jobs", len(seen))
	}
}

// TestLostStart: the run time of a job that ran is unknown if its start is, and an import counts the job. A job that
// left the queue has no run time.
func TestLostStart(t *testing.T) {
	const text = "JobID|Submit|Start|End|Elapsed|State|AllocCPUS|NodeList\n" +
		"1|2024-01-01T00:00:00|Unknown|2024-01-01T01:10:00|01:00:00|COMPLETED|12|n1\n" +
		"2|2024-01-01T00:00:00|Unknown|2024-01-01T01:10:00|00:00:00|COMPLETED|12|\n" +
		"3|2024-01-01T00:00:00|Unknown|2024-01-01T01:10:00|01:00:00|FAILED|12|\n" +
		"4|2024-01-01T00:00:00|Unknown|2024-01-01T01:10:00|00:00:00|CANCELLED by 7|12|None assigned\n"
	w, _, err := sacct.Accounting(strings.NewReader(text), "sacct", workload.ReadOptions{Record: func(record any) error {
		r := record.(*finished.Job)
		doc, err := records.Document(r, "vale", false)
		if err != nil {
			return err
		}
		j := document.Parse(doc, "")
		if ran := r.ID != "4"; j.Elapsed.Known == ran || j.CPUHours.Known == ran || j.NodeHours.Known == ran {
			t.Errorf("job %s: run time %v, CPU hours %v, node hours %v", r.ID, j.Elapsed, j.CPUHours, j.NodeHours)
		}
		return nil
	}})
	if err != nil || w.Rules[finished.RuleNoStartAtAll] != 3 || w.Rows.Jobs != 4 || w.Rows.Dropped != 0 {
		t.Errorf("%v: rules %v, rows %+v", err, w.Rules, w.Rows)
	}
}

// TestRequestedMemory: the requested memory of a job follows from that of each node or processor.
func TestRequestedMemory(t *testing.T) {
	for columns, want := range map[string]document.Int{
		"ReqMem|NNodes|AllocCPUS\n%s2000Mn|2|8":             document.KnownInt(4000),
		"ReqMem|NNodes|AllocCPUS\n%s2000Mc|2|8":             document.KnownInt(16000),
		"ReqMem|ReqCPUS|AllocCPUS\n%s2000Mc|4|8":            document.KnownInt(8000),
		"ReqMem|ReqNodes|NNodes|AllocCPUS\n%s1Gn|3|4|8":     document.KnownInt(3072),
		"ReqMem|NNodes|AllocCPUS\n%s2000M|2|8":              document.KnownInt(2000),
		"ReqMem|ReqTRES|NNodes|AllocCPUS\n%s1Gn|mem=7M|2|8": document.KnownInt(7),
		"ReqMem|NNodes|AllocCPUS\n%s0n|2|8":                 {},
		"ReqMem|NNodes|AllocCPUS\n%s9000000000Gn|2000000|8": {},
	} {
		text := "JobID|Submit|Start|End|State|" + strings.Replace(columns, "%s",
			"1|2024-01-01T00:00:00|2024-01-01T00:10:00|2024-01-01T01:10:00|COMPLETED|", 1) + "\n"
		_, _, err := sacct.Accounting(strings.NewReader(text), "sacct", workload.ReadOptions{Record: func(record any) error {
			doc, err := records.Document(record.(*finished.Job), "vale", false)
			if j := document.Parse(doc, ""); j.ReqMemMiB != want || j.Marks != 0 {
				t.Errorf("%s: %v MiB, marks %v, want %v", columns, j.ReqMemMiB, j.Marks.Names(), want)
			}
			return err
		}})
		if err != nil {
			t.Error(err)
		}
	}
}
