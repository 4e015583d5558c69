package slurm

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// ranOn gives a job a recorded run on nodes, from one second to another.
func ranOn(nodes string, from, to int) func(*hpc.Job) {
	return func(j *hpc.Job) {
		j.Recorded = &hpc.Recorded{Start: after(from), End: after(to), Nodes: nodes, Processors: 4}
		j.RunTime = time.Duration(to-from) * time.Second
	}
}

// TestWindow: when the window begins, the machine has its recorded state. Preset jobs run on
// their recorded nodes since their recorded starts. Pending jobs have waited since their
// submission.
func TestWindow(t *testing.T) { eachSlurm(t, testWindow) }

func testWindow(t *testing.T, slurm *install.Installation) {
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t))}
	s.workload.Start = after(3600)
	s.workload.Jobs = workload.JobsOf(
		// The job requests less than it got, and depends on a job that is not in the workload.
		job("old", -5000, 9000, with(tasks(4), ranOn("c1", -3000, 6000))),
		job("two", 0, 9000, with(tasks(8), ranOn("c[3-4]", 700, 5000))),
		// The job waited although g1 was free. Slurm alone would start the job at once.
		job("pending", 1000, 60, with(tasks(4), on("g1"))),
		job("blocked", 1000, 60, with(tasks(4), on("c1"))),
		job("later", 4000, 60, with(tasks(4), on("c2"))),
	)
	s.workload.Jobs.Change(0, func(j *hpc.Job) { j.TimeLimit = 4 * time.Hour })
	s.workload.Jobs.Change(1, func(j *hpc.Job) { j.TimeLimit = 2 * time.Hour })
	s.workload.Reservations = []hpc.ReservationEvent{{At: after(1200), Action: "create", Reservation: hpc.Reservation{
		Name: "course", Start: after(4500), Duration: time.Hour, Nodes: "g2", Users: []string{"ben"},
	}}}
	s.workload.NodeEvents = []hpc.NodeEvent{{At: after(2000), Nodes: "c2", State: "drain"}, {At: after(4200).Add(300 * time.Millisecond), Nodes: "c2", State: "resume"}}
	o := s.play(t)
	later := "4201-4261"
	if startsAnew(slurm) { // slurmctld looks at its queue in other seconds
		later = "4204-4264"
	}
	o.want(`
		old     COMPLETED -3000-6000 c1
		two     COMPLETED 700-5000 c[3-4]
		pending COMPLETED 3600-3660 g1
		blocked COMPLETED 6001-6061 c1
		later   COMPLETED ` + later + ` c2`)
	for _, id := range []string{"pending", "blocked"} {
		if row := o.rows[id]; row.Submit != after(1000) {
			t.Errorf("%s was submitted at %v, want 1000", id, since(row.Submit))
		}
	}
	if len(o.result.LatePresets) != 0 {
		t.Errorf("late: %v", o.result.LatePresets)
	}
	o.drained()
}

// TestWindowMaxTime: jobs that run when the window begins keep time limits above their partition's MaxTime, as
// if an administrator had lowered MaxTime while they ran. Pending jobs with such limits do not start.
func TestWindowMaxTime(t *testing.T) { eachSlurm(t, testWindowMaxTime) }

