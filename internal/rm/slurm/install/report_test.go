package install

import (
	"errors"
	"strings"
	"testing"

	"rmreplay/internal/slurmstore"
)

// TestProcWithoutCommands: the check of /proc needs no other command.
func TestProcWithoutCommands(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if c := checkProc(); !c.OK {
		t.Errorf("%+v", c)
	}
}

// TestAbsentRelease: the fix of a release that the store lacks agrees with the error, which has its installation.
func TestAbsentRelease(t *testing.T) {
	absent := &slurmstore.NotInstalledError{Version: "23.11", Installed: []string{"24.11.5"}}
	r := newReport(&Installation{wrong: absent}, absent, nil)
	row := r.Checks[0]
	if !strings.Contains(row.Found, "rmreplay slurm install 23.11") || !strings.Contains(row.Fix, "install this one") {
		t.Errorf("%+v", row)
	}
}

func TestReport(t *testing.T) {
	slurmctld := Item{Requirement: Requirement{Name: "slurmctld", Why: "replays", Fix: "apt-get install slurmctld"}}
	found := slurmctld
	found.Path, found.Version = "/usr/sbin/slurmctld", "19.05.1"
	required := Check{Name: "/proc", Required: true, Fix: "mount it"}
	optional := Check{Name: "open files", Fix: "ulimit -n 65536"}
	wrong := &VersionError{Path: found.Path}
	for name, test := range map[string]struct {
		item    Item
		err     error
		check   Check
		status  [2]string
		wantErr string // empty: replays can run
	}{
		"all well":      {found, nil, Check{Name: "/proc", OK: true, Required: true}, [2]string{OK, OK}, ""},
		"slower":        {found, nil, optional, [2]string{OK, Limited}, ""},
		"not installed": {slurmctld, &MissingError{}, optional, [2]string{Missing, Limited}, (&MissingError{}).Error()},
		"wrong version": {found, wrong, optional, [2]string{Missing, Limited}, wrong.Error()},
		"unfit machine": {found, nil, required, [2]string{OK, Missing}, "replays on real Slurm cannot run here: /proc"},
	} {
		r := newReport(&Installation{Items: []Item{test.item}}, test.err, []Check{test.check})
		if got := [2]string{r.Checks[0].Status, r.Checks[1].Status}; got != test.status {
			t.Errorf("%s: %v, want %v", name, got, test.status)
		}
		err := r.Err()
		if (err == nil) != r.OK || (err == nil) != (test.wantErr == "") || err != nil && err.Error() != test.wantErr {
			t.Errorf("%s: ok %v, %v, want %q", name, r.OK, err, test.wantErr)
		}
		for _, row := range r.Checks {
			if (row.Status == OK) != (row.Fix == "") {
				t.Errorf("%s: %s is %s, mended by %q", name, row.Name, row.Status, row.Fix)
			}
		}
		var unfit *UnfitError
		if errors.As(err, &unfit) != strings.HasPrefix(name, "unfit") {
			t.Errorf("%s: %T", name, err)
		}
	}
}
