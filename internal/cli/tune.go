package cli

import (
	"sync"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/tunecmd"
)

// newTuneCommand lends the package of the command what it shares with sweep.
func newTuneCommand(g *globals) *cobra.Command {
	return tunecmd.New(tunecmd.Output{
		Print: g.print, PrintJSON: g.printJSON, WantArgs: wantArgs, BadInput: badInput, Interrupted: g.unlessInterrupted,
		Version: Version(), CheckOption: sweepCheck(g), CheckVariant: sweepCheckTogether,
		AddFlags: func(c *cobra.Command, to *tunecmd.Flags) {
			addOutputFlag(c.Flags(), &to.Output, "`DIR`", "a new directory, or that of a tuning to continue")
			addParallelFlag(c.Flags(), &to.Parallel, "runs")
			addQuietFlag(c.Flags(), &to.Quiet)
			addJSONFlag(c, &to.JSON)
			require(c, "output")
		},
		CheckParallel: checkParallel,
		Display: func(f *tunecmd.Flags, runs int) tunecmd.Display {
			table := newSweepTable(newProgress(g.stderr, f.Quiet), runs, atOnce(f.Parallel))
			stop := table.tick()
			return tunecmd.Display{Run: table.observe, Step: table.step, End: sync.OnceFunc(func() { stop(); table.end() })}
		},
	})
}

// step shows the beginning of a step.
func (t *sweepTable) step(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.quiet {
		t.end()
		t.print(text + "\n")
	}
}
