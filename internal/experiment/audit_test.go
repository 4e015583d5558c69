package experiment

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/replay"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// Differences from slurmdbd's records, and facts that cannot be compared with them, are warnings
// of a complete run.
func TestWarnOfDifferences(t *testing.T) {
	for name, tt := range map[string]struct {
		differences []string
		err         error
		want        []run.Warning
	}{
		"no differences": {want: []run.Warning{}},
		"two differences": {[]string{"a", "b"}, nil, []run.Warning{{
			Code: "events-differ", Text: "the events and slurmdbd differ in 2 places: a, b", AffectsResult: true, Count: 2,
		}}},
		"unreadable": {[]string{"a"}, errors.New("no list"), []run.Warning{{
			Code: "slurmdbd-not-compared", Text: "the events could not be compared with slurmdbd: no list", AffectsResult: true, Count: 1,
		}}},
	} {
		dir := filepath.Join(t.TempDir(), "run")
		w, err := run.Create(dir, run.Manifest{Engine: "slurm"}, run.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(warnOfDifferences(w, "events-differ", "the events", tt.differences, tt.err), w.Finish(run.StateComplete, nil)); err != nil {
			t.Fatal(err)
		}
		r, err := run.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, r.Manifest.Warnings); diff != "" || r.Manifest.State != run.StateComplete {
			t.Errorf("%s: state %s (-want +got)\n%s", name, r.Manifest.State, diff)
		}
	}
}

// A run says that jobs run into a maintenance because they ran when the window began.
func TestPresetInMaintenance(t *testing.T) {
	start := hpc.Unix(1_709_600_000)
	w := &workload.Workload{Start: start}
	w.Jobs.Append(&hpc.Job{ID: "long", Submit: start.Add(-time.Hour), Behaviour: hpc.Behaviour{RunTime: 3 * time.Hour},
		Recorded: &hpc.Recorded{Start: start.Add(-time.Hour), Nodes: "n1"}})
	for flag, want := range map[string]int{"MAINT": 1, "FLEX": 0} {
		w.Reservations = []hpc.ReservationEvent{{At: start, Action: "create",
			Reservation: hpc.Reservation{Start: start.Add(time.Hour), Duration: time.Hour, Nodes: "ALL", Flags: []string{flag}}}}
		list := (&Prepared{workload: w}).undone(replay.Result{}, nil)
		if len(list) != want || want == 1 && (list[0].AffectsResult || !strings.Contains(list[0].Text,
			"1 job ran when the window began, and still when the maintenance of 2024-03-05T01:53:20Z began")) {
			t.Errorf("%s: %+v", flag, list)
		}
	}
}

// The hint at a shorter MaxTime says that the cluster's own must stay: under a lower MaxTime longer jobs are
// rejected, except those that run when the window begins.
func TestRejectedForLimit(t *testing.T) {
	for reason, want := range map[string]bool{
		"ESLURM_INVALID_TIME_LIMIT: too long":                                    true,
		"partition batch has MaxTime=02:00:00; the jobs' time limits are longer": true,
		"time limit 4h0m0s: above 2h0m0s of partition batch":                     true,
		"ESLURM_INVALID_PARTITION_NAME: the workload's partition does not exist": false,
	} {
		list := (&foreseen{}).rejected(replay.Result{Rejected: []replay.Rejection{{Job: "a", Reason: reason, Tasks: 1}}})
		if len(list) != 1 || strings.Contains(list[0].Text, "do not change the cluster's MaxTime but lower the jobs' limits") != want {
			t.Errorf("%+v", list)
		}
	}
}

// A rejected job that ran on record makes a run not valid on Slurm and on its model, even if --nodes made the machine
// too small for the job. A job that did not run on record affects the result only if Slurm rejects every job.
func TestRejectedAffects(t *testing.T) {
	why := replay.Rejection{Job: "a", Reason: "a submission was refused: ESLURM_INVALID_NODE_COUNT: not possible", Tasks: 1}
	some := replay.Progress{Submitted: 2, Refused: 1}
	for name, tt := range map[string]struct {
		result replay.Result
		want   bool
	}{
		"ran on record":         {replay.Result{Progress: some, Missing: []replay.Rejection{why}}, true},
		"did not run on record": {replay.Result{Progress: some}, false},
		"every job":             {replay.Result{Progress: replay.Progress{Submitted: 1, Refused: 1}}, true},
	} {
		tt.result.Rejected = []replay.Rejection{why}
		slurm := slurmEngine{spec: Slurm{NodeFactor: 0.05}}
		for engine, warnings := range map[string][]run.Warning{
			"Slurm": slurm.unlike(tt.result, nil, 0), "model": (&foreseen{}).rejected(tt.result),
		} {
			if len(warnings) != 1 || warnings[0].Code != "jobs-rejected" || warnings[0].AffectsResult != tt.want {
				t.Errorf("%s, %s: %+v, want one that affects the result: %t", name, engine, warnings, tt.want)
			}
		}
	}
}
