package audit

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec"
)

// after returns the instant the given number of seconds after the beginning of 2024.
func after(seconds int) hpc.Time {
	return hpc.Unix(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).Unix() + int64(seconds))
}

const sacctHeader = "JobIDRaw|JobID|JobName|Submit|Start|End|State|NodeList|Account|QOS|Priority|AllocTRES\n"

func TestParseJobs(t *testing.T) {
	sacct, err := ParseJobs(sacctHeader +
		"7|7|one|||2024-01-01T00:00:10|COMPLETED|c1|phys|normal|5|cpu=1\n" +
		"8|8|a|b||c|||2024-01-01T00:00:10|FAILED|c1|phys|normal|6|\n" +
		"7|7|one|||2024-01-01T00:00:20|TIMEOUT|c2|phys|normal|5|cpu=1\n")
	if err != nil {
		t.Fatal(err)
	}
	if r, ok := sacct.job(7); !ok || len(sacct.lines) != 2 || r.get("State") != "TIMEOUT" || r.get("NodeList") != "c2" {
		t.Errorf("job 7, which ran twice, is %v", r)
	}
	if r, _ := sacct.job(8); r.get("JobName") != "a|b||c" || r.get("State") != "FAILED" || r.get("NoColumn") != "" {
		t.Errorf("job 8, whose name has bars, is %v", r)
	}
	if sacct, err := ParseJobs(sacctHeader); err != nil || len(sacct.lines) != 0 {
		t.Errorf("no jobs: %v, %v", sacct, err)
	}
	for name, text := range map[string]string{
		"short":      sacctHeader + "7|7|one\n",
		"no number":  sacctHeader + "7_1|7|one|||||||||\n",
		"too large":  sacctHeader + "4294967296|7|one|||||||||\n",
		"empty line": sacctHeader + "\n7|7|one|||||||||\n",
		"long":       "JobIDRaw|State\n7|COMPLETED|more\n", // there is no name that could have the bar
	} {
		if sacct, err := ParseJobs(text); err == nil {
			t.Errorf("%s: %v, want an error", name, sacct)
		}
	}
}

// FuzzParseJobs: hostile output is an error, not a panic.
func FuzzParseJobs(f *testing.F) {
	f.Add(sacctHeader + "7|7|one|||2024-01-01T00:00:10|COMPLETED|c1|phys|normal|5|cpu=1\n")
	f.Add("JobName\n|\n")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		sacct, err := ParseJobs(text)
		if err == nil && len(sacct.lines) > strings.Count(text, "\n") {
			t.Errorf("%d records of %d lines", len(sacct.lines), strings.Count(text, "\n"))
		}
	})
}

func compareJobs(text string, rows ...run.Row) ([]string, error) {
	sacct, err := ParseJobs(text)
	if err != nil {
		return nil, err
	}
	return sacct.Compare(func(yield func(*run.Row) bool) {
		for i := range rows {
			if !yield(&rows[i]) {
				return
			}
		}
	}), nil
}

