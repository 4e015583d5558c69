package run

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"rmreplay/internal/rm"
)

// journalHeader is the first line of a journal.
const journalHeader = `{"rmreplay_journal":1}`

// maxLine is the maximum length of a journal's line, in bytes. A file with a longer line is not a journal.
const maxLine = 64 << 20

// journalLine is any line of a journal. Exactly one of its fields is set.
type journalLine struct {
	Header  int             `json:"rmreplay_journal"`
	Job     json.RawMessage `json:"job"`
	Event   *eventIn        `json:"event"`
	Warning *Warning        `json:"warning"`
}

// journal is the content of a journal.
type journal struct {
	*builder
	events   []Event
	warnings []Warning
}

// openJournal creates the journal of a new record and locks it until this process closes it.
// The lock tells readers that the writer is alive.
func openJournal(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, journalFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o666)
	if err != nil {
		return nil, err
	}
	// Without locks in the file system, readers cannot tell whether the writer still runs.
	_ = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
	return file, nil
}

// locked reports whether another open file holds the lock of a journal.
func locked(file *os.File) bool {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if err == nil {
		_ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN)
	}
	return errors.Is(err, syscall.EWOULDBLOCK)
}

// readJournal reads a journal up to its last complete line. It ignores an incomplete line, which a
// killed writer may leave. A warning counts the complete lines that cannot be parsed.
func readJournal(r io.Reader) (*journal, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 1<<16), maxLine)
	lines.Split(completeLines)
	if !lines.Scan() || lines.Text() != journalHeader {
		if err := lines.Err(); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("line 1: not a journal of this program (want %s)", journalHeader)
	}
	j := &journal{builder: newBuilder()}
	firstBad, bad := 0, 0
	for n := 2; lines.Scan(); n++ {
		if err := j.line(lines.Bytes()); err != nil {
			if bad == 0 {
				firstBad = n
			}
			bad++
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if bad > 0 {
		j.warnings = addWarning(j.warnings, Warning{
			Code: "journal-damaged",
			Text: fmt.Sprintf("lines of the run's journal could not be read and were left out, the first at line %d",
				firstBad),
			AffectsResult: true,
			Count:         bad,
		})
	}
	return j, nil
}

// completeLines is a [bufio.SplitFunc] that returns only lines that end in a newline.
func completeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF {
		return len(data), nil, nil
	}
	return 0, nil, nil
}

// line adds one line.
func (j *journal) line(data []byte) error {
	var l journalLine
	if err := json.Unmarshal(data, &l); err != nil {
		return err
	}
	switch {
	case l.Job != nil:
		job, err := DecodeJob(l.Job)
		if err != nil {
			return err
		}
		j.job(job)
	case l.Event != nil:
		e, err := l.Event.event()
		if err != nil {
			return err
		}
		j.add(e)
	case l.Warning != nil:
		j.warnings = addWarning(j.warnings, *l.Warning)
	default:
		return errors.New("the line is not a job, an event or a warning")
	}
	return nil
}

// add adds one event.
func (j *journal) add(e rm.Event) {
	j.events = append(j.events, newEvent(&e))
	j.event(&e)
}
