package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// LockedError says that another process has the store open.
type LockedError struct {
	Dir string
	PID int
}

// Error implements error.
func (e *LockedError) Error() string {
	return fmt.Sprintf("%s: process %d has it open", e.Dir, e.PID)
}

// lock locks the store for this process and writes the process id into the lock file.
func lock(dir string) (f *os.File, err error) {
	if f, err = os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			pid, _ := io.ReadAll(f)
			number, _ := strconv.Atoi(strings.TrimSpace(string(pid)))
			err = &LockedError{Dir: dir, PID: number}
		}
		return nil, errors.Join(err, f.Close())
	}
	emptied := f.Truncate(0)
	_, written := fmt.Fprintf(f, "%d\n", os.Getpid())
	if err := errors.Join(emptied, written); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// unlock releases the lock. The kernel also releases it when the process ends.
func (s *Store) unlock() error { return errors.Join(s.lock.Truncate(0), s.lock.Close()) }
