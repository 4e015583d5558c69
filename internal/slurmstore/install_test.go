package slurmstore

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// install installs from a path. The installation must succeed.
func install(t *testing.T, s *Store, from string) Slurm {
	t.Helper()
	one, had, err := s.Install(t.Context(), Request{From: from}, quiet)
	if err != nil || had {
		t.Fatalf("installing from %s: had it %v, %v", from, had, err)
	}
	return one
}

// tarball writes a tarball of a root with slurmctld of the given version.
func tarball(t *testing.T, version string) string {
	t.Helper()
	return write(t, t.TempDir(), "root.tar", archive(t, compiled(t, version)...))
}

// TestTarballs: a tarball becomes a root in the store, whatever the compression.
func TestTarballs(t *testing.T) {
	s := newStore(t)
	dir := t.TempDir()
	for version, pack := range map[string]func(*testing.T, []byte) []byte{
		"24.11.5": func(_ *testing.T, text []byte) []byte { return text }, "24.11.10": gzipped, "26.05.0": zstandard,
	} {
		from := write(t, dir, version, pack(t, archive(t, compiled(t, version)...)))
		if one := install(t, s, from); one.Version != version || one.Source != from || one.Size < 1<<20 {
			t.Errorf("%s: %+v", version, one)
		}
	}
	list, err := s.List()
	if err != nil || len(list) != 3 || list[0].Version != "24.11.5" || list[1].Version != "24.11.10" || list[2].Version != "26.05.0" {
		t.Errorf("list: %+v, %v", list, err)
	}
	for version, want := range map[string]string{"24.11": "24.11.10", "24.11.5": "24.11.5", "26.05": "26.05.0"} {
		if got, err := s.Root(version); err != nil || got != filepath.Join(s.dir, want) {
			t.Errorf("root of %s: %s, %v", version, got, err)
		}
	}
	var absent *NotInstalledError
	if _, err := s.Root("25.05"); !errors.As(err, &absent) || !strings.Contains(err.Error(), "installed: 24.11.5, 24.11.10, 26.05.0; install it with: rmreplay slurm install 25.05") {
		t.Errorf("root of 25.05: %v", err)
	}
	for _, wrong := range []string{"", "24", "slurm 24.11", "24.11.5-4", "../24.11.5"} {
		var input *InputError
		if _, err := s.Root(wrong); !errors.As(err, &input) {
			t.Errorf("root of %q: %v", wrong, err)
		}
	}
	if _, err := s.Remove("24.11"); err == nil || !strings.Contains(err.Error(), "24.11.5, 24.11.10") {
		t.Errorf("removing 24.11: %v", err)
	}
	if one, err := s.Remove("24.11.5"); err != nil || one.Version != "24.11.5" {
		t.Errorf("removing 24.11.5: %+v, %v", one, err)
	}
	if got := entriesOf(t, s); !slices.Equal(got, []string{"24.11.10", "26.05.0"}) {
		t.Errorf("the store has %v", got)
	}
}

// TestPermissions: an ordinary user's store is private, and the umask applies to a root's files.
// All users can read root's store, regardless of root's umask.
func TestPermissions(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	s := newStore(t)
	one := install(t, s, tarball(t, "24.11.5"))
	want := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		want = 0o755
	}
	for _, path := range []string{filepath.Dir(s.dir), s.dir, one.Path, filepath.Join(one.Path, "usr/sbin"), filepath.Join(one.Path, "usr/sbin/slurmctld-wlm")} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
}

