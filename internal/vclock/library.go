package vclock

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// The preload library is built by `make` into shim/lib before the Go program is.
//
//go:embed all:shim/lib
var shimFiles embed.FS

// ErrNoLibrary says that the program was built without its preload library.
var ErrNoLibrary = errors.New("this rmreplay was built without its preload library (build it with: make build)")

// InstallLibrary writes the preload library into dir, which must allow execution,
// and returns its path.
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
