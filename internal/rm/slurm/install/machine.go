package install

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"rmreplay/internal/vclock"
)

// Check is one property of this machine that a replay depends on.
type Check struct {
	Name string
	Why  string // the reason for which a replay needs it
	OK   bool
	// Required says that no replay can run without the property. Other properties affect the
	// speed of a replay or the largest size of a workload.
	Required bool
	Found    string // the state of this machine, or its error message
	Fix      string // a command or advice that corrects it
}

// minScratch is the space, in bytes, for a replay's state with some reserve: about 150 MiB for
// the database, and about 200 MiB for slurmctld's state of 100,000 jobs.
const minScratch = 512 << 20

// minFiles is the number of open files with which thousands of nodes and jobs can have their
// connections at the same time.
const minFiles = 4096

// minProcesses is above the number of processes and threads of the database and of slurmctld
// at its busiest (256 message threads).
const minProcesses = 1024

// Machine checks the machine itself: the kernel, the network, the limits and the file systems.
// It opens some sockets and starts some processes, and closes and ends them all.
func Machine() []Check {
	return []Check{
		checkScratch(),
		checkPreload(),
		checkLoopback(),
		checkBindToDevice(),
		checkProc(),
		checkLimit("open files", unix.RLIMIT_NOFILE, minFiles, "raise it with: ulimit -n 65536"),
		checkLimit("processes", unix.RLIMIT_NPROC, minProcesses, "raise it with: ulimit -u 4096"),
		checkPids(),
		checkUser(),
		checkNetwork(),
	}
}

// ScratchDir returns the directory for a replay's state and the free bytes there. It is the
// first of RMREPLAY_TMPDIR, /dev/shm, XDG_RUNTIME_DIR and the system's temporary directory that
// is writable, allows executable files and has room. /dev/shm is in memory, which matters
// because slurmctld saves its state often. If none has room, ScratchDir returns the one with
// the most room and an error.
func ScratchDir() (dir string, free uint64, err error) {
	return scratchDir([]string{os.Getenv("RMREPLAY_TMPDIR"), "/dev/shm", os.Getenv("XDG_RUNTIME_DIR"), os.TempDir()})
}

func scratchDir(candidates []string) (dir string, free uint64, err error) {
	var refused []string
	for _, c := range candidates {
		if c == "" {
			continue
		}
		n, err := usable(c)
		if err != nil {
			refused = append(refused, fmt.Sprintf("%s: %v", c, err))
			continue
		}
		if n >= minScratch {
			return c, n, nil
		}
		refused = append(refused, fmt.Sprintf("%s: only %d MiB free (want %d)", c, n>>20, minScratch>>20))
		if dir == "" || n > free {
			dir, free = c, n
		}
	}
	return dir, free, fmt.Errorf("no directory for the replay's state: %s", strings.Join(refused, "; "))
}

// usable returns the free bytes in dir, or an error that says why a replay cannot use it.
func usable(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	if st.Flags&unix.ST_NOEXEC != 0 {
		return 0, errors.New("mounted noexec")
	}
	probe, err := unnamedFile(dir)
	if err != nil {
		return 0, fmt.Errorf("not writable: %w", err)
	}
	_ = probe.Close() // nothing was written
	return st.Bavail * uint64(st.Bsize), nil
}

// unnamedFile makes a file in dir that has no name, so that nothing is left of it however this
// process ends. Where the file system has no such files, it is in memory.
func unnamedFile(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o700)
	if errors.Is(err, unix.EOPNOTSUPP) {
		if err = unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err == nil {
			fd, err = unix.MemfdCreate("rmreplay", unix.MFD_CLOEXEC)
		}
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "unnamed file in "+dir), nil
}

func checkScratch() Check {
	c := Check{
		Name: "state directory", Why: "slurmctld saves its state and the database writes all the time", Required: true,
		Fix: "mount -o remount,exec,size=4G /dev/shm (or set RMREPLAY_TMPDIR to a directory with 512 MiB free)",
	}
	dir, free, err := ScratchDir()
	if err != nil {
		c.Found = err.Error()
		return c
	}
	c.OK = true
	c.Found = fmt.Sprintf("%s, %d MiB free", dir, free>>20)
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) == nil && st.Type != unix.TMPFS_MAGIC {
		c.Found += ", not in memory: replays will be slower"
	}
	return c
}

