package cli

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"rmreplay/internal/cli/console"
	pace "rmreplay/internal/progress"
	"rmreplay/internal/quantity"
	"rmreplay/internal/sweep"
)

// sweepTable shows the progress of a sweep: a line for each finished run and, on a terminal, one
// line for the running runs.
type sweepTable struct {
	*console.Progress
	mu      sync.Mutex
	runs    int
	over    int
	failed  int
	running map[string]time.Time // when each running run began, by the run's name
	batch   pace.Batch
}

func newSweepTable(p *console.Progress, runs, parallel int) *sweepTable {
	return &sweepTable{Progress: p, runs: runs, running: map[string]time.Time{}, batch: pace.Batch{Parallel: parallel}}
}

// tick shows the line of the running runs every second, until stop is called.
func (t *sweepTable) tick() (stop func()) {
	if !t.OnTerminal() || t.Quiet() {
		return func() {}
	}
	over := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-over:
				return
			case <-ticker.C:
				t.mu.Lock()
				t.Show(t.state()...)
				t.mu.Unlock()
			}
		}
	})
	return func() {
		close(over)
		done.Wait()
	}
}

// observe is called when the state of a run changes.
func (t *sweepTable) observe(p sweep.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Quiet() {
		return
	}
	switch p.Phase {
	case sweep.Preparing:
		t.Line("preparing " + p.Name)
		return
	case sweep.Noted:
		t.Line(p.Name)
		return
	case sweep.Began:
		t.running[p.Name] = time.Now()
	default:
		delete(t.running, p.Name)
		t.over++
		if p.Phase != sweep.Kept {
			t.batch.Ended = append(t.batch.Ended, p.Took)
		}
		t.Line(t.row(p))
	}
	if t.OnTerminal() {
		t.Show(t.state()...)
	}
}

// row returns the line of a finished run.
func (t *sweepTable) row(p sweep.Progress) string {
	text := fmt.Sprintf("[%*d/%d] %-40s %-7s", len(fmt.Sprint(t.runs)), t.over, t.runs, p.Name, p.Phase)
	switch {
	case p.Phase == sweep.Failed:
		t.failed++
		return text + " " + p.Err.Error()
	case !p.Made.Valid:
		text += " not valid"
	}
	text += fmt.Sprintf(" mean wait %s s, bounded slowdown %s", p.Made.Wait.Mean.Text(), p.Made.BoundedSlowdown.Mean.Text())
	if p.Phase == sweep.Made {
		text += fmt.Sprintf(", took %v", p.Took.Round(100*time.Millisecond))
	}
	if left := t.left(); !t.OnTerminal() && left.Text != "" {
		text += ", " + left.Text
	}
	return text
}

// left returns the part of a line that says how long the sweep will still take.
func (t *sweepTable) left() pace.Part {
	t.batch.Waiting, t.batch.Running = t.runs-t.over-len(t.running), nil
	for _, begun := range t.running {
		t.batch.Running = append(t.batch.Running, pace.Running{Elapsed: time.Since(begun)})
	}
	return pace.Remaining(t.batch.Left(), t.over < t.runs)
}

// state returns the parts of the line of the running runs.
func (t *sweepTable) state() []pace.Part {
	var names []string
	for name := range t.running {
		names = append(names, name)
	}
	slices.Sort(names)
	parts := []pace.Part{{Rank: 0, Text: fmt.Sprintf("%d of %d %s", t.over, t.runs,
		quantity.Plural(t.runs, "run", "runs"))}}
	if t.failed > 0 {
		parts = append(parts, pace.Part{Rank: 2, Text: fmt.Sprintf("%d failed", t.failed)})
	}
	return append(parts, t.left(), pace.Part{Rank: 3, Text: quantity.Few(names, 2)})
}
