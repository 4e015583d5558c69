package slurm

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// submittedTo makes an engine without daemons that knows submissions by name: with a
// number from 101 up in the order given; "-name" was refused, "?name" is unanswered.
func submittedTo(names ...string) *Engine {
	e := &Engine{byID: map[string]*submission{}}
	for i, name := range names {
		s := &submission{answered: true, number: uint32(101 + i)}
		if strings.HasPrefix(name, "-") {
			s.refused, s.number = true, 0
		}
		if strings.HasPrefix(name, "?") {
			s.answered, s.number = false, 0
		}
		name = strings.TrimLeft(name, "-?")
		s.job = &hpc.Job{ID: name}
		e.byID[name] = s
		e.submissions = append(e.submissions, s)
	}
	return e
}

func TestDependencyNumbers(t *testing.T) {
	e := submittedTo("a", "b", "array", "x_1", "-no")
	for spec, want := range map[string]string{
		"":                       "",
		"afterok:a":              "afterok:101",
		"a":                      "afterany:101",
		"afterok:a:b":            "afterok:101,afterok:102",
		"afterok:a,afterany:b":   "afterok:101,afterany:102",
		"afterok:a?afternotok:b": "afterok:101?afternotok:102",
		"after:a+5":              "after:101+5",
		"afterok:array_3":        "afterok:103_3",
		"aftercorr:array":        "aftercorr:103",
		"afterok:x_1":            "afterok:104", // a name is a name, even if it looks like a task
		"singleton":              "singleton",
		"singleton,afterok:b":    "singleton,afterok:102",
		"AfterOK:a":              "afterok:101",
	} {
		if got, err := e.dependency(spec); err != nil || got != want {
			t.Errorf("dependency(%q) = %q, %v, want %q", spec, got, err, want)
		}
	}
	for spec, want := range map[string]string{
		"afterok:z":         "on job z, which has not been submitted",
		"afterok:z_1":       "on job z_1, which has not been submitted",
		"afterok:a:no":      "on job no, which was rejected",
		"afterok:":          "not a dependency",
		"whenever:a":        "not a dependency",
		"afterok:a?b,after": "cannot be mixed",
	} {
		if got, err := e.dependency(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("dependency(%q) = %q, %v, want an error about %q", spec, got, err, want)
		}
	}
}

func TestUnnumbered(t *testing.T) {
	e := submittedTo("a", "-no", "?late", "?later")
	for spec, want := range map[string]string{
		"": "", "afterok:a": "", "afterok:no": "", "afterok:z": "", "whenever:late": "", "singleton": "",
		"afterok:late": "late", "afterok:a:late_2": "late", "afterany:later,afterok:late": "later",
	} {
		got := ""
		if s := e.unnumbered(spec); s != nil {
			got = s.job.ID
		}
		if got != want {
			t.Errorf("%q waits for the number of %q, want %q", spec, got, want)
		}
	}
}

const sacctHeader = "JobIDRaw|JobID|JobName|Submit|Start|End|State|NodeList|Account|QOS|Priority|AllocTRES\n"

func TestParseSacct(t *testing.T) {
	sacct, err := ParseSacct(sacctHeader +
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
	if sacct, err := ParseSacct(sacctHeader); err != nil || len(sacct.lines) != 0 {
		t.Errorf("no jobs: %v, %v", sacct, err)
	}
	for name, text := range map[string]string{
		"short":      sacctHeader + "7|7|one\n",
		"no number":  sacctHeader + "7_1|7|one|||||||||\n",
		"too large":  sacctHeader + "4294967296|7|one|||||||||\n",
		"empty line": sacctHeader + "\n7|7|one|||||||||\n",
		"long":       "JobIDRaw|State\n7|COMPLETED|more\n", // there is no name that could have the bar
	} {
		if sacct, err := ParseSacct(text); err == nil {
			t.Errorf("%s: %v, want an error", name, sacct)
		}
	}
}

// FuzzParseSacct: hostile output is an error, not a panic.
func FuzzParseSacct(f *testing.F) {
	f.Add(sacctHeader + "7|7|one|||2024-01-01T00:00:10|COMPLETED|c1|phys|normal|5|cpu=1\n")
	f.Add("JobName\n|\n")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		sacct, err := ParseSacct(text)
		if err == nil && len(sacct.lines) > strings.Count(text, "\n") {
			t.Errorf("%d records of %d lines", len(sacct.lines), strings.Count(text, "\n"))
		}
	})
}

