package slurmstore

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"rmreplay/internal/slurmspec"
)

// DebianMirror is the address that Debian recommends everywhere.
const DebianMirror = "http://deb.debian.org/debian"

// keyring has the keys of Debian's archive. It is in the package debian-archive-keyring.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// suites are Debian's suites, the oldest first. A suite's Slurm is at least as new as the Slurm
// of the suite before, so only a few of the suites' indices, of 10 MB each, must be read.
var suites = []string{"bullseye", "bookworm", "trixie", "forky", "sid"}

// firstSuite is the suite with which the search begins.
const firstSuite = "trixie"

// packages are the packages for a root; their dependencies are installed, too. Old suites lack some
// of these packages, because their daemons contain the plugins. The plugins for Elasticsearch and
// Kafka, in Debian since trixie, send finished jobs to rmreplay accounting.
var packages = []string{
	"slurmctld", "slurmdbd", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "slurm-wlm-mysql-plugin",
	"slurm-wlm-elasticsearch-plugin", "slurm-wlm-kafka-plugin", "libnss-wrapper",
}

// fromDebian fills the tree with packages of the first suite that has the release.
func fromDebian(ctx context.Context, t *tree, req Request, want slurmspec.Release, scratch string,
	hooks Hooks) (source string, err error) {
	a, err := newApt(ctx, scratch, req, hooks)
	if err != nil {
		return "", err
	}
	var seen []string
	direction := 0
	for i := slices.Index(suites, firstSuite); i >= 0 && i < len(suites); i += direction {
		suite := suites[i]
		hooks.Step("reading the index of Debian's " + suite)
		versions, err := a.index(ctx, suite, packages)
		if err != nil {
			return "", err
		}
		release, err := upstream(versions["slurmctld"])
		if err != nil { // the suite testing sometimes lacks a package
			seen = append(seen, suite+" has none")
			direction = cmp.Or(direction, 1)
			continue
		}
		if means(want, release) {
			source = fmt.Sprintf("Debian %s (slurmctld %s)", suite, versions["slurmctld"])
			return source, a.install(ctx, t, slices.Sorted(maps.Keys(versions)),
				fmt.Sprintf("Slurm %v of Debian's %s", release, suite))
		}
		seen = append(seen, fmt.Sprintf("%s has %v", suite, release))
		toward := want.Compare(release)
		if direction == -toward {
			break // the release is between the releases of two suites
		}
		direction = toward
	}
	return "", &InputError{req.Version,
		fmt.Errorf("no suite of Debian has this release (%s; to install another build: %s)", strings.Join(seen, ", "),
			Offline)}
}

// install unpacks packages of the last indexed suite, with their dependencies, into the tree.
func (a *apt) install(ctx context.Context, t *tree, names []string, what string) error {
	a.hooks.Step("downloading " + what + ", and the libraries that it needs")
	files, err := a.download(ctx, names)
	if err != nil {
		return err
	}
	return fromPackages(ctx, t, files, a.hooks)
}

// upstream returns the release of Slurm in a package's version. It removes what Debian adds: the
// epoch, the revision and "+really".
func upstream(version string) (slurmspec.Release, error) {
	if _, rest, found := strings.Cut(version, ":"); found {
		version = rest
	}
	if _, really, found := strings.Cut(version, "+really"); found {
		version = really
	}
	return slurmspec.ParseRelease(version)
}

// apt runs apt-get and apt-cache with a separate state. It neither reads nor writes the machine's
// package management, except for the proxies in its configuration. Therefore it does not need root.
type apt struct {
	dir    string
	source string // a line of sources.list without the suite
	hooks  Hooks
}

// newApt makes the state in dir, which must not exist.
func newApt(ctx context.Context, dir string, req Request, hooks Hooks) (*apt, error) {
	const doing = "looking for Debian's tools"
	for _, tool := range []string{"apt-get", "apt-cache", "apt-config", "dpkg", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, &MissingError{doing, fmt.Errorf("%s is not installed", tool)}
		}
	}
	signed := "signed-by=" + keyring
	if req.unsigned {
		signed = "trusted=yes"
	} else if _, err := os.Stat(keyring); err != nil {
		return nil, &MissingError{doing, fmt.Errorf("%s is missing (install with: apt-get install debian-archive-keyring)",
			keyring)}
	}
	for _, sub := range []string{"state/lists/partial", "cache/archives/partial", "etc/none"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, err
		}
	}
	mirror := req.Mirror
	if mirror == "" {
		mirror = DebianMirror
	}
	if path, local := strings.CutPrefix(mirror, "file:"); local {
		mirror = "copy:" + path // with file:, the packages would not be copied
	}
	a := &apt{dir: dir, hooks: hooks}
	arch, err := a.run(ctx, "dpkg", "--print-architecture")
	if err != nil {
		return nil, fmt.Errorf("asking dpkg for the architecture: %w", err)
	}
	settings, err := a.run(ctx, "apt-config", "dump", "Acquire")
	if err != nil {
		return nil, fmt.Errorf("asking apt for its proxies: %w", err)
	}
	a.source = fmt.Sprintf("deb [arch=%s %s] %s ", strings.TrimSpace(arch), signed, mirror)
	return a, errors.Join(a.write("status", ""), a.write("apt.conf", a.configuration(settings)))
}

