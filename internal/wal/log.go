// Package wal is an append-only log (journal) on disk. A record that [Log.Append] has added
// without an error survives the end of the process and a power failure.
//
// The log is a directory of files, the segments. The name of a segment is the number of its first
// record. A segment is a header and records. A record is the length of the payload (4 bytes,
// little-endian), the CRC-32C of the record's number and payload (4 bytes), and the payload.
// Records that wait at the same time share one fsync.
//
// After a crash the end of a segment may be incomplete. [Open] moves the bytes after the last
// whole record into a separate file beside the segment, and [Log.Torn] returns the number of these
// bytes. If a single record in the middle cannot be read, Open moves only this record away. The
// records after it become a new segment.
//
// A [State] is a log of changes to a state that fits in memory, together with a snapshot of the
// state, in a private and locked directory.
package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	headerBytes = 32
	suffix      = ".segment"
	torn        = ".torn"
	prefix      = 8 // bytes before a payload
	perSync     = 8 << 20
	// MaxPayload is the maximum size of one record, in bytes.
	MaxPayload = 256 << 20
)

// anyHeader matches the headers of all kinds of logs.
var anyHeader = regexp.MustCompile(`^rmreplay [a-z]+ journal 1\n\x00*$`)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// patience is the default of [Options.Patience]: an fsync on a network file system may take for
// ever.
const patience = 20 * time.Second

// Forever is the patience of a log whose callers cannot continue before the disk has answered.
const Forever time.Duration = math.MaxInt64

// Options configures [Open].
type Options struct {
	// Kind says what the records are, in at most ten letters. Open refuses a log of another kind.
	Kind string
	// SegmentBytes is the size at which the next segment begins; 0 means 64 MiB.
	SegmentBytes int64
	// Patience is how long an append waits for the disk before it fails with [ErrSlow]; 0 means 20 s.
	Patience time.Duration
	// InOrder says that each record depends on the records before it. After a record that could not
	// be written, all records are refused until [Log.Resume].
	InOrder bool

	create func(path string) (segmentFile, error) // nil means files of the operating system
}

// header returns the first bytes of the segments of a kind.
func header(kind string) []byte {
	text := make([]byte, headerBytes)
	copy(text, "rmreplay "+kind+" journal 1\n")
	return text
}

// segmentFile is the file of a segment.
type segmentFile interface {
	io.WriterAt
	Sync() error
	Truncate(size int64) error
	Close() error
}

// Torn is a part of a segment that [Open] could not read and moved away.
type Torn struct {
	Path  string // where the part is now
	Bytes int64
	// Inner says that the part was not at the end of the log. A crash does not cause this, and the
	// part may contain records that Append had confirmed.
	Inner bool
}

// Log is an open log. Its methods may be called from several goroutines.
type Log struct {
	dir     string
	opts    Options
	header  []byte // the beginning of each segment
	torn    []Torn
	waiting chan *Pending
	stop    chan struct{}
	done    chan struct{}

	// The following fields belong to the goroutine that writes.
	buffer []byte      // for the next group
	active segmentFile // the last segment; nil after an error, until the next append makes a new segment
	uncut  segmentFile // segment of a failed write; nil once the bytes of this write are cut off
	cutAt  int64       // position of the first of these bytes
	turned bool        // the next record begins a segment
	ended  error       // error of closing the files; valid when done is closed

	failed atomic.Pointer[error] // error of a record that later records depend on

	mu       sync.Mutex // no goroutine holds it while it waits for the disk
	segments []segment
	next     int64         // number of the next record
	grown    chan struct{} // closed when records are added
	closed   bool
}

// segment is a file. size is the number of its bytes that are durable, and first the number of its
// first record.
type segment struct {
	first, size int64
}

// Pending is an append that has begun. Either the goroutine that writes claims it, or a caller that no longer waits
// claims it first. The claimant owns the payloads.
type Pending struct {
	j        *Log
	payloads [][]byte
	turn     bool // a new segment begins before the payloads
	claimed  atomic.Bool
	first    int64
	err      error
	done     chan struct{}
}

func (r *Pending) claim() bool { return r.claimed.CompareAndSwap(false, true) }

// ErrClosed is the error of a closed log.
var ErrClosed = errors.New("the journal is closed")

// ErrSlow is the error of an append that the disk has not confirmed in time.
var ErrSlow = errors.New("the disk has not confirmed the records (if it confirms them later, they are stored)")

