package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"rmreplay/internal/rm/slurm/install"
)

func newDoctorCommand(g *globals) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine, and name the command that mends what is missing",
		Long: `Looks for everything that a replay on real Slurm needs: the daemons and commands in a
supported release, their plugins, MariaDB, nss_wrapper, and what the kernel, the limits
and the file systems of this machine allow. Each row shows what was found. Below a row
that is not ok stands the command that mends it.

RMREPLAY_SLURM=PREFIX names a Slurm outside the usual directories.
RMREPLAY_NETWORK=private refuses replays where the daemons cannot have a network of their
own, and RMREPLAY_NETWORK=shared does without one. The exit status is 5 if no replay can
run here.`,
		Example: `  rmreplay doctor
  rmreplay doctor --json
  RMREPLAY_SLURM=/opt/slurm/22.05.8 rmreplay doctor`,
		Args: wantArgs(),
		RunE: func(*cobra.Command, []string) error {
			return runDoctor(g, asJSON)
		},
	}
	addJSONFlag(c, &asJSON)
	return c
}

func runDoctor(g *globals, asJSON bool) error {
	report := install.Examine()
	var err error
	if asJSON {
		err = g.printJSON(report)
	} else {
		err = g.print(doctorText(report))
	}
	if err != nil {
		return err
	}
	return report.Err()
}

// doctorText is the report for people: what is not well has the command that mends it below.
func doctorText(r *install.Report) string {
	var b strings.Builder
	width := 0
	for _, row := range r.Checks {
		width = max(width, len(row.Name))
	}
	for _, row := range r.Checks {
		fmt.Fprintf(&b, "%-8s %-*s  %s\n", row.Status, width, row.Name, row.Found)
		if row.Status != install.OK {
			fmt.Fprintf(&b, "%*s  needed for: %s\n", 8+1+width, "", row.Why)
			fmt.Fprintf(&b, "%*s  mend with:  %s\n", 8+1+width, "", row.Fix)
		}
	}
	if r.OK {
		b.WriteString("\nreplays on real Slurm can run here\n")
	}
	return b.String()
}
