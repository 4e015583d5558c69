package acceptance

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/experiment"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/rmtest"
	"rmreplay/internal/rm/slurm/admission"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/supervise"
	"rmreplay/internal/workload"
)

func TestMain(m *testing.M) {
	supervise.RunIfGuard() // this binary may run as the guard of the daemons
	os.Exit(m.Run())
}

// site is a cluster, and jobs.txt in it has a job for every reason to reject it.
const site = "../experiment/testdata/admission"

// TestAsk asks the three releases about a job for every reason to reject it. The rules of package
// admission must give the same finding for each job, and the same reason for the jobs that never
// start. A replay of these jobs confirms the rules (experiment.TestAdmission). If slurmctld's
// answer differs from the rules' answer, the finding lacks the rules' words, and the comparison
// fails.
func TestAsk(t *testing.T) {
	w := jobs(t)
	for _, named := range []string{"", "24.11", "26.05"} {
		for _, enforce := range []string{"ALL", "NO"} {
			t.Run(named+enforce, func(t *testing.T) {
				needSlurm(t, named)
				dir := cluster(t, "EnforcePartLimits="+enforce)
				is := map[string]admission.Finding{}
				f, err := ask(t.Context(), w, Options{Cluster: dir, Slurm: named},
					func(job string, why admission.Finding) { is[job] = why })
				if err != nil {
					t.Fatal(err)
				}
				want := map[string]admission.Finding{}
				foreseen := rules(t, w, dir, named).Foresee(w, func(job string, why admission.Finding) { want[job] = why })
				for _, job := range w.Jobs.All() {
					a, b := is[job.ID], want[job.ID]
					if means(&b, &a) {
						a.Slurm = b.Slurm
					}
					if a != b {
						t.Errorf("%s: slurmctld says %+v, the rules %+v", job.ID, a, b)
					}
				}
				if f.Rejected != foreseen.Rejected || f.NeverStarts != foreseen.NeverStarts || f.Rejected < 50 {
					t.Errorf("%d rejected and %d that never start, want %d (50 at least) and %d", f.Rejected, f.NeverStarts,
						foreseen.Rejected, foreseen.NeverStarts)
				}
				if a := f.Asked; a.Requests < 100 || a.Requests+a.ByRules > w.Jobs.Len()+2 || a.ByRules != 4 || a.Slurm == "" {
					t.Errorf("it asked %+v about %d jobs", *a, w.Jobs.Len())
				}
			})
		}
	}
}

// TestPreset: slurmctld runs a job that ran when the window began, although its time limit is above MaxTime. It
// rejects a pending job with this limit.
func TestPreset(t *testing.T) {
	needSlurm(t, "")
	w := jobs(t)
	w.Start, w.Reservations = w.Epoch+100*hpc.Second, nil
	w.Jobs = workload.Jobs{}
	for _, in := range []string{"short", "main"} {
		request := hpc.Request{User: "ada", Tasks: 1, Partition: in, TimeLimit: 45 * time.Minute}
		ran := &hpc.Recorded{Start: w.Epoch + hpc.Second, Nodes: "n1"}
		w.Jobs.Append(&hpc.Job{ID: "preset in " + in, Submit: w.Epoch, Recorded: ran, Request: request})
		w.Jobs.Append(&hpc.Job{ID: "pending in " + in, Submit: w.Epoch, Request: request})
	}
	f, err := Ask(t.Context(), w, Options{Cluster: cluster(t, "EnforcePartLimits=ALL")})
	if err != nil {
		t.Fatal(err)
	}
	if f.Asked.Requests != 4 || f.Asked.ByRules != 0 || f.Rejected != 1 || len(f.Groups) != 1 ||
		f.Groups[0].Jobs[0] != "pending in short" ||
		f.Groups[0].Slurm != "ESLURM_INVALID_TIME_LIMIT" || f.Groups[0].Rule != admission.RuleTime {
		t.Errorf("asked %+v, found %+v", f.Asked, f.Groups)
	}
}

