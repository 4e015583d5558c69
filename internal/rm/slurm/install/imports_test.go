package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rmreplay/internal/vclock"
)

// The daemons of the machine's own Slurm and of each root import nothing that the clock does not
// handle.
func TestNothingUnhandled(t *testing.T) {
	check := func(t *testing.T, in *Installation) {
		t.Helper()
		if list, err := in.Unhandled(); err != nil || len(list) > 0 {
			t.Errorf("%v, %v", list, err)
		}
		if c := in.checkImports(); !c.OK {
			t.Errorf("%+v", c)
		}
	}
	t.Run("machine", func(t *testing.T) {
		in, err := Find()
		if err != nil {
			t.Skipf("SKIPPED: %v", err)
		}
		check(t, in)
	})
	eachRoot(t, func(t *testing.T, _, root string) {
		in, _ := FindSlurm(root)
		check(t, in)
	})
}

// Unhandled finds functions of slurmctld, of Slurm's library and of the plugins that a replay
// loads. Functions that only plugins of slurmd import do not matter.
func TestUnhandled(t *testing.T) {
	dir := t.TempDir()
	build := func(file, source string) string {
		t.Helper()
		path := filepath.Join(dir, file)
		cc := exec.Command("cc", "-shared", "-fPIC", "-o", path, "-x", "c", "-")
		cc.Stdin = strings.NewReader(source)
		if out, err := cc.CombinedOutput(); err != nil {
			t.Skipf("SKIPPED: no library can be built: %v: %s", err, out)
		}
		return path
	}
	const locks = "#include <sys/file.h>\nint lock(int f) { return flock(f, LOCK_EX); }\n"
	const times = "#include <sys/times.h>\nlong now(void) { struct tms t; return times(&t); }\n"
	in := &Installation{PluginDir: dir, Slurmctld: build("slurmctld", locks)}
	build("cgroup_v2.so", locks)
	build("sched_backfill.so", times)
	build(slurmLibrary, "#define _GNU_SOURCE\n#include <unistd.h>\n#include <sys/file.h>\nlong f(void) { flock(1, 1); return syscall(39); }\n")
	list, err := in.Unhandled()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range list {
		got = append(got, filepath.Base(i.Path)+" "+i.Name)
	}
	if want := "slurmctld flock, libslurmfull.so flock, sched_backfill.so times"; strings.Join(got, ", ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
	c := in.checkImports()
	if want := "slurmctld imports flock, which can wait, and 2 more"; c.OK || c.Required || !strings.HasSuffix(c.Found, want) {
		t.Errorf("%+v, want %q", c, want)
	}
	if got := DescribeImports(list[:1]); !strings.HasSuffix(got, "imports flock, which "+string(vclock.Waits)) {
		t.Errorf("one function: %q", got)
	}
	if err := os.WriteFile(in.Slurmctld, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c := in.checkImports(); c.OK || !strings.Contains(c.Found, in.Slurmctld) {
		t.Errorf("a script: %+v", c)
	}
}
