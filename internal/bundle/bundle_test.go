package bundle

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sample() *Bundle {
	return &Bundle{
		Report: []byte(`{"rmreplay_bundle":1}`), Workload: []byte("trace"),
		Cluster: map[string]string{"slurm.conf": "ClusterName=c\n", "users": "ann:1:a:1\n"},
	}
}

// TestRoundTrip: a bundle that was written can be read, compressed or not, and the same content gives
// the same bytes.
func TestRoundTrip(t *testing.T) {
	for _, name := range []string{"site.tar", "site.tar.gz", "site.tgz"} {
		path, again := filepath.Join(t.TempDir(), name), filepath.Join(t.TempDir(), name)
		for _, p := range []string{path, again} {
			if err := sample().Write(p); err != nil {
				t.Fatal(err)
			}
		}
		one, _ := os.ReadFile(path)
		two, _ := os.ReadFile(again)
		if !bytes.Equal(one, two) || !IsFile(path) {
			t.Errorf("%s: the same content has other bytes, or is not a bundle", name)
		}
		files, err := ReadCluster(path)
		if diff := cmp.Diff(sample().Cluster, files); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
		if report, err := ReadReport(path); err != nil || string(report) != string(sample().Report) {
			t.Errorf("%s: %s, %v", name, report, err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := unpacked(f)
		if err != nil {
			t.Fatal(err)
		}
		trace, err := OpenWorkload(r, name)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(trace); err != nil || string(text) != "trace" {
			t.Errorf("%s: %s, %v", name, text, err)
		}
		_ = f.Close()
	}
}

// TestHostile: an archive that is not a bundle is refused, whatever it contains.
func TestHostile(t *testing.T) {
	file := func(name, text string) func(*tar.Writer) {
		return func(w *tar.Writer) {
			_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(text)), Mode: 0o644})
			_, _ = io.WriteString(w, text)
		}
	}
	entry := func(kind byte, name, link string) func(*tar.Writer) {
		return func(w *tar.Writer) { _ = w.WriteHeader(&tar.Header{Typeflag: kind, Name: name, Linkname: link}) }
	}
	conf := file("cluster/slurm.conf", "ClusterName=c\n")
	for what, c := range map[string]struct {
		members []func(*tar.Writer)
		want    string
	}{
		"above":     {[]func(*tar.Writer){conf, file("../../etc/passwd", "x")}, `"../../etc/passwd" is not a member of a bundle (want bundle.json`},
		"absolute":  {[]func(*tar.Writer){file("/etc/passwd", "x")}, "is not a member"},
		"within":    {[]func(*tar.Writer){file("cluster/../bundle.json", "x")}, "is not a member"},
		"link":      {[]func(*tar.Writer){entry(tar.TypeSymlink, "cluster/slurm.conf", "/etc/passwd")}, "is not a regular file"},
		"hard link": {[]func(*tar.Writer){entry(tar.TypeLink, "workload.jsonl", "/etc/passwd")}, "is not a regular file"},
		"device":    {[]func(*tar.Writer){entry(tar.TypeChar, "cluster/users", "")}, "is not a regular file"},
		"pipe":      {[]func(*tar.Writer){entry(tar.TypeFifo, "cluster/users", "")}, "is not a regular file"},
		"directory": {[]func(*tar.Writer){entry(tar.TypeDir, "other/", "")}, "is not a regular file"},
		"twice":     {[]func(*tar.Writer){conf, conf}, "occurs twice"},
		"long":      {[]func(*tar.Writer){file("cluster/slurm.conf", strings.Repeat("#\n", maxFile/2+1))}, "more than 64 MiB"},
		"empty":     {nil, "it has no cluster/slurm.conf"},
		"unpacked":  {[]func(*tar.Writer){entry(tar.TypeDir, "cluster/", ""), conf}, ""},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, add := range c.members {
			add(w)
		}
		_ = w.Close()
		path := filepath.Join(t.TempDir(), "x.tar")
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadCluster(path)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
	for text, want := range map[string]string{
		"{\"rmreplay_trace\":1}\n": "a trace of rmreplay, not a bundle (want a bundle as rmreplay site export writes it)",
		"hello":                    "a file without a tar archive, not a bundle",
	} {
		path := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadReport(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := OpenWorkload(strings.NewReader(""), "none"); err == nil || !strings.Contains(err.Error(), "it has no workload.jsonl") {
		t.Error(err)
	}
}

// FuzzRead: no input makes the readers panic or write a file.
func FuzzRead(f *testing.F) {
	path := filepath.Join(f.TempDir(), "seed.tar")
	if err := sample().Write(path); err != nil {
		f.Fatal(err)
	}
	seed, _ := os.ReadFile(path)
	f.Add(seed)
	f.Add(seed[:700])
	f.Add([]byte{0x1f, 0x8b, 8})
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		path := filepath.Join(dir, "x")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		files, err := ReadCluster(path)
		if err == nil && files["slurm.conf"] == "" {
			t.Error("a cluster without slurm.conf")
		}
		_, _ = ReadReport(path)
		if r, err := OpenWorkload(bytes.NewReader(text), "x"); err == nil {
			_, _ = io.Copy(io.Discard, r)
		}
		if entries, _ := os.ReadDir(dir); len(entries) != 1 {
			t.Errorf("%d files", len(entries))
		}
	})
}

// An error about a path that cannot be a bundle names the path once.
func TestErrorNamesPathOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "heath")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "heath.tar")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, dir + "-missing", empty} {
		_, report := ReadReport(path)
		_, cluster := ReadCluster(path)
		for _, err := range []error{report, cluster} {
			if err == nil || strings.Count(err.Error(), filepath.Base(path)) != 1 {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}