func (a *apt) write(name, text string) error {
	return os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o600)
}

// proxies matches apt's settings for proxies.
var proxies = regexp.MustCompile(`(?im)^Acquire::https?::([^ ]*::)?Proxy[^ ]* .*$`)

// configuration returns an apt.conf that restricts apt to the directory. It accepts outdated
// indices with a valid signature, because a mirror may lag, and the indices of old suites are not
// signed again.
func (a *apt) configuration(settings string) string {
	return fmt.Sprintf(`Dir::State "%[1]s/state/";
Dir::State::status "%[1]s/status";
Dir::Cache "%[1]s/cache/";
Dir::Log "%[1]s/";
Dir::Etc "%[1]s/etc/";
Dir::Etc::parts "%[1]s/etc/none/";
Dir::Etc::main "%[1]s/etc/none/main";
APT::Sandbox::User "";
APT::Install-Recommends "false";
APT::Update::Error-Mode "any";
Acquire::Languages "none";
Acquire::Check-Valid-Until "false";
Acquire::Retries "1";
%[2]s
`, a.dir, strings.Join(proxies.FindAllString(settings, -1), "\n"))
}

// index reads a suite's index, and returns the versions of those packages that the suite has.
func (a *apt) index(ctx context.Context, suite string, packages []string) (map[string]string, error) {
	if err := a.write("etc/sources.list", a.source+suite+" main\n"); err != nil {
		return nil, err
	}
	if _, err := a.run(ctx, "apt-get", "-q", "update"); err != nil {
		return nil, a.refused(ctx, "reading the index of Debian's "+suite, err)
	}
	table, err := a.run(ctx, "apt-cache", append([]string{"-q", "madison"}, packages...)...)
	if err != nil {
		return nil, fmt.Errorf("reading the index of Debian's %s: %w", suite, err)
	}
	versions := map[string]string{}
	for line := range strings.Lines(table) { // name | version | source
		cells := strings.Split(line, "|")
		if len(cells) != 3 {
			continue
		}
		if name := strings.TrimSpace(cells[0]); versions[name] == "" { // the newest version comes first
			versions[name] = strings.TrimSpace(cells[1])
		}
	}
	return versions, nil
}

// download fetches packages and their dependencies from the last indexed suite. It returns the
// paths of the files.
func (a *apt) download(ctx context.Context, names []string) ([]string, error) {
	const doing = "downloading the packages"
	if _, err := a.run(ctx, "apt-get", append([]string{"-q", "-y", "--download-only", "install"},
		names...)...); err != nil {
		return nil, a.refused(ctx, doing, err)
	}
	files, err := filepath.Glob(filepath.Join(a.dir, "cache/archives/*.deb"))
	if err == nil && len(files) == 0 {
		err = errors.New("apt-get left no packages")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return files, nil
}

// unverified matches apt's messages about an index with an invalid signature.
var unverified = regexp.MustCompile(`(?i)not signed|signature|NO_PUBKEY|Hash Sum mismatch`)

// refused returns the error of an apt that could not fetch something, usually because there is no
// network.
func (a *apt) refused(ctx context.Context, doing string, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case unverified.MatchString(err.Error()):
		return fmt.Errorf("%s: %w", doing, err)
	}
	return &MissingError{doing, err}
}

// run runs a program with apt's private configuration and returns its output. The program ends when
// the context or this process ends. The error contains the program's own message.
func (a *apt) run(ctx context.Context, name string, args ...string) (string, error) {
	var env []string
	if name != "apt-config" { // reads the machine's configuration
		env = append(env, "APT_CONFIG="+filepath.Join(a.dir, "apt.conf"))
	}
	var out strings.Builder
	c := command(ctx, env, name, args...)
	c.Stdout = &out
	var shown func()
	if name == "apt-get" {
		var err error
		if shown, err = a.show(c); err != nil {
			return "", err
		}
	}
	err := runCommand(c)
	if shown != nil {
		shown()
	}
	return out.String(), err
}

