package vclock

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The system calls that wait, read the time, or make threads or processes. The preload library must
// make each of them: a call by other code bypasses the virtual clock.
const timedCalls = "nanosleep,clock_nanosleep,poll,ppoll,select,pselect6,epoll_wait,epoll_pwait,epoll_pwait2," +
	"rt_sigtimedwait,rt_sigsuspend,pause,wait4,waitid,accept,accept4,clock_gettime,gettimeofday,time," +
	"timer_create,timer_settime,timerfd_create,timerfd_settime,setitimer,alarm,futex,flock," +
	"clone,clone3,fork,vfork,execve,execveat,kill,tgkill,rt_sigqueueinfo,io_uring_setup,io_uring_enter"

var stackLine = regexp.MustCompile(`^ > ([^(\n]*)\(([^)]*)\)`)

// bypassing counts the system calls in strace's files whose stacks do not contain the preload
// library. A key has the call and the functions of its stack.
func bypassing(t *testing.T, prefix, library string) (found map[string]int, calls int) {
	t.Helper()
	files, err := filepath.Glob(prefix + ".*")
	if err != nil || len(files) == 0 {
		t.Fatalf("strace wrote no files %s.*", prefix)
	}
	found = map[string]int{}
	lost := 0
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		call, stack, through := "", []string{}, false
		end := func() {
			switch {
			case call == "" || len(stack) == 0:
			case !slices.ContainsFunc(stack, func(f string) bool { return !strings.HasPrefix(f, "libc.so") }):
				lost++ // strace does not always find the caller of the C library
			default:
				calls++
				if !through && !ofCLibrary(call, stack[0]) {
					found[call+" < "+strings.Join(stack[:min(len(stack), 4)], " < ")]++
				}
			}
			call, stack, through = "", nil, false
		}
		for line := range strings.Lines(string(b)) {
			if m := stackLine.FindStringSubmatch(line); m != nil {
				through = through || m[1] == library
				name, _, _ := strings.Cut(m[2], "+")
				stack = append(stack, filepath.Base(m[1])+":"+name)
				continue
			}
			end()
			if name, _, ok := strings.Cut(line, "("); ok && !strings.HasPrefix(line, "---") {
				call = name
			}
		}
		end()
	}
	if lost > 20+calls/10 {
		t.Errorf("strace found no caller of %d system calls, beside %d with one", lost, calls)
	}
	return found, calls
}

// ofCLibrary reports whether the C library makes a system call for its own purposes. These are a
// lock that only running threads hold, threads and processes that the preload library lets it make
// (their stacks end there), and a change of the user of all threads. The first execve is that of
// strace.
func ofCLibrary(call, innermost string) bool {
	library, function, _ := strings.Cut(innermost, ":")
	switch call {
	case "execve":
		return strings.HasPrefix(library, "ld-linux")
	case "futex", "clone", "clone3", "tgkill":
		return strings.HasPrefix(library, "libc.so") && function != "syscall"
	}
	return false
}

// startTraced starts a managed process under strace, which is not managed itself.
func (l *lab) startTraced(prefix, calls, name string, args ...string) *process {
	l.t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		l.t.Skipf("SKIPPED: that no system call bypasses the clock: %v (apt-get install strace)", err)
	}
	out, err := os.CreateTemp(l.t.TempDir(), "out")
	if err != nil {
		l.t.Fatal(err)
	}
	_, env := l.Reserve()
	trace := []string{"-ff", "-k", "-qq", "-o", prefix, "-e", "trace=" + calls, "-e", "signal=none"}
	for _, v := range append(append(l.Environment(), env, "LD_PRELOAD="+l.shim, "LC_ALL=C", "TZ=UTC"), l.extraEnv...) {
		trace = append(trace, "-E", v)
	}
	p := &process{cmd: exec.Command(strace, append(append(trace, name), args...)...), out: out}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.left++
	l.all = append(l.all, p)
	l.t.Cleanup(func() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		out.Close()
	})
	go func() {
		_ = p.cmd.Wait()
		p.status = p.cmd.ProcessState.String()
		l.ended <- p
	}()
	return p
}

// awaitTracer waits for the end of strace. The clock does not know of strace, so this wait does not
// involve the clock.
func (l *lab) awaitTracer() {
	<-l.ended
	l.left--
}

// TestBypassIsFound checks that direct system calls of a program are found.
func TestBypassIsFound(t *testing.T) {
	l := newLab(t, Policy{})
	prefix := filepath.Join(t.TempDir(), "trace")
	p := l.startTraced(prefix, timedCalls, program(t, "clockwork"), "bypass")
	if err := l.waitTo(epoch.Add(time.Minute)); err != nil {
		t.Fatalf("%v\n%s", err, l.outputs())
	}
	l.awaitTracer()
	p.check(t, "")
	found, _ := bypassing(t, prefix, l.shim)
	var names []string
	for call := range found {
		name, _, _ := strings.Cut(call, " ")
		names = append(names, name)
	}
	slices.Sort(names)
	if got := strings.Join(slices.Compact(names), " "); !strings.Contains(got, "clock_gettime") || !strings.Contains(got, "nanosleep") || strings.Contains(got, "poll") {
		t.Errorf("found %q, want clock_gettime and nanosleep and not poll", got)
	}
}

// TestNoBypass starts slurmctld of each release under strace and lets it idle for a minute. The
// preload library must make all its system calls that wait or read the time.
func TestNoBypass(t *testing.T) {
	eachRelease(t, func(t *testing.T, r *release) {
		path, args := r.slurmctld("")
		l := newLab(t, Policy{})
		prefix := filepath.Join(t.TempDir(), "trace")
		p := l.startTraced(prefix, timedCalls, path, args...)
		if err := l.waitTo(epoch.Add(time.Minute)); err != nil {
			t.Fatalf("%v\n%s", err, l.outputs())
		}
		if !l.Listening(uint16(r.port)) {
			t.Fatalf("slurmctld does not listen\n%s", p.output())
		}
		for _, thread := range l.Threads() {
			if err := syscall.Kill(thread.PID, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
				t.Fatal(err)
			}
		}
		l.awaitTracer()
		found, calls := bypassing(t, prefix, l.shim)
		t.Logf("%d system calls", calls)
		if calls < 500 {
			t.Errorf("strace saw %d system calls with a caller, want many hundreds", calls)
		}
		for _, call := range slices.Sorted(maps.Keys(found)) {
			t.Errorf("%s", fmt.Sprintf("%d times past the preload library: %s", found[call], call))
		}
	})
}
