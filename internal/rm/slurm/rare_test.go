package slurm

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/rm/slurm/nodes"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// once checks that every task of every job ended once and that no job remains.
func (o *outcome) once() {
	o.t.Helper()
	ended := map[string]int{}
	for _, ev := range o.events {
		if ev.Kind == rm.Ended {
			name := describe(&o.list[slices.IndexFunc(o.list, func(r run.Row) bool { return r.Job == ev.Job && r.Task == ev.Task })])
			ended[strings.Fields(name)[0]]++
		}
	}
	for name, n := range ended {
		if n != 1 {
			o.t.Errorf("%s ended %d times", name, n)
		}
	}
	if p := o.result.Progress; p.Pending != 0 || p.Running != 0 || p.Ended != len(o.list) || len(o.result.Undrained) > 0 {
		o.t.Errorf("%+v of %d rows, undrained %v", p, len(o.list), o.result.Undrained)
	}
}

// TestArraysEnd: a task that slurmctld makes a job of its own before it starts ends once, for
// every cause of the end. A task that slurmctld removes without a record ends too.
func TestArraysEnd(t *testing.T) { eachSlurm(t, testArraysEnd) }

func testArraysEnd(t *testing.T, slurm *install.Installation) {
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t))}
	lasting := map[int]time.Duration{0: 20 * time.Second}
	for task := 1; task < 20; task++ {
		lasting[task] = 800 * time.Second
	}
	s.workload.Jobs = workload.JobsOf(
		// x_0 reaches its time limit. y_0 depends on x_0.
		job("x", 10, 0, with(on("c1"), limit(2*time.Minute), func(j *hpc.Job) {
			j.Array, j.TaskRunTimes = "0-1", map[int]time.Duration{0: 500 * time.Second, 1: 20 * time.Second}
		})),
		job("y", 12, 10, with(on("c1"), dependsOn("aftercorr:x"), func(j *hpc.Job) { j.Array = "0-1" })),
		// The user cancels all pending tasks.
		job("a", 1000, 0, func(j *hpc.Job) { j.Array, j.TaskRunTimes = "0-19", lasting }),
		job("b", 1002, 1000, with(dependsOn("aftercorr:a"), cancelledAfter(200), func(j *hpc.Job) { j.Array = "0-19" })),
		// An administrator cancels a task that has no record yet, and one of two running tasks.
		job("blocker", 5000, 100, with(on("c2"), tasks(4))),
		job("c", 5010, 600, with(on("c2"), tasks(2), func(j *hpc.Job) { j.Array = "1-4" })),
	)
	s.workload.Actions = []hpc.Action{
		{At: after(5020), Shell: "scancel $(squeue -h -n c -o %F | head -1)_3"},
		{At: after(5200), Shell: "scancel $(squeue -h -n c -o %F | head -1)_1"},
	}
	s.drainLimit = time.Hour
	o := s.play(t)
	o.once()
	for _, task := range []string{"x_0", "y_0", "b_1", "b_19", "c_1", "c_3"} {
		if state := o.rows[task].State; state == hpc.Completed || !state.Ended() {
			t.Errorf("%s: %s", task, state)
		}
	}
	for _, task := range []string{"x_1", "y_1", "b_0", "c_2", "c_4"} {
		if state := o.rows[task].State; state != hpc.Completed && task != "b_0" {
			t.Errorf("%s: %s", task, state)
		}
	}
}

// TestResizedJob: a job that allows the loss of a node (--no-kill), or that a user shrinks,
// continues on its other nodes.
func TestResizedJob(t *testing.T) { eachSlurm(t, testResizedJob) }