// show makes apt-get report its progress through a pipe, and shows it. The caller must call done
// after apt-get.
func (a *apt) show(c *exec.Cmd) (done func(), err error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.ExtraFiles = []*os.File{writer}
	c.Args = append(c.Args, "-o", "APT::Status-Fd=3")
	read := make(chan struct{})
	go func() {
		defer close(read)
		for s := bufio.NewScanner(reader); s.Scan(); { // dlstatus:FILE:PERCENT:TEXT
			fields := strings.SplitN(s.Text(), ":", 4)
			if len(fields) < 4 || fields[0] != "dlstatus" {
				continue
			}
			if percent, err := strconv.ParseFloat(fields[2], 64); err == nil {
				a.hooks.Progress(fmt.Sprintf("%3.0f%%  %s", percent, fields[3]))
			}
		}
	}()
	return func() {
		_ = writer.Close() // ends the reader
		<-read
		_ = reader.Close()
	}, nil
}

// command prepares a program that ends with the context, and whose messages are in English.
func command(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "LANGUAGE=", "DEBIAN_FRONTEND=noninteractive")
	c.Env = append(c.Env, env...)
	// The program's children end with it: they have pipes to it, or are in its process group.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	return c
}

// runCommand runs a prepared program. The error contains the last lines of the program's standard
// error.
func runCommand(c *exec.Cmd) error {
	// With Pdeathsig, the kernel kills the program when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	said := &tail{}
	c.Stderr = said
	err := c.Run()
	if err == nil {
		return nil
	}
	if words := said.String(); words != "" {
		return fmt.Errorf("%s: %w: %s", filepath.Base(c.Path), err, words)
	}
	return fmt.Errorf("%s: %w", filepath.Base(c.Path), err)
}

// tail keeps the last bytes that were written to it.
type tail struct{ text []byte }

const tailLength = 2000 // bytes

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-tailLength):]
	return len(p), nil
}

// String returns the last three lines, joined by semicolons.
func (t *tail) String() string {
	lines := strings.FieldsFunc(strings.ToValidUTF8(string(t.text), "?"),
		func(r rune) bool { return r == '\n' || r == '\r' })
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}

// fromPackages unpacks Debian packages into the tree, and creates the links that installing them
// would create.
func fromPackages(ctx context.Context, t *tree, files []string, hooks Hooks) error {
	hooks.Step(fmt.Sprintf("unpacking %d packages", len(files)))
	// As in every suite since bookworm, all directories are below /usr, so all files of a library are in one directory,
	// whether a package writes its path as /lib or as /usr/lib.
	t.keepLinks = true
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := errors.Join(t.root.MkdirAll("usr/"+name, 0o777), t.addLink(name, "usr/"+name)); err != nil {
			return err
		}
	}
	for i, file := range files {
		hooks.Progress(fmt.Sprintf("%3d%%  %s", 100*i/len(files), filepath.Base(file)))
		if err := unpackPackage(ctx, t, file); err != nil {
			return fmt.Errorf("unpacking %s: %w", filepath.Base(file), err)
		}
	}
	return t.addAlternatives()
}

// unpackPackage unpacks the files of one package.
func unpackPackage(ctx context.Context, t *tree, file string) error {
	c := command(ctx, nil, "dpkg-deb", "--fsys-tarfile", file)
	reader, writer := io.Pipe()
	c.Stdout = writer
	unpacked := make(chan error, 1)
	go func() {
		err := t.unpack(ctx, reader)
		if err == nil {
			_, err = io.Copy(io.Discard, reader) // read the padding that dpkg-deb writes after the archive
		}
		_ = reader.CloseWithError(err) // it never fails
		unpacked <- err
	}()
	err := runCommand(c)
	_ = writer.CloseWithError(err) // it never fails
	if wrong := <-unpacked; wrong != nil && ctx.Err() == nil {
		return wrong
	}
	return err
}

// addAlternatives creates the links of Debian's alternatives, for example slurmctld to
// slurmctld-wlm.
func (t *tree) addAlternatives() error {
	for _, dir := range []string{"usr/sbin", "usr/bin"} {
		paths, err := filepath.Glob(filepath.Join(t.dir, dir, "*-wlm"))
		if err != nil {
			return err
		}
		for _, p := range paths {
			base := filepath.Base(p)
			if name := filepath.Join(dir, strings.TrimSuffix(base, "-wlm")); !t.exists(name) {
				if err := t.addLink(name, base); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
