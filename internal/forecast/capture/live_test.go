package capture

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

	"rmreplay/internal/experiment"
	"rmreplay/internal/forecast"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/slurmspec"
)

const liveNodes = 2

// site is a live Slurm on loopback, in real time.
type site struct {
	t   *testing.T
	dir string
	in  *install.Installation
}

// startSite starts a stock slurmctld and a slurmd for each node. Its commands are the first in PATH.
func startSite(t *testing.T, release string) *site {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: no capture of a live Slurm: slurmd needs root")
	}
	in, err := install.FindSlurm(release)
	if err == nil {
		err = in.Need(false)
	}
	if err != nil {
		t.Skipf("SKIPPED: no capture of a live Slurm %s: %v", release, err)
	}
	dir, err := os.MkdirTemp("", "live-") // t.TempDir is for this user only
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t, dir, in}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := s.link(); err != nil {
		t.Skipf("SKIPPED: no capture of a live Slurm %s: %v", release, err)
	}
	for _, err := range []error{os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "state"), 0o700)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	conf := filepath.Join(dir, "slurm.conf")
	if err := os.WriteFile(conf, []byte(s.configuration()), 0o600); err != nil {
		t.Fatal(err)
	}
	if in.Release.Since(slurmspec.R2311) { // older ones do not know it
		if err := os.WriteFile(filepath.Join(dir, "cgroup.conf"), []byte("CgroupPlugin=disabled\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SLURM_CONF", conf)
	t.Setenv("PATH", filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	s.start("slurmctld", "-D", "-c", "-f", conf)
	s.until("slurmctld answers", func() bool { return strings.Contains(s.say("scontrol", "ping"), "UP") })
	for i := range liveNodes {
		s.start("slurmd", "-D", "-d", filepath.Join(dir, "bin", "slurmstepd"), "-N", fmt.Sprintf("n%d", i+1), "-f", conf)
	}
	s.until("all nodes are idle", func() bool {
		return strings.Count(s.say("sinfo", "-h", "-N", "-o", "%T"), "idle\n") == liveNodes
	})
	t.Cleanup(func() { // before the daemons end
		s.until("all jobs have ended", func() bool {
			return s.say("scancel", "--user=65534") == "" && s.say("squeue", "-h") == "" && s.say("scontrol", "ping") != ""
		})
	})
	return s
}

// link makes the programs of the site's Slurm available in its directory bin.
func (s *site) link() error {
	bin := filepath.Join(s.dir, "bin")
	if err := errors.Join(os.Mkdir(bin, 0o755), s.in.Link(bin)); err != nil {
		return err
	}
	for _, name := range []string{"slurmd", "slurmstepd"} {
		path, link := filepath.Join(filepath.Dir(s.in.Slurmctld), name), filepath.Join(bin, name)
		if _, err := os.Stat(path); err != nil {
			return err
		}
		if s.in.Loader == nil {
			if err := os.Symlink(path, link); err != nil {
				return err
			}
			continue
		}
		script, err := os.ReadFile(filepath.Join(bin, "slurmctld"))
		if err != nil {
			return err
		}
		if err := os.WriteFile(link, bytes.ReplaceAll(script, []byte("'"+s.in.Slurmctld+"'"), []byte("'"+path+"'")), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// configuration returns the site's slurm.conf.
func (s *site) configuration() string {
	host, err := os.Hostname()
	if err != nil {
		s.t.Fatal(err)
	}
	var ports []int
	for range liveNodes + 1 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			s.t.Fatal(err)
		}
		defer l.Close() // it has no connection
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `ClusterName=live
SlurmctldHost=%s(127.0.0.1)
SlurmctldPort=%d
SlurmUser=root
AuthType=auth/none
CredType=cred/none
PluginDir=%s
ProctrackType=proctrack/linuxproc
MailProg=/bin/true
ReturnToService=2
StateSaveLocation=%s/state
SlurmctldPidFile=%[4]s/pid
SlurmctldLogFile=%[4]s/log
SlurmdSpoolDir=%[4]s/%%n
SlurmdPidFile=%[4]s/%%n.pid
SlurmdLogFile=%[4]s/%%n.log
SelectType=select/cons_tres
SchedulerType=sched/backfill
KillWait=1
PartitionName=batch Nodes=n[1-%d] Default=YES OverSubscribe=EXCLUSIVE MaxTime=600
`, host, ports[0], s.in.PluginDir, s.dir, liveNodes)
	for i, port := range ports[1:] {
		fmt.Fprintf(&b, "NodeName=n%d NodeHostname=%s NodeAddr=127.0.0.1 Port=%d State=UNKNOWN\n", i+1, host, port)
	}
	return b.String()
}

// start starts a daemon in a process group of its own, which ends with the test.
func (s *site) start(path string, args ...string) {
	s.t.Helper()
	c := exec.Command(path, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // it has helpers
		_ = c.Wait()
	})
}

// say returns what a command of Slurm prints; "" if it fails.
func (s *site) say(words ...string) string {
	out, err := exec.Command(words[0], words[1:]...).Output()
	if err != nil {
		return ""
	}
	return string(out)
}

func (s *site) until(what string, so func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !so(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			node, _ := os.ReadFile(filepath.Join(s.dir, "n1.log"))
			s.t.Fatalf("waited in vain: %s\n%s\n%s\n%s", what, s.say("squeue"), log[max(0, len(log)-4000):], node[max(0, len(node)-4000):])
		}
	}
}

// submit submits a job that sleeps, and returns its number.
func (s *site) submit(args ...string) string {
	s.t.Helper()
	c := exec.CommandContext(s.t.Context(), "sbatch", append([]string{"--parsable", "--output=/dev/null", "--chdir=/", "--uid=65534"}, args...)...)
	c.Stdin = strings.NewReader("#!/bin/sh\nexec sleep 600\n")
	out, err := c.CombinedOutput()
	if err != nil {
		s.t.Fatalf("sbatch %q: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestLiveCapture captures live clusters of several releases, and forecasts their queues.
func TestLiveCapture(t *testing.T) {
	for _, release := range []string{"", "24.11", "26.05"} {
		t.Run("Slurm "+release, func(t *testing.T) { forecastLive(t, release) })
	}
}

func forecastLive(t *testing.T, release string) {
	s := startSite(t, release)
	long, short := s.submit("-N1", "-t20"), s.submit("-N1", "-t10")
	s.until("two jobs run", func() bool { return strings.Count(s.say("squeue", "-h", "-t", "R", "-o", "%i"), "\n") == 2 })
	both, next := s.submit("-N2", "-t30", "-J", "a b=c"), s.submit("-N1", "-t8")
	held, array := s.submit("-N1", "-t5", "--hold"), s.submit("-N1", "-t5", "--array=1-3")
	dir := filepath.Join(t.TempDir(), "queue")
	if err := Run(t.Context(), dir, Options{Timeout: time.Minute, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	q, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if q.Running() != 2 || len(q.Pending()) != 6 || q.Phase.Began == 0 || len(q.Workload.NodeEvents) != 0 {
		t.Fatalf("%d running, pending %v, phase %+v, nodes %v", q.Running(), q.Pending(), q.Phase, q.Workload.NodeEvents)
	}
	of := func(job string, task int) forecast.Key { return forecast.Key{Job: job, Task: task} }
	free := map[string]hpc.Time{} // when each running job reaches its limit
	for _, job := range q.Workload.Jobs.All() {
		if q.Workload.Preset(job) {
			free[job.ID] = job.Recorded.Start.Add(job.TimeLimit)
		}
	}
	opts := forecast.Options{
		Engine:       experiment.Spec{Simulator: &experiment.Simulator{Cluster: Cluster(dir)}},
		Realizations: 1, Seed: 1, RunTimes: forecast.FromLimits, Arrivals: forecast.NoArrivals,
	}
	starts, doubts, err := forecast.Make(t.Context(), q, opts)
	if err != nil || len(doubts) > 0 {
		t.Fatalf("%v, %q", err, doubts)
	}
	// The job of two nodes starts at the end of the last running job, and shorter ones before it.
	for key, want := range map[forecast.Key]hpc.Time{
		of(both, -1): free[long], of(next, -1): free[short], of(held, -1): hpc.Never,
	} {
		if got := starts[key][0]; got != want {
			t.Errorf("job %v starts at %s with time limits as run times, want %s", key, got, want)
		}
	}
	opts.Realizations, opts.RunTimes, opts.Learner = 20, forecast.FromHistory, forecast.NewShares()
	if starts, doubts, err = forecast.Make(t.Context(), q, opts); err != nil || len(doubts) > 0 {
		t.Fatalf("%v, %q", err, doubts)
	}
	for _, key := range []forecast.Key{of(both, -1), of(next, -1), of(array, 1), of(array, 2), of(array, 3)} {
		low, middle, high := forecast.Quantile(starts[key], 0.1), forecast.Quantile(starts[key], 0.5), forecast.Quantile(starts[key], 0.9)
		if low < q.At || low > middle || middle > high || low == high || high > free[long].Add(time.Hour) {
			t.Errorf("job %v starts at %s, %s and %s", key, low, middle, high)
		}
	}
}