func testWindowMaxTime(t *testing.T, slurm *install.Installation) {
	for _, enforce := range []string{"ALL", "NO"} {
		files := clusterFiles(t, "MaxTime=INFINITE DefaultTime=60 DefMemPerCPU=1000 PriorityTier=1",
			"MaxTime=60 DefMemPerCPU=1000", "MinJobAge=300", "EnforcePartLimits="+enforce)
		s := scenario{slurm: slurm, cluster: writeCluster(t, files)}
		s.workload.Start = after(3600)
		s.workload.Jobs = workload.JobsOf(
			job("long", 0, 9000, with(tasks(4), limit(4*time.Hour), ranOn("c1", 700, 9700))),
			job("endless", 0, 9000, with(tasks(4), limit(hpc.Unlimited), ranOn("c2", 700, 9700))),
			job("backfilled", 0, 9000, with(tasks(4), limit(4*time.Hour), ranOn("c3", 700, 9700), func(j *hpc.Job) {
				j.TimeMin = 2 * time.Hour
			})),
			// slurmctld ends this job at its limit.
			job("over", 0, 9000, with(tasks(4), limit(2*time.Hour), ranOn("c4", 700, 9700), func(j *hpc.Job) {
				j.Recorded.End, j.Recorded.State = after(7900), hpc.TimedOut
			})),
			job("tasks", 0, 60, with(tasks(4), limit(2*time.Hour), cancelledAfter(14400), func(j *hpc.Job) {
				j.Array = "2-3%2"
			})),
			job("tasks_1", 0, 9000, with(tasks(4), limit(2*time.Hour), ranOn("g1", 700, 6700))),
			job("pending", 0, 60, with(tasks(4), limit(2*time.Hour), cancelledAfter(14400))),
		)
		o := s.play(t).without("array-limit")
		for id, want := range map[string]string{
			"long": "long COMPLETED 700-9700 c1", "endless": "endless COMPLETED 700-9700 c2",
			"backfilled": "backfilled COMPLETED 700-9700 c3", "tasks_1": "tasks_1 COMPLETED 700-6700 g1",
		} {
			if row := o.rows[id]; describe(&row) != want {
				t.Errorf("EnforcePartLimits=%s: %s, want %s", enforce, describe(&row), want)
			}
		}
		if row := o.rows["over"]; row.State != hpc.TimedOut || row.Start != after(700) ||
			row.End < after(7900) || row.End > after(7960) || row.TimeLimit != 2*time.Hour {
			t.Errorf("EnforcePartLimits=%s: %s with limit %v, want TIMEOUT at 7900", enforce, describe(&row), row.TimeLimit)
		}
		ids, want := []string{"pending", "tasks"}, hpc.Rejected
		if enforce == "NO" {
			ids, want = []string{"pending", "tasks_2", "tasks_3"}, hpc.Cancelled
		}
		for _, id := range ids {
			if row := o.rows[id]; row.State != want || row.Start != 0 {
				t.Errorf("EnforcePartLimits=%s: %s, want it %s without a start", enforce, describe(&row), want)
			}
		}
		if len(o.result.LatePresets) != 0 {
			t.Errorf("late: %v", o.result.LatePresets)
		}
	}
}

// TestWindowEdge: the last seconds before a window. slurmctld 23.11 and later restarts itself
// three seconds before the window. Preset jobs with a later recorded start begin a second before
// that instant. Pending jobs start when the window begins, although no node has registered yet;
// jobs with generic resources do, too.
func TestWindowEdge(t *testing.T) { eachSlurm(t, testWindowEdge) }

func testWindowEdge(t *testing.T, slurm *install.Installation) {
	for _, delay := range []string{"", ",batch_sched_delay=0", ",batch_sched_delay=60"} {
		s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t, "bf_continue", "bf_continue"+delay))}
		s.workload.Start = after(3600)
		s.workload.Jobs = workload.JobsOf(
			job("before", 900, 0, with(tasks(4), ranOn("c1", 3598, 7000))),
			job("last", 900, 0, with(tasks(4), ranOn("c2", 3599, 7000))),
			job("pending", 1000, 60, with(tasks(4), on("c3"))),
			job("gpu", 1000, 60, func(j *hpc.Job) { j.GRES = "gpu:v100:2" }),
			job("new", 3596, 60, on("c4")),
		)
		before, last := 3598, 3599
		if startsAnew(slurm) {
			before, last = 3596, 3596
		}
		o := s.play(t)
		for id, want := range map[string]string{
			"before": fmt.Sprintf("before COMPLETED %d-7000 c1", before), "last": fmt.Sprintf("last COMPLETED %d-7000 c2", last),
			"pending": "pending COMPLETED 3600-3660 c3", "gpu": "gpu COMPLETED 3600-3660 g2", "new": "new COMPLETED 3600-3660 c4",
		} {
			if row := o.rows[id]; describe(&row) != want {
				t.Errorf("SchedulerParameters=…%s: %s, want %s", delay, describe(&row), want)
			}
		}
		if len(o.result.LatePresets) != 0 {
			t.Errorf("late: %v", o.result.LatePresets)
		}
		o.drained()
	}
}

// TestWindowStatistics: slurmctld 23.11 and later resets its counters when a window begins and
// when an action reconfigures it. Still, the statistics count every start: also of preset jobs
// that started after the last regular question. A row divides the starts before the window from
// the starts in it.
func TestWindowStatistics(t *testing.T) { eachSlurm(t, testWindowStatistics) }

