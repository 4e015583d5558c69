// Command rmreplay replays a cluster's workload on unmodified Slurm daemons under virtual time.
// Package cli has its commands.
package main

import (
	"os"

	"rmreplay/internal/cli"
	"rmreplay/internal/supervise"
)

func main() {
	// The guard of a replay's daemons is this program again; it does not return.
	supervise.RunIfGuard()
	os.Exit(cli.Main())
}
