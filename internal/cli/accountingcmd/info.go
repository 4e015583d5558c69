package accountingcmd

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"rmreplay/internal/accounting/service"
	"rmreplay/internal/cli/console"
)

func (o commands) info() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "info DIR",
		Short: "Show what a data directory holds",
		Long: `Shows the number of jobs in a data directory, their clusters and dates, the number of
defective documents for each rule, and the number of received documents that are not yet
in the tables.`,
		Example: `  rmreplay accounting info /var/lib/rmreplay`,
		Args:    console.WantArgs("DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			info, err := work.Info(c.Context(), args[0])
			if err != nil {
				return console.BadInput(err)
			}
			if asJSON {
				return o.PrintJSON(info)
			}
			return o.Print(infoText(info))
		},
	}
	console.AddJSON(c, &asJSON)
	return c
}

func infoText(i *service.Info) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "jobs\t%d\n", i.Jobs)
	if i.FirstEnd != nil && i.LastEnd != nil {
		fmt.Fprintf(w, "ended\t%s to %s UTC\n", i.FirstEnd.UTC().Format(time.DateTime),
			i.LastEnd.UTC().Format(time.DateTime))
	}
	for _, group := range []struct {
		title  string
		counts map[string]int64
	}{{"cluster", i.Clusters}, {"source", i.Sources}, {"rule", i.Counts}} {
		for _, name := range sorted(group.counts) {
			fmt.Fprintf(w, "%s %s\t%d\n", group.title, name, group.counts[name])
		}
	}
	for _, name := range sorted(i.Doubts) {
		fmt.Fprintf(w, "run %s\tNOT VALID: %s\n", name, i.Doubts[name])
	}
	fmt.Fprintf(w, "documents received\t%d, in the database %d\n", i.Received, i.Applied)
	fmt.Fprintf(w, "bytes\tdatabase %d, journal %d\n", i.DatabaseBytes, i.JournalBytes)
	if i.Fault != "" {
		fmt.Fprintf(w, "fault\t%s\n", i.Fault)
	}
	_ = w.Flush() // into memory
	return b.String()
}

func sorted[N any](counts map[string]N) []string { return slices.Sorted(maps.Keys(counts)) }
