package supervise

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"rmreplay/internal/procfs"
)

// driverVariable makes the test program a driver that a test can kill. Its value is the directory
// that the guard removes.
const driverVariable = "SUPERVISE_TEST_DRIVER"

// networkVariable makes the test program a driver that only prints which networks it gets.
const networkVariable = "SUPERVISE_TEST_NETWORK"

// endVariable makes a guard end before its first reply.
const endVariable = "SUPERVISE_TEST_END"

func TestMain(m *testing.M) {
	if os.Getenv(endVariable) != "" && os.Getenv(envGuard) != "" {
		os.Exit(3)
	}
	RunIfGuard()
	if os.Getenv(networkVariable) != "" {
		tellNetworks()
	}
	if dir, ok := os.LookupEnv(driverVariable); ok {
		drive(dir)
	}
	if signal.Ignored(syscall.SIGHUP) { // nohup does so: processes that the tests start would ignore it, too
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	os.Exit(m.Run())
}

// TestGuardOfGuard checks that the guard of a program without RunIfGuard does not start another
// guard.
func TestGuardOfGuard(t *testing.T) {
	t.Setenv(envGuard, "{}")
	if g, err := Start(Options{}, nil); err == nil || !strings.Contains(err.Error(), "RunIfGuard") {
		t.Errorf("guard %v, error %v", g, err)
	}
}

// startGuard starts a guard, which is closed at the end of the test. It returns the guard and the
// exits that it reports.
func startGuard(t *testing.T, remove ...string) (*Guard, <-chan Exit) {
	t.Helper()
	exits := make(chan Exit, 100)
	g, err := Start(Options{Remove: remove}, func(e Exit) { exits <- e })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() }) // tests that check Close call it themselves
	return g, exits
}

// sh runs a shell script to its end.
func sh(t *testing.T, g *Guard, exits <-chan Exit, c Command, script string) Exit {
	t.Helper()
	c.Path, c.Args = "/bin/sh", []string{"sh", "-c", script}
	pid, err := g.Run(c)
	if err != nil {
		t.Fatal(err)
	}
	return exitOf(t, exits, pid)
}

func exitOf(t *testing.T, exits <-chan Exit, pid int) Exit {
	t.Helper()
	timeout := time.After(10 * time.Second)
	for {
		select {
		case e := <-exits:
			if e.PID == pid {
				return e
			}
		case <-timeout:
			t.Fatalf("no news of the end of process %d", pid)
		}
	}
}

// TestGuardEndsEarly checks that a guard that ends before its first reply is an error, and does not
// make Start wait for ever.
func TestGuardEndsEarly(t *testing.T) {
	t.Setenv(endVariable, "1")
	failed := make(chan error)
	go func() {
		_, err := Start(Options{}, func(Exit) {})
		failed <- err
	}()
	select {
	case err := <-failed:
		if !errors.Is(err, ErrGuardGone) {
			t.Errorf("Start: %v, want %v", err, ErrGuardGone)
		}
	case <-time.After(time.Minute):
		t.Fatal("Start has not returned for a minute")
	}
}

func TestExit(t *testing.T) {
	g, exits := startGuard(t)
	if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", g.PID())); err != nil || strings.TrimSpace(string(name)) != guardName {
		t.Errorf("the guard is called %q (%v), want %s", name, err, guardName)
	}
	for _, c := range []struct{ script, want string }{
		{"exit 0", "exit status 0"},
		{"exit 7", "exit status 7"},
		{"kill -KILL $$", "killed by signal SIGKILL"},
		{"kill -TERM $$", "killed by signal SIGTERM"},
	} {
		if got := sh(t, g, exits, Command{}, c.script).String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.script, got, c.want)
		}
	}
	e := sh(t, g, exits, Command{}, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
	if e.CPU < 5*time.Millisecond || e.CPU > time.Minute {
		t.Errorf("CPU time of 100,000 rounds of a shell: %v", e.CPU)
	}
}