// TestShared: a store includes root's releases for all users, and does not change them.
func TestShared(t *testing.T) {
	root, s := newStore(t), newStore(t)
	s.shared = root.dir
	both := install(t, root, tarball(t, "24.11.5"))
	only := install(t, root, tarball(t, "26.05.1"))
	own := install(t, s, tarball(t, "24.11.4"))
	if one, had, err := s.Install(t.Context(), Request{Version: "24.11.5", Mirror: "http://127.0.0.1:1"}, quiet); err != nil || !had || one != both {
		t.Errorf("installing what is there for all users: %+v, %v, %v", one, had, err)
	}
	if list, err := s.List(); err != nil || !slices.Equal(list, []Slurm{own, both, only}) {
		t.Errorf("the store has %+v, %v", list, err)
	}
	if path, err := s.Root("26.05"); err != nil || path != only.Path {
		t.Errorf("26.05 is %s, %v", path, err)
	}
	_, err := s.Remove("26.05")
	var wrong *InputError
	if !errors.As(err, &wrong) || !strings.Contains(err.Error(), root.dir+", for all users, and only root can remove it (as root: rmreplay slurm remove 26.05)") {
		t.Errorf("removing what is there for all users: %v", err)
	}
	mine := install(t, s, tarball(t, "26.05.1"))
	if path, err := s.Root("26.05"); err != nil || path != mine.Path {
		t.Errorf("26.05 is %s, %v; want the user's own", path, err)
	}
	if one, err := s.Remove("24.11"); err != nil || one != own {
		t.Errorf("removing the user's 24.11: %+v, %v", one, err)
	}
	if got := entriesOf(t, root); !slices.Equal(got, []string{"24.11.5", "26.05.1"}) {
		t.Errorf("root's store has %v", got)
	}
}

// TestDefault: root's store is where root's daemons, which run as another user, can read it.
func TestDefault(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "/caches")
	if s, err := Default(); err != nil || *s != (Store{"/caches/rmreplay/slurm", SharedDir}) {
		t.Errorf("with XDG_CACHE_HOME: %+v, %v", s, err)
	}
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "/home/ada")
	want := Store{"/home/ada/.cache/rmreplay/slurm", SharedDir}
	if os.Geteuid() == 0 {
		want = Store{dir: SharedDir}
	}
	if s, err := Default(); err != nil || *s != want {
		t.Errorf("without XDG_CACHE_HOME: %+v, %v; want %+v", s, err, want)
	}
}

// TestAlready: a release that is in the store is not changed, and the source is not needed.
func TestAlready(t *testing.T) {
	s := newStore(t)
	from := tarball(t, "24.11.5")
	first := install(t, s, from)
	for _, req := range []Request{{From: from}, {Version: "24.11", Mirror: "http://127.0.0.1:1"}, {Version: "24.11.5", From: "nowhere"}} {
		if one, had, err := s.Install(t.Context(), req, quiet); err != nil || !had || one != first {
			t.Errorf("%+v: %+v, %v, %v; want %+v", req, one, had, err, first)
		}
	}
}

// TestWrongSources: each wrong source has its own message, and leaves no files.
func TestWrongSources(t *testing.T) {
	dir := t.TempDir()
	good := compiled(t, "24.11.5")
	without := func(name string) []byte {
		return archive(t, slices.DeleteFunc(slices.Clone(good), func(e entry) bool { return strings.HasSuffix(e.name, name) })...)
	}
	foreign := []byte(good[0].content)
	foreign[18], foreign[19] = 8, 0 // EM_MIPS
	static := filepath.Join(dir, "static")
	if out, err := exec.Command("gcc", "-static", "-o", static, write(t, dir, "main.c", []byte("int main(void) { return 0; }"))).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v: %s", err, out)
	}
	text, err := os.ReadFile(static)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := newStore(t)
	for name, tt := range map[string]struct {
		text []byte
		want string
	}{
		"nothing":       {nil, "an empty file"},
		"noise":         {[]byte(strings.Repeat("noise", 1000)), "reading the archive"},
		"xz":            {[]byte("\xfd7zXZ\x00"), "compressed with xz"},
		"cut":           {archive(t, good...)[:100_000], "unexpected EOF"},
		"cut-gzip":      {gzipped(t, archive(t, good...))[:100_000], "unexpected EOF"},
		"no-slurmctld":  {archive(t, entry{name: "a"}), "the root has no slurmctld"},
		"no-library":    {without("libc.so.6"), "the root lacks the library libc.so.6"},
		"no-loader":     {archive(t, good[0]), "the root lacks its dynamic loader"},
		"script":        {archive(t, entry{name: "usr/sbin/slurmctld", content: "#!/bin/sh\necho slurm 24.11.5\n"}), "not a program"},
		"foreign":       {archive(t, entry{name: "usr/sbin/slurmctld", content: string(foreign)}), "a program for EM_MIPS"},
		"static":        {archive(t, entry{name: "usr/sbin/slurmctld", content: string(text)}), "a static program"},
		"another":       {archive(t, compiled(t, "23.02.1")...), "version 23.02.1 (want 24.11)"},
		"odd-version":   {archive(t, compiled(t, "../../x")...), "not a release of Slurm"},
		"leaving":       {archive(t, append(slices.Clone(good), entry{name: "../x"})...), "leaves the root"},
		"empty":         {nil, "a directory without .deb files"},
		"not-there":     {nil, "no such file"},
		"special-files": {archive(t, append(slices.Clone(good), entry{name: "x", kind: tar.TypeBlock})...), "a device"},
	} {
		from := filepath.Join(dir, name)
		if name != "empty" && name != "not-there" {
			write(t, dir, name, tt.text)
		}
		var input *InputError
		_, _, err := s.Install(t.Context(), Request{Version: "24.11", From: from}, quiet)
		if !errors.As(err, &input) || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), from) {
			t.Errorf("%s: error %v, want %q", name, err, tt.want)
		}
	}
	if got := entriesOf(t, s); len(got) > 0 {
		t.Errorf("left behind: %v", got)
	}
}

