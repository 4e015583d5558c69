package output

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// content returns the names in a directory, and the texts of its files.
func content(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		text, _ := os.ReadFile(filepath.Join(dir, e.Name()))
		list = append(list, e.Name()+"="+string(text))
	}
	return strings.Join(list, " ")
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

func TestFileAppearsWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	size, err := File(path, func(w io.Writer) error {
		if got := content(t, dir); strings.Contains(got, "a=") || !strings.HasPrefix(got, temporary) {
			t.Errorf("during writing: %s", got)
		}
		return text("new")(w)
	})
	if err != nil || size != 3 || content(t, dir) != "a=new" {
		t.Errorf("size %d, %v, %s", size, err, content(t, dir))
	}
	broken := errors.New("broken")
	if _, err := File(path, func(w io.Writer) error { return errors.Join(text("half")(w), broken) }); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if got := content(t, dir); got != "a=new" {
		t.Errorf("after a failure: %s", got)
	}
	_, err = File(filepath.Join(dir, "none", "b"), text("x"))
	if !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), temporary) {
		t.Errorf("error %v", err)
	}
	if _, err := File(dir, text("x")); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("error %v", err)
	}
}

func TestFilePermissions(t *testing.T) {
	for _, mask := range []int{0o002, 0o027, 0o077} {
		old := unix.Umask(mask)
		path := filepath.Join(t.TempDir(), "a")
		_, err := File(path, text("1"))
		unix.Umask(old)
		if info, serr := os.Stat(path); err != nil || serr != nil || info.Mode().Perm() != fs.FileMode(0o666&^mask) {
			t.Errorf("umask %o: %v, %v, %v", mask, err, serr, info.Mode())
		}
		// A file that exists keeps its permissions.
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
		_, err = File(path, text("2"))
		if info, serr := os.Stat(path); err != nil || serr != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("umask %o, an existing file: %v, %v, %v", mask, err, serr, info.Mode())
		}
	}
}

// TestFileInPlace: links remain links, and devices and pipes are written, not replaced.
func TestFileInPlace(t *testing.T) {
	dir := t.TempDir()
	target, link, dangling, pipe := filepath.Join(dir, "target"), filepath.Join(dir, "link"), filepath.Join(dir, "dangling"), filepath.Join(t.TempDir(), "pipe")
	for _, err := range []error{os.WriteFile(target, []byte("old"), 0o600), os.Symlink("target", link), os.Symlink("late", dangling), unix.Mkfifo(pipe, 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	read := make(chan string)
	go func() {
		data, err := os.ReadFile(pipe)
		read <- string(data) + errorText(err)
	}()
	for _, path := range []string{link, dangling, pipe, os.DevNull} {
		if _, err := File(path, text("new")); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if got := <-read; got != "new" {
		t.Errorf("the pipe had %q", got)
	}
	if got := content(t, dir); got != "dangling=new late=new link=new target=new" {
		t.Error(got)
	}
	for _, path := range []string{link, dangling} {
		if info, err := os.Lstat(path); err != nil || info.Mode().Type() != fs.ModeSymlink {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode()&fs.ModeCharDevice == 0 {
		t.Errorf("%s: %v, %v", os.DevNull, info.Mode(), err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestDirectory(t *testing.T) {
	parent := t.TempDir()
	fill := func(dir string) error {
		return errors.Join(os.Mkdir(filepath.Join(dir, "sub"), 0o777), Text(filepath.Join(dir, "a"), "1"))
	}
	existing := filepath.Join(parent, "existing")
	if err := os.Mkdir(existing, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{existing, filepath.Join(parent, "new"), filepath.Join(parent, "deep", "new") + "/"} {
		if err := Directory(dir, fill); err != nil {
			t.Fatal(err)
		}
		if got := content(t, dir); got != "a=1 sub=" {
			t.Errorf("%s: %s", dir, got)
		}
		if err := Directory(dir, fill); !errors.Is(err, ErrNotEmpty) {
			t.Errorf("%s: error %v", dir, err)
		}
	}
	broken := errors.New("broken")
	err := Directory(filepath.Join(parent, "failed"), func(dir string) error { return errors.Join(fill(dir), broken) })
	if got := content(t, parent); !errors.Is(err, broken) || got != "deep= existing= new=" {
		t.Errorf("%v, %s", err, got)
	}
	if err := Directory(filepath.Join(existing, "a"), fill); err == nil {
		t.Error("a file was taken for a directory")
	}
}

// TestAbandon: unfinished files are removed, and no file is completed later.
func TestAbandon(t *testing.T) {
	defer func() { unfinished.over = false }()
	parent := t.TempDir()
	_, err := File(filepath.Join(parent, "whole"), text("1"))
	if err != nil {
		t.Fatal(err)
	}
	var inner error
	err = Directory(filepath.Join(parent, "dir"), func(dir string) error {
		_, inner = File(filepath.Join(parent, "file"), func(w io.Writer) error {
			Abandon()
			return nil
		})
		return nil
	})
	if !errors.Is(err, errAbandoned) || !errors.Is(inner, errAbandoned) {
		t.Errorf("errors %v and %v", err, inner)
	}
	if _, err := File(filepath.Join(parent, "late"), text("1")); !errors.Is(err, errAbandoned) {
		t.Errorf("error %v", err)
	}
	if got := content(t, parent); got != "whole=1" {
		t.Error(got)
	}
}

func TestReplaces(t *testing.T) {
	dir := t.TempDir()
	isReport := func(head []byte) bool { return strings.HasPrefix(string(head), "report") }
	for name, tt := range map[string]struct {
		text    string
		refused bool
	}{"a": {"report\n" + strings.Repeat("x", 2*headLength), false}, "b": {"notes", true}, "c": {"", false}} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		var refused *Refused
		if err := Replaces(path, "a report", isReport); errors.As(err, &refused) != tt.refused || err != nil && !tt.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, path := range []string{filepath.Join(dir, "none"), dir, os.DevNull} {
		if err := Replaces(path, "a report", isReport); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}