// TestSurroundings checks that a process has its own files and environment, and inherits nothing of
// the guard.
func TestSurroundings(t *testing.T) {
	dir := t.TempDir()
	in, out, errs := filepath.Join(dir, "in"), filepath.Join(dir, "out"), filepath.Join(dir, "err")
	for path, text := range map[string]string{in: "input\n", out: "before\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g, exits := startGuard(t)
	c := Command{Dir: dir, Env: []string{"ONLY=this", "PATH=/usr/bin:/bin"}, Stdin: in, Stdout: out, Stderr: errs}
	e := sh(t, g, exits, c, `cat; pwd -P; echo only $ONLY guard $RMREPLAY_GUARD
		cut -d' ' -f5 /proc/$$/stat | sed "s/^$$\$/own group/"
		echo trouble >&2`)
	if e.Status != 0 {
		t.Fatal(e)
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := "before\ninput\n" + resolved + "\nonly this guard\nown group\n"
	if diff := cmp.Diff(want, read(t, out)); diff != "" {
		t.Errorf("standard output (-want +got):\n%s", diff)
	}
	if got := read(t, errs); got != "trouble\n" {
		t.Errorf("standard error: %q", got)
	}
	info, err := os.Stat(errs)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of a new log: %v, %v, want 0600", info.Mode(), err)
	}

	// A child with the guard's connection would keep the guard from noticing the driver's end.
	connection, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", g.PID(), connFD))
	if err != nil || !strings.HasPrefix(connection, "socket:") {
		t.Fatalf("the guard's connection is %q, %v", connection, err)
	}
	c.Stdout = filepath.Join(dir, "files")
	if e := sh(t, g, exits, c, "readlink /proc/$$/fd/*; true"); e.Status != 0 {
		t.Fatal(e)
	}
	if files := read(t, c.Stdout); !strings.Contains(files, in) || strings.Contains(files, connection) {
		t.Errorf("open files of a child: %q, want its own and not %s", files, connection)
	}

	// A shell changes its signals before a test can see them, so the test runs grep.
	grep, err := exec.LookPath("grep")
	if err != nil {
		t.Fatal(err)
	}
	signals := filepath.Join(dir, "signals")
	pid, err := g.Run(Command{Path: grep, Args: []string{"grep", "-E", "^Sig(Ign|Blk)", "/proc/self/status"}, Stdout: signals})
	if err != nil {
		t.Fatal(err)
	}
	exitOf(t, exits, pid)
	for _, line := range strings.Split(strings.TrimSpace(read(t, signals)), "\n") {
		name, hex, _ := strings.Cut(line, ":\t")
		mask, err := strconv.ParseUint(hex, 16, 64)
		// Signals above 31 are the C library's own; this process may have inherited them.
		if mask &= 1<<31 - 1; err != nil || mask != 0 {
			t.Errorf("%s of a child is %#x, %v; want none", name, mask, err)
		}
	}

	// Without files, all three are /dev/null.
	if e := sh(t, g, exits, Command{Env: c.Env}, `read line && exit 1; for i in 0 1 2; do [ "$(readlink /proc/$$/fd/$i)" = /dev/null ] || exit 2; done`); e.Status != 0 {
		t.Errorf("a command without files: %v", e)
	}
}

// TestUser checks that processes run as the user of the options. A log that a process reopens
// belongs to that user only while the guard runs.
func TestUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: not root: other users of processes are not tested")
	}
	dir := t.TempDir() // which others cannot enter
	log, ids := filepath.Join(dir, "log"), filepath.Join(dir, "ids")
	exits := make(chan Exit, 10)
	g, err := Start(Options{User: &User{UID: 61184, GID: 61185}}, func(e Exit) { exits <- e })
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	sh(t, g, exits, Command{Stdout: ids}, "id -u; id -g; id -G")
	sh(t, g, exits, Command{Stdout: log, Reopens: true}, "echo again >>/dev/stdout")
	if got := read(t, ids); got != "61184\n61185\n61185\n" {
		t.Errorf("user, group and groups are %q", got)
	}
	if got := read(t, log); got != "again\n" {
		t.Errorf("the log has %q", got)
	}
	owner := func(path string) uint32 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Sys().(*syscall.Stat_t).Uid
	}
	if owner(log) != 61184 || owner(ids) != 0 {
		t.Errorf("the log belongs to %d, the other file to %d", owner(log), owner(ids))
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if owner(log) != 0 {
		t.Errorf("after the guard's end the log belongs to %d", owner(log))
	}
}

