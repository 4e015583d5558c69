package install

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"rmreplay/internal/slurmspec"
)

// PrefixVariable is the environment variable that names the prefix of a Slurm
// installed outside the usual places, such as /opt/slurm/22.05.8. When it is set,
// Slurm is looked for there and nowhere else.
const PrefixVariable = "RMREPLAY_SLURM"

// Installation says where the programs are. A path is empty where Missing names
// what was not found.
type Installation struct {
	Slurmctld, Slurmdbd               string
	Sacctmgr, Sacct, Scontrol, Squeue string
	Mariadbd, MariadbInstallDB        string
	// NSSWrapper is the library that gives processes their own passwd and group.
	NSSWrapper string
	// PluginDir is Slurm's plugin directory.
	PluginDir string
	// Version is what slurmctld says of its version, such as "22.05.8"; empty where it did not
	// say. Release is the same as a value, zero where Version is no release of Slurm.
	Version string
	Release slurmspec.Release
	// MariaDBVersion is mariadbd's, such as "10.11.19-MariaDB"; empty where it did
	// not say.
	MariaDBVersion string

	// Prefix is the value of [PrefixVariable]: where alone Slurm was looked for.
	Prefix string

	// Items are all requirements in the order in which a person would look at
	// them, with what was found.
	Items []Item
	// Missing are the requirements that were not found.
	Missing []Requirement
}

// Requirement is one thing that has to be installed.
type Requirement struct {
	Name string // "slurmctld", "jobcomp_filetxt"
	Why  string // what a replay needs it for
	Fix  string // the command that mends it
	// Package is the Debian package that has it.
	Package string
	// Accounting says that only replays with slurmdbd need it.
	Accounting bool
}

// Item is a requirement and what was found of it.
type Item struct {
	Requirement
	Path    string // empty if missing
	Version string // empty where it has none or did not say
}

// Find looks for everything. The installation is never nil and holds all that was
// found. The error is a [*MissingError] or a [*VersionError] if a replay with
// accounting cannot run here.
func Find() (*Installation, error) {
	in := fromEnvironment().find()
	return in, in.Need(true)
}

// Need returns nil if a replay can run here, a [*MissingError] that names all that
// is not there, or a [*VersionError]. Without accounting, slurmdbd and MariaDB are
// not asked for.
func (in *Installation) Need(accounting bool) error {
	var missing []Requirement
	for _, r := range in.Missing {
		if accounting || !r.Accounting {
			missing = append(missing, r)
		}
	}
	if len(missing) > 0 {
		return &MissingError{Missing: missing, Prefix: in.Prefix}
	}
	for _, it := range in.Items {
		if !it.slurmProgram() || it.Accounting && !accounting || it.Version == "" || supported(it.Version) {
			continue
		}
		return &VersionError{Program: it.Name, Path: it.Path, Found: it.Version}
	}
	if in.Version == "" {
		return &VersionError{Program: "slurmctld", Path: in.Slurmctld}
	}
	return nil
}

// MissingError says what has to be installed before a replay can run.
type MissingError struct {
	Missing []Requirement // at least one
	Prefix  string        // where alone Slurm was looked for, or empty
}

// Error names what is missing and the command that installs it.
func (e *MissingError) Error() string {
	names := make([]string, len(e.Missing))
	for i, r := range e.Missing {
		names[i] = r.Name
	}
	text := fmt.Sprintf("missing on this machine: %s (install with: %s)", strings.Join(names, ", "), InstallCommand(e.Missing))
	if e.Prefix != "" {
		text += fmt.Sprintf("; Slurm is looked for in %s only, since %s names it", e.Prefix, PrefixVariable)
	}
	return text
}

// VersionError says that Slurm is installed in a version that cannot be used.
type VersionError struct {
	Program, Path string
	Found         string // the version it reports, or empty
}

// Error names the version found and the one supported.
func (e *VersionError) Error() string {
	found := "version " + e.Found
	if e.Found == "" {
		found = "does not say its version"
	}
	return fmt.Sprintf("%s (%s): %s: not supported (want Slurm %s, as in Debian 12; %s names the prefix of another installation)",
		e.Program, e.Path, found, SupportedSeries(), PrefixVariable)
}