func testResizedJob(t *testing.T, slurm *install.Installation) {
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t))}
	s.workload.NodeEvents = []hpc.NodeEvent{{At: after(100), Nodes: "c2", State: "fail"}}
	s.workload.Actions = []hpc.Action{{At: after(200), Run: []string{"scontrol", "update", "JobId=2", "NumNodes=1"}}}
	two := func(j *hpc.Job) { j.MinNodes, j.MaxNodes, j.Tasks = 2, 2, 2 }
	s.workload.Jobs = workload.JobsOf(
		job("loses", 10, 500, with(on("c[1-2]"), two, func(j *hpc.Job) { j.NoKill = true })),
		job("shrinks", 11, 500, with(on("c[3-4]"), two)),
		job("after", 20, 10, with(on("c1"), dependsOn("afterok:loses"))),
	)
	o := s.play(t)
	o.once()
	for name, want := range map[string]string{"loses": "COMPLETED 11-511 c1", "shrinks": "COMPLETED 14-514 c3", "after": "COMPLETED"} {
		row := o.rows[name]
		if got := describe(&row); !strings.HasPrefix(got, name+" "+want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestRequeueExit: a job is not over if the site requeues jobs with its exit code.
func TestRequeueExit(t *testing.T) { eachSlurm(t, testRequeueExit) }

func testRequeueExit(t *testing.T, slurm *install.Installation) {
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t, "JobRequeue=1", "JobRequeue=1\nRequeueExit=5-6"))}
	s.workload.Jobs = workload.JobsOf(
		job("again", 10, 50, with(on("c1"), cancelledAfter(600), func(j *hpc.Job) { j.ExitCode = 5 })),
		job("fails", 10, 50, with(on("c2"), func(j *hpc.Job) { j.ExitCode = 7 })),
	)
	s.drainLimit = time.Hour
	o := s.play(t)
	o.once()
	if row := o.rows["again"]; row.State != hpc.Cancelled || row.Restarts < 2 {
		t.Errorf("%s, want it cancelled after several runs", describe(&row))
	}
	if row := o.rows["fails"]; row.State != hpc.Failed || row.Restarts != 0 {
		t.Errorf("%s, want it failed at once", describe(&row))
	}
}

// TestRequeuedForEver: the replay gives up a job that slurmctld requeues after each run, just as
// it gives up a job that waits for ever.
func TestRequeuedForEver(t *testing.T) { eachSlurm(t, testRequeuedForEver) }

func testRequeuedForEver(t *testing.T, slurm *install.Installation) {
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t, "JobRequeue=1", "JobRequeue=1\nRequeueExit=5"))}
	s.workload.Jobs = workload.JobsOf(
		job("again", 10, 50, with(on("c1"), func(j *hpc.Job) { j.ExitCode = 5 })),
		job("other", 10, 3000, on("c2")),
	)
	s.drainLimit = time.Hour
	o := s.play(t)
	if row := o.rows["other"]; row.State != hpc.Completed || since(row.Start) > 20 {
		t.Errorf("%s, want it completed", describe(&row))
	}
	if diff := cmp.Diff([]string{"again"}, o.result.Undrained); diff != "" || o.rows["again"].Restarts < 100 {
		t.Errorf("given up after %d restarts (-want +got)\n%s", o.rows["again"].Restarts, diff)
	}
}

// TestUnlistedUser: the submitter of a job exists even if the cluster's list lacks the user. Slurm
// cannot start a job of a user without a name.
func TestUnlistedUser(t *testing.T) { eachSlurm(t, testUnlistedUser) }

func testUnlistedUser(t *testing.T, slurm *install.Installation) {
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t))}
	s.workload.Users = []hpc.User{{Name: "ann", UID: 7, GID: 7}, {Name: "own", UID: 30001, GID: 30001}}
	by := func(user string) func(*hpc.Job) { return func(j *hpc.Job) { j.User = user } }
	s.workload.Jobs = workload.JobsOf(
		job("listed", 10, 50, with(on("c1"), by("ann"))), job("own", 10, 50, with(on("c2"), by("own"))),
		job("unknown", 10, 50, with(on("c3"), by("zed"))), job("nobody", 10, 50, with(on("c4"), by(""))),
	)
	o := s.play(t)
	o.want(`
		listed  COMPLETED 11-61 c1
		own     COMPLETED 11-61 c2
		unknown COMPLETED 11-61 c3
		nobody  REJECTED - - user "" does not exist (want a user of the cluster or of the workload)`)
	if text, err := os.ReadFile(filepath.Join(s.logs, "slurmctld.log")); err != nil || strings.Contains(string(text), "getpwuid") {
		t.Errorf("%v; slurmctld.log:\n%s", err, text)
	}
}

