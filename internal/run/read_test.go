package run

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
)

const goodJournal = journalHeader + `
{"job":{"id":"a","submit":"1970-01-01T00:00:05Z"}}
{"event":{"at_ns":5,"kind":"accepted","job":"a","task":-1}}
{"warning":{"code":"c","text":"t","affects_result":false,"count":1}}
{"event":{"at_ns":6,"kind":"started","job":"a","task":-1,"outcome":{"processors":4}}}
`

// TestJournalTorn cuts a journal at every byte. Every cut journal must be readable, and have
// exactly the content of its complete lines.
func TestJournalTorn(t *testing.T) {
	for cut := len(journalHeader) + 1; cut <= len(goodJournal); cut++ {
		text := goodJournal[:cut]
		j, err := readJournal(strings.NewReader(text))
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		want := strings.Count(text, `"task":-1}}`+"\n") + strings.Count(text, `"processors":4}}}`+"\n")
		if len(j.events) != want || AffectedBy(j.warnings) {
			t.Errorf("cut at %d: %d events, want %d; warnings %v", cut, len(j.events), want, j.warnings)
		}
	}
}

func TestJournalDamaged(t *testing.T) {
	for name, line := range map[string]string{
		"zeros":         "\x00\x00\x00",
		"empty":         "",
		"nothing":       "{}",
		"other":         `{"jobs":[]}`,
		"array":         `[1]`,
		"cut":           `{"event":{"at_ns":5,"kind":"acc`,
		"bad job":       `{"job":{"id":7}}`,
		"bad outcome":   `{"event":{"at_ns":5,"kind":"ended","job":"a","task":-1,"outcome":[]}}`,
		"bad instant":   `{"event":{"at_ns":1e99,"kind":"ended","job":"a","task":-1}}`,
		"second header": journalHeader,
	} {
		t.Run(name, func(t *testing.T) {
			lines := strings.SplitAfter(goodJournal, "\n")
			lines = slices.Insert(lines, 2, line+"\n", line+"\n")
			j, err := readJournal(strings.NewReader(strings.Join(lines, "")))
			if err != nil {
				t.Fatal(err)
			}
			if len(j.events) != 2 {
				t.Errorf("%d events are left, want 2", len(j.events))
			}
			last := j.warnings[len(j.warnings)-1]
			if last.Code != "journal-damaged" || last.Count != 2 || !last.AffectsResult || !strings.Contains(last.Text, "line 3") {
				t.Errorf("the warning is %+v", last)
			}
		})
	}
}

func TestJournalRefused(t *testing.T) {
	for _, text := range []string{"", "\n", "hello\n", `{"rmreplay_journal":2}` + "\n", journalHeader} {
		if _, err := readJournal(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%q: error is %v", text, err)
		}
	}
	endless := journalHeader + "\n" + strings.Repeat("x", maxLine+1)
	if _, err := readJournal(strings.NewReader(endless)); err == nil {
		t.Error("a line without end is read")
	}
}

// longNumber matches text that could be an array with very many tasks.
var longNumber = regexp.MustCompile(`[0-9]{5}`)