// checkPreload loads the preload library into a process, as a replay will.
func checkPreload() Check {
	c := Check{Name: "preload library", Why: "puts the daemons under virtual time", Required: true, Fix: "make build"}
	dir, _, _ := ScratchDir() // checkScratch reports its error
	probe, err := unnamedFile(dir)
	if err == nil {
		defer probe.Close()
		err = vclock.WriteLibrary(probe)
	}
	if err != nil {
		c.Found = err.Error()
		return c
	}
	cmd := exec.Command("/bin/true")
	cmd.ExtraFiles = []*os.File{probe}
	cmd.Env = []string{"LD_PRELOAD=/proc/self/fd/3", "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		c.Found = fmt.Sprintf("a process with it failed: %v", err)
	case len(bytes.TrimSpace(out)) > 0: // the loader warns of a library that it cannot load, and continues
		c.Found = string(bytes.TrimSpace(out))
	default:
		c.OK, c.Found = true, "loads"
	}
	return c
}

// checkLoopback connects to an address of the kind that the nodes of a replay have.
func checkLoopback() Check {
	c := Check{
		Name: "loopback addresses", Why: "each compute node has one in 127.0.0.0/8", Required: true,
		Fix: "ip address add 127.0.0.1/8 dev lo; ip link set lo up",
	}
	l, err := net.Listen("tcp4", "127.1.2.3:0")
	if err != nil {
		c.Found = err.Error()
		return c
	}
	defer l.Close()
	conn, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		c.Found = err.Error()
		return c
	}
	_ = conn.Close() // nothing was sent
	c.OK, c.Found = true, "127.1.2.3 answers"
	return c
}

// checkBindToDevice binds a socket to the loopback device. Linux allows that without privileges
// since 5.7.
func checkBindToDevice() Check {
	c := Check{
		Name: "binding to lo", Why: "one listening socket serves all nodes and is out of reach from other machines", Required: true,
		Fix: "use Linux 5.7 or later",
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.BindToDevice(fd, "lo")
		_ = unix.Close(fd) // nothing was sent
	}
	if err != nil {
		c.Found = fmt.Sprintf("Linux %s: %v", kernelRelease(), err)
		return c
	}
	c.OK, c.Found = true, "Linux "+kernelRelease()
	return c
}

func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "of unknown version"
	}
	return unix.ByteSliceToString(u.Release[:])
}

// checkProc reads the state of another process's thread, as the clock does.
func checkProc() Check {
	c := Check{
		Name: "/proc", Why: "the clock looks there whether every thread sleeps", Required: true,
		Fix: "mount -t proc proc /proc (with a hidepid that lets you see your own processes)",
	}
	cmd := exec.Command("cat") // it waits for its input
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		c.Found = err.Error()
		return c
	}
	defer func() {
		_ = in.Close()
		_ = cmd.Wait() // its exit status does not matter
	}()
	pid := strconv.Itoa(cmd.Process.Pid)
	if _, err := os.ReadFile(filepath.Join("/proc", pid, "task", pid, "stat")); err != nil {
		c.Found = err.Error()
		return c
	}
	c.OK, c.Found = true, "readable"
	return c
}

func checkLimit(name string, resource int, want uint64, fix string) Check {
	c := Check{Name: name, Why: "connections and threads of a large replay", Fix: fix}
	var lim unix.Rlimit
	if err := unix.Getrlimit(resource, &lim); err != nil {
		c.Found = err.Error()
		return c
	}
	c.OK = lim.Max >= want
	c.Found = limitText(lim.Max)
	if !c.OK {
		c.Found += fmt.Sprintf(" (want %d)", want)
	}
	return c
}

func limitText(n uint64) string {
	if n == unix.RLIM_INFINITY {
		return "unlimited"
	}
	return strconv.FormatUint(n, 10)
}

// checkPids reads the process limit of this process's control group. Containers set it, and
// getrlimit does not show it.
func checkPids() Check {
	c := Check{Name: "control group's processes", Why: "threads of a large replay", OK: true, Found: "unlimited",
		Fix: "raise pids.max of the container (docker run --pids-limit 4096)"}
	n, ok := pidsMax("/proc/self/cgroup", "/sys/fs/cgroup")
	if !ok {
		return c
	}
	c.OK = n >= minProcesses
	c.Found = strconv.FormatUint(n, 10)
	if !c.OK {
		c.Found += fmt.Sprintf(" (want %d)", minProcesses)
	}
	return c
}

// pidsMax returns the smallest pids.max from this process's control group up to the root of the
// hierarchy. ok is false if there is no limit.
func pidsMax(selfFile, root string) (limit uint64, ok bool) {
	data, err := os.ReadFile(selfFile)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(data)) {
		// "0::/path" in version 2, "5:pids:/path" in version 1.
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || parts[1] != "" && parts[1] != "pids" {
			continue
		}
		for group := filepath.Join("/", parts[2]); ; group = filepath.Dir(group) {
			data, err := os.ReadFile(filepath.Join(root, parts[1], group, "pids.max"))
			if n, perr := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64); err == nil && perr == nil && (!ok || n < limit) {
				limit, ok = n, true
			}
			if group == "/" {
				break
			}
		}
	}
	return limit, ok
}
