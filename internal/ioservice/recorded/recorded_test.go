package recorded

import (
	"math"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/run"
)

// row returns the row of a job that writes 100 bytes/s to lustre. The parameter alone is the run
// time that the job would need if it had the file system to itself. took is its real run time.
func row(id string, start int64, alone, took time.Duration, comment string) run.Row {
	job := &hpc.Job{ID: id}
	job.Comment, job.RunTime, job.IO = comment, alone, []hpc.Phase{{FileSystem: "lustre", Rate: 100}}
	at := hpc.Unix(start)
	return run.Row{
		Job: id, Task: -1, State: hpc.Completed, Submit: at, Start: at, End: at.Add(took),
		AskedRunTime: alone, Processors: 1, NodeCount: 1, Request: string(run.EncodeJob(job)),
	}
}

// Two jobs share a bandwidth of 100 bytes/s for 10 s. The limit of the second job then ends it
// after half of its bytes. The first job continues alone, and writes all of its bytes.
func TestJobs(t *testing.T) {
	first, second := row("a", 1000, 10*time.Second, 15*time.Second, "jobtype=w;"), row("b", 1000, 10*time.Second, 10*time.Second, "")
	second.State = hpc.TimedOut
	open := row("c", 1005, time.Second, time.Second, "")
	open.End, open.State, open.Request = 0, hpc.Running, ""
	rejected := run.Row{Job: "d", Task: -1, State: hpc.Rejected}
	imported := row("e", 1001, time.Second, time.Second, "")
	imported.Request = "" // a job that was imported has no request
	rows := []run.Row{first, second, open, rejected, imported}
	m := &run.Manifest{FileSystems: []run.FileSystem{{Name: "lustre", Bandwidth: 100}}}
	jobs, running, err := Jobs(rows, m)
	if err != nil || len(jobs) != 3 || running != 1 {
		t.Fatalf("%+v, %d run, %v", jobs, running, err)
	}
	for i, want := range []struct {
		id      string
		bytes   float64
		comment string
		counted bool
	}{{"e", 0, "", false}, {"b", 500, "", true}, {"a", 1000, "jobtype=w;", true}} {
		if j := jobs[i]; j.Job != want.id || math.Abs(j.Bytes-want.bytes) > 1e-6 || j.Comment != want.comment || j.Counted != want.counted {
			t.Errorf("%d: %+v, want %+v", i, j, want)
		}
	}
	// In a simulation without file systems, no bytes were counted.
	jobs, _, err = Jobs(rows, &run.Manifest{})
	if err != nil || len(jobs) != 3 || jobs[2].Counted {
		t.Errorf("%+v, %v", jobs, err)
	}
	rows[0].Request = `{"request":[]}`
	if _, _, err := Jobs(rows, &run.Manifest{}); err == nil {
		t.Error("a broken request: no error")
	}
}

// The tasks of an array share the request in the first task's row, and have numbers of their own.
func TestTasks(t *testing.T) {
	job := &hpc.Job{ID: "7"}
	job.Array, job.RunTime, job.IO = "0-1", 10*time.Second, []hpc.Phase{{FileSystem: "lustre", Bytes: 1000}}
	var rows []run.Row
	for task := range 2 {
		at := hpc.Unix(1000)
		rows = append(rows, run.Row{Job: "7", Task: task, State: hpc.Completed, Submit: at, Start: at, End: at.Add(10 * time.Second), AskedRunTime: 10 * time.Second, NodeCount: 1})
	}
	rows[0].Request = string(run.EncodeJob(job))
	jobs, _, err := Jobs(rows, &run.Manifest{FileSystems: []run.FileSystem{{Name: "lustre", Bandwidth: 1e6}}})
	if err != nil || len(jobs) != 2 {
		t.Fatal(jobs, err)
	}
	for i, want := range []string{"7_0", "7_1"} {
		if j := jobs[i]; j.Job != want || math.Abs(j.Bytes-1000) > 1e-6 || !j.Counted {
			t.Errorf("%+v, want %s with 1000 bytes", j, want)
		}
	}
}