func testWindowStatistics(t *testing.T, slurm *install.Installation) {
	var list []rm.Statistics
	var engine *Engine
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t)),
		statistics: func(s rm.Statistics) { list = append(list, s) }, started: func(e *Engine) { engine = e }}
	s.workload.Start = after(3605)
	s.workload.Jobs = workload.JobsOf(
		job("early", 0, 9000, with(tasks(4), ranOn("c1", 700, 5000))),
		job("late", 0, 9000, with(tasks(4), ranOn("c2", 3200, 5000))),
		job("last", 0, 9000, with(tasks(4), ranOn("c3", 3500, 5000))),
		job("first", 3700, 60, on("c4")), job("second", 4000, 60, on("c4")), job("third", 4300, 60, on("c4")),
	)
	s.workload.Actions = []hpc.Action{{At: after(3900), Run: []string{"scontrol", "reconfigure"}},
		{At: after(4100), Run: []string{"sdiag", "--reset"}}}
	o := s.play(t)
	total, err := engine.scheduler(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	started := map[hpc.Time]int64{} // by the time since which slurmctld counts
	divided := false
	for _, row := range list {
		started[row.Since] = row.JobsStarted
		divided = divided || row.At <= s.workload.Start && row.At >= s.workload.Start.Add(-restartLead) && row.JobsStarted == 3
	}
	if !divided {
		t.Errorf("no row has the starts of the preset jobs alone: %+v", list)
	}
	var sum int64
	for _, n := range started {
		sum += n
	}
	if want := len(o.list); sum != int64(want) || total.JobsStarted != want || want != 6 {
		t.Errorf("the rows have %d starts (%v), their total %d, want %d", sum, started, total.JobsStarted, want)
	}
}

// startsAnew reports whether slurmctld restarts itself when it is reconfigured, as it does when a
// window begins.
func startsAnew(slurm *install.Installation) bool { return slurm.Release.Since(slurmspec.R2311) }

// TestReconfiguration: from 23.11 on, slurmctld restarts itself when it is reconfigured, and its
// log begins as at its start. Jobs run on, and the changed configuration is in force.
func TestReconfiguration(t *testing.T) { eachSlurm(t, testReconfiguration) }