func TestCompareJobs(t *testing.T) {
	row := func(change func(*run.Row)) run.Row {
		r := run.Row{
			Job: "j", Task: -1, RMJob: 7, State: hpc.Completed, Account: "phys", QOS: "normal", Nodes: "c1",
			Submit: after(0), Eligible: after(0), Start: after(10), End: after(20),
		}
		if change != nil {
			change(&r)
		}
		return r
	}
	requeued := func(r *run.Row) { // after 20 s; cancelled after 30 s
		r.Segments = []run.Segment{{Start: r.Start, End: r.End, Nodes: r.Nodes, EndedBy: rm.Requeue}}
		r.State, r.Resubmit, r.Start, r.End, r.Nodes = hpc.Cancelled, after(20), 0, after(30), ""
	}
	at := func(s int) string { return slurmspec.FormatTime(after(s)) }
	line := func(submit, start, end, state, nodes, account, qos string) string {
		return sacctHeader + "7|7|j|" + strings.Join([]string{submit, start, end, state, nodes, account, qos}, "|") + "|1|\n"
	}
	same := line(at(0), at(10), at(20), "COMPLETED", "c1", "phys", "normal")
	for name, tt := range map[string]struct {
		sacct string
		row   run.Row
		want  []string
	}{
		"same":                 {same, row(nil), nil},
		"fractions of seconds": {same, row(func(r *run.Row) { r.Start += hpc.Second / 2 }), nil},
		"everything": {
			line(at(1), at(11), at(21), "TIMEOUT", "c2", "bio", "high"), row(nil),
			[]string{
				"job j: submit " + at(0) + ", slurmdbd has " + at(1), "job j: start " + at(10) + ", slurmdbd has " + at(11),
				"job j: end " + at(20) + ", slurmdbd has " + at(21), "job j: state COMPLETED, slurmdbd has TIMEOUT",
				"job j: nodes c1, slurmdbd has c2", "job j: account phys, slurmdbd has bio", "job j: QOS normal, slurmdbd has high",
			},
		},
		"cancelled in the queue": {
			line(at(0), "Unknown", at(20), "CANCELLED by 1001", "None assigned", "phys", "Unknown"),
			row(func(r *run.Row) { r.State, r.Start, r.Nodes = hpc.Cancelled, 0, "" }), nil,
		},
		"cancelled before slurmdbd knew it": {
			line(at(0), at(20), at(20), "CANCELLED by 1001", "None assigned", "phys", "normal"),
			row(func(r *run.Row) { r.State, r.Start, r.Nodes = hpc.Cancelled, 0, "" }), nil,
		},
		"another task has the array's number": {
			strings.Replace(same, "\n7|7|j", "\n7|7_4|j", 1), row(func(r *run.Row) { r.Task, r.State, r.Start = 3, hpc.Cancelled, 0 }), nil,
		},
		"resized": {
			line(at(0), at(10), at(15), "RESIZING", "c[1-2]", "phys", "normal") + strings.TrimPrefix(line(at(15), at(15), at(20), "COMPLETED", "c1", "phys", "normal"), sacctHeader),
			row(nil), nil,
		},
		"resubmitted": {line(at(5), at(10), at(20), "COMPLETED", "c1", "phys", "normal"), row(func(r *run.Row) { r.Resubmit = after(5) }), nil},
		"requeued, cancelled in the queue": {
			line(at(20), "Unknown", at(30), "CANCELLED by 1001", "None assigned", "phys", "normal"), row(requeued), nil,
		},
		"requeued, eligible never again": {line(at(0), at(10), at(20), "PREEMPTED", "c1", "phys", "normal"), row(requeued), nil},
		"requeued, another run before": {
			line(at(0), at(11), at(21), "PREEMPTED", "c2", "phys", "normal"), row(requeued),
			[]string{
				"job j: start " + at(10) + " of the run that it lost, slurmdbd has " + at(11),
				"job j: end " + at(20) + " of the run that it lost, slurmdbd has " + at(21),
				"job j: nodes c1 of the run that it lost, slurmdbd has c2",
			},
		},
		"task":                     {line(at(0), at(10), at(20), "FAILED", "c1", "phys", "normal"), row(func(r *run.Row) { r.Task = 3 }), []string{"job j_3: state COMPLETED, slurmdbd has FAILED"}},
		"lost":                     {sacctHeader, row(nil), []string{"job j: slurmdbd has no job 7"}},
		"lost, since held":         {sacctHeader, row(func(r *run.Row) { r.Eligible = 0 }), nil},
		"lost, but eligible never": {sacctHeader, row(func(r *run.Row) { r.State, r.Start = hpc.Cancelled, 0 }), nil},
		"rejected":                 {sacctHeader, row(func(r *run.Row) { r.State = hpc.Rejected }), nil},
		"still running":            {sacctHeader, row(func(r *run.Row) { r.State = hpc.Running }), nil},
	} {
		got, err := compareJobs(tt.sacct, tt.row)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: differences (-want +got)\n%s", name, diff)
		}
	}
	if _, err := compareJobs(sacctHeader + "7\n"); err == nil {
		t.Error("broken output: no error")
	}
}

func TestAmend(t *testing.T) {
	sacct, err := ParseJobs(sacctHeader + "7|7|j||||COMPLETED|c1|phys|normal|1234|cpu=4,mem=1G\n8|8|k||||COMPLETED|c1|phys|normal||cpu=1\n")
	if err != nil {
		t.Fatal(err)
	}
	rows := []run.Row{{RMJob: 7}, {RMJob: 8, Priority: 5, TRES: "cpu=2"}, {RMJob: 9, Priority: 6}}
	for i := range rows {
		sacct.Amend(&rows[i])
	}
	want := []run.Row{{RMJob: 7, Priority: 1234, TRES: "cpu=4,mem=1G"}, {RMJob: 8, Priority: 5, TRES: "cpu=2"}, {RMJob: 9, Priority: 6}}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("rows (-want +got)\n%s", diff)
	}
}
