// Package enginetest lets tests use a real engine without building the engine's program. A test binary that imports
// this package runs as an engine if it is started by the command that [Program] returns. Pools in the test use this
// command.
package enginetest

import (
	"os"

	"rmreplay/internal/accounting/engine"
	"rmreplay/internal/accounting/engine/duckdb"
)

const argument = "rmreplay-engine-of-tests"

// If the process was started as an engine, it runs no tests.
func init() {
	if len(os.Args) == 2 && os.Args[1] == argument {
		os.Exit(duckdb.Main()) //nolint:forbidigo // the process is an engine and ends here
	}
	engine.Program = Program()
}

// Program returns the command that runs an engine.
func Program() []string {
	path, err := os.Executable()
	if err != nil {
		path = os.Args[0]
	}
	return []string{path, argument}
}
