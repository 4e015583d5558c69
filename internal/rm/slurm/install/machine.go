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

// Check is a property of this machine that a replay needs.
type Check struct {
	Name string
	Why  string // why a replay needs it
	OK   bool
	// Required is set if no replay can run without the property. Other properties affect the speed of
	// a replay or the largest size of a workload.
	Required bool
	Found    string // the state of this machine, or its error message
	Fix      string // a command or advice that corrects it
}

// minScratch is the space, in bytes, for a replay's state. minScratch includes a reserve: the database needs about 150
// MiB, and slurmctld's state of 100,000 jobs about 200 MiB.
const minScratch = 512 << 20

// Machine checks the machine itself: the kernel, the network, the limits and the file systems. It
// opens some sockets and starts some processes, and closes and ends them before it returns. needs
// are the needs of a replay that must be able to run here.
func Machine(needs Needs) []Check {
	list := []Check{
		checkScratch(),
		checkPreload(),
		checkProc(),
		checkTemp(),
		checkUser(),
		checkEngine(),
	}
	list = append(list, checkNetwork()...)
	return append(list, needs.checks()...)
}

// checkEngine looks for the program that answers questions about finished jobs. No replay needs it.
func checkEngine() Check {
	const name = "rmreplay-engine"
	c := Check{Name: name, Why: "pages and searches of rmreplay accounting serve; replays do not need it",
		Fix: "install it beside rmreplay, with rmreplay's packages or make build"}
	path, err := exec.LookPath(name)
	if self, failed := os.Executable(); failed == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if info, failed := os.Stat(beside); failed == nil && info.Mode().IsRegular() {
			path, err = beside, nil
		}
	}
	if c.OK, c.Found = err == nil, path; err != nil {
		c.Found = "not found"
	}
	return c
}

// ScratchDir returns the directory for a replay's state and the free bytes there. The directory is the first of
// RMREPLAY_TMPDIR, /dev/shm, XDG_RUNTIME_DIR and the system's temporary directory that is writable, allows executable
// files and has room. /dev/shm is preferred because slurmctld saves its state often, and /dev/shm is in memory. If no
// directory has room, ScratchDir returns the directory with the most room and an error.
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
		if err == nil {
			err = searchable(c)
		}
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

// searchable returns an error if root's daemons, which run as another user, cannot reach dir.
func searchable(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	dir, err := filepath.Abs(dir)
	for err == nil {
		var info os.FileInfo
		if info, err = os.Stat(dir); err == nil && info.Mode()&0o001 == 0 {
			return fmt.Errorf("out of reach for the daemons, which do not run as root: %s has mode %04o (want 0711 or more)",
				dir, info.Mode().Perm())
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return err
}

// unnamedFile makes a file without a name in dir. The file disappears even if this process is killed. If the file
// system does not support unnamed files, the file is in memory.
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

// checkPreload loads the preload library into a process, as a replay does.
func checkPreload() Check {
	c := Check{Name: "preload library", Why: "puts the daemons under virtual time", Required: true,
		Fix: "run make build in a clone of rmreplay (on this machine, if its glibc is older than 2.22)"}
	dir, _, _ := ScratchDir()
	if dir == "" { // checkScratch reports why
		c.Found, c.Fix = "not tried: it lies in the state directory", "first fix the state directory"
		return c
	}
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
		c.Found = fmt.Sprintf("a process with the library failed: %v", err)
	case len(bytes.TrimSpace(out)) > 0: // the loader only warns of a library that it cannot load
		c.Found = string(bytes.TrimSpace(out))
	default:
		c.OK, c.Found = true, "loads"
	}
	return c
}

// checkLoopback connects to an address such as the nodes of a replay have, in this machine's
// network.
func checkLoopback() Check {
	c := Check{
		Name: "loopback addresses", Why: "each compute node has one in 127.0.0.0/8", Required: true,
		Fix: "ip address add 127.0.0.1/8 dev lo; ip link set lo up (as root), or " + allowNamespaces,
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

// checkProc reads the state of a thread, as the clock does.
func checkProc() Check {
	c := Check{
		Name: "/proc", Why: "the clock reads there whether every thread sleeps", Required: true,
		Fix: "mount -t proc proc /proc (with a hidepid that lets you see your own processes)",
	}
	pid := strconv.Itoa(os.Getpid())
	if _, err := os.ReadFile(filepath.Join("/proc", pid, "task", pid, "stat")); err != nil {
		c.Found = err.Error()
		return c
	}
	c.OK, c.Found = true, "readable"
	return c
}
