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

// Snapshot is what a look at somebody else's clock has shown. Nothing stood still for
// it: what it says of two threads need not have been true at one instant.
type Snapshot struct {
	Now hpc.Time
	// Limit is the driver's next event, beyond which time does not go by itself;
	// [hpc.Never] if it has none.
	Limit hpc.Time
	// Running is the number of threads that count as running, the driver included.
	Running int
	// Inbox is the number of bytes on their way to the driver.
	Inbox int64
	// Factor is what SetFactor has set, and Paid what was paid by it so far.
	Factor float64
	Paid   time.Duration
	// Steps is how often the managed threads have advanced the clock by themselves.
	Steps   uint64
	Threads []Thread
}

// ErrNotClock says that a file is not the clock of a running program of this version.
var ErrNotClock = errors.New("not a virtual clock of this version of rmreplay")

// Look reads the clock in a file that another process's [New] has made, without
// touching it. The error wraps [os.ErrNotExist] if that process has ended.
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
	defer func() { _ = unix.Munmap(mem) }() // it is mapped
	s := (*shared)(unsafe.Pointer(&mem[0]))
	if s.magic != abiMagic || s.version != abiVersion || s.slots != slotCount {
		return Snapshot{}, fmt.Errorf("%s: %w", path, ErrNotClock)
	}
	return Snapshot{
		Now: hpc.Time(s.now.Load()), Limit: hpc.Time(s.limit.Load()), Running: int(s.busy.Load()), Inbox: s.inbox.Load(),
		Factor: math.Float64frombits(s.factor.Load()), Paid: time.Duration(s.paid.Load()), Steps: s.steps.Load(),
		Threads: s.threads(),
	}, nil
}