func testReconfiguration(t *testing.T, slurm *install.Installation) {
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t))}
	changed := clusterFiles(t, "bf_interval=30", "bf_interval=45")
	dir := t.TempDir()
	for _, name := range []string{"slurm.conf", "gres.conf"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(changed[name]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.workload.Actions = []hpc.Action{
		{At: after(100), SlurmConf: filepath.Join(dir, "slurm.conf")},
		{At: after(300), Run: []string{"scontrol", "reconfigure"}},
		{At: after(350), Run: []string{"scontrol", "show", "config"}},
	}
	s.workload.Jobs = workload.JobsOf(
		job("across", 10, 600, on("c1")), job("ends", 200, 50, on("c2")), job("new", 400, 50, on("c3")),
	)
	o := s.play(t)
	o.once()
	for _, id := range []string{"across", "ends", "new"} {
		if row := o.rows[id]; row.State != hpc.Completed || row.Restarts != 0 || since(row.Start) > since(row.Submit)+5 {
			t.Errorf("%s, want it completed at once", describe(&row))
		}
	}
	text, err := os.ReadFile(filepath.Join(s.logs, "slurmctld.log"))
	if err != nil {
		t.Fatal(err)
	}
	want := 1
	if startsAnew(slurm) {
		want = 3
	}
	if got := strings.Count(string(text), "slurmctld version "+slurm.Version+" started"); got != want {
		t.Errorf("slurmctld began %d times, want %d:\n%s", got, want, text)
	}
	log, err := os.ReadFile(filepath.Join(s.logs, "actions.log"))
	if err != nil || !strings.Contains(string(log), "bf_interval=45") {
		t.Errorf("%v; the new configuration is not in force:\n%s", err, log)
	}
	for _, w := range o.warnings {
		t.Errorf("warning %+v", w)
	}
}

// TestWindowReservations: reservations that exist when the window begins are made even if preset
// jobs run on their nodes, or may still run when a reservation begins. Jobs that wait for such a
// reservation start in it when the window begins.
func TestWindowReservations(t *testing.T) { eachSlurm(t, testWindowReservations) }

func testWindowReservations(t *testing.T, slurm *install.Installation) {
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t))}
	s.workload.Start = after(3600)
	in := func(name string) func(*hpc.Job) { return func(j *hpc.Job) { j.Reservation = name } }
	long := func(j *hpc.Job) { j.TimeLimit = 10 * time.Hour }
	s.workload.Jobs = workload.JobsOf(
		job("inside", 100, 0, with(tasks(4), in("active"), ranOn("c1", 700, 5000), long)),
		job("into", 100, 0, with(tasks(4), ranOn("c3", 800, 5000), long)),
		job("waits", 1000, 60, with(tasks(4), in("active"))),
		job("served", 1000, 60, with(tasks(4), in("service"))),
		job("new", 4000, 60, with(tasks(4), in("active"))),
		job("blocked", 4100, 60, with(tasks(4), on("g1"))),
	)
	reserve := func(at int, r hpc.Reservation) {
		r.Users, r.Duration = []string{"ann"}, 2*time.Hour
		s.workload.Reservations = append(s.workload.Reservations, hpc.ReservationEvent{At: after(at), Action: "create", Reservation: r})
	}
	reserve(3600, hpc.Reservation{Name: "active", Start: after(-100), Nodes: "c[1-2]"}) // as scontrol shows it
	reserve(3600, hpc.Reservation{Name: "later", Start: after(4600), Nodes: "c3,g1", Flags: []string{"MAINT"}})
	reserve(3000, hpc.Reservation{Name: "service", Start: after(3000), Nodes: "c4", Flags: []string{"MAINT"}})
	s.workload.Reservations = append(s.workload.Reservations, hpc.ReservationEvent{At: after(4500), Action: "update",
		Reservation: hpc.Reservation{Name: "active", Duration: 3 * time.Hour}})
	s.workload.Sort()
	o := s.play(t)
	blocked := "11820-11880"
	if startsAnew(slurm) { // slurmctld looks at its queue in other seconds
		blocked = "11817-11877"
	}
	o.want(`
		inside  COMPLETED 700-5000 c1
		into    COMPLETED 800-5000 c3
		waits   COMPLETED 3600-3660 c2
		served  COMPLETED 3600-3660 c4
		new     COMPLETED 4001-4061 c2
		blocked COMPLETED ` + blocked + ` g1`)
	if row := o.rows["waits"]; row.Eligible != after(1000) {
		t.Errorf("it was eligible at %v, want 1000: its reservation was active", since(row.Eligible))
	}
	for _, w := range o.warnings {
		t.Errorf("warning %+v", w)
	}
}

// TestPresetsStartOnTime: preset jobs start in their recorded second, even if several start shortly
// after each other. So a job that ran up to its time limit ends by itself, before the limit ends
// it.
func TestPresetsStartOnTime(t *testing.T) { eachSlurm(t, testPresetsStartOnTime) }

func testPresetsStartOnTime(t *testing.T, slurm *install.Installation) {
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t))}
	s.workload.Start = after(3600)
	s.workload.Jobs = workload.JobsOf(
		job("first", 100, 0, with(tasks(4), ranOn("c1", 700, 4300))),
		job("too", 100, 0, with(tasks(4), ranOn("c2", 700, 4300))),
		job("next", 100, 0, with(tasks(4), ranOn("c3", 701, 4301))),
		job("soon", 100, 0, with(tasks(4), ranOn("c4", 703, 4303))),
	)
	s.play(t).want(`
		first COMPLETED 700-4300 c1
		too   COMPLETED 700-4300 c2
		next  COMPLETED 701-4301 c3
		soon  COMPLETED 703-4303 c4`)
}

// TestWindowInArray: for the array's limit (%N), slurmctld counts the tasks that ran when the
// window began, so the next task starts when one of them ends.
func TestWindowInArray(t *testing.T) { eachSlurm(t, testWindowInArray) }

