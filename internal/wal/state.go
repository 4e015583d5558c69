package wal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"rmreplay/internal/output"
)

// State is a directory with the state of a program: a snapshot, and records of the changes after the snapshot. Several
// goroutines may call its methods, but only one at a time may call Begin or Snapshot.
type State struct {
	dir    string
	header []byte
	lock   *os.File
	log    *Log
	last   *Pending // the last record that has begun; nil before the first
}

// ErrInUse says that another process has the directory open.
var ErrInUse = errors.New("another process uses the directory (want a directory for each service)")

const (
	snapshotFile = "snapshot"
	fresh        = ".new"
	// stateSegment is the size of a state's segments in bytes. It is small, because only whole
	// segments are removed.
	stateSegment = 4 << 20
)

// OpenState opens a directory, which it creates if necessary. It returns the last snapshot, or nil, and the records
// after it. The directory must be private (mode 0700). kind is [Options.Kind]. An incomplete last record is moved away
// ([State.Torn]); any other damage is an error.
func OpenState(dir, kind string) (s *State, snapshot []byte, records [][]byte, err error) {
	s = &State{dir: dir, header: header(kind)}
	defer func() {
		if err != nil {
			if s.lock != nil {
				_ = s.lock.Close() // nothing was written
			}
			s, err = nil, fmt.Errorf("opening the state directory %s: %w", dir, err)
		}
	}()
	if err := private(dir); err != nil {
		return s, nil, nil, err
	}
	if err := refuseOld(dir); err != nil {
		return s, nil, nil, err
	}
	if s.lock, err = os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return s, nil, nil, err
	}
	if err := unix.Flock(int(s.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return s, nil, nil, ErrInUse
	}
	after, snapshot, err := s.readSnapshot()
	if err != nil {
		return s, nil, nil, err
	}
	s.log, err = Open(dir, after, Options{Kind: kind, SegmentBytes: stateSegment, Patience: Forever, InOrder: true})
	if err != nil {
		return s, nil, nil, err
	}
	if records, err = s.log.since(after); err != nil {
		return s, nil, nil, errors.Join(err, s.log.Close())
	}
	return s, snapshot, records, nil
}

// private creates the directory, or checks that other users cannot read it.
func private(dir string) error {
	if err := os.MkdirAll(filepath.Dir(filepath.Clean(dir)), 0o777); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err == nil || !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return errors.New("not a directory (want a new name; earlier versions kept a journal in one file)")
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("its mode is %04o (want 0700: other users must not read or change it)", info.Mode().Perm())
	}
	return output.Owned(dir)
}

// refuseOld refuses the state of an earlier version, whose files were numbered from 0.
func refuseOld(dir string) error {
	for _, pattern := range []string{"journal.[0-9]*", "snapshot.[0-9]*"} {
		if old, err := filepath.Glob(filepath.Join(dir, pattern)); err == nil && len(old) > 0 {
			return fmt.Errorf("an earlier version of rmreplay wrote %s, and this one cannot read it (want a new directory)",
				old[0])
		}
	}
	return nil
}

// since returns the records after a number.
func (j *Log) since(after int64) (records [][]byte, err error) {
	r := j.NewReader(after)
	for n := after; n < j.Last(); {
		some, err := r.Read(context.Background(), 1<<16, perSync)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		for _, one := range some {
			records, n = append(records, one.Payload), one.Number
		}
	}
	return records, r.Close()
}

// Torn returns the incomplete record that OpenState has moved away, if there was one.
func (s *State) Torn() []Torn { return s.log.Torn() }

// Begin begins to add a record. It does not wait for the disk; wait does. After a record that could
// not be written, all further records fail until [State.Snapshot] has saved the state with their
// changes.
func (s *State) Begin(record []byte) (wait func() error, err error) {
	if err := s.log.failed.Load(); err != nil {
		return nil, *err
	}
	p, err := s.log.Begin(record)
	if err != nil {
		return nil, err
	}
	s.last = p
	return func() error {
		_, err := p.Wait()
		return err
	}, nil
}

// Append adds a record and waits until it is on the disk. After an error the record is not in the
// log. The next record may follow, because the caller has not changed its state.
func (s *State) Append(record []byte) error {
	_, err := s.log.Append(record)
	if err != nil {
		s.log.Resume()
	}
	return err
}

// Snapshot replaces the snapshot and all records by a state. The state must include the changes of
// all records that have begun. After a crash the directory has either the old or the new content.
func (s *State) Snapshot(state []byte) error {
	if s.last != nil {
		_, _ = s.last.Wait() // if the record was not written, the state has its change
	}
	after := s.log.Last()
	if err := s.writeSnapshot(after, state); err != nil {
		return err
	}
	s.last = nil
	s.log.Resume()
	return errors.Join(s.log.Prune(after), s.removeTorn())
}

// writeSnapshot writes a snapshot. It consists of the header of the kind, the number of the last
// record that the state includes (8 bytes, little-endian), and the state as a record with that
// number.
func (s *State) writeSnapshot(after int64, state []byte) error {
	if len(state) > MaxPayload {
		return fmt.Errorf("a state of %d bytes (want at most %d)", len(state), MaxPayload)
	}
	text := binary.LittleEndian.AppendUint64(append([]byte(nil), s.header...), uint64(after))
	path := filepath.Join(s.dir, snapshotFile)
	if err := writeFile(path+fresh, appendRecord(text, after, state)); err != nil {
		return err
	}
	return errors.Join(os.Rename(path+fresh, path), syncDir(s.dir))
}

// readSnapshot reads the snapshot, if there is one.
func (s *State) readSnapshot() (after int64, state []byte, err error) {
	path := filepath.Join(s.dir, snapshotFile)
	if err := os.Remove(path + fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, nil, err
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	defer f.Close() // nothing is written
	info, err := f.Stat()
	if err != nil {
		return 0, nil, err
	}
	start := make([]byte, headerBytes+8)
	if err := readAt(f, start, 0); err != nil || !bytes.HasPrefix(start, s.header) {
		return 0, nil, fmt.Errorf("%s: not a snapshot of this service (want the file as it was written): %w", path, errRecord)
	}
	after = int64(binary.LittleEndian.Uint64(start[headerBytes:]))
	r := reader{f: f, at: headerBytes + 8, limit: info.Size(), next: after}
	state, err = r.record()
	if err != nil || r.at != r.limit {
		return 0, nil, fmt.Errorf("%s: damaged: the checksum does not fit (want the file as it was written)", path)
	}
	return after, state, nil
}

// removeTorn removes the files with incomplete records, which were never confirmed.
func (s *State) removeTorn() error {
	paths, err := filepath.Glob(filepath.Join(s.dir, "*"+torn))
	for _, path := range paths {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// Close waits for the records that have begun, and closes the directory. Other processes may then
// open it.
func (s *State) Close() (err error) {
	if s.last != nil {
		_, err = s.last.Wait()
	}
	return errors.Join(err, s.log.Close(), s.lock.Close())
}
