package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The layout of a directory of realizations: a run record for each, in order, and an
// index of how they were made.
const (
	RealizationPrefix = "realization-" // followed by the number from 1, of three digits or more
	RealizationsFile  = "realizations.json"
)

// RealizationDir is the name of the record of a realization, counted from 1, in the
// directory of its set.
func RealizationDir(number int) string {
	return fmt.Sprintf("%s%03d", RealizationPrefix, number)
}

// SetIndex says how the realizations of a set were made. It is realizations.json.
type SetIndex struct {
	Command      []string   `json:"command"`
	Seed         uint64     `json:"seed"` // of the first
	Realizations []SetEntry `json:"realizations"`
}

// SetEntry is one realization in a [SetIndex].
type SetEntry struct {
	Run  string `json:"run"` // directory of its record
	Seed uint64 `json:"seed"`
}

// WriteSetIndex writes the index of the set in the directory dir.
func WriteSetIndex(dir string, index SetIndex) error {
	path := filepath.Join(dir, RealizationsFile)
	text, err := json.MarshalIndent(index, "", "  ")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// Set is one run, or several realizations of one workload under one configuration.
type Set struct {
	Dir  string
	Runs []*Run // at least one, in the order of their names
}

// OpenSet opens the run record in dir or, where dir is none itself, all records in
// the directories within it. It fails with [ErrNotRun] where there is no record, and
// where a directory named as a realization is none; other directories that hold
// something else are passed over. Whether the runs have anything to do with each
// other is for the caller to judge, by their manifests.
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
		return nil, fmt.Errorf("opening runs: %w: %s does not exist", ErrNotRun, dir)
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
		return nil, fmt.Errorf("opening runs: %w: no %s in %s, nor in a directory within it", ErrNotRun, manifestFile, dir)
	}
	return set, nil
}