func compareSacct(text string, rows ...run.Row) ([]string, error) {
	sacct, err := ParseSacct(text)
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

func TestCompareSacct(t *testing.T) {
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
		"resubmitted":              {line(at(5), at(10), at(20), "COMPLETED", "c1", "phys", "normal"), row(func(r *run.Row) { r.Resubmit = after(5) }), nil},
		"task":                     {line(at(0), at(10), at(20), "FAILED", "c1", "phys", "normal"), row(func(r *run.Row) { r.Task = 3 }), []string{"job j_3: state COMPLETED, slurmdbd has FAILED"}},
		"lost":                     {sacctHeader, row(nil), []string{"job j: slurmdbd has no job 7"}},
		"lost, since held":         {sacctHeader, row(func(r *run.Row) { r.Eligible = 0 }), nil},
		"lost, but eligible never": {sacctHeader, row(func(r *run.Row) { r.State, r.Start = hpc.Cancelled, 0 }), nil},
		"rejected":                 {sacctHeader, row(func(r *run.Row) { r.State = hpc.Rejected }), nil},
		"still running":            {sacctHeader, row(func(r *run.Row) { r.State = hpc.Running }), nil},
	} {
		got, err := compareSacct(tt.sacct, tt.row)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: differences (-want +got)\n%s", name, diff)
		}
	}
	if _, err := compareSacct(sacctHeader + "7\n"); err == nil {
		t.Error("broken output: no error")
	}
}

func TestAmendFromSacct(t *testing.T) {
	sacct, err := ParseSacct(sacctHeader + "7|7|j||||COMPLETED|c1|phys|normal|1234|cpu=4,mem=1G\n8|8|k||||COMPLETED|c1|phys|normal||cpu=1\n")
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

// A job that is cancelled before slurmctld has answered its submission (it sleeps for a
// microsecond of virtual time over each) is cancelled once it has.
func TestCancelBeforeTheAnswer(t *testing.T) {
	s := scenario{cluster: writeCluster(t, clusterFiles(t))}
	s.workload.Jobs = workload.JobsOf(
		job("hasty", 10, 60, func(j *hpc.Job) { j.CancelAfter = time.Nanosecond }),
		job("array", 10, 60, func(j *hpc.Job) { j.Array, j.CancelAfter = "1-2", time.Nanosecond }),
		job("other", 10, 60, nil),
	)
	o := s.play(t)
	for _, name := range []string{"hasty", "array_1", "array_2"} {
		if r := o.rows[name]; r.State != hpc.Cancelled || !r.Start.IsZero() {
			t.Errorf("%s: %s", name, describe(&r))
		}
	}
	if r := o.rows["other"]; r.State != hpc.Completed {
		t.Errorf("other: %s", describe(&r))
	}
	o.drained()
}

// With a full job table slurmctld takes no more for now. Such a submission is tried
// again, as sbatch does, and what depends on it waits for its number.
func TestDependencyOnWhatWasNotTakenAtFirst(t *testing.T) {
	s := scenario{cluster: writeCluster(t, clusterFiles(t, "MinJobAge=300", "MinJobAge=2\nMaxJobCount=2"))}
	s.workload.Jobs = workload.JobsOf(
		job("first", 10, 30, on("c1")), job("second", 10, 40, on("c2")), job("third", 11, 30, on("c1")),
		job("last", 12, 10, dependsOn("afterok:third")),
	)
	o := s.play(t)
	for _, name := range []string{"first", "second", "third", "last"} {
		if r := o.rows[name]; r.State != hpc.Completed {
			t.Errorf("%s: %s", name, describe(&r))
		}
	}
	third, last := o.rows["third"], o.rows["last"]
	if third.Submit < after(25) || last.Start < third.End {
		t.Errorf("the job table was never full, or the dependency was lost: %s, %s", describe(&third), describe(&last))
	}
	o.drained()
}

// A slurm.conf that is put in the place of another has the same nodes, scaled as those are, and
// the same accounting.
func TestCheckSlurmConf(t *testing.T) {
	files := clusterFiles(t)
	files["same.conf"] = files["slurm.conf"] + "SchedulerParameters=bf_continue\n"
	files["accounts.conf"] = strings.Replace(files["slurm.conf"], "accounting_storage/none", "accounting_storage/slurmdbd", 1)
	files["other.conf"] = strings.Replace(files["slurm.conf"], "NodeName=c[1-4]", "NodeName=c[1-3]", 1)
	cluster := writeCluster(t, files)
	half, err := cluster.Scale(0.5)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*conf.Cluster{cluster, half} {
		for name, want := range map[string]string{"same.conf": "", "accounts.conf": "AccountingStorageType", "none.conf": "no such file"} {
			err := CheckSlurmConf(hpc.Action{SlurmConf: name}, c)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %d nodes: %v, want %q", name, len(c.Nodes), err, want)
			}
		}
	}
	if err := CheckSlurmConf(hpc.Action{SlurmConf: "other.conf"}, cluster); err == nil || !strings.Contains(err.Error(), "its nodes are not those of") {
		t.Errorf("other nodes: %v", err)
	}
}
