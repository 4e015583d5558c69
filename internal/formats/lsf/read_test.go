package lsf

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// record is what differs between records in the tests.
type record struct {
	job, procs, submit, start, end, status, exit, index, reason, limit int64
	hosts, name, req, depend, command                                  string
}

var usual = record{job: 41, procs: 8, submit: 1709280000, start: 1709280060, end: 1709280120, status: 64, limit: 3600, hosts: `2 "4*n1" "4*n2"`, name: "run", req: "span[ptile=4] rusage[mem=4000,ngpus_physical=2.00]", command: "sleep"}

// String writes a record of version 10.1, in which each host has six fields of usage.
func (r record) String() string {
	quote := func(text string) string { return `"` + strings.ReplaceAll(text, `"`, `""`) + `"` }
	return strings.Join([]string{
		fmt.Sprintf(`"JOB_FINISH" "10.1" %d %d 501 33554432 %d %d 0 0 %d "ann" "normal" %s %s "" "login" "/home/ann" "" "out" "err" "1.41" 0 %s`,
			r.end, r.job, r.procs, r.submit, r.start, quote(r.req), quote(r.depend), r.hosts),
		fmt.Sprintf(`%d 60.0 %s %s`, r.status, quote(r.name), quote(r.command)),
		strings.Repeat("-1 ", rusageFields-1) + "-1",
		fmt.Sprintf(`"" "proj" %d %d "" "" %d 2048 0 "" "" "" "" 0 "" %d "" -1 "" "" "" "" -1 "" "" 5136 "" 0 "" ""`, r.exit, r.procs, r.index, r.reason),
		fmt.Sprintf(`1 1032 "0" 2 n1 100 0 5 5 0 n2 100 0 5 5 0 %d 0 2048 "select[type == any] " "" -1`, r.limit),
	}, " ") + "\n"
}

func with(change func(*record)) string {
	r := usual
	change(&r)
	return r.String()
}