// SupportedSeries names the supported releases for people: "22.05.x", or "22.05.x or 24.11.x".
func SupportedSeries() string {
	var names []string
	for _, r := range slurmspec.SupportedReleases() {
		names = append(names, r.String()+".x")
	}
	return strings.Join(names, " or ")
}

// InstallCommand is the command that installs the packages of the requirements on
// Debian and its descendants. Recommended packages are left out: slurmd and a
// configured database server are among them.
func InstallCommand(reqs []Requirement) string {
	var packages []string
	for _, r := range reqs {
		if !slices.Contains(packages, r.Package) {
			packages = append(packages, r.Package)
		}
	}
	return "apt-get install --no-install-recommends " + strings.Join(packages, " ")
}

// supported reports whether version is a supported release.
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
	files   []string // names it may have, best first
	why     string
	pkg     string
	slurm   bool // part of Slurm, and looked for under its prefix
	forDB   bool // only accounting needs it
	version []string
	set     func(*Installation, string)
}

var programs = []program{
	{
		// Where the emulator package is installed, slurmctld may be the emulator
		// and slurmctld-wlm is the real one.
		name: "slurmctld", files: []string{"slurmctld-wlm", "slurmctld"}, pkg: "slurmctld", slurm: true,
		why: "the controller that is replayed on", version: []string{"-V"},
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
	{
		name: "mariadb-install-db", files: []string{"mariadb-install-db"}, pkg: "mariadb-server-core", forDB: true,
		why: "creates that database",
		set: func(in *Installation, p string) { in.MariadbInstallDB = p },
	},
	{
		name: "my_print_defaults", files: []string{"my_print_defaults"}, pkg: "mariadb-client-core", forDB: true,
		why: "mariadb-install-db runs it",
		set: func(*Installation, string) {}, // found by mariadb-install-db itself
	},
}

// plugin is a file of Slurm's plugin directory that every replay needs, whatever
// the site's configuration names besides.
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

// finder knows where to look. Tests give it directories of their own.
type finder struct {
	prefix     string   // of [PrefixVariable]
	slurmDirs  []string // directories of Slurm's programs, best first
	slurmHomes []string // prefixes that may hold Slurm's plugin directory
	otherDirs  []string // directories of the other programs
	libDirs    []string // directories of libraries
	// ask runs a program for its version and returns what it prints.
	ask func(conf, path string, args ...string) string
}

// fromEnvironment looks where this process's environment says.
func fromEnvironment() finder {
	path := filepath.SplitList(os.Getenv("PATH"))
	path = append(path, "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/bin", "/bin", "/usr/libexec")
	f := finder{slurmDirs: path, otherDirs: path, ask: ask}
	if prefix := os.Getenv(PrefixVariable); prefix != "" {
		f.slurmDirs = []string{filepath.Join(prefix, "sbin"), filepath.Join(prefix, "bin")}
		f.slurmHomes = []string{prefix}
		f.prefix = prefix
	} else {
		f.slurmHomes = []string{"/usr", "/usr/local"}
	}
	for _, lib := range []string{"/usr/lib", "/usr/local/lib"} {
		f.libDirs = append(f.libDirs, filepath.Join(lib, multiarch()), lib)
	}
	f.libDirs = append(f.libDirs, "/usr/lib64", "/usr/local/lib64")
	return f
}

// multiarch is Debian's name for this machine's libraries.
func multiarch() string {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64", "ppc64le": "powerpc64le"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	return arch + "-linux-gnu"
}

// find looks for everything once.
func (f finder) find() *Installation {
	in := &Installation{Prefix: f.prefix}
	conf, remove := versionConf()
	defer remove()
	for _, p := range programs {
		dirs := f.otherDirs
		if p.slurm {
			dirs = f.slurmDirs
		}
		it := Item{Requirement: requirement(p.name, p.why, p.pkg, p.forDB), Path: executable(dirs, p.files)}
		if it.Path != "" && p.version != nil {
			it.Version = versionIn(f.ask(conf, it.Path, p.version...))
		}
		p.set(in, it.Path)
		in.add(it)
	}
	in.Version = in.version("slurmctld")
	in.Release, _ = slurmspec.ParseRelease(in.Version)
	in.MariaDBVersion = in.version("mariadbd")
	f.findPlugins(in)
	f.findNSSWrapper(in)
	return in
}

func requirement(name, why, pkg string, accounting bool) Requirement {
	r := Requirement{Name: name, Why: why, Package: pkg, Accounting: accounting}
	r.Fix = InstallCommand([]Requirement{r})
	return r
}

// add notes an item, and that it is missing if it has no path.
func (in *Installation) add(it Item) {
	in.Items = append(in.Items, it)
	if it.Path == "" {
		in.Missing = append(in.Missing, it.Requirement)
	}
}

func (in *Installation) version(name string) string {
	for _, it := range in.Items {
		if it.Name == name {
			return it.Version
		}
	}
	return ""
}

// findPlugins finds the plugin directory: the one that goes with slurmctld, or the
// first that has what a replay needs.
func (f finder) findPlugins(in *Installation) {
	homes := slices.Clone(f.slurmHomes)
	if in.Slurmctld != "" {
		homes = append([]string{filepath.Dir(filepath.Dir(in.Slurmctld))}, homes...)
	}
	in.PluginDir = pluginDir(homes)
	for _, p := range plugins {
		it := Item{Requirement: requirement(p.name, p.why, p.pkg, p.forDB)}
		if path := filepath.Join(in.PluginDir, p.name+".so"); in.PluginDir != "" && isFile(path) {
			it.Path = path
		}
		in.add(it)
	}
}

// pluginDir returns the first plugin directory under the prefixes: Debian's
// name for it, or the name that Slurm's own build gives it.
func pluginDir(prefixes []string) string {
	for _, prefix := range prefixes {
		for _, lib := range []string{filepath.Join("lib", multiarch()), "lib64", "lib"} {
			for _, name := range []string{"slurm-wlm", "slurm"} {
				dir := filepath.Join(prefix, lib, name)
				if isFile(filepath.Join(dir, "libslurmfull.so")) {
					return dir
				}
			}
		}
	}
	return ""
}

func (f finder) findNSSWrapper(in *Installation) {
	it := Item{Requirement: requirement("libnss_wrapper.so", "users and groups of the workload without root", "libnss-wrapper", false)}
	for _, dir := range f.libDirs {
		if path := filepath.Join(dir, "libnss_wrapper.so"); isFile(path) {
			it.Path = path
			break
		}
	}
	in.NSSWrapper = it.Path
	in.add(it)
}

// executable returns the first file of the given names that can be run and is not
// Debian's emulator under a real program's name. A better name in a later
// directory wins over a worse name in an earlier one.
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

// versionConf makes a directory with the least configuration that Slurm's programs
// insist on reading before they say their version, and returns the path of the
// slurm.conf in it. It is empty where no directory could be made; the programs
// that need it then do not say their version.
func versionConf() (path string, remove func()) {
	dir, err := os.MkdirTemp("", "rmreplay-version-")
	if err != nil {
		return "", func() {}
	}
	remove = func() { _ = os.RemoveAll(dir) } // what stays is an empty configuration
	files := map[string]string{
		"slurm.conf":    "ClusterName=version\nSlurmctldHost=localhost\nAuthType=auth/none\nCredType=cred/none\n",
		"slurmdbd.conf": "DbdHost=localhost\nStorageType=accounting_storage/mysql\nAuthType=auth/none\n",
	}
	for name, text := range files {
		// slurmdbd refuses a configuration that others can read.
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return "", remove
		}
	}
	return filepath.Join(dir, "slurm.conf"), remove
}

func ask(conf, path string, args ...string) string {
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "SLURM_CONF="+conf, "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "" // its complaint may hold numbers that look like a version
	}
	return string(out)
}

var versionPattern = regexp.MustCompile(`\b\d+\.\d+[0-9A-Za-z.~-]*`)

// versionIn is the first version number of a program's answer: of
// "slurm-wlm 22.05.8" it is "22.05.8".
func versionIn(answer string) string {
	v := versionPattern.FindString(answer)
	v, _, _ = strings.Cut(v, "-MariaDB")
	return strings.TrimRight(v, ".-")
}
