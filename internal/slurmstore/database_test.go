package slurmstore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// database returns the entries of a root with MariaDB of the given version and with nss_wrapper.
func database(t *testing.T, version string) []entry {
	t.Helper()
	return append(saying(t, "usr/sbin/mariadbd", "mariadbd  Ver "+version+"-MariaDB-0+deb11u1 for debian-linux-gnu on x86_64"),
		entry{name: "usr/lib/x86_64-linux-gnu/libnss_wrapper.so"})
}

// TestInstallDatabase: the database is installed, is not a release, is found again, and is removed.
func TestInstallDatabase(t *testing.T) {
	s := newStore(t)
	from := write(t, t.TempDir(), "database.tar.gz", gzipped(t, archive(t, database(t, "10.5.29")...)))
	one, had, err := s.InstallDatabase(t.Context(), Request{From: from}, quiet)
	if err != nil || had || one.Version != "10.5.29" || one.Source != from || one.Size == 0 {
		t.Fatalf("%+v, %v, %v", one, had, err)
	}
	if _, err := os.Stat(filepath.Join(one.Path, "usr/sbin/mariadbd")); err != nil {
		t.Error(err)
	}
	again, had, err := s.InstallDatabase(t.Context(), Request{From: "/nonexistent"}, quiet)
	if err != nil || !had || again.Path != one.Path || again.Version != one.Version {
		t.Errorf("installed again: %+v, %v, %v", again, had, err)
	}
	if list, err := s.List(); err != nil || len(list) != 0 {
		t.Errorf("the list of releases is %v, %v", list, err)
	}
	other := &Store{dir: filepath.Join(t.TempDir(), "own"), shared: s.dir}
	if found, err := other.database(); err != nil || found.Path != one.Path {
		t.Errorf("in a store that shares: %+v, %v", found, err)
	}
	if _, err := other.RemoveDatabase(); !IsInput(err) || !strings.Contains(err.Error(), "for all users") {
		t.Errorf("removing what is shared: %v", err)
	}
	if removed, err := s.RemoveDatabase(); err != nil || removed.Version != "10.5.29" {
		t.Errorf("removed %+v, %v", removed, err)
	}
	if _, err := s.RemoveDatabase(); !IsInput(err) {
		t.Errorf("removing it again: %v", err)
	}
	if left := entriesOf(t, s); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestNoDatabase: a root that is not a database is refused, and leaves no files.
func TestNoDatabase(t *testing.T) {
	whole := database(t, "10.5.29")
	for name, tt := range map[string]struct {
		entries []entry
		want    string
	}{
		"no mariadbd":    {whole[1:], "has no mariadbd"},
		"no nss_wrapper": {whole[:len(whole)-1], "has no libnss_wrapper.so"},
		"no C library":   {append(append([]entry{}, whole[:2]...), whole[3:]...), "lacks the library libc.so.6"},
		"another program": {append(saying(t, "usr/sbin/mariadbd", "mysqld 8.0"), whole[len(whole)-1]),
			`prints "mysqld 8.0" (want the version of MariaDB)`},
	} {
		s := newStore(t)
		from := write(t, t.TempDir(), "database.tar", archive(t, tt.entries...))
		_, _, err := s.InstallDatabase(t.Context(), Request{From: from}, quiet)
		if !IsInput(err) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if left := entriesOf(t, s); len(left) != 0 {
			t.Errorf("%s: left behind: %v", name, left)
		}
	}
}
