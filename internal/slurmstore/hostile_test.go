package slurmstore

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestHostileDirectories: for any contents of a directory, an installation does not hang or fill
// the memory, and file names do not become options of programs.
func TestHostileDirectories(t *testing.T) {
	const layout = `{"imageLayoutVersion":"1.0.0"}`
	for name, tt := range map[string]struct {
		fill func(dir string) error
		want string
	}{
		"a pipe as the index": {func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, layoutFile), []byte(layout), 0o600), unix.Mkfifo(filepath.Join(dir, "index.json"), 0o600))
		}, "index.json: a named pipe (want a regular file)"},
		"a device as the layout": {func(dir string) error {
			return os.Symlink("/dev/zero", filepath.Join(dir, layoutFile))
		}, layoutFile + ": a device (want a regular file)"},
		"a device as a package": {func(dir string) error {
			return os.Symlink("/dev/zero", filepath.Join(dir, "a.deb"))
		}, "a.deb: a device (want a regular file)"},
		"a package with the name of an option": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "--help.deb"), []byte("text"), 0o600)
		}, "--help.deb: dpkg-deb: exit status 2: dpkg-deb: error: unexpected end of file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := tt.fill(dir); err != nil {
				t.Fatal(err)
			}
			t.Chdir(dir)
			_, _, err := newStore(t).Install(t.Context(), Request{From: "."}, quiet)
			var wrong *InputError
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// TestPipe: an installation from a named pipe ends when it is cancelled, whether or not the pipe
// has a writer.
func TestPipe(t *testing.T) {
	for _, written := range []bool{false, true} {
		s := newStore(t)
		pipe, unpacked := filepath.Join(t.TempDir(), "pipe"), func() { time.Sleep(50 * time.Millisecond) }
		if written {
			pipe, unpacked = halfway(t, s)
		} else if err := unix.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, _, err := s.Install(ctx, Request{From: pipe}, quiet)
			ended <- err
		}()
		unpacked()
		cancel()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) || len(entriesOf(t, s)) > 0 {
				t.Errorf("%v, left %v", err, entriesOf(t, s))
			}
		case <-time.After(20 * time.Second):
			t.Fatal("the installation hangs at the pipe")
		}
		if !written { // so that the goroutine that opens the pipe ends
			f, err := os.OpenFile(pipe, os.O_WRONLY|unix.O_NONBLOCK, 0)
			if err != nil {
				t.Fatal(err)
			}
			_ = f.Close()
		}
	}
}

// spy is a dynamic loader that prints the version 24.11.5 only if it is not root, has no
// capabilities and no supplementary groups, and cannot see files of the machine.
const spy = `#include <stdio.h>
#include <unistd.h>
#include <sys/syscall.h>
#include <linux/capability.h>
int main(void) {
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2] = {{0}};
	if (getuid() == 0 || geteuid() == 0 || getgid() == 0) puts("slurm 1.1.1");
	else if (syscall(SYS_capget, &head, data) || data[0].effective || data[0].permitted || data[1].permitted) puts("slurm 2.2.2");
	else if (getgroups(0, NULL) != 0) puts("slurm 3.3.3");
	else if (access("/etc/passwd", F_OK) == 0) puts("slurm 4.4.4");
	else puts("slurm 24.11.5");
	return 0;
}`

// TestRoot: root runs an archive's programs as a user without an account.
func TestRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, what root runs of an archive: the test is not run by root")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "spy")
	if out, err := exec.Command("gcc", "-static", "-o", program, write(t, dir, "spy.c", []byte(spy))).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v: %s", err, out)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	entries := compiled(t, "24.11.5")
	loader := slices.IndexFunc(entries, func(e entry) bool { return strings.Contains(e.name, "/ld-") })
	entries[loader].content = string(text)
	for i := range entries {
		entries[i].mode = 0o700 // also files that only the owner may read
	}
	one, _, err := newStore(t).Install(t.Context(), Request{From: write(t, dir, "archive.tar", archive(t, entries...))}, quiet)
	if err != nil || one.Version != "24.11.5" {
		t.Errorf("the archive's loader says %s, %v", one.Version, err)
	}
}