func parse(t *testing.T, text string) *workload.Workload {
	t.Helper()
	w, err := Format.Read(strings.NewReader(text), "lsb.acct", workload.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestRead(t *testing.T) {
	w := parse(t, usual.String()+`"EVENT_ADRSV_FINISH" "10.1" 1 2 3`+"\n# comment\n")
	j, r := w.Jobs.At(0), w.Jobs.At(0).Recorded
	if w.Jobs.Len() != 1 || j.ID != "41" || j.User != "ann" || j.Partition != "normal" || j.Account != "proj" || j.Name != "run" || j.TimeLimit != time.Hour {
		t.Errorf("%+v", j)
	}
	if j.Tasks != 8 || j.MinNodes != 2 || j.MaxNodes != 2 || j.TasksPerNode != 4 || j.MemPerNode != 4000 || j.GRES != "gpu:2" {
		t.Errorf("%+v", j.Request)
	}
	if r.State != hpc.Completed || r.Nodes != "n[1-2]" || r.Processors != 8 || j.RunTime != time.Minute || w.Rules[finished.NoteOtherRecord] != 1 {
		t.Errorf("%+v %v", r, w.Rules)
	}
}

func TestFates(t *testing.T) {
	for text, check := range map[string]func(j *hpc.Job) bool{
		with(func(r *record) { r.status, r.exit = 32, 3<<8 }):                  func(j *hpc.Job) bool { return j.ExitCode == 3 && j.Recorded.State == hpc.Failed },
		with(func(r *record) { r.status, r.exit = 32, 9 }):                     func(j *hpc.Job) bool { return j.ExitCode == 137 },
		with(func(r *record) { r.status, r.reason = 32, termRunLimit }):        func(j *hpc.Job) bool { return j.Recorded.State == hpc.TimedOut && j.RunTime == hpc.Unlimited },
		with(func(r *record) { r.status, r.reason = 32, termOwner }):           func(j *hpc.Job) bool { return j.Recorded.State == hpc.Cancelled && j.RunTime == time.Minute },
		with(func(r *record) { r.status, r.start, r.hosts = 32, 0, "0" }):      func(j *hpc.Job) bool { return j.CancelAfter == 2*time.Minute },
		with(func(r *record) { r.limit = -1 }):                                 func(j *hpc.Job) bool { return j.TimeLimit == 0 },
		with(func(r *record) { r.depend = "done(40) && ended(39)" }):           func(j *hpc.Job) bool { return j.Dependency == "" }, // both had ended
		with(func(r *record) { r.command = "echo \"a b\"\necho \"c" }):         func(j *hpc.Job) bool { return j.Name == "run" && j.TimeLimit == time.Hour },
		with(func(r *record) { r.hosts = `4 "n1" "n1" "n3" "n1"` }):            func(j *hpc.Job) bool { return j.Recorded.Nodes == "n[1,3]" && j.Recorded.Processors == 4 },
		usual.String()[:strings.Index(usual.String(), ` "" "" 0 2048`)] + "\n": func(j *hpc.Job) bool { return j.Tasks == 8 && j.Account == "proj" }, // of an old version
	} {
		w := parse(t, text)
		if j := w.Jobs.At(0); w.Jobs.Len() != 1 || !check(j) || len(w.Unusable) > 0 {
			t.Errorf("%s\n%+v\n%+v %v", text, j, j.Recorded, w.Rules)
		}
	}
	w := parse(t, usual.String()+with(func(r *record) { r.job, r.submit, r.depend = 42, usual.submit+1, `done(41)` })+
		with(func(r *record) { r.job, r.submit, r.depend = 43, usual.submit+2, `done("x*") || exit(3,==1)` }))
	if w.Jobs.At(1).Dependency != "afterok:41" || w.Rules[NoteDependency] != 1 {
		t.Errorf("%+v %v", w.Jobs.At(1), w.Rules)
	}
	w = parse(t, with(func(r *record) { r.index, r.name = 1, "a[1-2]" })+with(func(r *record) { r.index, r.name = 2, "a[1-2]" }))
	if j := w.Jobs.At(0); w.Jobs.Len() != 1 || j.Array != "1-2" || j.Name != "a" {
		t.Errorf("array: %+v", j)
	}
}

func TestDamaged(t *testing.T) {
	for _, text := range []string{
		"hello\n", `"JOB_FINISH" "10.1" 5` + "\n", strings.Replace(usual.String(), " 41 ", " x ", 1), strings.Replace(usual.String(), `"ann"`, `"ann`, 1),
		strings.Replace(usual.String(), `2 "4*n1"`, `999999999 "4*n1"`, 1),
	} {
		w := parse(t, usual.String()+text+with(func(r *record) { r.job = 50 }))
		if len(w.Unusable) == 0 || w.Rules[finished.RuleNoRecord] == 0 {
			t.Errorf("%q: %v", text, w.Rules)
		}
	}
	r := New("x", workload.ReadOptions{Strict: true})
	if err := r.Read(strings.NewReader(usual.String()+strings.Replace(usual.String(), " 41 ", " x ", 1)), "acct"); err == nil ||
		!strings.Contains(err.Error(), `reading lsb.acct: acct:2: field 4, job, "x": not a number`) {
		t.Errorf("strict: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(usual.String())
	f.Add(with(func(r *record) { r.command, r.index, r.depend = "a\n\"b", 3, "done(1)&&exit(2)" }))
	f.Fuzz(func(t *testing.T, text string) {
		w, err := Format.Read(strings.NewReader(text), "fuzz", workload.ReadOptions{})
		if err != nil {
			return
		}
		for _, job := range w.Jobs.All() {
			if job.Submit <= 0 || job.ID == "" || job.RunTime < 0 || job.CancelAfter < 0 || job.TimeLimit < 0 || job.MemPerNode < 0 || workload.CPUs(&job.Request) < 1 {
				t.Errorf("job %+v", job)
			}
		}
	})
}
