package formats

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
	"github.com/klauspost/compress/zstd"
	"github.com/klauspost/readahead"
	"github.com/ulikunitz/xz"

	"rmreplay/internal/bundle"
	"rmreplay/internal/filekind"
	"rmreplay/internal/formats/csv"
	"rmreplay/internal/formats/trace"
	"rmreplay/internal/output"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// Open reads a workload from a file of any known format, or from the directory of a run. It
// recognizes the format by the content, not by the name. The file may be compressed with gzip,
// xz or Zstandard.
// The error names the path and says what was expected.
func Open(path string) (*workload.Workload, error) { return OpenWith(path, workload.ReadOptions{}) }

// OpenWith is [Open] with options. The options do not apply to a run, because a run's records never
// break the rules.
func OpenWith(path string, opts workload.ReadOptions) (*workload.Workload, error) {
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
	defer f.Close() // only read
	if opts.Latest.IsZero() && info.Mode().IsRegular() {
		opts.Latest = info.ModTime()
	}
	return Read(watch(f, opts.Progress), filepath.Base(path), opts)
}

// openDirectory reads the record of a run as a workload.
func openDirectory(path string) (*workload.Workload, error) {
	if _, err := os.Stat(filepath.Join(path, "manifest.json")); err != nil {
		for _, other := range []struct{ file, kind string }{
			{"slurm.conf", "a cluster directory, not a workload (want a workload file, and this with --cluster)"},
			{"cells", "the results of a sweep, not a workload (want one run's directory below its cells)"},
		} {
			if _, err := os.Stat(filepath.Join(path, other.file)); err == nil {
				return nil, fmt.Errorf("reading workload: %s: %s", path, other.kind)
			}
		}
		hint := ""
		if files, err := filepath.Glob(filepath.Join(path, "*.jsonl*")); err == nil && len(files) > 0 {
			hint = fmt.Sprintf("; did you mean %s?", files[0])
		}
		return nil, fmt.Errorf("reading workload: %s: a directory without manifest.json (want a workload file or a run's "+
			"directory%s)", path, hint)
	}
	return run.Workload(path)
}

// watch returns a reader of the file that calls the function progress, as described at
// [workload.ReadOptions.Progress]. The function progress may be nil. watch counts compressed bytes,
// because only their number is known in advance.
func watch(f *os.File, progress func(done, all int64)) io.Reader {
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

// Read reads a workload of any known format from r. The parameter name is the source's name in
// errors.
func Read(r io.Reader, name string, opts workload.ReadOptions) (*workload.Workload, error) {
	buffered, head, done, err := unpack(r, name)
	if err != nil {
		return nil, err
	}
	defer done()
	if bundle.Is(head) {
		inner, err := bundle.OpenWorkload(buffered, name)
		if err != nil {
			return nil, err
		}
		return trace.Format.Read(inner, name, opts)
	}
	format, found := Detect(head)
	kind, known := filekind.Detect(head)
	switch {
	case known && !kind.Workload:
		return nil, fmt.Errorf("reading workload: %s: %s, not a workload (%s)", name, kind.Name, kind.Want)
	case found:
		return format.Read(buffered, name, opts)
	case len(bytes.TrimSpace(head)) == 0:
		return nil, fmt.Errorf("reading workload: %s: empty", name)
	}
	var looks []string
	for _, f := range All() {
		looks = append(looks, f.Looks)
	}
	last := len(looks) - 1
	return nil, fmt.Errorf("reading workload: %s: format not known (want %s, or %s; rmreplay workload build --from table reads any other table of jobs)", name, strings.Join(looks[:last], ", "), looks[last])
}

// headLength is the number of bytes from which the format of a file is recognized. The comments at
// the beginning of a file of UB events are far shorter.
const headLength = 256 << 10

// Unpack decompresses a file in gzip, xz or Zstandard, in a goroutine that works ahead of the
// reader. It returns any other file as it is. The caller must call done when it has finished
// reading.
func Unpack(r io.Reader, name string) (buffered *bufio.Reader, done func(), err error) {
	buffered = bufio.NewReaderSize(r, headLength)
	magic, _ := buffered.Peek(6)
	var z io.Reader
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err = gzip.NewReader(buffered)
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		var d *zstd.Decoder
		if d, err = zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(1<<30)); err == nil {
			z = d.IOReadCloser()
		}
	case bytes.Equal(magic, []byte{0xfd, '7', 'z', 'X', 'Z', 0}):
		z, err = xz.NewReader(buffered)
	default:
		return buffered, func() {}, nil
	}
	var ahead io.ReadCloser
	if err == nil {
		ahead, err = readahead.NewReaderSize(whole{z}, 4, headLength)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading workload: %s: %w", name, cutOff(err))
	}
	done = func() {
		_ = ahead.Close() // ends the goroutine; never fails
		if c, ok := z.(io.Closer); ok {
			_ = c.Close() // closing a reader loses no data
		}
	}
	return bufio.NewReaderSize(ahead, headLength), done, nil
}

