package vclock

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// preload makes started processes load libraries after the preload library.
func (l *lab) preload(libraries ...string) {
	l.extraEnv = append(l.extraEnv, "LD_PRELOAD="+strings.Join(append([]string{l.shim}, libraries...), " "))
}

// TestAllocators runs a program under the clock with another allocator than glibc's. The first
// allocator ends the program if it is asked to free memory of another allocator.
func TestAllocators(t *testing.T) {
	installed := func(pattern string) func(*testing.T) string {
		return func(t *testing.T) string {
			found, err := filepath.Glob("/usr/lib/*/" + pattern)
			if err != nil || len(found) == 0 {
				t.Skipf("SKIPPED: a program with this allocator: %s is not installed", pattern)
			}
			return found[0]
		}
	}
	for _, tt := range []struct {
		name    string
		library func(*testing.T) string
	}{
		{"strict", func(t *testing.T) string { return testLibrary(t, "allocator", "allocator") }},
		{"mimalloc (libmimalloc2.0)", installed("libmimalloc.so.*")},
		{"jemalloc (libjemalloc2)", installed("libjemalloc.so.*")},
		{"tcmalloc (libtcmalloc-minimal4)", installed("libtcmalloc_minimal.so.*")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			library := tt.library(t)
			l := newLab(t, Policy{})
			l.preload(library)
			for _, part := range []string{"allocations", "forks", "execs", "descriptors", "joining"} {
				if p := l.start(program(t, "answers"), part); true {
					l.run()
					if p.status != "exit status 0" {
						t.Errorf("%s: %s\n%s", part, p.status, p.output())
					}
				}
			}
			l.checkCount()
			// The library is loaded into processes without a clock, too.
			c := exec.Command(program(t, "answers"), "allocations")
			c.Env = append(os.Environ(), l.extraEnv...)
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("without the clock: %v\n%s", err, out)
			}
		})
	}
}

// builtLibrary returns the library that is embedded in the Go program.
func builtLibrary(t *testing.T) *elf.File {
	t.Helper()
	var b bytes.Buffer
	if err := WriteLibrary(&b); err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestLibraryFloor looks for functions that glibc 2.28 (RHEL 8) lacks.
func TestLibraryFloor(t *testing.T) {
	f := builtLibrary(t)
	symbols, err := f.ImportedSymbols()
	if err != nil {
		t.Fatal(err)
	}
	versions := 0
	for _, s := range symbols {
		var major, minor int
		if n, _ := fmt.Sscanf(s.Version, "GLIBC_%d.%d", &major, &minor); n < 2 {
			continue
		}
		versions++
		if major > 2 || minor > 28 {
			t.Errorf("the library imports %s of %s (want a version up to GLIBC_2.28: see FIRST in shim.h)", s.Name, s.Version)
		}
	}
	if versions == 0 {
		t.Error("the library imports no function of glibc: the test looks at nothing")
	}
	// Before glibc 2.34 programs need not load these libraries, and the preload library calls
	// functions of each.
	needed, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"libpthread.so.0", "libdl.so.2", "librt.so.1"} {
		if !slices.Contains(needed, name) {
			t.Errorf("the library needs %v, want %s too", needed, name)
		}
	}
}

// TestLibraryBindsAtOnce checks that the symbols of the embedded library are resolved when it is
// loaded: signal handlers and forked children must not resolve symbols.
func TestLibraryBindsAtOnce(t *testing.T) {
	flags, err := builtLibrary(t).DynValue(elf.DT_FLAGS)
	if err != nil {
		t.Fatal(err)
	}
	if len(flags) != 1 || elf.DynFlag(flags[0])&elf.DF_BIND_NOW == 0 {
		t.Errorf("DT_FLAGS are %v, want DF_BIND_NOW (ld -z now)", flags)
	}
}

// TestUnknownCLibrary replaces parts of glibc by a library that keeps locks, or streams, in another
// way. Programs must then not run under the clock, because they would see wrong time.
func TestUnknownCLibrary(t *testing.T) {
	for _, tt := range []struct{ name, define string }{{"locks", "-DODD_LOCKS"}, {"streams", "-DODD_STREAMS"}} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, Policy{})
			l.preload(testLibrary(t, "odd-"+tt.name, "odd", tt.define))
			p := l.start(program(t, "clockwork"), "steps", "3", "1000")
			l.run()
			if want := "does not know how glibc "; p.status != "exit status 127" || !strings.Contains(p.output(), want) {
				t.Errorf("%s, with the output %q, want exit status 127 and %q", p.status, p.output(), want)
			}
		})
	}
}

// TestSharedObjectsAreRefused checks that objects for several processes are refused: the library
// could not wake a thread that waits for another process's lock, semaphore or signal.
func TestSharedObjectsAreRefused(t *testing.T) {
	l := newLab(t, Policy{})
	p := l.start(program(t, "clockwork"), "shared")
	l.run()
	refusal := func(function string) string {
		return "rmreplay: " + function + ": an object that several processes share does not work under the virtual clock " +
			"(want one that a single process uses: PTHREAD_PROCESS_PRIVATE, or a semaphore without pshared)\n"
	}
	p.check(t, refusal("pthread_cond_init")+refusal("pthread_mutex_init")+refusal("pthread_rwlock_init")+
		refusal("sem_init")+refusal("sem_open")+"0 0 0 0\nEOPNOTSUPP EOPNOTSUPP EOPNOTSUPP EOPNOTSUPP\nEOPNOTSUPP\n")
}

// TestForkDuringPclose forks while other threads hold the lock of the list of streams. The program
// runs without a clock, because under a clock only one thread runs at a time.
func TestForkDuringPclose(t *testing.T) {
	c := exec.Command(program(t, "clockwork"), "streams", "100")
	c.Env = append(os.Environ(), "LD_PRELOAD="+buildShim(t))
	begin := time.Now()
	out, err := c.CombinedOutput()
	if got, want := string(out), "100 children ended\n"; err != nil || got != want {
		t.Errorf("%q (%v), want %q", got, err, want)
	}
	t.Logf("%v", time.Since(begin))
}
