package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"rmreplay/internal/output"
)

// The layout of a directory of realizations: a run record for each realization, in order, and
// an index that says how they were made.
const (
	RealizationPrefix = "realization-" // followed by the number, from 1, with at least three digits
	RealizationsFile  = "realizations.json"
)

// RealizationDir returns the name of a realization's record in the directory of its set. The number counts from 1.
func RealizationDir(number int) string {
	return fmt.Sprintf("%s%03d", RealizationPrefix, number)
}

// SetIndex says how the realizations of a set were made. Its file is realizations.json.
type SetIndex struct {
	Command      []string   `json:"command"`
	Seed         uint64     `json:"seed"` // of the first realization
	Realizations []SetEntry `json:"realizations"`
}

// SetEntry is one realization in a [SetIndex].
type SetEntry struct {
	Run  string `json:"run"` // the directory of the realization's record
	Seed uint64 `json:"seed"`
}

// WriteSetIndex writes the index of the set in the directory dir.
func WriteSetIndex(dir string, index SetIndex) error {
	path := filepath.Join(dir, RealizationsFile)
	text, err := json.MarshalIndent(index, "", "  ")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := output.Text(path, string(text)+"\n"); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// Set is one run, or several realizations of one workload with one configuration.
type Set struct {
	Dir  string
	Runs []*Run // at least one, in the order of their names
}

// OpenSet opens the run record in dir. If dir is not a record, OpenSet opens all records in subdirectories of dir.
// OpenSet fails with [ErrNotRun] if there is no record, or if a directory with a realization's name is not a record. It
// ignores other directories that are not records. The caller must check from the manifests whether the runs belong
// together.
func OpenSet(dir string) (*Set, error) {
	if _, err := os.Stat(filepath.Join(dir, manifestFile)); err == nil {
		r, err := Open(dir)
		if err != nil {
			return nil, err
		}
		return &Set{Dir: dir, Runs: []*Run{r}}, nil
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("opening runs: %w", notRun(dir))
	}
	if err != nil {
		return nil, fmt.Errorf("opening runs: %w", err)
	}
	set := &Set{Dir: dir}
	for _, entry := range entries { // sorted by name
		if !entry.IsDir() {
			continue
		}
		r, err := Open(filepath.Join(dir, entry.Name()))
		if errors.Is(err, ErrNotRun) && !strings.HasPrefix(entry.Name(), RealizationPrefix) {
			continue
		}
		if err != nil {
			return nil, err
		}
		set.Runs = append(set.Runs, r)
	}
	if len(set.Runs) == 0 {
		return nil, fmt.Errorf("opening runs: %w", notRun(dir))
	}
	return set, nil
}
