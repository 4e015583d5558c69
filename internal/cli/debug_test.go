package cli

import (
	"encoding/json"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/cli/recordcmd"
)

// TestDebugClock shows the clock of a running replay and does not disturb the replay.
func TestDebugClock(t *testing.T) {
	needSlurm(t)
	r := startReplay(t, longTrace())
	r.untilMidRun(t)
	look := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(program(t), append([]string{"debug", "clock", r.record}, args...)...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s", err, stderr.String())
		}
		return string(out)
	}
	text := look()
	for _, want := range []string{"virtual time  2024-03-", "clock         frozen, ", "slurmctld ", "waiting in kernel", "bckfl"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	report := func() (r recordcmd.ClockReport) {
		t.Helper()
		text := look("--json")
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		if len(r.Threads) < 5 || r.Factor != 0 || r.Steps == 0 {
			t.Errorf("%s", text)
		}
		return r
	}
	first := report()
	for patience := time.Now().Add(20 * time.Second); !report().Now.After(first.Now); {
		if time.Now().After(patience) {
			t.Fatalf("time stands still at %v", first.Now)
		}
	}
	if err := syscall.Kill(-r.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if status := r.wait(t); status != console.ExitInterrupted {
		t.Errorf("exit status %d, want %d", status, console.ExitInterrupted)
	}
	cmd := exec.Command(program(t), "debug", "clock", r.record)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != console.ExitBadInput || !strings.Contains(string(out), "no replay is writing to this directory now") {
		t.Errorf("after its end: %v, %s", err, out)
	}
}
