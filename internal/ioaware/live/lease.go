package live

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Lease is the driver's lock file. The driver locks it as long as it runs, and touches it in every
// round. The lock prevents a second driver on the machine. The file's time tells the watchdog
// whether the driver is dead.
type Lease struct{ file *os.File }

// errTaken says that another process has locked the file.
var errTaken = errors.New("another driver has locked it")

// Take locks the file at a path, and creates the file if necessary. The kernel releases the lock
// when the process ends.
func Take(path string) (*Lease, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock file, which prevents a second driver: %w", err)
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("taking the lease %s: %w (want one driver on a machine)", path, err), f.Close())
	}
	l := &Lease{f}
	return l, l.Touch()
}

func lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errTaken
	}
	return err
}

// Touch sets the file's time, which shows that the driver works.
func (l *Lease) Touch() error {
	now := time.Now()
	if err := os.Chtimes(l.file.Name(), now, now); err != nil {
		return fmt.Errorf("touching the lease: %w", err)
	}
	return nil
}

// Close releases the lock.
func (l *Lease) Close() error { return l.file.Close() }

// Dead reports whether the lock file was not touched for the given time, because the driver is
// dead, hangs, or was never started.
func Dead(path string, after time.Duration) (bool, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the time of the lease: %w", err)
	}
	return time.Since(info.ModTime()) >= after, nil
}
