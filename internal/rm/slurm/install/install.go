package install

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmstore"
)

// Variable is the environment variable that names the default Slurm. Like --slurm, it takes a
// directory such as /opt/slurm/22.05.8, or a version. Without the variable, the default is the
// machine's own Slurm.
const Variable = "RMREPLAY_SLURM"

// Installation has the paths of the programs. The path of a program that Missing names is
// empty.
type Installation struct {
	Slurmctld, Slurmdbd               string
	Sacctmgr, Sacct, Scontrol, Squeue string
	Mariadbd                          string
	// SystemTables is MariaDB's SQL file that creates its system tables.
	SystemTables string
	// NSSWrapper is the library that gives processes their own passwd and group files.
	NSSWrapper string
	// PluginDir is Slurm's plugin directory.
	PluginDir string
	// Version is the version that slurmctld reports, such as "22.05.8"; empty if it reports none.
	// Release is the parsed Version; zero if Version is not a release of Slurm.
	Version string
	Release slurmspec.Release
	// MariaDBVersion is the version that mariadbd reports, such as "10.11.19-MariaDB"; empty
	// if it reports none.
	MariaDBVersion string

	// Dir is the directory that the user named; empty for the machine's own Slurm.
	Dir string
	// Loader starts Slurm's programs; nil if they need no loader.
	Loader *Loader
	// DatabaseLoader starts MariaDB; nil if MariaDB needs no loader.
	DatabaseLoader *Loader

	// Items are all requirements with the files found, in an order that suits readers.
	Items []Item
	// Missing are the requirements that were not found.
	Missing []Requirement

	wrong error // why the directory has no Slurm
}

// Requirement is a file that a replay needs.
type Requirement struct {
	Name string // "slurmctld", "jobcomp_filetxt"
	Why  string // its use in a replay
	Fix  string // the command that installs it
	// Package is the Debian package with the file.
	Package string
	// Accounting is set if only replays with slurmdbd need the file.
	Accounting bool
	// Slurm is set if the file belongs to Slurm, not to MariaDB or nss_wrapper.
	Slurm bool
}

// Item is a requirement and the file that was found for it.
type Item struct {
	Requirement
	Path    string // empty if missing
	Version string // empty if the file has none or reports none
	// Release is the release for which a plugin was built; zero for a program, and for a plugin
	// without a release.
	Release slurmspec.Release

	fails error // why a program did not print its version
}

// Find looks for all requirements of replays on the default Slurm: the Slurm that [Variable] names
// or, without the variable, the machine's own. See [FindSlurm].
func Find() (*Installation, error) { return FindSlurm("") }

// FindSlurm looks for all requirements of replays on a Slurm. The parameter named is a directory
// (a site's build, or the root of an image), a version (in the store, or of the machine's own
// Slurm), or empty for the default. The installation is never nil and lists everything that was
// found. The error is a [*DirectoryError], [*slurmstore.NotInstalledError], [*BrokenError],
// [*MissingError] or [*VersionError] if a replay with accounting cannot run.
func FindSlurm(named string) (*Installation, error) {
	named = cmp.Or(named, os.Getenv(Variable))
	f := onMachine()
	if named != "" {
		if err := f.within(named); err != nil {
			var absent *slurmstore.NotInstalledError
			if errors.As(err, &absent) {
				own := onMachine().find()
				if own.is(named) {
					return own, own.Need(true)
				}
				absent.Own = own.Version
			}
			return &Installation{Dir: named, wrong: err}, err
		}
	}
	in := f.find()
	return in, in.Need(true)
}

// is reports whether the installation has the version that a user named. "22.05" matches every
// patch release.
func (in *Installation) is(named string) bool {
	want, err := slurmspec.ParseRelease(named)
	return err == nil && !in.Release.IsZero() && (in.Release == want || want.Patch < 0 && in.Release.Series() == want)
}

