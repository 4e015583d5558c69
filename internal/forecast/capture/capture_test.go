package capture

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/experiment"
	"rmreplay/internal/forecast"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/associations"
)

// TestRealCapture reads what a slurmctld 22.05 printed in a replay of 500 jobs.
func TestRealCapture(t *testing.T) {
	q, err := Read("testdata/22.05")
	if err != nil {
		t.Fatal(err)
	}
	running := 0
	for _, job := range q.Workload.Jobs.All() {
		if !q.Workload.Preset(job) {
			continue
		}
		running++
		if job.ID == "1052" && (job.Recorded.Nodes != "b1" || job.MemPerNode != 500000 || job.Tasks != 12 || job.Recorded.Processors != 12) {
			t.Errorf("job 1052: %+v, %+v", job.Request, job.Recorded)
		}
	}
	if running != 2 || len(q.Pending()) != 25 || len(q.Estimates) != 22 || len(q.Workload.Usage) != 9 {
		t.Errorf("%d running, %d pending, %d estimates, usage %v", running, len(q.Pending()), len(q.Estimates), q.Workload.Usage)
	}
	want := hpc.Unix(time.Date(2024, 1, 1, 3, 53, 0, 0, time.UTC).Unix())
	if got := q.Estimates[forecast.Key{Job: "1045", Task: -1}]; got != want {
		t.Errorf("job 1045 is expected at %s, want %s", got, want)
	}
	first := q.Workload.Jobs.At(0)
	if first.ID != "1045" || first.GRES != "gpu:2" || first.Tasks != 2 || first.MemPerCPU != 2800 || first.TimeLimit != 27*time.Minute || first.User != "user2" || first.Account != "account1" {
		t.Errorf("%+v", first)
	}
}

