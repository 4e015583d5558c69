package build

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"rmreplay/internal/formats"
	"rmreplay/internal/formats/table"
)

// openMap opens the map of a table: the file at the path if it exists, else a built-in map.
func openMap(path string) (*table.Map, error) {
	text, err := os.ReadFile(path)
	switch {
	case err == nil:
		return table.ParseMap(text, path)
	case !errors.Is(err, os.ErrNotExist) || strings.ContainsAny(path, "/."):
		return nil, fmt.Errorf("reading map: %w", err)
	}
	return table.NamedMap(path)
}

func fromTable(source []string, opts Options) (*Result, error) {
	m, err := openMap(opts.Map)
	if err != nil {
		return nil, err
	}
	files, err := formats.Files(source)
	if err != nil {
		return nil, err
	}
	reader, err := table.NewReader(m, filepath.Base(files[0]), opts.ReadOptions)
	if err != nil {
		return nil, fmt.Errorf("reading map %s: %w", opts.Map, err)
	}
	for _, path := range files {
		if err := withTable(path, reader.Read); err != nil {
			return nil, err
		}
	}
	w, missing, err := reader.Finish()
	return &Result{Workload: w, Missing: missing}, err
}

// withTable opens a table, which may be compressed unless it is Parquet.
func withTable(path string, read func(r *bufio.Reader, at io.ReaderAt, size int64, name string) error) error {
	f := os.Stdin
	if path != "-" {
		var err error
		if f, err = os.Open(path); err != nil {
			return fmt.Errorf("reading table: %w", err)
		}
		defer f.Close() // only read
	}
	var at io.ReaderAt
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("reading table: %w", err)
	}
	if info.Mode().IsRegular() {
		at = f
	}
	buffered, done, err := formats.Unpack(f, filepath.Base(path))
	if err != nil {
		return err
	}
	defer done()
	return read(buffered, at, info.Size(), filepath.Base(path))
}

// ProposeMap writes a map for a table as YAML; see [table.Propose].
func ProposeMap(w io.Writer, path string) (p table.Proposed, err error) {
	err = withTable(path, func(r *bufio.Reader, at io.ReaderAt, size int64, name string) (err error) {
		p, err = table.Propose(w, r, at, size, name)
		return err
	})
	return p, err
}

// MapNames returns the names of the built-in maps.
func MapNames() []string { return table.MapNames() }