// Need returns nil if a replay can run on this machine; otherwise it returns a [*MissingError] that names all missing
// requirements, a [*VersionError], a [*DirectoryError] or a [*BrokenError]. Without accounting, Need does not require
// slurmdbd and MariaDB.
func (in *Installation) Need(accounting bool) error {
	if in.wrong != nil {
		return in.wrong
	}
	var missing []Requirement
	for _, r := range in.Missing {
		if accounting || !r.Accounting {
			missing = append(missing, r)
		}
	}
	if len(missing) > 0 {
		return &MissingError{Missing: missing, Dir: in.Dir}
	}
	for _, it := range in.Items {
		if !it.slurmProgram() || it.Accounting && !accounting || it.Version == "" || supported(it.Version) {
			continue
		}
		return &VersionError{Program: it.Name, Path: it.Path, Found: it.Version}
	}
	if err := in.item("slurmctld").fails; err != nil {
		return &BrokenError{"slurmctld", in.Slurmctld, err}
	}
	if in.Version == "" {
		return &VersionError{Program: "slurmctld", Path: in.Slurmctld}
	}
	// Programs of one release do not run with the plugins of another.
	if err := in.checkMix(accounting); err != nil {
		return err
	}
	for _, it := range in.Items {
		if it.slurmProgram() && it.fails != nil && (accounting || !it.Accounting) {
			return &BrokenError{it.Name, it.Path, it.fails}
		}
	}
	return nil
}

// checkMix returns a [*BrokenError] if a program or a plugin is of another series than slurmctld.
func (in *Installation) checkMix(accounting bool) error {
	for _, it := range in.Items {
		if it.Accounting && !accounting {
			continue
		}
		found := it.Release
		if it.slurmProgram() {
			found, _ = slurmspec.ParseRelease(it.Version)
		}
		if !found.IsZero() && found.Series() != in.Release.Series() {
			return &BrokenError{it.Name, it.Path, fmt.Errorf("of Slurm %s, and %s is of %s: a mix of two releases (want one)", found, in.Slurmctld, in.Version)}
		}
	}
	return nil
}

// MissingError lists the requirements that are missing on this machine.
type MissingError struct {
	Missing []Requirement // at least one
	Dir     string        // the directory that the user named, or empty
}

// Error names the missing requirements and the command that installs them.
func (e *MissingError) Error() string {
	if e.Dir == "" {
		return fmt.Sprintf("missing on this machine: %s (install with: %s)", names(e.Missing), InstallCommand(e.Missing))
	}
	var parts []string
	own := slices.DeleteFunc(slices.Clone(e.Missing), func(r Requirement) bool { return !r.Slurm })
	if len(own) > 0 {
		parts = append(parts, fmt.Sprintf("missing: %s (want Slurm's own files in %s; Debian's packages with them are: %s)", names(own), e.Dir, strings.Join(packages(own), " ")))
	}
	others := slices.DeleteFunc(slices.Clone(e.Missing), func(r Requirement) bool { return r.Slurm })
	if len(others) > 0 {
		parts = append(parts, fmt.Sprintf("missing on this machine: %s (install with: %s)", names(others), InstallCommand(others)))
	}
	return strings.Join(parts, "; ")
}

// names lists the names of requirements.
func names(reqs []Requirement) string {
	list := make([]string, len(reqs))
	for i, r := range reqs {
		list[i] = r.Name
	}
	return strings.Join(list, ", ")
}

// VersionError says that rmreplay does not support the installed version of Slurm.
type VersionError struct {
	Program, Path string
	Found         string // the version it reports, or empty
}

// Error names the version found and the supported versions.
func (e *VersionError) Error() string {
	found := "version " + e.Found
	if e.Found == "" {
		found = "does not say its version"
	}
	return fmt.Sprintf("%s (%s): %s: not supported (want Slurm %s; --slurm names another one)",
		e.Program, e.Path, found, SupportedSeries())
}

// SupportedSeries names the supported releases for people: "22.05.x", or "22.05.x or 24.11.x".
func SupportedSeries() string {
	var names []string
	for _, r := range slurmspec.SupportedReleases() {
		names = append(names, r.String()+".x")
	}
	return strings.Join(names, " or ")
}

