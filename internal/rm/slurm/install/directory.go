package install

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmstore"
)

// DirectoryError says that the directory or version that the user named has no Slurm.
type DirectoryError struct {
	Named string // the user's text: a directory or a version
	Err   error
}

func (e *DirectoryError) Error() string { return fmt.Sprintf("Slurm %s: %v", e.Named, e.Err) }

// Unwrap returns the wrapped error.
func (e *DirectoryError) Unwrap() error { return e.Err }

// directory returns the directory of the Slurm that the user named. The parameter named is a
// directory or a version. A version selects its newest release in the store. The error is a
// [*DirectoryError], or a [*slurmstore.NotInstalledError].
func directory(named string, root func(version string) (string, error)) (string, error) {
	if want, err := slurmspec.ParseRelease(named); err == nil && want.String() == named {
		return root(named)
	}
	dir, err := filepath.Abs(named)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err == nil && !isDirectory(dir) {
		err = fmt.Errorf("%s: not a directory", dir)
	}
	if errors.Is(err, os.ErrNotExist) {
		err = errors.New("no such directory (want a directory with sbin/slurmctld or usr/sbin/slurmctld, or a version such " +
			"as 24.11)")
	}
	if err != nil {
		return "", &DirectoryError{named, err}
	}
	return dir, nil
}

// prefixOf returns the prefix of the Slurm in a directory. The prefix is the directory itself or, in the root of an
// image, usr, usr/local or opt/slurm. The prefix may also be the only directory in opt/slurm with a slurmctld.
func prefixOf(dir string) (string, error) {
	for _, below := range []string{"", "usr", "usr/local", "opt/slurm"} {
		if prefix := filepath.Join(dir, below); hasController(prefix) {
			return prefix, nil
		}
	}
	var builds []string
	entries, _ := os.ReadDir(filepath.Join(dir, "opt/slurm")) // empty if opt/slurm is missing
	for _, e := range entries {
		// A link such as "current" leads to a build that the directory also lists under its own name.
		prefix, err := filepath.EvalSymlinks(filepath.Join(dir, "opt/slurm", e.Name()))
		if err == nil && hasController(prefix) && !slices.Contains(builds, prefix) {
			builds = append(builds, prefix)
		}
	}
	switch len(builds) {
	case 0:
		return "", errors.New("no slurmctld there (want sbin/slurmctld, or usr/sbin/slurmctld in the root of an image)")
	case 1:
		return builds[0], nil
	}
	return "", fmt.Errorf("several builds of Slurm there: %s (want the directory of one)", strings.Join(builds, ", "))
}

func hasController(prefix string) bool {
	return executable([]string{filepath.Join(prefix, "sbin"), filepath.Join(prefix, "bin")}, slurmctldNames) != ""
}

// Reach returns a [*DirectoryError] if root's daemons, which run as another user, cannot read the
// directory.
func (in *Installation) Reach() error {
	if in.Dir == "" {
		return nil
	}
	if err := searchable(in.Dir); err != nil {
		return &DirectoryError{in.Dir, err}
	}
	return nil
}

// Slurm is one Slurm that --slurm can name.
type Slurm struct {
	// Named is the value of --slurm; empty for the machine's own Slurm, "store" if the store cannot
	// be read.
	Named   string   `json:"named"`
	Version string   `json:"version"` // of slurmctld; empty if it reports none
	Path    string   `json:"path"`    // its slurmctld; empty if there is none
	Lacks   []string `json:"lacks"`   // missing files, or the error
	Chosen  bool     `json:"chosen"`  // the report's checks are about this Slurm
}

// slurms lists the Slurms that --slurm can name: the chosen Slurm, the machine's own, and those in
// the store.
func slurms(chosen *Installation) []Slurm {
	list := []Slurm{chosen.summary(chosen.Dir, true)}
	if chosen.Dir != "" {
		if own := onMachine().find(); own.Slurmctld != "" {
			list = append(list, own.summary("", false))
		}
	}
	stored, err := slurmstore.List()
	if err != nil {
		return append(list, Slurm{Named: "store", Lacks: []string{err.Error()}})
	}
	for _, one := range stored {
		if one.Path != chosen.Dir {
			in, _ := FindSlurm(one.Path) // the checks report what is wrong
			list = append(list, in.summary(one.Version, false))
		}
	}
	return list
}

func (in *Installation) summary(named string, chosen bool) Slurm {
	s := Slurm{Named: named, Version: in.Version, Path: in.Slurmctld, Lacks: []string{}, Chosen: chosen}
	for _, it := range in.Items {
		if it.Path == "" && (it.slurmProgram() || it.slurmPlugin()) {
			s.Lacks = append(s.Lacks, it.Name)
		}
	}
	var missing *MissingError
	if err := in.Need(true); err != nil && !errors.As(err, &missing) {
		s.Lacks = append(s.Lacks, err.Error())
	}
	if err := in.Reach(); err != nil && in.wrong == nil {
		s.Lacks = append(s.Lacks, err.Error())
	}
	return s
}

func (it Item) slurmPlugin() bool {
	return slices.ContainsFunc(plugins, func(p plugin) bool { return p.name == it.Name })
}
