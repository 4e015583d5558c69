package slurmstore

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"rmreplay/internal/accounts"
	"rmreplay/internal/slurmspec"
)

// daemonPaths are the possible paths of slurmctld in a root, the best first. slurmctld-wlm is
// Debian's name of the daemon; with Debian's package slurm-wlm-emulator, the file slurmctld is the
// emulator.
var daemonPaths = []string{
	"usr/sbin/slurmctld-wlm", "usr/sbin/slurmctld", "sbin/slurmctld", "usr/local/sbin/slurmctld", "usr/bin/slurmctld",
	"opt/slurm/sbin/slurmctld", "opt/slurm/*/sbin/slurmctld",
}

// libraryPaths are the directories in which a root may have libraries.
var libraryPaths = []string{
	"usr/lib/*-linux-gnu", "lib/*-linux-gnu", "usr/lib64", "lib64", "usr/local/lib64", "usr/local/lib", "usr/lib", "lib",
	"opt/slurm/lib", "opt/slurm/*/lib",
}

// machines maps Go's names of architectures to the numbers in the headers of programs.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "ppc64le": elf.EM_PPC64}

// patience is the longest time that slurmctld may need to print its version on a busy machine.
const patience = time.Minute

// check runs the root's slurmctld with the root's own dynamic loader and returns its version. slurmctld and the loader
// come from the archive, so root does not run them as root: see [tree.confine].
func check(ctx context.Context, t *tree) (slurmspec.Release, error) {
	daemon, err := t.first(daemonPaths)
	if err != nil {
		return slurmspec.Release{}, fmt.Errorf("the root has no slurmctld (want it in %s)", strings.Join(daemonPaths, ", "))
	}
	text, err := t.ask(ctx, daemon, "-V")
	if err != nil {
		return slurmspec.Release{}, err
	}
	release, err := slurmspec.ParseRelease(text)
	if err != nil {
		return slurmspec.Release{}, fmt.Errorf("%s -V: %w", daemon, err)
	}
	return release, nil
}

// first returns the first file in the tree that matches one of the patterns.
func (t *tree) first(patterns []string) (string, error) {
	for _, p := range patterns {
		paths, err := filepath.Glob(filepath.Join(t.dir, p))
		if err != nil {
			return "", err
		}
		for _, found := range paths {
			name, err := filepath.Rel(t.dir, found)
			if err == nil && t.exists(name) {
				return name, nil
			}
		}
	}
	return "", os.ErrNotExist
}

// loader returns the dynamic loader of a program, as a path in the root.
func (t *tree) loader(program string) (string, error) {
	f, err := t.root.Open(program)
	if err != nil {
		return "", err
	}
	defer f.Close()
	object, err := elf.NewFile(f)
	if err != nil {
		return "", fmt.Errorf("not a program: %w", err)
	}
	if want, known := machines[runtime.GOARCH]; known && object.Machine != want {
		return "", fmt.Errorf("a program for %v (want a program for %v, like this machine)", object.Machine, want)
	}
	for _, part := range object.Progs {
		if part.Type != elf.PT_INTERP {
			continue
		}
		text := make([]byte, min(part.Filesz, 4096))
		if _, err := part.ReadAt(text, 0); err != nil {
			return "", fmt.Errorf("reading the name of the program's loader: %w", err)
		}
		name := strings.TrimLeft(path.Clean(strings.TrimRight(string(text), "\x00")), "/")
		for _, place := range []string{name, path.Join("usr", name)} { // unpacked packages may lack the link /lib64
			if filepath.IsLocal(name) && t.exists(place) {
				return place, nil
			}
		}
		return "", fmt.Errorf("the root lacks its dynamic loader %q", name)
	}
	return "", errors.New(
		"a static program (want one that is linked dynamically: the preload library must be loaded into it)")
}

// missingLibrary matches a loader's message about a library that it does not find.
var missingLibrary = regexp.MustCompile(`error while loading shared libraries: ([^:\s]+): cannot open`)

