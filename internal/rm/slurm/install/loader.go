package install

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Loader starts the programs of a root that has its own C library. The root is the unpacked file system of another
// release of the operating system. Each program names a dynamic loader, and this path leads to the machine's loader,
// but the root's programs do not run with the machine's C library.
type Loader struct {
	Root string // the root's directory
	// Path is the root's own dynamic loader. If the machine's C library is newer, Path is the
	// machine's loader. Preloaded libraries need the machine's C library, which also runs programs
	// that were built for an older C library.
	Path string
	// Libraries are the directories of libraries: first the directory of Slurm's library, then the
	// loader's directories.
	Libraries []string
}

// Command returns the path and the arguments that start a program. path is the program's file.
// args are its arguments, the program's name first. Programs of the machine, such as a shell, and
// all programs of an installation without a loader are started directly.
func (in *Installation) Command(path string, args []string) (string, []string) {
	l := in.Loader
	switch {
	case l == nil:
		return path, args
	case filepath.Base(path) == "slurmctld":
		path = in.Slurmctld // the name may be a link: see Link
	case !strings.HasPrefix(path, l.Root+"/"):
		return path, args
	}
	return l.Path, slices.Concat([]string{l.Path}, l.options(), []string{"--argv0", args[0], path}, args[1:])
}

// MariaDB returns the path and the arguments that start MariaDB's server. The options do not begin
// with the program's name.
func (in *Installation) MariaDB(options ...string) (string, []string) {
	return in.databaseCommand(in.Mariadbd, append([]string{in.Mariadbd}, options...))
}

// databaseCommand is [Installation.Command] for MariaDB. MariaDB's messages and plugins are in the
// root, and no library of the machine is loaded into MariaDB. Loaders before glibc 2.33 have no
// --argv0.
func (in *Installation) databaseCommand(path string, args []string) (string, []string) {
	l := in.DatabaseLoader
	if l == nil {
		return path, args
	}
	words := slices.Concat([]string{l.Path}, l.options(), []string{path}, args[1:])
	return l.Path, append(words, "--basedir="+filepath.Dir(filepath.Dir(path)))
}

// options are the loader's options for every program. The loader ignores the machine's cache,
// because the cache names the machine's libraries.
func (l *Loader) options() []string {
	return []string{"--inhibit-cache", "--library-path", strings.Join(l.Libraries, ":")}
}

// Environment returns the variables that tell programs where their root's files are.
func (in *Installation) Environment() []string {
	if in.Loader == nil {
		return nil
	}
	for _, dir := range in.Loader.Libraries {
		if plugins := filepath.Join(dir, "libmariadb3", "plugin"); isDirectory(plugins) {
			return []string{"MARIADB_PLUGIN_DIR=" + plugins}
		}
	}
	return nil
}

// Link makes the programs available in dir under the names by which Slurm's programs and shell
// lines call each other. slurmctld of 22.05 works only under its own name. slurmctld of 23.11 and
// later restarts itself at a reconfiguration, with the path that started it. For a program of a
// root with its own C library, Link writes a script that executes the loader.
func (in *Installation) Link(dir string) error {
	for name, path := range in.commands() {
		link := filepath.Join(dir, name)
		var err error
		if in.Loader == nil {
			err = os.Symlink(path, link)
		} else if err = os.WriteFile(link, []byte(in.Loader.script(path)), 0o755); err == nil {
			err = os.Chmod(link, 0o755) // regardless of the umask, because root's daemons have another user
		}
		if err != nil {
			return fmt.Errorf("making %s available to the daemons: %w", name, err)
		}
	}
	return nil
}

// commands returns the paths of slurmctld and of the client commands by name.
func (in *Installation) commands() map[string]string {
	list := map[string]string{"slurmctld": in.Slurmctld}
	for _, name := range clientCommands {
		if path := filepath.Join(filepath.Dir(in.Scontrol), name); isExecutable(path) {
			list[name] = path
		}
	}
	return list
}

// clientCommands are the commands of Slurm that shell lines may call.
var clientCommands = []string{
	"sacct", "sacctmgr", "sbatch", "scancel", "scontrol", "sdiag", "sinfo", "sprio", "squeue", "sreport", "sshare", "sstat", "strigger",
}

func (l *Loader) script(path string) string {
	words := append([]string{l.Path}, l.options()...)
	for i, w := range words {
		words[i] = quote(w)
	}
	return "#!/bin/sh\nexec " + strings.Join(words, " ") + ` --argv0 "$0" ` + quote(path) + ` "$@"` + "\n"
}