// Open opens the log in a directory, which it creates if necessary. The parameter after is the
// number of the last record that the caller no longer needs; an empty log begins with the next
// number.
func Open(dir string, after int64, opts Options) (*Log, error) {
	if opts.SegmentBytes == 0 {
		opts.SegmentBytes = 64 << 20
	}
	if opts.Patience == 0 {
		opts.Patience = patience
	}
	if opts.create == nil {
		opts.create = func(path string) (segmentFile, error) {
			return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		}
	}
	j := &Log{
		dir: dir, opts: opts, header: header(opts.Kind), next: 1, waiting: make(chan *Pending, 1024),
		stop: make(chan struct{}), done: make(chan struct{}), grown: make(chan struct{}),
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	if err := j.scan(after); err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	j.next = max(j.next, after+1)
	go j.write()
	return j, nil
}

// Torn returns the parts that Open could not read.
func (j *Log) Torn() []Torn { return j.torn }

// Last returns the number of the last durable record, or 0.
func (j *Log) Last() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.next - 1
}

// Size returns the number of bytes in all segments.
func (j *Log) Size() (bytes int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range j.segments {
		bytes += s.size
	}
	return bytes
}

func (j *Log) path(first int64) string {
	return filepath.Join(j.dir, fmt.Sprintf("%019d%s", first, suffix))
}

// scan reads the directory, and moves away what cannot be read. It skips a segment without records
// above number after, because a segment may have hundreds of megabytes.
func (j *Log) scan(after int64) error {
	names, err := os.ReadDir(j.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		text, ok := strings.CutSuffix(name.Name(), suffix)
		if !ok {
			continue
		}
		first, err := strconv.ParseInt(text, 10, 64)
		if err != nil || first < 1 {
			return fmt.Errorf("%s: not the name of a segment", filepath.Join(j.dir, name.Name()))
		}
		j.segments = append(j.segments, segment{first: first})
	}
	slices.SortFunc(j.segments, func(a, b segment) int { return int(a.first - b.first) })
	for i := 0; i < len(j.segments); i++ { // check may add a segment
		s := &j.segments[i]
		if s.first < j.next {
			return fmt.Errorf("%s: begins with record %d, and the segment before it goes to %d", j.path(s.first), s.first,
				j.next-1)
		}
		if i+1 < len(j.segments) && j.segments[i+1].first <= after+1 {
			info, err := os.Stat(j.path(s.first))
			if err != nil {
				return err
			}
			s.size, j.next = info.Size(), j.segments[i+1].first
			continue
		}
		if j.next, err = j.check(i); err != nil {
			return err
		}
	}
	return syncDir(j.dir)
}

// check reads the segment with index i and sets its size. It moves away what cannot be read. It
// returns the number after the segment's last record.
func (j *Log) check(i int) (next int64, err error) {
	s := &j.segments[i]
	path := j.path(s.first)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	r := &reader{f: f, limit: info.Size(), next: s.first}
	start := make([]byte, headerBytes)
	switch err := readAt(f, start, 0); {
	case err == nil && bytes.HasPrefix(start, j.header):
		r.at = int64(headerBytes)
		for {
			if _, err := r.record(); err != nil {
				break
			}
		}
	case err == nil && anyHeader.Match(start):
		return 0, fmt.Errorf("%s: begins with %q (want %q)", path, bytes.TrimRight(start, "\n\x00"),
			bytes.TrimRight(j.header, "\n\x00"))
	}
	s.size = r.at
	end := info.Size()
	if j.opts.InOrder && end > r.at && (i+1 < len(j.segments) || r.behind() > 0) {
		return 0, fmt.Errorf("%s: record %d: damaged: the checksum does not fit (want the file as it was written)", path,
			r.next)
	}
	if rest := r.behind(); rest > 0 {
		if err := j.split(i, io.NewSectionReader(f, rest, end-rest), r.next+1); err != nil {
			return 0, err
		}
		end = rest
	}
	if end > r.at {
		away := fmt.Sprintf("%s.%d%s", path, r.at, torn)
		if err := copyTo(away, io.NewSectionReader(f, r.at, end-r.at)); err != nil {
			return 0, err
		}
		j.torn = append(j.torn, Torn{away, end - r.at, i+1 < len(j.segments)})
		if err := f.Truncate(r.at); err != nil {
			return 0, err
		}
	}
	if r.at == 0 { // the header is not complete, either
		if _, err := f.WriteAt(j.header, 0); err != nil {
			return 0, err
		}
		j.segments[i].size = int64(headerBytes)
	}
	return r.next, f.Sync()
}

// split makes a new segment of the records whose number is at least first, and inserts it after
// index i. The new segment exists already if the process ended before it removed the records from
// their old segment.
func (j *Log) split(i int, records io.Reader, first int64) error {
	if i+1 < len(j.segments) && j.segments[i+1].first <= first {
		return nil
	}
	path := j.path(first)
	if err := copyTo(path+fresh, io.MultiReader(bytes.NewReader(j.header), records)); err != nil {
		return err
	}
	if err := os.Rename(path+fresh, path); err != nil {
		return err
	}
	j.segments = slices.Insert(j.segments, i+1, segment{first: first})
	return syncDir(j.dir)
}

