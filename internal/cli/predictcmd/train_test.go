package predictcmd

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// TestTrainOneBurst trains on jobs that were all submitted before the first of them ended. No
// prediction of the first model can be scored. The command prints this instead of a score.
func TestTrainOneBurst(t *testing.T) {
	for between, want := range map[time.Duration]string{
		0:           "the last fifth, predicted from the first four: not scored, since all of its jobs were submitted before the first four fifths had ended\n",
		time.Minute: "the last fifth, predicted from the first four: mean absolute error 0 s, 100.0 % of 20 jobs between P10 and P90 (jobs that were submitted after the first four fifths had ended)\n",
	} {
		var out bytes.Buffer
		o := commands{console.Output{Stdout: &out, Stderr: &out}, func(string) (*workload.Workload, error) {
			w := new(workload.Workload)
			for i := range 100 {
				j := &hpc.Job{ID: fmt.Sprint(i), Submit: hpc.Unix(1e9).Add(time.Duration(i) * between)}
				j.User, j.Tasks, j.RunTime, j.TimeLimit = "ana", 1, time.Minute, time.Minute
				j.Recorded = &hpc.Recorded{Start: j.Submit}
				w.Jobs.Append(j)
			}
			return w, nil
		}}
		opts := trainOptions{output: filepath.Join(t.TempDir(), "m.model"), kind: "forest", target: "run-time", window: 1000}
		if err := o.train(t.Context(), "burst", opts); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(out.String(), want) {
			t.Errorf("a job each %v: %s, want %s", between, &out, want)
		}
	}
}

// TestTrainOnMade trains on jobs whose limits were made by a rule: the command says so.
func TestTrainOnMade(t *testing.T) {
	for made, want := range map[string]string{
		"time_limit=published": "note: workload complete made fields by rules that use how the jobs ran: time limit (100 jobs); the scores do not apply to a log that has these fields recorded\n",
		"":                     "between P10 and P90 (jobs that were submitted after the first four fifths had ended)\n",
	} {
		var out bytes.Buffer
		o := commands{console.Output{Stdout: &out, Stderr: &out}, func(string) (*workload.Workload, error) {
			w := new(workload.Workload)
			for i := range 100 {
				j := &hpc.Job{ID: fmt.Sprint(i), Submit: hpc.Unix(1e9).Add(time.Duration(i) * time.Minute), Made: made}
				j.User, j.Tasks, j.RunTime, j.TimeLimit = "ana", 1, time.Minute, time.Minute
				j.Recorded = &hpc.Recorded{Start: j.Submit}
				w.Jobs.Append(j)
			}
			return w, nil
		}}
		opts := trainOptions{output: filepath.Join(t.TempDir(), "m.model"), kind: "linear", target: "run-time", window: 1000}
		if err := o.train(t.Context(), "made", opts); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(out.String(), want) {
			t.Errorf("%q: %s, want %s", made, &out, want)
		}
	}
}
