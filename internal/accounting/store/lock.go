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

// LockedError is the error of a store that another process has open.
type LockedError struct {
	Dir string
	PID int // 0 if only readers have it open
}

// Error names the process.
func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("opening the store: %s: other processes are reading it", e.Dir)
	}
	return fmt.Sprintf("opening the store: %s: process %d has it open", e.Dir, e.PID)
}

// lock takes the store's lock. A writer's process number is in the file.
func lock(dir string, shared bool) (f *os.File, err error) {
	flags, how := os.O_RDWR|os.O_CREATE, unix.LOCK_EX
	if shared {
		flags, how = os.O_RDONLY, unix.LOCK_SH
	}
	if f, err = os.OpenFile(filepath.Join(dir, lockFile), flags, 0o600); err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	if err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			pid, _ := io.ReadAll(f)
			number, _ := strconv.Atoi(strings.TrimSpace(string(pid))) // empty while only readers have it
			err = &LockedError{Dir: dir, PID: number}
		}
		return nil, errors.Join(err, f.Close())
	}
	if !shared {
		if err := f.Truncate(0); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if _, err := fmt.Fprintf(f, "%d\n", os.Getpid()); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return f, nil
}

// unlock gives the lock back. The system does that too when the process ends.
func (s *Store) unlock() error {
	if s.lock == nil {
		return nil
	}
	var err error
	if !s.opts.readOnly {
		err = s.lock.Truncate(0)
	}
	return errors.Join(err, s.lock.Close())
}