// InstallCommand returns a text with two commands, each of which installs the requirements. The first command installs
// packages of Debian and its derivatives; the second command needs no root. The first command leaves out recommended
// packages, which include slurmd and a configured database server. On other systems the text advises to copy the store
// from another machine.
func InstallCommand(reqs []Requirement) string {
	command, option := storeCommand(reqs)
	if _, err := exec.LookPath("apt-get"); err != nil {
		return "this system's package manager; without root: a copy of ~/.cache/rmreplay/slurm from a machine with apt-get (there: " +
			command + ")" + option
	}
	return "apt-get install --no-install-recommends " + strings.Join(packages(reqs), " ") + "; without root: " + command + option
}

// stableRelease is the supported series in Debian's stable suite. The stable release is the fastest to install in the
// store.
const stableRelease = "24.11"

// storeCommand returns the command that installs the requirements in the user's store. option is a
// text with the option that a replay then needs.
func storeCommand(reqs []Requirement) (command, option string) {
	command = "rmreplay slurm install"
	if slices.ContainsFunc(reqs, func(r Requirement) bool { return r.Slurm }) {
		command, option = command+" "+stableRelease, ", and --slurm "+stableRelease
	}
	if slices.ContainsFunc(reqs, func(r Requirement) bool { return !r.Slurm }) {
		command += " --with-database"
	}
	return command, option
}

// packages returns the Debian packages of the requirements, without duplicates.
func packages(reqs []Requirement) (list []string) {
	for _, r := range reqs {
		if !slices.Contains(list, r.Package) {
			list = append(list, r.Package)
		}
	}
	return list
}

// supported reports whether a version is of a supported release.
func supported(version string) bool {
	release, err := slurmspec.ParseRelease(version)
	return err == nil && release.Supported()
}

func (it Item) slurmProgram() bool {
	return slices.ContainsFunc(programs, func(p program) bool { return p.slurm && p.name == it.Name })
}

// program is an executable to look for.
type program struct {
	name    string
	files   []string // possible names of the file, best first
	why     string
	pkg     string
	slurm   bool // part of Slurm: Find looks for it under Slurm's prefix
	forDB   bool // only accounting needs it
	version []string
	set     func(*Installation, string)
}

// slurmctldNames are the names of slurmctld's file, best first.
var slurmctldNames = []string{"slurmctld-wlm", "slurmctld"}

var programs = []program{
	{
		// With the emulator package installed, slurmctld may be the emulator. In that case the real daemon is slurmctld-wlm.
		name: "slurmctld", files: slurmctldNames, pkg: "slurmctld", slurm: true,
		why: "the controller on which replays run", version: []string{"-V"},
		set: func(in *Installation, p string) { in.Slurmctld = p },
	},
	{
		name: "scontrol", files: []string{"scontrol"}, pkg: "slurm-client", slurm: true,
		why: "reservations and the state of nodes", version: []string{"-V"},
		set: func(in *Installation, p string) { in.Scontrol = p },
	},
	{
		name: "squeue", files: []string{"squeue"}, pkg: "slurm-client", slurm: true,
		why: "a look at the queue of a running replay", version: []string{"-V"},
		set: func(in *Installation, p string) { in.Squeue = p },
	},
	{
		name: "slurmdbd", files: []string{"slurmdbd"}, pkg: "slurmdbd", slurm: true, forDB: true,
		why: "accounts, limits and fair-share", version: []string{"-V"},
		set: func(in *Installation, p string) { in.Slurmdbd = p },
	},
	{
		name: "sacctmgr", files: []string{"sacctmgr"}, pkg: "slurm-client", slurm: true, forDB: true,
		why: "fills the accounting database", version: []string{"-V"},
		set: func(in *Installation, p string) { in.Sacctmgr = p },
	},
	{
		name: "sacct", files: []string{"sacct"}, pkg: "slurm-client", slurm: true, forDB: true,
		why: "checks the run record against the accounting database", version: []string{"-V"},
		set: func(in *Installation, p string) { in.Sacct = p },
	},
	{
		name: "mariadbd", files: []string{"mariadbd"}, pkg: "mariadb-server-core", forDB: true,
		why: "the database of slurmdbd, in a private directory", version: []string{"--no-defaults", "--version"},
		set: func(in *Installation, p string) { in.Mariadbd = p },
	},
}

