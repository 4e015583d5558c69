package slurmstore

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// installHelper is an environment variable: "STORE FILE" makes the test's program install from the
// file into the store.
const installHelper = "SLURMSTORE_TEST_INSTALL"

func TestMain(m *testing.M) {
	if store, from, is := strings.Cut(os.Getenv(installHelper), " "); is {
		_, _, err := At(store).Install(context.Background(), Request{From: from}, Hooks{
			Step:     func(text string) { fmt.Println(text) },
			Progress: func(string) {},
		})
		fmt.Println(err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// quiet does not show progress.
var quiet = Hooks{Step: func(string) {}, Progress: func(string) {}}

// entry is an entry of a test's archive. If kind is 0, the entry is a regular file.
type entry struct {
	name, content, link string
	kind                byte
	mode                int64
}

// archive makes a tar archive.
func archive(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.link, Mode: e.mode, Size: int64(len(e.content))}
		if e.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		if e.mode == 0 {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstandard(t *testing.T, text []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return w.EncodeAll(text, nil)
}

// write writes a file below a directory of the test, and returns its path.
func write(t *testing.T, dir, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// compiled returns a small program that prints slurmctld's version, and the files that it needs,
// with their names in a root.
func compiled(t *testing.T, version string) []entry {
	t.Helper()
	return saying(t, "usr/sbin/slurmctld-wlm", "slurm-wlm "+version)
}

// saying returns a program that prints a text, and the files that it needs, with their names in a
// root.
func saying(t *testing.T, name, text string) []entry {
	t.Helper()
	dir := t.TempDir()
	source := write(t, dir, "main.c", []byte(`#include <stdio.h>
int main(void) { puts("`+text+`"); return 0; }`))
	program := filepath.Join(dir, "program")
	if out, err := exec.Command("gcc", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v: %s", err, out)
	}
	object, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer object.Close()
	var loader string
	for _, part := range object.Progs {
		if part.Type == elf.PT_INTERP {
			text := make([]byte, part.Filesz)
			if _, err := part.ReadAt(text, 0); err != nil {
				t.Fatal(err)
			}
			loader = strings.TrimRight(string(text), "\x00")
		}
	}
	out, err := exec.Command("gcc", "-print-file-name=libc.so.6").Output()
	if err != nil {
		t.Fatal(err)
	}
	entries := []entry{}
	for _, file := range [][2]string{
		{name, program},
		{strings.TrimPrefix(loader, "/"), loader},
		{"lib64/libc.so.6", strings.TrimSpace(string(out))},
	} {
		text, err := os.ReadFile(file[1])
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, entry{name: file[0], content: string(text)})
	}
	return entries
}

// newStore returns an empty store.
func newStore(t *testing.T) *Store { return At(filepath.Join(t.TempDir(), "cache", "slurm")) }

// entriesOf lists the entries of a store's directory, except the lock.
func entriesOf(t *testing.T, s *Store) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(s.dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != ".lock" {
			names = append(names, e.Name())
		}
	}
	return names
}
