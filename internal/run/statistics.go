package run

import (
	"errors"
	"io/fs"
	"path/filepath"

	"rmreplay/internal/rm"
)

// Statistics records the scheduler's counters at an instant, which must be after the instants of
// earlier calls. Only a complete record has them.
func (w *Writer) Statistics(s rm.Statistics) (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return err
	}
	if w.statistics == nil {
		if w.statistics, err = createTable[rm.Statistics](filepath.Join(w.dir, schedulerFile)); err != nil {
			return w.fail(err)
		}
	}
	if err := w.statistics.write([]rm.Statistics{s}); err != nil {
		return w.fail(err)
	}
	return nil
}

// writeStatistics completes scheduler.parquet, if it exists.
func (w *Writer) writeStatistics() error {
	if w.statistics == nil {
		return nil
	}
	return w.statistics.commit()
}

// Statistics returns the scheduler's counters over the run, in order. It returns nil for partial
// and older records, and for simulations with another policy than the model of Slurm.
func (r *Run) Statistics() ([]rm.Statistics, error) {
	if r.journal != nil {
		return nil, nil
	}
	rows, err := readTable[rm.Statistics](filepath.Join(r.Dir, schedulerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return rows, err
}
