package vclock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestLook(t *testing.T) {
	l := newLab(t, Policy{})
	l.SetFactor(2.5)
	l.start(program(t, "clockwork"), "deadlock")
	if err := l.waitTo(epoch.Add(500 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	got, err := Look(l.Path())
	if err != nil {
		t.Fatal(err)
	}
	if got.Now != l.Now() || got.Limit != l.Now() || got.Running != 1 || got.Inbox != 0 || got.Factor != 2.5 {
		t.Errorf("%+v", got)
	}
	checkThreads(t, got.Threads, map[string]string{
		"clockwork": "waiting: sleep", "waits-cond": "waiting: condition variable", "waits-sem": "waiting: semaphore",
		"waits-join": "waiting: thread to end", "waits-read": "waiting in kernel: input on fd", "waits-mutex": "waiting: mutex",
	})
	for _, th := range got.Threads {
		if th.Name == "clockwork" && th.Deadline != epoch.Add(time.Second) {
			t.Errorf("the sleep's deadline is %v", th.Deadline)
		}
	}
	l.killAll()
}

func TestLookRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, err := Look(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for name, content := range map[string][]byte{"short": []byte("rclk"), "zero": make([]byte, sharedSize)} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Look(path); !errors.Is(err, ErrNotClock) {
			t.Errorf("%s: %v, want ErrNotClock", name, err)
		}
	}
	c, err := New(t.TempDir(), epoch, Policy{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.s.version++
	if _, err := Look(c.Path()); !errors.Is(err, ErrNotClock) {
		t.Errorf("another version: %v, want ErrNotClock", err)
	}
}
