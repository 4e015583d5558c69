package slurmstore

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"rmreplay/internal/input"
	"rmreplay/internal/slurmspec"
)

// Store is a directory of releases: one root per release, named after its version ("24.11.5").
type Store struct {
	dir    string // releases are installed here
	shared string // another directory in which releases are found; may be empty
}

// SharedDir is root's store, which all users can read. It is not below root's home, because root's
// daemons run as another user who cannot read that directory.
const SharedDir = "/var/cache/rmreplay/slurm"

// At returns the store in a directory, which does not have to exist.
func At(dir string) *Store { return &Store{dir: dir} }

// Default returns the user's store, $XDG_CACHE_HOME/rmreplay/slurm. If the variable is not set, the store is
// [SharedDir] for root and ~/.cache/rmreplay/slurm for other users. A user's store also includes the releases in
// SharedDir.
func Default() (*Store, error) {
	if os.Geteuid() == 0 && os.Getenv("XDG_CACHE_HOME") == "" {
		return At(SharedDir), nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("looking for the store of Slurm releases: %w", err)
	}
	return &Store{dir: filepath.Join(cache, "rmreplay", "slurm"), shared: SharedDir}, nil
}

// Slurm is a release in the store.
type Slurm struct {
	Version   string    `json:"version"`               // "24.11.5"
	Source    string    `json:"source"`                // "Debian trixie (slurmctld 24.11.5-4)", or a path
	Installed time.Time `json:"installed_at,omitzero"` // UTC
	Size      int64     `json:"size_bytes,omitzero"`   // total size of its files
	Path      string    `json:"path"`                  // the root
}

// Release returns the parsed version.
func (s Slurm) Release() slurmspec.Release {
	r, _ := slurmspec.ParseRelease(s.Version) // List and Install have checked the version
	return r
}

// description is the file in a root that describes it. All other files in a root belong to Slurm.
const description = ".rmreplay.json"

// Root returns the root of a release in the user's store; see [Store.Root].
func Root(version string) (string, error) {
	s, err := Default()
	if err != nil {
		return "", err
	}
	return s.Root(version)
}

// List returns the releases in the user's store; see [Store.List].
func List() ([]Slurm, error) {
	s, err := Default()
	if err != nil {
		return nil, err
	}
	return s.List()
}

// Root returns the root of a release. A series such as 24.11 means the newest release of this
// series in the store. The error is an [*InputError] if version is not a version, and a
// [*NotInstalledError] if the store lacks the release.
func (s *Store) Root(version string) (string, error) {
	found, err := s.find(version)
	if err != nil {
		return "", err
	}
	return found[len(found)-1].Path, nil
}

// find returns the releases that match a version or a series, oldest first. Without an error there
// is at least one release.
func (s *Store) find(version string) ([]Slurm, error) {
	want, err := parse(version)
	if err != nil {
		return nil, err
	}
	all, err := s.List()
	if err != nil {
		return nil, err
	}
	var found []Slurm
	var names []string
	for _, one := range all {
		names = append(names, one.Version)
		if means(want, one.Release()) {
			found = append(found, one)
		}
	}
	if len(found) == 0 {
		return nil, &NotInstalledError{Version: version, Installed: names}
	}
	return found, nil
}

func parse(version string) (slurmspec.Release, error) {
	r, err := slurmspec.ParseRelease(version)
	if err != nil || r.String() != version {
		return r, &InputError{version, errors.New("not a version of Slurm (want, for example, 24.11 or 24.11.5)")}
	}
	return r, nil
}

// means reports whether a release is the wanted release, or belongs to the wanted series.
func means(want, release slurmspec.Release) bool {
	return want == release || want.Patch < 0 && want == release.Series()
}

// List returns the releases in the store, oldest first. A release in the user's store replaces the
// same release in [SharedDir]. A store that does not exist is empty.
func (s *Store) List() ([]Slurm, error) {
	list, err := listDir(s.dir)
	if err != nil {
		return nil, err
	}
	if s.shared != "" {
		others, err := listDir(s.shared)
		if err != nil {
			return nil, err
		}
		for _, other := range others {
			if !slices.ContainsFunc(list, func(own Slurm) bool { return own.Version == other.Version }) {
				list = append(list, other)
			}
		}
	}
	slices.SortFunc(list, func(a, b Slurm) int { return a.Release().Compare(b.Release()) })
	return list, nil
}