func FuzzReadJournal(f *testing.F) {
	f.Add([]byte(goodJournal))
	f.Add([]byte(goodJournal[:len(goodJournal)-9]))
	f.Add([]byte(journalHeader + "\n" + `{"job":{"id":"a","request":{"array":"1-3"}}}` + "\n" +
		`{"event":{"kind":"accepted","job":"a","task":-1}}` + "\n" +
		`{"event":{"kind":"requeued","job":"a","task":7}}` + "\n" +
		`{"event":{"kind":"ended","job":"a","task":-1,"outcome":{"state":"FAILED"}}}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if longNumber.Match(data) {
			t.Skip("arrays of millions of tasks are legal, and slow")
		}
		j, err := readJournal(bytes.NewReader(data))
		if err != nil {
			return
		}
		rows := j.list()
		c := j.counts(0)
		if c.Rows != len(rows) || c.Ended > c.Rows {
			t.Errorf("counts %+v of %d rows", c, len(rows))
		}
		for i := range rows {
			for _, s := range rows[i].Held() {
				if s.EndedBy == rm.Suspend && s.End < s.Start {
					t.Errorf("segment %+v ends before it starts", s)
				}
			}
		}
	})
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	for name, manifest := range map[string]string{
		"empty": "", "text": "hello", "list": "[]", "foreign": "{}", "newer": `{"format":2}`,
		"no journal":  `{"format":1,"state":"running"}`,
		"bad instant": `{"format":1,"virtual_start":"yesterday"}`,
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.Mkdir(path, 0o755), os.WriteFile(filepath.Join(path, manifestFile), []byte(manifest), 0o644)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err == nil || !strings.HasPrefix(err.Error(), "opening run record "+path+": ") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file); !errors.Is(err, ErrNotRun) || !strings.Contains(err.Error(), "is not a directory") {
		t.Errorf("a file: %v", err)
	}
	if _, err := Open(filepath.Join(dir, "nowhere")); !errors.Is(err, ErrNotRun) {
		t.Errorf("a directory that does not exist: %v", err)
	}
}

// TestDamagedTables checks that a damaged table gives an error or rows, but never a panic. The
// table is missing, truncated, or has one changed byte.
func TestDamagedTables(t *testing.T) {
	w := create1(t, filepath.Join(t.TempDir(), "run"), Options{})
	play(t, w)
	if err := w.Finish(StateComplete, nil); err != nil {
		t.Fatal(err)
	}
	r, _, _ := open1(t, w.Dir())
	path := filepath.Join(w.Dir(), jobsFile)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	try := func(data []byte) error {
		t.Helper()
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := r.Jobs()
		return err
	}
	for cut := 0; cut < len(good); cut += 97 {
		if err := try(good[:cut]); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("cut at %d of %d bytes: error is %v", cut, len(good), err)
		}
	}
	for i := 0; i < len(good); i += 13 {
		bad := slices.Clone(good)
		bad[i] ^= 0xff
		_ = try(bad) // some bytes do not matter, but none may cause a panic
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Jobs(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without jobs.parquet: %v", err)
	}
}

// manyRows returns the rows of a large run, with values as varied as real ones.
func manyRows(n int) []Row {
	rows := make([]Row, n)
	for i := range rows {
		submit := at(int64(i * 7))
		rows[i] = Row{
			Job: fmt.Sprint(i + 1), Task: -1, RMJob: uint32(i + 1), Name: fmt.Sprint("job", i%900), User: fmt.Sprint("user", i%200),
			Group: "users", Account: fmt.Sprint("acc", i%40), Partition: fmt.Sprint("p", i%4), QOS: "normal",
			State: hpc.Completed, Submit: submit, Eligible: submit, Start: submit.Add(time.Duration(i%9999) * time.Second),
			TimeLimit: time.Hour, AskedRunTime: time.Duration(i%3600) * time.Second,
			Nodes: fmt.Sprintf("n[%d-%d]", i%1000, i%1000+i%16), NodeCount: i%16 + 1, Processors: 36 * (i%16 + 1),
			TRES:    fmt.Sprintf("cpu=%d,node=%d", 36*(i%16+1), i%16+1),
			Request: fmt.Sprintf(`{"id":"%d","submit_ns":%d,"request":{"user":"user%d","account":"acc%d","time_limit_ns":3600000000000,"min_nodes":%d},"behaviour":{"run_time_ns":%d}}`, i+1, submit, i%200, i%40, i%16+1, i%3600),
		}
		rows[i].End = rows[i].Start.Add(rows[i].AskedRunTime)
	}
	return rows
}

// writeTable writes a whole table.
func writeTable[T any](path string, rows []T) error {
	t, err := createTable[T](path)
	if err != nil {
		return err
	}
	return errors.Join(t.write(rows), t.commit())
}

// TestTableRoundTrip writes and reads more than one row group, with every column.
func TestTableRoundTrip(t *testing.T) {
	want := manyRows(rowGroup + 10)
	want[3].Segments = []Segment{{Start: at(1), End: at(2), NodeCount: 3, Processors: 4, EndedBy: rm.Requeue}, {Start: at(5)}}
	want[rowGroup+3].Segments = want[3].Segments[:1]
	want[5] = Row{}
	want[6] = Row{Resubmit: 1, Suspended: -1, TimeLimit: hpc.Unlimited, ExitCode: -1, Signal: 9, Restarts: 2,
		Reason: "ü", AskedPriority: 1<<32 - 1, AskedMinNodes: 1, AskedMaxNodes: 2, AskedTasks: 3, AskedCPUsPerTask: 4, Reservation: "r"}
	path := filepath.Join(t.TempDir(), "x.parquet")
	if err := writeTable(path, want); err != nil {
		t.Fatal(err)
	}
	got, err := readTable[Row](path)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i := range want {
		// A cheap comparison comes first, because cmp takes seconds for all rows.
		if len(got[i].Segments) == 0 {
			got[i].Segments = nil
		}
		if !reflect.DeepEqual(want[i], got[i]) {
			t.Fatalf("row %d: -want +got:\n%s", i, cmp.Diff(want[i], got[i]))
		}
	}
}

func BenchmarkWriteJobs(b *testing.B) {
	rows := manyRows(150_000)
	path := filepath.Join(b.TempDir(), "x.parquet")
	for b.Loop() {
		if err := writeTable(path, rows); err != nil {
			b.Fatal(err)
		}
	}
	info, _ := os.Stat(path)
	b.ReportMetric(float64(info.Size())/float64(len(rows)), "file-bytes/row")
}

func BenchmarkReadJobs(b *testing.B) {
	path := filepath.Join(b.TempDir(), "x.parquet")
	if err := writeTable(path, manyRows(150_000)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if rows, err := readTable[Row](path); err != nil || len(rows) != 150_000 {
			b.Fatal(len(rows), err)
		}
	}
}

// BenchmarkRecord measures a record's total cost for each job: the journal during the run and
// the tables at its end.
func BenchmarkRecord(b *testing.B) {
	rows := manyRows(10_000)
	for b.Loop() {
		w, err := Create(filepath.Join(b.TempDir(), "run"), Manifest{}, Options{Overwrite: true})
		if err != nil {
			b.Fatal(err)
		}
		for i := range rows {
			record(b, w, &rows[i])
		}
		if err := w.Finish(StateComplete, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(rows)), "ns/job")
}

// record writes the history of a row's job.
func record(tb testing.TB, w *Writer, r *Row) {
	tb.Helper()
	job, err := DecodeJob([]byte(r.Request))
	if err != nil {
		tb.Fatal(err)
	}
	o := &rm.Outcome{
		Submit: r.Submit, Eligible: r.Eligible, Start: r.Start, Nodes: r.Nodes, NodeCount: r.NodeCount,
		Processors: r.Processors, TRES: r.TRES, User: r.User, Account: r.Account, Partition: r.Partition, QOS: r.QOS, TimeLimit: 3600,
	}
	end := *o
	end.State, end.End = r.State, r.End
	if err := errors.Join(
		w.Job(job),
		w.Event(rm.Event{At: r.Submit, Kind: rm.Accepted, Job: r.Job, Task: -1, RMJob: r.RMJob}),
		w.Event(rm.Event{At: r.Start, Kind: rm.Started, Job: r.Job, Task: -1, RMJob: r.RMJob, Outcome: o}),
		w.Event(rm.Event{At: r.End, Kind: rm.Ended, Job: r.Job, Task: -1, RMJob: r.RMJob, Outcome: &end}),
	); err != nil {
		tb.Fatal(err)
	}
}
