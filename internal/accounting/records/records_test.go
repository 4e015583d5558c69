package records_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/records"
	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
)

// TestBack checks that a finished job becomes a document without a mark and the same job again.
func TestBack(t *testing.T) {
	priority := uint32(77)
	at := func(minute int64) hpc.Time { return hpc.Unix(1709251200 + 60*minute) }
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
