// Package output writes the files that users ask for.
//
// A file appears under its name once it is complete. Until then it has a temporary name in the same directory. A
// program that ends early calls [Abandon], which removes the temporary files. The umask decides about the permissions.
package output

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// temporary is the beginning of temporary names.
const temporary = ".rmreplay-"

// unfinished has the paths of the files and directories that are being written.
var unfinished = struct {
	sync.Mutex
	paths map[string]bool
	over  bool // Abandon was called: no file or directory is completed any more
}{paths: map[string]bool{}}

// errAbandoned is the error of a file that would be completed after [Abandon].
var errAbandoned = errors.New("the program is ending")

// Abandon removes everything that is being written. Afterwards, files and directories can no longer be completed.
// Abandon is for a program that ends while other goroutines write.
func Abandon() {
	unfinished.Lock()
	defer unfinished.Unlock()
	unfinished.over = true
	for path := range unfinished.paths {
		_ = os.RemoveAll(path) // an error can no longer be reported
	}
}

// begin calls the function create with a temporary path in dir. From then on [Abandon] removes
// this path.
func begin(dir string, create func(path string) error) (path string, err error) {
	path = filepath.Join(dir, temporary+rand.Text())
	unfinished.Lock()
	defer unfinished.Unlock()
	if unfinished.over {
		return "", errAbandoned
	}
	if err := create(path); err != nil {
		return "", err
	}
	unfinished.paths[path] = true
	return path, nil
}

// end completes a file or directory by a function, usually a renaming. If err or the result of
// complete is an error, end removes the file or directory at path.
func end(path string, err error, complete func() error) error {
	unfinished.Lock()
	defer unfinished.Unlock()
	delete(unfinished.paths, path)
	if err == nil && unfinished.over {
		err = errAbandoned
	}
	if err == nil {
		err = complete()
	}
	if err != nil {
		_ = os.RemoveAll(path) // the caller needs the first error
	}
	return err
}

// File writes a file and returns its size. It replaces an existing file and keeps its
// permissions. A device or a named pipe is written directly. After an error, the file is as it
// was before.
func File(path string, write func(io.Writer) error) (size int64, err error) {
	target, mode, direct, err := resolve(path)
	if err != nil {
		return 0, err
	}
	if direct {
		return writeDirectly(path, write)
	}
	var file *os.File
	temp, err := begin(filepath.Dir(target), func(temp string) (err error) {
		file, err = os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		return err
	})
	if err != nil {
		return 0, named(err, path)
	}
	size, err = fill(file, write)
	if mode != 0 {
		err = errors.Join(err, file.Chmod(mode))
	}
	err = errors.Join(err, file.Close())
	return size, end(temp, err, func() error { return os.Rename(temp, target) })
}

// resolve returns the file that a path leads to, and its permissions if it exists. direct says
// that no other file may replace it, because it is a device, a pipe, or an open file of a process.
func resolve(path string) (target string, mode fs.FileMode, direct bool, err error) {
	if clean := filepath.Clean(path); strings.HasPrefix(clean, "/dev/fd/") || strings.HasPrefix(clean, "/dev/std") ||
		strings.HasPrefix(clean, "/proc/") {
		return path, 0, true, nil
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(path); err == nil {
			return path, 0, true, nil // a link to a file that does not exist
		}
		return path, 0, false, nil
	case err != nil:
		return path, 0, false, err
	case info.IsDir():
		return path, 0, false, fmt.Errorf("%s: is a directory (want a file)", path)
	case !info.Mode().IsRegular():
		return path, 0, true, nil
	}
	target, err = filepath.EvalSymlinks(path)
	return target, info.Mode().Perm(), false, err
}

func writeDirectly(path string, write func(io.Writer) error) (int64, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return 0, err
	}
	size, err := fill(file, write)
	return size, errors.Join(err, file.Close())
}

// fill writes a file and counts its bytes.
func fill(file *os.File, write func(io.Writer) error) (int64, error) {
	counted := &counter{w: file}
	buffer := bufio.NewWriterSize(counted, 64<<10)
	err := write(buffer)
	if err == nil {
		err = buffer.Flush()
	}
	return counted.bytes, err
}

type counter struct {
	w     io.Writer
	bytes int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.bytes += int64(n)
	return n, err
}

// named returns an error with the path that the user knows in place of the temporary path.
func named(err error, path string) error {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		failed.Path = path
	}
	return err
}

// Text writes a text to a file, as [File] does.
func Text(path, text string) error {
	_, err := File(path, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
	return err
}

// Directory fills a directory that does not exist or is empty. The function fill writes to a
// temporary directory, and the entries appear under their names together at the end. After an
// error nothing is left.
func Directory(dir string, fill func(dir string) error) error {
	if err := EmptyDirectory(dir); err != nil {
		return err
	}
	// At the end, a new directory gets its name, and an existing directory gets its entries.
	in, complete := filepath.Dir(filepath.Clean(dir)), os.Rename
	if _, err := os.Stat(dir); err == nil {
		in, complete = dir, moveEntries
	} else if err := os.MkdirAll(in, 0o777); err != nil {
		return err
	}
	temp, err := begin(in, func(temp string) error { return os.Mkdir(temp, 0o777) })
	if err != nil {
		return named(err, dir)
	}
	return end(temp, fill(temp), func() error { return complete(temp, dir) })
}

// moveEntries moves the entries of a directory into another directory, and removes the first
// directory.
func moveEntries(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Rename(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return os.Remove(from)
}

// ErrNotEmpty says that a directory is not empty.
var ErrNotEmpty = errors.New("directory is not empty")

// EmptyDirectory returns an error unless dir is an empty directory or does not exist.
func EmptyDirectory(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("%s: %w (want a new or an empty directory)", dir, ErrNotEmpty)
	}
	return nil
}

// Refused says why a file is not replaced: "exists and is not a workload".
type Refused struct{ Path, Why string }

// Error names the file and the reason.
func (e *Refused) Error() string {
	return fmt.Sprintf("%s: %s, so it was not replaced (want another name)", e.Path, e.Why)
}

// headLength is the number of bytes by which a file is recognized.
const headLength = 4 << 10

// Replaces returns a [Refused] error if path is a file that the function recognize does not accept
// by its first bytes. The parameter want names the accepted files: "a report". An empty file may
// always be replaced.
func Replaces(path, want string, recognize func(head []byte) bool) error {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil // if the path cannot be written, the write fails
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	head := make([]byte, headLength)
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("looking at %s: %w", path, err)
	}
	if !recognize(head[:n]) {
		return &Refused{path, "exists and is not " + want}
	}
	return nil
}

// NotInput returns a [Refused] error if path is a file that is one of a command's inputs, or that is in a
// directory that is an input. The input "-" is standard input.
func NotInput(path string, inputs ...string) error {
	file, err := os.Stat(path)
	if err != nil {
		return nil // a new file, or the write fails
	}
	dir, dirErr := os.Stat(filepath.Dir(path))
	for _, input := range inputs {
		of, err := os.Stat(input)
		if input == "-" {
			of, err = os.Stdin.Stat()
		}
		if err == nil && file.Mode().IsRegular() && (os.SameFile(file, of) || dirErr == nil && os.SameFile(dir, of)) {
			return &Refused{path, "is also the input"}
		}
	}
	return nil
}
