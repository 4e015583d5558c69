package slurm

import (
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/audit"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// submittedTo returns jobs that need no daemon and have submissions with the given names. Their
// numbers count from 101 in the order of the names. slurmctld refused "-name" and has not
// answered "?name".
func submittedTo(names ...string) *jobs {
	e := newJobs(&loop{}, &users{}, slurmspec.R2205)
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
		"afterok:x_1":            "afterok:104", // x_1 is the name of a job here, and no task of x
		"singleton":              "singleton",
		"singleton,afterok:b":    "singleton,afterok:102",
		"AfterOK:a":              "afterok:101",
	} {
		if got, err := e.dependency(spec, nil); err != nil || got != want {
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
		if got, err := e.dependency(spec, nil); err == nil || !strings.Contains(err.Error(), want) {
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

func compareSacct(text string, rows ...run.Row) ([]string, error) {
	sacct, err := audit.ParseJobs(text)
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

// TestCancelBeforeTheAnswer: a user cancels a job before slurmctld has answered its submission
// (slurmctld sleeps for a microsecond of virtual time at each submission). The engine cancels the
// job after the answer.
func TestCancelBeforeTheAnswer(t *testing.T) { eachSlurm(t, testCancelBeforeTheAnswer) }

func testCancelBeforeTheAnswer(t *testing.T, slurm *install.Installation) {
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t))}
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

// TestDependencyOnRetriedJob: while its job table is full, slurmctld accepts no job. The engine
// submits the job again, as sbatch does, and jobs that depend on it wait for its number.
func TestDependencyOnRetriedJob(t *testing.T) { eachSlurm(t, testDependencyOnRetriedJob) }

func testDependencyOnRetriedJob(t *testing.T, slurm *install.Installation) {
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t, "MinJobAge=300", "MinJobAge=2\nMaxJobCount=2"))}
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
	if since(third.Submit) < 25 || last.Start < third.End {
		t.Errorf("the job table was never full, or the dependency was lost: %s, %s", describe(&third), describe(&last))
	}
	o.without("dependency-forgotten").drained() // MinJobAge is short
}

// TestForgottenJob: a job that depends on a job that slurmctld has forgotten runs on every release.
// Slurm 23.02 and later refuse the job at first. The engine then submits the job without this
// dependency, but with its other dependencies, and adds a warning.
func TestForgottenJob(t *testing.T) { eachSlurm(t, testForgottenJob) }

func testForgottenJob(t *testing.T, slurm *install.Installation) {
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t, "MinJobAge=300", "MinJobAge=2"))}
	s.workload.Jobs = workload.JobsOf(
		job("first", 10, 5, on("c1")), job("long", 10, 900, on("c2")),
		job("after", 600, 10, dependsOn("afterok:first")),
		job("both", 600, 10, dependsOn("afterok:first,afterok:long")),
		job("never", 600, 10, dependsOn("afternotok:first")),
	)
	o := s.play(t)
	for _, name := range []string{"first", "long", "after", "both", "never"} {
		if r := o.rows[name]; r.State != hpc.Completed {
			t.Errorf("%s: %s", name, describe(&r))
		}
	}
	if after, both, long := o.rows["after"], o.rows["both"], o.rows["long"]; after.Start >= long.End || both.Start < long.End {
		t.Errorf("after %s, both %s: want the first at once, and the second after %s", describe(&after), describe(&both), describe(&long))
	}
	said := false
	for _, w := range o.warnings {
		said = said || w.Code == "dependency-forgotten" && strings.HasPrefix(w.Text, "3 jobs (after, both, never) were ") && !w.AffectsResult
	}
	if said != slurm.Release.Since(slurmspec.R2302) {
		t.Errorf("warnings %+v", o.warnings)
	}
	o.without("dependency-forgotten").drained()
}

// TestEligibleAtStart: when a job starts, the engine knows when the job became eligible. The value
// equals the value that slurmctld reports at the job's end. An interrupted run needs the earlier
// value, since it does not see its running jobs end.
func TestEligibleAtStart(t *testing.T) { eachSlurm(t, testEligibleAtStart) }

func testEligibleAtStart(t *testing.T, slurm *install.Installation) {
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t)), reasons: 2 * time.Minute}
	s.workload.Jobs = workload.JobsOf(
		job("long", 10, 2000, with(on("c1"), func(j *hpc.Job) { j.Exclusive = "node" })), job("first", 10, 400, on("c2")),
		job("short", 300, 10, on("c2")), job("waits", 20, 10, on("c1")),
		job("after", 30, 10, with(on("c1"), dependsOn("afterok:first"))),
		job("later", 40, 10, with(on("c2"), func(j *hpc.Job) { j.Begin = 10 * time.Minute })),
		job("atonce", 40, 10, with(on("c2"), dependsOn("afterok:first"))), // eligible after the last question
	)
	o := s.play(t)
	seen := 0
	for _, ev := range o.events {
		if ev.Kind != rm.Started {
			continue
		}
		seen++
		if want := o.rows[ev.Job].Eligible; ev.Outcome.Eligible != want && (ev.Job != "atonce" || ev.Outcome.Eligible != 0) {
			t.Errorf("%s: eligible %s when it started, and %s at its end", ev.Job, ev.Outcome.Eligible, want)
		}
	}
	if seen != 7 {
		t.Errorf("%d jobs started, want 7", seen)
	}
	o.drained()
}

// TestCheckSlurmConf: a slurm.conf that replaces another has the same nodes, scaled by the
// cluster's factor, and the same accounting.
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
	if err := CheckSlurmConf(hpc.Action{SlurmConf: "other.conf"}, cluster); err == nil || !strings.Contains(err.Error(), "its nodes differ from") {
		t.Errorf("other nodes: %v", err)
	}
}