// TestRequeueAfterTheEnd: a requeue after a job's end is noticed when the job starts again.
func TestRequeueAfterTheEnd(t *testing.T) { eachSlurm(t, testRequeueAfterTheEnd) }

func testRequeueAfterTheEnd(t *testing.T, slurm *install.Installation) {
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t))}
	s.workload.Jobs = workload.JobsOf(job("twice", 10, 50, on("c1")), job("other", 10, 1000, on("c2")))
	s.workload.Actions = []hpc.Action{{At: after(100), Run: []string{"scontrol", "requeue", "1"}}}
	o := s.play(t)
	if row := o.rows["twice"]; row.State != hpc.Completed || row.Restarts != 1 || since(row.Start) < 100 {
		t.Errorf("%s, want a second run", describe(&row))
	}
	if p := o.result.Progress; p.Pending != 0 || p.Running != 0 || p.Ended != 2 {
		t.Errorf("%+v, want 2 ended and nothing else", p)
	}
}

// TestEndBeforeTheLaunch: a job that ends before its launch on the nodes has not run.
func TestEndBeforeTheLaunch(t *testing.T) { eachSlurm(t, testEndBeforeTheLaunch) }

func testEndBeforeTheLaunch(t *testing.T, slurm *install.Installation) {
	prolog, err := nodes.ParseDelay("60s")
	if err != nil {
		t.Fatal(err)
	}
	s := scenario{slurm: slurm,
		cluster: writeCluster(t, clusterFiles(t, "JobRequeue=1", "JobRequeue=1\nPrologFlags=Alloc,DeferBatch")),
		delays:  nodes.Delays{Prolog: prolog, Seed: 7},
	}
	s.workload.Jobs = workload.JobsOf(
		job("cancelled", 10, 50, cancelledAfter(30)),
		job("long", 1000, 8000, limit(5*time.Hour)),
	)
	s.drainLimit = time.Hour
	o := s.play(t)
	o.once()
	if row := o.rows["long"]; row.State != hpc.Completed {
		t.Errorf("%s, want it completed", describe(&row))
	}
}

// TestEndless: the replay gives up jobs that never end: a suspended job and a job without a
// limit.
func TestEndless(t *testing.T) { eachSlurm(t, testEndless) }

func testEndless(t *testing.T, slurm *install.Installation) {
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t,
		"Default=YES MaxTime=INFINITE DefaultTime=60", "Default=YES MaxTime=INFINITE DefaultTime=INFINITE",
		"DefaultTime=60 DefMemPerCPU=1000 PriorityTier=10", "DefaultTime=10:00:00 DefMemPerCPU=1000 PriorityTier=10"))}
	s.workload.Jobs = workload.JobsOf(
		job("suspended", 10, 600, on("c1")),
		job("endless", 10, 1, with(on("c2"), forever, limit(0))),
		job("until the default limit", 10, 1, with(on("c4"), forever, limit(0), func(j *hpc.Job) { j.Partition = "urgent" })),
		job("long", 10, 20_000, with(on("c3"), limit(10*time.Hour))), // ends, although nothing happens for hours
	)
	s.workload.Actions = []hpc.Action{{At: after(100), Run: []string{"scontrol", "suspend", "1"}}}
	s.drainLimit = time.Hour
	o := s.play(t)
	if got, want := strings.Join(o.result.Undrained, " "), "suspended endless"; got != want {
		t.Errorf("given up: %s, want %s", got, want)
	}
	if row := o.rows["long"]; row.State != hpc.Completed {
		t.Errorf("%s, want it completed", describe(&row))
	}
	if row := o.rows["until the default limit"]; row.State != hpc.TimedOut {
		t.Errorf("%s, want it to time out", describe(&row))
	}
}