// TestComplaint: the answer names a command that sacctmgr refuses, although the rules do not.
func TestComplaint(t *testing.T) {
	needSlurm(t, "")
	dir := cluster(t, "EnforcePartLimits=ALL")
	w := jobs(t)
	w.Jobs = workload.JobsOf(w.Jobs.At(0))
	for _, refused := range []bool{false, true} {
		if refused {
			file, err := os.OpenFile(filepath.Join(dir, "accounts.sacctmgr"), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			_, err = file.WriteString("add qos another\nmodify qos where name=another set flags=Foo\n")
			if err := errors.Join(err, file.Close()); err != nil {
				t.Fatal(err)
			}
		}
		f, err := Ask(t.Context(), w, Options{Cluster: dir})
		if err != nil {
			t.Fatal(err)
		}
		if said := f.Asked.Complaint; strings.Contains(said, "Unknown QOS flag") != refused || !refused && said != "" {
			t.Errorf("refused %v: sacctmgr says %q", refused, said)
		}
	}
}

// TestFinding: slurmctld's answer decides, even if the rules say something else. If the rules mean the
// same, the finding has their words.
func TestFinding(t *testing.T) {
	words := func(verdict admission.Verdict, slurm string) *admission.Finding {
		return &admission.Finding{Verdict: verdict, Rule: "nodes", Slurm: slurm, Text: "too many", Remedy: "ask for fewer"}
	}
	const refusal = "more than one: ESLURM_INVALID_NODE_COUNT: the number of nodes is not possible"
	for name, c := range map[string]struct {
		is       answer
		foreseen *admission.Finding
		slurm    string // the finding's reason in Slurm's words; "" for no finding
		rule     string
	}{
		"starts, although the rules reject it":          {answer{}, words(admission.Rejected, "ESLURM_INVALID_NODE_COUNT"), "", ""},
		"rejected, and the rules foresee the error":     {answer{refused: refusal}, words(admission.Rejected, "ESLURM_INVALID_NODE_COUNT"), "ESLURM_INVALID_NODE_COUNT", "nodes"},
		"rejected, and the rules foresee another error": {answer{refused: refusal}, words(admission.Rejected, "ESLURM_INVALID_QOS"), "ESLURM_INVALID_NODE_COUNT", "slurm"},
		"rejected, and the rules accept it":             {answer{refused: refusal}, nil, "ESLURM_INVALID_NODE_COUNT", "slurm"},
		"rejected, and the rules foresee a wait": {answer{refused: refusal, pending: "Resources"}, words(admission.NeverStarts, "Resources"),
			"ESLURM_INVALID_NODE_COUNT", "slurm"},
		"pends, and the rules foresee the reason": {answer{pending: "BadConstraints"}, words(admission.NeverStarts, "BadConstraints"), "BadConstraints", "nodes"},
		"pends, and the rules foresee it by its error": {answer{pending: "PartitionConfig"}, words(admission.NeverStarts, "ESLURM_REQUESTED_PART_CONFIG_UNAVAILABLE"),
			"PartitionConfig", "nodes"},
		"pends, and the rules foresee another reason": {answer{pending: "BadConstraints"}, words(admission.NeverStarts, "Licenses"), "BadConstraints", "slurm"},
	} {
		f := c.is.finding(c.foreseen)
		if f == nil {
			f = &admission.Finding{}
		}
		if f.Slurm != c.slurm || f.Rule != c.rule || c.rule == "nodes" != (f.Text == "too many") {
			t.Errorf("%s: %+v", name, *f)
		}
		if c.is.refused != "" && (f.Verdict != admission.Rejected || c.rule == "slurm" && f.Text != refusal) {
			t.Errorf("%s: %+v", name, *f)
		}
	}
}

// TestRequests: jobs that differ only in options that never decide about acceptance are one
// request. Arrays are two submissions. A preset job is a submission on its recorded nodes.
// slurmctld is not asked about jobs with a reservation.
func TestRequests(t *testing.T) {
	priority, held := uint32(7), uint32(0)
	base := hpc.Request{User: "ada", Tasks: 2, TimeLimit: time.Hour}
	with := func(change func(r *hpc.Job)) *hpc.Job {
		job := &hpc.Job{ID: "j", Submit: 1000 * hpc.Second, Request: base}
		change(job)
		return job
	}
	for name, c := range map[string]struct {
		job  *hpc.Job
		more int // number of submissions besides those of base
	}{
		"another submit time and run time":     {with(func(j *hpc.Job) { j.Submit *= 2; j.RunTime = time.Hour }), 0},
		"another name, comment and dependency": {with(func(j *hpc.Job) { j.Name, j.Comment, j.Dependency = "n", "c", "afterok:1" }), 0},
		"long name":                            {with(func(j *hpc.Job) { j.Name = strings.Repeat("n", 2000) }), 1},
		"begin":                                {with(func(j *hpc.Job) { j.Begin = time.Hour }), 0},
		"limit":                                {with(func(j *hpc.Job) { j.TimeLimit *= 2 }), 1},
		"user":                                 {with(func(j *hpc.Job) { j.User = "bob" }), 1},
		"priority":                             {with(func(j *hpc.Job) { j.Priority = &priority }), 1},
		"held":                                 {with(func(j *hpc.Job) { j.Priority = &held }), 1},
		"array":                                {with(func(j *hpc.Job) { j.Array = "1-9" }), 2},
		"one task":                             {with(func(j *hpc.Job) { j.Array = "9" }), 1},
		"reservation":                          {with(func(j *hpc.Job) { j.Reservation = "r" }), 0},
		"preset": {with(func(j *hpc.Job) {
			j.Submit = 400 * hpc.Second
			j.Recorded = &hpc.Recorded{Start: 450 * hpc.Second, Nodes: "n1"}
		}), 1},
	} {
		w := &workload.Workload{Start: 500 * hpc.Second, Jobs: workload.JobsOf(with(func(*hpc.Job) {}), c.job)}
		if q := newInquiry(w, unchanged, 100); len(q.jobs) != 1+c.more {
			t.Errorf("%s: %d submissions, want %d", name, len(q.jobs), 1+c.more)
		}
	}
}

// unchanged returns a job as slurmctld admits it: no time limit is above MaxTime.
func unchanged(job *hpc.Job) *hpc.Job { return job }

// TestFrequentFirst: the number of requests is bounded, and the most frequent requests come first.
func TestFrequentFirst(t *testing.T) {
	w := &workload.Workload{}
	for i := range 12 {
		job := &hpc.Job{ID: strconv.Itoa(i), Request: hpc.Request{User: "ada", Tasks: 1}}
		if i%4 != 0 {
			job.Tasks = 2 + i%2 // 3 for six jobs and 2 for three jobs
		}
		w.Jobs.Append(job)
	}
	q := newInquiry(w, unchanged, 2)
	if len(q.jobs) != 2 || q.jobs[0].Tasks != 3 || q.jobs[1].Tasks != 1 || len(q.answers) != 2 {
		t.Errorf("%d submissions of %d requests; the first is %+v", len(q.jobs), len(q.answers), q.jobs[0])
	}
}

func needSlurm(t *testing.T, named string) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED by -short: starts real Slurm")
	}
	if in, err := install.FindSlurm(named); err != nil || in.Need(true) != nil {
		t.Skipf("NOT TESTED on Slurm %s: %v", named, err)
	}
}

func rules(t *testing.T, w *workload.Workload, dir, named string) *admission.Site {
	t.Helper()
	c, err := experiment.OpenCluster(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	site, err := experiment.Rules(w, c, named)
	if err != nil {
		t.Fatal(err)
	}
	return site
}

// cluster returns a copy of the site with one more line in slurm.conf.
func cluster(t *testing.T, line string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(site)); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "slurm.conf")
	text, err := os.ReadFile(conf)
	if err == nil {
		err = os.WriteFile(conf, append(text, []byte(line+"\n")...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func jobs(t *testing.T) *workload.Workload {
	t.Helper()
	lines, err := os.ReadFile(filepath.Join(site, "jobs.txt"))
	if err != nil {
		t.Fatal(err)
	}
	epoch := hpc.Unix(1709596800)
	what, err := rmtest.Parse(string(lines), epoch, "--uid=ada", "-t", "10")
	if err != nil {
		t.Fatal(err)
	}
	return &workload.Workload{
		Source: "a job for each reason", Epoch: epoch, Jobs: workload.JobsOf(what.Jobs...), Reservations: what.Reservations,
	}
}
