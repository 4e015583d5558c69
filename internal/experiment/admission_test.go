package experiment

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/rmtest"
	"rmreplay/internal/rm/slurm/admission"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// TestAdmission submits a job for every reason of rejection to the stock Slurm. It compares
// slurmctld's answers with the predictions of package admission: each job's fate, and the reason
// of each rejection.
func TestAdmission(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED by -short: replays on real Slurm")
	}
	lines, err := os.ReadFile("testdata/admission/jobs.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, named := range []string{"", "24.11", "26.05"} {
		in, err := install.FindSlurm(named)
		if err == nil {
			err = in.Need(true)
		}
		for _, enforce := range []string{"ALL", "ANY", "NO"} {
			t.Run(named+enforce, func(t *testing.T) {
				if err != nil {
					t.Skipf("NOT TESTED on Slurm %s: %v", named, err)
				}
				t.Parallel()
				compareAdmission(t, string(lines), enforce, named, in)
			})
		}
	}
}

// outcome is what became of a job.
type outcome struct{ verdict, reason string }

func compareAdmission(t *testing.T, lines, enforce, named string, in *install.Installation) {
	cluster := t.TempDir()
	if err := os.CopyFS(cluster, os.DirFS("testdata/admission")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(cluster, "slurm.conf"))
	if err == nil {
		err = os.WriteFile(filepath.Join(cluster, "slurm.conf"), append(text, []byte("EnforcePartLimits="+enforce+"\n")...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	epoch := hpc.Unix(1709596800)
	what, err := rmtest.Parse(lines, epoch, "--uid=ada", "-t", "10")
	if err != nil {
		t.Fatal(err)
	}
	w := &workload.Workload{Source: "a job for each reason", Epoch: epoch, Jobs: workload.JobsOf(what.Jobs...), Reservations: what.Reservations}
	foreseen := foresee(t, cluster, w, in)
	got := played(t, Spec{
		Workload: Workload{Value: w}, Output: filepath.Join(t.TempDir(), "run"), Seed: 1, DrainLimit: 4 * time.Hour,
		Slurm: &Slurm{Installation: named, Cluster: cluster, Lead: time.Minute},
	})
	for _, job := range what.Jobs {
		want, is := foreseen[job.ID], got[job.ID]
		if want.verdict == "rejected" && want.reason == "" {
			is.reason = "" // rmreplay's own reason
		}
		if want.verdict != "rejected" {
			want.reason, is.reason = "", ""
		}
		if want != is {
			t.Errorf("%s: foreseen %q, Slurm %q", job.ID, foreseen[job.ID], got[job.ID])
		}
	}
}

func foresee(t *testing.T, dir string, w *workload.Workload, in *install.Installation) map[string]outcome {
	t.Helper()
	cluster, err := conf.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	site, err := admission.New(cluster, w.Submitters(), admission.Options{Release: in.Release})
	if err != nil {
		t.Fatal(err)
	}
	fates := map[string]outcome{}
	for _, job := range w.Jobs.All() {
		fates[job.ID] = outcome{verdict: "runs"}
		if job.Hold {
			fates[job.ID] = outcome{verdict: "never starts"}
		}
	}
	site.Foresee(w, func(job string, why admission.Finding) { fates[job] = outcome{string(why.Verdict), why.Slurm} })
	return fates
}

// slurmsAnswer finds slurmctld's answer in the reason of a rejection.
var slurmsAnswer = regexp.MustCompile(`ESLURM_[A-Z_]+`)

// played replays the workload and returns what became of each job.
func played(t *testing.T, spec Spec) map[string]outcome {
	t.Helper()
	if _, err := Run(t.Context(), spec, Hooks{}); err != nil {
		t.Fatal(err)
	}
	record, err := run.Open(spec.Output)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := record.Jobs()
	if err != nil {
		t.Fatal(err)
	}
	fates := map[string]outcome{}
	for i := range rows {
		row := &rows[i]
		switch before, known := fates[row.Job]; {
		case row.State == hpc.Rejected:
			fates[row.Job] = outcome{"rejected", slurmsAnswer.FindString(row.Reason)}
		case row.Start != 0:
			fates[row.Job] = outcome{verdict: "runs"}
		case !known || before.verdict != "runs":
			fates[row.Job] = outcome{"never starts", fmt.Sprint(row.State)}
		}
	}
	return fates
}
