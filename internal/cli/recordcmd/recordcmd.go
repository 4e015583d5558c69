// Package recordcmd has the commands that look into one run: at single jobs of its record, for which
// packages jobtable and explain do the work, and at the clock of a replay that is under way.
package recordcmd

import (
	"io"

	"github.com/spf13/cobra"

	"rmreplay/internal/formats"
	"rmreplay/internal/run"
)

// Output is how the program's commands print, and how they make errors with an exit status.
type Output struct {
	Out       io.Writer
	PrintJSON func(v any) error
	Say       func(format string, args ...any) // a message for people
	WantArgs  func(names ...string) cobra.PositionalArgs
	// BadInput marks an error of what the user named, and Usagef makes one of the command line.
	BadInput func(error) error
	Usagef   func(format string, args ...any) error
	AddJSON  func(c *cobra.Command, to *bool)
}

// open opens a run or a recorded workload. It says on standard error if the run is not valid.
func (o Output) open(path string) (*run.Run, error) {
	r, err := formats.OpenRun(path)
	if err != nil {
		return nil, o.BadInput(err)
	}
	if doubt := r.Manifest.Doubt(); doubt != "" {
		o.Say("rmreplay: %s is not valid: %s", path, doubt)
	}
	return r, nil
}
