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

// record has the fields that differ between the records of the tests.
type record struct {
	job, procs, submit, start, end, status, exit, index, reason, limit int64
	hosts, name, req, depend, command                                  string
	effective, ranges                                                  string // after the run limit; "1 3 9 2" are indices
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
		fmt.Sprintf(`1 1032 "0" 2 n1 100 0 5 5 0 n2 100 0 5 5 0 %d 0 2048 "select[type == any] %s" "" -1`, r.limit, r.effective),
		`"" -1 0 "" 0 0 "" 60 "" 1 "7" 4 "" 0.0 0.00 0.00 0.00 0.00 1 "n1" -1 ` + r.ranges,
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
		with(func(r *record) { r.depend = "done(40) && ended(39)" }):           func(j *hpc.Job) bool { return j.Dependency == "" }, // both jobs had ended
		with(func(r *record) { r.command = "echo \"a b\"\necho \"c" }):         func(j *hpc.Job) bool { return j.Name == "run" && j.TimeLimit == time.Hour },
		with(func(r *record) { r.hosts = `4 "n1" "n1" "n3" "n1"` }):            func(j *hpc.Job) bool { return j.Recorded.Nodes == "n[1,3]" && j.Recorded.Processors == 4 },
		usual.String()[:strings.Index(usual.String(), ` "" "" 0 2048`)] + "\n": func(j *hpc.Job) bool { return j.Tasks == 8 && j.Account == "proj" }, // an old version
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

// TestRequirements reads resource requirements in the notation of versions from 10.1 on.
func TestRequirements(t *testing.T) {
	for req, check := range map[string]func(j *hpc.Job) bool{
		"rusage[mem=4GB]":                          func(j *hpc.Job) bool { return j.MemPerNode == 4096 },
		"rusage[mem=512mb/host:duration=10]":       func(j *hpc.Job) bool { return j.MemPerNode == 512 },
		"rusage[mem=1.5G/task,ngpus_physical=1]":   func(j *hpc.Job) bool { return j.MemPerCPU == 1536 && j.GRES == "gpu:1" },
		"rusage[mem=8000/job]":                     func(j *hpc.Job) bool { return j.MemPerNode == 4000 },
		"rusage[ngpus_physical=2.00/host]":         func(j *hpc.Job) bool { return j.GRES == "gpu:2" },
		"rusage[ngpus_physical=1.00/task]":         func(j *hpc.Job) bool { return j.GPUs == "8" },
		"rusage[ngpus_physical=3/job]":             func(j *hpc.Job) bool { return j.GPUs == "3" },
		"rusage[mem=(400 300):duration=(60 10)]":   func(j *hpc.Job) bool { return j.MemPerNode == 0 },
		"rusage[mem=4x] span[ptile=ıG] rusage[=/]": func(j *hpc.Job) bool { return j.MemPerNode == 0 && j.TasksPerNode == 0 },
	} {
		if j := parse(t, with(func(r *record) { r.req = req })).Jobs.At(0); !check(j) {
			t.Errorf("%s: %+v", req, j.Request)
		}
	}
	// LSF records the options of bsub -gpu only in the effective requirement.
	j := parse(t, with(func(r *record) { r.req, r.effective = "", "rusage[ngpus_physical=2.00]" })).Jobs.At(0)
	if j.GRES != "gpu:2" || j.TimeLimit != time.Hour {
		t.Errorf("effective requirement: %+v", j.Request)
	}
}

// Several tasks of an array that ended before they started have one record.
func TestRanges(t *testing.T) {
	task := func(index int64) string { return with(func(r *record) { r.index, r.name = index, "a[1-9]" }) }
	waiting := func(ranges string) string {
		return with(func(r *record) {
			r.index, r.name, r.status, r.start, r.hosts, r.reason, r.ranges = wholeRanges, "a[1-9]", 32, 0, "0", termOwner, ranges
		})
	}
	w := parse(t, task(1)+waiting("2 3 5 1 7 9 2"))
	if w.Jobs.Len() != 2 || w.Jobs.At(1).Array != "1" || w.Jobs.At(0).Array != "3-5,7,9" || w.Jobs.At(0).Recorded.State != hpc.Cancelled || w.Jobs.At(0).Name != "a" {
		t.Errorf("%d jobs: %+v\n%+v", w.Jobs.Len(), w.Jobs.At(0), w.Jobs.At(1))
	}
	for _, ranges := range []string{"0", "1 5", "1 9 3 1", "1 0 3 1", "99999999"} {
		w := parse(t, usual.String()+waiting(ranges))
		if w.Rules[finished.RuleNoRecord] != 1 {
			t.Errorf("%q: %v", ranges, w.Rules)
		}
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
	f.Add(with(func(r *record) {
		r.index, r.ranges, r.effective = wholeRanges, "1 3 9 2", "rusage[mem=4G/task,ngpus=1/job]"
	}))
	f.Add(with(func(r *record) { r.command, r.index, r.depend = "a\n\"b", 3, "done(1)&&exit(2)" }))
	f.Fuzz(func(t *testing.T, text string) {
		w, err := Format.Read(strings.NewReader(text), "fuzz", workload.ReadOptions{})
		if err != nil {
			return
		}
		if w.Rows.Lost() != 0 {
			t.Errorf("rows %+v, rules %v", w.Rows, w.Rules)
		}
		for _, job := range w.Jobs.All() {
			if job.Submit <= 0 || job.ID == "" || job.RunTime < 0 || job.CancelAfter < 0 || job.TimeLimit < 0 || job.MemPerNode < 0 || workload.CPUs(&job.Request) < 1 {
				t.Errorf("job %+v", job)
			}
		}
	})
}
