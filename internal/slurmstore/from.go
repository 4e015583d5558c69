package slurmstore

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"rmreplay/internal/input"
)

// fromPath fills the tree from the path that the user named. The path's content decides how.
func fromPath(ctx context.Context, t *tree, path string, hooks Hooks) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if path, err = filepath.Abs(path); err != nil { // so that programs do not take a file name for an option
		return err
	}
	if !info.IsDir() {
		hooks.Step("unpacking " + filepath.Base(path))
		return fromTarball(ctx, t, path)
	}
	if _, err := os.Stat(filepath.Join(path, layoutFile)); err == nil {
		return fromLayout(ctx, t, path, hooks)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	var files []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".deb") {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if len(files) == 0 {
		return fmt.Errorf("a directory without .deb files and without %s (want packages, an OCI image layout, or a tarball "+
			"of a root)", layoutFile)
	}
	if err := agree(ctx, files, hooks); err != nil {
		return err
	}
	return fromPackages(ctx, t, files, hooks)
}

// agree returns an error if a package occurs in two versions, because the tree would become a
// mixture of both.
func agree(ctx context.Context, files []string, hooks Hooks) error {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		return &MissingError{"looking for Debian's tools", errors.New("dpkg-deb is not installed")}
	}
	hooks.Step(fmt.Sprintf("reading the names of %d packages", len(files)))
	seen := map[string]string{}
	for _, file := range files {
		f, err := input.Open(file)
		if err != nil {
			return err
		}
		_ = f.Close() // dpkg-deb reads the file
		var out strings.Builder
		c := command(ctx, nil, "dpkg-deb", "--show", "--showformat=${Package}", file)
		c.Stdout = &out
		if err := runCommand(c); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
		name := out.String()
		if other := seen[name]; other != "" {
			return fmt.Errorf("%s and %s are versions of one package (want one version of each)", other, filepath.Base(file))
		}
		seen[name] = filepath.Base(file)
	}
	return nil
}

// fromTarball unpacks a tarball of a root, compressed or not. The tarball may be a named pipe, such as a shell's
// <(...).
func fromTarball(ctx context.Context, t *tree, path string) error {
	f, err := openNamed(ctx, path)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = f.Close() })() // wakes a reader that waits for a pipe
	defer f.Close()
	return decompressed(ctx, f, func(archive io.Reader) error { return t.unpack(ctx, archive) })
}

// openNamed opens a file. For a named pipe, openNamed waits for a writer or for the end of the context.
func openNamed(ctx context.Context, path string) (*os.File, error) {
	files, errs := make(chan *os.File, 1), make(chan error, 1)
	go func() {
		f, err := os.Open(path)
		if err != nil {
			errs <- err
			return
		}
		files <- f
	}()
	select {
	case f := <-files:
		return f, nil
	case err := <-errs:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// The first bytes of compressed files: gzip (RFC 1952) and zstd (RFC 8878) are supported, xz is
// not.
var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
	xzMagic   = []byte{0xfd, '7', 'z', 'X', 'Z'}
)

// zstdWindow is the largest window of a zstd file, in bytes. It is also the default limit of the
// program zstd.
const zstdWindow = 128 << 20

// decompressed calls the function read with the content of a file. It decompresses the content if
// its first bytes show that it is compressed. Reading ends with an error when the context is
// cancelled.
func decompressed(ctx context.Context, file io.Reader, read func(io.Reader) error) error {
	b := bufio.NewReaderSize(&cancelled{ctx, file}, 1<<20)
	head, err := b.Peek(len(xzMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch {
	case len(head) == 0:
		return errors.New("an empty file (want a tar archive)")
	case bytes.HasPrefix(head, xzMagic):
		return errors.New("compressed with xz (want a tar archive that is not compressed, or with gzip or zstd)")
	case bytes.HasPrefix(head, gzipMagic):
		z, err := gzip.NewReader(b)
		if err != nil {
			return err
		}
		defer z.Close()
		return read(z)
	case bytes.HasPrefix(head, zstdMagic):
		z, err := zstd.NewReader(b, zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return err
		}
		defer z.Close()
		return read(z)
	}
	return read(b)
}

// cancelled is a reader that returns an error after its context has ended.
type cancelled struct {
	ctx context.Context
	io.Reader
}

func (c *cancelled) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.Reader.Read(p)
}
