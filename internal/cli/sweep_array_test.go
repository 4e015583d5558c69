package cli

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/rm/slurm/rpc/rpctest"
	"rmreplay/internal/rm/slurm/slurmtest"
	"rmreplay/internal/sweep"
)

// A sweep is submitted as a job array to a real Slurm, in real time, and collected. The result
// equals the result of the same sweep without Slurm.
func TestSweepArray(t *testing.T) {
	startSlurm(t)
	dir := t.TempDir()
	runHere(t, dir, 0, "workload", "generate", "lublin", "--jobs", "30", "--processors", "128", "--seed", "1", "-o", "model.jsonl")
	const experiment = `
workload: model.jsonl
seeds: 2
transforms: [{name: shaken, shake: 60}]
sim: {policies: [fcfs, easy], machines: [procs: 128]}
`
	writeFiles(t, dir, map[string]string{"experiment.yaml": experiment})
	array := func(status int, more ...string) (stdout, stderr string) {
		return runHere(t, dir, status, append([]string{"sweep", "experiment.yaml", "-o", "array"}, more...)...)
	}
	said, _ := array(0, "--on", "slurm", "--jobs", "2", "--sbatch=--hold")
	fields := strings.Fields(said) // submitted job array N with ...
	if len(fields) < 4 || !strings.Contains(said, "with 4 of 4 runs") {
		t.Fatalf("it said %q", said)
	}
	job := fields[3]
	if _, err := array(1, "--on", "slurm"); !strings.Contains(err, "job array "+job+" is still in the queue") {
		t.Errorf("a second array: %s", err)
	}
	if text, _ := array(1, "--collect"); !strings.Contains(text, "4 of 4 runs have not been made") {
		t.Errorf("before the array ran:\n%s", text)
	}
	slurmCommand(t, "scontrol", "release", job)
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if strings.TrimSpace(slurmCommand(t, "squeue", "--noheader", "--states=PENDING,RUNNING,COMPLETING")) == "" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the array does not end:\n%s", slurmCommand(t, "scontrol", "show", "job", job))
		}
	}
	collected, _ := array(0, "--collect")
	here, _ := runHere(t, dir, 0, "sweep", "experiment.yaml", "-o", "here")
	if collected != here {
		t.Errorf("the array:\n%s\nhere:\n%s\n%s", collected, here, arrayLogs(dir))
	}
	for _, name := range []string{sweep.SummaryFile, "cells/sim_fcfs_procs128_shaken/realization-002/jobs.parquet"} {
		a, aerr := os.ReadFile(filepath.Join(dir, "array", name))
		b, berr := os.ReadFile(filepath.Join(dir, "here", name))
		if aerr != nil || berr != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs (%v, %v)", name, aerr, berr)
		}
	}
	if _, said := array(0, "--on", "slurm"); !strings.Contains(said, "all 4 runs are complete; nothing is submitted") {
		t.Errorf("with nothing to do it said %q", said)
	}
	// If the experiment has changed since the submission, a task does not make its run.
	writeFiles(t, dir, map[string]string{"experiment.yaml": strings.Replace(experiment, "60", "61", 1)})
	if _, err := array(1, "--cell", "3"); !strings.Contains(err, "the experiment has changed") {
		t.Errorf("a task after a change: %s", err)
	}
}

// arrayLogs returns the output of an array's tasks.
func arrayLogs(dir string) string {
	var all []string
	paths, _ := filepath.Glob(filepath.Join(dir, "array", "logs", "array-*.log"))
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		all = append(all, filepath.Base(path)+": "+string(text))
	}
	return strings.Join(all, "\n")
}

// slurmCommand runs a command of Slurm that must succeed.
func slurmCommand(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// startSlurm starts a Slurm of one node on loopback. Slurm's commands use it for the rest of the
// test.
func startSlurm(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED by -short: a live Slurm")
	}
	const controller, slurmd = "/usr/sbin/slurmctld-wlm", "/usr/sbin/slurmd-wlm"
	for _, path := range []string{controller, slurmd} {
		if _, err := os.Stat(path); err != nil {
			t.Skipf("SKIPPED: %s is not installed (tools/install-deps slurmd), so no job array is run", path)
		}
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ = strings.Cut(host, ".")
	slurm, err := install.FindSlurm("")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	user := strings.TrimSpace(slurmCommand(t, "id", "-un"))
	config := fmt.Sprintf(`ClusterName=array
SlurmctldHost=%[1]s(%[6]s)
SlurmctldPort=%[2]d
SlurmdPort=%[3]d
SlurmUser=%[4]s
SlurmdUser=%[4]s
AuthType=auth/none
CredType=cred/none
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
StateSaveLocation=%[5]s/state
SlurmdSpoolDir=%[5]s/spool
SlurmctldPidFile=%[5]s/ctld.pid
SlurmdPidFile=%[5]s/d.pid
SlurmctldLogFile=%[5]s/ctld.log
SlurmdLogFile=%[5]s/d.log
AccountingStorageType=accounting_storage/none
ReturnToService=2
NodeName=%[1]s NodeAddr=%[6]s CPUs=2 RealMemory=100
PartitionName=p Nodes=ALL Default=YES State=UP
`, host, freeLoopbackPort(t), freeLoopbackPort(t), user, dir, rpctest.OwnAddress(t))
	conf := filepath.Join(dir, "slurm.conf")
	writeFiles(t, dir, map[string]string{"slurm.conf": config, "cgroup.conf": slurmtest.CgroupConf(slurm.Release)})
	daemon, node := filepath.Join(dir, "slurmctld"), filepath.Join(dir, "slurmd") // they check their names
	if err := errors.Join(os.Symlink(controller, daemon), os.Symlink(slurmd, node), os.Mkdir(filepath.Join(dir, "state"), 0o700), os.Mkdir(filepath.Join(dir, "spool"), 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLURM_CONF", conf)
	startDaemon(t, daemon, "-D", "-c", "-f", conf)
	startDaemon(t, node, "-D", "-f", conf)
	t.Cleanup(func() {
		if t.Failed() {
			for _, name := range []string{"ctld.log", "d.log"} {
				text, _ := os.ReadFile(filepath.Join(dir, name))
				t.Logf("%s:\n%s", name, text[max(0, len(text)-4000):])
			}
		}
	})
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		out, err := exec.Command("sinfo", "--noheader", "--format=%t").CombinedOutput()
		if err == nil && strings.TrimSpace(string(out)) == "idle" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the node does not become idle: %v: %s", err, out)
		}
	}
}

func freeLoopbackPort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// startDaemon starts a daemon that ends with the test.
func startDaemon(t *testing.T, path string, args ...string) {
	t.Helper()
	c := exec.Command(path, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	var output bytes.Buffer
	c.Stdout, c.Stderr = &output, &output
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Wait() // it is killed
	}()
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			_ = c.Process.Kill()
			<-ended
		}
		if t.Failed() {
			t.Logf("%s said: %s", path, output.String())
		}
	})
}