func testWindowInArray(t *testing.T, slurm *install.Installation) {
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t))}
	s.workload.Start = after(3600)
	inArray := func(tasks string) func(*hpc.Job) { return func(j *hpc.Job) { j.Name, j.Array = "sweep", tasks } }
	long := limit(3 * time.Hour)
	s.workload.Jobs = workload.JobsOf(
		// All places are taken when the window begins. The first task started when it was submitted; a
		// replay starts it a second later.
		job("full_0", 700, 0, with(inArray(""), long, ranOn("c1", 700, 4000))),
		job("full_1", 700, 0, with(inArray(""), long, ranOn("c2", 900, 4300))),
		job("full", 700, 1000, with(inArray("2-4%2"), long)),
		// One place is free. A job depends on the array, and one on a running task.
		job("free_3", 700, 0, with(inArray(""), ranOn("c3", 710, 4000))),
		job("free", 700, 500, with(inArray("4-6%2"))),
		// The user cancels the waiting tasks.
		job("gone_0", 720, 0, with(inArray(""), ranOn("c4", 730, 4000))),
		job("gone", 720, 500, with(inArray("1-3%1"), cancelledAfter(3000))),
		// This array's limit was raised after its tasks had started, so slurmctld has the task as a
		// separate job.
		job("lower_0", 740, 0, with(inArray(""), ranOn("c4", 740, 4000))),
		job("lower_1", 740, 0, with(inArray(""), ranOn("c4", 741, 4000))),
		job("lower", 740, 10, with(inArray("2%1"))),
		job("then", 700, 10, dependsOn("afterok:free_3:free")),
		job("next", 700, 10, dependsOn("afterok:free_3")),
	)
	o := s.play(t)
	for id, want := range map[string]string{
		"full_0": "701-4000 c1", "full_1": "900-4300 c2", "full_2": "4001-5001", "full_3": "4301-5301", "full_4": "5002-6002",
		"free_3": "710-4000 c3", "free_4": "3600-4100", "free_5": "4001-4501", "free_6": "4101-4601",
		"then": "4602-4612", "next": "4001-4011", "gone_0": "730-4000 c4", "lower_0": "741-4000 c4", "lower_1": "741-4000 c4",
		"lower_2": "3600-3610",
	} {
		row := o.rows[id]
		if got := describe(&row); !strings.HasPrefix(got, id+" COMPLETED "+want+" ") && got != id+" COMPLETED "+want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for _, id := range []string{"gone_1", "gone_2", "gone_3"} {
		if row := o.rows[id]; row.State != hpc.Cancelled || !row.Start.IsZero() {
			t.Errorf("%s, want it cancelled before it started", describe(&row))
		}
	}
	if len(o.warnings) != 1 || o.warnings[0].Code != "array-limit" || !strings.HasSuffix(o.warnings[0].Text, ": lower") {
		t.Errorf("warnings %+v, want one about the array lower", o.warnings)
	}
	o.without("array-limit").drained()
}

