// Package input reads files from directories and archives that somebody else may have made: run records, images,
// plans. Such a file may be a named pipe, which blocks its reader, or a link to a device that never ends. This package
// does not read files that the user names on the command line: such a file may be a pipe or a device.
package input

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Open opens a regular file for reading. It never waits, and links are followed. For a path that is not a
// regular file, the error names the path and the kind of the file.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %s (want a regular file)", path, kind(info.Mode()))
	}
	if err != nil {
		_ = f.Close() // nothing was read
		return nil, err
	}
	return f, nil
}

// ReadFile returns the content of a regular file of at most maxBytes bytes. It returns the errors
// of [Open], and an error for a longer file.
func ReadFile(path string, maxBytes int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err == nil && int64(len(text)) > maxBytes {
		err = fmt.Errorf("%s: more than %d bytes (want a smaller file)", path, maxBytes)
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}

// ReadTree returns the contents of the regular files below the directory dir, by their paths there. If dir does not
// exist, the result is nil. It returns the errors of [ReadFile] for each file.
func ReadTree(dir string, maxBytes int64) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if entry == nil && errors.Is(err, fs.ErrNotExist) {
			files = nil
			return nil
		}
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := ReadFile(path, maxBytes)
		files[path[len(dir)+1:]] = string(text)
		return err
	})
	return files, err
}

// kind names the kind of a file that is not a regular file.
func kind(mode os.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&os.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&os.ModeDevice != 0:
		return "a device"
	}
	return "not a regular file"
}
