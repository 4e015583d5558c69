package gridengine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// record returns a record of Grid Engine 6.2, with 45 fields between colons.
func record(job, task int, times [3]int64, failed, exit int, pe string, slots int, category, peTask string) string {
	return fmt.Sprintf("all.q:n1:phys:ann:run:%d:sge:0:%d:%d:%d:%d:%d:60:1.0:0.5:100:0:0:0:0:1:0:0:0:0:0:0:0:1:1:proj:defaultdepartment:%s:%d:%d:1.5:0.1:0.0:%s:0.0:%s:1000.0:0:0\n",
		job, times[0], times[1], times[2], failed, exit, pe, slots, task, category, peTask)
}

var ran = [3]int64{1709280000, 1709280060, 1709280120}

func readAll(t *testing.T, text string) *workload.Workload {
	t.Helper()
	w, err := Format.Read(strings.NewReader(text), "accounting", workload.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestRead(t *testing.T) {
	category := "-u ann -l h_rt=3600,h_vmem=2G,gpu=1 -pe smp 4 -P proj"
	w := readAll(t, "# comment\n\n"+record(7, 0, ran, 0, 0, "smp", 4, category, "NONE"))
	j := w.Jobs.At(0)
	if j.ID != "7" || j.User != "ann" || j.Group != "phys" || j.Account != "proj" || j.Partition != "all.q" || j.Name != "run" || j.TimeLimit != time.Hour {
		t.Errorf("%+v", j)
	}
	if j.Tasks != 4 || j.MinNodes != 1 || j.MemPerCPU != 2048 || j.GPUs != "1" || j.RunTime != time.Minute || j.Recorded.Nodes != "n1" || j.Recorded.State != hpc.Completed {
		t.Errorf("%+v %+v", j.Request, j.Recorded)
	}
}

func TestKinds(t *testing.T) {
	ms := [3]int64{ran[0] * 1000, ran[1] * 1000, ran[2]*1000 + 500}
	for text, check := range map[string]func(w *workload.Workload, j *hpc.Job) bool{
		record(7, 0, ms, 0, 0, "NONE", 1, "-l h_rt=3600", "NONE"): func(_ *workload.Workload, j *hpc.Job) bool {
			return j.RunTime == 60500*time.Millisecond && j.TimeLimit == time.Hour
		},
		record(7, 0, ran, 0, 0, "mpi", 16, "", "NONE") + record(7, 0, ran, 0, 0, "mpi", 1, "", "1.n2"): func(w *workload.Workload, j *hpc.Job) bool {
			return w.Jobs.Len() == 1 && j.Tasks == 16 && j.MinNodes == 0 && j.Recorded.Nodes == "" && w.Rules[NoteTask] == 1 && w.Rules[NoteNodesUnknown] == 1
		},
		record(7, 1, ran, 0, 0, "NONE", 1, "", "NONE") + record(7, 2, ran, 0, 0, "NONE", 1, "", "NONE"): func(w *workload.Workload, j *hpc.Job) bool {
			return w.Jobs.Len() == 1 && j.Array == "1-2"
		},
		record(7, 0, ran, 100, 137, "NONE", 1, "-l h_rt=60", "NONE"): func(_ *workload.Workload, j *hpc.Job) bool {
			return j.Recorded.State == hpc.TimedOut && j.RunTime == hpc.Unlimited
		},
		record(7, 0, ran, 100, 137, "NONE", 1, "-l h_rt=600", "NONE"): func(_ *workload.Workload, j *hpc.Job) bool {
			return j.Recorded.State == hpc.Cancelled && j.RunTime == time.Minute
		},
		record(7, 0, ran, 0, 2, "NONE", 1, "", "NONE"): func(_ *workload.Workload, j *hpc.Job) bool { return j.ExitCode == 2 && j.Recorded.State == hpc.Failed },
		record(7, 0, [3]int64{ran[0], 0, ran[0] + 9}, 1, 0, "NONE", 1, "", "NONE"): func(_ *workload.Workload, j *hpc.Job) bool {
			return j.CancelAfter == 9*time.Second && j.Recorded.State == hpc.Cancelled
		},
		record(7, 0, ran, failedRerun, 1, "NONE", 1, "", "NONE") + record(7, 0, [3]int64{ran[0], ran[2], ran[2] + 5}, 0, 0, "NONE", 1, "", "NONE"): func(w *workload.Workload, j *hpc.Job) bool {
			return w.Jobs.Len() == 1 && j.RunTime == 5*time.Second && len(j.Recorded.LostRuns) == 1
		},
	} {
		if w := readAll(t, text); !check(w, w.Jobs.At(0)) {
			t.Errorf("%s%+v\n%+v %v", text, w.Jobs.At(0), w.Jobs.At(0).Recorded, w.Rules)
		}
	}
}

// TestColons reads requests with colons, which also separate the fields.
func TestColons(t *testing.T) {
	for category, limit := range map[string]time.Duration{
		"-l cpu=24:00:00": 0, "-l h_rt=24:30:15 -pe smp 1": 24*time.Hour + 30*time.Minute + 15*time.Second, "-l h_rt=1:30,mem=4G -q a,b": 90 * time.Second,
	} {
		for _, task := range []string{"NONE", ""} {
			w := readAll(t, record(7, 0, ran, 0, 0, "NONE", 1, category, task))
			if j := w.Jobs.At(0); w.Jobs.Len() != 1 || j.TimeLimit != limit || len(w.Rules) > 0 {
				t.Errorf("%s, task %q: %+v %v", category, task, j, w.Rules)
			}
		}
		if w := readAll(t, record(7, 0, ran, 0, 0, "NONE", 1, "", "NONE")+record(7, 0, ran, 0, 0, "NONE", 1, category, "1.n2")); w.Rules[NoteTask] != 1 {
			t.Errorf("%s, of a parallel task: %v", category, w.Rules)
		}
	}
}

// jsonRecord returns a record of Open Cluster Scheduler 9, whose times are in microseconds.
func jsonRecord(job int, more string) string {
	return fmt.Sprintf(`{"job_number":%d,"task_number":0,"start_time":1709280060000000,"end_time":1709280120500000,"owner":"ann","group":"phys","account":"sge","qname":"all.q","hostname":"n1","department":"d","slots":4,"job_name":"a:b","priority":0,"submission_time":1709280000000000,"submit_cmd_line":"qsub","failed":0,"exit_status":0,"usage":{"rusage":{"ru_wallclock":60}}%s}`+"\n", job, more)
}

func TestJSON(t *testing.T) {
	text := jsonRecord(7, `,"category":"-l h_rt=3600,gpu=1 -pe smp 4"`) + jsonRecord(8, `,"category":"-pe mpi 4","arid":12`) + jsonRecord(8, `,"category":"-pe mpi 4","pe_task_id":"1.n2"`)
	if recognize([]byte(text)) != workload.Sure {
		t.Error("not recognized")
	}
	w := readAll(t, text)
	j, mpi := w.Jobs.At(0), w.Jobs.At(1)
	if w.Jobs.Len() != 2 || j.ID != "7" || j.Name != "a:b" || j.User != "ann" || j.Partition != "all.q" || j.Tasks != 4 || j.MinNodes != 1 || j.GPUs != "1" || j.TimeLimit != time.Hour || j.RunTime != 60500*time.Millisecond {
		t.Errorf("%+v", j)
	}
	if mpi.MinNodes != 0 || mpi.Reservation != "12" || w.Rules[NoteTask] != 1 || w.Rules[NoteNodesUnknown] != 1 {
		t.Errorf("%+v %v", mpi, w.Rules)
	}
	for _, text := range []string{"{x\n", "{\"job_number\":9}\n", strings.Replace(jsonRecord(9, ""), `:4,`, `:"x",`, 1)} {
		if w := readAll(t, jsonRecord(1, "")+text); w.Rules[finished.RuleNoRecord] != 1 {
			t.Errorf("%q: %v", text, w.Rules)
		}
	}
}

func TestDamaged(t *testing.T) {
	good := record(1, 0, ran, 0, 0, "NONE", 1, "", "NONE")
	for text, rule := range map[string]string{
		"a:b:c\n": finished.RuleNoRecord,
		strings.Replace(record(2, 0, ran, 0, 0, "NONE", 1, "", "NONE"), ":2:sge", ":x:sge", 1): finished.RuleNoRecord,
		record(2, 0, [3]int64{-1, 0, 0}, 0, 0, "NONE", 1, "", "NONE"):                          finished.RuleNoRecord,
		record(2, 0, [3]int64{}, 0, 0, "NONE", 1, "", "NONE"):                                  finished.RuleNoSubmit,
		record(2, 0, ran, 0, 0, "NONE", 1, "-l h_rt=soon", "NONE"):                             finished.RuleBadValue,
		record(1, 0, ran, 0, 0, "NONE", 1, "", "NONE"):                                         finished.RuleDuplicate,
	} {
		if w := readAll(t, good+text); w.Rules[rule] != 1 {
			t.Errorf("%q: %v", text, w.Rules)
		}
	}
	err := New("x", workload.ReadOptions{Strict: true}).Read(strings.NewReader(good+"a:b:c\n"), "acct")
	if err == nil || !strings.Contains(err.Error(), "reading Grid Engine accounting: acct:2: 3 fields (want at least 42)") {
		t.Errorf("strict: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(record(7, 0, ran, 0, 0, "smp", 4, "-l h_rt=3600,h_vmem=2.5g,gpu=1 -pe smp 4", "NONE"))
	f.Add(record(7, 0, ran, 0, 0, "smp", 4, "-l h_rt=1:30:00", "") + jsonRecord(7, `,"category":"-pe mpi 4","arid":12`))
	f.Add(record(7, 3, ran, 100, 137, "mpi", 400, "-l h_rt=INFINITY", "NONE") + record(7, 3, ran, 25, 137, "mpi", 1, "", "1.n"))
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
