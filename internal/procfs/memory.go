package procfs

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Memory has the open file statm of /proc/PID. The open file stays with its process, even if the
// process id is used again.
type Memory struct{ statm *os.File }

// OpenMemory opens the file of a process. [Memory.Close] closes it. The memory of a process that has ended is 0.
func OpenMemory(pid int) *Memory {
	f, err := os.Open(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return &Memory{}
	}
	return &Memory{f}
}

// Close closes the file.
func (m *Memory) Close() {
	if m.statm != nil {
		_ = m.statm.Close() // the file was only read
	}
}

// Anonymous returns the process's resident memory that is not backed by files, in bytes (proc(5):
// statm).
func (m *Memory) Anonymous() int64 {
	if m.statm == nil {
		return 0
	}
	var text [128]byte
	n, _ := m.statm.ReadAt(text[:], 0)
	fields := strings.Fields(string(text[:n]))
	if len(fields) < 3 {
		return 0
	}
	resident, _ := strconv.ParseInt(fields[1], 10, 64)
	shared, _ := strconv.ParseInt(fields[2], 10, 64)
	return (resident - shared) * int64(os.Getpagesize())
}