func writeFile(path string, text []byte) error { return copyTo(path, bytes.NewReader(text)) }

// copyTo writes a file and syncs it.
func copyTo(path string, from io.Reader) error {
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Sync(), to.Close())
}

// Append adds records and returns the number of the first record. When it returns without an
// error, the records are durable. After an error, the records are not in the log. The exception is
// [ErrSlow]: the disk has not answered for [Options.Patience], and the records may still be
// written later. After a full disk the log works again when there is room.
func (j *Log) Append(payloads ...[]byte) (first int64, err error) {
	r, err := j.Begin(payloads...)
	if err != nil {
		return 0, err
	}
	return r.Wait()
}

// Begin begins to add records. It does not wait for the disk; [Pending.Wait] does. Records are
// written in the order of the calls of Begin. The caller must not change the payloads any more.
func (j *Log) Begin(payloads ...[]byte) (*Pending, error) {
	for _, p := range payloads {
		if len(p) > MaxPayload {
			return nil, fmt.Errorf("writing to the journal: a record of %d bytes (want at most %d)", len(p), MaxPayload)
		}
	}
	return j.begin(&Pending{j: j, payloads: payloads, done: make(chan struct{})})
}

// Turn begins a new segment, so that [Log.Prune] can remove all records that are durable now.
func (j *Log) Turn() error {
	r, err := j.begin(&Pending{j: j, turn: true, done: make(chan struct{})})
	if err == nil {
		_, err = r.Wait()
	}
	return err
}

func (j *Log) begin(r *Pending) (*Pending, error) {
	select { // this needs no timer if there is room
	case <-j.stop:
		return nil, ErrClosed
	default:
	}
	select {
	case j.waiting <- r:
		return r, nil
	default:
	}
	timer := time.NewTimer(j.opts.Patience)
	defer timer.Stop()
	select {
	case j.waiting <- r:
		return r, nil
	case <-j.stop:
		return nil, ErrClosed
	case <-timer.C:
		return nil, j.slow("writing to")
	}
}

// Wait waits until the records are durable, and returns the number of the first record. It returns
// the errors of [Log.Append].
func (r *Pending) Wait() (first int64, err error) {
	timer := time.NewTimer(r.j.opts.Patience)
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
		if r.claim() {
			r.payloads = nil // the request may stay in the queue for long
		}
		return 0, r.j.slow("writing to")
	case <-r.j.done:
		select {
		case <-r.done:
		default:
			return 0, ErrClosed
		}
	}
	if r.err != nil {
		return 0, fmt.Errorf("writing to the journal: %w", r.err)
	}
	return r.first, nil
}

// write is the goroutine that writes. It takes all waiting requests, and syncs once for all of
// them.
func (j *Log) write() {
	defer func() {
		for _, f := range []segmentFile{j.active, j.uncut} {
			if f != nil {
				j.ended = errors.Join(j.ended, f.Close())
			}
		}
		close(j.done)
	}()
	var group []*Pending
	for {
		group = group[:0]
		select {
		case r := <-j.waiting:
			group = append(group, r)
		case <-j.stop:
			return
		}
		if !group[0].claim() {
			continue
		}
		for bytes := size(group[0]); bytes < perSync; {
			select {
			case r := <-j.waiting:
				if r.claim() {
					group = append(group, r)
					bytes += size(r)
				}
				continue
			default:
			}
			break
		}
		err := j.inOrder(func() error { return j.commit(group) })
		for _, r := range group {
			r.err = err
			close(r.done)
		}
	}
}

// inOrder calls the function commit, unless an earlier group failed and later records depend on
// it.
func (j *Log) inOrder(commit func() error) error {
	if err := j.failed.Load(); err != nil {
		return *err
	}
	err := commit()
	if err != nil && j.opts.InOrder {
		err = fmt.Errorf("%w (nothing is written until the whole state is saved)", err)
		j.failed.Store(&err)
	}
	return err
}

// Resume makes the log accept records again after a record could not be written. The caller must
// have saved a state with the changes of this record and of all records begun since.
func (j *Log) Resume() { j.failed.Store(nil) }

func size(r *Pending) (bytes int) {
	for _, p := range r.payloads {
		bytes += prefix + len(p)
	}
	return bytes
}

