package gwf

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// record returns a record of 29 fields.
func record(id string, submit, wait, run, got, asked, limit, status int) string {
	return fmt.Sprintf("%s %d %d %d %d -1 -1 %d %d 2048 %d U1 G2 X3 Q4 P5 S6 S7 UNITARY -1 -1 -1 -1 -1 -1 -1 -1 VO8 -1\n", id, submit, wait, run, got, asked, limit, status)
}

func parse(t *testing.T, text string) *workload.Workload {
	t.Helper()
	w, err := Format.Read(strings.NewReader(text), "x.gwf", workload.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestRead(t *testing.T) {
	w := parse(t, "# GWF\n"+record("1", 1100000000, 60, 120, 4, 8, 600, 1)+record("2", 1100000001, -1, -1, -1, 2, -1, 5)+record("3", 1100000002, 0, 5, 1, -1, -1, 0))
	a, b, c := w.Jobs.At(0), w.Jobs.At(1), w.Jobs.At(2)
	if a.ID != "1" || a.User != "U1" || a.Group != "G2" || a.Name != "X3" || a.QOS != "Q4" || a.Partition != "P5" || a.Tasks != 8 || a.TimeLimit != 10*time.Minute || a.MemPerCPU != 2 {
		t.Errorf("%+v", a)
	}
	if a.Submit.UnixSeconds() != 1100000000 || a.RunTime != 2*time.Minute || a.Recorded.Start.Sub(a.Submit) != time.Minute || a.Recorded.Processors != 4 {
		t.Errorf("%+v", a.Recorded)
	}
	if b.Recorded.State != hpc.Cancelled || b.RunTime != hpc.Unlimited || c.Recorded.State != hpc.Failed || c.ExitCode != 1 || c.Tasks != 1 {
		t.Errorf("%+v %+v", b, c)
	}
	relative := record("1", 10, 0, 1, 1, 1, -1, 1)
	if at := parse(t, relative).Jobs.Submit(0); at != workload.DefaultEpoch.Add(10*time.Second) {
		t.Errorf("relative: %s", at)
	}
	if at := parse(t, "# UnixStartTime: 1100000000\n"+relative).Jobs.Submit(0); at.UnixSeconds() != 1100000010 {
		t.Errorf("relative to the header: %s", at)
	}
}

func TestDamaged(t *testing.T) {
	good := record("1", 10, 0, 1, 1, 1, -1, 1)
	for text, rule := range map[string]string{
		"1 2 3\n": finished.RuleNoRecord,
		strings.Replace(record("2", 10, 0, 1, 1, 1, -1, 1), " 10 ", " ten ", 1): finished.RuleNoRecord,
		record("2", -1, 0, 1, 1, 1, -1, 1):                                      finished.RuleNoSubmit,
		record("2", 10, 0, 1, -1, -1, -1, 1):                                    finished.RuleNoSize,
		record("2", 10, -1, -1, 1, 1, -1, 1):                                    finished.NoteNeverStarted,
		good:                                                                    finished.RuleDuplicate,
	} {
		if w := parse(t, good+text); w.Rules[rule] != 1 {
			t.Errorf("%q: %v", text, w.Rules)
		}
	}
}

// TestAbsurdMemory: a request for more memory than any node has, as in a log that gives bytes for
// KiB, is dropped and counted.
func TestAbsurdMemory(t *testing.T) {
	fields := strings.Fields(record("1", 10, 0, 1, 1, 1, -1, 1))
	fields[fieldMemory] = "68719476736"
	w := parse(t, strings.Join(fields, " ")+"\n")
	if j := w.Jobs.At(0); j.MemPerCPU != 0 || w.Rules[RuleAbsurdMemory] != 1 {
		t.Errorf("%+v, %v", j.Request, w.Rules)
	}
	fields[fieldMemory] = "2048"
	if j := parse(t, strings.Join(fields, " ")+"\n").Jobs.At(0); j.MemPerCPU != 2 {
		t.Errorf("%+v", j.Request)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("# UnixStartTime: 1100000000\n" + record("1", 10, 0, 1, 1, 1, -1, 1) + record("x", 1100000000, -1, 3, 1, 4, 60, 5))
	f.Fuzz(func(t *testing.T, text string) {
		w, err := Format.Read(strings.NewReader(text), "fuzz", workload.ReadOptions{})
		if err != nil {
			return
		}
		if w.Rows.Lost() != 0 {
			t.Errorf("rows %+v, rules %v", w.Rows, w.Rules)
		}
		for _, job := range w.Jobs.All() {
			if job.Submit <= 0 || job.ID == "" || job.RunTime < 0 || job.CancelAfter < 0 || job.TimeLimit < 0 || job.MemPerCPU < 0 || workload.CPUs(&job.Request) < 1 {
				t.Errorf("job %+v", job)
			}
		}
	})
}

// TestPartialExecutions checks that parts of a job are not jobs if a record has the whole job.
func TestPartialExecutions(t *testing.T) {
	whole, part, alone := record("1", 10, 0, 300, 1, 1, -1, 1), record("1", 10, 0, 100, 1, 1, -1, 2), record("2", 20, 0, 50, 1, 1, -1, 3)
	for _, text := range []string{whole + part + part + alone, part + part + alone + whole} {
		w, err := Format.Read(strings.NewReader(text), "x.gwf", workload.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if w.Jobs.Len() != 2 || w.Jobs.At(0).RunTime != 5*time.Minute || w.Rules[RulePartial] != 2 || w.Rows.Read != 4 || w.Rows.Lost() != 0 {
			t.Errorf("%d jobs, rules %v, rows %+v", w.Jobs.Len(), w.Rules, w.Rows)
		}
	}
}