// TestPresetTasks: which preset tasks slurmctld can have in one array with the other tasks.
func TestPresetTasks(t *testing.T) {
	preset := func(id string, change func(*hpc.Job)) *hpc.Job {
		return job(id, 0, 0, with(ranOn("c1", 100, 900), change))
	}
	same := func(*hpc.Job) {}
	cluster := writeCluster(t, clusterFiles(t, "Default=YES MaxTime=INFINITE", "Default=YES MaxTime=180"))
	for _, c := range []struct {
		what, array string
		change      func(*hpc.Job) // of the other tasks
		presets     []*hpc.Job
		want        []int
	}{
		{"one of two", "2-9%2", same, []*hpc.Job{preset("a_1", same)}, []int{1}},
		{"as many as the limit", "2-9%2", same, []*hpc.Job{preset("a_0", same), preset("a_1", same)}, []int{0, 1}},
		{"more than the limit", "2-9%1", same, []*hpc.Job{preset("a_0", same), preset("a_1", same)}, nil},
		{"no limit", "2-9", same, []*hpc.Job{preset("a_0", same)}, nil},
		{"another request", "2-9%2", same, []*hpc.Job{preset("a_0", func(j *hpc.Job) { j.Tasks = 3 }), preset("a_1", same)}, []int{1}},
		{"another time limit", "2-9%2", limit(2 * time.Hour), []*hpc.Job{preset("a_1", same)}, []int{1}},
		{"a time limit above MaxTime", "2-9%2", limit(4 * time.Hour), []*hpc.Job{preset("a_1", limit(4*time.Hour))}, nil},
		{"other nodes", "2-9%2", on("c2"), []*hpc.Job{preset("a_1", same)}, []int{1}},
		{"begins before", "2-9%2", func(j *hpc.Job) { j.Begin = 100 * time.Second }, []*hpc.Job{preset("a_1", same)}, []int{1}},
		{"begins later", "2-9%2", func(j *hpc.Job) { j.Begin = 101 * time.Second }, []*hpc.Job{preset("a_1", same)}, nil},
		{"held", "2-9%2", func(j *hpc.Job) { j.Hold = true }, []*hpc.Job{preset("a_1", same)}, nil},
		{"dependent", "2-9%2", dependsOn("aftercorr:b"), []*hpc.Job{preset("a_1", dependsOn("aftercorr:b"))}, nil},
		{"excluded nodes", "2-9%2", func(j *hpc.Job) { j.Exclude = "c1" }, []*hpc.Job{preset("a_1", same)}, nil},
	} {
		tasks := map[int]*hpc.Job{}
		for _, p := range c.presets {
			task, err := strconv.Atoi(strings.TrimPrefix(p.ID, "a_"))
			if err != nil {
				t.Fatal(err)
			}
			tasks[task] = p
		}
		j := &jobs{cut: map[string]map[int]*hpc.Job{"a": tasks}, byID: map[string]*submission{}, cluster: cluster}
		rest := job("a", 0, 60, func(j *hpc.Job) { j.Array = c.array; c.change(j) })
		if got := slices.Sorted(maps.Keys(j.presetTasks(rest))); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

// TestEmptyWindow: a window before which nothing happened also gets the site's scheduling.
func TestEmptyWindow(t *testing.T) { eachSlurm(t, testEmptyWindow) }

func testEmptyWindow(t *testing.T, slurm *install.Installation) {
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t))}
	s.workload.Start = after(3600)
	s.workload.Jobs = workload.JobsOf(job("first", 3700, 60, nil))
	s.workload.Actions = []hpc.Action{{At: after(3650), Run: []string{"scontrol", "show", "config"}}}
	if o := s.play(t); len(o.warnings) > 0 {
		t.Errorf("warnings %+v", o.warnings)
	}
	log, err := os.ReadFile(filepath.Join(s.logs, "actions.log"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "bf_interval=30"; !strings.Contains(string(log), want) {
		t.Errorf("the configuration in the window lacks %s:\n%s", want, log)
	}
}

// TestWindowLate: a preset job whose node is missing does not run, and causes a warning.
func TestWindowLate(t *testing.T) { eachSlurm(t, testWindowLate) }

func testWindowLate(t *testing.T, slurm *install.Installation) {
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t))}
	s.workload.Start = after(600)
	s.workload.Jobs = workload.JobsOf(job("lost", 0, 900, with(tasks(4), ranOn("c1", 100, 1000))))
	s.workload.NodeEvents = []hpc.NodeEvent{{At: after(50), Nodes: "c1", State: "down"}, {At: after(700), Nodes: "c1", State: "resume"}}
	o := s.play(t)
	if !slices.Equal(o.result.LatePresets, []string{"lost"}) {
		t.Errorf("late: %v, want [lost]", o.result.LatePresets)
	}
}

// TestFixedPriorities: with fixed priorities, jobs start in the recorded order and not in the
// order of Slurm's own priorities.
func TestFixedPriorities(t *testing.T) { eachSlurm(t, testFixedPriorities) }

