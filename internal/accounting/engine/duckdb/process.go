package duckdb

// #include <malloc.h>
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/duckdb/duckdb-go/v2/mapping"
	"golang.org/x/sys/unix"
)

// glibc keeps freed memory between smaller allocations, in up to eight arenas per processor
// (mallopt(3): M_ARENA_MAX). With fewer arenas, the size of the process stays near the size that
// DuckDB counts.
func init() { C.mallopt(C.M_ARENA_MAX, C.int(runtime.NumCPU())) }

// release returns freed memory to the operating system (malloc_trim(3)).
func release() { C.malloc_trim(0) }

func duckDBVersion() string { return mapping.LibraryVersion() }

// isolate closes files that the process inherited, and forbids core files. Inherited file
// descriptors lack the close-on-exec flag, which the Go runtime sets on its own descriptors.
func isolate() error {
	debug.SetGCPercent(50) // the heap is little larger than one frame
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("closing inherited files: %w", err)
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
	// A core file would contain jobs.
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbidding core files: %w", err)
	}
	return nil
}

// bound sets the limit of the process's data, so that they can grow by at most mib MiB. The kernel counts private
// writable mappings, whether or not they are in memory (setrlimit(2): RLIMIT_DATA).
func bound(mib int) error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return fmt.Errorf("bounding the memory: %w", err)
	}
	_, rest, _ := strings.Cut(string(status), "\nVmData:")
	line, _, _ := strings.Cut(rest, "kB")
	kib, err := strconv.ParseUint(strings.TrimSpace(line), 10, 64)
	if err != nil {
		return fmt.Errorf("bounding the memory: /proc/self/status: VmData: %w", err)
	}
	limit := kib<<10 + uint64(mib)<<20
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		return fmt.Errorf("bounding the memory: %w", err)
	}
	return nil
}
