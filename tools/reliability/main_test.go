package main

import (
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestDrawIsDeterministic(t *testing.T) {
	seen := map[kind]int{}
	for i := range uint64(2000) {
		h := draw(rand.New(rand.NewPCG(1, i)), 4*time.Second)
		if again := draw(rand.New(rand.NewPCG(1, i)), 4*time.Second); h != again {
			t.Fatalf("hit %d: %v, then %v", i, h, again)
		}
		if h.After < 0 || h.After > 4200*time.Millisecond {
			t.Errorf("hit %d comes %s after the start of a replay of 4 s", i, h.After)
		}
		if (h.Signal != 0) != (h.Victim != "") || (h.Kind == nothing) != (h.After == 0) {
			t.Errorf("hit %d contradicts itself: %+v", i, h)
		}
		seen[h.Kind]++
	}
	for _, k := range []kind{nothing, signalOne, twice, group, pause, strangers} {
		if seen[k] < 50 {
			t.Errorf("%d of 2,000 hits are %q (want at least 50)", seen[k], k)
		}
	}
}

func TestAllowed(t *testing.T) {
	for _, c := range []struct {
		hit  hit
		end  verdict
		want bool
	}{
		{hit{Kind: nothing}, verdict{"0", "valid"}, true},
		{hit{Kind: nothing}, verdict{"3", "complete"}, false},
		{hit{Kind: strangers}, verdict{"1", "failed"}, false},
		{hit{Kind: signalOne, Victim: program, Signal: unix.SIGHUP}, verdict{"130", "interrupted"}, true},
		{hit{Kind: signalOne, Victim: program, Signal: unix.SIGHUP}, verdict{"hangup", "running"}, false},
		{hit{Kind: signalOne, Victim: program, Signal: unix.SIGHUP}, verdict{"hangup", noRecord}, true},
		{hit{Kind: signalOne, Victim: program, Signal: unix.SIGTERM}, verdict{"0", "interrupted"}, false},
		{hit{Kind: signalOne, Victim: program, Signal: unix.SIGKILL}, verdict{"killed", "running"}, true},
		{hit{Kind: signalOne, Victim: program, Signal: unix.SIGKILL}, verdict{"killed", "complete"}, false},
		{hit{Kind: signalOne, Victim: guard, Signal: unix.SIGTERM, Struck: guardName}, verdict{"1", "failed"}, false},
		{hit{Kind: signalOne, Victim: guard, Signal: unix.SIGTERM, Struck: "exe"}, verdict{"1", "failed"}, true},
		{hit{Kind: signalOne, Victim: guard, Signal: unix.SIGKILL}, verdict{"1", "failed"}, true},
		{hit{Kind: signalOne, Victim: daemon, Signal: unix.SIGKILL}, verdict{"1", "failed"}, true},
		{hit{Kind: signalOne, Victim: daemon, Signal: unix.SIGKILL}, verdict{"0", "failed"}, false},
	} {
		got := false
		for _, v := range allowed(c.hit) {
			got = got || v == c.end
		}
		if got != c.want {
			t.Errorf("after %s, %v is allowed: %t (want %t)", c.hit, c.end, got, c.want)
		}
	}
}

func TestOutcomesAgree(t *testing.T) {
	want := outcome{Jobs: 20, States: map[string]int{"COMPLETED": 17, "TIMEOUT": 3}, Makespan: 100}
	for name, c := range map[string]struct {
		got  outcome
		want bool
	}{
		"the same":       {want, true},
		"a second later": {outcome{Jobs: 20, States: want.States, Makespan: 101}, true},
		"a tenth later":  {outcome{Jobs: 20, States: want.States, Makespan: 110}, false},
		"fewer jobs":     {outcome{Jobs: 19, States: want.States, Makespan: 100}, false},
		"another state":  {outcome{Jobs: 20, States: map[string]int{"COMPLETED": 16, "TIMEOUT": 4}, Makespan: 100}, false},
		"one more state": {outcome{Jobs: 20, States: map[string]int{"COMPLETED": 17, "TIMEOUT": 3, "FAILED": 0}, Makespan: 100}, false},
	} {
		if got := c.got.agrees(want); got != c.want {
			t.Errorf("%s: agrees is %t (want %t)", name, got, c.want)
		}
	}
}

func TestParseAddress(t *testing.T) {
	got := []string{parseAddress("FEFF427F:1A85"), parseAddress("00000000:0016"), parseAddress("rubbish")}
	if diff := cmp.Diff([]string{"127.66.255.254:6789", "127.0.0.1:22", ""}, got); diff != "" {
		t.Error(diff)
	}
}

// A process that names the scratch directory in its environment belongs to the replay.
func TestProcessesOf(t *testing.T) {
	scratch := t.TempDir()
	cmd := exec.Command("cat")
	cmd.Env = []string{"RMREPLAY_TMPDIR=" + scratch}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	// /proc has the environment only some time after Start. A process that answers has its
	// environment.
	if _, err := in.Write([]byte("?")); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if pids := processesOf(scratch); !slices.Contains(pids, cmd.Process.Pid) {
		t.Errorf("processesOf(%q) is %v and lacks process %d", scratch, pids, cmd.Process.Pid)
	}
}
