// Package enginetest lets tests ask a real engine without building it: a test binary that imports
// this package is an engine when it is started with [Program], and its pools start that.
package enginetest

import (
	"os"

	"rmreplay/internal/accounting/engine"
	"rmreplay/internal/accounting/engine/duckdb"
)

const argument = "rmreplay-engine-of-tests"

// The tests of the binary do not begin in a process that is an engine.
func init() {
	if len(os.Args) == 2 && os.Args[1] == argument {
		os.Exit(duckdb.Main()) //nolint:forbidigo // the process is an engine, and has no tests to go back to
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
