package formats

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"rmreplay/internal/filekind"
	"rmreplay/internal/finished"
	"rmreplay/internal/formats/csv"
	"rmreplay/internal/formats/gridengine"
	"rmreplay/internal/formats/gwf"
	"rmreplay/internal/formats/lsf"
	"rmreplay/internal/formats/pbs"
	"rmreplay/internal/formats/sacct"
	"rmreplay/internal/workload"
)

// accounting lists the formats in which resource managers record finished jobs.
var accounting = []struct {
	name   string
	reader finished.NewReader
}{
	{sacct.Format.Name, sacct.NewReader()}, {pbs.Format.Name, pbs.New}, {lsf.Format.Name, lsf.New},
	{gridengine.Format.Name, gridengine.New}, {gwf.Format.Name, gwf.New},
}

// AccountingNames returns the names of the formats that [Accounting] reads.
func AccountingNames() (names []string) {
	for _, f := range accounting {
		names = append(names, f.name)
	}
	return names
}

// AccountingReader returns the function that makes a reader of a format of [AccountingNames].
func AccountingReader(name string) (finished.NewReader, error) {
	for _, f := range accounting {
		if f.name == name {
			return f.reader, nil
		}
	}
	return nil, fmt.Errorf("%s: no format of accounting records (want %s)", name, strings.Join(AccountingNames(), ", "))
}

// DetectAccounting recognizes a file's format by its content, and returns its name in
// [AccountingNames]. If the file has another format, the error says which.
func DetectAccounting(path string) (name string, err error) {
	if path == "-" {
		return "", errors.New(
			"reading accounting records: the format of standard input must be named (want --from sacct, pbs, lsf, ...)")
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading accounting records: %w", err)
	}
	defer f.Close() // only read
	_, head, done, err := unpack(f, filepath.Base(path))
	if err != nil {
		return "", err
	}
	done()
	format, found := Detect(head)
	kind, known := filekind.Detect(head)
	switch {
	case known && !kind.Workload:
		return "", fmt.Errorf("reading accounting records: %s: %s (%s)", path, kind.Name, kind.Want)
	case !found || format.Recognize(head) != workload.Sure:
		return "", fmt.Errorf("reading accounting records: %s: format not known (want records of %s; workload build --from "+
			"table reads other tables)", path, strings.Join(AccountingNames(), ", "))
	case !slices.Contains(AccountingNames(), format.Name):
		return "", fmt.Errorf("reading accounting records: %s: %w", path, notAccounting(format, head))
	}
	return format.Name, nil
}

// Accounting reads files of one format of accounting records, which may be compressed. The
// parameter name is the format's name in errors. The path "-" is standard input. The result
// missing lists the facts that the records lack, and the consequences for a replay.
func Accounting(name string, read finished.NewReader, paths []string, opts workload.ReadOptions) (w *workload.Workload,
	missing []string, err error) {
	reader := read(sourceName(paths), opts)
	for _, path := range paths {
		if err := readInto(name, reader, path, opts); err != nil {
			return nil, nil, err
		}
	}
	return reader.Finish()
}

// sourceName makes a name for several files: the first file's name, and the number of files.
func sourceName(paths []string) string {
	name := filepath.Base(paths[0])
	if len(paths) > 1 {
		name += fmt.Sprintf(" and %d more", len(paths)-1)
	}
	return name
}

func readInto(format string, reader finished.Reader, path string, opts workload.ReadOptions) error {
	f := os.Stdin
	if path != "-" {
		var err error
		if f, err = os.Open(path); err != nil {
			return fmt.Errorf("reading %s: %w", format, err)
		}
		defer f.Close() // only read
	}
	buffered, done, err := Unpack(watch(f, opts.Progress), filepath.Base(path))
	if err != nil {
		return err
	}
	defer done()
	head, err := buffered.Peek(headLength)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading %s: %s: %w", format, filepath.Base(path), err)
	}
	if err := otherKind(format, head); err != nil {
		return fmt.Errorf("reading %s: %s: %w", format, filepath.Base(path), err)
	}
	return reader.Read(io.Reader(buffered), filepath.Base(path))
}

// otherKind returns an error if a file that is read as records of a format is certainly of
// another format or kind.
func otherKind(format string, head []byte) error {
	found, ok := Detect(head)
	sure := ok && found.Recognize(head) == workload.Sure
	kind, known := filekind.Detect(head)
	switch {
	case known && !kind.Workload:
		return fmt.Errorf("%s (%s)", kind.Name, kind.Want)
	case sure && found.Name == format:
		return nil
	case sure && slices.Contains(AccountingNames(), found.Name):
		return fmt.Errorf("%s (want --from %s)", found.Doc, found.Name)
	case sure:
		return notAccounting(found, head)
	}
	return nil
}

// notAccounting returns an error for a file of a format that has no accounting records. The parameter head is the
// beginning of the file.
func notAccounting(found workload.Format, head []byte) error {
	if found.Name == csv.Format.Name && !csv.Accepts(bytes.NewReader(head)) {
		return errors.New("a table with other columns than a workload (workload build --from table reads it)")
	}
	return fmt.Errorf("%s (rmreplay reads it as a workload without build)", found.Doc)
}

// Files returns the paths. It replaces a directory by its regular files, in the order of their
// names. Files whose names begin with a dot are left out.
func Files(paths []string) (files []string, err error) {
	for _, path := range paths {
		if info, err := os.Stat(path); path == "-" || err != nil || !info.IsDir() {
			files = append(files, path) // opening it later reports the error
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, fmt.Errorf("reading accounting records: %w", err)
		}
		for _, entry := range entries {
			if entry.Type().IsRegular() && !strings.HasPrefix(entry.Name(), ".") {
				files = append(files, filepath.Join(path, entry.Name()))
			}
		}
	}
	if len(files) == 0 {
		return nil, errors.New("reading accounting records: no file in " + strings.Join(paths, ", "))
	}
	return files, nil
}
