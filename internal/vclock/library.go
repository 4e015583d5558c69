package vclock

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// `make build` builds the preload library into shim/lib before it builds the Go program.
//
//go:embed all:shim/lib
var shimFiles embed.FS

// ErrNoLibrary means that the program was built without its preload library.
var ErrNoLibrary = errors.New("this rmreplay was built without its preload library (build it with: make build)")

// InstallLibrary writes the preload library into dir and returns its path. The file system of
// dir must allow execution. The error is [ErrNoLibrary] or that of the file system.
func InstallLibrary(dir string) (string, error) {
	b, err := shimFiles.ReadFile("shim/lib/librmreplay.so")
	if err != nil {
		return "", ErrNoLibrary
	}
	path := filepath.Join(dir, "librmreplay.so")
	if err := os.WriteFile(path, b, 0o500); err != nil {
		return "", fmt.Errorf("installing the preload library: %w", err)
	}
	return path, nil
}
