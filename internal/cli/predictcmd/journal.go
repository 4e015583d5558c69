package predictcmd

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/output"
	"rmreplay/internal/predict/service"
)

// journal is the file of a service's events. A batch that cannot be written to its end is removed, since
// its client is told that it does not count and sends it again.
type journal struct {
	path string
	file disk
	size int64 // the bytes of whole batches
	// broken is not nil if a batch could be neither written nor removed. Nothing may follow it.
	broken error
}

// disk is what a journal needs of its file.
type disk interface {
	io.ReadWriteCloser
	Sync() error
	Truncate(size int64) error
}

// openJournal opens a journal, or makes one, and locks it against other processes until it is closed.
func openJournal(path string) (*journal, error) {
	if err := output.Owned(path); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = file.Close() // nothing was written
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: another process has it open (want a journal for each service)", path)
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return &journal{path: path, file: file}, nil
}

// Write appends a batch and waits until the disk has it.
func (j *journal) Write(batch []byte) (int, error) {
	if j.broken != nil {
		return 0, j.broken
	}
	n, err := j.file.Write(batch)
	if err == nil {
		err = j.file.Sync()
	}
	if err == nil {
		j.size += int64(n)
		return n, nil
	}
	if undo := j.cut(); undo != nil {
		j.broken = fmt.Errorf("%s: an earlier batch could not be removed: %w (want the service started again when the disk works)", j.path, undo)
	}
	return 0, err
}

// cut removes what follows the whole batches.
func (j *journal) cut() error {
	return errors.Join(j.file.Truncate(j.size), j.file.Sync())
}

// replay reads the journal, and removes a line that was not written to its end.
func (o commands) replay(s *service.Service, j *journal) error {
	text, err := io.ReadAll(j.file)
	if err != nil {
		return console.BadInput(fmt.Errorf("reading the journal: %w", err))
	}
	if j.size, err = s.Replay(text); err != nil {
		return console.BadInput(fmt.Errorf("reading the journal: %s: %w", j.path, err))
	}
	if j.size < int64(len(text)) {
		o.Say("rmreplay: %s: the last line is not complete and is removed", j.path)
		if err := j.cut(); err != nil {
			return fmt.Errorf("mending the journal: %w", err)
		}
	}
	return nil
}
