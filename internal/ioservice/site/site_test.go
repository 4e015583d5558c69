package site

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/ioservice"
	"rmreplay/internal/ioservice/counters"
)

func TestTable(t *testing.T) {
	config := ioservice.DefaultConfig()
	config.Bandwidth = 10_000
	s, err := ioservice.New(config, nil, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, one := range []struct {
		name string
		rate float64
	}{{"z", 1000.5}, {"a", 20_000}, {"", 1}, {"two words", 1}, {"idle", 0}} {
		job := ioservice.Job{ID: fmt.Sprint(i + 1), Class: fmt.Sprint("class", i), Name: one.name}
		if err := s.Learn(hpc.Unix(1), job, counters.Use{RunTime: 61 * time.Second, Mean: one.rate}); err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	if err := Table(&b, s.Classes(), 10_000); err != nil {
		t.Fatal(err)
	}
	if want := "a 10000 2\nidle 0 2\nz 1001 2\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

// slurmctld starts a stock slurmctld with job_submit.lua, and returns the environment of its clients.
func slurmctld(t *testing.T, table string) []string {
	t.Helper()
	for _, program := range []string{"slurmctld", "sbatch", "scontrol"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED: job_submit.lua is not tried in slurmctld: %v", err)
		}
	}
	dir := t.TempDir()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	conf := fmt.Sprintf(`ClusterName=io
SlurmctldHost=%s(127.0.0.1)
SlurmctldPort=%d
SlurmUser=%s
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
MailProg=/bin/true
StateSaveLocation=%s/state
SlurmctldPidFile=%[4]s/pid
SlurmctldLogFile=%[4]s/log
JobSubmitPlugins=lua
Licenses=lustre:10000,matlab:3,lustre2:5
NodeName=n[1-2] NodeAddr=127.0.0.1 State=UNKNOWN
PartitionName=all Nodes=n[1-2] Default=YES
`, host, port, userName(t), dir)
	script := strings.Replace(lua, "/var/lib/rmreplay/classes", table, 1)
	for name, text := range map[string]string{"slurm.conf": conf, "job_submit.lua": script} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command("slurmctld", "-D", "-c", "-f", filepath.Join(dir, "slurm.conf"))
	daemon.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-daemon.Process.Pid, syscall.SIGKILL) // it has a helper
		_ = daemon.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Logf("slurmctld's log: %s", text)
		}
	})
	env := append(os.Environ(), "SLURM_CONF="+filepath.Join(dir, "slurm.conf"))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if out, err := client(env, "scontrol", "ping"); err == nil && strings.Contains(out, "UP") {
			return env
		}
		if time.Now().After(deadline) {
			t.Fatal("slurmctld does not answer")
		}
	}
}

func userName(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("id", "-un").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func client(env []string, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Env = env
	c.Stdin = strings.NewReader("#!/bin/sh\nsleep 1\n")
	out, err := c.CombinedOutput()
	return string(out), err
}

// TestJobSubmit submits jobs to a stock slurmctld that has the site's script.
func TestJobSubmit(t *testing.T) {
	table := filepath.Join(t.TempDir(), "classes")
	env := slurmctld(t, table)
	class := fmt.Sprintf("u%d_my_job", os.Getuid())
	for _, step := range []struct {
		name, table       string // the table before the submission; "": there is none
		options           []string
		licenses, comment string
	}{
		{"no table", "", []string{"-J", "my job"}, "(null)", "jobtype=" + class + ";"},
		{"by the user and the name", "ior 500 2\n" + class + " 1000 5\n", []string{"-J", "my job"}, "lustre:1000", "jobtype=" + class + ";"},
		{"by the comment", "ior 500 2\n" + class + " 1000 5\n", []string{"-J", "my job", "--comment=jobtype=ior;mine"}, "lustre:500", "jobtype=ior;mine"},
		{"with other licences", "ior 500 2\n", []string{"--comment=jobtype=ior;", "-L", "matlab:1"}, "matlab:1,lustre:500", "jobtype=ior;"},
		{"with a licence of a longer name", "ior 500 2\n", []string{"--comment=jobtype=ior;", "-L", "lustre2:1"}, "lustre2:1,lustre:500", "jobtype=ior;"},
		{"requested", "ior 500 2\n", []string{"--comment=jobtype=ior;", "-L", "matlab:1,lustre:7"}, "matlab:1,lustre:7", "jobtype=ior;"},
		{"no use", "ior 0 2\n", []string{"--comment=jobtype=ior;"}, "(null)", "jobtype=ior;"},
		{"a comment of the user", "ior 0 2\n", []string{"-J", "my job", "--comment=urgent"}, "(null)", "jobtype=" + class + ";urgent"},
		{"a broken table", "ior\nior many 2\n\x00\xff\n", []string{"--comment=jobtype=ior;"}, "(null)", "jobtype=ior;"},
	} {
		if step.table != "" {
			if err := os.WriteFile(table, []byte(step.table), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		id, err := client(env, "sbatch", append([]string{"--parsable", "--hold"}, step.options...)...)
		if err != nil {
			t.Errorf("%s: %v: %s", step.name, err, id)
			continue
		}
		job, err := client(env, "scontrol", "-o", "show", "job", strings.TrimSpace(id))
		licenses, comment := field(job, "Licenses"), field(job, "Comment")
		if err != nil || licenses != step.licenses || comment != step.comment {
			t.Errorf("%s: licences %s, comment %s, %v, want %s and %s: %s", step.name, licenses, comment, err, step.licenses, step.comment, job)
		}
	}
}

func field(job, name string) string {
	m := regexp.MustCompile(` ` + name + `=(\S*)`).FindStringSubmatch(job)
	if m == nil {
		return ""
	}
	return m[1]
}