// TestNetwork checks that other processes cannot reach a private network, that the guard's sockets are
// in it, and that the guard's processes have no capabilities. A shared network must be the driver's.
func TestNetwork(t *testing.T) {
	for _, which := range []Network{PrivateNetwork, SharedNetwork} {
		t.Run(string(which), func(t *testing.T) {
			exits := make(chan Exit, 10)
			g, err := Start(Options{Network: which}, func(e Exit) { exits <- e })
			if err != nil {
				if which == PrivateNetwork {
					t.Skipf("SKIPPED: no private network here: %v", err)
				}
				t.Fatal(err)
			}
			defer g.Close()
			if g.Network() != which || g.WhyShared() != nil {
				t.Errorf("the network is %s, because of %v", g.Network(), g.WhyShared())
			}
			there := filepath.Join(t.TempDir(), "network")
			sh(t, g, exits, Command{Stdout: there}, "readlink /proc/self/ns/net; getent ahostsv4 127.0.0.1 >/dev/null && echo found")
			here, err := os.Readlink("/proc/self/ns/net")
			if err != nil {
				t.Fatal(err)
			}
			network, found, _ := strings.Cut(read(t, there), "\n")
			if (network == here) != (which == SharedNetwork) || found != "found\n" {
				t.Errorf("the processes' network is %s, the driver's %s; the C library: %q", network, here, found)
			}
			checkCapabilities(t, g, exits)
			listener := socketAt(t, g, 0)
			if err := unix.Listen(listener, 1); err != nil {
				t.Fatal(err)
			}
			address, err := unix.Getsockname(listener)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 * batch { // more than the guard makes at a time
				if err := unix.Connect(socketAt(t, g, 0), address); err != nil {
					t.Fatalf("connecting inside: %v", err)
				}
				fd, _, err := unix.Accept(listener)
				if err != nil {
					t.Fatal(err)
				}
				unix.Close(fd)
			}
			c, err := net.Dial("tcp4", fmt.Sprintf("127.77.0.1:%d", address.(*unix.SockaddrInet4).Port))
			if err == nil {
				c.Close()
			}
			if (err == nil) != (which == SharedNetwork) {
				t.Errorf("connecting from outside: %v", err)
			}
		})
	}
}

// socketAt returns a socket of the guard that is bound to an address of its network.
func socketAt(t *testing.T, g *Guard, port int) int {
	t.Helper()
	fd, err := g.Socket()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 77, 0, 1}, Port: port}); err != nil {
		t.Fatal(err)
	}
	return fd
}

// checkCapabilities checks that a process of a driver that is not root has no capabilities.
func checkCapabilities(t *testing.T, g *Guard, exits <-chan Exit) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	out := filepath.Join(t.TempDir(), "capabilities")
	sh(t, g, exits, Command{Stdout: out}, "grep Cap[EPA] /proc/self/status | grep -v :.0000000000000000")
	if text := read(t, out); text != "" {
		t.Errorf("capabilities of a process: %s", text)
	}
}

// TestNetworkOptions checks which networks a guard tries, the best first.
func TestNetworkOptions(t *testing.T) {
	for _, c := range []struct {
		network Network
		want    []Network
	}{
		{SharedNetwork, []Network{SharedNetwork}},
		{PrivateNetwork, []Network{PrivateNetwork}},
		{AnyNetwork, []Network{PrivateNetwork, SharedNetwork}},
	} {
		var got []Network
		for _, w := range (&Options{Network: c.network}).ways() {
			if !slices.Contains(got, w.network) {
				got = append(got, w.network)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.network, diff)
		}
	}
}

// TestNoNamespaces starts a guard where neither the capabilities nor the limit of user namespaces
// allow a private network. The network is then the driver's, unless the options refuse that.
func TestNoNamespaces(t *testing.T) {
	const script = `echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --bounding-set -sys_admin "$0"`
	c := exec.Command("unshare", "--user", "--map-root-user", "sh", "-c", script, os.Args[0])
	c.Env = append(os.Environ(), networkVariable+"=yes")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Skipf("SKIPPED: a machine without namespaces is not tested: %v: %s", err, out)
	}
	refused, shared, _ := strings.Cut(string(out), "\n")
	if !strings.HasPrefix(refused, `private: "", starting the guard: `) || !strings.HasPrefix(shared, `any: "shared", `) || !strings.Contains(shared, "with a user namespace: ") {
		t.Errorf("without namespaces: %s", out)
	}
}

// tellNetworks prints which networks guards get, and why.
func tellNetworks() {
	for _, c := range []struct {
		name    string
		network Network
	}{{"private", PrivateNetwork}, {"any", AnyNetwork}} {
		var got Network
		g, err := Start(Options{Network: c.network}, func(Exit) {})
		if err == nil {
			got, err = g.Network(), g.WhyShared()
			_ = g.Close() // the guard has started no processes
		}
		fmt.Printf("%s: %q, %v\n", c.name, got, err)
	}
	os.Exit(0)
}

