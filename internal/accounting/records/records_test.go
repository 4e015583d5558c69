package records_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/records"
	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

// at is an instant in minutes.
func at(minute int64) hpc.Time { return hpc.Unix(1709251200 + 60*minute) }

// TestBack checks that a finished job becomes a document without a mark and the same job again.
func TestBack(t *testing.T) {
	priority := uint32(77)
	job := finished.Job{
		ID: "16_3", Cluster: "vale", Number: 17, ArrayJob: 16, ArrayTask: 3, Elapsed: -1, Name: "Mü\tller \"x\"", User: "ann", Group: "staff",
		Account: "physics", Partition: "batch", QOS: "normal", WCKey: "w", Reservation: "r", UID: 1000, GID: 100, HasUID: true, Constraint: "fast", Comment: "c",
		Submit: at(0), Eligible: at(1), Start: at(2), End: at(9), TimeLimit: 30 * time.Minute, State: hpc.Failed, ExitCode: 3, Priority: &priority,
		ReqCPUs: 4, ReqNodes: 1, AllocCPUs: 8, AllocNodes: 2, ReqTRES: "cpu=4,mem=8G,node=1", AllocTRES: "cpu=8,mem=16G,node=2", NodeList: "n[1-2]",
		Dependency: "afterok:3", SubmitLine: "sbatch -n 4 x", Script: "#!/bin/sh\nexit 3\n", WorkDir: "/home/ann",
	}
	text, err := records.Document(&job, "other")
	if err != nil {
		t.Fatal(err)
	}
	back, marks := records.Finished(text, "")
	if marks != 0 {
		t.Errorf("%s: %q", text, marks.Names())
	}
	if diff := cmp.Diff(&job, back); diff != "" {
		t.Errorf("-before +after\n%s", diff)
	}
	cancelled := finished.Job{ID: "18", Number: 18, ArrayTask: -1, Elapsed: -1, Submit: at(0), End: at(5), State: hpc.Cancelled, TimeLimit: hpc.Unlimited}
	if text, err = records.Document(&cancelled, "vale"); err != nil {
		t.Fatal(err)
	}
	unknown := finished.Job{ID: "19", Number: 19, ArrayTask: -1, Submit: at(0), Start: at(1), End: at(5), State: hpc.Completed, AllocCPUs: 64}
	ran, err := records.Document(&unknown, "vale")
	if err != nil {
		t.Fatal(err)
	}
	if j := document.Parse(ran, ""); j.Nodes.Known || j.CPUs != document.Known(64) || !j.Ran() {
		t.Errorf("a job whose number of nodes nobody knows: %s: %+v", ran, j)
	}
	if j := document.Parse(text, ""); j.Run != -at(0).UnixSeconds() || j.Cluster != "vale" || j.Limit.Known || j.Wait.Known || j.Marks != 0 {
		t.Errorf("%s: %+v", text, j)
	}
}

// Tasks of an array that never started have the array's number on Slurm, and stay jobs of their own. The
// wait of a job that started is that since it was eligible, as metrics have it.
func TestRunDocument(t *testing.T) {
	seen := map[string]bool{}
	for task := range 3 {
		row := run.Row{Job: "d0031", Task: task, RMJob: 77, Submit: at(0), End: at(500), State: hpc.Cancelled}
		text, err := records.RunDocument(&row, "vale")
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
	text, err := records.RunDocument(&row, "vale")
	if err != nil {
		t.Fatal(err)
	}
	if sums, _ := waits.Sum(&row); document.Parse(text, "").Wait != document.Known(int64(sums.SinceEligible.Seconds())) {
		t.Errorf("wait %+v, metrics have %s since eligible", document.Parse(text, "").Wait, sums.SinceEligible)
	}
}
