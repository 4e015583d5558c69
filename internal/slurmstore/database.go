package slurmstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// Database is a root with MariaDB and nss_wrapper, which a machine may lack. One database root
// serves all releases of Slurm, including those outside the store. Version is the version of
// MariaDB.
type Database Slurm

// databaseName is the database's directory in a store. It begins with a dot, like all names that
// are not releases.
const databaseName = ".database"

// databaseSuites are Debian's suites for the database, the best first. nss_wrapper is loaded into
// programs of the machine and of a release, so it must not require a newer C library than these
// programs have. The nss_wrapper of bullseye requires glibc 2.14, and the nss_wrapper of bookworm
// 2.34.
var databaseSuites = []string{"bullseye", "bookworm"}

// databasePackages are the packages for the database's root; their dependencies are installed, too.
// In bullseye, the version is part of the name of MariaDB's package.
var databasePackages = []string{"mariadb-server-core-10.5", "mariadb-server-core", "libnss-wrapper"}

// Possible paths of the files that a database root must have.
var (
	mariadbPaths = []string{"usr/sbin/mariadbd", "usr/libexec/mariadbd", "usr/bin/mariadbd", "usr/local/sbin/mariadbd"}
	wrapperPaths = []string{"usr/lib/*-linux-gnu/libnss_wrapper.so", "usr/lib64/libnss_wrapper.so",
		"usr/lib/libnss_wrapper.so"}
)

// InstalledDatabase returns the database root in the user's store, or else in [SharedDir]. The
// error is [fs.ErrNotExist] if neither store has a database root.
func InstalledDatabase() (Database, error) {
	s, err := Default()
	if err != nil {
		return Database{}, err
	}
	return s.database()
}

func (s *Store) database() (Database, error) {
	one, err := describe(filepath.Join(s.dir, databaseName))
	if errors.Is(err, fs.ErrNotExist) && s.shared != "" {
		one, err = describe(filepath.Join(s.shared, databaseName))
	}
	return Database(one), err
}

// InstallDatabase installs MariaDB and nss_wrapper into the store, from Debian or from req.From.
// It ignores req.Version. It returns the same results and errors as [Store.Install].
func (s *Store) InstallDatabase(ctx context.Context, req Request, hooks Hooks) (one Database, had bool, err error) {
	if one, err = s.database(); !errors.Is(err, fs.ErrNotExist) {
		return one, err == nil, err
	}
	var made Slurm
	err = s.unpacked(func(t *tree, scratch string) error {
		made.Source, err = fill(ctx, t, req, hooks, func() (string,
			error) {
			return databaseFromDebian(ctx, t, req, scratch, hooks)
		})
		if err != nil {
			return err
		}
		hooks.Step("checking that MariaDB runs")
		if made.Version, err = checkDatabase(ctx, t); err != nil {
			return blame(ctx, req, err)
		}
		made.Installed, made.Size = time.Now().UTC().Truncate(time.Second), t.size
		made, had, err = s.place(t, made, databaseName)
		return err
	})
	return Database(made), had, err
}

// databaseFromDebian fills the tree with packages of the first suite that the mirror has.
func databaseFromDebian(ctx context.Context, t *tree, req Request, scratch string, hooks Hooks) (source string,
	err error) {
	a, err := newApt(ctx, scratch, req, hooks)
	if err != nil {
		return "", err
	}
	for _, suite := range databaseSuites {
		hooks.Step("reading the index of Debian's " + suite)
		var versions map[string]string
		if versions, err = a.index(ctx, suite, databasePackages); err != nil {
			continue // mirrors remove old suites
		}
		names := slices.Sorted(maps.Keys(versions))
		return "Debian " + suite, a.install(ctx, t, names, "MariaDB of Debian's "+suite)
	}
	return "", err
}

// mariadbVersion matches the version in the output of mariadbd --version.
var mariadbVersion = regexp.MustCompile(`\bVer (\d+\.\d+\.\d+)`)

// checkDatabase runs the root's mariadbd, as [check] runs slurmctld, and returns the version.
func checkDatabase(ctx context.Context, t *tree) (string, error) {
	if _, err := t.first(wrapperPaths); err != nil {
		return "", fmt.Errorf("the root has no libnss_wrapper.so (want it in one of %q)", wrapperPaths)
	}
	daemon, err := t.first(mariadbPaths)
	if err != nil {
		return "", fmt.Errorf("the root has no mariadbd (want it in one of %q)", mariadbPaths)
	}
	text, err := t.ask(ctx, daemon, "--no-defaults", "--version")
	if err != nil {
		return "", err
	}
	m := mariadbVersion.FindStringSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("%s --version prints %q (want the version of MariaDB)", daemon, text)
	}
	return m[1], nil
}

// RemoveDatabase removes the database root from the store and returns its description. The error is
// an [*InputError] if the store has no database root.
func (s *Store) RemoveDatabase() (Database, error) {
	one, err := s.database()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return one, &InputError{
			"database", errors.New("the store has no database (want a release that rmreplay slurm list shows)"),
		}
	case err == nil && filepath.Dir(one.Path) != s.dir:
		return one, &InputError{"database", fmt.Errorf("is in %s, for all users, and only root can remove it (as root: "+
			"rmreplay slurm remove database)", s.shared)}
	}
	if err == nil {
		err = s.locked(func() error { return os.Rename(one.Path, s.temporary()) })
	}
	if err == nil {
		err = s.sweep()
	}
	if err != nil {
		return one, fmt.Errorf("removing the database from the store: %w", err)
	}
	return one, nil
}
