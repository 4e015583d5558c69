package workload

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/readahead"
)

// OpenRun, where it is set, reads the workload of a run record: a directory with a
// manifest.json. The package of the run record sets it, because this one may not
// import it.
var OpenRun func(dir string) (*Workload, error)

// Open reads a workload from a file of any known format, or from a run's directory.
// The format is told by the content, not by the name; every format may be
// compressed with gzip. The error names the path and says what was expected.
func Open(path string) (*Workload, error) { return OpenWith(path, ReadOptions{}) }

// OpenWith is [Open] with options. They do not apply to a run, whose record has no
// dirty records.
func OpenWith(path string, opts ReadOptions) (*Workload, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading workload: %w", err)
	}
	if info.IsDir() {
		return openDirectory(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading workload: %w", err)
	}
	defer f.Close() // nothing is written
	return Read(Watched(f, opts.Progress), filepath.Base(path), opts)
}

// Watched is a file whose readers tell progress, if it is not nil, what
// [ReadOptions.Progress] is told. It counts bytes as the file has them, before any
// decompression, because only of those is it known how many there are.
func Watched(f *os.File, progress func(done, all int64)) io.Reader {
	if progress == nil {
		return f
	}
	w := &watched{r: f, progress: progress}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		w.all = info.Size()
	}
	return w
}

type watched struct {
	r         io.Reader
	progress  func(done, all int64)
	done, all int64
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	w.done += int64(n)
	w.progress(w.done, w.all)
	return n, err
}

func openDirectory(path string) (*Workload, error) {
	if _, err := os.Stat(filepath.Join(path, "manifest.json")); err != nil {
		return nil, fmt.Errorf("reading workload: %s: a directory without manifest.json (want a workload file or a run's directory)", path)
	}
	if OpenRun == nil {
		return nil, fmt.Errorf("reading workload: %s: not supported yet: a run as a workload", path)
	}
	return OpenRun(path)
}

// Read reads a workload of any known format from r. name stands for the source in
// errors.
func Read(r io.Reader, name string, opts ReadOptions) (*Workload, error) {
	buffered, kind, done, err := unpack(r, name)
	if err != nil {
		return nil, err
	}
	defer done()
	switch kind {
	case formatTrace:
		return ReadTrace(buffered, name)
	case formatEvents:
		return ReadEvents(buffered, name, opts)
	case formatSWF:
		return ReadSWF(buffered, name, opts)
	case formatSacct, formatSacctJSON:
		w, _, err := readAccounting(buffered, kind, name, opts)
		return w, err
	case formatEmpty:
		return nil, fmt.Errorf("reading workload: %s: empty", name)
	}
	return nil, fmt.Errorf("reading workload: %s: format not known (want a trace's JSON header, UB events \"-dt …\", SWF, or what sacct -P or --json prints)", name)
}

// ReadAccounting reads what `sacct -P` or `sacct --json` prints, perhaps compressed with
// gzip. missing says what no record has, and what follows from that.
func ReadAccounting(r io.Reader, name string, opts ReadOptions) (w *Workload, missing []string, err error) {
	buffered, kind, done, err := unpack(r, name)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	return readAccounting(buffered, kind, name, opts)
}

func readAccounting(r io.Reader, kind format, name string, opts ReadOptions) (*Workload, []string, error) {
	if kind == formatSacctJSON {
		return ReadSacctJSON(r, name, opts)
	}
	return ReadSacct(r, name, opts) // it says what is wrong with the header of anything else
}

// unpack undoes compression, ahead of whoever reads, and tells the format by the beginning.
// Whoever reads no more calls done.
func unpack(r io.Reader, name string) (buffered *bufio.Reader, kind format, done func(), err error) {
	fail := func(err error) (*bufio.Reader, format, func(), error) {
		return nil, formatUnknown, nil, fmt.Errorf("reading workload: %s: %w", name, err)
	}
	done = func() {}
	buffered = bufio.NewReaderSize(r, sniffLength)
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return fail(err)
		}
		ahead, err := readahead.NewReaderSize(z, 4, sniffLength)
		if err != nil {
			return fail(err)
		}
		done = func() { _ = ahead.Close() } // which ends what works ahead, and has no errors
		buffered = bufio.NewReaderSize(ahead, sniffLength)
	}
	head, err := buffered.Peek(sniffLength)
	if err != nil && !errors.Is(err, io.EOF) {
		done()
		return fail(err)
	}
	return buffered, sniff(head), done, nil
}

// sniffLength is how much of a file decides on its format, in bytes. It is far more
// than the comments that a file of UB events begins with.
const sniffLength = 256 << 10

type format int

const (
	formatUnknown format = iota
	formatEmpty
	formatTrace
	formatEvents
	formatSWF
	formatSacct
	formatSacctJSON
)

// sniff tells a format by its first line that is neither blank nor a comment.
func sniff(head []byte) format {
	head = bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))
	comments := false
	for line := range strings.Lines(string(head)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case line[0] == '#':
			comments = true
		case line[0] == '{' && looksLikeSacctJSON(head):
			return formatSacctJSON
		case line[0] == '{':
			return formatTrace
		case line[0] == '-':
			return formatEvents
		case line[0] == ';', looksLikeSWF(line):
			return formatSWF
		case strings.Contains(line, "|") && hasField(line, "JobID", "JobIDRaw"):
			return formatSacct
		default:
			return formatUnknown
		}
	}
	if comments {
		return formatEvents // its reader says that there is no job
	}
	return formatEmpty
}

// looksLikeSWF reports whether a line has the 18 numbers of an SWF record.
func looksLikeSWF(line string) bool {
	fields := strings.Fields(line)
	if len(fields) != 18 {
		return false
	}
	for _, f := range fields {
		if strings.Trim(f, "-0123456789.") != "" {
			return false
		}
	}
	return true
}

func hasField(line string, names ...string) bool {
	for field := range strings.SplitSeq(line, "|") {
		for _, name := range names {
			if strings.EqualFold(strings.TrimSpace(field), name) {
				return true
			}
		}
	}
	return false
}

// Save writes the workload to a file in our own trace format; compressed with gzip
// if the path ends in ".gz". The same workload gives the same bytes. A file that
// could not be written whole is removed.
func Save(path string, wl *Workload) error {
	_, err := SaveAs(path, wl, "trace")
	return err
}

// SaveAs is [Save] in any format that [Write] writes; it returns what the format has no
// place for.
func SaveAs(path string, wl *Workload, format string) (losses Losses, err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", format, err)
	}
	defer func() {
		if closeErr := f.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("writing %s: %w", format, closeErr)
		}
		if err != nil {
			_ = os.Remove(path) // why the file is not whole is what the caller needs
		}
	}()
	if !strings.HasSuffix(path, ".gz") {
		return Write(f, wl, format)
	}
	z := gzip.NewWriter(f)
	if losses, err = Write(z, wl, format); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("writing %s: %w", format, err)
	}
	return losses, nil
}