func TestRunRefuses(t *testing.T) {
	g, exits := startGuard(t)
	dir := t.TempDir()
	for _, c := range []struct {
		command Command
		want    string
	}{
		{Command{Path: filepath.Join(dir, "absent"), Args: []string{"absent"}}, "starting " + dir + "/absent: no such file or directory"},
		{Command{Path: "/bin/true", Args: []string{"true"}, Dir: filepath.Join(dir, "absent")}, "no such file or directory"},
		{Command{Path: "/bin/true", Args: []string{"true"}, Stdin: filepath.Join(dir, "input")}, "input: no such file or directory"},
		{Command{Path: "/bin/true", Args: []string{"true"}, Stdout: dir}, "is a directory"},
	} {
		if pid, err := g.Run(c.command); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: pid %d, error %v, want one that says %q", c.command, pid, err, c.want)
		}
	}
	if e := sh(t, g, exits, Command{}, "exit 3"); e.Status.ExitStatus() != 3 {
		t.Errorf("after refusals: %v, want exit status 3", e)
	}
}

// TestRunTogether starts processes from many goroutines. Every goroutine gets its own answer.
func TestRunTogether(t *testing.T) {
	g, exits := startGuard(t)
	type started struct {
		status, pid int
		err         error
	}
	const n = 20
	results := make(chan started)
	for status := range n {
		go func() {
			pid, err := g.Run(Command{Path: "/bin/sh", Args: []string{"sh", "-c", "exit " + strconv.Itoa(status)}})
			results <- started{status, pid, err}
		}()
	}
	want := map[int]int{}
	for range n {
		r := <-results
		if r.err != nil {
			t.Fatal(r.err)
		}
		want[r.pid] = r.status
	}
	got := map[int]int{}
	for range n {
		select {
		case e := <-exits:
			got[e.PID] = e.Status.ExitStatus()
		case <-time.After(10 * time.Second):
			t.Fatalf("%d of %d ends were reported", len(got), n)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("exit status by process (-want +got):\n%s", diff)
	}
}

// TestTerminalSignals checks that the signals of a terminal do not end the guard.
func TestTerminalSignals(t *testing.T) {
	g, exits := startGuard(t)
	if e := sh(t, g, exits, Command{}, "exit 0"); e.Status != 0 { // the guard answers
		t.Fatal(e)
	}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if err := syscall.Kill(g.PID(), sig); err != nil {
			t.Fatal(err)
		}
	}
	if e := sh(t, g, exits, Command{}, "exit 5"); e.Status.ExitStatus() != 5 {
		t.Errorf("after the signals: %v, want exit status 5", e)
	}
	if sid, err := syscall.Getpgid(g.PID()); err != nil || sid != g.PID() {
		t.Errorf("the guard's process group is %d, %v, want its own, %d", sid, err, g.PID())
	}
}

