package metrics

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/run"
)

// feedbackRows is a record small enough to check by hand. Times are hours from Monday 0 h:
// the recorded submission, then submission, start and end in the replay.
func feedbackRows() []run.Row {
	monday := hpc.Unix(4 * 86400)
	at := func(hours float64) hpc.Time { return monday.Add(time.Duration(hours * float64(time.Hour))) }
	row := func(job, user string, recorded, submit, start, end float64) run.Row {
		return run.Row{Job: job, Task: -1, User: user, State: hpc.Completed, RecordedSubmit: at(recorded), Submit: at(submit), Start: at(start), End: at(end), Processors: 10}
	}
	rows := []run.Row{
		row("1", "ada", 0, 0, 0, 50),
		row("2", "ben", 10, 10, 12, 13),
		row("3", "ada", 20, 30, 30, 60),  // 10 h late
		row("4", "ada", 100, 80, 80, 90), // 20 h early
		row("5", "ben", 40, 46, 46, 48),  // an array of two tasks, 6 h late
		row("5", "ben", 40, 46, 47, 49),
		row("6", "eve", 30, 30, 0, 0), // rejected, and counts as a submission
	}
	rows[6].State, rows[6].Start, rows[6].End, rows[6].Processors = hpc.Rejected, 0, 0, 0
	return rows
}

func TestFeedback(t *testing.T) {
	f := NewFeedback(feedbackRows(), run.Feedback{Model: "fluid", Sessions: "arrival:60m"}, Options{Processors: 20})
	near := func(name string, got Float, want float64) {
		t.Helper()
		if math.Abs(float64(got)-want) > 1e-9*math.Max(1, math.Abs(want)) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	mean := (10 - 20 + 6.0) * 3600 / 6
	near("mean lateness", f.Mean, mean)
	near("relative lateness", f.Relative, 1+mean/(100*3600))
	near("additional lateness", f.Additional, 2*mean/5)
	near("makespan", f.SubmitMakespan, 90*3600)
	near("median of users", f.Users.Mean.Median, 0)
	near("p10 of users", f.Users.Mean.P10, 0.8*-10.0/3*3600)
	// Mean lateness and further submissions: ada −10/3 h and two, ben 3 h and one; eve has only one
	// submission.
	near("ada", f.ByUser[0].Additional, -10.0/3*3600)
	near("ben", f.ByUser[1].Additional, 6*3600)
	near("additional, p90", f.Users.Additional.P90, -10.0/3*3600+0.9*(6+10.0/3)*3600)
	if f.ByUser[2].User != "eve" || f.ByUser[2].Additional.Known() {
		t.Errorf("a user with one submission: %+v", f.ByUser[2])
	}
	// Five jobs end from 5 h to 75 h. They hold ten processors for 45, 1, 30, 2 and 2 h.
	near("throughput", f.Inner.ThroughputPerDay, 5.0/70*24)
	near("processors", f.Inner.MeanProcessors, 10*(45+1+30+2+2)/70.0)
	near("utilization", f.Inner.Utilization, 10*(45+1+30+2+2)/70.0/20)
	want := []Day{{Recorded: 3, Submitted: 2, Ended: 1}, {2, 3, 0}, {0, 0, 4}, {0, 1, 1}, {1, 0, 0}}
	if diff := cmp.Diff(want, f.Days); diff != "" {
		t.Errorf("days (-want +got)\n%s", diff)
	}
	if f.Week.Recorded[20] != 1 || f.Week.Submitted[20] != 0 || f.Week.Submitted[30] != 2 {
		t.Errorf("week: %v, %v", f.Week.Recorded, f.Week.Submitted)
	}
	near("variation", f.Week.RecordedVariation, math.Sqrt(168.0/6-1))
	near("variation of the replay", f.Week.Variation, math.Sqrt((4+4)*168.0/36-1))
	if arrival := f.ByUser[1].Arrival; !arrival.Equal(time.Date(1970, 1, 5, 10, 0, 0, 0, time.UTC)) {
		t.Errorf("ben arrives at %v", arrival)
	}
}

// The summary of a run without feedback has no metrics of feedback. If a run with feedback has no
// jobs, these metrics are null.
func TestFeedbackInSummary(t *testing.T) {
	if s := NewSummary(feedbackRows(), &run.Manifest{}, Options{}); s.Feedback != nil {
		t.Error("a rigid run has metrics of feedback")
	}
	s := NewSummary(nil, &run.Manifest{Feedback: &run.Feedback{Model: "fluid", Jitter: 30}}, Options{})
	text, err := json.Marshal(s)
	if err != nil || !strings.Contains(string(text), `"mean_lateness_s":null`) {
		t.Errorf("%v: %s", err, text)
	}
	var b bytes.Buffer
	if err := s.Render(&b, time.UTC); err != nil || !strings.Contains(b.String(), "users        fluid, submissions moved by up to 30 s") {
		t.Errorf("%v: %s", err, b.String())
	}
}

// The mean is exactly zero if no submission moved.
func TestNoLateness(t *testing.T) {
	rows := feedbackRows()
	for i := range rows {
		rows[i].Submit = rows[i].RecordedSubmit
	}
	f := NewFeedback(rows, run.Feedback{}, Options{})
	if f.Mean != 0 || f.Relative != 1 || f.Additional != 0 || f.Week.Variation != f.Week.RecordedVariation {
		t.Errorf("%+v", f.Lateness)
	}
}