// plugin is a file of Slurm's plugin directory that every replay needs. The site's
// configuration may need more plugins.
type plugin struct {
	name, why, pkg string
	forDB          bool
}

var plugins = []plugin{
	{name: "auth_none", why: "messages without munge", pkg: "slurm-wlm-basic-plugins"},
	{name: "cred_none", why: "job credentials without keys", pkg: "slurm-wlm-basic-plugins"},
	{name: "hash_k12", why: "checksums of messages", pkg: "slurm-wlm-basic-plugins"},
	{name: "jobcomp_filetxt", why: "each job's record, the moment it ends", pkg: "slurm-wlm-basic-plugins"},
	{name: "accounting_storage_slurmdbd", why: "slurmctld's side of accounting", pkg: "slurm-wlm-basic-plugins", forDB: true},
	{name: "accounting_storage_mysql", why: "slurmdbd's side of accounting", pkg: "slurm-wlm-mysql-plugin", forDB: true},
}

// finder lists the directories to search. Tests use other directories.
type finder struct {
	dir        string   // the directory that the user named as Slurm's, or empty
	loader     *Loader  // the loader of the Slurm in dir, or nil
	slurmDirs  []string // directories of Slurm's programs, best first
	slurmHomes []string // prefixes that may hold Slurm's plugin directory
	otherDirs  []string // directories of the other programs
	libDirs    []string // directories of libraries
	database   string   // root with MariaDB and nss_wrapper if the machine lacks them; may be empty
	// ask runs a program for its version, with Slurm's plugins in the given directory, and returns
	// the output. The error says why the program does not run.
	ask func(plugins, path string, args ...string) (string, error)
}

// onMachine returns a finder for the machine's own Slurm.
func onMachine() finder {
	path := filepath.SplitList(os.Getenv("PATH"))
	path = append(path, "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/bin", "/bin", "/usr/libexec")
	f := finder{slurmDirs: path, otherDirs: path, slurmHomes: []string{"/usr", "/usr/local"}, ask: ask}
	for _, lib := range []string{"/usr/lib", "/usr/local/lib"} {
		f.libDirs = append(f.libDirs, filepath.Join(lib, multiarch()), lib)
	}
	f.libDirs = append(f.libDirs, "/usr/lib64", "/usr/local/lib64")
	if stored, err := slurmstore.InstalledDatabase(); err == nil { // doctor's list of stores has the error
		f.database = stored.Path
	}
	return f
}

// within makes the finder look for Slurm only in the directory that the user named.
func (f *finder) within(named string) error {
	var err error
	if f.dir, err = directory(named, slurmstore.Root); err != nil {
		return err
	}
	prefix, err := prefixOf(f.dir)
	if err != nil {
		return &DirectoryError{named, err}
	}
	f.slurmDirs = []string{filepath.Join(prefix, "sbin"), filepath.Join(prefix, "bin")}
	f.slurmHomes = []string{prefix}
	slurmctld := executable(f.slurmDirs, slurmctldNames)
	if err := checkProgram(slurmctld); err != nil {
		return err
	}
	f.loader = findLoader(rootOf(f.dir, prefix), slurmctld)
	return nil
}

// multiarch returns Debian's directory name for this machine's libraries.
func multiarch() string {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64", "ppc64le": "powerpc64le"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	return arch + "-linux-gnu"
}

