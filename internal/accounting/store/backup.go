package store

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"rmreplay/internal/accounting/columnar"
	"slices"
	"strings"
)

// Seal makes all rows durable. After this, the journal may drop every document that has been applied.
func (s *Store) Seal() error {
	for {
		v := s.View()
		fresh := len(v.st.fresh)
		v.Close()
		if fresh == 0 {
			return nil
		}
		if _, err := s.compactOnce(true); err != nil {
			return fmt.Errorf("writing a part of the store: %w", err)
		}
	}
}

// Backup writes a copy of the store's present state as a tar archive. The last file in the archive is store.json, so
// an archive without this file is incomplete. Readers and the writer do not wait for the backup.
func (s *Store) Backup(to io.Writer) error {
	if err := s.Seal(); err != nil {
		return fmt.Errorf("copying the store: %w", err)
	}
	s.writing.Lock()
	v, m := s.View(), s.durable // while writing is locked, v and m describe the same parts
	s.writing.Unlock()
	defer v.Close()
	w := tar.NewWriter(to)
	m.Parts, m.Health, m.Gone = nil, nil, nil
	var paths []string
	for _, p := range v.st.parts {
		m.Parts, paths = append(m.Parts, p.info), append(paths, p.paths...)
	}
	for _, h := range v.st.health {
		m.Health, paths = append(m.Health, h.info), append(paths, h.paths...)
	}
	for _, path := range paths {
		name, err := filepath.Rel(s.dir, path)
		if err == nil {
			err = addFile(w, path, name)
		}
		if err != nil {
			return fmt.Errorf("copying the store: %w", err)
		}
	}
	gone := slices.DeleteFunc(slices.Clone(v.st.gone), func(row goneRow) bool { return row.by > m.Applied })
	if err := s.backUpGone(w, gone, &m); err != nil {
		return fmt.Errorf("copying the store: %w", err)
	}
	text, err := json.MarshalIndent(m, "", " ")
	if err == nil {
		err = w.WriteHeader(&tar.Header{Name: manifestFile, Mode: 0o600, Size: int64(len(text))})
	}
	if err == nil {
		_, err = w.Write(text)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("copying the store: %w", err)
	}
	return nil
}

func (s *Store) backUpGone(w *tar.Writer, rows []goneRow, m *manifest) (err error) {
	if len(rows) == 0 {
		return nil
	}
	path := s.path(tempDir, "gone.parquet")
	sum, err := writeGone(path, rows, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, columnar.Remove(path)) }()
	m.Gone = &namedFile{"00000000.parquet", sum}
	return addFile(w, path, filepath.Join(goneDir, m.Gone.Name))
}

func addFile(w *tar.Writer, path, name string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}

// Unpack extracts an archive of [Store.Backup] into an empty directory that exists, and returns the total size of the
// files in bytes.
func Unpack(from io.Reader, dir string) (size int64, err error) {
	for _, name := range directories {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			return 0, err
		}
	}
	r := tar.NewReader(from)
	for last := ""; ; {
		head, err := r.Next()
		switch {
		case errors.Is(err, io.EOF) && last == manifestFile:
			return size, syncDir(dir)
		case errors.Is(err, io.EOF):
			return size, fmt.Errorf("reading the copy: it ends before %s", manifestFile)
		case err != nil:
			return size, fmt.Errorf("reading the copy: %w", err)
		}
		parent, name := filepath.Split(head.Name)
		if head.Typeflag != tar.TypeReg || name == "" || strings.HasPrefix(name, ".") || head.Name != manifestFile && !slices.Contains(directories, filepath.Clean(parent)) {
			return size, fmt.Errorf("reading the copy: %q: not a file of a store", head.Name)
		}
		n, err := unpackFile(filepath.Join(dir, head.Name), r)
		size, last = size+n, head.Name
		if err != nil {
			return size, err
		}
	}
}

func unpackFile(path string, from io.Reader) (size int64, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	size, err = io.Copy(f, from)
	return size, errors.Join(err, f.Sync(), f.Close())
}
