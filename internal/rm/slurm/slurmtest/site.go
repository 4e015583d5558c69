// Package slurmtest starts a stock Slurm on loopback in real time, for tests of programs that talk
// to a live cluster.
package slurmtest

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
	"rmreplay/internal/slurmspec"
)

// Site is a live Slurm: slurmctld, and a slurmd for each node. While the test runs, its commands
// are the first in PATH, and SLURM_CONF names its slurm.conf.
type Site struct {
	// Dir contains the site's files, and its programs in the directory bin. Every user can read it.
	Dir string
	// Patience is how long Until waits, also on a busy machine.
	Patience time.Duration

	t *testing.T
}

// Options describe the site that a test needs.
type Options struct {
	// Nodes is the number of nodes. Their names are n1, n2 and so on.
	Nodes int
	// Lines are added to slurm.conf, such as partitions.
	Lines string
	// Files are the texts of further files beside slurm.conf, by name.
	Files map[string]string
}

// CgroupConf is the text of a cgroup.conf for slurmd on a machine without a cgroup file system, such as a chroot or a
// container. Without a cgroup.conf, slurmd looks for the file system to choose a plugin. A plugin that cgroup.conf
// names does nothing until a task or a job of proctrack/cgroup needs it (src/common/cgroup.c).
func CgroupConf(release slurmspec.Release) string {
	if release.Since(slurmspec.R2311) {
		return "CgroupPlugin=disabled\n"
	}
	return "CgroupPlugin=cgroup/v1\n"
}

// Start starts a site of a release; an empty release means the machine's release. The site stops
// when the test ends. Start skips the test if the release is not installed, if this user cannot
// run slurmd, and under -short.
func Start(t *testing.T, release string, o Options) *Site {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED by -short: a live Slurm")
	}
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: nothing is tried on a live Slurm: slurmd needs root")
	}
	in, err := install.FindSlurm(release)
	if err == nil {
		err = in.Need(false)
	}
	if err != nil {
		t.Skipf("SKIPPED: nothing is tried on a live Slurm %s: %v", release, err)
	}
	dir, err := os.MkdirTemp("", "live-") // t.TempDir is for this user only
	if err != nil {
		t.Fatal(err)
	}
	s := &Site{Dir: dir, Patience: 3 * time.Minute, t: t}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	bin := filepath.Join(dir, "bin")
	if err := link(in, bin); err != nil {
		t.Skipf("SKIPPED: nothing is tried on a live Slurm %s: %v", release, err)
	}
	files := map[string]string{"slurm.conf": configuration(t, in, dir, o), "cgroup.conf": CgroupConf(in.Release)}
	for name, text := range o.Files {
		files[name] = text
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "state"), 0o700)); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "slurm.conf")
	t.Setenv("SLURM_CONF", conf)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	s.Start("slurmctld", "-D", "-c", "-f", conf)
	s.Until("slurmctld answers", func() bool { return strings.Contains(s.Say("scontrol", "ping"), "UP") })
	for i := range o.Nodes {
		s.Start("slurmd", "-D", "-d", filepath.Join(bin, "slurmstepd"), "-N", fmt.Sprintf("n%d", i+1), "-f", conf)
	}
	s.Until("all nodes are idle", func() bool {
		return strings.Count(s.Say("sinfo", "-h", "-N", "-o", "%T"), "idle\n") == o.Nodes
	})
	return s
}

// link makes the programs of a Slurm available in a directory.
func link(in *install.Installation, bin string) error {
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
		if err := os.WriteFile(link, bytes.ReplaceAll(script, []byte("'"+in.Slurmctld+"'"), []byte("'"+path+"'")),
			0o755); err != nil {
			return err
		}
	}
	return nil
}

// configuration returns slurm.conf.
func configuration(t *testing.T, in *install.Installation, dir string, o Options) string {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	var ports []int
	for range o.Nodes + 1 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
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
KillWait=1
%s
`, host, ports[0], in.PluginDir, dir, strings.TrimSpace(o.Lines))
	for i, port := range ports[1:] {
		fmt.Fprintf(&b, "NodeName=n%d NodeHostname=%s NodeAddr=127.0.0.1 Port=%d State=UNKNOWN\n", i+1, host, port)
	}
	return b.String()
}

// Start starts a program in a separate process group, which is ended with the test.
func (s *Site) Start(path string, args ...string) *exec.Cmd {
	s.t.Helper()
	c := exec.Command(path, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // the program may have started other processes
		_ = c.Wait()
	})
	return c
}

// Say returns what a command prints; "" if it fails.
func (s *Site) Say(words ...string) string {
	out, err := exec.Command(words[0], words[1:]...).Output()
	if err != nil {
		return ""
	}
	return string(out)
}

// Until waits until so returns true. If the wait takes too long, the test fails and prints the
// ends of the logs.
func (s *Site) Until(what string, so func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(s.Patience); !so(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(s.Dir, "log"))
			node, _ := os.ReadFile(filepath.Join(s.Dir, "n1.log"))
			s.t.Fatalf("waited in vain: %s\n%s\n%s\n%s", what, s.Say("squeue"), log[max(0, len(log)-4000):],
				node[max(0, len(node)-4000):])
		}
	}
}

// Submit submits a job script as the user nobody, and returns the job's number.
func (s *Site) Submit(script string, options ...string) string {
	s.t.Helper()
	c := exec.CommandContext(s.t.Context(), "sbatch", append([]string{"--parsable", "--output=/dev/null", "--chdir=/",
		"--uid=65534"}, options...)...)
	c.Stdin = strings.NewReader("#!/bin/sh\n" + script + "\n")
	out, err := c.CombinedOutput()
	if err != nil {
		s.t.Fatalf("sbatch %q: %v: %s", options, err, out)
	}
	return strings.TrimSpace(string(out))
}
