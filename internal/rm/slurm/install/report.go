package install

import (
	"errors"
	"fmt"
	"strings"

	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmstore"
)

// The values of [Row.Status].
const (
	OK      = "ok"
	Missing = "missing" // no replay can run without it
	Limited = "limited" // some replays cannot run, or run more slowly
)

// Row is the result of one check of [Examine].
type Row struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, missing or limited
	Found  string `json:"found"`  // version and path, or what was found instead
	Why    string `json:"why"`    // why a replay needs it
	Fix    string `json:"fix"`    // the command that fixes it; empty if all is well
}

// Report says whether replays on real Slurm can run on this machine, and if not, why.
type Report struct {
	OK             bool   `json:"ok"`
	SlurmVersion   string `json:"slurm_version"`
	SupportedSlurm string `json:"supported_slurm"`
	Checks         []Row  `json:"checks"`
	// Slurms are the Slurms that a replay can name. The first is the Slurm of Checks.
	Slurms []Slurm `json:"slurms"`

	installErr error
}

// Examine looks for the programs that a replay on the given Slurm runs ([FindSlurm]), and checks
// the machine ([Machine]) for a replay with the given needs.
func Examine(slurm string, needs Needs) *Report {
	in, err := FindSlurm(slurm)
	checks := Machine(needs)
	if in.Slurmctld != "" && in.PluginDir != "" { // otherwise plugins are missing
		checks = append([]Check{in.checkImports()}, checks...)
	}
	r := newReport(in, err, checks)
	r.Slurms = slurms(in)
	return r
}

func newReport(in *Installation, installErr error, machine []Check) *Report {
	r := &Report{SlurmVersion: in.Version, SupportedSlurm: slurmspec.SupportedList(), installErr: installErr}
	if in.wrong != nil {
		row := Row{Name: "Slurm", Status: Missing, Found: in.wrong.Error(), Why: "the Slurm on which replays run",
			Fix: "name a directory or a version of Slurm with --slurm, or none for the machine's own"}
		var absent *slurmstore.NotInstalledError
		if errors.As(in.wrong, &absent) {
			row.Fix = "choose an installed Slurm below, or install this one as the first line says"
		}
		r.Checks = append(r.Checks, row)
	}
	for _, it := range in.Items {
		r.Checks = append(r.Checks, it.row(installErr))
	}
	for _, c := range machine {
		r.Checks = append(r.Checks, c.row())
	}
	r.OK = len(r.missing()) == 0
	return r
}

func (it Item) row(installErr error) Row {
	row := Row{Name: it.Name, Status: OK, Why: it.Why, Found: strings.TrimSpace(it.Version + "  " + it.Path)}
	var wrong *VersionError
	var broken *BrokenError
	switch {
	case it.Path == "":
		row.Status, row.Found, row.Fix = Missing, "not found", it.Fix
	case errors.As(installErr, &wrong) && wrong.Path == it.Path:
		row.Status = Missing
		row.Fix = "install Slurm " + SupportedSeries() + ", or name its directory with --slurm"
		row.Found += "  (want " + SupportedSeries() + ")"
	case errors.As(installErr, &broken) && broken.Path == it.Path:
		row.Status, row.Found, row.Fix = Missing, broken.Error(), "name another Slurm with --slurm"
	}
	return row
}

func (c Check) row() Row {
	row := Row{Name: c.Name, Status: OK, Why: c.Why, Found: c.Found}
	if !c.OK {
		row.Status, row.Fix = Limited, c.Fix
		if c.Required {
			row.Status = Missing
		}
	}
	return row
}

// missing names the rows that prevent every replay.
func (r *Report) missing() (names []string) {
	for _, row := range r.Checks {
		if row.Status == Missing {
			names = append(names, row.Name)
		}
	}
	return names
}

// Err returns nil if replays can run here; otherwise it returns the error of [FindSlurm], which names one command for
// everything that is missing, or an [*UnfitError].
func (r *Report) Err() error {
	switch {
	case r.OK:
		return nil
	case r.installErr != nil:
		return r.installErr
	}
	return &UnfitError{r.missing()}
}

// UnfitError says that Slurm is installed, but that the machine cannot run a replay. Checks
// describe the failed checks.
type UnfitError struct{ Checks []string }

// Error names the checks that failed.
func (e *UnfitError) Error() string {
	return fmt.Sprintf("replays on real Slurm cannot run here: %s", strings.Join(e.Checks, "; "))
}
