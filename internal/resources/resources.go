// Package resources reads what a process may use of this machine: open files, processes, memory, and space on file
// systems. When an operation has failed, the package says in plain words which resource was short.
package resources

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"rmreplay/internal/procfs"

	"golang.org/x/sys/unix"
)

// Unlimited is the value of a limit that does not apply.
const Unlimited = uint64(math.MaxUint64)

// Limit returns the hard limit of a resource of this process, such as [unix.RLIMIT_NOFILE].
func Limit(resource int) (uint64, error) {
	var lim unix.Rlimit
	if err := unix.Getrlimit(resource, &lim); err != nil {
		return 0, err
	}
	if lim.Max == unix.RLIM_INFINITY {
		return Unlimited, nil
	}
	return lim.Max, nil
}

// RaiseOpenFiles raises this process's limit of open files to at least n, if the hard limit allows
// it. Processes that it starts inherit the new limit; otherwise they would get the limit with which
// this process started.
func RaiseOpenFiles(n uint64) error {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return fmt.Errorf("raising the limit of open files: %w", err)
	}
	lim.Cur = min(lim.Max, max(n, lim.Cur))
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return fmt.Errorf("raising the limit of open files to %d: %w", lim.Cur, err)
	}
	return nil
}

// Room returns the free and the total bytes of a directory's file system.
func Room(dir string) (free, total uint64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, err
	}
	return st.Bavail * uint64(st.Bsize), st.Blocks * uint64(st.Bsize), nil
}

// Memory returns the bytes of memory that this process can still get. The result is the available memory of the
// machine, limited by the remainder in the process's control groups.
func Memory() (uint64, error) {
	available, err := field("/proc/meminfo", "MemAvailable")
	if err != nil {
		return 0, err
	}
	if left, ok := controlGroups("/proc/self/cgroup", "/sys/fs/cgroup", "memory", "memory.max", "memory.current"); ok {
		available = min(available, left)
	}
	return available, nil
}

// Processes returns the number of processes and threads that this user can still start. For root
// it is the limit, because the daemons of a replay by root have another user.
func Processes() (uint64, error) {
	limit, err := Limit(unix.RLIMIT_NPROC)
	if err != nil {
		return 0, err
	}
	if limit != Unlimited && os.Geteuid() != 0 {
		limit -= min(limit, procfs.ThreadsOf(os.Getuid()))
	}
	if left, ok := controlGroups("/proc/self/cgroup", "/sys/fs/cgroup", "pids", "pids.max", "pids.current"); ok {
		limit = min(limit, left)
	}
	return limit, nil
}

// field returns a field of /proc/meminfo in bytes.
func field(path, name string) (uint64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == name+":" {
			kib, err := strconv.ParseUint(f[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, name)
}

// controlGroups returns the smallest unused part of a limit of this process's control group and of
// the groups above it. The result ok is false if there is no limit.
func controlGroups(selfFile, root, controller, limitFile, useFile string) (left uint64, ok bool) {
	data, err := os.ReadFile(selfFile)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(data)) {
		// "0::/path" in version 2, "5:pids:/path" in version 1.
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || parts[1] != "" && parts[1] != controller {
			continue
		}
		for group := filepath.Join("/", parts[2]); ; group = filepath.Dir(group) {
			dir := filepath.Join(root, parts[1], group)
			if limit, err := number(filepath.Join(dir, limitFile)); err == nil {
				used, _ := number(filepath.Join(dir, useFile)) // 0 if the file does not exist
				if n := limit - min(limit, used); !ok || n < left {
					left, ok = n, true
				}
			}
			if group == "/" {
				break
			}
		}
	}
	return left, ok
}

func number(path string) (uint64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
}

// Shortage names the resource that was short when an operation failed, and its amount. It returns
// "" if the error has another cause.
func Shortage(err error) string {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		var path *fs.PathError
		if !errors.As(err, &path) {
			return ""
		}
		dir := filepath.Dir(path.Path)
		free, total, rerr := Room(dir)
		if rerr != nil {
			return ""
		}
		return fmt.Sprintf("the file system of %s has %s free of %s", dir, Size(free), Size(total))
	case errors.Is(err, unix.EFBIG):
		return limited(unix.RLIMIT_FSIZE, "a file may have %s (ulimit -f)", Size)
	case errors.Is(err, unix.EMFILE):
		return limited(unix.RLIMIT_NOFILE, "a process may have %s files open (ulimit -n)", Count)
	}
	return ""
}

func limited(resource int, format string, text func(uint64) string) string {
	limit, err := Limit(resource)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(format, text(limit))
}

// Size writes a number of bytes for people.
func Size(n uint64) string {
	switch {
	case n == Unlimited:
		return "unlimited"
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// Count writes a number for people.
func Count(n uint64) string {
	if n == Unlimited {
		return "unlimited"
	}
	return strconv.FormatUint(n, 10)
}
