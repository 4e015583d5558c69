package vclock

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// `make build` builds the preload library into shim/lib, and then the Go program.
//
//go:embed all:shim/lib
var shimFiles embed.FS

// ErrNoLibrary means that the program was built without its preload library.
var ErrNoLibrary = errors.New("this rmreplay was built without its preload library (build it with: make build)")

// InstallLibrary writes the preload library into dir and returns its path. The file system of dir
// must allow execution. The error is [ErrNoLibrary] or an error of the file system.
func InstallLibrary(dir string) (string, error) {
	path := filepath.Join(dir, "librmreplay.so")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o500)
	if err == nil {
		err = errors.Join(WriteLibrary(f), f.Close())
	}
	if err != nil {
		return "", fmt.Errorf("installing the preload library: %w", err)
	}
	return path, nil
}

// WriteLibrary writes the preload library to w. The error is [ErrNoLibrary] or an error of w.
func WriteLibrary(w io.Writer) error {
	b, err := shimFiles.ReadFile("shim/lib/librmreplay.so")
	if err != nil {
		return ErrNoLibrary
	}
	_, err = w.Write(b)
	return err
}
