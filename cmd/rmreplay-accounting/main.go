// Command rmreplay-accounting is rmreplay with the service of its accounting commands. rmreplay
// executes it for them; package accountingcmd says why there are two programs.
package main

import (
	"os"

	"rmreplay/internal/accounting/service"
	"rmreplay/internal/cli"
	"rmreplay/internal/supervise"
)

func main() {
	// The guard of a replay's daemons is this program again; it does not return.
	supervise.RunIfGuard()
	os.Exit(cli.Main(service.New()))
}