// TestNames: the engine reads no part of a job's name as another field, and the record has the
// name unchanged.
func TestNames(t *testing.T) { eachSlurm(t, testNames) }

func testNames(t *testing.T, slurm *install.Installation) {
	names := []string{"two\nlines", "x JobState=PENDING y", "JobState=FAILED", "a|b", "tab\tand\x7f", strings.Repeat("long ", 180)}
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t))}
	var jobs []*hpc.Job
	for i, name := range names {
		jobs = append(jobs, job(string(rune('a'+i)), 10, 50, func(j *hpc.Job) { j.Name, j.WCKey = name, "k JobId=1" }))
	}
	s.workload.Jobs = workload.JobsOf(jobs...)
	o := s.play(t)
	o.once()
	for i, row := range o.list {
		if row.State != hpc.Completed || row.Name != names[i] {
			t.Errorf("%s of name %q, want it completed with name %q", describe(&row), row.Name, names[i])
		}
	}
}

// TestFullQueue: slurmctld has no room for a job. The engine retries the submission for as long as
// sbatch does.
func TestFullQueue(t *testing.T) { eachSlurm(t, testFullQueue) }

func testFullQueue(t *testing.T, slurm *install.Installation) {
	room := 2
	most := room + 1 // a release before 25.05 accepts one job less than MaxJobCount
	if slurm.Release.Since(slurmspec.R2505) {
		most = room
	}
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t, "MinJobAge=300", fmt.Sprintf("MinJobAge=2\nMaxJobCount=%d", most)))}
	s.workload.Jobs = workload.JobsOf(
		job("a", 10, 30, nil), job("b", 10, 300, nil), job("in time", 10, 300, nil), job("too late", 20, 10, nil),
	)
	s.drainLimit = 3 * time.Hour
	o := s.play(t)
	if row := o.rows["in time"]; row.State != hpc.Completed || since(row.Submit) > 130 {
		t.Errorf("%s, submitted at %v, want it taken within two minutes", describe(&row), since(row.Submit))
	}
	if row := o.rows["too late"]; row.State != hpc.Rejected {
		t.Errorf("%s, want it rejected", describe(&row))
	}
	if len(o.result.Rejected) != 1 || o.result.Rejected[0].Job != "too late" {
		t.Errorf("rejected: %+v", o.result.Rejected)
	}
}

// TestLongestRunTime: a run time that ends after the last representable instant is a long run time.
func TestLongestRunTime(t *testing.T) { eachSlurm(t, testLongestRunTime) }

func testLongestRunTime(t *testing.T, slurm *install.Installation) {
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t))}
	s.workload.Jobs = workload.JobsOf(job("longest", 10, 0, with(limit(time.Minute), func(j *hpc.Job) { j.RunTime = hpc.Unlimited - time.Hour })))
	o := s.play(t)
	if row := o.rows["longest"]; row.State != hpc.TimedOut {
		t.Errorf("%s, want it to time out", describe(&row))
	}
}

// TestOverlappingActions: every action begins at its instant, whether or not an earlier action has
// ended. Only inputs of the same instant wait for an action.
func TestOverlappingActions(t *testing.T) { eachSlurm(t, testOverlappingActions) }

func testOverlappingActions(t *testing.T, slurm *install.Installation) {
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t))}
	s.workload.Actions = []hpc.Action{
		{At: after(100), Shell: "sleep 300"},
		{At: after(150), Run: []string{"squeue", "-i", "60"}}, // never ends
		{At: after(200), Run: []string{"scontrol", "update", "PartitionName=batch", "State=DOWN"}},
		{At: after(500), Run: []string{"scontrol", "update", "PartitionName=batch", "State=UP"}},
	}
	s.workload.Jobs = workload.JobsOf(job("at once", 100, 50, on("c1")), job("waits", 300, 50, on("c1")))
	o := s.play(t)
	for name, want := range map[string]float64{"at once": 100, "waits": 500} {
		if start := since(o.rows[name].Start); start < want || start > want+60 {
			t.Errorf("%s started at %v, want %v", name, start, want)
		}
	}
	if len(o.unfinished) != 1 || !strings.HasPrefix(o.unfinished[0], "squeue -i 60") {
		t.Errorf("unfinished: %q, want the squeue", o.unfinished)
	}
}

