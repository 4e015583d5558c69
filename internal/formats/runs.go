package formats

import (
	"fmt"
	"os"

	"rmreplay/internal/run"
)

// OpenRun opens the record of a run, or a recorded workload as a run ("as it happened",
// [run.FromWorkload]). A directory is a record, and a file is a workload of any known format.
func OpenRun(path string) (*run.Run, error) {
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return run.Open(path)
	}
	return openRecorded(path)
}

// OpenRuns opens a run as [OpenRun] does, or all runs in the subdirectories of a directory
// ([run.OpenSet]).
func OpenRuns(path string) (*run.Set, error) {
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return run.OpenSet(path)
	}
	r, err := openRecorded(path)
	if err != nil {
		return nil, err
	}
	return &run.Set{Dir: path, Runs: []*run.Run{r}}, nil
}

func openRecorded(path string) (*run.Run, error) {
	w, err := Open(path)
	if err != nil {
		return nil, err
	}
	r, err := run.FromWorkload(w)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; rmreplay replay and simulate make a run of a workload", path, err)
	}
	r.Dir, r.Manifest.Workload.Path = path, path
	return r, nil
}

// Doubt says why the run in a directory is not valid, and what to do. It returns "" for a valid
// run, and for a path that is not a run.
func Doubt(path string) string {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return ""
	}
	r, err := run.Open(path)
	if err != nil || r.Manifest.Doubt() == "" {
		return ""
	}
	return fmt.Sprintf("%s is not valid: %s (rmreplay rerun makes the run again)", path, r.Manifest.Doubt())
}
