package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/slurmspec"
)

func newDoctorCommand(g *globals) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say what a replay on real Slurm lacks here, and the command that mends it",
		Long: `Looks for everything that a replay on real Slurm needs: the daemons and commands in
the supported version, their plugins, MariaDB, nss_wrapper, and what the kernel, the
limits and the file systems of this machine allow. Each row says what was found, and
what is not well has the command that mends it below.

Slurm outside the usual places is found with RMREPLAY_SLURM=PREFIX. The exit status
is 5 if something is missing without which no replay can run.`,
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

// The states of a row of doctor.
const (
	rowOK      = "ok"
	rowMissing = "missing" // no replay can run
	rowLimited = "limited" // some replays cannot, or they are slower
)

// doctorRow is one thing that doctor looked at.
type doctorRow struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, missing or limited
	Found  string `json:"found"`  // version and path, or what was there instead
	Why    string `json:"why"`    // what needs it
	Fix    string `json:"fix"`    // the command that mends it; empty if all is well
}

// doctorReport is the answer of doctor.
type doctorReport struct {
	OK             bool        `json:"ok"`
	SlurmVersion   string      `json:"slurm_version"`
	SupportedSlurm string      `json:"supported_slurm"`
	Checks         []doctorRow `json:"checks"`
}

func runDoctor(g *globals, asJSON bool) error {
	in, installErr := install.Find()
	report := newDoctorReport(in, installErr, install.Machine())
	var err error
	if asJSON {
		err = g.printJSON(report)
	} else {
		err = report.render(g)
	}
	if err != nil {
		return err
	}
	return report.err(installErr)
}

func newDoctorReport(in *install.Installation, installErr error, machine []install.Check) *doctorReport {
	r := &doctorReport{SlurmVersion: in.Version, SupportedSlurm: slurmspec.SupportedList()}
	for _, it := range in.Items {
		r.Checks = append(r.Checks, installRow(it, installErr))
	}
	for _, c := range machine {
		r.Checks = append(r.Checks, machineRow(c))
	}
	r.OK = true
	for _, row := range r.Checks {
		r.OK = r.OK && row.Status != rowMissing
	}
	return r
}

func installRow(it install.Item, installErr error) doctorRow {
	row := doctorRow{Name: it.Name, Status: rowOK, Why: it.Why, Found: strings.TrimSpace(it.Version + "  " + it.Path)}
	var wrong *install.VersionError
	switch {
	case it.Path == "":
		row.Status, row.Found, row.Fix = rowMissing, "not found", it.Fix
	case errors.As(installErr, &wrong) && wrong.Path == it.Path:
		row.Status = rowMissing
		row.Fix = "install Slurm " + install.SupportedSeries() + ", or name its prefix: export " + install.PrefixVariable + "=/opt/slurm"
		row.Found += "  (want " + install.SupportedSeries() + ")"
	}
	return row
}

func machineRow(c install.Check) doctorRow {
	row := doctorRow{Name: c.Name, Status: rowOK, Why: c.Why, Found: c.Found}
	if !c.OK {
		row.Status, row.Fix = rowLimited, c.Fix
		if c.Required {
			row.Status = rowMissing
		}
	}
	return row
}

func (r *doctorReport) render(g *globals) error {
	var b strings.Builder
	width := 0
	for _, row := range r.Checks {
		width = max(width, len(row.Name))
	}
	for _, row := range r.Checks {
		fmt.Fprintf(&b, "%-8s %-*s  %s\n", row.Status, width, row.Name, row.Found)
		if row.Status != rowOK {
			fmt.Fprintf(&b, "%*s  needed for: %s\n", 8+1+width, "", row.Why)
			fmt.Fprintf(&b, "%*s  mend with:  %s\n", 8+1+width, "", row.Fix)
		}
	}
	if r.OK {
		b.WriteString("\nreplays on real Slurm can run here\n")
	}
	_, err := fmt.Fprint(g.stdout, b.String())
	return err
}

// err is nil if replays can run here. One command installs all that is missing, so
// the error is the installation's own where it has one.
func (r *doctorReport) err(installErr error) error {
	if r.OK {
		return nil
	}
	if installErr != nil {
		return installErr
	}
	var names []string
	for _, row := range r.Checks {
		if row.Status == rowMissing {
			names = append(names, row.Name)
		}
	}
	return &ExitError{Code: ExitMissing, Err: fmt.Errorf("replays on real Slurm cannot run here: %s", strings.Join(names, ", "))}
}
