package run

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// finishedRun writes an empty run record.
func finishedRun(t *testing.T, dir string) {
	t.Helper()
	w, err := Create(dir, Manifest{Engine: "sim"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(StateComplete, nil); err != nil {
		t.Fatal(err)
	}
}

func TestOpenSet(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []int{2, 10, 1} {
		finishedRun(t, filepath.Join(dir, RealizationDir(n)))
	}
	if err := os.WriteFile(filepath.Join(dir, RealizationsFile), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "notes"), 0o755); err != nil {
		t.Fatal(err)
	}
	set, err := OpenSet(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range set.Runs {
		names = append(names, filepath.Base(r.Dir))
	}
	if got := strings.Join(names, " "); got != "realization-001 realization-002 realization-010" {
		t.Errorf("runs %s", got)
	}
	one, err := OpenSet(filepath.Join(dir, RealizationDir(2)))
	if err != nil || len(one.Runs) != 1 {
		t.Errorf("one run: %+v, error %v", one, err)
	}
}

func TestOpenSetOfNothing(t *testing.T) {
	empty := t.TempDir()
	broken := t.TempDir()
	finishedRun(t, filepath.Join(broken, RealizationDir(1)))
	if err := os.Mkdir(filepath.Join(broken, RealizationDir(2)), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{empty, broken, filepath.Join(empty, "absent")} {
		if _, err := OpenSet(dir); !errors.Is(err, ErrNotRun) {
			t.Errorf("%s: error %v, want %v", dir, err, ErrNotRun)
		}
	}
}
