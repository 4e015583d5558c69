// Package wire is the protocol between a [Pool] of engines and one engine process: frames over two
// pipes, with a version and a checksum in each, and the values of rows and arguments in them.
//
// The parent sends [Configure] once, [Begin] before the queries of a question, [Ask] for each query
// and [End] after the question. The engine answers Configure with [Ready], Begin with [Done], and
// Ask with [Columns], any number of [Rows] and [Done]; [Fault] stands in the place of the rest of an
// answer. [Interrupt] may come at any time and has no answer of its own.
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

// Version is the version of the protocol. Both sides are built together, so they support one version.
const Version = 1

// MaxFrame bounds the payload of a frame, in bytes.
const MaxFrame = 256 << 20

// Kind says what a frame is.
type Kind byte

// The kinds of frames. The comments name the fields of the payload.
const (
	Configure Kind = iota + 1 // Settings as JSON
	Begin                     // number, statements
	Ask                       // number, SQL, arguments
	Interrupt                 // number of the Begin or Ask that shall end
	End                       // nothing: the question is over
	Ready                     // Status as JSON
	Columns                   // names
	Rows                      // values, row by row
	Done                      // nothing
	Fault                     // cause, text
)

// Cause says what ended an answer early.
type Cause byte

// The causes.
const (
	Failed      Cause = iota + 1 // the query is wrong, or its evaluation met an error
	Interrupted                  // the parent asked for it
	Memory                       // the query needs more memory than the engine may have
	Gone                         // a file of the tables is not there
	Large                        // the answer has more bytes than an answer may have
	Broken                       // the engine cannot answer any more
)

// Settings configure an engine.
type Settings struct {
	Dirs      []string `json:"dirs"`       // directories that queries may read
	Temp      string   `json:"temp"`       // directory for what queries spill; empty forbids that
	MemoryMiB int      `json:"memory_mib"` // DuckDB's memory_limit
	DataMiB   int      `json:"data_mib"`   // by how much the process may grow (RLIMIT_DATA)
	TempMiB   int      `json:"temp_mib"`   // what queries may spill
	AnswerMiB int      `json:"answer_mib"` // what the answers to one question may have
	Threads   int      `json:"threads"`    // 0 stands for all processors
	Attach    string   `json:"attach"`     // DuckDB database to open as schema old; empty for none
}

// Status is what an engine that is ready says of itself.
type Status struct {
	Version string `json:"version"` // of DuckDB
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

// NewWriter returns a writer to out.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Send writes a frame. A payload of more than [MaxFrame] bytes is an error, and nothing is written.
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

// BatchSize is the number of bytes from which on a frame of rows is sent.
const BatchSize = 64 << 10

func checksum(head, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(head[:sumOffset], castagnoli), castagnoli, payload)
}

// Reader reads frames.
type Reader struct{ in *bufio.Reader }

// NewReader returns a reader of in.
func NewReader(in io.Reader) *Reader { return &Reader{bufio.NewReaderSize(in, BatchSize)} }

// Next reads a frame. The caller may keep the payload. At the end of the input between two frames
// the error is io.EOF. After any other error nothing more can be read.
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
		return 0, nil, fmt.Errorf("reading a frame: version %d (want %d: both programs of one build)", version, Version)
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

// readPayload reads n bytes. It allocates no more than twice what has arrived: the length may be damaged.
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
