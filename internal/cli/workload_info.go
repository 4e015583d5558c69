package cli

import (
	"github.com/spf13/cobra"

	"rmreplay/internal/workload"
)

func newWorkloadInfoCommand(g *globals) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "info WORKLOAD",
		Short: "Summarize a workload",
		Long: `Says what a workload asks for: how many jobs of which size and duration, from whom
and when, and how much of their time limits they use. Offered work is processors times
run time, as the jobs ask for it.`,
		Example: `  rmreplay workload info demo/day.jsonl
  rmreplay workload info jobs.events.gz --json`,
		Args: wantArgs("WORKLOAD"),
		RunE: func(_ *cobra.Command, args []string) error {
			return runWorkloadInfo(g, args[0], asJSON)
		},
	}
	addJSONFlag(c, &asJSON)
	return c
}

func runWorkloadInfo(g *globals, path string, asJSON bool) error {
	w, err := openWorkload(path)
	if err != nil {
		return err
	}
	info := workload.NewInfo(w)
	if asJSON {
		return g.printJSON(info)
	}
	return info.Render(g.stdout)
}
