package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/ioaware"
	"rmreplay/internal/ioaware/driver"
	"rmreplay/internal/rm/slurm/install"
)

// driverVariable has the test program be a driver, with the lease that it names.
const driverVariable = "RMREPLAY_TEST_LEASE"

func TestMain(m *testing.M) {
	lease := os.Getenv(driverVariable)
	if lease == "" {
		os.Exit(m.Run())
	}
	if err := drive(lease); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func now() hpc.Time { return hpc.Time(time.Now().UnixNano()) }

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// drive decides in rounds until the process is killed.
func drive(path string) error {
	lease, err := Take(path)
	if err != nil {
		return err
	}
	c := New(Config{Partitions: []string{"batch"}, FileSystem: "lustre", Run: Exec, Now: now, Say: say})
	d := &driver.Driver{Options: ioaware.Options{Strategy: ioaware.Aware}, Patience: 10 * time.Second}
	ctx, stop := context.WithCancelCause(context.Background())
	c.Loop(ctx, d, 0, func(round driver.Round, err error) {
		if err != nil || round.Failed != nil {
			say("%v %v", err, round.Failed)
		}
		if err := lease.Touch(); err != nil {
			stop(err)
		}
	})
	return context.Cause(ctx)
}

// site is a live Slurm on loopback: nine nodes for the driver, and one for another partition.
type site struct {
	t   *testing.T
	dir string
	env []string
	// patience is how long a test waits, even on a busy machine.
	patience time.Duration
}

const siteNodes = 10

// link makes the programs of a Slurm available in the directory bin of a site, and puts it into PATH.
func (s *site) link(in *install.Installation) error {
	bin := filepath.Join(s.dir, "bin")
	if err := errors.Join(os.Mkdir(bin, 0o755), in.Link(bin)); err != nil {
		return err
	}
	for _, name := range []string{"slurmd", "slurmstepd"} {
		path, link := filepath.Join(filepath.Dir(in.Slurmctld), name), filepath.Join(bin, name)
		if _, err := os.Stat(path); err != nil {
			return err
		}
		if in.Loader == nil {
			if err := os.Symlink(path, link); err != nil {
				return err
			}
			continue
		}
		script, err := os.ReadFile(filepath.Join(bin, "slurmctld"))
		if err != nil {
			return err
		}
		if err := os.WriteFile(link, bytes.ReplaceAll(script, []byte("'"+in.Slurmctld+"'"), []byte("'"+path+"'")), 0o755); err != nil {
			return err
		}
	}
	s.t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return nil
}

// startSite starts a stock slurmctld and a slurmd for each node.
func startSite(t *testing.T, release string) *site {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: the driver is not tried on a live Slurm: slurmd needs root")
	}
	in, err := install.FindSlurm(release)
	if err == nil {
		err = in.Need(false)
	}
	if err != nil {
		t.Skipf("SKIPPED: the driver is not tried on a live Slurm %s: %v", release, err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "live-") // t.TempDir is for this user only
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, dir: dir, patience: 2 * time.Minute}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := s.link(in); err != nil {
		t.Skipf("SKIPPED: the driver is not tried on a live Slurm %s: %v", release, err)
	}
	for _, err := range []error{os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "runs"), nil, 0o666), os.Chmod(filepath.Join(dir, "runs"), 0o666)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	ports := freePorts(t, siteNodes+1)
	var b strings.Builder
	fmt.Fprintf(&b, `ClusterName=live
SlurmctldHost=%s(127.0.0.1)
SlurmctldPort=%d
SlurmUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
PluginDir=%[4]s
MailProg=/bin/true
ReturnToService=2
StateSaveLocation=%[3]s/state
SlurmctldPidFile=%[3]s/pid
SlurmctldLogFile=%[3]s/log
SlurmdSpoolDir=%[3]s/%%n
SlurmdPidFile=%[3]s/%%n.pid
SlurmdLogFile=%[3]s/%%n.log
JobSubmitPlugins=lua
SelectType=select/cons_tres
SchedulerType=sched/builtin
SchedulerParameters=defer,batch_sched_delay=0,sched_interval=5
KillWait=1
Licenses=lustre:10000
PartitionName=batch Nodes=n[1-9] Default=YES OverSubscribe=EXCLUSIVE MaxTime=60
PartitionName=other Nodes=n10 OverSubscribe=EXCLUSIVE MaxTime=60
`, host, ports[0], s.dir, in.PluginDir)
	for i, port := range ports[1:] {
		fmt.Fprintf(&b, "NodeName=n%d NodeHostname=%s NodeAddr=127.0.0.1 Port=%d State=UNKNOWN\n", i+1, host, port)
	}
	lua, err := os.ReadFile("../../ioservice/site/hold.lua")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{"slurm.conf": b.String(), "job_submit.lua": string(lua)}
	if release != "" {
		texts["cgroup.conf"] = "CgroupPlugin=disabled\n"
	}
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(s.dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(s.dir, "slurm.conf")
	s.env = append(os.Environ(), "SLURM_CONF="+conf)
	t.Setenv("SLURM_CONF", conf)
	s.start("slurmctld", "-D", "-c", "-f", conf)
	s.until("slurmctld answers", func() bool {
		out, err := Exec(t.Context(), "scontrol", "ping")
		return err == nil && strings.Contains(string(out), "UP")
	})
	for i := range siteNodes {
		s.start("slurmd", "-D", "-d", filepath.Join(s.dir, "bin", "slurmstepd"), "-N", fmt.Sprintf("n%d", i+1), "-f", conf)
	}
	s.until("all nodes are idle", func() bool {
		out, err := Exec(t.Context(), "sinfo", "-h", "-N", "-o", "%T")
		return err == nil && strings.Count(string(out), "idle\n") == siteNodes
	})
	return s
}

