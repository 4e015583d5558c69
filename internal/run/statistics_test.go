package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
)

// TestStatistics writes and reads the scheduler's counters. A record without counters, and an
// incomplete record, have none.
func TestStatistics(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	w, err := Create(dir, Manifest{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []rm.Statistics{
		{
			At: hpc.Time(599 * time.Second), JobsStarted: 3, MainSum: 5 * time.Microsecond, BackfillTried: 7,
			MainExits: []rm.Exits{{Name: "end_job_queue", Count: 4}, {Name: "licenses", Count: 0}}, BackfillExits: []rm.Exits{}, Requests: []rm.Requests{{Type: "REQUEST_PING", Count: 3, Time: time.Millisecond}},
		},
		{At: hpc.Time(1199 * time.Second), Since: hpc.Time(time.Second), MainExits: []rm.Exits{}, BackfillExits: []rm.Exits{{Name: "bf_max_time", Count: 1}}, Requests: []rm.Requests{}},
	}
	for _, s := range want {
		if err := w.Statistics(s); err != nil {
			t.Fatal(err)
		}
	}
	open := func() []rm.Statistics {
		t.Helper()
		r, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		list, err := r.Statistics()
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	if got := open(); len(got) > 0 {
		t.Errorf("a record in progress: %+v", got)
	}
	if err := w.Finish(StateComplete, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, open()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if err := w.Statistics(want[0]); err == nil {
		t.Error("statistics after the end")
	}
	path := filepath.Join(dir, schedulerFile)
	if err := os.WriteFile(path, []byte("PAR1 no table PAR1"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Statistics(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a damaged table: %v", err)
	}
	// A new record in the directory has no statistics, because Create removes the statistics of a
	// killed writer.
	w, err = Create(dir, Manifest{}, Options{Overwrite: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Statistics(want[0]); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(path + "*"); len(left) > 0 || len(open()) > 0 {
		t.Errorf("after a writer that did not finish: %v", left)
	}
}