// quote quotes a word for the shell.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// rootOf returns the root to which a prefix belongs: dir or, if dir is usr or usr/local of an image, the image's root.
func rootOf(dir, prefix string) string {
	if prefix != dir {
		return dir
	}
	for range 2 {
		if base := filepath.Base(dir); base == "usr" || base == "local" {
			dir = filepath.Dir(dir)
		}
	}
	return dir
}

// findLoader returns the loader in a root for a program of Slurm. It returns nil if the program
// runs with the machine's loader. A site's build, for example, has no loader of its own.
func findLoader(root, program string) *Loader {
	l := ownLoader(root, program)
	if l == nil {
		return nil
	}
	if machines := libraryDirs("/"); newerC(machines, l.Libraries) {
		l.Path, l.Libraries = interpreter(program), append(machines, l.Libraries...)
	}
	return l
}

// ownLoader returns a root's own loader for a program, with the root's libraries. It returns nil
// if the root has no loader, or if the root's loader is the machine's.
func ownLoader(root, program string) *Loader {
	name := interpreter(program)
	if name == "" {
		return nil
	}
	for _, dir := range libraryDirs(root) {
		path, err := resolve(root, filepath.Join(dir, filepath.Base(name)))
		if err != nil || !isExecutable(path) {
			continue
		}
		if own, err := os.Stat(path); err == nil {
			if machines, err := os.Stat(name); err == nil && os.SameFile(own, machines) {
				return nil
			}
		}
		return &Loader{Root: root, Path: path, Libraries: libraryDirs(root)}
	}
	return nil
}

// newerC reports whether the C library in these directories is newer than the C library in others.
func newerC(these, others []string) bool {
	major, minor := versionOfC(these)
	otherMajor, otherMinor := versionOfC(others)
	return otherMajor > 0 && (major > otherMajor || major == otherMajor && minor > otherMinor)
}

// versionOfC returns the newest version of the symbols in the first C library in a list of
// directories: 2 and 36 for GLIBC_2.36. It returns zeros if there is no C library.
func versionOfC(dirs []string) (major, minor int) {
	for _, dir := range dirs {
		f, err := elf.Open(filepath.Join(dir, "libc.so.6"))
		if err != nil {
			continue
		}
		defer f.Close()
		versions, _ := f.DynamicVersions() // a damaged file has no versions
		for _, v := range versions {
			var a, b int
			if n, _ := fmt.Sscanf(v.Name, "GLIBC_%d.%d", &a, &b); n == 2 && (a > major || a == major && b > minor) {
				major, minor = a, b
			}
		}
		return major, minor
	}
	return 0, 0
}

// interpreter returns the path of the dynamic loader that a program names, or "" if it names none.
func interpreter(program string) string {
	f, err := elf.Open(program)
	if err != nil {
		return ""
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP || p.Filesz > 4096 {
			continue
		}
		text := make([]byte, p.Filesz)
		if _, err := p.ReadAt(text, 0); err == nil {
			return strings.TrimRight(string(text), "\x00")
		}
	}
	return ""
}

// libraryDirs returns the directories with a root's libraries.
func libraryDirs(root string) (dirs []string) {
	for _, dir := range []string{
		"usr/local/lib/" + multiarch(), "usr/local/lib", "usr/lib/" + multiarch(), "lib/" + multiarch(), "usr/lib64", "lib64", "usr/lib", "lib",
	} {
		path, err := resolve(root, filepath.Join(root, dir))
		if err == nil && isDirectory(path) && !slices.Contains(dirs, path) {
			dirs = append(dirs, path)
		}
	}
	return dirs
}

// resolve follows the symbolic links of a path below a root. As for a process with that root
// directory, an absolute link begins at the root.
func resolve(root, path string) (string, error) {
	rest := strings.Split(strings.TrimPrefix(path, root), "/")
	at := root
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if at != root {
				at = filepath.Dir(at)
			}
			continue
		}
		next := filepath.Join(at, name)
		target, err := os.Readlink(next)
		if err != nil { // not a link, or the file does not exist
			if _, err := os.Lstat(next); err != nil {
				return "", err
			}
			at = next
			continue
		}
		if links++; links > 40 {
			return "", fmt.Errorf("%s: too many symbolic links", path)
		}
		if filepath.IsAbs(target) {
			at = root
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return at, nil
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