// freePorts returns ports that nobody has.
func freePorts(t *testing.T, n int) (list []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // it has no connection
		list = append(list, l.Addr().(*net.TCPAddr).Port)
	}
	return list
}

// start starts a program in a process group of its own, which ends with the test.
func (s *site) start(name string, args ...string) *exec.Cmd {
	s.t.Helper()
	c := exec.Command(name, args...)
	c.Env = s.env
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // it has helpers
		_ = c.Wait()
	})
	return c
}

func (s *site) until(what string, so func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(s.patience); !so(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			queue, _ := exec.Command("squeue").CombinedOutput()
			s.t.Fatalf("waited in vain: %s\n%s\n%s", what, queue, log[max(0, len(log)-4000):])
		}
	}
}

// submit submits a job that notes that it runs, and sleeps.
func (s *site) submit(seconds string, args ...string) string {
	s.t.Helper()
	c := exec.Command("sbatch", append([]string{"--parsable", "--output=/dev/null", "--chdir=/", "--time=1", "--uid=65534"}, args...)...)
	c.Stdin = strings.NewReader("#!/bin/sh\necho $SLURM_JOB_ID >> " + s.dir + "/runs\nsleep " + seconds + "\n")
	out, err := c.CombinedOutput()
	if err != nil {
		s.t.Fatalf("sbatch %q: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// runs returns the jobs that have run, sorted.
func (s *site) runs() []string {
	text, err := os.ReadFile(filepath.Join(s.dir, "runs"))
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	return slices.Sorted(strings.FieldsSeq(string(text)))
}

func (s *site) queue() []string {
	out, err := Exec(s.t.Context(), "squeue", "-h", "-o", "%i")
	if err != nil {
		s.t.Fatal(err)
	}
	return slices.Sorted(strings.FieldsSeq(string(out)))
}

// field returns a field of a job.
func (s *site) field(job, name string) string {
	out, err := Exec(s.t.Context(), "scontrol", "-o", "show", "job", job)
	if err != nil {
		s.t.Fatal(err)
	}
	return fields(string(out))[name]
}

// TestKilledDriver runs jobs on a live Slurm with a driver that is killed again and again. Every job
// runs once, and the holds of others stay.
func TestKilledDriver(t *testing.T) {
	for _, release := range []string{"", "24.11", "26.05"} {
		t.Run("Slurm "+release, func(t *testing.T) {
			if release == "" && os.Getenv("RMREPLAY_LONG_TESTS") != "" {
				killDriver(t, release, 200, 5)
			} else {
				killDriver(t, release, 20, 2)
			}
		})
	}
}

func killDriver(t *testing.T, release string, jobs, kills int) {
	s := startSite(t, release)
	s.patience += time.Duration(jobs) * 3 * time.Second
	c := New(Config{Partitions: []string{"batch"}, FileSystem: "lustre", Run: Exec, Now: now, Say: t.Logf})
	if err := c.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	users := s.submit("1", "--hold")
	admins := s.submit("1")
	other := s.submit("1", "--partition=other")
	if _, err := Exec(t.Context(), "scontrol", "update", "JobId="+admins, "AdminComment=mine", "Priority=0"); err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range jobs {
		args := []string{"--nodes=" + strconv.Itoa(1+i%3)}
		if i%2 == 0 {
			args = append(args, "--licenses=lustre:4000")
		}
		want = append(want, s.submit("1", args...))
	}
	first := want[0]
	if mark, reason := s.field(first, "AdminComment"), s.field(first, "Reason"); mark != "rmreplay-io=submitted;" || reason != "JobHeldUser" {
		t.Errorf("job_submit.lua: admin comment %s, reason %s", mark, reason)
	}
	after := s.submit("1", "--dependency=afterok:"+first)
	want = append(want, after, other)
	array := s.submit("1", "--array=1-3")
	given := s.submit("1", "--nodes=9")
	// The driver takes the holds of job_submit.lua over.
	round, err := c.Round(t.Context(), &driver.Driver{Options: ioaware.Options{Strategy: ioaware.Aware}, Patience: time.Hour})
	if err != nil || round.Failed != nil || len(round.Released) == 0 {
		t.Errorf("a round released %q, %v, %v", round.Released, err, round.Failed)
	}
	if last := want[jobs-1]; s.field(last, "AdminComment") != "rmreplay-io=held;" || s.field(last, "Reason") != "JobHeldAdmin" {
		t.Errorf("after a round: job %s has the mark %s, and waits for %s", last, s.field(last, "AdminComment"), s.field(last, "Reason"))
	}
	if _, err := Exec(t.Context(), "scontrol", "uhold", given); err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, driverVariable+"="+filepath.Join(s.dir, "lease"))
	for kill := range kills {
		d := s.start(os.Args[0])
		goal := len(s.runs()) + 2
		s.until("the driver works and jobs run", func() bool {
			dead, err := Dead(filepath.Join(s.dir, "lease"), time.Hour)
			return err == nil && !dead && (len(s.runs()) >= goal || len(s.runs()) >= jobs+5)
		})
		if err := d.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = d.Wait()
		if dead, err := Dead(filepath.Join(s.dir, "lease"), time.Hour); err != nil || dead {
			t.Errorf("after kill %d the lease is dead %t, %v, within an hour", kill, dead, err)
		}
	}
	d := s.start(os.Args[0])
	left := slices.Sorted(slices.Values([]string{users, admins, given}))
	s.until("all jobs have ended", func() bool { return slices.Equal(s.queue(), left) })
	if err := d.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = d.Wait()
	runs := s.runs()
	if len(runs) != len(want)+3 {
		t.Errorf("%d runs of %d jobs", len(runs), len(want)+3)
	}
	for _, job := range want {
		if n := len(slices.DeleteFunc(slices.Clone(runs), func(r string) bool { return r != job })); n != 1 {
			t.Errorf("job %s ran %d times", job, n)
		}
	}
	if len(slices.Compact(slices.Clone(runs))) != len(runs) {
		t.Errorf("jobs ran twice: %q (array %s)", runs, array)
	}
	// The watchdog releases what the driver held, and nothing else.
	late := s.submit("1")
	n, err := c.ReleaseAll(t.Context())
	if n != 1 || err != nil {
		t.Errorf("the watchdog released %d jobs, %v, want 1", n, err)
	}
	s.until("the released job has ended", func() bool { return slices.Equal(s.queue(), left) })
	if !slices.Contains(s.runs(), late) {
		t.Errorf("job %s did not run", late)
	}
	if u, a, g := s.field(users, "Reason"), s.field(admins, "Reason"), s.field(given, "Reason"); u != "JobHeldUser" || a != "JobHeldAdmin" || g != "JobHeldUser" {
		t.Errorf("the held jobs wait for %s, %s and %s", u, a, g)
	}
}
