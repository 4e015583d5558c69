// Package journal keeps the state of a program in a directory, so that it survives a crash: a snapshot,
// and a journal of the records since.
//
// Each record is a line with its checksum. A record is safe once [Journal.Sync] has returned for it:
// fsync(2) has written it. Several callers share one fsync. After a crash, a last line that is not
// complete is cut off; any other damage is an error.
package journal

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"rmreplay/internal/output"
)

// Journal is an open directory. Write and Snapshot must not be called at the same time; Sync may be
// called at any time.
type Journal struct {
	dir        string
	lock       *os.File
	file       *os.File // of the generation
	generation uint64
	written    uint64 // records
	size       int64  // of the file, bytes that are whole records

	syncing sync.Mutex // guards what follows, and the change of the file
	counter sync.Mutex // guards written
	synced  uint64
	broken  error // the first error of writing; nothing is written after it
}

// ErrInUse says that another process has the directory open.
var ErrInUse = errors.New("another process uses the directory")

// Open opens a directory, which it makes if it does not exist, and returns its last snapshot, or nil,
// and the records since. The directory must be private (mode 0700).
func Open(dir string) (j *Journal, snapshot []byte, records [][]byte, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("opening the state directory %s: %w", dir, err)
		}
	}()
	if err := private(dir); err != nil {
		return nil, nil, nil, err
	}
	j = &Journal{dir: dir}
	if j.lock, err = os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, nil, nil, err
	}
	if err := unix.Flock(int(j.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = j.lock.Close() // nothing was written
		return nil, nil, nil, ErrInUse
	}
	if snapshot, records, err = j.read(); err != nil {
		_ = j.lock.Close() // nothing was written
		return nil, nil, nil, err
	}
	return j, snapshot, records, nil
}

// private makes the directory, or checks that nobody else may read it.
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
		return errors.New("not a directory")
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("its mode is %04o (want 0700: others must not read or change it)", info.Mode().Perm())
	}
	return output.Owned(dir)
}

func (j *Journal) path(kind string, generation uint64) string {
	return filepath.Join(j.dir, kind+"."+strconv.FormatUint(generation, 10))
}

// read finds the newest snapshot, and the records of its journal.
func (j *Journal) read() (snapshot []byte, records [][]byte, err error) {
	names, err := filepath.Glob(filepath.Join(j.dir, "snapshot.*"))
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		n, err := strconv.ParseUint(strings.TrimPrefix(filepath.Ext(name), "."), 10, 64)
		if err == nil {
			j.generation = max(j.generation, n)
		}
	}
	if j.generation > 0 {
		text, err := os.ReadFile(j.path("snapshot", j.generation))
		if err != nil {
			return nil, nil, err
		}
		if snapshot, err = uncover(bytes.TrimSuffix(text, []byte("\n"))); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", j.path("snapshot", j.generation), err)
		}
	}
	j.file, err = os.OpenFile(j.path("journal", j.generation), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	if records, err = j.replay(); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", j.file.Name(), err), j.file.Close())
	}
	return snapshot, records, errors.Join(j.clean(), syncDirectory(j.dir))
}

// replay reads the records of the journal and cuts off what a crash has left of the last one.
func (j *Journal) replay() (records [][]byte, err error) {
	text, err := os.ReadFile(j.file.Name())
	if err != nil {
		return nil, err
	}
	for rest := text; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		record, err := uncover(line)
		if !whole || err != nil && len(after) == 0 {
			break // the write was interrupted, and nobody was told that the record is safe
		}
		if err != nil {
			return nil, fmt.Errorf("record %d: %w", len(records)+1, err)
		}
		records = append(records, record)
		j.size += int64(len(line)) + 1
		rest = after
	}
	return records, j.cutTo(j.size)
}

// cutTo cuts the journal off and goes on there.
func (j *Journal) cutTo(size int64) error {
	if err := j.file.Truncate(size); err != nil {
		return err
	}
	_, err := j.file.Seek(size, io.SeekStart)
	return err
}