func testFixedPriorities(t *testing.T, slurm *install.Installation) {
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t))}
	recorded := func(priority uint32) func(*hpc.Job) {
		return func(j *hpc.Job) { j.Recorded = &hpc.Recorded{Priority: priority} }
	}
	s.workload.Jobs = workload.JobsOf(
		job("holder", 0, 300, with(on("g1"), tasks(4))),
		job("low", 10, 100, with(on("g1"), tasks(4), recorded(100))),
		job("high", 20, 100, with(on("g1"), tasks(4), recorded(4_000_000_000))),
		job("middle", 30, 100, with(on("g1"), tasks(4), recorded(5000))),
		// Cancelled before it started: Slurm's records have no priority of such a job.
		job("never", 40, 100, func(j *hpc.Job) { j.Recorded = &hpc.Recorded{End: after(60), State: hpc.Cancelled} }),
	)
	fixed, err := replay.NewFixedPriorities((&Engine{}).Can())
	if err != nil {
		t.Fatal(err)
	}
	s.controller = replay.Rewriting(replay.NewRigid(&s.workload), fixed.Rewrite)
	o := s.play(t)
	starts := map[string]float64{}
	for _, id := range []string{"high", "middle", "low"} {
		starts[id] = since(o.rows[id].Start)
	}
	if !(starts["high"] < starts["middle"] && starts["middle"] < starts["low"]) {
		t.Errorf("starts %v, want high, middle, low", starts)
	}
	if fixed.Unknown != 1 {
		t.Errorf("%d jobs without a priority, want 1", fixed.Unknown)
	}
}

// TestPriorityAtStart: the record has the priority with which a job or a task of an array started.
// The priority includes the age factor at that instant.
func TestPriorityAtStart(t *testing.T) { eachSlurm(t, testPriorityAtStart) }

func testPriorityAtStart(t *testing.T, slurm *install.Installation) {
	files := clusterFiles(t,
		"AccountingStorageType=accounting_storage/none", "AccountingStorageType=accounting_storage/slurmdbd\nPriorityWeightAge=3600\nPriorityMaxAge=0-01:00:00\nPriorityCalcPeriod=1",
		"PriorityType=priority/basic", "PriorityType=priority/multifactor")
	files["accounts.sacctmgr"] = "add cluster tiny\nadd account physics\nadd user ann account=physics\n"
	s := scenario{slurm: slurm, cluster: writeCluster(t, files), accounting: true}
	s.workload.Jobs = workload.JobsOf(
		job("holder", 0, 1000, with(on("g1"), tasks(4))),
		job("waits", 100, 100, with(on("g1"), tasks(4))), // waits 900 s and gains a point per second
		job("array", 400, 100, with(on("g1"), tasks(4), func(j *hpc.Job) { j.Array = "1-2" })),
		job("at once", 500, 100, with(on("c1"), tasks(4))),
	)
	o := s.play(t)
	for id, most := range map[string]uint32{"waits": 900, "array_1": 701, "array_2": 802} {
		if got := o.rows[id].Priority; got > most || got < most-100 { // slurmctld computes priorities every minute
			t.Errorf("%s started with priority %d at %v, want about %d", id, got, since(o.rows[id].Start), most)
		}
	}
}

// TestWindowDependencies: a job that depends on a preset job is submitted after the preset job and
// waits for that job's end.
func TestWindowDependencies(t *testing.T) { eachSlurm(t, testWindowDependencies) }

func testWindowDependencies(t *testing.T, slurm *install.Installation) {
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t))}
	s.workload.Start = after(3600)
	depends := func(on string) func(*hpc.Job) { return func(j *hpc.Job) { j.Dependency = on } }
	long := func(j *hpc.Job) { j.TimeLimit = 3 * time.Hour }
	s.workload.Jobs = workload.JobsOf(
		job("preset", 0, 0, with(tasks(4), ranOn("c1", 700, 5000), long)),
		job("next", 100, 60, with(tasks(4), on("c2"), depends("afterok:preset"))),
		job("last", 200, 60, with(tasks(4), on("c2"), depends("afterok:next"))),
	)
	o := s.play(t)
	o.want(`
		preset COMPLETED 700-5000 c1
		next   COMPLETED 5001-5061 c2
		last   COMPLETED 5062-5122 c2`)
	o.drained()
}

// TestActionsBeforeWindow: an administrator's change before a window remains in force in the
// window. slurmctld reads the slurm.conf in force when the window begins and keeps the state of its
// partitions. Afterwards the site's ReconfigFlags decide what slurmctld keeps.
func TestActionsBeforeWindow(t *testing.T) { eachSlurm(t, testActionsBeforeWindow) }

