package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"rmreplay/internal/input"
)

// The files of a record.
const (
	manifestFile  = "manifest.json"
	jobsFile      = "jobs.parquet"
	eventsFile    = "events.parquet"
	schedulerFile = "scheduler.parquet"
	settingFile   = "setting.jsonl"
	journalFile   = "journal.jsonl"
	logsDir       = "logs"
	clusterDir    = "cluster"
	tempSuffix    = ".tmp"
)

// CheckNew returns the error that [Create] would return because of the contents of the directory. It
// changes nothing. A caller can thus refuse a directory before a long computation.
func CheckNew(dir string, overwrite bool) error {
	if err := checkNew(dir, overwrite); err != nil {
		return fmt.Errorf("creating run record %s: %w", dir, err)
	}
	return nil
}

func checkNew(dir string, overwrite bool) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) == 0:
		return nil
	case overwrite:
		return Overwritable(dir)
	case Overwritable(dir) == nil:
		return fmt.Errorf("%w: it holds a run record (want a new directory, or --overwrite)", ErrNotEmpty)
	}
	return fmt.Errorf("%w, and holds no run record (want a new or an empty directory)", ErrNotEmpty)
}

// prepare makes the directories of a record. With overwrite it also removes an existing record.
func prepare(dir string, overwrite bool) error {
	if err := checkNew(dir, overwrite); err != nil {
		return err
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		if err := removeRecord(dir); err != nil {
			return err
		}
	}
	return os.MkdirAll(filepath.Join(dir, logsDir), 0o777)
}

// removeRecord removes the files of a record from dir. All other files stay.
func removeRecord(dir string) error {
	for _, name := range []string{logsDir, clusterDir} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	// The manifest is removed last, so that after an interrupted removal the directory is still recognized as a record.
	for _, name := range []string{jobsFile, eventsFile, schedulerFile, settingFile, journalFile, manifestFile} {
		for _, suffix := range []string{tempSuffix, ""} {
			err := os.Remove(filepath.Join(dir, name+suffix))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// HasPart reports whether path is a file of a record, other than a log or a file of the cluster.
func HasPart(path string) bool {
	if !slices.Contains([]string{manifestFile, jobsFile, eventsFile, schedulerFile, settingFile, journalFile},
		filepath.Base(path)) {
		return false
	}
	_, err := os.Stat(filepath.Join(filepath.Dir(path), manifestFile))
	return err == nil
}

// Overwritable returns nil if dir is a record that no process is writing; otherwise the error is [ErrLive],
// [ErrNotRun], or says why the record cannot be read.
func Overwritable(dir string) error {
	file, err := input.Open(filepath.Join(dir, journalFile))
	if err == nil {
		defer file.Close()
		if locked(file) {
			return ErrLive
		}
		// A new record has only a journal until its manifest is written.
		header := make([]byte, len(journalHeader))
		if n, _ := file.Read(header); string(header[:n]) == journalHeader {
			return nil
		}
	}
	if _, err = readManifest(dir); errors.Is(err, ErrNotRun) && begun(dir) {
		return nil
	}
	return err
}

// begun reports whether dir has only an empty logs directory, which [Create] makes first.
func begun(dir string) bool {
	entries, err := os.ReadDir(dir)
	logs, lerr := os.ReadDir(filepath.Join(dir, logsDir))
	return err == nil && lerr == nil && len(entries) == 1 && len(logs) == 0
}