// TestTogether: simultaneous installations of one release all succeed, and the store has one copy.
func TestTogether(t *testing.T) {
	s := newStore(t)
	from := tarball(t, "24.11.5")
	var all sync.WaitGroup
	var made [4]bool
	for i := range made {
		all.Go(func() {
			one, had, err := s.Install(t.Context(), Request{From: from}, quiet)
			if err != nil || one.Version != "24.11.5" || one.Path != filepath.Join(s.dir, "24.11.5") {
				t.Errorf("%+v, %v", one, err)
			}
			made[i] = !had
		})
	}
	all.Wait()
	if n := len(slices.DeleteFunc(made[:], func(m bool) bool { return !m })); n != 1 {
		t.Errorf("%d made it, want 1", n)
	}
	if got := entriesOf(t, s); !slices.Equal(got, []string{"24.11.5"}) {
		t.Errorf("the store has %v", got)
	}
}

// halfway makes a named pipe with the first half of a tarball; the second half never comes.
// unpacked waits until the first half is unpacked.
func halfway(t *testing.T, s *Store) (pipe string, unpacked func()) {
	t.Helper()
	pipe = filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	text := archive(t, append([]entry{{name: "first"}}, compiled(t, "24.11.5")...)...)
	go func() { _, _ = f.Write(text[:len(text)/2]) }()
	return pipe, func() {
		for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			if found, _ := filepath.Glob(filepath.Join(s.dir, temporaryPrefix+"*", "root", "first")); len(found) > 0 {
				return
			}
			if time.Since(begun) > time.Minute {
				t.Fatal("nothing is unpacked")
			}
		}
	}
}

// TestKilled: a killed installation leaves no release, and the next command removes its files. A
// running installation is not disturbed.
func TestKilled(t *testing.T) {
	s := newStore(t)
	pipe, unpacked := halfway(t, s)
	helper := exec.Command(os.Args[0])
	helper.Env = append(os.Environ(), installHelper+"="+s.dir+" "+pipe)
	if err := helper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = helper.Process.Kill() }()
	unpacked()
	if err := s.sweep(); err != nil {
		t.Fatal(err)
	}
	if got := entriesOf(t, s); len(got) != 1 {
		t.Errorf("while it is alive, the store has %v", got)
	}
	if err := helper.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = helper.Wait() // an error, because of the signal
	if list, err := s.List(); err != nil || len(list) > 0 {
		t.Errorf("a killed installation left %v, %v", list, err)
	}
	install(t, s, tarball(t, "26.05.1"))
	if got := entriesOf(t, s); !slices.Equal(got, []string{"26.05.1"}) {
		t.Errorf("the store has %v", got)
	}
}

