package vclock

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rmreplay/internal/hpc"
)

// built are the paths of the programs that the tests have compiled. Each program is compiled once.
var built struct {
	sync.Mutex
	dir   string
	paths map[string]string
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// made runs a command that makes a file, once for all tests, and returns the file's path.
func made(t testing.TB, name string, command func(path string) *exec.Cmd) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if path := built.paths[name]; path != "" {
		return path
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skipf("SKIPPED: the preload library is not tested at all: %v (apt-get install gcc libc6-dev)", err)
	}
	if built.dir == "" {
		var err error
		if built.dir, err = os.MkdirTemp("", "vclock-test"); err != nil {
			t.Fatal(err)
		}
		built.paths = map[string]string{}
	}
	path := filepath.Join(built.dir, name)
	c := command(path)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", c, err, out)
	}
	built.paths[name] = path
	return path
}

// build compiles a C file to a file with the given name. flags are further arguments of the
// compiler.
func build(t testing.TB, name, source string, flags ...string) string {
	t.Helper()
	return made(t, name, func(path string) *exec.Cmd {
		args := []string{"-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", path, source}
		return exec.Command("gcc", append(args, flags...)...)
	})
}

// testLibrary builds a shared library for test programs.
func testLibrary(t testing.TB, name, source string, flags ...string) string {
	t.Helper()
	return build(t, name+".so", "shim/testdata/"+source+".c", append(flags, "-fPIC", "-shared", "-fno-builtin")...)
}

// program builds a test program.
func program(t testing.TB, name string) string {
	t.Helper()
	return build(t, name, "shim/testdata/"+name+".c")
}

// buildShim builds the preload library like the Makefile, but warnings are errors.
func buildShim(t testing.TB) string {
	t.Helper()
	return made(t, "librmreplay.so", func(path string) *exec.Cmd {
		return exec.Command("make", "--no-print-directory", "-C", "../..", "CC=gcc -Werror", "SHIM="+path, path)
	})
}

// epoch is where virtual time starts in the tests.
const epoch = hpc.Time(1_500_000_000 * int64(time.Second))

// lab is a virtual clock with processes under it.
type lab struct {
	*Clock
	t     testing.TB
	shim  string
	ended chan *process
	left  int
	all   []*process
	// onInput is called when a managed process has sent the driver something.
	onInput func()
	// extraEnv is added to the environment of started processes.
	extraEnv []string
}

// process is a process that the lab has started.
type process struct {
	cmd    *exec.Cmd
	out    *os.File
	status string
}

func newLab(t testing.TB, policy Policy) *lab {
	t.Helper()
	shim := buildShim(t)
	c, err := New(t.TempDir(), epoch, policy)
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{Clock: c, t: t, shim: shim, ended: make(chan *process, 100)}
	t.Cleanup(func() {
		for ; l.left > 0; l.left-- {
			<-l.ended
		}
		c.Close()
	})
	return l
}

// start starts a managed process, whose output goes to a file.
func (l *lab) start(name string, args ...string) *process {
	l.t.Helper()
	out, err := os.CreateTemp(l.t.TempDir(), "out")
	if err != nil {
		l.t.Fatal(err)
	}
	slot, env := l.Reserve()
	p := &process{cmd: exec.Command(name, args...), out: out}
	p.cmd.Env = append(os.Environ(), append(l.Environment(), env, "LD_PRELOAD="+l.shim, "LC_ALL=C", "TZ=UTC")...)
	p.cmd.Env = append(p.cmd.Env, l.extraEnv...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		l.Unreserve(slot)
		l.t.Fatal(err)
	}
	l.Started(slot, p.cmd.Process.Pid)
	l.left++
	l.all = append(l.all, p)
	l.t.Cleanup(func() {
		// Kill the whole group, for orphans. In most tests the group has ended.
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		out.Close()
	})
	go func() {
		// The status also shows an error.
		_ = p.cmd.Wait()
		p.status = p.cmd.ProcessState.String()
		l.ended <- p
		l.Notify()
	}()
	return p
}

func (l *lab) outputs() string {
	var b strings.Builder
	for _, p := range l.all {
		fmt.Fprintf(&b, "%s:\n%s", p.cmd.Path, p.output())
	}
	return b.String()
}

func (p *process) output() string {
	b, _ := os.ReadFile(p.out.Name())
	return string(b)
}

// waitTo lets virtual time pass until limit, or until every process has ended. Five minutes of real
// time are enough, even with thirty other processes on the machine.
func (l *lab) waitTo(limit hpc.Time) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for {
		for more := true; more; {
			select {
			case p := <-l.ended:
				l.Collect(p.cmd.Process.Pid)
				l.left--
			default:
				more = false
			}
		}
		if l.left == 0 {
			return nil
		}
		wake, err := l.Wait(ctx, limit)
		switch {
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("after five minutes: %w\n%s", err, FormatThreads(l.Threads(), l.Now()))
		case err != nil:
			return err
		case wake == AtLimit:
			return nil
		case wake == Input:
			l.onInput()
		}
	}
}

// run lets virtual time pass until every process has ended.
func (l *lab) run() {
	l.t.Helper()
	if err := l.waitTo(epoch.Add(1000 * 24 * time.Hour)); err != nil {
		l.t.Fatalf("%v\n%s", err, l.outputs())
	}
	if l.left > 0 {
		l.t.Fatalf("at the limit with %d processes left\n%s\n%s", l.left, FormatThreads(l.Threads(), l.Now()), l.outputs())
	}
}

// passed returns the virtual time since the start.
func (l *lab) passed() time.Duration { return l.Now().Sub(epoch) }

// checkCount checks that busy is the number of running threads in the slots. If no process is left,
// only the driver counts.
func (l *lab) checkCount() {
	l.t.Helper()
	want := int32(1)
	for i := range l.s.slot {
		if st := l.s.slot[i].state.Load(); st == stateRunning || st == stateReady || st == stateExiting {
			want++
		}
	}
	if got := l.s.busy.Load(); got != want {
		l.t.Errorf("busy = %d, but %d threads (the driver included) run\n%s", got, want, FormatThreads(l.Threads(), l.Now()))
	}
	if r := l.Stats().Repairs; r != 0 {
		l.t.Errorf("the driver had to repair the clock %d times", r)
	}
}
