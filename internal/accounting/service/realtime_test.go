package service_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rmreplay/internal/accounting/service"
	"rmreplay/internal/rm/slurm/rpc/rpctest"
	"rmreplay/internal/rm/slurm/slurmtest"
	"rmreplay/internal/slurmspec"
)

// site is a cluster of stock daemons in real time: MariaDB, slurmdbd, slurmctld and one slurmd.
type site struct {
	t         *testing.T
	slurm     *rpctest.Slurm
	dir, conf string
	slurmctld *exec.Cmd
}

// newSite starts a cluster with additional lines in slurm.conf, but not slurmctld. It skips the
// test if the release lacks the plugin, or if this user cannot run slurmd.
func newSite(t *testing.T, slurm *rpctest.Slurm, plugin, lines string) *site {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: nothing is checked against stock daemons in real time: only root can run slurmd")
	}
	if _, err := os.Stat(filepath.Join(slurm.PluginDir(), plugin+".so")); err != nil {
		t.Skipf("SKIPPED: nothing is checked against Slurm's %s: %v", plugin, err)
	}
	for _, program := range []string{"mariadbd", "mariadb-install-db"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED: nothing is checked against stock daemons in real time: %v", err)
		}
	}
	s := &site{t: t, slurm: slurm, dir: t.TempDir()}
	ports := [3]string{}
	for i := range ports {
		_, ports[i], _ = net.SplitHostPort(freeAddress(t))
	}
	for _, sub := range []string{"state", "spool", "tmp"} {
		if err := os.Mkdir(filepath.Join(s.dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	write("cgroup.conf", slurmtest.CgroupConf(slurm.Release))
	write("db.sql", "CREATE DATABASE slurm_acct_db;\n")
	write("slurmdbd.conf", fmt.Sprintf(`AuthType=auth/none
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=%s
SlurmUser=root
LogFile=%s/dbd.log
PidFile=%[2]s/dbd.pid
PluginDir=%s
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
`, ports[0], s.dir, slurm.PluginDir()))
	var port int
	if _, err := fmt.Sscan(ports[1], &port); err != nil {
		t.Fatal(err)
	}
	s.conf = slurm.ControllerConf(t, s.dir, rpctest.OwnAddress(t), port, fmt.Sprintf(`AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=%s
JobAcctGatherType=jobacct_gather/none
TaskPlugin=task/none
MailProg=/bin/true
SlurmdParameters=config_overrides
SlurmdPort=%s
SlurmdSpoolDir=%s/spool
SlurmdPidFile=%[3]s/slurmd.pid
SlurmdLogFile=%[3]s/slurmd.log
MinJobAge=300
NodeName=n1 NodeAddr=127.0.0.1 NodeHostname=%s CPUs=32 RealMemory=4096
PartitionName=p1 Nodes=n1 Default=YES MaxTime=60
%s
`, ports[0], ports[2], s.dir, host, lines))
	db := filepath.Join(s.dir, "db")
	if out, err := exec.Command("mariadb-install-db", "--no-defaults", "--user=root", "--datadir="+db, "--skip-test-db", "--auth-root-authentication-method=normal", "--tmpdir="+filepath.Join(s.dir, "tmp")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.start("mariadbd", "--no-defaults", "--user=root", "--datadir="+db, "--socket="+s.socket(), "--pid-file="+filepath.Join(s.dir, "db.pid"),
		"--tmpdir="+filepath.Join(s.dir, "tmp"), "--skip-networking", "--skip-grant-tables", "--skip-log-bin", "--innodb-lock-wait-timeout=900", "--init-file="+filepath.Join(s.dir, "db.sql"))
	s.until("MariaDB", func() bool {
		conn, err := net.Dial("unix", s.socket())
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	s.start(slurm.Program(t, s.dir, "slurmdbd"), "-D")
	s.until("slurmdbd", func() bool {
		_, err := s.try("sacctmgr", "-nP", "list", "cluster")
		return err == nil
	})
	for _, words := range []string{"cluster test", "account a", "user root account=a"} {
		s.run("sacctmgr", append([]string{"-i", "add"}, strings.Fields(words)...)...)
	}
	return s
}

func (s *site) socket() string { return filepath.Join(s.dir, "db.sock") }

// start starts a daemon. The end of the test kills it.
func (s *site) start(path string, args ...string) *exec.Cmd {
	s.t.Helper()
	log, err := os.Create(filepath.Join(s.dir, filepath.Base(path)+".out"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	c := exec.Command(path, args...)
	c.Env = []string{"SLURM_CONF=" + s.conf, "MYSQL_UNIX_PORT=" + s.socket(), "PATH=" + os.Getenv("PATH"), "TZ=UTC", "HOME=/"}
	c.Dir, c.Stdout, c.Stderr = s.dir, log, log
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { end(c) })
	return c
}

func end(c *exec.Cmd) {
	_ = c.Process.Kill() // the process may have ended
	_ = c.Wait()
}

// startController starts slurmctld and, the first time, slurmd.
func (s *site) startController() {
	s.t.Helper()
	path := filepath.Join(s.dir, "slurmctld")
	first := s.slurmctld == nil
	if first {
		s.slurm.Controller(s.t, s.dir)
	}
	// -i: otherwise 26.05 does not start without the file of associations' usage. A slurmctld that
	// was killed early has not written this file.
	s.slurmctld = s.start(path, "-D", "-i")
	if first {
		s.start(s.slurm.Program(s.t, s.dir, "slurmd"), "-D", "-N", "n1", "-d", s.slurm.Program(s.t, s.dir, "slurmstepd"))
	}
	s.until("the node", func() bool {
		out, err := s.try("sinfo", "-h", "-o", "%T")
		return err == nil && strings.HasPrefix(out, "idle")
	})
}

func (s *site) try(args ...string) (string, error) {
	return s.slurm.RunClient(s.t, s.conf, s.dir, "", args...)
}

func (s *site) run(program string, args ...string) string {
	s.t.Helper()
	out, err := s.try(append([]string{program}, args...)...)
	if err != nil {
		s.t.Fatalf("%s %q: %v: %s", program, args, err, out)
	}
	return out
}

// until waits until holds returns true.
func (s *site) until(what string, holds func() bool) {
	s.t.Helper()
	for range 1800 {
		if holds() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	logs := ""
	files, _ := filepath.Glob(filepath.Join(s.dir, "*.[lo][ou][gt]"))
	for _, f := range files {
		text, _ := os.ReadFile(f)
		logs += f + ":\n" + string(text[max(0, len(text)-2000):]) + "\n"
	}
	s.t.Fatalf("waiting for %s: too long\n%s", what, logs)
}

// submit submits jobs and waits until they have ended.
func (s *site) submit(count int, options ...string) {
	s.t.Helper()
	for i := range count {
		s.run("sbatch", slices.Concat([]string{"-o", "/dev/null", "-A", "a", "-t", "5", fmt.Sprintf("--wrap=sleep 0.%d; exit %d", i%7, i%3)}, options)...)
	}
	s.until("the jobs", func() bool {
		return strings.TrimSpace(s.run("squeue", "-h", "-t", "all", "-o", "%T", "--states=PENDING,RUNNING,COMPLETING,CONFIGURING")) == ""
	})
}

// sacct writes sacct's output to a file, after it has the given number of jobs.
func (s *site) sacct(jobs int) string {
	s.t.Helper()
	var out string
	s.until("sacct", func() bool {
		out = s.run("sacct", "-a", "-X", "-P", "-D", "-S", "2020-01-01", "-o", "JobID,JobIDRaw,Cluster,JobName,User,UID,Group,GID,Account,Partition,QOS,Submit,Eligible,Start,End,State,ExitCode,Timelimit,NNodes,NodeList,AllocCPUS,ReqTRES,AllocTRES,Priority")
		return strings.Count(out, "\n") == jobs+1 && !strings.Contains(out, "|RUNNING|") && !strings.Contains(out, "|Unknown|")
	})
	path := filepath.Join(s.t.TempDir(), "sacct.txt")
	if err := os.WriteFile(path, []byte(out), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// TestRealTime runs short jobs on stock daemons of each release in real time. The stock plugin
// sends them to the server. Then slurmctld is killed while the server is down: reconcile must name
// exactly the lost jobs, and add them.
func TestRealTime(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: stock daemons run in real time without -short only")
	}
	rpctest.Each(t, slurmspec.R2205, []string{"slurmd", "slurmdbd", "sbatch", "sacct", "sacctmgr", "sinfo", "squeue"}, func(t *testing.T, slurm *rpctest.Slurm) {
		t.Parallel()
		address, data := freeAddress(t), filepath.Join(t.TempDir(), "data")
		s := newSite(t, slurm, "jobcomp_elasticsearch", "JobCompType=jobcomp/elasticsearch\nJobCompLoc=http://"+address+"/vale/_doc")
		server := start(t, data, address)
		ctx, svc := context.Background(), service.New()
		arrived := func(jobs int64) {
			t.Helper()
			s.until(fmt.Sprintf("%d jobs", jobs), func() bool {
				info, err := svc.Info(ctx, data)
				return err == nil && info.Jobs == jobs
			})
		}
		reconcile := func(jobs int, fill bool) *service.Reconciled {
			t.Helper()
			r, err := svc.Reconcile(ctx, data, service.Records{Sources: []string{s.sacct(jobs)}, From: "sacct"}, fill)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		s.startController()
		s.submit(10, "-J", "plain")
		s.submit(5, "-J", "name \"quoted\" ü", "-N", "1", "-n", "3", "--comment=c")
		s.submit(1, "-J", "array", "--array=1-5")
		arrived(20)
		if r := reconcile(20, false); r.Records != 20 || r.Equal != 20 || r.Unknown != 0 {
			t.Errorf("%+v", r)
		}

		if err := server.end(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		s.submit(5, "-J", "lost")
		time.Sleep(8 * time.Second) // slurmctld saves its state every 5 s, and must not report these jobs again
		end(s.slurmctld)
		server = start(t, data, address)
		s.startController()
		s.submit(3, "-J", "after")
		arrived(23)
		r := reconcile(28, false)
		lost := []string{}
		for n := 21; n <= 25; n++ {
			lost = append(lost, fmt.Sprintf("test:%d:", n))
		}
		named := slices.EqualFunc(r.Missing, lost, strings.HasPrefix)
		if !named || r.Equal != 23 || len(r.Differing) > 0 || r.Unknown > 0 {
			t.Errorf("want the jobs %v to be missing: %+v", lost, r)
		}
		if r = reconcile(28, true); r.Filled != 5 {
			t.Errorf("%+v", r)
		}
		if r = reconcile(28, false); r.Equal != 28 || len(r.Missing)+len(r.Differing)+r.Unknown > 0 {
			t.Errorf("%+v", r)
		}
		if err := server.end(syscall.SIGTERM); err != nil || !bytes.Contains(server.log.Bytes(), []byte("rmreplay: received 8 documents: 8 jobs new")) {
			t.Errorf("%v: %s", err, server.log.String())
		}
	})
}