// TestCancelled: a cancelled installation ends at once and leaves no files.
func TestCancelled(t *testing.T) {
	s := newStore(t)
	from := write(t, t.TempDir(), "bomb", gzipped(t, archive(t, entry{name: "zeros", content: strings.Repeat("\x00", 64<<20)})))
	ctx, cancel := context.WithCancel(t.Context())
	step := func(string) { cancel() }
	if _, _, err := s.Install(ctx, Request{From: from}, Hooks{Step: step, Progress: step}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if got := entriesOf(t, s); len(got) > 0 {
		t.Errorf("left behind: %v", got)
	}
}

// TestStrangersInStore: the error names a directory that rmreplay did not make.
func TestStrangersInStore(t *testing.T) {
	for name, text := range map[string]string{"24.11.5": "{", "24.11.6": `{"version": "24.11.5"}`, "mine": `{"version": "mine"}`} {
		s := newStore(t)
		write(t, s.dir, name+"/"+description, []byte(text))
		if _, err := s.List(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// image writes an OCI layout with layers, and returns its directory. The parameter change may
// change blobs and the manifest.
func image(t *testing.T, layers map[string][]byte, change func(dir string, manifest map[string]any)) string {
	t.Helper()
	dir := t.TempDir()
	blob := func(kind string, text []byte) map[string]any {
		sum := fmt.Sprintf("%x", sha256.Sum256(text))
		write(t, dir, "blobs/sha256/"+sum, text)
		return map[string]any{"mediaType": kind, "digest": "sha256:" + sum, "size": len(text)}
	}
	object := func(v any) []byte {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	manifest := map[string]any{
		"schemaVersion": 2,
		"config":        blob("application/vnd.oci.image.config.v1+json", object(map[string]any{"os": "linux", "architecture": runtime.GOARCH})),
	}
	var list []any
	for _, name := range []string{"1+gzip", "2+zstd", "3"} {
		if text := layers[name]; text != nil {
			list = append(list, blob("application/vnd.oci.image.layer.v1.tar"+name[1:], text))
		}
	}
	manifest["layers"] = list
	if change != nil {
		change(dir, manifest)
	}
	top := blob("application/vnd.oci.image.manifest.v1+json", object(manifest))
	write(t, dir, layoutFile, []byte(`{"imageLayoutVersion": "1.0.0"}`))
	write(t, dir, "index.json", object(map[string]any{"schemaVersion": 2, "manifests": []any{top}}))
	return dir
}

// TestImage: the layers of an image are unpacked on top of each other, and damaged images are
// refused.
func TestImage(t *testing.T) {
	layers := map[string][]byte{
		"1+gzip": gzipped(t, archive(t, append(compiled(t, "23.11.1"), entry{name: "etc/gone"})...)),
		"2+zstd": zstandard(t, archive(t, entry{name: "etc/.wh.gone"}, entry{name: "bin", link: "/usr/bin", kind: tar.TypeSymlink})),
		"3":      archive(t, compiled(t, "25.05.3")[0]),
	}
	s := newStore(t)
	one := install(t, s, image(t, layers, nil))
	if one.Version != "25.05.3" {
		t.Errorf("version %s", one.Version)
	}
	if _, err := os.Stat(filepath.Join(one.Path, "etc/gone")); !os.IsNotExist(err) {
		t.Errorf("etc/gone: %v", err)
	}
	layer := func(m map[string]any) map[string]any { return m["layers"].([]any)[0].(map[string]any) }
	for name, tt := range map[string]struct {
		change func(dir string, m map[string]any)
		want   string
	}{
		"damaged": {func(dir string, m map[string]any) {
			sum := strings.TrimPrefix(layer(m)["digest"].(string), "sha256:")
			text := bytes.Clone(layers["1+gzip"])
			text[len(text)/2] ^= 1
			write(t, dir, "blobs/sha256/"+sum, text)
		}, "it is damaged"},
		"size":     {func(_ string, m map[string]any) { layer(m)["size"] = 1 }, "is not 1 bytes long"},
		"path":     {func(_ string, m map[string]any) { layer(m)["digest"] = "sha256:../../../etc/passwd" }, "want sha256: and 64"},
		"kind":     {func(_ string, m map[string]any) { layer(m)["mediaType"] = "text/plain" }, "want a tar archive"},
		"missing":  {func(_ string, m map[string]any) { layer(m)["digest"] = "sha256:" + strings.Repeat("0", 64) }, "no such file"},
		"platform": {func(_ string, m map[string]any) { m["config"] = layer(m) }, "invalid character"},
	} {
		var input *InputError
		if _, _, err := s.Install(t.Context(), Request{From: image(t, layers, tt.change)}, quiet); !errors.As(err, &input) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", name, err, tt.want)
		}
	}
	if got := entriesOf(t, s); !slices.Equal(got, []string{"25.05.3"}) {
		t.Errorf("the store has %v", got)
	}
}
