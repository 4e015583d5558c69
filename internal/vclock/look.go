package vclock

import (
	"errors"
	"fmt"
	"math"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"rmreplay/internal/hpc"
)

// Snapshot is what [Look] read from the clock of another process. The threads continue to run
// meanwhile, so the states of two threads may be from different instants.
type Snapshot struct {
	Now hpc.Time
	// Limit is the time of the driver's next event; [hpc.Never] if there is none. Managed threads do
	// not advance the clock beyond it.
	Limit hpc.Time
	// Running is the number of threads that count as running. While the driver works, it counts as a running thread.
	Running int
	// Inbox is the number of bytes that were sent to the driver and that the driver has not read.
	Inbox int64
	// Factor is the factor of SetFactor. Charged is the virtual time that threads have waited
	// because of their own computing, summed over all threads.
	Factor  float64
	Charged time.Duration
	// Steps counts the advances made by managed threads without the driver.
	Steps   uint64
	Threads []Thread
}

// ErrNotClock means that a file is not a clock of this version of rmreplay.
var ErrNotClock = errors.New("not a virtual clock of this version of rmreplay")

// Look reads the clock in a file that [New] has created in another process. It does not change the file. The error
// wraps [os.ErrNotExist] if the file does not exist, for example because that process has ended. The error wraps
// [ErrNotClock] if the file is not a clock of this version.
func Look(path string) (Snapshot, error) {
	f, err := os.Open(path)
	if err != nil {
		return Snapshot{}, err
	}
	defer f.Close() // nothing is written
	if info, err := f.Stat(); err != nil || info.Size() != int64(sharedSize) {
		return Snapshot{}, fmt.Errorf("%s: %w", path, ErrNotClock)
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, sharedSize, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return Snapshot{}, fmt.Errorf("mapping %s: %w", path, err)
	}
	defer func() { _ = unix.Munmap(mem) }() // cannot fail: the memory is mapped
	s := (*shared)(unsafe.Pointer(&mem[0]))
	if s.magic != abiMagic || s.version != abiVersion || s.slots != slotCount {
		return Snapshot{}, fmt.Errorf("%s: %w", path, ErrNotClock)
	}
	return Snapshot{
		Now: hpc.Time(s.now.Load()), Limit: hpc.Time(s.limit.Load()), Running: int(s.busy.Load()),
		Inbox: s.inbox.Load(), Factor: math.Float64frombits(s.factor.Load()),
		Charged: time.Duration(s.charged.Load()), Steps: s.steps.Load(),
		Threads: s.threads(),
	}, nil
}
