package cli

import (
	"sync"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/cli/tunecmd"
)

// newTuneCommand returns the command of package tunecmd. It passes the functions that tune shares with sweep.
func newTuneCommand(g *globals) *cobra.Command {
	return tunecmd.New(g.Output, tunecmd.Lent{
		CheckOption: sweepCheck(g), CheckVariant: sweepCheckTogether,
		Display: func(p *console.Progress, runs, parallel int) tunecmd.Display {
			table := newSweepTable(p, runs, console.AtOnce(parallel))
			stop := table.tick()
			return tunecmd.Display{Run: table.observe, Step: table.step, End: sync.OnceFunc(func() { stop(); table.End() })}
		},
	})
}

// step shows the beginning of a step. If the rest is not 0, the step begins the last runs, on another engine: the rest
// is their number, and the times of the earlier runs do not predict theirs.
func (t *sweepTable) step(text string, rest int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if rest > 0 {
		t.runs, t.batch.Ended = t.over+rest, nil
	}
	if !t.Quiet() {
		t.Line(text)
	}
}
