package accountingcmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"rmreplay/internal/accounting/service"
	"rmreplay/internal/cli/console"
	"rmreplay/internal/quantity"
)

func (o commands) verify() *cobra.Command {
	var asJSON, quiet bool
	c := &cobra.Command{
		Use:   "verify DIR",
		Short: "Read all of a data directory, and report damage",
		Long: `Reads all files of a data directory, and compares each file with its checksum, each
column of each job with the job's document, and the stored counts with the jobs. It also
checks that no run of a job is stored twice. The command changes nothing, and can run
while the server runs.

The exit status is 3 if the command finds damage. Restore damaged files from a backup,
and find missing jobs with accounting reconcile.`,
		Example: `  rmreplay accounting verify /var/lib/rmreplay`,
		Args:    console.WantArgs("DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			reading := o.Progress(quiet).Reading(args[0])
			found, err := work.Verify(c.Context(), args[0], func(done, all int) { reading(int64(done), int64(all)) })
			if err != nil {
				return console.BadInput(err)
			}
			if asJSON {
				err = o.PrintJSON(found)
			} else {
				err = o.Print(verifiedText(found))
			}
			if err == nil && len(found.Problems) > 0 {
				err = console.Invalidf("verifying %s: %s", args[0], quantity.Counted(len(found.Problems), "problem", "problems"))
			}
			return err
		},
	}
	console.AddJSON(c, &asJSON)
	console.AddQuiet(c.Flags(), &quiet)
	return c
}

func verifiedText(v *service.Verified) string {
	var b strings.Builder
	if v.Migrated != "" {
		fmt.Fprintf(&b, "migrated: %s\n", v.Migrated)
	}
	for _, problem := range v.Problems {
		fmt.Fprintf(&b, "wrong: %s\n", problem)
	}
	fmt.Fprintf(&b, "read %s of %d %s in %d bytes\n", quantity.Counted(v.Parts, "part", "parts"), v.Jobs,
		quantity.Plural(v.Jobs, "job", "jobs"), v.Bytes)
	if len(v.Problems) == 0 {
		b.WriteString("no damage found\n")
	}
	return b.String()
}
