package swf_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/formats"
	"rmreplay/internal/formats/events"
	"rmreplay/internal/formats/swf"
	"rmreplay/internal/formats/trace"
	"rmreplay/internal/hpc"
	"rmreplay/internal/realdata"
	"rmreplay/internal/workload"
)

const smallSWF = `; Version: 2.2
; UnixStartTime: 843480031
; MaxNodes: 100 (batch)
; MaxProcs: 800
; Queue:  0 interactive
; Queue:  1 express          (p655 /  2hr)
; Partition:  1  pbatch    
    1       10     -1     60    4 142.00    -1   -1    600    -1  1  12   3   7  1  1 -1 -1
    2       20      5     30   -1     -1   900    8     -1  1500  0  13  -1  -1  9 -1  1 30
    3       25      0     10    2     -1    -1    2    100    -1  5  12   3  -1 -1 -1 -1 -1
`

func readSWF(t *testing.T, text string) *workload.Workload {
	t.Helper()
	w, err := swf.Read(strings.NewReader(text), "x.swf", workload.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestRead(t *testing.T) {
	w := readSWF(t, smallSWF)
	epoch := hpc.Unix(843480031)
	want := []*hpc.Job{
		{
			ID: "1", Submit: epoch.Add(10 * time.Second),
			Request: hpc.Request{
				Name: "app7", User: "user12", Group: "group3", Partition: "pbatch", QOS: "express",
				TimeLimit: 10 * time.Minute, Tasks: 4,
			},
			Behaviour: hpc.Behaviour{RunTime: time.Minute},
			Recorded:  &hpc.Recorded{State: hpc.Completed, Processors: 4},
		},
		{
			ID: "2", Submit: epoch.Add(20 * time.Second),
			Request: hpc.Request{
				User: "user13", QOS: "queue9", Dependency: "afterany:1", Tasks: 8, MemPerCPU: 2,
			},
			Behaviour: hpc.Behaviour{RunTime: 30 * time.Second},
			Recorded:  &hpc.Recorded{State: hpc.Failed, Start: epoch.Add(25 * time.Second), End: epoch.Add(55 * time.Second), UsedMemory: 900},
		},
		{
			ID: "3", Submit: epoch.Add(25 * time.Second),
			Request:   hpc.Request{User: "user12", Group: "group3", TimeLimit: 100 * time.Second, Tasks: 2},
			Behaviour: hpc.Behaviour{RunTime: 10 * time.Second},
			Recorded: &hpc.Recorded{
				State: hpc.Cancelled, Processors: 2,
				Start: epoch.Add(25 * time.Second), End: epoch.Add(35 * time.Second),
			},
		},
	}
	if diff := cmp.Diff(want, w.Jobs.List()); diff != "" {
		t.Errorf("jobs (-want +got)\n%s", diff)
	}
	for i, want := range []string{
		`{"record":1,"fields":{"6":"142.00","8":"-1"}}`, `{"record":2,"fields":{"10":"1500","18":"30"}}`, `{"record":3}`,
	} {
		if got := string(swf.AppendKept(nil, w.Jobs.Origin(i))); got != want {
			t.Errorf("job %d: kept %s, want %s", i, got, want)
		}
	}
	lost := workload.Losses{}
	swf.Lost(lost, w)
	wantLost := workload.Losses{"SWF field 6 (average CPU time)": 1, "SWF field 8 (requested processors)": 1,
		"SWF field 10 (requested memory)": 1, "SWF field 18 (think time)": 1, "lines of the log's header": 7}
	if diff := cmp.Diff(wantLost, lost); diff != "" {
		t.Errorf("losses (-want +got)\n%s", diff)
	}
	users := []hpc.User{
		{Name: "user12", UID: 100012, Group: "group3", GID: 100003},
		{Name: "user13", UID: 100013, Group: "swf", GID: 99999},
	}
	if diff := cmp.Diff(users, w.Users); diff != "" {
		t.Errorf("users (-want +got)\n%s", diff)
	}
	if w.Epoch != epoch || w.MachineNodes != 100 || w.MachineProcessors != 800 || len(w.Rules) > 0 {
		t.Errorf("epoch %s, %d nodes, %d processors, rules %v", w.Epoch, w.MachineNodes, w.MachineProcessors, w.Rules)
	}
}

// TestSWFRules checks that the right rule applies to every dirty record, that no record is lost,
// and that the error of a strict reader names the line.
func TestSWFRules(t *testing.T) {
	const good = "1 10 0 60 4 -1 -1 4 600 -1 1 12 3 7 1 1 -1 -1\n"
	tests := []struct{ record, rule, want string }{
		{"2 20 0 60 4 -1 -1 4 600 -1 1 12 3 7 1 1 -1", swf.RuleNoRecord, "17 fields (want 18)"},
		{"2 20 0 60 4 -1 -1 4 600 -1 1 12 3 7 1 1 -1 -1 -1", swf.RuleNoRecord, "more than 18 fields"},
		{"2 20 0 60 4 -1 -1 four 600 -1 1 12 3 7 1 1 -1 -1", swf.RuleNoRecord, `field 8: "four": not a number`},
		{"2 20 0 60 4 -1 -1 4 600 -1 1 12 3 7 1 1 -1 -\x00", swf.RuleNoRecord, `field 18: "-\x00": not a number`},
		{"2 20 0 60 4 -1 -1 4 1e9 -1 1 12 3 7 1 1 -1 -1", swf.RuleNoRecord, `field 9: "1e9": not a number`},
		{"2 20 0 60 4 -1 -1 4 1. -1 1 12 3 7 1 1 -1 -1", swf.RuleNoRecord, `field 9: "1.": not a number`},
		{"Ren\xe9 20", swf.RuleNoRecord, `field 1: "Ren\xe9": not a number`},
		{strings.Repeat("9", 1<<20), swf.RuleNoRecord, "field 1: "},
		{"2 20 0 60 4 -1 -1 4 9999999999 -1 1 12 3 7 1 1 -1 -1", swf.RuleAbsurd, "field 9: 9999999999 seconds"},
		{"2 20 0 60 4 -1 -1 4000000000 600 -1 1 12 3 7 1 1 -1 -1", swf.RuleAbsurd, "4000000000 processors"},
		{"2 -1 0 60 4 -1 -1 4 600 -1 1 12 3 7 1 1 -1 -1", swf.RuleNoSubmit, "field 2: no submit time"},
		{"2 20 0 60 0 -1 -1 -1 600 -1 1 12 3 7 1 1 -1 -1", swf.RuleNoProcessors, "neither requested"},
		{"2 20 0 -1 4 -1 -1 4 600 -1 1 12 3 7 1 1 -1 -1", swf.RuleNoRunTime, "field 4: no run time"},
		{"2 20 0 -0.5 4 -1 -1 4 600 -1 1 12 3 7 1 1 -1 -1", swf.RuleNoRunTime, "field 4: no run time"},
		{"2 20 -7 60 4 -1 -1 4 600 -1 1 12 3 7 1 1 -1 -1", swf.RuleBadWait, "a wait time of -7 s"},
		{"2 20 0 60 4 -1 -1 4 600 -1 1 12 3 7 1 1 99 -1", swf.RuleNoJobBefore, "no job 99 before"},
		{"1 20 0 60 4 -1 -1 4 600 -1 1 12 3 7 1 1 -1 -1", workload.RuleRenamed, "job number 1 occurs twice"},
		{"2 5 0 60 4 -1 -1 4 600 -1 1 12 3 7 1 1 -1 -1", workload.RuleOutOfOrder, "submitted at 2024-01-01T00:00:05Z, after a job"},
		{"2 99999999 0 60 4 -1 -1 4 600 -1 1 12 3 7 1 1 -1 -1", workload.RuleClockJump, "days after the previous job"},
		{"2 20 0 60 4 -1 -1 4 600 68719476736 1 12 3 7 1 1 -1 -1", swf.RuleAbsurdMemory, "68719476736 KiB of memory for a processor are more than 4 TiB"},
		{"; UnixStartTime: yesterday", swf.RuleBadHeader, "UnixStartTime: yesterday: not a time"},
	}
	for _, tt := range tests {
		text := good + tt.record + "\r\n"
		if tt.rule == swf.RuleBadHeader {
			text = "\n" + tt.record + "\n" + good
		}
		w := readSWF(t, text)
		if diff := cmp.Diff(map[string]int{tt.rule: 1}, w.Rules); diff != "" {
			t.Errorf("%.80q: rules (-want +got)\n%s", tt.record, diff)
		}
		if tt.rule != swf.RuleBadHeader && w.Jobs.Len()+len(w.Unusable) != 2 {
			t.Errorf("%.80q: %d jobs and %d unusable records", tt.record, w.Jobs.Len(), len(w.Unusable))
		}
		_, err := swf.Read(strings.NewReader(text), "x.swf", workload.ReadOptions{Strict: true})
		if err == nil || !strings.HasPrefix(err.Error(), "reading SWF: x.swf:2: ") ||
			!strings.Contains(err.Error(), tt.want) || !strings.HasSuffix(err.Error(), "(rule "+tt.rule+")") {
			t.Errorf("%.80q: strict: %v, want %q", tt.record, err, tt.want)
		}
	}
}

func TestReadErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "reading SWF: x.swf: it has no usable job",
		"; Version: 2.2\n":           "it has no usable job",
		"1 2 3\n4 5\n":               "it has no usable job (swf_not_a_record 2; the first: 3 fields (want 18))",
		strings.Repeat("1 ", 16<<20): "x.swf:1: line of more than 16 MiB",
	} {
		if _, err := swf.Read(strings.NewReader(text), "x.swf", workload.ReadOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: error %v, want %q", text, err, want)
		}
	}
}

