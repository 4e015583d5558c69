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
	"rmreplay/internal/ioservice/server"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/rm/slurm/slurmtest"
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

// freePort returns a free TCP port of 127.0.0.1.
func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// daemon runs a daemon of Slurm in its own process group until the test ends. The parameter log is
// the daemon's log file.
func daemon(t *testing.T, log, name string, args ...string) {
	t.Helper()
	c := exec.Command(name, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // the whole group: slurmctld has a helper process
		_ = c.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log)
			t.Logf("%s's log: %s", name, text)
		}
	})
}

// until waits until so returns true, for at most a minute.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// slurmctld starts a stock slurmctld with job_submit.lua, and returns the environment of its
// clients. If there is an epilog, it also starts a slurmd, and slurmctld runs the epilog after each
// job.
func slurmctld(t *testing.T, table, epilog string) []string {
	t.Helper()
	for _, program := range []string{"slurmctld", "sbatch", "scontrol"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED: the site's scripts are not tried in slurmctld: %v", err)
		}
	}
	dir := t.TempDir()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
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
SlurmdPort=%[5]d
SlurmdSpoolDir=%[4]s/slurmd
SlurmdPidFile=%[4]s/slurmd.pid
SlurmdLogFile=%[4]s/slurmd.log
TaskPlugin=task/none
ReturnToService=2
NodeName=n[1-2] NodeHostname=%[1]s NodeAddr=127.0.0.1 State=UNKNOWN
PartitionName=all Nodes=n1 Default=YES
`, host, freePort(t), userName(t), dir, freePort(t))
	if epilog != "" {
		conf += "EpilogSlurmctld=" + epilog + "\n"
	}
	script := strings.Replace(lua, "/var/lib/rmreplay/classes", table, 1)
	slurm, err := install.FindSlurm("")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"slurm.conf": conf, "job_submit.lua": script,
		"cgroup.conf": slurmtest.CgroupConf(slurm.Release)}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, sub := range []string{"state", "slurmd"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "slurm.conf")
	daemon(t, filepath.Join(dir, "log"), "slurmctld", "-D", "-c", "-f", file)
	env := append(os.Environ(), "SLURM_CONF="+file)
	until(t, "slurmctld answers", func() bool {
		out, err := client(env, "scontrol", "ping")
		return err == nil && strings.Contains(out, "UP")
	})
	if epilog != "" {
		daemon(t, filepath.Join(dir, "slurmd.log"), "slurmd", "-D", "-N", "n1", "-f", file)
	}
	return env
}

// userName returns the name of the user who runs the test.
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

// TestJobSubmit submits jobs to a stock slurmctld with the site's job_submit.lua.
func TestJobSubmit(t *testing.T) {
	table := filepath.Join(t.TempDir(), "classes")
	env := slurmctld(t, table, "")
	class := fmt.Sprintf("u%d_my_job", os.Getuid())
	for _, step := range []struct {
		name, table       string // written before the submission; empty: as before
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

// recorder is a source that notes the jobs for which it is asked.
type recorder struct{ jobs []ioservice.Job }

func (r *recorder) Use(j ioservice.Job) (counters.Use, bool) {
	r.jobs = append(r.jobs, j)
	return counters.Use{RunTime: j.End.Sub(j.Start), Mean: 1}, true
}
func (r *recorder) Rate(hpc.Time, hpc.Time) (float64, bool) { return 0, false }

// TestEpilog runs a job in a stock Slurm. slurmctld must then run the site's epilog.
func TestEpilog(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED by -short: a live Slurm")
	}
	if _, err := exec.LookPath("slurmd"); err != nil || os.Getuid() != 0 {
		t.Skipf("SKIPPED: the epilog is not tried after a job: slurmd needs root (%v)", err)
	}
	source := &recorder{}
	config := ioservice.DefaultConfig()
	config.Bandwidth = 1
	service, err := ioservice.New(config, []ioservice.Source{source}, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	answers := &server.Server{Service: service, Now: func() hpc.Time { return hpc.Unix(1) }, Limits: server.DefaultLimits()}
	go func() { served <- answers.Serve(ctx, listener) }()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	dir := t.TempDir()
	script := filepath.Join(dir, "epilog.sh")
	write := func(text string) {
		if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("#!/bin/sh\n") // slurmctld must find a script when it starts
	env := slurmctld(t, filepath.Join(dir, "classes"), script)
	// The epilog's environment has no SLURM_CONF, so scontrol looks for slurm.conf in Slurm's
	// default place. The test's is elsewhere.
	text := strings.Replace(epilog, "address=", "export "+env[len(env)-1]+"\naddress=", 1)
	write(strings.Replace(text, "127.0.0.1:9999", listener.Addr().String(), 1))
	begin := time.Now()
	id, err := client(env, "sbatch", "--parsable", "--comment=jobtype=ior;mine", "--chdir=/", "--output=/dev/null")
	if err != nil {
		t.Fatalf("%v: %s", err, id)
	}
	until(t, "the epilog's request", func() bool { return service.Status(0).Accepted > 0 })
	if err := service.Advance(hpc.Unix(1_000)); err != nil {
		t.Fatal(err)
	}
	if len(source.jobs) != 1 {
		t.Fatalf("jobs %+v", source.jobs)
	}
	job := source.jobs[0]
	if job.ID != strings.TrimSpace(id) || job.Name != "ior" || job.Class != ioservice.NamedClass("ior") || len(job.Nodes) != 1 || job.Nodes[0] != "n1" {
		t.Errorf("%+v, want job %s", job, id)
	}
	if job.Start.Std().Before(begin.Add(-2*time.Second)) || job.End < job.Start || job.End.Std().After(time.Now()) {
		t.Errorf("the job ran from %v to %v, and was submitted at %v", job.Start, job.End, begin)
	}
}

func field(job, name string) string {
	m := regexp.MustCompile(` ` + name + `=(\S*)`).FindStringSubmatch(job)
	if m == nil {
		return ""
	}
	return m[1]
}
