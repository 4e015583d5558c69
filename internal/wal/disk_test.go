package wal

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// disk makes segments. It records whether all writes were synced, and fails as a test requests.
type disk struct {
	mu       sync.Mutex
	dirty    int           // writes since the last sync
	syncs    int           // number of syncs of all segments
	hang     chan struct{} // if not nil, syncs wait until it is closed
	closeErr error         // error of the next close
	unsynced bool          // syncs fail
	uncut    bool          // files cannot be cut
}

var errDisk = errors.New("input/output error")

func (d *disk) fail(unsynced, uncut bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unsynced, d.uncut = unsynced, uncut
}

func (f *diskFile) Truncate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.d.uncut {
		return errDisk
	}
	return f.File.Truncate(size)
}

type diskFile struct {
	*os.File
	d *disk
}

func (d *disk) create(path string) (segmentFile, error) {
	f, err := os.Create(path)
	return &diskFile{f, d}, err
}

func (f *diskFile) WriteAt(text []byte, at int64) (int, error) {
	f.d.mu.Lock()
	f.d.dirty++
	f.d.mu.Unlock()
	return f.File.WriteAt(text, at)
}

func (f *diskFile) Sync() error {
	f.d.mu.Lock()
	f.d.dirty = 0
	f.d.syncs++
	hang, unsynced := f.d.hang, f.d.unsynced
	f.d.mu.Unlock()
	if unsynced {
		return errDisk
	}
	if hang != nil {
		<-hang
	}
	return f.File.Sync()
}

func (f *diskFile) Close() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	err := f.d.closeErr
	f.d.closeErr = nil
	return errors.Join(f.File.Close(), err)
}

func (d *disk) set(hang chan struct{}, closeErr error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hang, d.closeErr = hang, closeErr
}

func openOn(t *testing.T, d *disk, opts Options) *Log {
	t.Helper()
	opts.create = d.create
	j, err := Open(t.TempDir(), 0, opts)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// texts returns the payloads of all records.
func texts(t *testing.T, j *Log) string {
	t.Helper()
	r := j.NewReader(0)
	defer r.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var list []string
	for n := int64(0); n < j.Last(); {
		records, err := r.Read(ctx, 100, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			list, n = append(list, string(r.Payload)), r.Number
		}
	}
	return strings.Join(list, " ")
}

// TestDurable checks that records are synced when Append returns, also the first records of a
// segment.
func TestDurable(t *testing.T) {
	d := &disk{}
	j := openOn(t, d, Options{SegmentBytes: 100})
	for range 10 {
		before := d.syncs
		if _, err := j.Append([]byte("a record of some length")); err != nil {
			t.Fatal(err)
		}
		if d.dirty != 0 || d.syncs == before {
			t.Errorf("acknowledged after %d syncs, and %d writes since the last one", d.syncs-before, d.dirty)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCloseFails makes closing a full segment fail. One append must fail because of this, and the
// next one succeed.
func TestCloseFails(t *testing.T) {
	d := &disk{}
	j := openOn(t, d, Options{SegmentBytes: 40})
	for i, c := range []struct {
		text  string
		fails bool
	}{{"one", false}, {"two", true}, {"three", false}} {
		if c.fails {
			d.set(nil, errors.New("close: input/output error"))
		}
		if _, err := j.Append([]byte(c.text)); (err != nil) != c.fails {
			t.Errorf("append %d: %v", i+1, err)
		}
	}
	if got := texts(t, j); got != "one three" {
		t.Errorf("records: %s", got)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestHang makes an fsync hang, of a new segment and of an existing one. Appends must then fail
// after a while, and everything else must continue. Waiting records are dropped, records that were
// being written are there once the disk answers, and the log then accepts new records.
func TestHang(t *testing.T) {
	for _, started := range []bool{false, true} {
		d, hang := &disk{}, make(chan struct{})
		j := openOn(t, d, Options{Patience: 50 * time.Millisecond})
		want := "written new"
		if started {
			want = "first " + want
			if _, err := j.Append([]byte("first")); err != nil {
				t.Fatal(err)
			}
		}
		last := j.Last()
		d.set(hang, nil)
		for _, text := range []string{"written", "forgotten", "forgotten"} {
			if _, err := j.Append([]byte(text)); !errors.Is(err, ErrSlow) || !strings.Contains(err.Error(), "50ms") {
				t.Errorf("while the disk hangs: %v", err)
			}
		}
		if j.Last() != last || j.Removable(0) != 0 || j.Size() > 100 {
			t.Errorf("while the disk hangs: last record %d, want %d", j.Last(), last)
		}
		d.set(nil, nil)
		close(hang)
		for start := time.Now(); j.Last() == last && time.Since(start) < time.Minute; {
			time.Sleep(time.Millisecond)
		}
		if first, err := j.Append([]byte("new")); err != nil || first != last+2 {
			t.Errorf("first %d, want %d: %v", first, last+2, err)
		}
		if got := texts(t, j); got != want {
			t.Errorf("records: %s, want %s", got, want)
		}
		// A log that is closed while the disk hangs ends by itself.
		hang = make(chan struct{})
		d.set(hang, nil)
		if _, err := j.Append([]byte("late")); !errors.Is(err, ErrSlow) {
			t.Error(err)
		}
		if err := j.Close(); !errors.Is(err, ErrSlow) {
			t.Errorf("closed while the disk hangs: %v", err)
		}
		close(hang)
		<-j.done
		if again, err := Open(j.dir, 0, Options{}); err != nil || texts(t, again) != want+" late" || again.Close() != nil {
			t.Error("opened again:", err)
		}
	}
}

// TestSplitAgain opens a log whose process was killed after it had copied the records after a bad
// one, but before it had removed them.
func TestSplitAgain(t *testing.T) {
	dir := t.TempDir()
	j, err := Open(dir, 0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two", "three", "four"} {
		if _, err := j.Append([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	path := j.path(1)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole[headerBytes+prefix+3+prefix] ^= 1 // in "two"
	for range 2 {
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		if j, err = Open(dir, 0, Options{}); err != nil {
			t.Fatal(err)
		}
		if got := texts(t, j); got != "one three four" {
			t.Errorf("records: %s", got)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 3 {
		t.Errorf("%q, want two segments and a torn record", left)
	}
}
