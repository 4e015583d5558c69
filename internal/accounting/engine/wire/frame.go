// Package wire defines the protocol between a [Pool] of engines and one engine process: frames over
// two pipes, each with a version and a checksum, and the encoding of values in frames.
//
// The parent sends [Configure] once, [Begin] before the queries of a question, [Ask] for each query
// and [End] after the question. The engine answers Configure with [Ready], Begin with [Done], and
// Ask with [Columns], any number of [Rows] and [Done]. A [Fault] replaces the rest of an answer.
// [Interrupt] may be sent at any time and is not answered.
//
// [Pool]: https://pkg.go.dev/rmreplay/internal/accounting/engine#Pool
package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
)

// Version is the version of the protocol. Both sides come from one build, so they support only one
// version.
const Version = 1

// MaxFrame is the highest number of bytes in the payload of a frame.
const MaxFrame = 256 << 20

// Kind is the kind of a frame.
type Kind byte

// The kinds of frames. The comments name the fields of the payload.
const (
	Configure Kind = iota + 1 // Settings as JSON
	Begin                     // number, statements
	Ask                       // number, SQL, arguments
	Interrupt                 // number of the Begin or Ask to end
	End                       // no fields; the question is over
	Ready                     // Status as JSON
	Columns                   // names
	Rows                      // values, row by row
	Done                      // no fields
	Fault                     // cause, text
)

// Cause says why an answer ended early.
type Cause byte

// The causes.
const (
	Failed      Cause = iota + 1 // the query is wrong, or its evaluation failed
	Interrupted                  // the parent interrupted the query
	Memory                       // the query needs more memory than the engine may have
	Gone                         // a file of the tables does not exist
	Large                        // the answer exceeds the limit of its size
	Broken                       // the engine cannot answer any further request
)

// Settings configure an engine.
type Settings struct {
	Dirs      []string `json:"dirs"`       // directories that queries may read
	Temp      string   `json:"temp"`       // directory to which queries may spill; empty forbids spilling
	MemoryMiB int      `json:"memory_mib"` // DuckDB's memory_limit
	DataMiB   int      `json:"data_mib"`   // number of MiB by which the process may grow (RLIMIT_DATA)
	TempMiB   int      `json:"temp_mib"`   // highest number of MiB that queries may spill
	AnswerMiB int      `json:"answer_mib"` // limit of the answers to one question, in MiB
	Threads   int      `json:"threads"`    // 0 means all processors
	Attach    string   `json:"attach"`     // DuckDB database to open as the schema old; may be empty
}

// Status is what an engine reports when it is ready.
type Status struct {
	Version string `json:"version"` // version of DuckDB
}

const (
	headLength = 10 // length of the payload, version, kind, checksum
	sumOffset  = 6
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Writer writes frames. Its methods may be called from several goroutines.
type Writer struct {
	mu  sync.Mutex
	out io.Writer
	buf []byte
}

// NewWriter returns a writer that writes frames to out.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Send writes a frame. If the payload has more than [MaxFrame] bytes, Send writes nothing and
// returns an error.
func (w *Writer) Send(kind Kind, payload []byte) error {
	if len(payload) > MaxFrame {
		return fmt.Errorf("sending a frame of %d bytes (want at most %d)", len(payload), MaxFrame)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = binary.LittleEndian.AppendUint32(w.buf[:0], uint32(len(payload)))
	w.buf = append(w.buf, Version, byte(kind))
	w.buf = binary.LittleEndian.AppendUint32(w.buf, checksum(w.buf, payload))
	w.buf = append(w.buf, payload...)
	_, err := w.out.Write(w.buf)
	if cap(w.buf) > 4*BatchSize {
		w.buf = nil
	}
	return err
}

// BatchSize is the number of bytes at which a frame of rows is sent.
const BatchSize = 64 << 10

func checksum(head, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(head[:sumOffset], castagnoli), castagnoli, payload)
}

// Reader reads frames.
type Reader struct{ in *bufio.Reader }

// NewReader returns a reader that reads frames from in.
func NewReader(in io.Reader) *Reader { return &Reader{bufio.NewReaderSize(in, BatchSize)} }

// Next reads a frame. The payload stays valid after further calls. If the input ends between two
// frames, the error is io.EOF. After any other error, the reader must not be used again.
func (r *Reader) Next() (Kind, []byte, error) {
	var head [headLength]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return 0, nil, io.EOF
		}
		return 0, nil, fmt.Errorf("reading a frame: %w", err)
	}
	length, version := binary.LittleEndian.Uint32(head[:]), head[4]
	if version != Version {
		return 0, nil, fmt.Errorf("reading a frame: version %d (want %d: rmreplay and rmreplay-engine of the same build)",
			version, Version)
	}
	if length > MaxFrame {
		return 0, nil, fmt.Errorf("reading a frame: %d bytes (want at most %d)", length, MaxFrame)
	}
	payload, err := readPayload(r.in, int(length))
	if err != nil {
		return 0, nil, fmt.Errorf("reading a frame: %w", err)
	}
	if sum := binary.LittleEndian.Uint32(head[sumOffset:]); sum != checksum(head[:], payload) {
		return 0, nil, errors.New("reading a frame: its checksum is wrong")
	}
	return Kind(head[5]), payload, nil
}

// readPayload reads a payload of n bytes. A damaged frame can give a wrong n, so readPayload never allocates more than
// twice the bytes that have arrived.
func readPayload(in io.Reader, n int) ([]byte, error) {
	const step = 1 << 20
	payload := make([]byte, 0, min(n, step))
	for len(payload) < n {
		begin := len(payload)
		more := min(n-begin, max(step, begin))
		payload = append(payload, make([]byte, more)...)
		if _, err := io.ReadFull(in, payload[begin:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return payload, nil
}