// whole reads decompressed data. For data that end too early, the error says so.
type whole struct{ io.Reader }

// Read implements [io.Reader].
func (w whole) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	return n, cutOff(err)
}

// cutOff explains the error of a decompressor whose data end too early. It returns any other error unchanged.
func cutOff(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the compressed file is cut off (want the whole file): %w", err)
	}
	return err
}

// unpack is [Unpack], and also returns the beginning of the text.
func unpack(r io.Reader, name string) (buffered *bufio.Reader, head []byte, done func(), err error) {
	if buffered, done, err = Unpack(r, name); err != nil {
		return nil, nil, nil, err
	}
	head, err = buffered.Peek(headLength)
	if err != nil && !errors.Is(err, io.EOF) {
		done()
		return nil, nil, nil, fmt.Errorf("reading workload: %s: %w", name, err)
	}
	return buffered, head, done, nil
}

// IsCSV reports whether a file, which may be compressed, begins with the header of the format csv.
func IsCSV(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	table, done, err := Unpack(f, path)
	if err != nil {
		return false
	}
	defer done()
	return csv.Accepts(io.LimitReader(table, headLength))
}

// Save writes the workload to a file in the trace format. It compresses with gzip if the path ends
// in ".gz". The same workload gives the same bytes. The file appears whole or not at all. Save
// returns [output.Refused] if [Replaces] does.
func Save(path string, wl *workload.Workload) error {
	_, err := SaveAs(path, wl, Default)
	return err
}

// SaveAs is [Save] in any format that [Write] can write. It counts what the format cannot
// express.
func SaveAs(path string, wl *workload.Workload, format string) (losses workload.Losses, err error) {
	if err := Replaces(path); err != nil {
		return nil, fmt.Errorf("writing %s: %w", format, err)
	}
	_, err = output.File(path, func(w io.Writer) (err error) {
		if !strings.HasSuffix(path, ".gz") {
			losses, err = Write(w, wl, format)
			return err
		}
		z := gzip.NewWriter(w)
		losses, err = Write(z, wl, format)
		if err == nil {
			err = z.Close()
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", format, err)
	}
	return losses, nil
}

// Replaces returns an error if a workload must not replace the file at path. Such files are parts of a run record,
// files of an unknown format, and logs that are inputs of the command or lie in an input directory. An input in the
// trace format may be replaced.
func Replaces(path string, inputs ...string) error {
	var log bool
	if run.HasPart(path) {
		return &output.Refused{Path: path, Why: "is a part of a run record"}
	}
	err := output.Replaces(path, "a workload", func([]byte) bool {
		f, err := os.Open(path)
		if err != nil {
			return false
		}
		defer f.Close()
		_, head, done, err := unpack(f, path)
		if err != nil {
			return false
		}
		done()
		format, found := Detect(head)
		log = found && format.Name != Default
		return found
	})
	if err != nil || !log {
		return err
	}
	return output.NotInput(path, inputs...)
}