// ask runs a program of the tree with options and returns its output. First it checks which
// libraries the program would load. The loader also searches the machine's own directories, and
// with a mixture of two systems' libraries, the program may crash later.
func (t *tree) ask(ctx context.Context, program string, options ...string) (text string, err error) {
	loader, err := t.loader(program)
	if err != nil {
		return "", fmt.Errorf("%s: %w", program, err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s does not run in its root: %w", program, err)
		}
	}()
	libraries, err := t.load(ctx, loader, "--list", program)
	if err != nil {
		if lacks := missingLibrary.FindStringSubmatch(err.Error()); lacks != nil {
			return "", fmt.Errorf("the root lacks the library %s", lacks[1])
		}
		return "", err
	}
	for line := range strings.Lines(libraries) { // libc.so.6 => /root/lib/libc.so.6 (0x00007f...)
		name, file, found := strings.Cut(strings.TrimSpace(line), " => ")
		if found && !strings.HasPrefix(file, t.seen()+"/") {
			return "", fmt.Errorf("the root lacks the library %s (this machine has it as %s)", name, strings.Fields(file)[0])
		}
	}
	text, err = t.load(ctx, loader, append([]string{program}, options...)...)
	return strings.TrimSpace(text), err
}

// load runs the root's loader with args: the program, as a path in the root, with options before
// and after it. It returns the output.
func (t *tree) load(ctx context.Context, loader string, args ...string) (string, error) {
	var libraries []string
	for _, pattern := range libraryPaths {
		found, err := filepath.Glob(filepath.Join(t.dir, pattern))
		if err != nil {
			return "", err
		}
		for _, dir := range found {
			dir = t.seen() + strings.TrimPrefix(dir, t.dir)
			libraries = append(libraries, dir, filepath.Join(dir, "slurm-wlm"), filepath.Join(dir, "slurm"))
		}
	}
	for i, arg := range args {
		if !strings.HasPrefix(arg, "-") {
			args[i] = t.seen() + "/" + arg
		}
	}
	args = append([]string{"--inhibit-cache", "--library-path", strings.Join(libraries, ":")}, args...)
	for {
		var out strings.Builder
		c := command(ctx, nil, t.seen()+"/"+loader, args...)
		c.Env = []string{"LC_ALL=C"} // without a preload library or a library path of this machine
		c.Dir = "/"
		c.Stdout = &out
		if err := t.confine(c); err != nil {
			return "", err
		}
		err := runCommand(c)
		if errors.Is(err, syscall.EPERM) && forAll() {
			err = fmt.Errorf("%w (a program of an archive does not run as root, and root cannot become another user here: "+
				"want an ordinary user, or the capabilities SETGID, SETUID and SYS_CHROOT)", err)
		}
		if !errors.Is(err, syscall.ETXTBSY) || ctx.Err() != nil {
			return out.String(), err
		}
		// Another goroutine may have forked while the loader was being written. The child of that fork has the file open for
		// writing until it calls exec (golang.org/issue/22315).
		time.Sleep(time.Millisecond)
	}
}

// seen returns the path of the tree's directory as seen by a process that [tree.confine] has
// prepared.
func (t *tree) seen() string {
	if forAll() {
		return ""
	}
	return t.dir
}

// systemd uses these user IDs for services without an account (DynamicUser).
const firstStranger, lastStranger = 61184, 65519

// confine prepares a process that runs a program of the tree. If root runs rmreplay, the process
// runs as a user without an account on this machine, without capabilities and groups, and sees
// only the tree. Therefore all users must be able to read the tree. If another user runs rmreplay,
// the process has this user's rights.
func (t *tree) confine(c *exec.Cmd) error {
	if !forAll() {
		return nil
	}
	for id := lastStranger; id >= firstStranger; id-- {
		taken, err := accounts.Has(id)
		if err != nil {
			return err
		}
		if taken {
			continue
		}
		c.SysProcAttr.Chroot = t.dir
		// changing from root drops all capabilities
		c.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}
		return nil
	}
	return fmt.Errorf("the users %d to %d all have accounts (want one without, to run the archive's programs)",
		firstStranger, lastStranger)
}
