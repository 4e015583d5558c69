package run

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sync/errgroup"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sampleManifest returns a manifest with all fields set.
func sampleManifest() Manifest {
	return Manifest{
		Engine: "slurm", Seed: 42,
		Command:  []string{"rmreplay", "replay", "w.events"},
		Versions: Versions{RMReplay: "0.1", Slurm: "22.05.8", MariaDB: "10.11.6", Go: "go1.26", Kernel: "6.1"},
		Clock:    Clock{Model: "measured", Factor: 1.5, Steps: 12345},
		Workload: Source{Path: "w.events", Format: "events", SHA256: "ab12", Jobs: 4, Rules: map[string]int{"kept": 4}},
		Cluster: Cluster{
			Name: "micro", Dir: "cluster", Nodes: 10, Processors: 120,
			Partitions: []Partition{{Name: "p", Nodes: 10, Processors: 120}},
			Changes: []Change{
				{File: "slurm.conf", Key: "SlurmctldPort", From: "6817", To: "7001", Reason: "several replays at once"},
				{File: "slurmdbd.conf", Key: "StoragePass", From: "hunter2", To: "", Reason: "private database"},
			},
		},
		Started:      time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC),
		VirtualStart: at(0),
		Warnings:     []Warning{{Code: "early", Text: "before the start", Count: 2}},
		DaemonCPU:    map[string]float64{"slurmctld": 1.25},
		PeakMemory:   map[string]float64{"slurmctld": 40.5, "rmreplay": 31},
		ExitStatuses: map[string]string{"slurmctld": "exit 0"},
		Policy:       "easy",
	}
}

// play writes a small run to w, with each kind of job and warning.
func play(t *testing.T, w *Writer) {
	t.Helper()
	var err error
	do := func(e error) { err = errors.Join(err, e) }
	do(w.Job(&hpc.Job{ID: "1", Submit: at(1), Request: hpc.Request{User: "u", MinNodes: 2}, Behaviour: hpc.Behaviour{RunTime: time.Minute}}))
	do(w.Event(event(1, rm.Accepted, "1", nil)))
	do(w.Job(&hpc.Job{ID: "2", Submit: at(2), Request: hpc.Request{Array: "1-2"}}))
	do(w.Event(rm.Event{At: at(2), Kind: rm.Accepted, Job: "2", Task: -1, RMJob: 12}))
	do(w.Event(event(3, rm.Started, "1", &rm.Outcome{State: hpc.Running, Submit: at(1), Start: at(3), Nodes: "n[1-2]", NodeCount: 2, Processors: 24})))
	do(w.Event(event(4, rm.Suspend, "1", nil)))
	do(w.Warn(Warning{Code: "odd", Text: "something odd"}))
	do(w.Warn(Warning{Code: "odd", Text: "something odd", Count: 2}))
	do(w.Event(event(5, rm.Resume, "1", nil)))
	do(w.Event(rm.Event{At: at(6), Kind: rm.NodeState, Task: -1, Reason: "n3 down"}))
	do(w.Job(&hpc.Job{ID: "3", Submit: at(6)}))
	do(w.Event(rm.Event{At: at(6), Kind: rm.Refused, Job: "3", Task: -1, Reason: "invalid account"}))
	do(w.Event(taskEvent(7, rm.Started, "2", 1, &rm.Outcome{NodeCount: 1, Processors: 12, Nodes: "n5", Parts: parts})))
	do(w.Event(event(63, rm.Ended, "1", &rm.Outcome{State: hpc.Completed, Submit: at(1), Start: at(3), End: at(63), NodeCount: 2, Processors: 24, Nodes: "n[1-2]"})))
	if err != nil {
		t.Fatal(err)
	}
}

// parts are the components of the priority of a job in play.
var parts = []rm.PriorityPart{{Name: "age", Points: 12.75}, {Name: "nice", Points: -3}}

// playedRows returns the rows of play, without their requests.
func playedRows() []Row {
	return []Row{
		{
			Job: "1", Task: -1, User: "u", State: hpc.Completed, RecordedSubmit: at(1), Submit: at(1), Start: at(3), End: at(63),
			Suspended: time.Second, AskedRunTime: time.Minute, AskedMinNodes: 2,
			Nodes: "n[1-2]", NodeCount: 2, Processors: 24,
			Segments: []Segment{
				{Start: at(3), End: at(4), NodeCount: 2, Processors: 24, EndedBy: rm.Suspend},
				{Start: at(5), End: at(63), NodeCount: 2, Processors: 24, EndedBy: rm.Ended},
			},
		},
		{
			Job: "2", Task: 1, RMJob: 12, State: hpc.Running, RecordedSubmit: at(2), Submit: at(2), Start: at(7),
			Nodes: "n5", NodeCount: 1, Processors: 12,
		},
		{Job: "2", Task: 2, RMJob: 12, State: hpc.Pending, RecordedSubmit: at(2), Submit: at(2)},
		{Job: "3", Task: -1, State: hpc.Rejected, RecordedSubmit: at(6), Submit: at(6), Reason: "invalid account"},
	}
}

