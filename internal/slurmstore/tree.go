package slurmstore

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// tree is a root during its unpacking. Its operations cannot leave the root's directory: package
// os resolves every path below the root, and refuses links that lead out of it.
type tree struct {
	dir  string
	root *os.Root
	size int64 // bytes of the files written
	// keepLinks says that a directory in an archive does not replace a link to a directory. dpkg
	// does the same for packages with /lib on systems where /lib is a link to /usr/lib.
	keepLinks bool
}

// newTree creates an empty tree in a directory, which must not exist.
func newTree(dir string) (*tree, error) {
	if err := os.Mkdir(dir, 0o777); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &tree{dir: dir, root: root}, nil
}

func (t *tree) close() { _ = t.root.Close() } // the directory was only read

// If the name of an entry in an image's layer begins with whiteout, the entry removes a file of the layers below. An
// entry with the name opaque removes all files in its directory. Source: OCI image specification, layer.md.
const (
	whiteout = ".wh."
	opaque   = whiteout + whiteout + ".opq"
)

// unpack unpacks a tar archive into the tree, over existing files.
func (t *tree) unpack(ctx context.Context, archive io.Reader) error {
	return eachEntry(ctx, archive, func(name string, h *tar.Header, content io.Reader) error {
		if strings.HasPrefix(path.Base(name), whiteout) {
			return nil
		}
		return t.add(name, h, content)
	})
}

// removeWhiteouts removes the files that a layer's whiteouts name from the tree of the layers
// below.
func (t *tree) removeWhiteouts(ctx context.Context, layer io.Reader) error {
	return eachEntry(ctx, layer, func(name string, _ *tar.Header, _ io.Reader) error {
		dir, base := path.Split(name)
		hidden, is := strings.CutPrefix(base, whiteout)
		switch {
		case !is:
			return nil
		case base == opaque:
			return t.empty(path.Clean(dir))
		case strings.HasPrefix(hidden, whiteout):
			return nil // metadata of a union file system
		case hidden == "" || hidden == "." || hidden == "..":
			return errors.New("a whiteout that names no file")
		}
		return ignoreMissing(t.root.RemoveAll(path.Join(dir, hidden)))
	})
}

// empty removes everything in a directory.
func (t *tree) empty(dir string) error {
	d, err := t.root.Open(dir)
	if err != nil {
		return ignoreMissing(err)
	}
	names, err := d.Readdirnames(-1)
	_ = d.Close() // the directory was only read
	for _, name := range names {
		err = errors.Join(err, t.root.RemoveAll(path.Join(dir, name)))
	}
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	return err
}

// eachEntry calls f for each entry of a tar archive, except the root itself and entries below /dev,
// because a root needs no devices. The name that f gets is clean and relative.
func eachEntry(ctx context.Context, archive io.Reader, f func(name string, h *tar.Header,
	content io.Reader) error) error {
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading the archive: %w", err)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		name := path.Clean(strings.TrimLeft(h.Name, "/"))
		if name == "." || h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if !filepath.IsLocal(name) {
			return fmt.Errorf("%q: the path leaves the root (want paths below the root)", h.Name)
		}
		if name == "dev" || strings.HasPrefix(name, "dev/") {
			continue
		}
		if err := f(name, h, r); err != nil {
			return fmt.Errorf("%q: %w", h.Name, err)
		}
	}
}

// add adds an entry. It replaces an existing file of this name; directories are merged.
func (t *tree) add(name string, h *tar.Header, content io.Reader) error {
	if err := t.root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return err
	}
	mode := fs.FileMode(h.Mode) & fs.ModePerm // without set-user-ID; the umask removes further bits
	if h.Typeflag == tar.TypeDir {
		return t.addDirectory(name, mode|0o700)
	}
	if err := ignoreMissing(t.root.RemoveAll(name)); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg:
		return t.addFile(name, mode|0o600, content)
	case tar.TypeSymlink:
		return t.addLink(name, h.Linkname)
	case tar.TypeLink:
		target := path.Clean(strings.TrimLeft(h.Linkname, "/"))
		if !filepath.IsLocal(target) {
			return fmt.Errorf("hard link to %q: leaves the root", h.Linkname)
		}
		return t.root.Link(target, name)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return errors.New("a device or a named pipe (want files, directories and links)")
	}
	return fmt.Errorf("an entry of type %q (want files, directories and links)", h.Typeflag)
}

func (t *tree) addDirectory(name string, mode fs.FileMode) error {
	look := t.root.Lstat
	if t.keepLinks {
		look = t.root.Stat
	}
	info, err := look(name)
	if err == nil && info.IsDir() {
		return nil
	}
	if err := ignoreMissing(t.root.RemoveAll(name)); err != nil {
		return err
	}
	return t.root.Mkdir(name, mode)
}

func (t *tree) addFile(name string, mode fs.FileMode, content io.Reader) error {
	f, err := t.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, content)
	t.size += n
	return errors.Join(err, f.Close())
}

// addLink creates a symbolic link. An absolute target refers to a file in the root. An absolute target is converted to
// a relative target, so that processes that do not change their root find the same file.
func (t *tree) addLink(name, target string) error {
	if target == "" {
		return errors.New("a symbolic link to nothing")
	}
	if path.IsAbs(target) {
		dir, err := t.real(path.Dir(name))
		if err != nil {
			return err
		}
		if target, err = filepath.Rel("/"+dir, path.Clean(target)); err != nil {
			return err
		}
	} else if !filepath.IsLocal(path.Join(path.Dir(name), target)) {
		return fmt.Errorf("symbolic link to %q: leaves the root", target)
	}
	return t.root.Symlink(target, name)
}

// real returns the path of a directory, relative to the root and without symbolic links.
func (t *tree) real(dir string) (string, error) {
	if _, err := t.root.Stat(dir); err != nil {
		return "", err // the directory does not exist, or a link leads out of the root
	}
	top, err := filepath.EvalSymlinks(t.dir)
	if err != nil {
		return "", err
	}
	below, err := filepath.EvalSymlinks(filepath.Join(t.dir, dir))
	if err != nil {
		return "", err
	}
	return filepath.Rel(top, below)
}

// checkLinks returns an error for a link that leads out of the complete tree. Dangling links are
// harmless.
func (t *tree) checkLinks() error {
	return fs.WalkDir(t.root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.Type() != fs.ModeSymlink {
			return err
		}
		_, err = t.root.Stat(name)
		if err == nil || ignoreMissing(err) == nil || errors.Is(err, syscall.ELOOP) {
			return nil
		}
		return fmt.Errorf("%q: a symbolic link that leaves the root", name)
	})
}

// exists reports whether the tree has a file or directory.
func (t *tree) exists(name string) bool {
	_, err := t.root.Stat(name)
	return err == nil
}

// write creates or replaces a file in the tree.
func (t *tree) write(name string, text []byte) error {
	if err := ignoreMissing(t.root.RemoveAll(name)); err != nil {
		return err
	}
	return t.root.WriteFile(name, text, 0o666)
}

// share lets all users read what the owner can read, regardless of the archive's modes and the
// umask.
func (t *tree) share() error {
	return fs.WalkDir(t.root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() && !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm()
		reading := mode & 0o500
		return t.root.Chmod(name, mode|reading>>3|reading>>6)
	})
}
