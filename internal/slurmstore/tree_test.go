package slurmstore

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func openTree(t *testing.T) *tree {
	t.Helper()
	tr, err := newTree(filepath.Join(t.TempDir(), "root"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.close)
	return tr
}

// TestHostileArchives: entries of an archive cannot leave the root, and the error names an entry
// that would.
func TestHostileArchives(t *testing.T) {
	link := func(name, to string) entry { return entry{name: name, link: to, kind: tar.TypeSymlink} }
	for name, tt := range map[string]struct {
		entries []entry
		want    string
	}{
		"a path that leaves":                 {[]entry{{name: "../outside"}}, `"../outside": the path leaves the root`},
		"a path that leaves later":           {[]entry{{name: "a/../../outside"}}, "leaves the root"},
		"a link that leaves":                 {[]entry{link("a", "../outside")}, "leaves the root"},
		"a link that leaves from below":      {[]entry{link("a/b/c", "../../../outside")}, "leaves the root"},
		"a link that leaves by its place":    {[]entry{{name: "x/y/z/", kind: tar.TypeDir}, link("a", "x/y/z"), {name: "d/", kind: tar.TypeDir}, link("x/y/z/l", "../../../../outside")}, "leaves the root"},
		"a link below a link":                {[]entry{{name: "f/", kind: tar.TypeDir}, link("d", "f"), {name: "e/", kind: tar.TypeDir}, link("e/up", ".."), link("e/up/d/l", "../../../outside")}, "leaves the root"},
		"a hard link that leaves":            {[]entry{{name: "a", link: "../outside", kind: tar.TypeLink}}, "leaves the root"},
		"a hard link through a link":         {[]entry{link("l", "/"), {name: "a", link: "l/../../outside", kind: tar.TypeLink}}, "leaves the root"},
		"a device":                           {[]entry{{name: "etc/null", kind: tar.TypeChar}}, "a device or a named pipe"},
		"a disk":                             {[]entry{{name: "etc/sda", kind: tar.TypeBlock}}, "a device or a named pipe"},
		"a named pipe":                       {[]entry{{name: "etc/pipe", kind: tar.TypeFifo}}, "a device or a named pipe"},
		"an unknown entry":                   {[]entry{{name: "etc/odd", kind: 'Z'}}, "an entry of type"},
		"a link to nothing":                  {[]entry{{name: "a", kind: tar.TypeSymlink}}, "a symbolic link to nothing"},
		"a file below a file":                {[]entry{{name: "a"}, {name: "a/b"}}, "file exists"},
		"a hard link to what does not exist": {[]entry{{name: "a", link: "b", kind: tar.TypeLink}}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			tr := openTree(t)
			write(t, filepath.Dir(tr.dir), "outside", []byte("mine"))
			err := tr.unpack(t.Context(), bytes.NewReader(archive(t, tt.entries...)))
			if err == nil {
				err = tr.checkLinks()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			around, _ := os.ReadDir(filepath.Dir(tr.dir))
			if text, _ := os.ReadFile(filepath.Join(tr.dir, "../outside")); string(text) != "mine" || len(around) != 2 {
				t.Errorf("the archive reached out of its root: %q, %v", text, around)
			}
		})
	}
}

// TestUnpack: the kinds of entries in an archive, and the resulting files.
func TestUnpack(t *testing.T) {
	tr := openTree(t)
	if err := tr.unpack(t.Context(), bytes.NewReader(archive(t,
		entry{name: "./", kind: tar.TypeDir},
		entry{name: "./usr/lib/x/", kind: tar.TypeDir, mode: 0o500},
		entry{name: "lib", link: "usr/lib", kind: tar.TypeSymlink},
		entry{name: "usr/lib/x/a", content: "a", mode: 0o4755},
		entry{name: "lib/x/absolute", link: "/usr/lib/x/a", kind: tar.TypeSymlink},
		entry{name: "/usr/lib/x/b", content: "b"},
		entry{name: "usr/lib/x/hard", link: "/usr/lib/x/b", kind: tar.TypeLink},
		entry{name: "climbing", link: "/../../usr/lib/x/a", kind: tar.TypeSymlink},
		entry{name: "dangling", link: "/nowhere", kind: tar.TypeSymlink},
		entry{name: "dev/null", kind: tar.TypeChar},
		entry{name: "usr/lib/x/b", content: "newer"},
	))); err != nil {
		t.Fatal(err)
	}
	if err := tr.checkLinks(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"usr/lib/x/a": "a", "lib/x/absolute": "a", "usr/lib/x/b": "newer", "usr/lib/x/hard": "b", "climbing": "a",
	} {
		if got, err := os.ReadFile(filepath.Join(tr.dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
	if to, _ := os.Readlink(filepath.Join(tr.dir, "usr/lib/x/absolute")); to != "a" {
		t.Errorf("the absolute link leads to %q", to)
	}
	if info, err := os.Lstat(filepath.Join(tr.dir, "usr/lib/x/a")); err != nil || info.Mode()&os.ModeSetuid != 0 {
		t.Errorf("set-user-ID: %v, %v", info.Mode(), err)
	}
	if tr.exists("dev/null") {
		t.Error("the tree has a device")
	}
}

// TestKeepLinks: packages with /lib fill /usr/lib if /lib is a link; layers of images replace the
// link.
func TestKeepLinks(t *testing.T) {
	for _, keep := range []bool{true, false} {
		tr := openTree(t)
		tr.keepLinks = keep
		if err := tr.unpack(t.Context(), bytes.NewReader(archive(t,
			entry{name: "usr/lib/", kind: tar.TypeDir}, entry{name: "lib", link: "usr/lib", kind: tar.TypeSymlink},
			entry{name: "lib/", kind: tar.TypeDir}, entry{name: "lib/a"},
		))); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(filepath.Join(tr.dir, "usr/lib/a")); (err == nil) != keep {
			t.Errorf("keepLinks %v: usr/lib/a: %v", keep, err)
		}
	}
}

// TestWhiteouts: a layer removes files of the layers below, but not its own files.
func TestWhiteouts(t *testing.T) {
	tr := openTree(t)
	for _, layer := range [][]byte{
		archive(t, entry{name: "a/1"}, entry{name: "a/2"}, entry{name: "b/1"}, entry{name: "b/2"}, entry{name: "c"}),
		// The whiteout of b comes after b/3 of its own layer, and must not remove b/3.
		archive(t, entry{name: "a/.wh.1"}, entry{name: "b/3"}, entry{name: "b/.wh..wh..opq"}, entry{name: ".wh.c"}, entry{name: "c"}, entry{name: ".wh..wh.plnk"}, entry{name: "no/.wh.such"}),
	} {
		if err := tr.removeWhiteouts(t.Context(), bytes.NewReader(layer)); err != nil {
			t.Fatal(err)
		}
		if err := tr.unpack(t.Context(), bytes.NewReader(layer)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]bool{"a/1": false, "a/2": true, "b/1": false, "b/2": false, "b/3": true, "c": true, "a/.wh.1": false} {
		if tr.exists(name) != want {
			t.Errorf("%s exists: %v, want %v", name, !want, want)
		}
	}
	for _, hidden := range []string{".wh.", ".wh...", ".wh.."} {
		if err := tr.removeWhiteouts(t.Context(), bytes.NewReader(archive(t, entry{name: "a/" + hidden}))); err == nil {
			t.Errorf("%s is accepted", hidden)
		}
	}
	outside := write(t, filepath.Dir(tr.dir), "kept", nil)
	_ = tr.root.Symlink("..", "up")
	if err := tr.removeWhiteouts(t.Context(), bytes.NewReader(archive(t, entry{name: "up/.wh.kept"}))); err == nil {
		t.Error("a whiteout out of the root is accepted")
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
}