// TestAccountingActions: a change by sacctmgr takes effect in slurmctld at once.
func TestAccountingActions(t *testing.T) { eachSlurm(t, testAccountingActions) }

func testAccountingActions(t *testing.T, slurm *install.Installation) {
	files := clusterFiles(t,
		"AccountingStorageType=accounting_storage/none", "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageEnforce=associations,limits,qos")
	files["accounts.sacctmgr"] = "add cluster tiny\nadd account physics\nadd user ann account=physics\n"
	s := scenario{slurm: slurm, cluster: writeCluster(t, files), accounting: true}
	sacctmgr := func(at int, args ...string) hpc.Action {
		return hpc.Action{At: after(at), Run: append([]string{"sacctmgr"}, args...)}
	}
	s.workload.Actions = []hpc.Action{
		sacctmgr(60, "modify", "account", "physics", "set", "grpjobs=0"),
		sacctmgr(2000, "modify", "account", "physics", "set", "grpjobs=-1"),
		sacctmgr(2500, "add", "qos", "express"), sacctmgr(2500, "modify", "user", "ann", "set", "qos=+express"),
	}
	s.workload.Jobs = workload.JobsOf(
		job("before", 10, 10, nil), job("held", 700, 100, nil),
		job("express", 3000, 10, func(j *hpc.Job) { j.QOS = "express" }),
	)
	o := s.play(t)
	for name, want := range map[string]float64{"before": 10, "held": 2000, "express": 3000} {
		if start := since(o.rows[name].Start); start < want || start > want+60 {
			t.Errorf("%s started at %v, want %v", name, start, want)
		}
	}
	for _, w := range o.warnings {
		t.Errorf("warning %+v", w)
	}
}

// TestUnansweredMessages: slurmctld repeats a signal and an abort that a node has not answered, in
// its own version of the protocol instead of the node's. The replay reads them and continues.
func TestUnansweredMessages(t *testing.T) { eachSlurm(t, testUnansweredMessages) }

func testUnansweredMessages(t *testing.T, slurm *install.Installation) {
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t))}
	two := func(j *hpc.Job) { j.MinNodes, j.MaxNodes, j.Tasks = 2, 2, 2 }
	s.workload.Jobs = workload.JobsOf(
		job("signalled", 10, 600, with(on("c[1-2]"), two)),
		job("shrinks", 11, 600, with(on("c[3-4]"), two)),
	)
	s.workload.Actions = []hpc.Action{
		{At: after(90), Run: []string{"scontrol", "setdebug", "verbose"}},
		{At: after(91), Run: []string{"scontrol", "setdebugflags", "+Agent"}},
		{At: after(110), Run: []string{"scancel", "--signal=USR1", "1"}},
		{At: after(111), Run: []string{"scontrol", "update", "JobId=2", "NumNodes=1"}},
	}
	s.started = func(e *Engine) {
		for _, node := range []string{"c2", "c4"} { // slurmctld does not learn that these nodes are down
			e.loop.At(after(100), func() { e.nodes.Down(node) })
			e.loop.At(after(130), func() { e.nodes.Up(node) })
		}
	}
	s.play(t).once()
	log, err := os.ReadFile(filepath.Join(s.logs, "slurmctld.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range []string{"REQUEST_SIGNAL_TASKS", "REQUEST_ABORT_JOB"} {
		// Version 0 stands for slurmctld's own version.
		repeated := regexp.MustCompile("New agent .*retry:T .*msg_type:" + typ + " protocol_version:0\n")
		if !repeated.Match(log) {
			t.Errorf("slurmctld repeated no %s", typ)
		}
	}
}
