package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
)

// An event becomes options of sbatch, and the rest of its line is kept.
func TestEvent(t *testing.T) {
	const line = "-dt 1.5 -e submit_batch_job | -J jobid_1 -sim-walltime -1 --uid=user1 -t 00:01:00 -n 1 --gres=gpu:1 pseudo.job"
	j, err := parseEvent(line)
	if err != nil {
		t.Fatal(err)
	}
	if j.at != 1500*time.Millisecond || j.name != "jobid_1" || j.user != "user1" || j.runTime != -1 {
		t.Errorf("%+v", j)
	}
	if want := []string{"-J", "jobid_1", "-t", "00:01:00", "-n", "1", "--gres=gpu:1"}; !slices.Equal(j.options, want) {
		t.Errorf("options %q, want %q", j.options, want)
	}
	if got := j.script(); got != "#!/bin/realslurm sleep=-1\n" {
		t.Errorf("script %q", got)
	}
	first := time.Date(2026, 1, 1, 0, 0, 7, 250e6, time.UTC)
	if got, want := submitted([]job{j}, []time.Time{first}), strings.Replace(line, "1.5", "0.250", 1)+"\n"; got != want {
		t.Errorf("submitted as %q, want %q", got, want)
	}
}

func TestBadEvents(t *testing.T) {
	for _, line := range []string{
		"", "hello", "-dt 1 -e submit_batch_job", "-dt 1 -e cancel_job | -J a",
		"-dt -1 -e submit_batch_job | -J a -sim-walltime 1 --uid=u x.job",
		"-dt NaN -e submit_batch_job | -J a -sim-walltime 1 --uid=u x.job",
		"-dt 1 -e submit_batch_job | -J a -sim-walltime",
		"-dt 1 -e submit_batch_job | -J a -sim-walltime x --uid=u x.job",
		"-dt 1 -e submit_batch_job | -J a -sim-walltime NaN --uid=u x.job",
		"-dt 1 -e submit_batch_job | -J a --uid=u x.job",
		"-dt 1 -e submit_batch_job | -J a -sim-walltime 1 x.job",
		"-dt 1 -e submit_batch_job | -sim-walltime 1 --uid=u -J",
		`-dt 1 -e submit_batch_job | -J "a b" -sim-walltime 1 --uid=u x.job`,
	} {
		if j, err := parseEvent(line); err == nil {
			t.Errorf("%q: %+v", line, j)
		}
	}
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// The daemons keep the site's scheduling. Each node has a port, and each resource its files.
func TestAdapt(t *testing.T) {
	site := write(t, t.TempDir(), "slurm.conf", `ClusterName=micro
AuthType=auth/munge
SchedulerParameters=bf_interval=30,bf_continue # a comment
SlurmctldLogFile=/site/log PriorityMaxAge=5-0
LaunchParameters+=test_exec
DebugFlags=Backfill
NodeName=DEFAULT RealMemory=48000
NodeName=n[1-2] CPUs=12 NodeAddr=10.0.0.[1-2] Feature=A,B
NodeName=g1 Gres=gpu:a100:2,nvme:1
FrontEndName=localhost
PartitionName=normal Nodes=n[1-2],g1
`)
	c, err := adapt(site)
	if err != nil {
		t.Fatal(err)
	}
	text := c.slurm.String()
	for _, want := range []string{
		"SchedulerParameters=bf_interval=30,bf_continue\n", "\nPriorityMaxAge=5-0\n", "LaunchParameters+=test_exec\n", "\nDebugFlags=HetJob\n", "AuthType=auth/none\n",
		"NodeName=DEFAULT RealMemory=48000\n",
		"NodeName=n[1-2] CPUs=12 Feature=A,B NodeAddr=127.0.0.1 Port=7001,7002\n",
		"NodeName=g1 Gres=gpu:a100:2,nvme:1 NodeAddr=127.0.0.1 Port=7003\n", "PartitionName=normal Nodes=n[1-2],g1\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, gone := range []string{"munge", "/site", "FrontEnd", "10.0.0", "DebugFlags=Backfill"} {
		if strings.Contains(text, gone) {
			t.Errorf("%q in\n%s", gone, text)
		}
	}
	wantGRES := "AutoDetect=off\nNodeName=g1 Name=gpu Type=a100 File=/etc/slurm/gpu-a100-[0-1]\nNodeName=g1 Name=nvme File=/etc/slurm/nvme-[0-0]\n"
	if got := c.gres.String(); got != wantGRES {
		t.Errorf("gres.conf %q, want %q", got, wantGRES)
	}
	root := t.TempDir()
	if err := c.write(root, filepath.Dir(site), "user1:1001:group1:1001\nuser2:1002:group1:1001\n"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"etc/group": "root:x:0:\ngroup1:x:1001:\n", "etc/slurm/gpu-a100-1": "", "etc/slurm/slurm.conf": text,
	} {
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if err := c.write(root, filepath.Dir(site), "user1:1001\n"); err == nil {
		t.Error("users without groups are accepted")
	}
}

func TestBadConfigurations(t *testing.T) {
	const node = "ClusterName=c\nNodeName=n1"
	for _, text := range []string{
		"", "ClusterName=c\n", "NodeName=n1\n", "ClusterName=c\nInclude more.conf\n", node + " Gres=gpu\n", node + " Gres=gpu:0\n",
		node + " Gres=gpu:a:b:1\n", node + " Gres=gpu:99999999\n", "ClusterName=c\nNodeName=n[1-\n", "ClusterName=c\nNodeName=n[1-9999]\n",
	} {
		if _, err := adapt(write(t, t.TempDir(), "slurm.conf", text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// runLog is a log of three jobs: the main scheduler starts the first, backfill the second, and a time
// limit ends the third. start is the instant of the second job's start.
func runLog(start, nodes, end string) string {
	return `[2026-11-22T10:00:00.400] slurmctld version 26.05.5 started on cluster micro(0)
[2026-11-22T10:00:00.665] Running as primary controller
[2026-11-22T10:00:20.032] _slurm_rpc_submit_batch_job: JobId=1001 SLUID=s0D5HK153X0000 InitPrio=1070000 usec=0
[2026-11-22T10:00:21.000] sched: Allocate JobId=1001 NodeList=b1 #CPUs=12 Partition=normal
[2026-11-22T10:00:21.032] _slurm_rpc_submit_batch_job: JobId=1002 InitPrio=1070000 usec=0
[2026-11-22T10:00:22.032] _slurm_rpc_submit_batch_job: JobId=1003 InitPrio=1070000 usec=0
[2026-11-22T10:00:26.140] _job_complete: JobId=1001 WEXITSTATUS 0
[2026-11-22T10:00:26.141] _job_complete: JobId=1001 done
[2026-11-22T10:00:` + start + `] sched/backfill: _start_job: Started JobId=1002 in normal on ` + nodes + `
[2026-11-22T10:00:30.000] sched: Allocate JobId=1003 NodeList=n3 #CPUs=12 Partition=normal
[2026-11-22T10:00:` + end + `] _job_complete: JobId=1002 done
[2026-11-22T10:01:31.000] Time limit exhausted for JobId=1003
[2026-11-22T10:01:31.200] _job_complete: JobId=1003 done
`
}

const runEvents = `-dt 0 -e submit_batch_job | -J jobid_1 -sim-walltime 5 --uid=u -t 1 x.job
-dt 1 -e submit_batch_job | -J jobid_2 -sim-walltime 10 --uid=u -t 1 x.job
-dt 2 -e submit_batch_job | -J jobid_3 -sim-walltime -1 --uid=u -t 1 x.job
`

// A run that has ended gives the workload, the lead and the table that follow from its log.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	log := runLog("29.000", "n[1-2]", "39.250")
	write(t, dir, controllerLog, log)
	write(t, dir, loadFile, "1.25\n")
	jobs, err := readEvents(write(t, dir, "w.events", runEvents))
	if err != nil {
		t.Fatal(err)
	}
	if err := report(options{Output: dir}, jobs); err != nil {
		t.Fatal(err)
	}
	s, err := readSummary(dir)
	if want := (summary{Version: "26.05.5", Jobs: 3, Lead: "19.335s", Load: 1.25}); err != nil || s != want {
		t.Errorf("summary %+v, %v, want %+v", s, err, want)
	}
	again, err := readEvents(filepath.Join(dir, submittedFile))
	if err != nil || len(again) != 3 || again[0].at != 32*time.Millisecond || again[2].at != 2032*time.Millisecond {
		t.Errorf("submitted as %+v, %v", again, err)
	}
	table, err := os.ReadFile(filepath.Join(dir, "jobs.csv"))
	want := fmt.Sprintf("real,19.367,%s,2,20.367,28.335,38.585,7.968,10.250,n[1-2]\n", filepath.Base(dir))
	if err != nil || !strings.Contains(string(table), want) {
		t.Errorf("table %s, %v, want %s", table, err, want)
	}
	cut, _, _ := strings.Cut(log, "[2026-11-22T10:01:31.000]")
	write(t, dir, controllerLog, cut)
	write(t, dir, loadFile, "1.25\n")
	if err := report(options{Output: dir}, jobs); err == nil {
		t.Error("a run whose last job has not ended is reported")
	}
}

// record writes the record of a replay whose slurmctld has a log.
func record(t *testing.T, dir, log string) {
	t.Helper()
	l, err := readLog(write(t, t.TempDir(), controllerLog, log))
	if err != nil {
		t.Fatal(err)
	}
	w, err := run.Create(dir, run.Manifest{Engine: "slurm"}, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	event := func(id int, kind rm.EventKind, at time.Time, o *rm.Outcome) {
		e := rm.Event{At: hpc.Unix(at.Unix()).Add(time.Duration(at.Nanosecond())), Kind: kind, Job: fmt.Sprint(id), Task: -1, RMJob: uint32(id), Outcome: o}
		if err := w.Event(e); err != nil {
			t.Fatal(err)
		}
	}
	jobs, ids := l.list()
	for i, j := range jobs {
		if err := w.Job(&hpc.Job{ID: fmt.Sprint(ids[i])}); err != nil {
			t.Fatal(err)
		}
		o := rm.Outcome{State: hpc.Completed, Nodes: j.nodes, Start: hpc.Unix(j.start.Unix()), End: hpc.Unix(j.end.Unix())}
		if j.limit {
			o.State = hpc.TimedOut
		}
		event(ids[i], rm.Accepted, j.submit, nil)
		event(ids[i], rm.Started, j.start, &o)
		event(ids[i], rm.Ended, j.end, &o)
	}
	if err := w.Finish(run.StateComplete, nil); err != nil {
		t.Fatal(err)
	}
}

// Pairs are aligned at the whole second of their first submissions. If a job gets other nodes, this
// is the first differing decision. The overhead leaves out jobs that a time limit ended.
func TestPairs(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "real/slurmctld.log", runLog("29.000", "n[1-2]", "39.250"))
	write(t, dir, "real/"+submittedFile, runEvents)
	write(t, dir, "real/"+summaryFile, `{"load": 2}`)
	write(t, dir, "real/slurmd.b1.log", "[2026-11-22T10:00:21.004] Launching batch job 1001 for UID 1\n")
	write(t, dir, "real/slurmd.n1.log", "[2026-11-22T10:00:29.002] Launching batch JobId=1002 SLUID=s1FSM827HWE000 for UID 1\n[2026-11-22T10:00:30.003] Launching batch job 1003 for UID 1\n")
	// The replay's log has another date, and the second job starts 0.5 s later.
	record(t, filepath.Join(dir, "ours"), strings.ReplaceAll(runLog("29.500", "n[1-2]", "39.600"), "2026-11-22", "2024-01-01"))
	record(t, filepath.Join(dir, "other"), runLog("29.000", "n[3-4]", "39.100"))
	record(t, filepath.Join(dir, "empty"), "[2026-11-22T10:00:00.665] Running as primary controller\n")
	slurm := filepath.Join(dir, "real")
	p, err := readPair(slurm + "=" + filepath.Join(dir, "ours"))
	if err != nil {
		t.Fatal(err)
	}
	d := p.differences()
	if d.sameNodes != 3 || d.largest != 0.5 || d.first != "" || d.distance < 0.499 || d.distance > 0.501 {
		t.Errorf("%+v", d)
	}
	if got := overhead(p.jobs, p.real); len(got) != 2 || quantile(got, 0) < 0.140 || quantile(got, 1) > 0.251 {
		t.Errorf("overhead %v", got)
	}
	var b strings.Builder
	if err := printPairs(&b, []string{slurm + "=" + filepath.Join(dir, "ours"), slurm + "=" + filepath.Join(dir, "other")}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"5 of 6 jobs have the same nodes", "jobid_2 at 9.00 on n[1-2] (9.00 on n[3-4])", "0.003 (median)"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if err := printPairs(&b, []string{slurm + "=" + filepath.Join(dir, "empty")}); err == nil {
		t.Error("a replay without jobs is compared")
	}
}

func TestQuantile(t *testing.T) {
	for q, want := range map[float64]float64{0: 1, 0.25: 1.75, 0.5: 2.5, 1: 4} {
		if got := quantile([]float64{4, 1, 3, 2}, q); got != want {
			t.Errorf("quantile %g is %g, want %g", q, got, want)
		}
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("quantile of nothing is %g", got)
	}
}

func TestCommandLine(t *testing.T) {
	for _, args := range [][]string{nil, {"walk"}, {"run"}, {"run", "-slurm", "r", "-cluster", "c", "-o", "o"}, {"lead"}, {"pairs"}, {"pairs", "a"}} {
		var bad usageError
		if err := command(args); !errors.As(err, &bad) {
			t.Errorf("%q: %v, want a usage error", args, err)
		}
	}
	if err := command([]string{"sleep=0"}); err != nil {
		t.Error(err)
	}
	if err := command([]string{"sleep=long"}); err == nil {
		t.Error("a job that sleeps for \"long\"")
	}
}