func create1(t *testing.T, dir string, opts Options) *Writer {
	t.Helper()
	w, err := Create(dir, sampleManifest(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func open1(t *testing.T, dir string) (*Run, []Row, []Event) {
	t.Helper()
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := r.Jobs()
	if err != nil {
		t.Fatal(err)
	}
	events, err := r.Events()
	if err != nil {
		t.Fatal(err)
	}
	return r, rows, events
}

// names lists the files in dir.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// TestCompleteAndPartial writes the same run twice, but ends it only once. The tables and the
// journal must give the same rows and events.
func TestCompleteAndPartial(t *testing.T) {
	dir := t.TempDir()
	complete, partial := create1(t, filepath.Join(dir, "c"), Options{}), create1(t, filepath.Join(dir, "p"), Options{})
	play(t, complete)
	play(t, partial)
	if err := complete.Finish(StateComplete, func(m *Manifest) { m.Finished = m.Started.Add(2 * time.Second) }); err != nil {
		t.Fatal(err)
	}
	if err := partial.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"events.parquet", "jobs.parquet", "logs", "manifest.json"}, names(t, complete.Dir())); diff != "" {
		t.Errorf("files of a complete record: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"journal.jsonl", "logs", "manifest.json"}, names(t, partial.Dir())); diff != "" {
		t.Errorf("files of a partial record: -want +got:\n%s", diff)
	}

	rc, rows, events := open1(t, complete.Dir())
	rp, partialRows, partialEvents := open1(t, partial.Dir())
	if diff := cmp.Diff(playedRows(), rows, cmpopts.IgnoreFields(Row{}, "Request")); diff != "" {
		t.Errorf("rows: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(rows, partialRows); diff != "" {
		t.Errorf("rows: -tables +journal:\n%s", diff)
	}
	if diff := cmp.Diff(events, partialEvents); diff != "" {
		t.Errorf("events: -tables +journal:\n%s", diff)
	}
	wantEvent := Event{
		At: at(3), Kind: rm.Started, Job: "1", Task: -1, State: hpc.Running, Submit: at(1), Start: at(3),
		Nodes: "n[1-2]", NodeCount: 2, Processors: 24,
	}
	if diff := cmp.Diff(wantEvent, events[2]); diff != "" || len(events) != 9 {
		t.Errorf("%d events, want 9; event 2: -want +got:\n%s", len(events), diff)
	}
	if diff := cmp.Diff(parts, events[7].Parts); diff != "" {
		t.Errorf("parts of the priority: -want +got:\n%s", diff)
	}

	if rc.Partial || rc.Live || !rc.Manifest.Valid || rc.Manifest.State != StateComplete {
		t.Errorf("complete record: partial %v, live %v, valid %v, state %s", rc.Partial, rc.Live, rc.Manifest.Valid, rc.Manifest.State)
	}
	if !rp.Partial || rp.Live || rp.Manifest.Valid || rp.Manifest.State != StateRunning {
		t.Errorf("partial record: partial %v, live %v, valid %v, state %s", rp.Partial, rp.Live, rp.Manifest.Valid, rp.Manifest.State)
	}
	wantWarnings := []Warning{
		{Code: "early", Text: "before the start", Count: 2},
		{Code: "odd", Text: "something odd", Count: 3},
	}
	if diff := cmp.Diff(wantWarnings, rc.Manifest.Warnings); diff != "" {
		t.Errorf("warnings: -want +got:\n%s", diff)
	}
	wantWarnings = append(wantWarnings, Warning{
		Code: "partial-record", Text: "the run was killed before its end: this is what it had recorded until then",
		AffectsResult: true, Count: 1,
	})
	if diff := cmp.Diff(wantWarnings, rp.Manifest.Warnings); diff != "" {
		t.Errorf("warnings of the partial record: -want +got:\n%s", diff)
	}
	counts := Counts{Submitted: 3, NotSubmitted: 1, Accepted: 2, Rejected: 1, Rows: 4, Ended: 1}
	if rc.Manifest.Jobs != counts || rp.Manifest.Jobs != counts {
		t.Errorf("counts %+v and %+v, want %+v", rc.Manifest.Jobs, rp.Manifest.Jobs, counts)
	}
	if m := rc.Manifest; m.VirtualEnd != at(63) || m.VirtualSeconds != 63 || m.WallSeconds != 2 || m.Speedup != 31.5 {
		t.Errorf("virtual end %v, %v s in %v s, speedup %v", m.VirtualEnd, m.VirtualSeconds, m.WallSeconds, m.Speedup)
	}
}

func TestSubmissions(t *testing.T) {
	w := create1(t, filepath.Join(t.TempDir(), "run"), Options{})
	play(t, w)
	if err := w.Job(&hpc.Job{ID: "unanswered"}); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(StateInterrupted, nil); err != nil {
		t.Fatal(err)
	}
	r, _, _ := open1(t, w.Dir())
	got, err := r.Submissions()
	if err != nil {
		t.Fatal(err)
	}
	want := []*hpc.Job{
		{ID: "1", Submit: at(1), Request: hpc.Request{User: "u", MinNodes: 2}, Behaviour: hpc.Behaviour{RunTime: time.Minute}},
		{ID: "2", Submit: at(2), Request: hpc.Request{Array: "1-2"}},
		{ID: "3", Submit: at(6)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if r.Manifest.State != StateInterrupted || r.Manifest.Valid || r.Manifest.Jobs.Unanswered != 1 {
		t.Errorf("state %s, valid %v, %d unanswered", r.Manifest.State, r.Manifest.Valid, r.Manifest.Jobs.Unanswered)
	}
}

// TestManifestGolden fixes the keys of manifest.json.
func TestManifestGolden(t *testing.T) {
	w := create1(t, filepath.Join(t.TempDir(), "run"), Options{})
	play(t, w)
	err := w.Finish(StateFailed, func(m *Manifest) {
		m.Error = "slurmctld: exit status 1"
		m.Finished = m.Started.Add(3 * time.Second)
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(w.Dir(), manifestFile))
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "manifest.json")
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if strings.Contains(string(got), "hunter2") {
		t.Error("the manifest holds a password")
	}
	r, _, _ := open1(t, w.Dir())
	if m := r.Manifest; m.VirtualStart != at(0) || m.Seed != 42 || m.Clock.Factor != 1.5 || m.Valid {
		t.Errorf("read back: %+v", m)
	}
}

func TestUpdate(t *testing.T) {
	w := create1(t, filepath.Join(t.TempDir(), "run"), Options{})
	if err := w.Update(func(m *Manifest) { m.Versions.Slurm = "23.02"; m.State = StateComplete; m.Valid = true }); err != nil {
		t.Fatal(err)
	}
	r, _, _ := open1(t, w.Dir())
	if !r.Live || !r.Partial || r.Manifest.Versions.Slurm != "23.02" || r.Manifest.Valid {
		t.Errorf("live %v, partial %v, version %q, valid %v", r.Live, r.Partial, r.Manifest.Versions.Slurm, r.Manifest.Valid)
	}
	if last := r.Manifest.Warnings[len(r.Manifest.Warnings)-1]; last.Code != "run-in-progress" {
		t.Errorf("last warning is %+v", last)
	}
}

// TestWarningAffectsValidity checks that a complete run is not valid if a warning affects the
// result.
func TestWarningAffectsValidity(t *testing.T) {
	w := create1(t, filepath.Join(t.TempDir(), "run"), Options{})
	if err := w.Warn(Warning{Code: "lost", Text: "a node was lost", AffectsResult: true}); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(StateComplete, nil); err != nil {
		t.Fatal(err)
	}
	r, rows, events := open1(t, w.Dir())
	if r.Manifest.Valid || len(rows) != 0 || len(events) != 0 {
		t.Errorf("valid %v, %d rows, %d events", r.Manifest.Valid, len(rows), len(events))
	}
}

func TestCreateRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(path, content string) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("thesis/chapter1.tex", "x")
	write("other/manifest.json", `{"name": "a web app"}`)
	write("newer/manifest.json", `{"format": 99, "state": "complete"}`)
	write("text/manifest.json", `hello`)
	write("file", "x")
	live := create1(t, filepath.Join(dir, "live"), Options{})
	for _, test := range []struct {
		dir       string
		overwrite bool
		want      error
		text      string
	}{
		{"thesis", false, ErrNotEmpty, "creating run record " + dir + "/thesis: directory is not empty"},
		{"thesis", true, ErrNotRun, "no manifest.json"},
		{"other", true, ErrNotRun, `has no "format"`},
		{"newer", true, nil, "format 99 is not known"},
		{"text", true, ErrNotRun, "invalid character"},
		{"live", false, ErrNotEmpty, ""},
		{"live", true, ErrLive, "another process"},
		{"file", true, syscall.ENOTDIR, ""},
	} {
		_, err := Create(filepath.Join(dir, test.dir), Manifest{}, Options{Overwrite: test.overwrite})
		if err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s, overwrite %v: error is %v; want %v and %q", test.dir, test.overwrite, err, test.want, test.text)
		}
	}
	for _, path := range []string{"thesis/chapter1.tex", "other/manifest.json", "file"} {
		if _, err := os.Stat(filepath.Join(dir, path)); err != nil {
			t.Errorf("a refusal touched %s: %v", path, err)
		}
	}
	if err := live.Finish(StateComplete, nil); err != nil {
		t.Errorf("the live record cannot end after the refusals: %v", err)
	}
}

// TestOverwrite replaces a complete and a partial record. A file that does not belong to a record
// must stay.
func TestOverwrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	first := create1(t, dir, Options{})
	play(t, first)
	report := filepath.Join(dir, "report.html")
	if err := errors.Join(
		os.WriteFile(filepath.Join(first.LogDir(), "slurmctld.log"), []byte("x"), 0o644),
		os.WriteFile(report, []byte("mine"), 0o644),
		first.Finish(StateComplete, nil),
	); err != nil {
		t.Fatal(err)
	}
	second := create1(t, dir, Options{Overwrite: true})
	if err := second.Close(); err != nil { // as if killed
		t.Fatal(err)
	}
	third := create1(t, dir, Options{Overwrite: true})
	r, rows, _ := open1(t, dir)
	if len(rows) != 0 || !r.Live {
		t.Errorf("the new record has %d rows; live %v", len(rows), r.Live)
	}
	if logs := names(t, third.LogDir()); len(logs) != 0 {
		t.Errorf("old logs are left: %v", logs)
	}
	if _, err := os.Stat(report); err != nil {
		t.Errorf("a file that is not the record's is gone: %v", err)
	}
}

// TestOverwriteJournalOnly checks that a record can be overwritten if its writer died before it
// wrote the manifest.
func TestOverwriteJournalOnly(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, journalFile), []byte(journalHeader+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	create1(t, dir, Options{Overwrite: true})
}

func TestModes(t *testing.T) {
	old := syscall.Umask(0o022)
	defer syscall.Umask(old)
	w := create1(t, filepath.Join(t.TempDir(), "a", "run"), Options{})
	check := func() {
		t.Helper()
		err := filepath.WalkDir(w.Dir(), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			want := fs.FileMode(0o644)
			if d.IsDir() {
				want = 0o755
			}
			if info.Mode().Perm() != want {
				t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	check()
	if err := w.Finish(StateComplete, nil); err != nil {
		t.Fatal(err)
	}
	check()
}

// TestTimedFlush checks that a line is in the file after the given real time, even if no further
// line follows.
func TestTimedFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "run")
		w, err := Create(dir, Manifest{}, Options{FlushEvery: 500 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		seen := func() int { _, _, events := open1(t, dir); return len(events) }
		for i := range 3 {
			if err := w.Event(event(1, rm.Accepted, fmt.Sprint(i), nil)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := seen(); n != 0 {
			t.Errorf("%d events are in the file already: the journal is not buffered", n)
		}
		time.Sleep(201 * time.Millisecond)
		if n := seen(); n != 3 {
			t.Errorf("%d events are in the file after 501 ms, want 3", n)
		}
		if err := errors.Join(w.Event(event(2, rm.Accepted, "x", nil)), w.Flush()); err != nil {
			t.Fatal(err)
		}
		if n := seen(); n != 4 {
			t.Errorf("%d events are in the file after Flush, want 4", n)
		}
	})
}

// TestFlushBySize checks that the buffer stays small for any setting of FlushEvery.
func TestFlushBySize(t *testing.T) {
	w := create1(t, filepath.Join(t.TempDir(), "run"), Options{FlushEvery: time.Hour})
	for range 2000 {
		if err := w.Event(rm.Event{Kind: rm.NodeState, Reason: strings.Repeat("r", 100)}); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(w.Dir(), journalFile))
	if err != nil {
		t.Fatal(err)
	}
	if written := int64(2000 * 130); info.Size() < written-flushBytes {
		t.Errorf("%d of more than %d bytes are in the file", info.Size(), written)
	}
}

func TestClosed(t *testing.T) {
	w := create1(t, filepath.Join(t.TempDir(), "run"), Options{})
	if err := w.Finish("", nil); err != nil {
		t.Fatal(err)
	}
	if r, _, _ := open1(t, w.Dir()); r.Manifest.State != StateFailed {
		t.Errorf("a run that ends in no state is %q, want failed", r.Manifest.State)
	}
	for name, err := range map[string]error{
		"Job": w.Job(&hpc.Job{}), "Event": w.Event(rm.Event{}), "Warn": w.Warn(Warning{}),
		"Flush": w.Flush(), "Update": w.Update(func(*Manifest) {}), "Finish": w.Finish(StateComplete, nil),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s after Finish: %v", name, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Errorf("Close after Finish: %v", err)
	}
}

// TestDiskFull writes the journal to a device that is always full.
func TestDiskFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("SKIPPED, the writer is not tested against a full disk here: %v", err)
	}
	defer full.Close()
	w := create1(t, filepath.Join(t.TempDir(), "run"), Options{})
	play(t, w)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	w.journal = bufio.NewWriterSize(full, flushBytes)
	if err := w.Event(event(99, rm.Accepted, "late", nil)); err != nil {
		t.Fatalf("an event that fits the buffer fails: %v", err)
	}
	if err := w.Flush(); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), w.Dir()) {
		t.Fatalf("Flush: %v, want no space left, and the directory", err)
	}
	for name, err := range map[string]error{
		"Event": w.Event(rm.Event{}), "Job": w.Job(&hpc.Job{}), "Finish": w.Finish(StateComplete, nil),
	} {
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s after a full disk: %v", name, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, rows, _ := open1(t, w.Dir()); len(rows) != 4 {
		t.Errorf("%d rows are left, want the 4 from before", len(rows))
	}
}

// TestFinishFails checks that the journal stays if the tables cannot be written.
func TestFinishFails(t *testing.T) {
	for _, file := range []string{jobsFile, eventsFile} {
		w := create1(t, filepath.Join(t.TempDir(), "run"), Options{})
		play(t, w)
		if err := os.MkdirAll(filepath.Join(w.Dir(), file, "in-the-way"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := w.Finish(StateComplete, nil); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("Finish with a directory in the way of %s: %v", file, err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		r, rows, _ := open1(t, w.Dir())
		if !r.Partial || len(rows) != 4 {
			t.Errorf("%s: partial %v with %d rows", file, r.Partial, len(rows))
		}
	}
}

// TestConcurrentReaders reads the record repeatedly while two goroutines write it. What it reads
// must always be a part of the run.
func TestConcurrentReaders(t *testing.T) {
	const jobs = 300
	w := create1(t, filepath.Join(t.TempDir(), "run"), Options{FlushEvery: time.Microsecond})
	var writers sync.WaitGroup
	for side := range 2 {
		writers.Go(func() {
			for i := range jobs {
				id := fmt.Sprint(side, "-", i)
				err := errors.Join(w.Job(&hpc.Job{ID: id}), w.Event(event(int64(i), rm.Accepted, id, nil)),
					w.Event(event(int64(i), rm.Started, id, nil)))
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	finished := make(chan error)
	go func() {
		writers.Wait()
		finished <- w.Finish(StateComplete, nil)
	}()
	for last, done := 0, false; !done; {
		select {
		case err := <-finished:
			if err != nil {
				t.Fatal(err)
			}
			done = true
		default:
		}
		r, rows, events := open1(t, w.Dir())
		if len(rows) < last || len(events) < len(rows) {
			t.Fatalf("%d rows and %d events after %d rows", len(rows), len(events), last)
		}
		last = len(rows)
		if done && (r.Partial || last != 2*jobs) {
			t.Errorf("in the end: partial %v with %d rows, want %d", r.Partial, last, 2*jobs)
		}
	}
}

// childEnv names the directory of the record that a child, which is the test binary, writes until
// it is killed.
const childEnv = "RMREPLAY_TEST_RUN_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		fmt.Fprintln(os.Stderr, writeForever(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// writeForever writes jobs without end. On standard output it prints the number of jobs that
// are certainly on the disk.
func writeForever(dir string) error {
	w, err := Create(dir, sampleManifest(), Options{})
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		id := fmt.Sprint(i)
		err := errors.Join(
			w.Job(&hpc.Job{ID: id, Submit: at(int64(i)), Request: hpc.Request{Comment: strings.Repeat("c", i%500)}}),
			w.Event(event(int64(i), rm.Accepted, id, nil)),
			w.Event(event(int64(i), rm.Started, id, &rm.Outcome{NodeCount: 1, Processors: 4, Nodes: "n" + id})),
			w.Event(event(int64(i+1), rm.Ended, id, &rm.Outcome{State: hpc.Completed})),
		)
		if i%1000 == 999 {
			err = errors.Join(err, w.Flush())
			fmt.Println(i + 1)
		}
		if err != nil {
			return err
		}
	}
}

// TestKill kills a process that writes a record with SIGKILL, and reads the remaining record.
func TestKill(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	child := exec.Command(exe)
	child.Env = append(os.Environ(), childEnv+"="+dir)
	child.Stderr = os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	promised := 0
	for lines := bufio.NewScanner(out); promised < 5000 && lines.Scan(); {
		if _, err := fmt.Sscan(lines.Text(), &promised); err != nil {
			t.Errorf("the child says %q", lines.Text())
			break
		}
	}
	if r, err := Open(dir); err != nil || !r.Live {
		t.Errorf("before the kill: %v, live %v", err, r != nil && r.Live)
	}
	if err := child.Process.Kill(); err != nil {
		t.Error(err)
	}
	// The lines that the child printed between the last read and its death count as well.
	rest, _ := io.ReadAll(out)
	for line := range strings.Lines(string(rest)) {
		if strings.HasSuffix(line, "\n") {
			_, _ = fmt.Sscan(line, &promised)
		}
	}
	if err := child.Wait(); err == nil || child.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the child ended with %v, want it killed", err)
	}

	r, rows, events := open1(t, dir)
	if !r.Partial || r.Live || r.Manifest.Valid || r.Manifest.Seed != 42 {
		t.Errorf("partial %v, live %v, valid %v, seed %d", r.Partial, r.Live, r.Manifest.Valid, r.Manifest.Seed)
	}
	if slices.ContainsFunc(r.Manifest.Warnings, func(w Warning) bool { return w.Code == "journal-damaged" }) {
		t.Error("the end of the journal counts as damage")
	}
	if promised < 5000 || len(rows) < promised || len(events) < 3*promised {
		t.Fatalf("%d rows and %d events; the child had promised %d jobs", len(rows), len(events), promised)
	}
	for i := range promised {
		want := Row{
			Job: fmt.Sprint(i), Task: -1, State: hpc.Completed, RecordedSubmit: at(int64(i)), Submit: at(int64(i)), Start: at(int64(i)), End: at(int64(i + 1)),
			Nodes: fmt.Sprint("n", i), NodeCount: 1, Processors: 4,
		}
		got := rows[i]
		job, err := DecodeJob([]byte(got.Request))
		if err != nil || job.ID != want.Job || len(job.Comment) != i%500 {
			t.Fatalf("row %d has the request %s (%v)", i, got.Request, err)
		}
		got.Request = ""
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("row %d: -want +got:\n%s", i, diff)
		}
	}
	// The record can be replaced, because no process writes it any more.
	create1(t, dir, Options{Overwrite: true})
}

// TestUnjournaled writes the same run with and without a journal. Both must give the same tables.
// The rows that the writer writes when jobs end must equal the rows that Finish writes. The run
// has an array, and a job that ends late.
func TestUnjournaled(t *testing.T) {
	dir := t.TempDir()
	journaled := create1(t, filepath.Join(dir, "j"), Options{})
	direct := create1(t, filepath.Join(dir, "d"), Options{Unjournaled: true})
	for _, w := range []*Writer{journaled, direct} {
		var err error
		do := func(e error) { err = errors.Join(err, e) }
		const jobs = 3*batchSize + 17
		for i := range jobs {
			job := &hpc.Job{ID: fmt.Sprint(i), Submit: at(int64(i)), Request: hpc.Request{User: "u", Tasks: i % 7}}
			if i == 2000 {
				job.Array = "1-2"
			}
			accepted := event(int64(i), rm.Accepted, job.ID, nil)
			accepted.Submission = i + 1
			do(w.Job(job))
			do(w.Event(accepted))
			if i%3 == 0 || i == 2000 {
				waiting := event(int64(i), rm.Waiting, job.ID, &rm.Outcome{Start: at(int64(2 * jobs)), Priority: 7})
				waiting.Reason, waiting.Submission = "Priority", i+1
				do(w.Event(waiting))
			}
		}
		for k := range jobs {
			i := (k + 5) % jobs // the first job is one of the last to end
			tasks := []int{-1}
			if i == 2000 {
				tasks = []int{1, 2}
			}
			for _, task := range tasks {
				ended := taskEvent(int64(jobs+k), rm.Ended, fmt.Sprint(i), task, &rm.Outcome{State: hpc.Completed, Start: at(int64(i + 1)), Processors: 1})
				ended.Submission = i + 1
				do(w.Event(ended))
			}
		}
		if want := (w == direct); want != (w.rows.final.len() == 2000) {
			t.Errorf("%d rows are final, want the 2000 before the array, and none with a journal", w.rows.final.len())
		}
		// Metrics are computed from the rows while Finish completes the record.
		counted := make(chan int)
		go func() {
			n := 0
			for range w.Rows {
				n++
			}
			counted <- n
		}()
		do(w.Finish(StateComplete, nil))
		if n := <-counted; n != jobs+1 {
			t.Errorf("%d rows, want %d", n, jobs+1)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	sameHistories(t, direct)
	_, want, wantEvents := open1(t, journaled.Dir())
	_, got, gotEvents := open1(t, direct.Dir())
	i := 0
	for row := range direct.Rows {
		of := got[i]
		i++
		of.Request = ""
		if i <= 2000 { // final before the end, so it has only an outcome
			of = Row{
				Job: of.Job, Task: of.Task, User: of.User, State: of.State, RecordedSubmit: of.RecordedSubmit, Submit: of.Submit,
				Eligible: of.Eligible, Start: of.Start, End: of.End, NodeCount: of.NodeCount, Processors: of.Processors,
				Suspended: of.Suspended, Restarts: of.Restarts, Segments: of.Segments,
			}
		}
		if diff := cmp.Diff(&of, row); diff != "" {
			t.Fatalf("row: -table +Rows:\n%s", diff)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows: -journaled +direct:\n%s", diff)
	}
	if diff := cmp.Diff(wantEvents, gotEvents); diff != "" {
		t.Errorf("events: -journaled +direct:\n%s", diff)
	}
}

// sameHistories checks that a writer gives the rows the same reasons as its record.
func sameHistories(t *testing.T, w *Writer) {
	t.Helper()
	r, err := Open(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	want, err := r.Histories()
	if err != nil {
		t.Fatal(err)
	}
	i, given := 0, 0
	for row := range w.Histories(r.Manifest.VirtualEnd) {
		if diff := cmp.Diff(want[i].Reasons, row.Reasons); diff != "" || row.Job != want[i].Job {
			t.Fatalf("reasons of job %s, task %d: -record +writer:\n%s", want[i].Job, want[i].Task, diff)
		}
		if i++; row.HasReasons() {
			given++
		}
	}
	if i != len(want) || given < len(want)/3 {
		t.Errorf("%d rows, %d of them with reasons, want %d with some", i, given, len(want))
	}
}

// TestEventAfterEnd checks that a row cannot change while it is being written to the disk.
func TestEventAfterEnd(t *testing.T) {
	w := create1(t, filepath.Join(t.TempDir(), "run"), Options{Unjournaled: true})
	err := errors.Join(
		w.Job(&hpc.Job{ID: "a"}), w.Event(event(1, rm.Accepted, "a", nil)),
		w.Event(event(2, rm.Ended, "a", &rm.Outcome{State: hpc.Cancelled})),
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Event(event(3, rm.Started, "a", nil)); err == nil || !strings.Contains(err.Error(), "job a: an event comes after the job's end") {
		t.Errorf("error is %v", err)
	}
}

// TestConcurrentUse uses a writer from several goroutines. They record jobs, events and warnings,
// change the manifest and visit rows, and one of them finishes the record. Afterwards all methods
// except Rows must fail, and Rows must give the table's rows. The race detector also checks this
// test.
func TestConcurrentUse(t *testing.T) {
	for _, unjournaled := range []bool{false, true} {
		w := create1(t, filepath.Join(t.TempDir(), "run"), Options{Unjournaled: unjournaled})
		const jobs = 8*batchSize + 100
		var group errgroup.Group
		noted := make(chan struct{})
		group.Go(func() error {
			defer close(noted)
			return noteJobs(w, jobs)
		})
		group.Go(func() error {
			for i := range 100 {
				err := errors.Join(
					w.Warn(Warning{Code: "w", Text: "warned"}), w.Flush(),
					w.Update(func(m *Manifest) { m.Seed = uint64(i) }),
				)
				if err != nil {
					return err
				}
			}
			return nil
		})
		for range 2 {
			group.Go(func() error { return visitUntil(w, noted) })
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}

		finished := make(chan error, 1)
		go func() { finished <- w.Finish(StateComplete, nil) }()
		for range 3 {
			if n := countRows(w); n != jobs {
				t.Errorf("%d rows during Finish, want %d", n, jobs)
			}
		}
		if err := <-finished; err != nil {
			t.Fatal(err)
		}
		_, want, _ := open1(t, w.Dir())
		for row := range w.Rows {
			want[0].Request = ""
			if diff := cmp.Diff(&want[0], row); diff != "" {
				t.Fatalf("row: -table +Rows:\n%s", diff)
			}
			want = want[1:]
		}
		for name, err := range map[string]error{
			"Job": w.Job(&hpc.Job{ID: "late"}), "Event": w.Event(event(9, rm.Ended, "0", nil)),
			"Amend": w.Amend(func(*Row) {}), "Finish": w.Finish(StateComplete, nil), "Flush": w.Flush(),
		} {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("%s after Finish: the error is %v, want ErrClosed", name, err)
			}
		}
	}
}

// noteJobs records jobs that run one after the other and are suspended once each. It reuses memory
// of jobs that the writer has released.
func noteJobs(w *Writer, jobs int) error {
	for i := range jobs {
		id, outcome := fmt.Sprint(i), &rm.Outcome{State: hpc.Completed, Processors: 1}
		job := w.Released()
		if job == nil {
			job = new(hpc.Job)
		}
		*job = hpc.Job{ID: id}
		err := w.Job(job)
		for at, kind := range []rm.EventKind{rm.Accepted, rm.Started, rm.Suspend, rm.Resume, rm.Ended} {
			e := event(int64(10*i+at), kind, id, nil)
			if e.Submission = i + 1; kind == rm.Ended {
				e.Outcome = outcome
			}
			err = errors.Join(err, w.Event(e))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// visitUntil repeatedly visits the rows, changes each, and calls the writer during the visit.
func visitUntil(w *Writer, done <-chan struct{}) error {
	for {
		var err error
		for row := range w.Rows {
			row.Job = "changed"
			for i := range row.Segments {
				row.Segments[i] = Segment{}
			}
			if row.Start%1000 == 0 {
				err = errors.Join(err, w.Warn(Warning{Code: "v", Text: "visited"}))
			}
		}
		if err != nil {
			return err
		}
		select {
		case <-done:
			return nil
		default:
		}
	}
}

func countRows(w *Writer) int {
	n := 0
	for range w.Rows {
		n++
	}
	return n
}

// TestAmend checks that Finish calls the function with every row, and that the table has its
// changes. The functions of Amend and Finish may call the writer.
func TestAmend(t *testing.T) {
	w := create1(t, filepath.Join(t.TempDir(), "run"), Options{})
	const jobs = batchSize + 3
	amended := 0
	err := w.Amend(func(row *Row) {
		amended++
		row.Priority = 7
		if n := countRows(w); n != jobs {
			t.Errorf("%d rows, want %d", n, jobs)
		}
		for i := range row.Segments {
			row.Segments[i].Processors = 99
		}
	})
	if err := errors.Join(err, noteJobs(w, jobs)); err != nil {
		t.Fatal(err)
	}
	err = w.Finish(StateComplete, func(*Manifest) {
		if err := w.Flush(); !errors.Is(err, ErrClosed) {
			t.Errorf("Flush during Finish: the error is %v, want ErrClosed", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	_, rows, _ := open1(t, w.Dir())
	for _, row := range rows {
		if row.Priority != 7 || row.Segments[0].Processors != 99 {
			t.Fatalf("row %s is not amended: %+v", row.Job, row)
		}
	}
	if amended != jobs || len(rows) != jobs {
		t.Errorf("%d rows were amended of %d, want %d", amended, len(rows), jobs)
	}
	for row := range w.Rows {
		if row.Priority != 0 || row.Segments[0].Processors == 99 {
			t.Fatalf("Rows has the amended row %+v", row)
		}
	}
}

// TestAmendUnjournaled checks that Amend fails without a journal, because the rows may be on
// the disk already.
func TestAmendUnjournaled(t *testing.T) {
	w := create1(t, filepath.Join(t.TempDir(), "run"), Options{Unjournaled: true})
	if err := w.Amend(func(*Row) {}); !errors.Is(err, ErrUnjournaled) {
		t.Errorf("the error is %v, want ErrUnjournaled", err)
	}
}

// TestReleased checks that a record without a journal returns each job on the disk exactly
// once. It must not return a job that has not ended, or a job after such a job.
func TestReleased(t *testing.T) {
	for _, unjournaled := range []bool{true, false} {
		w := create1(t, filepath.Join(t.TempDir(), "run"), Options{Unjournaled: unjournaled})
		const jobs, open = 12 * batchSize, 9 * batchSize
		place := make(map[*hpc.Job]int)
		var err error
		for i := range jobs {
			job := &hpc.Job{ID: fmt.Sprint(i)}
			place[job] = i
			accepted, ended := event(1, rm.Accepted, job.ID, nil), event(2, rm.Ended, job.ID, &rm.Outcome{State: hpc.Completed})
			accepted.Submission, ended.Submission = i+1, i+1
			err = errors.Join(err, w.Job(job), w.Event(accepted))
			if i != open {
				err = errors.Join(err, w.Event(ended))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for job := w.Released(); job != nil; job = w.Released() {
			i, given := place[job]
			if !given || i >= open {
				t.Fatalf("job %s was released", job.ID)
			}
			delete(place, job)
			n++
		}
		if (n > 0) != unjournaled {
			t.Errorf("without a journal is %v: %d jobs were released", unjournaled, n)
		}
	}
}
