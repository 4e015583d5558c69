package wal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
)

// Record is a record with its number.
type Record struct {
	Number  int64
	Payload []byte
}

// reader reads the records of one segment.
type reader struct {
	f         *os.File
	at, limit int64
	next      int64 // number of the record at position at
	// window has bytes that were read ahead. Its first byte is at the position at. Payloads are
	// slices of window, so window is never overwritten.
	window []byte
}

// readAhead is the smallest number of bytes that is read at once.
const readAhead = 1 << 20

var errRecord = errors.New("not a whole record")

// bytes returns the next n bytes of the segment without advancing.
func (r *reader) bytes(n int64) ([]byte, error) {
	if r.limit-r.at < n {
		return nil, errRecord
	}
	if int64(len(r.window)) < n {
		window := make([]byte, min(r.limit-r.at, max(n, readAhead)))
		if err := readAt(r.f, window, r.at); err != nil {
			return nil, err
		}
		r.window = window
	}
	return r.window[:n:n], nil
}

// record reads the next record. Its error is io.EOF at the limit.
func (r *reader) record() (payload []byte, err error) {
	if r.at == r.limit {
		return nil, io.EOF
	}
	head, err := r.bytes(prefix)
	if err != nil {
		return nil, err
	}
	length := int64(binary.LittleEndian.Uint32(head[:4]))
	if length > MaxPayload {
		return nil, errRecord
	}
	whole, err := r.bytes(prefix + length)
	if err != nil {
		return nil, err
	}
	payload = whole[prefix:]
	if checksum(r.next, payload) != binary.LittleEndian.Uint32(whole[4:]) {
		return nil, errRecord
	}
	r.at += prefix + length
	r.window = r.window[prefix+length:]
	r.next++
	return payload, nil
}

// behind returns the position of the record after a record that cannot be read, or 0. It computes
// the position from the length of the bad record, and checks the checksum of the record there.
func (r *reader) behind() int64 {
	head, err := r.bytes(prefix)
	if err != nil || r.at == 0 {
		return 0
	}
	at := r.at + prefix + int64(binary.LittleEndian.Uint32(head[:4]))
	if at >= r.limit {
		return 0
	}
	after := reader{f: r.f, at: at, limit: r.limit, next: r.next + 1}
	if _, err := after.record(); err != nil {
		return 0
	}
	return at
}

// Reader reads the records of a log in their order. Only one goroutine may use it.
type Reader struct {
	j    *Log
	r    reader
	open int64 // first record of the open segment; 0 without an open segment
}

// NewReader returns a reader that begins after the record with a number.
func (j *Log) NewReader(after int64) *Reader {
	return &Reader{j: j, r: reader{next: after + 1}}
}

// Read returns the next records: at least one, and at most n. It stops adding records when the
// payloads have the given number of bytes. It waits until there is a record, or ctx ends. If [Open]
// has moved records away, their numbers are missing.
func (r *Reader) Read(ctx context.Context, n int, bytes int) (records []Record, err error) {
	for {
		more, err := r.seek()
		if err != nil {
			return nil, fmt.Errorf("reading the journal: %w", err)
		}
		if more == nil {
			break
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	for len(records) < n && bytes > 0 {
		number := r.r.next
		payload, err := r.r.record()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading the journal: %s: record %d: %w", r.j.path(r.open), number, err)
		}
		records = append(records, Record{number, payload})
		bytes -= len(payload)
	}
	return records, nil
}

// seek moves to the segment of the next record. If there is no next record yet, seek returns a channel that is closed
// when the record exists.
func (r *Reader) seek() (more chan struct{}, err error) {
	j := r.j
	j.mu.Lock()
	defer j.mu.Unlock()
	if r.r.next >= j.next {
		return j.grown, nil
	}
	// The last segment that begins at or before the record, or else the first segment.
	i := sort.Search(len(j.segments), func(i int) bool { return j.segments[i].first > r.r.next }) - 1
	if i < 0 {
		i = 0
	}
	s := j.segments[i]
	if r.open == s.first && r.r.at >= s.size && i+1 < len(j.segments) {
		i++ // the segment's end was moved away
		s = j.segments[i]
	}
	if r.open != s.first {
		if err := r.close(); err != nil {
			return nil, err
		}
		f, err := os.Open(j.path(s.first))
		if err != nil {
			return nil, err
		}
		wanted := r.r.next
		r.open, r.r = s.first, reader{f: f, at: headerBytes, limit: s.size, next: s.first}
		for r.r.next < wanted {
			if _, err := r.r.record(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("%s: record %d: %w", j.path(s.first), r.r.next, err)
			}
		}
		if r.r.at >= s.size { // the wanted record is in the next segment
			r.r.next = max(r.r.next, wanted)
		}
	}
	r.r.limit = s.size
	if r.r.at >= r.r.limit {
		if i+1 >= len(j.segments) {
			return j.grown, nil
		}
		r.r.next = j.segments[i+1].first
		closed := make(chan struct{})
		close(closed)
		return closed, nil
	}
	return nil, nil
}

func (r *Reader) close() error {
	if r.open == 0 {
		return nil
	}
	r.open = 0
	return r.r.f.Close()
}

// Close closes the reader.
func (r *Reader) Close() error { return r.close() }