// find looks for all requirements.
func (f finder) find() *Installation {
	in := &Installation{Dir: f.dir, Loader: f.loader}
	f.findPluginDir(in)
	for _, p := range programs {
		dirs := f.otherDirs
		if p.slurm {
			dirs = f.slurmDirs
		}
		it := Item{Requirement: requirement(p.name, p.why, p.pkg, p.forDB, p.slurm), Path: executable(dirs, p.files)}
		if it.Path == "" && !p.slurm {
			it.Path = f.findInDatabase(in, p)
		}
		p.set(in, it.Path) // the loader's command needs slurmctld's path
		if it.Path != "" && p.version != nil {
			var answer string
			answer, it.fails = f.version(in, p, it.Path)
			it.Version = versionIn(answer)
		}
		in.add(it)
	}
	in.Version = in.item("slurmctld").Version
	in.Release, _ = slurmspec.ParseRelease(in.Version)
	in.MariaDBVersion = in.item("mariadbd").Version
	f.findPlugins(in)
	findSystemTables(in)
	f.findNSSWrapper(in)
	return in
}

// findInDatabase looks for a program in the store's database root. It sets the loader that starts
// the program.
func (f finder) findInDatabase(in *Installation, p program) string {
	if f.database == "" {
		return ""
	}
	var dirs []string
	for _, dir := range []string{"usr/sbin", "usr/libexec", "usr/bin", "usr/local/sbin"} {
		dirs = append(dirs, filepath.Join(f.database, dir))
	}
	path := executable(dirs, p.files)
	if path != "" {
		in.DatabaseLoader = ownLoader(f.database, path)
	}
	return path
}

// findSystemTables finds the file of system tables that belongs to mariadbd, if there is one.
// MariaDB 11 renamed the file.
func findSystemTables(in *Installation) {
	if in.Mariadbd == "" {
		return // mariadbd's package has both files
	}
	it := Item{Requirement: requirement("MariaDB's system tables", "the database keeps slurmdbd's procedures there", "mariadb-server-core", true, false)}
	if program, err := filepath.EvalSymlinks(in.Mariadbd); err == nil {
		prefix := filepath.Dir(filepath.Dir(program))
		for _, dir := range []string{"share/mariadb", "share/mysql", "share"} {
			for _, name := range []string{"mariadb_system_tables.sql", "mysql_system_tables.sql"} {
				if path := filepath.Join(prefix, dir, name); it.Path == "" && isFile(path) {
					it.Path = path
				}
			}
		}
	}
	in.SystemTables = it.Path
	in.add(it)
}

func requirement(name, why, pkg string, accounting, slurm bool) Requirement {
	r := Requirement{Name: name, Why: why, Package: pkg, Accounting: accounting, Slurm: slurm}
	r.Fix = InstallCommand([]Requirement{r})
	return r
}

// add adds an item. An item without a path is missing.
func (in *Installation) add(it Item) {
	in.Items = append(in.Items, it)
	if it.Path == "" {
		in.Missing = append(in.Missing, it.Requirement)
	}
}

// item returns the item with a name, or the zero item.
func (in *Installation) item(name string) Item {
	for _, it := range in.Items {
		if it.Name == name {
			return it
		}
	}
	return Item{}
}

// version asks a program for its version.
func (f finder) version(in *Installation, p program, path string) (string, error) {
	args := append([]string{path}, p.version...)
	plugins := ""
	if p.slurm {
		path, args = in.Command(path, args)
		plugins = in.PluginDir
	} else {
		path, args = in.databaseCommand(path, args)
	}
	return f.ask(plugins, path, args[1:]...)
}

// findPluginDir finds the plugin directory, without which the programs cannot print their versions. It prefers the
// directory under slurmctld's own prefix. If there is a loader, the directory becomes its first directory of libraries,
// because Slurm's own library is there.
func (f finder) findPluginDir(in *Installation) {
	homes := slices.Clone(f.slurmHomes)
	if slurmctld := executable(f.slurmDirs, slurmctldNames); slurmctld != "" {
		homes = append([]string{filepath.Dir(filepath.Dir(slurmctld))}, homes...)
	}
	in.PluginDir = pluginDir(homes)
	if in.Loader != nil && in.PluginDir != "" {
		in.Loader.Libraries = append([]string{in.PluginDir}, in.Loader.Libraries...)
	}
}

