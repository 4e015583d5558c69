// Package recordcmd has the commands that look into one run. They show single jobs of its record
// (packages jobtable and explain do the work), or the clock of a replay that is under way.
package recordcmd

import (
	"rmreplay/internal/cli/console"
	"rmreplay/internal/formats"
	"rmreplay/internal/run"
)

// commands makes the commands of the group.
type commands struct{ console.Output }

// open opens a run or a recorded workload. It says on standard error if the run is not valid.
func (o commands) open(path string) (*run.Run, error) {
	r, err := formats.OpenRun(path)
	if err != nil {
		return nil, console.BadInput(err)
	}
	if doubt := r.Manifest.Doubt(); doubt != "" {
		o.Say("rmreplay: %s is not valid: %s", path, doubt)
	}
	return r, nil
}