// listDir returns the releases in one directory.
func listDir(dir string) (list []Slurm, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing the store of Slurm releases: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		one, err := describe(filepath.Join(dir, e.Name()))
		if err == nil && (one.Version != e.Name() || one.Release().String() != one.Version) {
			err = fmt.Errorf("listing the store of Slurm releases: %s: its version %q differs from the directory's name",
				one.Path, one.Version)
		}
		if err != nil {
			return nil, fmt.Errorf("%w (want a root that rmreplay slurm install made; remove anything else)", err)
		}
		list = append(list, one)
	}
	return list, nil
}

// describe reads the description of a root in the store.
func describe(dir string) (one Slurm, err error) {
	path := filepath.Join(dir, description)
	text, err := input.ReadFile(path, maxJSON)
	if err != nil {
		return one, fmt.Errorf("listing the store of Slurm releases: %w", err)
	}
	if err := json.Unmarshal(text, &one); err != nil {
		return one, fmt.Errorf("listing the store of Slurm releases: %s: %w", path, err)
	}
	one.Path = dir
	return one, nil
}

// Remove removes a release from the store and returns its description. version may be a series if
// the store has only one release of the series. Remove refuses to remove releases in [SharedDir],
// with an [*InputError], unless the store is root's.
func (s *Store) Remove(version string) (Slurm, error) {
	found, err := s.find(version)
	if err != nil {
		return Slurm{}, err
	}
	shared := func(one Slurm) bool { return filepath.Dir(one.Path) != s.dir }
	if !slices.ContainsFunc(found, func(one Slurm) bool { return !shared(one) }) {
		return Slurm{}, &InputError{version, fmt.Errorf("is in %s, for all users, and only root can remove it (as root: "+
			"rmreplay slurm remove %s)", s.shared, version)}
	}
	found = slices.DeleteFunc(found, shared)
	if len(found) > 1 {
		var names []string
		for _, one := range found {
			names = append(names, one.Version)
		}
		return Slurm{}, &InputError{version, fmt.Errorf("the version fits several releases (want one of %s)",
			strings.Join(names, ", "))}
	}
	one := found[0]
	err = s.locked(func() error { return os.Rename(one.Path, s.temporary()) })
	if err == nil {
		err = s.sweep()
	}
	if err != nil {
		return Slurm{}, fmt.Errorf("removing Slurm %s: %w", one.Version, err)
	}
	return one, nil
}

// temporaryPrefix begins the names of temporary roots, which are being made or removed.
const temporaryPrefix = ".unfinished-"

func (s *Store) temporary() string { return filepath.Join(s.dir, temporaryPrefix+rand.Text()) }

// locked calls f while no other process makes, claims or sweeps temporary roots.
func (s *Store) locked(f func() error) error {
	mode := os.FileMode(0o700)
	if forAll() {
		mode = 0o755
	}
	if err := makeDir(s.dir, mode); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(s.dir, ".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := flock(lock, unix.LOCK_EX); err != nil {
		return err
	}
	return f()
}

// forAll says whether all users may read what this process installs. All users may read what root installs, because
// root's daemons run as another user.
func forAll() bool { return os.Geteuid() == 0 }

// makeDir creates a directory and its parents with a mode, regardless of the umask.
func makeDir(dir string, mode os.FileMode) error {
	err := os.Mkdir(dir, mode)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeDir(filepath.Dir(dir), mode); err != nil {
			return err
		}
		err = os.Mkdir(dir, mode)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	return os.Chmod(dir, mode)
}

// flock locks an open file or directory until it is closed, or until the process ends.
func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("flock", err)
		}
	}
}

// begin creates a temporary directory. Other processes do not sweep it until claim is closed.
func (s *Store) begin() (dir string, claim *os.File, err error) {
	err = s.locked(func() error {
		dir = s.temporary()
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		if claim, err = os.Open(dir); err != nil {
			return err
		}
		return flock(claim, unix.LOCK_EX|unix.LOCK_NB)
	})
	return dir, claim, err
}

// sweep removes the temporary directories that no process uses. Unused temporary directories are left from releases
// that were removed, and from processes that were killed.
func (s *Store) sweep() error {
	return s.locked(func() error {
		paths, err := filepath.Glob(filepath.Join(s.dir, temporaryPrefix+"*"))
		if err != nil {
			return err
		}
		for _, path := range paths {
			claim, err := os.Open(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue // renamed to a release, or removed by its own process
			}
			if err != nil {
				return err
			}
			if flock(claim, unix.LOCK_EX|unix.LOCK_NB) == nil {
				err = os.RemoveAll(path)
			}
			_ = claim.Close() // only the lock was needed
			if err != nil {
				return err
			}
		}
		return nil
	})
}