// findPlugins finds the plugins in the plugin directory.
func (f finder) findPlugins(in *Installation) {
	for _, p := range plugins {
		it := Item{Requirement: requirement(p.name, p.why, p.pkg, p.forDB, true)}
		if path := filepath.Join(in.PluginDir, p.name+".so"); in.PluginDir != "" && isFile(path) {
			it.Path, it.Release = path, pluginRelease(path)
		}
		in.add(it)
	}
}

// pluginDir returns the first plugin directory under the prefixes. Debian calls it slurm-wlm,
// and Slurm's own build calls it slurm.
func pluginDir(prefixes []string) string {
	for _, prefix := range prefixes {
		for _, lib := range []string{filepath.Join("lib", multiarch()), "lib64", "lib"} {
			for _, name := range []string{"slurm-wlm", "slurm"} {
				dir := filepath.Join(prefix, lib, name)
				if isFile(filepath.Join(dir, slurmLibrary)) {
					return dir
				}
			}
		}
	}
	return ""
}

func (f finder) findNSSWrapper(in *Installation) {
	it := Item{Requirement: requirement("libnss_wrapper.so", "users and groups of the workload without root", "libnss-wrapper", false, false)}
	dirs := f.libDirs
	if f.database != "" {
		dirs = slices.Concat(dirs, libraryDirs(f.database))
	}
	for _, dir := range dirs {
		if path := filepath.Join(dir, "libnss_wrapper.so"); isFile(path) {
			it.Path = path
			break
		}
	}
	in.NSSWrapper = it.Path
	in.add(it)
}

// executable returns the first executable file with one of the names. It skips Debian's emulator,
// which may have the name of a real program. An earlier name wins, even if its file is in a later
// directory.
func executable(dirs, names []string) string {
	for _, name := range names {
		for _, dir := range dirs {
			path := filepath.Join(dir, name)
			if !filepath.IsAbs(path) || !isExecutable(path) {
				continue
			}
			if target, err := filepath.EvalSymlinks(path); err != nil || strings.Contains(filepath.Base(target), "emulator") {
				continue
			}
			return path
		}
	}
	return ""
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// askScript asks a program of Slurm for its version. Most programs first read a slurm.conf.
// slurmdbd looks for its slurmdbd.conf beside it, and refuses a file that other users can read.
// The script's first argument is the directory for both files. The script makes and removes this
// directory. The second argument is Slurm's plugin directory, or empty. The script runs in its own
// session: it removes the directory even if this program is killed.
const askScript = `
umask 077
dir=$1
plugins=${2:+PluginDir=$2}
shift 2
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT QUIT ABRT USR1 USR2 PIPE TERM
mkdir "$dir" || exit 1
printf '%s\n' ClusterName=version SlurmctldHost=localhost AuthType=auth/none CredType=cred/none "$plugins" >"$dir/slurm.conf"
printf '%s\n' DbdHost=localhost StorageType=accounting_storage/mysql AuthType=auth/none "$plugins" >"$dir/slurmdbd.conf"
SLURM_CONF=$dir/slurm.conf "$@"
`

// ask runs a program for its version. The error has the last line that the program printed.
func ask(plugins, path string, args ...string) (string, error) {
	parent := os.TempDir()
	if _, err := usable(parent); err != nil {
		parent = "/dev/shm"
	}
	dir := filepath.Join(parent, "rmreplay-version-"+rand.Text())
	defer func() { _ = os.RemoveAll(dir) }() // dir still exists only if the script was killed
	cmd := exec.Command("/bin/sh", slices.Concat([]string{"-c", askScript, "sh", dir, plugins, path}, args)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.CombinedOutput()
	if err != nil { // the output may have other numbers like a version
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return "", fmt.Errorf("does not run (%w): %.300s", err, lines[len(lines)-1])
	}
	return string(out), nil
}

var versionPattern = regexp.MustCompile(`\b\d+\.\d+[0-9A-Za-z.~-]*`)

// versionIn returns the first version number in a program's output: "22.05.8" in
// "slurm-wlm 22.05.8".
func versionIn(answer string) string {
	v := versionPattern.FindString(answer)
	v, _, _ = strings.Cut(v, "-MariaDB")
	return strings.TrimRight(v, ".-")
}
