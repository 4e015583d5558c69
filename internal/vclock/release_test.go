package vclock

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rmreplay/internal/procfs"
	"rmreplay/internal/rm/slurm/rpc/rpctest"
)

// releases lists the releases of Slurm whose daemons are tested under the clock, besides the
// installed release. Each is a directory in RMREPLAY_SLURM_ROOTS: a root directory in which that
// release is installed.
var releases = []string{"24.11", "26.05"}

// release is an unpacked system with Slurm.
type release struct {
	t    testing.TB
	root string
	dir  string // of configuration, state and logs
	port int
}

func eachRelease(t *testing.T, test func(*testing.T, *release)) {
	for _, name := range releases {
		t.Run(name, func(t *testing.T) {
			if testing.Short() {
				t.Skip("SKIPPED by -short: real daemons")
			}
			roots, ok := os.LookupEnv("RMREPLAY_SLURM_ROOTS")
			if !ok {
				t.Skipf("SKIPPED: Slurm %s is not tested under the clock: set RMREPLAY_SLURM_ROOTS to a directory with its root, %s", name, name)
			}
			r := &release{t: t, root: filepath.Join(roots, name), dir: t.TempDir()}
			if _, err := os.Lstat(r.root); err != nil {
				t.Skipf("SKIPPED: Slurm %s is not tested under the clock: %v", name, err)
			}
			if _, err := os.Stat(r.path("usr/sbin/slurmctld-wlm")); err != nil {
				t.Fatal(err)
			}
			test(t, r)
		})
	}
}

func (r *release) path(p string) string { return filepath.Join(r.root, p) }

// wrap writes a script with the given name that runs a program of the root with the root's own
// loader and libraries. slurmctld executes itself again by this path.
func (r *release) wrap(name, program string) string {
	r.t.Helper()
	lib := r.path("usr/lib/x86_64-linux-gnu")
	path := filepath.Join(r.dir, name)
	script := fmt.Sprintf("#!/bin/sh\nexec %s/ld-linux-x86-64.so.2 --inhibit-cache --library-path %s:%s/slurm-wlm --argv0 %q %s \"$@\"\n",
		lib, lib, lib, path, r.path(program))
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		r.t.Fatal(err)
	}
	return path
}

// configure writes a minimal slurm.conf with further lines.
func (r *release) configure(more string) {
	r.t.Helper()
	for _, d := range []string{"state", "spool"} {
		if err := os.MkdirAll(filepath.Join(r.dir, d), 0o755); err != nil {
			r.t.Fatal(err)
		}
	}
	conf := fmt.Sprintf(`ClusterName=c
SlurmctldHost=localhost(%s)
SlurmctldPort=%d
SlurmUser=root
AuthType=auth/none
CredType=cred/none
CommunicationParameters=NoCtldInAddrAny
PluginDir=%s
StateSaveLocation=%s
SlurmdSpoolDir=%s
SlurmctldPidFile=%s
SlurmctldLogFile=/dev/stdout
SlurmctldDebug=debug
SlurmctldParameters=enable_configless
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SchedulerType=sched/backfill
SlurmdTimeout=0
ReturnToService=2
NodeName=n[1-4] NodeAddr=127.9.9.[1-4] CPUs=4 State=UNKNOWN
PartitionName=p Nodes=ALL Default=YES
%s
`, rpctest.OwnAddress(r.t), r.port, r.path("usr/lib/x86_64-linux-gnu/slurm-wlm"), filepath.Join(r.dir, "state"), filepath.Join(r.dir, "spool"),
		filepath.Join(r.dir, "pid"), more)
	if err := os.WriteFile(filepath.Join(r.dir, "slurm.conf"), []byte(conf), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func freePort(t testing.TB) int {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

// slurmctld writes slurm.conf and returns slurmctld's path and arguments.
func (r *release) slurmctld(more string) (path string, args []string) {
	r.t.Helper()
	r.port = freePort(r.t)
	r.configure(more)
	return r.wrap("slurmctld", "usr/sbin/slurmctld-wlm"), []string{"-D", "-f", filepath.Join(r.dir, "slurm.conf")}
}

// TestReleases runs slurmctld of each release under the clock. slurmctld starts, idles for hours,
// reads a new configuration (newer releases restart themselves for this), and exits when the test
// asks for it.
func TestReleases(t *testing.T) {
	eachRelease(t, func(t *testing.T, r *release) {
		path, args := r.slurmctld("")
		l := newLab(t, Policy{})
		l.extraEnv = []string{"SLURM_CONF=" + filepath.Join(r.dir, "slurm.conf")}
		ctld := l.start(path, args...)
		scontrol := r.wrap("scontrol", "usr/bin/scontrol")
		to := func(after time.Duration) {
			t.Helper()
			begin, cpu := time.Now(), procfs.Process(ctld.cmd.Process.Pid).CPU
			if err := l.waitTo(epoch.Add(after)); err != nil {
				t.Fatalf("%v\n%s", err, l.outputs())
			}
			t.Logf("at %v: %v real, %v CPU, %+v", after, time.Since(begin), procfs.Process(ctld.cmd.Process.Pid).CPU-cpu, l.Stats())
		}
		to(time.Minute)
		if !l.Listening(uint16(r.port)) {
			t.Fatalf("slurmctld does not listen after a minute\n%s\n%s", ctld.output(), FormatThreads(l.Threads(), l.Now()))
		}
		to(4 * time.Hour)
		ping := l.start(scontrol, "ping")
		to(5 * time.Hour)
		if out := ping.output(); !strings.Contains(out, "is UP") {
			t.Errorf("scontrol ping: %s %s", ping.status, out)
		}
		r.configure("PartitionName=q Nodes=ALL")
		reconfigure := l.start(scontrol, "reconfigure")
		to(6 * time.Hour)
		if reconfigure.status != "exit status 0" {
			t.Errorf("scontrol reconfigure: %s %s\n%s", reconfigure.status, reconfigure.output(), ctld.output())
		}
		show := l.start(scontrol, "show", "partition", "q")
		to(7 * time.Hour)
		if !strings.Contains(show.output(), "PartitionName=q") {
			t.Errorf("scontrol show partition: %s %s\n%s", show.status, show.output(), ctld.output())
		}
		l.TouchSignal()
		if err := syscall.Kill(ctld.cmd.Process.Pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		to(8 * time.Hour)
		if ctld.status != "exit status 0" {
			t.Errorf("slurmctld: %s\n%s", ctld.status, ctld.output())
		}
		l.checkCount()
	})
}