// TestSWFChanged checks that a change of a job changes its record.
func TestSWFChanged(t *testing.T) {
	w := readSWF(t, smallSWF)
	w.Jobs.Change(0, func(j *hpc.Job) { j.Tasks, j.RunTime = 6, 90*time.Second })
	w.Jobs.Change(1, func(j *hpc.Job) { j.MemPerCPU = 3 })
	got := writeSWF(t, w)
	for _, want := range []string{
		"    1       10     -1     90    4 142.00    -1    6    600    -1  1  12   3   7  1  1 -1 -1\n",
		"    2       20      5     30   -1     -1   900    8     -1  3072  0  13  -1  -1  9 -1  1 30\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no record\n%sin\n%s", want, got)
		}
	}
}

// TestSWFFates checks the records of jobs that were cancelled while they waited, and of a job that ran
// until slurmctld ended it for its limit. They must read back with the same fate.
func TestSWFFates(t *testing.T) {
	at := func(s int) hpc.Time { return hpc.Unix(843480031).Add(time.Duration(s) * time.Second) }
	request := hpc.Request{User: "user12", TimeLimit: 10 * time.Minute, Tasks: 4}
	jobs := []*hpc.Job{
		{ID: "1", Submit: at(10), Request: request, Behaviour: hpc.Behaviour{RunTime: time.Hour},
			Recorded: &hpc.Recorded{State: hpc.Cancelled, End: at(70)}},
		{ID: "2", Submit: at(20), Request: request, Behaviour: hpc.Behaviour{RunTime: hpc.Unlimited},
			Recorded: &hpc.Recorded{State: hpc.TimedOut, Start: at(30), End: at(643), Processors: 4}},
	}
	text := writeSWF(t, &workload.Workload{Epoch: at(0), Jobs: workload.JobsOf(jobs...)})
	for _, want := range []string{
		"    1       10     60      0   -1     -1    -1    4    600    -1  5  12  -1  -1 -1 -1 -1 -1\n",
		"    2       20     10    613    4     -1    -1    4    600    -1  0  12  -1  -1 -1 -1 -1 -1\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no record\n%sin\n%s", want, text)
		}
	}
	w := readSWF(t, text)
	for i, want := range []hpc.Recorded{*jobs[0].Recorded, {State: hpc.Failed, Start: at(30), End: at(643), Processors: 4}} {
		if diff := cmp.Diff(want, *w.Jobs.At(i).Recorded); diff != "" {
			t.Errorf("job %d read back (-want +got)\n%s", i+1, diff)
		}
	}
}