// fresh is the name of a snapshot that is being written.
const fresh = "new"

// clean removes files of other generations.
func (j *Journal) clean() error {
	entries, err := os.ReadDir(j.dir)
	if err != nil {
		return err
	}
	keep := map[string]bool{"lock": true, filepath.Base(j.path("journal", j.generation)): true, filepath.Base(j.path("snapshot", j.generation)): true}
	for _, e := range entries {
		kind, _, _ := strings.Cut(e.Name(), ".")
		if (kind == "journal" || kind == "snapshot" || kind == fresh) && !keep[e.Name()] {
			err = errors.Join(err, os.Remove(filepath.Join(j.dir, e.Name())))
		}
	}
	return err
}

// cover puts a checksum before a record.
func cover(record []byte) []byte {
	return append(fmt.Appendf(nil, "%08x ", crc32.ChecksumIEEE(record)), record...)
}

var errDamaged = errors.New("damaged: the checksum does not fit (want the file as it was written)")

// uncover checks the checksum of a record and takes it off.
func uncover(line []byte) ([]byte, error) {
	sum, record, found := bytes.Cut(line, []byte(" "))
	n, err := strconv.ParseUint(string(sum), 16, 32)
	if !found || err != nil || uint32(n) != crc32.ChecksumIEEE(record) {
		return nil, errDamaged
	}
	return record, nil
}

// Write appends a record, which must not contain a newline, and returns its number. It does not
// wait for the disk.
func (j *Journal) Write(record []byte) (number uint64, err error) {
	j.counter.Lock()
	defer j.counter.Unlock()
	if j.broken != nil {
		return 0, j.broken
	}
	line := append(cover(record), '\n')
	if _, err := j.file.Write(line); err != nil {
		// Part of the line may be there, as when the disk is full. Nothing may follow it.
		if terr := j.cutTo(j.size); terr != nil {
			j.broken = errors.Join(err, terr)
		}
		return 0, err
	}
	j.size += int64(len(line))
	j.written++
	return j.written, nil
}

// Sync returns when the record of that number, and all before it, are on the disk.
func (j *Journal) Sync(number uint64) error {
	j.syncing.Lock()
	defer j.syncing.Unlock()
	if j.synced >= number {
		return nil
	}
	j.counter.Lock()
	upTo, broken := j.written, j.broken
	j.counter.Unlock()
	if broken != nil {
		return broken
	}
	if err := j.file.Sync(); err != nil {
		// The kernel may have dropped the pages: no later fsync can make up for it.
		j.counter.Lock()
		j.broken = err
		j.counter.Unlock()
		return err
	}
	j.synced = upTo
	return nil
}

// Snapshot replaces the snapshot and all records by a state. A crash leaves either what was or what
// is.
func (j *Journal) Snapshot(state []byte) error {
	j.syncing.Lock()
	defer j.syncing.Unlock()
	j.counter.Lock()
	defer j.counter.Unlock()
	if j.broken != nil {
		return j.broken
	}
	next := j.generation + 1
	file, err := os.OpenFile(j.path("journal", next), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	temp := filepath.Join(j.dir, fresh)
	if err = writeFile(temp, append(cover(state), '\n')); err == nil {
		err = syncDirectory(j.dir) // the journal is there before the snapshot that needs it
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	if err := errors.Join(os.Rename(temp, j.path("snapshot", next)), syncDirectory(j.dir)); err != nil {
		j.broken = err // either generation may be the one that the next start finds
		return errors.Join(err, file.Close())
	}
	old := j.file
	j.file, j.generation, j.size, j.synced = file, next, 0, j.written
	return errors.Join(old.Close(), j.clean())
}

// writeFile writes a file and waits for the disk.
func writeFile(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Close closes the directory and lets other processes open it.
func (j *Journal) Close() error { return errors.Join(j.file.Close(), j.lock.Close()) }
