package experiment

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/run"
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

// A smaller machine excuses only rejections for the machine's size.
func TestForSize(t *testing.T) {
	for why, want := range map[string]bool{
		"a (a submission was refused: ESLURM_TOO_MANY_REQUESTED_CPUS: more CPUs are asked for than a job may have)": true,
		"b (dependency afterok:a on job a, which was rejected)":                                                     true,
		"c (a submission was refused: ESLURM_INVALID_ACCOUNT: the account does not exist)":                          false,
		"asks for 16 processors; the machine has 1":                                                                 true,
		"asks for more than its permitted nodes have":                                                               true,
		"--dependency=after:e: job e was rejected":                                                                  true,
		"there is no partition short":                                                                               false,
		"d (user \"\" does not exist)":                                                                              false,
	} {
		if forSize.MatchString(why) != want {
			t.Errorf("%s: want %v", why, want)
		}
	}
}
