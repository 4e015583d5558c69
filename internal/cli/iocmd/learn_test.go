package iocmd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
)

// recordRun writes a run of two jobs that write, one with a class, and one that does not end.
func recordRun(t *testing.T, dir string) {
	t.Helper()
	start := hpc.Unix(1_700_000_000)
	w, err := run.Create(dir, run.Manifest{
		Engine: "sim", VirtualStart: start, Started: start.Std(), FileSystems: []run.FileSystem{{Name: "lustre", Bandwidth: 1 << 20}},
	}, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, comment := range []string{"jobtype=writer;", "", "jobtype=writer;"} {
		job := &hpc.Job{ID: fmt.Sprint(i + 1), Submit: start}
		job.Comment, job.RunTime, job.IO = comment, 100*time.Second, []hpc.Phase{{FileSystem: "lustre", Rate: 1000}}
		if err := w.Job(job); err != nil {
			t.Fatal(err)
		}
		running := &rm.Outcome{State: hpc.Running, Submit: start, Start: start, NodeCount: 1, Processors: 1}
		ended := &rm.Outcome{State: hpc.Completed, Submit: start, Start: start, End: start.Add(100 * time.Second), NodeCount: 1, Processors: 1}
		events := []rm.Event{{At: start, Kind: rm.Accepted}, {At: start, Kind: rm.Started, Outcome: running}, {At: ended.End, Kind: rm.Ended, Outcome: ended}}
		if i == 2 {
			events = events[:2]
		}
		for _, e := range events {
			e.Job, e.Task = job.ID, -1
			if err := w.Event(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Finish(run.StateComplete, func(m *run.Manifest) { m.VirtualEnd = start.Add(100 * time.Second) }); err != nil {
		t.Fatal(err)
	}
}

// The command learns from a run, or from several realizations. Jobs that are already known are not
// learned again.
func TestLearnFromRuns(t *testing.T) {
	dir := t.TempDir()
	set, state := filepath.Join(dir, "set"), filepath.Join(dir, "state")
	recordRun(t, filepath.Join(set, run.RealizationDir(1)))
	recordRun(t, filepath.Join(set, run.RealizationDir(2)))
	for _, c := range []struct{ source, want string }{
		{filepath.Join(set, run.RealizationDir(1)), `{"learned_jobs":1,"known_jobs":0,"jobs_without_class":1,"jobs_without_data":0,"jobs_not_ended":1,"classes":1}`},
		{set, `{"learned_jobs":1,"known_jobs":1,"jobs_without_class":2,"jobs_without_data":0,"jobs_not_ended":2,"classes":1}`},
	} {
		if got, messages, err := answer(t, "learn", c.source, "--state", state, "--json"); err != nil || got != c.want {
			t.Errorf("%v: %s%s, want %s", err, got, messages, c.want)
		}
	}
	broken := filepath.Join(dir, "broken")
	if err := os.MkdirAll(broken, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, "manifest.json"), []byte(`{"format":`), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{broken: "manifest.json", t.TempDir(): "no"} {
		var out bytes.Buffer
		if err := execute(t.Context(), &out, &out, "learn", path, "--state", state); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}
