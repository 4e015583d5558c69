package iocmd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/formats"
	"rmreplay/internal/hpc"
	"rmreplay/internal/ioservice"
	"rmreplay/internal/workload"
)

// The rates that sacct recorded for a class become the I/O of the workload's jobs of this class.
func TestAssign(t *testing.T) {
	dir := t.TempDir()
	in, out, state, records := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.jsonl"), filepath.Join(dir, "state"), filepath.Join(dir, "march.txt")
	var jobs []*hpc.Job
	own := []hpc.Phase{{FileSystem: "lustre", Rate: 5}}
	for i, c := range []struct {
		comment string
		io      []hpc.Phase
	}{{"jobtype=ior;", nil}, {"variety_id=" + ioservice.NamedClass("ior") + ";", nil}, {"jobtype=ior;", own}, {"", nil}, {"jobtype=other;", nil}, {"jobtype=calm;", nil}} {
		job := &hpc.Job{ID: fmt.Sprint(i + 1), Submit: hpc.Unix(1_700_000_000)}
		job.Comment, job.IO, job.RunTime, job.TimeLimit, job.Tasks = c.comment, c.io, time.Minute, time.Hour, 1
		jobs = append(jobs, job)
	}
	w := &workload.Workload{Epoch: hpc.Unix(1_700_000_000), MachineProcessors: 8, FileSystems: []hpc.FileSystem{{Name: "lustre", Bandwidth: 7}}}
	for _, job := range jobs {
		w.Jobs.Append(job)
	}
	if err := formats.Save(in, w); err != nil {
		t.Fatal(err)
	}
	text := "JobID|Start|End|Comment|TRESUsageInTot|TRESUsageOutTot\n" +
		"7|2024-03-05T12:00:00|2024-03-05T12:01:40|jobtype=ior;||\n7.0|||||fs/disk=50000\n" +
		"8|2024-03-05T12:00:00|2024-03-05T12:01:40|jobtype=calm;||\n8.0|||||fs/disk=0\n"
	if err := os.WriteFile(records, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(want string, args ...string) {
		t.Helper()
		got, _, err := answer(t, args...)
		if err != nil && !strings.Contains(err.Error(), want) || err == nil && got != want {
			t.Errorf("%q: %v: %s, want %s", args, err, got, want)
		}
	}
	run("the state has no class of jobs yet", "assign", in, "--state", filepath.Join(dir, "empty"), "--filesystem", "lustre=1MB/s", "-o", out)
	run(`{"learned_jobs":2,"known_jobs":0,"jobs_without_class":0,"jobs_without_data":0,"jobs_not_ended":0,"classes":2}`, "learn", records, "--state", state, "--json")
	run(`{"jobs_with_assigned_io":2,"jobs_of_idle_classes":1,"jobs_that_had_io":1,"jobs_without_class":1,"jobs_of_unknown_classes":1}`,
		"assign", in, "--state", state, "--filesystem", "lustre=1MB/s,limit=500kB/s", "-o", out, "--json")
	got, err := formats.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got.FileSystems) != "[{lustre 1000000 500000 0}]" {
		t.Errorf("file systems %v", got.FileSystems)
	}
	for i, want := range []int64{500, 500, 5, 0, 0, 0} {
		rate := int64(0)
		if job := got.Jobs.List()[i]; len(job.IO) > 0 {
			rate = job.IO[0].Rate
		}
		if rate != want {
			t.Errorf("job %d: %d bytes/s, want %d", i+1, rate, want)
		}
	}
	run("want the one whose I/O the service of --state learned", "assign", in, "--state", state, "--filesystem", "a=1MB/s", "--filesystem", "b=1MB/s", "-o", out)
	run("no such file", "assign", filepath.Join(dir, "none"), "--state", state, "--filesystem", "a=1MB/s", "-o", out)
	notes := filepath.Join(dir, "notes")
	if err := os.WriteFile(notes, []byte("no workload\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run("notes", "assign", in, "--state", state, "--filesystem", "a=1MB/s", "-o", notes)
}
