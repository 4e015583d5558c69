package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/run"
	"rmreplay/internal/supervise"
)

// TestAttacks lets another user attack running replays with stock Slurm commands, which the
// daemons would believe (auth/none). The attacker runs as that user, and in user namespaces as the
// daemons' user or as root. The daemons run none of the attacker's programs, and the schedule
// stays the same, with a private network and with a shared one. If the tests do not run as root,
// the attacker is the user who replays, but still cannot reach the daemons.
func TestAttacks(t *testing.T) {
	needSlurm(t)
	quiet := startReplay(t, mixedTrace())
	if status := quiet.wait(t); status != console.ExitOK {
		t.Fatalf("exit status %d", status)
	}
	_, rows := openRows(t, quiet.record)
	want := fates(rows)
	for _, network := range []supervise.Network{supervise.PrivateNetwork, supervise.SharedNetwork} {
		t.Run(string(network), func(t *testing.T) {
			if guard, err := supervise.Start(supervise.Options{Network: network}, func(supervise.Exit) {}); err != nil {
				t.Skipf("SKIPPED: attacks on a private network are not tested: %v", err)
			} else if err := guard.Close(); err != nil {
				t.Fatal(err)
			}
			t.Setenv(install.NetworkVariable, string(network))
			r := startReplay(t, mixedTrace())
			r.until(t, "slurmctld listens", func() bool { return strings.Contains(r.said(t, "stderr"), "registering the nodes\n") })
			attackers := startAttackers(t, r.inventory(t))
			if status := r.wait(t); status != console.ExitOK {
				t.Errorf("exit status %d", status)
			}
			time.Sleep(100 * time.Millisecond) // a program may have been started last
			for _, a := range attackers {
				a.stop(t)
			}
			rec, rows := openRows(t, r.record)
			if m := rec.Manifest; !m.Valid || m.Network != string(network) {
				t.Errorf("valid %v, network %q", m.Valid, m.Network)
			}
			if diff := cmp.Diff(want, fates(rows)); diff != "" {
				t.Errorf("attacked (+) and not (-):\n%s", diff)
			}
		})
	}
}

// attacker is a process of another user that tries to have its program run.
type attacker struct {
	name string
	dir  string // with all its files
	cmd  *exec.Cmd
}

// attackerID is the user ID and the group ID of attackers if root runs the tests.
const attackerID = 12345

// attackScript runs commands that only Slurm's administrators may run. The program of the attacker
// would write a file.
const attackScript = `#!/bin/sh
cd "${0%/*}" && export SLURM_CONF=$PWD/slurm.conf
while :; do
	for job in 1 2 3 10 20 30 40 50; do
		echo "as user $(id -u): job $job" >>log
		strigger --set --fini --jobid=$job --program="$PWD/program.sh" >>log 2>&1
		strigger --set --start --jobid=$job --program="$PWD/program.sh" >>log 2>&1
		scontrol update jobid=$job timelimit=1 >>log 2>&1 && echo changed >>has-run
		scancel $job >>log 2>&1
	done
done
`

// startAttackers starts attackers that have the replay's slurm.conf.
func startAttackers(t *testing.T, in remains) (list []*attacker) {
	t.Helper()
	conf, err := os.ReadFile(filepath.Join(in.state, "conf", "slurm.conf"))
	if err != nil {
		t.Fatal(err)
	}
	conf = regexp.MustCompile(`(?m)^SlurmUser=.*$`).ReplaceAll(conf, []byte("SlurmUser=root")) // for the attacker's commands
	user, _, _ := strings.Cut(statusOf(t, in.find(t, "slurmctld"), "Uid"), " ")
	for name, wrapper := range map[string][]string{
		"another user": nil, "daemons' user": {"unshare", "-U", "--map-user=" + user}, "root": {"unshare", "-U", "--map-root-user"},
	} {
		if err := asAttacker(append(slices.Clone(wrapper), "/bin/true")...).Run(); err != nil {
			t.Logf("SKIPPED: an attack as %s: a user cannot become it here: %v", name, err)
			continue
		}
		dir, err := os.MkdirTemp("", "rmreplay-attack-") // outside of t.TempDir, so that another user can enter it
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		program := fmt.Sprintf("#!/bin/sh\nid >>%s/has-run\n", dir)
		writeFiles(t, dir, map[string]string{"slurm.conf": string(conf), "attack.sh": attackScript, "program.sh": program, "log": "", "has-run": ""})
		for file, mode := range map[string]os.FileMode{"": 0o755, "slurm.conf": 0o644, "attack.sh": 0o755, "program.sh": 0o755, "log": 0o666, "has-run": 0o666} {
			if err := os.Chmod(filepath.Join(dir, file), mode); err != nil {
				t.Fatal(err)
			}
		}
		a := &attacker{name: name, dir: dir, cmd: asAttacker(append(wrapper, "/bin/sh", filepath.Join(dir, "attack.sh"))...)}
		var said bytes.Buffer
		a.cmd.Stderr = &said
		if err := a.cmd.Start(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(func() { _ = syscall.Kill(-a.cmd.Process.Pid, syscall.SIGKILL) }) // stop may not have been called
		list = append(list, a)
	}
	return list
}

// asAttacker prepares a command of the attacker, in a process group of its own.
func asAttacker(args ...string) *exec.Cmd {
	c := exec.Command(args[0], args[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: attackerID, Gid: attackerID}
	}
	return c
}

// stop ends an attacker, and checks that it has run commands and that its program was not started.
func (a *attacker) stop(t *testing.T) {
	t.Helper()
	_ = syscall.Kill(-a.cmd.Process.Pid, syscall.SIGKILL) // it never ends by itself
	_ = a.cmd.Wait()                                      // killed
	log, err := os.ReadFile(filepath.Join(a.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(log, []byte("as user ")) {
		t.Errorf("%s has not attacked", a.name)
	}
	success, err := os.ReadFile(filepath.Join(a.dir, "has-run"))
	if err != nil || len(success) > 0 {
		t.Errorf("%s had success: %s, %v", a.name, success, err)
	}
	if t.Failed() {
		t.Logf("%s:\n%s", a.name, log[:min(len(log), 2000)])
	}
}

// TestForeignBytes writes into the pipe of finished jobs, as only a process of the same user can.
// More bytes arrive than the clock has counted, so the run ends at once and is not valid.
func TestForeignBytes(t *testing.T) {
	needSlurm(t)
	r := startReplay(t, longTrace())
	r.untilMidRun(t)
	in := r.inventory(t)
	pipe, err := os.OpenFile(filepath.Join(in.state, "jobcomp.pipe"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	if _, err := pipe.WriteString(" "); err != nil {
		t.Fatal(err)
	}
	if status := r.wait(t); status != console.ExitFailed {
		t.Errorf("exit status %d, want %d", status, console.ExitFailed)
	}
	in.mustGo(t)
	rec, rows := openRows(t, r.record)
	if m := rec.Manifest; m.State != run.StateFailed || m.Valid || len(rows) >= 2000 {
		t.Errorf("state %s, valid %v, %d jobs", m.State, m.Valid, len(rows))
	}
	// If the pipe is read before the clock compares the counts, the foreign byte is found in a record.
	said := r.said(t, "stderr")
	if !strings.Contains(said, "bytes too many had arrived at") && !strings.Contains(said, "does not begin with JobId=") {
		t.Errorf("it says %q", said)
	}
}
