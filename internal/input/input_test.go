package input

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestReadFile reads what another user may have put where a file is expected. Nothing may hang or fill the memory.
func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		os.WriteFile(at("file"), []byte("12345678"), 0o600), os.WriteFile(at("long"), []byte("123456789"), 0o600),
		os.Symlink("file", at("link")), syscall.Mkfifo(at("pipe"), 0o600), os.Symlink("pipe", at("to-pipe")),
		os.Symlink("/dev/zero", at("zero")), os.Mkdir(at("directory"), 0o700), os.Symlink("loop", at("loop")),
	); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"file": "", "link": "", "long": "more than 8 bytes (want ", "pipe": "a named pipe (want ", "to-pipe": "a named pipe (want ",
		"zero": "a device (want ", "directory": "a directory (want ", "loop": "too many levels",
	} {
		text, err := ReadFile(at(name), 8)
		if want == "" && (err != nil || string(text) != "12345678") {
			t.Errorf("%s: %q, %v", name, text, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), at(name))) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if _, err := ReadFile(at("missing"), 8); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if files, err := ReadTree(at("missing"), 8); err != nil || files != nil {
		t.Errorf("a tree that is missing: %v, %v", files, err)
	}
	if err := os.WriteFile(at("directory/inner"), []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if files, err := ReadTree(at("directory"), 8); err != nil || len(files) != 1 || files["inner"] != "1" {
		t.Errorf("a tree: %v, %v", files, err)
	}
	if _, err := ReadTree(dir, 8); err == nil || !strings.Contains(err.Error(), "(want a ") {
		t.Errorf("a tree with other things: %v", err)
	}
}