func testActionsBeforeWindow(t *testing.T, slurm *install.Installation) {
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t))}
	changed := clusterFiles(t, "bf_interval=30", "bf_interval=45", "PartitionName=batch Nodes=ALL", "PartitionName=batch MaxNodes=3 Nodes=ALL")
	path := filepath.Join(t.TempDir(), "slurm.conf")
	for _, name := range []string{"slurm.conf", "gres.conf"} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), name), []byte(changed[name]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	scontrol := func(at int, args ...string) hpc.Action {
		return hpc.Action{At: after(at), Run: append([]string{"scontrol"}, args...)}
	}
	s.workload.Start = after(3600)
	s.workload.Jobs = workload.JobsOf(
		job("two partitions", 0, 9000, with(tasks(4), ranOn("c1", 700, 5000), func(j *hpc.Job) { j.Partition = "urgent,batch" })),
		job("closed", 3700, 60, func(j *hpc.Job) { j.Partition = "urgent" }),
	)
	s.workload.Jobs.Change(0, func(j *hpc.Job) { j.TimeLimit = 2 * time.Hour })
	s.workload.Actions = []hpc.Action{
		{At: after(800), SlurmConf: path},
		scontrol(900, "update", "PartitionName=urgent", "State=DOWN", "MaxTime=50"),
		scontrol(1000, "create", "PartitionName=new", "Nodes=c4"),
		scontrol(3000, "show", "config"), scontrol(3700, "show", "config"), scontrol(3701, "-o", "show", "partition"),
		scontrol(4000, "reconfigure"), scontrol(4100, "-o", "show", "partition"), scontrol(4101, "show", "config"),
	}
	o := s.play(t)
	if row := o.rows["two partitions"]; row.Partition != "urgent" {
		t.Errorf("it ran in partition %q, want urgent", row.Partition)
	}
	if start := since(o.rows["closed"].Start); start < 4000 || start > 4060 {
		t.Errorf("a job of a partition that was down until 4000 started at %v", start)
	}
	log, err := os.ReadFile(filepath.Join(s.logs, "actions.log"))
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{} // by action and time
	for _, part := range strings.Split(string(log), "\n[")[1:] {
		what, text, _ := strings.Cut(part, "\n")
		said[what] = text
	}
	show := func(at int, what string) string {
		text, there := said[after(at).String()+"] scontrol "+what]
		if !there {
			t.Fatalf("logs/actions.log has no %q of %d:\n%s", what, at, log)
		}
		return text
	}
	has := func(at int, what string, patterns ...string) {
		t.Helper()
		for _, p := range patterns {
			text := show(at, what)
			if !regexp.MustCompile(p).MatchString(text) {
				t.Errorf("at %d there is no %q in\n%s", at, p, text)
			}
		}
	}
	has(3000, "show config", "bf_interval=-1")
	has(3700, "show config", "bf_interval=45")
	has(3701, "-o show partition", "PartitionName=urgent .*MaxTime=00:50:00.*State=DOWN", "PartitionName=batch .*MaxNodes=3 ", "PartitionName=new .*Nodes=c4")
	has(4100, "-o show partition", "PartitionName=urgent .*MaxTime=UNLIMITED.*State=UP", "PartitionName=batch .*MaxNodes=3 ")
	has(4101, "show config", "bf_interval=45", `ReconfigFlags *= \(null\)`)
	if strings.Contains(show(4100, "-o show partition"), "PartitionName=new") {
		t.Error("slurmctld keeps partitions that are not in slurm.conf although the site's ReconfigFlags do not say so")
	}
	for _, w := range o.warnings {
		t.Errorf("warning %+v", w)
	}
}

func TestCheckPreRoll(t *testing.T) {
	for line, want := range map[string]string{
		"scontrol update NodeName=c1 Weight=5":                       "Weight",
		"scontrol update node=c1 features=a":                         "Features",
		"scontrol update NodeName=c1 State=DRAIN Reason=Weight":      "",
		"scontrol update PartitionName=batch State=DOWN MaxTime=5":   "",
		"scontrol update PartitionName=batch TRESBillingWeights=x=1": "TRESBillingWeights",
		"scontrol delete PartitionName=batch":                        "the deletion",
		"scontrol delete ReservationName=x":                          "",
		"scontrol create PartitionName=new Nodes=c1":                 "",
		"scontrol update JobId=5 Features=a":                         "",
		"sacctmgr modify user set Weight=1":                          "",
	} {
		err := CheckPreRoll(hpc.Action{At: after(5), Run: strings.Fields(line)})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), "("+want+")")) {
			t.Errorf("%s: %v, want one of %q", line, err, want)
		}
	}
}