// commit writes the records of a group.
func (j *Log) commit(group []*Pending) error {
	bytes := 0
	for _, r := range group {
		bytes += size(r)
	}
	buffer := j.buffer[:0]
	if cap(buffer) < bytes {
		buffer = make([]byte, 0, bytes)
	}
	if cap(buffer) <= 2*perSync {
		j.buffer = buffer
	}
	number := j.next // only this goroutine changes next
	for _, r := range group {
		r.first = number
		for _, p := range r.payloads {
			buffer = appendRecord(buffer, number, p)
			number++
		}
	}
	if slices.ContainsFunc(group, func(r *Pending) bool { return r.turn }) {
		j.turned = true
	}
	f, at, err := j.segment()
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(buffer, at); err == nil {
		err = f.Sync()
	}
	if err != nil {
		// After a failed fsync, the contents of the disk are unknown. The file is cut back, and later
		// records go into a new file.
		j.active, j.uncut, j.cutAt = nil, f, at
		return errors.Join(err, j.cut())
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.segments[len(j.segments)-1].size = at + int64(len(buffer))
	j.next = number
	close(j.grown)
	j.grown = make(chan struct{})
	return nil
}

// cut removes the bytes of a failed write. Until this is done, no record may be written, because
// it would have the number of a record that may be on the disk.
func (j *Log) cut() error {
	if j.uncut == nil {
		return nil
	}
	if err := errors.Join(j.uncut.Truncate(j.cutAt), j.uncut.Sync()); err != nil {
		return fmt.Errorf("removing the bytes of an earlier failed write: %w", err)
	}
	f := j.uncut
	j.uncut = nil
	return f.Close()
}

// segment returns the file to write to, and the position in it. It begins a new segment if there is
// no segment, or if the last is full.
func (j *Log) segment() (f segmentFile, at int64, err error) {
	if err := j.cut(); err != nil {
		return nil, 0, err
	}
	if j.active != nil {
		j.mu.Lock()
		at := j.segments[len(j.segments)-1].size
		j.mu.Unlock()
		if at < j.opts.SegmentBytes && !j.turned || at == int64(headerBytes) {
			j.turned = false
			return j.active, at, nil
		}
		full := j.active
		j.active = nil // even after an error, the next append begins a new segment
		if err := full.Close(); err != nil {
			return nil, 0, err
		}
	}
	// There may be an empty segment with the same number, from before an error or a restart.
	path := j.path(j.next) // only this goroutine changes next
	if f, err = j.opts.create(path); err != nil {
		return nil, 0, err
	}
	if _, err = f.WriteAt(j.header, 0); err == nil {
		err = errors.Join(f.Sync(), syncDir(j.dir))
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close(), os.Remove(path))
	}
	j.active, j.turned = f, false
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := len(j.segments); n > 0 && j.segments[n-1].first == j.next {
		j.segments = j.segments[:n-1]
	}
	j.segments = append(j.segments, segment{j.next, int64(headerBytes)})
	return f, int64(headerBytes), nil
}

// Removable returns how many segments [Log.Prune] would remove.
func (j *Log) Removable(upTo int64) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for n+1 < len(j.segments) && j.segments[n+1].first <= upTo+1 {
		n++
	}
	return n
}

// Prune removes segments that only have records up to a number. It does not remove the last
// segment.
func (j *Log) Prune(upTo int64) error {
	j.mu.Lock()
	var gone []segment
	for len(j.segments) > 1 && j.segments[1].first <= upTo+1 {
		gone = append(gone, j.segments[0])
		j.segments = j.segments[1:]
	}
	j.mu.Unlock()
	for _, s := range gone {
		if err := os.Remove(j.path(s.first)); err != nil {
			return fmt.Errorf("removing a segment of the journal: %w", err)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return syncDir(j.dir)
}

// Close closes the log. Waiting records get [ErrClosed]. The error is [ErrSlow] if the writing
// goroutine still waits for the disk; it ends when the disk answers.
func (j *Log) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	j.mu.Unlock()
	close(j.stop)
	select {
	case <-j.done:
	case <-time.After(j.opts.Patience):
		return j.slow("closing")
	}
	return j.ended
}

func (j *Log) slow(doing string) error {
	return fmt.Errorf("%s the journal in %s: after %v %w", doing, j.dir, j.opts.Patience, ErrSlow)
}

// appendRecord appends the bytes of a record to text.
func appendRecord(text []byte, number int64, payload []byte) []byte {
	text = binary.LittleEndian.AppendUint32(text, uint32(len(payload)))
	text = binary.LittleEndian.AppendUint32(text, checksum(number, payload))
	return append(text, payload...)
}

func checksum(number int64, payload []byte) uint32 {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(number))
	return crc32.Update(crc32.Checksum(n[:], castagnoli), castagnoli, payload)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func readAt(f *os.File, to []byte, at int64) error {
	n, err := f.ReadAt(to, at)
	if n == len(to) {
		return nil
	}
	return err
}