func writeSWF(t *testing.T, w *workload.Workload) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := swf.Write(&b, w); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// throughTrace writes a workload as a trace and reads it again.
func throughTrace(t *testing.T, w *workload.Workload) *workload.Workload {
	t.Helper()
	var b bytes.Buffer
	if err := trace.Write(&b, w); err != nil {
		t.Fatal(err)
	}
	again, err := trace.Read(&b, w.Source, workload.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return again
}

func TestSWFRoundTrip(t *testing.T) {
	dirty := smallSWF +
		"    4        0     -1     -1    0     -1    -1   -1     -1    -1  5  12   3  -1 -1 -1 -1 -1\n" +
		"no record at all\n" +
		"    2       40   1.50   2.25    4   0.07    -1    4   60.5    -1  2  12   3  -1  0  0  1 -1\n" +
		"    6       30     -3     10    4     -1    -1    4     60    -1  3  -1  -1  -1 -1 -1 77 -1\n"
	w := readSWF(t, dirty)
	if got := writeSWF(t, w); got != dirty {
		t.Errorf("(-want +got)\n%s", cmp.Diff(dirty, got))
	}
	if got := writeSWF(t, throughTrace(t, w)); got != dirty {
		t.Errorf("through a trace (-want +got)\n%s", cmp.Diff(dirty, got))
	}
}

// TestWriteSWFNames writes a workload that does not come from a log. Names get numbers, arrays
// become records, and facts that the format cannot express are counted.
func TestWriteSWFNames(t *testing.T) {
	w := readEvents(t, `
-dt 0  -e submit_batch_job | -J a -sim-walltime 30 --uid=ann -A x -p batch -q normal -t 10 -N 2 -n 8
-dt 9  -e submit_batch_job | -J b -sim-walltime 60 --uid=user1 -p gpu -t 4 -a 1-2 -d afterany:a
-dt 10 -e submit_batch_job | -J c -sim-walltime -1 --uid=bob -p batch -t 5 --mem-per-cpu=2 -d afterok:a
`)
	var b bytes.Buffer
	losses, err := swf.Write(&b, w)
	if err != nil {
		t.Fatal(err)
	}
	want := `; Version: 2.2
; Note: made of x.events
; UnixStartTime: 1704067200
; MaxJobs: 4
; MaxRecords: 4
; Queue: 1 normal
; Partition: 1 batch
; Partition: 2 gpu
; Note: user 2 is ann
; Note: user 3 is bob
    1        0     -1     30   -1     -1    -1    8    600    -1 -1   2  -1   1  1  1 -1 -1
    2        9     -1     60   -1     -1    -1    1    240    -1 -1   1  -1   2 -1  2  1 -1
    3        9     -1     60   -1     -1    -1    1    240    -1 -1   1  -1   2 -1  2  1 -1
    4       10     -1    300   -1     -1    -1    1    300  2048 -1   3  -1   3 -1  1 -1 -1
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	wantLosses := workload.Losses{
		"account": 1, "array": 1, "min_nodes": 1, "max_nodes": 1, "dependency": 1,
		"job IDs (numbered anew)": 3, "run_time_s (unlimited)": 1, "name (numbered anew)": 3,
		"partition (numbered anew)": 3, "qos (numbered anew)": 1, "user (numbered anew)": 2,
	}
	if diff := cmp.Diff(wantLosses, losses); diff != "" {
		t.Errorf("losses (-want +got)\n%s", diff)
	}
}

// records returns the lines of a log without its comments.
func records(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	for line := range bytes.Lines(text) {
		if line[0] != ';' {
			b.Write(line)
		}
	}
	return b.Bytes()
}

// TestRealSWF writes every log again, record by record as it was. It also writes the logs through
// a trace, which takes a minute for all of them. Without RMREPLAY_LONG_TESTS it does so only for
// the first jobs of each log.
func TestRealSWF(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(realdata.Path(t, "swf"), "*.swf.gz"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no logs: %v", err)
	}
	for _, path := range paths {
		w, err := formats.Open(path)
		if err != nil {
			t.Error(err)
			continue
		}
		want := records(t, unzip(t, path))
		if got := records(t, []byte(writeSWF(t, w))); !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes of records became %d others", path, len(want), len(got))
		}
		if os.Getenv("RMREPLAY_LONG_TESTS") == "" {
			w.Jobs, w.Unusable = w.Jobs.First(1000), nil
			want = records(t, []byte(writeSWF(t, w)))
		}
		if got := records(t, []byte(writeSWF(t, throughTrace(t, w)))); !bytes.Equal(got, want) {
			t.Errorf("%s: through a trace, %d bytes of records became %d others", path, len(want), len(got))
		}
	}
}

func unzip(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestRealKTH(t *testing.T) {
	w, err := formats.Open(realdata.Path(t, "swf/KTH-SP2-1996-2.1-cln.swf.gz"))
	if err != nil {
		t.Fatal(err)
	}
	users := make(map[string]bool)
	var last hpc.Time
	var sum, longest time.Duration
	for _, job := range w.Jobs.All() {
		users[job.User] = true
		wait := job.Recorded.Start.Sub(job.Submit)
		sum += wait / time.Duration(w.Jobs.Len())
		longest = max(longest, wait)
		last = max(last, job.Recorded.End)
	}
	if w.Jobs.Len() != 28475 || len(users) != 214 || len(w.Users) != 214 || w.MachineProcessors != 100 {
		t.Errorf("%d jobs, %d users (%d of them known), %d processors", w.Jobs.Len(), len(users), len(w.Users), w.MachineProcessors)
	}
	if diff := cmp.Diff(map[string]int{swf.RuleNoProcessors: 1}, w.Rules); diff != "" {
		t.Errorf("rules (-want +got)\n%s", diff)
	}
	days := func(d time.Duration) float64 { return math.Round(d.Hours()/24*100) / 100 }
	if makespan, mean, most := days(last.Sub(w.Jobs.Submit(0))), days(sum), days(longest); makespan != 332.93 || mean != 0.18 || most != 11.34 {
		t.Errorf("makespan %g d, mean wait %g d, longest wait %g d", makespan, mean, most)
	}
}

func BenchmarkRead(b *testing.B) {
	path := realdata.Path(b, "swf/LLNL-Thunder-2007-1.1-cln.swf.gz") // 121,039 records
	for b.Loop() {
		if _, err := formats.Open(path); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(smallSWF)
	f.Add("1 10 0 60 4 -1 -1 4 600 -1 1 12 3 7 1 1 -1 -1\n1 2 3\n2 5 -3 6.50 4 0.01 -1 4 60 -1 2 -1 -1 -1 0 0 1 -1\r\n; x\n")
	f.Add("\r\r\r\n0 0 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0")
	f.Add("0\n;UnixStartTime:\n;UnixStartTime:1\n0 0 0 0 0 0 0 1 0 0 0 0 0 0 0 0 0 0")
	f.Fuzz(func(t *testing.T, text string) {
		w, err := swf.Read(strings.NewReader(text), "fuzz", workload.ReadOptions{})
		if err != nil {
			return
		}
		if w.Rows.Lost() != 0 {
			t.Errorf("rows %+v, rules %v", w.Rows, w.Rules)
		}
		// The same jobs are read from the written log.
		once := writeSWF(t, w)
		again, err := swf.Read(strings.NewReader(once), "fuzz", workload.ReadOptions{})
		if err != nil {
			t.Fatalf("%v in\n%s", err, once)
		}
		if got := writeSWF(t, again); got != once {
			t.Errorf("(-want +got)\n%s", cmp.Diff(once, got))
		}
	})
}

// TestSWFNumbers checks that jobs are found by their numbers even if these are far apart. The
// memory for a log must not depend on the size of the numbers.
func TestSWFNumbers(t *testing.T) {
	var log strings.Builder
	for i, number := range []int64{7, 900_000_000_000, 3, 60_000, 900_000_000_000, -5, 130_000} {
		before := []int64{-1, 7, 900_000_000_000, 3, 60_000, 60_000, -5}[i]
		fmt.Fprintf(&log, "%d %d 0 10 1 -1 -1 1 20 -1 1 1 1 1 1 1 %d -1\n", number, i, before)
	}
	w, err := swf.Read(strings.NewReader(log.String()), "log", workload.ReadOptions{Lean: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, job := range w.Jobs.All() {
		got = append(got, job.ID+" "+job.Dependency)
		if o := w.Jobs.Origin(i); o != (workload.Origin{}) {
			t.Errorf("job %s has %v of its record", job.ID, o)
		}
	}
	want := []string{
		"7 ", "900000000000 afterany:7", "3 afterany:900000000000", "60000 afterany:3",
		"900000000000#5 afterany:60000", "-5 afterany:60000", "130000 ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("jobs: -want +got:\n%s", diff)
	}
}

func readEvents(t *testing.T, text string) *workload.Workload {
	t.Helper()
	w, err := events.Read(strings.NewReader(text), "x.events", workload.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestPartialExecutions checks that the parts of a checkpointed job are dropped if a record has the
// whole job, whatever the order of the records. Without such a record, the parts are jobs. A
// written log has the same records again.
func TestPartialExecutions(t *testing.T) {
	line := func(number, submit, runTime, status int) string {
		return fmt.Sprintf("%d %d 10 %d 4 -1 -1 4 600 -1 %d 1 1 1 1 1 -1 -1\n", number, submit, runTime, status)
	}
	whole, first, second, last := line(1, 0, 300, 1), line(1, 0, 100, 2), line(1, 160, 100, 2), line(1, 310, 100, 3)
	other, alone := line(2, 400, 50, 1), line(3, 500, 60, 4)
	for _, tt := range []struct {
		records []string
		jobs    []string // in the order of their submissions
		dropped int
	}{
		{[]string{whole, first, second, last, other}, []string{"1 5m0s", "2 50s"}, 3},
		{[]string{first, second, whole, last, other}, []string{"1 5m0s", "2 50s"}, 3},
		{[]string{first, second, last, whole, other, alone}, []string{"1 5m0s", "2 50s", "3 1m0s"}, 3},
		{[]string{first, other}, []string{"1 1m40s", "2 50s"}, 0},
		{[]string{first, second}, []string{"1 1m40s", "1#3 1m40s"}, 0},
	} {
		text := "; MaxProcs: 40\n" + strings.Join(tt.records, "")
		w := readSWF(t, text)
		var jobs []string
		for _, job := range w.Jobs.All() {
			jobs = append(jobs, fmt.Sprint(job.ID, " ", job.RunTime))
		}
		if diff := cmp.Diff(tt.jobs, jobs); diff != "" {
			t.Errorf("%q: jobs (-want +got)\n%s", text, diff)
		}
		if w.Rules[swf.RulePartial] != tt.dropped || w.Rows.Read != len(tt.records) || w.Rows.Lost() != 0 ||
			w.Rules[workload.RuleRenamed] != strings.Count(strings.Join(jobs, ""), "#") {
			t.Errorf("%q: rules %v, rows %+v", text, w.Rules, w.Rows)
		}
		if again := readSWF(t, writeSWF(t, w)); !cmp.Equal(w.Unusable, again.Unusable) || again.Jobs.Len() != w.Jobs.Len() {
			t.Errorf("%q: written as\n%s", text, writeSWF(t, w))
		}
		_, err := swf.Read(strings.NewReader(text), "x.swf", workload.ReadOptions{Strict: true})
		if tt.dropped > 0 && tt.records[0] == whole && (err == nil || !strings.Contains(err.Error(), "(rule "+swf.RulePartial+")")) {
			t.Errorf("%q: a strict reader says %v", text, err)
		}
	}
}
