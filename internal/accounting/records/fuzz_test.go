package records_test

import (
	"encoding/json"
	"strings"
	"testing"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/records"
	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
)

// FuzzDocument checks that the document of any record is JSON on one line, and that the document
// gives the same job again.
func FuzzDocument(f *testing.F) {
	f.Add(uint32(7), "7_3", "vale", "ann", "a \"b\"\n\xff", "COMPLETED", "cpu=4,mem=8G,gres/gpu=2", "n[1-2]", int64(1709251200), int64(60), int64(3600), 3, 9)
	f.Add(uint32(0), "x", "", "", "", "RUNNING", "mem=1e400", "(null)", int64(-1), int64(-5), int64(1)<<62, -1, 1<<40)
	f.Fuzz(func(t *testing.T, number uint32, id, cluster, user, name, state, tres, nodes string, submit, wait, ran int64, code, cpus int) {
		job := &finished.Job{
			Number: number, ID: id, Cluster: cluster, User: user, Name: name, State: hpc.State(state), AllocTRES: tres, NodeList: nodes,
			Submit: hpc.Unix(submit % 4e9), Start: hpc.Unix(submit%4e9 + wait%1e6), End: hpc.Unix(submit%4e9 + wait%1e6 + ran%1e9), Elapsed: -1, ExitCode: code, HasExit: true, AllocCPUs: cpus,
		}
		text, err := records.Document(job, "other", false)
		if err != nil {
			return
		}
		if !json.Valid(text) || strings.ContainsAny(string(text), "\n\r") {
			t.Fatalf("%q", text)
		}
		read := document.Parse(text, "other")
		if number > 0 && read.JobID != int64(number) || read.Marks&document.NotJSON != 0 {
			t.Errorf("%s: %+v", text, read)
		}
		records.Finished(text, "other")
	})
}