func TestClose(t *testing.T) {
	dir := t.TempDir()
	gone, kept := filepath.Join(dir, "gone"), filepath.Join(dir, "kept")
	for _, d := range []string{gone, kept} {
		if err := os.MkdirAll(filepath.Join(d, "a", "b"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	exits := make(chan Exit, 10)
	g, err := Start(Options{Remove: []string{gone}}, func(e Exit) { exits <- e })
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := g.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	}
	select {
	case <-g.Done():
	default:
		t.Error("Done is not closed after Close")
	}
	if _, err := os.Stat(gone); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that was to be removed: %v", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("a directory that was not: %v", err)
	}
	if _, err := g.Run(Command{Path: "/bin/true", Args: []string{"true"}}); !errors.Is(err, ErrGuardGone) {
		t.Errorf("Run after Close: %v, want ErrGuardGone", err)
	}
	if len(exits) > 0 {
		t.Errorf("Close reported the end of a process: %v", <-exits)
	}
}

// family is a script that leaves every kind of process behind: the shell itself, a child, a process
// in its own session, a daemon that was forked twice, and a process that ignores signals. Each
// writes its process id to the file.
const family = `
trap '' TERM INT HUP
sleep 1000 & echo $! >>pids
setsid sh -c 'echo $$ >>pids; exec sleep 1000' &
(setsid sh -c '(sh -c "echo \$\$ >>pids; exec sleep 1000" &) ; exit 0' &)
echo $$ >>pids
wait
sleep 1000`

const familySize = 4

// startFamily runs the script in dir and waits until all its processes run.
func startFamily(g *Guard, dir string) ([]int, error) {
	if _, err := g.Run(Command{Path: "/bin/sh", Args: []string{"sh", "-c", family}, Env: os.Environ(), Dir: dir}); err != nil {
		return nil, err
	}
	for range 2000 {
		data, _ := os.ReadFile(filepath.Join(dir, "pids"))
		lines := strings.Fields(string(data))
		if len(lines) == familySize && strings.HasSuffix(string(data), "\n") {
			var pids []int
			for _, l := range lines {
				pid, err := strconv.Atoi(l)
				if err != nil {
					return nil, err
				}
				pids = append(pids, pid)
			}
			return pids, nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil, errors.New("the family did not come together")
}

// drive acts as a driver: it starts a family, prints its process ids, and waits for the end.
func drive(dir string) {
	g, err := Start(Options{Remove: []string{dir}}, func(e Exit) { fmt.Println("exit", e.PID, e) })
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	pids, err := startFamily(g, dir)
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println("guard", g.PID())
	for _, pid := range pids {
		fmt.Println("child", pid)
	}
	fmt.Println("ready")
	<-g.Done()
	fmt.Println("gone", g.Close() != nil)
	select {}
}

// TestNothingOutlives ends the driver or the guard in every way, and checks that two seconds later
// no process and no file is left.
func TestNothingOutlives(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("SKIPPED: setsid is not installed: whether nothing outlives a driver is not tested")
	}
	for _, c := range []struct {
		name   string
		victim string
		signal syscall.Signal
	}{
		{"driver killed", "driver", syscall.SIGKILL},
		{"driver terminated", "driver", syscall.SIGTERM},
		{"driver quit", "driver", syscall.SIGQUIT},
		{"driver stopped and killed", "driver", syscall.SIGSTOP},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := startDriver(t)
			d.signal(t, c.signal)
			if c.signal == syscall.SIGSTOP {
				d.signal(t, syscall.SIGKILL)
			}
			waitUntilGone(t, 2*time.Second, append(d.family, d.guard), d.dir)
		})
	}
	// If the guard is killed, the kernel ends its children, and the driver ends the rest of its
	// session. A process that has also left the session is not ended.
	t.Run("guard killed", func(t *testing.T) {
		t.Parallel()
		d := startDriver(t)
		var session []int
		all := procfs.Processes()
		for _, pid := range d.family {
			if all[pid].Session == d.guard {
				session = append(session, pid)
			} else {
				t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
			}
		}
		if len(session) < 2 {
			t.Fatalf("%d of the family are in the guard's session", len(session))
		}
		if err := syscall.Kill(d.guard, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		waitUntilGone(t, 2*time.Second, session, "")
		want := []string{fmt.Sprintf("exit %d killed by signal SIGKILL", d.guard), "gone true"}
		for _, line := range want {
			got := d.line(t)
			// A parent in the family may also end now.
			for strings.HasSuffix(got, " exit status 0") {
				got = d.line(t)
			}
			if got != line {
				t.Errorf("the driver says %q, want %q", got, line)
			}
		}
	})
}

// driver is the test program, run as a driver.
type driver struct {
	cmd    *exec.Cmd
	dir    string
	guard  int
	family []int
	out    *bufio.Scanner
}

func startDriver(t *testing.T) *driver {
	t.Helper()
	d := &driver{dir: filepath.Join(t.TempDir(), "state")}
	if err := os.Mkdir(d.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	d.cmd = exec.Command(os.Args[0])
	d.cmd.Env = append(os.Environ(), driverVariable+"="+d.dir)
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill() // it may have ended
		_ = d.cmd.Wait()
	})
	d.out = bufio.NewScanner(out)
	for {
		kind, number, _ := strings.Cut(d.line(t), " ")
		pid, _ := strconv.Atoi(number)
		switch kind {
		case "guard":
			d.guard = pid
		case "child":
			d.family = append(d.family, pid)
		case "ready":
			return d
		case "exit": // parents of processes that forked twice end in between
		default:
			t.Fatalf("the driver says %s %s", kind, number)
		}
	}
}

func (d *driver) line(t *testing.T) string {
	t.Helper()
	if !d.out.Scan() {
		t.Fatalf("the driver says nothing any more: %v", d.out.Err())
	}
	return d.out.Text()
}

func (d *driver) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := d.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// TestCloseKillsAll closes a guard while a family runs.
func TestCloseKillsAll(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("SKIPPED: setsid is not installed: whether Close ends everything is not tested")
	}
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	g, _ := startGuard(t, dir)
	pids, err := startFamily(g, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	waitUntilGone(t, 0, append(pids, g.PID()), dir)
}

// waitUntilGone fails the test if one of the processes, or the directory, exists after the given
// time.
func waitUntilGone(t *testing.T, patience time.Duration, pids []int, dir string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		alive := procfs.Processes()
		left := slices.DeleteFunc(slices.Clone(pids), func(pid int) bool { _, ok := alive[pid]; return !ok })
		_, err := os.Stat(dir)
		if len(left) == 0 && errors.Is(err, os.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left after %v: processes %v of %v; directory: %v", patience, left, pids, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
