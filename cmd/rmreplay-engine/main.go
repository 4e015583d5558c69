// Command rmreplay-engine answers queries over finished jobs for the accounting server, which starts
// it, watches it and ends it. It reads requests from standard input and writes answers to standard
// output; package engine says how.
package main

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/term"

	"rmreplay/internal/accounting/engine/duckdb"
)

// The linker sets version (see the Makefile).
var version = "unknown"

func main() {
	switch {
	case slices.Equal(os.Args[1:], []string{"--version"}):
		_, _ = fmt.Fprintln(os.Stdout, "rmreplay-engine", version) // an error, as from a closed pipe, is ignored
	case len(os.Args) > 1:
		fmt.Fprintf(os.Stderr, "rmreplay-engine: %s: it takes no argument but --version\n", os.Args[1])
		os.Exit(2)
	case term.IsTerminal(int(os.Stdin.Fd())) || term.IsTerminal(int(os.Stdout.Fd())):
		fmt.Fprintln(os.Stderr, "rmreplay-engine: the accounting server starts it to answer queries; it has no use at a "+
			"terminal")
		os.Exit(2)
	default:
		os.Exit(duckdb.Main())
	}
}