// write writes a capture with these jobs.
func write(t *testing.T, jobs string, more map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		indexFile: `{"rmreplay_capture":1,"at":"2024-03-05T12:00:00Z","time_zone":"UTC"}`, jobsFile: jobs, nodesFile: "NodeName=n1 State=IDLE\n",
	}
	for name, text := range more {
		files[name] = text
	}
	for name, text := range files {
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A pending array with a limit (two tasks, so two nodes at most), a running task, a held job, and a
// job whose name imitates fields, as 24.11 prints them.
const newer = `JobId=20 ArrayJobId=20 ArrayTaskId=3-6%2 JobName=sweep UserId=ann(1001) GroupId=staff(100) MCS_label=N/A Priority=500 Nice=0 Account=phys QOS=normal JobState=PENDING Reason=JobArrayTaskLimit Dependency=(null) Requeue=1 Restarts=0 TimeLimit=01:00:00 TimeMin=N/A SubmitTime=2024-03-05T11:00:00 EligibleTime=2024-03-05T11:00:01 StartTime=2024-03-05T13:00:00 EndTime=2024-03-05T14:00:00 Partition=main AllocNode:Sid=login:1 ReqNodeList=(null) ExcNodeList=n9 NodeList= NumNodes=2-4 NumCPUs=8 NumTasks=2 CPUs/Task=4 ReqB:S:C:T=0:0:*:* ReqTRES=cpu=8,mem=8G,node=2,billing=8 AllocTRES=(null) NtasksPerN:B:S:C=1:0:*:* MinCPUsNode=4 MinMemoryNode=4G MinTmpDiskNode=0 Features=ib Reservation=(null) OverSubscribe=NO Contiguous=0 Licenses=(null) Command=/home/ann/x NodeList=spoofed WorkDir=/home StdOut=/dev/null TresPerNode=gres/gpu:2
JobId=21 ArrayJobId=20 ArrayTaskId=2 JobName=sweep UserId=ann(1001) GroupId=staff(100) Priority=500 Account=phys QOS=normal JobState=RUNNING Reason=None Dependency=(null) TimeLimit=01:00:00 SubmitTime=2024-03-05T11:00:00 EligibleTime=2024-03-05T11:00:01 StartTime=2024-03-05T11:30:00 EndTime=2024-03-05T12:30:00 Partition=main NodeList=n[1-2] NumNodes=2 NumCPUs=8 NumTasks=2 CPUs/Task=4 OverSubscribe=OK Command=x
JobId=22 JobName=a b UserId=root(0) c UserId=bob(1002) GroupId=staff(100) Priority=0 Account=chem QOS=normal JobState=PENDING Reason=JobHeldUser Dependency=afterok:20_*(unfulfilled),afterany:21(unfulfilled) TimeLimit=UNLIMITED SubmitTime=2024-03-05T11:10:00 EligibleTime=Unknown StartTime=Unknown EndTime=Unknown Partition=main NodeList= NumNodes=1 NumCPUs=1 NumTasks=1 CPUs/Task=1 OverSubscribe=OK Command=(null)
JobId=19 JobName=gone UserId=bob(1002) GroupId=staff(100) JobState=COMPLETED SubmitTime=2024-03-05T10:00:00 StartTime=2024-03-05T10:00:00
`

func TestNewerRelease(t *testing.T) {
	q, err := Read(write(t, newer, map[string]string{
		partitionsFile: "PartitionName=main State=UP\nPartitionName=old State=DOWN\n",
		historyFile:    "JobID|User|Submit|Start|End|State|Timelimit|AllocCPUS|NNodes|NodeList|UID|GID\n5|ann|2024-03-05T09:00:00|2024-03-05T09:00:00|2024-03-05T09:30:00|COMPLETED|01:00:00|4|1|n1|1001|100\n",
	}))
	if err != nil {
		t.Fatal(err)
	}
	jobs := map[string]*hpc.Job{}
	for _, job := range q.Workload.Jobs.List() {
		jobs[job.ID] = job
	}
	array, task, held := jobs["20"], jobs["20_2"], jobs["22"]
	if len(jobs) != 3 || array == nil || task == nil || held == nil {
		t.Fatalf("jobs %v", jobs)
	}
	if array.Array != "3-6%2" || array.MinNodes != 2 || array.MaxNodes != 2 || array.CPUsPerTask != 4 || array.MemPerNode != 4096 ||
		array.GRES != "gpu:2" || array.Exclude != "n9" || array.Exclusive != "node" || array.Constraint != "ib" || array.NodeList != "" {
		t.Errorf("the array: %+v", array.Request)
	}
	if !q.Workload.Preset(task) || task.Recorded.Nodes != "n[1-2]" {
		t.Errorf("the task: %+v", task.Recorded)
	}
	if !held.Hold || held.User != "bob" || held.Name != "a b" || held.Dependency == "" {
		t.Errorf("the held job: %+v", held.Request)
	}
	if len(q.Pending()) != 5 || len(q.History.List) != 1 || len(q.Notes) != 0 || len(q.Estimates) != 1 {
		t.Errorf("pending %v, history %d, notes %v, estimates %v", q.Pending(), len(q.History.List), q.Notes, q.Estimates)
	}
}

func TestHostileCaptures(t *testing.T) {
	job := func(change string, to string) string { return strings.Replace(newer, change, to, 1) }
	for want, dir := range map[string]string{
		"jobs.txt":                                               write(t, "", nil),
		`capture.json: "rmreplay_capture" is`:                    write(t, newer, map[string]string{indexFile: `{"at":"2024-03-05T12:00:00Z"}`}),
		`capture.json: "at" is`:                                  write(t, newer, map[string]string{indexFile: `{"rmreplay_capture":1}`}),
		`capture.json: "time_zone"`:                              write(t, newer, map[string]string{indexFile: `{"rmreplay_capture":1,"at":"2024-03-05T12:00:00Z","time_zone":"Mars"}`}),
		"jobs.txt:1: \"slurm_load_jobs":                          write(t, "slurm_load_jobs error: Unable to contact slurm controller\n", nil),
		"jobs.txt:1: job 5: the job has no JobState":             write(t, "JobId=5 JobName=x UserId=u(1)\n", nil),
		"want the capture's time zone":                           write(t, job("SubmitTime=2024-03-05T11:00:00", "SubmitTime=2024-03-05T12:30:00"), nil),
		"a node without State=":                                  write(t, newer, map[string]string{nodesFile: "NodeName=n1\n"}),
		"nodes.txt: empty (want the command's output":            write(t, newer, map[string]string{nodesFile: "\n"}),
		"jobs.txt: empty (want the output of scontrol show job)": write(t, "\n", nil),
	} {
		if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestUnreadableJobs checks that a job that cannot be read is left out, that a note names it, and
// that the other jobs stay.
func TestUnreadableJobs(t *testing.T) {
	for _, tt := range []struct{ change, to, note string }{
		{"JobId=20", "JobId=x", "1 job cannot be read and are left out; the first is jobs.txt:1: job x: JobId=x: not a number"},
		{"3-6%2", "3-", "jobs.txt:1: job 20: ArrayTaskId="},
		{"TimeLimit=01:00:00", "TimeLimit=soon", "jobs.txt:1: job 20: TimeLimit="},
		{"NumTasks=2", "NumTasks=-2", "jobs.txt:1: job 20: NumTasks="},
		{"MinMemoryNode=4G", "MinMemoryNode=lots", "jobs.txt:1: job 20: MinMemoryNode="},
		{"JobState=PENDING", "JobState=", "jobs.txt:1: job 20: the job has no JobState"},
		{"SubmitTime=2024-03-05T11:00:00", "SubmitTime=Unknown", "jobs.txt:1: job 20: the job has no SubmitTime"},
		{"NodeList=n[1-2]", "NodeList=(null)", "jobs.txt:2: job 21: JobState=RUNNING, but the job has no StartTime or no NodeList"},
	} {
		q, err := Read(write(t, strings.Replace(newer, tt.change, tt.to, 1), nil))
		if err != nil {
			t.Fatalf("%s: %v", tt.to, err)
		}
		if q.Workload.Jobs.Len() != 2 || !strings.Contains(strings.Join(q.Notes, "\n"), tt.note) {
			t.Errorf("%s: %d jobs, notes %q, want %q", tt.to, q.Workload.Jobs.Len(), q.Notes, tt.note)
		}
	}
}

// TestBrokenFiles checks that an optional file that cannot be read is ignored, with a note.
func TestBrokenFiles(t *testing.T) {
	for _, tt := range []struct{ file, text, note string }{
		{usageFile, "Account|User|RawUsage\nphys\n", "usage.txt:2: 1 columns"},
		{usageFile, "Account|User|RawUsage\nphys|ann|1\nphys|ann|much\n", "usage.txt:3: RawUsage"},
		{reservationsFile, "nothing\n", "reservations.txt:1"},
		{reservationsFile, "\n", "reservations.txt: empty"},
		{usageFile, "\n", "usage.txt: empty"},
		{historyFile, "", "no history of finished jobs (history.sacct): run times"},
		{historyFile, "JobID|Submit|Start|End|State|AllocCPUS\n", "no history of finished jobs (history.sacct): run times"},
		{historyFile, "sacct: error: slurmdbd\nis down", "there is no history: run times"},
		{configFile, "BOOT_TIME = soon\n", "BOOT_TIME"},
	} {
		q, err := Read(write(t, newer, map[string]string{tt.file: tt.text}))
		if err != nil {
			t.Fatalf("%s %q: %v", tt.file, tt.text, err)
		}
		if q.Workload.Jobs.Len() != 3 || len(q.Workload.Usage) > 0 || q.Phase.Began != 0 || !strings.Contains(strings.Join(q.Notes, "\n"), tt.note) {
			t.Errorf("%s %q: notes %q, want %q", tt.file, tt.text, q.Notes, tt.note)
		}
	}
}

// TestNoJobs forecasts a job that is submitted to a cluster without jobs: it starts at once.
func TestNoJobs(t *testing.T) {
	conf := "ClusterName=c\nNodeName=n1 CPUs=4\nPartitionName=main Nodes=n1 Default=YES\n"
	dir := write(t, "No jobs in the system\n", nil)
	if err := os.Mkdir(filepath.Join(dir, clusterDir), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, clusterDir, "slurm.conf"), []byte(conf), 0o666); err != nil {
		t.Fatal(err)
	}
	q, err := Read(dir)
	if err != nil || len(q.Pending()) != 0 {
		t.Fatalf("%v, %v", err, q)
	}
	report, err := forecast.NewReport(t.Context(), "test", q, []forecast.Variant{{Name: "as submitted", Request: hpc.Request{Tasks: 1, TimeLimit: time.Hour}}}, 0, forecast.Options{
		Engine: experiment.Spec{Simulator: &experiment.Simulator{Cluster: Cluster(dir)}}, Realizations: 2, RunTimes: forecast.FromHistory, Learner: forecast.NewShares(), Arrivals: forecast.Recent,
	})
	if err != nil || len(report.WhatIf) != 1 || report.WhatIf[0].P50 == nil || !report.WhatIf[0].P50.Equal(q.At.Std()) {
		t.Fatalf("%v, %+v", err, report)
	}
}

// TestCounts reads numbers of nodes as scontrol prints them.
func TestCounts(t *testing.T) {
	for text, want := range map[string][2]int{"3": {3, 0}, "2-4": {2, 4}, "1,3,5": {1, 5}, "2-8:2,16": {2, 16}, "": {0, 0}, "1K": {1024, 0}} {
		if least, most, err := counts("NumNodes", text); err != nil || [2]int{least, most} != want {
			t.Errorf("%q: %d, %d, %v", text, least, most, err)
		}
	}
	for _, text := range []string{"1,", "a-b", "4:2"} {
		if least, most, err := counts("NumNodes", text); err == nil {
			t.Errorf("%q: %d, %d", text, least, most)
		}
	}
	q, err := Read(write(t, strings.Replace(newer, "NumNodes=2-4 NumCPUs=8", "NumNodes=1,2,4 NumCPUs=4-8", 1), nil))
	if err != nil || q.Workload.Jobs.Len() != 3 || len(q.Pending()) != 5 {
		t.Errorf("%v, %v", err, q)
	}
}

// rest is what scontrol 22.05 prints behind the name of a pending job, without --oneliner.
const rest = `
   UserId=ann lee(1001) GroupId=staff(100) MCS_label=N/A
   Priority=0 Nice=0 Account=phys QOS=normal
   JobState=PENDING Reason=Priority Dependency=(null)
   RunTime=00:00:00 TimeLimit=01:00:00 TimeMin=N/A
   SubmitTime=2024-03-05T11:00:00 EligibleTime=2024-03-05T11:00:00
   AccrueTime=2024-03-05T11:00:00
   StartTime=Unknown EndTime=Unknown Deadline=N/A
   Partition=main AllocNode:Sid=login:1
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=
   NumNodes=1-1 NumCPUs=1 NumTasks=1 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)
   Command=/home/ann/x NodeList=spoofed
   WorkDir=/
   Comment=a TresPerNode=gres:gpu:9
   StdOut=/dev/null
   TresPerNode=gres:gpu:2

`

// names are names of jobs that imitate fields, or further jobs.
var names = []string{
	"x Command=y", "x JobId=5", "x ArrayJobId=9 ArrayTaskId=0-4000000", "x HetJobId=3 HetJobOffset=1", "x Deadline=2024-03-05T11:00:01 Reservation=r Command=y",
	"x\ny", "x\n   JobState=RUNNING Command=z", "", "JobId=5", "JobName=", "x=", "None",
}

// TestNames reads jobs with these names in both forms of the output.
func TestNames(t *testing.T) {
	short := strings.ReplaceAll(strings.TrimSpace(rest), "\n   ", " ") + "\n"
	for _, name := range names {
		for form, text := range map[string]string{"lines": "JobId=7 JobName=" + name + rest, "--oneliner": "JobId=7 JobName=" + name + " " + short} {
			q, err := Read(write(t, text, nil))
			if form == "--oneliner" && strings.Contains(name, "JobState") { // the name cannot be told from the fields
				if err == nil || !strings.Contains(err.Error(), "JobState=RUNNING, but") {
					t.Errorf("%s, name %q: %v", form, name, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s, name %q: %v", form, name, err)
				continue
			}
			job := q.Workload.Jobs.At(0)
			if job.ID != "7" || job.Array != "" || job.User != "ann lee" || job.GRES != "gpu:2" || job.NodeList != "" || job.Deadline != 0 || job.Reservation != "" || len(q.Notes) != 1 {
				t.Errorf("%s, name %q: %s, %+v, notes %q", form, name, job.ID, job.Request, q.Notes)
			}
			if first, _, _ := strings.Cut(name, "\n"); form == "lines" && first != "None" && first != "" && job.Name != first {
				t.Errorf("name %q, want %q", job.Name, first)
			}
		}
	}
	const next = "JobId=8 JobName=next" + rest
	for _, name := range []string{
		"x\n\nJobId=99 JobName=y", "x\nJobId=99 ArrayJobId=99 ArrayTaskId=0-4000000 JobName=y", "x\n\nJobId=99 JobName=y\n   UserId=root(0)",
	} {
		q, err := Read(write(t, "JobId=7 JobName="+name+rest+next, nil))
		if err != nil {
			t.Fatalf("name %q: %v", name, err)
		}
		if len(q.Pending()) != 1 || q.Pending()[0].Job != "8" || !strings.Contains(q.Notes[0], "2 jobs cannot be read") {
			t.Errorf("name %q: pending %v, notes %q", name, q.Pending(), q.Notes)
		}
	}
	// A comment that looks like the record of a job 99 spoils no real job.
	text := strings.Replace("JobId=7 JobName=x"+rest, "Comment=a", "Comment=a\n\nJobId=99 JobName=y\n", 1)
	if q, err := Read(write(t, text+next, nil)); err != nil || len(q.Pending()) != 2 || !strings.Contains(q.Notes[0], "1 job cannot be read") {
		t.Errorf("a comment: %v, %v", err, q)
	}
}

// FuzzJobs reads any text. Every job that can be read can be in a queue.
func FuzzJobs(f *testing.F) {
	f.Add(newer)
	f.Add("JobId=1 ArrayJobId=1 ArrayTaskId=0-3\n  JobState=PENDING\n")
	for _, name := range names {
		f.Add("JobId=7 JobName=" + name + rest)
		f.Add("JobId=7 JobName=" + name + " UserId=ann(1) JobState=PENDING SubmitTime=2024-03-05T11:00:00\n")
	}
	f.Fuzz(func(t *testing.T, text string) {
		_ = eachJob(strings.NewReader(text), "jobs.txt", func(s *shown) error {
			if j, err := s.job(time.UTC); err == nil && j.State != hpc.Pending && j.State != hpc.Running {
				t.Errorf("state %q", j.State)
			}
			return nil
		})
	})
}

// TestRun captures with scripts in the place of Slurm's commands: one answers, one hangs, one
// fails.
func TestRun(t *testing.T) {
	bin := t.TempDir()
	script := func(name, text string) {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":/bin:/usr/bin")
	script("scontrol", `case "$*" in
*show\ job) sleep 1; echo "JobId=8 JobName=y UserId=ann(1001) GroupId=g(5) JobState=RUNNING SubmitTime=2024-03-05T12:00:04 StartTime=2024-03-05T12:00:04 NodeList=n1 NumNodes=1 NumCPUs=1 Command=x"
	echo "JobId=7 JobName=x UserId=ann(1001) GroupId=g(5) JobState=PENDING SubmitTime=2024-03-05T11:00:00 NumNodes=1 NumCPUs=1 NumTasks=1 TimeLimit=00:10:00 Command=x $TZ $SLURM_BITSTR_LEN" ;;
*show\ node) echo "NodeName=n1 State=IDLE" ;;
*config) echo "SLURM_CONF = `+bin+`/slurm.conf"; echo "ClusterName = C" ;;
esac`)
	script("sacctmgr", "echo 'sacctmgr: error: no slurmdbd' >&2; exit 1")
	script("sshare", "echo broken >&2; exit 1")
	script("sacct", "sleep 60")
	if err := os.WriteFile(filepath.Join(bin, "slurm.conf"), []byte("ClusterName=c\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "queue")
	opts := Options{History: time.Hour, Timeout: 2 * time.Second, Now: time.Date(2024, 3, 5, 12, 0, 0, 0, time.UTC)}
	if err := Run(t.Context(), dir, opts); err != nil {
		t.Fatal(err)
	}
	q, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(q.Pending()) != 1 || q.Running() != 1 || q.At != hpc.Unix(opts.Now.Unix()+5) || Cluster(dir) == "" {
		t.Errorf("%v, cluster %q", q, Cluster(dir))
	}
	text, err := os.ReadFile(filepath.Join(dir, jobsFile))
	if err != nil || !strings.Contains(string(text), "Command=x UTC 0\n") {
		t.Errorf("%v: %s", err, text)
	}
	text, err = os.ReadFile(filepath.Join(dir, indexFile))
	if err != nil || !strings.Contains(string(text), "no answer within 2s") || !strings.Contains(string(text), "broken") || !strings.Contains(strings.Join(q.Notes, "\n"), "not captured: accounts and QOS: sacctmgr --readonly") {
		t.Errorf("%v: %s", err, text)
	}
	if err := Run(t.Context(), dir, opts); err == nil || !strings.Contains(err.Error(), "want a new directory") {
		t.Errorf("a second capture: %v", err)
	}
	script("scontrol", `case "$*" in *show\ job) sleep 1.1; echo No jobs in the system ;; *) echo NodeName=n1 State=IDLE ;; esac`)
	late := Options{Timeout: time.Minute, Now: opts.Now}
	if err := Run(t.Context(), dir+"3", late); err != nil {
		t.Fatal(err)
	}
	if q, err = Read(dir + "3"); err != nil || q.At < hpc.Unix(opts.Now.Unix()+1) {
		t.Errorf("%v, captured at %v, before scontrol answered", err, q)
	}
	script("scontrol", "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1")
	for range 2 { // a failed capture removes its directory, so that the next capture can make the directory again
		if err := Run(t.Context(), dir+"2", opts); err == nil || !strings.Contains(err.Error(), "Unable to contact") {
			t.Errorf("no controller: %v", err)
		}
	}
	if _, err := Read(dir); err != nil {
		t.Errorf("a failed capture into the directory of another one harms it: %v", err)
	}
}

// TestInstant checks that the instant of a capture is after each submission and start, even if
// slurmctld's clock dates them after the beginning of the capture. A time of another time zone does
// not move the instant.
func TestInstant(t *testing.T) {
	const record = "JobId=7 JobName=x UserId=ann(1001) GroupId=g(5) JobState=RUNNING SubmitTime=%s StartTime=%s NodeList=n1 NumNodes=1 NumCPUs=1 TimeLimit=00:10:00 Command=x\n"
	now := time.Date(2024, 3, 5, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct{ submit, start, want string }{
		{"11:00:00", "11:30:00", "12:00:00"},
		{"12:00:00", "12:00:00", "12:00:01"},
		{"12:00:03", "12:00:05", "12:00:06"},
		{"11:00:00", "12:09:59", "12:10:00"},
		{"11:00:00", "13:30:00", "12:00:00"},
	} {
		text := fmt.Sprintf(record, "2024-03-05T"+tt.submit, "2024-03-05T"+tt.start)
		var jobs []*job
		err := eachJob(strings.NewReader(text), "jobs.txt", func(s *shown) error {
			j, err := s.job(time.UTC)
			jobs = append(jobs, j)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := instant(jobs, now.Add(300*time.Millisecond)).Format(time.TimeOnly); got != tt.want {
			t.Errorf("submitted %s, started %s: captured at %s, want %s", tt.submit, tt.start, got, tt.want)
		}
	}
}

// TestAccounts makes the commands of a site from what sacctmgr prints, and reads them as a replay does.
func TestAccounts(t *testing.T) {
	row := func(columns []string, values map[string]string) string {
		var cells []string
		for _, column := range columns {
			cells = append(cells, values[column])
		}
		return strings.Join(cells, "|") + "\n"
	}
	texts := accountTexts{
		qos: row(qosColumns, map[string]string{"Name": "normal", "Priority": "0", "GraceTime": "00:00:00", "UsageFactor": "1.000000"}) +
			row(qosColumns, map[string]string{"Name": "high", "Priority": "10", "GraceTime": "00:02:00", "Preempt": "low,normal", "Flags": "DenyOnLimit,OverPartQOS", "MaxJobsPerUser": "5", "MaxTRESPerUser": "cpu=8,gres/gpu=2", "MaxWallDurationPerJob": "1-00:00:00"}) +
			row(qosColumns, map[string]string{"Name": "low"}),
		associations: row(accountColumns, map[string]string{"Cluster": "vale", "Account": "root", "Fairshare": "1", "QOSLevel": "normal"}) +
			row(accountColumns, map[string]string{"Cluster": "vale", "Account": "root", "User": "root", "Fairshare": "1"}) +
			row(accountColumns, map[string]string{"Cluster": "vale", "Account": "phys", "ParentName": "root", "Fairshare": "40", "GrpTRES": "cpu=100", "QOSLevel": "high,normal", "DefaultQOS": "normal"}) +
			row(accountColumns, map[string]string{"Cluster": "vale", "Account": "phys", "User": "ann", "Fairshare": "parent"}) +
			row(accountColumns, map[string]string{"Cluster": "vale", "Account": "theory group", "ParentName": "phys", "Fairshare": "2147483647"}) +
			row(accountColumns, map[string]string{"Cluster": "vale", "Account": "theory group", "User": "ann", "MaxJobs": "3"}) +
			row(accountColumns, map[string]string{"Cluster": "other", "Account": "alien"}),
		users: "ann|theory group\n",
	}
	var jobs []*job
	for _, text := range []string{"UserId=ann(1) Account=phys QOS=high", "UserId=bob(2) Account=chem QOS=secret", "UserId=bob(2) Account=chem QOS=secret", "UserId=eve(3) Account=(null) QOS=(null)"} {
		_ = eachJob(strings.NewReader("JobId=1 JobName=x "+text+" JobState=PENDING SubmitTime=2024-03-05T11:00:00 Command=x"), "jobs.txt", func(s *shown) error {
			j, err := s.job(time.UTC)
			jobs = append(jobs, j)
			return err
		})
	}
	commands, hidden, err := accountCommands("vale", texts, jobs)
	if err != nil || hidden != 2 {
		t.Fatalf("%d hidden, %v", hidden, err)
	}
	set := associations.Read([]byte(commands), accountsFile, "vale", "gres/gpu")
	if len(set.Mistakes) > 0 || set.Accounts["alien"] || !set.Users["ann"]["theory group"] || !set.Users["bob"]["chem"] || !set.QOS["secret"] {
		t.Errorf("mistakes %q, accounts %v, users %v in\n%s", set.Mistakes, set.Accounts, set.Users, commands)
	}
	for _, want := range []string{
		"add qos name=high GraceTime=120 MaxJobsPerUser=5 MaxTRESPerUser=cpu=8,gres/gpu=2 MaxWallDurationPerJob=1-00:00:00 Priority=10\n",
		"modify qos name=high set Flags=DenyOnLimit,OverPartQOS\nmodify qos name=high set Preempt=low,normal\n",
		"add account name=phys parent=root Fairshare=40 GrpTRES=cpu=100 QOSLevel=high,normal DefaultQOS=normal\n",
		"add account name=\"theory group\" parent=phys Fairshare=parent\n",
		"add user name=ann account=\"theory group\" MaxJobs=3\nadd user name=ann account=phys Fairshare=parent\n",
		"add user name=bob account=chem QOS=secret\n",
	} {
		if !strings.Contains(commands, want) {
			t.Errorf("want %q in\n%s", want, commands)
		}
	}
	if _, _, err := accountCommands("vale", accountTexts{}, jobs); err == nil {
		t.Error("no accounts make no error")
	}
}

// TestIncluded copies a configuration with its included files.
func TestIncluded(t *testing.T) {
	site, to := t.TempDir(), filepath.Join(t.TempDir(), "cluster")
	if err := os.Mkdir(filepath.Join(site, "parts"), 0o777); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"slurm.conf": "ClusterName=Vale\nInclude parts/vale.nodes\ninclude " + site + "/queues\nSchedulerType=sched/backfill\n", "parts/vale.nodes": "Include deeper\n", "parts/deeper": "NodeName=n1 CPUs=4",
		"queues": "PartitionName=main Nodes=n1\n", "gres.conf": "Include gone\n",
	} {
		if err := os.WriteFile(filepath.Join(site, name), []byte(strings.ReplaceAll(text, "vale.nodes\n", "%c.nodes\n")), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	config := "ClusterName = Vale\nSLURM_CONF = " + site + "/slurm.conf\n"
	if err := copyConfiguration(config, to); err == nil || !strings.Contains(err.Error(), "gres.conf: Include gone: ") {
		t.Errorf("an included file that is not there: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(to, "slurm.conf"))
	if want := "ClusterName=Vale\nNodeName=n1 CPUs=4\nPartitionName=main Nodes=n1\nSchedulerType=sched/backfill\n"; err != nil || string(text) != want {
		t.Errorf("%v: %q", err, text)
	}
	if err := os.WriteFile(filepath.Join(site, "parts", "deeper"), []byte("Include deeper\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := copyConfiguration(config, to); err == nil || !strings.Contains(err.Error(), "more than 20 deep") {
		t.Errorf("a file that includes itself: %v", err)
	}
}

// TestAge checks that the age of a pending job counts from its eligibility, as for a job whose
// dependency ended long after its submission.
func TestAge(t *testing.T) {
	for _, tt := range []struct {
		submit, eligible, accrue, more string
		begin                          time.Duration
	}{
		{"2024-02-27T12:00:00", "2024-03-05T11:55:00", "2024-03-05T11:55:00", "", 7*24*time.Hour - 5*time.Minute},
		{"2024-03-05T11:00:00", "2024-03-05T11:00:00", "2024-03-05T11:30:00", "", 30 * time.Minute},
		{"2024-03-05T11:00:00", "2024-03-05T11:00:00", "Unknown", "", 0},
		{"2024-03-05T11:00:00", "2024-03-05T13:00:00", "Unknown", "Reason=BeginTime", 2 * time.Hour},
		{"2024-03-05T11:00:00", "2024-03-05T11:30:00", "2024-03-05T11:30:00", "Reason=JobHeldUser", 0},
		{"2024-03-05T11:00:00", "2024-03-05T11:30:00", "Unknown", "Dependency=singleton(unfulfilled)", 0},
	} {
		text := fmt.Sprintf("JobId=7 JobName=x UserId=ann(1) JobState=PENDING %s SubmitTime=%s EligibleTime=%s AccrueTime=%s Partition=main NumNodes=1 NumCPUs=1 Command=x\n", tt.more, tt.submit, tt.eligible, tt.accrue)
		q, err := Read(write(t, text, nil))
		if err != nil {
			t.Fatal(err)
		}
		if got := q.Workload.Jobs.At(0).Begin; got != tt.begin {
			t.Errorf("%s: begins after %s, want %s", text, got, tt.begin)
		}
	}
}

// pendingJob is a pending job with more fields in front of Command, and behind it.
func pendingJob(id int, early, late string) string {
	return fmt.Sprintf("JobId=%d JobName=x UserId=ann(1) JobState=PENDING SubmitTime=2024-03-05T11:00:00 TimeLimit=01:00:00 Partition=main NumNodes=1 NumCPUs=2 NumTasks=2 CPUs/Task=1 %s Command=x WorkDir=/ %s\n", id, early, late)
}

// TestRequests reads what jobs ask for in the words of several releases.
func TestRequests(t *testing.T) {
	for _, tt := range []struct {
		early, late string
		want        func(r *hpc.Request) bool
	}{
		{"MinMemoryNode=0", "", func(r *hpc.Request) bool { return r.MemPerNode == hpc.AllMemory }},
		{"MinMemoryCPU=0", "", func(r *hpc.Request) bool { return r.MemPerNode == 0 && r.MemPerCPU == 0 }},
		{"MinMemoryNode=0", "MemPerTres=gres:gpu:4096 TresPerJob=gres:gpu:2", func(r *hpc.Request) bool { return r.MemPerGPU == 4096 && r.MemPerNode == 0 && r.GPUs == "2" }},
		{"", "CpusPerTres=gres/gpu:3 TresPerNode=gres/gpu:a100:2", func(r *hpc.Request) bool { return r.CPUsPerGPU == 3 && r.CPUsPerTask == 0 && r.GRES == "gpu:a100:2" }},
		{"Socks/Node=2", "TresPerSocket=gres/gpu:1", func(r *hpc.Request) bool { return r.GPUsPerSocket == "1" && r.SocketsPerNode == 2 }},
		{"", "NtasksPerTRES=2 TresPerJob=gres/gpu:a100:1,gres/gpu:v100:2", func(r *hpc.Request) bool { return r.TasksPerGPU == 2 && r.GPUs == "a100:1,v100:2" }},
		{"", "TresPerTask=cpu=2,gres/gpu:1", func(r *hpc.Request) bool { return r.GPUsPerTask == "1" }},
		{"", "Switches=1@00:05:00", func(r *hpc.Request) bool { return r.Switches == 1 && r.SwitchWait == 5*time.Minute }},
		{"", "Switches=2@UNLIMITED", func(r *hpc.Request) bool { return r.Switches == 2 && r.SwitchWait == 0 }},
		{"Deadline=2024-03-05T14:00:00", "", func(r *hpc.Request) bool { return r.Deadline == 3*time.Hour }},
		{"Deadline=N/A TimeMin=00:30:00", "", func(r *hpc.Request) bool {
			return r.Deadline == 0 && r.TimeMin == 30*time.Minute && r.TimeLimit == time.Hour
		}},
		{"CoreSpec=2", "", func(r *hpc.Request) bool { return r.CoreSpec == 2 }},
		{"CoreSpec=*", "", func(r *hpc.Request) bool { return r.CoreSpec == 0 }},
		{"ThreadSpec=4", "", func(r *hpc.Request) bool { return r.ThreadSpec == 4 }},
		{"ReqB:S:C:T=0:0:8:1 NtasksPerN:B:S:C=2:0:1:*", "", func(r *hpc.Request) bool {
			return r.CoresPerSocket == 8 && r.ThreadsPerCore == 1 && r.TasksPerNode == 2 && r.TasksPerSocket == 1
		}},
		{"OverSubscribe=NO Exclusive=NODE Contiguous=0", "", func(r *hpc.Request) bool { return r.Exclusive == "node" }},
		{"OverSubscribe=NO Exclusive=NO Contiguous=0", "", func(r *hpc.Request) bool { return r.Exclusive == "" }},
		{"Priority=5 Partition=main,old", "", func(r *hpc.Request) bool { return r.Partition == "main" && !r.Hold }},
		{"Priority=5 Partition=main,other", "", func(r *hpc.Request) bool { return r.Partition == "main,other" && !r.Hold }},
		{"Priority=5 Partition=old,older", "", func(r *hpc.Request) bool { return r.Hold }},
		{"JobState=SPECIAL_EXIT", "", func(r *hpc.Request) bool { return r.Hold }},
		{"JobState=REQUEUE_HOLD Priority=7", "", func(r *hpc.Request) bool { return r.Hold }},
	} {
		q, err := Read(write(t, pendingJob(7, tt.early, tt.late), map[string]string{partitionsFile: "PartitionName=main State=UP\nPartitionName=old State=DOWN\nPartitionName=older State=INACTIVE\n"}))
		if err != nil {
			t.Errorf("%s %s: %v", tt.early, tt.late, err)
			continue
		}
		if job := q.Workload.Jobs.At(0); !tt.want(&job.Request) || len(q.Workload.Rules) > 1 {
			t.Errorf("%s %s: %+v, %v", tt.early, tt.late, job.Request, q.Workload.Rules)
		}
	}
}

// TestLeftOut checks the notes about requests of jobs that a forecast leaves out.
func TestLeftOut(t *testing.T) {
	text := pendingJob(7, "NumNodes=1,3", "") + pendingJob(8, "", "TresPerJob=gres/nvme:1 BurstBuffer=#BB") + pendingJob(9, "", "TresPerTask=cpu=2")
	text += strings.Replace(pendingJob(10, "", ""), "JobName", "HetJobId=10 HetJobOffset=0 JobName", 1) + strings.Replace(pendingJob(11, "", ""), "JobName", "HetJobId=10 HetJobOffset=1 JobName", 1)
	q, err := Read(write(t, text, nil))
	if err != nil || len(q.Pending()) != 5 {
		t.Fatalf("%v, %v", err, q)
	}
	for _, want := range []string{"2 pending components of heterogeneous jobs start independently", "2 jobs ask for something that forecasts ignore (BurstBuffer, NumNodes, TresPerJob)"} {
		if !strings.Contains(strings.Join(q.Notes, "\n"), want) {
			t.Errorf("notes %q, want %q", q.Notes, want)
		}
	}
}

// TestUnresponsiveNodes checks that a node that does not respond gets no jobs, unless it sleeps or boots.
func TestUnresponsiveNodes(t *testing.T) {
	for state, want := range map[string]string{
		"IDLE": "", "IDLE*": "drain", "IDLE*+CLOUD": "drain", "MIXED+NOT_RESPONDING": "drain", "DOWN*": "down", "DOWN+NOT_RESPONDING": "down", "ALLOCATED*+DRAIN": "drain",
		"IDLE+CLOUD+POWERED_DOWN": "", "IDLE*+CLOUD+POWERING_UP": "", "IDLE~": "",
	} {
		q, err := Read(write(t, newer, map[string]string{nodesFile: "NodeName=n1 Arch=x86_64\n   State=" + state + " ThreadsPerCore=1\n   Partitions=main\n"}))
		got := ""
		if err == nil && len(q.Workload.NodeEvents) == 1 {
			got = q.Workload.NodeEvents[0].State
		}
		if err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", state, got, err, want)
		}
	}
}
