package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/rm/slurm/install"
)

// statusOf returns a field of /proc/PID/status.
func statusOf(t *testing.T, pid int, field string) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	t.Fatalf("process %d has no %s", pid, field)
	return ""
}

// TestDaemonsAreNotRoot checks that the daemons of a replay run as an ordinary user without
// capabilities. It also covers replays by root, with all capabilities and with those of a
// container.
func TestDaemonsAreNotRoot(t *testing.T) {
	needSlurm(t)
	wrappers := map[string][]string{"own capabilities": nil}
	if os.Geteuid() == 0 {
		wrappers["container"] = setpriv(t, "--bounding-set", "-sys_ptrace,-sys_admin,-net_admin")
		wrappers["shared network"] = slices.Concat([]string{"env", install.NetworkVariable + "=shared"},
			setpriv(t, "--bounding-set", "-sys_ptrace,-sys_admin,-net_admin,-net_raw"))
	}
	for name, wrapper := range wrappers {
		t.Run(name, func(t *testing.T) {
			r := startReplay(t, mixedTrace(), wrapper...)
			in := r.halted(t)
			users := map[string]bool{}
			for _, p := range in.processes[2:] { // without the driver and the guard
				user := statusOf(t, p.pid, "Uid")
				users[user] = true
				if strings.HasPrefix(user, "0 ") || statusOf(t, p.pid, "CapEff") != "0000000000000000" {
					t.Errorf("%s: user %s, capabilities %s", p.name, user, statusOf(t, p.pid, "CapEff"))
				}
			}
			if len(in.processes) < 6 || len(users) != 1 {
				t.Errorf("%d processes of the users %v", len(in.processes), users)
			}
			r.goOn(t)
			if status := r.wait(t); status != console.ExitOK {
				t.Errorf("exit status %d", status)
			}
			in.mustGo(t)
			logs, err := filepath.Glob(filepath.Join(r.record, "logs", "*"))
			if err != nil || len(logs) < 6 {
				t.Fatalf("logs: %v, %v", logs, err)
			}
			for _, log := range logs {
				info, err := os.Stat(log)
				if err != nil {
					t.Fatal(err)
				}
				if st := info.Sys().(*syscall.Stat_t); st.Uid != uint32(os.Geteuid()) || info.Size() == 0 && !strings.HasSuffix(log, ".out") {
					t.Errorf("%s belongs to user %d and has %d bytes", log, st.Uid, info.Size())
				}
			}
		})
	}
}

// TestRootWithoutOtherUsers checks that root cannot replay if it cannot start processes as another
// user, and that the message says what to do.
func TestRootWithoutOtherUsers(t *testing.T) {
	needSlurm(t)
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: not root: whether root is refused that cannot change its user is not tested")
	}
	r := startReplay(t, mixedTrace(), setpriv(t, "--bounding-set", "-setuid")...)
	if status := r.wait(t); status != console.ExitMissing {
		t.Errorf("exit status %d, want %d", status, console.ExitMissing)
	}
	if said := r.said(t, "stderr"); !strings.Contains(said, "never run as root") || !strings.Contains(said, "replay as an ordinary user") {
		t.Errorf("it says %q", said)
	}
	if _, err := os.Stat(r.record); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the record: %v, want none", err)
	}
}

// setpriv returns the beginning of a command line that runs a command with fewer privileges.
func setpriv(t *testing.T, options ...string) []string {
	t.Helper()
	path, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skipf("SKIPPED: fewer privileges are not tested: %v (apt-get install util-linux)", err)
	}
	return append([]string{path}, append(options, "--")...)
}
